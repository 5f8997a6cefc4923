"""The hunks of a turn in one file, followed through all that happens to its text. Pure.

A review holds two texts as lines: `now`, and `base`, which is `now` without the hunks that are open. Outside of these
the two are the same, so what somebody else changes there happens to both, and to undo a hunk is to put its lines of
`base` in the place of its lines of `now`. What somebody else changes inside an open hunk settles it, so none holds a
line of theirs.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tinsmith.domain.change import Eol, HunkState, LineSpan, ReviewedHunk, TextChange
from tinsmith.workspace.diff import Hunk, hunks_between
from tinsmith.workspace.edits import joined
from tinsmith.workspace.text import dominant_eol, with_eol

Lines = tuple[str, ...]
"""A text as lines with their ends."""


class OpenHunk(NamedTuple):
    """Lines `[base, base_end)` of the base became `[now, now_end)`. A creation is the whole of a new file."""

    hunk_id: str
    base: int
    base_end: int
    now: int
    now_end: int
    is_creation: bool = False


class SettledHunk(NamedTuple):
    """A hunk that was kept, undone or lost; `after` follows the text as well as it can."""

    hunk_id: str
    state: HunkState
    before: LineSpan
    after: LineSpan


@dataclass(frozen=True, slots=True)
class Review:
    """`origins` says for each line of the base which line of the text at the turn's start it was, -1 for none."""

    now: Lines
    exists: bool
    base: Lines
    origins: tuple[int, ...]
    open: tuple[OpenHunk, ...] = ()
    settled: tuple[SettledHunk, ...] = ()

    @property
    def text(self) -> str:
        """The present text, empty for no file."""
        return "".join(self.now)


def begun(text: str | None) -> Review:
    """The review of a file that has this text when the turn starts; None for no file."""
    lines = _lines(text or "")
    exists = text is not None
    return Review(lines, exists, lines, tuple(range(len(lines))))


def edited(review: Review, text: str, name: str) -> Review:
    """After the agent gave the file this text. New hunks are called `<name>.<number>`.

    Hunks that the edit touches become one with it, under the id of the first.
    """
    lines = _lines(text)
    if not review.exists:
        creation = OpenHunk(f"{name}.0", 0, 0, 0, len(lines), is_creation=True)
        return replace(review, now=lines, exists=True, open=(creation,))
    hunks = hunks_between(review.now, lines)
    weaving = _Weaving(review, lines, hunks)
    number = 0
    for block in _blocks(review.open, hunks, _touches):
        old, new = weaving.reach(block)
        if not block.hunks:
            weaving.carry(block, old, new)
            continue
        hunk_id = block.open[0].hunk_id if block.open else f"{name}.{number}"
        number += not block.open
        weaving.grow(hunk_id, old, new, is_creation=any(each.is_creation for each in block.open))
    return weaving.finished(exists=True)


def followed(review: Review, text: str | None) -> Review:
    """After somebody else gave the file this text, None for no file.

    Line ends count for nothing in the comparison: an editor may show other ones than the file has.
    """
    lines, exists = _lines(text or ""), text is not None
    if lines == review.now and exists is review.exists:
        return review
    hunks = hunks_between(_plain(review.now), _plain(lines))
    weaving = _Weaving(review, lines, hunks, _new_eol(review.text, text or ""))
    for block in _blocks(review.open, hunks, _overlaps):
        old, new = weaving.reach(block)
        is_creation = any(each.is_creation for each in block.open)
        if not block.hunks and exists is review.exists:
            weaving.carry(block, old, new)
        elif block.open and _plain(old) == _plain(new) and exists is not is_creation:
            weaving.settle(block, "undone", new)
        else:
            weaving.settle(block, "gone", new)
    return weaving.finished(exists=exists)


def lost(review: Review) -> Review:
    """After the file became something that cannot be compared."""
    gone = tuple(_settled(review, each, "gone", (each.now, each.now_end)) for each in review.open)
    return replace(review, open=(), settled=review.settled + gone)


def kept(review: Review, hunk_ids: Collection[str]) -> Review:
    """After these open hunks were approved: they are part of the base from now on."""
    weaving = _Weaving(review, review.now, ())
    for block in _blocks(review.open, (), _touches):
        old, new = weaving.reach(block)
        if block.open[0].hunk_id in hunk_ids:
            weaving.settle(block, "kept", new)
        else:
            weaving.carry(block, old, new)
    return weaving.finished(exists=review.exists)


