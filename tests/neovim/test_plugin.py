"""Good manners: nothing loaded, mapped or shown before it is asked for, and everything in the help."""

import re
from pathlib import Path

from .conftest import PLUGIN, Editor, Peer

HELP = PLUGIN / "doc" / "tinsmith.txt"


def sources() -> str:
    return "\n".join(path.read_text() for path in sorted(PLUGIN.rglob("*.lua")))


def test_loading_maps_nothing_and_loads_no_module(editor: Editor) -> None:
    assert editor.nvim.vars["loaded_tinsmith"] is True
    assert editor.lua("return vim.fn.exists(':Tinsmith')") == 2
    loaded = "return vim.tbl_filter(function(name) return name:find('^tinsmith') end, vim.tbl_keys(package.loaded))"
    assert editor.lua(loaded) == []
    maps = editor.lua("""
        return vim.tbl_map(function(map) return map.lhs end, vim.tbl_filter(function(map)
          return (map.rhs or ''):find('Tinsmith') or (map.desc or ''):find('Tinsmith')
        end, vim.fn.maplist()))
    """)
    assert maps
    assert all(name.startswith("<Plug>(tinsmith-") for name in maps)


def test_reading_the_status_starts_nothing(editor: Editor) -> None:
    assert editor.status()["state"] == "idle"
    assert editor.lua("return require('tinsmith').statusline()") == ""
    assert editor.lua("return #vim.lsp.get_clients()") == 0


def test_a_turn_adds_no_global_map(editor: Editor, peer: Peer) -> None:
    listed = "return #vim.tbl_filter(function(map) return map.buffer == 0 end, vim.fn.maplist())"
    before = editor.lua(listed)
    editor.command("Tinsmith ask Hello")
    peer.wait_for("agent/runTurn")
    editor.wait_for_text("Hello")
    assert editor.lua(listed) == before


def test_maps_of_the_transcript_can_be_left_out(start_editor, peer: Peer) -> None:
    editor = start_editor(peer.cmd, options={"maps": False})
    editor.command("Tinsmith ask Hello")
    editor.wait_for_text("Hello")
    editor.enter_transcript()
    assert editor.lua("return #vim.api.nvim_buf_get_keymap(0, 'n')") == 0


def test_highlights_are_default_links(editor: Editor) -> None:
    editor.command("highlight TinsmithUser guifg=#123456")
    editor.command("unlet g:loaded_tinsmith | runtime plugin/tinsmith.lua")
    assert editor.lua("return vim.api.nvim_get_hl(0, { name = 'TinsmithUser' }).link") is None
    assert editor.lua("return vim.api.nvim_get_hl(0, { name = 'TinsmithError' })") == {
        "link": "DiagnosticError",
        "default": True,
    }


def test_the_command_completes(editor: Editor) -> None:
    def complete(line: str) -> list[str]:
        return editor.lua("return vim.fn.getcompletion(..., 'cmdline')", line)

    assert complete("Tinsmith st") == ["steer", "stop"]
    assert complete("Tinsmith inspect ") == ["context", "messages", "config", "server"]
    assert complete("Tinsmith stop ") == []
    assert complete("'<,'>Tinsmith as") == ["ask"]


def test_a_user_configuration_of_the_server_is_respected(start_editor, peer: Peer) -> None:
    editor = start_editor(peer.cmd)
    editor.nvim.vars["tinsmith"] = {}
    editor.lua("vim.lsp.config('tinsmith', { cmd = ... })", peer.cmd)
    editor.command("Tinsmith ask Hello")
    assert peer.wait_for("agent/runTurn")["text"] == "Hello"


def test_help_tags_build(editor: Editor, tmp_path: Path) -> None:
    copy = tmp_path / "doc"
    copy.mkdir()
    (copy / "tinsmith.txt").write_text(HELP.read_text())
    editor.command(f"helptags {copy}")
    tags = (copy / "tags").read_text().splitlines()
    assert any(tag.startswith("tinsmith.txt\t") for tag in tags)
    known = {tag.split("\t")[0] for tag in tags}
    links = set(re.findall(r"\|((?:tinsmith|:Tinsmith|Tinsmith)[^|\s]*)\|", HELP.read_text()))
    assert links <= known


def test_everything_is_documented(editor: Editor) -> None:
    help_text, lua = HELP.read_text(), sources()
    tags = set(re.findall(r"\*(\S+)\*", help_text))
    commands = editor.lua("return require('tinsmith.command').names()")
    plugs = set(re.findall(r"\*(<Plug>\(tinsmith-[a-z-]+\))\*", help_text))
    mapped = editor.lua("""
        return vim.tbl_map(function(map) return map.lhs end, vim.tbl_filter(function(map)
          return map.lhs:find('^<Plug>%(tinsmith')
        end, vim.fn.maplist()))
    """)
    functions = set(re.findall(r"^function M\.(\w+)", (PLUGIN / "lua/tinsmith/init.lua").read_text(), re.MULTILINE))
    events = {f"Tinsmith{name}" for name in re.findall(r'announce\("(\w+)"', lua)}
    groups = set(re.findall(r"^  (Tinsmith\w+) =", (PLUGIN / "plugin/tinsmith.lua").read_text(), re.MULTILINE))
    assert events == {
        "TinsmithStatus",
        "TinsmithTurnStarted",
        "TinsmithTurnEnded",
        "TinsmithApprovalRequested",
        "TinsmithApprovalResolved",
        "TinsmithEditApplied",
    }
    wanted = {f":Tinsmith-{name}" for name in commands} | events | set(mapped)
    wanted |= {f"tinsmith.{name}()" for name in functions} | {f"hl-{name}" for name in groups}
    assert wanted - tags == set()
    assert plugs == set(mapped)


def test_every_highlight_in_use_exists() -> None:
    groups = set(re.findall(r"^  (Tinsmith\w+) =", (PLUGIN / "plugin/tinsmith.lua").read_text(), re.MULTILINE))
    drawn = set()
    for path in (PLUGIN / "lua/tinsmith/transcript").glob("*.lua"):
        drawn |= set(re.findall(r'"(Tinsmith\w+)"', path.read_text()))
    assert drawn == groups
