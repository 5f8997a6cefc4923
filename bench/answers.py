"""What the scripted provider says, as bytes made beforehand. Pure.

The newest `bench:PLAN:COUNT` in a request names the answer: `text` (COUNT deltas), `read` and `bash` (COUNT rounds of
one call each, then text), `sleep` and `flood` (one call of bash that sleeps for COUNT seconds or writes COUNT MB, then
text), `paced` (COUNT deltas whose text is the time they were sent at) or `silent` (three deltas, then nothing).
"""

import json
import re
from functools import cache
from typing import Any, Literal, NamedTuple, cast

Kind = Literal["text", "read", "bash", "sleep", "flood", "paced", "silent"]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
BLOCK = 64
"""Events of one write, as a fast provider's kernel would join them."""
READABLE_FILES = 10
"""The workspace holds f0.txt and so on, so that no two calls of a turn are alike."""

_PLAN = re.compile(rb"bench:(\w+):(\d+)")
_RESULT = b'"role":"tool"'


class Plan(NamedTuple):
    """What to answer, how many of it or how long. `rounds` of calls were answered before, in this turn."""

    kind: Kind
    number: int
    rounds: int


def plan_of(body: bytes) -> Plan:
    """The plan that a request's newest user message names."""
    *_, newest = _PLAN.finditer(body)
    return Plan(cast("Kind", newest[1].decode()), int(newest[2]), body.count(_RESULT, newest.end()))


@cache
def blocks_of(plan: Plan) -> tuple[bytes, ...]:
    """The writes of a whole answer. A paced or silent one begins with these and goes on differently."""
    match plan:
        case Plan("read" | "bash", number, rounds) if rounds < number:
            events = _call(plan)
        case Plan("sleep" | "flood", rounds=0):
            events = _call(plan)
        case Plan("paced"):
            return (HEAD + _delta({"role": "assistant", "content": ""}),)
        case Plan("silent"):
            return (HEAD + b"".join(_words(3)),)
        case Plan(kind, number):
            events = _words(number if kind == "text" else 3)
    closed = [HEAD, *events, end_events("tool_calls" if b"tool_calls" in events[0] else "stop")]
    return tuple(b"".join(closed[start : start + BLOCK]) for start in range(0, len(closed), BLOCK))


def text_event(text: str) -> bytes:
    """One delta, in a chunk of its own."""
    return _delta({"content": text})


@cache
def end_events(reason: str) -> bytes:
    """Finish reason, usage and the mark of the end, with the last chunk of the body."""
    usage = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
    return (
        _event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        + _event({"choices": [], "usage": usage})
        + _chunk(b"data: [DONE]\n\n")
        + b"0\r\n\r\n"
    )


def _words(count: int) -> list[bytes]:
    return [text_event(f"word{number} ") for number in range(count)]


def _call(plan: Plan) -> list[bytes]:
    name, arguments = {
        "read": ("read", {"path": f"f{plan.rounds % READABLE_FILES}.txt"}),
        "bash": ("bash", {"command": f"true {plan.rounds}"}),
        "sleep": ("bash", {"command": f"sleep {plan.number}", "timeout_s": 3600}),
        "flood": ("bash", {"command": f"yes | head -c {plan.number}000000", "timeout_s": 3600}),
    }[plan.kind]
    opened = {"index": 0, "id": f"call_{plan.rounds}", "type": "function", "function": {"name": name, "arguments": ""}}
    filled = {"index": 0, "function": {"arguments": json.dumps(arguments)}}
    return [_delta({"tool_calls": [opened]}), _delta({"tool_calls": [filled]})]


def _delta(delta: dict[str, Any]) -> bytes:
    return _event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


def _event(chunk: dict[str, Any]) -> bytes:
    whole = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "bench", **chunk}
    return _chunk(b"data: " + json.dumps(whole, separators=(",", ":")).encode() + b"\n\n")


def _chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)
