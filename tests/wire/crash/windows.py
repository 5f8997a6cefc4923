"""Editor windows that are killed again and again, on one store and one workspace, and the provider they share."""

import asyncio
import os
import random
import resource
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from tests.wire.client import Client, RpcError
from tests.wire.crash.answers import PATHS, answer
from tests.wire.crash.bodies import RefusedError, history_of
from tests.wire.crash.judge import Evidence, Told

from tinsmith.demo.server import HttpRequest, RawAnswer

Connect = Callable[..., Awaitable[Client]]
MOST_HEARD = 140
"""A kill comes after less messages of the server than this; a turn has about 60."""
LONGEST_LIFE = 3.0
"""Seconds, at most, that are waited for those messages."""
LONGEST_WAIT = 0.05
"""Seconds, at most, that a kill comes later than that."""
SPACE_LEFT = (0, 0, 4096, 32768)
"""Bytes of a full disk that are free."""
DIES_YOUNG = 0.15
"""How many are killed while they start, before they have said anything."""


class Provider:
    """Answers in the dialect it is asked in, with calls whose marks are unlike any other; notes what it is sent."""

    def __init__(self, evidence: Evidence, chance: random.Random) -> None:
        self._evidence = evidence
        self._chance = chance
        self._numbers = count(1)

    def __call__(self, request: HttpRequest) -> RawAnswer:
        try:
            history = history_of(request.path, request.body)
        except RefusedError as error:
            self._evidence.faults.append(f"{request.path} was sent what a strict server refuses: {error}")
            return RawAnswer((b'{"error": {"message": "refused"}}',), status=400, content_type="application/json")
        _, conversation, turn, rounds = next(entry for entry in reversed(history) if entry[0] == "user")[1].split()
        self._evidence.sent.setdefault(conversation, []).append(history)
        mark = f"{turn}_{next(self._numbers)}"
        newest = max(number for number, entry in enumerate(history) if entry[0] == "user")
        done = sum(entry[0] == "said" for entry in history[newest:])
        if done >= int(rounds):
            return answer(request.path, f"Done with {turn}.", (), self._chance)
        self._evidence.issued[mark] = conversation
        calls = [
            (f"b{mark}", "bash", {"command": f"echo {mark} >> log.txt"}),
            (f"w{mark}", "write", {"path": f"made/{mark}.txt", "content": f"{mark}\n"}),
            (f"c{mark}", "bash", {"command": f"echo {mark}_again | tee -a log.txt"}),
        ]
        self._evidence.issued[f"{mark}_again"] = conversation
        return answer(request.path, f"Round {done} of {turn}.", calls, self._chance)


class Conversations:
    """The conversations that all windows work in; each is given up for a new one after some turns."""

    def __init__(self, lifetime: int = 12) -> None:
        self.names = count(1)
        self.ids: dict[str, str] = {}
        self.open: dict[str, int] = {}
        self._lifetime = lifetime

    def choose(self, chance: random.Random) -> str | None:
        """One that is in use, or None for a new one."""
        names = [name for name, turns in self.open.items() if turns < self._lifetime]
        return chance.choice(names) if len(names) >= 4 else None

    def add(self, identifier: str) -> str:
        name = f"k{next(self.names)}"
        self.ids[name] = identifier
        self.open[name] = 0
        return name


class Disk(Protocol):
    """What the store is on."""

    def fill(self, pid: int, left: int) -> None:
        """Leave so many bytes, at least to the process."""
        ...

    def free(self) -> None:
        """Give it back. Idempotent."""
        ...


class SmallDisk:
    """A file system of its own, filled up with a file."""

    def __init__(self, folder: Path) -> None:
        self._ballast = folder / "ballast"

    def fill(self, pid: int, left: int) -> None:
        state = os.statvfs(self._ballast.parent)
        with suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            file.write(bytes(max(state.f_bavail * state.f_frsize - left, 0)))

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


class LimitedFiles:
    """A limit on how large a file may become, where no file system can be made."""

    def __init__(self, store: Path) -> None:
        self._store = store / "data.mdb"
        self._pid = 0

    def fill(self, pid: int, left: int) -> None:
        self._pid = pid
        self._limit(left + (self._store.stat().st_size if self._store.exists() else 0))

    def free(self) -> None:
        with suppress(ProcessLookupError):  # it was killed meanwhile
            if self._pid:
                self._limit(resource.RLIM_INFINITY)

    def _limit(self, size: int) -> None:
        _, hard = resource.prlimit(self._pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self._pid, resource.RLIMIT_FSIZE, (size, hard))


