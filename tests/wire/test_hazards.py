"""Eighteen ways in which a language server can hang, lie or die on its wire, each against the running server."""

import asyncio
import json
import os
import signal
import sys
import time

import pytest
from tests.wire.buffer import text_hash
from tests.wire.client import RpcError, frame
from tests.wire.faults import BROKEN_VIEW, NOISE, SLOW_NAMES, planted

from tinsmith.demo.server import LoopbackServer, RawAnswer
from tinsmith.llm.scripted import Call, ScriptedModel, reply

FULL = {"initializationOptions": {"settings": {"permission_mode": "full"}}}
SILENT = RawAnswer((float("inf"),), is_silent=True)
NOWHERE = "http://127.0.0.1:9/v1"


def reading(request):
    """A model that reads the file a message names, then says so."""
    last = request.messages[-1]
    return reply(Call("read", {"path": last.text})) if hasattr(last, "text") else reply("Read.")


async def shown(client, name):
    """The file as the read tool shows it to the model."""
    ended = await client.turn(name)
    return next(
        event["result"]
        for event in client.events("toolUpdated")
        if event["turnId"] == ended["turnId"] and event.get("result")
    )


async def log_of(client):
    """What the server wrote to stderr until it ended."""
    return (await client.process.stderr.read()).decode()


async def test_1_a_nested_jsonrpc_object_anywhere_is_only_data(connect):
    bait = {"jsonrpc": "2.0", "id": 7, "method": "shutdown", "error": {"jsonrpc": "2.0"}}
    text = json.dumps(bait)
    model = ScriptedModel([reply(Call("bash", {"command": f"echo '{text}'"})), reply(text)])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url)
        client.answers["agent/requestPermission"] = lambda _: {"optionId": "allow_once", "_meta": bait, "jsonrpc": bait}
        ended = await client.turn(text, _meta=bait, input=[{"type": "text", "text": text, "extra": [bait]}])
        assert ended["outcome"] == "completed"
        assert client.events("itemUpdated")[-1]["item"]["text"] == text
        assert client.answers_to(7) == []


async def test_2_invalid_params_are_answered(connect):
    client = await connect(NOWHERE)
    for params in ({"limit": "many"}, {"query": 3}, [], [1], "text", 7, True, {"query": [[[]]]}):
        asked = client.post("agent/conversationList", params)
        refused = await client.answer_error(asked)
        assert (refused["code"], refused["data"]["code"]) == (-32602, "invalidParams")
        assert len(client.answers_to(asked)) == 1


async def test_2_missing_and_null_params_are_no_params(connect):
    client = await connect(NOWHERE)
    client.send({"jsonrpc": "2.0", "id": "absent", "method": "agent/conversationList"})
    client.send({"jsonrpc": "2.0", "id": "null", "method": "agent/conversationList", "params": None})
    assert await client.answer("absent") == await client.answer("null") == {"conversations": []}
    client.send({"jsonrpc": "2.0", "id": "needed", "method": "agent/turnWait", "params": None})
    assert (await client.answer_error("needed"))["code"] == -32602


