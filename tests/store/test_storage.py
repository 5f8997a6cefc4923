"""What both stores promise: typed records, pages, atomic closures, and that one bad record harms no other."""

import logging
from contextlib import contextmanager

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tinsmith.domain.conversation import Conversation
from tinsmith.domain.errors import InternalError, PersistenceError, SchemaError
from tinsmith.domain.ids import message_id
from tinsmith.domain.message import AssistantMessage, Sealed, TextPart, ToolCall, ToolMessage, Usage, UserMessage
from tinsmith.domain.turn import CallRecord, TurnRecord
from tinsmith.store import ConversationPage, InMemoryStore, MessagePage, Note, Session, Store, UsageRecord
from tinsmith.store.codec import encode_key
from tinsmith.store.env import Environment
from tinsmith.store.inmemory import _MemoryTransaction
from tinsmith.store.transaction import Span

C = "c_1"


@pytest.fixture(params=["disk", "memory"])
async def storage(request, tmp_path):
    store = Store.open(str(tmp_path / "store")) if request.param == "disk" else InMemoryStore()
    yield store
    await store.close()


def user(ordinal: int, text: str = "hello") -> UserMessage:
    return UserMessage(message_id(ordinal), "t_1", (TextPart(text),), created_at=ordinal)


def plant(keyspace: str, key: bytes, value: bytes):
    """A closure that stores bytes as they are, as a fault of the disk or another version would leave them."""
    return lambda session: session._transaction.put(keyspace, key, value)


async def test_every_kind_of_record_comes_back(storage):
    conversation = Conversation(C, "/work", 1, 2, "A title", "direct", "m", usage=Usage(1, 2, 3), context_used=7)
    messages = (
        user(0),
        AssistantMessage(
            "m00000001",
            "t_1",
            "i_1",
            "",
            calls=(ToolCall("k:0", "read", '{"path":"ä"}'),),
            sealed=(Sealed("anthropic host m", '{"type":"thinking","thinking":"ä","signature":"Eq=="}', 2, 1),),
        ),
        ToolMessage("m00000002", "t_1", "k:0", "read", "text\n\0", mutation_state="unknown", marks=("cut",)),
    )
    turn = TurnRecord("t_1", C, "hello", "direct", "m", 1, state="ended", outcome="completed", usage=Usage(1))
    call = CallRecord("k:0", "t_1", "read", begun_at=5, ended_at=6, status="completed")
    note = Note("scratchpad:a:b", "content", 9)
    usage = UsageRecord("t_1", "direct", "m", Usage(1, 2, 3, 4, 5))

    def write(session: Session) -> None:
        session.conversations.put(conversation)
        for message in messages:
            session.messages.put(C, message)
        session.turns.put(turn)
        session.calls.put(C, call)
        session.notes.put(C, note)
        session.usage.put(C, usage)
        session.overrides.put({"models": {"direct": "x"}})

    await storage.write(write)
    assert storage.read(
        lambda session: (
            session.conversations.get(C),
            session.messages.all(C),
            session.messages.get(C, "m00000001"),
            session.turns.get(C, "t_1"),
            session.turns.find("t_1"),
            session.calls.get(C, "k:0"),
            session.notes.get(C, "scratchpad:a:b"),
            session.usage.get(C, "t_1"),
            session.overrides.get(),
            session.set_aside,
        )
    ) == (conversation, messages, messages[1], turn, turn, call, note, usage, {"models": {"direct": "x"}}, ())


async def test_an_answer_that_was_stored_before_there_were_sealed_parts_is_read(storage):
    old = b'{"item_id":"i_1","message_id":"m00000000","text":"hello","turn_id":"t_1","type":"assistant"}'
    await storage.write(plant("message", encode_key(C, "m00000000"), old))
    assert storage.read(lambda s: s.messages.get(C, "m00000000")) == AssistantMessage(
        "m00000000", "t_1", "i_1", "hello"
    )


async def test_an_empty_store_has_nothing(storage):
    assert storage.read(
        lambda session: (
            session.conversations.get(C),
            session.conversations.newest(),
            session.messages.all(C),
            session.messages.next_id(C),
            session.messages.page(C),
            session.turns.find("t_1"),
            session.overrides.get(),
            session.meta.active_conversation("/work"),
            session.meta.valid_settings(),
            session.leases.get(C),
        )
    ) == (None, ConversationPage(()), (), "m00000000", MessagePage(()), None, {}, None, frozenset(), None)


