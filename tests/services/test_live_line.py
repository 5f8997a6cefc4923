"""Laws of stored conversations under any sequence of turns, rewinds, forks, edits, deletions: the line that a model
sees is that of a tree with explicit parents, it can be sent, disk and memory agree, and an export comes back the same.
"""

import asyncio

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tinsmith.domain.conversation import Conversation
from tinsmith.domain.errors import SchemaError
from tinsmith.domain.ids import message_id, message_ordinal
from tinsmith.domain.message import AssistantMessage, Sealed, TextPart, ToolCall, ToolMessage, Usage, UserMessage
from tinsmith.domain.turn import CallRecord, TurnRecord, WindowEdges
from tinsmith.engine.repair import valid_history
from tinsmith.llm.history import check_history
from tinsmith.services.editing import delete, edit
from tinsmith.services.erasing import clear, erase
from tinsmith.services.forking import fork
from tinsmith.services.reception import receive
from tinsmith.services.rewinding import rewind, unrewind
from tinsmith.services.transfer import export
from tinsmith.store import InMemoryStore, Note, Store, UsageRecord
from tinsmith.store.transaction import KEYSPACES, Span

TEXTS = st.text(st.sampled_from("ab \n`ä\u2028\0"), max_size=6).map(lambda text: "t" + text)
ROUND = st.tuples(TEXTS, st.integers(0, 3))
STEP = {
    "turn": st.tuples(st.just("turn"), TEXTS, st.lists(ROUND, max_size=2), st.booleans()),
    "rewind": st.tuples(st.just("rewind"), st.integers(0, 3)),
    "unrewind": st.tuples(st.just("unrewind")),
    "fork": st.tuples(st.just("fork"), st.integers(0, 3)),
    "edit": st.tuples(st.just("edit"), st.integers(-3, 3), TEXTS),
    "delete": st.tuples(st.just("delete"), st.integers(-3, 3)),
    "switch": st.tuples(st.just("switch"), st.integers(0, 3)),
    "clear": st.tuples(st.just("clear")),
    "erase": st.tuples(st.just("erase")),
}
OFTEN = "turn " * 9 + "rewind " * 6 + "delete " * 4 + "unrewind " * 3 + "fork edit switch " * 2 + "clear erase"
STEPS = st.lists(st.sampled_from(OFTEN.split()).flatmap(STEP.get), min_size=4, max_size=16)


class Tree:
    """One conversation as explicit parents: `parent` by id, the head, and the heads that rewinds left."""

    def __init__(self, line=()):
        self.parent = {}
        self.turn = {}
        self.head = None
        self.left = []
        for identifier, turn in line:
            self.grow(identifier, turn)

    def grow(self, identifier, turn):
        self.parent[identifier] = self.head
        self.turn[identifier] = turn
        self.head = identifier
        self.left = []

    def line(self):
        found, at = [], self.head
        while at is not None:
            found.append(at)
            at = self.parent[at]
        return found[::-1]

    def rewind(self, head):
        if head != self.head:
            self.left.append(self.head)
            self.head = head

    def remove(self, identifier):
        above = self.parent[identifier]
        for child, parent in self.parent.items():
            if parent == identifier:
                self.parent[child] = above
        self.head = above if self.head == identifier else self.head
        self.left = [above if each == identifier else each for each in self.left]


