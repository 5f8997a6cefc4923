"""Conversations as they broke in the field (ST-…): cancelled, killed, shared, overgrown, their workspace gone."""

import asyncio
import json
import os
import random
import re
import shutil
from contextlib import asynccontextmanager

import lmdb
import msgspec
import pytest
from tests.wire.buffer import text_hash
from tests.wire.client import Client
from tests.wire.crash.bodies import history_of
from tests.wire.faults import planted
from tests.wire.talk import bodies_of

from tinsmith.demo.server import LoopbackServer, RawAnswer
from tinsmith.domain.conversation import Conversation
from tinsmith.domain.message import AssistantMessage, TextPart, ToolCall, ToolMessage, Usage, UserMessage
from tinsmith.llm.scripted import Call, ScriptedModel, reply
from tinsmith.store import Store

FULL = {
    "permission_mode": "full",
    "llm_config": {"retry_backoff_ms": [0]},
    "empty_response_retry_backoff_ms": [0],
}
OPTIONS = {"initializationOptions": {"settings": FULL}}
OVERFLOW = RawAnswer(
    (b'{"error": {"message": "too long", "code": "context_length_exceeded"}}',), 400, "application/json"
)


def fine() -> ScriptedModel:
    return ScriptedModel(lambda _: reply("Fine."))


def script(*replies) -> ScriptedModel:
    return ScriptedModel([*replies])


async def load(client, identifier):
    return await client.request("agent/conversationLoad", {"conversationId": identifier})


async def history(client, identifier):
    """Every item of a conversation, oldest first."""
    page = await client.request("agent/historyRead", {"conversationId": identifier, "limit": 500, "direction": "newer"})
    assert page.get("nextCursor") is None
    return page["items"]


async def test_st_01_a_cancelled_call_has_its_result_at_once_and_after_a_restart(connect):
    sleeps = script(reply(Call("bash", {"command": "echo begun; sleep 99"}), Call("bash", {"command": "touch never"})))
    async with LoopbackServer(sleeps, fine()) as provider:
        client = await connect(provider.base_url, **OPTIONS)
        started = await client.ask("run it")
        await client.event("toolOutput")
        await client.request("agent/cancel", {"turnId": started["turnId"]})
        await client.event("turnEnded", outcome="cancelled")
        assert (await client.turn("never mind, say hi"))["outcome"] == "completed"
        assert await client.stop() == 0
        client = await connect(provider.base_url, **OPTIONS)
        assert (await client.turn("and again"))["outcome"] == "completed"
        first, after_cancel, after_restart = (body["messages"][1:] for body in bodies_of(provider))
    assert [message["role"] for message in after_cancel] == ["user", "assistant", "tool", "tool", "user"]
    assert [message["content"] for message in after_cancel[2:]] == [
        "cancelled\nbegun\n",
        "Not run: the user stopped the turn.",
        "never mind, say hi",
    ]
    assert after_restart[: len(after_cancel)] == after_cancel
    assert after_cancel[: len(first)] == first


async def test_st_05_what_was_refused_as_too_long_is_never_sent_again(connect, workspace):
    """The results that made it too long stay with their call, in every request and after a restart."""
    (workspace / "long.txt").write_text("word " * 3000 + "\n")
    read = script(reply(Call("read", {"path": "long.txt"})))
    async with LoopbackServer(read, OVERFLOW, OVERFLOW, fine()) as provider:
        client = await connect(provider.base_url, **OPTIONS)
        ended = await client.turn("read it")
        assert (ended["outcome"], ended["error"]["code"]) == ("error", "contextWindow")
        assert (await client.turn("what now?"))["outcome"] == "completed"
        await client.kill()
        client = await connect(provider.base_url, **OPTIONS)
        assert (await client.turn("and now?"))["outcome"] == "completed"
        bodies = bodies_of(provider)
        (call,) = (item for item in await history(client, ended["conversationId"]) if item["kind"] == "tool")
    assert len({json.dumps(body) for body in bodies}) == len(bodies) == 5
    assert len(json.dumps(bodies[2])) < 0.6 * len(json.dumps(bodies[1]))
    assert "word word" in call["result"]


def chunk(delta: bytes, finish_reason: bytes = b"null") -> bytes:
    return b'data: {"choices":[{"delta":%b,"finish_reason":%b}]}\n\n' % (delta, finish_reason)


