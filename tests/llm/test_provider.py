"""The dialect over real sockets: refusals, silence, breaks, cancel, and what is remembered."""

import asyncio
import json
from contextlib import aclosing
from itertools import count, pairwise

import msgspec
import pytest
from tests.llm.conftest import keys

from tinsmith.demo.server import HttpRequest, LoopbackServer, RawAnswer
from tinsmith.domain.cancel import CancelToken
from tinsmith.domain.errors import AgentError, Cancelled, ProtocolError, SchemaError, TransportError
from tinsmith.domain.message import Answer, AssistantMessage, CallDetected, ReasoningDelta, TextDelta, ToolCall, Usage
from tinsmith.domain.settings import LlmSettings
from tinsmith.llm.endpoint import Credentials, is_local, join, resolve
from tinsmith.llm.provider import Provider
from tinsmith.llm.scripted import Call, Fail, Reply, Say, ScriptedModel, Think, Wait, reply

FOREVER = float("inf")


def event(text: str, finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish_reason}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
HELLO = RawAnswer((event("hello", "stop"), DONE))


async def until(condition) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


async def failure(ask, *answers, **settings) -> AgentError:
    with pytest.raises(AgentError) as failed:
        await ask(*answers, **settings)
    return failed.value


async def test_a_scripted_answer_arrives_as_it_was_written(ask) -> None:
    script = ScriptedModel(
        [
            Reply(
                (Think("Let me see."), Say("One two."), Call("read", {"path": "a.py"}), Call("bash", '{"cut')),
                Usage(9, 8, 17, 4, 2),
            )
        ]
    )
    deltas = await ask(script)
    assert deltas == [
        ReasoningDelta("Let"),
        ReasoningDelta(" me"),
        ReasoningDelta(" see."),
        TextDelta("One"),
        TextDelta(" two."),
        CallDetected("call_1", "read"),
        CallDetected("call_2", "bash"),
        Answer(
            "One two.",
            "Let me see.",
            (ToolCall("call_1", "read", '{"path":"a.py"}'), ToolCall("call_2", "bash", '{"cut', is_complete=False)),
            "tool_calls",
            Usage(9, 8, 17, 4, 2),
        ),
    ]


async def test_an_answer_that_is_not_streamed_is_one_batch(model, request_of) -> None:
    script = ScriptedModel([reply(Think("Hm."), "Hello there.", Call("read", {"path": "a"}))])
    async with LoopbackServer(script) as server:
        settings = LlmSettings(base_url=server.base_url)
        batches = [batch async for batch in model.stream(request_of(is_streamed=False), settings)]
    call = ToolCall("call_1", "read", '{"path":"a"}')
    assert batches == [
        [
            ReasoningDelta("Hm."),
            TextDelta("Hello there."),
            CallDetected("call_1", "read"),
            Answer("Hello there.", "Hm.", (call,), "tool_calls", Usage(100, 20, 120)),
        ]
    ]
    assert script.requests[0].is_streamed is False


async def test_the_first_delta_is_there_before_the_rest_is_sent(model, request_of) -> None:
    async with LoopbackServer(RawAnswer((event("first"), FOREVER))) as server:
        async with aclosing(model.stream(request_of(), LlmSettings(base_url=server.base_url))) as batches:
            assert await anext(batches) == [TextDelta("first")]
        await until(lambda: server.abandoned == 1)


async def test_requests_share_one_connection(model, request_of) -> None:
    async with LoopbackServer(ScriptedModel(lambda _: reply("hello")), models=("m",)) as server:
        settings = LlmSettings(base_url=server.base_url)
        for is_streamed in (True, True, False, True):
            async for _ in model.stream(request_of(is_streamed=is_streamed), settings):
                pass
        assert [(request.connection, request.headers["authorization"]) for request in server.requests] == [
            (1, "Bearer sk-secret")
        ] * 4


