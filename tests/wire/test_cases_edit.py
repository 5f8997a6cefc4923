"""Edits as they went wrong in the field (EDIT-…), through the server: on disk and in an open buffer."""

import re
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.wire.buffer import Buffer, text_hash
from tests.wire.client import Client

from tinsmith.domain.message import ToolMessage
from tinsmith.llm.scripted import Call, ScriptedModel, reply
from tinsmith.tools.ports import RESULT_CHARACTERS

pytestmark = pytest.mark.asyncio(loop_scope="module")

BOM = b"\xef\xbb\xbf"
NAME = "file.txt"
READ = reply(Call("read", {"path": NAME}))
DONE = reply("Done.")


class Disk:
    """A file that nobody has open."""

    def __init__(self, path: Path, content: bytes) -> None:
        self.path = path
        path.write_bytes(content)

    @property
    def content(self) -> bytes:
        return self.path.read_bytes()

    def append(self, line: str) -> None:
        """What another program does."""
        with self.path.open("a") as file:
            file.write(line)


class Opened:
    """A file that is open in the editor, where its BOM is no part of the text; the disk must stay as it was."""

    def __init__(self, client: Client, path: Path, content: bytes) -> None:
        self._client = client
        self._path = path
        self._saved = content
        self._bom = BOM if content.startswith(BOM) else b""
        path.write_bytes(content)
        self._uri = client.open(path, content.decode("utf-8-sig"))
        Buffer(client)

    @property
    def content(self) -> bytes:
        assert self._path.read_bytes() == self._saved
        return self._bom + self._client.texts[self._uri][1].encode()

    def append(self, line: str) -> None:
        """What the user types."""
        self._client.type(self._uri, self._client.texts[self._uri][1] + line)


@pytest.fixture(params=["disk", "buffer"])
def put(request, server, workspace):
    """Make the file with this content, on disk alone or in an open buffer too."""
    path = workspace / NAME
    yield lambda content: Disk(path, content) if request.param == "disk" else Opened(server, path, content)
    if request.param == "buffer":
        server.notify("textDocument/didClose", {"textDocument": {"uri": path.as_uri()}})


def newest(request) -> str:
    """The newest tool result that the model sees."""
    return [message for message in request.messages if isinstance(message, ToolMessage)][-1].content


def known_hash(request) -> str:
    return re.findall(r"^hash: ([0-9a-f]{16})$", newest(request), re.MULTILINE)[-1]


def edit(op: str, start: int, end: int | None = None, text: str | None = None):
    """An edit of what the newest result showed."""
    given = {"op": op, "start": start, "end": end, "text": text}
    part = {name: value for name, value in given.items() if value is not None}
    return lambda request: reply(Call("edit", {"path": NAME, "hash": known_hash(request), "edits": [part]}))


def write(content: str):
    """The whole content, over what the newest result showed."""
    return lambda request: reply(Call("write", {"path": NAME, "hash": known_hash(request), "content": content}))


async def test_edit_01_line_ends_stay_and_new_lines_get_them(open_talk, put):
    file = put(b"alpha\r\nbeta\r\ngamma\r\ndelta\r\n")
    insert = edit("insert", 3, text="new1\nnew2")
    async with open_talk(ScriptedModel([READ, edit("replace", 2, 2, "BETA"), DONE, insert, DONE])) as talk:
        await talk.say()
        assert file.content == b"alpha\r\nBETA\r\ngamma\r\ndelta\r\n"
        (changed,) = (await talk.say())["files"]
        assert not any("\r" in result for result in talk.results)
    assert file.content == b"alpha\r\nBETA\r\ngamma\r\nnew1\r\nnew2\r\ndelta\r\n"
    assert (changed["added"], changed["removed"]) == (2, 0)


async def test_edit_03_one_bom_stays(open_talk, put):
    file = put(BOM + "using A;\r\n// sécurité\r\n".encode())
    async with open_talk(ScriptedModel([READ, edit("replace", 1, 1, "using B;"), DONE])) as talk:
        await talk.say()
        read, _ = talk.results
    assert file.content == BOM + "using B;\r\n// sécurité\r\n".encode()
    assert read.endswith("    1\tusing A;\n    2\t// sécurité\n")
    assert "\ufeff" not in read
    plain = text_hash("using A;\n// sécurité\n")
    assert f"hash: {plain}\n" in read


async def test_edit_04_text_in_another_encoding_is_refused(open_talk, workspace):
    """The design refuses; byte 0xE9 stays and nobody is told of a success."""
    path = workspace / NAME
    path.write_bytes(b"int x = 1;\n/* caf\xe9 */\n")
    change = edit("replace", 1, 1, "int x = 2;")
    async with open_talk(ScriptedModel([READ, change, READ, write("int x = 2;\n"), DONE])) as talk:
        await talk.say()
        read, edited, _, written = talk.results
    assert "note: not UTF-8" in read
    assert "is neither UTF-8 nor UTF-16" in edited
    assert "is neither UTF-8 nor UTF-16" in written
    assert path.read_bytes() == b"int x = 1;\n/* caf\xe9 */\n"
    ended = [event["status"] for event in talk.events("toolUpdated") if event["status"] in {"completed", "failed"}]
    assert ended == ["completed", "failed", "completed", "failed"]


