"""Who follows a conversation is told the same as who runs it, whenever he looks: all of it, once, in its order."""

import asyncio
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tinsmith.domain.conversation import Conversation
from tinsmith.domain.event import (
    AnswerReceived,
    CallCancelled,
    CallFinished,
    CallStarted,
    ConversationChanged,
    SteeringTaken,
    ToolCallDetected,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from tinsmith.domain.ids import message_id
from tinsmith.domain.message import AssistantMessage, TextPart, ToolCall, ToolMessage, UserMessage
from tinsmith.domain.turn import CallRecord, TurnRecord
from tinsmith.services.following import Told, first_seen, look, tell
from tinsmith.services.interruption import close_open_turns
from tinsmith.services.journal import _keep
from tinsmith.services.rewinding import rewind
from tinsmith.store import InMemoryStore

C = "c_1"
HOLDER = 4711
TURNS = st.lists(
    st.tuples(st.lists(st.lists(st.booleans(), max_size=3), max_size=3), st.booleans(), st.sampled_from(["ok", "bad"])),
    min_size=1,
    max_size=4,
)
"""Per turn: its rounds, each a list of calls that are marked as begun or not; whether it is steered; how it ends."""


def happening(turns):
    """What the holder stores and tells, one event after the other."""
    ordinal = 0
    for number, (rounds, is_steered, ending) in enumerate(turns):
        turn_id = f"t_{number}"
        record = TurnRecord(turn_id, C, "go", "direct", "m", number + 1)
        yield Told(turn_id, TurnStarted(record, UserMessage(message_id(ordinal), turn_id, (TextPart("go"),))))
        ordinal += 1
        for marked in rounds:
            calls = tuple(ToolCall(f"k_{ordinal}_{place}", "bash", "{}") for place in range(len(marked)))
            answer = AssistantMessage(message_id(ordinal), turn_id, f"i_{ordinal}", "text", calls=calls)
            yield Told(turn_id, AnswerReceived(answer))
            ordinal += 1
            for call, is_marked in zip(calls, marked, strict=True):
                made = CallRecord(call.call_id, turn_id, "bash", "Run", "running", begun_at=1)
                if is_marked:
                    yield Told(turn_id, CallStarted(made, "{}", is_marked=True))
                ended = replace(made, status="completed", ended_at=2)
                result = ToolMessage(message_id(ordinal), turn_id, call.call_id, "bash", "done")
                yield Told(turn_id, CallFinished(ended, "{}", result))
                ordinal += 1
        if is_steered:
            steering = UserMessage(message_id(ordinal), turn_id, (TextPart("also"),), is_steering=True)
            yield Told(turn_id, SteeringTaken(steering))
            ordinal += 1
        outcome = "completed" if ending == "ok" else "error"
        end = TurnCompleted if ending == "ok" else TurnFailed
        yield Told(turn_id, end(replace(record, state="ended", outcome=outcome)))


class Follower:
    def __init__(self, storage):
        self.storage = storage
        self.seen = first_seen(storage.read(lambda session: look(session, C, None)), HOLDER)
        self.events = []

    def look(self, holder=HOLDER):
        events, self.seen = tell(self.seen, self.storage.read(lambda session: look(session, C, self.seen)), holder)
        self.events += events


def store(storage, closure):
    return asyncio.run(storage.write(closure))


def opened():
    storage = InMemoryStore()
    store(storage, lambda session: session.conversations.put(Conversation(C, "/w", 1, 1)))
    return storage


def plain(events, *left_out):
    """The events, those of a turn's start without what it came to since."""
    kept = [each for each in events if not isinstance(each.body, left_out)]
    return [Told(each.turn_id, each.body.message) if isinstance(each.body, TurnStarted) else each for each in kept]


@settings(deadline=None)
@given(TURNS, st.sets(st.integers(0, 20), min_size=8), st.integers(0, 6))
def test_who_looks_now_and_then_is_told_the_same_in_order(turns, looks, start):
    storage = opened()
    told = list(happening(turns))
    follower = None
    told_before = 0
    for place, event in enumerate(told):
        if place == min(start, len(told) - 1):
            follower, told_before = Follower(storage), place
        store(storage, lambda session, event=event: _keep(session, C, [event.body]))
        if follower is not None and place in looks:
            follower.look()
            follower.look()
    if follower is None:
        return
    follower.look()
    follower.look()
    rest = (CallStarted, ConversationChanged, ToolCallDetected)
    assert plain(follower.events, *rest) == plain(told[told_before:], *rest)
    started = [each.body.call.call_id for each in follower.events if isinstance(each.body, CallStarted)]
    assert len(started) == len(set(started))
    states = [each.body.state for each in follower.events if isinstance(each.body, ConversationChanged)]
    assert states[-1:] in ([], ["idle"])
    assert all(before != after for before, after in pairwise(states))


@given(TURNS, st.integers(0, 40))
def test_a_dead_holders_turn_is_told_to_its_end_when_it_is_closed(turns, kill):
    storage = opened()
    told = list(happening(turns))[: kill + 1]
    for event in told:
        store(storage, lambda session, event=event: _keep(session, C, [event.body]))
    follower = Follower(storage)
    open_turns = [each.turn_id for each in told if isinstance(each.body, TurnStarted)]
    open_turns = [each for each in open_turns if not any(is_end(event, each) for event in told)]
    follower.look(None)
    store(storage, lambda session: close_open_turns(session, C))
    follower.look(None)
    ends = [each for each in follower.events if isinstance(each.body, TurnFailed | TurnCompleted)]
    assert [(each.turn_id, each.body.record.outcome) for each in ends] == [(each, "interrupted") for each in open_turns]
    of_turns = [each for each in follower.events if each.turn_id]
    assert not ends or of_turns[-1] == ends[-1]
    calls = {call.call_id for each in told if isinstance(each.body, AnswerReceived) for call in each.body.message.calls}
    answered = {each.body.call.call_id for each in told if isinstance(each.body, CallFinished | CallCancelled)}
    closed = {each.body.call.call_id for each in of_turns if isinstance(each.body, CallFinished)}
    assert closed == calls - answered


def is_end(event, turn_id):
    return event.turn_id == turn_id and isinstance(event.body, TurnCompleted | TurnFailed)


def test_a_rewind_is_told_as_something_to_draw_anew():
    storage = opened()
    follower = Follower(storage)
    for event in happening([([], False, "ok")] * 2):
        store(storage, lambda session, event=event: _keep(session, C, [event.body]))
    follower.look()
    del follower.events[:]
    store(storage, lambda session: rewind(session, C, "t_0"))
    follower.look()
    follower.look()
    assert follower.events == [Told("", ConversationChanged("idle", "", HOLDER, is_anew=True))]
    for event in list(happening([([], False, "ok")] * 3))[4:]:
        message = getattr(event.body, "message", None)
        body = event.body if message is None else replace(event.body, message=replace(message, message_id="m00000002"))
        store(storage, lambda session, body=body: _keep(session, C, [body]))
    follower.look()
    assert [type(each.body) for each in follower.events[1:]] == [TurnStarted, TurnCompleted]
