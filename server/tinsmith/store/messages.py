"""The transcript. Key: `<conversation>:<message>`, in the order in which messages came.

What is read is the live line: the messages that no rewind of the conversation covers. The others stay where they are.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, TypeVar

import msgspec

from tinsmith.domain.conversation import Rewind
from tinsmith.domain.errors import SchemaError
from tinsmith.domain.ids import message_id, message_ordinal
from tinsmith.domain.message import AssistantMessage, Message, ToolMessage, UserMessage
from tinsmith.store.blobs import Blobs
from tinsmith.store.fulltext import FullText
from tinsmith.store.keyspace import Keyspace
from tinsmith.store.transaction import Transaction
from tinsmith.store.uses import BlobUses

_KEYSPACE = "message"
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
SomeMessage = TypeVar("SomeMessage", UserMessage, AssistantMessage, ToolMessage)


class _Head(msgspec.Struct, frozen=True):
    """What the order of a transcript needs of its conversation's record."""

    rewinds: tuple[Rewind, ...] = ()
    ordinals_used: int = 0


_heads = msgspec.json.Decoder(_Head)


class MessagePage(msgspec.Struct, frozen=True):
    """Messages in the order they were asked for; `next_cursor` asks for the rest, None when there is none."""

    messages: tuple[Message, ...]
    next_cursor: str | None = None


class Messages:
    """The messages of every conversation."""

    __slots__ = ("_blobs", "_heads", "_index", "_rows", "_uses")

    def __init__(self, transaction: Transaction, index: FullText) -> None:
        self._rows = Keyspace(transaction, _KEYSPACE, _decoder)
        self._heads = Keyspace(transaction, "conversation", _heads)
        self._blobs = Blobs(transaction)
        self._uses = BlobUses(transaction)
        self._index = index

    def get(self, conversation_id: str, identifier: str) -> Message | None:
        """The message, live or rewound, or None."""
        return self._rows.get(conversation_id, identifier)

    def put(self, conversation_id: str, message: Message) -> None:
        """Store the message under its own id, in place of what was there, and let it be found."""
        self._rows.put(message, conversation_id, message.message_id)
        self._index.note(conversation_id, message.message_id)
        for name in _images_of(message):
            self._uses.add(name, _KEYSPACE, conversation_id)

    def append(self, conversation_id: str, message: SomeMessage) -> SomeMessage:
        """Store the message as the conversation's last one, under the next id. Returns it as it is stored."""
        numbered = msgspec.structs.replace(message, message_id=self.next_id(conversation_id))
        self.put(conversation_id, numbered)
        return numbered

    def delete(self, conversation_id: str, identifier: str) -> bool:
        """Whether there was such a message to delete. The last id is free again, unless the conversation says not.

        Its images go unless another message has them.
        """
        message = self._rows.get(conversation_id, identifier)
        if message is None:
            return False
        self._rows.delete(conversation_id, identifier)
        self._index.forget(conversation_id, identifier)
        images = _images_of(message)
        if images:
            others = {name for other in self._rows.scan(conversation_id) for name in _images_of(other)}
            self._let_go(conversation_id, images - others)
        return True

    def clear(self, conversation_id: str) -> None:
        """Delete every message of the conversation, live, rewound or unreadable, and images that no other one has."""
        self._let_go(conversation_id, self._uses.of(_KEYSPACE, conversation_id))
        for identifier in list(self._rows.ids(conversation_id)):
            self._rows.delete(conversation_id, identifier)
            self._index.forget(conversation_id, identifier)

    def is_live(self, conversation_id: str, identifier: str) -> bool:
        """Whether no rewind covers the message, if there is one of this id."""
        ordinal = message_ordinal(identifier)
        head = self._heads.get(conversation_id) or _Head()
        return not any(rewind.first <= ordinal <= rewind.last for rewind in head.rewinds)

    def next_id(self, conversation_id: str) -> str:
        """The id that the conversation's next message gets: one that no message, live, rewound or unreadable, has."""
        last = next(self._rows.ids(conversation_id, reverse=True), None)
        head = self._heads.get(conversation_id) or _Head()
        return message_id(max(0 if last is None else message_ordinal(last) + 1, head.ordinals_used))

    def all(self, conversation_id: str, *, after: str | None = None) -> tuple[Message, ...]:
        """The live line, or what of it comes after the message `after`; oldest first."""
        return tuple(self._scan(conversation_id, after=after))

    def last(self, conversation_id: str, count: int) -> tuple[Message, ...]:
        """The newest `count` messages of the live line, oldest of them first."""
        return tuple(reversed(self._scan(conversation_id, reverse=True, limit=count)))

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
        bound = None if cursor is None else _checked_cursor(cursor)
        count = max(limit, 1)
        is_older = direction == "older"
        found = self._scan(
            conversation_id,
            before=bound if is_older else None,
            after=None if is_older else bound,
            reverse=is_older,
            limit=count + 1,
        )
        page = tuple(found[:count])
        return MessagePage(page, page[-1].message_id if len(found) > count else None)

    def _let_go(self, conversation_id: str, blobs: Iterable[str]) -> None:
        for name in blobs:
            if self._uses.drop(name, _KEYSPACE, conversation_id):
                self._blobs.delete(name)

    def _scan(
        self,
        conversation_id: str,
        *,
        after: str | None = None,
        before: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> list[Message]:
        """Live messages between these ids, both exclusive."""
        head = self._heads.get(conversation_id) or _Head()
        pieces = list(_live_pieces(head.rewinds, _Piece(after, before)))
        found: list[Message] = []
        for piece in reversed(pieces) if reverse else pieces:
            rest = None if limit is None else limit - len(found)
            if rest == 0:
                break
            found += self._rows.scan(
                conversation_id, after=piece.after, before=piece.before, reverse=reverse, limit=rest
            )
        return found


class _Piece(NamedTuple):
    """The ids between two, both exclusive; None is the end of the transcript."""

    after: str | None
    before: str | None


def _live_pieces(rewinds: tuple[Rewind, ...], asked: _Piece) -> Iterator[_Piece]:
    """What is asked for without what the rewinds cover, in order. A later rewind may cover an earlier one."""
    start = asked.after
    for rewind in sorted(rewinds, key=lambda each: each.first):
        first, last = message_id(rewind.first), message_id(rewind.last)
        if start is not None and start >= last:
            continue
        if asked.before is not None and first >= asked.before:
            break
        if start is None or start < first:
            yield _Piece(start, first)
        start = last
    if asked.before is None or start is None or start < asked.before:
        yield _Piece(start, asked.before)


def _images_of(message: Message) -> set[str]:
    """The hashes of the images that came with the message."""
    return {image.blob for image in message.images} if isinstance(message, UserMessage) else set()


def _checked_cursor(cursor: str) -> str:
    try:
        return message_id(message_ordinal(cursor))
    except ValueError as error:
        raise SchemaError("invalidCursor", "This cursor names no message. Leave it out to start anew.") from error
