"""Every dialect over real sockets: where it asks, with which key, what it makes of other people's answers."""

import json
from itertools import pairwise
from typing import Any

import pytest
from tests.llm.conftest import collect
from tests.llm.streams import read
from tests.llm.test_golden import STREAMS, WHOLE

from tinsmith.demo.server import HttpRequest, LoopbackServer, RawAnswer
from tinsmith.domain.errors import AgentError, ProtocolError, TransportError
from tinsmith.domain.message import Answer, TextPart, UserMessage
from tinsmith.domain.settings import LlmSettings
from tinsmith.llm.dialects import DIALECTS
from tinsmith.llm.endpoint import Credentials, resolve
from tinsmith.llm.recognition import name_dialect

PATHS = {
    "chat_completions": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "ollama": "/api/chat",
}


def served(name: str, *, is_cut: bool = False) -> RawAnswer:
    dialect, body = read(name)
    kind = DIALECTS[dialect].media_type if not name.endswith(".json") else "application/json"
    edges = range(0, len(body) + 97, 97)
    return RawAnswer(tuple(body[start:end] for start, end in pairwise(edges)), content_type=kind, is_cut=is_cut)


def unsealed(answer: Answer) -> list[str]:
    return [part.body for part in answer.sealed]


@pytest.mark.parametrize("name", [*STREAMS, *WHOLE])
async def test_a_recording_over_a_socket(ask, request_of, name) -> None:
    dialect, _ = read(name)
    expected = {**STREAMS, **WHOLE}[name]
    asked = request_of(is_streamed=name not in WHOLE)
    if expected.is_empty:
        with pytest.raises(TransportError) as refused:
            await ask(served(name), request=asked, dialect=dialect)
        assert (refused.value.code, refused.value.retryable) == ("refused", False)
        return
    answer = (await ask(served(name), request=asked, dialect=dialect))[-1]
    assert unsealed(answer) == unsealed(expected)
    assert all(part.origin.startswith(dialect) and part.origin.endswith(" m-test") for part in answer.sealed)
    assert answer.calls == expected.calls
    assert (answer.text, answer.reasoning, answer.finish_reason, answer.usage) == (
        expected.text,
        expected.reasoning,
        expected.finish_reason,
        expected.usage,
    )


@pytest.mark.parametrize(
    ("dialect", "name", "with_version"),
    [
        ("chat_completions", "chat_completions/text.sse", (True,)),
        ("responses", "responses/refusal.sse", (True,)),
        ("anthropic", "anthropic/text.sse", (True, False)),
        ("ollama", "ollama/text.ndjson", (True, False)),
    ],
)
async def test_where_and_how_it_asks(model, request_of, dialect, name, with_version) -> None:
    async with LoopbackServer(served(name)) as server:
        for has_version in with_version:
            base_url = server.base_url if has_version else server.base_url.removesuffix("/v1")
            await collect(model, request_of(), LlmSettings(base_url=base_url, dialect=dialect))
        for asked in server.requests:
            assert asked.path == PATHS[dialect]
            assert asked.headers["authorization"] == "Bearer sk-secret"
            assert asked.headers.get("x-api-key") == ("sk-secret" if dialect == "anthropic" else None)
            assert asked.headers.get("anthropic-version") == ("2023-06-01" if dialect == "anthropic" else None)
            assert asked.headers["accept"] == DIALECTS[dialect].media_type
        assert server.connections == 1


def test_anthropic_itself_is_told_the_key_once() -> None:
    settings = LlmSettings(base_url="https://api.anthropic.com")
    endpoint = resolve(settings, Credentials("sk"), "/v1/messages", DIALECTS["anthropic"].headers)
    assert endpoint.url == "https://api.anthropic.com/v1/messages"
    assert (endpoint.headers["x-api-key"], "authorization" in endpoint.headers) == ("sk", False)


