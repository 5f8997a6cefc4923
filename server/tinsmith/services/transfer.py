"""A conversation as JSON Lines, and back: a header with a version, then each turn with its messages and calls.

The file names turns `t1`, `t2`, … in their order and messages not at all, so that it is the same wherever the
conversation is stored. What has been rewound, permissions and token counts of turns stay behind.
"""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from tinsmith.domain.conversation import Conversation
from tinsmith.domain.message import AssistantMessage, Message, UserMessage
from tinsmith.domain.turn import CallRecord, TurnRecord
from tinsmith.engine.repair import valid_history
from tinsmith.services.conversations import stored
from tinsmith.services.forking import SCRATCHPAD, ended_line
from tinsmith.services.history import calls_of
from tinsmith.services.markdown_export import markdown
from tinsmith.store import Note, Session
from tinsmith.store.codec import encode_record

VERSION = 1


class Header(msgspec.Struct, frozen=True, tag_field="record", tag="conversation"):
    """The first line. Times in milliseconds."""

    version: int
    title: str = ""
    role: str = ""
    model: str = ""
    created_at: int = 0
    updated_at: int = 0


class TurnLine(msgspec.Struct, frozen=True, tag_field="record", tag="turn"):
    """A turn that has ended; its messages follow."""

    turn: TurnRecord


class MessageLine(msgspec.Struct, frozen=True, tag_field="record", tag="message"):
    """The next message of the turn."""

    message: Message


class CallLine(msgspec.Struct, frozen=True, tag_field="record", tag="call"):
    """What became of a call of the answer before."""

    call: CallRecord


class NoteLine(msgspec.Struct, frozen=True, tag_field="record", tag="note"):
    """A note of the scratchpad."""

    note: Note


Line = Header | TurnLine | MessageLine | CallLine | NoteLine


def export(session: Session, conversation_id: str, form: str) -> str:
    """The live line up to the last turn that has ended, as `markdown` or `jsonl`. Raises SchemaError."""
    conversation = stored(session, conversation_id)
    messages = valid_history(ended_line(session, conversation_id))
    calls = calls_of(session, conversation_id, messages)
    if form == "markdown":
        return markdown(conversation, messages, calls)
    lines = _lines(session, conversation, messages, calls)
    return "".join(encode_record(line).decode() + "\n" for line in lines)


def _lines(
    session: Session, conversation: Conversation, messages: tuple[Message, ...], calls: dict[str, CallRecord]
) -> Iterator[Line]:
    yield Header(
        VERSION,
        conversation.title,
        conversation.role,
        conversation.model,
        conversation.created_at,
        conversation.updated_at,
    )
    names: dict[str, str] = {}
    for message in messages:
        name = names.get(message.turn_id)
        if name is None:
            name = names[message.turn_id] = f"t{len(names) + 1}"
            yield TurnLine(_turn(session, conversation.conversation_id, message.turn_id, name))
        bare = replace(message, entry_id="") if isinstance(message, UserMessage) else message
        yield MessageLine(replace(bare, message_id="", turn_id=name))
        for call in message.calls if isinstance(message, AssistantMessage) else ():
            record = calls.get(call.call_id)
            if record is not None:
                yield CallLine(replace(record, turn_id=name))
    for note in session.notes.all(conversation.conversation_id, SCRATCHPAD):
        yield NoteLine(note)


def _turn(session: Session, conversation_id: str, turn_id: str, name: str) -> TurnRecord:
    """The turn's record as the file has it; one that says little where it is not stored."""
    record = session.turns.get(conversation_id, turn_id) or TurnRecord(
        turn_id, conversation_id, "", "", "", 0, state="ended", outcome="interrupted"
    )
    return replace(record, turn_id=name, conversation_id="", instance="", edges=None)
