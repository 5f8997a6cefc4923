"""Stored conversations over the wire: found, taken up again, forked, rewound, edited, cleared and deleted."""

import pytest
from tests.wire.buffer import text_hash
from tests.wire.client import RpcError
from tests.wire.talk import bodies_of

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import Call, ScriptedModel, Wait, reply
from tinsmith.store import Store
from tinsmith.store.transaction import KEYSPACES, Span

FULL = {"initializationOptions": {"settings": {"permission_mode": "full"}}}


def answering(*texts):
    """A model that answers every message with `Re: ` and its text."""
    return ScriptedModel(lambda request: reply("Re: " + request.messages[-1].text))


@pytest.fixture
async def talk(connect):
    """A client, its provider, and a conversation of three turns: their ids."""
    async with LoopbackServer(answering()) as provider:
        client = await connect(provider.base_url, **FULL)
        made = await client.request("agent/conversationNew", {})
        identifier = made["conversation"]["conversationId"]
        turns = [(await client.turn(text, conversationId=identifier))["turnId"] for text in ("one", "two", "three")]
        yield client, provider, identifier, turns


async def ask(client, method, identifier, **params):
    return await client.request(f"agent/{method}", {"conversationId": identifier, **params})


async def refusal(client, method, identifier, **params):
    with pytest.raises(RpcError) as caught:
        await ask(client, method, identifier, **params)
    return caught.value.name


async def texts(client, identifier):
    loaded = await ask(client, "conversationLoad", identifier)
    return [item["text"] for item in loaded["snapshot"]["lastItems"] if item["kind"] != "tool"]


async def stored(client, identifier):
    return (await ask(client, "inspect", identifier, what="messages"))["messages"]


def sent(provider):
    """What the newest request told the model of the conversation."""
    return [message["content"] for message in bodies_of(provider)[-1]["messages"] if message["role"] != "system"]


WHOLE = ["one", "Re: one", "two", "Re: two", "three", "Re: three"]


async def test_a_rewind_leaves_out_what_came_after_a_turn(talk):
    client, provider, identifier, turns = talk
    would = await ask(client, "conversationRewind", identifier, toTurnId=turns[0], dryRun=True)
    assert await texts(client, identifier) == WHOLE
    assert client.events("conversationUpdated")[-1].get("resync", False) is False
    removed = await ask(client, "conversationRewind", identifier, toTurnId=turns[0])
    assert removed == would
    assert [(each["turnId"], each["text"], each["outcome"]) for each in removed["removedTurns"]] == [
        (turns[1], "two", "completed"),
        (turns[2], "three", "completed"),
    ]
    assert (await client.event("conversationUpdated", resync=True))["state"] == "idle"
    assert await texts(client, identifier) == ["one", "Re: one"]
    page = await ask(client, "historyRead", identifier, limit=10, direction="newer")
    assert [item["text"] for item in page["items"]] == ["one", "Re: one"]
    await client.turn("other", conversationId=identifier)
    assert sent(provider) == ["one", "Re: one", "other"]
    messages = await stored(client, identifier)
    assert [message["messageId"] for message in messages] == ["m00000000", "m00000001", "m00000006", "m00000007"]
    assert (await client.request("agent/turnWait", {"turnId": turns[2]}))["outcome"] == "completed"


async def test_a_rewind_is_taken_back_until_the_next_message(talk):
    client, provider, identifier, turns = talk
    assert await refusal(client, "conversationUnrewind", identifier) == "nothingRewound"
    await ask(client, "conversationRewind", identifier, toTurnId=turns[1])
    await ask(client, "conversationRewind", identifier, toTurnId=None)
    assert await texts(client, identifier) == []
    await ask(client, "conversationUnrewind", identifier)
    assert await texts(client, identifier) == WHOLE[:4]
    await ask(client, "conversationUnrewind", identifier)
    assert await texts(client, identifier) == WHOLE
    await ask(client, "conversationRewind", identifier, toTurnId=turns[0])
    await client.turn("other", conversationId=identifier)
    assert await refusal(client, "conversationUnrewind", identifier) == "nothingRewound"
    await ask(client, "conversationRewind", identifier, toTurnId=turns[0])
    await ask(client, "conversationUnrewind", identifier)
    assert await texts(client, identifier) == ["one", "Re: one", "other", "Re: other"]
    await client.turn("more", conversationId=identifier)
    assert sent(provider) == ["one", "Re: one", "other", "Re: other", "more"]


