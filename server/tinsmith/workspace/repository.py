"""Where a git repository keeps its things, and what its configuration says. Read from disk, git is never run."""

import os
import re
from typing import NamedTuple

from tinsmith.workspace.paths import is_within
from tinsmith.workspace.regular import read_regular

MAX_CONFIG_BYTES = 1_000_000
_SMALL_FILE_BYTES = 4_096
_SECTION = re.compile(r'\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_KEY = re.compile(r"([A-Za-z][\w-]*)\s*")
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b"}


class Repository(NamedTuple):
    """A repository around a folder: paths are absolute, `git_dir` and `common_dir` with symlinks resolved.

    `common_dir` is another than `git_dir` in a linked worktree. `is_own` is false when the `.git` of `root` leads to
    a git directory elsewhere that does not point back, as it does in worktrees and submodules.
    """

    root: str
    git_dir: str
    common_dir: str
    is_own: bool


class Setting(NamedTuple):
    """One line of a configuration: section and key in lower case, the subsection as written."""

    section: str
    subsection: str
    key: str
    value: str


def find_repository(folder: str) -> Repository | None:
    """The repository of the nearest folder upwards that holds a `.git`, None without one or when it leads nowhere."""
    while True:
        marker = os.path.join(folder, ".git")
        if os.path.lexists(marker):
            return _repository(folder, marker)
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def settings_of(repository: Repository) -> tuple[Setting, ...]:
    """What the repository's own files configure, a worktree's settings last. Includes are not followed."""
    return read_settings(os.path.join(repository.common_dir, "config")) + read_settings(
        os.path.join(repository.git_dir, "config.worktree")
    )


def read_settings(path: str) -> tuple[Setting, ...]:
    """The settings of a configuration file; none when it cannot be read."""
    return parse_settings(_text(path, MAX_CONFIG_BYTES))


def parse_settings(text: str) -> tuple[Setting, ...]:
    """The settings of a configuration in git's syntax (git-config(1)), up to the first line that is none. Pure."""
    settings: list[Setting] = []
    section = subsection = ""
    for line in _logical_lines(text.removeprefix("\ufeff")):
        rest = line.strip()
        if found := _SECTION.match(rest):
            section, dot, old_style = found[1].lower().partition(".")
            quoted = re.sub(r"\\(.)", r"\1", found[2]) if found[2] is not None else ""
            subsection = old_style if dot else quoted
            rest = rest[found.end() :].lstrip()
        if not rest or rest[0] in "#;":
            continue
        key = _KEY.match(rest)
        if key is None or not section:
            break
        settings.append(Setting(section, subsection, key[1].lower(), _value(rest[key.end() :])))
    return tuple(settings)


def _logical_lines(text: str) -> list[str]:
    """The lines, those that end with an odd number of backslashes joined with the next."""
    lines: list[str] = []
    open_line = ""
    for line in text.replace("\r\n", "\n").split("\n"):
        joined = open_line + line
        if (len(joined) - len(joined.rstrip("\\"))) % 2:
            open_line = joined[:-1]
        else:
            lines.append(joined)
            open_line = ""
    return lines


def _value(rest: str) -> str:
    """What stands behind a key: `= value`, with quotes, escapes and comments; a key alone is true."""
    if not rest.startswith("="):
        return "true"
    value, is_quoted, kept = "", False, 0
    characters = iter(rest[1:].lstrip())
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            value += _ESCAPES.get(escaped, escaped)
        elif character == '"':
            is_quoted = not is_quoted
        elif character in "#;" and not is_quoted:
            break
        else:
            value += character
            if character.isspace() and not is_quoted:
                continue
        kept = len(value)
    return value[:kept]


def _repository(root: str, marker: str) -> Repository | None:
    git_dir = os.path.realpath(marker)
    if os.path.isfile(git_dir):
        line = _text(git_dir, _SMALL_FILE_BYTES).strip()
        if not line.startswith("gitdir:"):
            return None
        git_dir = os.path.realpath(os.path.join(root, line.removeprefix("gitdir:").strip()))
    if not os.path.isfile(os.path.join(git_dir, "HEAD")):
        return None
    common = _text(os.path.join(git_dir, "commondir"), _SMALL_FILE_BYTES).strip()
    common_dir = os.path.realpath(os.path.join(git_dir, common)) if common else git_dir
    return Repository(root, git_dir, common_dir, _is_own(root, git_dir, common_dir))


def _is_own(root: str, git_dir: str, common_dir: str) -> bool:
    real_root = os.path.realpath(root)
    if is_within(git_dir, real_root) and is_within(common_dir, real_root):
        return True
    if common_dir != git_dir:
        back = _text(os.path.join(git_dir, "gitdir"), _SMALL_FILE_BYTES).strip()
        is_listed = os.path.dirname(git_dir) == os.path.join(common_dir, "worktrees")
        return is_listed and _leads_to(os.path.join(git_dir, back), os.path.join(real_root, ".git"))
    worktree = next(
        (
            each.value
            for each in read_settings(os.path.join(git_dir, "config"))
            if (each.section, each.key) == ("core", "worktree")
        ),
        "",
    )
    return bool(worktree) and _leads_to(os.path.join(git_dir, worktree), real_root)


def _leads_to(path: str, target: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(target)


def _text(path: str, limit: int) -> str:
    return (read_regular(path, limit) or b"").decode("utf-8", "replace")
