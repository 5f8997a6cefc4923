"""The verdict over many kills, from what the provider was sent, what the clients were told, and the files alone."""

import json
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import lmdb
from tests.wire.crash.bodies import Entry

FATES = {
    "exit: 0\n": "done",
    "hash: ": "done",
    "Not run: ": "not run",
    "The user declined": "not run",
    "Interrupted: ": "unknown",
    "cancelled\n": "unknown",
}
"""What the beginning of a result says of its call."""
ALLOWED = {"done": {1}, "not run": {0}, "unknown": {0, 1}, "untold": set[int]()}
"""How often it may have been done then."""


@dataclass
class Told:
    """What one turn's clients heard of it, over all servers."""

    conversation: str
    text: str
    is_accepted: bool = False
    answers: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)


@dataclass
class Evidence:
    """Everything that a verdict is made from.

    `was_full` says that an end may have been announced which could not be stored. `sent` holds the histories of each
    conversation in the order of the requests, `issued` the conversation in which the provider asked for each mark,
    `told` what was heard of each turn, by its id; `faults` are what was seen to be wrong at once.
    """

    workspace: Path
    store: Path
    was_full: bool = False
    sent: dict[str, list[list[Entry]]] = field(default_factory=dict)
    issued: dict[str, str] = field(default_factory=dict)
    told: dict[str, Told] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def verdict(evidence: Evidence) -> list[str]:
    """What is wrong, in sentences; every conversation must have been gone on with after its last kill."""
    return [
        *evidence.faults,
        *_lost(evidence),
        *_misjudged_calls(evidence),
        *_misjudged_turns(evidence),
        *_ends(evidence),
    ]


def figures(evidence: Evidence) -> dict[str, int]:
    """How much was looked at."""
    fates = Counter(_fate(result) for *_, result in _calls(evidence))
    return {
        "turns": len(evidence.told),
        "accepted": sum(told.is_accepted for told in evidence.told.values()),
        "requests": sum(len(histories) for histories in evidence.sent.values()),
        "calls asked for": len(evidence.issued),
        **{f"calls {fate}": fates[fate] for fate in ALLOWED},
    }


def _lost(evidence: Evidence) -> list[str]:
    """A history only ever grows."""
    return [
        f"{conversation}: request {number + 1} does not go on from request {number}: {before[-3:]} and {after[-3:]}"
        for conversation, histories in evidence.sent.items()
        for number, (before, after) in enumerate(pairwise(histories))
        if after[: len(before)] != before
    ]


def _calls(evidence: Evidence) -> list[tuple[str, str, str]]:
    """(tool, mark, result) of every call in the final histories."""
    return [
        (name, _mark(name, arguments), result)
        for histories in evidence.sent.values()
        for kind, *rest in histories[-1]
        if kind == "call"
        for name, arguments, result in [rest]
    ]


def _mark(name: str, arguments: dict[str, Any]) -> str:
    text: str = arguments["command"] if name == "bash" else arguments["content"]
    return text.split()[1] if name == "bash" else text.strip()


def _fate(result: str) -> str:
    return next((fate for start, fate in FATES.items() if result.startswith(start)), "untold")


def _misjudged_calls(evidence: Evidence) -> list[str]:
    """What a result says of a call, and what the files say: nothing runs twice, and nothing is told untruly."""
    log = evidence.workspace / "log.txt"
    lines = Counter(log.read_text().split() if log.exists() else [])
    made = {path.stem for path in (evidence.workspace / "made").glob("*.txt")}
    wrong: list[str] = []
    known: dict[str, set[str]] = {"bash": set(), "write": set()}
    for name, mark, result in _calls(evidence):
        if name not in known:
            continue
        if mark in known[name]:
            wrong.append(f"{name} {mark} stands twice in a history")
        known[name].add(mark)
        times = lines[mark] if name == "bash" else int(mark in made)
        if times not in ALLOWED[_fate(result)]:
            wrong.append(f"{name} {mark} was done {times} times, and its result says {result!r}")
    wrong += [f"bash {mark} was done and stands in no history" for mark in lines.keys() - known["bash"]]
    wrong += [f"write {mark} was done and stands in no history" for mark in made - known["write"]]
    wrong += [f"{mark} was done {times} times" for mark, times in lines.items() if times > 1]
    wrong += [f"{mark} was never asked for" for mark in lines.keys() - evidence.issued.keys()]
    return wrong


def _misjudged_turns(evidence: Evidence) -> list[str]:
    """What a client was told of a turn is in the history that goes on from it."""
    wrong: list[str] = []
    for turn_id, told in evidence.told.items():
        final = evidence.sent[told.conversation][-1]
        times = final.count(("user", told.text))
        if times > 1 or (told.is_accepted and times == 0):
            wrong.append(f"{turn_id}: its message is there {times} times")
        texts = {entry[1] for entry in final if entry[0] == "said"}
        results = {entry[3] for entry in final if entry[0] == "call"}
        wrong += [f"{turn_id}: the answer {text!r} was told and is lost" for text in told.answers if text not in texts]
        wrong += [
            f"{turn_id}: the result {text!r} was told and is lost" for text in told.results if text not in results
        ]
    return wrong


def _ends(evidence: Evidence) -> list[str]:
    """Each turn that was accepted has one end in the store, and it is the one that was told."""
    environment = lmdb.open(str(evidence.store), max_dbs=64, readonly=True)
    with environment.begin() as transaction:
        records = [
            json.loads(value)
            for _, value in transaction.cursor(environment.open_db(b"turn", transaction, create=False))
        ]
    environment.close()
    stored = Counter(record["turn_id"] for record in records)
    outcomes = {record["turn_id"]: record.get("outcome") for record in records}
    wrong = [f"{name}: it has no end" for name, outcome in outcomes.items() if outcome is None]
    for turn_id, told in evidence.told.items():
        if stored[turn_id] > 1 or (told.is_accepted and stored[turn_id] == 0):
            wrong.append(f"{turn_id}: {stored[turn_id]} records")
        is_unstored = evidence.was_full and outcomes.get(turn_id) == "interrupted" and len(told.ends) <= 2
        if not is_unstored and (len(told.ends) > 1 or set(told.ends) - {outcomes.get(turn_id)}):
            wrong.append(f"{turn_id}: told as {told.ends}, stored as {outcomes.get(turn_id)}")
    return wrong
