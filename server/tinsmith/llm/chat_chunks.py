"""What Chat Completions servers send, as typed structs: stream chunks and whole completions alike."""

import json
from types import UnionType
from typing import Any, cast, get_args, get_origin

import msgspec

from tinsmith.domain.errors import ProtocolError
from tinsmith.llm.surrogates import mend

QUOTED = 200
"""Characters of a foreign body that a message shows."""


class ContentPart(msgspec.Struct, frozen=True):
    """One part of a content that is a list."""

    text: str | None = None


class FunctionFragment(msgspec.Struct, frozen=True):
    """A piece of a call. `arguments` should be text; some servers send the object itself."""

    name: str | None = None
    arguments: Any = None


class CallFragment(msgspec.Struct, frozen=True):
    """A piece of a call with what says which call it belongs to."""

    index: int | None = None
    provider_id: str | None = msgspec.field(name="id", default=None)
    function: FunctionFragment | None = None


class Delta(msgspec.Struct, frozen=True):
    """More of a message, or a whole one. Reasoning has two names in the field."""

    content: str | list[ContentPart] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[CallFragment] | None = None


class Choice(msgspec.Struct, frozen=True):
    """One answer; only the first is ever asked for."""

    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    error: Any = None


class TokenDetails(msgspec.Struct, frozen=True):
    """Parts of a token count."""

    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class TokenCounts(msgspec.Struct, frozen=True):
    """The `usage` object. `prompt_cache_hit_tokens` is what DeepSeek calls cached tokens."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_cache_hit_tokens: int | None = None
    prompt_tokens_details: TokenDetails | None = None
    completion_tokens_details: TokenDetails | None = None


class Chunk(msgspec.Struct, frozen=True):
    """One event of a stream, or the whole body of an answer. `error` is an error object where an answer should be."""

    kind: str | None = msgspec.field(name="object", default=None)
    choices: list[Choice] | None = None
    usage: TokenCounts | None = None
    error: Any = None

    @property
    def failure(self) -> Any:
        """The error object, wherever it is; None when there is none."""
        return self.error or (self.choices[0].error if self.choices else None) or None


_DECODER = msgspec.json.Decoder(Chunk)


def decode_chunk(payload: bytes, host: str) -> Chunk:
    """The chunk in `payload`; fields of a wrong type count as absent.

    Raises ProtocolError `badEvent` when it is not a JSON object.
    """
    try:
        chunk = _DECODER.decode(payload)
    except msgspec.DecodeError:
        chunk = None
    if chunk is not None and chunk.kind != "error":
        return chunk
    value = _decode_loosely(payload, host)
    if value.get("object") == "error":  # vLLM: the event itself is the error object
        return Chunk(error=value)
    return cast("Chunk", _salvage(value, Chunk))


def _decode_loosely(payload: bytes, host: str) -> dict[str, Any]:
    """JSON with the flaws that are seen in the field: raw control characters, lone surrogates, broken UTF-8."""
    text = payload.decode("utf-8", "replace")
    try:
        clean = mend(json.dumps(json.loads(text, strict=False), ensure_ascii=False))
        value: Any = msgspec.json.decode(clean)
    except (ValueError, RecursionError) as error:
        raise _bad_event(text, host) from error
    if not isinstance(value, dict):
        raise _bad_event(text, host)
    return cast("dict[str, Any]", value)


def _bad_event(text: str, host: str) -> ProtocolError:
    what = f"{host} sent something that is not part of a Chat Completions answer: {text[:QUOTED]!r}"
    return ProtocolError("badEvent", f"{what}. Check llm_config.base_url.", origin="llm")


def _salvage(value: Any, kind: Any) -> Any:
    """As much of `value` as fits `kind`, None for what does not."""
    options: tuple[Any, ...] = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    for option in options:
        if get_origin(option) is list and isinstance(value, list):
            (item,) = get_args(option)
            entries = [_salvage(entry, item) for entry in cast("list[Any]", value)]
            return [entry for entry in entries if entry is not None]
        if isinstance(option, type) and issubclass(option, msgspec.Struct) and isinstance(value, dict):
            named = cast("dict[str, Any]", value)
            fields = [field for field in msgspec.structs.fields(option) if field.encode_name in named]
            return option(**{field.name: _salvage(named[field.encode_name], field.type) for field in fields})
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError:
        return None
