"""What differs between two texts, line by line: hunks, and what follows from them. Pure."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

LineRange = tuple[int, int]
"""First and last line, 1-based, inclusive."""

CONTEXT = 3
"""Unchanged lines that are shown around changed ones."""
_COMPARABLE = 1_000_000
"""Pairs of lines that one diff compares; larger regions are split at lines that both texts have, or stay whole."""


class Hunk(NamedTuple):
    """Lines `[old, old_end)` of one text became `[new, new_end)` of the other; 0-based, half-open."""

    old: int
    old_end: int
    new: int
    new_end: int


class Diff(NamedTuple):
    """A unified diff. `shown` are the lines of the newer text that it holds; `added` and `removed` count lines."""

    text: str
    added: int
    removed: int
    shown: tuple[LineRange, ...]


def hunks_between(before: Sequence[str], after: Sequence[str]) -> tuple[Hunk, ...]:
    """The changed regions, in order; between them lines are equal."""
    shorter = min(len(before), len(after))
    head = next((i for i in range(shorter) if before[i] != after[i]), shorter)
    tail = next((i for i in range(shorter - head) if before[-1 - i] != after[-1 - i]), shorter - head)
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    if not old or not new:
        return (Hunk(head, head + len(old), head, head + len(new)),) if old or new else ()
    hunks: list[Hunk] = []
    budget = _COMPARABLE
    regions = [Hunk(0, len(old), 0, len(new))] if len(old) * len(new) <= budget else _between_anchors(old, new)
    for region in regions:
        budget -= (region.old_end - region.old) * (region.new_end - region.new)
        hunks += _compared(old, new, region) if budget >= 0 else [region]
    return tuple(Hunk(head + a, head + b, head + c, head + d) for a, b, c, d in hunks)


def unified(
    before: Sequence[str],
    after: Sequence[str],
    label: str,
    *,
    within: Sequence[Hunk] | None = None,
    skipped: int = 0,
    context: int = CONTEXT,
    limit: int = 200_000,
) -> Diff:
    """A unified diff with `context` unchanged lines around each hunk, cut at a line after `limit` characters.

    `within` are regions outside of which the texts are known to be equal. Above the lines that are given, both texts
    have the same `skipped` lines, which count in all line numbers.
    """
    whole = Hunk(skipped, skipped + len(before), skipped, skipped + len(after))
    regions = [Hunk(*(number - skipped for number in region)) for region in ([whole] if within is None else within)]
    hunks = [
        Hunk(a + region.old, b + region.old, c + region.new, d + region.new)
        for region in regions
        for a, b, c, d in hunks_between(before[region.old : region.old_end], after[region.new : region.new_end])
    ]
    rows: list[tuple[str, int]] = [(f"--- a/{label}", 0), (f"+++ b/{label}", 0)] if hunks else []
    for group in _groups(hunks, context):
        first, last = group[0], group[-1]
        old, new = max(0, first.old - context), max(0, first.new - context)
        old_end = min(len(before), last.old_end + context)
        new_end = min(len(after), last.new_end + context)
        extents = (_extent(skipped + old, skipped + old_end), _extent(skipped + new, skipped + new_end))
        rows.append((f"@@ -{extents[0]} +{extents[1]} @@", 0))
        for hunk in group:
            rows += ((f" {after[i]}", skipped + i + 1) for i in range(new, hunk.new))
            rows += ((f"-{before[i]}", 0) for i in range(hunk.old, hunk.old_end))
            rows += ((f"+{after[i]}", skipped + i + 1) for i in range(hunk.new, hunk.new_end))
            new = hunk.new_end
        rows += ((f" {after[i]}", skipped + i + 1) for i in range(new, new_end))
    text, kept = _cut(rows, limit)
    return Diff(
        text,
        sum(hunk.new_end - hunk.new for hunk in hunks),
        sum(hunk.old_end - hunk.old for hunk in hunks),
        merged((number, number) for _, number in rows[:kept] if number),
    )


def carried(ranges: Iterable[LineRange], hunks: Sequence[Hunk]) -> tuple[LineRange, ...]:
    """The unchanged lines of `ranges` under the numbers that they have after `hunks`."""
    kept: list[LineRange] = []
    for start, end in ranges:
        begin, shift = start - 1, 0
        for hunk in hunks:
            if hunk.old_end <= begin:
                shift = hunk.new_end - hunk.old_end
            elif hunk.old < end:
                if hunk.old > begin:
                    kept.append((begin + 1 + shift, hunk.old + shift))
                begin, shift = max(begin, hunk.old_end), hunk.new_end - hunk.old_end
        if begin < end:
            kept.append((begin + 1 + shift, end + shift))
    return merged(kept)


def merged(ranges: Iterable[LineRange]) -> tuple[LineRange, ...]:
    """The same lines as the fewest ranges, in order; empty ranges vanish."""
    result: list[LineRange] = []
    for start, end in sorted(ranges):
        if result and start <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        elif start <= end:
            result.append((start, end))
    return tuple(result)


def missing_from(ranges: Iterable[LineRange], wanted: LineRange) -> tuple[LineRange, ...]:
    """The parts of `wanted` that merged `ranges` do not cover."""
    start, end = wanted
    gaps: list[LineRange] = []
    for first, last in ranges:
        if last < start or first > end:
            continue
        if first > start:
            gaps.append((start, first - 1))
        start = max(start, last + 1)
    return (*gaps, (start, end)) if start <= end else tuple(gaps)


def _compared(old: Sequence[str], new: Sequence[str], region: Hunk) -> list[Hunk]:
    from difflib import SequenceMatcher

    a, b, c, d = region
    opcodes = SequenceMatcher(None, old[a:b], new[c:d], autojunk=False).get_opcodes()
    return [Hunk(a + i, a + j, c + k, c + m) for tag, i, j, k, m in opcodes if tag != "equal"]


def _between_anchors(old: Sequence[str], new: Sequence[str]) -> list[Hunk]:
    """The regions between lines that occur equally often in both texts and in the same order.

    After the patience diff, which takes the lines that occur once; here the n-th stands for the n-th.
    """
    counts, others = Counter(old), Counter(new)
    common = {line for line, count in counts.items() if others[line] == count}
    places = dict(_occurrences(new, common))
    pairs = [(place, places[occurrence]) for occurrence, place in _occurrences(old, common)]
    regions: list[Hunk] = []
    a = c = 0
    for b, d in [*_rising(pairs), (len(old), len(new))]:
        if a < b or c < d:
            regions.append(Hunk(a, b, c, d))
        a, c = b + 1, d + 1
    return regions


def _occurrences(lines: Sequence[str], wanted: AbstractSet[str]) -> Iterator[tuple[tuple[str, int], int]]:
    seen: Counter[str] = Counter()
    for place, line in enumerate(lines):
        if line in wanted:
            seen[line] += 1
            yield (line, seen[line]), place


def _rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs whose second numbers rise like the first ones do (patience sorting)."""
    tops: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for index, (_, second) in enumerate(pairs):
        pile = bisect_left(tops, second)
        before.append(ends[pile - 1] if pile else -1)
        tops[pile : pile + 1] = [second]
        ends[pile : pile + 1] = [index]
    chain: list[tuple[int, int]] = []
    index = ends[-1] if ends else -1
    while index >= 0:
        chain.append(pairs[index])
        index = before[index]
    return chain[::-1]


def _groups(hunks: Sequence[Hunk], context: int) -> list[list[Hunk]]:
    groups: list[list[Hunk]] = []
    for hunk in hunks:
        if groups and hunk.old - groups[-1][-1].old_end <= 2 * context:
            groups[-1].append(hunk)
        else:
            groups.append([hunk])
    return groups


def _extent(start: int, end: int) -> str:
    count = end - start
    return f"{start + 1 if count else start},{count}"


def _cut(rows: Sequence[tuple[str, int]], limit: int) -> tuple[str, int]:
    size = 0
    for kept, (row, _) in enumerate(rows):
        size += len(row) + 1
        if size > limit:
            return "\n".join([*(row for row, _ in rows[:kept]), f"[{len(rows) - kept} more lines of diff]", ""]), kept
    return "".join(f"{row}\n" for row, _ in rows), len(rows)