async def test_a_refusal_keeps_the_connection_too(model, request_of) -> None:
    async with LoopbackServer(
        ScriptedModel([reply(Fail("overloaded", "busy", retryable=True)), reply("ok")])
    ) as server:
        settings = LlmSettings(base_url=server.base_url)
        with pytest.raises(TransportError):
            await anext(model.stream(request_of(), settings))
        assert [batch async for batch in model.stream(request_of(), settings)][-1][-1].text == "ok"
        assert server.connections == 1


async def test_cancel_closes_the_connection_at_once(model, request_of) -> None:
    token = CancelToken()
    async with LoopbackServer(ScriptedModel([reply("some text", Wait())])) as server:
        settings = LlmSettings(base_url=server.base_url)
        seen = []
        with pytest.raises(Cancelled), token.scope():
            async for batch in model.stream(request_of(), settings):
                seen.extend(batch)
                if len(seen) == 2:
                    token.cancel()
        await until(lambda: server.abandoned == 1)
        assert seen == [TextDelta("some"), TextDelta(" text")]


async def test_cancel_before_the_first_byte(model, request_of) -> None:
    token = CancelToken()
    async with LoopbackServer(RawAnswer((FOREVER,), is_silent=True)) as server, asyncio.TaskGroup() as group:

        async def ask() -> None:
            with pytest.raises(Cancelled), token.scope():
                await anext(model.stream(request_of(), LlmSettings(base_url=server.base_url)))

        asking = group.create_task(ask())
        await until(lambda: server.requests)
        token.cancel()
        await asking
        await until(lambda: server.abandoned == 1)


async def test_a_silent_server(ask) -> None:
    error = await failure(ask, RawAnswer((FOREVER,), is_silent=True), connect_timeout=0.1)
    assert (error.kind, error.code, error.retryable) == ("transport", "timeout", True)


@pytest.mark.parametrize("alive", [b": ping\n\n", b"data: : ping\n\n", b'data: {"object":"ping"}\n\n', b"\n"])
async def test_a_heartbeat_is_no_event(ask, alive) -> None:
    beating = RawAnswer((event("a"), *(piece for _ in range(40) for piece in (alive, 0.02)), FOREVER))
    error = await failure(ask, beating, stream_stall_timeout=0.2)
    assert (error.kind, error.code, error.retryable) == ("transport", "streamStalled", True)
    assert "0.2 s" in error.message


async def test_a_slow_stream_that_goes_on_is_no_stall(ask) -> None:
    slow = RawAnswer((*(piece for _ in range(12) for piece in (event("a"), 0.05)), event("b", "stop"), DONE))
    assert (await ask(slow, stream_stall_timeout=0.5))[-1].text == "a" * 12 + "b"


async def test_a_slow_reader_is_no_stall(model, request_of) -> None:
    async with LoopbackServer(RawAnswer((event("a"), event("b"), 0.5, event("c", "stop"), DONE))) as server:
        settings = LlmSettings(base_url=server.base_url, stream_stall_timeout=0.4)
        texts = []
        async for batch in model.stream(request_of(), settings):
            texts.append(batch[0].text)
            await asyncio.sleep(0.3)
    assert texts == ["a", "b", "c", "abc"]


async def test_a_plain_answer_that_takes_too_long(ask, request_of) -> None:
    never = RawAnswer((b"{", FOREVER), content_type="application/json")
    error = await failure(ask, never, request=request_of(is_streamed=False), timeout=0.1)
    assert (error.code, error.retryable) == ("timeout", True)
    assert "llm_config.timeout" in error.message


@pytest.mark.parametrize(
    "answer",
    [
        RawAnswer(),
        RawAnswer(content_type="application/json"),
        RawAnswer((b": nothing\n\n",)),
        RawAnswer((event("half"),)),
        RawAnswer((event("half"), b'data: {"choices":[{"del'), is_cut=True),
        RawAnswer(is_cut=True),
        RawAnswer(is_silent=True, is_cut=True),
    ],
)
async def test_an_answer_that_breaks_off(ask, answer) -> None:
    error = await failure(ask, answer)
    assert (error.kind, error.code, error.retryable) == ("transport", "streamInterrupted", True)


