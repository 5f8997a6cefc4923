"""Tokens by turn, role and model: the view of `agent/inspect`. Pure."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import asdict

from tinsmith.domain.conversation import Conversation
from tinsmith.domain.message import Usage
from tinsmith.store import UsageRecord


def usage_view(conversation: Conversation, records: Iterable[UsageRecord]) -> dict[str, Any]:
    """The conversation's total, what each turn that has ended used, and their sums by role and by model.

    The total also counts the answers of a turn that still runs.
    """
    ended = tuple(records)
    return {
        "conversationId": conversation.conversation_id,
        "total": asdict(conversation.usage),
        "turns": [
            {"turnId": each.turn_id, "role": each.role, "model": each.model, "usage": asdict(each.usage)}
            for each in ended
        ],
        "byRole": _sums(ended, lambda each: each.role),
        "byModel": _sums(ended, lambda each: each.model),
    }


def _sums(records: Iterable[UsageRecord], name: Callable[[UsageRecord], str]) -> dict[str, dict[str, int]]:
    sums: dict[str, Usage] = {}
    for record in records:
        sums[name(record)] = sums.get(name(record), Usage()) + record.usage
    return {each: asdict(sums[each]) for each in sorted(sums)}