async def test_3_every_result_can_be_encoded(connect, workspace):
    """File names that are no UTF-8, bytes that are no text, halves of surrogate pairs: all come out as some text."""
    odd = os.fsencode(workspace) + b"/\xff\xe9.txt"
    with open(odd, "wb") as file:
        file.write(b"ok\n")
    calls = (
        Call("read", {"path": "."}),
        Call("bash", {"command": "ls; printf '\\377\\n'"}),
        Call("x", '{"a": "\\ud800"}'),
    )
    half = json.dumps({"choices": [{"delta": {"content": "Done \ud800."}, "finish_reason": "stop"}]})
    answers = (ScriptedModel([reply(*calls)]), RawAnswer((f"data: {half}\n\ndata: [DONE]\n\n".encode(),)))
    async with LoopbackServer(*answers) as provider:
        client = await connect(provider.base_url, **FULL)
        client.send({"jsonrpc": "2.0", "id": "odd", "method": "agent/conversationNew", "params": {"title": "\ud83d"}})
        identifier = (await client.answer("odd"))["conversation"]["conversationId"]
        uri = f"{workspace.as_uri()}/%FF%E9.txt"
        client.notify("textDocument/didOpen", {"textDocument": {"uri": uri, "version": 1, "text": "odd"}})
        client.notify(
            "textDocument/didChange", {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": "x"}]}
        )
        ended = await client.turn("go", conversationId=identifier)
        assert ended["outcome"] == "completed"
        requests = {
            "agent/conversationLoad": {},
            "agent/historyRead": {},
            "agent/inspect": {"what": "messages"},
            "agent/turnWait": {"turnId": ended["turnId"]},
            "agent/subscribe": {"afterSeq": 0, "epoch": ended["epoch"]},
            "agent/configGet": {},
        }
        for method, params in requests.items():
            await client.request(method, {"conversationId": identifier, **params})
        await client.request("agent/inspect", {"what": "context", "conversationId": identifier})
        sequence = [event["seq"] for event in client.events() if event["conversationId"] == identifier]
        assert sorted({*sequence}) == list(range(1, ended["seq"] + 2))


async def test_4_keys_that_python_would_rename_survive(connect):
    odd = {"_meta": 1, "class": {"type_name": [2], "from": None}, "0": "zero", "": "empty", "id": 9}
    async with LoopbackServer(ScriptedModel([reply(Call("read", odd)), reply("Done.")])) as provider:
        client = await connect(provider.base_url)
        await client.turn("go", _meta={"traceparent": "00-1"}, **{"class": "x", "type_name": "y"})
        assert [event["args"] for event in client.events("toolUpdated") if "args" in event][-1] == odd


async def test_5_a_bug_is_told_by_number_and_its_traceback_stays_in_the_log(connect, tmp_path):
    client = await connect(NOWHERE, environment=planted(tmp_path / "fault", BROKEN_VIEW))
    made = await client.request("agent/conversationNew", {})
    identifier = made["conversation"]["conversationId"]
    with pytest.raises(RpcError) as refused:
        await client.request("agent/inspect", {"what": "messages", "conversationId": identifier})
    assert (refused.value.code, refused.value.name) == (-32603, "internal")
    assert "broken" not in json.dumps(client.received)
    assert str(tmp_path / "fault") not in json.dumps(client.received)
    assert await client.stop() == 0
    log = await log_of(client)
    assert refused.value.data["errorId"] in log
    assert "ValueError: broken in" in log


async def test_6_many_slow_requests_keep_nobody_waiting(connect):
    async with LoopbackServer(SILENT) as provider:
        client = await connect(provider.base_url)
        started = await client.ask("go")
        slow = [client.post("agent/turnWait", {"turnId": started["turnId"]}) for _ in range(500)]
        before = time.monotonic()
        await client.request("agent/configGet", {})
        assert await client.request("agent/cancel", {"turnId": started["turnId"]}) == {"state": "cancelling"}
        assert time.monotonic() - before < 2
        for each in slow:
            assert (await client.answer(each))["outcome"] == "cancelled"


async def test_7_a_cancelled_request_is_answered_once_and_its_turn_goes_on(connect):
    async with LoopbackServer(SILENT) as provider:
        client = await connect(provider.base_url)
        started = await client.ask("go")
        waiting = client.post("agent/turnWait", {"turnId": started["turnId"]})
        for request_id in (waiting, waiting, 4711, "nobody", started["turnId"], None, []):
            client.notify("$/cancelRequest", {"id": request_id})
        assert (await client.answer_error(waiting))["code"] == -32800
        client.notify("$/cancelRequest", {"id": waiting})
        assert await client.request("agent/cancel", {"turnId": started["turnId"]}) == {"state": "cancelling"}
        await client.event("turnEnded", turnId=started["turnId"])
        assert len(client.answers_to(waiting)) == 1


async def test_7_a_turn_whose_request_is_cancelled_before_it_is_read_never_was(connect):
    async with LoopbackServer(ScriptedModel(lambda _: reply("Here."))) as provider:
        client = await connect(provider.base_url)
        ask = {"jsonrpc": "2.0", "id": "ask", "method": "agent/runTurn", "params": {"text": "go", "turnId": "mine"}}
        cancel = {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": "ask"}}
        client.write(frame(ask) + frame(cancel))
        assert (await client.answer_error("ask"))["code"] == -32800
        with pytest.raises(RpcError) as unknown:
            await client.request("agent/turnWait", {"turnId": "mine"})
        assert unknown.value.name == "turnNotFound"
        assert (await client.turn("again"))["outcome"] == "completed"
        assert len(client.answers_to("ask")) == 1


async def test_8_a_question_that_a_cancel_made_pointless_is_taken_back_and_a_late_answer_harms_nobody(connect):
    model = ScriptedModel([reply(Call("bash", {"command": "make"})), reply("Next.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url)
        started = await client.ask("go")
        asked = await client.until(lambda message: message.get("method") == "agent/requestPermission")
        await client.request("agent/cancel", {"turnId": started["turnId"]})
        taken_back = await client.until(lambda message: message.get("method") == "$/cancelRequest")
        assert taken_back["params"] == {"id": asked["id"]}
        ended = await client.event("turnEnded", turnId=started["turnId"])
        assert ended["outcome"] == "cancelled"
        for late in ({"result": {"optionId": "allow_once"}}, {"error": {"code": -32800, "message": "cancelled"}}):
            client.send({"jsonrpc": "2.0", "id": asked["id"], **late})
        assert (await client.turn("on"))["outcome"] == "completed"
        assert await client.stop() == 0
    assert await log_of(client) == ""


async def test_9_a_client_that_stops_reading_stops_nobody(connect, workspace):
    await sleeping(connect, workspace, seconds=1.2)


@pytest.mark.long
async def test_9_a_client_that_stops_reading_for_half_a_minute_stops_nobody(connect, workspace):
    await sleeping(connect, workspace, seconds=30)


async def sleeping(connect, workspace, *, seconds):
    """The provider is read to its end, calls run, memory stays; what comes after the sleep is whole and in order."""
    words = [f"word{number} " for number in range(40_000)]
    chunks = [json.dumps({"choices": [{"delta": {"content": word}}]}) for word in words]
    batches = [
        "".join(f"data: {chunk}\n\n" for chunk in chunks[at : at + 400]).encode() for at in range(0, len(chunks), 400)
    ]
    pause = seconds / 2 / len(batches)
    call = {"index": 0, "id": "c", "function": {"name": "bash", "arguments": json.dumps({"command": "touch ran"})}}
    last = json.dumps({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]})
    stream = [piece for batch in batches for piece in (batch, pause)]
    long_answer = RawAnswer((*stream, f"data: {last}\n\ndata: [DONE]\n\n".encode()))
    async with LoopbackServer(long_answer, ScriptedModel(lambda _: reply("Awake."))) as provider:
        client = await connect(provider.base_url, **FULL)
        started = await client.ask("go")
        await client.event("textDelta")
        before = memory(client)
        client.sleep()
        slept_at = time.monotonic()
        await client.poll(lambda: len([each for each in provider.requests if each.method == "POST"]) == 2)
        assert (workspace / "ran").exists()
        waiting = client.post("agent/configGet", {})
        await asyncio.sleep(max(0.0, seconds - (time.monotonic() - slept_at)))
        assert memory(client) - before < 40_000_000
        received = len(client.received)
        client.wake()
        await client.answer(waiting)
        ended = await client.event("turnEnded", turnId=started["turnId"])
    assert ended["outcome"] == "completed"
    assert len(client.received) > received
    events = [event for event in client.events() if event["conversationId"] == started["conversationId"]]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    first = [
        delta for delta in client.events("textDelta") if delta["itemId"] == client.events("textDelta")[0]["itemId"]
    ]
    assert "".join(delta["text"] for delta in first) == "".join(words)
    assert len(first) < len(words) / 2, "under pressure deltas are joined"
    assert client.events("itemUpdated")[0]["item"]["text"] == "".join(words)


def memory(client):
    """Bytes that the server process holds in memory."""
    with open(f"/proc/{client.process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_10_nothing_that_writes_to_stdout_reaches_the_wire(connect, workspace, tmp_path):
    """SYNC-07: print, os.write(1), a child, a warning; whoever does it, every byte of the wire is a frame."""
    (workspace / "a.txt").write_text("here\n")
    command = "echo boo; echo boo >&2; cat <&0; echo boo > /dev/stdout"
    model = ScriptedModel([reply(Call("read", {"path": "a.txt"}), Call("bash", {"command": command})), reply("Done.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url, environment=planted(tmp_path / "fault", NOISE), **FULL)
        assert (await client.turn("go"))["outcome"] == "completed"
        assert await client.stop() == 0
    assert client.stray == b""
    log = await log_of(client)
    for noise in ("boo from print", "boo from write", "boo from a child", "boo from a warning"):
        assert noise in log


async def test_11_headers_are_read_in_any_case_and_order(connect):
    heads = (
        b"content-length: %d\r\n\r\n",
        b"CONTENT-LENGTH:%d\r\n\r\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: %d \r\nX: y\r\n\r\n",
    )
    client = await connect(NOWHERE)
    for number, head in enumerate(heads * 2, 801):
        body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "agent/conversationList"}).encode()
        client.write(head % len(body) + body)
        await client.answer(number)


@pytest.mark.parametrize(
    ("broken", "is_initialized"),
    [
        (b"Content-Length: -5\r\n\r\n", True),
        (b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", True),
        (b"Length: 5\r\n\r\nhello", True),
        (b"x" * 70_000, True),
        (b"Content-Length: 99999999999\r\n\r\n", False),
        (b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", False),
        (b"x" * 70_000, False),
    ],
)
async def test_11_a_stream_out_of_step_is_told_and_ended(connect, broken, is_initialized):
    client = await connect(NOWHERE, initialize=is_initialized)
    client.write(broken)
    told = await client.until(lambda message: "error" in message)
    assert (told["id"], told["error"]["code"]) == (None, -32700)
    assert await client.gone() == 1


async def test_11_a_whole_request_before_the_break_is_still_answered(connect):
    client = await connect(NOWHERE)
    client.write(frame({"jsonrpc": "2.0", "id": 5, "method": "agent/conversationList"}) + b"Content-Length: x\r\n\r\n")
    assert await client.answer(5) == {"conversations": []}
    assert await client.gone() == 1


async def test_11_batches_and_bad_json_are_refused_before_and_after_initialize(connect):
    client = await connect(initialize=False)
    for is_initialized in (False, True):
        if is_initialized:
            await client.initialize()
        for body, code in (
            (b"[]", -32600),
            (b'[{"jsonrpc":"2.0","id":1,"method":"x"}]', -32600),
            (b"{", -32700),
            (b"", -32700),
        ):
            after = len(client.received)
            client.write(frame(body))
            refused = await client.until(lambda message: "error" in message, after)
            assert (refused["id"], refused["error"]["code"]) == (None, code)


async def test_12_before_initialize_and_after_shutdown_every_request_is_refused(connect):
    client = await connect(initialize=False)
    for request_id, method in enumerate(("agent/configGet", "shutdown", "textDocument/hover"), 10):
        client.send({"jsonrpc": "2.0", "id": request_id, "method": method})
        assert (await client.answer_error(request_id))["data"]["code"] == "notInitialized"
    client.notify("textDocument/didOpen", {"textDocument": {"uri": "file:///a", "version": 1, "text": ""}})
    client.send({"jsonrpc": "2.0", "id": 13, "result": None})
    await client.initialize()
    await client.request("shutdown")
    for request_id, method in enumerate(("agent/configGet", "shutdown", "initialize"), 20):
        client.send({"jsonrpc": "2.0", "id": request_id, "method": method})
        assert (await client.answer_error(request_id))["data"]["code"] == "shutdown"
    assert client.answers_to(13) == []
    client.notify("exit", {})
    assert await client.gone() == 0


async def test_12_a_goodbye_in_one_breath_is_answered(connect):
    """Requests, `shutdown`, `exit` and the end of input in one write: each is answered, and the code is that of LSP."""
    client = await connect(NOWHERE)
    messages = [{"jsonrpc": "2.0", "id": number, "method": "agent/conversationList"} for number in (61, 62)]
    messages += [{"jsonrpc": "2.0", "id": 63, "method": "shutdown"}, {"jsonrpc": "2.0", "method": "exit"}]
    client.write(b"".join(map(frame, messages)))
    client.process.stdin.close()
    assert await client.gone() == 0
    assert [client.answers_to(number)[0].get("result", 0) for number in (61, 62, 63)] == [{"conversations": []}] * 2 + [
        None
    ]


STUBBORN = Call("bash", {"command": "trap '' TERM INT HUP; sleep 60 & sleep 60"})


@pytest.mark.parametrize(
    ("work", "end"),
    [("silence", "end of input"), ("command", "end of input"), ("command", "SIGTERM"), ("question", "exit")],
)
async def test_13_the_end_comes_soon_whatever_runs(connect, work, end):
    answer = SILENT if work == "silence" else ScriptedModel([reply(STUBBORN)])
    async with LoopbackServer(answer) as provider:
        client = await connect(provider.base_url, **({} if work == "question" else FULL))
        started = await client.ask("go")
        if work == "command":
            await client.event("toolUpdated", status="running")
        elif work == "question":
            await client.until(lambda message: message.get("method") == "agent/requestPermission")
        before = time.monotonic()
        leave(client, end)
        assert await client.gone() == 1
        assert time.monotonic() - before < 4
        ended = client.events("turnEnded")
        assert [(event["turnId"], event["outcome"]) for event in ended] == [(started["turnId"], "cancelled")]


def leave(client, end):
    """Go away in one of the ways that an editor has."""
    if end == "end of input":
        client.process.stdin.close()
    elif end == "SIGTERM":
        client.process.send_signal(signal.SIGTERM)
    else:
        client.notify("exit", None)


async def test_13_a_thread_that_nobody_can_interrupt_does_not_hold_the_process(connect, tmp_path):
    environment = {"LLM_API_KEY": "k-test", **planted(tmp_path / "fault", SLOW_NAMES)}
    client = await connect("http://nobody.invalid:9/v1", environment=environment)
    await client.ask("go")
    await client.poll((tmp_path / "fault" / "sitecustomize.py.asked").exists)
    before = time.monotonic()
    client.process.stdin.close()
    assert await client.gone() == 1
    assert time.monotonic() - before < 4


async def test_13_a_client_that_reads_no_more_gets_no_goodbye_and_holds_nobody(connect):
    async with LoopbackServer(ScriptedModel(lambda _: reply("word " * 20_000))) as provider:
        client = await connect(provider.base_url)
        client.sleep()
        client.post("agent/runTurn", {"text": "go"})
        await client.poll(lambda: any(each.method == "POST" for each in provider.requests))
        before = time.monotonic()
        client.process.stdin.close()
        assert await client.died() == 1
        assert time.monotonic() - before < 4


async def test_13_a_client_that_closed_its_end_of_the_wire_is_gone(connect):
    async with LoopbackServer(ScriptedModel(lambda _: reply("word " * 20_000))) as provider:
        client = await connect(provider.base_url)
        client.post("agent/runTurn", {"text": "go"})
        await client.event("textDelta")
        client.process._transport.get_pipe_transport(1).close()
        before = time.monotonic()
        assert await client.died() == 1
        assert time.monotonic() - before < 4


ODD_LINES = "one\x0cstill one\x0bstill\ntwo\u2028still two\x85still\nthree\x1c\x1d\x1estill\r\nfour\u2029still\n"


async def test_14_only_newlines_end_a_line_in_changes(connect, workspace):
    """EDIT-09: form feed, VT, NEL, FS, U+2028 and U+2029 are characters of their line."""
    async with LoopbackServer(ScriptedModel(reading)) as provider:
        client = await connect(provider.base_url)
        uri = client.open(workspace / "odd.txt", ODD_LINES)
        client.splice(uri, (3, 0, 3, 4, "FOUR"), (1, 3, 1, 4, "-"))
        text = await shown(client, "odd.txt")
        assert "\n    2\ttwo-still two\x85still\n" in text
        assert "\n    4\tFOUR\u2029still\n" in text
        assert "lines: 4\n" in text


async def test_15_stale_and_future_versions_and_documents_that_are_not_open(connect, workspace):
    (workspace / "other.txt").write_bytes(b"caf\xc3\xa9\r\nzwei\r\n")
    async with LoopbackServer(ScriptedModel(reading)) as provider:
        client = await connect(provider.base_url)
        uri = client.open(workspace / "a.txt", "one\n", version=5)
        client.splice(uri, (0, 0, 0, 0, "stale "), version=4)
        client.splice(uri, (0, 0, 0, 0, "future "), version=99)
        client.splice(uri, (0, 0, 0, 0, "stale again "), version=98)
        unopened = (workspace / "other.txt").as_uri()
        client.texts[unopened] = (1, "")
        client.splice(unopened, (0, 0, 0, 0, "never opened "))
        client.notify("textDocument/didClose", {"textDocument": {"uri": unopened}})
        client.notify("textDocument/didSave", {"textDocument": {"uri": (workspace / "nothing.txt").as_uri()}})
        assert "\n    1\tfuture one\n" in await shown(client, "a.txt")
        other = await shown(client, "other.txt")
        assert "source: disk" in other
        assert "\n    1\tcafé\n    2\tzwei\n" in other
        assert [message for message in client.received if str(message.get("method")).startswith("window/")] == []


@pytest.mark.parametrize("end", ["\n", " "], ids=["in lines", "in one line"])
async def test_16_a_large_document_is_changed_quickly_and_rightly(connect, workspace, end):
    """Changes of 9 MB; one single line of it is the worst that an editor can send."""
    piece = f"naïve 🚀 text of some length, and so on{end}"
    pieces = [piece] * 200_000
    units = len(piece.encode("utf-16-le")) // 2
    async with LoopbackServer(ScriptedModel(reading)) as provider:
        client = await connect(provider.base_url)
        uri = client.open(workspace / "big.txt", "".join(pieces))
        await client.request("agent/conversationList", {})
        before = time.monotonic()
        for row in range(190_000, 0, -1_900 if end == "\n" else -19_000):
            at = (row, 8) if end == "\n" else (0, row * units + 8)
            client.splice(uri, (*at, *at, f"<{row}>"))
            pieces[row] = f"{piece[:7]}<{row}>{piece[7:]}"
        await client.request("agent/conversationList", {})
        assert time.monotonic() - before < 4
        assert f"hash: {text_hash(''.join(pieces))}\n" in await shown(client, "big.txt")


async def test_17_what_goes_wrong_is_no_pop_up(connect):
    client = await connect(NOWHERE)
    for body in (
        b"{",
        b"[]",
        b"7",
        b'{"jsonrpc":"2.0","id":true,"method":"x"}',
        b'{"jsonrpc":"2.0","method":"initialized"}',
    ):
        client.write(frame(body))
    client.notify("textDocument/didOpen", {"textDocument": 7})
    client.notify(
        "textDocument/didChange", {"textDocument": {"uri": "file:///a%00", "version": 1}, "contentChanges": [{}]}
    )
    client.notify("no/such", {})
    client.notify("$/setTrace", {"value": "verbose"})
    client.send({"jsonrpc": "2.0", "id": 4711, "result": {}})
    for request_id in ("a", "b"):
        client.send({"jsonrpc": "2.0", "id": request_id, "method": "$/unknown"})
        assert (await client.answer_error(request_id))["code"] == -32601
    assert {message.get("method") for message in client.received} == {None}


async def test_18_saving_is_announced_and_told(connect, workspace):
    """A command's result names the documents with unsaved changes, and a saved one no more."""
    path = workspace / "a.txt"
    path.write_text("disk\n")
    bash = reply(Call("bash", {"command": "true"}))
    async with LoopbackServer(ScriptedModel([bash, reply("Ok."), bash, reply("Ok.")])) as provider:
        client = await connect(provider.base_url, **FULL)
        sync = client.received[0]["result"]["capabilities"]["textDocumentSync"]
        assert sync == {"openClose": True, "change": 2, "save": {"includeText": False}}
        uri = client.open(path, "disk\n")
        client.splice(uri, (0, 0, 0, 0, "un"))
        await client.turn("go")
        path.write_text("undisk\n")
        client.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
        await client.turn("go")
        told = [event["result"] for event in client.events("toolUpdated") if event.get("result")]
        assert ["a.txt" in result for result in told] == [True, False]


async def test_a_client_whose_process_died_takes_the_server_along(connect):
    """Its pipes may live on in a child of its own; its pid does not."""
    client = await connect(initialize=False)
    editor = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(60)")
    await client.initialize(processId=editor.pid)
    await client.request("agent/configGet", {})
    editor.kill()
    await editor.wait()
    assert await asyncio.wait_for(client.gone(), 5) == 1


async def test_a_log_that_nobody_reads_stops_nobody(connect):
    client = await connect(NOWHERE)
    client.sleep(2)
    for number in range(3_000):
        client.send({"jsonrpc": "2.0", "id": f"unasked {number} {'x' * 60}", "result": {}})
    assert await client.request("agent/conversationList", {}) == {"conversations": []}
    await client.request("shutdown")
    client.notify("exit", {})
    assert await client.died() == 0
