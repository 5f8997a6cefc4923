"""What turns did to files, as clients are told it, and what they want done about it. Pure."""

from collections.abc import Iterable

from msgspec import UNSET

from tinsmith.adapters.lsp import wire
from tinsmith.domain.change import LineSpan, ReviewedChange, ReviewedHunk
from tinsmith.services.resolving import Refusal, Resolution, Selection
from tinsmith.workspace.paths import uri_of_path


def wire_changes(changes: Iterable[ReviewedChange]) -> tuple[wire.Change, ...]:
    """The changes with every hunk."""
    return tuple(map(_change, changes))


def selection_of(params: wire.ChangeResolveParams) -> Selection:
    """What is meant."""
    return Selection(params.turn_id or "", params.change_ids, params.hunk_ids)


def wire_resolution(resolution: Resolution) -> wire.ChangeResolveResult:
    """What came of it."""
    return wire.ChangeResolveResult(wire_changes(resolution.changes), tuple(map(_refusal, resolution.refused)))


def _change(change: ReviewedChange) -> wire.Change:
    return wire.Change(
        change.change_id,
        change.turn_id,
        uri_of_path(change.path),
        change.op,
        _before(change),
        wire.AfterHash(change.after_hash),
        change.current_hash,
        tuple(map(_hunk, change.hunks)),
        change.is_cut,
    )


def _before(change: ReviewedChange) -> wire.BeforeImage:
    if change.before_text is not None:
        return wire.BeforeImage(change.before_hash, text=change.before_text)
    return wire.BeforeImage(change.before_hash, blob=change.before_blob or UNSET)


def _hunk(hunk: ReviewedHunk) -> wire.Hunk:
    return wire.Hunk(hunk.hunk_id, hunk.state, _range(hunk.before), _range(hunk.after) if hunk.after else UNSET)


def _range(lines: LineSpan) -> wire.Range:
    """Whole lines, so that no encoding of positions plays a part."""
    return wire.Range(wire.Position(lines[0], 0), wire.Position(lines[1], 0))


def _refusal(refusal: Refusal) -> wire.Refusal:
    return wire.Refusal(refusal.code, refusal.message, refusal.change_id or UNSET, refusal.hunk_id or UNSET)
