"""Budgets: the limits a user set become a named outcome here, in one place."""

import sys

from tinsmith.domain.errors import BudgetExhausted
from tinsmith.domain.settings import Settings
from tinsmith.engine.progress import Progress

CALLS_PER_ANSWER = 32
"""At most this many calls of one answer run; the rest are answered without running."""


def calls_left(settings: Settings, progress: Progress) -> int:
    """How many more calls the turn may run."""
    budget = settings.tool_step_budget
    return sys.maxsize if budget is None else max(0, budget - progress.calls)


def check_budget(settings: Settings, progress: Progress) -> None:
    """Raises BudgetExhausted when the turn has run as many calls as it may."""
    budget = settings.tool_step_budget
    if calls_left(settings, progress) == 0:
        raise BudgetExhausted(
            "budget",
            f"The turn used its budget of {budget} tool calls. Send another message to go on, "
            "or raise tool_step_budget.",
            data={"budget": budget},
        )
