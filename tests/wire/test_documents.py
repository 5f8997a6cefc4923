"""Open documents: incremental changes against a naive model, and the synchronisation cases through the server."""

import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.buffer import Buffer, text_hash
from tests.wire.client import frame

from tinsmith.adapters.lsp.documents import Document, OpenDocuments
from tinsmith.adapters.lsp.wire import ContentChange, Position, Range, TextDocumentItem
from tinsmith.demo.server import LoopbackServer, RawAnswer
from tinsmith.llm.scripted import Call, ScriptedModel, Wait, reply

EDITS = {"initializationOptions": {"settings": {"permission_mode": "edits"}}}
FULL = {"initializationOptions": {"settings": {"permission_mode": "full"}}}
UNITS = {"utf-8": 1, "utf-16": 2, "utf-32": 4}
CODECS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}

texts = st.text(st.sampled_from("ab é€😋\t\r\n\n\x0b\x0c\x1c\x85\u2028\u2029"), max_size=30)
positions = st.builds(Position, st.integers(-1, 8), st.integers(-1, 30))
changes = st.builds(ContentChange, texts, st.none() | st.builds(Range, positions, positions))
encodings = st.sampled_from(sorted(UNITS))


def naive_offset(text, position, encoding):
    """Count: lines end at a newline, characters are units of the encoding, what lies beyond is clamped."""
    lines = re.findall(r"[^\n]*\n|[^\n]+\Z|\Z", text)
    if position.line >= len(lines):
        return len(text)
    line = max(0, position.line)
    body = re.sub(r"\r?\n\Z", "", lines[line])
    units = column = 0
    while column < len(body) and units < position.character:
        units += len(body[column].encode(CODECS[encoding])) // UNITS[encoding]
        column += 1
    return sum(map(len, lines[:line])) + column


def naive_change(text, change, encoding):
    if change.range is None:
        return change.text
    start = naive_offset(text, change.range.start, encoding)
    end = naive_offset(text, change.range.end, encoding)
    return text[:start] + change.text + text[max(start, end) :]


@given(texts, st.lists(st.lists(changes, max_size=4), max_size=4), encodings)
def test_changes_are_those_of_a_naive_model(text, notifications, encoding):
    document = Document("file:///a", 1, text, encoding)
    for version, several in enumerate(notifications, 2):
        document.change(version, several)
        for change in several:
            text = naive_change(text, change, encoding)
        assert (document.text, document.version, document.hash) == (text, version, text_hash(text))


@given(texts, st.data(), encodings)
def test_a_position_and_its_offset_are_inverse(text, data, encoding):
    document = Document("file:///a", 1, text, encoding)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    span = document.offset_range(start, end)
    between_cr_and_lf = {at for at in (start, end) if text[at - 1 : at + 1] == "\r\n" and at}
    assert {naive_offset(text, span.start, encoding), naive_offset(text, span.end, encoding)} == {
        at - (at in between_cr_and_lf) for at in (start, end)
    }


def test_a_document_knows_whether_it_is_saved():
    documents = OpenDocuments("utf-16")
    documents.open(TextDocumentItem("file:///a", 1, "one\r\n"))
    assert documents.snapshot("/a").is_dirty is False
    documents.change("file:///a", 2, (ContentChange("two\r\n"),))
    snapshot = documents.snapshot("/a")
    assert (snapshot.is_dirty, snapshot.eol, snapshot.version, snapshot.source) == (True, "\r\n", 2, "buffer")
    documents.save("file:///a")
    assert documents.snapshot("/a").is_dirty is False
    documents.close("file:///a")
    assert documents.snapshot("/a") is None


SAME = [
    ("file:///c%3A/Users/Ann%20B/x.py", "file:///C:/Users/Ann%20B/x.py", "file:///c:/Users/Ann%20B/x.py"),
    ("file:///home/ann/caf%C3%A9.md", "file:///home/ann/café.md", "file://localhost/home/ann/caf%c3%a9.md"),
    ("file:///home/ann/a%20b/%23c%25.py", "file:/home/ann/a%20b/%23c%25.py"),
    ("file:///home/ann/what%3F.txt", "FILE:///home/ann/what%3f.txt"),
    ("untitled:Untitled-1", "untitled:Untitled-1"),
]


