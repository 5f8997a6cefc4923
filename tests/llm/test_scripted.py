"""The scripted model, its text form, and the model that breaks others."""

from itertools import count

import pytest

from tinsmith.domain.errors import AgentError, ProtocolError, SchemaError, TransportError
from tinsmith.domain.message import Answer, CallDetected, ReasoningDelta, TextDelta, ToolCall, Usage
from tinsmith.domain.settings import LlmSettings
from tinsmith.llm.chaos import FAULTS, ChaosModel
from tinsmith.llm.scripted import Call, Fail, Reply, Say, ScriptedModel, Think, Wait, parse_script, reply

SETTINGS = LlmSettings()


async def play(model, request) -> list:
    return [delta async for batch in model.stream(request, SETTINGS) for delta in batch]


def numbered():
    numbers = count(1)
    return lambda: f"c{next(numbers)}"


async def test_replies_in_turn(request_of) -> None:
    model = ScriptedModel(
        [
            Reply(
                (Think("Hm so."), Say("  Hi\n you "), Call("read", {"a": 1}), Wait(0), Call("x", "{")), Usage(1, 2, 3)
            ),
            lambda request: Reply((Say(request.system),), finish_reason="length"),
        ],
        mint=numbered(),
    )
    assert await play(model, request_of()) == [
        ReasoningDelta("Hm"),
        ReasoningDelta(" so."),
        TextDelta("  Hi"),
        TextDelta("\n you"),
        TextDelta(" "),
        CallDetected("c1", "read"),
        CallDetected("c2", "x"),
        Answer(
            "  Hi\n you ",
            "Hm so.",
            (ToolCall("c1", "read", '{"a":1}'), ToolCall("c2", "x", "{", is_complete=False)),
            "tool_calls",
            Usage(1, 2, 3),
        ),
    ]
    assert (await play(model, request_of()))[-1] == Answer("You are a test.", "", (), "length", Usage(100, 20, 120))
    with pytest.raises(ProtocolError, match="request 3"):
        await play(model, request_of())
    assert len(model.requests) == 3


async def test_a_failing_reply(request_of) -> None:
    model = ScriptedModel([reply("some", Fail("rateLimited", "Slow down.", retryable=True, retry_after_ms=50))])
    stream = model.stream(request_of(), SETTINGS)
    assert await anext(stream) == [TextDelta("some")]
    with pytest.raises(TransportError) as failed:
        await anext(stream)
    assert (failed.value.code, failed.value.retryable, failed.value.data) == ("rateLimited", True, {"retryAfterMs": 50})


def test_a_script_as_text() -> None:
    text = """# two replies
think I should look.
| Really.
call read {"path": "a.py"}
call plan
usage 1200 80
---

say Hello.
|
| There.
wait 0.5
wait
fail! overloaded Too much to do.
"""
    assert parse_script(text) == [
        Reply(
            (Think("I should look.\nReally."), Call("read", '{"path": "a.py"}'), Call("plan", "{}")),
            Usage(1200, 80, 1280),
        ),
        Reply((Say("Hello.\n\nThere."), Wait(0.5), Wait(), Fail("overloaded", "Too much to do.", retryable=True))),
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [("say a\nsing b", 2), ("call x\n| y", 2), ("wait soon", 1), ("usage 1", 1), ("usage a b", 1), ("| x", 1)],
)
def test_a_script_with_a_mistake(text: str, line: int) -> None:
    with pytest.raises(SchemaError, match=f"^Line {line} ") as failed:
        parse_script(text)
    assert failed.value.code == "badScript"


ANSWER = reply("some words here", Call("read", {"path": "a.py"}))


async def outcome(model, request) -> object:
    try:
        return await play(model, request)
    except AgentError as error:
        return error.record()


async def test_chaos_repeats_itself_and_meets_everything(request_of) -> None:
    async def run(seed: int) -> list:
        model = ChaosModel(ScriptedModel(lambda _: ANSWER, mint=lambda: "c1"), seed, probability=0.9, stall_seconds=0)
        return [(await outcome(model, request_of()), fault) for _ in range(60) for fault in model.met[-1:] or [None]]

    assert await run(7) == await run(7)
    assert await run(7) != await run(8)
    assert {fault for _, fault in await run(7)} == {None, *FAULTS}


async def spoiled(fault: str, request) -> object:
    inner = ScriptedModel(lambda _: ANSWER, mint=lambda: "c1")
    return await outcome(ChaosModel(inner, 1, faults=(fault,), probability=1, stall_seconds=0), request)


async def test_each_fault(request_of) -> None:
    whole = await play(ScriptedModel([ANSWER], mint=lambda: "c1"), request_of())
    assert (await spoiled("refuse", request_of())).code == "overloaded"
    assert (await spoiled("break", request_of())).code == "streamInterrupted"
    assert (await spoiled("stall", request_of())).code == "streamStalled"
    assert await spoiled("empty", request_of()) == [Answer(finish_reason="stop")]
    *pieces, call, answer = await spoiled("split", request_of())
    assert [piece.text for piece in pieces] == list("some words here")
    assert [call, answer] == whole[-2:]
    cut = (await spoiled("cut_call", request_of()))[-1]
    assert cut.calls == (ToolCall("c1", "read", '{"path"', is_complete=False),)
    assert cut.finish_reason == "length"
    calm = ChaosModel(ScriptedModel([ANSWER], mint=lambda: "c1"), 1, probability=0)
    assert await play(calm, request_of()) == whole
