"""Putting chunks together: which fragment goes to which call, what is cut off, and what flawed chunks still say."""

from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.domain.errors import ProtocolError
from tinsmith.domain.message import Answer, CallDetected, ModelDelta, ReasoningDelta, TextDelta, ToolCall, Usage
from tinsmith.llm.chat_assembly import ChatAssembly
from tinsmith.llm.chat_chunks import decode_chunk
from tinsmith.llm.endpoint import Endpoint


def assemble(*chunks: dict[str, Any] | bytes) -> tuple[list[ModelDelta], Answer]:
    numbers = count(1)
    assembly = ChatAssembly(Endpoint("http://host/v1", "host", "KEY"), lambda: f"call_{next(numbers)}", "")
    deltas: list[ModelDelta] = []
    for chunk in chunks:
        payload = chunk if isinstance(chunk, bytes) else msgspec.json.encode(chunk)
        assembly.take(payload, deltas)
    return deltas, assembly.finish()


def delta(finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish_reason}]}


def fragment(
    index: int | None = None, call_id: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    whole = {
        "index": index,
        "id": call_id,
        "function": {key: value for key, value in function.items() if value is not None},
    }
    return delta(tool_calls=[{key: value for key, value in whole.items() if value is not None}])


def made(*chunks: dict[str, Any]) -> list[tuple[str, str, str, bool]]:
    return [(call.call_id, call.name, call.arguments, call.is_complete) for call in assemble(*chunks)[1].calls]


def test_two_calls_that_share_one_index() -> None:
    assert made(
        fragment(0, "a", "read", '{"path":"x"}'),
        fragment(0, "b", "read", '{"path":"y"}'),
        delta("tool_calls"),
    ) == [("call_1", "read", '{"path":"x"}', True), ("call_2", "read", '{"path":"y"}', True)]


def test_a_new_id_on_every_delta_of_one_index_is_one_call() -> None:
    assert made(
        fragment(0, "a", "read", '{"pa'),
        fragment(0, "b", None, 'th":'),
        fragment(0, "c", "read", '"x"}'),
        delta("tool_calls"),
    ) == [("call_1", "read", '{"path":"x"}', True)]


def test_whole_calls_without_index_or_id() -> None:
    assert made(
        fragment(None, None, "read", {"path": "x"}),
        fragment(None, None, "read", {"path": "y"}),
        fragment(None, None, "bash", '{"command":"ls"}'),
        delta("stop"),
    ) == [
        ("call_1", "read", '{"path":"x"}', True),
        ("call_2", "read", '{"path":"y"}', True),
        ("call_3", "bash", '{"command":"ls"}', True),
    ]


def test_an_id_before_the_name() -> None:
    assert made(fragment(None, "a"), fragment(None, None, "read"), fragment(None, None, None, "{}"), delta("stop")) == [
        ("call_1", "read", "{}", True)
    ]


def test_calls_are_ordered_by_index() -> None:
    assert [name for _, name, _, _ in made(fragment(1, "b", "second", "{}"), fragment(0, "a", "first", "{}"))] == [
        "first",
        "second",
    ]


@pytest.mark.parametrize(
    ("arguments", "finish_reason", "kept", "is_complete"),
    [
        ("", "tool_calls", "{}", True),
        (" \n", "tool_calls", "{}", True),
        ('{"q"', "tool_calls", '{"q"', False),
        ("[1]", "tool_calls", "[1]", False),
        ('{"a":1}', "length", '{"a":1}', False),
        ("", "length", "{}", False),
        ('{"a":1}', "", '{"a":1}', True),
        ([1], "stop", "[1]", False),
    ],
)
def test_whether_a_call_is_complete(arguments: Any, finish_reason: str, kept: str, is_complete) -> None:
    chunks = [fragment(0, "a", "read", arguments), delta(finish_reason)]
    assert made(*chunks) == [("call_1", "read", kept, is_complete)]


@pytest.mark.parametrize(
    ("finish_reason", "are_complete"),
    [("tool_calls", [True] * 4), ("length", [True, False, False, False]), ("content_filter", [False] * 4)],
)
def test_before_a_limit_what_may_be_cut_is_not_complete(finish_reason: str, are_complete: list[bool]) -> None:
    chunks = (
        fragment(0, "a", "read", '{"path":"a"}'),
        fragment(1, "b", "read", '{"path":"b"'),
        fragment(2, "c", "code_map", ""),
        fragment(3, "d", "read", "{}"),
        fragment(1, None, None, "}"),
    )
    assert [complete for *_, complete in made(*chunks, delta(finish_reason))] == are_complete


def test_a_call_without_a_name_is_never_run() -> None:
    assert made(fragment(0, "a", None, "{}"), delta("tool_calls")) == [("call_1", "", "{}", False)]


def test_deltas_come_in_the_order_of_the_chunk() -> None:
    deltas, answer = assemble(
        delta(
            reasoning_content="hm", reasoning="hm", content="Hi", tool_calls=[{"index": 0, "function": {"name": "f"}}]
        ),
        delta("tool_calls"),
    )
    assert deltas == [ReasoningDelta("hm"), TextDelta("Hi"), CallDetected("call_1", "f")]
    assert answer == Answer("Hi", "hm", (ToolCall("call_1", "f", "{}"),), "tool_calls")


def test_usage_with_its_parts() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 12},
    }
    assert assemble({"choices": [], "usage": usage})[1].usage == Usage(100, 20, 120, 64, 12)
    assert assemble({"usage": {"prompt_tokens": 5, "total_tokens": 6, "prompt_cache_hit_tokens": 4}})[1].usage == Usage(
        5, 0, 6, 4
    )


