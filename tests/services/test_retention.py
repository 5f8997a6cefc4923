"""Which conversations go by the limits of a store, and in which order."""

import pytest

from tinsmith.domain.conversation import Conversation
from tinsmith.domain.ids import now_ms
from tinsmith.domain.message import TextPart, UserMessage
from tinsmith.domain.ports import NoDocuments, NoPrompter
from tinsmith.domain.settings import StoreSettings
from tinsmith.runtime import open_runtime
from tinsmith.store import InMemoryStore

HOUR = 3_600_000


@pytest.fixture
async def runtime(tmp_path, monkeypatch):
    """With five conversations of 20,000 characters; the n-th changed n hours ago, and the fourth was used last."""
    for name in ("DATA", "CONFIG", "CACHE"):
        monkeypatch.setenv(f"TINSMITH_{name}_DIR", str(tmp_path / name.lower()))
    store = InMemoryStore()

    def fill(session):
        for hours in range(5):
            changed_at = now_ms() - hours * HOUR
            session.conversations.put(Conversation(f"c_{hours}", "/w", changed_at, changed_at))
            session.messages.append(f"c_{hours}", UserMessage("", "t", (TextPart("x" * 20_000),)))
        session.meta.set_active_conversation("/w", "c_3")

    await store.write(fill)
    async with open_runtime(storage=store, documents=NoDocuments(), prompter=NoPrompter()) as runtime:
        runtime.store = store
        yield runtime


def left(runtime):
    return [each.conversation_id for each in runtime.store.read(lambda session: session.conversations.all())]


async def test_nothing_goes_without_a_limit(runtime):
    assert await runtime.retention.apply(StoreSettings()) == 0
    assert left(runtime) == ["c_0", "c_1", "c_2", "c_3", "c_4"]


@pytest.mark.parametrize(
    ("too_much", "expected"),
    [
        (0, ["c_0", "c_1", "c_2", "c_3", "c_4"]),
        (1, ["c_0", "c_1", "c_2", "c_3"]),
        (30_000, ["c_0", "c_1", "c_3"]),
        (50_000, ["c_0", "c_3"]),
        (1_000_000, ["c_3"]),
    ],
)
async def test_the_oldest_go_until_it_fits(runtime, too_much, expected):
    limits = StoreSettings(max_bytes=max(runtime.store.size() - too_much, 1))
    assert await runtime.retention.apply(limits) == 5 - len(expected)
    assert left(runtime) == expected


async def test_what_is_too_old_goes(runtime):
    assert await runtime.retention.apply(StoreSettings(max_age_days=1.5 / 24)) == 2
    assert left(runtime) == ["c_0", "c_1", "c_3"]


async def test_what_is_open_here_stays(runtime):
    await runtime.conversations.hold("c_4")
    assert await runtime.retention.apply(StoreSettings(max_age_days=0.5 / 24)) == 2
    assert left(runtime) == ["c_0", "c_3", "c_4"]
