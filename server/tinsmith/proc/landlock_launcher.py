"""Puts Landlock rules and a filter of system calls on itself, then becomes the command. Standard library alone.

Started with `-ISE`, a JSON object of rules, and the command. Numbers and structures: landlock(7), prctl(2),
capset(2). Ends with exit code 125 when anything cannot be put on.
"""

import base64
import ctypes
import json
import os
import struct
import sys
from typing import NoReturn

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CAPSET = {"x86_64": 126, "aarch64": 91}
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_REFER, _TRUNCATE, _DEVICE_IOCTL = 1 << 13, 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_IOCTL
_TCP = 3
_SCOPES = 3
"""Abstract unix sockets and signals."""
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 22, 24, 38
_CAPABILITY_VERSION = 0x20080522
_LIBC = ctypes.CDLL(None, use_errno=True)


def main(rules: str, *command: str) -> NoReturn:
    """Confine this process and run the command."""
    wanted = json.loads(rules)
    _check(_LIBC.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0))
    _drop_capabilities()
    _check(_LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _restrict(wanted["read"], wanted["write"], 0 if wanted["has_network"] else _TCP)
    _filter(base64.b64decode(wanted["filter"]))
    os.execvp(command[0], command)  # noqa: S606  this program's purpose


def _restrict(read: "list[str]", write: "list[str]", network: int) -> None:
    version = _check(_LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1)))
    handled = (1 << 15) - 1 | (_DEVICE_IOCTL if version >= 5 else 0)
    attributes = struct.pack("=QQQ", handled, network, _SCOPES)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = _check(_LIBC.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0)))
    _grant(ruleset, "/", _READ_DIR)
    for path in read:
        _grant(ruleset, path, handled & (_EXECUTE | _READ_FILE | _READ_DIR))
    for path in write:
        _grant(ruleset, path, handled)
    _check(_LIBC.syscall(_RESTRICT_SELF, ruleset, ctypes.c_uint(0)))
    os.close(ruleset)


def _grant(ruleset: int, path: str, allowed: int) -> None:
    try:
        file = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # gone since the rules were made
        return
    if not os.path.isdir(path):
        allowed &= _OF_FILES
    _check(_LIBC.syscall(_ADD_RULE, ruleset, 1, struct.pack("=Qi", allowed, file), ctypes.c_uint(0)))
    os.close(file)


def _drop_capabilities() -> None:
    """Root without capabilities is no more than the owner of root's files."""
    for capability in range(64):
        _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header, nothing = struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24)
    _check(_LIBC.syscall(_CAPSET[os.uname().machine], header, nothing))


def _filter(program: bytes) -> None:
    kept = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("@HP", len(program) // 8, ctypes.addressof(kept))
    _check(_LIBC.prctl(_PR_SET_SECCOMP, 2, described, 0, 0))


def _check(result: int) -> int:
    if result < 0:
        sys.stderr.write(f"the sandbox cannot be put on: {os.strerror(ctypes.get_errno())}\n")
        sys.exit(125)
    return result


if __name__ == "__main__":
    main(*sys.argv[1:])
