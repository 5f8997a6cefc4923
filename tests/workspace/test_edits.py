"""Line edits: what they change, what they leave alone, what is refused, and where they go on another text."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.domain.change import FileChange
from tinsmith.domain.errors import ToolError
from tinsmith.workspace.diff import hunks_between, unified
from tinsmith.workspace.edits import Excerpt, LineEdit, apply_edits, renumbered, rewrite, snippet
from tinsmith.workspace.text import decode, line_starts, lines_of

line = st.text(alphabet="ab\t é\f", max_size=4)


@st.composite
def texts(draw):
    lines = draw(st.lists(line, max_size=8))
    ends = draw(st.lists(st.sampled_from(["\n", "\r\n"]), min_size=len(lines), max_size=len(lines)))
    text = "".join(one + end for one, end in zip(lines, ends, strict=True))
    if lines and lines[-1] and draw(st.booleans()):
        text = text[: -len(ends[-1])]
    return text


@st.composite
def edited_texts(draw):
    text = draw(texts())
    total = len(lines_of(text))
    edits, position = [], 0
    while position <= total and draw(st.booleans()):
        new = "".join(one + "\n" for one in draw(st.lists(line, min_size=1, max_size=3)))
        if position == total or draw(st.booleans()):
            edits.append(LineEdit("insert", position, text=new))
            position += 1
        else:
            end = draw(st.integers(position + 1, total))
            is_delete = draw(st.booleans())
            edits.append(LineEdit("delete" if is_delete else "replace", position + 1, end, None if is_delete else new))
            position = end + draw(st.integers(0, 2))
    return text, edits


def applied(change: FileChange) -> str:
    text = change.before.text
    for part in reversed(change.changes):
        text = text[: part.start] + part.text + text[part.end :]
    return text


def model(text, edits):
    """The same edits on a list of lines."""
    lines = lines_of(text)
    for edit in sorted(edits, key=lambda edit: edit.start if edit.op == "insert" else edit.start - 0.5, reverse=True):
        new = lines_of(edit.text or "")
        if edit.op == "insert":
            lines[edit.start : edit.start] = new
        else:
            lines[edit.start - 1 : edit.end or edit.start] = new
    return lines


@given(edited_texts())
def test_edits_do_what_they_do_to_a_list_of_lines(case):
    text, edits = case
    snapshot = decode("f", text.encode())
    if model(text, edits) == lines_of(text):
        with contextlib.suppress(ToolError):
            apply_edits(snapshot, edits)
        return
    change = apply_edits(snapshot, edits).change
    assert applied(change) == change.after_text
    assert lines_of(change.after_text) == model(text, edits)
    assert all(one.end <= other.start for one, other in zip(change.changes, change.changes[1:], strict=False))


@given(edited_texts())
def test_untouched_lines_keep_every_byte_and_so_does_the_end_of_the_file(case):
    text, edits = case
    try:
        edited = apply_edits(decode("f", text.encode()), edits)
    except ToolError:
        return
    after = edited.change.after_text
    old, new = line_starts(text), line_starts(after)
    position = shift = 0
    for hunk in [*edited.hunks, None]:
        end = hunk.old if hunk else len(old) - 1
        for number in range(position, end):
            one, other = text[old[number] : old[number + 1]], after[new[number + shift] : new[number + shift + 1]]
            is_at_an_end = number == len(old) - 2 or number + shift == len(new) - 2
            assert one == other or (is_at_an_end and one.rstrip("\r\n") == other.rstrip("\r\n"))
        if hunk:
            position, shift = hunk.old_end, hunk.new_end - hunk.old_end
    if text and after and lines_of(after)[-1]:
        assert after.endswith("\n") == text.endswith("\n")


@given(edited_texts(), st.integers(0, 9), st.integers(0, 9))
def test_an_excerpt_shows_what_the_whole_texts_show(case, above, below):
    text, edits = case
    if text and not text.endswith("\n") and below:
        text += "\n"
    text = "above\n" * above + text + "below\r\n" * below
    edits = [LineEdit(each.op, each.start + above, each.end and each.end + above, each.text) for each in edits]
    try:
        change, hunks, excerpt = apply_edits(decode("f", text.encode()), edits)
    except ToolError:
        return
    skipped, before, after = excerpt
    old, new = lines_of(text), lines_of(change.after_text)
    rest = len(old) - skipped - len(before)
    assert before == old[skipped : len(old) - rest]
    assert after == new[skipped : len(new) - rest]
    assert (old[:skipped], old[len(old) - rest :]) == (new[:skipped], new[len(new) - rest :])
    assert unified(before, after, "f", within=hunks, skipped=skipped) == unified(old, new, "f", within=hunks)
    assert snippet(excerpt, hunks) == snippet(Excerpt(0, old, new), hunks)


@given(texts(), st.integers(0, 9))
def test_the_first_lines_of_a_text(text, most):
    assert lines_of(text, most) == lines_of(text)[:most]


@given(edited_texts())
def test_the_inverse_edit_gives_the_old_text_back(case):
    text, edits = case
    snapshot = decode("f", text.encode())
    try:
        after = apply_edits(snapshot, edits).change.after_text
    except ToolError:
        return
    back = [LineEdit("replace", 1, len(lines_of(after)), text)] if after else [LineEdit("insert", 0, text=text)]
    if lines_of(after) != lines_of(text) and (after or text):
        assert lines_of(apply_edits(decode("f", after.encode()), back).change.after_text) == lines_of(text)


@given(texts(), texts())
def test_rewriting_gives_exactly_the_content_in_the_files_line_ends(before, content):
    snapshot = decode("f", before.encode())
    if lines_of(before) == lines_of(content):
        return
    edited = rewrite(snapshot, content)
    assert applied(edited.change) == edited.change.after_text
    assert edited.change.after_text.replace("\r\n", "\n") == content.replace("\r\n", "\n")


@given(texts(), texts(), st.data())
def test_a_renumbered_edit_names_the_same_lines(before, after, data):
    old, new = lines_of(before), lines_of(after)
    if not old:
        return
    start = data.draw(st.integers(1, len(old)))
    end = data.draw(st.integers(start, len(old)))
    (moved,) = renumbered([LineEdit("delete", start, end)], hunks_between(old, new))
    if moved:
        assert new[moved.start - 1 : moved.end] == old[start - 1 : end]


def test_renumbering_follows_inserts_too():
    edits = [LineEdit("insert", 0, text="x"), LineEdit("insert", 3, text="x"), LineEdit("insert", 2, text="x")]
    moved = renumbered(edits, hunks_between(["a", "b", "c"], ["new", "a", "B", "c"]))
    assert [each and str(each) for each in moved] == ["insert after 0", "insert after 4", None]


@pytest.mark.parametrize(
    ("text", "edit", "after"),
    [
        ("a\nb\nc", LineEdit("insert", 3, text="X"), "a\nb\nc\nX"),  # EDIT-06: the end of the file stays as it was
        ("a\nb\nc\n", LineEdit("insert", 3, text="X"), "a\nb\nc\nX\n"),
        ("a\nb", LineEdit("delete", 2), "a"),
        ("a\n\nb", LineEdit("delete", 3), "a\n\n"),
        ("a", LineEdit("insert", 1, text="\n"), "a\n\n"),
        ("a", LineEdit("delete", 1), ""),
        ("a\nb\n", LineEdit("insert", 1, text="X\n"), "a\nX\nb\n"),  # EDIT-07
        ("a\nb\n", LineEdit("insert", 1, text="X"), "a\nX\nb\n"),
        ("a\nb\n", LineEdit("insert", 1, text="X\n\n"), "a\nX\n\nb\n"),
        ("a\nb\n", LineEdit("insert", 1, text="\n"), "a\n\nb\n"),
        ("a\nb\n", LineEdit("replace", 2, text=""), "a\n"),
        ("", LineEdit("insert", 0, text="X"), "X\n"),
        ("a\r\nb\nc\r\n", LineEdit("replace", 2, text="x\ny"), "a\r\nx\ny\r\nc\r\n"),
        ("a\nb\nc\nd\n", LineEdit("insert", 0, text="T"), "T\na\nb\nc\nd\n"),  # EDIT-24
        ("a\nb\nc\nd\n", LineEdit("insert", 4, text="E"), "a\nb\nc\nd\nE\n"),
    ],
)
def test_where_lines_and_their_ends_go(text, edit, after):
    assert apply_edits(decode("f", text.encode()), [edit]).change.after_text == after


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (LineEdit("delete", 0, 1), "badRange"),
        (LineEdit("delete", 3, 2), "badRange"),
        (LineEdit("replace", 5, 9, "x"), "badRange"),
        (LineEdit("replace", -1, text="x"), "badRange"),
        (LineEdit("insert", 5, text="x"), "badRange"),
        (LineEdit("insert", -1, text="x"), "badRange"),
        (LineEdit("insert", 1), "badEdit"),
        (LineEdit("insert", 1, 2, "x"), "badEdit"),
        (LineEdit("replace", 1), "badEdit"),
        (LineEdit("delete", 1, text="x"), "badEdit"),
        (LineEdit("replace", 1, text="a"), "noChange"),
    ],
)
def test_edits_that_make_no_sense_are_refused(edit, code):
    """EDIT-24."""
    with pytest.raises(ToolError) as refusal:
        apply_edits(decode("f", b"a\nb\nc\nd\n"), [edit])
    assert refusal.value.code == code


def test_nothing_can_be_deleted_from_an_empty_file():
    with pytest.raises(ToolError, match="has no lines"):
        apply_edits(decode("f", b""), [LineEdit("delete", 1)])


@pytest.mark.parametrize(
    "edits",
    [
        [LineEdit("replace", 1, 2, "x"), LineEdit("delete", 2)],
        [LineEdit("replace", 1, 3, "x"), LineEdit("insert", 2, text="y")],
        [LineEdit("delete", 2), LineEdit("delete", 2)],
    ],
)
def test_overlapping_edits_are_refused(edits):
    with pytest.raises(ToolError) as refusal:
        apply_edits(decode("f", b"a\nb\nc\n"), edits)
    assert refusal.value.code == "overlap"


def test_edits_that_touch_keep_their_order():
    edits = [LineEdit("insert", 2, text="2b"), LineEdit("replace", 2, text="B"), LineEdit("insert", 1, text="1b")]
    change = apply_edits(decode("f", b"a\nb\nc\n"), edits).change
    assert change.after_text == "a\n1b\nB\n2b\nc\n"
    assert len(change.changes) == 1


def test_a_snippet_shows_the_ends_of_a_long_change():
    lines = [f"l{number}" for number in range(1, 101)]
    edited = apply_edits(decode("f", b"x\n"), [LineEdit("replace", 1, text="\n".join(lines))])
    shown = snippet(edited.excerpt, edited.hunks)
    assert shown.shown == ((1, 12), (89, 100))
    assert shown.text.split("\n")[11:14] == ["   12\tl12", "  ...", "   89\tl89"]
