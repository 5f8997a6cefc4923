"""What of a workspace a sandboxed command must not change or read: git's machinery, secret files. Looks at the disk.

Git runs what `.git/config` and `.git/hooks` name, outside the sandbox, whenever a person types `git`.
"""

import os
import re
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tinsmith.workspace.paths import is_secret, is_within

_SKIPPED = frozenset({"node_modules", "site-packages", "__pycache__", ".tox", ".nox", ".venv", "venv", ".git"})
"""Folders of dependencies: certificates in them are public, and programs need them."""
_TEMPLATE = re.compile(r".*\.(example|sample|template|dist|defaults|md|pub)", re.IGNORECASE)
_SECRET_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".kube"})
_MOST_FOLDERS = 30_000
_MOST_SECRETS = 200
_MACHINERY = ("config", "config.worktree", "hooks", "commondir")
"""In a git directory: what names programs that git runs, and where that is looked up."""
_MISSABLE = ("hooks", "commondir")
_NAMED_PATH = re.compile(r'^\s*(?:hookspath|path)\s*=\s*"?([^"#;\n]+)', re.IGNORECASE | re.MULTILINE)
_EDITOR_FILES = (".vscode", ".idea", ".zed", ".exrc", ".nvimrc", ".nvim.lua", ".envrc")
"""At the root: what editors and shells run by themselves."""
_HOME_SECRETS = """
.ssh .gnupg .aws .azure .kube .docker .netrc .git-credentials .config/git/credentials .npmrc .yarnrc.yml .pypirc .pgpass
.my.cnf .cargo/credentials .cargo/credentials.toml .config/gh .config/glab-cli .config/hub .config/gcloud .config/op
.config/rclone .password-store .local/share/keyrings .local/share/kwalletd .mozilla .thunderbird .config/google-chrome
.config/chromium .config/BraveSoftware .gem/credentials .m2/settings.xml .m2/settings-security.xml .terraform.d
.terraformrc .vault-token .composer/auth.json .bash_history .zsh_history .python_history .node_repl_history
.psql_history .Xauthority .ICEauthority
"""


class Protected(NamedTuple):
    """Existing paths, resolved. `absent` do not exist and must not be made; `is_whole` unless there were too many.

    `pinned` folders may not be renamed, `frozen` ones not be changed, `hidden` ones not be read.
    """

    pinned: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    is_whole: bool = True


@dataclass(slots=True)
class _Folder:
    changed: int
    below: list[str] = field(default_factory=list[str])
    has_git: bool = False
    secrets: list[str] = field(default_factory=list[str])


class ProtectedPaths:
    """Finds them again before each command; a folder is only listed when it changed. For any thread."""

    def __init__(self, home: str, private: tuple[str, ...]) -> None:
        self._home = home
        self._private = private
        self._folders: dict[str, _Folder] = {}
        self._looking = threading.Lock()

    def find(self, root: str) -> Protected:
        """For the workspace `root`, a resolved path; with the secrets of the home and our own private folders."""
        home = os.path.realpath(self._home)
        with self._looking:
            seen, is_whole = self._walk(root)
        secrets = [secret for folder in seen.values() for secret in folder.secrets]
        found = _Collected(root)
        for path, folder in seen.items():
            if folder.has_git:
                found.repository(path)
        found.frozen.update(path for name in _EDITOR_FILES if os.path.exists(path := os.path.join(root, name)))
        outer = [os.path.join(self._home, name) for name in _HOME_SECRETS.split()] + list(self._private)
        inner = [os.path.realpath(path) for path in sorted(secrets, key=_urgency)[:_MOST_SECRETS]]
        hidden = {path for path in inner if is_within(path, root) or is_within(path, home)}
        hidden.update(os.path.realpath(path) for path in outer)
        return Protected(
            pinned=tuple(sorted(found.pinned)),
            frozen=tuple(sorted(found.frozen)),
            hidden=tuple(sorted(path for path in hidden if os.path.exists(path) and not is_within(root, path))),
            absent=tuple(sorted(found.absent)),
            is_whole=is_whole and len(secrets) <= _MOST_SECRETS,
        )

    def _walk(self, root: str) -> tuple[dict[str, _Folder], bool]:
        """Every folder that matters, and whether these are all."""
        seen: dict[str, _Folder] = {}
        waiting = [root]
        while waiting and len(seen) < _MOST_FOLDERS:
            path = waiting.pop()
            if folder := self._look(path):
                seen[path] = folder
                waiting.extend(folder.below)
        self._folders = {**self._folders, **seen} if len(self._folders) < 2 * _MOST_FOLDERS else seen
        return seen, not waiting

    def _look(self, path: str) -> _Folder | None:
        try:
            changed = os.stat(path).st_ctime_ns
            known = self._folders.get(path)
            if known is not None and known.changed == changed:
                return known
            folder = _Folder(changed)
            with os.scandir(path) as entries:
                for entry in entries:
                    _take(entry, folder)
        except OSError:  # gone, or not ours to list: then not the command's either
            return None
        return folder


