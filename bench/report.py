"""The table for a person, and a line of figures for whoever compares runs."""

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.facts import Fact
from bench.rows import ROWS, Row
from bench.scenarios import Samples


def table(server: Samples, floor: Samples) -> str:
    """One line a row: the server's median, least and most, the floor's, the ratio, and the aim with how it was met."""
    lines = [_line("", "median", "min", "max", "floor", "ratio", "aim")]
    for row in ROWS:
        samples = server[row.samples]
        if not samples:  # no rg here
            continue
        value, least = value_of(row, samples), value_of(row, floor[row.floor or row.samples])
        ratio = f"{value / least:.1f}" if least else ""
        aim = "" if row.aim is None else _aim(value, row.aim)
        if least and row.ratio_aim is not None:
            aim = f"{_aim(value / least, row.ratio_aim)} x"
        name = f"{row.title}, {row.unit}" if row.unit else row.title
        lines.append(_line(name, *(_shown(each) for each in (value, min(samples), max(samples), least)), ratio, aim))
    return "\n".join(lines)


def value_of(row: Row, samples: Sequence[float]) -> float:
    """The percentile of the samples that the row shows, 0 without any."""
    if not samples:
        return 0
    if row.percentile == 50:
        return statistics.median(samples)
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, len(ordered) * row.percentile // 100)]


def keep(directory: Path, server: Samples, floor: Samples, facts: Sequence[Fact]) -> None:
    """Add one JSON line to the results: when, on what, and every row."""
    figures = {
        row.title: {
            "unit": row.unit,
            "value": value_of(row, server[row.samples]),
            "min": min(server[row.samples]),
            "max": max(server[row.samples]),
            "count": len(server[row.samples]),
            "floor": value_of(row, floor[row.floor or row.samples]),
        }
        for row in ROWS
        if server[row.samples]
    }
    line = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
        "wrong": [fact.text for fact in facts if not fact.holds],
        "rows": figures,
    }
    directory.mkdir(exist_ok=True)
    with (directory / "runs.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _aim(value: float, aim: float) -> str:
    return f"{'≤' if value <= aim else 'not ≤'} {aim:g}"


def say(text: str) -> None:
    """Show text to whoever runs this."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _line(name: str, *cells: str) -> str:
    return f"{name:<40}" + "".join(f"{cell:>11}" for cell in cells)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.{2 if value < 10 else 1}f}"
