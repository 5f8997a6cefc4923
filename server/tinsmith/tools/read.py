"""read: the numbered lines of a text, from the open buffer before the disk; or the entries of a directory."""

import os
from typing import NamedTuple

from tinsmith.domain.change import Snapshot
from tinsmith.domain.errors import ToolError
from tinsmith.domain.policy import Access, ToolSubject
from tinsmith.domain.tool import CallScope, Location, ToolResult
from tinsmith.tools.arguments import ReadArguments
from tinsmith.tools.guard import note_shown
from tinsmith.tools.ports import RESULT_CHARACTERS, ToolPorts
from tinsmith.workspace.files import list_directory
from tinsmith.workspace.paths import Place
from tinsmith.workspace.text import ImageFileError, lines_of, numbered

_PAGE_CHARACTERS = RESULT_CHARACTERS - 1_500
"""What is left for lines beside the header and the notes."""


async def preview(ports: ToolPorts, arguments: ReadArguments, scope: CallScope) -> Access:
    """Where the call looks."""
    place = await ports.locate(arguments.path, scope)
    return Access(
        action="look",
        title=f"Read {place.shown}",
        subject=ToolSubject("read", {"path": place.shown}),
        target=place.shown,
        is_outside=place.is_outside,
        is_secret=place.is_secret,
        paths=(place.path,),
    )


async def run(ports: ToolPorts, arguments: ReadArguments, scope: CallScope) -> ToolResult:
    """A page of the text; its lines count as shown from now on."""
    place = await ports.locate(arguments.path, scope)
    if await ports.snapshots.off_loop(os.path.isdir, place.path):
        return await _directory(ports, place)
    try:
        snapshot = await ports.snapshots.read(place.path, place.given)
    except ImageFileError as found:
        return _image(place, found)
    total, first, wanted, page = await ports.snapshots.off_loop(_look, ports, arguments, snapshot.text)
    note_shown(ports, scope.conversation_id, place, (snapshot.hash, snapshot.text), [(first, page.last)])
    return ToolResult(
        _header(place, snapshot, total, first, page.last) + page.text + _rest(snapshot, total, page.last, wanted),
        locations=(Location(place.path, first, page.last),),
    )


class _Page(NamedTuple):
    text: str
    last: int


async def _directory(ports: ToolPorts, place: Place) -> ToolResult:
    names, total = await ports.snapshots.off_loop(list_directory, place.path)
    listing = ""
    kept = 0
    for name in names:
        if len(listing) + len(name) > _PAGE_CHARACTERS:
            break
        listing += name + "\n"
        kept += 1
    rest = f"[{total - kept:,} more entries; list them with bash]\n" if kept < total else ""
    return ToolResult(
        f"path: {place.shown}{os.sep}\nentries: {total}\n{listing}{rest}", locations=(Location(place.path),)
    )


def _image(place: Place, found: ImageFileError) -> ToolResult:
    """What can be said of an image in words."""
    return ToolResult(
        f"path: {place.shown}\nbinary: {found.image}, {found.size:,} bytes\n[read shows text only; to see the image, "
        "ask the user to attach it to a message, or use a program that understands it in bash]\n",
        locations=(Location(place.path),),
    )


def _look(ports: ToolPorts, arguments: ReadArguments, text: str) -> tuple[int, int, int, _Page]:
    """How many lines there are, the first and last one that is wanted, and what of those fits."""
    lines = lines_of(text)
    first, wanted = _wanted(arguments, len(lines))
    end, size = first - 1, 0
    while end < wanted and size <= _PAGE_CHARACTERS:
        size += len(lines[end])
        end += 1
    ((_, fitting),) = ports.redact_lines(text, [(first, end)])
    return len(lines), first, wanted, _page(fitting, first, end)


def _wanted(arguments: ReadArguments, total: int) -> tuple[int, int]:
    first = 1 if arguments.start_line is None else arguments.start_line
    last = total if arguments.end_line is None else arguments.end_line
    if first < 1 or (arguments.end_line is not None and last < first):
        raise ToolError(
            "badRange", f"Lines {first}-{last} are no range: the file has lines 1-{total}, first before last."
        )
    if first > max(total, 1):
        raise ToolError("badRange", f"There is no line {first}: the file has {total} lines.")
    return first, min(last, total)


def _page(lines: list[str], first: int, wanted: int) -> _Page:
    """As many whole lines, of those from `first` on, as fit; a line that alone is too long is cut and says so."""
    size = 0
    for number, line in enumerate(lines, first):
        size += len(line) + 8
        if size > _PAGE_CHARACTERS and number > first:
            return _Page(numbered(lines[: number - first], first), number - 1)
        if size > _PAGE_CHARACTERS:
            note = (
                f"[line cut: {_PAGE_CHARACTERS:,} of its {len(line):,} characters shown; for more use bash: "
                f"sed -n {number}p FILE | cut -c{_PAGE_CHARACTERS + 1}-]\n"
            )
            return _Page(numbered([line[:_PAGE_CHARACTERS]], number) + note, number)
    return _Page(numbered(lines, first), wanted)


def _header(place: Place, snapshot: Snapshot, total: int, first: int, last: int) -> str:
    showing = f"{first}-{last}" if total else "none, the file is empty"
    note = "" if snapshot.is_editable else "note: not UTF-8; shown with replacement marks, cannot be edited\n"
    return (
        f"path: {place.shown}\nlines: {total}\nhash: {snapshot.hash}\nsource: {snapshot.source}\n"
        f"showing: {showing}\n{note}"
    )


def _rest(snapshot: Snapshot, total: int, last: int, wanted: int) -> str:
    if last >= wanted:
        return ""
    return f"[{total:,} lines, {len(snapshot.text):,} characters in all; go on with start_line={last + 1}]\n"
