"""A turn: its states, its record and its end."""

from typing import Literal

import msgspec

from tinsmith.domain.change import ChangedFile
from tinsmith.domain.errors import ErrorRecord, InternalError
from tinsmith.domain.message import Usage

Outcome = Literal["completed", "cancelled", "error", "budget_exhausted", "interrupted"]
TurnState = Literal["running", "cancelling", "ended"]
CallStatus = Literal["pending", "awaitingApproval", "running", "completed", "failed", "declined", "cancelled"]

TRANSITIONS: dict[TurnState, frozenset[TurnState]] = {
    "running": frozenset({"cancelling", "ended"}),
    "cancelling": frozenset({"ended"}),
    "ended": frozenset(),
}
"""The life of a turn. Anything else is a bug."""


def advance(state: TurnState, to: TurnState) -> TurnState:
    """`to`, when the table allows it. Raises InternalError otherwise."""
    if to not in TRANSITIONS[state]:
        raise InternalError("illegalTransition", f"A turn cannot go from {state} to {to}.")
    return to


class WindowEdges(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far the window has moved over a transcript, in ordinals of its messages.

    Below `elided_below` large tool results are elided, rounds below `dropped_below` are left out.
    `tokens_per_char` is the last measured size of this history.
    """

    elided_below: int = 0
    dropped_below: int = 0
    tokens_per_char: float = 0.25


class TurnRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A turn as it is stored. `instance` is the server process that runs it, `edges` the window at its end."""

    turn_id: str
    conversation_id: str
    text: str
    role: str
    model: str
    started_at: int
    state: TurnState = "running"
    outcome: Outcome | None = None
    error: ErrorRecord | None = None
    ended_at: int = 0
    instance: str = ""
    rounds: int = 0
    usage: Usage = Usage()
    files: tuple[ChangedFile, ...] = ()
    edges: WindowEdges | None = None


class CallRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call as it is stored: begun (durably) before it may change anything, ended with its result."""

    call_id: str
    turn_id: str
    name: str
    title: str = ""
    status: CallStatus = "pending"
    begun_at: int = 0
    ended_at: int = 0


class TurnEnd(msgspec.Struct, frozen=True):
    """How the engine's loop ended; the service that started it writes the record."""

    outcome: Outcome
    error: ErrorRecord | None = None
    rounds: int = 0
    usage: Usage = Usage()
    files: tuple[ChangedFile, ...] = ()
    edges: WindowEdges = WindowEdges()
