"""Requests of Ollama's native chat: domain values to bytes. Pure, and equal bytes for equal requests.

Source of the format: Ollama's API reference, "Generate a chat completion".
"""

from typing import Any

import msgspec

from tinsmith.domain.message import AssistantMessage, Message, ToolCall, ToolMessage
from tinsmith.domain.ports import ModelRequest
from tinsmith.domain.settings import Effort
from tinsmith.llm.body import encode_body, image_of, text_of
from tinsmith.llm.calls import replayable
from tinsmith.llm.chat_request import function_tool, messages_of
from tinsmith.llm.dialect import Terms

_THINK: dict[Effort, bool | str] = {
    "none": False,
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}


def encode_request(request: ModelRequest, terms: Terms) -> bytes:
    """The body of a request. `num_ctx` is the model's window: without it the server takes a small one of its own."""
    options: dict[str, Any] = {"num_ctx": request.model.context_window}
    if request.model.max_output_tokens is not None:
        options["num_predict"] = request.model.max_output_tokens
    if request.temperature is not None:
        options["temperature"] = request.temperature
    body: dict[str, Any] = {"model": request.model.model, "messages": messages_of(request, terms, _message)}
    if request.tools and request.tool_choice != "none":
        body["tools"] = [function_tool(spec) for spec in request.tools]
    body["options"] = options
    body["stream"] = request.is_streamed
    if terms.effort is not None:
        body["think"] = _THINK[terms.effort]
    return encode_body(body, terms)


def _message(message: Message, terms: Terms) -> dict[str, Any]:
    match message:
        case ToolMessage():
            named = {"tool_name": message.name, "tool_call_id": message.call_id}
            return {"role": "tool", "content": message.content, **named}
        case AssistantMessage():
            return _assistant(message, terms)
        case _:
            seen = [(part, image_of(part, terms)) for part in message.parts]
            images = [image for _, image in seen if image is not None]
            said = {"role": "user", "content": "\n\n".join(text_of(part) for part, image in seen if image is None)}
            return {**said, "images": images} if images else said


def _assistant(message: AssistantMessage, terms: Terms) -> dict[str, Any]:
    encoded: dict[str, Any] = {"role": "assistant", "content": message.text}
    if message.calls:
        encoded["tool_calls"] = [_call(call) for call in message.calls]
        if terms.profile.replays_reasoning and message.reasoning:
            encoded["thinking"] = message.reasoning
    return encoded


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = msgspec.Raw(replayable(call.arguments).encode())
    return {"id": call.call_id, "function": {"name": call.name or "unknown", "arguments": arguments}}
