"""The transcript. Key: `<conversation>:<message>`, in the order of the transcript."""

from typing import Literal, TypeVar

import msgspec

from tinsmith.domain.errors import SchemaError
from tinsmith.domain.ids import message_id, message_ordinal
from tinsmith.domain.message import AssistantMessage, Message, ToolMessage, UserMessage
from tinsmith.store.fulltext import FullText
from tinsmith.store.keyspace import Keyspace
from tinsmith.store.transaction import Transaction

_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
SomeMessage = TypeVar("SomeMessage", UserMessage, AssistantMessage, ToolMessage)


class MessagePage(msgspec.Struct, frozen=True):
    """Messages in the order they were asked for; `next_cursor` asks for the rest, None when there is none."""

    messages: tuple[Message, ...]
    next_cursor: str | None = None


class Messages:
    """The messages of every conversation."""

    __slots__ = ("_index", "_rows")

    def __init__(self, transaction: Transaction, index: FullText) -> None:
        self._rows = Keyspace(transaction, "message", _decoder)
        self._index = index

    def get(self, conversation_id: str, identifier: str) -> Message | None:
        """The message, or None."""
        return self._rows.get(conversation_id, identifier)

    def put(self, conversation_id: str, message: Message) -> None:
        """Store the message under its own id, in place of what was there, and let it be found."""
        self._rows.put(message, conversation_id, message.message_id)
        self._index.note(conversation_id, message.message_id)

    def delete(self, conversation_id: str, identifier: str) -> bool:
        """Whether there was a message to delete; it is not found any more."""
        self._index.note(conversation_id, identifier)
        return self._rows.delete(conversation_id, identifier)

    def append(self, conversation_id: str, message: SomeMessage) -> SomeMessage:
        """Store the message as the conversation's last one, under the next id. Returns it as it is stored."""
        numbered = msgspec.structs.replace(message, message_id=self.next_id(conversation_id))
        self.put(conversation_id, numbered)
        return numbered

    def next_id(self, conversation_id: str) -> str:
        """The id that the conversation's next message gets; also after a last message that cannot be read."""
        last = next(self._rows.ids(conversation_id, reverse=True), None)
        return message_id(0 if last is None else message_ordinal(last) + 1)

    def all(self, conversation_id: str) -> tuple[Message, ...]:
        """The whole transcript, oldest first."""
        return tuple(self._rows.scan(conversation_id))

    def last(self, conversation_id: str, count: int) -> tuple[Message, ...]:
        """The newest `count` messages, oldest of them first."""
        return tuple(reversed(self._rows.scan(conversation_id, reverse=True, limit=count)))

    def page(
        self,
        conversation_id: str,
        *,
        limit: int = 50,
        cursor: str | None = None,
        direction: Literal["older", "newer"] = "older",
    ) -> MessagePage:
        """The next `limit` messages before (`older`, newest first) or after (`newer`, oldest first) the cursor.

        Without a cursor it starts at the transcript's end or beginning. A cursor is the id of a message;
        raises SchemaError for anything else.
        """
        if cursor is not None:
            _check_cursor(cursor)
        count = max(limit, 1)
        is_older = direction == "older"
        found = self._rows.scan(
            conversation_id,
            before=cursor if is_older else None,
            after=None if is_older else cursor,
            reverse=is_older,
            limit=count + 1,
        )
        page = tuple(found[:count])
        return MessagePage(page, page[-1].message_id if len(found) > count else None)


def _check_cursor(cursor: str) -> None:
    try:
        message_ordinal(cursor)
    except ValueError as error:
        raise SchemaError("invalidCursor", "This cursor names no message. Leave it out to start anew.") from error
