"""Guarded atomic writes. Blocking; called off the loop.

A write goes to a temporary file beside the target and takes its place by a rename, so a hard link to the old file keeps
the old text. Writers of one folder wait for each other, in every process.
"""

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Generator

from tinsmith.domain.change import FileChange
from tinsmith.domain.errors import ToolError
from tinsmith.workspace.descriptors import exchange, open_directory, rename_to_free
from tinsmith.workspace.files import StaleError, check_kernel, compare, content_at, read_only
from tinsmith.workspace.text import decode, encode

_LOCK_SECONDS = 5.0


def write_file(change: FileChange) -> None:
    """Put the change on disk, or raise and leave the file as it was. A deletion takes the file away.

    Text, BOM and encoding are compared with `before` under the folder's lock and, where the system can exchange two
    names at once, again with what the new file then took the place of. Mode and owner are kept; missing folders of a
    new file are made. Raises StaleError, or ToolError `readOnly`, `notWritable`.
    """
    path, before = change.path, change.before
    folder, name = os.path.split(path)
    try:
        check_kernel(path)
        content = encode(
            change.after_text, before is not None and before.has_bom, before.encoding if before else "utf-8"
        )
        with _locked(folder, is_made=before is None) as directory:
            _check(change, directory, name)
            like = None if before is None else _writable(directory, name, path)
            if change.is_deletion:
                _take_away(change, directory, name)
            else:
                with _beside(directory, content, like) as temporary:
                    _put_in_place(directory, temporary, name, change)
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


def _put_in_place(directory: int, temporary: str, name: str, change: FileChange) -> None:
    """Let the temporary file take the place of exactly the text that the change was made from."""
    if change.before is None:
        try:
            rename_to_free(directory, temporary, name)
        except FileExistsError as error:
            content = content_at(directory, name, change.path)
            raise StaleError(change.path, None if content is None else decode(change.path, content)) from error
        return
    if not exchange(directory, temporary, name):
        _check(change, directory, name)
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        return
    try:
        _check(change, directory, temporary)
    except ToolError:
        try:
            exchange(directory, temporary, name)
        except FileNotFoundError:
            rename_to_free(directory, temporary, name)
        raise


def _take_away(change: FileChange, directory: int, name: str) -> None:
    """Delete exactly the text that the change was made from: it is looked at once more under a name of its own."""
    temporary = _temporary_name()
    rename_to_free(directory, name, temporary)
    try:
        _check(change, directory, temporary)
    except ToolError:
        rename_to_free(directory, temporary, name)
        raise
    os.unlink(temporary, dir_fd=directory)


def _check(change: FileChange, directory: int, name: str) -> None:
    """Raises StaleError unless the file of that name is what the change was made from, ToolError when it is none."""
    content, before = content_at(directory, name, change.path), change.before
    if content is None or before is None or content != encode(before.text, before.has_bom, before.encoding):
        compare(change, None if content is None else decode(change.path, content))


def _writable(directory: int, name: str, path: str) -> os.stat_result:
    facts = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if not stat.S_IMODE(facts.st_mode) & 0o222 or not os.access(name, os.W_OK, dir_fd=directory):
        raise read_only(path)
    return facts


@contextlib.contextmanager
def _locked(folder: str, *, is_made: bool) -> Generator[int]:
    """Hold the folder's advisory lock (flock); a file system without locks gives none."""
    directory = open_directory(folder, is_made=is_made)
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
def _beside(directory: int, content: bytes, like: os.stat_result | None) -> Generator[str]:
    """A synced file with this content in the directory, with the mode and owner of another; removed unless renamed."""
    temporary = _temporary_name()
    descriptor = os.open(
        temporary,
        os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC,
        0o666 if like is None else 0o600,
        dir_fd=directory,
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if like is not None:
                _keep_owner(descriptor, like)
                os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
            os.fsync(descriptor)
        yield temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)


def _temporary_name() -> str:
    return f".{os.urandom(6).hex()}.tinsmith"


def _keep_owner(descriptor: int, wanted: os.stat_result) -> None:
    actual = os.fstat(descriptor)
    if (wanted.st_uid, wanted.st_gid) != (actual.st_uid, actual.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, wanted.st_uid, wanted.st_gid)
