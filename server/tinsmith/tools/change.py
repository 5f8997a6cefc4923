"""A prepared change of one file: described for the gate, made, and answered for."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from tinsmith.domain.change import ApplyResult, ChangedFile, Snapshot
from tinsmith.domain.diagnostic import DocumentDiagnostics
from tinsmith.domain.errors import Cancelled, ToolError, TransportError
from tinsmith.domain.policy import Access, EditSubject, FileDelta
from tinsmith.domain.tool import CallScope, Location, ToolResult
from tinsmith.tools.findings import counted, newly_found, told
from tinsmith.tools.guard import note_shown
from tinsmith.tools.ports import ToolPorts
from tinsmith.workspace.diff import Diff, LineRange, unified
from tinsmith.workspace.edits import Edited
from tinsmith.workspace.paths import Place
from tinsmith.workspace.text import line_count

DIAGNOSTICS_WAIT = 1.5
"""Seconds in which the editor's language servers may find something in a changed document."""
_NEWS_CHARACTERS = 3_000


class Prepared(NamedTuple):
    """A change that may be made: where, from what (None for a new file), and what becomes of it."""

    place: Place
    before: Snapshot | None
    edited: Edited
    diff: Diff


class Answer(NamedTuple):
    """What the model is told after the header of a change, and which lines of the new text that shows."""

    text: str
    shown: tuple[LineRange, ...]


async def prepare(ports: ToolPorts, place: Place, before: Snapshot | None, edited: Edited) -> Prepared:
    """The change with its diff, which large texts take a while for."""
    diff = await ports.snapshots.off_loop(_diff, edited, place.shown)
    return Prepared(place, before, edited, diff)


def access(ports: ToolPorts, prepared: Prepared) -> Access:
    """What the gate needs to know of the change."""
    place, before, _, diff = prepared
    file = _changed_file(prepared)
    delta = FileDelta(file.path, file.added, file.removed, file.op, file.before_hash, file.after_hash)
    return Access(
        action="change",
        title=f"{'Edit' if before else 'Create'} {place.shown} (+{file.added} -{file.removed})",
        subject=EditSubject((delta,), ports.redact(diff.text)),
        target=place.shown,
        is_outside=place.is_outside,
        is_secret=place.is_secret,
        paths=(place.path,),
    )


async def make(ports: ToolPorts, prepared: Prepared, scope: CallScope, answer: Answer) -> ToolResult:
    """Make the change, carry what was shown over to the new text, and answer with its header and `answer`.

    Raises StaleError when the text changed since it was prepared, ToolError when it cannot be
    changed; nothing is changed then.
    """
    place, before, edited, _ = prepared
    known = await _diagnosed(ports, before, {}, 0.0)
    try:
        result = await _applied(ports, prepared, scope)
    except TransportError as error:
        return ToolResult(
            f"The editor did not answer, so whether {place.shown} changed is unknown. Read it again. {error.message}",
            ok=False,
            mutation_state="unknown",
            error_code="editorSilent",
        )
    if result.status == "hashMismatch":
        return ToolResult(
            f"The editor changed {place.shown}, but not to the intended text. Read it again.\nhash: {result.hash}",
            ok=False,
            mutation_state="attempted",
            error_code="hashMismatch",
            files=(_changed_file(prepared),),
        )
    in_all = await ports.changes.announce(edited.change, scope)
    _follow(ports, prepared, scope.conversation_id, answer.shown)
    news = "" if known is None else await _news(ports, prepared, known, scope)
    return ToolResult(
        _header(prepared, result) + ports.redact(answer.text) + news,
        mutation_state="attempted",
        files=(_changed_file(prepared) if in_all is None else msgspec.structs.replace(in_all, path=place.path),),
        locations=(Location(place.path, *_extent(edited)),),
    )


