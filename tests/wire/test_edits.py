"""Edits over the wire: into the open buffer, guarded by the hash of the text they were made from."""

import hashlib
import re

import pytest

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import Call, ScriptedModel, reply

DISK = "one\ntwo\nthree\n"
BUFFER = "one\ntwo\nthree\nuser line\n"


def text_hash(text):
    return hashlib.sha256(text.replace("\r\n", "\n").encode()).hexdigest()[:16]


def replace_line_two(request):
    """An edit made from what the newest result showed."""
    shown = [message for message in request.messages if type(message).__name__ == "ToolMessage"][-1].content
    found = re.search(r"hash: ([0-9a-f]{16})", shown)[1]
    edits = [{"op": "replace", "start": 2, "end": 2, "text": "TWO"}]
    return reply(Call("edit", {"path": "a.txt", "hash": found, "edits": edits}))


READ = reply(Call("read", {"path": "a.txt"}))


class Buffer:
    """An editor's side of `agent/applyEdits`: compares hashes, applies, tells the change, then answers."""

    def __init__(self, client, *, encoding="utf-16"):
        self.client = client
        self.encoding = encoding
        self.asked = []
        client.answers["agent/applyEdits"] = self.apply

    def apply(self, params):
        self.asked.append(params)
        (document,) = params["documents"]
        version, text = self.client.texts[document["uri"]]
        if text_hash(text) != document["expect"]["hash"]:
            return self.refuse(document, "stale", text)
        for edit in reversed(document["edits"]):
            start, end = (self.offset(text, edit["range"][edge]) for edge in ("start", "end"))
            text = text[:start] + edit["newText"] + text[end:]
        self.client.type(document["uri"], text)
        status = {"uri": document["uri"], "status": "applied", "version": version + 1, "hash": text_hash(text)}
        return {"applied": True, "documents": [status | {"dirty": True}]}

    def refuse(self, document, status, text=""):
        return {"applied": False, "documents": [{"uri": document["uri"], "status": status, "hash": text_hash(text)}]}

    def offset(self, text, position):
        lines = text.split("\n")
        before = sum(len(line) + 1 for line in lines[: position["line"]])
        line = lines[position["line"]] if position["line"] < len(lines) else ""
        units = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[self.encoding]
        codec = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}[self.encoding]
        return before + len(line.encode(codec)[: position["character"] * units].decode(codec))


@pytest.fixture
def file(workspace):
    path = workspace / "a.txt"
    path.write_text(DISK)
    return path