@pytest.mark.parametrize("uris", SAME, ids=[each[0] for each in SAME])
def test_every_form_of_a_uri_is_one_document(uris):
    """SYNC-03: opened under one form, changed and closed under the others; it keeps the form that opened it."""
    for opened in uris:
        documents = OpenDocuments("utf-16")
        documents.open(TextDocumentItem(opened, 1, "one"))
        for version, other in enumerate(uris, 2):
            assert documents.change(other, version, (ContentChange(f"version {version}"),))
            assert documents.get(opened).text == f"version {version}"
            assert documents.get(other).uri == opened
        assert len(documents.items()) == 1
        documents.close(uris[-1])
        assert documents.items() == ()


def reading(request):
    last = request.messages[-1]
    return reply(Call("read", {"path": last.text})) if hasattr(last, "text") else reply("Read.")


async def read(client, name):
    """A file as the read tool shows it."""
    ended = await client.turn(name)
    found = [event for event in client.events("toolUpdated") if event["turnId"] == ended["turnId"]]
    return next(event["result"] for event in found if event.get("result"))


def lines_of(result):
    return re.findall(r"^ *\d+\t(.*)$", result, re.MULTILINE)


async def test_columns_are_utf_16_units(connect, workspace):
    """SYNC-01."""
    async with LoopbackServer(ScriptedModel(reading)) as provider:
        client = await connect(provider.base_url)
        uri = client.open(workspace / "a.txt", 'x="😋"\n')
        client.splice(uri, (0, 5, 0, 5, "y"))
        assert lines_of(await read(client, "a.txt")) == ['x="😋y"']


async def test_a_document_is_found_however_its_uri_is_written(connect, workspace):
    """SYNC-03, through the server: the edit comes back under the form that the client used."""
    odd = "caf\u00e9 #1 100%?.txt"
    written = f"{workspace.as_uri()}/café%20%231%20100%25%3F.txt"
    other = f"{workspace.as_uri()}/caf%C3%A9%20%231%20100%25%3f.txt"
    client = None

    def edit(request):
        assert "source: buffer" in request.messages[-1].content
        edits = [{"op": "replace", "start": 1, "end": 1, "text": "ONE"}]
        return reply(Call("edit", {"path": odd, "hash": text_hash("one two\n"), "edits": edits}))

    async with LoopbackServer(ScriptedModel([reply(Call("read", {"path": odd})), edit, reply("Done.")])) as provider:
        client = await connect(provider.base_url, **EDITS)
        client.texts[written] = (2, "one two\n")
        item = {"uri": written, "languageId": "text", "version": 1, "text": "one\n"}
        client.notify("textDocument/didOpen", {"textDocument": item})
        client.texts[other] = (1, "")
        client.splice(other, (0, 3, 0, 3, " two"))
        buffer = Buffer(client)
        await client.turn("go")
        assert [each["uri"] for each in buffer.asked[0]["documents"]] == [written]
        assert client.texts[written][1] == "ONE\n"


@pytest.mark.parametrize("is_byte_by_byte", [False, True])
async def test_lengths_are_bytes(connect, is_byte_by_byte):
    """SYNC-05: multi-byte texts back to back, in both directions."""
    client = await connect("http://127.0.0.1:9/v1")
    title = "日本語 é 🚀"
    messages = [
        {"jsonrpc": "2.0", "id": number, "method": "agent/conversationNew", "params": {"title": title * number}}
        for number in (1_001, 1_002)
    ]
    bodies = [json.dumps(message, ensure_ascii=False).encode() for message in messages]
    wire = b"".join(map(frame, bodies))
    for piece in (wire[at : at + 1] for at in range(len(wire))) if is_byte_by_byte else (wire,):
        client.write(piece)
    for number in (1_001, 1_002):
        made = await client.answer(number)
        assert made["conversation"]["title"].startswith(title)


