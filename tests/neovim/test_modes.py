"""An edit that arrives while the person is in the middle of something: it lands, and what they do means the same."""

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from .conftest import DEADLINE_S, Editor, Peer, eventually, hash_of, replacing, text_edit

TEXT = "".join(f"line {number}\n" for number in range(1, 21))
LATER = TEXT.replace("line 1\n", "new\nnew\nline 1\n").replace("line 15\n", "LINE 15\n")
EDITS = (text_edit(0, 0, 0, "new\nnew\n"), text_edit(14, 0, 7, "LINE 15"))


@pytest.fixture
def path(editor: Editor, turn: str) -> Path:
    """An open file of the workspace that holds TEXT."""
    editor.open("a.txt", TEXT)
    return editor.workspace / "a.txt"


def text_of(editor: Editor) -> str:
    return "\n".join(editor.lua("return vim.fn.getbufline('a.txt', 1, '$')")) + "\n"


def edit(peer: Peer, turn: str, path: Path) -> dict[str, Any]:
    """Make LATER of TEXT."""
    return peer.edit(turn, "e1", replacing(path, TEXT, LATER, *EDITS))


def asked(peer: Peer, turn: str, path: Path) -> Future[dict[str, Any]]:
    """The same, without waiting for it."""
    params = {"editId": "e1", "label": "test", "turnId": turn, "atomic": True}
    documents = [replacing(path, TEXT, LATER, *EDITS)]
    return peer.request("agent/applyEdits", {**params, "documents": documents})


@pytest.mark.parametrize(
    ("keys", "mode", "then", "wanted"),
    [
        ("10Gi", "i", "x<BS>y<CR><Esc>", LATER.replace("line 10", "y\nline 10")),
        ("10Gi<C-o>", "niI", "x<Esc>", LATER.replace("line 10", "ine 10")),
        ("10GR", "R", "xy<BS><Esc>", LATER.replace("line 10", "xine 10")),
        ("10G:delete", "c", "<CR>", LATER.replace("line 10\n", "")),
        ("10G:s/line/LINE", "c", "/<CR>", LATER.replace("line 10", "LINE 10")),
        ("10GVj:", "c", "delete<CR>", LATER.replace("line 10\nline 11\n", "")),
        ("10G/line 12", "c", "<CR>x", LATER.replace("line 12", "ine 12")),
        ("10G:call getchar()<CR>", "n", "ax", LATER.replace("line 10", "ine 10")),
        ("10GVj", "V", "d", LATER.replace("line 10\nline 11\n", "")),
        ("10GVjjo", "V", "d", LATER.replace("line 10\nline 11\nline 12\n", "")),
        ("10Gv$", "v", "d", LATER.replace("line 10\n", "")),
        ("10G5lvj", "v", "d", LATER.replace("line 10\nline 11", "line 1")),
        ("10G<C-v>j$", "\x16", "Ax<Esc>", LATER.replace("line 10\nline 11\n", "line 10x\nline 11x\n")),
        ("10Ggh<S-Right>", "s", "x<Esc>", LATER.replace("line 10", "x0")),
        ("1Gvj", "v", "d", LATER.replace("line 1\nline 2", "ine 2")),
        ("14GVjj", "V", "d", LATER.replace("line 14\nLINE 15\nline 16\n", "")),
    ],
)
def test_what_the_person_does_means_the_same(
    editor: Editor, peer: Peer, turn: str, path: Path, keys: str, mode: str, then: str, wanted: str
) -> None:
    editor.keys(keys)
    result = edit(peer, turn, path)
    assert result["applied"]
    assert (editor.mode(), text_of(editor)) == (mode, LATER)
    editor.keys(then)
    assert text_of(editor) == wanted
    editor.keys("<Esc>uu")
    assert text_of(editor) == TEXT
    eventually(lambda: peer.text_of(path.as_uri()), TEXT.__eq__)


