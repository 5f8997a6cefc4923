"""The second-best sandbox: Landlock rules and a filter of system calls, put on by a small launcher. Linux.

Openly weaker than bubblewrap: a rule grants whole folders, so nothing inside the workspace can be shielded; other
processes are visible; metadata of the user's own files can be changed.
"""

import base64
import ctypes
import json
import os
import sys

from tinsmith.proc.bubblewrap import Grants

_LAUNCHER = os.path.join(os.path.dirname(__file__), "landlock_launcher.py")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/shm")  # noqa: S108
_CREATE_RULESET = 444
_LEAST_VERSION = 3
"""Of Landlock: the first that holds back truncation."""


def arguments(grants: Grants, filter_program: bytes) -> tuple[str, ...]:
    """Up to the command itself."""
    rules = {
        "read": sorted(_readable("/", grants.hidden)),
        "write": [grants.workspace, grants.caches, grants.tmp, *(path for path in _DEVICES if os.path.exists(path))],
        "has_network": grants.has_network,
        "filter": base64.b64encode(filter_program).decode(),
    }
    return (sys.executable, "-ISE", _LAUNCHER, json.dumps(rules))


def problem() -> str:
    """Why Landlock cannot be used here; empty when it can."""
    version = ctypes.CDLL(None, use_errno=True).syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    if version < 0:
        return f"not in this kernel ({os.strerror(ctypes.get_errno())})"
    return "" if version >= _LEAST_VERSION else f"version {version} of this kernel is too old"


def _readable(folder: str, hidden: tuple[str, ...]) -> "list[str]":
    """The fewest files and folders that hold everything in `folder` but what is hidden."""
    below = tuple(path for path in hidden if path.startswith(folder.rstrip("/") + "/"))
    if not below:
        return [folder]
    try:
        entries = list(os.scandir(folder))
    except OSError:  # not ours to list, so not the command's to read
        return []
    kept = [entry.path for entry in entries if entry.path not in hidden and not entry.is_symlink()]
    return [path for entry in kept for path in _readable(entry, below)]
