"""The store: a round's commit beside a bare LMDB transaction of the same bytes, and a large store that is looked into.

As a program, run by the installed environment: `store.py fill PLACE MESSAGES` makes the store, `store.py look PLACE
TIMES` prints the samples of one process that opens it as JSON.
"""

import asyncio
import json
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.scenarios import Samples

RECORDS, SIZE = 40, 2_000
"""Of one round, and the characters of each."""
LONG = 100_000
"""Messages of one conversation, where there are as many; the others have 500 each."""
_USUAL = 0.5
"""The share of common words."""
_COMMON = ("the", "and", "return", "self", "file", "line", "error", "value", "name", "test")
_MIX = (
    *("needle7", "needle123", "needle40 the", "zebraword"),  # rare, and rare beside common
    *("return ", "the file ", "error ", "self value "),  # common
    *("retu", "err*", "word1", "needle1", "the val"),  # beginnings
    *('"the file"', "parse word12 ", "wordPart"),  # a phrase, parts of identifiers
)


def measure_store(
    python: Path, place: Path, environment: Mapping[str, str], messages: int, times: int, samples: "Sequence[Samples]"
) -> None:
    """Add samples of the server's store; to the floor's, those of bare LMDB and of a small store."""

    def run(*arguments: str) -> Any:
        command = (python, __file__, *arguments)
        done = subprocess.run(command, env=dict(environment), capture_output=True, check=True)
        return json.loads(done.stdout)

    server, floor = samples
    small, large = str(place / "small store"), str(place / "large store")
    run("fill", small, "1000")
    server["index share"].append(run("fill", large, str(messages)))
    for store, memory in ((floor, small), (server, large)):
        told = run("look", memory, str(times))
        store["store memory"] += told.pop("memory")
        if store is server:
            for row in ("open store", "last items", "search"):
                store[row] += told[row]
    told = run("commit", str(place / "commits"), str(20 * times))
    server["commit"] += told["ours"]
    floor["commit"] += told["bare"]


class Texts:
    """Messages of common words, thousands of rarer ones and identifiers, the same every time."""

    def __init__(self) -> None:
        self._chance = random.Random(1)  # noqa: S311  texts, not secrets
        rarer = [f"word{number}" for number in range(8_000)] + [f"wordPart{number}" for number in range(2_000)]
        choose = self._chance.choice
        self._paragraphs = [
            " ".join(choose(_COMMON if self._chance.random() < _USUAL else rarer) for _ in range(80))
            for _ in range(3_000)
        ]

    def make(self, number: int) -> str:
        """The text of a message; every 5,000th holds the same needle."""
        paragraphs = self._chance.sample(self._paragraphs, 4)
        return f"{' '.join(paragraphs)[: SIZE - 20]} needle{number % 5_000} parse"


def _fill(place: str, messages: int) -> float:
    """Make the store; bytes of its index for each byte of text."""
    from tinsmith.domain.conversation import Conversation
    from tinsmith.domain.ids import message_id, now_ms
    from tinsmith.domain.message import TextPart, UserMessage
    from tinsmith.store.env import Environment
    from tinsmith.store.migrate import check, prepare
    from tinsmith.store.session import Session

    environment = Environment(place, prepare, check, map_size=1 << 34, map_limit=1 << 40)
    texts, now, total = Texts(), now_ms(), 0

    def add(session: Session, numbers: range) -> None:
        nonlocal total
        for number in numbers:
            conversation, ordinal = (0, number) if number < LONG else divmod(number - LONG, 500)
            identifier = f"c_{conversation:020}"
            if ordinal == 0:
                session.conversations.put(Conversation(identifier, f"/w{conversation % 5}", now, now, "title"))
            text = texts.make(number)
            total += len(text)
            message = UserMessage(message_id(ordinal), "t", (TextPart(text),), now - (messages - number) * 60_000)
            session.messages.put(identifier, message)

    for first in range(0, messages, 5_000):
        numbers = range(first, min(first + 5_000, messages))
        environment.write(lambda transaction, numbers=numbers: add(Session(transaction), numbers))
    while environment.write(lambda transaction: Session(transaction).search.fold()):
        pass
    environment.close()
    return _pages(place) * 4096 / total


def _pages(place: str) -> int:
    """Pages of the index."""
    import lmdb

    with lmdb.open(place, max_dbs=64, readonly=True) as environment, environment.begin() as transaction:
        told = transaction.stat(environment.open_db(b"message_search", txn=transaction, create=False))
    return told["branch_pages"] + told["leaf_pages"] + told["overflow_pages"]


def _look(place: str, times: int) -> dict[str, Any]:
    """Open the store and look into it, in a process that has done nothing before; milliseconds and MB."""
    from tinsmith.store import Store

    samples: dict[str, list[float]] = defaultdict(list)

    def timed(row: str, work: Callable[[], Any]) -> Any:
        begun = time.perf_counter()
        done = work()
        samples[row].append(1000 * (time.perf_counter() - begun))
        return done

    for _ in range(times):
        store = timed("open store", lambda: Store.open(place))
        asyncio.run(store.close())
    store = Store.open(place)
    conversation = f"c_{0:020}"
    for _ in range(3):
        store.read(lambda session: session.messages.last(conversation, 50))
    before = _private_memory()
    for _ in range(times):
        timed("last items", lambda: store.read(lambda session: session.messages.last(conversation, 50)))
        for query in _MIX:
            timed("search", lambda query=query: store.read(lambda session: session.search.find(query)))
    return {**samples, "memory": [_private_memory() - before]}


def _private_memory() -> float:
    """MB of this process that are not pages of files."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) / 1000


async def _commit(place: str, times: int) -> dict[str, list[float]]:
    """Rounds into our store and into bare LMDB, in turns; milliseconds."""
    import lmdb

    from tinsmith.domain.ids import message_id
    from tinsmith.domain.message import TextPart, UserMessage
    from tinsmith.store import Store
    from tinsmith.store.codec import encode_key, encode_record

    samples: dict[str, list[float]] = {"ours": [], "bare": []}
    texts = Texts()
    store = Store.open(f"{place}/ours")
    with lmdb.open(f"{place}/bare", map_size=1 << 30) as bare:
        for turn in range(times):
            numbers = range(turn * RECORDS, (turn + 1) * RECORDS)
            messages = [UserMessage(message_id(number), "t", (TextPart(texts.make(number)),)) for number in numbers]
            rows = [(encode_key("c_1", message.message_id), encode_record(message)) for message in messages]
            begun = time.perf_counter()
            await store.write(lambda session, some=messages: [session.messages.put("c_1", each) for each in some])
            between = time.perf_counter()
            with bare.begin(write=True) as transaction:
                for key, value in rows:
                    transaction.put(key, value)
            samples["ours"].append(1000 * (between - begun))
            samples["bare"].append(1000 * (time.perf_counter() - between))
    await store.close()
    return samples


if __name__ == "__main__":
    task, directory, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    told = (
        asyncio.run(_commit(directory, count))
        if task == "commit"
        else {"fill": _fill, "look": _look}[task](directory, count)
    )
    sys.stdout.write(json.dumps(told))
