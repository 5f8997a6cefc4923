"""One program without a shell, run to its end in the calling thread: bounded output, a deadline, a cancel. Blocking."""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tinsmith.domain.cancel import CancelToken
from tinsmith.domain.errors import ToolError

_LOOK_SECONDS = 0.05
"""How often a cancel is looked for."""
_ERROR_BYTES = 16_000
_CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class Executed:
    """A program that is over. `is_cut` when it was stopped because it wrote more than was wanted."""

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
    cancel: CancelToken,
) -> Executed:
    """Run a program by its absolute path; at most `limit` bytes of its output are kept, then it is stopped.

    It has no input and leads a group of its own, which ends with it. Raises ToolError `timedOut` or `noProgram`,
    Cancelled when the token is.
    """
    cancel.check()
    name = os.path.basename(arguments[0])
    try:
        process = subprocess.Popen(
            arguments,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(
            "noProgram", f"{name} cannot be started in {cwd} ({error.strerror}). Ask the user about it."
        ) from error
    with process:
        try:
            output, errors = _collect(process, time.monotonic() + timeout, limit, cancel)
            if output is None:
                raise ToolError("timedOut", f"{name} took longer than {timeout:g} s and was stopped. Ask for less.")
            is_cut = len(output) > limit
            if not is_cut:
                process.wait()
        finally:
            if process.returncode is None:
                _kill(process)
    return Executed(process.returncode or 0, output[:limit], errors, is_cut)


def _collect(
    process: subprocess.Popen[bytes], deadline: float, limit: int, cancel: CancelToken
) -> tuple[bytes | None, bytes]:
    """Both outputs to their ends or a little more than `limit`; None for the first when time is up."""
    output, errors = bytearray(), bytearray()
    assert process.stdout is not None
    assert process.stderr is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, output)
        selector.register(process.stderr, selectors.EVENT_READ, errors)
        while selector.get_map() and len(output) <= limit:
            cancel.check()
            if time.monotonic() > deadline:
                return None, bytes(errors)
            for key, _ in selector.select(_LOOK_SECONDS):
                chunk = os.read(key.fd, _CHUNK)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.data is output or len(errors) < _ERROR_BYTES:
                    key.data.extend(chunk)
    return bytes(output), bytes(errors[:_ERROR_BYTES])


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
