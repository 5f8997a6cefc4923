"""The error tree.

    AgentError
    ├── TransportError   the provider could not be reached, broke off, stalled or refused us for now
    ├── ProtocolError    the other side answered, but not in the agreed form
    ├── SchemaError      a value that we were given does not have the shape it must have
    ├── ToolError        a tool cannot do what was asked; its message is for the model
    ├── Cancelled        somebody asked to stop
    ├── BudgetExhausted  a limit that the user set is used up
    ├── PolicyError      a rule, role or permission mode forbids it
    ├── PersistenceError the store cannot read or keep something
    └── InternalError    a bug of ours

Every message is one or two sentences for its reader, and the last says what to do next.
"""

from typing import Any, ClassVar, Literal

import msgspec

Kind = Literal[
    "transport",
    "protocol",
    "schema",
    "tool",
    "cancelled",
    "budget_exhausted",
    "policy",
    "persistence",
    "internal",
]


class ErrorRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as a value: what is stored, sent and shown."""

    kind: Kind
    code: str
    message: str
    retryable: bool = False
    origin: str = ""
    data: dict[str, Any] = {}


class AgentError(Exception):
    """Base of the tree. `code` is a stable camelCase name, `data` holds small machine-readable facts."""

    kind: ClassVar[Kind] = "internal"

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retryable: bool = False,
        origin: str = "",
        data: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable
        self.origin = origin
        self.data = data or {}

    def record(self) -> ErrorRecord:
        """The error as a value."""
        return ErrorRecord(self.kind, self.code, self.message, self.retryable, self.origin, self.data)


class TransportError(AgentError):
    """The provider could not be reached, broke off, stalled or refused us for now."""

    kind = "transport"


class ProtocolError(AgentError):
    """The other side answered, but not in the agreed form."""

    kind = "protocol"


class SchemaError(AgentError):
    """A value that we were given does not have the shape it must have."""

    kind = "schema"


class ToolError(AgentError):
    """A tool cannot do what was asked; the message tells the model what to do instead."""

    kind = "tool"


class Cancelled(AgentError):
    """Somebody asked to stop."""

    kind = "cancelled"

    def __init__(self, message: str = "Cancelled.") -> None:
        super().__init__("cancelled", message)


class BudgetExhausted(AgentError):
    """A limit that the user set is used up."""

    kind = "budget_exhausted"


class PolicyError(AgentError):
    """A rule, role or permission mode forbids it."""

    kind = "policy"


class PersistenceError(AgentError):
    """The store cannot read or keep something."""

    kind = "persistence"


class InternalError(AgentError):
    """A bug of ours; `data.errorId` finds the traceback in the log."""

    kind = "internal"