async def test_a_rewind_survives_a_restart(talk, connect):
    client, provider, identifier, turns = talk
    await ask(client, "conversationRewind", identifier, toTurnId=turns[1])
    await client.kill()
    client = await connect(provider.base_url, **FULL)
    assert await texts(client, identifier) == WHOLE[:4]
    await ask(client, "conversationUnrewind", identifier)
    assert await texts(client, identifier) == WHOLE


async def test_only_turns_that_are_there_can_be_gone_back_to(talk):
    client, _, identifier, turns = talk
    assert await refusal(client, "conversationRewind", identifier, toTurnId="nowhere") == "turnNotFound"
    assert (await ask(client, "conversationRewind", identifier, toTurnId=turns[2])) == {"removedTurns": []}
    await ask(client, "conversationRewind", identifier, toTurnId=turns[0])
    assert await refusal(client, "conversationRewind", identifier, toTurnId=turns[1]) == "turnNotFound"
    assert await refusal(client, "conversationFork", identifier, throughTurnId=turns[1]) == "turnNotFound"
    assert await refusal(client, "conversationRewind", "c_none", toTurnId=turns[1]) == "conversationNotFound"


@pytest.mark.parametrize("is_rewound", [True, False])
async def test_what_was_read_in_a_rewound_turn_counts_as_not_seen(connect, workspace, is_rewound):
    (workspace / "a.txt").write_text("one\ntwo\n")
    edit = {"op": "replace", "start": 2, "end": 2, "text": "TWO"}
    arguments = {"path": "a.txt", "hash": text_hash("one\ntwo\n"), "edits": [edit]}
    script = [reply("Hello."), reply(Call("read", {"path": "a.txt"})), reply("Read.")]
    async with LoopbackServer(ScriptedModel([*script, reply(Call("edit", arguments)), reply("Done.")])) as provider:
        client = await connect(provider.base_url, agent={"versions": [1]}, **FULL)
        first = await client.turn("hello")
        identifier = first["conversationId"]
        await client.turn("read it", conversationId=identifier)
        if is_rewound:
            await ask(client, "conversationRewind", identifier, toTurnId=first["turnId"])
        await client.turn("edit it", conversationId=identifier)
        (edited,) = (each for each in client.events("toolUpdated") if each["name"] == "edit" and "result" in each)
    if is_rewound:
        assert edited["result"].startswith("You were not shown lines 2-2")
        assert (workspace / "a.txt").read_text() == "one\ntwo\n"
    else:
        assert (workspace / "a.txt").read_text() == "one\nTWO\n"


async def test_a_fork_is_a_conversation_of_its_own(talk):
    client, provider, identifier, turns = talk
    forked = (await ask(client, "conversationFork", identifier, throughTurnId=turns[1]))["conversation"]
    other = forked["conversationId"]
    assert (forked["parent"], forked["title"], forked["workspace"]) == (identifier, "one", client.workspace.as_uri())
    assert await texts(client, other) == WHOLE[:4]
    await client.turn("on the side", conversationId=other)
    assert sent(provider) == [*WHOLE[:4], "on the side"]
    assert await texts(client, identifier) == WHOLE
    await client.turn("on the main line", conversationId=identifier)
    assert sent(provider) == [*WHOLE, "on the main line"]
    ours = {message["turnId"] for message in await stored(client, other)}
    theirs = {message["turnId"] for message in await stored(client, identifier)}
    assert ours & theirs == set()
    copied = await ask(client, "conversationRewind", other, toTurnId=None, dryRun=True)
    assert [each["text"] for each in copied["removedTurns"]] == ["one", "two", "on the side"]
    await ask(client, "conversationDelete", identifier)
    assert await texts(client, other) == [*WHOLE[:4], "on the side", "Re: on the side"]


