"""One program without a shell, run to its end in the calling thread: bounded output, a deadline, a cancel. Blocking."""

import contextlib
import fcntl
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tinsmith.domain.errors import ToolError
from tinsmith.proc.launch import Confinement, confined
from tinsmith.proc.peek import exit_code

_LOOK_SECONDS = 0.05
"""How often a cancel is looked for."""
_GATHER_SECONDS = 0.002
"""How long a program that writes little at a time may go on before we look again: each look costs more than that."""
_LITTLE = 16_384
_ERROR_BYTES = 16_000
_PIPE_BYTES = 1 << 20
"""The most that Linux lets an ordinary user ask for (pipe(7), pipe-max-size)."""


@dataclass(frozen=True, slots=True)
class Executed:
    """A program that is over: `code` is negative for a signal; `is_cut` when it was ended as it wrote too much."""

    code: int
    output: bytes
    errors: bytes
    is_cut: bool = False


def execute(
    arguments: Sequence[str],
    *,
    cwd: str,
    environment: Mapping[str, str],
    timeout: float,
    limit: int,
    check: Callable[[], None],
    confinement: Confinement | None = None,
) -> Executed:
    """Run a program by its absolute path; at most `limit` bytes of its output are kept, then it is ended.

    It has no input and leads a group of its own, which ends with it. `check` is called while waiting; what it raises
    ends the program and is passed on. Raises ToolError `timedOut` or `noProgram`.
    """
    check()
    name = os.path.basename(arguments[0])
    try:
        with confined(arguments, confinement) as (words, passed):
            process = subprocess.Popen(
                words,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=passed,
                pipesize=_PIPE_BYTES if hasattr(fcntl, "F_SETPIPE_SZ") else -1,
            )
    except OSError as error:
        raise ToolError(
            "noProgram", f"{name} cannot be started in {cwd} ({error.strerror}). Ask the user about it."
        ) from error
    with process:
        try:
            output, errors = _collect(process, time.monotonic() + timeout, limit, check)
        except TimeoutError:
            raise ToolError(
                "timedOut", f"{name} took longer than {timeout:g} s and was stopped. Ask for less."
            ) from None
        finally:
            _end_group(process)
    return Executed(process.returncode, output[:limit], errors, len(output) > limit)


def _collect(
    process: subprocess.Popen[bytes], deadline: float, limit: int, check: Callable[[], None]
) -> tuple[bytes, bytes]:
    """Both outputs until the program is over, or until a little more than `limit` was read. Raises TimeoutError."""
    output, errors = bytearray(), bytearray()
    assert process.stdout is not None
    assert process.stderr is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, output)
        selector.register(process.stderr, selectors.EVENT_READ, errors)
        while selector.get_map() and len(output) <= limit:
            _look(deadline, check)
            for key, _ in selector.select(_LOOK_SECONDS):
                chunk = os.read(key.fd, _PIPE_BYTES)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.data is output or len(errors) < _ERROR_BYTES:
                    key.data.extend(chunk)
                if 0 < len(chunk) < _LITTLE:
                    time.sleep(_GATHER_SECONDS)
    while len(output) <= limit and exit_code(process) is None:
        _look(deadline, check)
        time.sleep(_GATHER_SECONDS)
    return bytes(output), bytes(errors[:_ERROR_BYTES])


def _look(deadline: float, check: Callable[[], None]) -> None:
    check()
    if time.monotonic() > deadline:
        raise TimeoutError


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the program and whatever it started in its group; only then reap it, which sets its number free."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