async def _applied(ports: ToolPorts, prepared: Prepared, scope: CallScope) -> ApplyResult:
    """Keep the change, then make it; forget it again only when nothing was changed for certain."""
    place, before, edited, _ = prepared
    record_id = await ports.changes.keep(edited.change, scope)
    label = f"{'Edit' if before else 'Create'} {place.shown}"
    try:
        (result,) = await ports.snapshots.apply(label, scope.turn_id, (edited.change,))
    except ToolError:
        await ports.changes.forget(record_id, scope)
        raise
    return result


async def _diagnosed(
    ports: ToolPorts, opened: Snapshot | None, min_versions: Mapping[str, int], wait: float
) -> DocumentDiagnostics | None:
    """What the editor finds in an open document; None when it tells nothing of it."""
    if opened is None or opened.source != "buffer" or not ports.diagnostics.has_diagnostics:
        return None
    found = await ports.diagnostics.diagnose((opened.path,), min_versions, wait)
    return next((each for each in found if each.path == opened.path), None)


async def _news(ports: ToolPorts, prepared: Prepared, known: DocumentDiagnostics, scope: CallScope) -> str:
    """What the editor finds in the new text and did not in the old one; nothing unless it says so in time."""
    opened = ports.documents.find(known.path)
    if opened is None or opened.version is None or opened.hash != prepared.edited.change.after_hash:
        return ""
    try:
        with scope.cancel.scope():
            now = await _diagnosed(ports, opened, {opened.path: opened.version}, DIAGNOSTICS_WAIT)
    except Cancelled:  # the change is made, and what it came to is still told
        return ""
    if now is None or now.version is None or now.version < opened.version:
        return ""
    items = newly_found(known.items, now.items, prepared.edited.hunks)
    if not items:
        return ""
    text, shown = "", 0
    for item in items:
        line = told(item, prepared.place.shown)
        if len(text) + len(line) > _NEWS_CHARACTERS:
            break
        text, shown = text + line, shown + 1
    rest = f"[{len(items) - shown} more; see diagnostics]\n" if shown < len(items) else ""
    return f"The change was applied. New problems in the editor since ({counted(items)}):\n{ports.redact(text)}{rest}"


def _follow(ports: ToolPorts, prepared: Prepared, conversation: str, shown: tuple[LineRange, ...]) -> None:
    place, before, edited, _ = prepared
    digest, text = edited.change.after_hash, edited.change.after_text
    ports.ledger.follow(conversation, place.path, before.hash if before else "", (digest, text), edited.hunks)
    written = [(hunk.new + 1, hunk.new_end) for hunk in edited.hunks]
    note_shown(ports, conversation, place, (digest, text), [*written, *shown])


def _header(prepared: Prepared, result: ApplyResult) -> str:
    edited = prepared.edited
    first, last = _extent(edited)
    delta = sum((hunk.new_end - hunk.new) - (hunk.old_end - hunk.old) for hunk in edited.hunks)
    lines = line_count(edited.change.after_text)
    notes = ""
    if result.status == "unverified":
        notes += "note: the editor did not confirm the change; read the file to be sure\n"
    if result.is_dirty:
        notes += "note: changed in the editor, not saved yet; commands see the old text on disk\n"
    return f"hash: {edited.change.after_hash}\nlines: {lines} ({delta:+d})\nchanged: {first}-{last}\n{notes}"


def _extent(edited: Edited) -> LineRange:
    """First and last changed line in the new text; after a deletion the line that took its place."""
    if not edited.hunks:
        return 0, 0
    first = edited.hunks[0].new + 1
    return first, max(first, edited.hunks[-1].new_end)


def _changed_file(prepared: Prepared) -> ChangedFile:
    place, before, edited, diff = prepared
    op = "edit" if before else "create"
    before_hash = before.hash if before else ""
    return ChangedFile(place.path, op, diff.added, diff.removed, before_hash, edited.change.after_hash)


def _diff(edited: Edited, label: str) -> Diff:
    skipped, before, after = edited.excerpt
    return unified(before, after, label, within=edited.hunks, skipped=skipped)
