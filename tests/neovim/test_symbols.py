"""`agent/symbols`: what other language servers know of a name or a buffer, waited for without holding the editor."""

import time
from pathlib import Path
from typing import Any

import pytest

from .conftest import Editor, Peer, eventually

INDEXER = """
    local name, answers, delay = ...
    vim.g.asked = {}
    vim.g.cancelled = 0
    return vim.lsp.start({
      name = name,
      root_dir = vim.fn.getcwd(),
      cmd = function(dispatchers)
        local at = 0
        return {
          request = function(method, params, callback)
            at = at + 1
            if method == 'initialize' then
              callback(nil, { capabilities = {
                textDocumentSync = 1,
                documentSymbolProvider = answers['textDocument/documentSymbol'] ~= nil,
                workspaceSymbolProvider = answers['workspace/symbol'] ~= nil,
              } })
            elseif answers[method] then
              vim.g.asked = vim.list_extend(vim.g.asked, { params.query or params.textDocument.uri })
              local reply = function() callback(nil, answers[method]) end
              if delay == 0 then reply() elseif delay > 0 then vim.defer_fn(reply, delay) end
            else
              callback(nil, nil)
            end
            return true, at
          end,
          notify = function(method)
            if method == '$/cancelRequest' then vim.g.cancelled = vim.g.cancelled + 1 end
            return true
          end,
          is_closing = function() return false end,
          terminate = function() end,
        }
      end,
    })
"""


def span(first: int, last: int, end: int = 3) -> dict[str, Any]:
    return {"start": {"line": first, "character": 0}, "end": {"line": last, "character": end}}


NESTED = [
    {
        "name": "Kettle",
        "kind": 5,
        "range": span(0, 3, 0),
        "selectionRange": span(0, 0),
        "children": [{"name": "boil", "kind": 6, "range": span(1, 2), "selectionRange": span(1, 1)}],
    }
]


@pytest.fixture
def path(editor: Editor, turn: str) -> Path:
    editor.open("a.txt", "class Kettle\n  boil\n  end\nend\n")
    return editor.workspace / "a.txt"


def start_server(editor: Editor, answers: dict[str, Any], *, name: str = "indexer", delay: int = 0) -> None:
    """Delay in milliseconds; one below 0 never answers."""
    client = editor.lua(INDEXER, name, answers, delay)
    eventually(lambda: editor.lua("return vim.lsp.get_client_by_id(...).initialized", client))


def ask(peer: Peer, wait_ms: int = 3000, **wanted: str) -> Any:
    return peer.request("agent/symbols", {"waitMs": wait_ms, **wanted})


def answer(asked: Any) -> dict[str, Any]:
    return asked.result(10)["result"]


def version_of(editor: Editor) -> int:
    return editor.lua("return vim.lsp.util.buf_versions[vim.api.nvim_get_current_buf()]")


def told(path: Path, name: str, kind: int, first: int, last: int, container: str = "") -> dict[str, Any]:
    place = {"uri": path.as_uri(), "startLine": first, "endLine": last}
    return {**place, "name": name, "kind": kind, "containerName": container}


def test_the_client_says_that_it_can(peer: Peer, turn: str) -> None:
    agent = peer.received("initialize")[0]["capabilities"]["experimental"]["agent"]
    assert agent["symbols"] == {}


@pytest.mark.parametrize("delay", [0, 30])
def test_a_buffer_is_outlined_with_its_version(editor: Editor, peer: Peer, path: Path, delay: int) -> None:
    start_server(editor, {"textDocument/documentSymbol": []}, name="silent")
    start_server(editor, {"textDocument/documentSymbol": NESTED}, delay=delay)
    start_server(editor, {"workspace/symbol": []}, name="another")
    editor.keys("Gonew<Esc>")
    version = version_of(editor)
    assert answer(ask(peer, uri=path.as_uri())) == {
        "symbols": [told(path, "Kettle", 5, 0, 2), told(path, "boil", 6, 1, 2, "Kettle")],
        "version": version,
    }
    assert editor.nvim.vars["asked"] == [path.as_uri(), path.as_uri()]


def test_names_are_asked_of_every_server(editor: Editor, peer: Peer, path: Path) -> None:
    other = path.with_name("b.txt")
    place = {"uri": other.as_uri(), "range": span(4, 4)}
    flat = {"name": "boil", "kind": 12, "location": place, "containerName": "heat"}
    without_range = {"name": "boil", "kind": 12, "location": {"uri": other.as_uri()}}
    start_server(editor, {"workspace/symbol": [flat, without_range]})
    start_server(editor, {"workspace/symbol": [{**flat, "name": "boiler"}]}, name="second", delay=20)
    assert answer(ask(peer, query="boil")) == {
        "symbols": [told(other, "boil", 12, 4, 4, "heat"), told(other, "boiler", 12, 4, 4, "heat")]
    }
    assert editor.nvim.vars["asked"] == ["boil", "boil"]


def test_who_is_slow_is_not_waited_for_and_told_so(editor: Editor, peer: Peer, path: Path) -> None:
    place = {"uri": path.as_uri(), "range": span(0, 0)}
    start_server(editor, {"workspace/symbol": [{"name": "boil", "kind": 12, "location": place}]})
    start_server(editor, {"workspace/symbol": []}, name="slow", delay=-1)
    began = time.monotonic()
    asked = ask(peer, 700, query="boil")
    editor.keys("Gotyped<Esc>")
    assert editor.lines()[-1] == "typed"
    assert not asked.done()
    assert answer(asked) == {"symbols": [told(path, "boil", 12, 0, 0)]}
    assert 0.6 < time.monotonic() - began < 3
    eventually(lambda: editor.nvim.vars["cancelled"] == 1)


def test_without_another_server_there_is_nothing(editor: Editor, peer: Peer, path: Path) -> None:
    began = time.monotonic()
    assert answer(ask(peer, uri=path.as_uri())) == {"symbols": [], "version": version_of(editor)}
    assert answer(ask(peer, query="boil")) == {"symbols": []}
    assert answer(ask(peer, uri=path.with_name("other.txt").as_uri())) == {"symbols": []}
    assert time.monotonic() - began < 2
