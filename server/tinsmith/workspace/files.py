"""Files on disk: whole snapshots in, guarded atomic writes out. Blocking; called off the loop.

A write goes to a temporary file beside the target and takes its place by a rename, so a hard link
to the old file keeps the old text. Writers of one folder wait for each other, in every process.
"""

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Generator

from tinsmith.domain.change import FileChange, Snapshot
from tinsmith.domain.errors import ToolError
from tinsmith.workspace.text import decode, encode

MAX_FILE_BYTES = 10_000_000
MAX_ENTRIES = 1_000
_LOCK_SECONDS = 5.0
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
}


class StaleError(ToolError):
    """The file's text is not the one that a change was made from; `current` is what is there now, None for nothing."""

    def __init__(self, path: str, current: Snapshot | None) -> None:
        now = "is gone" if current is None else f"now has the hash {current.hash}"
        super().__init__(
            "stale",
            f"{path} changed meanwhile ({now}), so nothing was written. Read it again and repeat the call.",
            data={"path": path, "hash": "" if current is None else current.hash},
        )
        self.current = current


def read_file(path: str) -> Snapshot:
    """The snapshot of the file at a resolved path.

    Raises ToolError `notFound`, `isDirectory`, `notRegular`, `tooLarge`, `notReadable` or `binary`.
    """
    try:
        facts = os.stat(path)
        _check_readable(path, facts)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            _check_readable(path, os.fstat(descriptor))
            content = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError as error:
        raise ToolError(
            "notFound", f"There is no file {path}. Paths count from the workspace root; list a directory with read."
        ) from error
    except NotADirectoryError as error:
        raise ToolError("notFound", f"{path} leads through a file. List the directory above with read.") from error
    except OSError as error:
        raise ToolError("notReadable", f"{path} cannot be read ({error.strerror}). Ask the user about it.") from error
    if len(content) > MAX_FILE_BYTES:
        raise _too_large(path, len(content))
    return decode(path, content)


def list_directory(path: str) -> tuple[list[str], int]:
    """The first entries of a directory by name, folders with a `/`, and how many there are."""
    try:
        with os.scandir(path) as entries:
            names = sorted(entry.name + "/" if entry.is_dir() else entry.name for entry in entries)
    except OSError as error:
        raise ToolError("notReadable", f"{path} cannot be listed ({error.strerror}). Ask the user about it.") from error
    return [os.fsencode(name).decode("utf-8", "replace") for name in names[:MAX_ENTRIES]], len(names)


def is_missing(path: str) -> bool:
    """Whether nothing at all is at this path."""
    return not os.path.lexists(path)


def check_unchanged(change: FileChange) -> None:
    """Raises StaleError unless the file still has the text, BOM and encoding of `before` (is missing, for None)."""
    path, before = os.path.realpath(change.path), change.before
    current = None if is_missing(path) else read_file(path)
    if current is None or before is None:
        if current is not before:
            raise StaleError(path, current)
    elif (current.text, current.has_bom, current.encoding) != (before.text, before.has_bom, before.encoding):
        raise StaleError(path, current)


def writable_mode(path: str) -> int:
    """The file's permission bits. Raises ToolError `readOnly` when they (or whoever we are) forbid writing."""
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if not mode & 0o222 or not os.access(path, os.W_OK):
        raise ToolError(
            "readOnly", f"{path} is read-only, so it was left as it is. Ask the user before changing its mode."
        )
    return mode


def write_file(change: FileChange) -> None:
    """Put the change on disk, or raise and leave the file as it was.

    Text, BOM and encoding are compared with `before` under the folder's lock, right before the rename. Mode and
    owner are kept; missing folders of a new file are made. Raises StaleError, or ToolError `readOnly`, `notWritable`.
    """
    path = os.path.realpath(change.path)
    folder, before = os.path.dirname(path), change.before
    try:
        if before is None:
            os.makedirs(folder, exist_ok=True)
        content = encode(
            change.after_text, before is not None and before.has_bom, before.encoding if before else "utf-8"
        )
        with _locked(folder) as directory:
            check_unchanged(change)
            mode = None if before is None else writable_mode(path)
            with _beside(path, content, mode) as temporary:
                check_unchanged(change)
                os.replace(temporary, path)
            with contextlib.suppress(OSError):  # the change is made; some file systems cannot sync a folder
                os.fsync(directory)
    except UnicodeEncodeError as error:
        raise ToolError(
            "notWritable", f"{path} cannot hold the character {error.object[error.start]!r}. Write it another way."
        ) from error
    except OSError as error:
        raise ToolError(
            "notWritable", f"{path} cannot be written ({error.strerror}); it is as it was. Ask the user about it."
        ) from error


def _check_readable(path: str, facts: os.stat_result) -> None:
    if stat.S_ISDIR(facts.st_mode):
        raise ToolError("isDirectory", f"{path} is a directory. Name a file in it; read lists it.")
    if not stat.S_ISREG(facts.st_mode):
        kind = _KINDS.get(stat.S_IFMT(facts.st_mode), "no regular file")
        raise ToolError("notRegular", f"{path} is {kind}. Only regular files can be read and edited; use bash.")
    if facts.st_size > MAX_FILE_BYTES:
        raise _too_large(path, facts.st_size)


def _too_large(path: str, size: int) -> ToolError:
    return ToolError(
        "tooLarge",
        f"{path} is a file of at least {size:,} bytes; the limit is {MAX_FILE_BYTES:,}. Look at parts of it with bash "
        "(head, tail, sed -n, grep).",
        data={"bytes": size},
    )


@contextlib.contextmanager
def _locked(folder: str) -> Generator[int]:
    """Hold the folder's advisory lock (flock); a file system without locks gives none."""
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise ToolError("busy", f"Another program holds {folder}. Try again in a moment.") from error
                time.sleep(0.002)
            except OSError:
                break
            else:
                break
        yield directory
    finally:
        os.close(directory)


@contextlib.contextmanager
def _beside(path: str, content: bytes, mode: int | None) -> Generator[str]:
    """A synced file with this content in the target's folder; removed unless it was renamed."""
    temporary = os.path.join(os.path.dirname(path), f".{os.urandom(6).hex()}.tinsmith")
    descriptor = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if mode is None else 0o600
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if mode is not None:
                _keep_owner(descriptor, path)
                os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        yield temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _keep_owner(descriptor: int, path: str) -> None:
    wanted, actual = os.stat(path), os.fstat(descriptor)
    if (wanted.st_uid, wanted.st_gid) != (actual.st_uid, actual.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, wanted.st_uid, wanted.st_gid)
