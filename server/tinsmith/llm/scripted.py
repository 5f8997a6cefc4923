"""A model that plays a script: for tests, demonstrations, and everything that must be the same each time."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import msgspec

from tinsmith.domain.errors import AgentError, ProtocolError, SchemaError, TransportError
from tinsmith.domain.ids import new_id
from tinsmith.domain.message import Answer, CallDetected, ModelDelta, ReasoningDelta, TextDelta, ToolCall, Usage
from tinsmith.domain.ports import ModelRequest
from tinsmith.domain.settings import LlmSettings


class Say(msgspec.Struct, frozen=True):
    """Text, streamed word by word."""

    text: str


class Think(msgspec.Struct, frozen=True):
    """Reasoning, streamed word by word."""

    text: str


class Call(msgspec.Struct, frozen=True):
    """A tool call. `arguments` is the object, or any text where the model should write something else."""

    name: str
    arguments: dict[str, Any] | str = {}


class Wait(msgspec.Struct, frozen=True):
    """Silence for `seconds`; None is for ever."""

    seconds: float | None = None


class Fail(msgspec.Struct, frozen=True):
    """The answer ends here with an error."""

    code: str
    message: str
    retryable: bool = False
    retry_after_ms: int | None = None


Step = Say | Think | Call | Wait | Fail


class Reply(msgspec.Struct, frozen=True):
    """One answer of the script. An empty `finish_reason` is `tool_calls` or `stop`, as fits."""

    steps: tuple[Step, ...] = ()
    usage: Usage = Usage(input=100, output=20, total=120)
    finish_reason: str = ""


def reply(*steps: Step | str) -> Reply:
    """A reply of these steps; a bare text is said."""
    return Reply(tuple(Say(step) if isinstance(step, str) else step for step in steps))


ScriptedReply = Reply | Callable[[ModelRequest], Reply]
"""A reply, or how to make it from the request."""


def _new_call_id() -> str:
    return new_id("c")


class ScriptedModel:
    """A `ports.Model`. The n-th request gets the n-th reply; `requests` holds what was asked.

    `pace` is the pause after each delta, in seconds. A script that has run out answers
    with ProtocolError `scriptEnded`; a single function as the script answers every request.
    """

    def __init__(
        self,
        script: Sequence[ScriptedReply] | Callable[[ModelRequest], Reply],
        *,
        mint: Callable[[], str] = _new_call_id,
        pace: float = 0.0,
    ) -> None:
        self.requests: list[ModelRequest] = []
        self._script = script
        self._mint = mint
        self._pace = pace

    async def stream(self, request: ModelRequest, settings: LlmSettings) -> AsyncGenerator[Sequence[ModelDelta]]:
        """As ports.Model, one delta a batch. Raises what a `Fail` says."""
        self.requests.append(request)
        chosen = self._choose(request)
        deltas: list[ModelDelta] = []
        calls: list[ToolCall] = []
        for step in chosen.steps:
            for delta in self._play(step, calls):
                deltas.append(delta)
                yield [delta]
                await asyncio.sleep(self._pace)
            if isinstance(step, Wait):
                await _pause(step.seconds)
        yield [_whole(chosen, deltas, tuple(calls))]

    def _choose(self, request: ModelRequest) -> Reply:
        if callable(self._script):
            return self._script(request)
        number = len(self.requests)
        if number > len(self._script):
            message = f"The script has {len(self._script)} replies and this is request {number}. Write one more."
            raise ProtocolError("scriptEnded", message, origin="scripted")
        entry = self._script[number - 1]
        return entry if isinstance(entry, Reply) else entry(request)

    def _play(self, step: Step, calls: list[ToolCall]) -> Sequence[ModelDelta]:
        match step:
            case Say(text):
                return [TextDelta(word) for word in _words(text)]
            case Think(text):
                return [ReasoningDelta(word) for word in _words(text)]
            case Call():
                call = _call(step, self._mint())
                calls.append(call)
                return [CallDetected(call.call_id, call.name)]
            case Fail():
                raise _error(step)
            case Wait():
                return []


def parse_script(text: str) -> list[Reply]:
    """Replies from text: one step a line, `---` between replies, `#` before a comment.

        think I should look first.
        say Hello.
        | A second line of what is said.
        call read {"path": "a.py"}
        wait 0.5
        usage 1200 80
        fail overloaded Too much to do.

    `wait` alone is for ever. `fail! …` is retryable. Raises SchemaError `badScript` with the line's number.
    """
    replies: list[Reply] = []
    steps: list[Step] = []
    usage = Reply().usage
    for number, line in enumerate([*text.split("\n"), "---"], start=1):
        word, _, rest = line.partition(" ")
        if word == "---":
            if steps:
                replies.append(Reply(tuple(steps), usage))
            steps, usage = [], Reply().usage
        elif word == "usage":
            usage = _parse_usage(rest, number)
        elif word == "|":
            steps[-1:] = [_continue(steps, rest, number)]
        elif word and not word.startswith("#"):
            steps.append(_parse_step(word, rest, number))
    return replies


def _parse_step(word: str, rest: str, number: int) -> Step:
    first, _, more = rest.partition(" ")
    match word:
        case "say":
            return Say(rest)
        case "think":
            return Think(rest)
        case "wait":
            return Wait(_parse_number(rest, number) if rest else None)
        case "call":
            return Call(first, more or "{}")
        case "fail" | "fail!":
            return Fail(first, more, retryable=word.endswith("!"))
        case _:
            raise _bad_script(number, f"{word!r} is no step: use say, think, call, wait, usage or fail")


def _parse_usage(text: str, number: int) -> Usage:
    counts = [int(_parse_number(word, number)) for word in text.split()]
    if len(counts) != 2:
        raise _bad_script(number, "usage takes two numbers: tokens in, tokens out")
    return Usage(input=counts[0], output=counts[1], total=sum(counts))


def _parse_number(text: str, number: int) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise _bad_script(number, f"{text!r} is not a number") from error


def _continue(steps: Sequence[Step], line: str, number: int) -> Step:
    last = steps[-1] if steps else None
    if not isinstance(last, Say | Think):
        raise _bad_script(number, "only say and think go on in a second line")
    return type(last)(f"{last.text}\n{line}")


def _bad_script(number: int, what: str) -> SchemaError:
    return SchemaError("badScript", f"Line {number} of the script: {what}.", origin="scripted")


def _words(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+$", text)


def _call(step: Call, call_id: str) -> ToolCall:
    if isinstance(step.arguments, dict):
        return ToolCall(call_id, step.name, msgspec.json.encode(step.arguments).decode())
    return ToolCall(call_id, step.name, step.arguments, _is_object(step.arguments))


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except msgspec.DecodeError:
        return False


def _error(step: Fail) -> AgentError:
    facts = {} if step.retry_after_ms is None else {"retryAfterMs": step.retry_after_ms}
    return TransportError(step.code, step.message, retryable=step.retryable, origin="scripted", data=facts)


async def _pause(seconds: float | None) -> None:
    if seconds is None:
        await asyncio.get_running_loop().create_future()
    else:
        await asyncio.sleep(seconds)


def _whole(chosen: Reply, deltas: Sequence[ModelDelta], calls: tuple[ToolCall, ...]) -> Answer:
    return Answer(
        text="".join(delta.text for delta in deltas if isinstance(delta, TextDelta)),
        reasoning="".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta)),
        calls=calls,
        finish_reason=chosen.finish_reason or ("tool_calls" if calls else "stop"),
        usage=chosen.usage,
    )
