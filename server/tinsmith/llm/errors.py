"""What a provider's refusal means: its status, code and words, as an error of ours. Pure."""

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from tinsmith.domain.errors import AgentError, ProtocolError, TransportError
from tinsmith.domain.settings import DialectName
from tinsmith.llm.decode import QUOTED
from tinsmith.llm.endpoint import Endpoint

_OVERFLOW_CODES = frozenset(
    {
        "context_length_exceeded",
        "exceed_context_size_error",
        "context_window_exceeded",
        "request_too_large",
        "model_max_prompt_tokens_exceeded",
    }
)
_QUOTA_CODES = frozenset(
    {
        "billing_error",
        "insufficient_quota",
        "insufficient_balance",
        "insufficient_credits",
        "insufficient_funds",
        "quota_exceeded",
        "billing_not_active",
        "billing_hard_limit_reached",
        "payment_required",
    }
)
_RATE_CODES = frozenset({"rate_limit_exceeded", "rate_limit_error", "rate_limited", "too_many_requests", "tokens"})
_PASSING_CODES = frozenset(
    {
        "server_error",
        "internal_error",
        "internal_server_error",
        "api_error",
        "timeout",
        "timeout_error",
        "unavailable_error",
        "unavailable",
    }
)
_OVERLOAD_CODES = frozenset({"overloaded_error", "overloaded", "server_overloaded", "slow_down"})
_MODEL_CODES = frozenset({"model_not_found", "invalid_model", "unknown_model"})
_UNKNOWN_MODEL_WORDS = re.compile(
    r"model\b[^.]{0,80}\b(does not exist|not found|is not available|not recogni[sz]ed)"
    r"|(unknown|no such|invalid) model\b|not a valid model",
    re.IGNORECASE,
)
_OVERFLOW_WORDS = re.compile(
    r"(maximum|max|available|model'?s?|the) context (length|window|size)"
    r"|(maximum|max) (model|prompt|input|sequence) length"  # vLLM, xAI
    r"|context[ _](length|window|size) (is |was )?(exceed|too|of only)"  # MiniMax, LM Studio
    r"|prompt( token count[^.]{0,30})? exceeds (the |max |maximum )+(limit|length)"  # GitHub, GLM
    r"|inputs` tokens \+ `max_new_tokens` must be"  # Text Generation Inference
    r"|range of input length"  # DashScope
    r"|string too long[^.]*\. Expected a string with maximum length \d{6}"  # OpenAI: a whole prompt, and no name or id
    r"|exceed\w* (the |this |its |model'?s? |maximum |max |available |allowed )*(context|input|prompt|token)"
    r"|(prompt|input|request|conversation|messages?) (is|are|was) too (long|large)"
    r"|(input|prompt)[^.]{0,60} exceeds? [^.]{0,40}tokens"
    r"|too many (input |prompt )?tokens"
    r"|(reduce|shorten) the (length|size) of (the|your) (messages|prompt|input)",
    re.IGNORECASE,
)
_QUOTA_WORDS = re.compile(
    r"insufficient (balance|credits?|quota|funds)|out of credits?|credit balance is too low", re.IGNORECASE
)
_NO_TOOLS_WORDS = re.compile(r"not support (tools?|function)", re.IGNORECASE)
_OVERLOAD_WORDS = re.compile(r"overloaded|at capacity|no capacity", re.IGNORECASE)


class Refusal(msgspec.Struct, frozen=True):
    """An error as the provider put it; `codes` are its `code` and `type`, lower-case."""

    status: int
    message: str
    codes: frozenset[str] = frozenset()
    retry_after_ms: int | None = None


def from_response(status: int, headers: Mapping[str, str], body: bytes, endpoint: Endpoint, now: float) -> AgentError:
    """The error that an HTTP status other than 2xx means. `now`: seconds since the epoch."""
    text = body.decode("utf-8", "replace").strip()
    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        value = None
    found = _find_error(value)
    if found is None:
        shown = text[:QUOTED] or "an empty body"
        content_type = headers.get("content-type", "no content type")
        found = Refusal(status, f"{content_type}: {shown}")  # such as a proxy's page
    refusal = msgspec.structs.replace(found, status=status, retry_after_ms=_retry_after_ms(headers, now))
    return classify(refusal, endpoint)


def from_event(error: Any, endpoint: Endpoint) -> AgentError:
    """The error that an error object inside a 200 answer means."""
    found = _find_error({"error": error}) or Refusal(200, str(error)[:QUOTED])
    return classify(found, endpoint)


def unexpected_body(
    status: int, content_type: str, body: bytes, endpoint: Endpoint, wanted: str = "an answer"
) -> ProtocolError:
    """A 200 answer that is not `wanted`, such as the login page of a proxy."""
    shown = endpoint.scrub(body.decode("utf-8", "replace").strip())[:QUOTED] or "an empty body"
    message = (
        f"{endpoint.host} answered {status} to {endpoint.asked} with {content_type or 'no content type'} instead of"
        f" {wanted}: {shown}"
        "\nCheck that llm_config.base_url is the address of the API (it usually ends in /v1), that llm_config.dialect"
        " is what it speaks, and that no proxy stands in between."
    )
    facts = {"status": status, "contentType": content_type}
    return ProtocolError("unexpectedBody", message, origin="llm", data=facts)


