"""One command from start to end, in a thread of its own: read, watch the clock, end what is left. Blocking.

The shell's end is noticed without reaping it, so that its number, which names the session and the
group, stays ours until nobody of the family is left.
"""

import os
import select
import selectors
import signal
import threading
import time
from dataclasses import dataclass
from typing import Self

from tinsmith.domain.errors import ToolError
from tinsmith.proc.family import Family
from tinsmith.proc.launch import Confinement, Started, start
from tinsmith.proc.output import Output, OutputCollector
from tinsmith.proc.peek import exit_code

TERM_SECONDS = 1.0
"""From TERM to KILL."""
KILL_SECONDS = 0.7
"""From KILL to giving up on what even that does not end; both together stay below two seconds."""
_LINGER_SECONDS = 0.25
"""How long a finished command's children may go on writing, as the `tee` of a process substitution does."""
_SETTLE_SECONDS = 0.05
_IDLE_SECONDS = 0.2
_STARTING_SECONDS = 0.1
"""How long it may take until a command's own program runs in the sandbox."""
_POLL_SECONDS = 0.01
_CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class Exited:
    """The command ended by itself: its exit code; 128 + `signal` when a signal killed the shell."""

    code: int
    signal: int = 0


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The command took longer than `seconds` and was ended."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Somebody asked to stop, and the command was ended."""


Outcome = Exited | TimedOut | Cancelled


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that is over. `leftovers` still ran when it ended, `survivors` could not even be killed."""

    outcome: Outcome
    output: Output
    leftovers: int = 0
    survivors: int = 0


@dataclass(frozen=True, slots=True)
class Command:
    """What to run: `text` is for `bash -c`, `cwd` absolute, `timeout` in seconds, `confinement` the sandbox."""

    text: str
    cwd: str
    environment: dict[str, str]
    timeout: float
    confinement: Confinement | None = None


class StopSignal:
    """Set from any thread, seen by a selector. Once closed it can no longer be set."""

    def __init__(self) -> None:
        self.is_set = False
        self._is_closed = False
        self._lock = threading.Lock()
        self._read, self._write = os.pipe()

    def set(self) -> None:
        with self._lock:
            if not self.is_set and not self._is_closed:
                os.write(self._write, b"!")
            self.is_set = True

    def fileno(self) -> int:
        return self._read

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            os.close(self._read)
            os.close(self._write)


def supervise(command: Command, collector: OutputCollector, stop: StopSignal) -> Finished:
    """Run the command to its end, which comes at the latest two seconds after its time is up or `stop` is set.

    Raises ToolError `noDirectory`, `noShell` or `noSandbox` when it cannot be started.
    """
    if stop.is_set:
        return Finished(Cancelled(), collector.finish())
    mark = f"TINSMITH_CALL_{os.urandom(8).hex()}"
    environment = {**command.environment, "PWD": command.cwd, mark: "1"}
    started = start(command.text, command.cwd, environment, command.confinement)
    process = started.process
    family = Family(process.pid, mark, has_init=started.status is not None)
    try:
        with _Watch(started, stop, collector) as watch:
            outcome, leftovers, survivors = _follow(family, watch, command.timeout)
            if started.status is not None:
                process.kill()
                watch.close()
            if watch.exited:
                process.wait()
    finally:
        if process.returncode is None:
            family.send(signal.SIGKILL)
    output = collector.finish()
    if watch.failed_to_begin:
        raise _no_sandbox(output)
    return Finished(outcome, output, leftovers, survivors)


def _no_sandbox(output: Output) -> ToolError:
    said = output.text.strip().removeprefix("bwrap: ") or "it does not say why"
    return ToolError(
        "noSandbox",
        f"The sandbox could not be made ({said}), so nothing was run. If the command has to run, call again with "
        "grant: unsandboxed; the user is asked.",
    )


def _follow(family: Family, watch: "_Watch", timeout: float) -> tuple[Outcome, int, int]:
    """Watch the shell to its end or its time's, then end who is left. The outcome, and counts as in Finished."""
    deadline = time.monotonic() + timeout
    while not watch.exited and not watch.is_stopped and time.monotonic() < deadline:
        watch.step(deadline)
    linger = time.monotonic() + _LINGER_SECONDS
    while watch.exited and watch.is_open and not watch.is_stopped and time.monotonic() < linger:
        if family.has_init and not family.members():  # its init keeps the pipe open
            break
        watch.step(time.monotonic() + _POLL_SECONDS if family.has_init else linger)
    outcome = watch.exited or (Cancelled() if watch.is_stopped else TimedOut(timeout))
    leftovers = _settled(family, watch) if watch.exited else 0
    survivors = _end(family, watch) if leftovers or not watch.exited else 0
    watch.drain()
    return outcome, leftovers, survivors


