"""What is searched for: words, beginnings of words and phrases, all of which must be there. Pure."""

import re
from dataclasses import dataclass

from tinsmith.domain.errors import SchemaError
from tinsmith.store.words import LONGEST_WORD, WORD, fold, forms, is_unspaced, pairs

MOST_TERMS = 16
"""Words that count of a query."""
_PART = re.compile(r'"(?P<phrase>[^"]*)"?|(?P<plain>[^"]+)')
_PLAIN = re.compile(rf"(?P<word>{WORD.pattern})(?P<star>\*?)")


@dataclass(frozen=True, slots=True)
class Term:
    """A word as the index knows it, or, when `is_prefix`, the beginning of one."""

    text: str
    is_prefix: bool = False

    def fits(self, word: str) -> bool:
        """Whether a word of a text is meant."""
        return word.startswith(self.text) if self.is_prefix else word == self.text


@dataclass(frozen=True, slots=True)
class Query:
    """All `terms` must be in a text, and each of `phrases`, as `flat` writes texts."""

    terms: tuple[Term, ...]
    phrases: tuple[str, ...] = ()


def parse_query(text: str) -> Query:
    """`"two words" begin* last`: the last word stands for all that begin with it, unless something follows it.

    Raises SchemaError when there is no word in it.
    """
    terms: dict[Term, None] = {}
    phrases: list[str] = []
    for part in _PART.finditer(text):
        if part["plain"] is None:
            words = [fold(word) for word in WORD.findall(part["phrase"])]
            phrases += [_edged(words)] if words else []
            terms.update((term, None) for word in words for term in _terms(word, is_prefix=False))
            continue
        for found in _PLAIN.finditer(part["plain"]):
            word = fold(found["word"])
            is_last = part.end() == len(text) and found.end() == len(part["plain"]) and len(word) > 1
            terms.update((term, None) for term in _terms(word, is_prefix=bool(found["star"]) or is_last))
    if not terms:
        raise SchemaError("emptyQuery", "There is no word in this query. Name at least one.", data={"path": "query"})
    return Query(tuple(terms)[:MOST_TERMS], tuple(phrases))


def flat(text: str) -> str:
    """The words of a text in their order, between single spaces, as phrases are looked for in it."""
    return f" {' '.join(fold(word) for word in WORD.findall(text))} "


def _terms(word: str, *, is_prefix: bool) -> tuple[Term, ...]:
    if not is_unspaced(word):
        return (Term(word[:LONGEST_WORD], is_prefix),)
    found = pairs(word)
    return tuple(Term(each, is_prefix or len(each) == 1) for each in found)


def _edged(words: list[str]) -> str:
    """The phrase in `flat` form; where it begins or ends in a script without spaces, so may a longer run."""
    before = "" if is_unspaced(words[0][0]) else " "
    after = "" if is_unspaced(words[-1][-1]) else " "
    return f"{before}{' '.join(words)}{after}"


def is_meant(word: str, terms: tuple[Term, ...]) -> bool:
    """Whether a word of a text is one of those that were searched for."""
    return any(term.fits(form) for form in forms(word) for term in terms)
