"""The demo model: what it answers to a transcript. It mends the sample project's kettle and runs its tests. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tinsmith.domain.message import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from tinsmith.domain.ports import ModelRequest
from tinsmith.llm.scripted import Call, Reply, ScriptedModel, Step, reply

NAME = "demo"
FILE = "kettle.py"
TEST_FILE = "test_kettle.py"
TEST_COMMAND = "python3 -m unittest -q"
PACE = 0.02
"""Seconds between two words: slow enough to see that they stream."""

INTRODUCTION = "I am a scripted demo model, not an AI: I play one small part, but with Tinsmith's real tools. "
HELP = (
    "That is not in my script. I can do two things in this project: ask me to **fix the kettle**, or to **run the "
    "tests**. For everything else, give Tinsmith a real model; `tinsmith doctor` says how."
)

_BROKEN = "return temperature > BOILING"
_MENDED = "return temperature >= BOILING"
_TRIES = 3
_FIX_WORDS = re.compile(r"\b(fix|mend|repair|bug|broken|wrong|why|silent|whistles?|kettle)\b", re.IGNORECASE)
_TEST_WORDS = re.compile(r"\b(run|tests?)\b", re.IGNORECASE)
_MOMENT = "\n\n["
"""Begins what the editor adds to a message about its moment, once the message has been through a provider's wire."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A call of this turn and what came of it."""

    tool: str
    arguments: Mapping[str, Any]
    result: str


@dataclass(frozen=True, slots=True)
class _Turn:
    """What the person wants now, and what has been done for it. `opening` begins the first answer ever."""

    wish: str
    steps: tuple[_Step, ...]
    opening: str

    @property
    def wants_tests(self) -> bool:
        return _TEST_WORDS.search(self.wish) is not None

    @property
    def wants_repair(self) -> bool:
        return _FIX_WORDS.search(self.wish) is not None


def demo_model(pace: float = PACE) -> ScriptedModel:
    """The model, for a provider to serve. `pace` is in seconds per word."""
    return ScriptedModel(answer, pace=pace)


def answer(request: ModelRequest) -> Reply:
    """The next reply: it follows from the person's last message and the newest result since."""
    turn = _turn(request.messages)
    match turn.steps[-1].tool if turn.steps else "":
        case "read":
            return _after_reading(turn)
        case "edit":
            return _after_editing(turn)
        case "bash":
            return reply(_verdict(turn.steps[-1].result))
        case _:
            return _begin(turn)


def _turn(messages: Sequence[Message]) -> _Turn:
    start = max((place for place, each in enumerate(messages) if isinstance(each, UserMessage)), default=0)
    asked = messages[start] if messages else None
    wish = asked.text.partition(_MOMENT)[0] if isinstance(asked, UserMessage) else ""
    is_first = not any(isinstance(each, AssistantMessage) for each in messages)
    return _Turn(wish, tuple(_steps(messages[start:])), INTRODUCTION if is_first else "")


def _steps(messages: Sequence[Message]) -> list[_Step]:
    calls: dict[str, ToolCall] = {}
    steps: list[_Step] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            calls.update({call.call_id: call for call in message.calls})
        elif isinstance(message, ToolMessage) and message.call_id in calls:
            call = calls[message.call_id]
            steps.append(_Step(call.name, msgspec.json.decode(call.arguments), message.content))
    return steps


def _begin(turn: _Turn) -> Reply:
    if turn.wants_repair:
        text = "Let me look at the kettle, and at what its tests expect of it."
        return reply(turn.opening + text, Call("read", {"path": FILE}), Call("read", {"path": TEST_FILE}))
    if turn.wants_tests:
        return reply(turn.opening + f"I run the tests: `{TEST_COMMAND}`.", _test_call())
    return reply(turn.opening + HELP)


