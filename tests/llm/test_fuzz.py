"""Streams that are cut, out of order, doubled, not UTF-8, deep, endless: they end in an answer or in words."""

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm.conftest import collect, make
from tests.llm.streams import ENDPOINT, ORIGIN, assemble, check_deltas, read
from tests.llm.test_golden import STREAMS

from tinsmith.demo.server import LoopbackServer, RawAnswer
from tinsmith.domain.errors import AgentError, ProtocolError
from tinsmith.domain.message import Answer, ModelDelta
from tinsmith.domain.settings import DialectName, LlmSettings
from tinsmith.llm.decode import is_object
from tinsmith.llm.dialects import DIALECTS

NAMES = st.sampled_from(sorted(STREAMS))
KNOWN: dict[str, list[str]] = {
    "chat_completions": ["choices", "delta", "tool_calls", "index", "function", "arguments", "usage", "finish_reason"],
    "responses": [
        "type",
        "response",
        "item",
        "output_index",
        "item_id",
        "delta",
        "summary_index",
        "arguments",
        "usage",
    ],
    "anthropic": ["type", "index", "delta", "content_block", "message", "usage", "stop_reason", "partial_json"],
    "ollama": ["message", "tool_calls", "done", "function", "arguments", "done_reason", "prompt_eval_count"],
}
KINDS = [
    *("message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta"),
    *("response.output_item.added", "response.output_item.done", "response.output_text.delta", "response.completed"),
    *("response.function_call_arguments.delta", "function_call", "tool_use", "text", "thinking", "reasoning"),
]
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-1, 3), st.sampled_from([*KINDS, "", "x", "{", '{"a":1}']))


def values(dialect: DialectName) -> st.SearchStrategy[Any]:
    keys = st.sampled_from(KNOWN[dialect])
    return st.recursive(
        LEAVES,
        lambda below: st.one_of(st.lists(below, max_size=2), st.dictionaries(keys, below, max_size=4)),
        max_leaves=8,
    )


def ended(dialect: DialectName, chunks: list[bytes]) -> Answer | None:
    """The answer, None when it ended in words; nothing else may happen. What is whole may run, what is not may not."""
    try:
        deltas, answer = assemble(dialect, chunks)
    except AgentError:
        return None
    check_deltas(deltas, answer)
    for call in answer.calls:
        assert call.call_id
        assert not call.is_complete or (call.name and is_object(call.arguments))
    return answer


def events(body: bytes, name: str) -> list[bytes]:
    separator = b"\n" if name.endswith(".ndjson") else b"\n\n"
    return [event + separator for event in body.split(separator) if event]


@given(NAMES, st.data())
def test_a_stream_that_is_cut(name: str, data: st.DataObject) -> None:
    dialect, body = read(name)
    end = data.draw(st.integers(0, len(body)))
    answer = ended(dialect, [body[:end]])
    if answer is not None and not answer.finish_reason:  # the reader calls that interrupted
        whole = STREAMS[name]
        assert whole.text.startswith(answer.text)
        assert len(answer.calls) <= len(whole.calls)


@given(NAMES, st.data())
def test_events_out_of_order_left_out_and_doubled(name: str, data: st.DataObject) -> None:
    dialect, body = read(name)
    whole = events(body, name)
    ended(dialect, data.draw(st.lists(st.sampled_from(whole), max_size=2 * len(whole))))


@given(NAMES, st.data())
def test_bytes_that_are_changed(name: str, data: st.DataObject) -> None:
    dialect, body = read(name)
    changed = bytearray(body)
    for place in data.draw(st.lists(st.integers(0, len(body) - 1), max_size=8)):
        changed[place] = data.draw(st.integers(0, 255))
    ended(dialect, [bytes(changed)])


@given(st.sampled_from(list(DIALECTS)), st.data())
def test_events_of_any_shape(dialect: DialectName, data: st.DataObject) -> None:
    shapes = data.draw(
        st.lists(st.dictionaries(st.sampled_from(KNOWN[dialect]), values(dialect), max_size=4), max_size=6)
    )
    frame = b"%b\n" if dialect == "ollama" else b"data: %b\n\n"
    ended(dialect, [frame % json.dumps(shape).encode() for shape in shapes])


@given(st.sampled_from(list(DIALECTS)), st.data())
def test_whole_answers_of_any_shape(dialect: DialectName, data: st.DataObject) -> None:
    shape = data.draw(values(dialect))
    assembly = DIALECTS[dialect].assembly(ENDPOINT, lambda: "call", ORIGIN)
    deltas: list[ModelDelta] = []
    try:
        is_answer = assembly.take_whole(json.dumps(shape).encode(), deltas)
    except AgentError:
        return
    if is_answer:
        check_deltas(deltas, assembly.finish())


DEEP = b"[" * 100_000
DEEP_EVENTS = {
    "chat_completions": b'{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":%b' % DEEP,
    "responses": b'{"type":"response.output_item.done","item":{"type":"function_call","arguments":%b' % DEEP,
    "anthropic": b'{"type":"content_block_start","content_block":{"type":"tool_use","input":%b' % DEEP,
    "ollama": b'{"message":{"tool_calls":[{"function":{"arguments":%b' % DEEP,
}
CLOSED = {name: body + b"]" * 100_000 + b"}" * 8 for name, body in DEEP_EVENTS.items()}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("depths", [DEEP_EVENTS, CLOSED])
def test_json_that_is_too_deep(dialect: DialectName, depths: dict[str, bytes]) -> None:
    frame = b"%b\n" if dialect == "ollama" else b"data: %b\n\n"
    with pytest.raises(ProtocolError) as failed:
        assemble(dialect, [frame % depths[dialect]])
    assert failed.value.code == "badEvent"
    assert len(failed.value.message) < 500


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_event_without_end(dialect: DialectName) -> None:
    chunk = b'data: {"' + b"x" * 1_000_000
    with pytest.raises(ProtocolError) as failed:
        assemble(dialect, [chunk.replace(b"data: ", b"") if dialect == "ollama" else chunk] + [b"x" * 1_000_000] * 40)
    assert failed.value.code == "eventTooLarge"


@settings(max_examples=15)
@given(name=NAMES, data=st.data())
def test_any_delivery_over_a_socket_ends(name: str, data: st.DataObject) -> None:
    """Re-chunked and cut at random, over a real connection: an answer, or words, and soon."""
    dialect, body = read(name)
    places = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=20)))
    pieces = [body[start:end] for start, end in pairwise([0, *places, len(body)]) if start < end]
    kept = data.draw(st.integers(0, len(pieces)))
    answer = RawAnswer(tuple(pieces[:kept]), content_type=DIALECTS[dialect].media_type, is_cut=data.draw(st.booleans()))
    whole = kept == len(pieces)

    async def run() -> None:
        async with asyncio.timeout(5), LoopbackServer(answer) as server:
            client, model, request = make()
            try:
                deltas = await collect(model, request, LlmSettings(base_url=server.base_url, dialect=dialect))
                assert isinstance(deltas[-1], Answer)
                assert deltas[-1].calls == STREAMS[name].calls
            except AgentError as error:
                assert not whole or error.code in {"refused", "streamInterrupted"}  # noqa: PT017  either may come
            finally:
                await client.aclose()

    asyncio.run(run())