async def test_edit_06_an_insert_behind_the_last_line_does_not_glue(open_talk, put):
    """The text stays without a final newline, as it was."""
    file = put(b"a\nb\nc")
    async with open_talk(ScriptedModel([READ, edit("insert", 3, text="X"), DONE])) as talk:
        await talk.say()
    assert file.content == b"a\nb\nc\nX"


@pytest.mark.parametrize(("text", "after"), [("X\n", b"a\nX\nb\n"), ("X", b"a\nX\nb\n"), ("X\n\n", b"a\nX\n\nb\n")])
async def test_edit_07_a_final_newline_of_the_text_is_optional(open_talk, put, text, after):
    file = put(b"a\nb\n")
    async with open_talk(ScriptedModel([READ, edit("insert", 1, text=text), DONE])) as talk:
        await talk.say()
    assert file.content == after


async def test_edit_09_only_newlines_end_a_line_in_every_tool(open_talk, put):
    text = "one\n\x0ctwo\nthr\u2028ee\nfo\u0085ur\nfi\x0bve \x1c x\nTARGET\nseven\n"
    file = put(text.encode())

    def delete(request):
        shown = re.search(r"^ *(\d+)\tTARGET$", newest(request), re.MULTILINE)
        return edit("delete", int(shown[1]))(request)

    grep = reply(Call("bash", {"command": f"grep -n TARGET {NAME}"}))
    async with open_talk(ScriptedModel([grep, READ, delete, DONE])) as talk:
        await talk.say()
        found, read, _ = talk.results
    assert found == "exit: 0\n6:TARGET\n"
    assert "lines: 7\n" in read
    assert "    6\tTARGET\n" in read
    assert file.content.decode() == text.replace("TARGET\n", "")


@pytest.mark.parametrize(
    "change", [edit("replace", 2, 2, "echo two"), write("#!/bin/sh\necho two\n")], ids=["edit", "write"]
)
@pytest.mark.parametrize("mode", [0o755, 0o600])
async def test_edit_11_the_mode_stays(open_talk, workspace, mode, change):
    path = workspace / NAME
    path.write_bytes(b"#!/bin/sh\necho one\n")
    path.chmod(mode)
    async with open_talk(ScriptedModel([READ, change, DONE])) as talk:
        await talk.say()
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"#!/bin/sh\necho two\n", mode)


@pytest.mark.parametrize("change", [edit("replace", 1, 1, "changed"), write("changed\n")], ids=["edit", "write"])
async def test_edit_14_a_read_only_file_is_left_alone(open_talk, workspace, change):
    path = workspace / NAME
    path.write_bytes(b"kept\n")
    path.chmod(0o444)
    async with open_talk(ScriptedModel([READ, change, DONE])) as talk:
        await talk.say()
        assert "is read-only" in talk.results[-1]
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"kept\n", 0o444)
    assert [*workspace.iterdir()] == [path]
    assert talk.events("toolUpdated")[-1]["mutationState"] == "none"


@pytest.mark.parametrize(
    ("change", "after"),
    [
        (edit("replace", 1, 1, "v2"), b"v2\nfrom outside\n"),
        (edit("delete", 1), b"from outside\n"),
        (write("v2\n"), b"v2\n"),
    ],
    ids=["replace", "delete", "write"],
)
async def test_edit_15_a_change_from_outside_is_never_written_over(open_talk, put, change, after):
    file = put(b"v1\n")
    async with open_talk(ScriptedModel([READ, DONE, change, DONE, READ, change, DONE])) as talk:
        await talk.say("read it")
        file.append("from outside\n")
        await talk.say("change it")
        assert file.content == b"v1\nfrom outside\n"
        refusal = talk.results[-1]
        assert "is not the text with the hash" in refusal
        assert f"hash: {text_hash(file.content.decode())}\n" in refusal
        assert "+from outside" in refusal
        failed = talk.events("toolUpdated")[-1]
        assert (failed["status"], failed["mutationState"]) == ("failed", "none")
        assert (await talk.say("read it again and change it"))["outcome"] == "completed"
    assert file.content == after


async def test_edit_15_the_refusal_is_enough_for_the_next_edit(open_talk, put):
    """It gives the new hash and the new line numbers, so no read is needed in between."""
    file = put(b"a\nb\nc\n")
    change = edit("replace", 2, 2, "B")
    async with open_talk(ScriptedModel([READ, DONE, change, change, DONE])) as talk:
        await talk.say("read it")
        file.append("d\n")
        await talk.say("change it")
        assert "-> replace 2" in talk.results[1]
    assert file.content == b"a\nB\nc\nd\n"