async def test_a_running_turn_is_neither_forked_nor_changed(connect):
    model = ScriptedModel([reply("Re: one"), reply("Half ", Wait())])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url)
        first = await client.turn("one")
        identifier = first["conversationId"]
        running = await client.ask("two", conversationId=identifier)
        await client.event("textDelta", turnId=running["turnId"])
        for method, params in (
            ("conversationRewind", {"toTurnId": first["turnId"]}),
            ("conversationUnrewind", {}),
            ("conversationClear", {}),
            ("conversationDelete", {}),
            ("conversationFork", {"throughTurnId": running["turnId"]}),
            ("inspectEdit", {"messageId": "m00000000", "text": "other"}),
            ("inspectDelete", {"messageId": "m00000000"}),
        ):
            assert await refusal(client, method, identifier, **params) == "busy", method
        forked = (await ask(client, "conversationFork", identifier))["conversation"]
        assert await texts(client, forked["conversationId"]) == ["one", "Re: one"]
        renamed = await ask(client, "conversationUpdate", identifier, title="Mine")
        assert (renamed["conversation"]["title"], renamed["conversation"]["state"]) == ("Mine", "running")
        await client.request("agent/cancel", {"turnId": running["turnId"]})
        await client.event("turnEnded", turnId=running["turnId"])
        await ask(client, "conversationRewind", identifier, toTurnId=first["turnId"])
        assert await texts(client, identifier) == ["one", "Re: one"]


async def test_a_message_can_be_said_otherwise(talk):
    client, provider, identifier, turns = talk
    edited = await ask(client, "inspectEdit", identifier, messageId="m00000000", text="first")
    assert (edited["turnId"], edited["removed"]) == (turns[0], [])
    assert [(item["kind"], item["text"]) for item in edited["items"]] == [("user", "first"), ("assistant", "Re: one")]
    answer = await ask(client, "inspectEdit", identifier, messageId="m00000003", text="Otherwise.")
    assert answer["items"][1]["marks"] == ["edited"]
    await client.turn("four", conversationId=identifier)
    assert sent(provider) == ["first", "Re: one", "two", "Otherwise.", "three", "Re: three", "four"]
    listed = await client.request("agent/conversationList", {})
    assert [each["title"] for each in listed["conversations"]] == ["first"]
    assert await refusal(client, "inspectEdit", identifier, messageId="m00000000", text=" ") == "invalidParams"
    assert await refusal(client, "inspectEdit", identifier, messageId="m00000099", text="x") == "messageNotFound"


async def test_an_edited_message_keeps_what_was_attached_and_holds_no_secret(connect):
    async with LoopbackServer(answering()) as provider:
        client = await connect(provider.base_url, environment={"OPENAI_API_KEY": "sk-ordinary-looking-0123456789"})
        attached = {"type": "resource", "uri": "file:///a", "text": "attached words"}
        ended = await client.turn("look", input=[attached])
        identifier = ended["conversationId"]
        text = "see sk-ordinary-looking-0123456789"
        await ask(client, "inspectEdit", identifier, messageId="m00000000", text=text)
        await client.turn("and?", conversationId=identifier)
    assert "attached words" in sent(provider)[0]
    assert "sk-ordinary-looking" not in sent(provider)[0]
    assert sent(provider)[0].startswith("see ")


async def test_a_deleted_message_takes_along_what_cannot_stand_alone(connect, workspace):
    (workspace / "a.txt").write_text("words\n")
    script = [
        reply("Two looks.", Call("read", {"path": "a.txt"}), Call("read", {"path": "."})),
        reply(Call("read", {"path": "a.txt"})),
        reply("Seen."),
        reply("Again."),
        reply("On."),
        reply("And on."),
    ]
    async with LoopbackServer(ScriptedModel(script)) as provider:
        client = await connect(provider.base_url, **FULL)
        identifier = (await client.turn("look"))["conversationId"]
        await client.turn("more", conversationId=identifier)
        kinds = " ".join(message["kind"] for message in await stored(client, identifier))
        assert kinds == "user assistant toolResult toolResult assistant toolResult assistant user assistant"
        one = await ask(client, "inspectDelete", identifier, messageId="m00000002")
        assert one["removed"] == ["m00000002"]
        assert [item["kind"] for item in one["items"]] == [
            "user",
            "assistant",
            "tool",
            "assistant",
            "tool",
            "assistant",
        ]
        assert await refusal(client, "inspectEdit", identifier, messageId="m00000003", text="x") == "notEditable"
        pair = await ask(client, "inspectDelete", identifier, messageId="m00000005")
        assert pair["removed"] == ["m00000004", "m00000005"]
        answer = await ask(client, "inspectDelete", identifier, messageId="m00000001")
        assert answer["removed"] == ["m00000001", "m00000003"]
        await client.turn("on", conversationId=identifier)
        assert sent(provider) == ["look", "Seen.", "more", "Again.", "on"]
        turn = await ask(client, "inspectDelete", identifier, messageId="m00000000")
        assert (turn["items"], turn["removed"]) == ([], ["m00000000", "m00000006"])
        last = await ask(client, "inspectDelete", identifier, messageId="m00000009")
        assert last["removed"] == ["m00000009", "m00000010"]
        await client.turn("and on", conversationId=identifier)
        assert sent(provider) == ["more", "Again.", "and on"]
        assert (await stored(client, identifier))[-1]["messageId"] == "m00000012"


