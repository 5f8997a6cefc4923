"""What refusals mean: code, whether to try again, and the words for the person."""

import json
from pathlib import Path

import pytest

from tinsmith.llm import errors
from tinsmith.llm.endpoint import Endpoint

ENDPOINT = Endpoint("https://api.example.com/v1/chat/completions", "api.example.com", "MY_KEY", "sk-secret")
NOW = 1_700_000_000.0


def refused(status: int, body: object = "", **headers: str) -> tuple[str, bool]:
    error = answered(status, body, **headers)
    return error.code, error.retryable


def answered(status: int, body: object = "", **headers: str):
    raw = body if isinstance(body, str) else json.dumps(body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return errors.from_response(status, named, raw.encode(), ENDPOINT, NOW)


def says(message: str, **fields: object) -> dict[str, object]:
    return {"error": {"message": message, **fields}}


@pytest.mark.parametrize(
    ("status", "body", "code", "retryable"),
    [
        (401, says("bad key"), "authRequired", False),
        (403, "<html>no</html>", "authRequired", False),
        (400, says("Invalid key", code="invalid_api_key"), "authRequired", False),
        (402, says("Payment required"), "rateLimited", False),
        (404, says('model "x" not found, try pulling it first'), "modelNotFound", False),
        (404, "404 page not found", "providerHttp", False),
        (400, says("no such thing", code="model_not_found"), "modelNotFound", False),
        (408, "", "providerHttp", True),
        (429, says("slow down"), "rateLimited", True),
        (429, says("You exceeded your current quota", code="insufficient_quota"), "rateLimited", False),
        (429, says("exceeded", type="insufficient_quota"), "rateLimited", False),
        (403, says("Insufficient balance"), "rateLimited", False),
        (413, says("Request too large: tokens per minute limit 6000", code="rate_limit_exceeded"), "rateLimited", True),
        (500, says("oops"), "providerHttp", True),
        (502, "<html>Bad gateway</html>", "providerHttp", True),
        (503, says("Loading model", type="unavailable_error"), "overloaded", True),
        (529, says("Overloaded", type="overloaded_error"), "overloaded", True),
        (500, says("The engine is currently overloaded"), "overloaded", True),
        (400, says("Invalid value for content: expected a string, got null"), "providerHttp", False),
        (422, {"detail": [{"loc": ["body", "x"], "msg": "extra fields"}]}, "providerHttp", False),
        (400, [{"error": {"code": 400, "message": "bad", "status": "INVALID_ARGUMENT"}}], "providerHttp", False),
        (302, "", "providerHttp", False),
    ],
)
def test_refusal(status: int, body: object, code: str, retryable) -> None:
    error = answered(status, body)
    assert (error.code, error.retryable, error.data, error.kind) == (code, retryable, {"status": status}, "transport")


@pytest.mark.parametrize("case", json.loads((Path(__file__).parent.parent / "cases/LLM-38/errors.json").read_text()))
def test_llm_38_overflow(case: dict) -> None:
    code = refused(case["status"], case["body"])[0]
    assert (code == "contextWindow") == case["overflow"]


@pytest.mark.parametrize(
    ("words", "is_overflow"),
    [
        ("prompt is too long: 210000 tokens > 200000 maximum", True),
        ("The input token count (40000) exceeds the maximum number of tokens allowed (32768).", True),
        ("Please reduce the length of the messages or completion.", True),
        ("the request exceeds the available context size, try increasing it", True),
        ("Requested token count exceeds the model's maximum context length of 4096 tokens", True),
        ("The decoder prompt (length 9000) is longer than the maximum model length of 8192.", True),
        ("However, the model is loaded with context length of only 4096 tokens, which is not enough", True),
        ("This model's maximum prompt length is 131072 but the request contains 150000 tokens.", True),
        ("invalid params, context window exceeds limit (2013)", True),
        ("prompt token count of 130000 exceeds the limit of 128000", True),
        ("Prompt exceeds max length", True),
        ("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097.", True),
        ("Range of input length should be [1, 30720]", True),
        ("Your request exceeded model token limit: 262144", True),
        ("input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000", True),
        ("Invalid 'input': string too long. Expected a string with maximum length 10485760", True),
        ("Invalid 'input[3].call_id': string too long. Expected a string with maximum length 64", False),
        ("max_tokens is too large: 64000. This model supports at most 16384 completion tokens", False),
        ("max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens", False),
        ("messages.3.content.0.image: image exceeds 5 MB maximum", False),
        ("max_tokens must be at least 1", False),
        ("The name of a tool is too long", False),
        ("Unsupported parameter: context", False),
    ],
)
def test_overflow_by_wording(words: str, is_overflow) -> None:
    assert (refused(400, says(words))[0] == "contextWindow") == is_overflow


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry_after": "3"}, 3000),
        ({"retry_after": "0.25"}, 250),
        ({"retry_after": "Tue, 14 Nov 2023 22:13:50 GMT"}, 30_000),
        ({"retry_after": "Tue, 14 Nov 2023 22:13:00 GMT"}, 0),
        ({"retry_after": "Tue, 14 Nov 2023 23:13:50 GMT", "date": "Tue, 14 Nov 2023 23:13:20 GMT"}, 30_000),
        ({"retry_after": "Tue, 14 Nov 2023 22:13:50 GMT", "date": "today"}, 30_000),
        ({"retry_after": "soon", "date": "Tue, 14 Nov 2023 23:13:20 GMT"}, None),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "-1"}, None),
        ({"retry_after": ""}, None),
        ({"retry_after_ms": "1500", "retry_after": "2"}, 1500),
        ({}, None),
    ],
)
def test_llm_36_retry_after(headers: dict[str, str], wait: int | None) -> None:
    assert answered(429, says("slow down"), **headers).data.get("retryAfterMs") == wait


def test_messages_say_who_what_and_what_to_do() -> None:
    assert answered(401, says("Incorrect API key provided: sk-secret.")).message == (
        "api.example.com answered 401 to /v1/chat/completions: Incorrect API key provided: [key]."
        " Set MY_KEY to a key that this provider and model accept."
    )
    assert answered(500, "<h1>" + "x" * 500, content_type="text/html").message == (
        "api.example.com answered 500 to /v1/chat/completions: text/html: <h1>"
        + "x" * 196
        + ". The fault is the provider's: try again."
    )
    assert "an empty body" in answered(404).message


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        ({"message": "slow down", "code": 429}, "rateLimited", True),
        ({"message": "no", "type": "rate_limit_error"}, "rateLimited", True),
        ({"message": "Provider overloaded", "code": 502}, "overloaded", True),
        ({"message": "boom", "type": "server_error"}, "providerHttp", True),
        ({"message": "your prompt is too long"}, "contextWindow", False),
        ("plain words", "providerHttp", False),
        ({"odd": 1}, "providerHttp", False),
    ],
)
def test_errors_inside_an_answer(error: object, code: str, retryable) -> None:
    failed = errors.from_event(error, ENDPOINT)
    assert (failed.code, failed.retryable) == (code, retryable)
