"""Answers in four dialects, in pieces with pauses between them, so that a kill can fall into the middle of one."""

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from tinsmith.demo.server import RawAnswer

PATHS = {
    "chat_completions": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "ollama": "/api/chat",
}
LONGEST_PAUSE = 0.01
Calls = Sequence[tuple[str, str, dict[str, Any]]]
"""(id, name, arguments) of each call."""


def answer(path: str, text: str, calls: Calls, chance: random.Random) -> RawAnswer:
    """A streamed answer that says the text and makes the calls."""
    pieces: list[bytes | float] = []
    for piece in _WRITERS[path](text, calls):
        pieces += [piece, chance.random() * LONGEST_PAUSE]
    return RawAnswer(tuple(pieces), content_type="application/x-ndjson" if path == "/api/chat" else "text/event-stream")


def _chat(text: str, calls: Calls) -> Iterator[bytes]:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        return _event({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    yield from (chunk({"content": word}) for word in _halves(text))
    for index, (call_id, name, arguments) in enumerate(calls):
        head = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        yield chunk({"tool_calls": [head]})
        for part in _halves(json.dumps(arguments)):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    yield chunk({}, "tool_calls" if calls else "stop")
    yield _event({"id": "c", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}})
    yield b"data: [DONE]\n\n"


def _responses(text: str, calls: Calls) -> Iterator[bytes]:
    def event(kind: str, **fields: Any) -> bytes:
        return f"event: {kind}\n".encode() + _event({"type": kind, **fields})

    said = {"id": "msg_0", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    output = [said]
    yield event("response.created", response={"id": "r", "status": "in_progress"})
    yield event("response.output_item.added", output_index=0, item={**said, "content": []})
    for part in _halves(text):
        yield event("response.output_text.delta", output_index=0, content_index=0, item_id="msg_0", delta=part)
    yield event("response.output_item.done", output_index=0, item=said)
    for index, (call_id, name, arguments) in enumerate(calls, start=1):
        whole = json.dumps(arguments)
        item = {"id": f"fc_{index}", "type": "function_call", "call_id": call_id, "name": name, "arguments": whole}
        output.append(item)
        yield event("response.output_item.added", output_index=index, item={**item, "arguments": ""})
        for part in _halves(whole):
            yield event("response.function_call_arguments.delta", output_index=index, item_id=item["id"], delta=part)
        yield event("response.output_item.done", output_index=index, item=item)
    usage = {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}
    yield event("response.completed", response={"id": "r", "status": "completed", "output": output, "usage": usage})


def _anthropic(text: str, calls: Calls) -> Iterator[bytes]:
    def event(kind: str, **fields: Any) -> bytes:
        return f"event: {kind}\n".encode() + _event({"type": kind, **fields})

    opening = {"id": "msg_0", "type": "message", "role": "assistant", "content": [], "usage": {"input_tokens": 9}}
    yield event("message_start", message=opening)
    yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    for part in _halves(text):
        yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": part})
    yield event("content_block_stop", index=0)
    for index, (call_id, name, arguments) in enumerate(calls, start=1):
        block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        yield event("content_block_start", index=index, content_block=block)
        for part in _halves(json.dumps(arguments)):
            yield event("content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": part})
        yield event("content_block_stop", index=index)
    reason = "tool_use" if calls else "end_turn"
    yield event("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 9})
    yield event("message_stop")


def _ollama(text: str, calls: Calls) -> Iterator[bytes]:
    def line(message: dict[str, Any], **fields: Any) -> bytes:
        return json.dumps({"model": "m", "message": message, "done": False, **fields}).encode() + b"\n"

    for part in _halves(text):
        yield line({"role": "assistant", "content": part})
    for _, name, arguments in calls:
        function = {"name": name, "arguments": arguments}
        yield line({"role": "assistant", "content": "", "tool_calls": [{"function": function}]})
    yield line({"role": "assistant", "content": ""}, done=True, done_reason="stop")


_WRITERS = {
    "/v1/chat/completions": _chat,
    "/v1/responses": _responses,
    "/v1/messages": _anthropic,
    "/api/chat": _ollama,
}


def _halves(text: str) -> tuple[str, str]:
    middle = len(text) // 2
    return text[:middle], text[middle:]


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"