async def test_titles_and_the_archive(talk):
    client, _, identifier, _ = talk
    listed = await client.request("agent/conversationList", {"workspace": client.workspace.as_uri()})
    assert [(each["conversationId"], each["title"]) for each in listed["conversations"]] == [(identifier, "one")]
    named = await ask(client, "conversationUpdate", identifier, title="Kettle\nand more", archived=True)
    assert (named["conversation"]["title"], named["conversation"]["archived"]) == ("Kettle", True)
    assert (await client.event("conversationUpdated", title="Kettle"))["state"] == "idle"
    assert (await client.request("agent/conversationList", {}))["conversations"] == []
    archive = await client.request("agent/conversationList", {"archived": True, "query": "KETT"})
    assert [each["conversationId"] for each in archive["conversations"]] == [identifier]
    assert (await client.request("agent/conversationList", {"archived": True, "query": "pot"}))["conversations"] == []
    cleared = await ask(client, "conversationUpdate", identifier, title=None, archived=False)
    assert cleared["conversation"].get("title", "") == ""
    await client.turn("four", conversationId=identifier)
    assert [each["title"] for each in (await client.request("agent/conversationList", {}))["conversations"]] == ["four"]


async def test_a_list_comes_in_pages(connect):
    client = await connect()
    made = [(await client.request("agent/conversationNew", {"title": f"n{n}"}))["conversation"] for n in range(5)]
    found = []
    cursor = {}
    while True:
        page = await client.request("agent/conversationList", {"limit": 2, **cursor})
        found += [each["title"] for each in page["conversations"]]
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert sorted(found) == sorted(each["title"] for each in made)
    assert len(found) == 5


async def test_a_cleared_conversation_is_empty_and_goes_on(talk, home):
    client, provider, identifier, turns = talk
    await ask(client, "conversationRewind", identifier, toTurnId=turns[0])
    assert await ask(client, "conversationClear", identifier) == {}
    assert await texts(client, identifier) == []
    assert await refusal(client, "conversationUnrewind", identifier) == "nothingRewound"
    usage = await ask(client, "inspect", identifier, what="usage")
    assert len(usage["turns"]) == 3
    await client.turn("anew")
    assert sent(provider) == ["anew"]
    (message, _) = await stored(client, identifier)
    assert message["messageId"] == "m00000006"
    await client.stop()
    raw = b"".join(path.read_bytes() for path in (home / "data" / "store").iterdir())
    assert b'"text":"anew"' in raw


async def rows(home, identifier):
    """Every key of the store that names the conversation."""
    store = Store.open(str(home / "data" / "store"))

    def read(session):
        return [
            (keyspace, key)
            for keyspace in KEYSPACES
            for key, value in session._transaction.scan(keyspace, Span())
            if identifier.encode() in key + value
        ]

    try:
        return store.read(read)
    finally:
        await store.close()


