"""Which process a pid means: by its start time and the machine's boot a later one of the same pid is another."""

import os
from functools import cache

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_STARTTIME_FIELD = 19
"""Place of `starttime` in /proc/<pid>/stat behind the command's closing parenthesis; proc(5)."""


@cache
def boot_id() -> str:
    """An id of this boot of the machine; empty where the system gives none."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def process_start(pid: int) -> int | None:
    """When the process was started, in the system's own clock ticks; None when it does not run.

    Without /proc only 0 for a process that runs: there a later process of the same pid looks alike.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except FileNotFoundError:
        return None if os.path.exists("/proc/self/stat") else _start_without_proc(pid)
    except OSError:
        return None
    return None if fields[0] in {b"Z", b"X"} else int(fields[_STARTTIME_FIELD])


def _start_without_proc(pid: int) -> int | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return 0
    return 0