async def test_an_edit_lands_in_the_unsaved_buffer_and_not_on_disk(connect, file):
    """SYNC-08: a file that is open with unsaved text is read and edited as the buffer has it."""
    model = ScriptedModel([READ, replace_line_two, reply("Done.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url, initializationOptions={"settings": {"permission_mode": "edits"}})
        uri = client.open(file, DISK)
        client.type(uri, BUFFER)
        buffer = Buffer(client)
        ended = await client.turn("change line two")
    assert ended["outcome"] == "completed"
    assert client.texts[uri][1] == "one\nTWO\nthree\nuser line\n"
    assert file.read_text() == DISK
    (asked,) = buffer.asked
    assert asked["atomic"] is True
    assert asked["documents"][0]["expect"]["hash"] == text_hash(BUFFER)
    assert asked["documents"][0]["save"] == "never"
    assert ended["files"] == [
        {
            "uri": uri,
            "op": "edit",
            "added": 1,
            "removed": 1,
            "beforeHash": text_hash(BUFFER),
            "afterHash": text_hash(client.texts[uri][1]),
        }
    ]
    read = next(event for event in client.events("toolUpdated") if event.get("result", "").startswith("path"))
    assert "source: buffer" in read["result"]
    assert "user line" in read["result"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_positions_are_right_in_every_encoding(connect, file, encoding):
    text = "😋 naïve\ntwo 😋 ü\nthree\n"
    model = ScriptedModel([READ, replace_line_two, reply("Done.")])
    async with LoopbackServer(model) as provider:
        client = await connect(
            provider.base_url,
            encodings=[encoding],
            initializationOptions={"settings": {"permission_mode": "edits"}},
        )
        uri = client.open(file, text)
        Buffer(client, encoding=encoding)
        await client.turn("change line two")
    assert client.texts[uri][1] == "😋 naïve\nTWO\nthree\n"


async def test_a_buffer_that_changed_meanwhile_is_left_alone_and_the_next_edit_works(connect, file):
    def edit_while_the_user_types(request):
        client.type(uri, "zero\n" + BUFFER)
        return replace_line_two(request)

    def edit_again(request):
        refusal = request.messages[-1].content
        assert text_hash("zero\n" + BUFFER) in refusal
        edits = [{"op": "replace", "start": 3, "end": 3, "text": "TWO"}]
        return reply(Call("edit", {"path": "a.txt", "hash": text_hash("zero\n" + BUFFER), "edits": edits}))

    model = ScriptedModel([READ, edit_while_the_user_types, READ, edit_again, reply("Done.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url, initializationOptions={"settings": {"permission_mode": "edits"}})
        uri = client.open(file, BUFFER)
        Buffer(client)
        ended = await client.turn("change line two")
    assert ended["outcome"] == "completed"
    failed = [event for event in client.events("toolUpdated") if event["status"] == "failed"]
    assert len(failed) == 1
    assert failed[0]["mutationState"] == "none"
    assert client.texts[uri][1] == "zero\none\nTWO\nthree\nuser line\n"


async def test_an_editor_that_finds_the_text_stale_is_believed(connect, file):
    model = ScriptedModel([READ, replace_line_two, reply("I see.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url, initializationOptions={"settings": {"permission_mode": "edits"}})
        uri = client.open(file, BUFFER)
        buffer = Buffer(client)
        client.answers["agent/applyEdits"] = lambda params: buffer.refuse(params["documents"][0], "stale", "other")
        ended = await client.turn("change line two")
    assert (ended["outcome"], ended.get("files", [])) == ("completed", [])
    failed = [event for event in client.events("toolUpdated") if event["status"] == "failed"]
    assert len(failed) == 1
    assert client.texts[uri][1] == BUFFER
    assert file.read_text() == DISK


async def test_a_file_that_is_not_open_is_written_by_the_server(connect, file):
    model = ScriptedModel([READ, replace_line_two, reply("Done.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url, initializationOptions={"settings": {"permission_mode": "edits"}})
        ended = await client.turn("change line two")
    assert ended["outcome"] == "completed"
    assert file.read_text() == "one\nTWO\nthree\n"


async def test_an_edit_is_asked_for_with_its_diff(connect, file):
    model = ScriptedModel([READ, replace_line_two, reply("Done.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url)
        asked = []
        client.answers["agent/requestPermission"] = lambda params: asked.append(params) or {"optionId": "allow_once"}
        await client.turn("change line two")
    (question,) = asked
    assert question["subject"]["type"] == "edit"
    assert "-two" in question["subject"]["diff"]
    assert "+TWO" in question["subject"]["diff"]
    assert [option["kind"] for option in question["options"]] == ["allow", "allow", "allow", "deny", "cancelTurn"]
    assert question["options"][2]["rule"] == "edit(a.txt)"
    statuses = [event["status"] for event in client.events("toolUpdated") if event["name"] == "edit"]
    assert statuses == ["pending", "awaitingApproval", "running", "completed"]
    assert file.read_text() == "one\nTWO\nthree\n"


async def test_a_declined_edit_changes_nothing(connect, file):
    model = ScriptedModel([READ, replace_line_two, reply("Fine.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url)
        client.answers["agent/requestPermission"] = lambda _: {"optionId": "deny", "feedback": "not this line"}
        ended = await client.turn("change line two")
    assert ended["outcome"] == "completed"
    assert "not this line" in model.requests[-1].messages[-1].content
    assert file.read_text() == DISK
