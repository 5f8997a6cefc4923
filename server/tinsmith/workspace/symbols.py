"""The symbols of a text: by a grammar where one is installed, else by the look of its lines. Pure.

Lines are those of `workspace.text`: 1-based, ended by a line feed only.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from tinsmith.domain.symbol import Symbol
from tinsmith.workspace.definitions import LINES, find_definitions
from tinsmith.workspace.grammars import GRAMMARS, parse_symbols
from tinsmith.workspace.headings import find_headings
from tinsmith.workspace.languages import language_of

MAX_PARSED_CHARACTERS = 500_000
"""Of a text; a longer one is only looked at line by line, since a grammar takes tenths of a second for so much."""
MAX_SYMBOLS = 5_000
"""Of one text."""

Method = Literal["editor", "grammar", "headings", "lines", "none"]


class Outline(NamedTuple):
    """Symbols in the order of the text, and how they were found. `is_cut` when there are more."""

    symbols: tuple[Symbol, ...]
    method: Method
    is_cut: bool = False


def find_symbols(path: str, text: str) -> Outline:
    """What a text defines. Of a language that nothing here knows, nothing, with the method `none`.

    By lines, a symbol ends where it starts, since nothing tells its end.
    """
    language = language_of(path)
    if language == "markdown":
        return outline(find_headings(text), "headings")
    if len(text) <= MAX_PARSED_CHARACTERS:
        parsed = parse_symbols(language, text)
        if parsed is not None:
            return outline(parsed, "grammar")
    by_lines = find_definitions(language, text)
    return Outline((), "none") if by_lines is None else outline(by_lines, "lines")


def has_symbols(path: str) -> bool:
    """Whether there is a way to find symbols in files of this name."""
    language = language_of(path)
    return language == "markdown" or language in LINES or language in GRAMMARS


def outline(symbols: Sequence[Symbol], method: Method) -> Outline:
    """As many of the symbols as one text may have."""
    return Outline(tuple(symbols[:MAX_SYMBOLS]), method, len(symbols) > MAX_SYMBOLS)
