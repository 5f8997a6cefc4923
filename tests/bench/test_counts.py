"""The benchmark's deterministic half: counts of the real server, which hold on any machine."""

import sys
from pathlib import Path

from bench.decoding import long_answer
from bench.facts import check_facts, early_imports
from bench.program import Repeats, measure, stage

ONCE = Repeats(starts=1, prompts=0, tools=1, relays=0, cancels=1)


def test_every_fact_holds():
    with stage(Path(sys.prefix)) as (server, _, provider):
        samples = measure(Path(sys.executable), [server], provider, ONCE)[server.name]
        assert [fact.text for fact in check_facts(server, samples) if not fact.holds] == []


def test_a_package_that_is_imported_too_early_is_named():
    with stage(Path(sys.prefix)) as (server, _, _):
        assert early_imports(server) == ["pydantic"]  # these settings were never seen, so they are checked
        assert early_imports(server) == []


def test_a_long_answer_of_small_deltas_keeps_nothing_but_its_text():
    kept, text = long_answer()
    assert text > 300_000
    assert kept < 1.05 * text
