"""What a folder belongs to: the repository root above it, its identity, and the texts a project keeps for agents."""

import hashlib
import os

import msgspec

from tinsmith.workspace.origin import normalized_origin, without_secrets
from tinsmith.workspace.repository import find_repository, settings_of

INSTRUCTIONS_LIMIT = 16_000
"""Characters of all AGENTS.md files together that reach the prompt."""
INDEX_LIMIT = 16_000
"""Characters of the index file that reach the prompt."""


class Project(msgspec.Struct, frozen=True):
    """A project around a working directory. `root` is the nearest folder with a `.git`, else the directory itself."""

    cwd: str
    root: str
    index_text: str = ""
    instructions: tuple[tuple[str, str], ...] = ()
    """Path (relative to the root) and text of each AGENTS.md from the root down to the cwd."""
    origin: str = ""
    """Where the repository was cloned from, without passwords and tokens; empty when unknown."""
    normalized_origin: str = ""
    project_id: str = ""


def look_at_project(cwd: str, index_file: str) -> Project:
    """The project of an absolute directory, read from disk. Unreadable files count as missing."""
    root = find_root(cwd)
    instructions: list[tuple[str, str]] = []
    left = INSTRUCTIONS_LIMIT
    for folder in _folders(root, cwd):
        text = _read(os.path.join(folder, "AGENTS.md"), left)
        if text.strip():
            instructions.append((os.path.relpath(os.path.join(folder, "AGENTS.md"), root), text))
            left -= len(text)
    origin = _origin(root)
    normalized = normalized_origin(origin, root)
    return Project(
        cwd,
        root,
        _read(os.path.join(root, index_file), INDEX_LIMIT),
        tuple(instructions),
        without_secrets(origin),
        normalized,
        project_id(normalized or os.path.realpath(root)),
    )


def project_id(identity: str) -> str:
    """First 16 hex digits of SHA-256 over a normalized origin or, without one, over the root's resolved path."""
    return hashlib.sha256(os.fsencode(identity)).hexdigest()[:16]


def find_root(cwd: str) -> str:
    """The nearest folder from `cwd` upwards that holds a `.git` (folder or file), else `cwd`."""
    folder = cwd
    while True:
        if os.path.exists(os.path.join(folder, ".git")):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return cwd
        folder = parent


def _origin(root: str) -> str:
    """The first `remote.origin.url` of the repository whose root this is."""
    repository = find_repository(root)
    if repository is None or repository.root != root:
        return ""
    urls = (each.value for each in settings_of(repository) if each[:3] == ("remote", "origin", "url"))
    return next(urls, "")


def _folders(root: str, cwd: str) -> list[str]:
    """From the root down to the working directory."""
    folders = [root]
    for name in os.path.relpath(cwd, root).split(os.sep):
        if name not in {".", ""}:
            folders.append(os.path.join(folders[-1], name))
    return folders


def _read(path: str, limit: int) -> str:
    if limit <= 0 or not os.path.isfile(path):
        return ""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(limit)
    except OSError:
        return ""
