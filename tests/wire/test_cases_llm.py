"""Answers as they were seen in the field (LLM-…), through the server: what runs, what is shown, what is sent next."""

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tinsmith.demo.server import RawAnswer
from tinsmith.llm.scripted import Call, ScriptedModel, reply

pytestmark = pytest.mark.asyncio(loop_scope="module")

CASES = Path(__file__).parent.parent / "cases"
FILES = {
    "a.py": "import os\n",
    "x": "ex\n",
    "z": "zed\n",
    "q.c": "int q;\n",
    "m.rs": "mod m;\nfn f() {}\n",
    "a": "aye\n",
}


def answer(case: str, *cuts: int, swaps: tuple[tuple[bytes, bytes], ...] = ()) -> RawAnswer:
    """The recorded answer, with other words where `swaps` says so, cut into pieces at these offsets."""
    body = (CASES / case).read_bytes()
    for old, new in swaps:
        assert old in body
        body = body.replace(old, new)
    edges = [0, *cuts, len(body)]
    kind = "application/json" if case.endswith(".json") else "text/event-stream"
    return RawAnswer(tuple(body[start:end] for start, end in pairwise(edges)), content_type=kind)


def every_byte(whole: RawAnswer) -> RawAnswer:
    (body,) = whole.body
    return RawAnswer(tuple(bytes([byte]) for byte in body), content_type=whole.content_type)


def at_once(whole: RawAnswer) -> RawAnswer:
    return whole


def fine() -> ScriptedModel:
    return ScriptedModel(lambda _: reply("Fine."))


@pytest.fixture(params=[at_once, every_byte], ids=["whole", "byte-by-byte"])
def deliver(request):
    return request.param


class Ran(NamedTuple):
    """A call as it must have arrived, and what its result must hold."""

    name: str
    arguments: dict[str, Any] | str
    status: str
    says: str


READ = b'"name":"read"'
UNKNOWN = "There is no tool {!r} here."
CALLS: dict[str, tuple[str, tuple[tuple[bytes, bytes], ...], tuple[Ran, ...]]] = {
    "LLM-01": (
        "LLM-01",
        (),
        (
            Ran("read", {"path": "a.py"}, "completed", "    1\timport os\n"),
            Ran("grep", {"pattern": "x"}, "failed", UNKNOWN.format("grep")),
        ),
    ),
    "LLM-01 with our tools": (
        "LLM-01",
        (
            (b'"name":"grep"', b'"name":"bash"'),
            (rb'\"pat"}', rb'\"comm"}'),
            (rb'tern\":\"x\"}"', rb'and\":\"cat x\"}"'),
        ),
        (
            Ran("read", {"path": "a.py"}, "completed", "    1\timport os\n"),
            Ran("bash", {"command": "cat x"}, "completed", "exit: 0\nex\n"),
        ),
    ),
    "LLM-04": (
        "LLM-04",
        (),
        (
            Ran("read", {"path": "x"}, "completed", "    1\tex\n"),
            Ran("bash", {"command": "ls"}, "completed", "exit: 0\na\na.py\nm.rs\nq.c\nx\nz\n"),
        ),
    ),
    "LLM-05": (
        "LLM-05",
        (),
        (Ran("edit", {"path": "a", "line": 3}, "failed", "the arguments do not fit edit"),),
    ),
    "LLM-05 with our tools": (
        "LLM-05",
        ((b'"name":"edit"', READ), (rb"\"line\":3}", rb"\"end_line\":1}")),
        (Ran("read", {"path": "a", "end_line": 1}, "completed", "    1\taye\n"),),
    ),
    "LLM-07": ("LLM-07", (), (Ran("read", {"path": "z"}, "completed", "    1\tzed\n"),)),
    "LLM-09": ("LLM-09", (), (Ran("grep", {"pattern": "a"}, "failed", UNKNOWN.format("grep")),)),
    "LLM-09 with our tools": (
        "LLM-09",
        ((b'"name":"grep"', READ), (rb"\"pattern\"", rb"\"path\"")),
        (Ran("read", {"path": "a"}, "completed", "    1\taye\n"),),
    ),
    "LLM-10": ("LLM-10", (), (Ran("read", {"path": "q.c"}, "completed", "    1\tint q;\n"),)),
    "LLM-11": (
        "LLM-11",
        (),
        (Ran("read", {"path": "m.rs", "limit": 5}, "failed", "unknown field `limit`"),),
    ),
    "LLM-11 with our tools": (
        "LLM-11",
        ((b'"limit":5', b'"start_line":2'),),
        (Ran("read", {"path": "m.rs", "start_line": 2}, "completed", "showing: 2-2\n    2\tfn f() {}\n"),),
    ),
    "LLM-12": ("LLM-12", (), (Ran("git_status", {}, "failed", UNKNOWN.format("git_status")),)),
    "LLM-12 blanks": (
        "LLM-12",
        ((b'"name":"git_status"', READ), (b'"arguments":""', rb'"arguments":" \n "')),
        (Ran("read", {}, "failed", "missing required field `path`"),),
    ),
    "LLM-12 cut off": (
        "LLM-12",
        ((b'"name":"git_status"', READ), (b'"arguments":""', rb'"arguments":"{\"q\""')),
        (Ran("read", '{"q"', "failed", "the arguments of this call are cut off"),),
    ),
    "LLM-14": ("LLM-14", (), (Ran("bash", {"command": "true"}, "completed", "exit: 0\n(no output)"),)),
    "LLM-33": (
        "LLM-12",
        ((b'"name":"git_status"', READ), (b'"arguments":""', b'"arguments":"{"')),
        (Ran("read", "{", "failed", "the arguments of this call are cut off"),),
    ),
}
"""The case, the words changed in its recorded answer, and its calls. A tool of another product is refused in words."""


