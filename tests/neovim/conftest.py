"""A real Neovim child with the plug-in on its runtime path, and a scripted server for it to talk to."""

import concurrent.futures
import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pynvim
import pytest

PLUGIN = Path(__file__).parents[2] / "clients" / "neovim"
PEER = Path(__file__).with_name("peer.py")
DEADLINE_S = 10
T = TypeVar("T")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.neovim)


def eventually(look: Callable[[], T], wanted: Callable[[T], Any] = bool, deadline: float = DEADLINE_S) -> T:
    """The first value of `look` that is `wanted`; fails with the last one when there is none in time."""
    end = time.monotonic() + deadline
    while True:
        value = look()
        if wanted(value):
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not in {deadline} s; last seen: {value!r}")
        time.sleep(0.01)


def hash_of(text: str) -> str:
    """The hash of a document: first 16 hex digits of SHA-256, CRLF read as LF."""
    return hashlib.sha256(text.replace("\r\n", "\n").encode()).hexdigest()[:16]


class Editor:
    """A Neovim child. `keys` types like a person; everything else looks."""

    def __init__(self, nvim: pynvim.Nvim, workspace: Path) -> None:
        self.nvim = nvim
        self.workspace = workspace

    def keys(self, keys: str) -> None:
        """Type, and wait until everything typed has been taken in."""
        self.nvim.input(keys)
        self.nvim.exec_lua("return 0")

    def lua(self, code: str, *arguments: Any) -> Any:
        return self.nvim.exec_lua(code, *arguments)

    def command(self, command: str) -> None:
        self.nvim.command(command)

    def open(self, name: str, text: str | bytes = "") -> int:
        """Write a file of the workspace and edit it; its buffer."""
        path = self.workspace / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        self.command(f"edit {path}")
        return self.nvim.current.buffer.number

    def lines(self, buffer: int = 0) -> list[str]:
        return self.nvim.api.buf_get_lines(buffer, 0, -1, True)

    def mode(self) -> str:
        return self.nvim.api.get_mode()["mode"]

    def status(self) -> dict[str, Any]:
        return self.lua("return require('tinsmith').status()")

    def wait_for_state(self, state: str) -> None:
        eventually(lambda: self.status()["state"], state.__eq__)

    def enter_transcript(self) -> None:
        """Go to the transcript's window as a person does: close it when it is there, and open it."""
        for _ in range(2):
            self.command("Tinsmith")
            if self.nvim.current.buffer.options["filetype"] == "tinsmith":
                return

    def transcript(self) -> list[str]:
        """The lines of the current conversation's transcript."""
        return self.lua("""
            local conversation = require('tinsmith.conversations').current()
            return conversation and vim.api.nvim_buf_get_lines(conversation.transcript:buffer(), 0, -1, true) or {}
        """)

    def wait_for_text(self, text: str) -> list[str]:
        return eventually(self.transcript, lambda lines: text in "\n".join(lines))

    def barrier(self) -> None:
        """Wait until everything that the editor has sent so far has arrived."""
        self.lua("""
            vim.g.arrived = false
            require('tinsmith.client').request('agent/configGet', vim.empty_dict(), function()
              vim.g.arrived = true
            end)
        """)
        eventually(lambda: self.nvim.vars["arrived"])

    def screen(self) -> list[str]:
        """What a person sees, row by row."""
        return self.lua("""
            vim.cmd.redraw({ bang = true })
            local rows = {}
            for row = 1, vim.o.lines do
              local cells = {}
              for column = 1, vim.o.columns do
                cells[column] = vim.fn.screenstring(row, column)
              end
              rows[row] = table.concat(cells):gsub('%s+$', '')
            end
            return rows
        """)

    def messages(self) -> str:
        return self.nvim.api.exec2("messages", {"output": True})["output"]


class Peer:
    """The scripted server, as seen from a test."""

    def __init__(self, socket_path: Path, store: Path, threads: concurrent.futures.Executor) -> None:
        self.socket_path = socket_path
        self.store = store
        self.threads = threads

    @property
    def cmd(self) -> list[str]:
        return [sys.executable, str(PEER), str(self.socket_path), str(self.store)]

    def keep(self, **conversations: list[dict[str, Any]]) -> None:
        """What is stored: the items of each conversation."""
        self.store.write_text(json.dumps(conversations))

    def obey(self, do: str, **order: Any) -> Any:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            eventually(lambda: connection.connect_ex(str(self.socket_path)) == 0)
            with connection.makefile("rw") as stream:
                stream.write(json.dumps({"do": do, **order}) + "\n")
                stream.flush()
                return json.loads(stream.readline())

    def received(self, method: str) -> list[dict[str, Any]]:
        """The params of every message of this method, in order."""
        return [message["params"] for message in self.obey("received") if message.get("method") == method]

    def wait_for(self, method: str, count: int = 1) -> dict[str, Any]:
        return eventually(lambda: self.received(method), lambda got: len(got) >= count)[count - 1]

    def event(self, type_: str, **fields: Any) -> None:
        """Send an event of conversation `c1`."""
        self.obey("event", conversation="c1", event={"type": type_, **fields})

    def crash(self) -> None:
        """End the process as a crash would, and wait until another one runs."""
        before = self.obey("pid")
        os.kill(before, signal.SIGKILL)
        eventually(self.pid, lambda pid: pid not in {before, None})

    def pid(self) -> int | None:
        """The process that runs, if one does."""
        try:
            return self.obey("pid")
        except (OSError, ValueError):
            return None

    def request(self, method: str, params: dict[str, Any]) -> concurrent.futures.Future[dict[str, Any]]:
        """Ask the editor; the answer comes later."""
        return self.threads.submit(self.obey, "request", method=method, params=params)

    def text_of(self, uri: str) -> str:
        """The text of a server that follows didOpen and didChange to the letter (positions in bytes)."""
        text = b""
        for message in self.obey("received"):
            document = (message.get("params") or {}).get("textDocument")
            if document and document["uri"] == uri:
                if message["method"] == "textDocument/didOpen":
                    text = document["text"].encode()
                for change in message["params"].get("contentChanges", ()):
                    text = changed(text, change)
        return text.decode()

    def edit(self, turn: str, edit_id: str, *documents: dict[str, Any]) -> dict[str, Any]:
        """Ask the editor for an edit and wait for what it says."""
        params = {"editId": edit_id, "label": "test", "turnId": turn, "atomic": True, "documents": documents}
        answer = self.request("agent/applyEdits", params).result(DEADLINE_S)
        return answer["result"]


