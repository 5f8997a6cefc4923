"""The server's copy of a buffer is the buffer, whatever is done to it."""

import pytest

from .conftest import Editor, Peer, eventually, hash_of

KEYS = [
    "Gothree<Esc>",
    "GA more<Esc>",
    "ggdd",
    "Gdd",
    "ggdG",
    "ggOtop<Esc>",
    "ggJ",
    "yyGp",
    "gg:2,$d<CR>",
    "Goé🚀<Esc>A x<Esc>",
    "ggyGGp",
    "GO<Esc>dd",
    "Go<Esc>",
    "Go<Esc>dd",
    "ggdGione<CR>two<Esc>u",
    ":set endofline!<CR>",
    ":set fileformat=dos<CR>Gox<Esc>",
    ":%s/o/0\\r/e<CR>",
    ":g/^/m0<CR>",
]
TEXTS = ["one\ntwo\n", "one\ntwo", "one\r\ntwo\r\n", "one\r\ntwo", "one\r\ntwo\n", "\n", ""]


def agree(editor: Editor, peer: Peer, name: str) -> bool:
    """Whether the server's copy has the hash that the editor would compare."""
    hash_here = editor.lua("""
        require('tinsmith.mirror').flush()
        return require('tinsmith.documents').hash(vim.api.nvim_get_current_buf())
    """)
    editor.barrier()
    return hash_of(peer.text_of((editor.workspace / name).as_uri())) == hash_here


@pytest.mark.parametrize("text", TEXTS)
def test_the_server_sees_what_is_typed(editor: Editor, peer: Peer, turn: str, text: str) -> None:
    wrong = []
    for number, keys in enumerate(KEYS):
        name = f"{number}.txt"
        editor.open(name, text)
        editor.keys(keys)
        if not agree(editor, peer, name):
            wrong.append(keys)
    assert wrong == []


@pytest.mark.parametrize("text", TEXTS)
def test_the_server_sees_one_change_after_another(editor: Editor, peer: Peer, turn: str, text: str) -> None:
    editor.open("a.txt", text)
    wrong = []
    for keys in [*KEYS, *reversed(KEYS), *["u"] * 5, *["<C-r>"] * 3]:
        editor.keys(keys)
        if not agree(editor, peer, "a.txt"):
            wrong.append(keys)
    assert wrong == []


def test_changes_reach_the_server_by_themselves(editor: Editor, peer: Peer, turn: str) -> None:
    editor.open("a.txt", "one\n")
    editor.keys("Gotwo<Esc>")
    eventually(lambda: peer.text_of((editor.workspace / "a.txt").as_uri()), "one\ntwo\n".__eq__)


def test_saving_tells_the_text_first(editor: Editor, peer: Peer, turn: str) -> None:
    editor.open("a.txt", "one\n")
    editor.keys("Gotwo<Esc>:write<CR>")
    peer.wait_for("textDocument/didSave")
    methods = [message.get("method") for message in peer.obey("received")]
    assert methods.index("textDocument/didChange") < methods.index("textDocument/didSave")


def test_a_file_changed_on_disk_and_reloaded_is_seen(editor: Editor, peer: Peer, turn: str) -> None:
    editor.open("a.txt", "one\n")
    editor.keys("Gotwo<Esc>")
    (editor.workspace / "a.txt").write_text("from\noutside")
    editor.command("edit!")
    assert agree(editor, peer, "a.txt")
    editor.keys("Gox<Esc>")
    assert agree(editor, peer, "a.txt")


def test_a_buffer_written_under_another_name_is_the_other_file(editor: Editor, peer: Peer, turn: str) -> None:
    editor.open("a.txt", "one\n")
    editor.keys("Gotwo<Esc>:saveas b.txt<CR>Gothree<Esc>")
    assert agree(editor, peer, "b.txt")
    assert peer.wait_for("textDocument/didClose") == {"textDocument": {"uri": (editor.workspace / "a.txt").as_uri()}}


def test_only_files_of_the_workspace_are_shown_to_the_server(editor: Editor, peer: Peer, turn: str) -> None:
    outside = editor.workspace.parent / "outside.txt"
    outside.write_text("secret\n")
    editor.command(f"edit {outside} | enew | setlocal buftype=nofile | file scratch")
    editor.open("a.txt", "one\n")
    opened = [peer.wait_for("textDocument/didOpen")["textDocument"]["uri"]]
    assert opened == [document["textDocument"]["uri"] for document in peer.received("textDocument/didOpen")]
    assert opened == [(editor.workspace / "a.txt").as_uri()]


def test_a_turn_starts_with_every_unsaved_text_known(editor: Editor, peer: Peer, turn: str) -> None:
    editor.open("a.txt", "one\n")
    editor.keys("Gotwo<Esc>")
    editor.open("b.txt", "one\n")
    editor.keys("Gothree<Esc>:Tinsmith ask again<CR>")
    context = peer.wait_for("agent/runTurn", 2)["context"]
    documents = {document["uri"].rpartition("/")[2]: document for document in context["open"]}
    assert {name: (d["hash"], d["dirty"]) for name, d in documents.items()} == {
        "a.txt": (hash_of("one\ntwo\n"), True),
        "b.txt": (hash_of("one\nthree\n"), True),
    }
    assert context["focus"] == (editor.workspace / "b.txt").as_uri()
    before = [message.get("method") for message in peer.obey("received")]
    assert (
        before[: before.index("agent/runTurn", before.index("agent/runTurn") + 1)].count("textDocument/didChange") == 2
    )
