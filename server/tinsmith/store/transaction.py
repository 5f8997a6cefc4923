"""A transaction over bytes: what LMDB and memory have in common."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

KEYSPACES = (
    "meta",
    "conversation",
    "message",
    "message_search",
    "turn",
    "call",
    "conversation_note",
    "usage",
    "config",
    "lease",
    "queue",
    "pending",
    "lease_request",
    "blob",
    "blob_use",
    "change",
)

CONVERSATION_KEYSPACES = ("turn", "call", "conversation_note", "usage", "queue", "pending")
"""Those whose keys begin with `<conversation>:`; they leave with their conversation, and so do its messages."""


@dataclass(frozen=True, slots=True)
class Span:
    """The keys from `start` up to, but not including, `stop`; a `stop` of None is the end of the keyspace."""

    start: bytes = b""
    stop: bytes | None = None


class Transaction(Protocol):
    """Reads and changes that count together or not at all. Of no use once its closure has returned.

    `set_aside` collects `<keyspace>/<key>` of records that could not be read and were skipped.
    """

    set_aside: list[str]

    def get(self, keyspace: str, key: bytes) -> bytes | None:
        """The value, or None."""
        ...

    def put(self, keyspace: str, key: bytes, value: bytes) -> None:
        """Store the value in place of any other. Raises InternalError in a transaction that only reads."""
        ...

    def delete(self, keyspace: str, key: bytes) -> bool:
        """Whether there was something to delete. Raises InternalError in a transaction that only reads."""
        ...

    def clear(self, keyspace: str) -> None:
        """Delete every record of the keyspace. Raises InternalError in a transaction that only reads."""
        ...

    def scan(self, keyspace: str, span: Span, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Keys of the span with their values in the order of their bytes. The keyspace must not change meanwhile."""
        ...