def undone(review: Review, hunk_ids: Collection[str]) -> Review:
    """After these open hunks were taken back."""
    chosen = [each for each in review.open if each.hunk_id in hunk_ids]
    hunks: list[Hunk] = []
    lines: list[str] = []
    at = 0
    for each in chosen:
        lines += review.now[at : each.now]
        start = len(lines)
        lines += review.base[each.base : each.base_end]
        hunks.append(Hunk(each.now, each.now_end, start, len(lines)))
        at = each.now_end
    lines += review.now[at:]
    exists = review.exists and not any(each.is_creation for each in chosen)
    weaving = _Weaving(review, tuple(lines), hunks)
    for each in review.open:
        block = _Block([each], [hunk for hunk, of in zip(hunks, chosen, strict=True) if of is each])
        old, new = weaving.reach(block)
        if block.hunks:
            weaving.settle(block, "undone", new)
        else:
            weaving.carry(block, old, new)
    return weaving.finished(exists=exists)


def undoing(review: Review, hunk_ids: Collection[str]) -> tuple[TextChange, ...]:
    """What `undone` does, as changes of the present text."""
    offsets = [0]
    for line in review.now:
        offsets.append(offsets[-1] + len(line))
    return tuple(
        joined(
            [
                TextChange(offsets[each.now], offsets[each.now_end], "".join(review.base[each.base : each.base_end]))
                for each in review.open
                if each.hunk_id in hunk_ids
            ]
        )
    )


def hunks_of(review: Review) -> tuple[ReviewedHunk, ...]:
    """Every hunk with its state, in the order of the text before."""
    found = [
        ReviewedHunk(each.hunk_id, "open", _before(review, each), (each.now, each.now_end)) for each in review.open
    ]
    found += [
        ReviewedHunk(each.hunk_id, each.state, each.before, None if each.state == "gone" else each.after)
        for each in review.settled
    ]
    return tuple(sorted(found, key=lambda hunk: (hunk.before, hunk.after or (0, 0), hunk.hunk_id)))


@dataclass(slots=True)
class _Block:
    """Open hunks and changed lines that have to do with each other, in lines of the text before the change."""

    open: list[OpenHunk] = field(default_factory=list[OpenHunk])
    hunks: list[Hunk] = field(default_factory=list[Hunk])

    @property
    def start(self) -> int:
        return min([each.now for each in self.open] + [each.old for each in self.hunks])

    @property
    def end(self) -> int:
        return max([each.now_end for each in self.open] + [each.old_end for each in self.hunks])


class _Weaving:
    """Both texts of the next review, made from the top; what stands between blocks is the same in both.

    `eol` is for the lines of the base, when all of the text changed its line ends.
    """

    def __init__(self, review: Review, lines: Lines, hunks: Sequence[Hunk], eol: Eol | None = None) -> None:
        self._review = review
        self._lines = lines
        self._eol: Eol | None = eol
        self._base: list[str] = []
        self._origins: list[int] = []
        self._open: list[OpenHunk] = []
        self._settled = [each._replace(after=_moved(each.after, hunks)) for each in review.settled]
        self._old = self._old_base = self._new = 0
        self._source: tuple[int, ...] = ()

    def reach(self, block: _Block) -> tuple[Lines, Lines]:
        """Go to the end of the block; its lines of the base, and those it has now."""
        self._copy(block.start - self._old)
        length = block.end - block.start
        in_base = length + sum((each.base_end - each.base) - (each.now_end - each.now) for each in block.open)
        in_new = length + sum((each.new_end - each.new) - (each.old_end - each.old) for each in block.hunks)
        old = self._review.base[self._old_base : self._old_base + in_base]
        new = self._lines[self._new : self._new + in_new]
        self._source = self._review.origins[self._old_base : self._old_base + in_base]
        self._old, self._old_base, self._new = block.end, self._old_base + in_base, self._new + in_new
        if self._eol is not None:
            old = tuple(with_eol(line, self._eol) for line in old)
        return old, new

    def carry(self, block: _Block, old: Lines, new: Lines) -> None:
        """Leave the block's hunk open where it is now."""
        self._add(block.open[0].hunk_id, old, new, self._source, is_creation=block.open[0].is_creation)

    def grow(self, hunk_id: str, old: Lines, new: Lines, *, is_creation: bool) -> None:
        """One open hunk for the whole block, but for lines at its ends that are as they were."""
        shorter = 0 if is_creation else min(len(old), len(new))
        head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
        tail = next((i for i in range(shorter - head) if old[-1 - i] != new[-1 - i]), shorter - head)
        source, end = self._source, len(old) - tail
        self._extend(old[:head], source[:head])
        if is_creation or head < end or head < len(new) - tail:
            start = self._new - len(new) + head
            self._open.append(
                OpenHunk(hunk_id, len(self._base), len(self._base) + end - head, start, self._new - tail, is_creation)
            )
            self._extend(old[head:end], source[head:end])
        self._extend(old[end:], source[end:])

    def settle(self, block: _Block, state: HunkState, new: Lines) -> None:
        """Take what is there now into the base; the block's hunks are settled, if it has any."""
        after = (self._new - len(new), self._new)
        self._settled += [_settled(self._review, each, state, after) for each in block.open]
        kept_origins = self._source[: len(new)]
        self._extend(new, (*kept_origins, *[-1] * (len(new) - len(kept_origins))))

    def finished(self, *, exists: bool) -> Review:
        """The review, with what stands below the last block."""
        self._copy(len(self._review.now) - self._old)
        return Review(
            self._lines, exists, tuple(self._base), tuple(self._origins), tuple(self._open), tuple(self._settled)
        )

    def _copy(self, count: int) -> None:
        self._extend(
            self._lines[self._new : self._new + count], self._review.origins[self._old_base : self._old_base + count]
        )
        self._old, self._old_base, self._new = self._old + count, self._old_base + count, self._new + count

    def _add(self, hunk_id: str, old: Lines, new: Lines, source: Sequence[int], *, is_creation: bool) -> None:
        base, now = len(self._base), self._new - len(new)
        self._open.append(OpenHunk(hunk_id, base, base + len(old), now, self._new, is_creation))
        self._extend(old, source)

    def _extend(self, lines: Lines, origins: Iterable[int]) -> None:
        self._base += lines
        self._origins += origins


