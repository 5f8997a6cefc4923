"""Copy a conversation up to the end of a turn. Within a transaction."""

from collections.abc import Sequence

from msgspec.structs import replace

from tinsmith.domain.conversation import Conversation
from tinsmith.domain.errors import SchemaError
from tinsmith.domain.ids import new_id
from tinsmith.domain.message import Message
from tinsmith.services.conversations import stored
from tinsmith.services.history import calls_of
from tinsmith.services.rewinding import context_of, edges_after, split_at
from tinsmith.store import Session

SCRATCHPAD = "scratchpad:"
"""Notes that are copied. Permission rules are not: what a person allowed there was not allowed here."""


def fork(session: Session, source_id: str, through_turn_id: str | None, target: Conversation) -> None:
    """Fill the stored conversation `target` with the live line of another, up to this turn, or to the last that ended.

    Messages, calls and items keep their ids, which name them within their conversation; turns get new ones, which
    name them alone. Raises SchemaError `turnNotFound`, or `busy` for a turn that has not ended.
    """
    source = stored(session, source_id)
    messages = _through(session, source_id, through_turn_id)
    turn_ids = {each: new_id("t") for each in dict.fromkeys(message.turn_id for message in messages)}
    target_id = target.conversation_id
    end = session.turns.get(source_id, messages[-1].turn_id) if messages else None
    for message in messages:
        session.messages.put(target_id, replace(message, turn_id=turn_ids[message.turn_id]))
    for old, new in turn_ids.items():
        record = session.turns.get(source_id, old)
        if record is not None:
            session.turns.put(replace(record, turn_id=new, conversation_id=target_id))
    for record in calls_of(session, source_id, messages).values():
        session.calls.put(target_id, replace(record, turn_id=turn_ids.get(record.turn_id, record.turn_id)))
    for note in session.notes.all(source_id, SCRATCHPAD):
        session.notes.put(target_id, note)
    session.conversations.put(replace(target, edges=edges_after(end, source), context_used=context_of(messages)))


def ended_line(session: Session, conversation_id: str) -> tuple[Message, ...]:
    """The live line without a turn that has not ended."""
    open_turns = _open_turns(session, conversation_id)
    return tuple(each for each in session.messages.all(conversation_id) if each.turn_id not in open_turns)


def _through(session: Session, conversation_id: str, turn_id: str | None) -> Sequence[Message]:
    if turn_id is None:
        return ended_line(session, conversation_id)
    if turn_id in _open_turns(session, conversation_id):
        raise SchemaError("busy", "This turn has not ended. Fork at an earlier one, or wait.", data={"turnId": turn_id})
    return split_at(session.messages.all(conversation_id), turn_id)[0]


def _open_turns(session: Session, conversation_id: str) -> set[str]:
    return {record.turn_id for record in session.turns.all(conversation_id) if record.state != "ended"}
