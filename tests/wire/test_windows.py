"""Several windows on one store: one holder runs, repairs and writes a conversation; a dead one counts for none."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from tests.engine.test_window import is_valid
from tests.wire.client import RpcError

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import Call, ScriptedModel, Wait, reply
from tinsmith.proc.identity import boot_id, process_start
from tinsmith.store import Lease, Store

FULL = {"initializationOptions": {"settings": {"permission_mode": "full"}}}


def answering(text="Fine."):
    return ScriptedModel(lambda request: reply(text))


@pytest.fixture
def stored(home):
    """Look into the store beside the servers, or change it."""

    async def stored(closure):
        store = Store.open(str(home / "data" / "store"))
        try:
            return await store.write(closure)
        finally:
            await store.close()

    return stored


async def fate(client, request_id):
    """`started`, or the name of the error."""
    try:
        return (await client.answer(request_id))["disposition"]
    except RpcError as error:
        return error.name


@pytest.mark.parametrize("races", [10, pytest.param(150, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
async def test_of_two_that_start_a_turn_at_once_exactly_one_does(connect, stored, races):
    model = answering()
    async with LoopbackServer(model) as provider:
        maker = await connect()
        made = [await maker.request("agent/conversationNew", {}) for _ in range(races)]
        await maker.stop()
        windows = [await connect(provider.base_url) for _ in range(2)]
        for number, each in enumerate(made):
            identifier = each["conversation"]["conversationId"]
            asked = [
                window.post(
                    "agent/runTurn", {"text": f"go {name}", "conversationId": identifier, "turnId": f"{name}_{number}"}
                )
                for name, window in zip("ab", windows, strict=True)
            ]
            fates = [await fate(window, request) for window, request in zip(windows, asked, strict=True)]
            assert sorted(fates) == ["conversationHeld", "started"]
            winner = fates.index("started")
            ended = await windows[winner].event("turnEnded", turnId=f"{'ab'[winner]}_{number}")
            assert ended["outcome"] == "completed"
            texts, turns = await stored(lambda session, identifier=identifier: look(session, identifier))
            assert texts == [f"go {'ab'[winner]}", "Fine."]
            assert turns == [f"{'ab'[winner]}_{number}"]
            assert not any(event["conversationId"] == identifier for event in windows[1 - winner].events())


def look(session, identifier):
    return (
        [message.text for message in session.messages.all(identifier)],
        [record.turn_id for record in session.turns.all(identifier)],
    )


async def test_of_two_that_open_what_a_dead_one_left_exactly_one_repairs_it(connect, stored, workspace):
    script = [reply(Call("bash", {"command": "sleep 60"}), Call("bash", {"command": "true"})), reply("Fine.")]
    async with LoopbackServer(ScriptedModel(script)) as provider:
        dead = await connect(provider.base_url, **FULL)
        started = await dead.ask("go")
        await dead.event("toolUpdated", status="running")
        windows = [await connect(provider.base_url, **FULL) for _ in range(2)]
        await dead.kill()
        identifier = started["conversationId"]
        asked = [window.post("agent/conversationLoad", {"conversationId": identifier}) for window in windows]
        loaded = [await outcome(window, request) for window, request in zip(windows, asked, strict=True)]
        holders = [each for each in loaded if isinstance(each, dict) and "heldBy" not in each]
        assert len(holders) == 1
        winner = windows[loaded.index(holders[0])]
        messages = await stored(lambda session: session.messages.all(identifier))
        assert is_valid(messages)
        assert [message.mutation_state for message in messages[2:]] == ["unknown", "none"]
        records = await stored(lambda session: session.turns.all(identifier))
        assert [(record.turn_id, record.outcome) for record in records] == [(started["turnId"], "interrupted")]
        assert (await winner.turn("go on", conversationId=identifier))["outcome"] == "completed"


async def outcome(client, request_id):
    try:
        return await client.answer(request_id)
    except RpcError as error:
        return error.name


async def test_a_window_looks_at_what_another_runs_and_disturbs_nothing(connect):
    model = ScriptedModel([reply("One ", Wait(0.5), "two."), reply("Mine.")])
    async with LoopbackServer(model) as provider:
        first = await connect(provider.base_url)
        started = await first.ask("go")
        await first.event("textDelta")
        second = await connect(provider.base_url)
        identifier, turn_id = started["conversationId"], started["turnId"]
        loaded = await second.request("agent/conversationLoad", {"conversationId": identifier})
        assert loaded["heldBy"] == {"pid": first.process.pid}
        assert [item["text"] for item in loaded["snapshot"]["lastItems"]] == ["go"]
        for method, params in (
            ("agent/runTurn", {"text": "no", "conversationId": identifier}),
            ("agent/runTurn", {"text": "no", "conversationId": identifier, "mode": "steerOrStart"}),
            ("agent/cancel", {"turnId": turn_id}),
            ("agent/turnWait", {"turnId": turn_id}),
        ):
            assert await outcome(second, second.post(method, params)) == "conversationHeld"
        assert first.events("turnEnded") == []
        assert (await first.event("turnEnded"))["outcome"] == "completed"
        waited = await second.request("agent/turnWait", {"turnId": turn_id})
        assert waited["outcome"] == "completed"


async def test_a_window_without_a_conversation_of_its_own_gets_a_new_one(connect):
    async with LoopbackServer(answering()) as provider:
        first = await connect(provider.base_url)
        mine = await first.turn("first")
        second = await connect(provider.base_url)
        theirs = await second.turn("second")
        assert theirs["conversationId"] != mine["conversationId"]
        await first.stop()
        await second.stop()
        third = await connect(provider.base_url)
        again = await third.turn("third")
        assert again["conversationId"] in {mine["conversationId"], theirs["conversationId"]}


@pytest.fixture
def zombie():
    """Number and start of a process that has ended and that nobody has asked about yet."""
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    stat = Path(f"/proc/{process.pid}/stat").read_text()
    yield process.pid, int(stat.rpartition(")")[2].split()[19])
    process.wait()


@pytest.fixture
def holders(zombie):
    """Processes by what became of them, as (number, start, boot)."""
    pid, start, boot = os.getpid(), process_start(os.getpid()), boot_id()
    return {
        "gone": (2**22 + 1, 1, boot),
        "zombie": (*zombie, boot),
        "another of the same number": (pid, start - 1, boot),
        "before the last boot": (pid, start, "another boot"),
        "alive": (pid, start, boot),
    }


@pytest.mark.parametrize("kind", ["gone", "zombie", "another of the same number", "before the last boot", "alive"])
async def test_only_a_process_that_lives_holds_a_conversation(connect, stored, holders, kind):
    """The lease names pid, start time and boot: a later process of the same pid is another one."""
    async with LoopbackServer(answering()) as provider:
        maker = await connect(provider.base_url)
        identifier = (await maker.turn("first"))["conversationId"]
        await maker.stop()
        lease = Lease(identifier, "other", *holders[kind], 0)
        await stored(lambda session: session.leases.acquire(lease, lambda _: False))
        client = await connect(provider.base_url)
        asked = client.post("agent/runTurn", {"text": "second", "conversationId": identifier})
        assert await fate(client, asked) == ("conversationHeld" if kind == "alive" else "started")
        if kind != "alive":
            assert (await client.event("turnEnded"))["outcome"] == "completed"
            holder = await stored(lambda session: session.leases.get(identifier))
            assert holder.pid == client.process.pid


async def test_a_killed_holder_is_recognised_at_once(connect):
    model = ScriptedModel([reply("One ", Wait()), reply("Two.")])
    async with LoopbackServer(model) as provider:
        first, second = await connect(provider.base_url), await connect(provider.base_url)
        started = await first.ask("go")
        await first.event("textDelta")
        params = {"conversationId": started["conversationId"]}
        assert await fate(second, second.post("agent/runTurn", {"text": "no", **params})) == "conversationHeld"
        await first.kill()
        async with asyncio.timeout(2):
            ended = await second.turn("now mine", **params)
        assert ended["outcome"] == "completed"
        assert [event["outcome"] for event in second.events("turnEnded")] == ["completed"]


async def test_a_holder_that_says_goodbye_leaves_nothing_held(connect, stored):
    async with LoopbackServer(answering()) as provider:
        client = await connect(provider.base_url)
        ended = await client.turn("go")
        assert await stored(lambda session: session.leases.get(ended["conversationId"])) is not None
        await client.stop()
        assert await stored(lambda session: session.leases.get(ended["conversationId"])) is None
