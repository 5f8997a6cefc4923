"""Two windows on one conversation: one follows what the other runs, asks for it, and gets it when nothing runs."""

import asyncio
import os
import time

import pytest
from tests.wire.client import RpcError
from tests.wire.talk import bodies_of

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import Call, ScriptedModel, Wait, reply

WAITING = "echo go; until [ -e stop ]; do sleep 0.01; done"
FULL = {"initializationOptions": {"settings": {"permission_mode": "full"}}}


def answering():
    return ScriptedModel(lambda request: reply("Re: " + request.messages[-1].text))


async def load(client, identifier, **params):
    return await client.request("agent/conversationLoad", {"conversationId": identifier, **params})


async def refusal(client, method, **params):
    with pytest.raises(RpcError) as caught:
        await client.request(method, params)
    return caught.value.name


async def changed(client, **fields):
    return await client.event("conversationUpdated", **fields)


def shown(client, identifier):
    """What a client draws from a snapshot's events: kind by item, texts and states as they are now."""
    items = {}
    for event in client.events():
        if event["conversationId"] != identifier:
            continue
        if event["type"] == "turnStarted":
            items[event["itemId"]] = ("user", event["text"])
        elif event["type"] == "itemUpdated" and not event["item"].get("withdrawn"):
            items[event["itemId"]] = (event["item"]["kind"], event["item"]["text"])
        elif event["type"] == "toolUpdated":
            items[event["itemId"]] = ("tool", event["status"], event.get("result"), event.get("args"))
    return items


def numbers(client, identifier):
    return [event["seq"] for event in client.events() if event["conversationId"] == identifier]


async def test_a_window_follows_what_another_one_runs(connect, workspace):
    (workspace / "a.txt").write_text("words\n")
    script = [reply("Re: one"), reply("Look. ", Call("read", {"path": "a.txt"})), reply("Seen.", Wait(0.3))]
    async with LoopbackServer(ScriptedModel(script)) as provider:
        first, second = [await connect(provider.base_url, **FULL) for _ in range(2)]
        identifier = (await first.turn("one"))["conversationId"]
        loaded = await load(second, identifier)
        assert loaded["heldBy"] == {"pid": first.process.pid}
        assert [item["text"] for item in loaded["snapshot"]["lastItems"]] == ["one", "Re: one"]
        before = len(first.received)
        ended = await first.turn("two", conversationId=identifier)
        assert await second.event("turnEnded") == {
            **ended,
            "epoch": loaded["epoch"],
            "seq": second.events("turnEnded")[0]["seq"],
            "ts": second.events("turnEnded")[0]["ts"],
        }
        await changed(second, state="idle")
        del first.received[:before]
        assert shown(second, identifier) == shown(first, identifier)
        assert [event["type"] for event in second.events("turnStarted", "turnEnded")] == ["turnStarted", "turnEnded"]
        assert numbers(second, identifier) == list(range(1, len(second.events()) + 1))
        assert (await changed(second, state="running"))["heldBy"] == {"pid": first.process.pid}


async def test_a_running_turn_is_in_the_snapshot_and_its_end_follows(connect, workspace):
    model = ScriptedModel([reply(Call("bash", {"command": WAITING})), reply("Over.")])
    async with LoopbackServer(model) as provider:
        first, second = [await connect(provider.base_url, **FULL) for _ in range(2)]
        started = await first.ask("run")
        await first.event("toolOutput")
        identifier = started["conversationId"]
        loaded = await load(second, identifier)
        assert loaded["snapshot"]["activeTurn"]["turnId"] == started["turnId"]
        assert loaded["conversation"]["state"] == "running"
        (workspace / "stop").touch()
        assert (await second.event("turnEnded"))["turnId"] == started["turnId"]
        result = await second.event("toolUpdated", status="completed")
        assert result["args"] == {"command": WAITING}
        assert (await second.event("itemUpdated"))["item"]["text"] == "Over."


