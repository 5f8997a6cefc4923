"""What a turn did to files: told as hunks, kept or undone, guarded by the text, also after restarts and crashes."""

import hashlib
import re

import pytest
from tests.wire.buffer import Buffer, text_hash
from tests.wire.client import RpcError

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import Call, ScriptedModel, reply
from tinsmith.store import Store
from tinsmith.store.transaction import Span

START = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"
READ = reply(Call("read", {"path": "a.txt"}))
DONE = reply("Done.")


def edit(*edits, path="a.txt"):
    """Edits as (op, start, end, text) of the text whose hash the model was told last."""
    names = ("op", "start", "end", "text")

    def answer(request):
        told = [message.content for message in request.messages if type(message).__name__ == "ToolMessage"]
        digest = re.search(r"^hash: ([0-9a-f]{16})", told[-1], re.MULTILINE)[1]
        parts = [{name: value for name, value in zip(names, each, strict=True) if value is not None} for each in edits]
        return reply(Call("edit", {"path": path, "hash": digest, "edits": parts}))

    return answer


TWO = edit(("replace", 2, 2, "TWO"))
TWO_PLACES = edit(("replace", 2, 2, "TWO"), ("replace", 6, 6, "SIX\nSIX AND A HALF"))


def lines(start, end):
    return {"start": {"line": start, "character": 0}, "end": {"line": end, "character": 0}}


def states(changes):
    return [[hunk["state"] for hunk in change["hunks"]] for change in changes]


def ids(changes):
    return [hunk["hunkId"] for change in changes for hunk in change["hunks"]]


class Desk:
    """A client with one conversation, which it can take along to a new server."""

    def __init__(self, connect, model):
        self.connect = connect
        self.model = model
        self.identifier = None

    async def __aenter__(self):
        self.provider = await LoopbackServer(self.model).__aenter__()
        await self.restart()
        return self

    async def __aexit__(self, *failure):
        await self.provider.__aexit__(*failure)

    async def restart(self, mode="full"):
        settings = {"settings": {"permission_mode": mode}}
        self.client = await self.connect(self.provider.base_url, initializationOptions=settings)

    async def turn(self, text="go"):
        ended = await self.client.turn(text, **({"conversationId": self.identifier} if self.identifier else {}))
        self.identifier = ended["conversationId"]
        assert ended["outcome"] == "completed"
        return ended

    async def changes(self, **params):
        asked = {"conversationId": self.identifier, **params}
        return (await self.client.request("agent/turnChanges", asked))["changes"]

    async def resolve(self, action, **params):
        asked = {"conversationId": self.identifier, "action": action, **params}
        return await self.client.request("agent/changeResolve", asked)


@pytest.fixture
def file(workspace):
    path = workspace / "a.txt"
    path.write_text(START)
    return path


async def test_the_edits_of_a_turn_are_one_change_and_its_undo_gives_the_exact_bytes_back(connect, workspace):
    path, before = workspace / "a.txt", b"\xef\xbb\xbfone\r\ntwo \xc3\xbc\r\nthree\nfour"
    path.write_bytes(before)
    again = edit(("replace", 2, 2, "TWO!"), ("insert", 4, None, "five"))
    async with Desk(connect, ScriptedModel([READ, TWO, again, DONE])) as desk:
        ended = await desk.turn()
        after = b"\xef\xbb\xbfone\r\nTWO!\r\nthree\nfour\r\nfive"
        assert path.read_bytes() == after
        (change,) = changes = await desk.changes(turnId=ended["turnId"])
        assert ids(changes) == list(dict.fromkeys(ids(changes)))
        assert change == {
            "changeId": change["changeId"],
            "turnId": ended["turnId"],
            "uri": path.as_uri(),
            "op": "edit",
            "before": {"hash": text_hash(before.decode("utf-8-sig")), "text": before.decode("utf-8-sig")},
            "after": {"hash": text_hash(after.decode("utf-8-sig"))},
            "currentHash": text_hash(after.decode("utf-8-sig")),
            "hunks": [
                {
                    "hunkId": change["hunks"][0]["hunkId"],
                    "state": "open",
                    "beforeRange": lines(1, 2),
                    "afterRange": lines(1, 2),
                },
                {
                    "hunkId": change["hunks"][1]["hunkId"],
                    "state": "open",
                    "beforeRange": lines(3, 4),
                    "afterRange": lines(3, 5),
                },
            ],
            "partial": False,
        }
        resolved = await desk.resolve("undo", changeIds=[change["changeId"]])
        assert path.read_bytes() == before
        assert states(resolved["changes"]) == [["undone", "undone"]]
        assert resolved["refused"] == []
        assert await desk.resolve("undo", changeIds=[change["changeId"]]) == resolved
        assert path.read_bytes() == before


