"""What a person sees of a conversation."""

import re

import pytest

from .conftest import Editor, Peer, StartEditor, eventually


def call(turn: str, status: str, **fields: object) -> dict[str, object]:
    return {
        "turnId": turn,
        "itemId": "k1",
        "callId": "k1",
        "name": "bash",
        "title": "make test",
        "status": status,
        **fields,
    }


def answer(turn: str, text: str, item: str = "a1", **fields: object) -> dict[str, object]:
    body = {"kind": "assistant", "itemId": item, "turnId": turn, "text": text, "ts": 1, **fields}
    return {"turnId": turn, "itemId": item, "item": body}


def ended(turn: str, outcome: str = "completed", **fields: object) -> dict[str, object]:
    usage = {"input": 0, "output": 0, "total": 0, "cached": 0, "reasoning": 0}
    return {"turnId": turn, "outcome": outcome, "usage": usage, **fields}


def stream(peer: Peer, turn: str, *texts: str, item: str = "a1") -> None:
    offset = 0
    for text in texts:
        peer.event("textDelta", turnId=turn, itemId=item, offset=offset, text=text)
        offset += len(text)


def test_a_turn_on_the_screen(start_editor: StartEditor, peer: Peer) -> None:
    editor = start_editor(peer.cmd, options={"window": {"split": "right", "size": 0.5}}, size=(20, 100))
    editor.open("a.txt", "text\n")
    editor.command("Tinsmith ask Why does it fail?")
    turn = peer.wait_for("agent/runTurn")["turnId"]
    peer.event("conversationUpdated", state="running", title="A failure")
    peer.event("activityUpdated", turnId=turn, state="streaming")
    stream(peer, turn, "Let me ", "look.")
    peer.event("itemUpdated", **answer(turn, "Let me look."))
    peer.event("toolUpdated", **call(turn, "running"))
    result = {"result": "exit: 2\nFAILED test_a", "args": {"command": "make test"}}
    peer.event("toolUpdated", **call(turn, "failed", **result))
    stream(peer, turn, "It fails because:\n\n", "- one\n- two", item="a2")
    peer.event("activityUpdated", turnId=turn, state="streaming")
    editor.wait_for_text("- two")
    eventually(lambda: "writing" in "\n".join(editor.screen()))
    rows = [row.partition("│")[2] for row in editor.screen()]
    tool = next(row for row in rows if "bash" in row)
    assert tool.startswith("✗ bash  make test  failed  0.0 s  [4 lines]")
    rows[rows.index(tool)] = "(the call)"
    assert rows == [
        "A failure · scripted · writing…",
        "## You",
        "",
        "Why does it fail?",
        "",
        "## Smith",
        "",
        "Let me look.",
        "",
        "(the call)",
        "",
        "It fails because:",
        "",
        "- one",
        "- two",
        "",
        "writing…",
        "",
        "",
        "",
    ]


def test_a_narrow_window_says_what_it_is(editor: Editor, peer: Peer, turn: str) -> None:
    peer.event("conversationUpdated", state="running", title="Why the tests of 100 % of the parser fail")
    context = {"used": 300, "size": 1000}
    usage = {"input": 0, "output": 0, "total": 0, "cached": 0, "reasoning": 0}
    peer.event("usageUpdated", turnId=turn, turn=usage, conversation=usage, context=context)
    rows = eventually(editor.screen, lambda rows: "context 30 %" in rows[0])
    assert re.fullmatch(r"Why the tests o…<.* · context 30 %", rows[0].partition("│")[2])
    assert rows[-2].split()[-3:] == ["[tinsmith]", "5,0", "All"]
    editor.enter_transcript()
    editor.command("enew")
    assert "[No Name]" in editor.screen()[-2]


def test_the_authoritative_item_replaces_what_streamed(editor: Editor, peer: Peer, turn: str) -> None:
    stream(peer, turn, "Draft ", "of an answer\nwith two lines")
    editor.wait_for_text("two lines")
    peer.event("itemUpdated", **answer(turn, "The answer."))
    lines = editor.wait_for_text("The answer.")
    assert lines == ["## You", "", "Hello", "", "## Smith", "", "The answer.", "", ""]


def test_text_before_and_after_a_replaced_block_stays(editor: Editor, peer: Peer, turn: str) -> None:
    stream(peer, turn, "one\ntwo\nthree")
    peer.event("toolUpdated", **call(turn, "pending"))
    stream(peer, turn, "after", item="a2")
    editor.wait_for_text("after")
    peer.event("itemUpdated", **answer(turn, "ONE"))
    stream(peer, turn, "", item="a2")
    peer.event("textDelta", turnId=turn, itemId="a2", offset=5, text=" all\nof it")
    lines = editor.wait_for_text("of it")
    assert lines[6:] == ["ONE", "", "○ bash  make test", "", "after all", "of it", "", ""]


