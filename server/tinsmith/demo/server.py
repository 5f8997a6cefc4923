"""A Chat Completions provider on the loopback interface: real sockets, HTTP/1.1, event streams; behind it any model."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import TracebackType
from typing import Self, cast

import msgspec

from tinsmith.demo import chat
from tinsmith.domain.cancel import CancelToken
from tinsmith.domain.errors import AgentError, Cancelled
from tinsmith.domain.message import Answer, ModelDelta
from tinsmith.domain.ports import Model
from tinsmith.domain.settings import LlmSettings

_HEAD_LIMIT = 64 * 1024


class HttpRequest(msgspec.Struct, frozen=True):
    """A request as it came. `headers` have lower-case names; `connection` numbers the connections from 1."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    connection: int


class RawAnswer(msgspec.Struct, frozen=True):
    """An answer byte by byte.

    Each entry of `body` is one piece, or a pause in seconds (infinite: until the client goes away). `is_silent` sends
    no head either, `is_cut` breaks the connection at the end instead of ending the body.
    """

    body: tuple[bytes | float, ...] = ()
    status: int = 200
    content_type: str = "text/event-stream"
    headers: Mapping[str, str] = {}
    is_silent: bool = False
    is_cut: bool = False


ANSWERED = frozenset({"/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat"})
"""Where an answer can be asked for; a Model answers in Chat Completions whatever it is asked in."""

Answering = Model | RawAnswer | Callable[[HttpRequest], Model | RawAnswer]
"""Who answers a completion request."""


