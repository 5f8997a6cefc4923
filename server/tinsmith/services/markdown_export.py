"""A conversation as Markdown, for people. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence

from tinsmith.domain.conversation import Conversation
from tinsmith.domain.message import AssistantMessage, Message, TextPart, ToolCall, ToolMessage, UserMessage
from tinsmith.domain.turn import CallRecord

_BACKTICKS = re.compile(r"`+")


def markdown(conversation: Conversation, messages: Sequence[Message], calls: Mapping[str, CallRecord]) -> str:
    """Who said what, in order; each call with its arguments and its whole result."""
    results = {each.call_id: each for each in messages if isinstance(each, ToolMessage)}
    blocks = [f"# {conversation.title or 'A conversation'}"]
    for message in messages:
        match message:
            case UserMessage():
                blocks += _said(message)
            case AssistantMessage():
                blocks += ["## Tinsmith", message.text]
                for call in message.calls:
                    blocks += _call(call, results.get(call.call_id), calls.get(call.call_id))
            case ToolMessage():
                continue
    return "\n\n".join(block for block in blocks if block) + "\n"


def _said(message: UserMessage) -> Iterator[str]:
    yield "## You, while it worked" if message.is_steering else "## You"
    yield message.text
    for part in message.parts:
        if isinstance(part, TextPart) and part.label and part.label != "moment":
            yield _fenced(part.text)


def _call(call: ToolCall, result: ToolMessage | None, record: CallRecord | None) -> Iterator[str]:
    title = (record.title if record else "") or call.name
    status = f" ({record.status})" if record and record.status != "completed" else ""
    yield f"**{call.name}**: {title}{status}"
    yield _fenced(call.arguments, "json")
    if result is not None:
        yield _fenced(result.content)


def _fenced(text: str, language: str = "") -> str:
    """The text in a fence that nothing in it can close."""
    fence = "`" * max(3, 1 + max((len(run) for run in _BACKTICKS.findall(text)), default=0))
    return f"{fence}{language}\n{text.removesuffix(chr(10))}\n{fence}"