class Teller:
    """Carries the same steps out in a store and in trees."""

    def __init__(self, storage):
        self.storage = storage
        self.trees = {}
        self.count = 0
        self.erased = []
        self.now = self.new()

    def do(self, closure):
        return asyncio.run(self.storage.write(closure))

    def new(self, line=()):
        self.count += 1
        identifier = f"c_{self.count}"
        self.do(lambda session: session.conversations.put(Conversation(identifier, "/w", 1, 1)))
        self.trees[identifier] = Tree(line)
        return identifier

    def live(self, identifier):
        return self.storage.read(lambda session: session.messages.all(identifier))

    def step(self, name, *arguments):
        getattr(self, name)(self.trees[self.now], *arguments)

    def turn(self, tree, text, rounds, is_steered):
        self.count += 1
        turn_id = f"t_{self.count}"
        ordinal = message_ordinal(self.storage.read(lambda session: session.messages.next_id(self.now)))
        messages = list(said(turn_id, ordinal, text, rounds, is_steered))

        def write(session):
            edges = WindowEdges(dropped_below=ordinal)
            record = TurnRecord(turn_id, self.now, text, "direct", "m", 1, "ended", "completed", edges=edges)
            session.turns.put(record)
            session.usage.put(self.now, UsageRecord(turn_id, "direct", "m", Usage(1, 1, 2)))
            session.notes.put(self.now, Note(f"scratchpad:{turn_id}", text, 1))
            for message in messages:
                session.messages.put(self.now, message)
                for call in message.calls if isinstance(message, AssistantMessage) else ():
                    session.calls.put(self.now, CallRecord(call.call_id, turn_id, "read", "Read", "completed", 1, 2))
            kept = session.conversations.get(self.now)
            session.conversations.put(msgspec.structs.replace(kept, edges=edges))

        self.do(write)
        assert messages[0].message_id not in tree.parent
        for message in messages:
            tree.grow(message.message_id, turn_id)

    def rewind(self, tree, number):
        turns = list(dict.fromkeys(tree.turn[each] for each in tree.line()))
        to = None if not turns or number >= len(turns) else turns[number]
        removed = self.do(lambda session: rewind(session, self.now, to))
        ends = [each for each in tree.line() if tree.turn[each] == to]
        tree.rewind(ends[-1] if ends else None)
        assert [record.turn_id for record in removed] == (turns if to is None else turns[number + 1 :])

    def unrewind(self, tree):
        if tree.left:
            self.do(lambda session: unrewind(session, self.now))
            tree.head = tree.left.pop()
        else:
            with pytest.raises(SchemaError, match="No rewind"):
                self.do(lambda session: unrewind(session, self.now))

    def fork(self, tree, number):
        turns = list(dict.fromkeys(tree.turn[each] for each in tree.line()))
        through = turns[number] if number < len(turns) else None
        kept = tree.line()
        if through is not None:
            kept = kept[: max(place for place, each in enumerate(kept) if tree.turn[each] == through) + 1]
        source = self.now
        target = self.new()
        self.do(lambda session: fork(session, source, through, session.conversations.get(target)))
        self.trees[target] = Tree((message.message_id, message.turn_id) for message in self.live(target))
        assert self.trees[target].line() == kept
        assert {message.turn_id for message in self.live(target)}.isdisjoint(tree.turn.values())

    def edit(self, tree, number, text):
        message = self.pick(number)
        if message is not None and not isinstance(message, ToolMessage):
            edited = self.do(lambda session: edit(session, self.now, message.message_id, text))
            assert text in [each.text for each in edited.messages if not isinstance(each, ToolMessage)]

    def delete(self, tree, number):
        message = self.pick(number)
        if message is not None:
            removed = self.do(lambda session: delete(session, self.now, message.message_id)).removed
            assert message.message_id in removed
            for each in removed:
                tree.remove(each)

    def pick(self, number):
        live = self.live(self.now)
        return live[number % len(live)] if live else None

    def switch(self, _tree, number):
        self.now = sorted(self.trees)[number % len(self.trees)]

    def clear(self, tree):
        self.do(lambda session: clear(session, self.now))
        tree.head, tree.left = None, []

    def erase(self, _tree):
        self.do(lambda session: erase(session, self.now))
        self.erased.append(self.now)
        del self.trees[self.now]
        self.now = min(self.trees) if self.trees else self.new()

    def told(self):
        """Everything that must be the same in another store: turns by their order, since forks make up ids."""
        found = {}
        for identifier in self.trees:
            names = {}
            live = self.live(identifier)
            for message in live:
                names.setdefault(message.turn_id, f"turn {len(names)}")
            kept = self.storage.read(lambda session, identifier=identifier: session.conversations.get(identifier))
            found[identifier] = (
                [msgspec.structs.replace(message, turn_id=names[message.turn_id]) for message in live],
                (kept.rewinds, kept.ordinals_used, kept.revision, kept.edges, kept.context_used, kept.title),
            )
        return found

    def check(self):
        for identifier, tree in self.trees.items():
            live = self.live(identifier)
            assert [message.message_id for message in live] == tree.line()
            assert valid_history(live) == live
            check_history(live)
            assert not live or isinstance(live[0], UserMessage)
            self.check_pages(identifier, live)
            self.check_export(identifier)
        for identifier in self.erased:
            assert self.storage.read(lambda session, identifier=identifier: rows(session, identifier)) == []

    def check_pages(self, identifier, live):
        for direction, expected in (("newer", live), ("older", live[::-1])):
            found, cursor = [], None
            while True:
                page = self.storage.read(
                    lambda session, cursor=cursor, direction=direction: session.messages.page(
                        identifier, limit=2, cursor=cursor, direction=direction
                    )
                )
                found += page.messages
                cursor = page.next_cursor
                if cursor is None:
                    break
            assert tuple(found) == tuple(expected)
        assert self.storage.read(lambda session: session.messages.last(identifier, 3)) == live[-3:]

    def check_export(self, identifier):
        text = self.storage.read(lambda session: export(session, identifier, "jsonl"))
        received = receive(text, lambda each: each)

        def write(session):
            session.conversations.put(received.head("c_import", "/w", 1))
            received.fill(session, "c_import")
            again = export(session, "c_import", "jsonl")
            history = session.messages.all("c_import")
            erase(session, "c_import")
            return again, history

        again, history = self.do(write)
        header, _, rest = text.partition("\n")
        assert again.partition("\n")[2] == rest
        assert {**msgspec.json.decode(again.partition("\n")[0]), "created_at": 0, "updated_at": 0} == {
            **msgspec.json.decode(header),
            "created_at": 0,
            "updated_at": 0,
        }
        bare = {"message_id": "", "turn_id": ""}
        assert [msgspec.structs.replace(each, **bare) for each in history] == [
            msgspec.structs.replace(each, **bare) for each in self.live(identifier)
        ]
        assert [message.message_id for message in history] == [message_id(place) for place in range(len(history))]


