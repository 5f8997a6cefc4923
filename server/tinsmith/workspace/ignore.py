"""Git's ignore rules: which entries of a folder git would not look at. Blocking; remembers files that stay the same.

Within a repository: `.gitignore` files from its root down, `.git/info/exclude`, the user's own file. Each
repository stands alone, a nested one or a work tree too. Outside any repository the `.gitignore` files from the
workspace root down count, as they will once `git init` has run there. Whether a file is tracked plays no part.
"""

import os
import stat
import time
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from tinsmith.workspace.gitconfig import ignore_settings
from tinsmith.workspace.regex import Regex, RegexError, compiled
from tinsmith.workspace.regular import read_regular
from tinsmith.workspace.wildmatch import expression

RULES_FILE = ".gitignore"
BOOKKEEPING = frozenset({".git", ".hg", ".svn", ".jj"})
"""Folders of version control systems, which no search looks into."""
_FRESH_NANOSECONDS = 50_000_000
"""What changed this short a time ago may change again without another time stamp."""
_MATCHER_BYTES = 64_000_000
_MOST_RULES_BYTES = 1_000_000
"""Of one file; a larger one, which git takes up to a hundred times as large, has no rules for us."""
_MOST_PATH_BYTES = 10_000

Signature = tuple[int, int, int] | object


class Entry(NamedTuple):
    """A name in a folder."""

    name: str
    is_folder: bool


class _Rule(NamedTuple):
    expression: bytes
    is_negated: bool
    is_for_folders: bool


class RuleList:
    """The rules of one file, for paths below `base` (absolute, ends with a slash)."""

    def __init__(self, base: str, rules: Sequence[_Rule]) -> None:
        self._base = base
        self._rules = rules
        self._matchers: dict[bytes, Regex | None] = {}
        self._any = _matcher(b"(?m)^(?:" + b"|".join(rule.expression for rule in rules) + b")$", within_lines=True)

    def suspects(self, folder: str, names: Sequence[str]) -> Iterable[str]:
        """The names in a folder that some rule may speak of: one search for all of them, since that is seldom any."""
        start = folder[len(self._base) :]
        text = os.fsencode("\n".join([start + name for name in names]))
        if self._any is None or text.count(b"\n") >= len(names):
            return names
        cut = len(os.fsencode(start))
        return [os.fsdecode(found.group()[cut:]) for found in self._any.finditer(text)]

    def verdict(self, folder: str, entry: Entry) -> bool | None:
        """Whether the last rule that speaks of the entry says to ignore it; None when none does."""
        path = os.fsencode(folder[len(self._base) :] + entry.name)
        for rule in reversed(self._rules):
            if (entry.is_folder or not rule.is_for_folders) and self._matches(rule.expression, path):
                return not rule.is_negated
        return None

    def _matches(self, rule: bytes, path: bytes) -> bool:
        if rule not in self._matchers:
            self._matchers[rule] = _matcher(b"(?s)" + rule)
        matcher = self._matchers[rule]
        return matcher is not None and matcher.fullmatch(path) is not None


class Rules(NamedTuple):
    """Every rule that holds in one folder, the strongest list first."""

    lists: tuple[RuleList, ...] = ()
    folds_case: bool = False

    def ignored(self, folder: str, entries: Sequence[Entry]) -> set[str]:
        """The names among a folder's entries that are ignored; `folder` is absolute and ends with a slash."""
        names = [entry.name for entry in entries]
        suspects = {name for rules in self.lists for name in rules.suspects(folder, names)}
        if not suspects:
            return suspects
        return {entry.name for entry in entries if entry.name in suspects and self._is_ignored(folder, entry)}

    def _is_ignored(self, folder: str, entry: Entry) -> bool:
        verdicts = (rules.verdict(folder, entry) for rules in self.lists)
        return next((verdict for verdict in verdicts if verdict is not None), False)


def rules_above(folder: str, top: str) -> Rules:
    """The rules that reach a folder from above: those of its repository, or from `top` down where there is none.

    Both are resolved absolute paths. What the folder's own `.gitignore` says is not in them.
    """
    rules = Rules()
    for each in _chain(folder, top)[:-1]:
        rules = rules_inside(each, rules)
    return rules


def rules_inside(folder: str, above: Rules, names: Container[str] = (".git", RULES_FILE)) -> Rules:
    """The rules for a folder's entries, from those above it. `names` are its entries, where they are known already."""
    rules = above
    if ".git" in names and (git_folder := _git_folder(folder)):
        rules = _repository_rules(folder, git_folder)
    if RULES_FILE in names:
        path = os.path.join(folder, RULES_FILE)
        own = _rule_list(path, folder, signature(path, follow=False), rules.folds_case)
        rules = Rules((own, *rules.lists), rules.folds_case) if own else rules
    return rules


