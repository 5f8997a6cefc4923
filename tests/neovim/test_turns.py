"""Asking, steering, stopping, choosing a conversation; and what Tinsmith says about itself."""

import pytest

from .conftest import Editor, Peer, eventually

NO_USAGE = {"input": 0, "output": 0, "total": 0, "cached": 0, "reasoning": 0}


def end(peer: Peer, turn: str, outcome: str = "completed") -> None:
    peer.event("turnEnded", turnId=turn, outcome=outcome, usage=NO_USAGE)


def test_a_message_starts_a_turn_in_a_new_conversation(editor: Editor, peer: Peer, turn: str) -> None:
    assert peer.wait_for("agent/conversationNew") == {"workspace": editor.workspace.as_uri()}
    asked = peer.wait_for("agent/runTurn")
    assert asked == {
        "conversationId": "c1",
        "turnId": turn,
        "text": "Hello",
        "mode": "start",
        "context": {"open": []},
    }


def test_what_the_client_announces(editor: Editor, peer: Peer, turn: str) -> None:
    opening = peer.wait_for("initialize")
    assert opening["rootUri"] == editor.workspace.as_uri()
    assert opening["capabilities"]["experimental"]["agent"] == {
        "versions": [1],
        "applyEdits": {},
        "permissions": {},
        "reloadDocument": {},
        "diagnostics": {},
        "symbols": {},
        "stream": {"maxHz": 30},
        "clientName": "tinsmith.nvim",
    }


def test_settings_of_the_editor_reach_the_server(start_editor, peer: Peer) -> None:
    editor = start_editor(peer.cmd, options={"settings": {"default_model": "m"}})
    editor.command("Tinsmith ask Hello")
    assert peer.wait_for("initialize")["initializationOptions"] == {"settings": {"default_model": "m"}}


