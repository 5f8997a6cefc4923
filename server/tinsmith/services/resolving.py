"""What a person may mean by keeping and undoing hunks, and what is answered when that cannot be done. Pure."""

from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

from tinsmith.domain.change import ReviewedChange
from tinsmith.domain.errors import SchemaError
from tinsmith.services.folding import TurnFile
from tinsmith.workspace.review import Review, hunks_of

Action = Literal["keep", "undo"]


class Selection(msgspec.Struct, frozen=True):
    """Which hunks are meant: these, all of these changes, or (when neither is named) all of a turn."""

    turn_id: str = ""
    change_ids: tuple[str, ...] = ()
    hunk_ids: tuple[str, ...] = ()


class Refusal(msgspec.Struct, frozen=True):
    """Why a hunk, or (without one) a change, was left as it is.

    The code is `stale`, `kept`, `undone`, `unknown`, or what the file or the editor refused the undo with.
    """

    change_id: str
    hunk_id: str
    code: str
    message: str


class Resolution(msgspec.Struct, frozen=True):
    """Each change that was meant as it is now, and what was refused."""

    changes: tuple[ReviewedChange, ...]
    refused: tuple[Refusal, ...]


def chosen(
    files: Sequence[TurnFile], selection: Selection
) -> tuple[list[tuple[TurnFile, frozenset[str]]], list[Refusal]]:
    """The files that are meant, each with the hunks that were named (none: all of them), and what is not there.

    Raises SchemaError when nothing is selected.
    """
    by_change = {file.change_id: file for file in files}
    by_record = {record.record_id: file.change_id for file in files for record in file.records}
    refused = [unknown(each, "") for each in selection.change_ids if each not in by_change]
    hunks: dict[str, frozenset[str]] = {}
    for hunk_id in selection.hunk_ids:
        change_id = by_record.get(hunk_id.partition(".")[0])
        if change_id is None:
            refused.append(unknown("", hunk_id))
        else:
            hunks[change_id] = hunks.get(change_id, frozenset()) | {hunk_id}
    hunks |= dict.fromkeys(by_change.keys() & set(selection.change_ids), frozenset())
    if not selection.change_ids and not selection.hunk_ids:
        if not selection.turn_id:
            raise SchemaError("invalidParams", "Name changeIds, hunkIds or a turnId.", data={"path": "changeIds"})
        hunks = {file.change_id: frozenset() for file in files if file.turn_id == selection.turn_id}
    return [(by_change[change_id], named) for change_id, named in sorted(hunks.items())], refused


def wanted(review: Review, named: Collection[str]) -> tuple[str, ...]:
    """The hunks that are meant and open."""
    return tuple(each.hunk_id for each in review.open if not named or each.hunk_id in named)


def refusals(change_id: str, review: Review, named: Collection[str], action: Action) -> list[Refusal]:
    """What cannot be done to the hunks that were named or, when none was, to those of the whole change.

    Of a whole change only what an undo leaves there is told.
    """
    states = {hunk.hunk_id: hunk.state for hunk in hunks_of(review)}
    if not named:
        return [stale(change_id, each) for each, state in states.items() if state == "gone" and action == "undo"]
    found: list[Refusal] = []
    for hunk_id in sorted(named):
        match states.get(hunk_id), action:
            case None, _:
                found.append(unknown(change_id, hunk_id))
            case "gone", _:
                found.append(stale(change_id, hunk_id))
            case "kept", "undo":
                found.append(Refusal(change_id, hunk_id, "kept", "This was kept before. Change it in the editor."))
            case "undone", "keep":
                found.append(Refusal(change_id, hunk_id, "undone", "This was undone before. There is nothing to keep."))
            case _:
                continue
    return found


def stale(change_id: str, hunk_id: str) -> Refusal:
    """The refusal of a hunk that somebody else has changed."""
    message = "The text there is not what the agent left, so it stays as it is. Change it in the editor."
    return Refusal(change_id, hunk_id, "stale", message)


def unknown(change_id: str, hunk_id: str) -> Refusal:
    """The refusal of what is not there."""
    message = "There is no such change or hunk now; another edit of the turn may have joined it. Ask for the changes."
    return Refusal(change_id, hunk_id, "unknown", message)