def _take(entry: "os.DirEntry[str]", folder: _Folder) -> None:
    if entry.name == ".git":
        folder.has_git = True
    elif entry.is_dir(follow_symlinks=False):
        if entry.name in _SECRET_FOLDERS:
            folder.secrets.append(entry.path)
        elif entry.name not in _SKIPPED:
            folder.below.append(entry.path)
    elif is_secret(entry.name) and not _TEMPLATE.fullmatch(entry.name):
        folder.secrets.append(entry.path)


def _urgency(path: str) -> tuple[bool, str]:
    return not os.path.basename(path).startswith((".env", "id_")), path


class _Collected:
    """The git machinery of one workspace."""

    def __init__(self, root: str) -> None:
        self.pinned: set[str] = set()
        self.frozen: set[str] = set()
        self.absent: set[str] = set()
        self._root = root

    def repository(self, folder: str) -> None:
        """The repository whose `.git` is in this folder: a directory, or a file that names one."""
        place = os.path.join(folder, ".git")
        self._pin_above(place)
        if os.path.isfile(place):
            self.frozen.add(os.path.realpath(place))
            target = _first_line(place).removeprefix("gitdir:").strip()
            if target:
                self._git_directory(os.path.realpath(os.path.join(folder, target)), folder)
            return
        place = os.path.realpath(place)
        self._git_directory(place, folder)
        for module in _directories_with("HEAD", os.path.join(place, "modules")):
            self._git_directory(module, folder)
        for worktree in _directories_with("HEAD", os.path.join(place, "worktrees")):
            self._git_directory(worktree, folder)

    def _git_directory(self, place: str, worktree: str) -> None:
        if not is_within(place, self._root) or not os.path.isdir(place):
            return
        self.pinned.add(place)
        self._pin_above(place)
        present = {name for name in _MACHINERY if os.path.exists(os.path.join(place, name))}
        self.frozen.update(os.path.join(place, name) for name in present)
        self.absent.update(os.path.join(place, name) for name in _MISSABLE if name not in present)
        for named in _NAMED_PATH.findall(_text(os.path.join(place, "config"))):
            for base in (worktree, place):
                path = os.path.realpath(os.path.join(base, os.path.expanduser(named.strip())))
                if is_within(path, self._root) and path != self._root and os.path.exists(path):
                    self.frozen.add(path)
                    self._pin_above(path)

    def _pin_above(self, path: str) -> None:
        """Whoever can rename a parent can put something else in its place."""
        parent = os.path.dirname(path)
        while parent != self._root and is_within(parent, self._root):
            self.pinned.add(parent)
            parent = os.path.dirname(parent)


def _directories_with(name: str, folder: str) -> Iterator[str]:
    """The folders below, four levels deep, that hold a file of this name."""
    levels = [folder]
    for _ in range(4):
        below: list[str] = []
        for path in levels:
            try:
                below += [entry.path for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
            except OSError:
                continue
        yield from (path for path in below if os.path.isfile(os.path.join(path, name)))
        levels = [path for path in below if not os.path.isfile(os.path.join(path, name))]


def _first_line(path: str) -> str:
    return _text(path).partition("\n")[0]


def _text(path: str) -> str:
    """Of a regular file; a pipe of that name must not hold anybody up."""
    try:
        with open(
            os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), encoding="utf-8", errors="replace"
        ) as file:
            return file.read(100_000) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else ""
    except OSError:
        return ""


def set_aside(absent: tuple[str, ...]) -> tuple[str, ...]:
    """Rename what a command made although it must not be there; the new names."""
    moved: list[str] = []
    for path in absent:
        if os.path.lexists(path):
            target = f"{path}.refused-{os.urandom(3).hex()}"
            os.rename(path, target)
            moved.append(target)
    return tuple(moved)
