"""The place of a text that shows what was found. Pure."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice

import msgspec

from tinsmith.store.query import Term, is_meant
from tinsmith.store.words import WORD

LENGTH = 160
"""Characters of a snippet, about."""
_LEAD = 40
"""Characters before the first hit."""
_PLACES = 40
"""Places that are compared at most."""
_SPACE = re.compile(r"\s+")


class SnippetPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of a text; `is_hit` when it is a word that was searched for."""

    text: str
    is_hit: bool = False


def snippet_of(text: str, terms: tuple[Term, ...]) -> tuple[SnippetPart, ...]:
    """About LENGTH characters around the place where most of the words stand together, on one line."""
    for begin in _places(text, terms):
        parts = _cut(text, begin, terms)
        if any(part.is_hit for part in parts):
            return parts
    exact = next((found.start() for found in WORD.finditer(text) if is_meant(found[0], terms)), 0)
    return _cut(text, exact, terms)


def _places(text: str, terms: tuple[Term, ...]) -> Sequence[int]:
    """Where something like a word may stand, the best first: that which is followed by most others."""
    found = [(match.start(), match[0].lower()) for match in islice(_pattern(terms).finditer(text), _PLACES)]

    def richness(at: int) -> int:
        begin = found[at][0]
        return len({word for place, word in found[at:] if place < begin + LENGTH - _LEAD})

    best = sorted(range(len(found)), key=lambda at: (-richness(at), at))
    return [found[at][0] for at in best]


def _cut(text: str, hit: int, terms: tuple[Term, ...]) -> tuple[SnippetPart, ...]:
    begin = max(hit - _LEAD, 0)
    if begin:
        space = _SPACE.search(text, begin, hit)
        begin = space.end() if space else begin
    end = min(begin + LENGTH, len(text))
    if end < len(text):
        end = max(text.rfind(" ", hit, end), end - _LEAD)
    parts = [SnippetPart("…")] if begin else []
    parts += _marked(text[begin:end], terms)
    parts += [SnippetPart("…")] if end < len(text) else []
    return _joined(parts)


def _marked(text: str, terms: tuple[Term, ...]) -> Iterator[SnippetPart]:
    done = 0
    for found in WORD.finditer(text):
        if is_meant(found[0], terms):
            yield SnippetPart(_SPACE.sub(" ", text[done : found.start()]))
            yield SnippetPart(found[0], is_hit=True)
            done = found.end()
    yield SnippetPart(_SPACE.sub(" ", text[done:]))


def _joined(parts: Sequence[SnippetPart]) -> tuple[SnippetPart, ...]:
    """Without empty pieces, and neighbours of one kind as one."""
    joined: list[SnippetPart] = []
    for part in parts:
        if joined and not part.is_hit and not joined[-1].is_hit:
            joined[-1] = SnippetPart(joined[-1].text + part.text)
        elif part.text:
            joined.append(part)
    return tuple(joined)


@lru_cache(64)
def _pattern(terms: tuple[Term, ...]) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(term.text) for term in terms), re.IGNORECASE)
