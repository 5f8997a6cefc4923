"""Every recorded answer, re-chunked and cut at random on its way: what ran is what its whole bytes ask for, and once.

`RECHUNK_SEED` repeats a run: the seed of one that failed is in its message.
"""

import asyncio
import json
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, NamedTuple

import pytest
from tests.wire.client import Client
from tests.wire.rechunk import End, RechunkingProxy
from tests.wire.talk import Talk
from tests.wire.test_cases_providers import TEXTS, recorded
from tests.wire.wholebody import Found, read_answer

from tinsmith.demo.server import HttpRequest, LoopbackServer, RawAnswer

pytestmark = pytest.mark.asyncio(loop_scope="module")

TESTS = Path(__file__).parent.parent
CONCURRENT = 4
"""Fewer than the temporary folders that the sandbox keeps for conversations: it takes the oldest away, used or not."""
Swaps = tuple[tuple[bytes, bytes], ...]


def written(path: bytes, content: bytes, *others: tuple[bytes, bytes], quote: bytes = rb"\"") -> Swaps:
    """A recorded `read` of that path becomes a `write` to it, by the same fragments."""
    ends = path + quote + b"}"
    more = path + quote + b"," + quote + b"content" + quote + b":" + quote + content + quote + b"}"
    return ((b'"name":"read"', b'"name":"write"'), (ends, more), *others)


ONCE = rb"printf x >> once"
BODIES: dict[str, Swaps] = {
    "chat_completions cases/LLM-01/stream.sse": written(
        b"a.py",
        b"one",
        (b'"name":"grep"', b'"name":"bash"'),
        (rb'\"pat"', rb'\"comm"'),
        (rb"tern\":\"x\"}", rb"and\":\"" + ONCE + rb"\"}"),
    ),
    "chat_completions cases/LLM-04/stream.sse": written(b"x", b"four", (rb":\"ls\"}", rb":\"" + ONCE + rb"\"}")),
    "chat_completions cases/LLM-05/stream.sse": (
        (b'"name":"edit"', b'"name":"write"'),
        (rb"\"line\":3}", rb"\"content\":\"five\"}"),
    ),
    "chat_completions cases/LLM-07/stream.sse": written(b"z", b"seven"),
    "chat_completions cases/LLM-09/stream.sse": (
        (b'"name":"grep"', b'"name":"write"'),
        (rb"\"pattern\"", rb"\"path\""),
        (b'"arguments":"}"', rb'"arguments":",\"content\":\"nine\"}"'),
    ),
    "chat_completions cases/LLM-10/stream.sse": written(b"q.c", "zehn 編 🚀".encode()),
    "chat_completions cases/LLM-11/stream.sse": (
        (b'"name":"read"', b'"name":"write"'),
        (b'"limit":5', b'"content":"eleven"'),
    ),
    "chat_completions cases/LLM-12/stream.sse": ((b"git_status", b"code_map"),),
    "chat_completions cases/LLM-14/stream.sse": ((rb":\"true\"}", rb":\"" + ONCE + rb"\"}"),),
    "chat_completions cases/LLM-16/stream.sse": (),
    "chat_completions cases/LLM-17/stream.sse": (),
    "chat_completions cases/LLM-19/stream.sse": ((rb"\"text\"", rb"\"content\""),),
    "chat_completions cases/LLM-22/stream.sse": (),
    "chat_completions cases/LLM-23/stream.sse": (),
    "chat_completions cases/LLM-25/stream.sse": (),
    "chat_completions cases/LLM-26/stream.sse": (),
    "chat_completions cases/LLM-27/stream.sse": (),
    "chat_completions cases/LLM-29/completion.json": (),
    "chat_completions cases/LLM-30/reasoning.sse": (),
    "chat_completions cases/LLM-30/reasoning_content.sse": (),
    "chat_completions cases/LLM-32/stream.sse": (),
    "chat_completions llm/golden/chat_completions/completion.json": written(b"a.py", b"whole"),
    "chat_completions llm/golden/chat_completions/error.sse": (),
    "chat_completions llm/golden/chat_completions/gemini.sse": written(b':\\"a', b"signed"),
    "chat_completions llm/golden/chat_completions/openrouter.sse": ((b'"name":"read"', b'"name":"code_map"'),),
    "chat_completions llm/golden/chat_completions/reasoning_and_calls.sse": written(b"a.py", b"two"),
    "chat_completions llm/golden/chat_completions/text.sse": (),
    "responses llm/golden/responses/cut_call.sse": written(b"a", b"whole"),
    "responses llm/golden/responses/error.sse": (),
    "responses llm/golden/responses/failed.sse": (),
    "responses llm/golden/responses/filtered.sse": (),
    "responses llm/golden/responses/gateway.sse": written(
        b"x", b"one", (b'"command":"ls"', b'"command":"' + ONCE + b'"')
    ),
    "responses llm/golden/responses/only_the_end.sse": (),
    "responses llm/golden/responses/reasoning_and_calls.sse": written(b"a.py", b"two"),
    "responses llm/golden/responses/refusal.sse": (),
    "responses llm/golden/responses/response.json": written(b"a.py", b"whole"),
    "anthropic llm/golden/anthropic/cut_call.sse": written(b"a", b"whole"),
    "anthropic llm/golden/anthropic/gateway.sse": written(
        b"x", b"one", (b'"command":"ls"', b'"command":"' + ONCE + b'"')
    ),
    "anthropic llm/golden/anthropic/message.json": written(b"a.py", b"whole", quote=b'"'),
    "anthropic llm/golden/anthropic/overloaded.sse": (),
    "anthropic llm/golden/anthropic/refusal.sse": (),
    "anthropic llm/golden/anthropic/refusal_after_a_call.sse": written(b"a", b"never"),
    "anthropic llm/golden/anthropic/text.sse": (),
    "anthropic llm/golden/anthropic/thinking_and_calls.sse": written(b".py", b"two"),
    "ollama llm/golden/ollama/error.ndjson": (),
    "ollama llm/golden/ollama/message.json": (
        (b'"name": "read"', b'"name": "write"'),
        (b'"a.py"}', b'"a.py", "content": "1"}'),
    ),
    "ollama llm/golden/ollama/old_server.ndjson": written(b"a", b"old"),
    "ollama llm/golden/ollama/text.ndjson": (),
    "ollama llm/golden/ollama/thinking_and_calls.ndjson": written(
        b"a.py", b"two", (b'"b.py"}', b'"b.py","content":"three"}'), quote=b'"'
    ),
    "chat_completions wire/recordings/llama_cpp.chat_completions.calls.sse": (),
    "chat_completions wire/recordings/llama_cpp.chat_completions.cut.sse": (),
    "responses wire/recordings/llama_cpp.responses.calls.sse": (),
    "responses wire/recordings/llama_cpp.responses.cut.sse": (),
    "anthropic wire/recordings/llama_cpp.anthropic.calls.sse": (),
    "anthropic wire/recordings/llama_cpp.anthropic.cut.sse": (),
}
"""Dialect and recording, and what is said otherwise in it, so that every call it makes leaves something on the disk.

Those of llama.cpp were made by its own server (a small model, a template with tools, a grammar that holds it to the
schema of `write`): the calls of one that ran into its limit behind the last of them, and in the middle of the first.
"""

