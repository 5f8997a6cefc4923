"""A Neovim child without a terminal: typed into, looked at, and gone at the end of its block, whatever happens."""

import os
import re
import shlex
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from tinsmith.domain.errors import TransportError
from tinsmith.proc.output import OutputCollector
from tinsmith.proc.supervise import Command, Finished, StopSignal, supervise

OLDEST = (0, 11)
"""The first version of Neovim that the plug-in works with."""
WAIT_SECONDS = 15.0
STUCK = "demoStuck"
"""The code of the error when something did not happen in time."""
_ANSWER_SECONDS = 10.0
_QUIT_SECONDS = 3.0
_LIFE_SECONDS = 120.0
_POLL_SECONDS = 0.02

_SCREEN = """
vim.cmd.redraw({ bang = true })
local rows = {}
for row = 1, vim.o.lines do
  local cells = {}
  for column = 1, vim.o.columns do
    cells[column] = vim.fn.screenstring(row, column)
  end
  rows[row] = (table.concat(cells):gsub("%s+$", ""))
end
return rows
"""

Value = TypeVar("Value")


def version_of(program: str, environment: Mapping[str, str]) -> tuple[int, ...]:
    """The version that a Neovim says it has, such as (0, 11, 4); empty when it says nothing of the kind."""
    stop = StopSignal()
    try:
        command = Command(shlex.join([program, "--version"]), os.path.sep, dict(environment), timeout=_ANSWER_SECONDS)
        said = supervise(command, _silent_collector(), stop).output.text
    finally:
        stop.close()
    found = re.match(r"NVIM v(\d+)\.(\d+)\.(\d+)", said)
    return tuple(int(part) for part in found.groups()) if found else ()


class Editor:
    """The child. `keys` types as a person does, everything else looks. Its socket is made in `folder`."""

    def __init__(self, arguments: Sequence[str], *, folder: str, cwd: str, environment: Mapping[str, str]) -> None:
        self._address = os.path.join(folder, "editor")
        program, *rest = arguments
        text = shlex.join([program, "--headless", "--listen", self._address, *rest])
        self._command = Command(f"exec {text}", cwd, dict(environment), timeout=_LIFE_SECONDS)
        self._stop = StopSignal()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="editor")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._numbers = count()

    def __enter__(self) -> Self:
        """Raises TransportError when Neovim does not come up."""
        self._ended = self._thread.submit(supervise, self._command, _silent_collector(), self._stop)
        try:
            self.wait("Neovim to start", self._is_up)
        except BaseException:
            self._close()
            raise
        self._socket.settimeout(_ANSWER_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.keys(r"<C-\><C-n>:qall!<CR>")
                self.wait("Neovim to quit", self._ended.done, seconds=_QUIT_SECONDS)
        finally:
            self._close()

    def keys(self, keys: str) -> None:
        """Type; `<CR>` and its like are keys."""
        self._request("nvim_input", keys)

    def lua(self, code: str, *arguments: Any) -> Any:
        """What a piece of Lua returns, once all that was typed has been taken in."""
        return self._request("nvim_exec_lua", code, arguments)

    def screen(self) -> list[str]:
        """What a person would see, row by row."""
        return self.lua(_SCREEN)

    def wait(
        self,
        what: str,
        look: Callable[[], Value],
        wanted: Callable[[Value], object] = bool,
        seconds: float = WAIT_SECONDS,
    ) -> Value:
        """The first value of `look` that is `wanted`. Raises TransportError `demoStuck` when none comes in time."""
        deadline = time.monotonic() + seconds
        while not wanted(value := look()):
            if time.monotonic() > deadline:
                raise TransportError(STUCK, f"Waited {seconds:g} seconds for {what}, in vain.")
            time.sleep(_POLL_SECONDS)
        return value

    def _is_up(self) -> bool:
        if self._ended.done():
            raise TransportError("editorEnded", f"Neovim ended at once: {_last_words(self._ended.result())}.")
        return self._socket.connect_ex(self._address) == 0

    def _request(self, method: str, *parameters: Any) -> Any:
        """One call of Neovim's MessagePack-RPC; nothing is subscribed to, so what comes next is its answer."""
        number = next(self._numbers)
        try:
            self._socket.sendall(msgspec.msgpack.encode([0, number, method, parameters]))
            _, _, problem, result = self._receive()
        except OSError as error:
            raise TransportError("editorSilent", f"Neovim does not answer any more ({error}).") from error
        if problem is not None:
            raise TransportError("editorRefused", f"Neovim could not do what it was asked: {problem[1]}")
        return result

    def _receive(self) -> Any:
        received = b""
        while True:
            piece = self._socket.recv(65_536)
            if not piece:
                raise ConnectionError("it closed the connection")
            received += piece
            try:
                return msgspec.msgpack.decode(received)
            except msgspec.DecodeError:
                continue  # not whole yet; a message that never is runs into the time limit

    def _close(self) -> None:
        self._socket.close()
        self._stop.set()
        self._thread.shutdown()
        self._stop.close()


def _silent_collector() -> OutputCollector:
    return OutputCollector(os.devnull, (), lambda _: None)


def _last_words(finished: Finished) -> str:
    return finished.output.text.strip()[-500:] or "it said nothing"
