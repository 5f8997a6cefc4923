"""Change what a stored transcript says, so that it stays a history that every dialect takes. Within a transaction.

An answer goes with the results of its calls, a result with its call, and the message that opens a turn with the turn:
what follows would otherwise answer nobody.
"""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from tinsmith.domain.conversation import Conversation
from tinsmith.domain.errors import SchemaError
from tinsmith.domain.ids import message_ordinal, now_ms
from tinsmith.domain.message import AssistantMessage, Message, TextPart, ToolMessage, UserMessage
from tinsmith.services.conversations import stored, title_of
from tinsmith.services.journal import note_of
from tinsmith.store import Session

EDITED = "edited"
"""Mark of a message whose text is not what was said at first."""


class Edited(msgspec.Struct, frozen=True):
    """The turn that was changed, its messages as they are now, and the ids of those that are gone."""

    turn_id: str
    messages: tuple[Message, ...]
    removed: tuple[str, ...] = ()


def edit(session: Session, conversation_id: str, message_id: str, text: str) -> Edited:
    """Let a user message or the text of an answer say this instead.

    Raises SchemaError: `messageNotFound`, `notEditable` for a result, `invalidParams` when nothing would be left.
    """
    conversation, message = _find(session, conversation_id, message_id)
    if not text.strip() and not (isinstance(message, AssistantMessage) and message.calls):
        raise SchemaError("invalidParams", "The text must not be empty. Delete the message.", data={"path": "text"})
    marks = (*(mark for mark in message.marks if mark != EDITED), EDITED)
    match message:
        case UserMessage():
            kept = tuple(part for part in message.parts if not (isinstance(part, TextPart) and not part.label))
            changed = replace(message, parts=(TextPart(text), *kept), marks=marks)
            if not message.is_steering:
                conversation = _retell_turn(session, conversation, message, changed)
        case AssistantMessage():
            sealed = tuple(replace(each, after_text=min(each.after_text, len(text))) for each in message.sealed)
            changed = replace(message, text=text, sealed=sealed, marks=marks)
        case ToolMessage():
            raise SchemaError(
                "notEditable",
                "What a tool said cannot be edited. Delete it, and its call goes along.",
            )
    session.messages.put(conversation_id, changed)
    _keep(session, conversation)
    return _edited(session, conversation_id, message.turn_id)


def delete(session: Session, conversation_id: str, message_id: str) -> Edited:
    """Remove a message for good, with what cannot stand without it. Raises SchemaError `messageNotFound`."""
    conversation, message = _find(session, conversation_id, message_id)
    used = message_ordinal(session.messages.next_id(conversation_id))
    conversation = replace(conversation, ordinals_used=used)
    turn = _turn(session, conversation_id, message.turn_id)
    removed: tuple[Message, ...]
    match message:
        case UserMessage(is_steering=False):
            removed = turn
            session.turns.delete(conversation_id, message.turn_id)
            session.notes.delete(conversation_id, f"turn_record-{message.turn_id}")
        case UserMessage():
            removed = (message,)
        case AssistantMessage():
            removed = (message, *_results(turn, {call.call_id for call in message.calls}))
        case ToolMessage():
            removed = (*_without_call(session, conversation_id, turn, message), message)
    _remove(session, conversation_id, removed)
    _keep(session, conversation)
    return _edited(session, conversation_id, message.turn_id, removed)


def _find(session: Session, conversation_id: str, message_id: str) -> tuple[Conversation, Message]:
    """The conversation and one of its live messages."""
    conversation = stored(session, conversation_id)
    message = session.messages.get(conversation_id, message_id)
    if message is None or not session.messages.is_live(conversation_id, message_id):
        raise SchemaError("messageNotFound", f"There is no message {message_id!r} here. Inspect the messages again.")
    return conversation, message


def _turn(session: Session, conversation_id: str, turn_id: str) -> tuple[Message, ...]:
    return tuple(each for each in session.messages.all(conversation_id) if each.turn_id == turn_id)


def _results(turn: Iterable[Message], call_ids: set[str]) -> tuple[ToolMessage, ...]:
    return tuple(each for each in turn if isinstance(each, ToolMessage) and each.call_id in call_ids)


def _without_call(
    session: Session, conversation_id: str, turn: Iterable[Message], result: ToolMessage
) -> tuple[Message, ...]:
    """Take the call of a result out of its answer; the answer itself, when it says nothing else.

    What only the provider can read of the answer goes as well: some refuse it without the call that it led to.
    """
    session.calls.delete(conversation_id, result.call_id)
    for answer in turn:
        if not isinstance(answer, AssistantMessage) or all(call.call_id != result.call_id for call in answer.calls):
            continue
        calls = tuple(call for call in answer.calls if call.call_id != result.call_id)
        if not calls and not answer.text.strip():
            return (answer,)
        marks = (*(mark for mark in answer.marks if mark != EDITED), EDITED)
        session.messages.put(conversation_id, replace(answer, calls=calls, sealed=(), marks=marks))
    return ()


def _remove(session: Session, conversation_id: str, messages: Iterable[Message]) -> None:
    for message in messages:
        session.messages.delete(conversation_id, message.message_id)
        for call in message.calls if isinstance(message, AssistantMessage) else ():
            session.calls.delete(conversation_id, call.call_id)


def _retell_turn(
    session: Session, conversation: Conversation, opening: UserMessage, changed: UserMessage
) -> Conversation:
    """The turn's record repeats what opened it, and a title may be made of it."""
    record = session.turns.get(conversation.conversation_id, opening.turn_id)
    if record is not None:
        retold = replace(record, text=changed.text)
        session.turns.put(retold)
        session.notes.put(conversation.conversation_id, note_of(retold))
    is_titled_by_it = conversation.title == title_of(opening.text)
    return replace(conversation, title=title_of(changed.text)) if is_titled_by_it else conversation


def _keep(session: Session, conversation: Conversation) -> None:
    session.conversations.put(replace(conversation, revision=conversation.revision + 1, updated_at=now_ms()))


def _edited(session: Session, conversation_id: str, turn_id: str, removed: Iterable[Message] = ()) -> Edited:
    turn = _turn(session, conversation_id, turn_id)
    return Edited(turn_id, turn, tuple(sorted(message.message_id for message in removed)))
