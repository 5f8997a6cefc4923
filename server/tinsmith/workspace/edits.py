r"""Line edits to a snapshot. Pure.

`text` of an edit is split as a file is: a final newline opens no further line, so `X` and `X\n`
are one line, `X\n\n` is two, and the empty text is none. A new line takes the end of the line it
replaces, else the file's. Whether the file ends with a newline stays as it was, but for an empty last
line, which cannot be without.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import msgspec

from tinsmith.domain.change import FileChange, Snapshot, TextChange
from tinsmith.domain.errors import ToolError
from tinsmith.workspace.diff import CONTEXT, Hunk, LineRange, hunks_between, merged
from tinsmith.workspace.text import line_starts, lines_of, numbered, text_hash, with_eol


class LineEdit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One edit. Lines are 1-based and inclusive; `insert` puts `text` after line `start`, 0 is the top."""

    op: Literal["replace", "insert", "delete"]
    start: int
    end: int | None = None
    text: str | None = None

    def __str__(self) -> str:
        last = self.start if self.end is None else self.end
        return f"insert after {self.start}" if self.op == "insert" else f"{self.op} {self.start}-{last}"


class Excerpt(NamedTuple):
    """The lines of both texts around a change; the `skipped` lines above are the same in both, all below as well."""

    skipped: int
    before: list[str]
    after: list[str]


class Edited(NamedTuple):
    """A change, the lines it touches, and an excerpt with at least CONTEXT lines around them."""

    change: FileChange
    hunks: tuple[Hunk, ...]
    excerpt: Excerpt


class Snippet(NamedTuple):
    """Numbered lines, and which lines they are."""

    text: str
    shown: tuple[LineRange, ...]


class _Span(NamedTuple):
    begin: int
    finish: int
    lines: tuple[str, ...]


def apply_edits(snapshot: Snapshot, edits: Sequence[LineEdit]) -> Edited:
    """The edits as one change; every line number counts in the snapshot's text.

    Raises ToolError `badRange`, `badEdit`, `overlap` or `noChange`.
    """
    text = snapshot.text
    lacks_end = bool(text) and not text.endswith("\n")
    whole = text + snapshot.eol if lacks_end else text
    starts = line_starts(whole)
    total = len(starts) - 1
    spans = _ordered([_span(edit, total) for edit in edits])
    changes = joined([_change(span, whole, starts, snapshot.eol) for span in spans])
    if lacks_end and changes:
        changes[-1] = _without_end(changes[-1], text, snapshot.eol)
    change = _file_change(snapshot, changes)
    return Edited(change, _hunks(spans), _excerpt(change, text, starts, spans))


def rewrite(snapshot: Snapshot, content: str) -> Edited:
    """The change that gives the file this content, in the file's own line ends. Raises ToolError `noChange`.

    Lines that stay the same are left alone, so that marks and cursors in an editor stay where they are.
    """
    text, whole = snapshot.text, with_eol(content.removeprefix("\ufeff"), snapshot.eol)
    excerpt = Excerpt(0, lines_of(text), lines_of(whole))
    hunks = hunks_between(excerpt.before, excerpt.after)
    if not text or not whole or text.endswith("\n") != whole.endswith("\n"):
        return Edited(_file_change(snapshot, [TextChange(0, len(text), whole)]), hunks, excerpt)
    lacks_end = not text.endswith("\n")
    missing = snapshot.eol if lacks_end else ""
    old, new = line_starts(text + missing), line_starts(whole + missing)
    changes = [TextChange(old[h.old], old[h.old_end], (whole + missing)[new[h.new] : new[h.new_end]]) for h in hunks]
    if lacks_end and changes:
        changes[-1] = _without_end(changes[-1], text, snapshot.eol)
    return Edited(_file_change(snapshot, changes), hunks, excerpt)


def renumbered(edits: Sequence[LineEdit], hunks: Sequence[Hunk]) -> tuple[LineEdit | None, ...]:
    """Each edit under the line numbers after `hunks`; None where the lines it names are no longer there."""
    return tuple(_renumbered(edit, hunks) for edit in edits)


