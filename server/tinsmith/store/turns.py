"""Turns. Key: `<conversation>:<turn>`; clients make turn ids, so their order says nothing."""

import msgspec

from tinsmith.domain.turn import TurnRecord
from tinsmith.store.keyspace import Keyspace
from tinsmith.store.transaction import Transaction

_decoder = msgspec.json.Decoder(TurnRecord)


class Turns:
    """The turns of every conversation."""

    __slots__ = ("_rows",)

    def __init__(self, transaction: Transaction) -> None:
        self._rows = Keyspace(transaction, "turn", _decoder)

    def get(self, conversation_id: str, turn_id: str) -> TurnRecord | None:
        """The turn, or None."""
        return self._rows.get(conversation_id, turn_id)

    def put(self, record: TurnRecord) -> None:
        """Store the turn in place of what was there."""
        self._rows.put(record, record.conversation_id, record.turn_id)

    def delete(self, conversation_id: str, turn_id: str) -> bool:
        """Whether there was a turn to delete."""
        return self._rows.delete(conversation_id, turn_id)

    def find(self, turn_id: str) -> TurnRecord | None:
        """The turn of this id in whichever conversation. Looks at every key: for what is asked rarely."""
        for pair in self._rows.ids():
            conversation_id, _, identifier = pair.partition(":")
            if identifier == turn_id:
                return self._rows.get(conversation_id, turn_id)
        return None

    def all(self, conversation_id: str) -> tuple[TurnRecord, ...]:
        """The conversation's turns, oldest first."""
        return tuple(sorted(self._rows.scan(conversation_id), key=lambda turn: (turn.started_at, turn.turn_id)))
