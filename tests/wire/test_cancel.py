"""Cancel from every await there is: one end, the last of its turn, in time; finished work stays, nothing is left."""

import asyncio
import contextlib
import os
import random
import re
import signal
import socket
import sys
import time
from pathlib import Path

import pytest
from tests.engine.test_window import is_valid
from tests.wire.client import RpcError

from tinsmith.demo.server import LoopbackServer, RawAnswer
from tinsmith.domain.message import UserMessage
from tinsmith.llm.history import check_history
from tinsmith.llm.scripted import Call, ScriptedModel, Think, Wait, reply

IN_TIME = 2.0
"""Seconds from an accepted cancel to the end of its turn."""
IN_TIME_AT_LAST = 2.5
"""The same when something must be killed."""

HALF_A_CALL = (
    b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"bash",'
    b'"arguments":"{\\"comma"}}]}}]}\n\n'
)
TERM_IGNORER = "trap '' TERM; while :; do sleep {mark}; done"
FAMILY = (
    "setsid sleep {mark} & (setsid sh -c 'sleep {mark} & sleep {mark}' &) & nohup sleep {mark} & "
    'python3 -c "import os, time; os.fork() or os.setsid() or os.fork() or time.sleep({mark})" & sleep {mark}'
)


def settings(**more):
    return {"initializationOptions": {"settings": {"permission_mode": "full", **more}}}


def answering(text="Fine again."):
    return ScriptedModel(lambda request: reply(text))


def new_mark():
    """Seconds that no other process sleeps."""
    return f"{random.randrange(10_000, 90_000)}.{random.randrange(10**6):06d}"