async def test_edits_of_one_list_all_count_from_the_same_text(connect, workspace):
    """SYNC-11: same-place insertions keep their order, overlaps are refused."""
    text = "one\ntwo\nthree\n"
    (workspace / "a.txt").write_text(text)
    edits = [
        {"op": "insert", "start": 0, "text": "L1"},
        {"op": "replace", "start": 2, "end": 2, "text": "TWO"},
        {"op": "insert", "start": 2, "text": "A"},
        {"op": "insert", "start": 2, "text": "B"},
    ]
    overlap = [{"op": "delete", "start": 1, "end": 2}, {"op": "replace", "start": 2, "end": 2, "text": "y"}]
    script = [
        reply(Call("read", {"path": "a.txt"})),
        reply(Call("edit", {"path": "a.txt", "hash": text_hash(text), "edits": overlap})),
        reply(Call("edit", {"path": "a.txt", "hash": text_hash(text), "edits": edits})),
        reply("Done."),
    ]
    async with LoopbackServer(ScriptedModel(script)) as provider:
        client = await connect(provider.base_url, **EDITS)
        uri = client.open(workspace / "a.txt", text)
        buffer = Buffer(client)
        await client.turn("go")
        assert client.texts[uri][1] == "L1\none\nTWO\nA\nB\nthree\n"
        assert len(buffer.asked) == 1
        failed = [event["result"] for event in client.events("toolUpdated") if event["status"] == "failed"]
        assert len(failed) == 1
        assert "overlap" in failed[0]


SEARCH = Call("bash", {"command": "yes | grep n"})
WAITS = {
    "the first byte": RawAnswer((float("inf"),), is_silent=True),
    "the stream": ScriptedModel([reply("One ", Wait())]),
    "a command": ScriptedModel([reply(Call("bash", {"command": "sleep 60"}))]),
    "a search": ScriptedModel([reply(SEARCH)]),
}


@pytest.mark.parametrize("where", WAITS)
async def test_a_cancel_is_heard_within_a_second_wherever_the_turn_waits(connect, where):
    """SYNC-12: meanwhile other requests are answered; afterwards the provider's connection is closed or idle."""
    async with LoopbackServer(WAITS[where]) as provider:
        client = await connect(provider.base_url, **FULL)
        started = await client.ask("go")
        if where == "the stream":
            await client.event("textDelta")
        elif where != "the first byte":
            await client.event("toolUpdated", status="running")
        await client.poll(lambda: any(each.method == "POST" for each in provider.requests))
        before = time.monotonic()
        await client.request("agent/configGet", {})
        assert await client.request("agent/cancel", {"turnId": started["turnId"]}) == {"state": "cancelling"}
        ended = await client.event("turnEnded")
        assert time.monotonic() - before < 1
        assert ended["outcome"] == "cancelled"
        if where in {"the first byte", "the stream"}:
            await client.poll(lambda: provider.abandoned == 1)


async def test_a_final_newline_that_the_editor_adds_when_saving_costs_one_refusal(connect, workspace):
    """SYNC-15."""
    path = workspace / "a.txt"
    path.write_text("a\nb")

    def edit(text):
        edits = [{"op": "replace", "start": 1, "end": 1, "text": "A"}]
        return reply(Call("edit", {"path": "a.txt", "hash": text_hash(text), "edits": edits}))

    look, done = reply(Call("read", {"path": "a.txt"})), reply("Done.")
    script = [look, done, edit("a\nb"), look, edit("a\nb\n"), done]
    async with LoopbackServer(ScriptedModel(script)) as provider:
        client = await connect(provider.base_url, **EDITS)
        uri = client.open(path, "a\nb")
        buffer = Buffer(client)
        await client.turn("look")
        client.type(uri, "a\nb\n")
        path.write_text("a\nb\n")
        client.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
        await client.turn("change it")
        assert client.texts[uri][1] == "A\nb\n"
        assert [each["documents"][0]["expect"]["hash"] for each in buffer.asked] == [text_hash("a\nb\n")]
        (failed,) = [event["result"] for event in client.events("toolUpdated") if event["status"] == "failed"]
        assert text_hash("a\nb\n") in failed


async def test_changes_of_one_notification_count_one_after_the_other(connect, workspace):
    """SYNC-16: each from the text that the one before left, whole texts among them, and one version for all."""
    async with LoopbackServer(ScriptedModel(reading)) as provider:
        client = await connect(provider.base_url)
        uri = client.open(workspace / "a.txt", "abc\n")
        client.splice(uri, (0, 0, 0, 0, "XY"), (0, 3, 0, 4, ""), version=2)
        assert lines_of(await read(client, "a.txt")) == ["XYac"]
        at = {"line": 0, "character": 1}
        mixed = [{"text": "new\n"}, {"range": {"start": at, "end": at}, "text": "1"}, {"text": "whole\n"}]
        mixed.append({"range": {"start": at, "end": {"line": 7, "character": 0}}, "text": "ho\n"})
        document = {"uri": uri, "version": 3}
        client.notify("textDocument/didChange", {"textDocument": document, "contentChanges": mixed})
        client.splice(uri, (0, 0, 0, 0, "stale "), version=2)
        assert lines_of(await read(client, "a.txt")) == ["who"]