async def test_rewinds_titles_and_the_end_of_a_conversation_are_followed(connect):
    async with LoopbackServer(answering()) as provider:
        first, second = [await connect(provider.base_url) for _ in range(2)]
        one = await first.turn("one")
        identifier = one["conversationId"]
        await first.turn("two", conversationId=identifier)
        await load(second, identifier)
        await first.request("agent/conversationRewind", {"conversationId": identifier, "toTurnId": one["turnId"]})
        await changed(second, resync=True)
        again = await load(second, identifier)
        assert [item["text"] for item in again["snapshot"]["lastItems"]] == ["one", "Re: one"]
        await first.request("agent/conversationUpdate", {"conversationId": identifier, "title": "Named"})
        await changed(second, title="Named")
        for method in ("conversationUpdate", "conversationClear", "conversationDelete", "conversationUnrewind"):
            assert await refusal(second, f"agent/{method}", conversationId=identifier) == "conversationHeld"
        await first.request("agent/conversationDelete", {"conversationId": identifier})
        await changed(second, state="deleted")


async def test_an_idle_holder_gives_it_at_once_and_follows_from_then_on(connect):
    async with LoopbackServer(answering()) as provider:
        first, second = [await connect(provider.base_url) for _ in range(2)]
        identifier = (await first.turn("one"))["conversationId"]
        began = time.monotonic()
        taken = await load(second, identifier, takeOver=True)
        assert "heldBy" not in taken
        assert time.monotonic() - began < 2
        assert (await changed(first, heldBy={"pid": second.process.pid}))["state"] == "idle"
        assert await refusal(first, "agent/runTurn", text="mine?", conversationId=identifier) == "conversationHeld"
        assert (await second.turn("two", conversationId=identifier))["outcome"] == "completed"
        await first.event("turnStarted", text="two")
        back = await load(first, identifier, takeOver=True)
        assert "heldBy" not in back
        assert [item["text"] for item in back["snapshot"]["lastItems"]] == ["one", "Re: one", "two", "Re: two"]
        assert (await first.turn("three", conversationId=identifier))["outcome"] == "completed"
    said = [message["content"] for message in bodies_of(provider)[-1]["messages"] if message["role"] == "user"]
    assert said == ["one", "two", "three"]


async def test_a_running_turn_ends_first_and_says_who_waits(connect, workspace):
    model = ScriptedModel([reply(Call("bash", {"command": WAITING})), reply("Over."), reply("Mine.")])
    async with LoopbackServer(model) as provider:
        first, second = [await connect(provider.base_url, **FULL) for _ in range(2)]
        started = await first.ask("run")
        await first.event("toolOutput")
        identifier = started["conversationId"]
        waiting = await load(second, identifier, takeOver=True)
        assert waiting["heldBy"] == {"pid": first.process.pid, "asked": True}
        assert waiting["snapshot"]["activeTurn"]["turnId"] == started["turnId"]
        assert (await first.event("notice", code="takeOverAsked"))["conversationId"] == identifier
        assert await refusal(second, "agent/runTurn", text="now", conversationId=identifier) == "conversationHeld"
        (workspace / "stop").touch()
        assert (await first.event("turnEnded"))["outcome"] == "completed"
        await changed(second, heldBy=None)
        types = [event["type"] for event in second.events() if "heldBy" in event or event["type"] == "turnEnded"]
        assert types[-1] == "conversationUpdated"
        assert types.index("turnEnded") < len(types) - 1
        assert (await second.turn("now", conversationId=identifier))["outcome"] == "completed"
        await changed(first, heldBy={"pid": second.process.pid})


async def test_who_waits_can_give_up(connect, workspace):
    model = ScriptedModel([reply(Call("bash", {"command": WAITING})), reply("Over."), reply("Mine.")])
    async with LoopbackServer(model) as provider:
        first, second = [await connect(provider.base_url, **FULL) for _ in range(2)]
        identifier = (await first.ask("run"))["conversationId"]
        await first.event("toolOutput")
        await load(second, identifier, takeOver=True)
        await first.event("notice", code="takeOverAsked")
        given_up = await load(second, identifier, takeOver=False)
        assert given_up["heldBy"] == {"pid": first.process.pid}
        (workspace / "stop").touch()
        await first.event("turnEnded")
        assert (await first.turn("still mine", conversationId=identifier))["outcome"] == "completed"
        assert not any("heldBy" in event for event in first.events("conversationUpdated"))