Way = tuple[str, dict[str, Any], Callable[[int], End]]
WAYS: tuple[Way, ...] = (
    ("whole", {}, lambda _: "whole"),
    ("closed", {}, lambda number: "whole" if number else "closed"),
    ("broken", {}, lambda number: "whole" if number else "broken"),
    (
        "asked again",
        {"llm_config.retry_max_retries": 2, "llm_config.stream_retry_after_output": True},
        lambda number: "whole" if number else "broken",
    ),
)
ONE_TRY = {"llm_config.retry_max_retries": 0, "empty_response_retry_max_retries": 0}


def body_of(name: str) -> bytes:
    body = (TESTS / name.partition(" ")[2]).read_bytes()
    for old, new in BODIES[name]:
        assert old in body, (name, old)
        body = body.replace(old, new)
    return body


class Answering:
    """Gives one recorded answer, and a text to whoever comes with results."""

    def __init__(self, dialect: str, name: str, body: bytes) -> None:
        kind = {".sse": "text/event-stream", ".ndjson": "application/x-ndjson"}.get(
            Path(name).suffix, "application/json"
        )
        self._first = RawAnswer((body,), content_type=kind)
        self._then = recorded(TEXTS[dialect][0])

    def __call__(self, request: HttpRequest) -> RawAnswer:
        marks = (b'"role":"tool"', b'"function_call_output"', b'"tool_result"')
        return self._then if any(mark in request.body for mark in marks) else self._first


