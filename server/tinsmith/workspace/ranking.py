"""Which of many findings are shown, and in which order. Pure.

A file is worth the more, the better its best line is: one that defines what was found, one that has it as a whole
word, any other. Then program text goes before tests, these before prose, prose before what tools wrote; then files
named like what was sought; then by path.
"""

import itertools
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from tinsmith.workspace.pattern import Matcher
from tinsmith.workspace.regex import Regex
from tinsmith.workspace.search import matching_lines, ready

_TEST = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__|testdata|fixtures)/|(?:^|/)(?:test_[^/]*|conftest\.py)$"
    r"|[._-](?:test|spec)s?\.[^/.]+$",
    re.IGNORECASE,
)
_PROSE = re.compile(r"\.(?:md|rst|txt|adoc|html?)$|(?:^|/)(?:docs?|changelog|license)(?:[/.]|$)", re.IGNORECASE)
_WRITTEN_BY_TOOLS = re.compile(
    r"\.(?:lock|min\.js|min\.css|map|svg|csv|log|snap|ipynb)$|[-.]lock\.\w+$|(?:^|/)(?:vendor|third_party|dist|generated)/",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]{3,}")


class Candidate(NamedTuple):
    """A file with matching lines: its rank (less is better), and the numbers of some of them, the best first."""

    path: str
    rank: int
    numbers: tuple[int, ...]


def closest(paths: Iterable[str], pattern: str, most: int) -> list[str]:
    """The paths that are worth a closer look, by what they are called; all when there are at most `most`."""
    found = list(paths)
    return found if len(found) <= most else sorted(found, key=lambda path: by_name(path, pattern))[:most]


def candidate(path: str, content: bytes, matcher: Matcher, most: int) -> Candidate | None:
    """The file, with at most `most` line numbers (from 1); None when nothing in it matches."""
    content = ready(content, matcher)
    ends = [end for _, end in itertools.islice(matching_lines(content, matcher), most)]
    if not ends:
        return None
    defining = _ends(matcher.definition, content, most)
    rank = 0 if defining else 1 if matcher.word and matcher.word.search(content) else 2
    numbers = _numbers(content, ends)
    best = dict.fromkeys((*_numbers(content, defining), *numbers))
    return Candidate(path, rank, tuple(itertools.islice(best, most)))


def in_order(candidates: Iterable[Candidate], pattern: str) -> list[Candidate]:
    """The best first."""
    return sorted(candidates, key=lambda each: (each.rank, *by_name(each.path, pattern)))


def shares(candidates: Sequence[Candidate], most: int) -> list[tuple[Candidate, tuple[int, ...]]]:
    """Which line numbers to show, in the order of the lines: every file gives one before any gives two."""
    shown = candidates[:most]
    taken = [0] * len(shown)
    left = most
    while left and any(taken[at] < len(each.numbers) for at, each in enumerate(shown)):
        for at, each in enumerate(shown):
            if left and taken[at] < len(each.numbers):
                taken[at] += 1
                left -= 1
    return [(each, tuple(sorted(each.numbers[:count]))) for each, count in zip(shown, taken, strict=True)]


def by_name(path: str, pattern: str) -> tuple[int, bool, str]:
    """The rank of a path alone, less is better: what kind of file it is, and whether it is named like the pattern."""
    words = _WORD.findall(pattern.lower())
    name = path.rpartition("/")[2].lower()
    return _kind(path), not any(word in name for word in words), path


@lru_cache(65_536)
def _kind(path: str) -> int:
    if _WRITTEN_BY_TOOLS.search(path):
        return 3
    if _TEST.search(path):
        return 1
    return 2 if _PROSE.search(path) else 0


def _ends(regex: Regex | None, content: bytes, most: int) -> list[int]:
    return [match.end() for match in itertools.islice(regex.finditer(content), most)] if regex else []


def _numbers(content: bytes, offsets: Sequence[int]) -> list[int]:
    """The lines (from 1) that ascending offsets are in."""
    numbers: list[int] = []
    line, at = 1, 0
    for offset in offsets:
        line += content.count(b"\n", at, offset)
        at = offset
        numbers.append(line)
    return numbers
