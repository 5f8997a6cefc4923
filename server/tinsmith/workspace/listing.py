"""The files below a folder that searches look at, kept warm: folders that did not change are not read again.

Ignore rules alone leave files out, hidden or not; links are never followed, and neither links nor devices are listed.
Blocking.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from tinsmith.workspace.descriptors import open_directory
from tinsmith.workspace.ignore import (
    BOOKKEEPING,
    RULES_FILE,
    Entry,
    Rules,
    Signature,
    rules_above,
    rules_inside,
    signature,
)
from tinsmith.workspace.paths import is_secret

MAX_FILES = 200_000
"""Of one listing; what comes after them is left out."""
_KEPT = 8
"""Listings that are remembered."""


@dataclass(frozen=True, eq=False)
class Listing:
    """Paths below `folder` (absolute, resolved), relative to it: the files in a fixed order, and what was passed over.

    Folders among those passed over end with a slash. `is_whole` is false when there are more than MAX_FILES.
    """

    folder: str
    files: tuple[str, ...]
    passed_over: tuple[str, ...] = ()
    is_whole: bool = True

    @cached_property
    def secret(self) -> frozenset[str]:
        """The files whose names say that secrets are inside."""
        return frozenset(path for path in self.files if is_secret(path))

    @cached_property
    def folded(self) -> tuple[str, ...]:
        """The files' paths without regard to case, in the same order."""
        return tuple(path.casefold() for path in self.files)

    @cached_property
    def folded_lines(self) -> bytes:
        """The same as lines of one text."""
        return "\n".join([path.replace("\n", " ") for path in self.folded]).encode("utf-8", "replace")


class _Folder(NamedTuple):
    """What was found in one folder, as paths from the listing's start, and the state and rules that it was found in."""

    state: Signature | None
    rules: Rules
    names: frozenset[str]
    files: tuple[str, ...]
    folders: tuple[str, ...]
    passed_over: tuple[str, ...]


class _Tree(NamedTuple):
    listing: Listing
    folders: dict[str, _Folder]


class Listings:
    """The listings asked for last, each brought up to date when it is asked for again."""

    def __init__(self) -> None:
        self._trees: OrderedDict[tuple[str, str], _Tree] = OrderedDict()
        self._lock = threading.Lock()

    def look(self, folder: str, top: str, check: Callable[[], None] = lambda: None) -> Listing:
        """What is below the folder now; the same object as last time when nothing changed.

        Both paths are absolute and resolved; `top` is the workspace root. `check` is called often; it stops by raising.
        """
        with self._lock:
            known = self._trees.pop((folder, top), None)
            tree = _looked(folder, top, known, check)
            self._trees[folder, top] = tree
            while len(self._trees) > _KEPT:
                self._trees.popitem(last=False)
            return tree.listing


def _looked(start: str, top: str, known: _Tree | None, check: Callable[[], None]) -> _Tree:
    old = known.folders if known else {}
    folders: dict[str, _Folder] = {}
    waiting = [("", rules_above(start, top))]
    count, has_changed = 0, False
    while waiting and count < MAX_FILES:
        check()
        path, above = waiting.pop()
        found = _folder(start, path, above, old.get(path))
        has_changed = has_changed or found is not old.get(path)
        folders[path] = found
        count += len(found.files)
        if found.folders:
            waiting += [(inner, found.rules) for inner in reversed(found.folders)]
    if known and not has_changed and len(folders) == len(old):
        return known
    files = [file for found in folders.values() for file in found.files]
    passed_over = tuple(name for found in folders.values() for name in found.passed_over)
    return _Tree(Listing(start, tuple(files[:MAX_FILES]), passed_over, not waiting and count <= MAX_FILES), folders)


def _folder(start: str, path: str, above: Rules, known: _Folder | None) -> _Folder:
    """What is in the folder now: the same object while its state and its rules are the same."""
    absolute = f"{start}/{path}" if path else start
    state = signature(absolute, follow=not path)
    if known and known.state == state:
        rules = rules_inside(absolute, above, known.names) if known.names else above
        if rules == known.rules:
            return known
    entries = list(_entries(absolute))
    names = frozenset(entry.name for entry in entries if entry.name in {".git", RULES_FILE})
    rules = rules_inside(absolute, above, names)
    ignored = rules.ignored(os.path.join(absolute, ""), entries)
    prefix = path and path + "/"
    files: list[str] = []
    folders: list[str] = []
    passed_over: list[str] = []
    for name, is_folder in sorted(entries):
        if name in ignored or name in BOOKKEEPING:
            passed_over.append(f"{prefix}{name}/" if is_folder else prefix + name)
        else:
            (folders if is_folder else files).append(prefix + name)
    return _Folder(state, rules, names, tuple(files), tuple(folders), tuple(passed_over))


def _entries(folder: str) -> Iterator[Entry]:
    """The files and folders in a folder; none when it cannot be read or is a link by now."""
    with suppress(OSError):
        directory = open_directory(folder)
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        yield Entry(entry.name, is_folder=True)
                    elif entry.is_file(follow_symlinks=False):
                        yield Entry(entry.name, is_folder=False)
        finally:
            os.close(directory)
