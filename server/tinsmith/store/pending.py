"""Questions that a person has not answered yet. Key: `<conversation>:<request>`."""

import msgspec

from tinsmith.domain.policy import PermissionQuestion
from tinsmith.store.keyspace import Keyspace
from tinsmith.store.transaction import Transaction

_decoder = msgspec.json.Decoder(PermissionQuestion)


class Pending:
    """The open questions of every conversation. One that belongs to a call goes when the call goes on or ends."""

    __slots__ = ("_rows",)

    def __init__(self, transaction: Transaction) -> None:
        self._rows = Keyspace(transaction, "pending", _decoder)

    def put(self, question: PermissionQuestion) -> None:
        """Store the question in place of what was there."""
        self._rows.put(question, question.conversation_id, question.request_key)

    def all(self, conversation_id: str) -> tuple[PermissionQuestion, ...]:
        """The conversation's open questions, in the order of their keys."""
        return tuple(self._rows.scan(conversation_id))

    def settle(self, conversation_id: str, call_id: str) -> None:
        """The call needs no answer any more."""
        for question in self._rows.scan(conversation_id):
            if question.call_id == call_id:
                self._rows.delete(conversation_id, question.request_key)
