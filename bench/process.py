"""What the kernel says about a process: memory, processor time, and whether a command still runs (Linux only)."""

import os
import time
from pathlib import Path

QUIET = 0.1
"""Seconds without work after which a process counts as idle; shorter ones happen when the machine is busy."""
DEADLINE = 20.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident(pid: int) -> float:
    """Resident memory in MB (10^6 bytes)."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 1e6


def forget_peak(pid: int) -> None:
    """From now on `peak` counts anew (proc(5), clear_refs)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak(pid: int) -> float:
    """The most resident memory since it was forgotten, in MB (10^6 bytes)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


def processor_seconds(pid: int) -> float:
    """Processor time of the process's living threads, finer than the clock ticks of `stat`."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread that has just ended
    return total / 1e9


def settle(pid: int) -> None:
    """Wait until the process has nothing to do."""
    deadline = time.monotonic() + DEADLINE
    before = -1.0
    while (now := processor_seconds(pid)) - before > QUIET / 200:
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {pid} is never idle")
        before = now
        time.sleep(QUIET)


def processes_with(argument: str) -> list[int]:
    """The living processes that were started with this very argument."""
    found: list[int] = []
    for place in Path("/proc").iterdir():
        try:
            if place.name.isdigit() and argument.encode() in (place / "cmdline").read_bytes().split(b"\0"):
                found.append(int(place.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def wait_for_process(argument: str) -> None:
    """Wait until a command with this argument runs."""
    deadline = time.monotonic() + DEADLINE
    while not processes_with(argument):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no process with the argument {argument} was started")
        time.sleep(0.002)
