"""A proxy between a server and its provider that sends every answer on in random pieces, and may cut it at any byte."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Literal, Self

End = Literal["whole", "closed", "broken"]
"""How an answer ends: as it should, early but with the end of its body, or early with the end of the connection."""


@dataclass(frozen=True)
class Cut:
    """How many bytes of a body were sent on, and how it ended."""

    size: int
    end: End


class RechunkingProxy:
    """Listens on 127.0.0.1 and passes each connection on to `port`.

    `end_of` says how the n-th answer (from 0) to a POST of the dialects is to end; `cuts` holds how each did. Pieces
    are chunks of HTTP of random sizes, and the bytes of these are written in random pieces again.
    """

    def __init__(self, port: int, chance: Random, end_of: Callable[[int], End]) -> None:
        self.cuts: list[Cut] = []
        self.port = 0
        self._upstream = port
        self._chance = chance
        self._end_of = end_of
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self._is_idle.wait()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._is_idle.clear()
        answers, requests = await asyncio.open_connection("127.0.0.1", self._upstream)
        self._writers |= {writer, requests}
        try:
            while await self._exchange(reader, writer, answers, requests):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            return  # either side has gone
        finally:
            requests.close()
            writer.close()
            self._writers -= {writer, requests}
            if not self._writers:
                self._is_idle.set()

    async def _exchange(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answers: asyncio.StreamReader,
        requests: asyncio.StreamWriter,
    ) -> bool:
        """One request and its answer; whether the connection can have another."""
        head = await reader.readuntil(b"\r\n\r\n")
        requests.write(head + await reader.readexactly(_length(head)))
        answer = await answers.readuntil(b"\r\n\r\n")
        if b"transfer-encoding: chunked" not in answer:
            writer.write(answer + await answers.readexactly(_length(answer)))
            return True
        body = await _chunked(answers)
        end = self._end_of(len(self.cuts))
        first = self._chance.choice((0, 0, max(0, len(body) - 300)))  # the end of an answer is where it is decided
        size = len(body) if end == "whole" else self._chance.randint(first, len(body))
        self.cuts.append(Cut(size, end))
        framed = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in self._pieces(body[:size]))
        await self._write(writer, answer + framed + (b"" if end == "broken" else b"0\r\n\r\n"))
        return end != "broken"

    async def _write(self, writer: asyncio.StreamWriter, content: bytes) -> None:
        for piece in self._pieces(content):
            writer.write(piece)
            await writer.drain()
            for _ in range(self._chance.choice((0, 0, 1, 3))):
                await asyncio.sleep(0)

    def _pieces(self, content: bytes) -> list[bytes]:
        """The bytes in pieces of random sizes: nearly single bytes in one answer, all at once in another."""
        most = self._chance.choice((3, 17, 80, 400, 2_000, max(len(content), 1)))
        pieces: list[bytes] = []
        place = 0
        while place < len(content):
            size = self._chance.randint(1, most)
            pieces.append(content[place : place + size])
            place += size
        return pieces


def _length(head: bytes) -> int:
    lines = head.lower().split(b"\r\n")
    return next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")), 0)


async def _chunked(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return body