def call(index: int, arguments: bytes) -> bytes:
    function = b'{"name":"bash","arguments":"%b"}' % arguments
    return chunk(b'{"tool_calls":[{"index":%d,"id":"s%d","function":%b}]}' % (index, index, function))


SURROGATES = (
    chunk(rb'{"content":"ok \ud83d\u2026 and \udce9"}'),
    call(0, rb"{\"command\":\"ls\"}"),
    call(1, rb"{\"command\":\"echo \ud83d | wc -c\"}"),
    call(2, rb"{\"command\":\"echo \\ud83d\"}"),
    chunk(b"{}", b'"tool_calls"'),
    b"data: [DONE]\n\n",
)
"""Halves of characters in the text, in the arguments, and escaped once more inside the arguments."""


async def test_st_08_half_characters_never_reach_a_request_or_the_store(connect, home, workspace):
    """In an answer, in the arguments of a call, in the name of a file, in what a person says."""
    with open(bytes(workspace) + b"/caf\xe9.txt", "w") as file:
        file.write("named in Latin-1\n")
    look = script(reply(Call("read", {"path": "."})), reply("I see."))
    async with LoopbackServer(RawAnswer(SURROGATES), look, look, fine()) as provider:
        client = await connect(provider.base_url, **OPTIONS)
        ended = await client.turn("go")
        assert ended["outcome"] == "completed"
        assert await client.stop() == 0
        client = await connect(provider.base_url, **OPTIONS)
        assert (await client.turn("half a rocket: \ud83d"))["outcome"] == "completed"
        _, opening, answer, *results = bodies_of(provider)[-1]["messages"]
        items = await history(client, ended["conversationId"])
        assert await client.stop() == 0
    assert (opening["content"], answer["content"]) == ("go", "ok \ufffd… and \ufffd")
    assert [result["content"] for result in results[:2]] == ["exit: 0\ncaf\ufffd.txt\n", "exit: 0\n4\n"]
    assert "arguments of this call are cut off" in results[2]["content"]
    assert "caf\ufffd.txt\n" in results[4]["content"]
    assert results[-1]["content"] == "half a rocket: \ufffd"
    json.dumps(items, ensure_ascii=False).encode()
    raw = b"".join(path.read_bytes() for path in (home / "data").rglob("*") if path.is_file())
    assert re.search(rb"(?<!\\)\\u[dD][89a-fA-F]", raw) is None
    assert "ok \ufffd… and \ufffd".encode() in raw


SMALL_MAP = """
from tinsmith.store import Store

Store.open.__func__.__kwdefaults__["map_size"] = 1 << 20
"""
"""A server whose store begins with a map of 1 MB."""


async def test_st_09_a_store_that_must_grow_loses_no_turn(connect, home):
    """It grows to more than 5 MB, turn by turn, and every text is there when it is opened anew."""
    texts = {}
    echo = ScriptedModel(lambda request: reply(request.messages[-1].text.swapcase()))
    async with LoopbackServer(echo) as provider:
        client = await connect(provider.base_url, environment=planted(home / "fault", SMALL_MAP))
        for number in range(18):
            text = f"{number}" + "abcdefgh" * 10_000
            made = (await client.request("agent/conversationNew", {}))["conversation"]
            assert (await client.turn(text, conversationId=made["conversationId"]))["outcome"] == "completed"
            texts[made["conversationId"]] = [text, text.swapcase()]
        assert await client.stop() == 0
        assert (home / "data" / "store" / "data.mdb").stat().st_size > 5 << 20
        client = await connect(provider.base_url)
        for identifier, expected in texts.items():
            items = (await load(client, identifier))["snapshot"]["lastItems"]
            assert [item["text"] for item in items] == expected


