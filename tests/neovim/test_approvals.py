"""Questions: shown at once, answered whenever and from wherever the person likes."""

from concurrent.futures import Future
from typing import Any

import pytest

from .conftest import DEADLINE_S, Editor, Peer, eventually

OPTIONS = [
    {"optionId": "o1", "kind": "allow", "scope": "once", "label": "Allow once"},
    {"optionId": "o2", "kind": "allow", "scope": "turn", "label": "Allow in this turn", "rule": "bash(make test)"},
    {"optionId": "o3", "kind": "allow", "scope": "conversation", "label": "Always here", "rule": "bash(make test)"},
    {"optionId": "o4", "kind": "deny", "scope": "once", "label": "Deny"},
    {"optionId": "o5", "kind": "cancelTurn", "scope": "turn", "label": "Stop the turn"},
]
COMMAND = {"type": "command", "command": "make test", "cwd": "/project", "class": "unknown"}


def ask(peer: Peer, turn: str, key: str = "q1", subject: dict[str, Any] = COMMAND) -> Future[dict[str, Any]]:
    params = {"requestKey": key, "conversationId": "c1", "turnId": turn, "callId": "k1", "title": "Run make test"}
    return peer.request("agent/requestPermission", {**params, "subject": subject, "options": OPTIONS})


def answer(asked: Future[dict[str, Any]]) -> dict[str, Any]:
    return asked.result(DEADLINE_S)["result"]


def test_the_card_shows_what_is_asked_without_taking_the_focus(editor: Editor, peer: Peer, turn: str) -> None:
    editor.open("a.txt", "text\n")
    editor.keys("i")
    window = editor.nvim.current.window.handle
    asked = ask(peer, turn)
    assert editor.wait_for_text("make test")[6:] == [
        "May Smith run a command?  Run make test",
        "",
        "    make test",
        "",
        "    in /project",
        "",
        "  ga  Allow once",
        "      Allow in this turn: bash(make test)",
        "  gA  Always here: bash(make test)",
        "  gd  Deny",
        "      Stop the turn",
        "  <CR> answers, g? explains",
        "",
        "",
    ]
    assert (editor.mode(), editor.nvim.current.window.handle) == ("i", window)
    assert (editor.status()["state"], editor.status()["pending"]) == ("approval", 1)
    eventually(lambda: "\n".join(editor.screen()), lambda screen: "waits for your answer" in screen.split("<CR> an")[1])
    assert editor.messages().count("Run make test? :Tinsmith approve | deny") == 1
    editor.keys("<Esc>:Tinsmith approve<CR>")
    assert answer(asked) == {"optionId": "o1", "feedback": ""}
    assert editor.wait_for_text("allowed")[6] == "✓ allowed: Run make test"
    assert editor.status()["pending"] == 0


def test_what_to_know_of_it_stands_on_the_card(editor: Editor, peer: Peer, turn: str) -> None:
    params = {
        "requestKey": "q1",
        "conversationId": "c1",
        "turnId": turn,
        "callId": "k1",
        "title": "Run with network: x",
    }
    notes = ["With network it reaches\neverything.", "It can send what it reads."]
    subject = {**COMMAND, "sandbox": "bubblewrap, with network"}
    asked = peer.request("agent/requestPermission", {**params, "subject": subject, "options": OPTIONS, "notes": notes})
    assert editor.wait_for_text("ga  Allow once")[8:17] == [
        "    make test",
        "",
        "    in /project",
        "    sandbox: bubblewrap, with network · class: unknown",
        "",
        "    With network it reaches everything.",
        "",
        "    It can send what it reads.",
        "",
    ]
    editor.enter_transcript()
    editor.keys("/in this turn<CR><CR>")
    assert answer(asked)["optionId"] == "o2"


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("Tinsmith approve", {"optionId": "o1", "feedback": ""}),
        ("Tinsmith approve!", {"optionId": "o3", "feedback": ""}),
        ("Tinsmith! approve", {"optionId": "o3", "feedback": ""}),
        ("Tinsmith deny", {"optionId": "o4", "feedback": ""}),
        ("Tinsmith deny run the linter first", {"optionId": "o4", "feedback": "run the linter first"}),
    ],
)
def test_answers_from_anywhere(editor: Editor, peer: Peer, turn: str, command: str, wanted: dict[str, str]) -> None:
    asked = ask(peer, turn)
    editor.wait_for_text("make test")
    editor.command(command)
    assert answer(asked) == wanted