async def test_a_turn_is_summed_up_by_what_is_left_of_its_edits(connect, file, workspace):
    def typing(request):
        desk.client.type(uri, "mine\n" + desk.client.texts[uri][1])
        return reply(Call("read", {"path": "a.txt"}))

    script = [READ, TWO, edit(("replace", 2, 2, "TWO!\nand more")), typing, edit(("delete", 8, 8, None))]
    script += [reply(Call("write", {"path": "b.txt", "content": "x\n"})), edit(("insert", 1, None, "y"), path="b.txt")]
    async with Desk(connect, ScriptedModel([*script, DONE])) as desk:
        uri = desk.client.open(file, START)
        Buffer(desk.client)
        ended = await desk.turn()
    told = [
        [(each["op"], each["added"], each["removed"]) for each in event["files"]]
        for event in (*desk.client.events("diffUpdated"), ended)
    ]
    first = ("edit", 2, 2)
    assert told == [
        [("edit", 1, 1)],
        [("edit", 2, 1)],
        [first],
        [first, ("create", 1, 0)],
        [first, ("create", 2, 0)],
        [first, ("create", 2, 0)],
    ]
    assert [each["beforeHash"] for each in ended["files"]] == [text_hash(START), ""]
    assert [each["afterHash"] for each in ended["files"]] == [text_hash(desk.client.texts[uri][1]), text_hash("x\ny\n")]


async def test_every_change_and_every_resolve_is_announced_with_the_texts_by_name(connect, file):
    async with Desk(connect, ScriptedModel([READ, TWO_PLACES, DONE])) as desk:
        ended = await desk.turn()
        kinds = [(event["type"], event.get("status")) for event in desk.client.events("changesUpdated", "toolUpdated")]
        assert kinds[-2:] == [("changesUpdated", None), ("toolUpdated", "completed")]
        (event,) = desk.client.events("changesUpdated")
        blob = hashlib.sha256(START.encode()).hexdigest()
        (told,) = event["changes"]
        (change,) = await desk.changes()
        assert told == change | {"before": {"hash": text_hash(START), "blob": blob}}
        assert "turnId" not in event
        await desk.resolve("undo", hunkIds=[told["hunks"][1]["hunkId"]])
        first, second = desk.client.events("changesUpdated")
        assert states(second["changes"]) == [["open", "undone"]]
        assert second["changes"][0]["turnId"] == ended["turnId"]
        assert second["seq"] > first["seq"]


async def test_in_an_open_buffer_a_hunk_is_undone_around_what_the_user_typed(connect, file):
    async with Desk(connect, ScriptedModel([READ, TWO_PLACES, DONE])) as desk:
        uri = desk.client.open(file, START)
        buffer = Buffer(desk.client)
        ended = await desk.turn()
        desk.client.type(uri, f"mine\n{desk.client.texts[uri][1]}also mine\n")
        (change,) = await desk.changes()
        assert [hunk["afterRange"] for hunk in change["hunks"]] == [lines(2, 3), lines(6, 8)]
        assert change["currentHash"] == text_hash(desk.client.texts[uri][1])
        resolved = await desk.resolve("undo", hunkIds=ids([change])[:1])
        expected = "mine\none\ntwo\nthree\nfour\nfive\nSIX\nSIX AND A HALF\nseven\nalso mine\n"
        assert desk.client.texts[uri][1] == expected
        assert states(resolved["changes"]) == [["undone", "open"]]
        first, undo = buffer.asked
        assert first["turnId"] == ended["turnId"] != undo["turnId"]
        assert undo["documents"][0]["expect"]["hash"] != undo["documents"][0]["after"]["hash"] == text_hash(expected)
        desk.client.type(uri, expected.replace("SIX AND", "six and"))
        refused = await desk.resolve("undo", hunkIds=ids([change]))
        assert [(each["hunkId"], each["code"]) for each in refused["refused"]] == [(ids([change])[1], "stale")]
        assert "not what the agent left" in refused["refused"][0]["message"]
        assert states(refused["changes"]) == [["undone", "gone"]]
        assert "afterRange" not in refused["changes"][0]["hunks"][1]
        assert desk.client.texts[uri][1] == expected.replace("SIX AND", "six and")
        desk.client.type(uri, expected)
        assert states(await desk.changes()) == [["undone", "open"]]
        assert file.read_text() == START


