"""A whole runtime on a real store, its provider replaced by a scripted model, its disk by one that can be held up."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from blockbuster import blockbuster_ctx
from tests.conftest import NOT_WAITING

from tinsmith.domain.errors import PersistenceError
from tinsmith.domain.event import TurnCompleted, TurnFailed
from tinsmith.domain.message import TextPart
from tinsmith.domain.ports import NoDocuments, NoPrompter
from tinsmith.runtime import open_runtime
from tinsmith.services.turns import TurnStart
from tinsmith.store import Store

AT_THE_START = (
    ("tinsmith/config/directories.py", "_named"),  # asks for the working directory once
    ("tinsmith/tools/__init__.py", "builtin_tools"),  # reads the descriptions of the tools once
    ("tinsmith/proc/identity.py", "process_start"),  # /proc is no disk
    ("tinsmith/proc/identity.py", "boot_id"),
)


@pytest.fixture(autouse=True)
def _loop_is_never_blocked():
    """As everywhere, but that a runtime may open on the loop of its test."""
    with blockbuster_ctx("tinsmith") as guard:
        for function in guard.functions.values():
            for file, name in (*NOT_WAITING, *AT_THE_START):
                function.can_block_in(file, name)
        yield


class GatedStore:
    """A store whose writes wait while `gate` is closed (`waiting` counts them) and fail while `is_full`."""

    def __init__(self, store):
        self.store = store
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = 0
        self.is_full = False

    async def write(self, closure):
        self.waiting += 1
        try:
            await self.gate.wait()
        finally:
            self.waiting -= 1
        if self.is_full:
            raise PersistenceError("storeFull", "The disk is full. Free some space.")
        return await self.store.write(closure)

    def read(self, closure):
        return self.store.read(closure)

    async def close(self):
        await self.store.close()


class House:
    """An open runtime and everything it published."""

    def __init__(self, runtime, store, workspace):
        self.runtime = runtime
        self.turns = runtime.turns
        self.store = store
        self.workspace = workspace
        self.events = []
        runtime.journal.subscribe(self.events.append)

    async def accept(self, text="go", **fields):
        return await self.turns.accept(TurnStart(self.workspace, (TextPart(text),), **fields))

    async def turn(self, text="go", **fields):
        """Run a turn to its end; its record."""
        accepted = await self.accept(text, **fields)
        self.turns.begin(accepted.turn_id)
        return await self.turns.wait(accepted.turn_id, 10)

    def ends(self, turn_id=None):
        """The ends that were announced, of one turn or of all."""
        found = [event.body.record for event in self.events if isinstance(event.body, TurnCompleted | TurnFailed)]
        return [record for record in found if turn_id in {None, record.turn_id}]

    def transcript(self, conversation_id):
        return self.runtime.conversations.transcript(conversation_id)


async def until(condition, seconds=10.0):
    """Wait until something is true."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.001)


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    return str(folder)


@pytest.fixture
def open_house(tmp_path, workspace, monkeypatch):
    """Open a runtime with this model; stores by the same name are the same on disk."""
    for name in ("DATA", "CONFIG", "CACHE"):
        monkeypatch.setenv(f"TINSMITH_{name}_DIR", str(tmp_path / name.lower()))
    monkeypatch.setenv("TINSMITH_MODEL", "scripted")

    @asynccontextmanager
    async def open_house(model, **options):
        store = GatedStore(Store.open(str(tmp_path / "store")))
        options = {"documents": NoDocuments(), "prompter": NoPrompter(), **options}
        overrides = {"permission_mode": "full", "llm_config.retry_backoff_ms": [0], **options.pop("overrides", {})}
        async with open_runtime(storage=store, llm=model, overrides=overrides, **options) as runtime:
            yield House(runtime, store, workspace)

    return open_house
