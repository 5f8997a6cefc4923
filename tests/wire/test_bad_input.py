"""Bad input: each gives the person or the model a sentence that says what to do, and the server lives."""

import json
import re
from math import inf

import pytest
from tests.wire.client import RpcError, frame

from tinsmith.demo.server import LoopbackServer, RawAnswer
from tinsmith.llm.scripted import Call, ScriptedModel, reply

FAST = {"llm_config": {"retry_backoff_ms": [0]}, "empty_response_retry_backoff_ms": [0], "permission_mode": "full"}
OPTIONS = {"initializationOptions": {"settings": FAST}}
FINE = ScriptedModel(lambda request: reply("Fine again."))


def raw(body, status=200, content_type="application/json", **headers):
    return RawAnswer((body.encode(),), status, content_type, headers)


def error(message, **more):
    return json.dumps({"error": {"message": message, **more}})


HALF_A_CALL = (
    'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"write",'
    '"arguments":"{\\"path\\": \\"a"}}]}}]}\n\n'
)


@pytest.mark.parametrize(
    ("answer", "code", "says"),
    [
        (raw(error("bad key"), 401), "authRequired", "LLM_API_KEY"),
        (raw(error("no such model"), 404), "modelNotFound", "model"),
        (raw(error("slow down"), 429), "rateLimited", "slow down"),
        (raw(error("oops"), 500), "providerHttp", "500"),
        (raw("<html>login</html>", 200, "text/html"), "unexpectedBody", "text/html"),
        (raw("", 200, "text/event-stream"), "streamInterrupted", "."),
        (RawAnswer((HALF_A_CALL.encode(),), is_cut=True), "streamInterrupted", "."),
        (raw(error("quota used up", code="insufficient_quota"), 429), "rateLimited", "quota used up"),
        (raw('data: {"error": {"message": "exploded"}}\n\n', 200, "text/event-stream"), "providerHttp", "exploded"),
    ],
)
async def test_what_a_provider_can_do_ends_the_turn_in_words(connect, answer, code, says):
    async with LoopbackServer(answer) as provider:
        client = await connect(provider.base_url, **OPTIONS)
        ended = await client.turn("go")
        assert (ended["outcome"], ended["error"]["code"]) == ("error", code)
        assert re.search(re.escape(says), ended["message"], re.IGNORECASE)
        assert ended["message"].rstrip().endswith((".", "!"))
    async with LoopbackServer(FINE, port=provider.port):
        assert (await client.turn("again"))["outcome"] == "completed"


async def test_no_server_there(connect):
    async with LoopbackServer(FINE) as provider:
        pass
    client = await connect(provider.base_url, **OPTIONS)
    ended = await client.turn("go")
    assert ended["error"]["code"] == "connectFailed"
    assert f"127.0.0.1:{provider.port}" in ended["message"]
    assert len(client.events("retrying")) == 2


