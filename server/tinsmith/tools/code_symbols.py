"""code_symbols: where something of that name is defined."""

import os

from tinsmith.domain.policy import Access, ToolSubject
from tinsmith.domain.symbol import PlacedSymbol
from tinsmith.domain.tool import CallScope, Location, ToolResult
from tinsmith.tools.arguments import SymbolsArguments
from tinsmith.tools.ports import EDITOR_WAIT, RESULT_CHARACTERS, ToolPorts
from tinsmith.workspace.listing import Listings
from tinsmith.workspace.paths import printable
from tinsmith.workspace.sources import Sources
from tinsmith.workspace.symbol_search import Found, name_of, search_symbols

_MOST_HITS = 100
_LISTED_CHARACTERS = RESULT_CHARACTERS - 1_000
_LOCATIONS = 20


async def preview(_ports: ToolPorts, arguments: SymbolsArguments, _scope: CallScope) -> Access:
    """What the call looks for."""
    return Access(
        action="look",
        title=f"Find the symbol {arguments.query}",
        subject=ToolSubject("code_symbols", {"query": arguments.query, "kind": arguments.kind or ""}),
        target=arguments.query,
    )


async def run(ports: ToolPorts, arguments: SymbolsArguments, scope: CallScope) -> ToolResult:
    """Definitions in the workspace, best first; what was left out is counted."""
    buffers = ports.buffers()
    told: tuple[PlacedSymbol, ...] = ()
    if ports.symbols.has_symbols:
        with scope.cancel.scope():
            told = await ports.symbols.named(name_of(arguments.query), EDITOR_WAIT)
    found = await ports.snapshots.off_loop(_search, ports.listings, arguments, scope, buffers, told)
    rows: list[str] = []
    for hit in found.hits[:_MOST_HITS]:
        row = _row(hit)
        if sum(map(len, rows)) + len(row) > _LISTED_CHARACTERS:
            break
        rows.append(row)
    content = "".join(rows) or f"No symbol of that {'kind and ' if arguments.kind else ''}name. Search the text.\n"
    return ToolResult(
        ports.redact(content + _notes(found, len(rows))),
        locations=tuple(
            Location(os.path.join(scope.root, path), symbol.start_line, symbol.end_line)
            for path, symbol in found.hits[:_LOCATIONS]
        ),
    )


def _search(
    listings: Listings,
    arguments: SymbolsArguments,
    scope: CallScope,
    buffers: dict[str, str],
    told: tuple[PlacedSymbol, ...],
) -> Found:
    root = os.path.realpath(scope.root)
    listing = listings.look(root, root, scope.cancel.check)
    return search_symbols(Sources(scope.root, buffers), listing, arguments.query, arguments.kind, scope.cancel, told)


def _row(hit: PlacedSymbol) -> str:
    symbol = hit.symbol
    container = f"  in {symbol.container}" if symbol.container else ""
    return f"{symbol.kind} {symbol.name} {printable(hit.path)}:{symbol.start_line}{container}\n"


def _notes(found: Found, shown: int) -> str:
    notes = ""
    if len(found.hits) > shown:
        notes += f"[{len(found.hits) - shown:,} more; ask for a longer name, a container or a kind]\n"
    if found.left:
        looked = f"{found.files - found.left:,} of {found.files:,} files that hold the name"
        notes += f"[looked into the likeliest {looked}; ask for a longer name]\n"
    if found.by_lines:
        notes += f"[by the look of lines, some may be missing: {', '.join(found.by_lines)}]\n"
    return notes