async def kill_again_and_again(connect, workspace, times: int, seed: int) -> None:
    """Kill the server at random moments of its turns; what it announced is stored, and the conversation goes on."""
    chance = random.Random(seed)
    (workspace / "a.txt").write_text("here\n")

    def work(request):
        step = len(request.messages)
        calls = [Call("read", {"path": "a.txt"}), Call("bash", {"command": f"echo {step}"})]
        return reply(f"Step {step}.", *calls)

    said: dict[str, str] = {}
    results: dict[str, str] = {}
    identifier = None
    async with LoopbackServer(ScriptedModel(work)) as provider:
        for _ in range(times):
            client = await connect(provider.base_url, **OPTIONS)
            params = {"conversationId": identifier} if identifier else {}
            started = await client.ask("work", **params)
            identifier = started["conversationId"]
            wanted = chance.randrange(4, 40)
            await client.poll(lambda client=client, wanted=wanted: len(client.received) > wanted)
            await asyncio.sleep(chance.random() / 200)  # somewhere in the middle of what comes next
            await client.kill()
            said |= {event["item"]["itemId"]: event["item"]["text"] for event in client.events("itemUpdated")}
            ended = (event for event in client.events("toolUpdated") if event["status"] == "completed")
            results |= {event["callId"]: event["result"] for event in ended}
            assert client.events("turnEnded") == []
        client = await connect(provider.base_url, **OPTIONS)
        interrupted = await client.request("agent/turnWait", {"turnId": started["turnId"]})
        assert interrupted["outcome"] == "interrupted"
        kept = await history(client, identifier)
        assert (await client.turn("work", conversationId=identifier, overrides={"tool_step_budget": 2}))["outcome"]
        bodies_of(provider)
    assert len(said) >= times
    assert results
    assert said.items() <= {each["itemId"]: each["text"] for each in kept if each["kind"] == "assistant"}.items()
    assert results.items() <= {each["callId"]: each["result"] for each in kept if each["kind"] == "tool"}.items()


async def test_st_15_killed_at_random_nothing_announced_is_lost(connect, workspace):
    await kill_again_and_again(connect, workspace, 5, seed=15)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(3))
async def test_st_15_killed_many_times(connect, workspace, seed):
    await kill_again_and_again(connect, workspace, 40, seed)


@asynccontextmanager
async def servers(home, workspace, *providers):
    """Several servers on one store and one workspace, each with its own provider."""
    clients = [
        Client(home, workspace, TINSMITH_BASE_URL=provider.base_url, TINSMITH_MODEL="scripted")
        for provider in providers
    ]
    try:
        for client in clients:
            await client.start(**OPTIONS)
        yield clients
    finally:
        for client in clients:
            await client.kill()


async def test_st_17_two_servers_share_one_workspace(home, workspace, connect):
    """Both keep their conversations; the second edit of one file is refused as stale and then done right."""
    file = workspace / "a.txt"
    file.write_text("one\ntwo\n")
    read = reply(Call("read", {"path": "a.txt"}))

    def edit(before: str, line: str):
        part = {"op": "replace", "start": 1, "end": 1, "text": line}
        return reply(Call("edit", {"path": "a.txt", "hash": text_hash(before), "edits": [part]}))

    done = reply("Done.")
    first = script(read, done, edit("one\ntwo\n", "first"), done)
    second = script(read, done, edit("one\ntwo\n", "second"), read, edit("first\ntwo\n", "second"), done)
    async with LoopbackServer(first) as one, LoopbackServer(second) as other:
        async with servers(home, workspace, one, other) as (here, there):
            made = [await client.request("agent/conversationNew", {"title": "Mine"}) for client in (here, there)]
            mine, yours = ({"conversationId": each["conversation"]["conversationId"]} for each in made)
            reading = [await client.ask("read", **where) for client, where in ((here, mine), (there, yours))]
            for client, started in zip((here, there), reading, strict=True):
                assert (await client.event("turnEnded", turnId=started["turnId"]))["outcome"] == "completed"
            await here.turn("edit", **mine)
            after_first = file.read_text()
            assert after_first == "first\ntwo\n"
            await there.turn("edit", **yours)
            assert file.read_text() == "second\ntwo\n"
            refusal = bodies_of(other)[3]["messages"][-1]["content"]
            assert "is not the text with the hash" in refusal
            assert f"hash: {text_hash(after_first)}\n" in refusal
        client = await connect(one.base_url)
        listed = (await client.request("agent/conversationList", {}))["conversations"]
        assert {each["conversationId"] for each in listed} == {mine["conversationId"], yours["conversationId"]}
        for where in (mine, yours):
            items = (await load(client, where["conversationId"]))["snapshot"]["lastItems"]
            assert [item["text"] for item in items if item["kind"] == "user"] == ["read", "edit"]


