"""What a window tells of a conversation that another one runs: events made of what is stored, without deltas.

Pure, but for the look at the store.
"""

from typing import NamedTuple

import msgspec

from tinsmith.domain.conversation import Conversation
from tinsmith.domain.event import (
    AnswerReceived,
    Body,
    CallFinished,
    CallStarted,
    ConversationChanged,
    SteeringTaken,
    ToolCallDetected,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from tinsmith.domain.message import AssistantMessage, Message, ToolMessage, UserMessage
from tinsmith.domain.turn import CallRecord, TurnRecord
from tinsmith.services.history import calls_of
from tinsmith.store import Session


class Look(msgspec.Struct, frozen=True):
    """A conversation as it is stored, with the messages that are new and the records that they name."""

    conversation: Conversation | None
    messages: tuple[Message, ...]
    turns: dict[str, TurnRecord]
    calls: dict[str, CallRecord]


class Seen(msgspec.Struct, frozen=True):
    """What was told so far: up to which message, of which running turn and its last answer, and of which holder."""

    cursor: str | None
    revision: int
    title: str
    turn_id: str = ""
    answer: AssistantMessage | None = None
    started: frozenset[str] = frozenset()
    holder: int | None = None


class Told(NamedTuple):
    """An event, and the turn that it belongs to."""

    turn_id: str
    body: Body


def look(session: Session, conversation_id: str, seen: Seen | None) -> Look:
    """Read what is new since `seen`; without one only the newest round, whose end may be still to come."""
    conversation = session.conversations.get(conversation_id)
    if conversation is None:
        return Look(None, (), {}, {})
    if seen is None or seen.revision != conversation.revision:
        messages = _newest_round(session, conversation_id)
        answer = None
    else:
        messages = session.messages.all(conversation_id, after=seen.cursor)
        answer = seen.answer
    turn_ids = {message.turn_id for message in messages} | {seen.turn_id if seen else ""}
    records = [session.turns.get(conversation_id, each) for each in turn_ids if each]
    turns = {record.turn_id: record for record in records if record is not None}
    calls = calls_of(session, conversation_id, (*((answer,) if answer else ()), *messages))
    return Look(conversation, messages, turns, calls)


def first_seen(found: Look, holder: int | None) -> Seen:
    """What a client knows that draws the conversation from a snapshot made at the moment of this look."""
    assert found.conversation is not None
    last = found.messages[-1] if found.messages else None
    record = found.turns.get(last.turn_id) if last is not None else None
    answers = [each for each in found.messages if isinstance(each, AssistantMessage)]
    return Seen(
        last.message_id if last is not None else None,
        found.conversation.revision,
        found.conversation.title,
        record.turn_id if record is not None and record.state != "ended" else "",
        answers[-1] if answers else None,
        holder=holder,
    )


def tell(seen: Seen, found: Look, holder: int | None) -> tuple[list[Told], Seen | None]:
    """The events that bring a client from `seen` to what was found, and what it has seen then.

    `holder` is the process that holds the conversation now. None: the conversation is there no more.
    """
    conversation = found.conversation
    if conversation is None:
        return [Told("", ConversationChanged("deleted"))], None
    if conversation.revision != seen.revision:
        now = first_seen(found, holder)
        ends = _end(seen.turn_id, found) if seen.turn_id != now.turn_id else []
        return [*ends, Told("", _change(now, is_anew=True))], now
    events: list[Told] = []
    now = seen
    for message in found.messages:
        told, now = _message(now, message, found)
        events += told
    started = _started(now, found)
    events += [Told(now.turn_id, each) for each in started]
    now = msgspec.structs.replace(now, started=now.started | {each.call.call_id for each in started})
    ends = _end(now.turn_id, found)
    events += ends
    now = msgspec.structs.replace(now, turn_id="" if ends else now.turn_id, title=conversation.title, holder=holder)
    if _change(now) != _change(seen):
        events.append(Told("", _change(now)))
    return events, now


def _message(seen: Seen, message: Message, found: Look) -> tuple[list[Told], Seen]:
    """The events of one more message."""
    events: list[Told] = []
    record = found.turns.get(message.turn_id)
    if message.turn_id != seen.turn_id and isinstance(message, UserMessage) and record is not None:
        events += _end(seen.turn_id, found)
        body: Body = TurnStarted(record, message)
        seen = msgspec.structs.replace(seen, turn_id=message.turn_id, answer=None, started=frozenset())
    else:
        match message:
            case UserMessage():
                body = SteeringTaken(message)
            case AssistantMessage():
                body = AnswerReceived(message)
                seen = msgspec.structs.replace(seen, answer=message)
            case ToolMessage():
                body = _finished(seen, message, found)
    events.append(Told(message.turn_id, body))
    if isinstance(message, AssistantMessage):
        events += [Told(message.turn_id, ToolCallDetected(call.call_id, call.name)) for call in message.calls]
    return events, msgspec.structs.replace(seen, cursor=message.message_id)


def _finished(seen: Seen, result: ToolMessage, found: Look) -> CallFinished:
    made = {call.call_id: call.arguments for call in seen.answer.calls} if seen.answer else {}
    status = "completed" if result.ok else "failed"
    record = found.calls.get(result.call_id) or CallRecord(
        result.call_id, result.turn_id, result.name, result.name, status
    )
    return CallFinished(record, made.get(result.call_id, ""), result)


def _started(seen: Seen, found: Look) -> list[CallStarted]:
    """The calls of the last answer that were marked as begun and have not ended, but for those that were told."""
    answer = seen.answer
    if answer is None:
        return []
    records = ((found.calls.get(call.call_id), call.arguments) for call in answer.calls)
    return [
        CallStarted(msgspec.structs.replace(record, status="running"), arguments, is_marked=True)
        for record, arguments in records
        if record is not None and record.begun_at and not record.ended_at and record.call_id not in seen.started
    ]


def _end(turn_id: str, found: Look) -> list[Told]:
    record = found.turns.get(turn_id)
    if record is None or record.state != "ended":
        return []
    is_bad = record.outcome in {"error", "interrupted"}
    return [Told(turn_id, (TurnFailed if is_bad else TurnCompleted)(record))]


def _change(now: Seen, *, is_anew: bool = False) -> ConversationChanged:
    is_running = now.turn_id != "" and now.holder is not None
    return ConversationChanged("running" if is_running else "idle", now.title, now.holder, is_anew)


def _newest_round(session: Session, conversation_id: str) -> tuple[Message, ...]:
    """The last message; when it is the result of a call, from the answer on that made it."""
    count = 1
    while True:
        messages = session.messages.last(conversation_id, count)
        if len(messages) < count or not isinstance(messages[0], ToolMessage):
            return messages
        count *= 2
