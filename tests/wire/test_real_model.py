"""A real model behind a real llama.cpp server, in each HTTP dialect that it speaks: `make test-model`.

What it says is not looked at: it is small, has learned no tools, and says what a grammar lets it.
"""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from tests.wire.llama import MOST_CHARACTERS

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]

DIALECTS = ("chat_completions", "responses", "anthropic")
LOADING_SECONDS = 120
ANSWER_SECONDS = 120


@pytest.fixture(scope="session")
def start_llama(tmp_path_factory):
    """Start a llama.cpp server, which has yet to load its model; its address."""
    folder = tmp_path_factory.mktemp("llama")
    running = []

    def start() -> str:
        command = [sys.executable, str(Path(__file__).with_name("llama.py")), str(folder)]
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        running.append(process)
        return f"http://127.0.0.1:{int(process.stdout.readline())}"

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def llama(start_llama) -> str:
    """The address of a server that is ready."""
    address = start_llama()
    deadline = time.monotonic() + LOADING_SECONDS
    while not is_ready(address):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return address


def is_ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/health").status_code == 200
    except httpx.TransportError:
        return False


def settings(address: str, dialect: str, **more) -> dict:
    return {"default_model": "gemma", "llm_config": {"base_url": f"{address}/v1", "dialect": dialect, **more}}


async def open_session(connect, address: str, dialect: str, **more):
    client = await connect(initializationOptions={"settings": settings(address, dialect, **more)})
    client.deadline = ANSWER_SECONDS
    return client


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_answer_streams_and_what_was_sent_before_is_cached(connect, llama, dialect):
    client = await open_session(connect, llama, dialect)
    first = await client.turn("Say hello.")
    assert first["outcome"] == "completed"
    deltas = client.events("textDelta")
    assert len(deltas) > 3
    assert MOST_CHARACTERS // 2 <= sum(len(each["text"]) for each in deltas) <= MOST_CHARACTERS
    assert [delta["offset"] for delta in deltas] == [
        sum(len(each["text"]) for each in deltas[:number]) for number in range(len(deltas))
    ]
    assert first["usage"]["input"] > 100
    assert 0 < first["usage"]["output"] <= MOST_CHARACTERS
    second = await client.turn("Say it again.")
    assert second["usage"]["input"] > first["usage"]["input"]
    assert second["usage"]["cached"] > first["usage"]["input"] // 2


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_cancel_frees_the_server(connect, llama, dialect):
    client = await open_session(connect, llama, dialect)
    started = await client.ask("Count to a thousand.")
    await client.event("textDelta")
    asked = time.monotonic()
    await client.request("agent/cancel", {"turnId": started["turnId"]})
    ended = await client.event("turnEnded", turnId=started["turnId"])
    assert ended["outcome"] == "cancelled"
    assert time.monotonic() - asked < 0.5
    while any(slot["is_processing"] for slot in await asyncio.to_thread(slots, llama)):
        assert time.monotonic() - asked < 10
        await asyncio.sleep(0.05)
    assert (await client.turn("Go on."))["outcome"] == "completed"


def slots(address: str) -> list[dict]:
    return httpx.get(f"{address}/slots", timeout=30).json()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_server_that_is_still_loading_is_waited_for(connect, start_llama, dialect):
    waits = [100] + [2_000] * 30
    client = await open_session(connect, start_llama(), dialect, retry_max_retries=len(waits), retry_backoff_ms=waits)
    ended = await client.turn("Say hello.")
    assert ended["outcome"] == "completed"
    retries = client.events("retrying")
    assert [each["attempt"] for each in retries] == list(range(1, len(retries) + 1))
    assert retries
    assert all("503" in each["reason"] or "connect" in each["reason"].lower() for each in retries)
    assert any("Loading model" in each["reason"] for each in retries)