def living(mark):
    """The numbers of the processes with this mark on their command line, but for Tinsmith's own."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                line = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in line and b"tinsmith" not in line:
                found.append(int(folder.name))
    return found


def asleep(mark):
    """How many a command has put to sleep: it has come so far, whatever was started to run it."""
    lines = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            lines.append((folder / "cmdline").read_bytes())
    return lines.count(f"sleep\0{mark}\0".encode())


async def cancelled(client, turn_id, within=IN_TIME, **extra):
    """Cancel the turn and see it end in time, once, as its last event; the params of its end."""
    started = time.monotonic()
    state = await client.request("agent/cancel", {"turnId": turn_id, **extra})
    ended = await client.event("turnEnded", turnId=turn_id)
    assert time.monotonic() - started < within
    assert (state, ended["outcome"]) == ({"state": "cancelling"}, "cancelled")
    await check_end(client, turn_id)
    return ended


async def check_end(client, turn_id):
    await client.event("conversationUpdated", state="idle")
    await client.request("agent/configGet", {"path": "default_model"})
    of_turn = [event["type"] for event in client.events() if event.get("turnId") == turn_id]
    assert of_turn.count("turnEnded") == 1
    assert of_turn[-1] == "turnEnded"
    by_conversation = {}
    for event in client.events():
        by_conversation.setdefault(event["conversationId"], []).append(event["seq"])
    for numbers in by_conversation.values():
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


async def goes_on(client, model, **params):
    """The next turn works, and the provider gets a request that a strict one takes; its messages."""
    assert (await client.turn("go on", **params))["outcome"] == "completed"
    messages = model.requests[-1].messages
    check_history(messages)
    assert is_valid(messages)
    assert messages[-1].text == "go on"
    return messages


def results(client):
    """The last status of each call, by its id."""
    return {event["callId"]: event for event in client.events("toolUpdated")}


async def test_while_connecting(connect):
    """A listener whose queue is full: the connection is never made."""
    model = answering()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
            fillers.append(filler)
        async with LoopbackServer(model) as provider:
            client = await connect(provider.base_url)
            silent = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
            started = await client.ask("go", overrides={"llm_config.base_url": silent})
            await client.event("activityUpdated", state="thinking")
            await cancelled(client, started["turnId"])
            await goes_on(client, model)
        for filler in fillers:
            filler.close()


@pytest.mark.parametrize(
    ("silence", "kind"),
    [
        (RawAnswer((float("inf"),), is_silent=True), "activityUpdated"),
        (RawAnswer((float("inf"),)), "activityUpdated"),
        (RawAnswer((b": still here\n\n", float("inf"))), "activityUpdated"),
        (RawAnswer((HALF_A_CALL, float("inf"))), "toolUpdated"),
        (ScriptedModel([reply(Think("Hm, "), Wait())]), "reasoningDelta"),
        (ScriptedModel([reply("One two ", Wait())]), "textDelta"),
    ],
    ids=["before the head", "before the first event", "after a heartbeat", "in a call", "in reasoning", "in text"],
)
async def test_in_an_answer(connect, silence, kind):
    model = answering()
    async with LoopbackServer(silence, model) as provider:
        client = await connect(provider.base_url)
        started = await client.ask("go")
        await client.event(kind)
        await client.poll(lambda: any(request.method == "POST" for request in provider.requests))
        await cancelled(client, started["turnId"])
        await client.poll(lambda: provider.abandoned == 1)
        assert all(event["status"] == "cancelled" for event in results(client).values())
        await goes_on(client, model)


async def test_in_a_retry_wait(connect):
    model = answering()
    async with LoopbackServer(RawAnswer((b'{"error": {}}',), 500, "application/json"), model) as provider:
        client = await connect(provider.base_url, **settings(llm_config={"retry_backoff_ms": [60_000]}))
        started = await client.ask("go")
        retrying = await client.event("retrying")
        assert retrying["delayMs"] == 60_000
        await cancelled(client, started["turnId"])
        await goes_on(client, model)


async def test_while_asking_withdraws_the_question_and_a_late_answer_runs_nothing(connect, workspace):
    model = ScriptedModel([reply(Call("bash", {"command": "touch ran"})), reply("Fine again.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url)
        started = await client.ask("go")
        question = await client.until(lambda message: message.get("method") == "agent/requestPermission")
        await cancelled(client, started["turnId"])
        withdrawn = await client.until(lambda message: message.get("method") == "$/cancelRequest")
        assert withdrawn["params"] == {"id": question["id"]}
        resolved = await client.event("permissionResolved")
        assert (resolved["requestKey"], resolved["outcome"]) == (question["params"]["requestKey"], "cancelled")
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"optionId": "allow_once"}})
        messages = await goes_on(client, model)
        assert messages[2].content == "Not run: the user stopped the turn."
    assert not (workspace / "ran").exists()


async def test_in_a_read_of_a_large_file(connect, workspace):
    (workspace / "large.txt").write_bytes((b"x" * 99 + b"\n") * 80_000)
    model = ScriptedModel([reply(*(Call("read", {"path": "large.txt"}) for _ in range(8))), reply("Fine again.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url)
        started = await client.ask("go")
        await client.event("toolUpdated", status="running")
        await cancelled(client, started["turnId"])
        messages = await goes_on(client, model)
        assert len(messages) == 1 + 1 + 8 + 1


@pytest.mark.parametrize(
    ("command", "within"),
    [("sleep {mark}", IN_TIME), (TERM_IGNORER, IN_TIME_AT_LAST), (FAMILY, IN_TIME_AT_LAST)],
    ids=["that listens", "that ignores TERM", "that has scattered its children"],
)
async def test_in_a_command(connect, command, within):
    mark = new_mark()
    calls = [
        Call("bash", {"command": "echo done"}),
        Call("bash", {"command": "echo out; " + command.format(mark=mark)}),
    ]
    model = ScriptedModel([reply(*calls, Call("bash", {"command": "touch never"})), reply("Fine again.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url, **settings())
        started = await client.ask("go")
        await client.poll(
            lambda: len(client.events("toolOutput")) == 2 and asleep(mark) >= command.count("sleep {mark}")
        )
        await cancelled(client, started["turnId"], within)
        assert living(mark) == []
        messages = await goes_on(client, model)
    first, second, third = messages[2:5]
    assert first.content == "exit: 0\ndone\n"
    assert re.fullmatch(r"cancelled\n(note: .*\n)?out\n", second.content)  # no shell tells how its child ended
    assert third.content == "Not run: the user stopped the turn."


async def test_of_one_call_leaves_the_turn_running(connect):
    mark = new_mark()
    model = ScriptedModel([reply(Call("bash", {"command": f"sleep {mark}"})), reply("I go on.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url, **settings())
        started = await client.ask("go")
        running = await client.event("toolUpdated", status="running")
        await client.poll(lambda: asleep(mark))
        call = {"turnId": started["turnId"], "callId": running["callId"]}
        assert await client.request("agent/cancel", call) == {"state": "cancelling"}
        assert (await client.event("turnEnded"))["outcome"] == "completed"
        assert await client.request("agent/cancel", call) == {"state": "ended"}
        assert living(mark) == []
        await check_end(client, started["turnId"])


@pytest.mark.parametrize("turns", [12, pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
async def test_anywhere_in_quick_rounds(connect, workspace, turns):
    """Cancels at random moments of a turn that commits all the time."""
    (workspace / "a.txt").write_text("here\n")
    calls = [Call("read", {"path": "a.txt"}), Call("bash", {"command": "true"}), Call("read", {"path": "none"})]
    model = ScriptedModel(lambda request: reply("Look. ", *calls) if is_said(request, "go") else reply("Fine."))
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url, **settings())
        for number in range(turns):
            if number % 12 == 0:
                made = await client.request("agent/conversationNew", {})
                identifier = made["conversation"]["conversationId"]
            before = len(client.received)
            started = await client.ask("go", conversationId=identifier)
            moment = before + random.randrange(1, 120)
            await client.poll(lambda moment=moment: len(client.received) >= moment)
            await asyncio.sleep(random.random() * 0.01)
            await cancelled(client, started["turnId"])
            assert {event["status"] for event in results(client).values()} <= {"completed", "failed", "cancelled"}
            if number % 12 == 11:
                await goes_on(client, model, conversationId=identifier)
    for request in model.requests:
        check_history(request.messages)


def is_said(request, text):
    """Whether the newest message of a person is this."""
    users = [message for message in request.messages if isinstance(message, UserMessage)]
    return users[-1].text == text


async def test_before_and_right_after_runturn_without_waiting(connect):
    async with LoopbackServer(answering()) as provider:
        client = await connect(provider.base_url)
        first = client.post("agent/cancel", {"turnId": "early"})
        client.post("agent/runTurn", {"text": "go", "turnId": "early"})
        assert await client.answer(first) == {"state": "cancelling"}
        assert (await client.event("turnEnded", turnId="early"))["outcome"] == "cancelled"
        asked = client.post("agent/runTurn", {"text": "go", "turnId": "late"})
        second = client.post("agent/cancel", {"turnId": "late"})
        state = (await client.answer(second))["state"]
        assert (await client.answer(asked))["turnId"] == "late"
        ended = await client.event("turnEnded", turnId="late")
        assert (state, ended["outcome"]) == ("cancelling", "cancelled")
        for turn_id in ("early", "late"):
            await check_end(client, turn_id)
        assert [request for request in provider.requests if request.method == "POST"] == []


async def test_twice_and_after_the_end(connect):
    async with LoopbackServer(ScriptedModel([reply("One ", Wait())])) as provider:
        client = await connect(provider.base_url)
        started = await client.ask("go")
        await client.event("textDelta")
        params = {"turnId": started["turnId"]}
        first, second = (client.post("agent/cancel", params) for _ in range(2))
        assert await client.answer(first) == {"state": "cancelling"}
        assert (await client.answer(second))["state"] in {"cancelling", "ended"}
        await client.event("turnEnded")
        assert await client.request("agent/cancel", params) == {"state": "ended"}
        assert await client.request("agent/cancel", {"conversationId": started["conversationId"]}) == {"state": "ended"}
        await check_end(client, started["turnId"])
        assert [event["state"] for event in client.events("activityUpdated")].count("cancelling") == 1


async def test_by_cancel_request_a_turn_never_was_or_is_answered(connect):
    """R6: before the turn is taken in it never exists, after that the cancel of the request means nothing."""
    async with LoopbackServer(answering()) as provider:
        client = await connect(provider.base_url)
        fates = set()
        for number in range(40):
            turn_id = f"turn_{number}"
            asked = client.post("agent/runTurn", {"text": "go", "turnId": turn_id})
            await client.process.stdin.drain()
            await asyncio.sleep(random.choice([0, 0, 0.001, 0.002, 0.004]))
            client.notify("$/cancelRequest", {"id": asked})
            try:
                answer = await client.answer(asked)
            except RpcError as error:
                fates.add(error.code)
                with pytest.raises(RpcError) as unknown:
                    await client.request("agent/turnWait", {"turnId": turn_id})
                assert unknown.value.name == "turnNotFound"
                assert not any(event.get("turnId") == turn_id for event in client.events())
            else:
                fates.add(answer["disposition"])
                assert (await client.event("turnEnded", turnId=turn_id))["outcome"] == "completed"
            assert sum("method" not in m and m.get("id") == asked for m in client.received) == 1
        assert fates == {-32800, "started"}
        assert await client.stop() == 0


async def test_by_cancel_request_of_a_wait_the_turn_goes_on(connect):
    async with LoopbackServer(ScriptedModel([reply("One ", Wait(0.2), "two.")])) as provider:
        client = await connect(provider.base_url)
        started = await client.ask("go")
        waiting = client.post("agent/turnWait", {"turnId": started["turnId"]})
        client.notify("$/cancelRequest", {"id": waiting})
        assert (await client.answer_error(waiting))["code"] == -32800
        assert (await client.event("turnEnded"))["outcome"] == "completed"


def in_stream(mark):
    return reply("One ", Wait())


def in_command(mark):
    return reply(Call("bash", {"command": TERM_IGNORER.format(mark=mark)}))


def in_question(mark):
    return reply(Call("read", {"path": "../outside.txt"}))


async def begun(client, where, mark):
    """A turn that waits where it was told to."""
    started = await client.ask("go")
    if where is in_command:
        await client.poll(lambda: asleep(mark))
    else:
        await client.event(*{in_stream: ("textDelta",), in_question: ("toolUpdated",)}[where])
    if where is in_question:
        await client.until(lambda message: message.get("method") == "agent/requestPermission")
    return started


@pytest.mark.parametrize("way", ["shutdown", "end of input", "SIGTERM"])
@pytest.mark.parametrize("where", [in_stream, in_command, in_question])
async def test_by_the_end_of_the_session(connect, way, where):
    mark = new_mark()
    model = ScriptedModel([where(mark), reply("Fine again.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url, **settings())
        started = await begun(client, where, mark)
        moment = time.monotonic()
        if way == "shutdown":
            await client.request("shutdown")
            assert client.events("turnEnded")
            client.notify("exit", {})
        elif way == "end of input":
            client.process.stdin.close()
        else:
            client.process.send_signal(signal.SIGTERM)
        assert await client.gone() == (0 if way == "shutdown" else 1)
        assert time.monotonic() - moment < IN_TIME_AT_LAST + 1
        (ended,) = client.events("turnEnded")
        of_turn = [event["type"] for event in client.events() if event.get("turnId") == started["turnId"]]
        assert (ended["outcome"], of_turn[-1]) == ("cancelled", "turnEnded")
        assert living(mark) == []
        client = await connect(provider.base_url, **settings())
        stored = await client.request("agent/turnWait", {"turnId": started["turnId"]})
        assert stored["outcome"] == "cancelled"
        await goes_on(client, model, conversationId=started["conversationId"])


class TestHeadless:
    @pytest.fixture
    async def start(self, home, workspace):
        """Start `tinsmith run` with this provider; ended at the latest with its test."""
        processes = []

        async def start(provider, *options, **pipes):
            names = {f"TINSMITH_{kind}_DIR": str(home / kind.lower()) for kind in ("DATA", "CONFIG", "CACHE")}
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "tinsmith", "run", "--base-url", provider.base_url, "--model", "x", *options, "go"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=pipes.get("stdout", asyncio.subprocess.PIPE),
                stderr=asyncio.subprocess.PIPE,
                cwd=workspace,
                env={"PATH": os.environ["PATH"], "HOME": str(home), **names},
            )
            processes.append(process)
            return process

        yield start
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()

    @pytest.mark.parametrize("options", [(), ("--json",)])
    async def test_a_reader_that_has_enough_stops_the_turn_quietly(self, start, options):
        """As in `tinsmith run … | head`."""
        endless = ScriptedModel(lambda request: reply("word " * 100_000), pace=0.001)
        async with LoopbackServer(endless) as provider:
            read, write = os.pipe()
            process = await start(provider, *options, stdout=write)
            os.close(write)
            assert await asyncio.to_thread(os.read, read, 4)
            os.close(read)
            async with asyncio.timeout(10):
                errors = await process.stderr.read()
                assert await process.wait() == 130
        assert errors == b""

    async def test_control_c_before_the_first_byte(self, start):
        async with LoopbackServer(RawAnswer((float("inf"),), is_silent=True)) as provider:
            process = await start(provider)
            await self.until(lambda: any(request.method == "POST" for request in provider.requests))
            process.send_signal(signal.SIGINT)
            _, errors = await process.communicate()
        assert process.returncode == 130
        assert errors == b"tinsmith run: cancelled.\n"

    async def test_control_c_twice_does_not_wait(self, start):
        mark = new_mark()
        model = ScriptedModel([reply("Now. ", Call("bash", {"command": TERM_IGNORER.format(mark=mark)}))])
        async with LoopbackServer(model) as provider:
            process = await start(provider, "--permission-mode", "full")
            await self.until(lambda: asleep(mark))
            process.send_signal(signal.SIGINT)
            await asyncio.sleep(0.1)
            process.send_signal(signal.SIGINT)
            moment = time.monotonic()
            assert await process.wait() == 130
            assert time.monotonic() - moment < 0.5
        for number in living(mark):  # without a sandbox, what does not listen to TERM has nobody left to kill it
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)

    async def test_control_c_twice_reaches_a_run_whose_reader_sleeps(self, start):
        """The loop is stuck in a write to a full pipe."""
        endless = ScriptedModel(lambda request: reply("word " * 100_000))
        async with LoopbackServer(endless) as provider:
            process = await start(provider, "--json")
            await self.until(lambda: len(process.stdout._buffer) > 0)
            pipe = process._transport.get_pipe_transport(1)
            pipe.pause_reading()
            await self.until(lambda: self.is_stuck(process.pid))
            process.send_signal(signal.SIGINT)
            await asyncio.sleep(0.1)
            process.send_signal(signal.SIGINT)
            async with asyncio.timeout(5):
                while process.returncode is None:
                    await asyncio.sleep(0.01)
            assert process.returncode == 130
            pipe.resume_reading()
            await process.stdout.read()

    @staticmethod
    async def until(condition):
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0.01)

    @staticmethod
    def is_stuck(pid):
        return "pipe_w" in Path(f"/proc/{pid}/wchan").read_text()
