"""What must hold on every machine: counts, not times."""

import re
import tempfile
from pathlib import Path
from typing import NamedTuple

from bench.client import Agent, Client
from bench.scenarios import Samples, growth

LATE = ("pygls", "lsprotocol", "pydantic")
"""Packages that nobody waits for before the first conversation."""
FIRST_REQUEST = 8_000
GROWTH = 8.0
"""MB that ten streamed answers and their store may add."""


class Fact(NamedTuple):
    """A sentence with the number that was seen, and whether it is as it must be."""

    text: str
    holds: bool


def check_facts(server: Agent, samples: Samples) -> list[Fact]:
    """Each fact, from the samples of a whole run and one more start."""
    early = early_imports(server)
    overheads = sorted(set(samples["delta bytes"]))
    connections = max(samples["connections"])
    size = max(samples["first request"])
    more = growth(samples["memory, after streams"])
    left = max(samples["processes left"])
    return [
        Fact(f"before the first conversation none of {', '.join(LATE)} is imported: {early or 'none'}", not early),
        Fact(f"a conversation uses one connection: {connections:.0f}", connections == 1),
        Fact(f"a delta costs constant bytes beside its text and digits: {overheads}", len(overheads) == 1),
        Fact(f"the first request has at most {FIRST_REQUEST:,} bytes: {size:,.0f}", size <= FIRST_REQUEST),
        Fact(f"ten streams add at most {GROWTH:g} MB: {more:.1f}", more <= GROWTH),
        Fact(f"a cancelled command leaves no process: {left:.0f}", left == 0),
    ]


def early_imports(server: Agent) -> list[str]:
    """Which of LATE a server that knows its settings has imported when the first conversation is open."""
    told = server._replace(environment={**server.environment, "PYTHONPROFILEIMPORTTIME": "1"})
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "imports"
        with Client(told, errors=report) as client:
            client.initialize()
            client.converse()
            imported = set(re.findall(r"\| +(\w+)$", report.read_text(), re.MULTILINE))
    return [name for name in LATE if name in imported]