def changed(text: bytes, change: dict[str, Any]) -> bytes:
    """The text after one content change, whose positions must lie inside it."""
    if "range" not in change:
        return change["text"].encode()
    starts = [0]
    for line in text.split(b"\n")[:-1]:
        starts.append(starts[-1] + len(line) + 1)
    first, last = (starts[at["line"]] + at["character"] for at in (change["range"]["start"], change["range"]["end"]))
    assert first <= last <= len(text)
    return text[:first] + change["text"].encode() + text[last:]


def replacing(path: Path, before: str, after: str, *edits: dict[str, Any]) -> dict[str, Any]:
    """One document of an applyEdits: the whole text, or the given edits, for a text known by its hash."""
    whole = {"start": {"line": 0, "character": 0}, "end": {"line": before.count("\n"), "character": 0}}
    return {
        "uri": path.as_uri(),
        "op": "edit",
        "expect": {"exists": True, "hash": hash_of(before)},
        "edits": list(edits) or [{"range": whole, "newText": after}],
        "after": {"hash": hash_of(after)},
        "save": "never",
    }


def text_edit(line: int, first: int, last: int, text: str, last_line: int | None = None) -> dict[str, Any]:
    end = line if last_line is None else last_line
    span = {"start": {"line": line, "character": first}, "end": {"line": end, "character": last}}
    return {"range": span, "newText": text}


StartEditor = Callable[..., Editor]


@pytest.fixture
def start_editor(tmp_path: Path) -> Iterator[StartEditor]:
    """Start Neovim children: `start_editor(cmd, workspace=, env=, options=, size=(rows, columns))`.

    `cmd` is the server's; `options` go into `vim.g.tinsmith`; the workspace is made when it is not there.
    """
    # A socket's path must be short.
    with contextlib.ExitStack() as stack:

        def start(
            cmd: list[str],
            workspace: Path | None = None,
            env: dict[str, str] | None = None,
            options: dict[str, Any] | None = None,
            size: tuple[int, int] = (24, 80),
        ) -> Editor:
            root = workspace or tmp_path / "workspace"
            (root / ".tinsmith").mkdir(parents=True, exist_ok=True)
            address = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tin-"))) / "nvim"
            nvim = stack.enter_context(neovim(address, root, tmp_path / "home", env or {}))
            nvim.vars["tinsmith"] = {"cmd": cmd, **(options or {})}
            nvim.options["lines"], nvim.options["columns"] = size
            return Editor(nvim, root)

        yield start


@contextlib.contextmanager
def neovim(
    address: Path, workspace: Path, home: Path, env: dict[str, str], plugin: Path | None = PLUGIN
) -> Iterator[pynvim.Nvim]:
    """A Neovim of its own: no configuration, no swap files, its own home."""
    own = Path(sys.executable).with_name("nvim")
    program = str(own) if own.exists() else "nvim"
    directories = {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CONFIG", "DATA", "STATE", "CACHE")}
    argv = [program, "--clean", "-n", "--headless", "--listen", str(address)]
    argv += ["--cmd", f"set runtimepath^={plugin}"] if plugin else []
    environment = {**os.environ, "HOME": str(home), **directories, **env}
    with subprocess.Popen(argv, cwd=workspace, env=environment, stdin=subprocess.DEVNULL) as process:
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                eventually(lambda: probe.connect_ex(str(address)) == 0)
            nvim = pynvim.attach("socket", path=str(address))
            yield nvim
            # The answer never comes; waiting for it lets the connection end in order.
            with contextlib.suppress(OSError, EOFError):
                nvim.command("qall!")
            nvim.close()
            process.wait(DEADLINE_S)
        finally:
            process.kill()


@pytest.fixture
def peer() -> Iterator[Peer]:
    # A socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="tin-") as directory, concurrent.futures.ThreadPoolExecutor() as threads:
        yield Peer(Path(directory) / "socket", Path(directory) / "store.json", threads)


@pytest.fixture
def editor(start_editor: StartEditor, peer: Peer) -> Editor:
    """A Neovim that talks to `peer`."""
    return start_editor(peer.cmd)


@pytest.fixture
def turn(editor: Editor, peer: Peer) -> str:
    """A turn that runs in conversation `c1`; its id."""
    editor.command("Tinsmith ask Hello")
    turn = peer.wait_for("agent/runTurn")["turnId"]
    editor.wait_for_text("Hello")
    return turn
