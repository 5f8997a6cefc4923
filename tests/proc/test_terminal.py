"""What stays on the screen (SH-20)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.proc.terminal import plain


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        ("\x1b[31mred\x1b[0m\x1b]0;title\x07\n10%\r55%\r100%\n", "red\n100%\n"),
        ("a\r\nb\r\r\n", "a\nb\n"),
        ("50%\r\x1b[Kdone\r\n", "done\n"),
        ("half\x1b[3", "half"),
        ("half\x1b]0;tit", "half"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0;2\x1b\\after", "after"),
        ("\x1b(B\x1b[mtext", "text"),
        ("abc\b\b\bxyz", "xyz"),
        ("tab\tfeed\f bell\x07 nul\0", "tab\tfeed\f bell nul\u2400"),
    ],
)
def test_only_the_last_drawing_is_seen(raw, seen):
    assert plain(raw) == seen


@given(st.text(alphabet="ab\n\t\r\b\x1b[]0;mP\\\x07\x00", max_size=60))
def test_no_control_gets_through_and_no_line_is_lost(raw):
    seen = plain(raw)
    assert not set(seen) & {"\x1b", "\r", "\b", "\0", "\x07"}
    if "\x1b" not in raw:
        assert seen.count("\n") == raw.count("\n")
    assert plain(seen) == seen


def test_a_long_line_costs_no_more_than_its_length():
    assert plain("\r" + "a" * 1_000_000 + "\n" + "\b" * 1_000_000 + "\n") == "a" * 1_000_000 + "\n\n"
