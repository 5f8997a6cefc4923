"""Opening and renaming by descriptor: what a resolved path names, and nothing that a symlink put there meanwhile.

openat2 and renameat2 where Linux has them, steps of one component and plain calls elsewhere. Blocking.
"""

import errno
import os
import stat
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

_OPENAT2 = 437
"""The number of the system call on every architecture but alpha (Linux 5.6)."""
_RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS = 0x02, 0x04
_RENAME_NOREPLACE, _RENAME_EXCHANGE = 1, 2
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_THERE = frozenset({errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.EOPNOTSUPP})
"""What a kernel, a sandbox or a file system without the call answers."""


def open_resolved(path: str, flags: int) -> int:
    """A descriptor of an absolute path that holds no symlink. Raises OSError, with ELOOP where it holds one."""
    call = _system_call()
    if call is not None:
        descriptor = call(path, flags | os.O_CLOEXEC)
        if descriptor >= 0:
            return descriptor
        if -descriptor not in _NOT_THERE:
            raise OSError(-descriptor, os.strerror(-descriptor), path)
    folder, name = os.path.split(path)
    directory = _walk(folder, is_made=False)
    try:
        return os.open(name or ".", flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    finally:
        os.close(directory)


def open_directory(path: str, *, is_made: bool = False) -> int:
    """As `open_resolved`, a directory; made, with those above it, when it is missing and `is_made` is true."""
    if not is_made:
        return open_resolved(path, os.O_RDONLY | os.O_DIRECTORY)
    directory = _walk(path, is_made=True)
    try:
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    finally:
        os.close(directory)


def exchange(directory: int, one: str, other: str) -> bool:
    """Let two names of a directory change places, at once. False where that cannot be done. Raises OSError."""
    return _rename(directory, one, other, _RENAME_EXCHANGE)


def rename_to_free(directory: int, old: str, new: str) -> None:
    """Rename to a name that nothing has. Raises FileExistsError, OSError."""
    if not _rename(directory, old, new, _RENAME_NOREPLACE):
        os.link(old, new, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        os.unlink(old, dir_fd=directory)


def _walk(path: str, *, is_made: bool) -> int:
    directory = os.open(os.sep, _STEP)
    try:
        for name in filter(None, path.split(os.sep)):
            if is_made:
                _make(name, directory)
            deeper = _step(name, directory)
            os.close(directory)
            directory = deeper
    except OSError:
        os.close(directory)
        raise
    return directory


def _make(name: str, directory: int) -> None:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        try:
            os.mkdir(name, dir_fd=directory)
        except FileExistsError:
            return


def _step(name: str, directory: int) -> int:
    try:
        return os.open(name, _STEP, dir_fd=directory)
    except NotADirectoryError as error:
        if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from error
        raise


def _rename(directory: int, old: str, new: str, flags: int) -> bool:
    rename = _library_call("renameat2")
    if rename is None:
        return False
    failure = rename(directory, os.fsencode(old), directory, os.fsencode(new), flags)
    if failure and failure in _NOT_THERE:
        return False
    if failure:
        raise OSError(failure, os.strerror(failure), new)
    return True


@cache
def _library_call(name: str) -> Callable[..., int] | None:
    """A function of the C library that gives 0 or an error number; None where there is no such function."""
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    function: Any = getattr(library, name, None)
    if sys.platform != "linux" or function is None:
        return None

    def call(*arguments: int | bytes) -> int:
        return ctypes.get_errno() if function(*arguments) else 0

    return call


@cache
def _system_call() -> Callable[[str, int], int] | None:
    """openat2 that follows no symlink: a descriptor, or an error number below zero."""
    if sys.platform != "linux":
        return None
    import ctypes

    class OpenHow(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    system_call = ctypes.CDLL(None, use_errno=True).syscall
    system_call.restype = ctypes.c_long
    size = ctypes.c_size_t(ctypes.sizeof(OpenHow))
    here = ctypes.c_int(-100)  # AT_FDCWD, of no meaning for an absolute path

    def call(path: str, flags: int) -> int:
        how = OpenHow(flags, 0, _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS)
        found = system_call(ctypes.c_long(_OPENAT2), here, os.fsencode(path), ctypes.byref(how), size)
        return int(found) if found >= 0 else -ctypes.get_errno()

    return call