@pytest.mark.parametrize(
    ("keys", "then", "wanted"),
    [
        ("10Gd", "j", TEXT.replace("line 10\nline 11\n", "")),
        ("10G2d", "d", TEXT.replace("line 10\nline 11\n", "")),
        ("10Gg~", "t1", TEXT.replace("line 10", "LINE 10")),
    ],
)
def test_an_operator_ends_before_the_edit_is_looked_at(
    editor: Editor, peer: Peer, turn: str, path: Path, keys: str, then: str, wanted: str
) -> None:
    editor.keys(keys)
    edited = asked(peer, turn, path)
    editor.barrier()
    assert (editor.mode(), text_of(editor), edited.done()) == ("no", TEXT, False)
    editor.keys(then)
    (document,) = edited.result(DEADLINE_S)["result"]["documents"]
    assert (document["status"], document["hash"]) == ("stale", hash_of(wanted))
    assert text_of(editor) == wanted


def test_an_operator_that_is_given_up_lets_the_edit_in(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    editor.keys("10Gd")
    edited = asked(peer, turn, path)
    editor.barrier()
    editor.keys("<Esc>")
    assert edited.result(DEADLINE_S)["result"]["applied"]
    editor.keys("x")
    assert text_of(editor) == LATER.replace("line 10", "ine 10")


def test_an_operator_that_waits_too_long_keeps_the_edit_out(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    editor.keys("10Gd")
    result = edit(peer, turn, path)
    assert [d["status"] for d in result["documents"]] == ["rejected"]
    assert editor.mode() == "no"
    editor.keys("d")
    assert text_of(editor) == TEXT.replace("line 10\n", "")


def test_the_command_line_window_stays_open(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    editor.keys("10Gq:isome text")
    assert edit(peer, turn, path)["applied"]
    assert editor.lua("return { vim.fn.getcmdwintype(), vim.fn.getline('.') }") == [":", "some text"]
    for keys in ("<C-c>", "<C-c>", "x"):
        editor.keys(keys)
    assert text_of(editor) == LATER.replace("line 10", "ine 10")


@pytest.mark.parametrize("keys", [':echo "one\\ntwo"<CR>', "10Gr", "10Gf", '"'])
def test_at_a_prompt_the_edit_waits(editor: Editor, peer: Peer, turn: str, path: Path, keys: str) -> None:
    editor.nvim.ui_attach(80, 24)  # nobody is asked without one
    editor.nvim.input(keys)
    eventually(lambda: editor.nvim.api.get_mode()["blocking"])
    edited = asked(peer, turn, path)
    eventually(lambda: peer.obey("pid"))
    assert not edited.done()
    editor.nvim.input("<Esc>")
    assert edited.result(DEADLINE_S)["result"]["applied"]
    assert text_of(editor) == LATER


@pytest.mark.parametrize("command", ["enew | bunload! a.txt", "bwipeout! a.txt", "bdelete! a.txt"])
def test_a_buffer_that_is_gone_is_missing(editor: Editor, peer: Peer, turn: str, path: Path, command: str) -> None:
    editor.keys("Gomine<Esc>")
    editor.command(command)
    result = edit(peer, turn, path)
    assert result == {"applied": False, "documents": [{"uri": path.as_uri(), "status": "missing"}]}
    assert path.read_text() == TEXT
    assert peer.wait_for("textDocument/didClose") == {"textDocument": {"uri": path.as_uri()}}


def test_a_buffer_with_another_name_is_another_document(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    other = path.with_name("b.txt")
    editor.command("file b.txt")
    assert [d["status"] for d in edit(peer, turn, path)["documents"]] == ["missing"]
    assert peer.wait_for("textDocument/didClose") == {"textDocument": {"uri": path.as_uri()}}
    assert peer.text_of(other.as_uri()) == TEXT
    assert peer.edit(turn, "e2", replacing(other, TEXT, LATER, *EDITS))["applied"]
    assert peer.text_of(other.as_uri()) == LATER
    editor.command("write")
    assert (path.read_text(), other.read_text()) == (TEXT, LATER)
    peer.wait_for("textDocument/didSave")
    opened = [document["textDocument"]["uri"] for document in peer.received("textDocument/didOpen")]
    assert opened == [path.as_uri(), other.as_uri()]