@pytest.mark.parametrize(
    ("keys", "text", "span"),
    [
        ("wve", "two", ((0, 4), (0, 7))),
        ("Vj", "one two\nthrée four", ((0, 0), (1, 11))),
        ("jwvj0", "four\nf", ((1, 7), (2, 1))),
    ],
)
def test_a_selection_goes_with_the_message(
    editor: Editor, peer: Peer, turn: str, keys: str, text: str, span: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    end(peer, turn)
    editor.open("a.txt", "one two\nthrée four\nfive\n")
    editor.keys(f"gg{keys}:Tinsmith ask What is this?<CR>")
    (selection,) = peer.wait_for("agent/runTurn", 2)["input"]
    start, finish = ({"line": line, "character": column} for line, column in span)
    assert (selection["type"], selection["text"], selection["range"]) == (
        "selection",
        text,
        {"start": start, "end": finish},
    )
    assert selection["uri"] == (editor.workspace / "a.txt").as_uri()


def test_without_a_message_it_is_asked_for(editor: Editor, peer: Peer) -> None:
    editor.keys(":Tinsmith ask<CR>")
    editor.keys("From the prompt<CR>")
    assert peer.wait_for("agent/runTurn")["text"] == "From the prompt"


def test_a_message_during_a_turn_steers_it(editor: Editor, peer: Peer, turn: str) -> None:
    editor.command("Tinsmith ask Use tabs | not spaces")
    asked = peer.wait_for("agent/runTurn", 2)
    assert (asked["mode"], asked["text"]) == ("steerOrStart", "Use tabs | not spaces")
    editor.wait_for_text("joins the running turn")
    item = {"kind": "user", "itemId": "u2", "turnId": turn, "text": asked["text"], "ts": 1, "steering": True}
    peer.event("itemUpdated", turnId=turn, itemId="u2", item=item)
    editor.wait_for_text("## You, while it worked")
    editor.command("Tinsmith steer And run the tests")
    assert peer.wait_for("agent/runTurn", 3)["mode"] == "steer"
    end(peer, turn)
    editor.wait_for_state("idle")
    editor.command("Tinsmith steer More")
    assert "no turn runs" in editor.messages()


def test_stop_is_shown_at_once(editor: Editor, peer: Peer, turn: str) -> None:
    editor.command("Tinsmith stop")
    assert editor.status()["state"] == "stopping"
    eventually(lambda: "\n".join(editor.screen()), lambda screen: "stopping…" in screen, deadline=0.5)
    assert peer.wait_for("agent/cancel") == {"conversationId": "c1", "turnId": turn}
    peer.event("activityUpdated", turnId=turn, state="cancelling")
    end(peer, turn, "cancelled")
    editor.wait_for_text("stopped; what was finished stays")
    editor.wait_for_state("idle")
    editor.command("Tinsmith stop")
    assert "no turn runs" in editor.messages()


def test_a_turn_that_does_not_stop_is_told_of(editor: Editor, peer: Peer, turn: str) -> None:
    editor.command("Tinsmith stop")
    editor.wait_for_text("The turn has not stopped yet; :Tinsmith restart forces it.")


def test_a_refused_turn_says_why(editor: Editor, peer: Peer) -> None:
    problem = {"code": -32803, "message": "No model is configured. Set default_model."}
    editor.command("Tinsmith new")
    peer.wait_for("agent/conversationNew")
    peer.obey("reply", method="agent/runTurn", reply={"error": problem})
    editor.command("Tinsmith ask Hello")
    editor.wait_for_text("✗ No model is configured. Set default_model.")
    editor.wait_for_state("error")


def test_the_state_follows_the_turn(editor: Editor, peer: Peer, turn: str) -> None:
    call = {"turnId": turn, "itemId": "k", "callId": "k", "name": "bash"}
    editor.wait_for_state("thinking")
    peer.event("textDelta", turnId=turn, itemId="a", offset=0, text="x")
    editor.wait_for_state("streaming")
    peer.event("toolUpdated", **call, status="running")
    editor.wait_for_state("tool")
    peer.event("toolUpdated", **call, status="completed")
    editor.wait_for_state("thinking")
    usage = {"input": 10, "output": 2, "total": 12, "cached": 0, "reasoning": 0}
    context = {"used": 12, "size": 100}
    peer.event("usageUpdated", turnId=turn, last=usage, turn=usage, conversation=usage, context=context)
    end(peer, turn)
    editor.wait_for_state("idle")
    assert editor.status() == {
        "state": "idle",
        "conversation": "c1",
        "title": "About c1",
        "model": "scripted",
        "role": "direct",
        "pending": 0,
        "tokens": {"input": 10, "output": 2, "total": 12, "context": 12, "limit": 100},
    }


def test_the_status_line_text(editor: Editor, peer: Peer) -> None:
    def text() -> str:
        return editor.lua("return require('tinsmith').statusline()")

    assert text() == ""
    editor.command("Tinsmith ask Hello")
    eventually(text, "Tinsmith thinking…".__eq__)
    end(peer, peer.wait_for("agent/runTurn")["turnId"])
    eventually(text, "".__eq__)


def test_events_tell_of_turns_and_states(editor: Editor, peer: Peer) -> None:
    editor.lua("""
        _G.seen = {}
        vim.api.nvim_create_autocmd('User', { pattern = 'Tinsmith*', callback = function(event)
          table.insert(_G.seen, event.match .. ' ' .. (event.data.outcome or event.data.state or ''))
        end })
        vim.api.nvim_create_autocmd('User', { pattern = 'TinsmithTurnStarted', callback = function()
          error('a faulty subscriber')
        end })
    """)
    editor.command("Tinsmith ask Hello")
    turn = peer.wait_for("agent/runTurn")["turnId"]
    end(peer, turn)
    seen = eventually(lambda: editor.lua("return _G.seen"), lambda seen: "TinsmithTurnEnded completed" in seen)
    order = [
        "TinsmithStatus connecting",
        "TinsmithStatus thinking",
        "TinsmithTurnStarted ",
        "TinsmithTurnEnded completed",
    ]
    assert [name for name in seen if name in order][:1] == order[:1]
    assert set(order) <= set(seen)
    assert "a faulty subscriber" in editor.messages()


def test_new_load_and_list(editor: Editor, peer: Peer, turn: str) -> None:
    end(peer, turn)
    editor.command("Tinsmith new")
    eventually(lambda: editor.status()["conversation"], "c2".__eq__)
    assert editor.transcript() == ["", ""]
    names = editor.lua("return vim.tbl_map(vim.fn.bufname, vim.fn.tabpagebuflist())")
    assert "tinsmith://conversation/c2" in names
    assert "tinsmith://conversation/c1" not in names
    item = {"kind": "user", "itemId": "u", "turnId": "t", "text": "Stored before", "ts": 1}
    peer.keep(c1=[item], c2=[])
    editor.command("Tinsmith load c1")
    editor.wait_for_text("Stored before")
    editor.lua("""
        vim.ui.select = function(items, options, choose)
          vim.g.offered = vim.tbl_map(options.format_item, items)
          choose(items[2])
        end
    """)
    editor.command("Tinsmith list")
    eventually(lambda: editor.status()["conversation"], "c2".__eq__)
    assert [line.split("  ")[1] for line in editor.nvim.vars["offered"]] == ["About c1", "About c2"]


def test_the_last_conversation_of_the_workspace_comes_back(editor: Editor, peer: Peer) -> None:
    item = {"kind": "user", "itemId": "u", "turnId": "t", "text": "Stored before", "ts": 1}
    peer.keep(c7=[item])
    editor.command("Tinsmith")
    editor.wait_for_text("Stored before")
    assert editor.nvim.current.buffer.name == "tinsmith://conversation/c7"
    editor.command("Tinsmith ask Go on")
    assert peer.wait_for("agent/runTurn")["conversationId"] == "c7"


def test_a_conversation_in_the_background_goes_on(editor: Editor, peer: Peer, turn: str) -> None:
    editor.command("Tinsmith new")
    eventually(lambda: editor.status()["conversation"], "c2".__eq__)
    peer.event("textDelta", turnId=turn, itemId="a", offset=0, text="in the background")
    end(peer, turn)
    editor.command("Tinsmith ask Second")
    assert peer.wait_for("agent/runTurn", 2)["conversationId"] == "c2"
    first = "return require('tinsmith.conversations').find('c1').turn == nil"
    eventually(lambda: editor.lua(first))


@pytest.mark.parametrize("what", ["", "context", "messages", "config", "server"])
def test_inspect_shows_a_view(editor: Editor, peer: Peer, turn: str, what: str) -> None:
    editor.command(f"Tinsmith inspect {what}")
    eventually(lambda: editor.nvim.current.buffer.name, f"tinsmith://inspect/{what or 'context'}".__eq__)
    assert editor.lines() == [
        "parts:",
        "  -",
        "    name: system",
        "    text: |",
        "      one",
        "      two",
        "    tokens: 3",
        f"what: {what or 'context'}",
    ]
    assert peer.wait_for("agent/inspect") == {"what": what or "context", "conversationId": "c1"}


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("Tinsmith what is this", "is no subcommand; there are approve, ask, deny"),
        ("Tinsmith load", "load needs the id of a conversation"),
        ("Tinsmith inspect nonsense", 'inspect takes context, messages, config, server, not "nonsense"'),
        ("Tinsmith stop it", 'stop takes nothing, not "it"'),
    ],
)
def test_a_wrong_command_says_what_is_right(editor: Editor, command: str, wanted: str) -> None:
    editor.nvim.options["columns"] = 200
    editor.lua("vim.notify = function(text) vim.g.said = text end")
    editor.command(command)
    assert wanted in editor.nvim.vars["said"]


def test_a_changed_conversation_is_drawn_anew(editor: Editor, peer: Peer, turn: str) -> None:
    end(peer, turn)
    editor.wait_for_text("Hello")
    item = {"kind": "user", "itemId": "m7", "turnId": "t0", "text": "What is left", "ts": 0}
    peer.keep(c1=[item])
    peer.event("conversationUpdated", state="idle", resync=True)
    lines = editor.wait_for_text("What is left")
    assert not any("Hello" in line for line in lines)


def test_a_turn_of_another_window_is_over_when_that_window_is_gone(editor: Editor, peer: Peer, turn: str) -> None:
    peer.event("conversationUpdated", state="running", heldBy={"pid": 4711})
    editor.wait_for_state("thinking")
    peer.event("conversationUpdated", state="idle", heldBy=None)
    editor.wait_for_state("idle")
    assert "turn" not in editor.status()
