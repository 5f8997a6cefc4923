"""The records of one file and turn, folded into one review. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal, NamedTuple

from tinsmith.domain.change import ChangeRecord, Image
from tinsmith.workspace.review import Review, begun, edited, followed, kept, undone


class TurnFile(NamedTuple):
    """What one turn did to one file, oldest record first. The first one names all of it."""

    change_id: str
    turn_id: str
    path: str
    records: tuple[ChangeRecord, ...]

    @property
    def first(self) -> Image | None:
        """The file at the turn's start, None for a new one."""
        return self.records[0].before

    @property
    def op(self) -> Literal["edit", "create"]:
        """What the turn did to the file as a whole."""
        return "edit" if self.first else "create"

    @property
    def after_hash(self) -> str:
        """The hash of the text that the agent left."""
        left = [record.after for record in self.records if record.kind == "edit"]
        return left[-1].hash if left and left[-1] else ""


def files_of(records: Iterable[ChangeRecord]) -> tuple[TurnFile, ...]:
    """The records by turn and file, in the order of their first ones."""
    found: dict[tuple[str, str], list[ChangeRecord]] = {}
    for record in records:
        found.setdefault((record.turn_id, record.path), []).append(record)
    return tuple(TurnFile(records[0].record_id, *key, tuple(records)) for key, records in found.items())


def made(file: TurnFile, ended_calls: AbstractSet[str], current_hash: str) -> TurnFile | None:
    """The file with the records of what was really done to it; None when nothing was.

    A record is stored before the text changes, so after a crash or a cancel it may tell of what was never done. The
    text that came next decides: an edit counts unless the text is still the one before, an undo only when it has the
    text after. Either way a wrong guess is seen as somebody else's change.
    """
    records: list[ChangeRecord] = []
    next_hash = current_hash
    for record in reversed(file.records):
        if record.kind != "keep":
            before, after = _hash(record.before), _hash(record.after)
            seems_made = next_hash == after if record.kind == "undo" else next_hash != before
            if not (record.is_made or record.call_id in ended_calls or seems_made):
                continue
            next_hash = before
        records.append(record)
    if not any(record.kind == "edit" for record in records):
        return None
    return file._replace(records=tuple(reversed(records)))


def folded(records: Sequence[ChangeRecord], texts: Mapping[str, str], so_far: Review | None = None) -> Review:
    """The review after these records; the first is an edit, or there is a review of all that came before.

    `texts` has the text of each blob that the records name.
    """

    def text_of(image: Image | None) -> str | None:
        return None if image is None else texts[image.blob]

    review = so_far or begun(text_of(records[0].before))
    for record in records:
        before, after = text_of(record.before), text_of(record.after)
        match record.kind:
            case "edit":
                review = edited(followed(review, before), after or "", record.record_id)
            case "keep":
                review = kept(review, record.hunk_ids)
            case "undo":
                review = followed(undone(followed(review, before), record.hunk_ids), after)
    return review


def _hash(image: Image | None) -> str:
    return image.hash if image else ""
