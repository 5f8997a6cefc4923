"""Chat Completions requests: domain values to bytes. Pure, and equal bytes for equal requests."""

import json
from typing import Any

import msgspec

from tinsmith.domain.message import AssistantMessage, ImagePart, Message, Part, ToolCall, ToolMessage
from tinsmith.domain.ports import ModelRequest
from tinsmith.domain.tool import ToolSpec
from tinsmith.llm.profiles import Profile
from tinsmith.llm.surrogates import mend


def encode_request(request: ModelRequest, profile: Profile) -> bytes:
    """The body of a request. Never raises for any text that a message can hold.

    Messages carry `role`, `content`, `tool_calls` and `tool_call_id` and nothing else: strict servers refuse more.
    """
    body: dict[str, Any] = {"model": request.model.model, "messages": _messages(request, profile)}
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
        if request.tool_choice is not None:
            body["tool_choice"] = _tool_choice(request.tool_choice)
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.model.max_output_tokens is not None:
        body[profile.limit_field] = request.model.max_output_tokens
    if request.is_streamed:
        body["stream"] = True
        if profile.asks_usage:
            body["stream_options"] = {"include_usage": True}
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return mend(json.dumps(body, ensure_ascii=False, separators=(",", ":"))).encode()


def _messages(request: ModelRequest, profile: Profile) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if request.system:
        messages.append({"role": "system", "content": request.system})
    for message in request.messages:
        encoded = _message(message, profile)
        if encoded is not None:
            messages.append(encoded)
    return messages


def _message(message: Message, profile: Profile) -> dict[str, Any] | None:
    """None for an assistant message that says nothing and calls nothing: no content for it suits every server."""
    if isinstance(message, ToolMessage):
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.content}
    if isinstance(message, AssistantMessage):
        if message.calls:
            content = message.text or profile.empty_content
            return {"role": "assistant", "content": content, "tool_calls": [_call(call) for call in message.calls]}
        return {"role": "assistant", "content": message.text} if message.text else None
    return {"role": "user", "content": "\n\n".join(_part(part) for part in message.parts)}


def _part(part: Part) -> str:
    if isinstance(part, ImagePart):
        return f"[an image ({part.mime_type}) that cannot be shown to this model]"
    return f"[{part.label}]\n{part.text}" if part.label else part.text


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name or "unknown", "arguments": _replayable(call.arguments)}
    return {"id": call.call_id, "type": "function", "function": function}


def _replayable(arguments: str) -> str:
    """Arguments as servers accept them back: what is no JSON object, and was never run, becomes an empty one."""
    try:
        is_object = isinstance(msgspec.json.decode(arguments), dict)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return "{}"
    return arguments if is_object else "{}"


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.schema}
    return {"type": "function", "function": function}


def _tool_choice(choice: str) -> str | dict[str, Any]:
    if choice in {"auto", "none", "required"}:
        return choice
    return {"type": "function", "function": {"name": choice}}