async def test_st_19_a_conversation_outlives_its_workspace(connect, tmp_path, workspace):
    gone = tmp_path / "gone"
    gone.mkdir()
    (gone / "a.txt").write_text("here\n")
    calls = [
        Call("read", {"path": "a.txt"}),
        Call("read", {"path": "."}),
        Call("edit", {"path": "a.txt", "hash": "0" * 16, "edits": [{"op": "delete", "start": 1}]}),
        Call("bash", {"command": "echo hi"}),
    ]
    async with LoopbackServer(fine(), script(reply(*calls), reply("I see.")), fine()) as provider:
        client = await connect(provider.base_url, **OPTIONS)
        made = (await client.request("agent/conversationNew", {"workspace": gone.as_uri()}))["conversation"]
        where = {"conversationId": made["conversationId"]}
        await client.turn("hello", **where)
        await client.stop()
        shutil.rmtree(gone)
        client = await connect(provider.base_url, **OPTIONS)
        items = (await load(client, where["conversationId"]))["snapshot"]["lastItems"]
        assert [item["text"] for item in items] == ["hello", "Fine."]
        assert (await client.turn("go on", **where))["outcome"] == "completed"
        results = [each["content"] for each in bodies_of(provider)[-1]["messages"] if each["role"] == "tool"]
        assert (await client.turn("hello", workspace=workspace.as_uri()))["outcome"] == "completed"
    assert len(results) == len(calls)
    for result in results:
        assert "There is no " in result
        assert str(gone) in result or "a.txt" in result
    assert not gone.exists()


TURN = "t1"
OPENING = UserMessage("", TURN, (TextPart("a"),))
CALLING = AssistantMessage("", TURN, "i1", "", calls=(ToolCall("d1", "read", '{"path":"p"}'),))
LATER = UserMessage("", TURN, (TextPart("c"),))
HISTORIES = {
    "orphan": (
        (OPENING, ToolMessage("", TURN, "zz", "read", "lost"), AssistantMessage("", TURN, "i1", "b"), LATER),
        ["a", "b", "c", "go on"],
    ),
    "doubled": (
        (OPENING, CALLING, *(ToolMessage("", TURN, "d1", "read", said) for said in ("one", "two")), LATER),
        ["a", None, "one", "c", "go on"],
    ),
    "before its call": (
        (OPENING, ToolMessage("", TURN, "d1", "read", "early"), CALLING, LATER),
        ["a", None, "early", "c", "go on"],
    ),
}


@pytest.mark.parametrize("name", HISTORIES)
async def test_st_20_a_crooked_history_is_set_straight(connect, home, workspace, name):
    """Nothing is made up for a call that has a result."""
    messages, sent = HISTORIES[name]
    store = Store.open(str(home / "data" / "store"))

    def write(session):
        session.conversations.put(Conversation("c_old", str(workspace), 1, 1, "Old"))
        for message in messages:
            session.messages.append("c_old", message)

    await store.write(write)
    await store.close()
    async with LoopbackServer(fine()) as provider:
        client = await connect(provider.base_url, **OPTIONS)
        assert (await load(client, "c_old"))["snapshot"]["lastItems"]
        assert (await client.turn("go on", conversationId="c_old"))["outcome"] == "completed"
        (body,) = bodies_of(provider)
    assert [message["content"] for message in body["messages"][1:]] == sent


async def test_st_05_where_nothing_can_be_left_out_it_is_not_sent_again(connect):
    async with LoopbackServer(OVERFLOW, OVERFLOW, fine()) as provider:
        client = await connect(provider.base_url, **OPTIONS)
        ended = await client.turn("hello")
        assert (ended["outcome"], ended["error"]["code"]) == ("error", "contextWindow")
        assert len(bodies_of(provider)) == 1


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def from_the_future(path):
    with lmdb.open(str(path.parent), max_dbs=32) as environment, environment.begin(write=True) as transaction:
        transaction.put(b"schema_version", b"99", db=environment.open_db(b"meta", txn=transaction))


@pytest.mark.parametrize(
    ("damage", "words"),
    [(truncate, "is damaged"), (lambda path: path.write_bytes(b"x" * 9999), "is damaged"), (from_the_future, "newer")],
    ids=["truncated", "foreign", "newer"],
)
async def test_a_store_that_cannot_be_used_is_told_to_the_person(connect, home, damage, words):
    """And left as it is; the next start with another directory works."""
    async with LoopbackServer(ScriptedModel(lambda _: reply("word " * 5000))) as provider:
        client = await connect(provider.base_url)
        for _ in range(4):
            await client.turn("say much")
        assert await client.stop() == 0
        damage(home / "data" / "store" / "data.mdb")
        client = await connect(provider.base_url)
        told = await client.until(lambda message: message.get("method") == "window/showMessage")
        assert words in told["params"]["message"]
        assert "TINSMITH_DATA_DIR" in told["params"]["message"]
        assert await client.stop() == 0
        assert b"Traceback" not in await client.process.stderr.read()
        client = await connect(provider.base_url, environment={"TINSMITH_DATA_DIR": str(home / "other")})
        assert (await client.turn("hello"))["outcome"] == "completed"


