"""The server's process: found, started, crashed, stopped, restarted."""

import os
import signal
import sys

import pytest

from .conftest import Editor, Peer, StartEditor, eventually

BACK = "! The server is back and the conversation goes on. The running turn was interrupted; what had finished is kept."
ITEM = {"kind": "user", "itemId": "u", "turnId": "t", "text": "Stored before the crash", "ts": 1}


def test_a_crash_during_a_turn_is_shown_and_the_conversation_resumed(editor: Editor, peer: Peer, turn: str) -> None:
    peer.event("textDelta", turnId=turn, itemId="a", offset=0, text="Half an answer")
    editor.wait_for_text("Half an answer")
    peer.keep(c1=[ITEM])
    editor.lua("""
        _G.states = {}
        vim.api.nvim_create_autocmd('User', { pattern = 'TinsmithStatus', callback = function(event)
          table.insert(_G.states, event.data.state)
        end })
    """)
    peer.crash()
    lines = editor.wait_for_text("The server is back and the conversation goes on.")
    assert lines == [
        "## You",
        "",
        "Stored before the crash",
        "",
        BACK + " 14 characters of its last answer were not stored.",
        "",
        "",
    ]
    states = editor.lua("return _G.states")
    assert (states[0], states[-1]) == ("dead", "idle")
    editor.command("Tinsmith ask Again")
    assert peer.wait_for("agent/runTurn")["conversationId"] == "c1"


def test_open_questions_close_when_the_server_dies(editor: Editor, peer: Peer, turn: str) -> None:
    options = [{"optionId": "o1", "kind": "allow", "scope": "once", "label": "Allow once"}]
    params = {"requestKey": "q", "conversationId": "c1", "turnId": turn, "callId": "k", "title": "Run it"}
    subject = {"type": "command", "command": "x", "cwd": "/", "class": "unknown"}
    pid = peer.obey("pid")
    asked = peer.request("agent/requestPermission", {**params, "subject": subject, "options": options})
    editor.wait_for_text("Run it")
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: editor.status()["pending"], (0).__eq__)
    assert asked.exception(10) is not None


def test_the_server_sees_the_open_files_again_after_a_crash(editor: Editor, peer: Peer, turn: str) -> None:
    editor.open("a.txt", "one\n")
    editor.keys("Gotwo<Esc>")
    peer.wait_for("textDocument/didOpen")
    peer.crash()
    uri = (editor.workspace / "a.txt").as_uri()
    eventually(lambda: peer.text_of(uri), "one\ntwo\n".__eq__)
    editor.keys("Gothree<Esc>")
    eventually(lambda: peer.text_of(uri), "one\ntwo\nthree\n".__eq__)


def test_a_server_that_dies_again_and_again_is_left_alone(editor: Editor, peer: Peer, turn: str) -> None:
    for _ in range(3):
        peer.crash()
    os.kill(peer.obey("pid"), signal.SIGKILL)
    editor.wait_for_text("too often in a row; :Tinsmith restart tries again")
    assert editor.status()["state"] == "dead"
    editor.command("Tinsmith restart")
    editor.wait_for_state("idle")


def test_restart_ends_a_server_that_does_not_listen(editor: Editor, peer: Peer, turn: str) -> None:
    before = peer.obey("pid")
    peer.keep(c1=[ITEM])
    peer.obey("deaf")
    editor.command("Tinsmith restart")
    editor.wait_for_text("The server is back and the conversation goes on. The running turn was interrupted;")
    assert peer.obey("pid") != before
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)
    assert "Stored before the crash" in editor.transcript()


def test_quitting_ends_the_server(start_editor: StartEditor, peer: Peer) -> None:
    editor = start_editor(peer.cmd)
    editor.command("Tinsmith ask Hello")
    peer.wait_for("agent/runTurn")
    pid = peer.obey("pid")
    editor.nvim.command("qall!", async_=True)

    def is_gone() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    eventually(is_gone)


@pytest.mark.parametrize(
    ("cmd", "wanted"),
    [
        (["/nowhere/tinsmith", "serve"], "cannot run /nowhere/tinsmith; :checkhealth tinsmith helps."),
        ([sys.executable, "-c", "raise SystemExit(3)"], "the server ended at once (exit code 3); see :Tinsmith log."),
    ],
    ids=["no such program", "ends at once"],
)
def test_a_server_that_cannot_start_says_what_to_do(start_editor: StartEditor, cmd: list[str], wanted: str) -> None:
    editor = start_editor(cmd)
    editor.lua("vim.notify = function(text) vim.g.said = text end")
    editor.command("Tinsmith ask Hello")
    eventually(lambda: editor.nvim.vars.get("said", ""), lambda said: wanted in said)
    assert editor.status()["state"] == "idle"


def test_the_log_tells_the_story(editor: Editor, peer: Peer, turn: str) -> None:
    peer.crash()
    editor.wait_for_text("goes on")
    editor.command("Tinsmith log")
    told = [line.partition(" ")[2] for line in editor.lines()]
    assert "exited: signal 9" in told
    assert [line.split()[0] for line in told[:2]] == ["starting", "ready"]


def test_checkhealth_of_a_working_server(editor: Editor) -> None:
    editor.command("checkhealth tinsmith")
    text = "\n".join(editor.lines())
    assert "❌" not in text
    assert "⚠️" not in text
    for wanted in (
        "started and answered in",
        "server peer 0, workspace",
        "protocol version 1, positions in utf-8",
        "model: scripted, role: direct, permission mode: ask",
        "options are valid",
    ):
        assert wanted in text
    assert editor.lua("return require('tinsmith.client').state()") == "absent"


def test_checkhealth_of_a_running_server_leaves_it_running(editor: Editor, peer: Peer, turn: str) -> None:
    pid = peer.obey("pid")
    editor.command("checkhealth tinsmith")
    assert "the server is running" in "\n".join(editor.lines())
    assert peer.obey("pid") == pid


def test_checkhealth_names_what_is_wrong(start_editor: StartEditor) -> None:
    editor = start_editor(["/nowhere/tinsmith"], options={"windw": {}, "maps": 3})
    editor.command("checkhealth tinsmith")
    text = "\n".join(editor.lines())
    assert "/nowhere/tinsmith cannot be run" in text
    assert "vim.g.tinsmith.windw is not an option" in text
    assert "vim.g.tinsmith.maps must be true or false." in text
