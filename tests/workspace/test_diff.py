"""Hunks and what follows from them."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.workspace.diff import carried, hunks_between, merged, missing_from, unified

lines = st.lists(st.sampled_from("abc"), max_size=12)
ranges = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), max_size=5)


def numbers(parts):
    return {number for start, end in parts for number in range(start, end + 1)}


@given(lines, lines)
def test_hunks_rebuild_the_newer_text(before, after):
    rebuilt, position = [], 0
    for hunk in hunks_between(before, after):
        rebuilt += before[position : hunk.old] + after[hunk.new : hunk.new_end]
        position = hunk.old_end
    assert rebuilt + before[position:] == after


@given(lines, lines, ranges)
def test_carried_lines_are_the_same_lines(before, after, parts):
    parts = [(start, min(end, len(before))) for start, end in parts]
    hunks = hunks_between(before, after)
    kept = carried(merged(parts), hunks)
    untouched = [i for i in range(1, len(before) + 1) if not any(h.old < i <= h.old_end for h in hunks)]
    assert len(numbers(kept)) == len(numbers(parts) & set(untouched))
    assert [after[i - 1] for i in sorted(numbers(kept))] == [before[i - 1] for i in untouched if i in numbers(parts)]


@given(ranges, st.tuples(st.integers(1, 12), st.integers(1, 12)))
def test_what_is_missing_is_what_is_not_covered(parts, wanted):
    assert numbers(missing_from(merged(parts), wanted)) == numbers([wanted]) - numbers(parts)


@given(lines, lines)
def test_a_diff_shows_the_lines_it_says_it_shows(before, after):
    diff = unified(before, after, "f", context=1)
    rows = [row[1:] for row in diff.text.split("\n")[2:] if row and row[0] in " +"]
    assert rows == [after[i - 1] for i in sorted(numbers(diff.shown))]
    assert diff.added - diff.removed == len(after) - len(before)


def test_the_form_of_a_diff():
    diff = unified(["a", "b", "c", "d", "e"], ["a", "B", "c", "d", "e", "f"], "x.py", context=1)
    assert diff == (
        "--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n@@ -5,1 +5,2 @@\n e\n+f\n",
        2,
        1,
        ((1, 3), (5, 6)),
    )


def test_a_long_diff_is_cut_at_a_line():
    diff = unified([], [f"line {number}" for number in range(1000)], "f", limit=100)
    assert len(diff.text) < 160
    assert diff.text.endswith("more lines of diff]\n")
    assert diff.added == 1000


def test_distant_changes_of_a_large_text_stay_apart():
    before = [f"line {number % 9000}" for number in range(20_000)]
    after = [*before[:10], "new", *before[11:15_000], "x", "y", *before[15_000:18_000], *before[18_001:]]
    assert hunks_between(before, after) == (
        (10, 11, 10, 11),
        (15_000, 15_000, 15_000, 15_002),
        (18_000, 18_001, 18_002, 18_002),
    )


@pytest.mark.parametrize("kind", ["all new", "shuffled", "few words"])
def test_no_pair_of_large_texts_costs_much(kind):
    order = random.Random(1)
    before = [f"a{number}" for number in range(50_000)]
    after = {
        "all new": [f"b{number}" for number in range(50_000)],
        "shuffled": order.sample(before, len(before)),
        "few words": order.choices(["a", "b", "", "c"], k=50_000),
    }[kind]
    before = order.choices(["a", "b", "", "c"], k=50_000) if kind == "few words" else before
    started = time.process_time()
    rebuilt, position = [], 0
    for hunk in hunks_between(before, after):
        rebuilt += before[position : hunk.old] + after[hunk.new : hunk.new_end]
        position = hunk.old_end
    assert rebuilt + before[position:] == after
    assert time.process_time() - started < 2