async def test_records_of_one_conversation_stay_apart_from_its_neighbours(storage):
    def write(session: Session) -> None:
        for conversation_id in ("c", "c_1", "c_10", "c_2"):
            session.messages.append(conversation_id, user(0, conversation_id))
            session.calls.put(conversation_id, CallRecord(conversation_id, "t", "read"))
            session.turns.put(TurnRecord(f"t{conversation_id}", conversation_id, "", "direct", "m", 1))

    await storage.write(write)
    found = storage.read(lambda s: (s.messages.all(C), s.calls.all(C), s.turns.all(C), s.turns.find("tc_10")))
    assert [message.text for message in found[0]] == [C]
    assert [call.call_id for call in found[1]] == [C]
    assert [turn.conversation_id for turn in found[2]] == [C]
    assert found[3].conversation_id == "c_10"


async def test_appended_messages_are_numbered_in_order(storage):
    stored = [await storage.write(lambda s, n=n: s.messages.append(C, user(99, str(n)))) for n in range(12)]
    assert [message.message_id for message in stored] == [message_id(n) for n in range(12)]
    assert storage.read(lambda s: s.messages.all(C)) == tuple(stored)
    assert storage.read(lambda s: s.messages.last(C, 3)) == tuple(stored[-3:])
    assert storage.read(lambda s: s.messages.last(C, 99)) == tuple(stored)


async def test_a_stored_message_can_be_replaced(storage):
    await storage.write(lambda s: [s.messages.append(C, user(0, text)) for text in "abc"])
    await storage.write(lambda s: s.messages.put(C, user(1, "new")))
    assert [message.text for message in storage.read(lambda s: s.messages.all(C))] == ["a", "new", "c"]


@pytest.mark.parametrize("limit", [1, 3, 4, 7, 100])
@pytest.mark.parametrize("direction", ["older", "newer"])
async def test_pages_cover_the_transcript_once(storage, direction, limit):
    await storage.write(lambda s: [s.messages.append(C, user(0)) for _ in range(7)])
    seen, cursor = [], None
    while True:
        page = storage.read(lambda s, at=cursor: s.messages.page(C, limit=limit, cursor=at, direction=direction))
        assert 1 <= len(page.messages) <= limit
        seen += [message.message_id for message in page.messages]
        cursor = page.next_cursor
        if cursor is None:
            break
    whole = [message_id(n) for n in range(7)]
    assert seen == (whole if direction == "newer" else whole[::-1])


@pytest.mark.parametrize("cursor", ["", "x", "m", "c_1"])
async def test_a_cursor_from_nowhere_is_refused(storage, cursor):
    with pytest.raises(SchemaError, match="cursor"):
        storage.read(lambda s: s.messages.page(C, cursor=cursor))
    with pytest.raises(SchemaError, match="cursor"):
        storage.read(lambda s: s.conversations.newest(cursor=cursor))


