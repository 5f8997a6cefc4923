"""The text of files wherever it lives: an open buffer before the disk, for reads and for changes."""

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from tinsmith.domain.change import ApplyResult, FileChange, Refreshed, Snapshot
from tinsmith.domain.errors import ToolError
from tinsmith.domain.ports import Documents
from tinsmith.workspace.files import StaleError, check_unchanged, read_file
from tinsmith.workspace.paths import has_file
from tinsmith.workspace.writing import write_file

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")
_TOUCHED = ("applied", "unverified", "hashMismatch")


class Snapshots:
    """Reads and changes files through the editor where it has them open, on disk where it has not."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="workspace")
        self._writing = threading.Lock()

    async def read(self, path: str, opened_as: str = "") -> Snapshot:
        """The snapshot of a file by its resolved path; `opened_as` is what an editor may call it.

        Raises ToolError as `read_file`.
        """
        opened = self._open(path, opened_as)
        if opened is None and not has_file(path):
            raise _closed(path)
        return opened or await self.off_loop(read_file, path)

    async def apply(self, label: str, turn_id: str, changes: Sequence[FileChange]) -> tuple[ApplyResult, ...]:
        """Make all changes or, when a text is another than its `before`, none. One result per change, in order.

        A deletion is made on disk; a document that is open keeps the text, for its user to close or to save.
        Raises StaleError with what is there now, ToolError as `write_file` or with the status that an editor refused
        with (nothing is changed then), TransportError as Documents.apply.
        """
        open_changes = [change for change in changes if self._is_open(change)]
        disk_changes = [change for change in changes if change not in open_changes]
        if len(changes) > 1:  # a write compares by itself, but then the others may have been made
            for change in disk_changes:
                await self.off_loop(check_unchanged, change)
        results: dict[str, ApplyResult] = {}
        if open_changes:
            applied = await self._documents.apply(label, turn_id, open_changes)
            for result in applied:
                if result.status == "stale":
                    raise StaleError(result.path, self._documents.find(result.path))
                if result.status not in _TOUCHED:
                    raise _refused(result)
            results = {result.path: result for result in applied}
        for change in disk_changes:
            await self.off_loop(self._write, change)
            results[change.path] = ApplyResult(change.path, "applied", change.after_hash)
        return tuple(results[change.path] for change in changes)

    async def refresh(self) -> Refreshed:
        """After something may have written to disk: have the editor read again what is open and clean."""
        paths = self._documents.open_paths()
        if not paths:
            return Refreshed()
        return await self._documents.refresh(await self.off_loop(_hashes, paths))

    async def off_loop(
        self, function: Callable[_Given, _Result], *args: _Given.args, **kwargs: _Given.kwargs
    ) -> _Result:
        """Run a function that waits for the disk in a thread of this room."""
        return await asyncio.wrap_future(self._threads.submit(function, *args, **kwargs))

    def _open(self, path: str, opened_as: str) -> Snapshot | None:
        return self._documents.find(path) or (self._documents.find(opened_as) if opened_as else None)

    def _is_open(self, change: FileChange) -> bool:
        """Whether the change goes to an open document. Raises StaleError when that has another text than `before`.

        Offsets count in `before.text`: equal hashes are not enough when the line ends differ.
        """
        current = self._documents.find(change.path)
        if current is None and not has_file(change.path):
            raise _closed(change.path)
        if current is None:
            return False
        if change.is_deletion:
            if change.before is None or current.hash != change.before.hash:
                raise StaleError(change.path, current)
            return False
        if change.before is None or current.text != change.before.text:
            raise StaleError(change.path, current)
        return True

    def _write(self, change: FileChange) -> None:
        with self._writing:
            write_file(change)


def _refused(result: ApplyResult) -> ToolError:
    return ToolError(
        result.status,
        f"The editor did not change {result.path} ({result.reason or result.status}). Read it or ask the user.",
    )


def _closed(path: str) -> ToolError:
    return ToolError("notOpen", f"{path} was closed in the editor and has no file. Ask the user where the text is now.")


def _hashes(paths: Sequence[str]) -> dict[str, str]:
    """The hash of each file that can be read."""
    hashes: dict[str, str] = {}
    for path in filter(has_file, paths):
        try:
            hashes[path] = read_file(os.path.realpath(path)).hash
        except ToolError:  # gone, or no text: then the buffer is all there is
            continue
    return hashes
