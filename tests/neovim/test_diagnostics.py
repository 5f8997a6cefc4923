"""`agent/diagnostics`: what other language servers find, waited for without holding the editor."""

import time
from pathlib import Path
from typing import Any

import pytest

from .conftest import Editor, Peer, eventually

LINTER = """
    local delay, finds_nothing = ...
    local texts, published = {}, 0
    vim.g.linted = 0
    return vim.lsp.start({
      name = 'linter',
      root_dir = vim.fn.getcwd(),
      cmd = function(dispatchers)
        local function publish(uri, version)
          local items = {}
          local row = 0
          for line in vim.gsplit(texts[uri], '\\n') do
            local from, to = line:find('bad', 1, true)
            if from then
              table.insert(items, {
                range = {
                  start = { line = row, character = vim.str_utfindex(line, 'utf-16', from - 1) },
                  ['end'] = { line = row, character = vim.str_utfindex(line, 'utf-16', to) },
                },
                message = 'this is bad', severity = 2, source = 'linter', code = 'B1',
              })
            end
            row = row + 1
          end
          vim.g.linted = vim.g.linted + 1
          dispatchers.notification('textDocument/publishDiagnostics', {
            uri = uri, version = version, diagnostics = items,
          })
        end
        return {
          request = function(method, params, callback)
            callback(nil, method == 'initialize' and { capabilities = { textDocumentSync = 1 } } or nil)
            return true, 1
          end,
          notify = function(method, params)
            local document = params and params.textDocument
            if method == 'textDocument/didOpen' or method == 'textDocument/didChange' then
              texts[document.uri] = document.text or params.contentChanges[1].text
              if not finds_nothing then
                vim.defer_fn(function() publish(document.uri, document.version) end, delay)
              end
            end
            return true
          end,
          is_closing = function() return false end,
          terminate = function() end,
        }
      end,
    })
"""
BAD = {"message": "this is bad", "severity": 2, "source": "linter", "code": "B1"}


@pytest.fixture
def path(editor: Editor, turn: str) -> Path:
    editor.open("a.txt", "good\n🚀 bad\n")
    return editor.workspace / "a.txt"


def start_linter(editor: Editor, *, delay: int = 20, finds_nothing: bool = False) -> None:
    editor.lua(LINTER, delay, finds_nothing)
    if not finds_nothing:
        eventually(lambda: editor.nvim.vars["linted"] > 0)


def ask(peer: Peer, *paths: Path, versions: dict[str, int] | None = None, wait_ms: int = 0) -> Any:
    uris = [path.as_uri() for path in paths]
    return peer.request("agent/diagnostics", {"uris": uris, "minVersions": versions or {}, "waitMs": wait_ms})


def answer(asked: Any) -> list[dict[str, Any]]:
    return asked.result(10)["result"]["documents"]


def version_of(editor: Editor) -> int:
    return editor.lua("return vim.lsp.util.buf_versions[vim.api.nvim_get_current_buf()]")


def found_at(line: int, start: int) -> dict[str, Any]:
    edges = ({"line": line, "character": column} for column in (start, start + 3))
    return {**BAD, "range": dict(zip(("start", "end"), edges, strict=True))}


def test_the_client_says_that_it_can(peer: Peer, turn: str) -> None:
    agent = peer.received("initialize")[0]["capabilities"]["experimental"]["agent"]
    assert agent["diagnostics"] == {}


def test_what_is_found_is_told_at_once_in_our_columns(editor: Editor, peer: Peer, path: Path) -> None:
    start_linter(editor)
    wanted = [{"uri": path.as_uri(), "version": version_of(editor), "items": [found_at(1, 5)]}]
    assert answer(ask(peer, path)) == wanted
    assert answer(ask(peer)) == wanted


def test_findings_of_the_new_version_are_waited_for(editor: Editor, peer: Peer, path: Path) -> None:
    start_linter(editor, delay=50)
    answer(ask(peer, path))
    editor.keys("ggOmore bad<Esc>")
    version = version_of(editor)
    (early,) = answer(ask(peer, path))
    assert early["version"] < version
    (late,) = answer(ask(peer, path, versions={path.as_uri(): version}, wait_ms=5000))
    assert late == {"uri": path.as_uri(), "version": version, "items": [found_at(0, 5), found_at(2, 5)]}


def test_the_editor_goes_on_while_it_waits(editor: Editor, peer: Peer, path: Path) -> None:
    start_linter(editor, delay=700)
    answer(ask(peer, path))
    editor.keys("ggOmore bad<Esc>")
    asked = ask(peer, path, versions={path.as_uri(): version_of(editor)}, wait_ms=5000)
    editor.keys("Gotyped<Esc>")
    assert editor.lines()[-1] == "typed"
    assert not asked.done()
    assert answer(asked)[0]["items"]


def test_a_server_that_says_nothing_is_waited_for_so_long_and_no_longer(editor: Editor, peer: Peer, path: Path) -> None:
    start_linter(editor, finds_nothing=True)
    answer(ask(peer, path))
    editor.keys("ggOmore bad<Esc>")
    version = version_of(editor)
    began = time.monotonic()
    (document,) = answer(ask(peer, path, versions={path.as_uri(): version}, wait_ms=300))
    assert 0.25 < time.monotonic() - began < 2
    assert document["version"] < version


def test_without_another_server_nobody_is_waited_for(editor: Editor, peer: Peer, path: Path) -> None:
    began = time.monotonic()
    versions = {path.as_uri(): version_of(editor) + 5}
    assert answer(ask(peer, path, versions=versions, wait_ms=5000)) == [{"uri": path.as_uri(), "items": []}]
    assert time.monotonic() - began < 2


def test_what_is_not_open_is_left_out(editor: Editor, peer: Peer, path: Path) -> None:
    assert answer(ask(peer, path.with_name("other.txt"), wait_ms=5000)) == []
    assert answer(ask(peer)) == []
