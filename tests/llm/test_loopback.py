"""The loopback provider, seen by clients that are not ours."""

import http.client
import json
import subprocess
import sys
import threading

from tinsmith.demo.server import RawAnswer, ServerThread
from tinsmith.domain.message import AssistantMessage, TextPart, ToolCall, ToolMessage, UserMessage
from tinsmith.llm.scripted import Call, Fail, ScriptedModel, Wait, reply


def post(port: int, body: object, path: str = "/v1/chat/completions") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, raw, {"content-type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def asking(**fields: object) -> dict[str, object]:
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}


def test_a_stream_with_usage_and_an_end() -> None:
    with ServerThread(ScriptedModel([reply("a b", Call("f", {"x": 1}))], mint=lambda: "c1")) as server:
        status, body = post(server.port, asking(stream=True, stream_options={"include_usage": True}))
    events = [event.removeprefix("data: ") for event in body.decode().split("\n\n") if event]
    assert (status, events[-1]) == (200, "[DONE]")
    *chunks, usage = [json.loads(event) for event in events[:-1]]
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] == 120
    assert [(chunk["choices"][0]["delta"], chunk["choices"][0]["finish_reason"]) for chunk in chunks] == [
        ({"content": "a"}, None),
        ({"content": " b"}, None),
        (
            {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}]},
            None,
        ),
        ({"tool_calls": [{"index": 0, "function": {"arguments": '{"x":1}'}}]}, None),
        ({}, "tool_calls"),
    ]


def test_the_model_sees_the_whole_history() -> None:
    script = ScriptedModel([reply("ok")])
    messages = [
        {"role": "system", "content": "Be good."},
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "done"},
    ]
    with ServerThread(script) as server:
        status, body = post(server.port, asking(messages=messages))
    assert (status, json.loads(body)["choices"][0]["message"]) == (200, {"role": "assistant", "content": "ok"})
    (seen,) = script.requests
    assert (seen.system, seen.is_streamed, seen.model.model) == ("Be good.", False, "m")
    assert seen.messages == (
        UserMessage("m1", "", (TextPart("go"),)),
        AssistantMessage("m2", "", "", "", calls=(ToolCall("a", "f", "{}"),)),
        ToolMessage("m3", "", "a", "", "done"),
    )


def test_refusals() -> None:
    script = ScriptedModel(
        [reply(Fail("rateLimited", "Slow down.", retryable=True)), reply("a", Fail("overloaded", "Busy."))]
    )
    with ServerThread(script) as server:
        assert post(server.port, b"not json")[0] == 400
        assert post(server.port, asking(), "/elsewhere")[0] == 404
        status, body = post(server.port, asking(stream=True))
        assert (status, json.loads(body)["error"]["message"]) == (429, "Slow down.")
        status, body = post(server.port, asking(stream=True))
        assert (status, b"Busy." in body, body.endswith(b"data: [DONE]\n\n")) == (200, True, True)
        assert post(server.port, asking())[0] == 400  # the script has run out
        assert [request.path for request in server.requests].count("/v1/chat/completions") == 4


def test_stopping_ends_what_still_runs() -> None:
    with ServerThread(ScriptedModel([reply("a", Wait())]), RawAnswer((float("inf"),))) as server:
        for _ in range(2):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
            connection.request("POST", "/v1/chat/completions", json.dumps(asking(stream=True)))
            assert connection.getresponse().status == 200
            connection.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "tinsmith-loopback"]


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, tinsmith.llm.provider, tinsmith.llm.catalog, tinsmith.llm.scripted\n"
        "print({'httpx', 'httpcore', 'anyio', 'email'} & {name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
