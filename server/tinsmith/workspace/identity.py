"""What a folder belongs to: the repository root above it, and the texts that a project keeps for agents."""

import os

import msgspec

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
    return Project(cwd, root, _read(os.path.join(root, index_file), INDEX_LIMIT), tuple(instructions))


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