async def test_lines_that_the_user_typed_between_two_edits_are_not_the_agents(connect, file):
    def typing(request):
        desk.client.type(uri, desk.client.texts[uri][1].replace("four\n", "four\nmine\n"))
        return reply(Call("read", {"path": "a.txt"}))

    script = [READ, TWO, typing, edit(("replace", 7, 7, "SIX")), DONE]
    async with Desk(connect, ScriptedModel(script)) as desk:
        uri = desk.client.open(file, START)
        Buffer(desk.client)
        await desk.turn()
        (change,) = await desk.changes()
        ranges = [(hunk["beforeRange"], hunk["afterRange"]) for hunk in change["hunks"]]
        assert ranges == [(lines(1, 2), lines(1, 2)), (lines(5, 6), lines(6, 7))]
        await desk.resolve("undo", changeIds=[change["changeId"]])
        assert desk.client.texts[uri][1] == START.replace("four\n", "four\nmine\n")


async def test_a_new_file_goes_only_while_it_is_the_agents_alone(connect, workspace):
    path = workspace / "new" / "b.txt"
    script = [reply(Call("write", {"path": "new/b.txt", "content": "made\n"})), DONE]
    async with Desk(connect, ScriptedModel(script)) as desk:
        await desk.turn()
        (change,) = await desk.changes()
        assert (change["op"], change["before"], change["after"]) == (
            "create",
            {"hash": ""},
            {"hash": text_hash("made\n")},
        )
        path.write_text("made\nand mine\n")
        resolved = await desk.resolve("undo", changeIds=[change["changeId"]])
        assert [each["code"] for each in resolved["refused"]] == ["stale"]
        assert path.read_text() == "made\nand mine\n"
        path.write_text("made\n")
        uri = desk.client.open(path, "made\nunsaved\n")
        assert states((await desk.resolve("undo", changeIds=[change["changeId"]]))["changes"]) == [["gone"]]
        desk.client.type(uri, "made\n")
        path.write_text("theirs\n")
        resolved = await desk.resolve("undo", changeIds=[change["changeId"]])
        assert ([each["code"] for each in resolved["refused"]], path.read_text()) == (["stale"], "theirs\n")
        path.write_text("made\n")
        resolved = await desk.resolve("undo", changeIds=[change["changeId"]])
        assert (states(resolved["changes"]), resolved["refused"]) == ([["undone"]], [])
        assert list(path.parent.iterdir()) == []
        desk.client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        (change,) = await desk.changes()
        assert (states([change]), change["currentHash"]) == ([["undone"]], "")
        assert (await desk.resolve("undo", changeIds=[change["changeId"]]))["refused"] == []
        path.write_text("made\n")
        assert states(await desk.changes()) == [["undone"]]
        assert path.read_text() == "made\n"


async def test_what_was_decided_survives_a_restart(connect, file):
    async with Desk(connect, ScriptedModel([READ, TWO_PLACES, DONE])) as desk:
        await desk.turn()
        before = await desk.changes()
        one, other = ids(before)
        kept = await desk.resolve("keep", hunkIds=[one])
        assert states(kept["changes"]) == [["kept", "open"]]
        assert file.read_text() == START.replace("two", "TWO").replace("six", "SIX\nSIX AND A HALF")
        assert await desk.client.stop() == 0
        await desk.restart()
        again = await desk.changes()
        assert [(each["changeId"], ids([each])) for each in again] == [(before[0]["changeId"], [one, other])]
        assert states(again) == [["kept", "open"]]
        undone = await desk.resolve("undo", changeIds=[before[0]["changeId"]])
        assert (states(undone["changes"]), undone["refused"]) == ([["kept", "undone"]], [])
        assert file.read_text() == START.replace("two", "TWO")
        refused = await desk.resolve("undo", hunkIds=[one])
        assert [each["code"] for each in refused["refused"]] == ["kept"]
        refused = await desk.resolve("keep", hunkIds=[other])
        assert [each["code"] for each in refused["refused"]] == ["undone"]
        await desk.client.kill()
        await desk.restart()
        assert await desk.changes() == [undone["changes"][0] | {"before": before[0]["before"]}]


