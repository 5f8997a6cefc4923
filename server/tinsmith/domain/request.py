"""The frozen request that the engine runs."""

from collections.abc import Callable
from dataclasses import dataclass

from tinsmith.domain.cancel import CancelToken
from tinsmith.domain.message import Message, Usage
from tinsmith.domain.ports import Approvals, Inbox, Journal, Model
from tinsmith.domain.settings import ModelChoice, Settings
from tinsmith.domain.tool import ToolSpec
from tinsmith.domain.turn import WindowEdges


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """Everything one turn sees. Assigning to it raises.

    `system` and `tools` are asked for again each round (today they answer the same);
    `history` is the stored transcript up to and including the message that opens the turn; `redact` puts
    a mark in place of what is known to be secret.
    """

    conversation_id: str
    turn_id: str
    role: str
    model: ModelChoice
    settings: Settings
    cwd: str
    root: str
    history: tuple[Message, ...]
    system: Callable[[], str]
    tools: Callable[[], tuple[ToolSpec, ...]]
    edges: WindowEdges
    conversation_usage: Usage
    cancel: CancelToken
    llm: Model
    journal: Journal
    approvals: Approvals
    inbox: Inbox
    redact: Callable[[str], str]
