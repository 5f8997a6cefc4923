"""The order in which an answer said, thought and called things, rebuilt for sending it back. Pure."""

from collections.abc import Iterator

from tinsmith.domain.message import AssistantMessage, Sealed, ToolCall

Piece = str | Sealed | ToolCall
"""A run of text, a sealed part, or a call."""


def pieces(message: AssistantMessage, origin: str) -> Iterator[Piece]:
    """The answer piece by piece: sealed parts of this origin where they stood, those of others left out.

    Between two sealed parts text comes before calls, as every provider writes it.
    """
    said, called = 0, 0
    for part in (part for part in message.sealed if part.origin == origin):
        yield from _between(message, said, part.after_text, called, part.after_calls)
        said, called = max(said, part.after_text), max(called, part.after_calls)
        yield part
    yield from _between(message, said, len(message.text), called, len(message.calls))


def _between(
    message: AssistantMessage, said: int, text_end: int, called: int, calls_end: int
) -> Iterator[str | ToolCall]:
    if text := message.text[said:text_end]:
        yield text
    yield from message.calls[called:calls_end]
