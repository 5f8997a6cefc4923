"""Tools as values: what they are called, take, may do, and how they are run."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from tinsmith.domain.cancel import CancelToken
from tinsmith.domain.change import ChangedFile
from tinsmith.domain.message import MutationState
from tinsmith.domain.policy import Access

Effect = Literal["reads", "writes", "runs", "network"]
Persistence = Literal["durable", "next_response"]


class Location(msgspec.Struct, frozen=True):
    """A place in a file that a call is about; lines are 1-based, inclusive, 0 when the whole file is meant."""

    path: str
    start_line: int = 0
    end_line: int = 0


class Denial(msgspec.Struct, frozen=True):
    """What a run lacked, and would need to be run again with.

    `arguments` are its own with more granted. A person who is asked reads `title`, and in `account` how the run ended
    and what running it again means.
    """

    arguments: Any
    title: str
    account: str


class ToolResult(msgspec.Struct, frozen=True):
    """What a run gave: `content` for the model, the rest for the person and the record.

    With `denied` it failed for want of something that a person may grant.
    """

    content: str
    ok: bool = True
    is_cancelled: bool = False
    mutation_state: MutationState = "none"
    error_code: str = ""
    files: tuple[ChangedFile, ...] = ()
    locations: tuple[Location, ...] = ()
    metadata: dict[str, Any] = {}
    denied: Denial | None = None


class CallScope:
    """What a run gets beside its arguments and the ports it was made with.

    `output` streams text to whoever watches; what it is given is not the result.
    """

    __slots__ = ("call_id", "cancel", "conversation_id", "cwd", "output", "role", "root", "turn_id")

    def __init__(
        self,
        *,
        role: str,
        turn_id: str,
        call_id: str,
        conversation_id: str,
        cwd: str,
        root: str,
        cancel: CancelToken,
        output: Callable[[str], None],
    ) -> None:
        self.role = role
        self.turn_id = turn_id
        self.call_id = call_id
        self.conversation_id = conversation_id
        self.cwd = cwd
        self.root = root
        self.cancel = cancel
        self.output = output


class ToolSpec(msgspec.Struct, frozen=True):
    """One tool.

    `schema` is the closed JSON Schema the model is shown; `args` the struct its arguments are decoded to.
    `preview` says, without effects, what a call would touch (raising ToolError when it cannot work at
    all); `run` does it. Both may raise ToolError for the model to read; neither may raise anything else on purpose.
    """

    name: str
    description: str
    args: type[msgspec.Struct]
    schema: dict[str, Any]
    effects: frozenset[Effect]
    preview: Callable[[Any, CallScope], Awaitable[Access]]
    run: Callable[[Any, CallScope], Awaitable[ToolResult]]
    persistence: Persistence = "durable"
    is_barrier: bool = False
    is_child_safe: bool = True
    is_terminal: bool = False
    role_allowlist: frozenset[str] | None = None
    role_denylist: frozenset[str] = frozenset()

    @property
    def may_change(self) -> bool:
        """Whether a call must be marked as begun before it runs."""
        return bool(self.effects & {"writes", "runs"})
