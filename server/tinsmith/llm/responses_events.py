"""What OpenAI Responses servers send, as typed structs: stream events and whole responses alike.

Source of the format: the Responses API reference, "Streaming events".
"""

from typing import Any

import msgspec

from tinsmith.llm.decode import decode

TITLE = "OpenAI Responses"


class Content(msgspec.Struct, frozen=True):
    """A part of a message or of reasoning."""

    text: str | None = None
    refusal: str | None = None


class Item(msgspec.Struct, frozen=True):
    """An output item, whole or as it starts: a message, a function call, reasoning."""

    kind: str | None = msgspec.field(name="type", default=None)
    item_id: str | None = msgspec.field(name="id", default=None)
    status: str | None = None
    name: str | None = None
    arguments: Any = None
    content: list[Content] | None = None
    summary: list[Content] | None = None
    encrypted_content: str | None = None
    phase: str | None = None


class TokenDetails(msgspec.Struct, frozen=True):
    """Parts of a token count."""

    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class TokenCounts(msgspec.Struct, frozen=True):
    """The `usage` object."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    input_tokens_details: TokenDetails | None = None
    output_tokens_details: TokenDetails | None = None


class IncompleteDetails(msgspec.Struct, frozen=True):
    """Why a response is incomplete."""

    reason: str | None = None


class Response(msgspec.Struct, frozen=True):
    """A response, whole or as it stands."""

    object: str | None = None
    status: str | None = None
    output: list[Item] | None = None
    usage: TokenCounts | None = None
    incomplete_details: IncompleteDetails | None = None
    error: Any = None


class Event(msgspec.Struct, frozen=True):
    """One event of a stream. Errors stand in `error`, or in the event itself."""

    kind: str | None = msgspec.field(name="type", default=None)
    output_index: int | None = None
    item_id: str | None = None
    summary_index: int | None = None
    delta: str | None = None
    arguments: Any = None
    item: Item | None = None
    response: Response | None = None
    error: Any = None
    code: Any = None
    message: Any = None


_EVENTS = msgspec.json.Decoder(Event)
_RESPONSES = msgspec.json.Decoder(Response)


def decode_event(payload: bytes, host: str) -> Event:
    """The event in `payload`; fields of a wrong type count as absent.

    Raises ProtocolError `badEvent` when it is not a JSON object.
    """
    return decode(payload, _EVENTS, host, TITLE)


def decode_response(body: bytes, host: str) -> Response:
    """A response that was not streamed. Raises as `decode_event`."""
    return decode(body, _RESPONSES, host, TITLE)
