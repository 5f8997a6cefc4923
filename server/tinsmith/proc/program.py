"""A program without a shell, run to its end for what it writes. Blocking."""

import os
import select
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from typing import NamedTuple

_POLL_SECONDS = 0.05


class Written(NamedTuple):
    """The exit code (negative for a signal) and what was written to standard output."""

    code: int
    output: bytes


def run_program(
    arguments: Sequence[str], *, cwd: str, check: Callable[[], None], max_bytes: int = 64_000_000
) -> Written | None:
    """Run it; None when it cannot be started or writes more than `max_bytes`.

    It has no input, no environment, and its errors are not kept. `check` is called while waiting; when it raises, the
    program is killed. Output goes to a file, so that many small writes do not wake us as often.
    """
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                arguments,
                cwd=cwd,
                env={},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError:
            return None
        with process:
            assert process.stderr is not None
            try:
                is_whole = _ends(process.stderr.fileno(), output.fileno(), check, max_bytes)
            except BaseException:
                process.kill()
                raise
            if not is_whole:
                process.kill()
                return None
        output.seek(0)
        return Written(process.returncode, output.read())


def _ends(errors: int, output: int, check: Callable[[], None], max_bytes: int) -> bool:
    """Wait until the program closed its errors, which it does when it ends; false when it wrote too much before."""
    while os.fstat(output).st_size <= max_bytes:
        check()
        if select.select([errors], [], [], _POLL_SECONDS)[0] and not os.read(errors, 65_536):
            return os.fstat(output).st_size <= max_bytes
    return False
