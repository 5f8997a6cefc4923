"""Rewind to the end of a turn, and take that back. Within a transaction: one record changes, every message stays."""

from collections.abc import Sequence

from msgspec.structs import replace

from tinsmith.domain.conversation import Conversation, Rewind
from tinsmith.domain.errors import SchemaError
from tinsmith.domain.ids import message_ordinal, now_ms
from tinsmith.domain.message import AssistantMessage, Message
from tinsmith.domain.turn import TurnRecord, WindowEdges
from tinsmith.services.conversations import stored
from tinsmith.store import Session


def turns_after(session: Session, conversation_id: str, turn_id: str | None) -> tuple[TurnRecord, ...]:
    """The live turns behind this one, oldest first; all of them for None. Raises SchemaError `turnNotFound`."""
    removed = split_at(session.messages.all(conversation_id), turn_id)[1]
    found = (session.turns.get(conversation_id, each) for each in dict.fromkeys(each.turn_id for each in removed))
    return tuple(record for record in found if record is not None)


def rewind(session: Session, conversation_id: str, to_turn_id: str | None) -> tuple[TurnRecord, ...]:
    """Let the live line end with this turn, or be empty for None. The turns that are no longer part of it.

    Raises SchemaError when there is no such conversation, or no such turn in its live line.
    """
    conversation = stored(session, conversation_id)
    kept, removed = split_at(session.messages.all(conversation_id), to_turn_id)
    if not removed:
        return ()
    turns = turns_after(session, conversation_id, to_turn_id)
    last = message_ordinal(session.messages.next_id(conversation_id)) - 1
    rewound = Rewind(message_ordinal(removed[0].message_id), last, conversation.edges, conversation.context_used)
    end = session.turns.get(conversation_id, to_turn_id) if to_turn_id is not None else None
    session.conversations.put(
        replace(
            conversation,
            rewinds=(*conversation.rewinds, rewound),
            edges=edges_after(end, conversation),
            context_used=context_of(kept),
            revision=conversation.revision + 1,
            updated_at=now_ms(),
        )
    )
    return turns


def unrewind(session: Session, conversation_id: str) -> Conversation:
    """Take the last rewind back. Raises SchemaError `nothingRewound` when there is none, or messages came after it."""
    conversation = stored(session, conversation_id)
    end = message_ordinal(session.messages.next_id(conversation_id))
    if not conversation.rewinds or conversation.rewinds[-1].last + 1 != end:
        raise SchemaError(
            "nothingRewound",
            "No rewind can be taken back here: a message has come since, or there was none. Go on from what is there.",
        )
    *others, last = conversation.rewinds
    restored = replace(
        conversation,
        rewinds=tuple(others),
        edges=last.edges,
        context_used=last.context_used,
        revision=conversation.revision + 1,
        updated_at=now_ms(),
    )
    session.conversations.put(restored)
    return restored


def edges_after(end: TurnRecord | None, conversation: Conversation) -> WindowEdges:
    """The window as it was when this turn ended; where nobody knows, it begins anew with the size last measured."""
    known = end.edges if end is not None else None
    return known or WindowEdges(tokens_per_char=conversation.edges.tokens_per_char)


def context_of(messages: Sequence[Message]) -> int:
    """The size of the last request of these messages and its answer, in tokens."""
    answers = (each for each in reversed(messages) if isinstance(each, AssistantMessage))
    return next((answer.usage.total for answer in answers if answer.usage.total), 0)


def split_at(messages: Sequence[Message], turn_id: str | None) -> tuple[Sequence[Message], Sequence[Message]]:
    """The messages up to the end of this turn, none for None, and those behind. Raises SchemaError `turnNotFound`."""
    if turn_id is None:
        return (), messages
    count = next((number for number in range(len(messages), 0, -1) if messages[number - 1].turn_id == turn_id), 0)
    if count == 0:
        raise SchemaError("turnNotFound", f"There is no turn {turn_id} in this conversation as it is now.")
    return messages[:count], messages[count:]
