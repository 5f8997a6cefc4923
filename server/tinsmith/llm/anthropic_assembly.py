"""Events of an Anthropic answer, put together: deltas as they come, one Answer at the end. Pure."""

from collections.abc import Callable
from io import StringIO

import msgspec

from tinsmith.domain.message import Answer, ModelDelta, ToolCall, Usage
from tinsmith.llm import errors
from tinsmith.llm.anthropic_events import Block, BlockDelta, Event, TokenCounts, decode_event
from tinsmith.llm.calls import OpenCall
from tinsmith.llm.draft import Draft
from tinsmith.llm.endpoint import Endpoint

_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


class _OpenBlock:
    """A block whose deltas are still coming."""

    __slots__ = ("call", "has_whole_input", "signature", "thinking")

    def __init__(self) -> None:
        self.call: OpenCall | None = None
        self.has_whole_input = False
        self.thinking = StringIO()
        self.signature = ""


class AnthropicAssembly:
    """An `Assembly`. Blocks come one after the other; what lacks its start or its end is taken as it comes.

    Open blocks are found by index, the last opened one by a delta without any.
    """

    def __init__(self, endpoint: Endpoint, mint: Callable[[], str], origin: str) -> None:
        self._endpoint = endpoint
        self._draft = Draft(mint, origin)
        self._counts = TokenCounts()
        self._open: dict[int | None, _OpenBlock] = {}
        self.finish_reason = ""
        self.is_done = False

    def take(self, payload: bytes, batch: list[ModelDelta]) -> bool:
        """As Assembly."""
        if payload == b"[DONE]":  # not of the format; gateways end every stream like that
            return False
        event = decode_event(payload, self._endpoint.host)
        if event.delta is not None and event.kind == "content_block_delta":
            self._add_delta(event.index, event.delta, batch)
            return True
        self._check(event)
        return self._turn(event, batch)

    def take_whole(self, body: bytes, batch: list[ModelDelta]) -> bool:
        """As Assembly."""
        event = decode_event(body, self._endpoint.host)
        self._check(event)
        if event.content is None:
            return False
        for block in event.content:
            self._start(None, block, batch)
            self._close(None)
        self._count(event.usage)
        self._stop(event.stop_reason)
        self.is_done = True
        return True

    def finish(self) -> Answer:
        """As Assembly."""
        for index in [*self._open]:
            self._close(index)
        self._draft.usage = _usage(self._counts)
        return self._draft.finish(self.finish_reason, self._calls())

    def _check(self, event: Event) -> None:
        if event.kind == "error" or event.error:
            raise errors.from_event(event.error or "an error without a name", self._endpoint)

    def _turn(self, event: Event, batch: list[ModelDelta]) -> bool:
        """An event that is not more of a block."""
        match event.kind:
            case "message_start":
                self._count(event.message.usage if event.message else None)
            case "content_block_start" if event.content_block is not None:
                self._start(event.index, event.content_block, batch)
            case "content_block_stop":
                self._close(event.index)
            case "message_delta":
                self._count(event.usage)
                self._stop(event.delta.stop_reason if event.delta else None)
            case "message_stop":
                self.is_done = True
            case _:  # `ping`, and what may be added to the format
                return False
        return True

    def _start(self, index: int | None, block: Block, batch: list[ModelDelta]) -> None:
        self._close(index)
        opened = self._open[index] = _OpenBlock()
        match block.kind:
            case "text":
                self._draft.say(block.text or "", batch)
            case "thinking":
                self._think(opened, block.thinking or "", batch)
                opened.signature = block.signature or ""
            case "redacted_thinking":
                self._draft.seal(_json({"type": "redacted_thinking", "data": block.data or ""}))
            case "tool_use":
                opened.call = self._draft.open_call(index, block.provider_id or "")
                self._draft.name_call(opened.call, block.name, batch)
                if block.input:  # whole at once, as servers do that are not Anthropic's
                    opened.call.add(_json(block.input))
                    opened.has_whole_input = True
            case _:
                pass

    def _add_delta(self, index: int | None, delta: BlockDelta, batch: list[ModelDelta]) -> None:
        block = self._block(index)
        if delta.text is not None:
            self._draft.say(delta.text, batch)
        elif delta.partial_json is not None:
            if block.call is None:
                block.call = self._draft.open_call(index)
            if block.has_whole_input:  # what comes in pieces all the same comes from its beginning
                block.call.replace("")
                block.has_whole_input = False
            block.call.add(delta.partial_json)
        elif delta.thinking is not None:
            self._think(block, delta.thinking, batch)
        elif delta.signature is not None:
            block.signature = delta.signature

    def _block(self, index: int | None) -> _OpenBlock:
        """The block that a delta belongs to; a new one when its start was left out."""
        if index is None and self._open:
            return self._open[next(reversed(self._open))]
        return self._open.setdefault(index, _OpenBlock())

    def _think(self, block: _OpenBlock, text: str, batch: list[ModelDelta]) -> None:
        block.thinking.write(text)
        self._draft.think(text, batch)

    def _close(self, index: int | None) -> None:
        """A block is whole; thinking goes back to its provider, and only with its signature."""
        block = self._open.pop(index, None)
        if block is not None and block.signature:
            thinking = {"type": "thinking", "thinking": block.thinking.getvalue(), "signature": block.signature}
            self._draft.seal(_json(thinking))

    def _stop(self, reason: str | None) -> None:
        if reason:
            self.finish_reason = _FINISH_REASONS.get(reason, reason)

    def _calls(self) -> list[ToolCall]:
        """Every call. The last one before a limit is not trusted, whole as it may look, and none before a refusal."""
        last = self._draft.calls[-1] if self._draft.calls else None
        has_refused, was_cut = self.finish_reason == "refusal", self.finish_reason == "length"
        return [call.close(was_cut=has_refused or (was_cut and call is last)) for call in self._draft.calls]

    def _count(self, counts: TokenCounts | None) -> None:
        """Later counts replace earlier ones, but a count that is left out, or 0 where there was one, says nothing."""
        if counts is None:
            return
        named = {name: getattr(counts, name) or getattr(self._counts, name) for name in counts.__struct_fields__}
        self._counts = TokenCounts(**named)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _usage(counts: TokenCounts) -> Usage:
    cached = counts.cache_read_input_tokens or 0
    spent = (counts.input_tokens or 0) + (counts.cache_creation_input_tokens or 0) + cached
    made = counts.output_tokens or 0
    details = counts.output_tokens_details
    return Usage(spent, made, spent + made, cached, (details.thinking_tokens if details else None) or 0)