@pytest.mark.parametrize(
    "answer",
    [
        RawAnswer((event("whole", "stop"),)),
        RawAnswer((event("whole", "stop"),), is_cut=True),
        RawAnswer((event("whole", "stop"), b"data: [DO")),
        RawAnswer((event("whole", "stop"), b'data: {"choices":[],"usa'), is_cut=True),
        RawAnswer((event("whole"), DONE)),
        RawAnswer((event("whole", "stop"), b"data: [DONE]")),
        RawAnswer((event("whole", "stop"), DONE, FOREVER)),
        RawAnswer((event("whole", "stop"), DONE, b": bye\n\n"), is_cut=True),
        RawAnswer((event("whole", "stop"), b"data:  [DONE] \r\n\r\n"), content_type="text/plain"),
    ],
)
async def test_an_answer_that_is_whole(ask, answer) -> None:
    assert (await ask(answer))[-1].text == "whole"


async def test_text_before_an_error_is_shown(model, request_of) -> None:
    failing = event("before") + b'data: {"error":{"message":"it broke","type":"server_error"}}\n\n'
    async with LoopbackServer(RawAnswer((failing,))) as server:
        batches = model.stream(request_of(), LlmSettings(base_url=server.base_url))
        assert await anext(batches) == [TextDelta("before")]
        with pytest.raises(TransportError, match="it broke") as failed:
            await anext(batches)
    assert failed.value.retryable


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "bad things"}},
        {"error": "bad things"},
        {"object": "error", "message": "bad things", "code": 400},
        {"choices": [{"index": 0, "error": {"message": "bad things", "code": 502}}]},
    ],
)
async def test_an_error_with_status_200(ask, body) -> None:
    encoded = json.dumps(body).encode()
    for answer in (RawAnswer((encoded,), content_type="application/json"), RawAnswer((b"data: " + encoded + b"\n\n",))):
        error = await failure(ask, answer)
        assert (error.kind, "bad things" in error.message) == ("transport", True)


async def test_a_body_without_end_that_is_no_answer(ask, monkeypatch) -> None:
    monkeypatch.setattr("tinsmith.llm.answer._BODY_LIMIT", 1000)
    error = await failure(ask, RawAnswer((*[b"x" * 99 + b"\n"] * 20, FOREVER), content_type="text/plain"))
    assert (error.kind, error.code) == ("protocol", "unexpectedBody")


async def test_json_that_is_no_completion(ask) -> None:
    error = await failure(ask, RawAnswer((b'{"status":"ok"}',), content_type="application/json"))
    assert isinstance(error, ProtocolError)
    assert '{"status":"ok"}' in error.message


@pytest.mark.parametrize(
    ("answer", "code", "retryable"),
    [
        (RawAnswer((b'{"error":{"message":"bad key sk-secret"}}',), 401), "authRequired", False),
        (RawAnswer((b'{"error":{"message":"The model x does not exist"}}',), 404), "modelNotFound", False),
        (RawAnswer((b"<html>nothing</html>",), 404, "text/html"), "providerHttp", False),
        (RawAnswer((b"{}",), 429, headers={"Retry-After": "3"}), "rateLimited", True),
        (RawAnswer((b"oops",), 500, "text/plain"), "providerHttp", True),
        (RawAnswer((b"busy", FOREVER), 503), "overloaded", True),
        (RawAnswer((b"busy",), 503, is_cut=True), "overloaded", True),
        (RawAnswer(status=307, headers={"location": "/elsewhere"}), "providerHttp", False),
    ],
)
async def test_refusals(ask, monkeypatch, answer, code, retryable) -> None:
    monkeypatch.setattr("tinsmith.llm.provider._REFUSAL_SECONDS", 0.1)
    error = await failure(ask, answer)
    assert (error.code, error.retryable, error.data["status"]) == (code, retryable, answer.status)
    assert "sk-secret" not in error.message
    assert error.data.get("retryAfterMs") == (3000 if answer.status == 429 else None)


