"""Bytes come back as they were, once each, from both stores; what is damaged is gone, not wrong."""

import hashlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tinsmith.store import InMemoryStore, Session, Store
from tinsmith.store.blobs import CHUNK_SIZE, Blobs
from tinsmith.store.codec import encode_key
from tinsmith.store.env import Environment
from tinsmith.store.transaction import Span

SIZES = (0, 1, CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1, 3 * CHUNK_SIZE)


@pytest.fixture(params=["disk", "memory"])
async def storage(request, tmp_path):
    store = Store.open(str(tmp_path / "store")) if request.param == "disk" else InMemoryStore()
    yield store
    await store.close()


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    environment = Environment(
        str(tmp_path_factory.mktemp("blobs")), lambda _: None, lambda _: None, map_size=1 << 26, map_limit=1 << 30
    )
    yield environment
    environment.close()


def pattern(size: int) -> bytes:
    """Bytes that differ from chunk to chunk."""
    return b"".join(index.to_bytes(4) for index in range(size // 4 + 1))[:size]


def chunks(session: Session) -> list[int]:
    """The sizes of all chunks that are stored, in the order of their keys."""
    return [len(value) for _, value in session._transaction.scan("blob", Span())]


@pytest.mark.parametrize("size", SIZES)
async def test_bytes_come_back_in_chunks_and_are_kept_once(storage, size):
    content = pattern(size)
    names = [await storage.write(lambda session: session.blobs.put(content)) for _ in range(2)]
    assert names == [hashlib.sha256(content).hexdigest()] * 2
    assert storage.read(lambda session: session.blobs.get(names[0])) == content
    sizes = storage.read(chunks)
    assert sum(sizes) == size
    assert len(sizes) == max(1, -(-size // CHUNK_SIZE))
    assert max(sizes) <= CHUNK_SIZE


@given(st.lists(st.tuples(st.sampled_from(["put", "delete", "get"]), st.integers(0, 3)), max_size=30))
@example([("put", 3), ("put", 2), ("delete", 3), ("get", 2)])
def test_blobs_are_a_table_by_hash(environment, steps):
    contents = [b"", b"a", b"b" * CHUNK_SIZE, b"b" * (CHUNK_SIZE + 1)]
    names = [hashlib.sha256(content).hexdigest() for content in contents]

    def play(transaction) -> None:
        blobs, kept = Blobs(transaction), set()
        for name in names:
            blobs.delete(name)
        for step, which in steps:
            match step:
                case "put":
                    assert blobs.put(contents[which]) == names[which]
                    kept.add(which)
                case "delete":
                    assert blobs.delete(names[which]) == (which in kept)
                    kept.discard(which)
                case _:
                    assert blobs.get(names[which]) == (contents[which] if which in kept else None)
        assert [blobs.get(name) for name in names] == [
            content if which in kept else None for which, content in enumerate(contents)
        ]

    environment.write(play)


@pytest.mark.parametrize("damage", [b"", b"x" * CHUNK_SIZE, None])
async def test_damaged_bytes_are_gone_until_they_are_put_again(storage, damage):
    content = pattern(2 * CHUNK_SIZE)
    name = await storage.write(lambda session: session.blobs.put(content))
    key = encode_key(name, "00000001")

    def spoil(session: Session) -> None:
        if damage is None:
            session._transaction.delete("blob", key)
        else:
            session._transaction.put("blob", key, damage)

    await storage.write(spoil)
    assert storage.read(lambda session: session.blobs.get(name)) is None
    await storage.write(lambda session: session.blobs.put(content))
    assert storage.read(lambda session: session.blobs.get(name)) == content


async def test_bytes_outlive_the_process_that_kept_them(tmp_path):
    store = Store.open(str(tmp_path / "store"))
    name = await store.write(lambda session: session.blobs.put(b"\x89PNG\0"))
    await store.close()
    again = Store.open(str(tmp_path / "store"))
    assert again.read(lambda session: session.blobs.get(name)) == b"\x89PNG\0"
    await again.close()


async def test_nothing_is_kept_by_a_write_that_fails(storage):
    def fail(session: Session) -> None:
        session.blobs.put(b"a" * (CHUNK_SIZE + 1))
        raise LookupError("no")

    with pytest.raises(LookupError):
        await storage.write(fail)
    assert storage.read(chunks) == []
