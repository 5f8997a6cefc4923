"""Every process that one command started, found again whatever it did to get away.

On Linux `/proc` tells: members share the command's session or group, descend from a member, or carry its mark in
their environment, which survives setsid and double forks. Only a process that also cleared its environment
and lost its parent before anybody looked stays unseen. Elsewhere `ps` tells, without the marks.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import NamedTuple

_FEW = 256
"""Process numbers that are probed one by one rather than by listing /proc."""
_LOOKS = 4
"""How often a look is repeated that may have missed somebody."""
_LOOK_SECONDS = 0.001
_SOON = 2.0
"""Seconds within which process numbers cannot have gone round, so that only the newest need a look."""


_LAST_OF_SANDBOX = 2
"""In its process namespace: 1 is the init, 2 the shell that waits."""


class _Facts(NamedTuple):
    parent: int
    group: int
    session: int


class Family:
    """The processes of one command.

    `leader` is its shell: it leads a session, and must not be reaped before the last call here. `mark` is the name of
    an environment variable that only this command's processes have. When the command `has_init`, it lives in a
    process namespace: the leader, the init and the shell that waits for the command are the sandbox's, not its own.
    """

    def __init__(self, leader: int, mark: str, *, has_init: bool = False) -> None:
        self.has_init = has_init
        self._leader = leader
        self._mark = mark.encode() + b"="
        self._since = time.monotonic()
        self._unmarked: set[int] = set()

    def age(self) -> float:
        """Seconds since the leader was started."""
        return time.monotonic() - self._since

    def members(self) -> frozenset[int]:
        """Who lives, without the leader and what else is the sandbox's.

        Who starts another and ends while we look hides it, so that nobody was found counts when nobody was started.
        """
        found: frozenset[int] = frozenset()
        for _ in range(_LOOKS):
            newest = _newest_process()
            found = self._look()
            if found or newest == _newest_process():
                break
        return found

    def _look(self) -> frozenset[int]:
        facts = self._living()
        members = {
            number
            for number, found in facts.items()
            if self._leader in found or (found.group and self._is_marked(number))  # threads of the kernel have no group
        }
        grown = True
        while grown:
            children = {number for number, found in facts.items() if found.parent in members}
            grown = not children <= members
            members |= children
        if self.has_init:
            members = {number for number in members if _number_inside(number) > _LAST_OF_SANDBOX}
        return frozenset(members - {self._leader})

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the leader, its group and every member; the sandbox itself only ends by KILL.

        Parents come first, as a rule, so that no shell lives to tell of its children's end.
        """
        group = () if self.has_init and number != signal.SIGKILL else (-self._leader,)
        for member in (*group, *sorted(self.members())):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(member, number)

    def _living(self) -> dict[int, _Facts]:
        """Facts of every process that may belong."""
        if sys.platform != "linux":
            return _listed_by_ps()
        newest = _newest_process() if time.monotonic() - self._since < _SOON else 0
        if self._leader <= newest <= self._leader + _FEW:
            numbers = list(range(self._leader, newest + 1))
        else:
            numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return {number: facts for number in numbers if (facts := _facts(number)) and number != os.getpid()}

    def _is_marked(self, number: int) -> bool:
        """While a program is being put in the place of another (execve), its environment reads as empty."""
        looks = 1 if number in self._unmarked else _LOOKS
        for look in range(looks):
            try:
                with open(f"/proc/{number}/environ", "rb") as file:
                    environment = file.read()
            except OSError:
                return False
            if environment:
                return self._mark in environment
            if look + 1 < looks:
                time.sleep(_LOOK_SECONDS)
        self._unmarked.add(number)
        return False


def _newest_process() -> int:
    """The number given out last (proc(5): the last field of loadavg), 0 when unknown."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            return int(file.read().split()[-1])
    except (OSError, ValueError, IndexError):
        return 0


def _facts(number: int) -> _Facts | None:
    """Parent, group and session of a living process (proc(5), stat); None for the dead."""
    try:
        with open(f"/proc/{number}/stat", "rb") as file:
            state, parent, group, session = file.read().rpartition(b")")[2].split()[:4]
    except (OSError, ValueError):
        return None
    return None if state in (b"Z", b"X") else _Facts(int(parent), int(group), int(session))


def _number_inside(number: int) -> int:
    """The number of a process in its own namespace (proc(5), status); that of the dead is 0."""
    try:
        with open(f"/proc/{number}/status", "rb") as file:
            return int(file.read().partition(b"NSpid:")[2].partition(b"\n")[0].split()[-1])
    except (OSError, ValueError, IndexError):
        return 0


def _listed_by_ps() -> dict[int, _Facts]:
    listing = subprocess.run(
        ["ps", "-axo", "pid=,ppid=,pgid=,state="], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    rows = (line.split() for line in listing.stdout.splitlines())
    return {
        int(row[0]): _Facts(int(row[1]), int(row[2]), 0) for row in rows if len(row) == 4 and not row[3].startswith("Z")
    }
