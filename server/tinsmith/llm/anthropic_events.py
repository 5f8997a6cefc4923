"""What Anthropic Messages servers send, as typed structs: stream events and whole messages alike.

Source of the format: the Messages API reference, "Streaming messages".
"""

from typing import Any

import msgspec

from tinsmith.llm.decode import decode

TITLE = "Anthropic Messages"


class Block(msgspec.Struct, frozen=True):
    """A content block, whole or as it starts."""

    kind: str | None = msgspec.field(name="type", default=None)
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    provider_id: str | None = msgspec.field(name="id", default=None)
    name: str | None = None
    input: Any = None
    data: str | None = None


class BlockDelta(msgspec.Struct, frozen=True):
    """More of a block, or what became of the message."""

    kind: str | None = msgspec.field(name="type", default=None)
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class OutputDetails(msgspec.Struct, frozen=True):
    """Parts of the output count."""

    thinking_tokens: int | None = None


class TokenCounts(msgspec.Struct, frozen=True):
    """The `usage` object; `input_tokens` leaves out what was written to or read from the cache."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: OutputDetails | None = None


class Message(msgspec.Struct, frozen=True):
    """A message, whole or as it starts."""

    content: list[Block] | None = None
    stop_reason: str | None = None
    usage: TokenCounts | None = None


class Event(msgspec.Struct, frozen=True):
    """One event of a stream, or the whole body of an answer, whose fields are those of a message."""

    kind: str | None = msgspec.field(name="type", default=None)
    index: int | None = None
    delta: BlockDelta | None = None
    content_block: Block | None = None
    message: Message | None = None
    content: list[Block] | None = None
    stop_reason: str | None = None
    usage: TokenCounts | None = None
    error: Any = None


_DECODER = msgspec.json.Decoder(Event)


def decode_event(payload: bytes, host: str) -> Event:
    """The event in `payload`; fields of a wrong type count as absent.

    Raises ProtocolError `badEvent` when it is not a JSON object.
    """
    return decode(payload, _DECODER, host, TITLE)