async def test_a_whole_turn_is_undone_file_by_file_and_no_other_turn(connect, workspace, file):
    other = workspace / "b.txt"
    other.write_text("b\n")
    script = [
        *(READ, edit(("replace", 7, 7, "SEVEN")), DONE),
        *(READ, TWO, reply(Call("read", {"path": "b.txt"})), edit(("delete", 1, 1, None), path="b.txt")),
        *(reply(Call("write", {"path": "c.txt", "content": ""})), DONE),
    ]
    async with Desk(connect, ScriptedModel(script)) as desk:
        first, second = await desk.turn(), await desk.turn()
        changes = await desk.changes()
        assert [(each["turnId"], each["uri"].rpartition("/")[2], each["op"]) for each in changes] == [
            (first["turnId"], "a.txt", "edit"),
            (second["turnId"], "a.txt", "edit"),
            (second["turnId"], "b.txt", "edit"),
            (second["turnId"], "c.txt", "create"),
        ]
        assert await desk.changes(turnId=second["turnId"]) == changes[1:]
        resolved = await desk.resolve("undo", turnId=second["turnId"])
        assert states(resolved["changes"]) == [["undone"]] * 3
        assert resolved["refused"] == []
        assert file.read_text() == START.replace("seven", "SEVEN")
        assert other.read_text() == "b\n"
        assert sorted(each.name for each in workspace.iterdir()) == ["a.txt", "b.txt"]
        assert states(await desk.changes()) == [["open"], ["undone"], ["undone"], ["undone"]]


async def test_an_undo_while_the_turn_runs_makes_the_next_edit_stale(connect, file):
    async with Desk(connect, ScriptedModel([READ, TWO, edit(("replace", 2, 2, "Two.")), DONE])) as desk:
        await desk.client.kill()
        await desk.restart("ask")
        allow = {"optionId": "allow_once"}
        asked = []
        desk.client.answers["agent/requestPermission"] = lambda _: (
            asked.append(1) or (len(asked) == 1 and allow) or None
        )
        started = await desk.client.ask("go")
        desk.identifier = started["conversationId"]
        (told,) = (await desk.client.event("changesUpdated"))["changes"]
        await desk.client.poll(lambda: len(asked) == 2)
        resolved = await desk.resolve("undo", changeIds=[told["changeId"]])
        assert states(resolved["changes"]) == [["undone"]]
        question = next(m for m in desk.client.received[::-1] if m.get("method") == "agent/requestPermission")
        desk.client.send({"jsonrpc": "2.0", "id": question["id"], "result": allow})
        await desk.client.event("turnEnded")
        refused = desk.model.requests[-1].messages[-1].content
        assert refused.startswith(f"a.txt is not the text with the hash {told['after']['hash']} any more")
        assert file.read_text() == START
        assert states(await desk.changes()) == [["undone"]]


async def test_of_two_that_undo_at_once_both_are_told_the_same(connect, file):
    async with Desk(connect, ScriptedModel([READ, TWO, DONE])) as desk:
        uri = desk.client.open(file, START)
        buffer = Buffer(desk.client)
        await desk.turn()
        (change,) = await desk.changes()
        params = {"conversationId": desk.identifier, "action": "undo", "changeIds": [change["changeId"]]}
        posted = [desk.client.post("agent/changeResolve", params) for _ in range(2)]
        one, other = [await desk.client.answer(each) for each in posted]
        assert one == other
        assert states(one["changes"]) == [["undone"]]
        assert (len(buffer.asked), desk.client.texts[uri][1]) == (2, START)


async def test_an_editor_that_refuses_leaves_the_hunk_open_and_says_why(connect, file):
    async with Desk(connect, ScriptedModel([READ, TWO, DONE])) as desk:
        uri = desk.client.open(file, START)
        buffer = Buffer(desk.client)
        await desk.turn()
        (change,) = await desk.changes()
        desk.client.answers["agent/applyEdits"] = lambda params: buffer.refuse(params["documents"][0], "readOnly")
        resolved = await desk.resolve("undo", changeIds=[change["changeId"]])
        assert [(each["hunkId"], each["code"]) for each in resolved["refused"]] == [(ids([change])[0], "readOnly")]
        assert states(resolved["changes"]) == [["open"]]
        desk.client.answers["agent/applyEdits"] = lambda params: buffer.refuse(params["documents"][0], "stale")
        resolved = await desk.resolve("undo", changeIds=[change["changeId"]])
        assert [each["code"] for each in resolved["refused"]] == ["stale"]
        buffer = Buffer(desk.client)
        assert states((await desk.resolve("undo", changeIds=[change["changeId"]]))["changes"]) == [["undone"]]
        assert desk.client.texts[uri][1] == START