def _after_reading(turn: _Turn) -> Reply:
    seen = next((step.result for step in reversed(turn.steps) if step.arguments.get("path") == FILE), "")
    digest = _field(seen, "hash")
    number = _line_of(_BROKEN, seen)
    if not digest:
        return reply(f"I could not read `{FILE}`: {_first_line(seen)}")
    if number is None and _line_of(_MENDED, seen) is not None:
        return _finish(turn, f"`{FILE}` is in order already: the kettle whistles as soon as its water boils.")
    if number is None:
        return reply(f"`{FILE}` no longer holds the line that my script mends, so I leave it alone.")
    return reply(
        f"Line {number} asks for *more* than {_BROKEN.rpartition(' ')[2]}, but water gets no hotter than that: the "
        "kettle can never whistle. `>=` is what was meant. I change that one line, and only if the text is still "
        f"the one I was shown (`{digest}`).",
        _edit_call(digest, number),
    )


def _after_editing(turn: _Turn) -> Reply:
    step = turn.steps[-1]
    digest = _field(step.result, "hash")
    is_done = step.result.startswith("hash: ")
    if is_done:
        return _finish(turn, _told(step))
    tries = sum(each.tool == "edit" for each in turn.steps)
    if not digest or tries >= _TRIES:
        return reply(f"`{FILE}` was left as it is. {_first_line(step.result)} Ask me again when you like.")
    moved = re.search(r"-> replace (\d+)-\1$", step.result, re.MULTILINE)
    if moved is None:
        return reply("The text changed meanwhile, so nothing was written. I look again.", Call("read", {"path": FILE}))
    number = int(moved[1])
    text = f"The text changed meanwhile, so nothing was written. The line is number {number} now; I try again."
    return reply(text, _edit_call(digest, number))


def _told(step: _Step) -> str:
    number = step.arguments["edits"][0]["start"]
    done = f"Line {number} of `{FILE}` now says `{_MENDED}`."
    if not _is_unsaved(step.result):
        return done
    return (
        f"{done} It is changed in your open buffer, beside what you typed; the file on disk is as it was. "
        "Save it when you like (`:w`), then ask me to run the tests. One `u` takes my change back."
    )


def _finish(turn: _Turn, text: str) -> Reply:
    """The end of the repair; the tests follow when they are wanted and can see it."""
    if turn.wants_tests and not _is_unsaved(turn.steps[-1].result):
        return reply(f"{text} Now the tests.", _test_call())
    return reply(text)


def _verdict(result: str) -> str:
    """The outcome of the tests as it is."""
    ran = re.search(r"^Ran (\d+) tests?", result, re.MULTILINE)
    if ran is None:
        return f"The tests did not run. {_first_line(result)}"
    if result.startswith("exit: 0"):
        return f"All {ran[1]} tests pass. The kettle whistles."
    reasons = re.findall(r"^\w*Error: (.+)$", result, re.MULTILINE)
    failed = f"{len(reasons)} of {ran[1]} tests failed: {'; '.join(reasons)}."
    if _is_unsaved(result):
        return f"{failed} A command sees the disk, and you have unsaved changes: save them (`:w`) and ask me again."
    return f"{failed} Ask me to fix the kettle."


def _edit_call(digest: str, number: int) -> Step:
    edit = {"op": "replace", "start": number, "text": f"    {_MENDED}\n"}
    return Call("edit", {"path": FILE, "hash": digest, "edits": [edit]})


def _test_call() -> Step:
    return Call("bash", {"command": TEST_COMMAND, "timeout_s": 60})


def _field(result: str, name: str) -> str:
    found = re.search(rf"^{name}: (\S+)$", result, re.MULTILINE)
    return found[1] if found else ""


def _line_of(text: str, result: str) -> int | None:
    """The number of the line that is `text`, as numbered lines show it."""
    found = re.search(rf"^ *(\d+)\t *{re.escape(text)}$", result, re.MULTILINE)
    return int(found[1]) if found else None


def _is_unsaved(result: str) -> bool:
    return "not saved yet" in result or "unsaved changes" in result


def _first_line(result: str) -> str:
    return result.partition("\n")[0]
