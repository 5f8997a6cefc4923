"""Files on disk as snapshots. Blocking; called off the loop.

Paths come resolved and are opened by descriptor; one that leads through a symlink by now is refused.
"""

import errno
import os
import stat
from collections.abc import Callable

from tinsmith.domain.change import FileChange, Snapshot
from tinsmith.domain.errors import ToolError
from tinsmith.workspace.descriptors import open_directory, open_resolved
from tinsmith.workspace.paths import twin_of
from tinsmith.workspace.text import decode

MAX_FILE_BYTES = 10_000_000
MAX_ENTRIES = 1_000
_KERNEL_FOLDERS = ("/proc/", "/sys/")
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
    return decode(path, read_bytes(path))


def read_bytes(path: str) -> bytes:
    """What the file at a resolved path holds. Raises ToolError as `read_file`, but for `binary`."""
    return _content(path, lambda flags: open_resolved(path, flags), lambda: os.stat(path))


def _content(path: str, opened: Callable[[int], int], looked_at: Callable[[], os.stat_result]) -> bytes:
    try:
        _check_readable(path, looked_at())  # a device may do something when it is opened
        descriptor = opened(os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            _check_readable(path, os.fstat(descriptor))
            content = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError as error:
        twin = twin_of(path)
        advice = f"There is {twin}" if twin else "Paths count from the workspace root; list a directory with read"
        raise ToolError("notFound", f"There is no file {path}. {advice}.") from error
    except NotADirectoryError as error:
        raise ToolError("notFound", f"{path} leads through a file. List the directory above with read.") from error
    except OSError as error:
        raise _unreadable(path, error) from error
    if len(content) > MAX_FILE_BYTES:
        raise _too_large(path, len(content))
    return content


def list_directory(path: str) -> tuple[list[str], int]:
    """The first entries of a directory by name, folders with a `/`, and how many there are."""
    try:
        directory = open_directory(path)
        try:
            with os.scandir(directory) as entries:
                names = sorted(entry.name + "/" if entry.is_dir() else entry.name for entry in entries)
        finally:
            os.close(directory)
    except OSError as error:
        raise _unreadable(path, error) from error
    return [os.fsencode(name).decode("utf-8", "replace") for name in names[:MAX_ENTRIES]], len(names)


def is_missing(path: str) -> bool:
    """Whether nothing at all is at this path."""
    return not os.path.lexists(path)


def check_unchanged(change: FileChange) -> None:
    """Raises StaleError unless the file still has the text, BOM and encoding of `before` (is missing, for None)."""
    compare(change, None if is_missing(change.path) else read_file(change.path))


def compare(change: FileChange, current: Snapshot | None) -> None:
    """Raises StaleError unless `current` has the text, BOM and encoding that the change was made from."""
    before = change.before
    if current is None or before is None:
        if current is not before:
            raise StaleError(change.path, current)
    elif (current.text, current.has_bom, current.encoding) != (before.text, before.has_bom, before.encoding):
        raise StaleError(change.path, current)


def writable_mode(path: str) -> int:
    """The file's permission bits. Raises ToolError `readOnly` when they (or whoever we are) forbid writing."""
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if not mode & 0o222 or not os.access(path, os.W_OK):
        raise read_only(path)
    return mode


def content_at(directory: int, name: str, path: str) -> bytes | None:
    """The bytes of the file of that name in a directory, called `path` in what is said of it; None when there is none.

    Raises ToolError as `read_file`.
    """

    def look() -> os.stat_result:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)

    try:
        look()
    except FileNotFoundError:
        return None
    return _content(path, lambda flags: os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory), look)


def check_kernel(path: str) -> None:
    """Raises ToolError `notRegular` for what looks like a file and is none."""
    if path.startswith(_KERNEL_FOLDERS):
        raise ToolError(
            "notRegular",
            f"{path} is made up by the system and no file. Use bash, or ask the user whether it is needed.",
        )


def _check_readable(path: str, facts: os.stat_result) -> None:
    check_kernel(path)
    if stat.S_ISDIR(facts.st_mode):
        raise ToolError("isDirectory", f"{path} is a directory. Name a file in it; read lists it.")
    if stat.S_ISLNK(facts.st_mode):
        raise _unreadable(path, OSError(errno.ELOOP, ""))
    if not stat.S_ISREG(facts.st_mode):
        kind = _KINDS.get(stat.S_IFMT(facts.st_mode), "no regular file")
        raise ToolError("notRegular", f"{path} is {kind}. Only regular files can be read and edited; use bash.")
    if facts.st_size > MAX_FILE_BYTES:
        raise _too_large(path, facts.st_size)


def read_only(path: str) -> ToolError:
    """The refusal to write to this file."""
    return ToolError(
        "readOnly", f"{path} is read-only, so it was left as it is. Ask the user before changing its mode."
    )


def _unreadable(path: str, error: OSError) -> ToolError:
    if error.errno == errno.ELOOP:
        return ToolError("notReadable", f"{path} leads through a symbolic link by now. Read it again.")
    return ToolError("notReadable", f"{path} cannot be read ({error.strerror}). Ask the user about it.")


def _too_large(path: str, size: int) -> ToolError:
    return ToolError(
        "tooLarge",
        f"{path} is a file of at least {size:,} bytes; the limit is {MAX_FILE_BYTES:,}. Look at parts of it with bash "
        "(head, tail, sed -n, grep).",
        data={"bytes": size},
    )