async def test_conversations_are_listed_newest_first_and_filtered(storage):
    def make(number: int, workspace: str = "/a", title: str = "", **more) -> Conversation:
        return Conversation(f"c_{number}", workspace, 0, number // 2, title, **more)

    every = [
        make(1, title="Fix the Größe of BOXES"),
        make(2, "/b", title="fix boxes"),
        make(3, title="boxes of tea"),
        make(4, title="old boxes", is_archived=True),
        make(5),
    ]
    await storage.write(lambda s: [s.conversations.put(conversation) for conversation in every])

    def ids(**filters) -> list[str]:
        page = storage.read(lambda s: s.conversations.newest(**filters))
        return [conversation.conversation_id for conversation in page.conversations]

    assert ids() == ["c_5", "c_3", "c_2", "c_1"]
    assert ids(workspace="/a") == ["c_5", "c_3", "c_1"]
    assert ids(workspace="/none") == []
    assert ids(query="boxes FIX") == ["c_2", "c_1"]
    assert ids(query="GRÖSSE") == ["c_1"]
    assert ids(is_archived=True) == ["c_4"]

    first = storage.read(lambda s: s.conversations.newest(limit=3))
    rest = storage.read(lambda s: s.conversations.newest(limit=3, cursor=first.next_cursor))
    assert [c.conversation_id for c in (*first.conversations, *rest.conversations)] == ["c_5", "c_3", "c_2", "c_1"]
    assert rest.next_cursor is None


async def test_turns_are_listed_by_age_whatever_their_ids(storage):
    turns = [TurnRecord(name, C, "", "direct", "m", age) for age, name in enumerate("zqa")]
    await storage.write(lambda s: [s.turns.put(turn) for turn in reversed(turns)])
    assert storage.read(lambda s: s.turns.all(C)) == tuple(turns)


async def test_notes_are_found_by_the_beginning_of_their_ids(storage):
    long = "scratchpad:" + "k" * 300
    names = ["plan", "scratchpad:a", "scratchpad:a:b", long + "1", long + "2", "turn_record-t"]
    await storage.write(lambda s: [s.notes.put(C, Note(name, name, 0)) for name in names])

    def ids(prefix: str) -> set[str]:
        return {note.note_id for note in storage.read(lambda s: s.notes.all(C, prefix))}

    assert ids("") == set(names)
    assert ids("scratchpad:a") == {"scratchpad:a", "scratchpad:a:b"}
    assert ids(long) == {long + "1", long + "2"}
    assert ids(long + "2") == {long + "2"}
    assert await storage.write(lambda s: s.notes.delete(C, long + "1"))
    assert not await storage.write(lambda s: s.notes.delete(C, long + "1"))
    assert ids(long) == {long + "2"}


async def test_long_and_foreign_workspaces_keep_their_own_conversation(storage):
    """ST-11: a path beyond 511 bytes, non-ASCII letters, the same first 511 bytes, an undecodable file name."""
    paths = ["/p" * 300, "/p" * 300 + "q", "/ü" * 200, "C:\\x", "/\udcff", ""]

    def write(session: Session) -> None:
        for number, path in enumerate(paths):
            session.meta.set_active_conversation(path, f"c_{number}")
            session.conversations.put(Conversation(f"c_{number}", path, 0, number))

    await storage.write(write)
    assert storage.read(lambda s: [s.meta.active_conversation(path) for path in paths]) == [f"c_{n}" for n in range(6)]
    listed = storage.read(lambda s: [s.conversations.newest(workspace=path).conversations for path in paths])
    assert [[conversation.conversation_id for conversation in found] for found in listed] == [
        [f"c_{n}"] for n in range(6)
    ]
    await storage.write(lambda s: s.meta.set_active_conversation(paths[0], None))
    assert storage.read(lambda s: [s.meta.active_conversation(path) for path in paths[:2]]) == [None, "c_1"]


async def test_a_lone_surrogate_does_not_stop_a_write(storage):
    stored = await storage.write(lambda s: s.messages.append(C, user(0, "a\ud800b")))
    assert stored.text == "a\ud800b"
    assert [message.text for message in storage.read(lambda s: s.messages.all(C))] == ["a\ufffdb"]


async def test_hashes_of_valid_settings_are_bounded_newest_kept(storage):
    await storage.write(lambda s: s.meta.remember_valid_settings(f"{n:03}" for n in range(60)))
    await storage.write(lambda s: s.meta.remember_valid_settings(["new"] * 2 + [f"x{n}" for n in range(9)]))
    found = storage.read(lambda s: s.meta.valid_settings())
    assert len(found) == 64
    assert {"new", "x0", "x8", "059"} <= found
    assert "000" not in found


async def test_a_failed_closure_leaves_nothing(storage):
    await storage.write(lambda s: [s.messages.append(C, user(0, text)) for text in "ab"])

    def fail(session: Session) -> None:
        session.messages.append(C, user(0, "c"))
        session.messages.put(C, user(0, "changed"))
        session.conversations.put(Conversation(C, "/", 0, 0))
        session.notes.put(C, Note("n", "", 0))
        session.notes.delete(C, "n")
        raise LookupError("on purpose")

    with pytest.raises(LookupError, match="on purpose"):
        await storage.write(fail)
    assert storage.read(lambda s: [message.text for message in s.messages.all(C)]) == ["a", "b"]
    assert storage.read(lambda s: (s.conversations.get(C), s.notes.all(C))) == (None, ())


async def test_a_closure_sees_its_own_changes(storage):
    def write(session: Session) -> tuple[str, ...]:
        session.messages.append(C, user(0, "a"))
        session.messages.append(C, user(0, "b"))
        return tuple(message.text for message in session.messages.all(C))

    assert await storage.write(write) == ("a", "b")


async def test_reading_cannot_write(storage):
    for change in (lambda s: s.messages.append(C, user(0)), lambda s: s.notes.delete(C, "n")):
        with pytest.raises(InternalError) as caught:
            storage.read(change)
        assert caught.value.code == "readOnlyTransaction"
    assert storage.read(lambda s: s.messages.all(C)) == ()


async def test_an_unreadable_record_is_set_aside_and_its_neighbours_stay(storage, caplog):
    await storage.write(lambda s: [s.messages.append(C, user(0, text)) for text in "abcd"])
    await storage.write(plant("message", encode_key(C, "m00000001"), b'{"message_id":"m0000'))
    await storage.write(plant("message", encode_key(C, "m00000003"), b'{"type":"secret words"}'))

    with caplog.at_level(logging.WARNING):
        found = storage.read(lambda s: ([message.text for message in s.messages.all(C)], s.set_aside))
    assert found == (["a", "c"], ("message/c_1:m00000001", "message/c_1:m00000003"))
    assert "message/c_1:m00000001" in caplog.text
    assert "secret" not in caplog.text

    assert storage.read(lambda s: s.messages.page(C, limit=1)).next_cursor == "m00000002"
    assert storage.read(lambda s: s.messages.page(C, limit=1, cursor="m00000002")).messages[0].text == "a"
    with pytest.raises(PersistenceError) as caught:
        storage.read(lambda s: s.messages.get(C, "m00000001"))
    assert caught.value.data == {"record": "message/c_1:m00000001"}

    appended = await storage.write(lambda s: s.messages.append(C, user(0, "e")))
    assert appended.message_id == "m00000004"
    assert [message.text for message in storage.read(lambda s: s.messages.all(C))] == ["a", "c", "e"]


async def test_a_closed_store_says_so(storage):
    await storage.close()
    await storage.close()
    with pytest.raises(PersistenceError, match="closed"):
        storage.read(lambda s: s.messages.all(C))
    with pytest.raises(PersistenceError, match="closed"):
        await storage.write(lambda s: s.messages.all(C))


_keys = st.binary(min_size=1, max_size=3)
_spans = st.builds(Span, st.binary(max_size=2), st.none() | st.binary(min_size=1, max_size=3))
_steps = st.one_of(
    st.tuples(st.just("put"), _keys, st.binary(max_size=4)),
    st.tuples(st.just("delete"), _keys),
    st.tuples(st.just("scan"), _spans, st.booleans()),
    st.tuples(st.just("get"), _keys),
    st.tuples(st.just("clear")),
)
_transactions = st.lists(st.tuples(st.lists(_steps, max_size=8), st.booleans()), max_size=5)


@contextmanager
def _both(directory):
    """Both transactions' owners, with empty keyspaces."""
    environment = Environment(str(directory), lambda _: None, lambda _: None, map_size=1 << 24, map_limit=1 << 24)
    memory = InMemoryStore()
    try:
        yield environment.write, lambda closure: _in_memory(memory, closure)
    finally:
        environment.close()


def _in_memory(memory: InMemoryStore, closure):
    transaction = _MemoryTransaction(memory._tables, may_change=True)
    try:
        return closure(transaction)
    except ZeroDivisionError:
        transaction.undo()
        raise


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_transactions)
def test_disk_and_memory_agree_on_any_history(tmp_path_factory, transactions):
    with _both(tmp_path_factory.mktemp("store")) as runs:
        for steps, must_fail in transactions:
            assert _outcome(runs[0], steps, must_fail) == _outcome(runs[1], steps, must_fail)
        whole = [("scan", Span(), False), ("scan", Span(), True)]
        assert _outcome(runs[0], whole, False) == _outcome(runs[1], whole, False)


def _outcome(run, steps, must_fail):
    seen = []

    def closure(transaction):
        seen.clear()
        for name, *arguments in steps:
            if name == "scan":
                span, reverse = arguments
                seen.append(list(transaction.scan("call", span, reverse=reverse)))
            else:
                seen.append(getattr(transaction, name)("call", *arguments))
        return 1 // (not must_fail)

    try:
        run(closure)
    except ZeroDivisionError:
        return "failed", seen
    return "done", seen


async def test_records_are_json_objects_on_disk(storage):
    await storage.write(lambda s: s.notes.put(C, Note("n", "x", 1)))
    raw = storage.read(lambda s: s._transaction.get("conversation_note", encode_key(C, "n")))
    assert raw == b'{"content":"x","note_id":"n","updated_at":1}'
    assert msgspec.json.decode(storage.read(lambda s: s._transaction.get("meta", b"schema_version"))) == 3
