"""Recorded answers of every dialect, written after its reference: what they say, and that no cut of their bytes
changes it.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.llm.streams import GOLDEN, assemble, check_deltas, cut, read, sealed

from tinsmith.domain.errors import TransportError
from tinsmith.domain.message import Answer, TextDelta, ToolCall, Usage

STREAMS: dict[str, Answer] = {
    "anthropic/thinking_and_calls.sse": Answer(
        "I look at both 🚀.",
        "Two files to read. 編",
        (ToolCall("call_1", "read", '{"path": "a.py"}'), ToolCall("call_2", "code_map", "{}")),
        "tool_calls",
        Usage(2312, 89, 2401, 2000, 31),
        (
            sealed('{"type":"thinking","thinking":"Two files to read. 編","signature":"EqQBCgIYAhIM=="}'),
            sealed('{"type":"redacted_thinking","data":"EmwKAhgBEgy3"}'),
        ),
    ),
    "anthropic/text.sse": Answer("Hello\n\n    there", finish_reason="stop", usage=Usage(10, 5, 15)),
    "anthropic/cut_call.sse": Answer(
        calls=(
            ToolCall("call_1", "read", '{"path":"a"}'),
            ToolCall("call_2", "write", '{"path":"b","content":"half', is_complete=False),
        ),
        finish_reason="length",
        usage=Usage(10, 64, 74),
    ),
    "anthropic/gateway.sse": Answer(
        "One.",
        "Hm.",
        (ToolCall("call_1", "read", '{"path":"x"}'), ToolCall("call_2", "bash", '{"command":"ls"}')),
        "tool_calls",
        Usage(70, 9, 79, 20),
    ),
    "anthropic/refusal.sse": Answer(finish_reason="refusal", usage=Usage(10, 1, 11)),
}
FAILURES: dict[str, tuple[str, bool, str]] = {
    "anthropic/overloaded.sse": ("overloaded", True, "Well"),
}
"""Code, whether it is retryable, and the text that came before."""


def test_every_recording_is_replayed() -> None:
    recorded = {path.relative_to(GOLDEN).as_posix() for path in GOLDEN.rglob("*") if path.suffix in {".sse", ".ndjson"}}
    assert recorded == STREAMS.keys() | FAILURES.keys()


@pytest.mark.parametrize("name", STREAMS)
def test_a_recording(name: str) -> None:
    dialect, body = read(name)
    deltas, answer = assemble(dialect, [body])
    assert answer == STREAMS[name]
    check_deltas(deltas, answer)
    assert assemble(dialect, cut(body, range(1, len(body)))) == (deltas, answer)


@pytest.mark.parametrize("name", STREAMS)
@given(data=st.data())
def test_every_split_gives_the_same_deltas(name: str, data: st.DataObject) -> None:
    dialect, body = read(name)
    places = data.draw(st.lists(st.integers(0, len(body)), max_size=12).map(sorted))
    assert assemble(dialect, cut(body, places)) == assemble(dialect, [body])


@pytest.mark.parametrize("name", FAILURES)
def test_a_recorded_failure(name: str) -> None:
    dialect, body = read(name)
    code, is_retryable, said = FAILURES[name]
    for chunks in ([body], cut(body, range(1, len(body)))):
        with pytest.raises(TransportError) as failed:
            assemble(dialect, chunks)
        assert (failed.value.code, failed.value.retryable) == (code, is_retryable)
    before, _, _ = body.partition(b"event: error")
    deltas, _ = assemble(dialect, [before])
    assert [delta.text for delta in deltas if isinstance(delta, TextDelta)] == ([said] if said else [])