def rows(session, identifier):
    """The keys of a conversation in every keyspace."""
    exact, below = identifier.encode(), identifier.encode() + b":"
    return [
        (keyspace, key)
        for keyspace in KEYSPACES
        for key, _ in session._transaction.scan(keyspace, Span())
        if key == exact or key.startswith(below)
    ]


def said(turn_id, ordinal, text, rounds, is_steered):
    """The messages of a turn: what opens it, a round per entry with so many calls, and sometimes a steering message."""
    yield UserMessage(message_id(ordinal), turn_id, (TextPart(text), TextPart("[moment]", label="moment")), 1)
    for words, count in rounds:
        ordinal += 1
        calls = tuple(ToolCall(f"k_{turn_id}_{ordinal}_{number}", "read", "{}") for number in range(count))
        sealed = (Sealed("o", "{}", len(words), count),)
        item = f"i_{turn_id}_{ordinal}"
        usage = Usage(1, 1, 2)
        yield AssistantMessage(message_id(ordinal), turn_id, item, words, "hm", calls, usage=usage, sealed=sealed)
        for call in calls:
            ordinal += 1
            yield ToolMessage(message_id(ordinal), turn_id, call.call_id, "read", words)
    if is_steered and rounds:
        yield UserMessage(message_id(ordinal + 1), turn_id, (TextPart("also " + text),), 1, is_steering=True)


def tell(storage, steps):
    teller = Teller(storage)
    try:
        for step in steps:
            teller.step(*step)
        teller.check()
        return teller.told()
    finally:
        asyncio.run(storage.close())


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_any_sequence_leaves_a_history_that_can_be_sent(steps):
    tell(InMemoryStore(), steps)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_disk_and_memory_agree_on_any_sequence(tmp_path_factory, steps):
    assert tell(InMemoryStore(), steps) == tell(Store.open(str(tmp_path_factory.mktemp("store"))), steps)


@pytest.mark.long
@pytest.mark.timeout(900)
@settings(max_examples=10_000, deadline=None)
@given(STEPS)
def test_any_sequence_leaves_a_history_that_can_be_sent_at_length(steps):
    tell(InMemoryStore(), steps)


def test_the_window_stands_where_it_stood_at_the_end_of_the_turn():
    teller = Teller(InMemoryStore())
    for text in ("one", "two", "three"):
        teller.step("turn", text, [("t", 1)], False)

    def edges(identifier):
        kept = teller.storage.read(lambda session: session.conversations.get(identifier))
        return kept.edges.dropped_below, kept.context_used

    assert edges(teller.now) == (6, 0)
    teller.step("rewind", 1)
    assert edges(teller.now) == (3, 2)
    teller.step("rewind", 9)
    assert edges(teller.now) == (0, 0)
    teller.step("unrewind")
    teller.step("unrewind")
    assert edges(teller.now) == (6, 0)
    teller.step("fork", 1)
    assert edges("c_5") == (3, 2)
