"""A session over the wire: hello, conversations, turns, configuration, goodbye."""

import pytest
from tests.wire.client import RpcError

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import Call, ScriptedModel, Wait, reply


def scripted(*replies):
    return LoopbackServer(ScriptedModel([each if not isinstance(each, str) else reply(each) for each in replies]))


async def test_initialize_names_what_the_server_can_do(connect):
    client = await connect()
    result = client.received[0]["result"]
    agent = result["capabilities"]["experimental"]["agent"]
    assert result["serverInfo"]["name"] == "tinsmith"
    assert (agent["version"], len(agent["schemaHash"]), len(agent["epoch"])) == (1, 16, 16)
    assert result["capabilities"]["positionEncoding"] == "utf-16"
    assert "executeCommandProvider" not in result["capabilities"]
    assert await client.stop() == 0


async def test_a_turn_streams_and_ends_once(connect):
    async with scripted("Hello there.") as provider:
        client = await connect(provider.base_url)
        started = await client.ask("hi")
        ended = await client.event("turnEnded")
        assert started["disposition"] == "started"
        assert (ended["turnId"], ended["outcome"]) == (started["turnId"], "completed")
        await client.event("conversationUpdated", state="idle")
    events = client.events()
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["type"] == "turnStarted"
    of_turn = [event for event in events if event.get("turnId") == started["turnId"]]
    assert of_turn[-1]["type"] == "turnEnded"
    assert "".join(event["text"] for event in client.events("textDelta")) == "Hello there."
    answer_at = next(i for i, m in enumerate(client.received) if m.get("result") == started)
    event_at = next(i for i, m in enumerate(client.received) if m.get("method") == "agent/event")
    assert answer_at < event_at


async def test_a_known_turn_id_gets_its_first_answer_again(connect):
    async with scripted("Once.") as provider:
        client = await connect(provider.base_url)
        first = await client.ask("hi", turnId="mine")
        again = await client.ask("hi", turnId="mine")
        assert again == first
        await client.event("turnEnded")
        assert len(client.events("turnStarted")) == 1


async def test_conversations_are_listed_loaded_and_read(connect):
    async with scripted("First.", "Second.") as provider:
        client = await connect(provider.base_url)
        made = (await client.request("agent/conversationNew", {"title": "Mine"}))["conversation"]
        ended = await client.turn("one", conversationId=made["conversationId"])
        await client.turn("two", conversationId=made["conversationId"])
        listed = await client.request("agent/conversationList", {})
        assert [each["title"] for each in listed["conversations"]] == ["Mine"]
        loaded = await client.request("agent/conversationLoad", {"conversationId": made["conversationId"]})
        assert [item["text"] for item in loaded["snapshot"]["lastItems"]] == ["one", "First.", "two", "Second."]
        assert loaded["snapshot"]["activeTurn"] is None
        page = await client.request(
            "agent/historyRead", {"conversationId": made["conversationId"], "limit": 1, "direction": "older"}
        )
        assert [item["text"] for item in page["items"]] == ["Second."]
        assert page["nextCursor"]
        waited = await client.request("agent/turnWait", {"turnId": ended["turnId"]})
        assert (waited["outcome"], waited["turnId"]) == ("completed", ended["turnId"])


async def test_without_a_conversation_the_workspace_goes_on_with_its_last(connect):
    async with scripted("A.", "B.") as provider:
        client = await connect(provider.base_url)
        first = await client.turn("one")
        second = await client.turn("two")
        assert first["conversationId"] == second["conversationId"]


async def test_steering_joins_the_running_turn(connect):
    async with scripted(reply("Thinking", Wait(0.3), " on."), "Steered.") as provider:
        client = await connect(provider.base_url)
        started = await client.ask("go")
        await client.event("textDelta")
        with pytest.raises(RpcError, match="A turn runs in this conversation"):
            await client.ask("again")
        steered = await client.ask("left!", mode="steer")
        assert (steered["disposition"], steered["turnId"]) == ("steered", started["turnId"])
        await client.event("turnEnded")
        texts = [event["item"]["text"] for event in client.events("itemUpdated")]
        assert texts == ["Thinking on.", "left!", "Steered."]


async def test_steering_nothing_is_an_error(connect):
    async with scripted() as provider:
        client = await connect(provider.base_url)
        with pytest.raises(RpcError) as refused:
            await client.ask("left!", mode="steer")
        assert (refused.value.code, refused.value.name) == (-32803, "noActiveTurn")


async def test_cancel_ends_a_silent_turn_and_closes_the_connection(connect):
    async with scripted(reply("One ", Wait())) as provider:
        client = await connect(provider.base_url)
        started = await client.ask("go")
        await client.event("textDelta")
        assert await client.request("agent/cancel", {"turnId": started["turnId"]}) == {"state": "cancelling"}
        ended = await client.event("turnEnded")
        assert ended["outcome"] == "cancelled"
        assert await client.request("agent/cancel", {"turnId": started["turnId"]}) == {"state": "ended"}
        await client.poll(lambda: provider.abandoned == 1)
        item = client.events("itemUpdated")[-1]["item"]
        assert (item["text"].strip(), item["marks"]) == ("One", ["cancelled"])


