"""Chat Completions requests: domain values to bytes. Pure, and equal bytes for equal requests."""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from tinsmith.domain.message import AssistantMessage, ImagePart, Message, Part, ToolCall, ToolMessage
from tinsmith.domain.ports import ModelRequest
from tinsmith.domain.tool import ToolSpec
from tinsmith.llm.body import encode_body, image_of, text_of
from tinsmith.llm.calls import replayable
from tinsmith.llm.dialect import Terms
from tinsmith.llm.history import arrange
from tinsmith.llm.profiles import Profile


def encode_request(request: ModelRequest, terms: Terms) -> bytes:
    """The body of a request.

    Messages carry `role`, `content`, `tool_calls` and `tool_call_id` and, but for what the profile's switches add,
    nothing else: strict servers refuse more.
    """
    profile = terms.profile
    body: dict[str, Any] = {"model": request.model.model, "messages": messages_of(request, terms, _message)}
    if request.tools:
        body["tools"] = [function_tool(spec) for spec in request.tools]
        if request.tool_choice is not None:
            body["tool_choice"] = _tool_choice(request.tool_choice)
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.model.max_output_tokens is not None:
        body[profile.limit_field] = request.model.max_output_tokens
    if terms.effort is not None:
        body["reasoning_effort"] = terms.effort
    if request.is_streamed:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}  # without it most servers count no tokens of a stream
    if profile.has_cache_key and request.cache_key:
        body["prompt_cache_key"] = request.cache_key
    return encode_body(body, terms)


def function_tool(spec: ToolSpec) -> dict[str, Any]:
    """A tool as Chat Completions and Ollama take it."""
    function = {"name": spec.name, "description": spec.description, "parameters": spec.schema}
    return {"type": "function", "function": function}


def messages_of(
    request: ModelRequest, terms: Terms, encode: Callable[[Message, Terms], dict[str, Any]]
) -> list[dict[str, Any]]:
    """The system prompt and the history, each message by `encode`, as Chat Completions and Ollama take them."""
    opening = [{"role": "system", "content": request.system}] if request.system else []
    return [*opening, *(encode(message, terms) for message in arrange(request.messages, terms.profile))]


def _message(message: Message, terms: Terms) -> dict[str, Any]:
    if isinstance(message, ToolMessage):
        call_id = _call_id(message.call_id, terms.profile)
        return {"role": "tool", "tool_call_id": call_id, "content": message.content}
    if isinstance(message, AssistantMessage):
        return _assistant(message, terms)
    if not any(isinstance(part, ImagePart) for part in message.parts):
        return {"role": "user", "content": "\n\n".join(map(text_of, message.parts))}
    return {"role": "user", "content": [_part(part, terms) for part in message.parts]}


def _part(part: Part, terms: Terms) -> dict[str, Any]:
    image = image_of(part, terms)
    if image is None or not isinstance(part, ImagePart):
        return {"type": "text", "text": text_of(part)}
    return {"type": "image_url", "image_url": {"url": f"data:{part.mime_type};base64,{image}"}}


def _assistant(message: AssistantMessage, terms: Terms) -> dict[str, Any]:
    profile = terms.profile
    content = message.text or (profile.empty_content if message.calls else "")
    encoded: dict[str, Any] = {"role": "assistant", "content": content}
    if message.calls:
        encoded["tool_calls"] = [_call(call, profile) for call in message.calls]
        if profile.replays_reasoning and message.reasoning and "reasoning_content" not in profile.omits:
            encoded["reasoning_content"] = message.reasoning
    if profile.replays_details:
        _add_sealed(encoded, message, terms)
    return encoded


def _add_sealed(encoded: dict[str, Any], message: AssistantMessage, terms: Terms) -> None:
    """Put sealed parts back where they stood: a detail into the message, what came with a call into that call."""
    details: list[msgspec.Raw] = []
    for part in message.sealed:
        if part.origin != terms.origin:
            continue
        if part.after_calls == 0:  # where a call's own part never stands
            details.append(msgspec.Raw(part.body.encode()))
        elif part.after_calls <= len(message.calls):
            encoded["tool_calls"][part.after_calls - 1]["extra_content"] = msgspec.Raw(part.body.encode())
    if details and "reasoning_details" not in terms.profile.omits:
        encoded["reasoning_details"] = details


def _call(call: ToolCall, profile: Profile) -> dict[str, Any]:
    function = {"name": call.name or "unknown", "arguments": replayable(call.arguments)}
    return {"id": _call_id(call.call_id, profile), "type": "function", "function": function}


def _call_id(call_id: str, profile: Profile) -> str:
    return hashlib.sha256(call_id.encode()).hexdigest()[:9] if profile.has_short_call_ids else call_id


def _tool_choice(choice: str) -> str | dict[str, Any]:
    if choice in {"auto", "none", "required"}:
        return choice
    return {"type": "function", "function": {"name": choice}}
