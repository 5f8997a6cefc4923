"""Every repository over one transaction: what a closure works with."""

from collections.abc import Callable
from typing import TypeVar

from tinsmith.store.blobs import Blobs
from tinsmith.store.calls import Calls
from tinsmith.store.changes import Changes
from tinsmith.store.codec import span_below
from tinsmith.store.conversations import Conversations
from tinsmith.store.fulltext import FullText
from tinsmith.store.leases import Leases
from tinsmith.store.messages import Messages
from tinsmith.store.meta import Meta
from tinsmith.store.notes import Notes
from tinsmith.store.overrides import Overrides
from tinsmith.store.pending import Pending
from tinsmith.store.queue import Queue
from tinsmith.store.transaction import CONVERSATION_KEYSPACES, Transaction
from tinsmith.store.turns import Turns
from tinsmith.store.usage import UsageRecords
from tinsmith.store.uses import BlobUses

T = TypeVar("T")


class Session:
    """The stored records as one transaction sees them. Of no use once its closure has returned."""

    __slots__ = (
        "_transaction",
        "blobs",
        "calls",
        "changes",
        "conversations",
        "leases",
        "messages",
        "meta",
        "notes",
        "overrides",
        "pending",
        "queue",
        "search",
        "turns",
        "usage",
        "uses",
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
        self.blobs = Blobs(transaction)
        self.queue = Queue(transaction)
        self.pending = Pending(transaction)
        self.uses = BlobUses(transaction)
        self.changes = Changes(transaction)

    def erase_contents(self, conversation_id: str) -> None:
        """Delete everything that belongs to the conversation, readable or not, but for its own record and its lease."""
        self.messages.clear(conversation_id)
        self.changes.delete_all(conversation_id)
        for keyspace in CONVERSATION_KEYSPACES:
            for key, _ in list(self._transaction.scan(keyspace, span_below(conversation_id))):
                self._transaction.delete(keyspace, key)

    def look(self, closure: Callable[[Transaction], T]) -> T:
        """What the closure finds in the rows themselves: for what looks at every keyspace alike."""
        return closure(self._transaction)

    @property
    def set_aside(self) -> tuple[str, ...]:
        """`<keyspace>/<key>` of the records that lists left out so far because they cannot be read."""
        return tuple(self._transaction.set_aside)