async def test_positions_beyond_the_text_are_clamped(connect, workspace):
    """SYNC-17."""
    async with LoopbackServer(ScriptedModel(reading)) as provider:
        client = await connect(provider.base_url)
        uri = client.open(workspace / "a.txt", "one\r\ntwo\r\nthree")
        client.splice(uri, (0, 999, 0, 999, "!"), (99, 0, 99, 9, "?"), (1, 0, 1, 999, "zwei"))
        text = await read(client, "a.txt")
        assert lines_of(text) == ["one!", "zwei", "three?"]
        assert text_hash("one!\r\nzwei\r\nthree?") in text
        client.splice(uri, (2, 0, 3, 0, "drei"))
        assert lines_of(await read(client, "a.txt")) == ["one!", "zwei", "drei"]


UNTITLED = "untitled:Untitled-1"


def change_untitled(request):
    shown = re.search(r"hash: ([0-9a-f]{16})", request.messages[-1].content)[1]
    edits = [{"op": "replace", "start": 2, "end": 2, "text": "TWO"}]
    return reply(Call("edit", {"path": UNTITLED, "hash": shown, "edits": edits}))


@pytest.mark.parametrize("is_ours", [True, False], ids=["our client", "a plain client"])
async def test_an_edit_of_a_document_that_was_never_saved_lands_in_it_or_is_refused(connect, workspace, is_ours):
    """SYNC-09: never called done while nothing changed, and never a file of that name."""
    read = Call("read", {"path": UNTITLED})
    script = [
        *(reply(read), change_untitled, reply(Call("bash", {"command": "true"})), reply("Done.")),
        *(reply(read), change_untitled, reply("Refused.")),
        *(reply(read, Call("write", {"path": UNTITLED, "content": "lost\n"})), reply("Closed.")),
    ]
    model = ScriptedModel(script)
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url, **({} if is_ours else {"agent": None}), **FULL)
        client.answers["window/showDocument"] = lambda _: {"success": True}
        uri = client.open(UNTITLED, "one\ntwo\n")
        if is_ours:
            buffer = Buffer(client)
        else:
            client.answers["workspace/applyEdit"] = lambda params: apply_plainly(client, params)
        await run(client, is_ours)
        results = [message.content for message in model.requests[-1].messages if hasattr(message, "call_id")]
        assert re.match(rf"path: {UNTITLED}\nlines: 2\nhash: \w+\nsource: buffer\n", results[0])
        assert client.texts[uri][1] == "one\nTWO\n"
        assert f"hash: {text_hash(client.texts[uri][1])}" in results[1]
        assert f"note: open with unsaved changes, so the command saw older text on disk: {UNTITLED}\n" in results[2]

        client.type(uri, "one\ntwo\nthree\n")
        if is_ours:
            client.answers["agent/applyEdits"] = lambda params: buffer.refuse(params["documents"][0], "readOnly")
        else:
            client.answers["workspace/applyEdit"] = lambda _: {"applied": False, "failureReason": "readOnly"}
        await run(client, is_ours)
        assert model.requests[-1].messages[-1].content.startswith(f"The editor did not change {UNTITLED} (readOnly).")

        client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        await run(client, is_ours)
        told = [message.content for message in model.requests[-1].messages[-2:]]
        assert (
            told
            == [f"'{UNTITLED}' is neither a file nor a document that is open in the editor. Name a file by its path."]
            * 2
        )
        assert list(workspace.iterdir()) == []


def apply_plainly(client, params):
    (document,) = params["edit"]["documentChanges"]
    uri = document["textDocument"]["uri"]
    text = client.texts[uri][1]
    for edit in document["edits"]:
        start, end = (naive_offset(text, Position(**edit["range"][edge]), "utf-16") for edge in ("start", "end"))
        text = text[:start] + edit["newText"] + text[end:]
    client.type(uri, text)
    return {"applied": True}


async def run(client, is_ours):
    after = len(client.received)
    if is_ours:
        await client.turn("go")
        return
    await client.request("workspace/executeCommand", {"command": "tinsmith.ask", "arguments": ["go"]})
    await client.until(lambda message: message.get("method") == "window/showMessage", after)
