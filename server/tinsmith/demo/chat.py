"""The provider's side of Chat Completions: requests to domain values, deltas to chunks. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tinsmith.domain.errors import AgentError, SchemaError
from tinsmith.domain.message import (
    Answer,
    AssistantMessage,
    CallDetected,
    Message,
    ModelDelta,
    ReasoningDelta,
    TextDelta,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from tinsmith.domain.ports import ModelRequest
from tinsmith.domain.settings import ModelChoice

DONE = b"data: [DONE]\n\n"
_STATUS_OF_CODE = {
    "rateLimited": 429,
    "authRequired": 401,
    "modelNotFound": 404,
    "contextWindow": 400,
    "overloaded": 503,
}


class _Function(msgspec.Struct, frozen=True):
    name: str
    arguments: str


class _Call(msgspec.Struct, frozen=True):
    id: str
    function: _Function


class _Message(msgspec.Struct, frozen=True):
    role: str
    content: str | None = None
    tool_calls: list[_Call] = []
    tool_call_id: str = ""


class _StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool = False


class ChatRequest(msgspec.Struct, frozen=True):
    """The part of a request body that a scripted provider looks at."""

    model: str
    messages: list[_Message]
    stream: bool = False
    stream_options: _StreamOptions = _StreamOptions()


def decode(body: bytes) -> ChatRequest:
    """Raises SchemaError `badRequest`."""
    try:
        return msgspec.json.decode(body, type=ChatRequest)
    except msgspec.DecodeError as error:
        raise SchemaError(
            "badRequest", f"The body is not a Chat Completions request: {error}.", origin="demo"
        ) from error


def to_model_request(asked: ChatRequest) -> ModelRequest:
    """The request as a model sees it, but for the tools, which are not values that can be run here."""
    system = "\n\n".join(message.content or "" for message in asked.messages if message.role == "system")
    messages = [
        _to_domain(message, position) for position, message in enumerate(asked.messages) if message.role != "system"
    ]
    choice = ModelChoice(asked.model, "override", "model")
    return ModelRequest(choice, system, tuple(messages), is_streamed=asked.stream)


def _to_domain(message: _Message, position: int) -> Message:
    message_id, text = f"m{position}", message.content or ""
    if message.role == "tool":
        return ToolMessage(message_id, "", message.tool_call_id, "", text)
    if message.role == "assistant":
        calls = tuple(ToolCall(call.id, call.function.name, call.function.arguments) for call in message.tool_calls)
        return AssistantMessage(message_id, "", "", text, calls=calls)
    return UserMessage(message_id, "", (TextPart(text),))


class ChunkWriter:
    """Deltas of one answer to event-stream bytes; numbers its calls in the order they are detected."""

    def __init__(self, asked: ChatRequest) -> None:
        self._asked = asked
        self._indexes: dict[str, int] = {}

    def write(self, deltas: Sequence[ModelDelta]) -> bytes:
        """Constant work per delta, but for the Answer, which closes the stream."""
        return b"".join(self._write(delta) for delta in deltas)

    def _write(self, delta: ModelDelta) -> bytes:
        match delta:
            case TextDelta(text):
                return self._chunk({"content": text})
            case ReasoningDelta(text):
                return self._chunk({"reasoning_content": text})
            case CallDetected(call_id, name):
                return self._chunk({"tool_calls": [self._open(call_id, name)]})
            case Answer():
                return self._end(delta)

    def _open(self, call_id: str, name: str) -> dict[str, Any]:
        index = self._indexes.setdefault(call_id, len(self._indexes))
        return {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}

    def _end(self, answer: Answer) -> bytes:
        parts: list[bytes] = []
        for call in answer.calls:
            if call.call_id not in self._indexes:
                parts.append(self._chunk({"tool_calls": [self._open(call.call_id, call.name)]}))
            fragment = {"index": self._indexes[call.call_id], "function": {"arguments": call.arguments}}
            parts.append(self._chunk({"tool_calls": [fragment]}))
        parts.append(self._chunk({}, answer.finish_reason or "stop"))
        if self._asked.stream_options.include_usage:
            parts.append(_event({**self._frame(), "choices": [], "usage": usage_object(answer.usage)}))
        return b"".join((*parts, DONE))

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        return _event({**self._frame(), "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})

    def _frame(self) -> dict[str, Any]:
        return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": self._asked.model}


def completion(asked: ChatRequest, answer: Answer) -> bytes:
    """The body of an answer that is not streamed."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = [
            {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in answer.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": answer.finish_reason or "stop"}
    frame = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": asked.model}
    return msgspec.json.encode({**frame, "choices": [choice], "usage": usage_object(answer.usage)})


def usage_object(usage: Usage) -> dict[str, Any]:
    """Token counts as they stand on the wire."""
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def error_body(error: AgentError) -> bytes:
    """An error as providers write it."""
    return msgspec.json.encode({"error": {"message": error.message, "type": error.code, "code": error.code}})


def error_event(error: AgentError) -> bytes:
    """An error after the answer began."""
    return b"data: " + error_body(error) + b"\n\n"


def status_of(error: AgentError) -> int:
    """The HTTP status that fits an error."""
    return _STATUS_OF_CODE.get(error.code, 500 if error.retryable else 400)


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"