@pytest.fixture
def files(workspace):
    for name, text in FILES.items():
        (workspace / name).write_text(text)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("name", CALLS)
async def test_calls_run_and_their_history_is_valid(open_talk, deliver, name):
    case, swaps, expected = CALLS[name]
    async with open_talk(deliver(answer(f"{case}/stream.sse", swaps=swaps)), fine()) as talk:
        assert (await talk.say("go"))["outcome"] == "completed"
        first, second = talk.bodies
        made = [each for each in second["messages"] if each.get("tool_calls")]
        (called,) = made
        functions = [call["function"] for call in called["tool_calls"]]
        echoed = [json.loads(function["arguments"]) for function in functions]
        assert [function["name"] for function in functions] == [ran.name for ran in expected]
        assert echoed == [ran.arguments if isinstance(ran.arguments, dict) else {} for ran in expected]
        for result, ran in zip(talk.results, expected, strict=True):
            assert ran.says in result
        assert second["messages"][: len(first["messages"])] == first["messages"]

        ended = [each for each in talk.events("toolUpdated") if each["status"] in {"completed", "failed"}]
        assert [(each["name"], each["args"], each["status"], each["result"]) for each in ended] == [
            (ran.name, ran.arguments, ran.status, result) for ran, result in zip(expected, talk.results, strict=True)
        ]
        assert [each["callId"] for each in ended] == [call["id"] for call in called["tool_calls"]]
        assert talk.events("textDelta")[0]["text"] == "Fine."
        items = await talk.items()
        assert [(item["kind"], item.get("text", "")) for item in items if item["kind"] != "tool"] == [
            ("user", "go"),
            ("assistant", ""),
            ("assistant", "Fine."),
        ]

        assert (await talk.say("never mind"))["outcome"] == "completed"
        assert talk.bodies[2]["messages"][: len(second["messages"])] == second["messages"]


TEXTS = {
    "LLM-16/stream.sse": "ok",
    "LLM-22/stream.sse": "naïve 編集 🚀 ok",
    "LLM-23/stream.sse": "a\u2028b\u2029c\u0085d\x0be\x0cf",
    "LLM-25/stream.sse": "alive",
    "LLM-26/stream.sse": "nospace",
    "LLM-27/stream.sse": "xy",
    "LLM-29/completion.json": "plain",
    "LLM-32/stream.sse": "The 6 errors:\n\n    x = 1\n",
}


async def check_text(talk, text: str) -> dict[str, Any]:
    """Say something, be answered with `text`: in deltas, in the item, in the store and in the next request."""
    ended = await talk.say("hi")
    assert (ended["outcome"], talk.streamed(ended["turnId"])) == ("completed", text)
    (item,) = talk.events("itemUpdated")
    assert item["item"]["text"] == text
    assert [message.get("text") for message in await talk.stored()] == ["hi", text]
    assert [shown["text"] for shown in await talk.items()] == ["hi", text]
    await talk.say("again")
    assert [message["content"] for message in talk.bodies[-1]["messages"][1:]] == ["hi", text, "again"]
    return ended


@pytest.mark.parametrize("name", TEXTS)
async def test_text_is_the_same_everywhere(open_talk, deliver, name):
    async with open_talk(deliver(answer(name)), fine()) as talk:
        await check_text(talk, TEXTS[name])
        assert talk.events("retrying") == []


