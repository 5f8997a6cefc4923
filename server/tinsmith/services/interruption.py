"""What a dead process left open in the store, and how it is closed. For use within a transaction."""

from collections.abc import Sequence

import msgspec

from tinsmith.domain.errors import ErrorRecord
from tinsmith.domain.event import CallCancelled
from tinsmith.domain.ids import message_id, message_ordinal, now_ms
from tinsmith.domain.message import AssistantMessage, Message, ToolCall, Usage
from tinsmith.domain.turn import CallRecord, TurnRecord
from tinsmith.engine.repair import missing_results
from tinsmith.store import Session, UsageRecord


def close_open_turns(session: Session, conversation_id: str) -> tuple[TurnRecord, ...]:
    """Write the missing results and the ends of turns whose process died. Returns the ended records."""
    open_turns = [record for record in session.turns.all(conversation_id) if record.state != "ended"]
    if not open_turns:
        return ()
    for ending in open_calls(session, conversation_id):
        session.pending.settle(conversation_id, ending.call.call_id)
        session.calls.put(conversation_id, ending.call)
        session.messages.put(conversation_id, ending.message)
    messages = session.messages.all(conversation_id)
    ended = tuple(
        msgspec.structs.replace(
            record,
            state="ended",
            outcome="interrupted",
            ended_at=now_ms(),
            usage=_usage(messages, record.turn_id),
            error=ErrorRecord(
                "internal",
                "interrupted",
                "The server process ended during this turn. What was finished is kept; send a message to go on.",
            ),
        )
        for record in open_turns
    )
    for record in ended:
        session.turns.put(record)
        session.usage.put(conversation_id, UsageRecord(record.turn_id, record.role, record.model, record.usage))
    return ended


def open_calls(session: Session, conversation_id: str) -> tuple[CallCancelled, ...]:
    """A result and an end for each call that has none; of one that was marked as begun the effect is unknown."""
    records = {call.call_id: call for call in session.calls.all(conversation_id)}
    begun = {call_id for call_id, call in records.items() if call.begun_at and not call.ended_at}
    messages = session.messages.all(conversation_id)
    arguments = {call.call_id: call.arguments for call in _calls(messages)}
    ordinal = message_ordinal(session.messages.next_id(conversation_id))
    endings: list[CallCancelled] = []
    for number, result in enumerate(missing_results(messages, begun), start=ordinal):
        known = records.get(result.call_id) or CallRecord(result.call_id, result.turn_id, result.name, result.name)
        endings.append(
            CallCancelled(
                msgspec.structs.replace(known, status="cancelled", ended_at=now_ms()),
                arguments[result.call_id],
                msgspec.structs.replace(result, message_id=message_id(number), created_at=now_ms()),
            )
        )
    return tuple(endings)


def _usage(messages: Sequence[Message], turn_id: str) -> Usage:
    """What the answers of a turn say that they used."""
    answers = [each for each in messages if isinstance(each, AssistantMessage) and each.turn_id == turn_id]
    return sum((answer.usage for answer in answers), Usage())


def _calls(messages: Sequence[Message]) -> list[ToolCall]:
    return [call for message in messages if isinstance(message, AssistantMessage) for call in message.calls]
