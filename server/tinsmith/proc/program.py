"""A program without a shell, run to its end for what it writes. Blocking."""

import os
import select
import subprocess
from collections.abc import Callable, Sequence
from typing import NamedTuple

_POLL_SECONDS = 0.05
_CHUNK = 1 << 18


class Written(NamedTuple):
    """The exit code (negative for a signal) and what was written to standard output."""

    code: int
    output: bytes


def run_program(arguments: Sequence[str], *, cwd: str, check: Callable[[], None], max_bytes: int) -> Written | None:
    """Run it; None when it cannot be started or writes more than `max_bytes`.

    It has no input, no environment, and its errors are not kept. `check` is called while waiting; when it raises, the
    program is killed.
    """
    try:
        process = subprocess.Popen(
            arguments,
            cwd=cwd,
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
    except OSError:
        return None
    with process:
        assert process.stdout is not None
        try:
            output = _read(process.stdout.fileno(), check, max_bytes)
        except BaseException:
            process.kill()
            raise
        if output is None:
            process.kill()
            return None
    return Written(process.returncode, output)


def _read(pipe: int, check: Callable[[], None], max_bytes: int) -> bytes | None:
    output = bytearray()
    while len(output) <= max_bytes:
        check()
        if not select.select([pipe], [], [], _POLL_SECONDS)[0]:
            continue
        chunk = os.read(pipe, _CHUNK)
        if not chunk:
            return bytes(output)
        output += chunk
    return None
