"""A server that is killed: nothing acknowledged is lost, the turn has ended as interrupted, and it goes on."""

import subprocess
import sys

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import Call, ScriptedModel, Wait, reply

FULL = {"initializationOptions": {"settings": {"permission_mode": "full"}}}


async def load(client, identifier):
    return await client.request("agent/conversationLoad", {"conversationId": identifier})


async def test_killed_in_the_stream(connect):
    model = ScriptedModel([reply("Half an ans", Wait()), reply("Here again.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url)
        started = await client.ask("first")
        await client.event("textDelta")
        await client.kill()
        client = await connect(provider.base_url)
        loaded = await load(client, started["conversationId"])
        assert loaded["snapshot"]["activeTurn"] is None
        assert [item["text"] for item in loaded["snapshot"]["lastItems"]] == ["first"]
        ended = await client.request("agent/turnWait", {"turnId": started["turnId"]})
        assert ended["outcome"] == "interrupted"
        assert "send a message to go on" in ended["message"]
        again = await client.turn("second", conversationId=started["conversationId"])
        assert again["outcome"] == "completed"
        assert again["epoch"] != ended["turnId"]
    assert [message.text for message in model.requests[-1].messages] == ["first", "second"]


async def test_killed_in_a_command_that_had_begun(connect, workspace):
    model = ScriptedModel([reply(Call("bash", {"command": "touch begun; sleep 60"})), reply("Here again.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url, **FULL)
        started = await client.ask("run it")
        await client.event("toolUpdated", status="running")
        await client.kill()
        client = await connect(provider.base_url, **FULL)
        ended = await client.turn("go on", conversationId=started["conversationId"])
        assert ended["outcome"] == "completed"
    result = model.requests[-1].messages[2]
    assert result.content.startswith("Interrupted: this call had begun when the process ended")
    loaded = await load(client, started["conversationId"])
    call = next(item for item in loaded["snapshot"]["lastItems"] if item["kind"] == "tool")
    assert (call["status"], call["mutationState"]) == ("cancelled", "unknown")


async def test_killed_while_asking_nothing_was_run(connect, workspace):
    model = ScriptedModel([reply(Call("bash", {"command": "touch begun"})), reply("Here again.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url)
        started = await client.ask("run it")
        await client.event("toolUpdated", status="awaitingApproval")
        await client.kill()
        client = await connect(provider.base_url)
        await client.turn("go on", conversationId=started["conversationId"])
    assert model.requests[-1].messages[2].content.startswith("Not run: the turn was interrupted")
    assert not (workspace / "begun").exists()


async def test_finished_work_of_a_killed_turn_stays(connect, workspace):
    (workspace / "a.txt").write_text("here\n")
    model = ScriptedModel([reply("Look. ", Call("read", {"path": "a.txt"})), reply(Wait()), reply("Here again.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url)
        started = await client.ask("read it")
        await client.event("toolUpdated", status="completed")
        await client.poll(lambda: len(model.requests) == 2)
        await client.kill()
        client = await connect(provider.base_url)
        await client.turn("go on", conversationId=started["conversationId"])
    assert "here" in model.requests[-1].messages[2].content


async def test_a_conversation_that_a_live_server_holds_is_not_run_by_another(connect):
    model = ScriptedModel([reply("One.", Wait()), reply("Two.")])
    async with LoopbackServer(model) as provider:
        first = await connect(provider.base_url)
        started = await first.ask("mine")
        await first.event("textDelta")
        second = await connect(provider.base_url)
        loaded = await load(second, started["conversationId"])
        assert loaded["heldBy"] == {"pid": first.process.pid}
        refused = second.post("agent/runTurn", {"text": "no", "conversationId": started["conversationId"]})
        answer = await second.until(lambda message: message.get("id") == refused)
        assert (answer["error"]["code"], answer["error"]["data"]["code"]) == (-32803, "conversationHeld")
        await first.kill()
        ended = await second.turn("now mine", conversationId=started["conversationId"])
        assert ended["outcome"] == "completed"


async def test_end_of_input_cancels_stores_and_ends(connect, home, workspace):
    model = ScriptedModel([reply("One ", Wait()), reply("Two.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url)
        started = await client.ask("go")
        await client.event("textDelta")
        client.process.stdin.close()
        assert await client.gone() == 1
        ended = client.events("turnEnded")
        assert [event["outcome"] for event in ended] == ["cancelled"]
        client = await connect(provider.base_url)
        waited = await client.request("agent/turnWait", {"turnId": started["turnId"]})
        assert waited["outcome"] == "cancelled"


async def test_killed_with_a_message_that_waits(connect, home):
    model = ScriptedModel([reply("One ", Wait()), reply("Two.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url)
        started = await client.ask("first")
        await client.event("textDelta")
        steered = await client.ask("and this too", conversationId=started["conversationId"], mode="steer")
        assert steered["disposition"] == "steered"
        await client.kill()
        client = await connect(provider.base_url)
        loaded = await load(client, started["conversationId"])
        assert [entry["text"] for entry in loaded["snapshot"]["queue"]] == ["and this too"]
        after = await client.turn("second", conversationId=started["conversationId"])
        assert after["outcome"] == "completed"
        shown = [event["item"]["text"] for event in client.events("itemUpdated") if event["item"]["kind"] == "user"]
    assert [message.text for message in model.requests[-1].messages] == ["first", "and this too", "second"]
    assert shown == ["and this too"]


async def test_a_question_is_stored_for_as_long_as_it_stands(connect, home):
    model = ScriptedModel([reply(Call("bash", {"command": "touch a"})), reply("Done.")])
    asked = []
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url)
        client.answers["agent/requestPermission"] = asked.append
        started = await client.ask("run it")
        identifier = started["conversationId"]
        await client.poll(lambda: asked)
        assert open_questions(home, identifier) == [asked[0]["requestKey"]]
        await client.kill()
        client = await connect(provider.base_url)
        await load(client, identifier)
        assert open_questions(home, identifier) == []
        client.answers["agent/requestPermission"] = lambda params: {"optionId": params["options"][0]["optionId"]}
        assert (await client.turn("again", conversationId=identifier))["outcome"] == "completed"
        assert open_questions(home, identifier) == []


def open_questions(home, identifier):
    """The keys of the stored questions, as another process reads them."""
    read = (
        "import sys; from tinsmith.store import Store; store = Store.open(sys.argv[1]);"
        "print(*store.read(lambda session: [q.request_key for q in session.pending.all(sys.argv[2])]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", read, str(home / "data" / "store"), identifier],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()