def _blocks(
    open_hunks: Sequence[OpenHunk], hunks: Sequence[Hunk], are_one: Callable[[OpenHunk, Hunk], bool]
) -> list[_Block]:
    items = [
        *((each.now, each.now_end, each) for each in open_hunks),
        *((each.old, each.old_end, each) for each in hunks),
    ]
    blocks: list[_Block] = []
    for _, _, item in sorted(items, key=lambda each: each[:2]):
        last = blocks[-1] if blocks else _Block()
        if isinstance(item, OpenHunk):
            if not any(are_one(item, hunk) for hunk in last.hunks):
                blocks.append(last := _Block())
            last.open.append(item)
        else:
            if not any(are_one(each, item) for each in last.open):
                blocks.append(last := _Block())
            last.hunks.append(item)
    return blocks


def _touches(ours: OpenHunk, hunk: Hunk) -> bool:
    return hunk.old <= ours.now_end and ours.now <= hunk.old_end


def _overlaps(ours: OpenHunk, hunk: Hunk) -> bool:
    """Whether a change by somebody else is inside of ours, or where nobody could say on which side of it."""
    if ours.is_creation:
        return True
    if ours.now == ours.now_end:
        return hunk.old < ours.now < hunk.old_end or hunk.old == hunk.old_end == ours.now
    return hunk.old < ours.now_end and ours.now < hunk.old_end


def _settled(review: Review, hunk: OpenHunk, state: HunkState, after: LineSpan) -> SettledHunk:
    return SettledHunk(hunk.hunk_id, state, _before(review, hunk), after)


def _before(review: Review, hunk: OpenHunk) -> LineSpan:
    """The lines of the hunk in the text at the turn's start; none, at their place, when only others wrote them."""
    known = [each for each in review.origins[hunk.base : hunk.base_end] if each >= 0]
    if known:
        return known[0], known[-1] + 1
    point = next((each + 1 for each in reversed(review.origins[: hunk.base]) if each >= 0), 0)
    return point, point


def _moved(span: LineSpan, hunks: Sequence[Hunk]) -> LineSpan:
    """Where these lines are after the hunks, as well as can be said."""
    start, end = span
    moved_start, moved_end = start, end
    for hunk in hunks:
        if hunk.old_end <= start:
            moved_start = start + hunk.new_end - hunk.old_end
        elif hunk.old < start:
            moved_start = hunk.new
        if hunk.old < end:
            moved_end = hunk.new_end if end <= hunk.old_end else end + hunk.new_end - hunk.old_end
    return moved_start, max(moved_start, moved_end)


def _lines(text: str) -> Lines:
    *whole, last = text.split("\n")
    return (*(f"{line}\n" for line in whole), *([last] if last else []))


def _plain(lines: Lines) -> Lines:
    return tuple(f"{line[:-2]}\n" if line.endswith("\r\n") else line for line in lines)


def _new_eol(before: str, after: str) -> Eol | None:
    """The line end of the text after, when it is another than before."""
    eol = dominant_eol(after)
    return eol if before and after and eol != dominant_eol(before) else None
