"""What a person should know of an answer that reads as if all were well: what its model did not get to see. Pure."""

from tinsmith.domain.message import AssistantMessage, Message, Remark, TextPart, ToolMessage, Usage, UserMessage
from tinsmith.domain.ports import ModelRequest

_CHARS_PER_TOKEN = 6
"""Prose has four to five characters a token, code three to four: more than this is no way to read a whole prompt."""
_SMALL_PROMPT = 6_000
"""Characters below which a ratio says little."""


def remark_on_truncation(request: ModelRequest, usage: Usage, host: str) -> Remark | None:
    """What to say when the server counted far fewer tokens than the request has; None when all is well.

    A count of 0 is no count.
    """
    sent = count_chars(request)
    if not usage.input or sent < _SMALL_PROMPT or sent <= usage.input * _CHARS_PER_TOKEN:
        return None
    message = (
        f"{host} read only {usage.input:,} tokens of a prompt of about {sent // 4:,}: it left the rest out. Give the"
        " model a larger context there (for Ollama: OLLAMA_CONTEXT_LENGTH, or num_ctx of the model), or start a new"
        " conversation."
    )
    return Remark("promptTruncated", message)


def remark_on_images(request: ModelRequest) -> Remark | None:
    """What to say when images that came just now were told to the model in words."""
    last = request.messages[-1] if request.messages else None
    if not isinstance(last, UserMessage) or not last.images:
        return None
    message = (
        f"{request.model.model} does not see images, so it was only told that they are there. Choose another model."
    )
    return Remark("imagesNotSeen", message)


def count_chars(request: ModelRequest) -> int:
    """The characters of a request that a model reads, images aside."""
    tools = sum(len(spec.name) + len(spec.description) for spec in request.tools)
    return len(request.system) + tools + sum(map(_chars, request.messages))


def _chars(message: Message) -> int:
    match message:
        case ToolMessage():
            return len(message.content)
        case AssistantMessage():
            return len(message.text) + sum(len(call.arguments) for call in message.calls)
        case _:
            return sum(len(part.text) for part in message.parts if isinstance(part, TextPart))
