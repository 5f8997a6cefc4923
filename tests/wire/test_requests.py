"""Every request is answered exactly once and with the right code, whatever stands in it and around it."""

import random

import pytest
from tests.wire.client import RpcError, frame

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import ScriptedModel, reply

NOWHERE = "http://127.0.0.1:9/v1"

EDITIONS = 12
"""How often each of the requests below is sent."""

REQUESTS = [
    ("agent/configGet", {}, None),
    ("agent/configGet", {"path": "llm_config"}, None),
    ("agent/conversationList", {"limit": -3, "_meta": {"jsonrpc": "2.0"}}, None),
    ("agent/conversationList", None, None),
    ("agent/conversationNew", {"title": "é🚀\x00\u2028"}, None),
    ("agent/cancel", {"turnId": "nobody"}, None),
    ("agent/cancel", {}, None),
    ("agent/inspect", {"what": "config"}, None),
    ("agent/conversationList", {"limit": "x"}, -32602),
    ("agent/conversationList", {"cursor": "x"}, -32602),
    ("agent/conversationList", [], -32602),
    ("agent/conversationNew", {"workspace": "not/absolute"}, -32602),
    ("agent/conversationNew", {"workspace": "file:///a%00b"}, -32602),
    ("agent/runTurn", {"text": ""}, -32602),
    ("agent/runTurn", {"text": "x", "mode": "sideways"}, -32602),
    ("agent/runTurn", {"text": "x", "overrides": {"nothing": 1}}, -32602),
    ("agent/runTurn", {"input": [{"type": "unheard of"}]}, -32602),
    ("agent/configSet", {"path": "nothing", "value": 1}, -32602),
    ("agent/configSet", {"path": "tool_step_budget", "value": -1}, -32602),
    ("agent/configSet", {}, -32602),
    ("agent/inspect", {"what": "nothing"}, -32602),
    ("agent/turnWait", {"turnId": "nobody"}, -32803),
    ("agent/conversationLoad", {"conversationId": "nobody"}, -32803),
    ("agent/conversationLoad", {"conversationId": "no:body\x00" * 99}, -32803),
    ("agent/subscribe", {"conversationId": "", "afterSeq": -1}, -32803),
    ("agent/runTurn", {"text": "x", "mode": "steer"}, -32803),
    ("agent/nothing", {}, -32601),
    ("textDocument/hover", {"textDocument": {"uri": "file:///a"}}, -32601),
    ("workspace/executeCommand", {"command": "tinsmith.new"}, -32601),
    ("$/nothing", None, -32601),
    ("initialize", {"capabilities": {}}, -32600),
    (7, {}, -32600),
    (None, {}, -32600),
]
"""Method, params, and the code of the error that must come, None for a result."""

NOISE = [
    b"{",
    b"[]",
    b"nonsense",
    b'"text"',
    b'{"jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0","id":null,"method":"agent/configGet"}',
    b'{"jsonrpc":"2.0","id":{},"method":"agent/configGet"}',
    b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"an error of the client"}}',
    b'{"jsonrpc":"2.0","id":987654,"result":{"an answer":"to nothing"}}',
    b'{"jsonrpc":"2.0","method":"no/such","params":{"id":1}}',
    b'{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":{"uri":5}}}',
    b'{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":{"uri":"file:///%00","version":1,"text":""}}}',
    b'{"jsonrpc":"2.0","method":"textDocument/didChange","params":{"textDocument":{"uri":"file:///x"}}}',
    b'{"jsonrpc":"2.0","method":"workspace/didChangeConfiguration","params":{"settings":{"tinsmith":{"no":1}}}}',
    b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"nobody"}}',
    b'{"jsonrpc":"2.0","method":"\xff\xfe","params":"\xff"}',
]
"""What is no request, in between."""


async def test_a_shuffled_mix_of_requests_is_answered_one_by_one(connect):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    client = await connect(NOWHERE)
    expected = {}
    frames = [frame(body) for body in NOISE] * 4
    for edition in range(EDITIONS):
        for place, (method, params, code) in enumerate(REQUESTS):
            request_id = chance.choice([f"{edition}-{place}", 1_000 * (edition + 1) + place])
            expected[request_id] = code
            fields = {"method": method, "params": params} if params is not None else {"method": method}
            frames.append(frame({"jsonrpc": "2.0", "id": request_id, **fields}))
    chance.shuffle(frames)
    wire = b"".join(frames)
    while wire:
        cut = chance.choice([1, 7, 100, 5_000, 60_000])
        client.write(wire[:cut])
        wire = wire[cut:]
        await client.process.stdin.drain()
    for request_id in expected:
        await client.until(lambda message, sought=request_id: message.get("id") == sought and "method" not in message)
    await client.request("agent/configGet", {})
    answered = [message for message in client.received[1:] if "method" not in message and message["id"] in expected]
    assert len(answered) == len(expected)
    codes = {message["id"]: message["error"]["code"] if "error" in message else None for message in answered}
    assert codes == expected
    for message in answered:
        if "error" in message:
            data = message["error"]["data"]
            assert {"kind", "code", "retryable"} <= data.keys()
            assert message["error"]["message"].endswith((".", "?"))
    assert await client.stop() == 0