@pytest.mark.parametrize(
    ("keys", "wanted"), [("ga", "o1"), ("gA", "o3"), ("gd", "o4"), ("/in this turn<CR><CR>", "o2")]
)
def test_answers_by_key_in_the_transcript(editor: Editor, peer: Peer, turn: str, keys: str, wanted: str) -> None:
    asked = ask(peer, turn)
    editor.wait_for_text("make test")
    editor.enter_transcript()
    editor.keys(keys)
    assert answer(asked)["optionId"] == wanted


def test_the_key_answers_the_card_under_the_cursor(editor: Editor, peer: Peer, turn: str) -> None:
    first, second = ask(peer, turn, "q1"), ask(peer, turn, "q2", {"type": "network", "host": "example.org"})
    editor.wait_for_text("example.org")
    editor.enter_transcript()
    editor.keys("G?example.org<CR>gd")
    assert answer(second)["optionId"] == "o4"
    assert not first.done()
    editor.keys("Gga")
    assert answer(first)["optionId"] == "o1"


def test_an_edit_shows_its_whole_difference(editor: Editor, peer: Peer, turn: str) -> None:
    diff = "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-old\n+new\n"
    asked = ask(peer, turn, subject={"type": "edit", "files": [], "diff": diff})
    assert editor.wait_for_text("+new")[8:13] == [f"    {line}" for line in diff.splitlines()]
    editor.command("Tinsmith approve")
    answer(asked)


def test_a_small_screen_holds_the_whole_card(editor: Editor, peer: Peer, turn: str) -> None:
    diff = "--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n alpha\n-beta\n+BETA\n gamma\n"
    asked = ask(peer, turn, subject={"type": "edit", "files": [], "diff": diff})
    editor.wait_for_text("+BETA")
    screen = eventually(lambda: "\n".join(editor.screen()), lambda screen: "g? explains" in screen)
    assert "May Smith change files?" in screen
    editor.command("Tinsmith deny")
    answer(asked)


def test_a_question_answered_elsewhere_closes(editor: Editor, peer: Peer, turn: str) -> None:
    asked = ask(peer, turn)
    editor.wait_for_text("make test")
    peer.event("permissionResolved", turnId=turn, requestKey="q1", outcome="deny")
    assert editor.wait_for_text("denied")[6] == "✗ denied: Run make test"
    assert answer(asked) == {"optionId": "", "feedback": ""}
    assert editor.status()["pending"] == 0


def test_a_question_closes_with_its_turn(editor: Editor, peer: Peer, turn: str) -> None:
    asked = ask(peer, turn)
    editor.wait_for_text("make test")
    usage = {"input": 0, "output": 0, "total": 0, "cached": 0, "reasoning": 0}
    peer.event("turnEnded", turnId=turn, outcome="cancelled", usage=usage)
    editor.wait_for_text("no longer asked")
    assert answer(asked)["optionId"] == ""
    editor.command("Tinsmith approve")
    assert "nothing waits for your answer" in editor.messages()


def test_a_question_in_the_command_line_waits_with_its_message(editor: Editor, peer: Peer, turn: str) -> None:
    editor.keys(":echo 12")
    asked = ask(peer, turn)
    editor.wait_for_text("make test")
    assert editor.mode() == "c"
    assert "Run make test?" not in editor.messages()
    editor.keys("<C-c>")
    eventually(editor.messages, lambda messages: "Run make test?" in messages)
    editor.command("Tinsmith deny")
    assert answer(asked)["optionId"] == "o4"


def test_a_long_question_makes_no_prompt(editor: Editor, peer: Peer, turn: str) -> None:
    title = "Run " + "x" * 500
    params = {"requestKey": "q1", "conversationId": "c1", "turnId": turn, "callId": "k1", "title": title}
    asked = peer.request("agent/requestPermission", {**params, "subject": COMMAND, "options": OPTIONS})
    editor.wait_for_text("xxx")
    assert editor.nvim.api.get_mode() == {"mode": "n", "blocking": False}
    editor.command("Tinsmith approve")
    answer(asked)


def test_events_tell_of_questions(editor: Editor, peer: Peer, turn: str) -> None:
    editor.lua("""
        _G.seen = {}
        vim.api.nvim_create_autocmd('User', { pattern = 'TinsmithApproval*', callback = function(event)
          table.insert(_G.seen, { event.match, event.data.requestKey, event.data.outcome })
        end })
    """)
    asked = ask(peer, turn)
    editor.wait_for_text("make test")
    editor.command("Tinsmith deny")
    answer(asked)
    seen = [["TinsmithApprovalRequested", "q1"], ["TinsmithApprovalResolved", "q1", "deny"]]
    assert editor.lua("return _G.seen") == seen