class Ran(NamedTuple):
    """What a turn did: its calls that ended well, what is on the disk, and how it ended."""

    calls: Counter[tuple[str, str]]
    files: dict[str, str]
    outcome: str


def expected(made: list[tuple[str, dict[str, Any]]]) -> tuple[Counter[tuple[str, str]], dict[str, str]]:
    """The calls, and the files that they leave."""
    files: dict[str, str] = {}
    for name, arguments in made:
        if name == "write":
            files[arguments["path"]] = arguments["content"]
        elif name == "bash":
            text, path = re.fullmatch(r"printf (\w+) >> (\w+)", arguments["command"]).groups()
            files[path] = files.get(path, "") + text
    return Counter((name, json.dumps(arguments, sort_keys=True)) for name, arguments in made), files


async def run(client: Client, folder: Path, name: str, way: Way, chance: Random) -> tuple[Ran, Found]:
    """Run one turn against the recording, and say what it did and what it was asked for."""
    dialect = name.partition(" ")[0]
    body = body_of(name)
    folder.mkdir()
    async with (
        LoopbackServer(Answering(dialect, name, body)) as provider,
        RechunkingProxy(provider.port, chance, way[2]) as proxy,
    ):
        made = await client.request("agent/conversationNew", {"workspace": folder.as_uri()})
        talk = Talk(client, provider, folder, made["conversation"]["conversationId"])
        talk.settings |= {"llm_config.base_url": f"http://127.0.0.1:{proxy.port}/v1", "llm_config.dialect": dialect}
        ended = await talk.say(overrides={**ONE_TRY, **way[1]})
        cut = proxy.cuts[0]
        found = read_answer(dialect, body[: cut.size], is_broken=cut.end == "broken")
        if way[0] == "asked again" and (found.is_spoilt or not found.is_over):
            found = read_answer(dialect, body, is_broken=False)
        done = [event for event in talk.events("toolUpdated") if event["status"] == "completed"]
        calls = Counter((event["name"], json.dumps(event["args"], sort_keys=True)) for event in done)
        files = {path.name: path.read_text() for path in folder.iterdir()}
        return Ran(calls, files, ended["outcome"]), found


async def fault(client: Client, folder: Path, name: str, way: Way, seed: str) -> str:
    """What a run did that it should not have done; nothing when all is well."""
    ran, found = await run(client, folder, name, way, Random(seed))
    calls, files = expected(found.made)
    is_well = (ran.calls, ran.files) == (calls, files)
    if not found.is_over:
        is_well = is_well and ran.outcome == "error"
    elif calls:
        is_well = is_well and ran.outcome == "completed"
    return "" if is_well else f"{way[0]}, {name}, seed {seed}: {ran}, not {calls} and {files}"


async def check_all(client: Client, folder: Path) -> None:
    """Each recording in each way, some at a time."""
    seed = int(os.environ.get("RECHUNK_SEED") or SystemRandom().randrange(1 << 32))
    pairs = [(name, way) for way in WAYS for name in BODIES]
    slots = asyncio.Semaphore(CONCURRENT)

    async def one(number: int, name: str, way: Way) -> str:
        async with slots:
            return await fault(client, folder / str(number), name, way, f"{seed} {number}")

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number, *pair)) for number, pair in enumerate(pairs)]
    faults = [task.result() for task in tasks if task.result()]
    assert not faults, "\n".join(faults)


async def test_what_runs_is_what_the_whole_bytes_ask_for(server, tmp_path):
    await check_all(server, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_it_is_so_thousands_of_times(server, tmp_path):
    for number in range(25):
        server.received.clear()
        folder = tmp_path / str(number)
        folder.mkdir()
        await check_all(server, folder)


async def test_the_recordings_are_all_there():
    places = [
        *(TESTS / "llm/golden").rglob("*.*"),
        *(TESTS / "wire/recordings").iterdir(),
        *(TESTS / "cases").glob("LLM-*/*"),
    ]
    others = {"login.html", "errors.json"}
    assert {str(path.relative_to(TESTS)) for path in places if path.name not in others} == {
        name.partition(" ")[2] for name in BODIES
    }


async def test_the_second_opinion_finds_the_calls_of_the_recordings():
    made = {name: read_answer(name.partition(" ")[0], body_of(name), is_broken=False).made for name in BODIES}
    counts = Counter(name.partition(" ")[0] for name, calls in made.items() for _ in calls)
    assert counts == {"anthropic": 9, "chat_completions": 20, "ollama": 5, "responses": 10}
