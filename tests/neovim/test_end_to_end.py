"""The real server behind a real Neovim: ask, approve, edit a dirty buffer, stop, crash, go on."""

import os
import re
import signal
import sys
import threading
from pathlib import Path

import pytest

from tinsmith.demo.server import ServerThread
from tinsmith.llm.scripted import Call, ScriptedModel, Wait, reply

from .conftest import Editor, eventually, hash_of

TEXT = "alpha\nbeta\ngamma\n"
READ = reply("Let me read. ", Call("read", {"path": "a.txt"}))


def edit_line_two(request):
    """Replace line 2 of what the newest result showed."""
    shown = request.messages[-1].content
    found = re.search(r"hash: ([0-9a-f]{16})", shown)[1]
    edits = [{"op": "replace", "start": 2, "end": 2, "text": "BETA"}]
    return reply("Now the edit. ", Call("edit", {"path": "a.txt", "hash": found, "edits": edits}))


@pytest.fixture
def begin(start_editor, tmp_path):
    """An editor whose server asks a scripted model; the model, the editor and its open buffer with an unsaved line."""
    providers = []

    def begin(*script, **options):
        model = ScriptedModel(list(script))
        provider = ServerThread(model)
        providers.append(provider)
        base_url = provider.__enter__().base_url
        home = tmp_path / "home"
        names = {f"TINSMITH_{kind}_DIR": str(home / kind.lower()) for kind in ("DATA", "CONFIG", "CACHE")}
        environment = {**names, "TINSMITH_MODEL": "scripted", "TINSMITH_BASE_URL": base_url}
        editor = start_editor(
            [sys.executable, "-m", "tinsmith", "serve"], env=environment, options=options, size=(40, 120)
        )
        editor.open("a.txt", TEXT)
        editor.keys("Gomine<Esc>")
        return model, editor

    yield begin
    for provider in providers:
        provider.__exit__(None, None, None)


