"""The journal: stored before shown, numbered without gaps, deltas joined only while the reader is slow."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.domain.errors import PersistenceError
from tinsmith.domain.event import (
    Notice,
    OutputStreamed,
    PromptBuilt,
    ReasoningStreamed,
    SettingsChanged,
    SteeringTaken,
    TextStreamed,
)
from tinsmith.domain.message import TextPart, UserMessage
from tinsmith.services.journal import JOINED_CHARS, REPLAY_CONVERSATIONS, REPLAY_EVENTS, Journal
from tinsmith.store import InMemoryStore

NOTE = Notice("info", "x", "Something.")


def opened(store=None):
    journal = Journal(store or InMemoryStore(), "epoch")
    events = []
    journal.subscribe(events.append)
    return journal, events


def bodies(events):
    return [event.body for event in events]


def test_events_are_numbered_per_conversation_and_the_invisible_are_not():
    journal, events = opened()
    for conversation_id, body in (
        ("a", NOTE),
        ("b", NOTE),
        ("a", PromptBuilt(1, 1, 1, 0, 0)),
        ("a", NOTE),
        ("b", NOTE),
    ):
        journal.publish(conversation_id, "t", body)
    assert [(event.conversation_id, event.seq) for event in events] == [
        ("a", 1),
        ("b", 1),
        ("a", 0),
        ("a", 2),
        ("b", 2),
    ]
    assert (journal.seq("a"), journal.seq("nobody")) == (2, 0)


def test_what_a_client_does_not_want_leaves_no_gap():
    journal, events = opened()
    journal.muted = frozenset({ReasoningStreamed})
    journal.publish("a", "t", TextStreamed("i", 0, "x"))
    journal.publish("a", "t", ReasoningStreamed("i", 0, "hm"))
    journal.publish("a", "t", TextStreamed("i", 1, "y"))
    assert [event.seq for event in events] == [1, 0, 2]
    assert [event.seq for event in journal.since("a", 0)] == [1, 2]


def test_deltas_leave_at_once_while_the_reader_keeps_up():
    journal, events = opened()
    for number, letter in enumerate("abc"):
        journal.publish("a", "t", TextStreamed("i", number, letter))
    assert [body.text for body in bodies(events)] == ["a", "b", "c"]


async def test_a_slow_reader_gets_neighbours_joined_and_in_time():
    journal, events = opened()
    journal.pace = lambda: 0.02
    for number, letter in enumerate("abc"):
        journal.publish("a", "t", TextStreamed("i", number, letter))
    assert events == []
    async with asyncio.timeout(5):
        while not events:
            await asyncio.sleep(0.001)
    assert bodies(events) == [TextStreamed("i", 0, "abc")]


async def test_nothing_overtakes_a_delta_that_waits():
    journal, events = opened()
    journal.pace = lambda: 60.0
    journal.publish("a", "t", TextStreamed("i", 0, "text"))
    journal.publish("a", "t", ReasoningStreamed("i", 0, "hm"))
    journal.publish("b", "t", NOTE)
    journal.publish("a", "t", OutputStreamed("k", 0, "out"))
    journal.publish("a", "t", OutputStreamed("other", 0, "put"))
    journal.publish("a", "t", NOTE)
    of_a = [event for event in events if event.conversation_id == "a"]
    assert bodies(of_a) == [
        TextStreamed("i", 0, "text"),
        ReasoningStreamed("i", 0, "hm"),
        OutputStreamed("k", 0, "out"),
        OutputStreamed("other", 0, "put"),
        NOTE,
    ]
    assert [event.seq for event in of_a] == [1, 2, 3, 4, 5]


async def test_a_joined_delta_does_not_grow_for_ever():
    journal, events = opened()
    journal.pace = lambda: 60.0
    for number in range(3 * JOINED_CHARS // 100):
        journal.publish("a", "t", TextStreamed("i", number * 100, "x" * 100))
    journal.publish("a", "t", NOTE)
    texts = [body for body in bodies(events) if isinstance(body, TextStreamed)]
    assert all(len(body.text) <= JOINED_CHARS for body in texts)
    assert [body.offset for body in texts] == [sum(len(each.text) for each in texts[:n]) for n in range(len(texts))]


DELTAS = st.lists(
    st.tuples(
        st.sampled_from([TextStreamed, ReasoningStreamed, OutputStreamed]), st.sampled_from("ik"), st.text(max_size=9)
    ),
    max_size=40,
)


@given(DELTAS, st.lists(st.booleans(), min_size=40, max_size=40))
def test_whatever_the_pace_the_text_arrives_whole_and_in_order(deltas, paces):
    async def play():
        journal, events = opened()
        lengths = {}
        for (kind, item, text), is_slow in zip(deltas, paces, strict=False):
            journal.pace = (lambda: 60.0) if is_slow else (lambda: 0.0)
            offset = lengths.get((kind, item), 0)
            lengths[kind, item] = offset + len(text)
            journal.publish("a", "t", kind(item, offset, text))
        journal.publish("a", "t", NOTE)
        return events

    events = asyncio.run(play())
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    got = {}
    for body in bodies(events)[:-1]:
        key = (type(body), body.call_id if isinstance(body, OutputStreamed) else body.item_id)
        assert body.offset == len(got.get(key, ""))
        got[key] = got.get(key, "") + body.text
    sent = {}
    for kind, item, text in deltas:
        sent[kind, item] = sent.get((kind, item), "") + text
    assert got == sent


def test_since_gives_what_was_missed_or_says_that_it_cannot():
    journal, events = opened()
    assert journal.since("a", 0) == ()
    assert journal.since("a", 3) is None
    for _ in range(5):
        journal.publish("a", "t", NOTE)
    assert journal.since("a", 2) == tuple(events[2:])
    assert journal.since("a", 5) == ()
    assert journal.since("a", 6) is None


def test_the_replay_is_bounded_per_conversation_and_over_all():
    journal, events = opened()
    for _ in range(REPLAY_EVENTS + 10):
        journal.publish("a", "t", NOTE)
    assert journal.since("a", 9) is None
    assert len(journal.since("a", 10)) == REPLAY_EVENTS
    for number in range(REPLAY_CONVERSATIONS):
        journal.publish(f"b{number}", "t", NOTE)
    assert journal.since("a", REPLAY_EVENTS) is None
    assert journal.since("a", REPLAY_EVENTS + 10) == ()
    assert journal.since("b0", 0) == (events[REPLAY_EVENTS + 10],)
    journal.publish("a", "t", NOTE)
    assert [event.seq for event in journal.since("a", REPLAY_EVENTS + 10)] == [REPLAY_EVENTS + 11]


async def test_since_includes_the_delta_that_waits():
    journal, _ = opened()
    journal.pace = lambda: 60.0
    journal.publish("a", "t", TextStreamed("i", 0, "waiting"))
    assert [event.body.text for event in journal.since("a", 0)] == ["waiting"]


def test_a_faulty_subscriber_harms_nobody_and_may_leave_meanwhile(caplog):
    journal, events = opened()

    def fail(event):
        leave()
        raise ZeroDivisionError

    leave = journal.subscribe(fail)
    later = []
    journal.subscribe(later.append)
    journal.publish("a", "t", NOTE)
    journal.publish("a", "t", NOTE)
    assert len(events) == len(later) == 2
    assert caplog.text.count("a subscriber failed on Notice") == 1


async def test_what_cannot_be_stored_is_not_shown():
    class Full(InMemoryStore):
        async def write(self, closure):
            raise PersistenceError("storeFull", "Full.")

    journal, events = opened(Full())
    message = UserMessage("m00000001", "t", (TextPart("left"),))
    with pytest.raises(PersistenceError):
        await journal.bind("a", "t").record(NOTE, SteeringTaken(message))
    assert events == []
    await journal.bind("a", "t").record(NOTE)
    assert bodies(events) == [NOTE]


async def test_one_record_is_one_transaction_and_what_carries_nothing_is_none():
    class Counting(InMemoryStore):
        writes = 0

        async def write(self, closure):
            self.writes += 1
            return await super().write(closure)

    store = Counting()
    journal, events = opened(store)
    messages = [UserMessage(f"m{number:08d}", "t", (TextPart("left"),)) for number in range(2)]
    await journal.bind("a", "t").record(*(SteeringTaken(message) for message in messages), NOTE)
    await journal.bind("a", "t").record(NOTE)
    assert bodies(events) == [*(SteeringTaken(message) for message in messages), NOTE, NOTE]
    assert store.writes == 1
    assert store.read(lambda session: session.messages.all("a")) == tuple(messages)


def test_an_announcement_reaches_every_conversation_that_spoke():
    journal, events = opened()
    journal.publish("a", "t", NOTE)
    journal.publish("b", "t", NOTE)
    journal.announce(SettingsChanged(7))
    assert [(event.conversation_id, event.turn_id, event.seq) for event in events[2:]] == [("a", "", 2), ("b", "", 2)]