@pytest.mark.parametrize("is_applied", [True, False])
async def test_killed_between_the_record_and_the_answer_of_the_editor(connect, file, is_applied):
    async with Desk(connect, ScriptedModel([READ, TWO, DONE])) as desk:
        uri = desk.client.open(file, START)
        asked = []
        desk.client.answers["agent/applyEdits"] = asked.append
        started = await desk.client.ask("go")
        desk.identifier = started["conversationId"]
        await desk.client.poll(lambda: asked)
        await desk.client.kill()
        await desk.restart()
        desk.client.open(file, START.replace("two", "TWO") if is_applied else START)
        Buffer(desk.client)
        await desk.client.request("agent/conversationLoad", {"conversationId": desk.identifier})
        changes = await desk.changes(turnId=started["turnId"])
        assert states(changes) == ([["open"]] if is_applied else [])
        if is_applied:
            await desk.resolve("undo", changeIds=[changes[0]["changeId"]])
            assert desk.client.texts[uri][1] == START


async def test_killed_in_an_undo_the_text_decides_what_became_of_it(connect, file):
    async with Desk(connect, ScriptedModel([READ, TWO, DONE])) as desk:
        uri = desk.client.open(file, START)
        Buffer(desk.client)
        await desk.turn()
        (change,) = await desk.changes()
        edited, asked = desk.client.texts[uri][1], []
        desk.client.answers["agent/applyEdits"] = asked.append
        desk.client.post(
            "agent/changeResolve",
            {"conversationId": desk.identifier, "action": "undo", "changeIds": [change["changeId"]]},
        )
        await desk.client.poll(lambda: asked)
        await desk.client.kill()
        await desk.restart()
        for text, state in ((edited, "open"), (edited + "mine\n", "open"), (START, "undone")):
            desk.client.open(file, text)
            assert states(await desk.changes()) == [[state]]
        desk.client.open(file, edited + "mine\n")
        Buffer(desk.client)
        await desk.resolve("undo", changeIds=[change["changeId"]])
        assert desk.client.texts[uri][1] == START + "mine\n"


async def test_a_window_that_does_not_hold_the_conversation_may_look_but_not_touch(connect, file):
    async with Desk(connect, ScriptedModel([READ, TWO, DONE])) as desk:
        await desk.turn()
        (change,) = await desk.changes()
        await desk.restart()
        assert await desk.changes() == [change]
        with pytest.raises(RpcError) as refused:
            await desk.resolve("undo", changeIds=[change["changeId"]])
        assert refused.value.name == "conversationHeld"
        assert file.read_text() == START.replace("two", "TWO")


async def test_what_does_not_fit_is_refused_in_words(connect, file):
    async with Desk(connect, ScriptedModel([READ, TWO, DONE])) as desk:
        await desk.turn()
        for params, code in (
            ({"action": "undo"}, "invalidParams"),
            ({"action": "burn", "changeIds": ["f00000000"]}, "invalidParams"),
            ({"action": "undo", "turnId": "none"}, "turnNotFound"),
            ({"action": "undo", "changeIds": ["x"], "conversationId": "c_none"}, "conversationNotFound"),
        ):
            with pytest.raises(RpcError) as refused:
                await desk.resolve(**params)
            assert refused.value.name == code
        with pytest.raises(RpcError) as refused:
            await desk.changes(turnId="none")
        assert refused.value.name == "turnNotFound"
        resolved = await desk.resolve("undo", changeIds=["x", ""], hunkIds=["f00000000.9", "nothing", ":"])
        assert [(each.get("changeId", ""), each.get("hunkId", ""), each["code"]) for each in resolved["refused"]] == [
            ("x", "", "unknown"),
            ("", "", "unknown"),
            ("", "nothing", "unknown"),
            ("", ":", "unknown"),
            ("f00000000", "f00000000.9", "unknown"),
        ]
        assert file.read_text() == START.replace("two", "TWO")


async def test_a_file_that_became_something_else_has_lost_its_hunks(connect, file):
    async with Desk(connect, ScriptedModel([READ, TWO, DONE])) as desk:
        await desk.turn()
        file.unlink()
        assert states(await desk.changes()) == [["gone"]]
        file.write_bytes(b"\0\1\2")
        (change,) = await desk.changes()
        assert (states([change]), change["currentHash"]) == ([["gone"]], "")
        resolved = await desk.resolve("undo", changeIds=[change["changeId"]])
        assert [each["code"] for each in resolved["refused"]] == ["stale"]
        assert file.read_bytes() == b"\0\1\2"


async def test_images_go_with_their_conversation(connect, file, home):
    async with Desk(connect, ScriptedModel([READ, TWO, DONE])) as desk:
        await desk.turn()
        await desk.client.request("agent/conversationDelete", {"conversationId": desk.identifier})
        assert await desk.client.stop() == 0
    store = Store.open(str(home / "data" / "store"))
    left = store.read(lambda s: [list(s._transaction.scan(name, Span())) for name in ("blob", "blob_use", "change")])
    await store.close()
    assert left == [[], [], []]
