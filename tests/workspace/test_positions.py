"""One line has one number: in what read shows, in what an edit touches, and in an editor's positions (EDIT-09)."""

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tinsmith.adapters.lsp.documents import Document
from tinsmith.adapters.lsp.wire import ContentChange, Position, Range
from tinsmith.workspace.edits import LineEdit, apply_edits
from tinsmith.workspace.text import decode, line_count, line_starts, lines_of, numbered

ODD = "a é🚀\x0c\x0b\x1c\x85\u2028\u2029\t\r"
texts = st.lists(st.tuples(st.text(alphabet=ODD, max_size=5), st.sampled_from(["\n", "\r\n"])), max_size=6).map(
    lambda lines: "".join(body + end for body, end in lines)
)
texts = st.tuples(texts, st.text(alphabet=ODD, max_size=4)).map("".join)
UNITS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
WIDTH = {"utf-8": 1, "utf-16": 2, "utf-32": 4}


def units(text: str, encoding: str) -> int:
    return len(text.encode(UNITS[encoding])) // WIDTH[encoding]


@given(texts)
def test_the_lines_that_are_shown_are_those_that_are_counted(text) -> None:
    lines = lines_of(text)
    shown = numbered(lines, 1).split("\n")[:-1]
    assert [row.partition("\t") for row in shown] == [(f"{n:>5}", "\t", line) for n, line in enumerate(lines, 1)]
    starts = line_starts(text)
    assert (len(lines), len(starts)) == (line_count(text), line_count(text) + 1)
    pieces = [text[begin:end] for begin, end in pairwise(starts)]
    assert [piece.removesuffix("\n").removesuffix("\r") if piece.endswith("\n") else piece for piece in pieces] == lines


@given(texts, st.data())
def test_an_edit_touches_the_line_of_that_number_and_no_other(text, data) -> None:
    lines = lines_of(text)
    number = data.draw(st.integers(1, max(1, len(lines))))
    edit = LineEdit("replace", number, text="NEW") if lines else LineEdit("insert", 0, text="NEW")
    after = lines_of(apply_edits(decode("a", text.encode()), [edit]).change.after_text)
    assert after == ([*lines[: number - 1], "NEW", *lines[number:]] if lines else ["NEW"])


@pytest.mark.parametrize("encoding", UNITS)
@given(texts, st.data())
def test_an_editor_is_told_the_same_line(encoding, text, data) -> None:
    """Where an edit begins, in the editor's lines and units, is where the numbered line begins; and back again."""
    document = Document("file:///a", 1, text, encoding)
    starts = line_starts(text)
    number = data.draw(st.integers(0, len(starts) - 1))
    start = starts[number]
    column = data.draw(st.integers(0, len(text[start:].split("\n", 1)[0].removesuffix("\r"))))
    begin = document.offset_range(start, start + column)
    at_end = number == len(starts) - 1 and text and not text.endswith("\n")
    if not at_end:
        assert begin.start == Position(number, 0)
        assert begin.end == Position(number, units(text[start : start + column], encoding))
    document.change(2, (ContentChange("X", Range(begin.end, begin.end)),))
    assert document.text == text[: start + column] + "X" + text[start + column :]


@pytest.mark.parametrize("encoding", UNITS)
@given(texts, st.data())
def test_what_an_edit_makes_an_editor_makes_too(encoding, text, data) -> None:
    lines = lines_of(text)
    assume(lines)
    first = data.draw(st.integers(1, len(lines)))
    last = data.draw(st.integers(first, len(lines)))
    new = data.draw(st.text(alphabet=ODD + "\n", max_size=6))
    assume(lines_of(new) != lines[first - 1 : last])
    change = apply_edits(decode("a", text.encode()), [LineEdit("replace", first, last, new)]).change
    document = Document("file:///a", 1, text, encoding)
    told = [ContentChange(each.text, document.offset_range(each.start, each.end)) for each in reversed(change.changes)]
    document.change(2, told)
    assert (document.text, document.hash) == (change.after_text, change.after_hash)