def is_ignored(path: str, top: str) -> bool:
    """Whether a file, which need not exist, is ignored, or a folder above it within its repository (or `top`) is."""
    chain = _chain(os.path.dirname(path), top)
    rules = Rules()
    for folder, inner in zip(chain, [*chain[1:], path], strict=True):
        rules = rules_inside(folder, rules)
        entry = Entry(os.path.basename(inner), is_folder=inner != path)
        if entry.name in BOOKKEEPING or rules.ignored(os.path.join(folder, ""), (entry,)):
            return True
    return False


def signature(path: str, *, follow: bool = True) -> Signature | None:
    """What two looks at the same state of a file or folder have in common, and no others. None when it is missing."""
    try:
        facts = os.stat(path, follow_symlinks=follow)
    except (OSError, ValueError):
        return None
    if stat.S_ISLNK(facts.st_mode):
        return None
    if time.time_ns() - facts.st_mtime_ns < _FRESH_NANOSECONDS:
        return object()
    return (facts.st_mtime_ns, facts.st_size, facts.st_ino)


def _chain(folder: str, top: str) -> list[str]:
    """The folders from the repository's root, else from `top`, down to this one."""
    chain = [folder]
    while _git_folder(chain[-1]) is None:
        parent = os.path.dirname(chain[-1])
        if parent == chain[-1]:
            return chain[chain.index(top) :: -1] if top in chain else [folder]
        chain.append(parent)
    return chain[::-1]


def _git_folder(folder: str) -> str | None:
    """Where the repository that is rooted in this folder keeps what its work trees share; None when none is.

    Source: gitrepository-layout(5): `.git` is a folder, or a file that names one; `commondir` leads on.
    """
    path = os.path.join(folder, ".git")
    if not os.path.isdir(path):
        line = _first_line(path)
        if not line.startswith("gitdir:"):
            return None
        path = os.path.join(folder, line.removeprefix("gitdir:").strip())
    if not os.path.exists(os.path.join(path, "HEAD")):
        return None
    common = _first_line(os.path.join(path, "commondir"))
    return os.path.normpath(os.path.join(path, common)) if common else path


def _first_line(path: str) -> str:
    """The line without spaces around it, empty when there is none."""
    return os.fsdecode((read_regular(path, _MOST_PATH_BYTES) or b"").split(b"\n", 1)[0]).strip()


def _repository_rules(folder: str, git_folder: str) -> Rules:
    """The rules that hold in a whole repository."""
    settings = ignore_settings(git_folder, folder)
    files = (os.path.join(git_folder, "info", "exclude"), settings.excludes_file)
    found = (_rule_list(path, folder, signature(path), settings.folds_case) for path in files)
    return Rules(tuple(rules for rules in found if rules), settings.folds_case)


@lru_cache(1024)
def _rule_list(path: str, folder: str, state: Signature | None, folds_case: bool) -> RuleList | None:  # noqa: FBT001
    """The rules of a file in this state, None when there are none. The same object while the file stays the same."""
    if state is None:
        return None
    content = read_regular(path, _MOST_RULES_BYTES + 1) or b""
    rules = list(_rules(content, folds_case)) if len(content) <= _MOST_RULES_BYTES else []
    return RuleList(os.path.join(folder, ""), rules) if rules else None


def _rules(content: bytes, folds_case: bool) -> Iterable[_Rule]:  # noqa: FBT001  a fact of the repository
    for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        if line.startswith(b"#"):
            continue
        pattern = _without_trailing_spaces(line.removesuffix(b"\r").partition(b"\0")[0])
        is_negated = pattern.startswith(b"!")
        pattern = pattern.removeprefix(b"!") if is_negated else pattern
        is_for_folders = pattern.endswith(b"/")
        pattern = pattern.removesuffix(b"/") if is_for_folders else pattern
        matched = expression(pattern.removeprefix(b"/"), folds_case=folds_case) if pattern else None
        if matched is not None:
            anywhere = b"" if b"/" in pattern else b"(?:.*/)?"
            yield _Rule(anywhere + matched, is_negated, is_for_folders)


def _without_trailing_spaces(line: bytes) -> bytes:
    """The line without spaces at its end, but for one that a backslash protects."""
    bare = line.rstrip(b" ")
    backslashes = len(bare) - len(bare.rstrip(b"\\"))
    return line[: len(bare) + 1] if backslashes % 2 and len(bare) < len(line) else bare


def _matcher(pattern: bytes, *, within_lines: bool = False) -> Regex | None:
    """The expression over bytes, None for one that is too large to be meant."""
    try:
        return compiled(pattern, is_utf8=False, within_lines=within_lines, max_bytes=_MATCHER_BYTES)
    except RegexError:
        return None
