"""Every repository over one transaction: what a closure works with."""

from collections.abc import Callable
from typing import TypeVar

from tinsmith.store.calls import Calls
from tinsmith.store.conversations import Conversations
from tinsmith.store.fulltext import FullText
from tinsmith.store.leases import Leases
from tinsmith.store.messages import Messages
from tinsmith.store.meta import Meta
from tinsmith.store.notes import Notes
from tinsmith.store.overrides import Overrides
from tinsmith.store.transaction import Transaction
from tinsmith.store.turns import Turns
from tinsmith.store.usage import UsageRecords

T = TypeVar("T")


class Session:
    """The stored records as one transaction sees them. Of no use once its closure has returned."""

    __slots__ = (
        "_transaction",
        "calls",
        "conversations",
        "leases",
        "messages",
        "meta",
        "notes",
        "overrides",
        "search",
        "turns",
        "usage",
    )

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.conversations = Conversations(transaction)
        self.search = FullText(transaction)
        self.messages = Messages(transaction, self.search)
        self.turns = Turns(transaction)
        self.calls = Calls(transaction)
        self.notes = Notes(transaction)
        self.usage = UsageRecords(transaction)
        self.overrides = Overrides(transaction)
        self.meta = Meta(transaction)
        self.leases = Leases(transaction)

    def look(self, closure: Callable[[Transaction], T]) -> T:
        """What the closure finds in the rows themselves: for what looks at every keyspace alike."""
        return closure(self._transaction)

    @property
    def set_aside(self) -> tuple[str, ...]:
        """`<keyspace>/<key>` of the records that lists left out so far because they cannot be read."""
        return tuple(self._transaction.set_aside)
