"""The files of a folder that count: what git would track, or without git all but what tools make."""

import os
from collections.abc import Iterator

from tinsmith.domain.cancel import CancelToken
from tinsmith.domain.errors import ToolError
from tinsmith.workspace.git import run_git
from tinsmith.workspace.repository import find_repository

MAX_FILES = 200_000
_MAX_LISTING_BYTES = 64_000_000
_MAX_NESTING = 4
"""Of repositories in repositories."""
_NEVER = frozenset(
    {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache", ".ruff_cache"}
    | {".pytest_cache", ".gradle", ".next", "target", "dist", "build", "vendor", ".cache", ".idea"}
)
"""Folders that hold what was fetched or made, left out where no ignore rules say more."""


def list_files(root: str, cancel: CancelToken) -> list[str]:
    """Paths relative to `root`, with `/`, sorted; at most MAX_FILES. Links are not followed. Blocking.

    Some may be gone from disk. Raises Cancelled.
    """
    paths: list[str] = []
    for path in _files(root, cancel, _MAX_NESTING):
        paths.append(path)
        if len(paths) == MAX_FILES:
            break
    return sorted(set(paths))


def _files(root: str, cancel: CancelToken, depth: int) -> Iterator[str]:
    listed = _listed_by_git(root, cancel)
    if listed is None:
        yield from _walk(root, cancel, depth)
        return
    for path in listed:
        nested = os.path.join(root, path.rstrip("/"))
        if path.endswith("/") or (path and os.path.isdir(nested) and not os.path.islink(nested)):
            yield from _nested(nested, path.rstrip("/"), cancel, depth)
        elif path:
            yield path


def _listed_by_git(root: str, cancel: CancelToken) -> list[str] | None:
    """Paths, nested repositories as folders; None when there is no git or it cannot tell."""
    repository = find_repository(root)
    if repository is None or not repository.is_own:
        return None
    arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]
    try:
        done = run_git(repository, arguments, cancel=cancel, limit=_MAX_LISTING_BYTES, folder=root)
    except ToolError:  # no git here, or it does not come back
        return None
    return None if done.code else os.fsdecode(done.output).split("\0")


def _walk(root: str, cancel: CancelToken, depth: int) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        cancel.check()
        below = "" if folder == root else os.path.relpath(folder, root) + "/"
        repositories = {name for name in folders if os.path.lexists(os.path.join(folder, name, ".git"))}
        folders[:] = sorted(set(folders) - _NEVER - repositories)
        yield from (below + name for name in names)
        for name in sorted(repositories):
            yield from _nested(os.path.join(folder, name), below + name, cancel, depth)


def _nested(folder: str, prefix: str, cancel: CancelToken, depth: int) -> Iterator[str]:
    """The files of a repository inside; its own rules hold for them."""
    if depth and os.path.lexists(os.path.join(folder, ".git")):
        yield from (f"{prefix}/{path}" for path in _files(folder, cancel, depth - 1))