async def test_an_id_comes_back_as_it_was(connect):
    client = await connect(NOWHERE)
    ids = [0, -1, 1.5, 2**70, "", "é🚀", "\x00", "5", 1e300]
    for request_id in ids:
        client.send({"jsonrpc": "2.0", "id": request_id, "method": "agent/conversationList"})
    client.send({"jsonrpc": "2.0", "id": "last", "method": "agent/conversationList"})
    await client.answer("last")
    answers = client.received[1:-1]
    assert [(answer["id"], answer["result"]) for answer in answers] == [(each, {"conversations": []}) for each in ids]
    assert [type(answer["id"]) for answer in answers] == list(map(type, ids))


HARDLY_READ = [
    (b'{"jsonrpc":"2.0","id":5,"method":7}', 5, -32600),
    (b'{"jsonrpc":"2.0","id":"x","method":{}}', "x", -32600),
    (b'{"jsonrpc":"2.0","id":6}', 6, -32600),
    (b'{"jsonrpc":"2.0","method":7}', None, -32600),
    (b'{"jsonrpc":"2.0","id":true,"method":"agent/configGet"}', None, -32600),
    (b'{"jsonrpc":"2.0","id":[1],"method":"agent/configGet"}', None, -32600),
    (b'{"jsonrpc":"2.0","id":null,"method":"agent/configGet"}', None, -32600),
    (b'{"jsonrpc":"2.0","id":7,"method":"agent/turnWait","params":{"turnId":"\xff"}}', 7, -32803),
    (b'{"jsonrpc":"2.0","id":8,"method":"agent/turnWait","params":{"turnId":"\\ud800"}}', 8, -32803),
    (b'{"jsonrpc":"2.0","id":9,"method":"agent/turnWait","params":{"turnId":NaN}}', 9, -32602),
    (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":10,"method":"agent/turnWait","params":{"turnId":"x"}}', 10, -32803),
    (b'{"jsonrpc":"2.0","id":11,"method":"x","params":' + b"[" * 90_000 + b"]" * 90_000 + b"}", None, -32700),
    (b'{"jsonrpc":"2.0","id":12,"method":"x","params":}', None, -32700),
    (b'{"jsonrpc":"2.0","id":13,"method":"agent/turnWait","params":{"turnId":"\\q"}}', None, -32700),
]


async def test_what_can_hardly_be_read_is_answered_under_its_id_where_it_has_one(connect):
    client = await connect(NOWHERE)
    for body, request_id, code in HARDLY_READ:
        after = len(client.received)
        client.write(frame(body))
        answer = await client.until(lambda message: "error" in message, after)
        assert (answer["id"], answer["error"]["code"]) == (request_id, code), body[:80]
    assert await client.request("agent/conversationList", {}) == {"conversations": []}


async def test_initialize_with_wrong_params_is_refused_and_may_be_tried_again(connect):
    client = await connect(NOWHERE, initialize=False)
    wrong = [{"capabilities": 5}, {"processId": "me"}, {"rootUri": 7}, {"workspaceFolders": {}}, [], None]
    for params in wrong:
        with pytest.raises(RpcError) as refused:
            await client.request("initialize", params)
        assert (refused.value.code, refused.value.name) == (-32602, "invalidParams")
    await client.initialize()
    assert await client.request("agent/conversationList", {}) == {"conversations": []}


async def test_what_does_not_fit_deeper_in_initialize_counts_as_not_said(connect):
    async with LoopbackServer(ScriptedModel(lambda _: reply("Here."))) as provider:
        client = await connect(provider.base_url, initialize=False)
        params = {
            "rootUri": client.workspace.as_uri(),
            "workspaceFolders": [{"name": "no uri"}],
            "initializationOptions": [1],
            "capabilities": {
                "general": {"positionEncodings": ["utf-8", 5]},
                "experimental": {"agent": {"stream": {"maxHz": "fast"}, "optOut": "all", "applyEdits": {}}},
                "textDocument": {"jsonrpc": "2.0"},
            },
        }
        result = await client.request("initialize", params)
        assert result["capabilities"]["positionEncoding"] == "utf-8"
        assert (await client.turn("go"))["outcome"] == "completed"


async def test_a_workspace_whose_name_is_no_text_is_served(connect):
    client = await connect(NOWHERE)
    made = await client.request("agent/conversationNew", {"workspace": f"{client.workspace.as_uri()}/%FF%C3"})
    assert made["conversation"]["workspace"] == f"{client.workspace.as_uri()}/%FF%C3"
    (listed,) = (await client.request("agent/conversationList", {}))["conversations"]
    assert listed["conversationId"] == made["conversation"]["conversationId"]