def test_withdrawn_text_is_gone(editor: Editor, peer: Peer, turn: str) -> None:
    stream(peer, turn, "Half an ans")
    editor.wait_for_text("Half")
    peer.event("itemUpdated", **answer(turn, "Half an ans", withdrawn=True))
    peer.event("retrying", turnId=turn, attempt=2, reason="the stream broke off", delayMs=2000)
    lines = editor.wait_for_text("attempt 2 in 2.0 s: the stream broke off")
    assert "Half" not in "\n".join(lines)


def test_text_after_a_cancel_is_marked_as_cut(editor: Editor, peer: Peer, turn: str) -> None:
    peer.event("itemUpdated", **answer(turn, "Half", marks=["cancelled"]))
    assert editor.wait_for_text("cut off")[6:9] == ["Half", "", "(cut off here)"]


def test_reasoning_is_folded_once_the_answer_is_there(editor: Editor, peer: Peer, turn: str) -> None:
    peer.event("reasoningDelta", turnId=turn, itemId="a1", offset=0, text="First\n")
    peer.event("reasoningDelta", turnId=turn, itemId="a1", offset=6, text="then\n\nlast")
    lines = editor.wait_for_text("> last")
    assert lines[6:11] == ["*Thinking*", "> First", "> then", ">", "> last"]
    peer.event("itemUpdated", **answer(turn, "So.", reasoning="First\nthen\n\nlast"))
    eventually(
        lambda: "\n".join(editor.screen()), lambda screen: "Thinking  [4 lines]" in screen and "then" not in screen
    )


def test_live_output_of_a_call_is_bounded_and_then_folded(editor: Editor, peer: Peer, turn: str) -> None:
    peer.event("toolUpdated", **call(turn, "running"))
    text = "".join(f"line {number}\n" for number in range(40))
    peer.event("toolOutput", turnId=turn, itemId="k1", callId="k1", offset=0, text=text)
    lines = editor.wait_for_text("line 39")
    assert [line for line in lines if "line" in line] == [f"    line {number}" for number in range(30, 40)]
    peer.event("toolUpdated", **call(turn, "completed", result=text))
    lines = editor.wait_for_text("line 0")
    header = next(number for number, line in enumerate(lines, 1) if "✓ bash" in line)
    window = editor.lua("return require('tinsmith.conversations').current().transcript:windows()[1]")
    folded = editor.lua(
        """
        local win, line = ...
        return vim.api.nvim_win_call(win, function()
          return { vim.fn.foldclosed(line), vim.fn.foldclosedend(line) }
        end)
        """,
        window,
        header,
    )
    assert folded == [header, header + 40]


def test_folds_are_there_in_a_window_opened_later(editor: Editor, peer: Peer, turn: str) -> None:
    peer.event("toolUpdated", **call(turn, "completed", result="one\ntwo"))
    editor.wait_for_text("two")
    editor.enter_transcript()
    eventually(lambda: "\n".join(editor.screen()), lambda screen: "✓ bash" in screen and "two" not in screen)
    editor.command("tab split")
    assert "two" not in "\n".join(editor.screen())
    editor.lua("vim.fn.search('bash')")
    editor.keys("za")
    assert "two" in "\n".join(editor.screen())


def test_a_reader_who_scrolled_up_stays_put(editor: Editor, peer: Peer, turn: str) -> None:
    stream(peer, turn, "".join(f"line {number}\n" for number in range(60)))
    editor.wait_for_text("line 59")
    editor.enter_transcript()
    eventually(lambda: "\n".join(editor.screen()), lambda screen: "line 59" in screen)
    editor.keys("10G")
    before = editor.screen()[:20]
    peer.event("textDelta", turnId=turn, itemId="a1", offset=len("".join(f"line {n}\n" for n in range(60))), text="END")
    editor.wait_for_text("END")
    assert editor.screen()[:20] == before
    editor.keys("G")
    peer.event("itemUpdated", **answer(turn, "".join(f"row {number}\n" for number in range(99)) + "LAST"))
    eventually(lambda: "\n".join(editor.screen()), lambda screen: "LAST" in screen)
    rows = [row for row in editor.screen() if "row" in row]
    assert len(rows) > 15


def test_streaming_leaves_the_current_window_and_mode_alone(editor: Editor, peer: Peer, turn: str) -> None:
    editor.open("a.txt", "one two three\n")
    window = editor.nvim.current.window.handle
    for keys, mode in (("i", "i"), ("<Esc>v", "v"), ("<Esc>d", "no"), ("<Esc>:echo 1", "c"), ("<Esc>R", "R")):
        editor.keys(keys)
        before = editor.lua("return vim.fn.getcurpos()")
        stream(peer, turn, f"in mode {mode}\n" * 30, item=f"in {mode}")
        editor.wait_for_text(f"in mode {mode}")
        assert (editor.mode(), editor.nvim.current.window.handle) == (mode, window)
        assert editor.lua("return vim.fn.getcurpos()") == before
    editor.keys("<Esc>")
    assert editor.lines() == ["one two three"]


