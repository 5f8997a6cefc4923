"""Empty a conversation, or delete it with everything of it. Within a transaction."""

from msgspec.structs import replace

from tinsmith.domain.ids import message_ordinal, now_ms
from tinsmith.domain.message import UserMessage
from tinsmith.domain.turn import WindowEdges
from tinsmith.services.conversations import stored, title_of
from tinsmith.store import Session


def clear(session: Session, conversation_id: str) -> None:
    """Delete the transcript, rewound parts too, with calls, turns and notes; settings and token counts stay.

    A title that was made of the first message goes with it. Raises SchemaError when there is no such conversation.
    """
    conversation = stored(session, conversation_id)
    used = message_ordinal(session.messages.next_id(conversation_id))
    first = next((each for each in session.messages.all(conversation_id) if isinstance(each, UserMessage)), None)
    is_titled_by_it = first is not None and conversation.title == title_of(first.text)
    usage = session.usage.all(conversation_id)
    session.erase_contents(conversation_id)
    for record in usage:
        session.usage.put(conversation_id, record)
    session.conversations.put(
        replace(
            conversation,
            title="" if is_titled_by_it else conversation.title,
            context_used=0,
            edges=WindowEdges(),
            rewinds=(),
            ordinals_used=used,
            revision=conversation.revision + 1,
            updated_at=now_ms(),
        )
    )


def erase(session: Session, conversation_id: str) -> None:
    """Delete the conversation and everything of it. Raises SchemaError when there is no such conversation."""
    conversation = stored(session, conversation_id)
    session.erase_contents(conversation_id)
    session.conversations.delete(conversation_id)
    session.leases.drop(conversation_id)
    if session.meta.active_conversation(conversation.workspace) == conversation_id:
        session.meta.set_active_conversation(conversation.workspace, None)
