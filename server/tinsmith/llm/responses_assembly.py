"""Events of an OpenAI response, put together: deltas as they come, one Answer at the end. Pure."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from tinsmith.domain.errors import AgentError
from tinsmith.domain.message import Answer, ModelDelta, Usage
from tinsmith.llm import errors
from tinsmith.llm.calls import OpenCall
from tinsmith.llm.draft import Draft
from tinsmith.llm.endpoint import Endpoint
from tinsmith.llm.responses_events import (
    Content,
    Event,
    Item,
    Response,
    TokenCounts,
    TokenDetails,
    decode_event,
    decode_response,
)

_TEXT_DELTAS = frozenset({"response.output_text.delta", "response.refusal.delta"})
_REASONING_DELTAS = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})
_ENDS = frozenset({"response.completed", "response.incomplete", "response.done"})
_FAILURES = frozenset({"response.failed", "response.cancelled"})
_INCOMPLETE = {"max_output_tokens": "length", "max_tokens": "length"}


class _OpenItem:
    """An output item whose deltas are still coming."""

    __slots__ = ("after_calls", "after_text", "call", "has_shown")

    def __init__(self, after_text: int, after_calls: int) -> None:
        self.after_text = after_text
        self.after_calls = after_calls
        self.call: OpenCall | None = None
        self.has_shown = False


class ResponsesAssembly:
    """An `Assembly`. Items are found by their index or id; what comes without its start is taken as it comes."""

    def __init__(self, endpoint: Endpoint, mint: Callable[[], str], origin: str) -> None:
        self._endpoint = endpoint
        self._draft = Draft(mint, origin)
        self._items: dict[int | str | None, _OpenItem] = {}
        self._closed_calls: set[str] = set()
        self._has_refused = False
        self.finish_reason = ""
        self.is_done = False

    def take(self, payload: bytes, batch: list[ModelDelta]) -> bool:
        """As Assembly."""
        if payload == b"[DONE]":  # not of the format; gateways end every stream like that
            return False
        event = decode_event(payload, self._endpoint.host)
        kind = event.kind or ""
        if kind in _TEXT_DELTAS:
            self._find(event).has_shown = True
            self._has_refused |= kind == "response.refusal.delta"
            self._draft.say(event.delta or "", batch)
        elif kind in _REASONING_DELTAS:
            self._find(event).has_shown = True
            self._draft.think(event.delta or "", batch)
        elif kind == "response.function_call_arguments.delta":
            self._call(self._find(event)).add(event.delta or "")
        elif kind == "error" or event.error:
            raise self._failure(event.error or {"code": event.code, "message": event.message})
        else:
            return self._turn(kind, event, batch)
        return True

    def take_whole(self, body: bytes, batch: list[ModelDelta]) -> bool:
        """As Assembly."""
        response = decode_response(body, self._endpoint.host)
        if response.error or response.status == "failed":
            raise self._failure(response.error)
        if response.output is None:
            return False
        self._end(response, batch)
        return True

    def finish(self) -> Answer:
        """As Assembly."""
        is_whole = self.finish_reason in {"stop", "tool_calls"}
        trusted = self._closed_calls if self.finish_reason == "length" else frozenset[str]()
        calls = [call.close(was_cut=not is_whole and call.call_id not in trusted) for call in self._draft.calls]
        return self._draft.finish(self.finish_reason, calls)

    def _turn(self, kind: str, event: Event, batch: list[ModelDelta]) -> bool:
        """An event that is not more of an item."""
        if kind in _FAILURES:
            raise self._failure(event.response.error if event.response else None)
        if kind in _ENDS and event.response is not None:
            self._end(event.response, batch)
        elif kind == "response.output_item.added" and event.item is not None:
            self._start(event, event.item, batch)
        elif kind == "response.output_item.done" and event.item is not None:
            self._complete(self._find(event, event.item), event.item, batch)
        elif kind == "response.function_call_arguments.done" and event.arguments is not None:
            self._call(self._find(event)).replace(_text(event.arguments))
        elif kind == "response.reasoning_summary_part.added" and event.summary_index:
            self._draft.think("\n\n", batch)
        return kind.startswith("response.")

    def _start(self, event: Event, item: Item, batch: list[ModelDelta]) -> None:
        opened = self._open(event.output_index, event.item_id or item.item_id)
        if item.kind == "function_call":
            self._draft.name_call(self._call(opened), item.name, batch)

    def _complete(self, opened: _OpenItem, item: Item, batch: list[ModelDelta]) -> None:
        """An item as it is in the end: authoritative, but shown only where nothing of it was."""
        match item.kind:
            case "function_call":
                call = self._call(opened)
                self._draft.name_call(call, item.name, batch)
                if item.arguments:
                    call.replace(_text(item.arguments))
                if item.status != "incomplete":
                    self._closed_calls.add(call.call_id)
            case "message":
                if not opened.has_shown:
                    self._say(item.content, batch)
                if item.phase:
                    place = opened.after_text, opened.after_calls
                    self._draft.seal(_text({"type": "message", "phase": item.phase}), *place)
            case "reasoning":
                if not opened.has_shown:
                    self._draft.think("\n\n".join(_texts(item.summary or item.content)), batch)
                if item.encrypted_content:
                    self._draft.seal(_text(_sealed_reasoning(item)))
            case _:
                pass
        opened.has_shown = True

    def _end(self, response: Response, batch: list[ModelDelta]) -> None:
        """The response as it is in the end; its output counts only where no item of it came before."""
        if self._draft.is_untouched:
            for index, item in enumerate(response.output or ()):
                self._complete(self._find(Event(output_index=index), item), item, batch)
        if response.usage is not None:
            self._draft.usage = _usage(response.usage)
        if response.status == "incomplete" or response.incomplete_details is not None:
            reason = response.incomplete_details.reason if response.incomplete_details else None
            self.finish_reason = _INCOMPLETE.get(reason or "", reason or "incomplete")
        elif self._has_refused:
            self.finish_reason = "refusal"
        else:
            self.finish_reason = "tool_calls" if self._draft.calls else "stop"
        self.is_done = True

    def _find(self, event: Event, item: Item | None = None) -> _OpenItem:
        """The item that an event is about, by index, else by id; a new one when its start was left out."""
        index, item_id = event.output_index, event.item_id or (item.item_id if item else None)
        for key in (index, item_id):
            if key is not None and key in self._items:
                return self._items[key]
        nameless = self._items.get(None) if index is None and item_id is None else None
        return nameless or self._open(index, item_id)

    def _open(self, index: int | None, item_id: str | None) -> _OpenItem:
        """A new item, known by both: some gateways give every item one index, others another id in each event."""
        opened = _OpenItem(self._draft.text_length, len(self._draft.calls))
        known_by = {key for key in (index, item_id) if key is not None} or {None}
        self._items.update(dict.fromkeys(known_by, opened))
        return opened

    def _call(self, opened: _OpenItem) -> OpenCall:
        if opened.call is None:
            opened.call = self._draft.open_call()
        return opened.call

    def _say(self, content: Iterable[Content] | None, batch: list[ModelDelta]) -> None:
        for part in content or ():
            self._has_refused |= bool(part.refusal)
            self._draft.say(part.text or part.refusal or "", batch)

    def _failure(self, error: Any) -> AgentError:
        return errors.from_event(error or "an error without a name", self._endpoint)


def _texts(content: Iterable[Content] | None) -> list[str]:
    return [part.text for part in content or () if part.text]


def _sealed_reasoning(item: Item) -> dict[str, Any]:
    """Reasoning as it goes back: without its id, which names something that was not stored."""
    summary = [{"type": "summary_text", "text": text} for text in _texts(item.summary)]
    return {"type": "reasoning", "summary": summary, "encrypted_content": item.encrypted_content}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _usage(counts: TokenCounts) -> Usage:
    spent, made = counts.input_tokens or 0, counts.output_tokens or 0
    read = counts.input_tokens_details or TokenDetails()
    written = counts.output_tokens_details or TokenDetails()
    total = counts.total_tokens or spent + made
    return Usage(spent, made, total, read.cached_tokens or 0, written.reasoning_tokens or 0)
