"""A look through the whole store names what is wrong and nothing else; a backup is the store, or is not there."""

import asyncio
import os

import pytest
from tests.store.test_fulltext import found, say, user

from tinsmith.domain.conversation import Conversation
from tinsmith.domain.errors import PersistenceError
from tinsmith.domain.ids import message_id
from tinsmith.domain.turn import CallRecord, TurnRecord
from tinsmith.store import InMemoryStore, Note, Store, UsageRecord
from tinsmith.store.backup import back_up
from tinsmith.store.codec import encode_key
from tinsmith.store.leases import Lease
from tinsmith.store.segments import NAME
from tinsmith.store.transaction import Span
from tinsmith.store.verify import Finding, rebuild_index, verify

C = "c_1"
IN_INDEX = Finding(f"{NAME}/segment 0", "does not hold the words of its messages", is_index=True)


@pytest.fixture(params=["disk", "memory"])
async def storage(request, tmp_path):
    """A store of every kind of record, some of its messages packed."""
    store = Store.open(str(tmp_path / "store")) if request.param == "disk" else InMemoryStore()

    def fill(session) -> None:
        session.conversations.put(Conversation(C, "/w", 0, 0))
        session.turns.put(TurnRecord("t_1", C, "", "direct", "m", 1))
        session.calls.put(C, CallRecord("k:0", "t_1", "read"))
        session.notes.put(C, Note("scratchpad:a:b", "x" * 9, 9))
        session.notes.put(C, Note("n" * 600, "", 9))
        session.usage.put(C, UsageRecord("t_1", "direct", "m"))
        session.overrides.put({"models": {}})
        session.meta.set_active_conversation("/w" * 300, C)
        session.meta.remember_valid_settings(["abc"])
        session.leases.acquire(Lease(C, "s", 1, 1, "b", 1), lambda _: True)

    await store.write(fill)
    await say(store, *(f"word{number} fooBar" for number in range(700)))
    for _ in range(2):
        await store.write(lambda s: s.search.fold())
    await store.write(lambda s: s.messages.delete(C, message_id(3)))
    yield store
    await store.close()


def put(keyspace: str, key: bytes, value: bytes | None):
    """A closure that changes rows behind everybody's back."""

    def change(session) -> None:
        session.look(lambda rows: rows.delete(keyspace, key) if value is None else rows.put(keyspace, key, value))

    return change


async def test_a_sound_store_has_no_findings(storage):
    assert [*verify(storage)] == []
    await storage.write(lambda s: s.search.fold())
    assert [*verify(storage)] == []
    assert await rebuild_index(storage) == 699
    assert [*verify(storage)] == []
    assert len(found(storage, "word69")) == 11
    assert [*verify(InMemoryStore())] == []


TORN = b'{"torn'
USAGE = b'{"model":"m","role":"r","turn_id":"t_1"}'
CONVERSATION = b'{"conversation_id":"c_8","created_at":0,"updated_at":0,"workspace":"/"}'
CALL = b'{"call_id":"k","name":"read","turn_id":"t"}'


@pytest.mark.parametrize(
    ("keyspace", "key", "value", "problem"),
    [
        ("meta", b"valid_settings", TORN, "cannot be read"),
        ("config", b"runtime_overrides", b"", "cannot be read"),
        ("conversation_note", encode_key(C, "scratchpad:a:b"), TORN, "cannot be read"),
        ("usage", encode_key(C, "t_2", "parent"), USAGE, "holds a record of another name"),
        ("conversation", b"c_9", CONVERSATION, "holds a record of another name"),
        ("call", encode_key(C, "k:1"), CALL, "holds a record of another name"),
        ("call", encode_key("c_9", "k"), CALL, "belongs to the conversation c_9, which is not there"),
    ],
)
async def test_a_faulty_record_is_named(storage, keyspace, key, value, problem):
    await storage.write(put(keyspace, key, value))
    assert [*verify(storage)] == [Finding(f"{keyspace}/{key.decode()}", problem)]