async def test_a_deleted_conversation_leaves_nothing(connect, home, workspace):
    (workspace / "a.txt").write_text("words\n")
    model = ScriptedModel([reply(Call("read", {"path": "a.txt"})), reply("Seen."), reply("New.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url, **FULL)
        identifier = (await client.turn("look"))["conversationId"]
        assert {keyspace for keyspace, _ in await rows(home, identifier)} >= {"message", "turn", "usage", "lease"}
        assert await ask(client, "conversationDelete", identifier) == {}
        await client.event("conversationUpdated", state="deleted")
        assert await rows(home, identifier) == []
        for method in ("conversationLoad", "conversationDelete", "conversationExport"):
            assert await refusal(client, method, identifier) == "conversationNotFound"
        assert (await client.request("agent/conversationList", {}))["conversations"] == []
        ended = await client.turn("again")
        assert ended["conversationId"] != identifier


async def test_usage_by_turn_role_and_model(connect):
    async with LoopbackServer(answering()) as provider:
        client = await connect(provider.base_url)
        first = await client.turn("one")
        identifier = first["conversationId"]
        second = await client.turn("two", conversationId=identifier, role="orchestrator", model="other")
        usage = await ask(client, "inspect", identifier, what="usage")
    spent = {kind: first["usage"][kind] + second["usage"][kind] for kind in ("input", "output", "total")}
    assert spent["total"] > 0
    assert {kind: usage["total"][kind] for kind in spent} == spent
    told = [(each["turnId"], each["role"], each["model"]) for each in usage["turns"]]
    assert sorted(told) == sorted(
        [(first["turnId"], "direct", "scripted"), (second["turnId"], "orchestrator", "other")]
    )
    assert (
        usage["byRole"]["orchestrator"]
        == usage["byModel"]["other"]
        == {kind: second["usage"][kind] for kind in usage["total"]}
    )
    assert set(usage["byRole"]) == {"direct", "orchestrator"}


async def test_the_last_conversation_is_taken_up_again_once(talk, connect):
    client, provider, identifier, _ = talk
    await client.stop()
    client = await connect(provider.base_url)
    resumed = await client.request("agent/conversationLoad", {})
    assert resumed["conversation"]["conversationId"] == identifier
    with pytest.raises(RpcError) as caught:
        await client.request("agent/conversationLoad", {})
    assert caught.value.name == "conversationNotFound"
    assert (await client.turn("goes on"))["conversationId"] == identifier


@pytest.mark.parametrize("before", ["new", "load", "clear"])
async def test_nothing_is_taken_up_again_after_a_choice(talk, connect, before):
    client, provider, identifier, _ = talk
    other = (await client.request("agent/conversationNew", {"title": "other"}))["conversation"]["conversationId"]
    await client.stop()
    client = await connect(provider.base_url)
    if before == "new":
        chosen = (await client.request("agent/conversationNew", {}))["conversation"]["conversationId"]
    elif before == "load":
        chosen = other
        await ask(client, "conversationLoad", chosen)
    else:
        chosen = identifier
        await ask(client, "conversationClear", chosen)
    with pytest.raises(RpcError):
        await client.request("agent/conversationLoad", {})
    assert (await client.turn("here"))["conversationId"] == chosen


@pytest.mark.parametrize("obstacle", ["empty", "archived", "held", "deleted"])
async def test_what_cannot_be_taken_up_again(talk, connect, obstacle):
    client, provider, identifier, _ = talk
    if obstacle == "empty":
        await ask(client, "conversationRewind", identifier, toTurnId=None)
    elif obstacle == "archived":
        await ask(client, "conversationUpdate", identifier, archived=True)
    elif obstacle == "deleted":
        await ask(client, "conversationDelete", identifier)
    if obstacle != "held":
        await client.stop()
    client = await connect(provider.base_url)
    with pytest.raises(RpcError) as caught:
        await client.request("agent/conversationLoad", {})
    assert caught.value.name == "conversationNotFound"
    assert (await client.turn("new"))["conversationId"] != identifier


async def test_a_cancelled_request_changes_whole_or_not_at_all(talk):
    client, _, identifier, turns = talk
    asked = client.post("agent/conversationRewind", {"conversationId": identifier, "toTurnId": turns[0]})
    client.notify("$/cancelRequest", {"id": asked})
    answer = await client.until(lambda message: "method" not in message and message.get("id") == asked)
    assert "error" not in answer or answer["error"]["code"] == -32800
    expected = WHOLE if "error" in answer else WHOLE[:2]
    if "error" not in answer:
        await client.event("conversationUpdated", resync=True)
    assert await texts(client, identifier) == expected


async def test_what_a_killed_turn_was_told_and_did_not_take_is_rewound_with_it(connect):
    model = ScriptedModel([reply("Re: one"), reply("Half ", Wait()), reply("On.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url)
        first = await client.turn("one")
        identifier = first["conversationId"]
        running = await client.ask("two", conversationId=identifier)
        await client.event("textDelta", turnId=running["turnId"])
        await client.ask("told too late", conversationId=identifier, mode="steer")
        await client.kill()
        client = await connect(provider.base_url)
        await ask(client, "conversationRewind", identifier, toTurnId=first["turnId"])
        assert await texts(client, identifier) == ["one", "Re: one"]
        await client.turn("on", conversationId=identifier)
        assert sent(provider) == ["one", "Re: one", "on"]
        await ask(client, "conversationRewind", identifier, toTurnId=first["turnId"])
        await ask(client, "conversationUnrewind", identifier)
        assert await texts(client, identifier) == ["one", "Re: one", "on", "On."]
