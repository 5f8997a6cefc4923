"""Text as the words that a search knows. Pure.

A word is a run of letters, digits, marks and `_`, normalised (NFKC) and without case. An identifier counts as a whole
and by its parts: `fooBar_baz` is foobar_baz, foo, bar and baz. Scripts that put no spaces between words count by pairs
of neighbouring characters, and by the last one of a run.
"""

import re
import unicodedata
from collections import Counter
from functools import lru_cache

LONGEST_WORD = 40
"""Characters that count of a word: longer ones are digests and encoded bytes, told apart by their beginnings."""
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0fff\u1000-\u109f\u1780-\u17ff"
"""Marks that stand inside words of many scripts; `\\w` alone would cut there."""
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
)
"""Thai, Lao, Burmese, Khmer, Kana, Han: written without spaces."""
WORD = re.compile(rf"[\w{_MARKS}]+")
_RUN = re.compile(rf"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_HAS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
_ONLY_WORDS = "".join(chr(code) if chr(code).isalnum() or code == ord("_") else " " for code in range(128))
_MEMORY = 1 << 14


def count_words(text: str) -> dict[str, int]:
    """Word → how often it stands in the text, whole identifiers and their parts alike."""
    words = text.translate(_ONLY_WORDS).split() if text.isascii() else WORD.findall(text)
    counts: dict[str, int] = {}
    for word, times in Counter(words).items():
        for each in forms(word):
            counts[each] = counts.get(each, 0) + times
    return counts


@lru_cache(_MEMORY)
def forms(word: str) -> tuple[str, ...]:
    """What one word of a text is found by, the whole of it first."""
    whole = fold(word)
    if _HAS_UNSPACED.search(whole):
        return tuple(dict.fromkeys((whole[:LONGEST_WORD], *_pieces(whole))))
    if "_" not in word and (word.islower() or word[1:].islower() or len(word) == 1):
        return (whole[:LONGEST_WORD],)
    parts = (fold(part) for part in _parts(unicodedata.normalize("NFKC", word)) if len(part) > 1)
    return tuple(dict.fromkeys((whole[:LONGEST_WORD], *(part[:LONGEST_WORD] for part in parts))))


def fold(text: str) -> str:
    """The text without differences of case and of how a character is encoded."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def is_unspaced(text: str) -> bool:
    """Whether it holds characters of a script without spaces."""
    return _HAS_UNSPACED.search(text) is not None


def pairs(text: str) -> tuple[str, ...]:
    """What must be there where `text`, folded and of such a script, stands: its pairs, or its only character."""
    found: list[str] = []
    for run in _RUN.findall(text):
        is_single = len(run) == 1 or not is_unspaced(run)
        found += (run[:LONGEST_WORD],) if is_single else (run[at : at + 2] for at in range(len(run) - 1))
    return tuple(dict.fromkeys(found))


def _pieces(whole: str) -> list[str]:
    """The pairs and the last character of each unspaced run; what stands between them as it is."""
    found: list[str] = []
    for run in _RUN.findall(whole):
        if is_unspaced(run):
            found += [*(run[at : at + 2] for at in range(len(run) - 1)), run[-1]]
        else:
            found += [part[:LONGEST_WORD] for part in run.split("_") if part]
    return found


def _parts(word: str) -> list[str]:
    """`parseHTTPHeader_v2` → parse, HTTP, Header, v2: a part begins at a capital, or before the last of several."""
    found: list[str] = []
    for piece in word.split("_"):
        begin = 0
        for at in range(1, len(piece)):
            is_rise = piece[at].isupper() and not piece[at - 1].isupper()
            is_last_capital = piece[at].islower() and piece[at - 1].isupper() and at - 1 > begin
            if is_rise or is_last_capital:
                cut = at if is_rise else at - 1
                found.append(piece[begin:cut])
                begin = cut
        found.append(piece[begin:])
    return found
