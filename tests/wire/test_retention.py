"""Limits on what is kept: nothing is deleted without one, and never what somebody has open or used last."""

import asyncio
from types import SimpleNamespace

import msgspec
import pytest

from tinsmith.demo.server import LoopbackServer
from tinsmith.domain.ids import now_ms
from tinsmith.llm.scripted import ScriptedModel, reply
from tinsmith.store import Store

DAY = 86_400_000


def limited(**limits):
    return {"initializationOptions": {"settings": {"store": limits}}}


@pytest.fixture
async def old(connect, home):
    """Six conversations, the n-th of which changed n days ago; the fourth was used last."""
    model = ScriptedModel(lambda request: reply("x" * 20_000))
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url)
        made = []
        for number in range(6):
            new = await client.request("agent/conversationNew", {})
            made.append(new["conversation"]["conversationId"])
            await client.turn(f"number {number}", conversationId=made[-1])
        await client.turn("again", conversationId=made[4])
        await client.stop()
        store = Store.open(str(home / "data" / "store"))

        def age(session):
            for days, identifier in enumerate(made):
                found = session.conversations.get(identifier)
                session.conversations.put(msgspec.structs.replace(found, updated_at=now_ms() - days * DAY - 1000))

        await store.write(age)
        await store.close()

        async def start(*, expected, **limits):
            """Start a server with these limits, and wait until the `expected` conversations are left."""
            client = await connect(provider.base_url, **limited(**limits))
            async with asyncio.timeout(client.deadline):
                while True:
                    listed = await client.request("agent/conversationList", {})
                    left = [made.index(each["conversationId"]) for each in listed["conversations"]]
                    if left == expected:
                        return
                    await asyncio.sleep(0.02)

        yield SimpleNamespace(ids=made, start=start, base_url=provider.base_url)


async def test_by_age(old):
    await old.start(max_age_days=2.5, expected=[0, 1, 2, 4])


async def test_by_size_even_the_newest_go_but_never_what_was_used_last(old):
    await old.start(max_bytes=1, expected=[4])


async def test_what_another_window_has_open_stays(old, connect):
    other = await connect(old.base_url)
    await other.request("agent/conversationLoad", {"conversationId": old.ids[5]})
    await old.start(max_age_days=0.5, expected=[0, 4, 5])


async def test_without_limits_everything_stays(old, connect):
    client = await connect(old.base_url)
    await client.turn("here", conversationId=old.ids[5])  # the start is over by now, and what it had to do is done
    listed = await client.request("agent/conversationList", {})
    assert len(listed["conversations"]) == len(old.ids)