def wrong_dialect(body: bytes, endpoint: Endpoint, wanted: str, spoken: DialectName) -> ProtocolError:
    """An answer in another dialect than the one that is configured or was guessed."""
    shown = endpoint.scrub(body.decode("utf-8", "replace"))[:QUOTED]
    message = (
        f"{endpoint.host} answered to {endpoint.asked} in another dialect than {wanted}: {shown}"
        f"\nSet llm_config.dialect to {spoken}."
    )
    return ProtocolError("wrongDialect", message, origin="llm", data={"dialect": spoken})


def classify(refusal: Refusal, endpoint: Endpoint) -> AgentError:
    """One error of ours for each kind of refusal; codes win over wording. Retryable is what a later try may mend."""
    said = endpoint.scrub(refusal.message)
    facts: dict[str, Any] = {"status": refusal.status}
    if refusal.retry_after_ms is not None:
        facts["retryAfterMs"] = refusal.retry_after_ms
    code, retryable, advice = _verdict(refusal, endpoint)
    message = f"{endpoint.host} answered {refusal.status} to {endpoint.asked}: {said.rstrip('.')}. {advice}"
    return TransportError(code, message, retryable=retryable, origin="llm", data=facts)


def _verdict(refusal: Refusal, endpoint: Endpoint) -> tuple[str, bool, str]:
    """Code, whether it is retryable, and the next step."""
    status, codes, words = refusal.status, refusal.codes, refusal.message
    if codes & _QUOTA_CODES or status == 402 or (not codes & _RATE_CODES and _QUOTA_WORDS.search(words)):
        return "rateLimited", False, "The quota or credit of this key is used up: add to it, or choose another model."
    if status == 429 or codes & _RATE_CODES:
        return "rateLimited", True, "Wait a little and try again."
    if status in {401, 403} or codes & {"invalid_api_key", "authentication_error"}:
        return "authRequired", False, _key_advice(endpoint)
    if _is_overflow(refusal):
        return (
            "contextWindow",
            False,
            "The conversation is too long for this model: compact it, or choose a model with a larger window.",
        )
    if codes & _MODEL_CODES or _UNKNOWN_MODEL_WORDS.search(words) or (status == 404 and "model" in words.lower()):
        return "modelNotFound", False, "Choose a model that this provider has; its list shows them."
    if status in {404, 405, 307, 308, 301, 302}:
        return "providerHttp", False, endpoint.address_advice
    if status in {503, 529} or codes & _OVERLOAD_CODES or _OVERLOAD_WORDS.search(words):
        return "overloaded", True, "The provider has too much to do or is starting: try again in a moment."
    if status in {408, 409, 425} or status >= 500 or codes & _PASSING_CODES:
        return "providerHttp", True, "The fault is the provider's: try again."
    if _NO_TOOLS_WORDS.search(words):
        return "providerHttp", False, "Choose a model that can call tools."
    return (
        "providerHttp",
        False,
        "The provider does not accept this request: check the model and the settings under llm_config.",
    )


def _key_advice(endpoint: Endpoint) -> str:
    if not endpoint.key:
        return f"It wants a key: set {endpoint.key_place} to one."
    return f"Set {endpoint.key_place} to a key that this provider and model accept."


def _is_overflow(refusal: Refusal) -> bool:
    if refusal.codes & _OVERFLOW_CODES:
        return True
    return refusal.status in {200, 400, 413, 422, 500} and _OVERFLOW_WORDS.search(refusal.message) is not None


def _find_error(value: Any) -> Refusal | None:
    """The error in a decoded body: `{error: {message, type, code}}` and the other shapes in the field."""
    if isinstance(value, list) and value:
        return _find_error(value[0])
    if not isinstance(value, dict):
        return None
    body = cast("dict[str, Any]", value)
    error: Any = body.get("error") or body
    if isinstance(error, str):
        return Refusal(200, error, _codes(body))
    if not isinstance(error, dict):
        return None
    fields = cast("dict[str, Any]", error)
    message: Any = fields.get("message") or fields.get("detail") or fields.get("msg")
    if not message:
        return None
    text = message if isinstance(message, str) else msgspec.json.encode(message).decode()
    return Refusal(_status(fields), text, _codes(fields))


def _codes(fields: dict[str, Any]) -> frozenset[str]:
    values = (fields.get("code"), fields.get("type"), fields.get("status"))
    return frozenset(value.lower() for value in values if isinstance(value, str))


def _status(fields: dict[str, Any]) -> int:
    for value in (fields.get("status"), fields.get("code")):
        if isinstance(value, int) and 400 <= value < 600:
            return value
    return 200


def _retry_after_ms(headers: Mapping[str, str], now: float) -> int | None:
    """`Retry-After` in seconds or as an HTTP date (RFC 9110 §10.2.3), `retry-after-ms` where a server is finer.

    A date is held against the server's own clock, when it tells it.
    """
    if (fine := _number(headers.get("retry-after-ms"))) is not None:
        return round(fine)
    value = headers.get("retry-after")
    if (seconds := _number(value)) is not None:
        return round(seconds * 1000)
    date = _date(value)
    if date is None:
        return None
    theirs = _date(headers.get("date"))
    return max(0, round((date - (now if theirs is None else theirs)) * 1000))


def _date(text: str | None) -> float | None:
    """An HTTP date as seconds since the epoch."""
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(text or "").timestamp()
    except (ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    if text is None or not re.fullmatch(r"\s*\d{1,9}(\.\d+)?\s*", text):
        return None
    return float(text)
