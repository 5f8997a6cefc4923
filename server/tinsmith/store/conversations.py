"""Conversations: settings and head of each transcript. Key: `<conversation>`."""

import msgspec

from tinsmith.domain.conversation import Conversation
from tinsmith.domain.errors import SchemaError
from tinsmith.store.codec import clean_text
from tinsmith.store.keyspace import Keyspace
from tinsmith.store.transaction import Transaction

_decoder = msgspec.json.Decoder(Conversation)


class ConversationPage(msgspec.Struct, frozen=True):
    """Conversations, newest first; `next_cursor` asks for the rest, None when there is none."""

    conversations: tuple[Conversation, ...]
    next_cursor: str | None = None


class Conversations:
    """The conversations of every workspace."""

    __slots__ = ("_rows",)

    def __init__(self, transaction: Transaction) -> None:
        self._rows = Keyspace(transaction, "conversation", _decoder)

    def get(self, conversation_id: str) -> Conversation | None:
        """The conversation, or None."""
        return self._rows.get(conversation_id)

    def put(self, conversation: Conversation) -> None:
        """Store the conversation in place of what was there."""
        self._rows.put(conversation, conversation.conversation_id)

    def delete(self, conversation_id: str) -> bool:
        """Whether there was a conversation to delete. What it consists of stays."""
        return self._rows.delete(conversation_id)

    def all(self) -> tuple[Conversation, ...]:
        """Every conversation, in the order of their ids."""
        return tuple(self._rows.scan())

    def newest(
        self,
        *,
        workspace: str | None = None,
        query: str = "",
        is_archived: bool = False,
        cursor: str | None = None,
        limit: int = 50,
    ) -> ConversationPage:
        """Conversations by their last change, newest first; `query` words must all stand in the title, in any case.

        A `workspace` of None means all. Raises SchemaError for a cursor that no page gave.
        """
        words = query.casefold().split()
        directory = None if workspace is None else clean_text(workspace)
        bound = None if cursor is None else _parse_cursor(cursor)
        found = [
            conversation
            for conversation in self._rows.scan()
            if conversation.is_archived == is_archived
            and (directory is None or conversation.workspace == directory)
            and (bound is None or _age(conversation) < bound)
            and all(word in conversation.title.casefold() for word in words)
        ]
        found.sort(key=_age, reverse=True)
        page = tuple(found[: max(limit, 1)])
        updated_at, conversation_id = _age(page[-1]) if page else (0, "")
        return ConversationPage(page, f"{updated_at}:{conversation_id}" if len(found) > len(page) else None)


def _age(conversation: Conversation) -> tuple[int, str]:
    return conversation.updated_at, conversation.conversation_id


def _parse_cursor(cursor: str) -> tuple[int, str]:
    updated_at, _, conversation_id = cursor.partition(":")
    try:
        return int(updated_at), conversation_id
    except ValueError as error:
        raise SchemaError("invalidCursor", "This cursor comes from no list of conversations. Leave it out.") from error