def server_pid(editor: Editor) -> int:
    children = Path(f"/proc/{editor.lua('return vim.uv.os_getpid()')}/task").glob("*/children")
    pids = [int(pid) for path in children for pid in path.read_text().split()]
    (server,) = [pid for pid in pids if b"tinsmith" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return server


def buffer(editor: Editor) -> str:
    return "\n".join(editor.lua("return vim.fn.getbufline('a.txt', 1, '$')")) + "\n"


def test_an_edit_lands_in_the_unsaved_buffer_after_an_approval_and_one_undo_takes_it_back(begin):
    model, editor = begin(READ, edit_line_two, reply("Done."))
    editor.command("Tinsmith ask Change line two")
    card = "\n".join(editor.wait_for_text("-beta"))
    assert "+BETA" in card
    assert buffer(editor) == TEXT + "mine\n"
    editor.command("Tinsmith approve")
    editor.wait_for_state("idle")
    assert "Done." in "\n".join(editor.wait_for_text("Done."))
    assert buffer(editor) == "alpha\nBETA\ngamma\nmine\n"
    assert (editor.workspace / "a.txt").read_text() == TEXT
    assert f"hash: {hash_of(TEXT + 'mine' + chr(10))}" in model.requests[1].messages[-1].content
    assert editor.lua("return vim.fn.getbufvar('a.txt', '&modified')") == 1
    editor.keys("u")
    assert buffer(editor) == TEXT + "mine\n"


def asked(editor, method, **params):
    """The result of a request of the client."""
    editor.lua(
        """
        local method, params = ...
        vim.g.result = nil
        require('tinsmith.client').request(method, params, function(problem, result)
          vim.g.result = problem or result
        end)
        """,
        method,
        params,
    )
    return eventually(lambda: editor.nvim.vars.get("result"))


def test_an_undo_of_a_hunk_lands_in_the_buffer_as_an_undo_step_of_its_own(begin):
    _, editor = begin(READ, edit_line_two, reply("Done."), settings={"permission_mode": "edits"})
    editor.command("Tinsmith ask Change line two")
    editor.wait_for_text("Done.")
    editor.command("buffer a.txt")
    editor.keys("ggOtyped<Esc>")
    identifier = asked(editor, "agent/inspect", what="messages")["conversationId"]
    (change,) = asked(editor, "agent/turnChanges", conversationId=identifier)["changes"]
    assert [hunk["state"] for hunk in change["hunks"]] == ["open"]
    params = {"conversationId": identifier, "action": "undo", "changeIds": [change["changeId"]]}
    resolved = asked(editor, "agent/changeResolve", **params)
    assert [hunk["state"] for hunk in resolved["changes"][0]["hunks"]] == ["undone"]
    assert buffer(editor) == "typed\n" + TEXT + "mine\n"
    assert (editor.workspace / "a.txt").read_text() == TEXT
    editor.keys("u")
    assert buffer(editor) == "typed\nalpha\nBETA\ngamma\nmine\n"
    editor.keys("u")
    assert buffer(editor) == "alpha\nBETA\ngamma\nmine\n"
    editor.keys("u")
    assert buffer(editor) == TEXT + "mine\n"
    assert editor.status()["state"] == "idle"


def test_an_edit_made_from_older_text_is_refused_and_the_users_words_stay(begin):
    typed = threading.Event()

    def edit_too_late(request):
        typed.wait(10)
        return edit_line_two(request)

    model, editor = begin(READ, edit_too_late, reply("I see."), settings={"permission_mode": "edits"})
    editor.command("Tinsmith ask Change line two")
    eventually(lambda: len(model.requests) == 2)
    editor.command("buffer a.txt")
    editor.keys("ggOtyped meanwhile<Esc>")
    editor.barrier()
    typed.set()
    editor.wait_for_text("I see.")
    assert buffer(editor) == "typed meanwhile\n" + TEXT + "mine\n"
    refusal = model.requests[2].messages[-1].content
    assert hash_of(buffer(editor)) in refusal
    assert "+typed meanwhile" in refusal


def test_a_command_is_asked_for_and_declined_with_a_reason(begin):
    model, editor = begin(reply(Call("bash", {"command": "touch made"})), reply("Fine."))
    editor.command("Tinsmith ask Make a file")
    editor.wait_for_text("touch made")
    editor.command("Tinsmith deny not in this folder")
    editor.wait_for_text("Fine.")
    assert "not in this folder" in model.requests[1].messages[-1].content
    assert not (editor.workspace / "made").exists()


def test_a_command_changes_an_open_file_and_only_unsaved_text_stays(begin):
    model, editor = begin(
        reply(Call("bash", {"command": "sed -i s/beta/BETA/ a.txt b.txt"})),
        reply("Done."),
        settings={"permission_mode": "full"},
    )
    editor.open("b.txt", TEXT)
    editor.command("Tinsmith ask Shout")
    editor.wait_for_text("Done.")
    assert editor.lines() == ["alpha", "BETA", "gamma"]
    assert editor.lua("return vim.bo.modified") is False
    assert buffer(editor) == TEXT + "mine\n"
    told = model.requests[1].messages[-1].content
    assert "note: changed on disk and read again by the editor, so read before the next edit: b.txt\n" in told
    assert "unsaved text that stays; ask the user which counts: a.txt\n" in told
    editor.keys("u")
    assert editor.lines() == TEXT.splitlines()


def test_stop_stops_a_command_and_everything_it_started(begin):
    model, editor = begin(
        reply(Call("bash", {"command": "sleep 1001 & touch begun; wait"})), settings={"permission_mode": "full"}
    )
    editor.command("Tinsmith ask Sleep")
    eventually((editor.workspace / "begun").exists)
    assert sleepers(editor.workspace)
    stopping = editor.lua("vim.cmd('Tinsmith stop'); return require('tinsmith').status().state")
    assert stopping == "stopping"
    editor.wait_for_state("idle")
    eventually(lambda: not sleepers(editor.workspace))
    assert len(model.requests) == 1


def sleepers(workspace: Path) -> list[str]:
    """The processes that sleep in the workspace, by their numbers out here."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"sleep\x001001" in (folder / "cmdline").read_bytes() and (folder / "cwd").readlink() == workspace:
                found.append(folder.name)
        except OSError:
            continue
    return found


def test_after_a_crash_the_conversation_is_resumed(begin):
    model, editor = begin(reply("Half an ans", Wait()), reply("Here again."))
    editor.command("Tinsmith ask Talk")
    editor.wait_for_text("Half an ans")
    before = server_pid(editor)
    os.kill(before, signal.SIGKILL)
    editor.wait_for_text("The server is back")
    assert server_pid(editor) != before
    editor.wait_for_state("idle")
    assert "Talk" in "\n".join(editor.transcript())
    editor.command("Tinsmith ask Go on")
    editor.wait_for_text("Here again.")
    texts = [message.text.split("\n")[0] for message in model.requests[-1].messages]
    assert texts == ["Talk", "Go on"]


def test_the_server_is_gone_when_neovim_is(begin):
    _, editor = begin(reply("Half", Wait()))
    editor.command("Tinsmith ask Talk")
    editor.wait_for_text("Half")
    server = server_pid(editor)
    neovim = editor.lua("return vim.uv.os_getpid()")
    os.kill(neovim, signal.SIGKILL)
    eventually(lambda: not Path(f"/proc/{server}").exists())


def test_checkhealth_says_that_a_turn_could_run(begin):
    _, editor = begin()
    editor.command("checkhealth tinsmith")
    report = "\n".join(editor.lines())
    assert "ERROR" not in report
    assert "scripted" in report