class _Watch:
    """The open ends of a running command: its output, its exit, the wish to stop."""

    def __init__(self, started: Started, stop: StopSignal, collector: OutputCollector) -> None:
        self.exited: Exited | None = None
        self.is_stopped = False
        self.is_open = True
        self.failed_to_begin = False
        self._process = started.process
        self._pipe = started.output
        self._status = started.status
        self._collector = collector
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._pipe, selectors.EVENT_READ)
        self._selector.register(stop, selectors.EVENT_READ)
        if self._status is not None:
            self._selector.register(self._status, selectors.EVENT_READ)
        self._exit = os.pidfd_open(started.process.pid) if hasattr(os, "pidfd_open") else None
        if self._exit is not None:
            self._selector.register(self._exit, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        os.close(self._pipe)
        if self._status is not None:
            os.close(self._status)
        if self._exit is not None:
            os.close(self._exit)

    def step(self, until: float) -> None:
        """Wait for something to happen, at most until this time, and take note of it."""
        left = max(0.0, min(until - time.monotonic(), _IDLE_SECONDS if self._exit is not None else _POLL_SECONDS))
        ready = self._selector.select(left)
        if not ready:
            self._collector.pause()
        for key, _ in ready:
            if key.fd == self._pipe:
                self._read()
            elif key.fd == self._status:
                self._read_status()
            elif key.fd != self._exit:
                self.is_stopped = True
                self._selector.unregister(key.fileobj)
        if not self.exited and (code := exit_code(self._process)) is not None:
            self.failed_to_begin = self._status is not None and code == 1
            self.exited = Exited(code) if code >= 0 else Exited(128 - code, -code)
            if self._exit is not None:
                self._selector.unregister(self._exit)

    def drain(self) -> None:
        """Take what is in the pipe now, at most what a pipe can hold a few times over."""
        for _ in range(64):
            if not self.is_open or not select.select([self._pipe], [], [], 0)[0]:
                return
            self._read()

    def close(self) -> None:
        """Take what still comes until everybody who could write is gone, as they are soon when a sandbox was killed."""
        deadline = time.monotonic() + KILL_SECONDS
        while self.is_open and (left := deadline - time.monotonic()) > 0:
            if select.select([self._pipe], [], [], left)[0]:
                self._read()

    def _read_status(self) -> None:
        """The exit code that the sandbox tells; without one, the end of the sandbox itself is awaited.

        A shell tells of a signal by 128 and its number (bash(1), exit status); nothing else tells of it here.
        """
        told = os.read(self._status or 0, 16)
        self._selector.unregister(self._status or 0)
        if told.strip().isdigit():
            code = int(told)
            self.exited = Exited(code, code - 128 if 128 < code <= 128 + signal.SIGSYS else 0)

    def _read(self) -> None:
        chunk = os.read(self._pipe, _CHUNK)
        if chunk:
            self._collector.feed(chunk)
        else:
            self.is_open = False
            self._selector.unregister(self._pipe)


def _settled(family: Family, watch: _Watch) -> int:
    """How many of the family go on after the shell's end; those who are just about to end get a moment."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while (count := len(family.members())) and time.monotonic() < deadline:
        watch.step(time.monotonic() + _POLL_SECONDS)
    return count


def _end(family: Family, watch: _Watch) -> int:
    """TERM, KILL, and in the end give up; how many are left then.

    A sandbox in which nobody lives yet has nobody to ask: it is taken down before the command can begin. Who is
    just being started may lose the TERM between two programs, and is told again.
    """
    is_deaf = family.has_init and family.age() < _STARTING_SECONDS
    if family.has_init and not watch.exited and not family.members():
        family.send(signal.SIGKILL)
    for number, seconds in ((signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
        deadline = time.monotonic() + seconds
        family.send(number)
        if number == signal.SIGTERM:
            family.send(signal.SIGCONT)
        while time.monotonic() < deadline:
            watch.step(time.monotonic() + _POLL_SECONDS)
            if watch.exited and not family.members():
                return 0
            if is_deaf and number == signal.SIGTERM and family.age() > 2 * _STARTING_SECONDS:
                family.send(number)
                is_deaf = False
            if number == signal.SIGKILL:
                family.send(number)
    return len(family.members()) + (watch.exited is None)
