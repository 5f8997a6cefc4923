"""The least a Python agent can do over the same frames: asyncio, msgspec and httpx, the tools `read` and `bash`.

It has no store, no permissions, no limits, no retries and no recovery: something to compare with, not a design.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import httpx

URL = os.environ["BENCH_BASE_URL"] + "/chat/completions"
SYSTEM = {"role": "system", "content": "x" * 2400}
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}, "path": {"type": "string"}}}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": PARAMETERS}}
    for name in ("bash", "read")
]


class Function(msgspec.Struct):
    """A piece of a call's name and arguments."""

    name: str | None = None
    arguments: str | None = None


class Call(msgspec.Struct):
    """A piece of a call."""

    index: int = 0
    id: str | None = None
    function: Function = msgspec.field(default_factory=Function)


class Delta(msgspec.Struct):
    """More of an answer."""

    content: str | None = None
    tool_calls: Sequence[Call] = ()


class Choice(msgspec.Struct):
    """The only answer."""

    delta: Delta


class Chunk(msgspec.Struct):
    """One event of the provider's stream."""

    choices: Sequence[Choice] = ()


class Incoming(msgspec.Struct):
    """A message of the client."""

    method: str
    id: int | None = None
    params: dict[str, Any] = {}


_chunk = msgspec.json.Decoder(Chunk).decode
_incoming = msgspec.json.Decoder(Incoming).decode
Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class Wire(asyncio.Protocol):
    """Takes frames and answers them."""

    def __init__(self, spawn: Spawn, ended: asyncio.Future[None]) -> None:
        self._spawn = spawn
        self._ended = ended
        self._buffer = b""
        self._agent = Floor()
        self._turn: asyncio.Task[None] | None = None

    def data_received(self, data: bytes) -> None:
        """Serve every frame that is whole."""
        self._buffer += data
        while (head_end := self._buffer.find(b"\r\n\r\n")) >= 0:
            end = head_end + 4 + int(self._buffer[16:head_end])
            if len(self._buffer) < end:
                return
            body, self._buffer = self._buffer[head_end + 4 : end], self._buffer[end:]
            self._take(_incoming(body))

    def _take(self, message: Incoming) -> None:
        result: Any = {}
        match message.method:
            case "agent/conversationNew":
                result = {"conversation": {"conversationId": "c"}}
                self._agent.warm()
            case "agent/runTurn":
                result = {"conversationId": "c", "turnId": "t", "disposition": "started", "seq": 0}
                self._turn = self._spawn(self._agent.turn(message.params["text"]))
            case "agent/cancel":
                assert self._turn is not None
                self._turn.cancel()
            case "exit":
                self._ended.set_result(None)
            case _:
                pass
        if message.id is not None:
            send({"jsonrpc": "2.0", "id": message.id, "result": result})


class Floor:
    """One conversation."""

    def __init__(self) -> None:
        self._messages: list[dict[str, Any]] = [SYSTEM]
        self._client: asyncio.Future[httpx.AsyncClient]
        self._seq = 0

    def warm(self) -> None:
        """Import httpx and make the client off the loop, while nobody waits for it."""
        self._client = asyncio.get_running_loop().run_in_executor(None, make_client)

    async def turn(self, text: str) -> None:
        """Ask, run what is called, again until nothing is."""
        self._messages.append({"role": "user", "content": text})
        outcome = "completed"
        try:
            while calls := await self._round():
                for name, arguments in calls:
                    self._event("toolUpdated", callId="call", name=name, status="running")
                    result = await run(name, msgspec.json.decode(arguments))
                    self._messages.append({"role": "tool", "tool_call_id": "call", "content": result})
                    self._event("toolUpdated", callId="call", name=name, status="completed")
        except asyncio.CancelledError:
            outcome = "cancelled"
        self._event("turnEnded", outcome=outcome)

    async def _round(self) -> list[tuple[str, str]]:
        said: list[str] = []
        calls: list[tuple[str, str]] = []
        async for payloads in self._payloads():
            for payload in payloads:
                for choice in _chunk(payload).choices if payload != b"[DONE]" else ():
                    if choice.delta.content:
                        self._event("textDelta", itemId="i", offset=len(said), text=choice.delta.content)
                        said.append(choice.delta.content)
                    for call in choice.delta.tool_calls:
                        if call.id:
                            calls.append((call.function.name or "", ""))
                        calls[-1] = (calls[-1][0], calls[-1][1] + (call.function.arguments or ""))
        named = [
            {"id": "call", "type": "function", "function": {"name": name, "arguments": arguments}}
            for name, arguments in calls
        ]
        answer = {"role": "assistant", "content": "".join(said)}
        self._messages.append({**answer, "tool_calls": named} if named else answer)
        return calls

    async def _payloads(self) -> AsyncGenerator[list[bytes]]:
        """The events' data as they come; the body is read to its end, so the connection is kept."""
        client = await self._client
        request = {"model": "bench", "stream": True, "messages": self._messages, "tools": TOOLS}
        rest = b""
        async with client.stream("POST", URL, content=msgspec.json.encode(request)) as response:
            async for piece in response.aiter_raw():
                *events, rest = (rest + piece).split(b"\n\n")
                yield [event[6:] for event in events]

    def _event(self, kind: str, **fields: Any) -> None:
        self._seq += 1
        head = {"type": kind, "conversationId": "c", "epoch": "e", "seq": self._seq, "ts": time.time_ns() // 1_000_000}
        send({"jsonrpc": "2.0", "method": "agent/event", "params": {**head, "turnId": "t", **fields}})


def make_client() -> "httpx.AsyncClient":
    """With what httpx loads only when it first runs."""
    import anyio
    import httpx

    anyio.run(anyio.sleep, 0)
    return httpx.AsyncClient(timeout=60)


async def run(name: str, arguments: dict[str, str]) -> str:
    """One call."""
    if name == "read":
        with open(arguments["path"], encoding="utf-8") as file:  # noqa: ASYNC230  the floor has no threads to pay for
            return file.read()
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        arguments["command"],
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        return (await process.communicate())[0].decode()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise


def send(message: dict[str, Any]) -> None:
    """Write one frame, at once."""
    body = msgspec.json.encode(message)
    view = memoryview(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    while view:
        view = view[os.write(1, view) :]


async def main() -> None:
    """Serve until the client says `exit`."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    async with asyncio.TaskGroup() as tasks:
        await loop.connect_read_pipe(lambda: Wire(tasks.create_task, ended), sys.stdin.buffer)
        await ended
    os._exit(0)  # the pipe that is still open must not keep the process


if __name__ == "__main__":
    asyncio.run(main())
