"""The calls of an answer, read from all of its bytes at once: a second opinion that shares no code with the product.

Written from the references of the formats: SSE (WHATWG HTML, "Interpreting an event stream"), Chat Completions and
Responses (OpenAI's API reference, "Streaming"), Messages (Anthropic, "Streaming messages"), Ollama's native chat.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Found:
    """What an answer asks for. `is_over` when its format says that it has ended, `is_spoilt` by an error or refusal."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    is_over: bool = False
    is_spoilt: bool = False

    @property
    def made(self) -> list[tuple[str, dict[str, Any]]]:
        """The calls of an answer that may be used."""
        return self.calls if self.is_over and not self.is_spoilt else []

    def add(self, name: str, arguments: Any) -> None:
        """One call more, when its arguments are a whole JSON object; none at all are an empty one."""
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments) if arguments.strip() else {}
            except ValueError:
                return
        if isinstance(arguments, dict):
            self.calls.append((name, arguments))


def read_answer(dialect: str, body: bytes, *, is_broken: bool) -> Found:
    """The answer in these bytes. What nothing ended counts only where the body ended as announced, and if it is whole.

    `is_broken` when the connection broke instead.
    """
    text = body.decode("utf-8", "replace")
    if dialect != "ollama" and text.lstrip().startswith("{"):
        return Found() if is_broken else _read_whole(dialect, text)  # only the end of its body says that it is whole
    payloads = _lines(text) if dialect == "ollama" else _payloads(text)
    whole, rest = payloads[:-1], payloads[-1]
    if not is_broken:
        whole.append(rest)
    events = _events(whole)
    if dialect == "ollama" and not events:
        events = _events([text])
    return _READERS[dialect](events)


def _lines(text: str) -> list[str]:
    return text.split("\n")


def _payloads(text: str) -> list[str]:
    """The payload of each event; the last one is that which no blank line ended."""
    payloads: list[str] = []
    lines: list[str] = []
    for line in re.split("\r\n|\r|\n", text):
        if line.startswith("data:"):
            lines.append(line.removeprefix("data:").removeprefix(" "))
        elif not line:
            payloads.append("\n".join(lines))
            lines = []
    return [*payloads, "\n".join(lines)]


def _events(payloads: list[str]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for payload in payloads:
        if payload.strip() == "[DONE]":
            return [*events, {"[DONE]": True}]
        try:
            event = json.loads(payload)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return events


def _read_whole(dialect: str, text: str) -> Found:
    try:
        answer = json.loads(text)
    except ValueError:
        return Found()
    found = Found(is_over=True)
    if dialect == "chat_completions":
        calls = answer["choices"][0]["message"].get("tool_calls", [])
        named = [(call["function"]["name"], call["function"]["arguments"]) for call in calls]
    elif dialect == "responses":
        named = [(item["name"], item["arguments"]) for item in answer["output"] if item["type"] == "function_call"]
    else:
        named = [(block["name"], block["input"]) for block in answer["content"] if block["type"] == "tool_use"]
    for name, arguments in named:
        found.add(name, arguments)
    return found


def _read_chat(events: list[dict[str, Any]]) -> Found:
    """A limit may have cut the call that was begun last, and the one that was written to last."""
    found = Found()
    calls: dict[Any, list[Any]] = {}
    latest: Any = None
    for event in events:
        found.is_spoilt |= "error" in event
        found.is_over |= "[DONE]" in event
        for choice in event.get("choices", []):
            for part in (choice.get("delta") or {}).get("tool_calls") or []:
                latest = part.get("index", part.get("id") or latest)
                function = part.get("function", {})
                call = calls.setdefault(latest, [function.get("name"), ""])
                more = function.get("arguments") or ""
                call[1] = more if isinstance(more, dict) else call[1] + more
            reason = choice.get("finish_reason")
            found.is_over |= reason is not None
            found.is_spoilt |= reason == "content_filter"
            if reason == "length":
                calls = {key: call for key, call in calls.items() if key not in {latest, [*calls][-1]}}
    for name, arguments in calls.values():
        found.add(name, arguments)
    return found


def _read_responses(events: list[dict[str, Any]]) -> Found:
    """By the items that are done; one that its provider never finishes, by its deltas."""
    found = Found()
    calls: dict[str, list[Any]] = {}
    for event in events:
        match event.get("type"):
            case "response.output_item.added" if event["item"]["type"] == "function_call":
                calls[event["item"]["id"]] = [event["item"]["name"], ""]
            case "response.function_call_arguments.delta":
                calls[event["item_id"]][1] += event["delta"]
            case "response.output_item.done" if event["item"]["type"] == "function_call":
                item = event["item"]
                is_cut = item.get("status") == "incomplete"
                calls[item["id"]] = [item["name"], None if is_cut else item["arguments"]]
            case "response.completed" | "response.incomplete":
                found.is_over = True
            case "response.failed" | "error":
                found.is_spoilt = True
            case _:
                continue
    for name, arguments in calls.values():
        found.add(name, arguments)
    return found


def _read_messages(events: list[dict[str, Any]]) -> Found:
    found = Found()
    blocks: dict[int, list[Any]] = {}
    for event in events:
        match event.get("type"):
            case "content_block_start" if event["content_block"]["type"] == "tool_use":
                block = event["content_block"]
                blocks[event["index"]] = [block["name"], block.get("input") or {}, ""]
            case "content_block_delta" if event["delta"]["type"] == "input_json_delta":
                blocks[event["index"]][2] += event["delta"]["partial_json"]
            case "message_delta":
                reason = event["delta"].get("stop_reason")
                found.is_over |= reason is not None
                found.is_spoilt |= reason == "refusal"
                if reason == "max_tokens" and blocks:
                    del blocks[max(blocks)]  # which the limit may have cut
            case "message_stop":
                found.is_over = True
            case "error":
                found.is_spoilt = True
            case _:
                continue
    for name, given, text in blocks.values():
        found.add(name, text or given)
    return found


def _read_ollama(events: list[dict[str, Any]]) -> Found:
    found = Found()
    for event in events:
        for call in event.get("message", {}).get("tool_calls", []):
            found.add(call["function"]["name"], call["function"]["arguments"])
        found.is_over |= event.get("done", False)
        found.is_spoilt |= "error" in event
    return found


_READERS = {
    "chat_completions": _read_chat,
    "responses": _read_responses,
    "anthropic": _read_messages,
    "ollama": _read_ollama,
}
