"""`agent/applyEdits`: guarded by hash, all documents or none, and undone as a person expects."""

import itertools
from pathlib import Path

import pytest

from .conftest import Editor, Peer, StartEditor, eventually, hash_of, replacing, text_edit

TEXT = "alpha\nbeta\ngamma\n"


@pytest.fixture
def path(editor: Editor, turn: str) -> Path:
    """An open file of the workspace that holds TEXT."""
    editor.open("a.txt", TEXT)
    return editor.workspace / "a.txt"


def text_of(editor: Editor, path: Path) -> str:
    return editor.lua(
        """
        local documents = require('tinsmith.documents')
        local buf = documents.find(vim.uri_from_fname(...))
        local lines = vim.api.nvim_buf_get_lines(buf, 0, -1, true)
        return documents.normalised(lines, vim.bo[buf].endofline, vim.bo[buf].fileformat)
        """,
        str(path),
    )


def test_an_edit_lands_in_a_dirty_buffer_and_nothing_is_saved(
    editor: Editor, peer: Peer, turn: str, path: Path
) -> None:
    editor.keys("Gomine<Esc>")
    before = TEXT + "mine\n"
    after = before.replace("beta", "BETA")
    result = peer.edit(turn, "e1", replacing(path, before, after, text_edit(1, 0, 4, "BETA")))
    (document,) = result["documents"]
    version = document.pop("version")
    assert result == {
        "applied": True,
        "documents": [{"uri": path.as_uri(), "status": "applied", "hash": hash_of(after), "dirty": True}],
    }
    assert text_of(editor, path) == after
    assert path.read_text() == TEXT
    wanted = {"uri": path.as_uri(), "version": version}
    eventually(lambda: peer.received("textDocument/didChange")[-1]["textDocument"], wanted.__eq__)


def test_a_stale_edit_is_refused_untouched_with_the_current_hash(
    editor: Editor, peer: Peer, turn: str, path: Path
) -> None:
    editor.keys("ggxu<C-r>")
    tick = editor.lua("return vim.b.changedtick")
    result = peer.edit(turn, "e1", replacing(path, TEXT, TEXT.upper()))
    assert [(d["status"], d["hash"]) for d in result["documents"]] == [("stale", hash_of("lpha\nbeta\ngamma\n"))]
    assert result["applied"] is False
    assert editor.lua("return vim.b.changedtick") == tick


def test_an_edit_during_insert_mode_is_an_undo_step_of_its_own(
    editor: Editor, peer: Peer, turn: str, path: Path
) -> None:
    editor.keys("Goone ")
    before = TEXT + "one \n"
    after = before.replace("alpha", "ALPHA")
    assert peer.edit(turn, "e1", replacing(path, before, after, text_edit(0, 0, 5, "ALPHA")))["applied"]
    assert editor.mode() == "i"
    editor.keys("two<Esc>")
    assert text_of(editor, path) == after.replace("one ", "one two")
    seen = []
    for _ in range(3):
        editor.keys("u")
        seen.append(text_of(editor, path))
    assert seen == [after, before, TEXT]