async def test_a_torn_message_is_named_and_the_index_mended(storage):
    key = encode_key(C, message_id(5))
    await storage.write(put("message", key, TORN))
    torn = Finding(f"message/{key.decode()}", "cannot be read")
    assert [*verify(storage)] == [torn, IN_INDEX]
    await rebuild_index(storage)
    assert [*verify(storage)] == [torn]


async def test_a_false_index_is_noticed_and_mended(storage):
    waiting = encode_key(C, message_id(699))
    word = b"t" + bytes(4) + b"word7"
    faults = [
        (put(NAME, b"p" + waiting, None), Finding(f"message/{waiting.decode()}", "is not in the index", is_index=True)),
        (put(NAME, word, None), IN_INDEX),
        (put(NAME, word, bytes((8, 1))), IN_INDEX),
        (put(NAME, word, bytes((7,))), IN_INDEX),
        (put(NAME, b"t" + bytes(4) + b"never", bytes((7, 1))), IN_INDEX),
        (put(NAME, b"l" + encode_key(C, message_id(7)), bytes(4) + bytes((9,))), IN_INDEX),
    ]
    for fault, finding in faults:
        before = storage.read(lambda s: s.look(lambda rows: dict(rows.scan(NAME, Span()))))
        await storage.write(fault)
        assert [*verify(storage)] == [finding]

        def restore(session, before=before) -> None:
            session.look(lambda rows: rows.clear(NAME))
            session.look(lambda rows: [rows.put(NAME, *row) for row in before.items()])

        await storage.write(restore)
        assert [*verify(storage)] == []


async def test_a_backup_is_the_store_as_it_was(tmp_path):
    store = Store.open(str(tmp_path / "store"))
    await store.write(lambda s: s.conversations.put(Conversation(C, "/w", 0, 0)))
    await say(store, *("word " * 100 for _ in range(300)))
    await store.write(lambda s: [s.messages.delete(C, message_id(number)) for number in range(299)])
    size = await asyncio.to_thread(back_up, store, str(tmp_path / "backup"))
    await store.write(lambda s: s.messages.append(C, user("later word")))
    await store.close()
    copy = tmp_path / "backup" / "store" / "data.mdb"
    assert copy.stat().st_size == size < (tmp_path / "store" / "data.mdb").stat().st_size
    assert [os.stat(path).st_mode & 0o077 for path in (copy, copy.parent, copy.parent.parent)] == [0, 0, 0]
    again = Store.open(str(copy.parent))
    assert (found(again, "word"), [*verify(again)]) == ([f"{C}:{message_id(299)}"], [])
    await again.close()
    assert sorted(os.listdir(tmp_path)) == ["backup", "store"]


async def test_a_backup_replaces_nothing_and_leaves_nothing_half_done(tmp_path):
    store = Store.open(str(tmp_path / "store"))
    (tmp_path / "taken").write_text("mine")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("taken", "empty", "link"):
        with pytest.raises(PersistenceError, match="already") as caught:
            await asyncio.to_thread(back_up, store, str(tmp_path / name))
        assert caught.value.code == "backupExists"
    with pytest.raises(PersistenceError, match="could not be written") as caught:
        await asyncio.to_thread(back_up, store, str(tmp_path / "no" / "such"))
    assert caught.value.code == "backupFailed"
    await store.close()
    with pytest.raises(PersistenceError, match="closed"):
        await asyncio.to_thread(back_up, store, str(tmp_path / "late"))
    assert sorted(os.listdir(tmp_path)) == ["empty", "link", "store", "taken"]
    assert (tmp_path / "taken").read_text() == "mine"


async def test_bytes_that_nothing_uses_and_uses_of_bytes_that_are_gone_are_named(storage):
    await storage.write(put("blob", b"abc:00000000", b"\0\1bytes"))
    await storage.write(put("blob_use", b"def:message:c_1", b"{}"))
    assert [*verify(storage)] == [
        Finding("blob_use/def:message:c_1", "names bytes that are not there"),
        Finding("blob/abc:00000000", "is used by nothing"),
    ]
    await storage.write(put("blob_use", b"abc:message:c_1", b"{}"))
    await storage.write(put("blob_use", b"def:message:c_1", None))
    assert [*verify(storage)] == []
