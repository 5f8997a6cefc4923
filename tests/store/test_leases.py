"""Leases: one living holder a conversation, the dead are replaced, nobody gives up another's."""

import pytest

from tinsmith.store import InMemoryStore, Lease, Store
from tinsmith.store.leases import settle

OURS = Lease("c_1", "s_1", 100, 5000, "boot-a", 1)
THEIRS = Lease("c_1", "s_2", 200, 6000, "boot-a", 2)


@pytest.fixture(params=["disk", "memory"])
async def storage(request, tmp_path):
    store = Store.open(str(tmp_path)) if request.param == "disk" else InMemoryStore()
    yield store
    await store.close()


async def test_a_conversation_has_one_living_holder(storage):
    assert await storage.write(lambda s: s.leases.acquire(OURS, lambda _: True)) == OURS
    assert await storage.write(lambda s: s.leases.acquire(THEIRS, lambda _: True)) == OURS
    assert storage.read(lambda s: s.leases.get("c_1")) == OURS


async def test_a_dead_holder_is_replaced(storage):
    await storage.write(lambda s: s.leases.acquire(OURS, lambda _: True))
    asked = []
    assert await storage.write(lambda s: s.leases.acquire(THEIRS, lambda lease: asked.append(lease) or False)) == THEIRS
    assert asked == [OURS]
    assert storage.read(lambda s: s.leases.get("c_1")) == THEIRS


async def test_a_lease_is_given_up_by_its_holder_alone(storage):
    await storage.write(lambda s: s.leases.acquire(OURS, lambda _: True))
    assert not await storage.write(lambda s: s.leases.release("c_1", "s_2"))
    assert storage.read(lambda s: s.leases.get("c_1")) == OURS
    assert await storage.write(lambda s: s.leases.release("c_1", "s_1"))
    assert not await storage.write(lambda s: s.leases.release("c_1", "s_1"))
    assert await storage.write(lambda s: s.leases.acquire(THEIRS, lambda _: True)) == THEIRS


def test_who_holds_what():
    later = Lease("c_1", "s_1", 100, 5000, "boot-a", 9)
    assert settle(None, OURS, lambda _: True) == OURS
    assert settle(OURS, later, lambda _: pytest.fail("nobody asks whether we live")) == OURS
    assert settle(OURS, THEIRS, lambda _: True) == OURS
    assert settle(OURS, THEIRS, lambda _: False) == THEIRS
