"""Filters of system calls for sandboxed commands, as the kernel takes them: classic BPF (seccomp(2)). Pure.

Unix sockets are blocked because a network namespace does not hold back those with a path, and any of them may lead
out: a container daemon, a key agent, an editor. A pair of connected sockets stays, but not one of datagrams, which
could be sent to any path; nor io_uring, which opens sockets unseen. Other families are allowed by name, since some,
such as vsock, know no namespace. All this holds with the machine's own network too: its abstract unix sockets would
answer there. Of netlink only routes are left then, which say what addresses the machine has.
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

_INTERNET = (2, 10)
"""AF_INET, AF_INET6."""
_NETLINK = 16
"""AF_NETLINK: harmless in a network namespace of its own."""
_ROUTES = 0
"""NETLINK_ROUTE, a protocol of that family."""
_CONNECTED = (1, 5)
"""SOCK_STREAM, SOCK_SEQPACKET."""
_ALLOW = 0x7FFF0000
_DENY = 0x00050000 | 1
"""SECCOMP_RET_ERRNO with EPERM."""
_ABSENT = 0x00050000 | 38
"""The same with ENOSYS, on which programs fall back to something else."""
_X32 = 0x40000000

_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_NUMBER, _AUDIT, _FIRST, _SECOND, _THIRD = 0, 4, 16, 24, 32
"""Offsets in struct seccomp_data; the lower halves of its arguments."""
_Instruction = tuple[int, int, int, int]
_CONSENT: _Instruction = (_RETURN, 0, 0, _ALLOW)
_REFUSAL: _Instruction = (_RETURN, 0, 0, _DENY)


def filter_for(machine: str, *, has_namespaces: bool, has_network: bool = False) -> bytes | None:
    """The program for this machine, None when it is not known; with `has_network` for the machine's own network.

    Without namespaces of its own a command may not look into other processes, and without either gets no socket at all.
    """
    known = _MACHINES.get(machine)
    if known is None:
        return None
    program: list[_Instruction] = [
        (_LOAD, 0, 0, _AUDIT),
        (_EQUAL, 1, 0, known.audit),
        (_RETURN, 0, 0, _ABSENT),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _ABSENT),
    ]
    for number in _EVERYWHERE:
        program += _when(number, (_RETURN, 0, 0, _ABSENT))
    for number in known.kernel if has_namespaces else known.kernel + known.processes:
        program += _when(number, _REFUSAL)
    program += _when(known.socket, *_sockets(has_namespaces=has_namespaces, has_network=has_network))
    pairs = [instruction for kind in _CONNECTED for instruction in _when(kind, _CONSENT)]
    program += _when(known.socketpair, (_LOAD, 0, 0, _SECOND), (_AND, 0, 0, 0xF), *pairs, _REFUSAL)
    program.append(_CONSENT)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _sockets(*, has_namespaces: bool, has_network: bool) -> list[_Instruction]:
    """Which families may be opened."""
    if not has_namespaces and not has_network:
        return [_REFUSAL]
    internet = [instruction for family in _INTERNET for instruction in _when(family, _CONSENT)]
    routes = _when(_NETLINK, (_LOAD, 0, 0, _THIRD), *_when(_ROUTES, _CONSENT))
    netlink = routes if has_network else _when(_NETLINK, _CONSENT)
    return [(_LOAD, 0, 0, _FIRST), *internet, *netlink, _REFUSAL]


def _when(value: int, *then: _Instruction) -> list[_Instruction]:
    """What happens if what was loaded last is this."""
    return [(_EQUAL, 0, len(then), value), *then]