def test_a_whole_message_as_an_event_counts_once() -> None:
    message = {"role": "assistant", "content": "all of it"}
    whole = {"choices": [{"message": message, "finish_reason": "stop"}]}
    assert assemble(whole)[1] == Answer("all of it", finish_reason="stop")
    assert assemble(delta(content="all of it"), whole)[1] == Answer("all of it", finish_reason="stop")


@pytest.mark.parametrize(
    ("flawed", "said"),
    [
        (b'{"choices":[{"index":"0","delta":{"content":"a","reasoning":{"x":1}},"finish_reason":7}]}', "a"),
        (b'{"choices":[{"delta":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]}', "ab"),
        (b'{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":"many","completion_tokens":2.0}}', "a"),
        (b'{"choices":[{"delta":{"content":"a","tool_calls":[7,null]}}],"usage":"none"}', "a"),
        (b'{"choices":[{"delta":{"content":"tab\there"}}]}', "tab\there"),
        (b'{"choices":[{"delta":{"content":"\\ud83d"}}]}', "\ufffd"),
        (b'{"choices":[{"delta":{"content":"\xff"}}]}', "\ufffd"),
        (b'{"choices":null,"object":5}', ""),
        (b'{"choices":[{"delta":{"refusal":"I may not."}}]}', "I may not."),
    ],
)
def test_a_flawed_chunk_says_what_it_can(flawed: bytes, said: str) -> None:
    assert assemble(flawed)[1].text == said


@pytest.mark.parametrize("payload", [b"17", b'"text"', b"{", b"null", b"[]", b"[" * 5000])
def test_what_is_no_object_is_an_error(payload: bytes) -> None:
    with pytest.raises(ProtocolError) as failed:
        decode_chunk(payload, "host")
    assert failed.value.code == "badEvent"


NAMES = st.sampled_from(["read", "edit", "bash"])
ARGUMENTS = st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=10)), max_size=3)


@given(st.lists(st.tuples(NAMES, ARGUMENTS), min_size=1, max_size=4), st.data())
def test_fragments_in_any_order_of_calls_give_the_same_answer(
    wanted: list[tuple[str, dict[str, Any]]], data: st.DataObject
) -> None:
    waiting: list[list[dict[str, Any]]] = []
    for index, (name, arguments) in enumerate(wanted):
        encoded = msgspec.json.encode(arguments).decode()
        size = data.draw(st.integers(1, 5))
        pieces = [encoded[start : start + size] for start in range(0, len(encoded), size)]
        rest = [fragment(index, None, None, piece) for piece in pieces]
        waiting.append([fragment(index, f"id{index}", name), *rest])
    chunks: list[dict[str, Any]] = []
    while any(waiting):
        line = data.draw(st.sampled_from([fragments for fragments in waiting if fragments]))
        chunks.append(line.pop(0))
    calls = assemble(*chunks, delta("tool_calls"))[1].calls
    assert [(call.name, msgspec.json.decode(call.arguments), call.is_complete) for call in calls] == [
        (name, arguments, True) for name, arguments in wanted
    ]
    assert len({call.call_id for call in calls}) == len(wanted)
