"""Recorded answers of every dialect, written after its reference: what they say, and that no cut of their bytes
changes it.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.llm.streams import GOLDEN, assemble, assemble_whole, check_deltas, cut, read, sealed

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
    "anthropic/refusal_after_a_call.sse": Answer(
        "Well, ",
        calls=(ToolCall("call_1", "read", '{"path":"a"}', is_complete=False),),
        finish_reason="refusal",
        usage=Usage(10, 9, 19),
    ),
    "anthropic/refusal.sse": Answer(finish_reason="refusal", usage=Usage(10, 1, 11)),
    "responses/reasoning_and_calls.sse": Answer(
        "I look at both 🚀.",
        "**Reading** two files.\n\nThen 編集.",
        (ToolCall("call_1", "read", '{"path":"a.py"}'), ToolCall("call_2", "code_map", "{}")),
        "tool_calls",
        Usage(1200, 80, 1280, 1024, 64),
        (
            sealed(
                '{"type":"reasoning","summary":[{"type":"summary_text","text":"**Reading** two files."},'
                '{"type":"summary_text","text":"Then 編集."}],"encrypted_content":"gAAAA-whole"}'
            ),
            sealed('{"type":"message","phase":"commentary"}'),
        ),
    ),
    "responses/cut_call.sse": Answer(
        calls=(
            ToolCall("call_1", "read", '{"path":"a"}'),
            ToolCall("call_2", "write", '{"path":"b"', is_complete=False),
        ),
        finish_reason="length",
        usage=Usage(9, 16, 25),
    ),
    "responses/refusal.sse": Answer("I may not do that.", finish_reason="refusal", usage=Usage(9, 6, 15)),
    "responses/gateway.sse": Answer(
        "One.",
        calls=(ToolCall("call_1", "read", '{"path":"x"}'), ToolCall("call_2", "bash", '{"command":"ls"}')),
        finish_reason="tool_calls",
    ),
    "responses/only_the_end.sse": Answer("All of it.", "Hm.", finish_reason="stop", usage=Usage(3, 4, 7)),
    "responses/filtered.sse": Answer(finish_reason="content_filter"),
    "ollama/thinking_and_calls.ndjson": Answer(
        "I look at both 🚀.",
        "Two files. 編",
        (
            ToolCall("call_1", "read", '{"path":"a.py"}'),
            ToolCall("call_2", "read", '{"path":"b.py"}'),
            ToolCall("call_3", "code_map", "{}"),
        ),
        "tool_calls",
        Usage(120, 30, 150),
    ),
    "ollama/text.ndjson": Answer("Hello\n\n    there", finish_reason="length", usage=Usage(10, 5, 15)),
    "ollama/old_server.ndjson": Answer(
        "old server", calls=(ToolCall("call_1", "read", '{"path":"a"}'),), finish_reason="tool_calls"
    ),
    "chat_completions/reasoning_and_calls.sse": Answer(
        "I look at both 🚀.",
        "Two files. 編",
        (ToolCall("call_1", "read", '{"path": "a.py"}'), ToolCall("call_2", "code_map", "{}")),
        "tool_calls",
        Usage(120, 30, 150, 64, 8),
    ),
    "chat_completions/openrouter.sse": Answer(
        "",
        "Two files.",
        (ToolCall("call_1", "read", "{}"),),
        "tool_calls",
        sealed=(
            sealed(
                '{"type":"reasoning.text","text":"Two files.","format":"anthropic-claude-v1","index":0,'
                '"signature":"Eq=="}'
            ),
            sealed('{"type":"reasoning.encrypted","data":"gAAAA","index":1}'),
        ),
    ),
    "chat_completions/gemini.sse": Answer(
        calls=(ToolCall("call_2", "read", '{"path":"a"}'), ToolCall("call_1", "code_map", "{}")),
        finish_reason="stop",
        sealed=(sealed('{"google":{"thought_signature":"sig=="}}', after_calls=1),),
    ),
    "chat_completions/text.sse": Answer("Hello\n\n    there", finish_reason="stop"),
}
FAILURES: dict[str, tuple[str, bool, str]] = {
    "ollama/error.ndjson": ("providerHttp", False, "Well"),
    "chat_completions/error.sse": ("overloaded", True, "Well"),
    "responses/failed.sse": ("providerHttp", True, ""),
    "responses/error.sse": ("rateLimited", True, ""),
    "anthropic/overloaded.sse": ("overloaded", True, "Well"),
}
"""Code, whether it is retryable, and the text that came before."""


WHOLE: dict[str, Answer] = {
    "anthropic/message.json": Answer(
        "I look.",
        "Two files.",
        (ToolCall("call_1", "read", '{"path":"a.py"}'),),
        "tool_calls",
        Usage(12, 20, 32, 7),
        (sealed('{"type":"thinking","thinking":"Two files.","signature":"EqQB"}'),),
    ),
    "ollama/message.json": Answer(
        "I look.", "Hm.", (ToolCall("call_1", "read", '{"path":"a.py"}'),), "tool_calls", Usage(7, 3, 10)
    ),
    "chat_completions/completion.json": Answer(
        "I look.", "Hm.", (ToolCall("call_1", "read", '{"path":"a.py"}'),), "tool_calls", Usage(10, 6, 16)
    ),
    "responses/response.json": Answer(
        "I look.",
        "Hm.",
        (ToolCall("call_1", "read", '{"path":"a.py"}'),),
        "tool_calls",
        Usage(10, 6, 16, 4, 2),
        (sealed('{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"gAAAA"}'),),
    ),
}
"""Answers that were not streamed."""


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_answer(name: str) -> None:
    dialect, body = read(name)
    deltas, answer = assemble_whole(dialect, body)
    assert answer == WHOLE[name]
    check_deltas(deltas, answer)
    assert assemble_whole(dialect, b'{"status":"ok"}') is None


def test_every_recording_is_replayed() -> None:
    recorded = {path.relative_to(GOLDEN).as_posix() for path in GOLDEN.rglob("*.*")}
    assert recorded == STREAMS.keys() | FAILURES.keys() | WHOLE.keys()


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
    before = body[: max(body.rfind(b"event:"), body.rfind(b'{"error"'))]
    deltas, _ = assemble(dialect, [before])
    assert [delta.text for delta in deltas if isinstance(delta, TextDelta)] == ([said] if said else [])
