"""Answers as they were seen in the field, over a real socket: whole, byte by byte, and cut where it matters."""

from itertools import pairwise
from pathlib import Path

import pytest

from tinsmith.demo.server import RawAnswer
from tinsmith.domain.errors import ProtocolError, TransportError
from tinsmith.domain.message import Answer, CallDetected, ReasoningDelta, TextDelta, ToolCall, Usage

CASES = Path(__file__).parent.parent / "cases"


def calls(*named: tuple[str, str], finish_reason: str = "tool_calls") -> Answer:
    made = tuple(ToolCall(f"call_{number}", *call) for number, call in enumerate(named, start=1))
    return Answer(calls=made, finish_reason=finish_reason)


def text(said: str, reasoning: str = "", usage: Usage = Usage()) -> Answer:
    return Answer(text=said, reasoning=reasoning, finish_reason="stop", usage=usage)


ANSWERS = {
    "LLM-01/stream.sse": calls(("read", '{"path":"a.py"}'), ("grep", '{"pattern":"x"}')),
    "LLM-04/stream.sse": calls(("read", '{"path":"x"}'), ("bash", '{"command":"ls"}')),
    "LLM-05/stream.sse": calls(("edit", '{"path":"a","line":3}')),
    "LLM-07/stream.sse": calls(("read", '{"path":"z"}')),
    "LLM-09/stream.sse": calls(("grep", '{"pattern":"a"}')),
    "LLM-10/stream.sse": calls(("read", '{"path":"q.c"}')),
    "LLM-11/stream.sse": calls(("read", '{"path":"m.rs","limit":5}')),
    "LLM-12/stream.sse": calls(("git_status", "{}")),
    "LLM-14/stream.sse": calls(("bash", '{"command":"true"}'), finish_reason="stop"),
    "LLM-16/stream.sse": text("ok", usage=Usage(11, 7, 18)),
    "LLM-22/stream.sse": text("naïve 編集 🚀 ok"),
    "LLM-23/stream.sse": text("a\u2028b\u2029c\u0085d\x0be\x0cf"),
    "LLM-25/stream.sse": text("alive"),
    "LLM-26/stream.sse": text("nospace"),
    "LLM-27/stream.sse": text("xy"),
    "LLM-29/completion.json": text("plain", usage=Usage(11, 7, 18)),
    "LLM-30/reasoning.sse": text("B", "think A"),
    "LLM-30/reasoning_content.sse": text("B", "think A"),
    "LLM-32/stream.sse": text("The 6 errors:\n\n    x = 1\n"),
}


def served(name: str, *cuts: int) -> RawAnswer:
    body = (CASES / name).read_bytes()
    edges = [0, *cuts, len(body)]
    kind = "application/json" if name.endswith(".json") else "text/event-stream"
    return RawAnswer(tuple(body[start:end] for start, end in pairwise(edges)), content_type=kind)


def every_byte(name: str) -> RawAnswer:
    return served(name, *range(1, (CASES / name).stat().st_size))


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("delivery", [served, every_byte], ids=["whole", "byte-by-byte"])
async def test_answer(ask, name, delivery) -> None:
    *deltas, answer = await ask(delivery(name))
    assert answer == ANSWERS[name]
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == answer.text
    assert "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta)) == answer.reasoning
    detected = [(delta.call_id, delta.name) for delta in deltas if isinstance(delta, CallDetected)]
    assert detected == [(call.call_id, call.name) for call in answer.calls]


async def test_llm_22_cut_inside_characters(ask) -> None:
    assert (await ask(served("LLM-22/stream.sse", 319, 486)))[-1] == ANSWERS["LLM-22/stream.sse"]


async def test_llm_32_deltas_are_kept_as_they_are(ask) -> None:
    deltas = await ask(served("LLM-32/stream.sse"))
    assert deltas[:-1] == [TextDelta(said) for said in ("The", " ", "6", " errors:", "\n\n", "    ", "x = 1", "\n")]


@pytest.mark.parametrize("delivery", [served, every_byte], ids=["whole", "byte-by-byte"])
async def test_llm_17_error_inside_a_stream(ask, delivery) -> None:
    with pytest.raises(TransportError) as failed:
        await ask(delivery("LLM-17/stream.sse"))
    assert "quota used up for today" in failed.value.message
    assert (failed.value.code, failed.value.retryable) == ("rateLimited", False)


@pytest.mark.parametrize("delivery", [served, every_byte], ids=["whole", "byte-by-byte"])
@pytest.mark.parametrize("is_cut", [False, True])
async def test_llm_19_stream_ends_inside_a_call(ask, delivery, is_cut) -> None:
    whole = delivery("LLM-19/stream.sse")
    with pytest.raises(TransportError) as failed:
        await ask(RawAnswer(whole.body, is_cut=is_cut))
    assert (failed.value.code, failed.value.retryable) == ("streamInterrupted", True)


async def test_llm_27_other_payloads_that_are_not_json_are_an_error(ask) -> None:
    with pytest.raises(ProtocolError) as failed:
        await ask(RawAnswer((b"data: still working\n\ndata: [DONE]\n\n",)))
    assert failed.value.code == "badEvent"
    assert "still working" in failed.value.message


@pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", "text/plain", ""])
async def test_llm_29_login_page(ask, content_type) -> None:
    page = (CASES / "LLM-29/login.html").read_bytes()
    with pytest.raises(ProtocolError) as failed:
        await ask(RawAnswer((page,), content_type=content_type))
    assert failed.value.code == "unexpectedBody"
    assert failed.value.data == {"status": 200, "contentType": content_type}
    for shown in ("200", content_type, "<title>Sign in</title>", "llm_config.base_url"):
        assert shown in failed.value.message
