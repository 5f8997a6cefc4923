"""An editor without a plug-in of ours: commands, questions as messages, edits by `workspace/applyEdit`, verified."""

import asyncio
import json
import os
import re
from pathlib import Path

import pytest
from tests.wire.buffer import text_hash
from tests.wire.client import RpcError, frame

from tinsmith.demo.server import LoopbackServer, RawAnswer
from tinsmith.llm.scripted import Call, ScriptedModel, reply

READ = reply(Call("read", {"path": "a.txt"}))
TEXT = "one\ntwo\nthree\n"
EDITED = "one\nTWO\nthree\n"
NOWHERE = "http://127.0.0.1:9/v1"


def replace_line_two(request):
    found = re.search(r"hash: ([0-9a-f]{16})", request.messages[-1].content)[1]
    edits = [{"op": "replace", "start": 2, "end": 2, "text": "TWO"}]
    return reply(Call("edit", {"path": "a.txt", "hash": found, "edits": edits}))


async def command(client, name, *arguments):
    """The result of a command."""
    return await client.request("workspace/executeCommand", {"command": name, "arguments": list(arguments)})


async def outcome(client, after=0):
    """The message that ends a turn."""
    ended = await client.until(lambda message: message.get("method") == "window/showMessage", after)
    return ended["params"]["message"]


async def test_a_question_is_answered_and_the_transcript_is_shown(connect):
    async with LoopbackServer(ScriptedModel(lambda _: reply("It sums."))) as provider:
        client = await connect(provider.base_url, agent=None)
        opening = client.received[0]["result"]["capabilities"]
        assert opening["executeCommandProvider"]["commands"] == ["tinsmith.ask", "tinsmith.cancel", "tinsmith.new"]
        shown = []
        client.answers["window/showDocument"] = lambda params: shown.append(params) or {"success": True}
        started = await command(client, "tinsmith.ask", "What does it do?")
        assert started.keys() == {"conversationId", "turnId"}
        assert await outcome(client) == "Tinsmith: completed."
        await client.poll(lambda: shown)
        assert (
            Path(shown[0]["uri"].removeprefix("file://")).read_text()
            == "## You\n\nWhat does it do?\n\n## Tinsmith\n\nIt sums.\n"
        )
        fresh = await command(client, "tinsmith.new")
        assert fresh["conversationId"] != started["conversationId"]
        assert (await command(client, "tinsmith.ask", "More."))["conversationId"] == fresh["conversationId"]
        await client.poll(lambda: len(shown) == 2)
        assert client.events() == []
        assert await client.stop() == 0


async def test_a_turn_is_cancelled(connect):
    async with LoopbackServer(RawAnswer((float("inf"),), is_silent=True)) as provider:
        client = await connect(provider.base_url, agent=None)
        assert await command(client, "tinsmith.cancel") == {"state": "ended"}
        await command(client, "tinsmith.ask", "go")
        assert await command(client, "tinsmith.cancel") == {"state": "cancelling"}
        assert await outcome(client) == "Tinsmith: cancelled."


async def test_a_permission_is_a_message_with_buttons(connect, workspace):
    answers = ({"title": "Allow once"}, {"title": "Deny"}, {"title": "Unheard of"}, {}, 7, None)
    script = [(reply(Call("bash", {"command": f"touch ran{turn}"})), reply("Done.")) for turn in range(len(answers))]
    async with LoopbackServer(ScriptedModel([step for turn in script for step in turn])) as provider:
        client = await connect(provider.base_url, agent=None)
        client.answers["window/showDocument"] = lambda _: {"success": True}
        for turn, answer in enumerate(answers):
            after = len(client.received)
            await command(client, "tinsmith.ask", "go")
            asked = await client.until(lambda message: message.get("method") == "window/showMessageRequest", after)
            assert f"touch ran{turn}" in asked["params"]["message"]
            assert asked["params"]["actions"][0] == {"title": "Allow once"}
            client.send({"jsonrpc": "2.0", "id": asked["id"], "result": answer})
            assert await outcome(client, after) == "Tinsmith: completed."
    assert [path.name for path in workspace.iterdir()] == ["ran0"]


