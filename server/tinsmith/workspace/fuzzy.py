"""Which paths a few letters mean, best first. Pure.

Every word of the query must be in the path, whole or as letters in order. A word is worth most as the whole name, then
as its beginning, behind a boundary, anywhere in it, anywhere in the path, and least as scattered letters. Between
equals the shorter path is the better one.
"""

import heapq
from collections.abc import Iterator, Sequence

from tinsmith.workspace.listing import Listing
from tinsmith.workspace.portable import literal
from tinsmith.workspace.regex import compiled

_BOUNDARIES = "/_-. "
_WHOLE, _BEGINS, _BOUNDED, _INSIDE, _ABOVE, _SCATTERED = range(6)


def best_paths(query: str, listing: Listing, most: int) -> tuple[list[str], int]:
    """The best paths, and how many are meant at all.

    Scattered letters are only looked for while whole words find fewer than `most`.
    """
    words = query.casefold().split()
    folded = listing.folded
    meant = [at for at, path in enumerate(folded) if words[0] in path]
    meant = [at for at in meant if all(word in folded[at] for word in words[1:])]
    if len(meant) < most:
        meant = sorted({*meant, *_scattered(words, listing.folded_lines)})
    best = heapq.nsmallest(most, ((_cost(words, folded[at]), len(folded[at]), folded[at], at) for at in meant))
    return [listing.files[at] for *_, at in best], len(meant)


def _scattered(words: Sequence[str], lines: bytes) -> set[int]:
    """The numbers (from 0) of the lines that have the letters of every word in order."""
    return set[int].intersection(*(set(_lines_with(".*".join(map(literal, word)), lines)) for word in words))


def _lines_with(expression: str, text: bytes) -> Iterator[int]:
    line = at = 0
    for match in compiled(f"(?m)^.*{expression}.*$".encode(), within_lines=True).finditer(text):
        line += text.count(b"\n", at, match.start())
        at = match.start()
        yield line


def _cost(words: Sequence[str], path: str) -> int:
    name = path.rpartition("/")[2]
    return sum(_cost_of_word(word, name, path) for word in words)


def _cost_of_word(word: str, name: str, path: str) -> int:
    if word == name or word == name.partition(".")[0] or path.endswith("/" + word):
        return _WHOLE
    if name.startswith(word):
        return _BEGINS
    if word in name:
        return _BOUNDED if any(boundary + word in name for boundary in _BOUNDARIES) else _INSIDE
    if word in path:
        return _ABOVE
    return _SCATTERED + _gaps(word, path)


def _gaps(word: str, path: str) -> int:
    """How often the letters of the word, looked for from the end of the path, do not follow each other."""
    gaps, at = -1, -1
    for letter in reversed(word):
        before, at = at, path.rfind(letter, 0, at if at >= 0 else None)
        gaps += at != before - 1
    return gaps