async def test_llm_22_cut_inside_its_characters(open_talk):
    async with open_talk(answer("LLM-22/stream.sse", 319, 486), fine()) as talk:
        await check_text(talk, TEXTS["LLM-22/stream.sse"])


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("name", [*TEXTS, *(f"{case}/stream.sse" for case in ("LLM-04", "LLM-10", "LLM-11"))])
async def test_every_single_cut_gives_the_same_answer(open_talk, server, name):
    async with open_talk(answer(name), fine()) as talk:
        ended = await talk.say("hi")
        expected = (talk.streamed(ended["turnId"]), talk.results)
    for cut in range(1, (CASES / name).stat().st_size):
        server.received.clear()
        async with open_talk(answer(name, cut), fine()) as talk:
            ended = await talk.say("hi")
            assert (talk.streamed(ended["turnId"]), talk.results) == expected


async def test_llm_16_usage_without_choices_counts(open_talk):
    async with open_talk(answer("LLM-16/stream.sse")) as talk:
        ended = await talk.say()
    counts = {"input": 11, "output": 7, "total": 18}
    assert {key: ended["usage"][key] for key in counts} == counts
    (updated,) = talk.events("usageUpdated")
    assert {key: updated["last"][key] for key in counts} == counts
    assert updated["context"]["used"] == 18


async def test_llm_17_error_inside_a_stream_fails_the_turn_once(open_talk, deliver):
    async with open_talk(deliver(answer("LLM-17/stream.sse")), fine()) as talk:
        ended = await talk.say("hi")
        assert (ended["outcome"], ended["error"]["code"]) == ("error", "rateLimited")
        assert "quota used up for today" in ended["message"]
        assert ended["message"].endswith(".")
        assert (len(talk.bodies), talk.events("retrying"), talk.events("itemUpdated")) == (1, [], [])
        assert (await talk.say("again"))["outcome"] == "completed"
        assert [message["content"] for message in talk.bodies[-1]["messages"][1:]] == ["hi", "again"]


@pytest.mark.parametrize("is_cut", [False, True], ids=["closed", "broken"])
async def test_llm_19_a_call_that_broke_off_is_not_run(open_talk, workspace, deliver, is_cut):
    half = deliver(answer("LLM-19/stream.sse"))
    async with open_talk(RawAnswer(half.body, is_cut=is_cut), fine()) as talk:
        ended = await talk.say("write it")
        assert (ended["outcome"], ended["error"]["code"]) == ("error", "streamInterrupted")
        assert ended["message"].endswith("Try again.")
        statuses = [(event["name"], event["status"]) for event in talk.events("toolUpdated")]
        assert statuses == [("write", "pending"), ("write", "cancelled")]
        assert [*workspace.iterdir()] == []
        assert (await talk.say("again"))["outcome"] == "completed"
        assert [message["content"] for message in talk.bodies[-1]["messages"][1:]] == ["write it", "again"]
        assert all(item["kind"] != "tool" for item in await talk.items())


async def test_llm_19_with_the_switch_on_it_is_asked_for_again_and_runs_once(open_talk, workspace):
    whole = ScriptedModel([reply(Call("write", {"path": "big.txt", "content": "line one\n"})), reply("Written.")])
    async with open_talk(answer("LLM-19/stream.sse"), whole) as talk:
        talk.settings["llm_config.stream_retry_after_output"] = True
        assert (await talk.say("write it"))["outcome"] == "completed"
    assert (workspace / "big.txt").read_text() == "line one\n"
    assert len(talk.events("retrying")) == 1
    assert len({event["callId"] for event in talk.events("toolUpdated") if event["status"] == "completed"}) == 1


async def test_llm_27_a_payload_that_is_no_json_is_an_error_in_words(open_talk):
    async with open_talk(RawAnswer((b"data: still working\n\ndata: [DONE]\n\n",)), fine()) as talk:
        ended = await talk.say()
        assert (ended["error"]["kind"], ended["error"]["code"]) == ("protocol", "badEvent")
        assert "still working" in ended["message"]
        assert (await talk.say())["outcome"] == "completed"


@pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", "text/plain"])
async def test_llm_29_a_login_page_is_shown_as_what_it_is(open_talk, deliver, content_type):
    page = deliver(answer("LLM-29/login.html"))
    async with open_talk(RawAnswer(page.body, content_type=content_type)) as talk:
        ended = await talk.say()
    assert (ended["outcome"], ended["error"]["code"]) == ("error", "unexpectedBody")
    for shown in ("200", content_type, "<title>Sign in</title>", "llm_config.base_url"):
        assert shown in ended["message"]
    assert talk.events("textDelta") == []


def refused(status: int, body: dict[str, Any], **headers: str) -> RawAnswer:
    return RawAnswer((json.dumps(body).encode(),), status, "application/json", headers)


BUSY = {"error": {"message": "Slow down."}}


