"""A program that has our own terminal until it ends."""

import subprocess
from collections.abc import Mapping, Sequence

_GRACE_SECONDS = 3.0


def run_in_foreground(arguments: Sequence[str], *, cwd: str, environment: Mapping[str, str]) -> int:
    """Run it to its end with our input and output; its exit code, negative when a signal ended it.

    Ctrl-C reaches the program as well as us: it gets a moment to end by itself, then KeyboardInterrupt goes on. Any
    other exception while waiting ends the program first. Raises OSError when it cannot be started.
    """
    with subprocess.Popen(arguments, cwd=cwd, env=environment) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            _end_by_itself(process)
            raise
        finally:
            if process.poll() is None:
                process.terminate()
                _end_by_itself(process)


def _end_by_itself(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
