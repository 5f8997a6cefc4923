"""A raw client: the real server process over its real wire, nothing in between but frames."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SERVER = (sys.executable, "-m", "tinsmith", "serve")
AGENT = {"versions": [1], "applyEdits": {}, "permissions": {}, "clientName": "raw"}
DEADLINE = 20.0


class RpcError(Exception):
    """The server answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code = error["code"]
        self.name = error["data"]["code"]
        self.data = error["data"]


def frame(message: Any) -> bytes:
    """A message as it goes over the wire."""
    body = json.dumps(message).encode() if not isinstance(message, bytes) else message
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class Client:
    """`received` holds every message that came, in order; requests of the server are answered by `answers[method]`."""

    def __init__(self, home: Path, workspace: Path, *, inside: Sequence[str] = (), **environment: str) -> None:
        self.inside = inside
        """The command that runs the server's own, as `bwrap … --` does."""
        self.home = home
        self.workspace = workspace
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("TINSMITH", "PYTHON"))},
            "TINSMITH_DATA_DIR": str(home / "data"),
            "TINSMITH_CONFIG_DIR": str(home / "config"),
            "TINSMITH_CACHE_DIR": str(home / "cache"),
            "HOME": str(home),
            **environment,
        }
        self.received: list[dict[str, Any]] = []
        self.answers: dict[str, Callable[[dict[str, Any]], Any]] = {}
        self.texts: dict[str, tuple[int, str]] = {}
        self.stray = b""
        self.deadline = DEADLINE
        """Seconds that one wait may take."""
        self.is_over = False
        self.process: asyncio.subprocess.Process
        self._arrived = asyncio.Condition()
        self._next_id = 0
        self._reading: asyncio.Task[None]

    async def start(self, *, initialize: bool = True, agent: dict[str, Any] | None = AGENT, **options: Any) -> "Client":
        """Spawn the server and say hello."""
        self.process = await asyncio.create_subprocess_exec(
            *self.inside,
            *SERVER,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment,
            limit=1 << 26,
        )
        self._reading = asyncio.ensure_future(self._read())
        if initialize:
            await self.initialize(agent, **options)
        return self

    async def initialize(self, agent: dict[str, Any] | None = AGENT, **options: Any) -> Any:
        """The opening of every session."""
        encodings = options.pop("encodings", ["utf-16"])
        result = await self.request(
            "initialize",
            {
                "processId": os.getpid(),
                "rootUri": self.workspace.as_uri(),
                "capabilities": {
                    "general": {"positionEncodings": encodings},
                    **({"experimental": {"agent": agent}} if agent is not None else {}),
                },
                **options,
            },
        )
        self.notify("initialized", {})
        return result

    def send(self, message: Any) -> None:
        """Write one message."""
        self.write(frame(message))

    def write(self, raw: bytes) -> None:
        """Write bytes as they are."""
        self.process.stdin.write(raw)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def post(self, method: str, params: Any = None) -> int:
        """Send a request without waiting; its id."""
        self._next_id += 1
        message = {"jsonrpc": "2.0", "id": self._next_id, "method": method}
        self.send(message if params is None else {**message, "params": params})
        return self._next_id

    async def answer(self, request_id: Any) -> Any:
        """The result of a posted request. Raises RpcError."""
        message = await self.until(lambda m: "method" not in m and m.get("id") == request_id)
        if "error" in message:
            raise RpcError(message["error"])
        return message["result"]

    async def answer_error(self, request_id: Any) -> dict[str, Any]:
        """The error that answers a request."""
        return (await self.until(lambda m: m.get("id") == request_id and "error" in m))["error"]

    async def request(self, method: str, params: Any = None) -> Any:
        """Send a request and wait for its result."""
        return await self.answer(self.post(method, params))

    async def until(self, wanted: Callable[[dict[str, Any]], bool], after: int = 0) -> dict[str, Any]:
        """The first message that is wanted, from the `after`-th on, now or later; fails when none can come any more."""
        seen = after
        async with asyncio.timeout(self.deadline), self._arrived:
            while True:
                while seen < len(self.received):
                    if wanted(self.received[seen]):
                        return self.received[seen]
                    seen += 1
                assert not self.is_over, "the server is gone"
                await self._arrived.wait()

    async def poll(self, condition: Callable[[], bool]) -> None:
        """Wait until something outside the wire is true."""
        async with asyncio.timeout(self.deadline):
            while not condition():
                await asyncio.sleep(0.005)

    async def event(self, kind: str, after: int = 0, **fields: Any) -> dict[str, Any]:
        """The first `agent/event` of that type and those fields."""

        def wanted(message: dict[str, Any]) -> bool:
            params = message.get("params") or {}
            is_it = message.get("method") == "agent/event" and params.get("type") == kind
            return is_it and all(params.get(name) == value for name, value in fields.items())

        return (await self.until(wanted, after))["params"]

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """The params of every `agent/event` so far, of these types or of all."""
        found = [message["params"] for message in self.received if message.get("method") == "agent/event"]
        return [event for event in found if not kinds or event["type"] in kinds]

    async def ask(self, text: str, **params: Any) -> dict[str, Any]:
        """Start a turn; the answer to runTurn."""
        return await self.request("agent/runTurn", {"text": text, **params})

    async def turn(self, text: str, **params: Any) -> dict[str, Any]:
        """Run a turn to its end; the params of `turnEnded`."""
        started = await self.ask(text, **params)
        return await self.event("turnEnded", turnId=started["turnId"])

    def open(self, path: Path | str, text: str, *, version: int = 1) -> str:
        """Open a document by its path, or by its URI when it has none; its URI."""
        uri = path if isinstance(path, str) else path.as_uri()
        self.texts[uri] = (version, text)
        self.notify(
            "textDocument/didOpen",
            {"textDocument": {"uri": uri, "languageId": "text", "version": version, "text": text}},
        )
        return uri

    def type(self, uri: str, text: str) -> None:
        """Replace the whole text of an open document, as a person would by typing."""
        version = self.texts[uri][0] + 1
        self.texts[uri] = (version, text)
        self.notify(
            "textDocument/didChange",
            {"textDocument": {"uri": uri, "version": version}, "contentChanges": [{"text": text}]},
        )

    def splice(self, uri: str, *changes: tuple[int, int, int, int, str], version: int | None = None) -> None:
        """Tell changes of an open document, each (line, character, line, character, text), in one message."""
        version = self.texts[uri][0] + 1 if version is None else version
        self.texts[uri] = (version, self.texts[uri][1])
        ranges = [
            {"range": {"start": {"line": a, "character": b}, "end": {"line": c, "character": d}}, "text": text}
            for a, b, c, d, text in changes
        ]
        self.notify(
            "textDocument/didChange", {"textDocument": {"uri": uri, "version": version}, "contentChanges": ranges}
        )

    def answers_to(self, request_id: Any) -> list[dict[str, Any]]:
        """Every answer to a request so far."""
        return [m for m in self.received if "method" not in m and m["id"] == request_id]

    def sleep(self, *pipes: int) -> None:
        """Stop to read the wire (1), or the log (2)."""
        for pipe in pipes or (1,):
            self.process._transport.get_pipe_transport(pipe).pause_reading()

    def wake(self) -> None:
        """Read on."""
        for pipe in (1, 2):
            self.process._transport.get_pipe_transport(pipe).resume_reading()

    async def died(self) -> int:
        """Wait until the process has ended, whether or not its pipes are read; the exit code."""
        await self.poll(lambda: self.process.returncode is not None)
        return self.process.returncode

    async def stop(self) -> int:
        """Say goodbye; the exit code."""
        await self.request("shutdown")
        self.notify("exit", {})
        return await self.gone()

    async def gone(self) -> int:
        """Wait until the process has ended; the exit code."""
        async with asyncio.timeout(self.deadline):
            code = await self.process.wait()
            await self._reading
        assert self.stray == b"", "stray bytes on the wire"
        return code

    async def kill(self) -> None:
        """End the process as a crash would, maybe within a frame."""
        if self.process.returncode is None:
            self.process.kill()
        self.wake()
        await self.process.wait()
        await self._reading

    async def _read(self) -> None:
        while True:
            try:
                head = await self.process.stdout.readuntil(b"\r\n\r\n")
                body = await self.process.stdout.readexactly(int(head.split(b":")[1]))
            except asyncio.IncompleteReadError as end:
                async with self._arrived:
                    self.stray, self.is_over = end.partial, True
                    self._arrived.notify_all()
                break
            message = json.loads(body)
            async with self._arrived:
                self.received.append(message)
                self._arrived.notify_all()
            if "method" in message and "id" in message and message["method"] in self.answers:
                result = self.answers[message["method"]](message["params"])
                if result is not None:
                    self.send({"jsonrpc": "2.0", "id": message["id"], "result": result})
