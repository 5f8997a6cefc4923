"""Calls: begun and ended marks. Key: `<conversation>:<call>`."""

import msgspec

from tinsmith.domain.turn import CallRecord
from tinsmith.store.keyspace import Keyspace
from tinsmith.store.transaction import Transaction

_decoder = msgspec.json.Decoder(CallRecord)


class Calls:
    """The calls of every conversation."""

    __slots__ = ("_rows",)

    def __init__(self, transaction: Transaction) -> None:
        self._rows = Keyspace(transaction, "call", _decoder)

    def get(self, conversation_id: str, call_id: str) -> CallRecord | None:
        """The call, or None."""
        return self._rows.get(conversation_id, call_id)

    def put(self, conversation_id: str, record: CallRecord) -> None:
        """Store the call in place of what was there."""
        self._rows.put(record, conversation_id, record.call_id)

    def delete(self, conversation_id: str, call_id: str) -> bool:
        """Whether there was a call to delete."""
        return self._rows.delete(conversation_id, call_id)

    def all(self, conversation_id: str) -> tuple[CallRecord, ...]:
        """The conversation's calls, in the order of their ids."""
        return tuple(self._rows.scan(conversation_id))
