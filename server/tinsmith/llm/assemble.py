"""Chunks of a Chat Completions answer, put together: deltas as they come, one Answer at the end. Pure."""

from collections.abc import Callable
from typing import Any

import msgspec

from tinsmith.domain.message import Answer, CallDetected, ModelDelta, ReasoningDelta, TextDelta, ToolCall, Usage
from tinsmith.llm.chat_chunks import CallFragment, Chunk, Delta, TokenCounts, TokenDetails

_CUT_OFF = frozenset({"length", "content_filter"})


class _OpenCall:
    """A call whose fragments are still coming. `call_id` is ours; `index` and `provider_id` only route fragments."""

    __slots__ = ("call_id", "index", "name", "pieces", "provider_id")

    def __init__(self, call_id: str, index: int | None) -> None:
        self.call_id = call_id
        self.index = index
        self.provider_id = ""
        self.name = ""
        self.pieces: list[str] = []

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


class Assembly:
    """The state of one answer. `mint` makes the id of each call."""

    def __init__(self, mint: Callable[[], str]) -> None:
        self._mint = mint
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_OpenCall] = []
        self._usage = Usage()
        self.finish_reason = ""

    def add(self, chunk: Chunk, batch: list[ModelDelta]) -> bool:
        """Take a chunk in and append what it shows to `batch`. False when it was only a sign of life."""
        if chunk.usage is not None:
            self._usage = _usage(chunk.usage)
        if not chunk.choices:
            return chunk.usage is not None
        choice = chunk.choices[0]
        if choice.finish_reason:
            self.finish_reason = choice.finish_reason
        if choice.delta is not None:
            self._add_delta(choice.delta, batch)
        elif choice.message is not None and self._is_untouched:
            self._add_delta(choice.message, batch)
        return True

    def finish(self) -> Answer:
        """The whole answer."""
        calls = self._calls
        if all(call.index is not None for call in calls):
            calls = sorted(calls, key=lambda call: call.index or 0)
        was_cut = self.finish_reason in _CUT_OFF
        return Answer(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            calls=tuple(_close(call, was_cut=was_cut) for call in calls),
            finish_reason=self.finish_reason,
            usage=self._usage,
        )

    @property
    def _is_untouched(self) -> bool:
        return not (self._text or self._reasoning or self._calls)

    def _add_delta(self, delta: Delta, batch: list[ModelDelta]) -> None:
        if reasoning := delta.reasoning_content or delta.reasoning:
            self._reasoning.append(reasoning)
            batch.append(ReasoningDelta(reasoning))
        if text := _text(delta):
            self._text.append(text)
            batch.append(TextDelta(text))
        for fragment in delta.tool_calls or ():
            self._add_fragment(fragment, batch)

    def _add_fragment(self, fragment: CallFragment, batch: list[ModelDelta]) -> None:
        function = fragment.function
        name = (function.name if function else None) or ""
        call = self._route(fragment.index, fragment.provider_id or "", name)
        if fragment.provider_id and not call.provider_id:
            call.provider_id = fragment.provider_id
        if name and not call.name:
            call.name = name
            batch.append(CallDetected(call.call_id, name))
        arguments: Any = function.arguments if function else None
        if isinstance(arguments, str):
            call.pieces.append(arguments)
        elif arguments is not None:
            call.pieces = [msgspec.json.encode(arguments).decode()]

    def _route(self, index: int | None, provider_id: str, name: str) -> _OpenCall:
        """The call a fragment belongs to: by index, else by id, else the one started last; a new one when none fits.

        Servers that give every call the same index, or none at all, are told apart by a
        new id or name after arguments that are already whole.
        """
        known = self._find(index, provider_id)
        if known is not None:
            is_other = bool(name and provider_id and provider_id != known.provider_id)
            if not (is_other and _is_object(known.arguments)):
                return known
        elif index is None and self._calls:
            last = self._calls[-1]
            is_other = bool(provider_id or (last.name and name != last.name) or _is_object(last.arguments))
            if not (name and is_other):
                return last
        call = _OpenCall(self._mint(), index)
        self._calls.append(call)
        return call

    def _find(self, index: int | None, provider_id: str) -> _OpenCall | None:
        for call in reversed(self._calls):
            if index is not None:
                if call.index == index:
                    return call
            elif provider_id and call.provider_id == provider_id:
                return call
        return None


def _close(call: _OpenCall, *, was_cut: bool) -> ToolCall:
    arguments = call.arguments
    if not arguments.strip():
        arguments = "{}"
    is_complete = bool(call.name) and not was_cut and _is_object(arguments)
    return ToolCall(call.call_id, call.name, arguments, is_complete)


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False


def _text(delta: Delta) -> str:
    content = delta.content
    if isinstance(content, list):
        content = "".join(part.text or "" for part in content)
    return content or delta.refusal or ""


def _usage(counts: TokenCounts) -> Usage:
    prompt = counts.prompt_tokens_details or TokenDetails()
    completion = counts.completion_tokens_details or TokenDetails()
    spent, made = counts.prompt_tokens or 0, counts.completion_tokens or 0
    return Usage(
        input=spent,
        output=made,
        total=counts.total_tokens or spent + made,
        cached=prompt.cached_tokens or counts.prompt_cache_hit_tokens or 0,
        reasoning=completion.reasoning_tokens or 0,
    )