class Window:
    """One window: a server that is started, given turns, and killed."""

    def __init__(
        self, connect: Connect, base_url: str, evidence: Evidence, conversations: Conversations, chance: random.Random
    ) -> None:
        self._connect = connect
        self._base_url = base_url
        self._evidence = evidence
        self._conversations = conversations
        self._chance = chance
        self._turns = count(1)
        self._name = f"w{chance.randrange(10**6)}"

    async def live_and_die(self, disk: "Disk | None" = None) -> None:
        """Start a server, work with it, and kill it at a moment that nobody chose.

        The `disk` is full from some moment before that on, and maybe not any more at the end.
        """
        client = await self._connect(self._base_url, initialize=False)  # so that it can die before it says hello
        working = asyncio.ensure_future(self._work(client))
        try:
            if self._chance.random() > DIES_YOUNG:
                await self._some_time(client, working)
            if disk is not None:
                disk.fill(client.process.pid, self._chance.choice(SPACE_LEFT))
                await self._some_time(client, working)
                if self._chance.random() < 0.5:
                    disk.free()
                    await self._some_time(client, working)
        finally:
            if client.process.returncode is None:
                os.kill(client.process.pid, signal.SIGKILL)
            code = await client.process.wait()
            await client.kill()
            with suppress(
                AssertionError, ConnectionError, RpcError
            ):  # nobody answers it any more, or nothing is served
                await working
            if disk is not None:
                disk.free()
            self._hear(client)
            if code != -signal.SIGKILL:
                log = (await client.process.stderr.read()).decode()
                self._evidence.faults.append(f"a server ended by itself with {code}: {log[-2000:]}")

    async def _some_time(self, client: Client, working: "asyncio.Future[None]") -> None:
        """Until a few more messages came, or for as long as it takes when they do not come, and a little longer."""
        heard = len(client.received) + self._chance.randrange(MOST_HEARD)
        with suppress(TimeoutError):  # a question that nobody answers keeps it silent
            async with asyncio.timeout(LONGEST_LIFE):
                await client.poll(lambda: len(client.received) > heard or working.done())
        await asyncio.wait([working], timeout=self._chance.random() * LONGEST_WAIT)

    async def go_on_everywhere(self) -> None:
        """One more turn in every conversation, in one dialect after the other, by servers that live."""
        for number, dialect in enumerate(PATHS):
            client = await self._connect(self._base_url, initialize=False)
            await self._greet(client, "full", dialect)
            for name in list(self._conversations.ids)[number :: len(PATHS)]:
                ended = await self.turn(client, name, rounds=0)
                assert ended["outcome"] == "completed"
                del self._evidence.told[ended["turnId"]]
            assert await client.stop() == 0

    async def _greet(self, client: Client, mode: str, dialect: str) -> None:
        settings = {
            "permission_mode": mode,
            "llm_config": {"dialect": dialect},
            "context_management": {"enabled": False},
        }
        await client.initialize(initializationOptions={"settings": settings})

    async def _work(self, client: Client) -> None:
        client.answers["agent/requestPermission"] = self._decide
        await self._greet(client, self._chance.choice(["full", "full", "ask"]), self._chance.choice(list(PATHS)))
        while True:
            with suppress(RpcError):  # held by the other window, or not stored for want of space
                name = self._conversations.choose(self._chance)
                if name is None:
                    made = await client.request("agent/conversationNew", {})
                    name = self._conversations.add(made["conversation"]["conversationId"])
                await self.turn(client, name)

    async def turn(self, client: Client, name: str, rounds: int | None = None) -> dict[str, Any]:
        """One turn in the conversation of that name. Raises RpcError when it may not be run here."""
        turn_id = f"{self._name}_{next(self._turns)}".replace("_", "t")
        text = f"go {name} {turn_id} {self._chance.randint(0, 3) if rounds is None else rounds}"
        self._evidence.told[turn_id] = told = Told(name, text)
        self._conversations.open[name] += 1
        asked = {"text": text, "conversationId": self._conversations.ids[name], "turnId": turn_id}
        answered = await client.request("agent/runTurn", asked)
        assert answered["disposition"] == "started"
        told.is_accepted = True
        return await client.event("turnEnded", turnId=turn_id)

    def _decide(self, params: dict[str, Any]) -> Any:
        """Yes, no, or no answer at all."""
        kind = self._chance.choice(["allow", "allow", "deny", None])
        chosen = next((option for option in params["options"] if option["kind"] == kind), None)
        return {"optionId": chosen["optionId"]} if chosen else None

    def _hear(self, client: Client) -> None:
        """Note what a server that is dead now has told of any turn."""
        for message in client.received:
            result = message.get("result")
            if isinstance(result, dict) and result.get("turnId") in self._evidence.told:
                self._evidence.told[result["turnId"]].is_accepted = True
        for event in client.events():
            told = self._evidence.told.get(event.get("turnId", ""))
            if told is None:
                continue
            match event["type"]:
                case "itemUpdated" if event["item"]["kind"] == "assistant":
                    told.answers.append(event["item"]["text"])
                case "toolUpdated" if event["status"] in {"completed", "failed", "cancelled", "declined"}:
                    told.results.append(event["result"])
                case "turnEnded":
                    told.ends.append(event["outcome"])
        client.received.clear()