class LoopbackServer:
    """Serves the ANSWERED paths and `GET /v1/models` on 127.0.0.1 while its block is open.

    `shown`, when it is set, answers Ollama's `POST /api/show`.
    The n-th completion request is answered by the n-th of `answers`, the last one answers all that follow.
    `requests` holds every request, `connections` counts connections, `abandoned` answers whose client went away.
    """

    def __init__(self, *answers: Answering, port: int = 0, models: Sequence[str] = ("demo",)) -> None:
        self.requests: list[HttpRequest] = []
        self.connections = 0
        self.abandoned = 0
        self.port = port
        self.shown = b""
        self._answers = answers
        self._models = models
        self._asked = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    @property
    def base_url(self) -> str:
        """What to set `llm_config.base_url` to."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=_HEAD_LIMIT)
        self.port = cast("int", self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self._is_idle.wait()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        self._is_idle.clear()
        try:
            await _Connection(self, reader, writer, self.connections).run()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass  # the client is gone, or the answer was to break off
        finally:
            writer.close()
            self._writers.discard(writer)
            if not self._writers:
                self._is_idle.set()

    def answer_for(self, request: HttpRequest) -> Model | RawAnswer:
        """The next of `answers`."""
        chosen = self._answers[min(self._asked, len(self._answers) - 1)]
        self._asked += 1
        return chosen(request) if callable(chosen) else chosen

    def model_list(self) -> bytes:
        """The body of `GET /v1/models`."""
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": "tinsmith"} for name in self._models]
        return msgspec.json.encode({"object": "list", "data": listed})


class _Connection:
    """One connection of a client: requests one after the other, each watched for the client going away."""

    def __init__(
        self, server: LoopbackServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer
        self._number = number
        self._early = b""

    async def run(self) -> None:
        while True:
            request = await self._read()
            self._server.requests.append(request)
            if request.method == "GET" and request.path == "/v1/models":
                await self._send(200, self._server.model_list())
            elif request.path == "/api/show" and self._server.shown:
                await self._send(200, self._server.shown)
            elif request.method == "POST" and request.path in ANSWERED:
                await self._watched(request)
            else:
                await self._send(404, b'{"error":{"message":"There is nothing at this address."}}')

    async def _read(self) -> HttpRequest:
        head = self._early + await self._reader.readuntil(b"\r\n\r\n")
        self._early = b""
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        named = (line.split(":", 1) for line in lines if ":" in line)
        headers = {name.lower(): value.strip() for name, value in named}
        body = await self._reader.readexactly(int(headers.get("content-length", "0")))
        return HttpRequest(method, path.partition("?")[0], headers, body, self._number)

    async def _watched(self, request: HttpRequest) -> None:
        """Answer, and stop at once when the client closes the connection."""
        gone = CancelToken()
        ended: Cancelled | ConnectionError | None = None
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(self._watch(gone))
            try:
                with gone.scope():
                    await self._answer(request)
            except (Cancelled, ConnectionError) as error:
                ended = error
            finally:
                watch.cancel()
        if ended is not None:
            if not isinstance(ended, ConnectionAbortedError):
                self._server.abandoned += 1
            raise ConnectionAbortedError from ended

    async def _watch(self, gone: CancelToken) -> None:
        try:
            self._early = await self._reader.read(1)
        except ConnectionError:
            self._early = b""
        if not self._early:
            gone.cancel()

    async def _answer(self, request: HttpRequest) -> None:
        source = self._server.answer_for(request)
        if isinstance(source, RawAnswer):
            await self._replay(source)
            return
        try:
            asked = chat.decode(request.body)
            deltas = source.stream(chat.to_model_request(asked), LlmSettings())
            if asked.stream:
                await self._stream(asked, deltas)
            else:
                await self._send(200, chat.completion(asked, await _last(deltas)))
        except AgentError as error:
            await self._send(chat.status_of(error), chat.error_body(error), _retry_after(error))

    async def _stream(self, asked: chat.ChatRequest, deltas: AsyncIterator[Sequence[ModelDelta]]) -> None:
        """Raises AgentError only before the head is sent; a later one ends the stream as providers do."""
        chunks = chat.ChunkWriter(asked)
        batch = await anext(deltas, None)
        self._head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        try:
            while batch is not None:
                await self._chunk(chunks.write(batch))
                batch = await anext(deltas, None)
        except AgentError as error:
            if error.code in {"streamInterrupted", "streamStalled"}:
                raise ConnectionAbortedError from error
            await self._chunk(chat.error_event(error) + chat.DONE)
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def _replay(self, answer: RawAnswer) -> None:
        if not answer.is_silent:
            self._head(
                answer.status, {"content-type": answer.content_type, **answer.headers, "transfer-encoding": "chunked"}
            )
        for piece in answer.body:
            if isinstance(piece, bytes):
                await self._chunk(piece)
            elif piece == float("inf"):
                await asyncio.get_running_loop().create_future()
            else:
                await asyncio.sleep(piece)
        if answer.is_cut:
            raise ConnectionAbortedError
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def _chunk(self, piece: bytes) -> None:
        self._writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await self._writer.drain()

    async def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        fixed = {"content-type": "application/json", "content-length": str(len(body))}
        self._head(status, {**fixed, **(headers or {})})
        self._writer.write(body)
        await self._writer.drain()

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._writer.write(f"HTTP/1.1 {status} \r\n{lines}\r\n".encode("latin-1"))


class ServerThread:
    """A LoopbackServer on a thread and loop of its own, for programs that have none."""

    def __init__(self, *answers: Answering, port: int = 0, models: Sequence[str] = ("demo",)) -> None:
        self.server = LoopbackServer(*answers, port=port, models=models)
        self._is_up = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="tinsmith-loopback", daemon=True)

    def __enter__(self) -> LoopbackServer:
        self._thread.start()
        self._is_up.wait()
        return self.server

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        try:
            async with self.server:
                self._is_up.set()
                await self._stop.wait()
        finally:
            self._is_up.set()


async def _last(deltas: AsyncIterator[Sequence[ModelDelta]]) -> Answer:
    answer = Answer()
    async for batch in deltas:
        for delta in batch:
            if isinstance(delta, Answer):
                answer = delta
    return answer


def _retry_after(error: AgentError) -> Mapping[str, str]:
    wait = error.data.get("retryAfterMs")
    return {} if wait is None else {"retry-after": f"{wait / 1000:g}"}
