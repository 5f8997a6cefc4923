"""One turn from the command line: a person's view of it, or every event as a line of JSON."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec

from tinsmith.adapters.lsp.convert import wire_event
from tinsmith.domain.cancel import CancelToken
from tinsmith.domain.errors import AgentError
from tinsmith.domain.event import (
    AnswerReceived,
    CallCancelled,
    CallFinished,
    CallStarted,
    Event,
    Notice,
    RetryScheduled,
    TextStreamed,
    TurnCompleted,
    TurnFailed,
)
from tinsmith.domain.ids import new_id
from tinsmith.domain.message import TextPart
from tinsmith.domain.ports import NoDocuments, NoPrompter
from tinsmith.runtime import open_runtime
from tinsmith.services.turns import TurnStart

EXIT_CODES = {"completed": 0, "error": 1, "interrupted": 1, "budget_exhausted": 3, "cancelled": 130}
USAGE_ERROR = 2
_USAGE_CODES = frozenset(
    {"invalidParams", "unknownSetting", "invalidSetting", "settingNotOverridable", "conversationNotFound"}
)


def run_turn(text: str, *, workspace: str, overrides: dict[str, Any], conversation_id: str, is_json: bool) -> int:
    """Run the turn to its end; 0 completed, 1 error, 2 usage, 3 budget exhausted, 130 cancelled."""
    workspace = os.path.abspath(workspace)
    if not os.path.isdir(workspace):
        sys.stderr.write(f"tinsmith run: there is no directory {workspace}.\n")
        return USAGE_ERROR
    try:
        return asyncio.run(_run(text, workspace, overrides, conversation_id, is_json=is_json))
    except KeyboardInterrupt:  # before the turn could be asked to stop
        return EXIT_CODES["cancelled"]


async def _run(text: str, workspace: str, overrides: dict[str, Any], conversation_id: str, *, is_json: bool) -> int:
    stop = CancelToken()
    _cancel_on_interrupt(stop)
    output = _Output(stop)
    try:
        async with open_runtime(overrides=overrides, documents=NoDocuments(), prompter=NoPrompter()) as runtime:
            for problem in runtime.settings.effective.problems:
                sys.stderr.write(f"tinsmith: {problem.text}\n")
            if not conversation_id:
                conversation_id = (await runtime.conversations.new(workspace)).conversation_id
            epoch, turn_id = runtime.journal.epoch, new_id("t")
            runtime.journal.subscribe(_json_lines(epoch, output) if is_json else _Narrator(output).tell)
            stop.on_cancel(lambda: runtime.turns.cancel(conversation_id, turn_id, ""))
            await runtime.turns.accept(TurnStart(workspace, (TextPart(text),), conversation_id, turn_id))
            runtime.turns.begin(turn_id)
            record = await runtime.turns.wait(turn_id, None)
    except AgentError as error:
        sys.stderr.write(f"tinsmith run: {error.message}\n")
        return USAGE_ERROR if error.code in _USAGE_CODES else 1
    return EXIT_CODES["cancelled" if output.is_closed else record.outcome or "error"]


def _cancel_on_interrupt(stop: CancelToken) -> None:
    """Ctrl-C asks the turn to stop; a second one does not wait, not even for a reader that holds up our output."""
    loop = asyncio.get_running_loop()
    pressed = 0

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal pressed
        pressed += 1
        if pressed > 1:
            os._exit(EXIT_CODES["cancelled"])
        loop.call_soon_threadsafe(stop.cancel)

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, interrupt)


class _Output:
    """Standard output; when nothing can be written to it any more, the turn is asked to stop."""

    def __init__(self, stop: CancelToken) -> None:
        self.is_closed = False
        self._stop = stop

    def write(self, text: bytes) -> None:
        """Write all of it now."""
        if self.is_closed:
            return
        try:
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
        except OSError as error:
            self.is_closed = True
            if not isinstance(error, BrokenPipeError):  # a reader that has enough is no failure
                sys.stderr.write(f"tinsmith run: the output cannot be written ({error.strerror}).\n")
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is buffered has to go somewhere at the end
            self._stop.cancel()


def _json_lines(epoch: str, output: _Output) -> Callable[[Event], None]:
    encode = msgspec.json.Encoder().encode

    def write(event: Event) -> None:
        message = wire_event(event, epoch)
        is_about_turn = event.turn_id != ""
        if message is not None and is_about_turn:
            output.write(encode(message) + b"\n")

    return write


class _Narrator:
    """What a person reads: the answer's text as it comes, a line per call, the end when it was not a good one."""

    def __init__(self, output: _Output) -> None:
        self._output = output
        self._is_at_line_start = True
        self._has_terminal = sys.stderr.isatty()

    def tell(self, event: Event) -> None:
        """Write what the event means to a person."""
        match event.body:
            case TextStreamed(_, _, text):
                self._write(text)
            case AnswerReceived():
                self._end_line()
            case CallStarted(call):
                self._progress(f"… {call.title}")
            case CallFinished(call, _, message) | CallCancelled(call, _, message):
                self._progress("")
                first = message.content.partition("\n")[0]
                mark = "✓" if call.status == "completed" else "✗"
                why = "" if call.status == "completed" else f": {first[:200]}"
                self._write(f"{mark} {call.title}{why}\n")
            case RetryScheduled(_, reason, delay_ms):
                self._write(f"… {reason} Trying again in {delay_ms / 1000:.1f} s.\n")
            case Notice(_, _, message):
                self._write(f"{message}\n")
            case TurnCompleted(record) | TurnFailed(record):
                self._end_line()
                if record.error is not None:
                    sys.stderr.write(f"tinsmith run: {record.error.message}\n")
                elif record.outcome == "cancelled" and not self._output.is_closed:
                    sys.stderr.write("tinsmith run: cancelled.\n")
            case _:
                return

    def _write(self, text: str) -> None:
        self._output.write(text.encode(errors="replace"))
        self._is_at_line_start = text.endswith("\n")

    def _end_line(self) -> None:
        if not self._is_at_line_start:
            self._write("\n")

    def _progress(self, text: str) -> None:
        if self._has_terminal:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
