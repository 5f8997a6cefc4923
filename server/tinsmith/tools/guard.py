"""The guard that edit and write share: which text a change may land on, and what is said when it may not."""

import os
from collections.abc import Sequence

from tinsmith.domain.change import Snapshot
from tinsmith.domain.errors import PolicyError, ToolError
from tinsmith.domain.redaction import MARK
from tinsmith.domain.tool import CallScope
from tinsmith.tools.ports import ToolPorts
from tinsmith.workspace.diff import LineRange, hunks_between, merged, missing_from, unified
from tinsmith.workspace.edits import LineEdit, renumbered
from tinsmith.workspace.files import StaleError, is_missing, writable_mode
from tinsmith.workspace.paths import Place, has_file, is_within
from tinsmith.workspace.text import lines_of

_STALE_DIFF_CHARACTERS = 6_000


async def target(ports: ToolPorts, path: str, scope: CallScope) -> Place:
    """The place a change is for. Raises PolicyError `protected` for our own directories."""
    place = await ports.locate(path, scope)
    if await ports.snapshots.off_loop(_is_protected, place.path, ports.protected):
        raise PolicyError("protected", f"{place.shown} belongs to Tinsmith itself and is never changed by a tool.")
    return place


async def present(ports: ToolPorts, place: Place) -> Snapshot | None:
    """The file's text now, None when there is no such file. Raises ToolError when it cannot be edited."""
    opened = ports.documents.find(place.path) or ports.documents.find(place.given)
    if opened is None and has_file(place.path) and await ports.snapshots.off_loop(is_missing, place.path):
        return None
    snapshot = opened or await ports.snapshots.read(place.path)
    if not snapshot.is_editable:
        raise ToolError(
            "notText",
            f"{place.shown} is neither UTF-8 nor UTF-16 with BOM; changing it as text would damage it. Use bash with "
            "iconv or another program that keeps its encoding.",
        )
    if snapshot.source == "disk":
        await ports.snapshots.off_loop(writable_mode, place.path)
    return snapshot


def check_marks(text: str) -> None:
    """Raises ToolError when the text holds the mark of a redacted secret."""
    if MARK in text:
        raise ToolError(
            "redactionMark",
            f"The new text contains {MARK}, which stands for a secret you were not shown. Leave those lines alone.",
        )


def note_shown(
    ports: ToolPorts, conversation: str, place: Place, version: tuple[str, str], ranges: Sequence[LineRange]
) -> None:
    """Record lines of the version (hash, text) as shown, but for those that hold a secret's mark."""
    digest, text = version
    hidden = merged(
        (number, number)
        for first, lines in ports.redact_lines(text, ranges)
        for number, line in enumerate(lines, first)
        if MARK in line
    )
    if hidden:
        ranges = [part for wanted in ranges for part in missing_from(hidden, wanted)]
    ports.ledger.shown(conversation, place.path, digest, text, ranges)


def stale(
    ports: ToolPorts, conversation: str, place: Place, digest: str, now: Snapshot, *, edits: Sequence[LineEdit] = ()
) -> ToolError:
    """The refusal for a text that has another hash: the new one, what changed, the same edits under new numbers.

    The lines that it shows count as shown.
    """
    head = f"{place.shown} is not the text with the hash {digest} any more, so nothing was changed.\nhash: {now.hash}\n"
    facts = {"hash": now.hash, "path": place.path}
    old = ports.ledger.text(conversation, place.path, digest)
    if old is None:
        advice = "You were not shown a text with that hash. Read the file, then repeat the call."
        return ToolError("stale", head + advice, data=facts)
    before, after = lines_of(old), lines_of(now.text)
    hunks = hunks_between(before, after)
    diff = unified(before, after, place.shown, context=2, limit=_STALE_DIFF_CHARACTERS)
    ports.ledger.follow(conversation, place.path, digest, (now.hash, now.text), hunks)
    note_shown(ports, conversation, place, (now.hash, now.text), diff.shown)
    parts = [head, "What changed since:\n", ports.redact(diff.text) or "only the final newline\n"]
    if edits:
        parts.append("Your edits in the new text:\n")
    for edit, moved in zip(edits, renumbered(edits, hunks), strict=True):
        parts.append(f"  {edit} -> {moved or 'does not fit, its lines changed'}\n")
    parts.append("Send the call again with the new hash" + (" and these line numbers." if edits else "."))
    return ToolError("stale", "".join(parts), data=facts)


async def met(ports: ToolPorts, place: Place, error: StaleError) -> Snapshot:
    """The text that a change met instead of the one it was made from. Raises the error itself when there is none."""
    now = error.current or await present(ports, place)
    if now is None:
        raise error
    return now


def _is_protected(path: str, protected: Sequence[str]) -> bool:
    return any(is_within(path, os.path.realpath(folder)) for folder in protected)