async def test_a_killed_holder_gives_it_at_once(connect, workspace):
    """Whoever asked has it, and what the dead one left is closed and told in the right order."""
    model = ScriptedModel([reply(Call("bash", {"command": "echo go; sleep 60"})), reply("Mine.")])
    async with LoopbackServer(model) as provider:
        first, second = [await connect(provider.base_url, **FULL) for _ in range(2)]
        started = await first.ask("run")
        await first.event("toolOutput")
        identifier = started["conversationId"]
        await load(second, identifier, takeOver=True)
        await first.kill()
        await changed(second, heldBy=None, state="idle")
        kinds = [event["type"] for event in second.events() if event.get("turnId") == started["turnId"]]
        assert kinds.count("turnEnded") == 1
        assert kinds[-1] == "turnEnded"
        assert (await second.event("turnEnded"))["outcome"] == "interrupted"
        call = second.events("toolUpdated")[-1]
        assert (call["status"], call["mutationState"]) == ("cancelled", "unknown")
        assert (await second.turn("go on", conversationId=identifier))["outcome"] == "completed"


async def test_the_death_of_a_holder_is_told_to_who_only_follows(connect):
    async with LoopbackServer(ScriptedModel([reply("Half ", Wait()), reply("Mine.")])) as provider:
        first, second = [await connect(provider.base_url) for _ in range(2)]
        started = await first.ask("one")
        await first.event("textDelta")
        await load(second, started["conversationId"])
        await first.kill()
        assert (await changed(second, heldBy=None))["state"] == "idle"
        assert second.events("turnEnded") == []
        ended = await second.turn("go on", conversationId=started["conversationId"])
        assert [event["outcome"] for event in second.events("turnEnded")] == ["interrupted", "completed"]
        assert ended["outcome"] == "completed"


async def test_of_two_that_ask_one_gets_it(connect):
    async with LoopbackServer(answering()) as provider:
        holder, *askers = [await connect(provider.base_url) for _ in range(3)]
        identifier = (await holder.turn("one"))["conversationId"]
        params = {"conversationId": identifier, "takeOver": True}
        posted = [asker.post("agent/conversationLoad", params) for asker in askers]
        results = []
        for asker, request in zip(askers, posted, strict=True):
            try:
                results.append(await asker.answer(request))
            except RpcError as error:
                results.append(error.name)
        assert any(isinstance(result, dict) and "heldBy" not in result for result in results)
        ends = await asyncio.gather(*(fate(window, identifier) for window in (holder, *askers)))
        assert sorted(ends) == ["completed", "conversationHeld", "conversationHeld"]
        assert ends[0] == "conversationHeld"


async def fate(client, identifier):
    try:
        started = await client.ask("mine", conversationId=identifier)
    except RpcError as error:
        return error.name
    return (await client.event("turnEnded", turnId=started["turnId"]))["outcome"]


async def test_a_holder_that_leaves_gives_it_to_who_waits(connect, workspace):
    model = ScriptedModel([reply(Call("bash", {"command": "echo go; sleep 60"})), reply("Mine.")])
    async with LoopbackServer(model) as provider:
        first, second = [await connect(provider.base_url, **FULL) for _ in range(2)]
        identifier = (await first.ask("run"))["conversationId"]
        await first.event("toolOutput")
        await load(second, identifier, takeOver=True)
        assert await first.stop() == 0
        await changed(second, heldBy=None)
        assert (await second.event("turnEnded"))["outcome"] == "cancelled"
        assert (await second.turn("now", conversationId=identifier))["outcome"] == "completed"


async def test_who_asked_and_died_gets_nothing(connect, workspace):
    model = ScriptedModel([reply(Call("bash", {"command": WAITING})), reply("Over."), reply("More.")])
    async with LoopbackServer(model) as provider:
        first, second = [await connect(provider.base_url, **FULL) for _ in range(2)]
        identifier = (await first.ask("run"))["conversationId"]
        await first.event("toolOutput")
        await load(second, identifier, takeOver=True)
        await first.event("notice", code="takeOverAsked")
        await second.kill()
        (workspace / "stop").touch()
        await first.event("turnEnded")
        assert (await first.turn("still mine", conversationId=identifier))["outcome"] == "completed"
        third = await connect(provider.base_url, **FULL)
        assert "heldBy" not in await load(third, identifier, takeOver=True)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.long
async def test_windows_that_wait_for_nothing_cost_next_to_nothing(connect):
    async with LoopbackServer(answering()) as provider:
        first, second = [await connect(provider.base_url) for _ in range(2)]
        identifier = (await first.turn("one"))["conversationId"]
        await load(second, identifier)
        await asyncio.sleep(2)
        before = [cpu_seconds(each.process.pid) for each in (first, second)]
        await asyncio.sleep(10)
        spent = [cpu_seconds(each.process.pid) - start for each, start in zip((first, second), before, strict=True)]
    assert max(spent) < 0.1