async def test_nobody_listens(model, request_of) -> None:
    async with LoopbackServer() as server:
        pass
    with pytest.raises(TransportError) as failed:
        await anext(model.stream(request_of(), LlmSettings(base_url=server.base_url)))
    assert (failed.value.code, failed.value.retryable) == ("connectFailed", True)
    for word in (f"127.0.0.1:{server.port}", "running", "llm_config.base_url"):
        assert word in failed.value.message


ALLOWED = {"model", "messages", "tools", "tool_choice", "temperature", "max_tokens", "stream"}


def strict(request: HttpRequest) -> RawAnswer:
    unknown = set(json.loads(request.body)) - ALLOWED
    if unknown:
        body = json.dumps(
            {"detail": [{"loc": ["body", name], "msg": "extra inputs are not permitted"} for name in unknown]}
        )
        return RawAnswer((body.encode(),), 422, "application/json")
    return HELLO


async def test_llm_41_stream_options_are_dropped_once_and_for_all(model, request_of) -> None:
    async with LoopbackServer(strict) as server:
        settings = LlmSettings(base_url=server.base_url)
        for _ in range(2):
            assert [batch async for batch in model.stream(request_of(), settings)][-1][-1].text == "hello"
        assert ["stream_options" in json.loads(request.body) for request in server.requests] == [True, False, False]
        assert server.connections == 1


async def test_llm_41_a_server_that_goes_on_complaining_is_asked_twice(model, request_of) -> None:
    always = RawAnswer((b'{"error":{"message":"stream_options? never"}}',), 400)
    async with LoopbackServer(always) as server:
        with pytest.raises(TransportError, match="never"):
            await anext(model.stream(request_of(), LlmSettings(base_url=server.base_url)))
        assert len(server.requests) == 2


async def test_a_broken_history_makes_no_request(ask, model, request_of) -> None:
    dangling = AssistantMessage("m2", "t1", "i1", "", calls=(ToolCall("a", "read", "{}"),))
    async with LoopbackServer(HELLO) as server:
        with pytest.raises(SchemaError):
            await anext(model.stream(request_of(dangling), LlmSettings(base_url=server.base_url)))
        assert server.requests == []


@pytest.mark.parametrize(
    ("settings", "code", "word"),
    [
        (LlmSettings(), "baseUrlMissing", "TINSMITH_BASE_URL"),
        (LlmSettings(base_url="ftp://host/v1"), "invalidUrl", "ftp://host/v1"),
        (LlmSettings(base_url="not a url"), "invalidUrl", "llm_config.base_url"),
        (LlmSettings(base_url="http://[::1"), "invalidUrl", "llm_config.base_url"),
        (LlmSettings(base_url="https://api.example.com/v1", api_key_env="MISSING"), "authRequired", "MISSING"),
        (LlmSettings(base_url="https://api.example.com/v1", api_key_env="BAD"), "authRequired", "BAD"),
    ],
)
async def test_what_is_wrong_before_any_request(http, request_of, settings, code, word) -> None:
    model = Provider(http, keys({"BAD": "sk-sec\nret", "MISSING": " "}), lambda: "c")
    with pytest.raises(AgentError) as failed:
        await anext(model.stream(request_of(), settings))
    assert (failed.value.code, failed.value.retryable) == (code, False)
    assert word in failed.value.message
    assert "sk-sec" not in failed.value.message