def test_undo_and_typing_do_nothing_in_the_transcript(editor: Editor, peer: Peer, turn: str) -> None:
    stream(peer, turn, "An answer.")
    before = editor.wait_for_text("An answer.")
    editor.enter_transcript()
    editor.keys("uuddxp")
    assert editor.transcript() == before


@pytest.mark.parametrize(
    ("outcome", "fields", "wanted"),
    [
        ("completed", {}, ["— completed"]),
        ("cancelled", {}, ["— stopped; what was finished stays"]),
        (
            "error",
            {"error": {"kind": "policy", "code": "modelNotConfigured", "message": "No model. Set default_model."}},
            ["— failed", "✗ No model. Set default_model."],
        ),
        ("budget_exhausted", {}, ["— stopped: the budget of tool calls is used up"]),
        ("interrupted", {}, ["— interrupted: the server ended during the turn"]),
    ],
)
def test_how_a_turn_ended_is_said(
    editor: Editor, peer: Peer, turn: str, outcome: str, fields: dict, wanted: list[str]
) -> None:
    peer.event("turnEnded", **ended(turn, outcome, **fields))
    assert editor.wait_for_text(wanted[-1])[4:] == [*wanted, "", ""]
    editor.wait_for_state("error" if outcome == "error" else "idle")


def test_changed_files_and_tokens_are_listed_at_the_end(editor: Editor, peer: Peer, turn: str) -> None:
    file = {"uri": (editor.workspace / "a.txt").as_uri(), "op": "edit", "added": 3, "removed": 1}
    usage = {"input": 1200, "output": 34, "total": 1234, "cached": 0, "reasoning": 0}
    peer.event("turnEnded", turnId=turn, outcome="completed", usage=usage, files=[file])
    assert editor.wait_for_text("a.txt")[4:6] == ["— completed · 1200 tokens in, 34 out", "    a.txt +3 −1"]


def test_a_lost_event_is_asked_for_again(editor: Editor, peer: Peer, turn: str) -> None:
    editor.barrier()
    peer.event("textDelta", turnId=turn, itemId="a1", offset=0, text="lost ", isLost=True)
    peer.obey("reply", method="agent/subscribe", reply={"result": {"epoch": "x", "seq": 3}})
    peer.event("textDelta", turnId=turn, itemId="a1", offset=5, text="found")
    asked = peer.wait_for("agent/subscribe")
    assert (asked["conversationId"], asked["afterSeq"]) == ("c1", 1)
    for seq, offset, text in ((2, 0, "lost "), (3, 5, "found")):
        params = {"conversationId": "c1", "epoch": asked["epoch"], "seq": seq, "ts": 1, "turnId": turn}
        delta = {"type": "textDelta", "itemId": "a1", "offset": offset, "text": text}
        peer.obey("notify", method="agent/event", params={**params, **delta})
    assert editor.wait_for_text("found")[6] == "lost found"
    assert len(peer.received("agent/subscribe")) == 1


def test_another_epoch_brings_the_whole_state(editor: Editor, peer: Peer, turn: str) -> None:
    item = {"kind": "user", "itemId": "u9", "turnId": "t9", "text": "From the snapshot", "ts": 1}
    none = {"input": 0, "output": 0, "total": 0, "cached": 0, "reasoning": 0}
    snapshot = {"activeTurn": None, "pending": [], "usage": none}
    snapshot |= {"context": {"used": 5, "size": 10}, "lastItems": [item]}
    reply = {"result": {"epoch": "other", "seq": 7, "resync": True, "snapshot": snapshot}}
    peer.obey("reply", method="agent/subscribe", reply=reply)
    event = {"type": "notice", "severity": "info", "code": "x", "message": "x"}
    params = {"conversationId": "c1", "epoch": "other", "seq": 7, "ts": 1, **event}
    peer.obey("notify", method="agent/event", params=params)
    assert editor.wait_for_text("From the snapshot") == ["## You", "", "From the snapshot", "", ""]
    assert editor.status()["tokens"]["limit"] == 10


def test_markdown_is_highlighted_when_idle_only(editor: Editor, peer: Peer, turn: str) -> None:
    def is_highlighted() -> bool:
        return editor.lua("""
            local buf = require('tinsmith.conversations').current().transcript.buf
            return vim.treesitter.highlighter.active[buf] ~= nil
        """)

    stream(peer, turn, "**bold**")
    editor.wait_for_text("bold")
    assert not is_highlighted()
    peer.event("turnEnded", **ended(turn))
    eventually(is_highlighted)


def test_many_deltas_cost_few_draws(editor: Editor, peer: Peer, turn: str) -> None:
    editor.lua("""
        vim.g.draws = 0
        local transcript = require('tinsmith.conversations').current().transcript
        vim.api.nvim_buf_attach(transcript.buf, false, { on_lines = function() vim.g.draws = vim.g.draws + 1 end })
    """)
    stream(peer, turn, *[f"word{number} " for number in range(500)])
    editor.wait_for_text("word499")
    assert editor.nvim.vars["draws"] < 100
