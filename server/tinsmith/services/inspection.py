"""What the model will see next, and what is stored: views for people. Pure, but for the values handed in."""

import os
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from tinsmith import __version__
from tinsmith.config.directories import Directories
from tinsmith.domain.conversation import Conversation
from tinsmith.domain.message import AssistantMessage, Message, ToolMessage, UserMessage
from tinsmith.domain.request import TurnRequest
from tinsmith.engine.window import View, chars_of, make_view

PREVIEW_CHARS = 2_000


class ContextPart(msgspec.Struct, frozen=True, rename="camel"):
    """One part of the next request, with its estimated tokens."""

    kind: str
    label: str
    tokens: int
    text: str


def context_view(request: TurnRequest) -> dict[str, Any]:
    """Every part of the request that a turn started now would send, in order, with its tokens."""
    view = view_of(request)
    rate = view.edges.tokens_per_char
    parts = [_part("system", "system prompt", request.system(), rate)]
    for spec in request.tools():
        schema = msgspec.json.encode(spec.schema).decode()
        parts.append(_part("tool", spec.name, f"{spec.description}\n{schema}", rate))
    parts.extend(_part(*_described(message), rate, chars_of(message)) for message in view.messages)
    return {
        "model": request.model.model,
        "role": request.role,
        "parts": parts,
        "tokens": sum(part.tokens for part in parts),
        "contextWindow": request.model.context_window,
        "elided": view.elided,
        "dropped": view.dropped,
    }


def view_of(request: TurnRequest) -> View:
    """The window's view of the stored transcript."""
    return make_view(
        request.history,
        settings=request.settings.context_management,
        context_window=request.model.context_window,
        edges=request.edges,
        overhead_chars=len(request.system()),
        turn_id=request.turn_id,
        can_recall=False,
    )


def server_view(directories: Directories, sandbox: dict[str, str]) -> dict[str, Any]:
    """What this process is, where it keeps its things, and what commands run in."""
    return {
        "version": __version__,
        "pid": os.getpid(),
        "directories": asdict(directories),
        "sandbox": sandbox,
    }


class StoredMessage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One message of the transcript, whole and un-elided. `calls` are name and arguments by call id."""

    message_id: str
    turn_id: str
    kind: str
    text: str
    reasoning: str = ""
    calls: dict[str, dict[str, str]] = {}
    call_id: str = ""
    marks: tuple[str, ...] = ()


def messages_view(conversation: Conversation, messages: tuple[Message, ...]) -> dict[str, Any]:
    """The stored transcript."""
    return {
        "conversationId": conversation.conversation_id,
        "title": conversation.title,
        "messages": [_stored(message) for message in messages],
    }


def _stored(message: Message) -> StoredMessage:
    kind, _, text = _described(message)
    stored = StoredMessage(message.message_id, message.turn_id, kind, text, marks=message.marks)
    match message:
        case AssistantMessage():
            calls = {call.call_id: {"name": call.name, "arguments": call.arguments} for call in message.calls}
            return replace(stored, text=message.text, reasoning=message.reasoning, calls=calls)
        case ToolMessage():
            return replace(stored, call_id=message.call_id)
        case UserMessage():
            return stored


def _part(kind: str, label: str, text: str, tokens_per_char: float, chars: int | None = None) -> ContextPart:
    """A part of the request; `chars` when it counts as another number of characters than its text has."""
    shown = text if len(text) <= PREVIEW_CHARS else f"{text[:PREVIEW_CHARS]}… ({len(text)} characters)"
    return ContextPart(kind, label, int((len(text) if chars is None else chars) * tokens_per_char), shown)


def _described(message: Message) -> tuple[str, str, str]:
    match message:
        case UserMessage():
            return "user", message.message_id, "\n".join(map(str, message.parts))
        case AssistantMessage():
            calls = "\n".join(f"{call.name}({call.arguments})" for call in message.calls)
            return "assistant", message.message_id, "\n".join(filter(None, (message.text, calls)))
        case ToolMessage():
            return "toolResult", f"{message.message_id} {message.name}", message.content