async def test_a_retry_is_seen_and_the_turn_recovers(connect):
    async with LoopbackServer(raw(error("slow down"), 429, **{"retry-after": "0"}), FINE) as provider:
        client = await connect(provider.base_url, **OPTIONS)
        assert (await client.turn("go"))["outcome"] == "completed"
    (retrying,) = client.events("retrying")
    assert (retrying["attempt"], retrying["delayMs"]) == (1, 0)


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("read", {"path": "missing.txt"}, "There is no file"),
        ("read", {"path": "image.bin"}, "binary"),
        ("edit", {"path": "a.txt", "hash": "0" * 16, "edits": [{"op": "delete", "start": 1}]}, "hash"),
        ("edit", {"path": "a.txt", "hash": "0" * 16, "edits": []}, "edits"),
        ("write", {"path": "a.txt", "content": "x"}, "hash"),
        ("bash", '{"command": "ls', "cut off"),
        ("bash", {"command": "rm -rf /"}, "never"),
        ("nothing", {}, "There is no tool 'nothing' here"),
    ],
)
async def test_what_a_model_can_call_wrongly_is_answered_in_words(connect, workspace, name, arguments, says):
    (workspace / "a.txt").write_text("here\n")
    (workspace / "image.bin").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\x00\x01" * 40)
    model = ScriptedModel([reply(Call(name, arguments)), reply("I see.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url, **OPTIONS)
        ended = await client.turn("go")
        assert ended["outcome"] == "completed"
    result = model.requests[-1].messages[-1].content
    assert says.casefold() in result.casefold()
    assert (workspace / "a.txt").read_text() == "here\n"


async def test_a_path_outside_asks_even_in_full_mode(connect, workspace, tmp_path):
    (tmp_path / "outside.txt").write_text("secret\n")
    model = ScriptedModel([reply(Call("read", {"path": "../outside.txt"})), reply("I see.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url, **OPTIONS)
        asked = []
        client.answers["agent/requestPermission"] = lambda params: asked.append(params) or {"optionId": "deny"}
        await client.turn("go")
    assert len(asked) == 1
    assert "outside.txt" in asked[0]["title"]
    assert "secret" not in model.requests[-1].messages[-1].content


@pytest.mark.parametrize(
    ("method", "params", "code", "name"),
    [
        ("agent/nothing", {}, -32601, "methodNotFound"),
        ("textDocument/hover", {}, -32601, "methodNotFound"),
        ("agent/runTurn", {"text": 3}, -32602, "invalidParams"),
        ("agent/runTurn", {"text": ""}, -32602, "invalidParams"),
        ("agent/runTurn", {"text": "x", "turnId": "not:valid"}, -32602, "invalidParams"),
        ("agent/runTurn", {"text": "x", "role": "worker"}, -32602, "invalidParams"),
        ("agent/runTurn", [], -32602, "invalidParams"),
        ("agent/conversationLoad", {"conversationId": "nobody"}, -32803, "conversationNotFound"),
        ("agent/historyRead", {"conversationId": "nobody"}, -32803, "conversationNotFound"),
        ("agent/historyRead", {}, -32602, "invalidParams"),
        ("agent/turnWait", {"turnId": "nobody"}, -32803, "turnNotFound"),
        ("agent/configSet", {"path": "nothing", "value": 1}, -32602, "unknownSetting"),
        ("initialize", {}, -32600, "alreadyInitialized"),
    ],
)
async def test_wrong_requests_are_refused_by_code_and_name(connect, method, params, code, name):
    client = await connect("http://127.0.0.1:9/v1")
    with pytest.raises(RpcError) as refused:
        await client.request(method, params)
    assert (refused.value.code, refused.value.name) == (code, name)
    assert refused.value.data["kind"] in {"schema", "protocol", "policy"}
    assert await client.stop() == 0


async def test_the_path_of_a_wrong_parameter_is_named(connect):
    client = await connect()
    with pytest.raises(RpcError) as refused:
        await client.request("agent/runTurn", {"input": [{"type": "selection", "uri": 7, "text": "x"}]})
    assert refused.value.data["path"] == "input[0].uri"


async def test_frames_that_are_no_messages_are_answered_and_the_next_one_is_served(connect):
    client = await connect()
    client.write(frame(b"{nonsense"))
    assert (await client.until(lambda message: "error" in message))["error"]["code"] == -32700
    client.write(frame([{"jsonrpc": "2.0", "id": 1, "method": "shutdown"}]))
    batch = await client.until(lambda message: message.get("error", {}).get("code") == -32600)
    assert batch["error"]["data"]["code"] == "batchUnsupported"
    client.write(frame({"jsonrpc": "2.0", "id": 99}))
    await client.answer_error(99)
    assert (await client.request("agent/configGet", {}))["version"] > 0


async def test_before_initialize_and_after_shutdown(connect):
    client = await connect(initialize=False)
    with pytest.raises(RpcError) as early:
        await client.request("agent/configGet", {})
    assert (early.value.code, early.value.name) == (-32600, "notInitialized")
    with pytest.raises(RpcError) as version:
        await client.initialize({"versions": [7]})
    assert version.value.name == "unsupportedVersion"
    await client.initialize()
    await client.request("shutdown")
    with pytest.raises(RpcError) as late:
        await client.request("agent/configGet", {})
    assert (late.value.code, late.value.name) == (-32600, "shutdown")
    client.notify("exit", {})
    assert await client.gone() == 0


async def test_joined_and_split_frames_and_lower_case_headers(connect):
    client = await connect()
    one = frame({"jsonrpc": "2.0", "id": 501, "method": "agent/configGet", "params": {}})
    two = frame({"jsonrpc": "2.0", "id": 502, "method": "agent/configGet", "params": {"ü": "naïve 🚀"}})
    client.write(one + two.replace(b"Content-Length", b"content-length"))
    await client.answer(501)
    await client.answer(502)
    for byte in frame({"jsonrpc": "2.0", "id": 503, "method": "agent/configGet", "params": {"ü": "🚀"}}):
        client.write(bytes([byte]))
        await client.process.stdin.drain()
    await client.answer(503)


async def test_a_nested_jsonrpc_object_is_only_data(connect):
    async with LoopbackServer(FINE) as provider:
        client = await connect(provider.base_url)
        ended = await client.turn('{"jsonrpc": "2.0"}', _meta={"jsonrpc": "2.0", "id": 1, "method": "x"})
    assert ended["outcome"] == "completed"


async def test_a_cancelled_request_is_answered_once(connect):
    async with LoopbackServer(RawAnswer((inf,), is_silent=True)) as provider:
        client = await connect(provider.base_url)
        started = await client.ask("go")
        waiting = client.post("agent/turnWait", {"turnId": started["turnId"]})
        client.notify("$/cancelRequest", {"id": waiting})
        with pytest.raises(RpcError) as cancelled:
            await client.answer(waiting)
        assert cancelled.value.code == -32800
        assert client.events("turnEnded") == []
        await client.request("agent/cancel", {"turnId": started["turnId"]})
        await client.event("turnEnded")
    assert sum(message.get("id") == waiting for message in client.received) == 1