async def test_a_local_server_needs_no_key(http, request_of) -> None:
    model = Provider(http, keys({}), lambda: "c")
    async with LoopbackServer(HELLO) as server:
        assert [batch async for batch in model.stream(request_of(), LlmSettings(base_url=server.base_url))]
        assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("http://h/v1", "http://h/v1/chat/completions"),
        (" http://h:81/v1// ", "http://h:81/v1/chat/completions"),
        ("https://h", "https://h/chat/completions"),
        ("https://h/v1/chat/completions", "https://h/v1/chat/completions"),
        ("https://h/v1/models/", "https://h/v1/chat/completions"),
        (
            "https://h/openai/deployments/x?api-version=1",
            "https://h/openai/deployments/x/chat/completions?api-version=1",
        ),
    ],
)
def test_addresses(base_url: str, url: str) -> None:
    assert join(base_url, "/chat/completions") == url


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "192.168.1.4", "10.0.0.1", "ollama", "box.local"])
def test_hosts_near_by(host: str) -> None:
    assert is_local(f"http://{host}:8080/v1")


@pytest.mark.parametrize("host", ["api.openai.com", "8.8.8.8", "localhost.example.com"])
def test_hosts_far_away(host: str) -> None:
    assert not is_local(f"https://{host}/v1")


async def test_events_that_lie_across_many_reads(ask) -> None:
    numbers = count()
    pieces = [event(f"word{next(numbers)} ") for _ in range(2000)]
    joined = b"".join(pieces)
    edges = range(0, len(joined) + 777, 777)
    many = RawAnswer((*(joined[start:end] for start, end in pairwise(edges)), event("", "stop"), DONE))
    *deltas, answer = await ask(many)
    assert [delta.text for delta in deltas] == [f"word{number} " for number in range(2000)]
    assert answer.text == "".join(delta.text for delta in deltas)


async def test_headers_of_ones_own(http, request_of) -> None:
    headers = {"X-Title": "Tests", "api-key": "${GATEWAY_KEY}", "authorization": "Custom ${GATEWAY_KEY}"}
    refusal = RawAnswer((b'{"error": {"message": "no such api-key: gw-12345"}}',), 401, "application/json")
    model = Provider(http, keys({"LLM_API_KEY": "sk-secret", "GATEWAY_KEY": "gw-12345"}), lambda: "c")
    async with LoopbackServer(HELLO, refusal) as server:
        settings = LlmSettings(base_url=server.base_url, headers=headers)
        assert [batch async for batch in model.stream(request_of(), settings)]
        sent = server.requests[0].headers
        assert {name: sent[name] for name in ("x-title", "api-key", "authorization")} == {
            "x-title": "Tests",
            "api-key": "gw-12345",
            "authorization": "Custom gw-12345",
        }
        with pytest.raises(AgentError) as failed:
            await anext(model.stream(request_of(), settings))
    assert failed.value.code == "authRequired"
    assert "no such api-key: [key]" in failed.value.message


@pytest.mark.parametrize("value", [None, "", " ", "a\nb"])
async def test_a_header_whose_variable_does_not_help(http, request_of, value) -> None:
    settings = LlmSettings(base_url="http://127.0.0.1:1/v1", headers={"x-api-key": "${GATEWAY_KEY}"})
    with pytest.raises(AgentError) as failed:
        await anext(Provider(http, keys({"GATEWAY_KEY": value}), lambda: "c").stream(request_of(), settings))
    assert failed.value.code == "authRequired"
    assert "GATEWAY_KEY" in failed.value.message


def test_a_header_that_is_a_key_stands_for_the_key() -> None:
    settings = LlmSettings(base_url="https://api.example.com/v1", headers={"x-api-key": "${GATEWAY_KEY}"})
    endpoint = resolve(settings, Credentials("", {"x-api-key": "gw"}, ("gw",)), "/models", lambda key, host: {})
    assert endpoint.headers == {"content-type": "application/json", "user-agent": "tinsmith", "x-api-key": "gw"}
    assert "gw" not in repr(endpoint)
    with pytest.raises(AgentError, match="LLM_API_KEY"):
        resolve(msgspec.structs.replace(settings, headers={"x-title": "x"}), Credentials(), "/models", lambda *_: {})