@pytest.mark.parametrize("name", [*STREAMS, *WHOLE])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_answer_of_the_wrong_dialect_is_called_that(ask, name, dialect) -> None:
    spoken, body = read(name)
    if spoken == dialect:
        return
    with pytest.raises(ProtocolError) as failed:
        await ask(served(name), dialect=dialect)
    assert (failed.value.code, failed.value.data) == ("wrongDialect", {"dialect": spoken})
    for shown in (f"Set llm_config.dialect to {spoken}.", PATHS[dialect], "'m-test'", DIALECTS[dialect].title):
        assert shown in failed.value.message
    assert name_dialect(body) == spoken


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", "text/plain", ""])
async def test_a_login_page(ask, dialect, content_type) -> None:
    page = RawAnswer((b"<!DOCTYPE html>\n<html>\n<title>Sign in</title>", b"\n{}\n</html>"), content_type=content_type)
    with pytest.raises(ProtocolError) as failed:
        await ask(page, dialect=dialect)
    assert failed.value.code == "unexpectedBody"
    for shown in (
        "answered 200",
        PATHS[dialect],
        content_type,
        "<title>Sign in</title>",
        "llm_config.base_url",
        "proxy",
    ):
        assert shown in failed.value.message


@pytest.mark.parametrize("name", [name for name in STREAMS if not name.startswith("chat") and "calls" in name])
@pytest.mark.parametrize("is_broken", [True, False])
async def test_a_stream_that_ends_in_the_middle_is_interrupted(ask, name, is_broken) -> None:
    whole = served(name)
    dialect, _ = read(name)
    half = RawAnswer(whole.body[: len(whole.body) // 2], content_type=whole.content_type, is_cut=is_broken)
    with pytest.raises(TransportError) as failed:
        await ask(half, dialect=dialect)
    assert (failed.value.code, failed.value.retryable) == ("streamInterrupted", True)


def anthropic(kind: str, said: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": said}}


def openai(code: str, said: str) -> dict[str, Any]:
    return {"error": {"message": said, "code": code, "type": "invalid_request_error"}}


LONG = "prompt is too long: 210000 tokens > 200000 maximum"
MEMORY = "model requires more system memory (9.1 GiB) than is available (5.5 GiB)"
REFUSALS = {
    "anthropic": (
        (401, anthropic("authentication_error", "invalid x-api-key"), "authRequired", False),
        (404, anthropic("not_found_error", "model: m-test"), "modelNotFound", False),
        (429, anthropic("rate_limit_error", "Slow."), "rateLimited", True),
        (529, anthropic("overloaded_error", "Overloaded"), "overloaded", True),
        (500, anthropic("api_error", "Internal."), "providerHttp", True),
        (400, anthropic("invalid_request_error", LONG), "contextWindow", False),
        (413, anthropic("request_too_large", "Too large."), "contextWindow", False),
        (400, anthropic("invalid_request_error", "Your credit balance is too low."), "rateLimited", False),
    ),
    "responses": (
        (401, openai("invalid_api_key", "Incorrect API key provided"), "authRequired", False),
        (400, openai("context_length_exceeded", "Your input exceeds the window."), "contextWindow", False),
        (404, openai("model_not_found", "The model `m-test` does not exist"), "modelNotFound", False),
        (400, openai("model_not_found", "The requested model 'm-test' is not there."), "modelNotFound", False),
        (429, openai("insufficient_quota", "You exceeded your current quota"), "rateLimited", False),
        (503, openai("slow_down", "Slow down"), "overloaded", True),
    ),
    "ollama": (
        (404, {"error": "model 'm-test' not found"}, "modelNotFound", False),
        (400, {"error": "library/m-test:latest does not support tools"}, "providerHttp", False),
        (500, {"error": MEMORY}, "providerHttp", True),
        (503, {"error": "server busy, please try again"}, "overloaded", True),
    ),
}


@pytest.mark.parametrize(
    ("dialect", "status", "body", "code", "retryable"),
    [(dialect, *refusal) for dialect, refusals in REFUSALS.items() for refusal in refusals],
)
async def test_refusals(ask, dialect, status, body, code, retryable) -> None:
    with pytest.raises(AgentError) as failed:
        await ask(RawAnswer((json.dumps(body).encode(),), status, "application/json"), dialect=dialect)
    error = failed.value
    assert (error.code, error.retryable, error.data["status"]) == (code, retryable, status)
    said = body["error"] if isinstance(body["error"], str) else body["error"]["message"]
    for shown in (f"answered {status} to {PATHS[dialect]} for 'm-test': {said.rstrip('.')}", "127.0.0.1:"):
        assert shown in error.message
    assert error.message.endswith(".")


@pytest.mark.parametrize(
    ("path", "dialect", "asked", "advice"),
    [
        ("", "chat_completions", "/chat/completions", "has no version: set llm_config.base_url to {}/v1."),
        ("/v1/v1", "chat_completions", "/v1/v1/chat/completions", "has /v1 twice: set llm_config.base_url to {}/v1."),
        ("/x/v2/v2/", "responses", "/x/v2/v2/responses", "has /v2 twice: set llm_config.base_url to {}/x/v2."),
        ("/v1/v1", "anthropic", "/v1/v1/messages", "has /v1 twice: set llm_config.base_url to {}/v1."),
        ("/v3", "chat_completions", "/v3/chat/completions", "llm_config.dialect what it speaks."),
        ("/other", "ollama", "/other/api/chat", "llm_config.dialect what it speaks."),
    ],
)
async def test_a_wrong_path_in_the_address(model, request_of, path, dialect, asked, advice) -> None:
    async with LoopbackServer() as server:
        origin = f"http://127.0.0.1:{server.port}"
        with pytest.raises(TransportError) as failed:
            await collect(model, request_of(), LlmSettings(base_url=origin + path, dialect=dialect))
    message = failed.value.message
    assert (failed.value.code, failed.value.retryable) == ("providerHttp", False)
    assert message.startswith(f"127.0.0.1:{server.port} answered 404 to {asked} for 'm-test': There is nothing")
    assert message.endswith(advice.format(origin))


async def test_a_proxys_page_with_a_status(ask) -> None:
    page = RawAnswer((b"<html><h1>Blocked by policy</h1>",), 403, "text/html")
    with pytest.raises(TransportError) as failed:
        await ask(page)
    for shown in ("answered 403", "text/html", "Blocked by policy", "LLM_API_KEY"):
        assert shown in failed.value.message


async def test_what_one_model_refuses_another_is_still_sent(model, request_of) -> None:
    answer = served("ollama/text.ndjson")

    def strict(request: HttpRequest) -> RawAnswer:
        body = json.loads(request.body)
        if body["model"] == "m-test" and "think" in body:
            return RawAnswer((b'{"error":"\\"m-test\\" does not support thinking"}',), 400, "application/json")
        return answer

    async with LoopbackServer(strict) as server:
        settings = LlmSettings(base_url=server.base_url, dialect="ollama", reasoning_effort="high")
        for name in ("m-test", "m-test", "other"):
            chosen = request_of()
            changed = type(chosen)(type(chosen.model)(name, "override", "model"), "", chosen.messages)
            assert (await collect(model, changed, settings))[-1].text == "Hello\n\n    there"
        assert ["think" in json.loads(request.body) for request in server.requests] == [True, False, False, True]


async def test_a_prompt_that_was_cut_is_remarked_on_where_that_happens(ask, request_of) -> None:
    long = request_of(UserMessage("m1", "t1", (TextPart("word " * 4_000),)))
    assert (await ask(served("anthropic/text.sse"), request=long, dialect="anthropic"))[-1].remarks == ()
    (remark,) = (await ask(served("ollama/text.ndjson"), request=long, dialect="ollama"))[-1].remarks
    assert remark.code == "promptTruncated"
    assert "read only 10 tokens of a prompt of about 5,00" in remark.message
