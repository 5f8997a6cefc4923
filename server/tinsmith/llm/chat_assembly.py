"""Chunks of a Chat Completions answer, put together: deltas as they come, one Answer at the end. Pure."""

from collections.abc import Callable
from typing import Any

import msgspec

from tinsmith.domain.message import Answer, ModelDelta, ToolCall, Usage
from tinsmith.llm import errors
from tinsmith.llm.calls import OpenCall
from tinsmith.llm.chat_chunks import CallFragment, Chunk, Delta, TokenCounts, TokenDetails, decode_chunk
from tinsmith.llm.decode import is_object
from tinsmith.llm.draft import Draft
from tinsmith.llm.endpoint import Endpoint
from tinsmith.llm.reasoning_details import ReasoningDetails


class ChatAssembly:
    """An `Assembly`."""

    def __init__(self, endpoint: Endpoint, mint: Callable[[], str], origin: str) -> None:
        self._endpoint = endpoint
        self._draft = Draft(mint, origin)
        self._details = ReasoningDetails()
        self._latest: OpenCall | None = None
        self._extras: dict[str, Any] = {}  # by the id of the call
        self.finish_reason = ""
        self.is_done = False

    def take(self, payload: bytes, batch: list[ModelDelta]) -> bool:
        """As Assembly."""
        if payload == b"[DONE]":
            self.is_done = True
            return True
        chunk = decode_chunk(payload, self._endpoint.host)
        if chunk.failure is not None:
            raise errors.from_event(chunk.failure, self._endpoint)
        return self._add(chunk, batch)

    def take_whole(self, body: bytes, batch: list[ModelDelta]) -> bool:
        """As Assembly: a completion has the shape of a chunk."""
        return self.take(body, batch)

    def finish(self) -> Answer:
        """As Assembly."""
        calls = self._draft.calls
        if all(call.index is not None for call in calls):
            calls = sorted(calls, key=lambda call: call.index or 0)
        for body in self._details.bodies():
            self._draft.seal(body, 0, 0)
        for place, call in enumerate(calls, start=1):
            if call.call_id in self._extras:
                self._draft.seal(msgspec.json.encode(self._extras[call.call_id]).decode(), after_calls=place)
        return self._draft.finish(self.finish_reason, (self._close(call) for call in calls))

    def _close(self, call: OpenCall) -> ToolCall:
        """No call is trusted before a filter, and none before a limit that may have cut it, whole as it may look."""
        may_be_cut = call is self._latest or call is self._draft.calls[-1] or not call.arguments.strip()
        was_cut = self.finish_reason == "content_filter" or (self.finish_reason == "length" and may_be_cut)
        return call.close(was_cut=was_cut)

    def _add(self, chunk: Chunk, batch: list[ModelDelta]) -> bool:
        if chunk.usage is not None:
            self._draft.usage = _usage(chunk.usage)
        if not chunk.choices:
            return chunk.usage is not None
        choice = chunk.choices[0]
        if choice.finish_reason:
            self.finish_reason = choice.finish_reason
        if choice.delta is not None:
            self._add_delta(choice.delta, batch)
        elif choice.message is not None and self._draft.is_untouched:
            self._add_delta(choice.message, batch)
        return True

    def _add_delta(self, delta: Delta, batch: list[ModelDelta]) -> None:
        draft = self._draft
        detailed = self._details.add(delta.reasoning_details) if delta.reasoning_details else ""
        if reasoning := delta.reasoning_content or delta.reasoning or detailed:
            draft.think(reasoning, batch)
        if text := _text(delta):
            draft.say(text, batch)
        for fragment in delta.tool_calls or ():
            self._add_fragment(fragment, batch)

    def _add_fragment(self, fragment: CallFragment, batch: list[ModelDelta]) -> None:
        function = fragment.function
        name = (function.name if function else None) or ""
        call = self._latest = self._route(fragment.index, fragment.provider_id or "", name)
        if fragment.provider_id and not call.provider_id:
            call.provider_id = fragment.provider_id
        self._draft.name_call(call, name, batch)
        if fragment.extra_content:
            self._extras[call.call_id] = fragment.extra_content
        arguments: Any = function.arguments if function else None
        if isinstance(arguments, str):
            call.add(arguments)
        elif arguments is not None:
            call.replace(msgspec.json.encode(arguments).decode())

    def _route(self, index: int | None, provider_id: str, name: str) -> OpenCall:
        """The call a fragment belongs to: by index, else by id, else the one started last; a new one when none fits.

        Servers that give every call the same index, or none at all, are told apart by a
        new id or name after arguments that are already whole.
        """
        calls = self._draft.calls
        known = self._find(index, provider_id)
        if known is not None:
            is_other = bool(name and provider_id and provider_id != known.provider_id)
            if not (is_other and is_object(known.arguments)):
                return known
        elif index is None and calls:
            last = calls[-1]
            if not (name and (provider_id or (last.name and name != last.name) or is_object(last.arguments))):
                return last
        return self._draft.open_call(index)

    def _find(self, index: int | None, provider_id: str) -> OpenCall | None:
        for call in reversed(self._draft.calls):
            if index is not None:
                if call.index == index:
                    return call
            elif provider_id and call.provider_id == provider_id:
                return call
        return None


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
