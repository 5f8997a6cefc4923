"""`agent/reloadDocument`: a clean buffer follows its file, whatever the person is doing, and without a word."""

from pathlib import Path

import pytest

from .conftest import DEADLINE_S, Editor, Peer, hash_of, replacing

TEXT = "".join(f"line {number}\n" for number in range(1, 101))
LATER = TEXT.replace("line 1\n", "new\nnew\nline 1\n").replace("line 60\n", "LINE 60\n")


@pytest.fixture
def path(editor: Editor, turn: str) -> Path:
    """An open, clean file of the workspace that holds TEXT."""
    editor.open("a.txt", TEXT)
    return editor.workspace / "a.txt"


def reload(peer: Peer, path: Path, text: str) -> bool:
    """Ask the editor to read a file again whose text is this."""
    params = {"uri": path.as_uri(), "diskHash": hash_of(text)}
    return peer.request("agent/reloadDocument", params).result(DEADLINE_S)["result"]["reloaded"]


def change(peer: Peer, path: Path, text: str) -> bool:
    path.write_bytes(text.encode())
    return reload(peer, path, text)


def text_of(editor: Editor, path: Path) -> str:
    return "\n".join(editor.lua("return vim.fn.getbufline(...)", path.name, 1, "$")) + "\n"


def quiet(editor: Editor) -> bool:
    """Whether nothing was said and nothing waits for a key."""
    return editor.messages() == "" and not editor.nvim.api.get_mode()["blocking"]


