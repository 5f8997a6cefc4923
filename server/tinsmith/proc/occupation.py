"""Folders that several processes use and tidy: one that somebody is in is never removed. Locks say who is."""

import fcntl
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress

_AS_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@contextmanager
def occupied(folder: str) -> Generator[None]:
    """Make the folder, and keep it for as long as the block; a process that dies keeps nothing."""
    descriptor = _made_and_locked(folder)
    try:
        yield
    finally:
        os.close(descriptor)


def remove_oldest(parent: str, kept: int) -> None:
    """Remove what longest did not change in `parent`, but for the newest `kept` and for what is occupied."""
    folders = sorted((entry.path for entry in os.scandir(parent)), key=_changed_at, reverse=True)
    for old in folders[kept:]:
        with suppress(OSError):  # occupied, or removed by another process
            descriptor = os.open(old, _AS_FOLDER)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(old, ignore_errors=True)
            finally:
                os.close(descriptor)


def _made_and_locked(folder: str) -> int:
    while True:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):  # whoever removes it has the lock until then
            descriptor = os.open(folder, _AS_FOLDER)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if _is_still(folder, descriptor):
                return descriptor
            os.close(descriptor)


def _is_still(folder: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(folder))
    except FileNotFoundError:
        return False


def _changed_at(path: str) -> float:
    try:
        return os.path.getmtime(path)
    except FileNotFoundError:
        return 0.0
