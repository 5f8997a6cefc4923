"""What a client's language servers tell of symbols, in our words. Pure."""

import re
from collections.abc import Iterable

from tinsmith.adapters.lsp import wire
from tinsmith.domain.symbol import Kind, PlacedSymbol, Symbol, without_owner
from tinsmith.workspace.paths import path_of_uri

_KINDS: dict[int, Kind] = {
    **dict.fromkeys((1, 2, 3, 4), "module"),
    **dict.fromkeys((6, 9, 25), "method"),
    **dict.fromkeys((7, 8, 15, 16, 17, 18, 20, 24), "property"),
    **dict.fromkeys((14, 22), "constant"),
    5: "class",
    10: "enum",
    11: "interface",
    12: "function",
    13: "variable",
    19: "type",
    23: "struct",
}
"""LSP's SymbolKind."""
_TYPE_PARAMETER = 26
_LOCAL = frozenset({"variable", "constant", "property"})
_RUNNING = frozenset({"function", "method"})
_RECEIVED = re.compile(r"\(\*?(\w+)[^)]*\)\.(.+)")


def outline_of(told: Iterable[wire.Symbol]) -> tuple[Symbol, ...]:
    """What a document defines, in the order of its text, without what functions define for themselves."""
    placed = [each for each in map(placed_symbol, told) if each is not None]
    kept: list[Symbol] = []
    running = 0
    for symbol in sorted((each.symbol for each in placed), key=lambda each: (each.start_line, -each.end_line)):
        if symbol.kind in _LOCAL and symbol.start_line <= running:
            continue
        kept.append(symbol)
        if symbol.kind in _RUNNING:
            running = max(running, symbol.end_line)
    return tuple(kept)


def placed_symbol(told: wire.Symbol) -> PlacedSymbol | None:
    """One symbol; None for what defines nothing.

    Servers write names with parameters (`boil(int)`) and owners (`(*Kettle).Boil`, `Kettle.boil`).
    """
    received = _RECEIVED.fullmatch(told.name)
    owner, name = (received[1], received[2]) if received else ("", told.name)
    name = name[:1] + name[1:].partition("(")[0].strip()
    if not received:
        owner, name = without_owner(name)
    if not name or told.kind == _TYPE_PARAMETER:
        return None
    first = max(0, told.start_line)
    kind = _KINDS.get(told.kind, "variable")
    symbol = Symbol(kind, name, owner or told.container_name, first + 1, max(first, told.end_line) + 1)
    return PlacedSymbol(path_of_uri(told.uri) or told.uri, symbol)
