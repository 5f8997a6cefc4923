"""Messages that wait for their turn. Key: `<conversation>:<entry>`, in the order they came."""

import msgspec

from tinsmith.domain.ids import new_id
from tinsmith.domain.message import UserMessage
from tinsmith.store.keyspace import Keyspace
from tinsmith.store.transaction import Transaction

_decoder = msgspec.json.Decoder(UserMessage)


class Queue:
    """What persons said and no turn has taken, in every conversation."""

    __slots__ = ("_rows",)

    def __init__(self, transaction: Transaction) -> None:
        self._rows = Keyspace(transaction, "queue", _decoder)

    def append(self, conversation_id: str, message: UserMessage) -> UserMessage:
        """Store the message behind those that wait. Returns it with its `entry_id`."""
        last = next(self._rows.ids(conversation_id, reverse=True), "")
        fresh = new_id("q")
        entry_id = fresh if fresh > last else f"{last}0"  # of one millisecond, or of a clock that was set back
        entry = msgspec.structs.replace(message, entry_id=entry_id)
        self._rows.put(entry, conversation_id, entry_id)
        return entry

    def delete(self, conversation_id: str, entry_id: str) -> bool:
        """Whether the entry was still there."""
        return self._rows.delete(conversation_id, entry_id)

    def all(self, conversation_id: str) -> tuple[UserMessage, ...]:
        """The waiting messages, oldest first."""
        return tuple(self._rows.scan(conversation_id))
