"""code_outline: what one file defines, and where."""

from collections.abc import Sequence

from tinsmith.domain.change import Snapshot
from tinsmith.domain.policy import Access, ToolSubject
from tinsmith.domain.symbol import Symbol
from tinsmith.domain.tool import CallScope, Location, ToolResult
from tinsmith.tools.arguments import OutlineArguments
from tinsmith.tools.ports import EDITOR_WAIT, RESULT_CHARACTERS, ToolPorts
from tinsmith.workspace.languages import language_of
from tinsmith.workspace.symbols import Method, Outline, find_symbols, outline
from tinsmith.workspace.text import lines_of

_LISTED_CHARACTERS = RESULT_CHARACTERS - 1_000
_NOTES: dict[Method, str] = {
    "editor": "",
    "grammar": "",
    "headings": "",
    "lines": "note: found by the look of the lines, so some may be missing and their ends are not known\n",
    "none": "note: this kind of file has no outline; read it or search in it\n",
}


async def preview(ports: ToolPorts, arguments: OutlineArguments, scope: CallScope) -> Access:
    """Where the call looks."""
    place = await ports.locate(arguments.path, scope)
    return Access(
        action="look",
        title=f"Outline {place.shown}",
        subject=ToolSubject("code_outline", {"path": place.shown}),
        target=place.shown,
        is_outside=place.is_outside,
        is_secret=place.is_secret,
        paths=(place.path,),
    )


async def run(ports: ToolPorts, arguments: OutlineArguments, scope: CallScope) -> ToolResult:
    """The symbols of the buffer or the file; none of its lines count as shown."""
    place = await ports.locate(arguments.path, scope)
    snapshot = await ports.snapshots.read(place.path, place.given)
    found = await _by_editor(ports, snapshot, scope)
    if found is None:
        found = await ports.snapshots.off_loop(find_symbols, place.path, snapshot.text)
    listing, left = _listed(found.symbols)
    if left or found.is_cut:
        more = f"{left:,}{' or more' if found.is_cut else ''}"
        listing += f"[{more} symbols left out; find them with code_symbols or read the file]\n"
    head = (
        f"path: {place.shown}\nlines: {len(lines_of(snapshot.text))}\nsource: {snapshot.source}\n"
        f"symbols: {len(found.symbols)}\n{_NOTES[found.method]}"
    )
    return ToolResult(ports.redact(head + listing), locations=(Location(place.path),))


async def _by_editor(ports: ToolPorts, snapshot: Snapshot, scope: CallScope) -> Outline | None:
    """What a language server says of exactly this text; headings are all that is asked of Markdown, and ours."""
    if snapshot.version is None or not ports.symbols.has_symbols or language_of(snapshot.path) == "markdown":
        return None
    with scope.cancel.scope():
        told = await ports.symbols.outline(snapshot.path, snapshot.version, EDITOR_WAIT)
    return outline(told, "editor") if told else None


def _listed(symbols: Sequence[Symbol]) -> tuple[str, int]:
    """One line a symbol, indented below what it stands in; and how many did not fit."""
    rows: list[str] = []
    size = 0
    around: list[str] = []
    for number, symbol in enumerate(symbols):
        while around and around[-1] != symbol.container:
            around.pop()
        is_below = bool(around) or not symbol.container
        name = symbol.name if is_below else f"{symbol.container}.{symbol.name}"
        lines = f"{symbol.start_line}-{symbol.end_line}" if symbol.end_line > symbol.start_line else symbol.start_line
        row = f"{'  ' * len(around)}{symbol.kind} {name} :{lines}\n"
        size += len(row)
        if size > _LISTED_CHARACTERS:
            return "".join(rows), len(symbols) - number
        rows.append(row)
        around.append(symbol.name)
    return "".join(rows), 0
