"""Anthropic Messages requests: domain values to bytes. Pure, and equal bytes for equal requests.

Source of the format: the Messages API reference, "Prompt caching", "Extended thinking" and "Adaptive thinking".
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from tinsmith.domain.message import AssistantMessage, ImagePart, Message, Part, Sealed, ToolCall, ToolMessage
from tinsmith.domain.ports import ModelRequest
from tinsmith.domain.settings import Effort
from tinsmith.domain.tool import ToolSpec
from tinsmith.llm.body import encode_body, image_of, text_of
from tinsmith.llm.calls import replayable
from tinsmith.llm.dialect import Terms
from tinsmith.llm.layout import pieces

_BREAKPOINT = {"type": "ephemeral"}
_OUTPUT_LIMITS = (
    (re.compile(r"claude-3-(opus|sonnet|haiku)"), 4_096),
    (re.compile(r"claude-3-5"), 8_192),
)
_OUTPUT_LIMIT = 32_000
"""`max_tokens` must be sent. Every model since 3.7 can write that much; older ones are in the table."""
_BUDGET_MODELS = re.compile(r"claude-(3|(opus|sonnet|haiku)-4([-.][015])?(-2\d{7})?(?![-.]?\d))")
"""Models that think by a budget of tokens; later ones decide themselves, guided by an effort."""
_BUDGETS: dict[Effort, int] = {
    "minimal": 1_024,
    "low": 2_048,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 24_576,
    "max": 30_000,
}
_NOTHING = "(an empty message)"
"""Blank text is refused."""
_ALIKE: dict[Effort, Effort] = {"minimal": "low"}
"""Efforts that this format does not know, as the nearest it does."""


def encode_request(request: ModelRequest, terms: Terms) -> bytes:
    """The body of a request. Cache breakpoints stand on the tools, the system prompt and the last two user turns."""
    limit = request.model.max_output_tokens or _output_limit(request.model.model)
    body: dict[str, Any] = {"model": request.model.model, "max_tokens": limit}
    if request.tools:
        body["tools"] = _marked([_tool(spec) for spec in request.tools], terms)
        if request.tool_choice is not None:
            body["tool_choice"] = _tool_choice(request.tool_choice)
    if request.system:
        body["system"] = _marked([{"type": "text", "text": request.system}], terms)
    turns = body["messages"] = _messages(request.messages, terms)
    if terms.effort is not None and _may_think(turns):
        body.update(_thinking(request.model.model, terms.effort, limit))
    if request.temperature is not None and "thinking" not in body:  # the two exclude each other
        body["temperature"] = request.temperature
    if request.is_streamed:
        body["stream"] = True
    return encode_body(body, terms)


def _output_limit(model: str) -> int:
    return next((limit for name, limit in _OUTPUT_LIMITS if name.search(model)), _OUTPUT_LIMIT)


def _may_think(turns: Sequence[dict[str, Any]]) -> bool:
    """Whether thinking may be on: not in the middle of a round of calls that began without it, which is refused."""
    if len(turns) < 2 or not any(block.get("type") == "tool_result" for block in turns[-1]["content"]):
        return True
    return isinstance(turns[-2]["content"][0], msgspec.Raw)


def _thinking(model: str, effort: Effort, limit: int) -> dict[str, Any]:
    if effort == "none":
        return {}
    if "claude" in model and not _BUDGET_MODELS.search(model):
        adaptive = {"type": "adaptive", "display": "summarized"}
        return {"thinking": adaptive, "output_config": {"effort": _ALIKE.get(effort, effort)}}
    budget = min(_BUDGETS[effort], limit - 1_024)
    return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= 1_024 else {}


def _messages(messages: Sequence[Message], terms: Terms) -> list[dict[str, Any]]:
    """Turns of alternating roles: results and what the user says next are one turn, results first."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        blocks = _blocks(message, terms)
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"].extend(blocks)
        else:
            turns.append({"role": role, "content": blocks})
    for turn in [turn for turn in turns if turn["role"] == "user"][-2:]:
        _marked(turn["content"], terms)
    return turns


def _marked(blocks: list[dict[str, Any]], terms: Terms) -> list[dict[str, Any]]:
    """The blocks with a breakpoint behind the last one."""
    if "cache_control" not in terms.profile.omits:
        blocks[-1]["cache_control"] = _BREAKPOINT
    return blocks


def _blocks(message: Message, terms: Terms) -> list[dict[str, Any]]:
    if isinstance(message, ToolMessage):
        return [_result(message)]
    if isinstance(message, AssistantMessage):
        return _assistant(message, terms)
    blocks = [block for part in message.parts if (block := _part(part, terms)) is not None]
    return blocks or [{"type": "text", "text": _NOTHING}]


def _assistant(message: AssistantMessage, terms: Terms) -> list[Any]:
    """Nothing for an answer that said and called nothing: sealed parts alone are refused, and so is blank text."""
    if not message.text.strip() and not message.calls:
        return []
    blocks: list[Any] = []
    for piece in pieces(message, terms.origin):
        match piece:
            case str():
                if piece.strip():
                    blocks.append({"type": "text", "text": piece})
            case Sealed():
                blocks.append(msgspec.Raw(piece.body.encode()))
            case ToolCall():
                blocks.append(_call(piece))
    return blocks


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = msgspec.Raw(replayable(call.arguments).encode())
    return {"type": "tool_use", "id": call.call_id, "name": call.name or "unknown", "input": arguments}


def _result(message: ToolMessage) -> dict[str, Any]:
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": message.call_id}
    if message.content.strip():
        result["content"] = message.content
    if not message.ok:
        result["is_error"] = True
    return result


def _part(part: Part, terms: Terms) -> dict[str, Any] | None:
    image = image_of(part, terms)
    if image is not None and isinstance(part, ImagePart):
        source = {"type": "base64", "media_type": part.mime_type, "data": image}
        return {"type": "image", "source": source}
    text = text_of(part)
    return {"type": "text", "text": text} if text.strip() else None


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "input_schema": spec.schema}


def _tool_choice(choice: str) -> dict[str, Any]:
    if choice in {"auto", "none"}:
        return {"type": choice}
    return {"type": "any"} if choice == "required" else {"type": "tool", "name": choice}
