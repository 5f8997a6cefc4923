"""Whether a child has ended, without reaping it: until it is reaped, its number names nobody else."""

import os
import subprocess


def exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """The exit code of a child that has ended, negative for a signal; None while it runs.

    macOS tells it only from Python 3.13 on; before that the child is reaped.
    """
    if not hasattr(os, "waitid"):
        return process.poll()
    found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