def test_one_undo_takes_back_a_whole_turn(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    texts = [TEXT, "1\nbeta\ngamma\n", "1\n2\ngamma\n", "1\n2\n3\nextra\n"]
    for number, (before, after) in enumerate(itertools.pairwise(texts)):
        assert peer.edit(turn, f"e{number}", replacing(path, before, after))["applied"]
    assert text_of(editor, path) == texts[-1]
    editor.keys("u")
    assert text_of(editor, path) == TEXT
    editor.keys("<C-r>")
    assert text_of(editor, path) == texts[-1]


def test_typing_between_two_edits_of_a_turn_parts_them(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    first, typed, second = "1\nbeta\ngamma\n", "1\nbeta\nmine\n", "1\n2\nmine\n"
    assert peer.edit(turn, "e1", replacing(path, TEXT, first))["applied"]
    editor.keys("Gccmine<Esc>")
    assert peer.edit(turn, "e2", replacing(path, typed, second))["applied"]
    seen = []
    for _ in range(3):
        editor.keys("u")
        seen.append(text_of(editor, path))
    assert seen == [typed, first, TEXT]


def test_two_turns_are_two_undo_steps(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    assert peer.edit(turn, "e1", replacing(path, TEXT, "1\n"))["applied"]
    assert peer.edit("another", "e2", replacing(path, "1\n", "2\n"))["applied"]
    editor.keys("u")
    assert text_of(editor, path) == "1\n"


@pytest.mark.parametrize("lock", ["setlocal nomodifiable", "setlocal readonly"])
def test_all_documents_or_none(editor: Editor, peer: Peer, turn: str, path: Path, lock: str) -> None:
    editor.open("b.txt", "b\n")
    editor.command(lock)
    other = editor.workspace / "b.txt"
    result = peer.edit(turn, "e1", replacing(path, TEXT, "x\n"), replacing(other, "b\n", "y\n"))
    assert (result["applied"], [d["status"] for d in result["documents"]]) == (False, ["rejected", "readOnly"])
    assert [d["hash"] for d in result["documents"]] == [hash_of(TEXT), hash_of("b\n")]
    assert (text_of(editor, path), text_of(editor, other)) == (TEXT, "b\n")


def test_what_an_unwilling_buffer_stops_half_way_is_put_back(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    second = editor.open("b.txt", "b\n")
    editor.lua(
        """
        local first, second = require('tinsmith.documents').find(vim.uri_from_fname(...)), select(2, ...)
        vim.api.nvim_buf_attach(first, false, { on_lines = function() vim.bo[second].modifiable = false end })
        """,
        str(path),
        second,
    )
    other = editor.workspace / "b.txt"
    result = peer.edit(turn, "e1", replacing(path, TEXT, "x"), replacing(other, "b\n", "y\n"))
    assert (result["applied"], [d["status"] for d in result["documents"]]) == (False, ["rejected", "rejected"])
    assert (text_of(editor, path), text_of(editor, other)) == (TEXT, "b\n")


def test_two_documents_change_together(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    editor.open("b.txt", "b\n")
    other = editor.workspace / "b.txt"
    assert peer.edit(turn, "e1", replacing(path, TEXT, "x\n"), replacing(other, "b\n", "y\n"))["applied"]
    assert (text_of(editor, path), text_of(editor, other)) == ("x\n", "y\n")


def test_the_same_edit_twice_gets_the_same_answer(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    document = replacing(path, TEXT, TEXT + "x\n", text_edit(3, 0, 0, "x\n"))
    first = peer.edit(turn, "e1", document)
    assert first["applied"]
    assert peer.edit(turn, "e1", document) == first
    assert text_of(editor, path) == TEXT + "x\n"


def test_an_edit_that_would_not_give_the_promised_text_changes_nothing(
    editor: Editor, peer: Peer, turn: str, path: Path
) -> None:
    document = replacing(path, TEXT, "something else\n", text_edit(0, 0, 5, "ALPHA"))
    result = peer.edit(turn, "e1", document)
    assert [d["status"] for d in result["documents"]] == ["hashMismatch"]
    assert text_of(editor, path) == TEXT


def test_a_document_that_is_not_open_is_missing(editor: Editor, peer: Peer, turn: str) -> None:
    path = editor.workspace / "closed.txt"
    path.write_text(TEXT)
    result = peer.edit(turn, "e1", replacing(path, TEXT, "x\n"))
    assert result == {"applied": False, "documents": [{"uri": path.as_uri(), "status": "missing"}]}
    assert editor.lua("return vim.fn.bufnr('closed.txt')") == -1


@pytest.mark.parametrize(
    "refused",
    [
        {"op": "delete"},
        {"expect": {"exists": True}},
        {"edits": [text_edit(9, 0, 0, "x")]},
        {"edits": [text_edit(0, 0, 3, "x"), text_edit(0, 2, 4, "y")]},
    ],
    ids=["no edit", "no hash", "outside the text", "overlapping"],
)
def test_what_cannot_be_done_safely_is_rejected(
    editor: Editor, peer: Peer, turn: str, path: Path, refused: dict[str, object]
) -> None:
    result = peer.edit(turn, "e1", {**replacing(path, TEXT, "x\n"), **refused})
    assert [d["status"] for d in result["documents"]] == ["rejected"]
    assert text_of(editor, path) == TEXT


@pytest.mark.parametrize(
    ("before", "after", "edit"),
    [
        ("a\nb\n", "a\nb\nc\n", text_edit(2, 0, 0, "c\n")),
        ("a\nb\n", "a\nb\nc", text_edit(2, 0, 0, "c")),
        ("a\nb\n", "a\n", text_edit(1, 0, 0, "", last_line=2)),
        ("a\nb\n", "", text_edit(0, 0, 0, "", last_line=2)),
        ("a\nb\n", "a\nb", text_edit(1, 1, 0, "", last_line=2)),
        ("a\nb", "a\nb\nc\n", text_edit(1, 1, 1, "\nc\n")),
        ("a\nb", "a", text_edit(0, 1, 1, "", last_line=1)),
        ("a\nb", "a\nb\n", text_edit(1, 1, 1, "\n")),
        ("a\r\nb\r\n", "a\r\nx\r\nb\r\n", text_edit(1, 0, 0, "x\r\n")),
        ("a\r\nb\r\n", "a\r\nx\r\nb\r\n", text_edit(1, 0, 0, "x\n")),
        ("a\r\nb\nc\n", "a\r\nx\r\nc\n", text_edit(1, 0, 0, "x\r\n", last_line=2)),
        ("naïve 🚀 x\n", "naïve 🚀 y\n", text_edit(0, 12, 13, "y")),
        ("é\n", "è\n", text_edit(0, 0, 2, "è")),
        ("\n\n", "\n", text_edit(0, 0, 0, "", last_line=1)),
    ],
)
def test_line_ends_final_newlines_and_characters_survive(
    editor: Editor, peer: Peer, turn: str, before: str, after: str, edit: dict[str, object]
) -> None:
    path = editor.workspace / "a.txt"
    editor.open("a.txt", before)
    result = peer.edit(turn, "e1", replacing(path, before, after, edit))
    assert [(d["status"], d["hash"]) for d in result["documents"]] == [("applied", hash_of(after))]
    assert peer.text_of(path.as_uri()).replace("\r\n", "\n") == after.replace("\r\n", "\n")
    editor.command("set nofixendofline | write")
    assert path.read_bytes().replace(b"\r\n", b"\n") == after.replace("\r\n", "\n").encode()
    if "\r\n" in before:
        assert path.read_bytes() == after.replace("x\n", "x\r\n").replace("\r\r", "\r").encode()


def test_the_hash_leaves_a_byte_order_mark_out(editor: Editor, peer: Peer, turn: str) -> None:
    editor.open("bom.txt", b"\xef\xbb\xbf" + TEXT.encode())
    path = editor.workspace / "bom.txt"
    assert peer.edit(turn, "e1", replacing(path, TEXT, "x\n"))["applied"]
    editor.command("write")
    assert path.read_bytes() == b"\xef\xbb\xbfx\n"


def test_cursor_marks_and_view_stay_with_their_text(editor: Editor, peer: Peer, turn: str) -> None:
    text = "".join(f"line {number}\n" for number in range(1, 101))
    editor.open("long.txt", text)
    path = editor.workspace / "long.txt"
    editor.keys("50Gzt3lma")
    namespace = editor.nvim.api.create_namespace("test")
    mark = editor.nvim.api.buf_set_extmark(0, namespace, 59, 5, {})
    after = text.replace("line 1\n", "new\nnew\nline 1\n").replace("line 60\n", "LINE 60\n")
    edits = [text_edit(0, 0, 0, "new\nnew\n"), text_edit(59, 0, 4, "LINE")]
    assert peer.edit(turn, "e1", replacing(path, text, after, *edits))["applied"]
    assert editor.lua("return vim.fn.getcurpos()")[1:3] == [52, 4]
    assert editor.lua("return vim.fn.line('w0')") == 52
    assert editor.lua('return vim.fn.getpos("\'a")')[1:3] == [52, 4]
    assert editor.nvim.api.buf_get_extmark_by_id(0, namespace, mark, {}) == [61, 5]


@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 11), ("utf-16", 8), ("utf-32", 7)])
def test_positions_count_as_agreed(start_editor: StartEditor, peer: Peer, encoding: str, column: int) -> None:
    editor = start_editor(peer.cmd, env={"PEER_ENCODING": encoding})
    editor.command("Tinsmith ask Hello")
    turn = peer.wait_for("agent/runTurn")["turnId"]
    before = "naïve🚀 x\n"
    after = "naïve🚀 y\n"
    editor.open("a.txt", before)
    path = editor.workspace / "a.txt"
    assert peer.edit(turn, "e1", replacing(path, before, after, text_edit(0, column, column + 1, "y")))["applied"]


def test_an_event_tells_of_the_edit(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    editor.lua("""
        vim.api.nvim_create_autocmd('User', { pattern = 'TinsmithEditApplied', callback = function(event)
          vim.g.applied = event.data
        end })
    """)
    assert peer.edit(turn, "e1", replacing(path, TEXT, "x\n"))["applied"]
    assert editor.nvim.vars["applied"] == {
        "editId": "e1",
        "turnId": turn,
        "label": "test",
        "uris": [path.as_uri()],
    }