def test_a_clean_buffer_takes_the_new_text(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    editor.command("messages clear")
    assert change(peer, path, LATER)
    assert text_of(editor, path) == LATER
    assert peer.text_of(path.as_uri()) == LATER
    assert editor.lua("return vim.bo.modified") is False
    assert quiet(editor)


def test_cursor_view_and_marks_stay_with_their_text(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    editor.keys("50Gzt3lma")
    namespace = editor.nvim.api.create_namespace("test")
    mark = editor.nvim.api.buf_set_extmark(0, namespace, 59, 5, {})
    windows = editor.lua("return vim.api.nvim_list_wins()")
    assert change(peer, path, LATER)
    assert editor.lua("return vim.fn.getcurpos()")[1:3] == [52, 4]
    assert editor.lua("return vim.fn.line('w0')") == 52
    assert editor.lua('return vim.fn.getpos("\'a")')[1:3] == [52, 4]
    assert editor.nvim.api.buf_get_extmark_by_id(0, namespace, mark, {}) == [61, 5]
    assert editor.lua("return vim.api.nvim_list_wins()") == windows


def test_one_undo_takes_the_old_text_back_as_a_change(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    editor.keys("Gomine<Esc>:silent write<CR>")
    before = TEXT + "mine\n"
    assert change(peer, path, LATER)
    seen = []
    for key in ("u", "u", "<C-r>", "<C-r>"):
        editor.keys(key)
        seen.append((text_of(editor, path), editor.lua("return vim.bo.modified")))
    assert seen == [(before, True), (TEXT, True), (before, True), (LATER, False)]


def test_writing_afterwards_asks_nothing(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    assert change(peer, path, LATER)
    editor.keys("Gomine<Esc>:write<CR>")
    assert not editor.nvim.api.get_mode()["blocking"]
    assert path.read_text() == LATER + "mine\n"


def test_a_buffer_with_unsaved_text_is_left_alone(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    editor.keys("Gomine<Esc>")
    assert not change(peer, path, LATER)
    assert text_of(editor, path) == TEXT + "mine\n"
    assert editor.lua("return vim.bo.modified") is True


def test_a_file_that_has_another_text_by_now_is_not_read(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    path.write_text("something else\n")
    assert not reload(peer, path, LATER)
    path.unlink()
    assert not reload(peer, path, LATER)
    assert not reload(peer, path.with_name("closed.txt"), LATER)
    assert text_of(editor, path) == TEXT


@pytest.mark.parametrize(
    "setting",
    [
        "set noautoread",
        "autocmd FileChangedShell * let v:fcs_choice = 'ask'",
        "autocmd FileChangedShell * echo 'it\\nchanged'",
        "autocmd FileChangedShellPost,BufReadPost * call getchar()",
        "setlocal noautoread undoreload=0",
    ],
)
def test_no_setting_of_the_person_makes_it_ask(editor: Editor, peer: Peer, turn: str, path: Path, setting: str) -> None:
    editor.keys("Gomine<Esc>:silent write<CR>")
    editor.command("messages clear")
    editor.command(setting)
    options = editor.lua("return { vim.o.autoread, tostring(vim.bo.autoread), vim.o.eventignore }")
    assert change(peer, path, LATER)
    assert quiet(editor)
    assert editor.lua("return { vim.o.autoread, tostring(vim.bo.autoread), vim.o.eventignore }") == options
    editor.keys("uu")
    assert text_of(editor, path) == TEXT
    editor.keys(":silent write<CR>")
    assert not editor.nvim.api.get_mode()["blocking"]
    assert path.read_text() == TEXT


@pytest.mark.parametrize(
    ("keys", "mode", "then", "wanted"),
    [
        ("50Gi", "i", "x<Esc>", LATER.replace("line 50", "xline 50")),
        ("50GV", "V", "jd", LATER.replace("line 50\nline 51\n", "")),
        ("50Gv2l", "v", "x", LATER.replace("line 50", "e 50")),
        ("50G:delete", "c", "<CR>", LATER.replace("line 50\n", "")),
        ("50G:echo getchar()<CR>", "n", "x", LATER),
    ],
    ids=["insert", "lines", "characters", "command line", "getchar()"],
)
def test_the_mode_stays(
    editor: Editor, peer: Peer, turn: str, path: Path, keys: str, mode: str, then: str, wanted: str
) -> None:
    editor.keys(keys)
    assert change(peer, path, LATER)
    assert editor.mode() == mode
    assert peer.text_of(path.as_uri()) == LATER
    editor.keys(then)
    assert text_of(editor, path) == wanted
    editor.keys("<Esc>:silent write<CR>")
    assert not editor.nvim.api.get_mode()["blocking"]
    assert path.read_text() == wanted


def test_the_command_line_window_stays(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    editor.keys("50Gq:")
    assert change(peer, path, LATER)
    assert editor.lua("return vim.fn.getcmdwintype()") == ":"
    assert peer.text_of(path.as_uri()) == LATER
    for keys in ("<C-c>", "<C-c>", "x:write<CR>"):
        editor.keys(keys)
    assert not editor.nvim.api.get_mode()["blocking"]
    assert path.read_text() == LATER.replace("line 50", "ine 50")


def test_an_operator_ends_first(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    editor.keys("50Gd")
    path.write_text(LATER)
    params = {"uri": path.as_uri(), "diskHash": hash_of(LATER)}
    asked = peer.request("agent/reloadDocument", params)
    editor.barrier()
    assert (editor.mode(), asked.done()) == ("no", False)
    editor.keys("d")
    assert asked.result(DEADLINE_S)["result"] == {"reloaded": False}
    assert text_of(editor, path) == TEXT.replace("line 50\n", "")


def test_what_is_typed_after_it_is_undone_by_itself(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    editor.keys("Gomine<Cmd>silent write<CR>")
    before, later = TEXT + "mine\n", LATER + "mine\n"
    assert change(peer, path, later)
    editor.keys(" more<Esc>")
    seen = []
    for _ in range(3):
        editor.keys("u")
        seen.append(text_of(editor, path))
    assert seen == [later, before, TEXT]


def test_a_locked_buffer_follows_and_stays_locked(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    editor.command("setlocal readonly nomodifiable")
    editor.command("messages clear")
    assert change(peer, path, LATER)
    assert text_of(editor, path) == LATER
    assert editor.lua("return { vim.bo.readonly, vim.bo.modifiable }") == [True, False]
    assert quiet(editor)


def test_a_hidden_buffer_follows(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    other = editor.open("b.txt", "b\n")
    assert change(peer, path, LATER)
    assert text_of(editor, path) == LATER
    assert editor.nvim.current.buffer.number == other


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\n", b"a\r\nx\r\n"),
        (b"a\nb\n", b"a\nb"),
        (b"a\nb", b"a\nb\n"),
        (b"a\nb\n", b""),
        (b"", b"a\n"),
        (b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfb\n"),
        ("\ufeffé\n".encode("utf-16-le"), "\ufeffè\n".encode("utf-16-le")),
        ("naïve 🚀\n".encode(), "naïve 🛸\n".encode()),
    ],
)
def test_bytes_survive(editor: Editor, peer: Peer, turn: str, before: bytes, after: bytes) -> None:
    path = editor.workspace / "b.txt"
    editor.open("b.txt", before)
    path.write_bytes(after)
    text = after.decode("utf-16" if after.startswith(b"\xff\xfe") else "utf-8-sig")
    assert reload(peer, path, text)
    editor.command("set nofixendofline | write!")
    assert path.read_bytes() == after


def test_an_edit_after_it_is_a_step_of_its_own(editor: Editor, peer: Peer, turn: str, path: Path) -> None:
    first, second = TEXT.replace("line 5\n", "LINE 5\n"), LATER.replace("line 5\n", "LINE 5\n")
    assert peer.edit(turn, "e1", replacing(path, TEXT, first))["applied"]
    editor.command("silent write")
    assert change(peer, path, second)
    third = second.replace("line 6\n", "LINE 6\n")
    assert peer.edit(turn, "e2", replacing(path, second, third))["applied"]
    seen = []
    for _ in range(3):
        editor.keys("u")
        seen.append(text_of(editor, path))
    assert seen == [second, first, TEXT]
