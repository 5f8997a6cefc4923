"""What a strict provider reads in a request body, in four dialects. Standard library only, so that it can judge.

A history is a list of entries: ("user", text), ("said", text), ("call", name, arguments, result); `arguments` as a
dict. It is the same in every dialect, so that what one server was sent can be compared with what another was.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

Entry = tuple[Any, ...]
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class RefusedError(Exception):
    """A strict server would answer 400, and why."""


def history_of(path: str, body: bytes) -> list[Entry]:
    """The history in a request to `path`. Raises RefusedError."""
    entries = _paired(_READERS[path](json.loads(body)))
    _demand(bool(entries) and entries[0][0] == "user", "a history begins with the user")
    _demand(entries[-1][0] in {"user", "call"}, "a history ends with what is to be answered")
    return entries


def _paired(parts: Iterator[Entry]) -> list[Entry]:
    """Each call with its one result, which must follow before anything else; ids are None where there are none."""
    entries: list[Entry] = []
    waiting: list[tuple[str | None, int]] = []
    seen: set[str] = set()
    for kind, *rest in parts:
        if kind == "call":
            call_id, name, arguments = rest
            _demand(call_id not in seen, f"the call id {call_id} comes twice")
            if call_id is not None:
                seen.add(call_id)
            waiting.append((call_id, len(entries)))
            entries.append(("call", name, arguments))
        elif kind == "result":
            call_id, text = rest
            position = next((each for each in waiting if each[0] == call_id), None)
            if position is None:
                raise RefusedError(f"a result for {call_id}, which waits for none")
            waiting.remove(position)
            entries[position[1]] += (text,)
        else:
            _demand(not waiting, f"a {kind} before the results of {waiting}")
            _demand(bool(rest[0].strip()), f"an empty {kind}")
            entries.append((kind, *rest))
    _demand(not waiting, f"the calls {waiting} have no result")
    return entries


def _chat(body: dict[str, Any]) -> Iterator[Entry]:
    for message in body["messages"]:
        match message:
            case {"role": "system", "content": str()}:
                pass
            case {"role": "user", "content": str(text)}:
                yield ("user", text)
            case {"role": "assistant"}:
                calls = message.get("tool_calls")
                _demand(calls is None or len(calls) > 0, "tool_calls must not be empty")
                _demand(bool(message.get("content")) or bool(calls), "an assistant message says nothing")
                if message.get("content"):
                    yield ("said", message["content"])
                for call in calls or ():
                    _demand(call["type"] == "function", "a call is a function")
                    yield ("call", _id(call["id"]), call["function"]["name"], _object(call["function"]["arguments"]))
            case {"role": "tool", "tool_call_id": str(call_id), "content": str(text)}:
                yield ("result", call_id, text)
            case _:
                raise RefusedError(f"not a message: {message}")


def _responses(body: dict[str, Any]) -> Iterator[Entry]:
    for item in body["input"]:
        match item:
            case {"type": "message", "role": "user", "content": [*parts]}:
                for part in parts:
                    _demand(part["type"] == "input_text", "a user's text is an input_text")
                    yield ("user", part["text"])
            case {"type": "message", "role": "assistant", "content": [*parts]}:
                for part in parts:
                    _demand(part["type"] == "output_text", "an answer's text is an output_text")
                    yield ("said", part["text"])
            case {"type": "message", "role": "assistant", "content": str(text)}:
                yield ("said", text)
            case {"type": "function_call", "call_id": str(call_id), "name": str(name), "arguments": str(arguments)}:
                yield ("call", _id(call_id), name, _object(arguments))
            case {"type": "function_call_output", "call_id": str(call_id), "output": str(text)}:
                yield ("result", call_id, text)
            case _:
                raise RefusedError(f"not an item: {item}")


def _anthropic(body: dict[str, Any]) -> Iterator[Entry]:
    expected = "user"
    asked: set[str] = set()
    for message in body["messages"]:
        _demand(message["role"] == expected, f"{message['role']} where {expected} must come")
        expected = "assistant" if expected == "user" else "user"
        blocks = message["content"]
        answered = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        _demand(answered == asked, f"results of {answered} where those of {asked} must come")
        kinds = [block["type"] == "tool_result" for block in blocks]
        _demand(kinds == sorted(kinds, reverse=True), "results come first in a message")
        asked = set()
        for block in blocks:
            match block:
                case {"type": "text", "text": str(text)}:
                    yield ("user" if message["role"] == "user" else "said", text)
                case {"type": "tool_use", "id": str(call_id), "name": str(name), "input": dict(arguments)}:
                    asked.add(call_id)
                    yield ("call", _id(call_id), name, arguments)
                case {"type": "tool_result", "tool_use_id": str(call_id), "content": content}:
                    text = content if isinstance(content, str) else "".join(part["text"] for part in content)
                    yield ("result", call_id, text)
                case _:
                    raise RefusedError(f"not a block: {block}")


def _ollama(body: dict[str, Any]) -> Iterator[Entry]:
    for message in body["messages"]:
        match message:
            case {"role": "system", "content": str()}:
                pass
            case {"role": "user", "content": str(text)}:
                yield ("user", text)
            case {"role": "assistant"}:
                if message.get("content"):
                    yield ("said", message["content"])
                for call in message.get("tool_calls", ()):
                    arguments = call["function"]["arguments"]
                    _demand(isinstance(arguments, dict), "arguments are an object")
                    yield ("call", None, call["function"]["name"], arguments)
            case {"role": "tool", "tool_name": str(), "content": str(text)}:
                yield ("result", None, text)
            case _:
                raise RefusedError(f"not a message: {message}")


_READERS = {
    "/v1/chat/completions": _chat,
    "/v1/responses": _responses,
    "/v1/messages": _anthropic,
    "/api/chat": _ollama,
}


def _object(arguments: str) -> dict[str, Any]:
    try:
        found = json.loads(arguments)
    except ValueError as error:
        raise RefusedError("arguments that are no JSON") from error
    _demand(isinstance(found, dict), "arguments that are no object")
    return found


def _id(text: str) -> str:
    _demand(bool(_ID.fullmatch(text)), f"the id {text!r}")
    return text


def _demand(is_so: bool, otherwise: str) -> None:  # noqa: FBT001  it reads as a sentence
    if not is_so:
        raise RefusedError(otherwise)
