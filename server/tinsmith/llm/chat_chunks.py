"""What Chat Completions servers send, as typed structs: stream chunks and whole completions alike."""

from typing import Any

import msgspec

from tinsmith.llm.decode import decode, decode_loosely

TITLE = "Chat Completions"


class ContentPart(msgspec.Struct, frozen=True):
    """One part of a content that is a list."""

    text: str | None = None


class FunctionFragment(msgspec.Struct, frozen=True):
    """A piece of a call. `arguments` should be text; some servers send the object itself."""

    name: str | None = None
    arguments: Any = None


class CallFragment(msgspec.Struct, frozen=True):
    """A piece of a call with what says which call it belongs to, and what is to come back with it (Gemini)."""

    index: int | None = None
    provider_id: str | None = msgspec.field(name="id", default=None)
    function: FunctionFragment | None = None
    extra_content: Any = None


class Delta(msgspec.Struct, frozen=True):
    """More of a message, or a whole one. Reasoning has two names in the field."""

    content: str | list[ContentPart] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Any] | None = None
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
    chunk = decode(payload, _DECODER, host, TITLE)
    if chunk.kind == "error":  # vLLM: the event itself is the error object
        return Chunk(error=decode_loosely(payload, host, TITLE))
    return chunk
