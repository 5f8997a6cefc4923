"""Symbols of a whole folder by name, best first. Blocking."""

import re
import time
from collections.abc import Iterable
from typing import NamedTuple

from tinsmith.domain.cancel import CancelToken
from tinsmith.workspace.found import Symbol
from tinsmith.workspace.languages import is_test, language_of
from tinsmith.workspace.sources import Sources
from tinsmith.workspace.symbols import SymbolFinder, find_symbols, has_symbols

SECONDS = 8.0
"""For one search; what was not looked at by then is counted."""
_QUALIFIED = re.compile(r"(?:(.+?)(?:::|[.#:]))?([^.:#]+)")
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])|[^\W_]+")
_LATER = {"declaration": 1, "variable": 1, "heading": 2}
"""Kinds that are seldom meant when there is another of the same name."""
_ALSO = {"function": {"function", "method", "declaration"}, "class": {"class", "struct"}}


class Hit(NamedTuple):
    """A symbol and the file, relative to the folder, that defines it."""

    path: str
    symbol: Symbol


class Found(NamedTuple):
    """Every hit, best first. `left` of `files` were not looked at; of languages `by_lines` no grammar is here."""

    hits: tuple[Hit, ...]
    files: int
    left: int
    by_lines: tuple[str, ...]


def search_symbols(
    sources: Sources,
    paths: Iterable[str],
    query: str,
    kind: str | None,
    *,
    cancel: CancelToken,
    find: SymbolFinder = find_symbols,
) -> Found:
    """Symbols whose name holds the query, in any case; `Container.name` names the container too. Raises Cancelled."""
    parts = _QUALIFIED.fullmatch(query.strip())
    container, name = ((parts[1] or "").lower(), parts[2]) if parts else ("", query.strip())
    kinds = _ALSO.get(kind or "", {kind})
    deadline = time.monotonic() + SECONDS
    ranked: list[tuple[tuple[int, ...], Hit]] = []
    by_lines: set[str] = set()
    files = [path for path in paths if has_symbols(path)]
    left = 0
    for number, path in enumerate(files):
        cancel.check()
        if time.monotonic() > deadline:
            left = len(files) - number
            break
        text = sources.text(path, name.lower())
        if text is None:
            continue
        outline = find(path, text)
        if outline.method == "lines":
            by_lines.add(language_of(path))
        for symbol in outline.symbols:
            closeness = _closeness(symbol.name, name)
            is_asked = kind is None or symbol.kind in kinds
            if closeness is not None and is_asked and symbol.container.lower().endswith(container):
                rank = (closeness, _LATER.get(symbol.kind, 0), is_test(path))
                ranked.append((rank, Hit(path, symbol)))
    ranked.sort(key=lambda each: (each[0], each[1].path, each[1].symbol.start_line))
    return Found(tuple(hit for _, hit in ranked), len(files), left, tuple(sorted(by_lines)))


def _closeness(name: str, query: str) -> int | None:
    """0 for the name itself, more the less of it was asked for; None when it does not hold the query."""
    lower, wanted = name.lower(), query.lower()
    if wanted not in lower:
        return None
    if lower == wanted:
        return 0 if name == query else 1
    if lower.startswith(wanted):
        return 2
    return 3 if any(word.lower().startswith(wanted) for word in _WORDS.findall(name)) else 4
