"""The ledger of shown lines."""

from tinsmith.workspace.diff import Hunk
from tinsmith.workspace.ledger import Ledger


def test_lines_are_shown_to_one_conversation_of_one_text():
    ledger = Ledger()
    ledger.shown("c", "/f", "h1", "text", [(1, 3), (5, 6)])
    assert not ledger.missing("c", "/f", "h1", [(2, 3), (6, 6)])
    assert ledger.missing("c", "/f", "h1", [(3, 7)]) == ((4, 4), (7, 7))
    assert ledger.missing("child", "/f", "h1", [(1, 1)])
    assert ledger.missing("c", "/f", "h2", [(1, 1)])


def test_shown_lines_follow_a_change():
    ledger = Ledger()
    ledger.shown("c", "/f", "h1", "old", [(1, 10)])
    ledger.follow("c", "/f", "h1", ("h2", "new"), [Hunk(3, 5, 3, 4)])
    assert ledger.missing("c", "/f", "h2", [(1, 12)]) == ((4, 4), (10, 12))
    assert ledger.text("c", "/f", "h2") == "new"


def test_nothing_follows_from_a_text_that_was_not_shown():
    ledger = Ledger()
    ledger.follow("c", "/f", "h1", ("h2", "new"), [])
    assert ledger.missing("c", "/f", "h2", [(1, 1)])


def test_the_oldest_texts_are_forgotten():
    ledger = Ledger(max_characters=25)
    for number in range(3):
        ledger.shown("c", f"/{number}", "h", "0123456789", [(1, 1)])
    ledger.shown("c", "/1", "h", "0123456789", [(2, 2)])
    ledger.shown("c", "/3", "h", "0123456789", [(1, 1)])
    known = [number for number in range(4) if not ledger.missing("c", f"/{number}", "h", [(1, 1)])]
    assert known == [1, 3]