class Timed:
    """Answers in turn, noting when each was asked for."""

    def __init__(self, *answers) -> None:
        self.times: list[float] = []
        self._answers = answers

    def __call__(self, _):
        self.times.append(asyncio.get_running_loop().time())
        return self._answers[len(self.times) - 1]


@pytest.mark.parametrize("seconds", [1, pytest.param(3, marks=pytest.mark.long)])
async def test_llm_36_the_delay_that_was_asked_for_is_kept_and_seen(open_talk, seconds):
    answers = Timed(refused(429, BUSY, **{"retry-after": str(seconds)}), fine())
    async with open_talk(answers) as talk:
        assert (await talk.say())["outcome"] == "completed"
    assert seconds <= answers.times[1] - answers.times[0] < 2 * seconds
    (retrying,) = talk.events("retrying")
    assert (retrying["attempt"], retrying["delayMs"]) == (1, seconds * 1000)
    assert "Slow down." in retrying["reason"]


async def test_llm_36_a_long_delay_can_be_cancelled(open_talk, server):
    async with open_talk(refused(429, BUSY, **{"retry-after": "100"}), fine()) as talk:
        turn_id = await talk.begin("go")
        await talk.event("retrying")
        cancelled = asyncio.get_running_loop().time()
        await server.request("agent/cancel", {"turnId": turn_id})
        assert (await talk.end(turn_id))["outcome"] == "cancelled"
        assert asyncio.get_running_loop().time() - cancelled < 1
        assert len(talk.bodies) == 1
        assert (await talk.say("again"))["outcome"] == "completed"


async def test_llm_36_a_delay_that_is_too_long_is_said_and_not_waited_for(open_talk):
    async with open_talk(refused(429, BUSY, **{"retry-after": "3600"}), fine()) as talk:
        ended = await talk.say("go")
        assert (ended["outcome"], ended["error"]["code"]) == ("error", "rateLimited")
        assert "asks to be left alone for 60 minutes" in ended["error"]["message"]
        assert talk.events("retrying") == []
        assert (await talk.say("again"))["outcome"] == "completed"


REFUSALS = json.loads((CASES / "LLM-38/errors.json").read_text())
OVERFLOWS = [each for each in REFUSALS if each["overflow"]]


def long_history(*then) -> tuple[Any, ...]:
    """Six rounds that each read a long file, and then these answers."""
    reads = ScriptedModel(lambda _: reply("Page. ", Call("read", {"path": "long.txt"})))
    return (*[reads] * 6, *then)


@pytest.fixture
def long_file(workspace):
    (workspace / "long.txt").write_text("word " * 200 + "\n")


@pytest.mark.usefixtures("long_file")
@pytest.mark.parametrize("refusal", OVERFLOWS, ids=range(len(OVERFLOWS)))
async def test_llm_38_an_overflow_is_squeezed_once_however_it_is_worded(open_talk, refusal):
    async with open_talk(*long_history(refused(refusal["status"], refusal["body"]), fine())) as talk:
        assert (await talk.say("read on"))["outcome"] == "completed"
        too_long, squeezed = talk.bodies[-2:]
        assert (len(talk.bodies), talk.events("retrying")) == (8, [])
        assert len(json.dumps(squeezed)) < 0.8 * len(json.dumps(too_long))
        assert squeezed["messages"][0] == too_long["messages"][0]
        opening = next(message for message in squeezed["messages"] if message["role"] == "user")
        assert opening["content"].endswith("read on")
        assert "left out here" in opening["content"]
        assert squeezed["messages"][-2:] == too_long["messages"][-2:]
        assert (await talk.say("and now"))["outcome"] == "completed"
        assert len(json.dumps(talk.bodies[-1])) < 0.8 * len(json.dumps(too_long))
        assert len([item for item in await talk.items() if item["kind"] == "tool"]) == 6


@pytest.mark.usefixtures("long_file")
async def test_llm_38_a_second_overflow_ends_the_turn_in_words(open_talk):
    refusal = OVERFLOWS[0]
    async with open_talk(*long_history(refused(refusal["status"], refusal["body"]))) as talk:
        ended = await talk.say("read on")
    assert (ended["outcome"], ended["error"]["code"]) == ("error", "contextWindow")
    assert "compact it, or choose a model" in ended["message"]
    assert len(talk.bodies) == 8
    assert talk.bodies[-1] != talk.bodies[-2]


@pytest.mark.usefixtures("long_file")
async def test_llm_38_what_is_no_overflow_is_not_squeezed(open_talk):
    (other,) = (each for each in REFUSALS if not each["overflow"])
    async with open_talk(*long_history(refused(other["status"], other["body"]))) as talk:
        ended = await talk.say("read on")
    assert (ended["outcome"], len(talk.bodies)) == ("error", 7)
    assert other["body"]["error"]["message"] in ended["message"]
