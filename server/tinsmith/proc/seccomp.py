"""Filters of system calls for sandboxed commands, as the kernel takes them: classic BPF (seccomp(2)). Pure.

Unix sockets are blocked because a network namespace does not hold back those with a path, and any of them may lead
out: a container daemon, a key agent, an editor. A pair of connected sockets stays, but not one of datagrams, which
could be sent to any path; nor io_uring, which opens sockets unseen. Other families are allowed by name, since some,
such as vsock, know no namespace.
"""

import struct
from typing import NamedTuple


class _Machine(NamedTuple):
    audit: int
    socket: int
    socketpair: int
    kernel: tuple[int, ...]
    processes: tuple[int, ...]


_EVERYWHERE = (425, 426, 427)
"""io_uring_setup, io_uring_enter, io_uring_register."""
_MACHINES = {
    "x86_64": _Machine(
        audit=0xC000003E,
        socket=41,
        socketpair=53,
        # add_key, request_key, keyctl, bpf, perf_event_open, userfaultfd, kexec_load, init_module, finit_module,
        # open_by_handle_at
        kernel=(248, 249, 250, 321, 298, 323, 246, 175, 313, 304),
        # ptrace, process_vm_readv, process_vm_writev, pidfd_getfd, unshare, setns, mount, umount2, pivot_root, chroot
        processes=(101, 310, 311, 438, 272, 308, 165, 166, 155, 161),
    ),
    "aarch64": _Machine(
        audit=0xC00000B7,
        socket=198,
        socketpair=199,
        kernel=(217, 218, 219, 280, 241, 282, 104, 105, 273, 265),
        processes=(117, 270, 271, 438, 97, 268, 40, 39, 41, 51),
    ),
}
"""Numbers of the system calls: asm/unistd_64.h and asm-generic/unistd.h of Linux."""

_FAMILIES = (2, 10, 16)
"""AF_INET, AF_INET6, AF_NETLINK: harmless in a network namespace of their own."""
_CONNECTED = (1, 5)
"""SOCK_STREAM, SOCK_SEQPACKET."""
_ALLOW = 0x7FFF0000
_DENY = 0x00050000 | 1
"""SECCOMP_RET_ERRNO with EPERM."""
_ABSENT = 0x00050000 | 38
"""The same with ENOSYS, on which programs fall back to something else."""
_X32 = 0x40000000

_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_NUMBER, _AUDIT, _FIRST, _SECOND = 0, 4, 16, 24
"""Offsets in struct seccomp_data; the lower halves of its arguments."""


def filter_for(machine: str, *, has_namespaces: bool) -> bytes | None:
    """The program for this machine, None when it is not known.

    Without namespaces of its own a command gets no socket at all, and may not look into other processes.
    """
    known = _MACHINES.get(machine)
    if known is None:
        return None
    blocked = known.kernel if has_namespaces else known.kernel + known.processes
    families = _FAMILIES if has_namespaces else ()
    program = [
        (_LOAD, 0, 0, _AUDIT),
        (_EQUAL, 1, 0, known.audit),
        (_RETURN, 0, 0, _ABSENT),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _ABSENT),
    ]
    for number in _EVERYWHERE:
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ABSENT)]
    for number in blocked:
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _DENY)]
    program += _only(known.socket, [(_LOAD, 0, 0, _FIRST)], families)
    program += _only(known.socketpair, [(_LOAD, 0, 0, _SECOND), (_AND, 0, 0, 0xF)], _CONNECTED)
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _only(number: int, load: list[tuple[int, int, int, int]], allowed: tuple[int, ...]) -> list[tuple[int, ...]]:
    """For one system call: allow it with these values of an argument, else deny it."""
    body: list[tuple[int, ...]] = list(load)
    for place, value in enumerate(allowed):
        body.append((_EQUAL, len(allowed) - place, 0, value))
    body += [(_RETURN, 0, 0, _DENY), (_RETURN, 0, 0, _ALLOW)]
    if not allowed:
        body = [(_RETURN, 0, 0, _DENY)]
    return [(_EQUAL, 0, len(body), number), *body]