def snippet(excerpt: Excerpt, hunks: Sequence[Hunk], longest: int = 24) -> Snippet:
    """Numbered lines of the newer text around each hunk; of a hunk longer than `longest` only its ends."""
    skipped, lines = excerpt.skipped, excerpt.after
    ranges: list[LineRange] = []
    for hunk in hunks:
        first, last = max(1, hunk.new + 1 - CONTEXT), min(skipped + len(lines), hunk.new_end + CONTEXT)
        if last - first >= longest:
            ranges += [(first, first + longest // 2 - 1), (last - longest // 2 + 1, last)]
        else:
            ranges.append((first, last))
    shown = merged(ranges)
    parts = (numbered(lines[first - 1 - skipped : last - skipped], first) for first, last in shown)
    return Snippet("  ...\n".join(parts), shown)


def _span(edit: LineEdit, total: int) -> _Span:
    last = edit.start if edit.end is None else edit.end
    if edit.op == "insert":
        if not 0 <= edit.start <= total:
            raise _bad_range(f"Cannot insert after line {edit.start}: the file has {total} lines (0 is the top).")
        if last != edit.start:
            raise ToolError("badEdit", "An insert takes no `end`: it puts `text` after line `start`. Leave `end` out.")
        if not edit.text:
            raise ToolError("badEdit", "An insert needs `text`. For an empty line send a newline.")
        return _Span(edit.start, edit.start, _new_lines(edit.text))
    if not total:
        raise _bad_range("The file has no lines. Insert after line 0 instead.")
    if not 1 <= edit.start <= last <= total:
        raise _bad_range(
            f"Cannot {edit.op} lines {edit.start}-{last}: the file has lines 1-{total}, first before last."
        )
    if edit.op == "delete":
        if edit.text:
            raise ToolError("badEdit", "A delete takes no `text`. Use replace to put other lines there.")
        return _Span(edit.start - 1, last, ())
    if edit.text is None:
        raise ToolError("badEdit", "A replace needs `text`. Use delete to remove lines.")
    return _Span(edit.start - 1, last, _new_lines(edit.text))


def _bad_range(message: str) -> ToolError:
    return ToolError("badRange", message + " Nothing was changed.")


def _new_lines(text: str) -> tuple[str, ...]:
    return tuple(lines_of(text.removeprefix("\ufeff")))


def _ordered(spans: Sequence[_Span]) -> list[_Span]:
    ordered = sorted(spans, key=lambda span: (span.begin, span.finish))
    for one, other in pairwise(ordered):
        if other.begin < one.finish:
            raise ToolError(
                "overlap",
                f"Two edits overlap at line {other.begin + 1}. Join them into one; every line number counts in the "
                "text before the call.",
            )
    return ordered


def _change(span: _Span, whole: str, starts: Sequence[int], eol: str) -> TextChange:
    ends = [_end_of(whole[starts[line] : starts[line + 1]]) for line in range(span.begin, span.finish)]
    ends += [eol] * (len(span.lines) - len(ends))
    text = "".join(line + end for line, end in zip(span.lines, ends, strict=False))
    return TextChange(starts[span.begin], starts[span.finish], text)


def _end_of(line: str) -> str:
    return "\r\n" if line.endswith("\r\n") else "\n"


def joined(changes: Sequence[TextChange]) -> list[TextChange]:
    """Changes that touch become one, so that they stay in order whoever applies them."""
    joined: list[TextChange] = []
    for change in changes:
        if joined and joined[-1].end == change.start:
            change = TextChange(joined[-1].start, change.end, joined.pop().text + change.text)  # noqa: PLW2901  the joined one goes on
        joined.append(change)
    return joined


def _without_end(change: TextChange, text: str, eol: str) -> TextChange:
    """The last change to a text without a final newline, made for the text with one, fitted to the real end.

    An empty last line keeps its newline: without it there would be no line.
    """
    if change.end <= len(text):
        return change
    if not change.text:
        end = _end_of(text[: change.start])
        rest = text[: change.start].removesuffix(end)
        is_blank = not rest or rest.endswith("\n")
        return TextChange(change.start if is_blank else len(rest), len(text), "")
    body = change.text[: -len(_end_of(change.text))]
    new = body if body and not body.endswith("\n") else change.text
    if change.start > len(text):
        return TextChange(len(text), len(text), eol + new)
    return TextChange(change.start, len(text), new)


def _file_change(snapshot: Snapshot, changes: Sequence[TextChange]) -> FileChange:
    pieces: list[str] = []
    position = 0
    for change in changes:
        pieces += (snapshot.text[position : change.start], change.text)
        position = change.end
    after = "".join([*pieces, snapshot.text[position:]])
    if after == snapshot.text:
        raise ToolError(
            "noChange", "The file already reads like this, so nothing was changed. Go on with the next step."
        )
    return FileChange(snapshot.path, snapshot, tuple(changes), after, text_hash(after))


def _excerpt(change: FileChange, text: str, starts: Sequence[int], spans: Sequence[_Span]) -> Excerpt:
    """Around the first to the last of the spans; of a large text that is cheaper than all of its lines."""
    skipped = max(0, spans[0].begin - CONTEXT)
    below = min(len(starts) - 1, spans[-1].finish + CONTEXT)
    begin, end = starts[skipped], min(starts[below], len(text))
    after = change.after_text[begin : len(change.after_text) - (len(text) - end)]
    return Excerpt(skipped, lines_of(text[begin:end]), lines_of(after))


def _hunks(spans: Sequence[_Span]) -> tuple[Hunk, ...]:
    hunks: list[Hunk] = []
    shift = 0
    for span in spans:
        begin = span.begin + shift
        hunks.append(Hunk(span.begin, span.finish, begin, begin + len(span.lines)))
        shift += len(span.lines) - (span.finish - span.begin)
    return tuple(hunks)


def _renumbered(edit: LineEdit, hunks: Sequence[Hunk]) -> LineEdit | None:
    last = edit.start if edit.end is None else edit.end
    begin = edit.start if edit.op == "insert" else edit.start - 1
    shift = 0
    for hunk in hunks:
        if edit.op == "insert":
            if hunk.old < begin <= hunk.old_end:
                return None
            is_before = hunk.old < begin
        else:
            if hunk.old < last and hunk.old_end > begin:
                return None
            is_before = hunk.old_end <= begin
        shift = hunk.new_end - hunk.old_end if is_before else shift
    end = None if edit.end is None else edit.end + shift
    return LineEdit(edit.op, edit.start + shift, end, edit.text)