async def test_a_permission_message_that_is_dismissed_by_leaving_out_the_result_is_a_deny(connect, workspace):
    model = ScriptedModel([reply(Call("bash", {"command": "touch ran"})), reply("Done.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url, agent=None)
        await command(client, "tinsmith.ask", "go")
        asked = await client.until(lambda message: message.get("method") == "window/showMessageRequest")
        client.send({"jsonrpc": "2.0", "id": asked["id"]})
        assert await outcome(client) == "Tinsmith: completed."
        assert not (workspace / "ran").exists()


async def test_an_edit_is_believed_only_when_it_is_seen(connect, workspace):
    """`applied: true` proves nothing: what counts is the change of the document that follows."""
    (workspace / "a.txt").write_text(TEXT)
    ways = ("applied", "refused", "applied late", "claimed")
    model = ScriptedModel([READ, replace_line_two, reply("Done.")] * len(ways))
    settings = {"initializationOptions": {"settings": {"permission_mode": "edits"}}}
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url, agent=None, **settings)
        client.answers["window/showDocument"] = lambda _: {"success": True}
        uri = client.open(workspace / "a.txt", TEXT)
        told = {}
        for way in ways:
            client.type(uri, TEXT)
            after = len(client.received)
            await command(client, "tinsmith.ask", "go")
            asked = await client.until(lambda message: message.get("method") == "workspace/applyEdit", after)
            (document,) = asked["params"]["edit"]["documentChanges"]
            assert document["textDocument"] == {"uri": uri, "version": client.texts[uri][0]}
            if way == "applied":
                client.type(uri, EDITED)
            answer = {"applied": way != "refused", "failureReason": "the buffer is locked"}
            client.send({"jsonrpc": "2.0", "id": asked["id"], "result": answer})
            if way == "applied late":
                asyncio.get_running_loop().call_later(0.2, client.type, uri, EDITED)
            assert await outcome(client, after) == "Tinsmith: completed."
            told[way] = model.requests[-1].messages[-1].content
    unconfirmed = {way: "the editor did not confirm the change" in text for way, text in told.items()}
    assert unconfirmed == {way: way == "claimed" for way in ways}
    assert {way: f"hash: {text_hash(EDITED)}" in text for way, text in told.items()} == {
        way: way != "refused" for way in ways
    }
    assert "the buffer is locked" in told["refused"]
    assert (workspace / "a.txt").read_text() == TEXT


async def test_wrong_commands_are_refused_while_the_features_load_and_after(connect):
    client = await connect(NOWHERE, agent=None)
    wrong = [
        {"command": "tinsmith.nothing"},
        {"command": "tinsmith.cancel", "arguments": [1, 2, 3]},
        {"command": 7},
        {"arguments": []},
        {},
        [],
        {"command": "tinsmith.ask", "arguments": [["x"], None]},
    ]
    for _ in range(2):
        asked = [client.post("workspace/executeCommand", params) for params in wrong]
        for request_id in asked:
            refused = await client.answer_error(request_id)
            assert (refused["code"], refused["data"]["code"]) == (-32602, "invalidParams")
            assert len(client.answers_to(request_id)) == 1
    assert "Traceback" not in json.dumps(client.received)
    with pytest.raises(RpcError) as nothing:
        await client.request("textDocument/codeLens", {})
    assert nothing.value.code == -32601
    assert (await command(client, "tinsmith.ask", ""))["error"] == "invalidParams"
    assert await client.stop() == 0


async def test_a_command_is_cancelled_while_the_features_load(connect):
    client = await connect(NOWHERE, agent=None)
    execute = {
        "jsonrpc": "2.0",
        "id": "one",
        "method": "workspace/executeCommand",
        "params": {"command": "tinsmith.new"},
    }
    cancel = {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": "one"}}
    client.write(frame(execute) + frame({**execute}) + frame(cancel))
    first = await client.until(lambda message: message.get("id") == "one" and "error" in message)
    assert first["error"]["data"]["code"] == "duplicateId"
    second = await client.until(lambda message: message.get("id") == "one" and message is not first)
    assert second["error"]["code"] == -32800
    assert await client.request("agent/conversationList", {}) == {"conversations": []}
    assert (await command(client, "tinsmith.new")).keys() == {"conversationId"}
    assert len(client.answers_to("one")) == 2


async def test_a_plain_client_that_shows_nothing_gets_the_place_of_the_transcript(connect):
    async with LoopbackServer(ScriptedModel(lambda _: reply("It sums."))) as provider:
        client = await connect(provider.base_url, agent=None)
        client.answers["window/showDocument"] = lambda _: "no"
        await command(client, "tinsmith.ask", "go")
        told = await client.until(lambda m: "transcript is in" in str(m.get("params")))
        assert os.path.exists(told["params"]["message"].removeprefix("The transcript is in ").rstrip("."))
        assert await client.stop() == 0


@pytest.mark.parametrize("agent", [{}, None])
async def test_pygls_is_imported_for_plain_clients_alone(connect, agent):
    client = await connect(NOWHERE, agent=agent, environment={"PYTHONPROFILEIMPORTTIME": "1"})
    if agent is None:
        await command(client, "tinsmith.new")
    else:
        with pytest.raises(RpcError) as refused:
            await command(client, "tinsmith.new")
        assert refused.value.code == -32601
    assert await client.stop() == 0
    imported = (await client.process.stderr.read()).decode()
    assert "tinsmith.adapters.lsp.server" in imported
    for library in ("pygls", "lsprotocol"):
        assert (f"| {library}" in imported.replace("  ", "")) is (agent is None)
