"""Symbols of a whole folder by name, best first. Blocking.

The text search says which files hold the name; of very many, those that seem to define it are parsed first, and only
as many as a budget allows.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tinsmith.domain.cancel import CancelToken
from tinsmith.domain.symbol import PlacedSymbol, Symbol
from tinsmith.workspace.languages import is_test, language_of
from tinsmith.workspace.listing import Listing
from tinsmith.workspace.paths import is_secret
from tinsmith.workspace.pattern import definition_of, matcher
from tinsmith.workspace.ranking import by_name
from tinsmith.workspace.search import find_ripgrep, holding
from tinsmith.workspace.sources import Sources
from tinsmith.workspace.symbols import find_symbols, has_symbols
from tinsmith.workspace.text import lines_of

PARSED_CHARACTERS = 400_000
"""Looked into for one search in any case; the grammars take some 80 ms for so much."""
SECONDS = 0.4
"""From the start of a search until no more is looked into; what was left is counted."""
_FEW = 200
"""Files that need no better order than their names give, since nearly always all of them are looked into."""
_CLOSE_LOOKS = 1_000
"""Files, the likeliest by their names, that are read to see whether they define something that begins like the name."""
_READ_FASTER = 3
"""Reading one file in so many takes no longer than ripgrep takes for all."""
_MOST_TOLD = 1_000
_QUALIFIED = re.compile(r"(?:(.+?)(?:::|[.#:]))?([^.:#]+)")
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])|[^\W_]+")
_LATER = {"declaration": 1, "variable": 1, "heading": 2}
"""Kinds that are seldom meant when there is another of the same name."""
_ALSO = {"function": {"function", "method", "declaration"}, "class": {"class", "struct"}}


class Found(NamedTuple):
    """Every hit, best first. Of `files` that hold the name, `left` were not looked into.

    Of the languages `by_lines` no grammar is here.
    """

    hits: tuple[PlacedSymbol, ...]
    files: int
    left: int
    by_lines: tuple[str, ...]


class _Query(NamedTuple):
    container: str
    name: str
    kinds: set[str] | None

    def rank(self, hit: PlacedSymbol) -> tuple[int, int, bool] | None:
        """Less is better; None for what is not asked for."""
        symbol = hit.symbol
        closeness = _closeness(symbol.name, self.name)
        is_asked = self.kinds is None or symbol.kind in self.kinds
        if closeness is None or not is_asked or not symbol.container.lower().endswith(self.container):
            return None
        return closeness, _LATER.get(symbol.kind, 0), is_test(hit.path)


def search_symbols(
    sources: Sources,
    listing: Listing,
    query: str,
    kind: str | None,
    cancel: CancelToken,
    told: Sequence[PlacedSymbol] = (),
) -> Found:
    """Symbols whose name holds the query, in any case; `Container.name` names the container too.

    The listing is of the folder of the sources. What an editor `told`, by absolute paths, counts before our own
    finding where its name still stands in its lines. Raises Cancelled.
    """
    wanted = _query(query, kind)
    deadline = time.monotonic() + SECONDS
    files = _likeliest_first(sources, listing, wanted.name, cancel)
    confirmed = _confirmed(sources, listing, told[:_MOST_TOLD], wanted.name.lower())
    hits = [hit for hits in confirmed.values() for hit in hits]
    by_lines: set[str] = set()
    characters = looked_into = 0
    for path in files:
        cancel.check()
        if characters > PARSED_CHARACTERS and time.monotonic() > deadline:
            break
        looked_into += 1
        text = sources.text(path, wanted.name.lower())
        if text is None:
            continue
        characters += len(text)
        outline = find_symbols(path, text)
        if outline.method == "lines":
            by_lines.add(language_of(path))
        hits += (
            PlacedSymbol(path, symbol)
            for symbol in outline.symbols
            if not any(_are_one(each.symbol, symbol) for each in confirmed.get((path, symbol.name), ()))
        )
    best = tuple(_best_first(hits, wanted))
    return Found(best, len(files), len(files) - looked_into, tuple(sorted(by_lines)))


def name_of(query: str) -> str:
    """The part of a query that is the symbol's own name."""
    return _query(query, None).name


def _query(query: str, kind: str | None) -> _Query:
    query = " ".join(query.split())
    parts = _QUALIFIED.fullmatch(query)
    container, name = ((parts[1] or "").lower(), parts[2]) if parts else ("", query)
    return _Query(container, name, _ALSO.get(kind, {kind}) if kind else None)


def _likeliest_first(sources: Sources, listing: Listing, name: str, cancel: CancelToken) -> list[str]:
    """The files that hold the name: open ones, those that seem to define it or what begins so, then by their names."""
    on_disk = [path for path in listing.files if has_symbols(path) and path not in sources.opened]
    on_disk = [path for path in on_disk if path not in listing.secret]
    ripgrep = find_ripgrep(listing.folder)
    plain = matcher(name, is_regex=False, case="ignore")
    held = sorted(holding(listing, on_disk, plain, cancel.check, ripgrep=ripgrep), key=lambda path: by_name(path, name))
    if len(held) > _FEW:
        helpful = ripgrep if len(held) > len(listing.files) // _READ_FASTER else None
        whole, begun = definition_of(name, is_whole=True), definition_of(name, is_whole=False)
        first = holding(listing, held, whole, cancel.check, ripgrep=helpful)
        second = holding(listing, held[:_CLOSE_LOOKS], begun, cancel.check, ripgrep=None)
        held.sort(key=lambda path: (path not in first, path not in second))
    return [*_opened(sources, listing, name), *held]


def _opened(sources: Sources, listing: Listing, name: str) -> list[str]:
    holders = {path for path, text in sources.opened.items() if name.lower() in text.lower()}
    known = holders.intersection((*listing.files, *sources.unsaved_files())) if holders else holders
    return sorted(path for path in known if has_symbols(path) and not is_secret(path))


def _confirmed(
    sources: Sources, listing: Listing, told: Sequence[PlacedSymbol], name: str
) -> dict[tuple[str, str], list[PlacedSymbol]]:
    """What was told of files that are searched, where the name is in the lines that were told.

    By relative path and name.
    """
    searched = {*listing.files, *sources.unsaved_files()} if told else set[str]()
    lines: dict[str, list[str]] = {}
    confirmed: dict[tuple[str, str], list[PlacedSymbol]] = {}
    for absolute, symbol in dict.fromkeys(told):
        path = os.path.relpath(os.path.realpath(absolute), listing.folder)
        if path not in lines:
            lines[path] = lines_of(sources.text(path, name) or "") if path in searched else []
        if any(symbol.name in line for line in lines[path][symbol.start_line - 1 : symbol.end_line]):
            confirmed.setdefault((path, symbol.name), []).append(PlacedSymbol(path, symbol))
    return confirmed


def _are_one(told: Symbol, own: Symbol) -> bool:
    """Whether two symbols of one name and file are the same; the lines told may be those of the name alone."""
    return told.start_line <= own.end_line and own.start_line <= told.end_line


def _best_first(hits: Iterable[PlacedSymbol], wanted: _Query) -> Iterator[PlacedSymbol]:
    ranked = [(rank, hit) for hit in hits if (rank := wanted.rank(hit)) is not None]
    ranked.sort(key=lambda each: (each[0], each[1].path, each[1].symbol.start_line))
    return (hit for _, hit in ranked)


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
