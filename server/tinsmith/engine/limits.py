"""Budgets: the limits a user set become a named outcome here, in one place."""

from tinsmith.domain.errors import BudgetExhausted
from tinsmith.domain.settings import Settings
from tinsmith.engine.progress import Progress

CALLS_PER_ANSWER = 32
"""At most this many calls of one answer run; the rest are answered without running."""


def check_budget(settings: Settings, progress: Progress) -> None:
    """Raises BudgetExhausted when the turn has run as many calls as it may."""
    budget = settings.tool_step_budget
    if budget is not None and progress.calls >= budget:
        raise BudgetExhausted(
            "budget",
            f"The turn used its budget of {budget} tool calls. Send another message to go on, "
            "or raise tool_step_budget.",
            data={"budget": budget},
        )
