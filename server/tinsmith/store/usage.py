"""Tokens that a turn used. Key: `<conversation>:<turn>:parent`."""

import msgspec

from tinsmith.domain.message import Usage
from tinsmith.store.keyspace import Keyspace
from tinsmith.store.transaction import Transaction


class UsageRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one turn used under one role and model."""

    turn_id: str
    role: str
    model: str
    usage: Usage = Usage()


_decoder = msgspec.json.Decoder(UsageRecord)
_PARENT = "parent"


class UsageRecords:
    """The usage of every turn."""

    __slots__ = ("_rows",)

    def __init__(self, transaction: Transaction) -> None:
        self._rows = Keyspace(transaction, "usage", _decoder)

    def get(self, conversation_id: str, turn_id: str) -> UsageRecord | None:
        """What the turn itself used, or None."""
        return self._rows.get(conversation_id, turn_id, _PARENT)

    def put(self, conversation_id: str, record: UsageRecord) -> None:
        """Store what the turn itself used, in place of what was there."""
        self._rows.put(record, conversation_id, record.turn_id, _PARENT)

    def all(self, conversation_id: str) -> tuple[UsageRecord, ...]:
        """Every record of the conversation, in the order of the turns' ids."""
        return tuple(self._rows.scan(conversation_id))
