"""OpenAI Responses requests: domain values to bytes. Pure, and equal bytes for equal requests.

Nothing is left at the provider (`store` is false); what it must remember travels along, encrypted.
Source of the format: the Responses API reference, "Reasoning models", "Prompt caching".
"""

import re
from typing import Any

import msgspec

from tinsmith.domain.message import AssistantMessage, ImagePart, Message, Part, Sealed, ToolCall, ToolMessage
from tinsmith.domain.ports import ModelRequest
from tinsmith.domain.tool import ToolSpec
from tinsmith.llm.body import encode_body, image_of, text_of
from tinsmith.llm.calls import replayable
from tinsmith.llm.dialect import Terms
from tinsmith.llm.history import arrange
from tinsmith.llm.layout import pieces

_REASONING_MODELS = re.compile(r"(^|/)(o\d|gpt-[5-9]|gpt-oss|codex)")
_PHASES = msgspec.json.Decoder(dict[str, Any])


def encode_request(request: ModelRequest, terms: Terms) -> bytes:
    """The body of a request."""
    body: dict[str, Any] = {"model": request.model.model, "store": False}
    if request.system:
        body["instructions"] = request.system
    body["input"] = [item for message in arrange(request.messages, terms.profile) for item in _items(message, terms)]
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
        if request.tool_choice is not None:
            body["tool_choice"] = _tool_choice(request.tool_choice)
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.model.max_output_tokens is not None:
        body["max_output_tokens"] = request.model.max_output_tokens
    if terms.effort is not None or _REASONING_MODELS.search(request.model.model):
        body["include"] = ["reasoning.encrypted_content"]
        body["reasoning"] = _reasoning(terms)
    if request.cache_key:
        body["prompt_cache_key"] = request.cache_key
    if request.is_streamed:
        body["stream"] = True
    return encode_body(body, terms)


def _reasoning(terms: Terms) -> dict[str, Any]:
    reasoning: dict[str, Any] = {} if terms.effort is None else {"effort": terms.effort}
    return reasoning if "summary" in terms.profile.omits else {**reasoning, "summary": "auto"}


def _items(message: Message, terms: Terms) -> list[Any]:
    if isinstance(message, ToolMessage):
        return [{"type": "function_call_output", "call_id": message.call_id, "output": message.content}]
    if isinstance(message, AssistantMessage):
        return _assistant(message, terms)
    return [{"type": "message", "role": "user", "content": [_part(part, terms) for part in message.parts]}]


def _assistant(message: AssistantMessage, terms: Terms) -> list[Any]:
    items: list[Any] = []
    phase: dict[str, Any] = {}
    for piece in pieces(message, terms.origin):
        match piece:
            case str():
                content = [{"type": "output_text", "text": piece}]
                items.append({"type": "message", "role": "assistant", "content": content, **phase})
                phase = {}
            case ToolCall():
                items.append(_call(piece))
            case Sealed():
                opened = _PHASES.decode(piece.body)
                if opened.get("type") == "message":  # what the text that follows was for
                    phase = {"phase": opened.get("phase")}
                else:
                    items.append(opened)
    while items and items[-1]["type"] == "reasoning":  # it is refused without what it led to
        items.pop()
    return items


def _call(call: ToolCall) -> dict[str, Any]:
    named = {"call_id": call.call_id, "name": call.name or "unknown"}
    return {"type": "function_call", **named, "arguments": replayable(call.arguments)}


def _part(part: Part, terms: Terms) -> dict[str, Any]:
    image = image_of(part, terms)
    if image is None or not isinstance(part, ImagePart):
        return {"type": "input_text", "text": text_of(part)}
    return {"type": "input_image", "image_url": f"data:{part.mime_type};base64,{image}"}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    """Not strict, which is the default here: that would demand every optional argument."""
    named = {"name": spec.name, "description": spec.description}
    return {"type": "function", **named, "parameters": spec.schema, "strict": False}


def _tool_choice(choice: str) -> str | dict[str, Any]:
    return choice if choice in {"auto", "none", "required"} else {"type": "function", "name": choice}
