"""The sandbox that commands run in: the best that works here, found out once, and never less without saying so.

bubblewrap, else Landlock with a filter of system calls, else none.
"""

import functools
import os
import platform
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal

from tinsmith.proc import bubblewrap
from tinsmith.proc.bubblewrap import Grants
from tinsmith.proc.launch import Confinement, confined
from tinsmith.proc.occupation import occupied, remove_oldest
from tinsmith.proc.seccomp import filter_for

SandboxKind = Literal["bubblewrap", "landlock", "none"]
SWITCH = "TINSMITH_SANDBOX"
"""Environment variable: `off` runs commands without a sandbox, `landlock` leaves bubblewrap out."""
_PROBE_SECONDS = 10
_TEMPORARY_FOLDERS = 8
_MOST_LINKS = 40
"""Source: path_resolution(7)."""
_WEAKER = "it shields neither .git nor secret files of the workspace, and gives no network, not even a local one"


@dataclass(frozen=True, slots=True)
class SandboxState:
    """Which sandbox commands get; `reason` says why it is not the best one."""

    kind: SandboxKind
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.kind} ({self.reason})" if self.reason else self.kind


class Sandbox:
    """Owns a folder for caches and temporary files, and what the probe found. For any thread."""

    def __init__(self, folder: str, environment: Mapping[str, str]) -> None:
        self._given_folder = folder
        self._environment = environment
        self._probing = threading.Lock()

    @property
    def caches(self) -> str:
        """Where sandboxed commands keep their caches."""
        return os.path.join(self._folder, "caches")

    def state(self) -> SandboxState:
        """What commands get here. Blocks some milliseconds when it is asked first."""
        with self._probing:
            return self._state

    def confine(self, grants: Grants, cwd: str) -> Confinement | None:
        """How to start a command so that it has no more than `grants`; None without a sandbox."""
        match self.state().kind:
            case "bubblewrap":
                return self._in_bubblewrap(grants, cwd)
            case "landlock":
                from tinsmith.proc import landlock

                program = filter_for(platform.machine(), has_namespaces=False, has_network=grants.has_network) or b""
                return Confinement(landlock.arguments(grants, program))
            case "none":
                return None

    @contextmanager
    def temporary_folder(self, name: str) -> Generator[str]:
        """The folder that is /tmp for one conversation, during the block. Afterwards only the newest few stay."""
        parent = os.path.join(self._folder, "tmp")
        folder = os.path.join(parent, name)
        is_new = not os.path.isdir(folder)
        with occupied(folder):
            if is_new:
                remove_oldest(parent, _TEMPORARY_FOLDERS)
            yield folder

    @functools.cached_property
    def _folder(self) -> str:
        return os.path.realpath(self._given_folder)

    @functools.cached_property
    def _state(self) -> SandboxState:
        switch = self._environment.get(SWITCH, "")
        if switch == "off":
            return SandboxState("none", f"switched off by {SWITCH}=off")
        if sys.platform != "linux":
            return SandboxState("none", "this system has no sandbox that is supported")
        if filter_for(platform.machine(), has_namespaces=True) is None:
            return SandboxState("none", f"no filter of system calls is known for {platform.machine()}")
        os.makedirs(self.caches, mode=0o700, exist_ok=True)
        refusal = f"left out by {SWITCH}=landlock" if switch == "landlock" else self._bubblewrap_problem()
        if not refusal:
            return SandboxState("bubblewrap")
        from tinsmith.proc import landlock

        other = landlock.problem()
        if not other:
            return SandboxState("landlock", f"{_WEAKER}; bubblewrap is {refusal}")
        return SandboxState("none", f"bubblewrap is {refusal}; Landlock is {other}")

    def _bubblewrap_problem(self) -> str:
        """Why bubblewrap cannot be used, as words after "is"; empty when it can."""
        if not os.path.isabs(self._bubblewrap):
            return "not installed"
        facts = os.stat(self._bubblewrap)
        if facts.st_mode & stat.S_ISUID:
            return "installed to run as root (setuid), which is not used"
        if facts.st_uid != 0:
            return f"not root's own ({self._bubblewrap}), so anybody could have put it there"
        try:
            with ExitStack() as kept:
                tmp = kept.enter_context(self.temporary_folder("probe"))
                grants = Grants(self.caches, self.caches, tmp, hidden=(self.caches,))
                arguments, passed = kept.enter_context(confined(("true",), self._in_bubblewrap(grants, "/")))
                done = subprocess.run(
                    arguments,
                    pass_fds=passed,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=_PROBE_SECONDS,
                    check=False,
                )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"not usable: {error}"
        said = done.stderr.decode("utf-8", "replace").strip().removeprefix("bwrap: ")
        return f"not usable: {said or f'exit code {done.returncode}'}" if done.returncode else ""

    def _in_bubblewrap(self, grants: Grants, cwd: str) -> Confinement:
        program = filter_for(platform.machine(), has_namespaces=True, has_network=grants.has_network) or b""
        resolver = links_of("/etc/resolv.conf") if grants.has_network else ()
        return Confinement(bubblewrap.arguments(self._bubblewrap, grants, cwd, self._nothing, resolver), program)

    @functools.cached_property
    def _bubblewrap(self) -> str:
        return shutil.which("bwrap", path=self._environment.get("PATH")) or ""

    @functools.cached_property
    def _nothing(self) -> tuple[str, str]:
        """A file and a folder that cannot be read, to stand where secret ones are."""
        file, folder = os.path.join(self._folder, "hidden"), os.path.join(self._folder, "hidden.d")
        os.makedirs(folder, mode=0o000, exist_ok=True)
        if not os.path.exists(file):
            os.close(os.open(file, os.O_CREAT | os.O_CLOEXEC, 0o000))
        return file, folder


def links_of(path: str) -> tuple[str, ...]:
    """The places in /run that a path leads through, link by link, since a sandbox has a /run of its own."""
    places: list[str] = []
    while os.path.islink(path) and len(places) < _MOST_LINKS:
        folder, name = os.path.split(os.path.join(os.path.dirname(path), os.readlink(path)))
        path = os.path.join(os.path.realpath(folder), name)
        places.append(path)
    return tuple(place for place in places if place.startswith("/run/"))
