"""Records of changes and the bytes they name: kept once, and gone with the last conversation that has them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.domain.change import ChangeRecord, Image
from tinsmith.store import InMemoryStore, Store
from tinsmith.store.blobs import blob_hash
from tinsmith.store.codec import encode_key


@pytest.fixture(params=["disk", "memory"])
async def storage(request, tmp_path):
    store = Store.open(str(tmp_path / "store")) if request.param == "disk" else InMemoryStore()
    yield store
    await store.close()


def image(content: bytes) -> Image:
    return Image("0" * 16, blob_hash(content), has_bom=True, encoding="utf-16-le")


def change(before: bytes | None, after: bytes | None) -> ChangeRecord:
    images = [None if content is None else image(content) for content in (before, after)]
    return ChangeRecord("", "t_1", "/w/a.txt", "edit", 7, "k_1", *images, hunk_ids=("x",), is_made=True)


def adding(conversation_id: str, before: bytes | None, after: bytes | None):
    images = [content for content in (before, after) if content is not None]
    return lambda s: s.changes.append(conversation_id, change(before, after), images)


def there(storage, *contents: bytes) -> list[bool]:
    return storage.read(lambda s: [s.blobs.get(blob_hash(content)) == content for content in contents])


async def test_records_come_back_in_order_with_their_bytes(storage):
    stored = [
        await storage.write(adding("c_1", None, b"new")),
        await storage.write(adding("c_1", b"new", b"")),
        await storage.write(adding("c_10", b"\xff\xfeo\0", b"new")),
    ]
    assert storage.read(lambda s: s.changes.all("c_1")) == tuple(stored[:2])
    assert storage.read(lambda s: s.changes.all("c_10")) == (stored[2],)
    assert [record.record_id for record in stored] == ["f00000000", "f00000001", "f00000000"]
    assert there(storage, b"new", b"", b"\xff\xfeo\0") == [True, True, True]
    await storage.write(lambda s: s.changes.put("c_1", stored[0]))
    assert storage.read(lambda s: s.changes.all("c_1")) == tuple(stored[:2])


async def test_a_change_that_was_not_made_takes_along_what_nobody_else_has(storage):
    await storage.write(adding("c_1", b"one", b"two"))
    second = await storage.write(adding("c_1", b"two", b"three"))
    assert await storage.write(lambda s: s.changes.delete("c_1", second.record_id))
    assert not await storage.write(lambda s: s.changes.delete("c_1", second.record_id))
    assert there(storage, b"one", b"two", b"three") == [True, True, False]


async def test_images_go_with_the_last_conversation_that_has_them(storage):
    await storage.write(adding("c_1", b"shared", b"one"))
    await storage.write(adding("c_2", b"shared", b"two"))
    assert await storage.write(lambda s: s.changes.delete_all("c_1")) == 1
    assert there(storage, b"shared", b"one", b"two") == [True, False, True]
    assert await storage.write(lambda s: s.changes.delete_all("c_1")) == 0
    assert there(storage, b"shared", b"one", b"two") == [True, False, True]
    assert await storage.write(lambda s: s.changes.delete_all("c_2")) == 1
    assert there(storage, b"shared", b"one", b"two") == [False, False, False]


async def test_a_blob_that_another_kind_of_record_names_stays(storage):
    def write(session) -> None:
        adding("c_1", b"both", None)(session)
        session.uses.add(session.blobs.put(b"both"), "message", "c_1")

    await storage.write(write)
    await storage.write(lambda s: s.changes.delete_all("c_1"))
    assert there(storage, b"both") == [True]
    assert await storage.write(lambda s: s.uses.drop(blob_hash(b"both"), "message", "c_1"))


async def test_an_unreadable_record_harms_no_other_and_goes_with_its_images(storage):
    record = await storage.write(adding("c_1", b"one", b"two"))
    key = encode_key("c_1", record.record_id)
    await storage.write(lambda s: s._transaction.put("change", key, b"{"))
    await storage.write(adding("c_1", b"two", b"three"))
    assert [each.record_id for each in storage.read(lambda s: s.changes.all("c_1"))] == ["f00000001"]
    assert await storage.write(lambda s: s.changes.delete_all("c_1")) == 2
    assert there(storage, b"one", b"two", b"three") == [False, False, False]


contents = st.sampled_from([b"", b"a", b"b", b"c"])
steps = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(["c_1", "c_2"]), contents, contents),
    st.tuples(st.just("delete"), st.sampled_from(["c_1", "c_2"]), st.integers(0, 5)),
    st.tuples(st.just("clear"), st.sampled_from(["c_1", "c_2"])),
)


@given(st.lists(steps, max_size=12))
async def test_exactly_the_named_blobs_are_there(history):
    storage = InMemoryStore()
    kept: dict[str, dict[str, set[bytes]]] = {"c_1": {}, "c_2": {}}
    for kind, conversation_id, *rest in history:
        records = kept[conversation_id]
        if kind == "add":
            record = await storage.write(adding(conversation_id, *rest))
            records[record.record_id] = set(rest)
        elif kind == "delete" and records:
            record_id = sorted(records)[rest[0] % len(records)]
            assert await storage.write(lambda s, c=conversation_id, r=record_id: s.changes.delete(c, r))
            del records[record_id]
        elif kind == "clear":
            await storage.write(lambda s, c=conversation_id: s.changes.delete_all(c))
            records.clear()
        named = {content for records in kept.values() for each in records.values() for content in each}
        assert there(storage, b"", b"a", b"b", b"c") == [each in named for each in (b"", b"a", b"b", b"c")]
