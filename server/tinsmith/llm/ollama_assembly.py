"""Lines of an Ollama answer, put together: deltas as they come, one Answer at the end. Pure.

Source of the format: Ollama's API reference, "Generate a chat completion".
"""

from collections.abc import Callable
from typing import Any

import msgspec

from tinsmith.domain.message import Answer, ModelDelta, Usage
from tinsmith.llm import errors
from tinsmith.llm.decode import decode
from tinsmith.llm.draft import Draft
from tinsmith.llm.endpoint import Endpoint

TITLE = "Ollama chat"


class _Function(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: Any = None


class _Call(msgspec.Struct, frozen=True):
    function: _Function | None = None


class _Message(msgspec.Struct, frozen=True):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_Call] | None = None


class _Line(msgspec.Struct, frozen=True):
    message: _Message | None = None
    done: bool | None = None
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: Any = None


_DECODER = msgspec.json.Decoder(_Line)


class OllamaAssembly:
    """An `Assembly`. Calls come whole, each once."""

    def __init__(self, endpoint: Endpoint, mint: Callable[[], str], origin: str) -> None:
        self._endpoint = endpoint
        self._draft = Draft(mint, origin)
        self.finish_reason = ""
        self.is_done = False

    def take(self, payload: bytes, batch: list[ModelDelta]) -> bool:
        """As Assembly."""
        line = decode(payload, _DECODER, self._endpoint.host, TITLE)
        if line.error:
            raise errors.from_event(line.error, self._endpoint)
        if line.message is not None:
            self._draft.think(line.message.thinking or "", batch)
            self._draft.say(line.message.content or "", batch)
            for call in line.message.tool_calls or ():
                self._add(call.function or _Function(), batch)
        if line.done:
            self._end(line)
        return line.message is not None or bool(line.done)

    def take_whole(self, body: bytes, batch: list[ModelDelta]) -> bool:
        """As Assembly: an answer that is not streamed is one line, the last."""
        return self.take(body, batch) and self.is_done

    def finish(self) -> Answer:
        """As Assembly."""
        return self._draft.finish(self.finish_reason, [call.close(was_cut=False) for call in self._draft.calls])

    def _add(self, function: _Function, batch: list[ModelDelta]) -> None:
        call = self._draft.open_call()
        self._draft.name_call(call, function.name, batch)
        arguments = function.arguments
        if arguments is not None:
            call.add(arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode())

    def _end(self, line: _Line) -> None:
        reason = line.done_reason or "stop"
        self.finish_reason = "tool_calls" if reason == "stop" and self._draft.calls else reason
        spent, made = line.prompt_eval_count or 0, line.eval_count or 0
        self._draft.usage = Usage(spent, made, spent + made)
        self.is_done = True
