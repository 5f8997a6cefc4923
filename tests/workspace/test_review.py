"""Hunks followed through edits: undo gives back what was there, and nobody's own line is ever taken."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.domain.change import ReviewedHunk
from tinsmith.workspace.review import (
    begun,
    edited,
    followed,
    hunks_of,
    kept,
    lost,
    undoing,
    undone,
)


def open_ids(review):
    return {each.hunk_id for each in review.open}


def states(review):
    return {hunk.hunk_id: hunk.state for hunk in hunks_of(review)}


def without(review, hunk_ids=None):
    """The text after an undo of these hunks, of all that are open by default; both ways to it agree."""
    chosen = open_ids(review) if hunk_ids is None else hunk_ids
    text = review.text
    for change in reversed(undoing(review, chosen)):
        text = text[: change.start] + change.text + text[change.end :]
    assert text == undone(review, chosen).text
    return text


def check(review):
    """What always holds: sorted disjoint hunks, and two texts that are the same outside of them."""
    base = now = 0
    for each in review.open:
        assert review.base[base : each.base] == review.now[now : each.now]
        assert each.base <= each.base_end
        assert each.now <= each.now_end
        base, now = each.base_end, each.now_end
    assert review.base[base:] == review.now[now:]
    assert len(review.origins) == len(review.base)
    known = [origin for origin in review.origins if origin >= 0]
    assert known == sorted(set(known))
    assert without(review) == "".join(review.base)


def test_edits_of_one_place_are_one_hunk_against_the_text_at_the_start():
    review = edited(edited(begun("a\nb\nc\n"), "a\nB\nc\n", "f1"), "a\nB!\nextra\nc\n", "f2")
    assert hunks_of(review) == (ReviewedHunk("f1.0", "open", (1, 2), (1, 3)),)
    assert without(review) == "a\nb\nc\n"


def test_an_edit_that_takes_itself_back_leaves_nothing():
    review = edited(edited(begun("a\nb\n"), "a\nB\n", "f1"), "a\nb\n", "f2")
    assert hunks_of(review) == ()


def test_lines_of_the_user_between_two_edits_are_not_the_agents():
    review = edited(begun("a\nb\nc\n"), "A\nb\nc\n", "f1")
    review = followed(review, "A\nb\nmine\nc\n")
    review = edited(review, "A\nb\nmine\nC\n", "f2")
    assert hunks_of(review) == (
        ReviewedHunk("f1.0", "open", (0, 1), (0, 1)),
        ReviewedHunk("f2.0", "open", (2, 3), (3, 4)),
    )
    assert without(review) == "a\nb\nmine\nc\n"


def test_an_agent_that_replaces_lines_of_the_user_gives_them_back():
    review = followed(begun("a\nb\n"), "a\nmine\nb\n")
    review = edited(review, "a\nyours\nb\n", "f1")
    assert hunks_of(review) == (ReviewedHunk("f1.0", "open", (1, 1), (1, 2)),)
    assert without(review) == "a\nmine\nb\n"


@pytest.mark.parametrize(
    ("typed", "state"),
    [
        ("a\nB\nmine\nc\n", "open"),
        ("mine\na\nB\nc\n", "open"),
        ("a\nB, and mine\nc\n", "gone"),
        ("a\nc\n", "gone"),
        ("a\nb\nc\n", "undone"),
        ("", "gone"),
    ],
)
def test_what_a_user_does_to_a_hunk(typed, state):
    assert states(followed(edited(begun("a\nb\nc\n"), "a\nB\nc\n", "f1"), typed)) == {"f1.0": state}


def test_where_lines_were_deleted_nobody_can_say_on_which_side_a_new_one_is():
    review = edited(begun("a\nb\nc\n"), "a\nc\n", "f1")
    assert states(followed(review, "a\nmine\nc\n")) == {"f1.0": "gone"}
    assert without(followed(review, "A\nc\nmine\n")) == "A\nb\nc\nmine\n"


def test_a_file_that_cannot_be_compared_has_lost_its_hunks():
    review = lost(edited(begun("a\n"), "b\n", "f1"))
    assert hunks_of(review) == (ReviewedHunk("f1.0", "gone", (0, 1), None),)


@pytest.mark.parametrize(
    ("found", "state"), [("x\ny\n", "open"), (None, "undone"), ("x\ny\nmine\n", "gone"), ("", "gone")]
)
def test_a_new_file_is_one_hunk_that_is_the_agents_alone(found, state):
    review = edited(edited(begun(None), "x\n", "f1"), "x\ny\n", "f2")
    assert states(followed(review, found)) == {"f1.0": state}
    assert not undone(review, {"f1.0"}).exists


def test_a_new_empty_file_is_a_hunk_as_well():
    review = edited(begun(None), "", "f1")
    assert hunks_of(review) == (ReviewedHunk("f1.0", "open", (0, 0), (0, 0)),)
    assert states(followed(review, None)) == {"f1.0": "undone"}
    assert states(followed(review, "mine")) == {"f1.0": "gone"}
    assert not undone(review, {"f1.0"}).exists


def test_a_hunk_that_was_kept_belongs_to_the_file_and_the_next_edit_there_is_another():
    review = kept(edited(begun("a\nb\n"), "a\nB\n", "f1"), {"f1.0"})
    review = edited(review, "a\nB!\n", "f2")
    assert states(review) == {"f1.0": "kept", "f2.0": "open"}
    assert without(review) == "a\nB\n"


def test_other_line_ends_in_the_editor_change_no_line():
    review = edited(begun("a\r\nb\r\nc\r\n"), "a\r\nB\r\nc\r\n", "f1")
    seen = followed(review, "a\nB\nc\nmine\n")
    assert states(seen) == {"f1.0": "open"}
    assert without(seen) == "a\nb\nc\nmine\n"


texts = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "a\r\n", "\n", "}\n"]), max_size=8).flatmap(
    lambda lines: st.sampled_from(["", "a", "end", "\r"]).map(lambda last: "".join(lines) + last)
)


@given(texts, st.lists(texts, max_size=6))
def test_without_anybody_else_undo_gives_the_exact_text_back(start, edits):
    review = begun(start)
    for number, text in enumerate(edits):
        review = edited(review, text, f"f{number}")
        check(review)
        assert followed(review, text) is review
    assert without(review) == start
    assert all(hunk.state == "open" for hunk in hunks_of(review))


@given(texts, st.lists(texts, max_size=6), st.data())
def test_each_hunk_alone_is_what_its_ranges_say(start, edits, data):
    review = begun(start)
    for number, text in enumerate(edits):
        review = edited(review, text, f"f{number}")
    before, now = begun(start).now, review.now
    for hunk in reversed(hunks_of(review)):
        if data.draw(st.booleans()):
            expected = (*now[: hunk.after[0]], *before[slice(*hunk.before)], *now[hunk.after[1] :])
            assert without(review, {hunk.hunk_id}) == "".join(expected)
            review = undone(review, {hunk.hunk_id})
        else:
            review = kept(review, {hunk.hunk_id})
        check(review)
        now = review.now
    assert not review.open


@given(st.one_of(st.none(), texts), st.lists(st.tuples(st.sampled_from("efku"), texts, st.booleans()), max_size=8))
def test_whatever_happens_both_texts_agree_and_no_hunk_is_lost_sight_of(start, steps):
    review = begun(start)
    for number, (kind, text, is_there) in enumerate(steps):
        some = set(sorted(open_ids(review))[::2])
        told = states(review)
        match kind:
            case "e":
                review = edited(review, text, f"f{number}")
            case "f":
                review = followed(review, text if is_there else None)
            case "k":
                review = kept(review, some)
            case _:
                review = undone(review, some)
        check(review)
        now = states(review)
        settled = {name for name, state in told.items() if state != "open"}
        assert all(now[name] == told[name] for name in settled)
        if kind != "e":
            assert now.keys() == told.keys()
        if kind in "ku":
            assert all(now[name] == ("kept" if kind == "k" else "undone") for name in some)
        again = undone(review, open_ids(review))
        assert not again.open
        assert undone(again, open_ids(review)) == again


@dataclass
class Model:
    """Two lists of lines that are all different: what is there, and what would be without the agent's open hunks.

    The user only touches what the agent left alone, so that the second list is known without any hunk.
    """

    start: list[str]
    now: list[str] = field(default_factory=list)
    base: list[str] = field(default_factory=list)
    count: int = 0

    def __post_init__(self):
        self.now, self.base = list(self.start), list(self.start)

    def fresh(self, author):
        self.count += 1
        return f"{author}{self.count}"

    def agent(self, at, removed, added):
        at = min(at, len(self.now))
        self.now[at : at + removed] = [self.fresh("agent") for _ in range(added)]

    def user(self, at, kind):
        """Change a line that both have, with neighbours that both have; nothing when there is none."""
        shared = [line for line in self.now if line in self.base and self.near(line) and not line.startswith("agent")]
        if not shared:
            return
        line = shared[at % len(shared)]
        for text in (self.now, self.base):
            index = text.index(line)
            if kind == "delete":
                del text[index]
            elif kind == "replace":
                text[index] = f"user{self.count}"
            else:
                text.insert(index + 1, f"user{self.count}")
        self.count += 1

    def near(self, line):
        return self.around(self.now, line) == self.around(self.base, line)

    def around(self, text, line):
        index = text.index(line)
        return (["", *text][index : index + 1], text[index + 1 : index + 2])


actions = st.one_of(
    st.tuples(st.just("agent"), st.integers(0, 9), st.integers(0, 3), st.integers(0, 3)),
    st.tuples(st.just("user"), st.integers(0, 9), st.sampled_from(["delete", "replace", "insert"])),
)


@given(st.integers(0, 9), st.lists(actions, max_size=10))
def test_a_user_who_leaves_the_hunks_alone_keeps_every_line_and_the_agents_go(size, steps):
    model = Model([f"line{number}" for number in range(size)])

    def text(lines):
        return "".join(f"{line}\n" for line in lines)

    review = begun(text(model.start))
    for number, (kind, *rest) in enumerate(steps):
        if kind == "agent":
            model.agent(*rest)
            review = edited(review, text(model.now), f"f{number}")
        else:
            model.user(*rest)
            review = followed(review, text(model.now))
        check(review)
    assert all(hunk.state == "open" for hunk in hunks_of(review))
    assert without(review) == text(model.base)


@given(
    st.integers(0, 6), st.lists(st.tuples(st.sampled_from("auku"), st.integers(0, 9), st.integers(0, 3)), max_size=10)
)
def test_no_line_of_a_user_ever_goes_by_an_undo(size, steps):
    review = begun("".join(f"line{number}\n" for number in range(size)))
    for number, (kind, at, removed) in enumerate(steps):
        lines = list(review.now)
        if kind == "a":
            lines[at : at + removed] = [f"agent{number}\n"]
            review = edited(review, "".join(lines), f"f{number}")
        elif kind == "u":
            lines[at : at + removed] = [f"user{number}\n"]
            review = followed(review, "".join(lines))
        else:
            review = kept(review, {each.hunk_id for each in review.open[:1]})
        mine = [line for line in review.now if line.startswith("user")]
        left = undone(review, open_ids(review))
        assert [line for line in left.now if line in mine] == mine