async def test_the_lock_file_of_a_dead_process_stops_nobody(connect, home):
    """Neither one that a killed server left, nor one of other bytes."""
    async with LoopbackServer(fine()) as provider:
        client = await connect(provider.base_url)
        identifier = (await client.turn("hello"))["conversationId"]
        await client.kill()
        client = await connect(provider.base_url)
        assert (await client.turn("again", conversationId=identifier))["outcome"] == "completed"
        await client.kill()
        (home / "data" / "store" / "lock.mdb").write_bytes(b"")
        client = await connect(provider.base_url)
        assert (await client.turn("and again", conversationId=identifier))["outcome"] == "completed"


@pytest.mark.parametrize("identifier", ["a:b", "\0", "x" * 600, "", "c_1:m00000000", "../x", "\ud800"])
async def test_st_11_an_id_from_anywhere_is_refused_or_not_found(connect, identifier):
    client = await connect()
    params = {"conversationId": identifier}
    for method in ("agent/conversationLoad", "agent/historyRead", "agent/subscribe"):
        error = await client.answer_error(client.post(method, params))
        assert error["data"]["code"] in {"invalidId", "invalidKey", "conversationNotFound"}, method


def uncounted(*steps):
    """A reply that says nothing of tokens, so that they are estimated."""
    return msgspec.structs.replace(reply(*steps), usage=Usage())


def twelve_rounds(request):
    """Three reads in every third round, one in the others; then an answer."""
    newest = max(number for number, message in enumerate(request.messages) if isinstance(message, UserMessage))
    done = sum(isinstance(message, AssistantMessage) for message in request.messages[newest:])
    if not request.messages[newest].text.startswith("go") or done == 12:
        return uncounted("Done.")
    calls = [Call("read", {"path": f"f{number}.txt"}) for number in range(3 if done % 3 == 0 else 1)]
    return uncounted(f"Round {done}.", *calls)


async def test_st_04_every_budget_leaves_a_history_that_a_strict_server_takes(connect, workspace):
    for number in range(3):
        (workspace / f"f{number}.txt").write_text(f"content {number} {'x' * 2_000}\n")
    sizes = set()
    async with LoopbackServer(ScriptedModel(twelve_rounds)) as provider:
        client = await connect(provider.base_url, **OPTIONS)
        ended = await client.turn("go")
        identifier = ended["conversationId"]
        assert ended["outcome"] == "completed"
        for window in (100_000, 12_000, 10_000, 8_000, 6_000, 4_500, 3_500, 3_000):
            fork = (await client.request("agent/conversationFork", {"conversationId": identifier}))["conversation"]
            overrides = {"llm_config.context_window": window}
            after = await client.turn("on", conversationId=fork["conversationId"], overrides=overrides)
            assert after["outcome"] == "completed"
            sent = provider.requests[-1]
            entries = history_of(sent.path, sent.body)
            assert (entries[0][0], entries[-1]) == ("user", ("user", "on"))
            assert json.loads(sent.body)["messages"][0]["role"] == "system"
            rounds = [entry[1] for entry in entries if entry[0] == "said" and entry[1].startswith("Round")]
            assert rounds == [f"Round {number}." for number in range(12)][12 - len(rounds) :]
            assert ("left out here" in entries[0][1]) == (len(rounds) < 12)
            sizes.add(len(rounds))
    assert len(sizes) >= 4


async def test_st_06_a_result_that_is_larger_than_the_window_is_shortened(connect, workspace):
    (workspace / "large.txt").write_text("".join(f"line {number}\n" for number in range(10_000)))
    model = script(uncounted(Call("read", {"path": "large.txt", "end_line": 2_000})), uncounted("Seen."))
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url, **OPTIONS)
        ended = await client.turn("What is in it?", overrides={"llm_config.context_window": 5_000})
        assert ended["outcome"] == "completed"
        sent = [request for request in provider.requests if request.method == "POST"]
        assert len(sent) == 2
        (asked, call) = history_of(sent[-1].path, sent[-1].body)
        assert asked == ("user", "What is in it?")
        assert "characters left out: the result does not fit the context" in call[3]
        assert "line 0" in call[3]
        assert len(sent[-1].body) / 4 < 5_000