async def test_a_cancel_that_comes_before_its_turn_ends_it_at_once(connect):
    async with scripted("Never.") as provider:
        client = await connect(provider.base_url)
        assert await client.request("agent/cancel", {"turnId": "early"}) == {"state": "cancelling"}
        ended = await client.turn("go", turnId="early")
        assert ended["outcome"] == "cancelled"
        assert [each for each in provider.requests if each.method == "POST"] == []


async def test_without_a_model_the_way_to_fix_it_is_named(connect):
    client = await connect()
    with pytest.raises(RpcError) as refused:
        await client.ask("hi")
    assert (refused.value.code, refused.value.name) == (-32803, "modelNotConfigured")
    assert "TINSMITH_MODEL" in str(refused.value)


async def test_configuration_is_set_and_unset_and_survives_a_restart(connect):
    client = await connect()
    before = await client.request("agent/configGet", {})
    done = await client.request(
        "agent/configSet", {"path": "default_model", "value": "mine", "expectedVersion": before["version"]}
    )
    assert done["values"]["default_model"] == "mine"
    option = next(each for each in done["options"] if each["path"] == "default_model")
    assert option == {"path": "default_model", "value": "mine", "layer": "persisted", "overridable": True}
    with pytest.raises(RpcError) as late:
        await client.request(
            "agent/configSet", {"path": "default_model", "value": "x", "expectedVersion": before["version"]}
        )
    assert (late.value.code, late.value.name) == (-32801, "configVersion")
    with pytest.raises(RpcError, match="did you mean `default_model`"):
        await client.request("agent/configSet", {"path": "defalt_model", "value": "x"})
    with pytest.raises(RpcError) as wrong:
        await client.request("agent/configSet", {"path": "tool_step_budget", "value": "-1"})
    assert (wrong.value.code, wrong.value.name) == (-32602, "invalidSetting")
    await client.stop()
    client = await connect()
    assert (await client.request("agent/configGet", {"path": "default_model"}))["values"] == {"default_model": "mine"}
    gone = await client.request("agent/configUnset", {"path": "default_model"})
    assert "default_model" not in gone["values"]


async def test_inspect_shows_what_the_model_will_see(connect, workspace):
    (workspace / "a.py").write_text("x = 1\n")
    async with scripted(reply("Look.", Call("read", {"path": "a.py"})), "Seen.") as provider:
        client = await connect(provider.base_url, environment={"TINSMITH_SANDBOX": "off"})
        ended = await client.turn("what is a?")
        context = await client.request("agent/inspect", {"what": "context", "conversationId": ended["conversationId"]})
        kinds = [part["kind"] for part in context["parts"]]
        assert kinds == ["system", *["tool"] * kinds.count("tool"), "user", "assistant", "toolResult", "assistant"]
        assert context["tokens"] == sum(part["tokens"] for part in context["parts"]) > 0
        messages = await client.request("agent/inspect", {"what": "messages"})
        assert [each["kind"] for each in messages["messages"]] == ["user", "assistant", "toolResult", "assistant"]
        server = await client.request("agent/inspect", {"what": "server"})
        assert (server["pid"], server["directories"]["data"]) == (client.process.pid, str(client.home / "data"))
        assert server["sandbox"] == {"kind": "none", "reason": "switched off by TINSMITH_SANDBOX=off"}
        with pytest.raises(RpcError, match="Cannot inspect 'nothing'"):
            await client.request("agent/inspect", {"what": "nothing"})


async def test_subscribe_gives_what_was_missed_or_a_snapshot(connect):
    async with scripted("Hello.") as provider:
        client = await connect(provider.base_url)
        ended = await client.turn("hi")
        await client.event("conversationUpdated", state="idle")
        identifier, epoch = ended["conversationId"], ended["epoch"]
        mark = len(client.received)
        answer = await client.request(
            "agent/subscribe", {"conversationId": identifier, "epoch": epoch, "afterSeq": ended["seq"] - 2}
        )
        assert answer["seq"] == ended["seq"] + 1
        await client.event("conversationUpdated", after=mark, state="idle")
        missed = [m["params"]["seq"] for m in client.received[mark:] if m.get("method") == "agent/event"]
        assert missed == [ended["seq"] - 1, ended["seq"], ended["seq"] + 1]
        other = await client.request(
            "agent/subscribe", {"conversationId": identifier, "epoch": "another", "afterSeq": 3}
        )
        assert other["resync"] is True
        assert [item["text"] for item in other["snapshot"]["lastItems"]] == ["hi", "Hello."]


async def test_a_page_never_separates_a_call_from_its_result(connect):
    script = [reply(Call("bash", {"command": "echo hi"})), reply("Done.")]
    async with scripted(*script) as provider:
        client = await connect(provider.base_url, initializationOptions={"settings": {"permission_mode": "full"}})
        identifier = (await client.turn("go"))["conversationId"]
        page = {"conversationId": identifier, "limit": 2}
        newer = await client.request("agent/historyRead", {**page, "direction": "newer"})
        assert newer["items"][-1]["result"] == "exit: 0\nhi\n"
        older = await client.request("agent/historyRead", {**page, "direction": "older"})
        assert [item["kind"] for item in older["items"]] == ["assistant", "tool", "assistant"]
        rest = await client.request("agent/historyRead", {**page, "cursor": older["nextCursor"]})
        assert [item["kind"] for item in rest["items"]] == ["user"]