async def test_edit_18_one_endless_line_is_cut_and_can_still_be_replaced(open_talk, put):
    text = "x=1;" * 750_000
    file = put(text.encode())
    async with open_talk(ScriptedModel([READ, edit("replace", 1, 1, "y"), DONE])) as talk:
        await talk.say()
        read, changed = talk.results
    assert len(read) <= RESULT_CHARACTERS
    assert "of its 3,000,000 characters shown" in read
    assert f"hash: {text_hash(text)}\n" in read
    assert len(changed) <= RESULT_CHARACTERS
    assert file.content == b"y"


async def test_edit_19_what_is_no_text_is_refused_with_its_size(open_talk, workspace):
    document = b"%DOC-1.0\n" + b"header line\n" * 125 + bytes(range(256)) * 4
    contents = {"doc.bin": document, "dot.png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"}
    calls: list[Call] = []
    for name, content in contents.items():
        (workspace / name).write_bytes(content)
        calls += [
            Call("read", {"path": name}),
            Call("edit", {"path": name, "hash": "0" * 16, "edits": [{"op": "delete", "start": 1}]}),
            Call("write", {"path": name, "hash": "0" * 16, "content": "x"}),
        ]
    async with open_talk(ScriptedModel([reply(*calls), DONE])) as talk:
        await talk.say()
        refusals = talk.results
    for number, content in enumerate(contents.values()):
        for refusal in refusals[3 * number : 3 * number + 3]:
            assert "binary" in refusal
            assert f"{len(content):,} bytes" in refusal
            assert "header line" not in refusal
    assert {name: (workspace / name).read_bytes() for name in contents} == contents


async def test_edit_21_a_whole_new_content_keeps_bom_and_line_ends(open_talk, put):
    file = put(BOM + b"using A;\r\n// x\r\n")
    async with open_talk(ScriptedModel([READ, write("using B;\nusing C;\n"), DONE])) as talk:
        await talk.say()
    assert file.content == BOM + b"using B;\r\nusing C;\r\n"


async def test_edit_23_odd_characters_in_other_lines_stay(open_talk, put):
    text = "e\u0301 é\n👨\u200d👩\u200d👧 🇩🇪\nold\n\ttab \n  trail   \n"
    file = put(text.encode())
    async with open_talk(ScriptedModel([READ, edit("replace", 3, 3, "new"), DONE])) as talk:
        await talk.say()
        read = talk.results[0]
    assert file.content == text.replace("old", "new").encode()
    assert all(f"\t{line}\n" in read for line in text.splitlines())


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"op": "replace", "start": 0, "end": 1, "text": "x"}, "the file has lines 1-4"),
    ({"op": "replace", "start": 3, "end": 2, "text": "x"}, "the file has lines 1-4"),
    ({"op": "delete", "start": 5, "end": 9}, "the file has lines 1-4"),
    ({"op": "delete", "start": 4, "end": 5}, "the file has lines 1-4"),
    ({"op": "delete", "start": -1}, "the file has lines 1-4"),
    ({"op": "insert", "start": 5, "text": "x"}, "the file has 4 lines"),
    ({"op": "insert", "start": -1, "text": "x"}, "the file has 4 lines"),
    ({"op": "insert", "start": 1}, "An insert needs `text`"),
    ({"op": "replace", "start": 1}, "A replace needs `text`"),
    ({"op": "move", "start": 1}, "do not fit edit"),
    ({"op": "delete"}, "missing required field `start`"),
]


async def test_edit_24_ranges_that_make_no_sense_are_refused_in_words(open_talk, put):
    file = put(b"1\n2\n3\n4\n")

    def every_wrong_one(request):
        known = known_hash(request)
        return reply(*(Call("edit", {"path": NAME, "hash": known, "edits": [each]}) for each, _ in WRONG))

    async with open_talk(ScriptedModel([READ, every_wrong_one, DONE])) as talk:
        assert (await talk.say())["outcome"] == "completed"
        for refusal, (_, says) in zip(talk.results[1:], WRONG, strict=True):
            assert says in refusal
    assert file.content == b"1\n2\n3\n4\n"
    ended = [event for event in talk.events("toolUpdated") if event["status"] in {"completed", "failed"}]
    assert [(event["status"], event["mutationState"]) for event in ended[1:]] == [("failed", "none")] * len(WRONG)


async def test_edit_24_inserts_at_the_top_and_at_the_end(open_talk, put):
    file = put(b"1\n2\n3\n4\n")
    async with open_talk(
        ScriptedModel([READ, edit("insert", 4, text="end"), edit("insert", 0, text="top"), DONE])
    ) as talk:
        await talk.say()
    assert file.content == b"top\n1\n2\n3\n4\nend\n"
