"""A web site on the loopback interface, as hostile as a test wants it."""

import asyncio
import gzip
import itertools
import ssl
import subprocess
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self


@dataclass
class Reply:
    """Pieces of a body: bytes, or pauses in seconds. Without a length the end of the connection ends it."""

    body: Iterable[bytes | float] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    head: Iterable[bytes | float] = ()
    """When given, sent in place of status and headers."""


def html(text: str, charset: str = "utf-8") -> Reply:
    return Reply((text.encode(charset),), headers={"content-type": f"text/html; charset={charset}"})


def redirect(location: str, status: int = 302) -> Reply:
    return Reply(status=status, headers={"location": location})


def zeros_by_gzip(size: int) -> bytes:
    """What `size` zeros are in gzip: a thousandth."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    block = bytes(1_000_000)
    return b"".join([*(packer.compress(block) for _ in range(size // len(block))), packer.flush()])


def endless(piece: bytes) -> Iterable[bytes]:
    return itertools.repeat(piece)


def packed(text: str) -> bytes:
    return gzip.compress(text.encode())


class Site:
    """Serves `pages` by path while its block is open; notes what it was asked, and how many bytes of bodies it sent."""

    def __init__(self, pages: dict[str, Reply] | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.pages = pages or {}
        self.asked: list[str] = []
        self.heads: list[str] = []
        self.sent = 0
        self.open = 0
        self.port = 0
        self._tls = tls

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()
        await self.idle()

    async def idle(self) -> None:
        """Wait until no connection is open."""
        async with asyncio.timeout(5):
            while self.open:
                await asyncio.sleep(0.005)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            path = head.split(" ")[1]
            self.asked.append(path)
            self.heads.append(head)
            await self._reply(self.pages.get(path, Reply((b"nothing here",), 404)), reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            self.open -= 1

    async def _reply(self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gone = asyncio.ensure_future(reader.read())
        try:
            lines = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
            whole = (f"HTTP/1.1 {reply.status} \r\n{lines}connection: close\r\n\r\n".encode("latin-1"),)
            for piece in itertools.chain(reply.head or whole, reply.body):
                if isinstance(piece, float):
                    await asyncio.wait([gone], timeout=piece)
                else:
                    writer.write(piece)
                    self.sent += len(piece)
                    await writer.drain()
                if gone.done():
                    return
        finally:
            gone.cancel()


def self_signed(folder: Path, name: str) -> ssl.SSLContext:
    """A server's side of TLS for this name; its certificate, which nobody else signed, is in `certificate.pem`."""
    return _serving(*_certificate(folder, "certificate", name))


def signed(folder: Path, name: str) -> tuple[ssl.SSLContext, Path]:
    """A server's side of TLS for this name, and the certificate of the authority that signed it."""
    authority, key = _certificate(folder, "authority", "An authority of our own")
    signing = ("-CA", str(authority), "-CAkey", str(key), "-addext", "basicConstraints=critical,CA:FALSE")
    return _serving(*_certificate(folder, "certificate", name, *signing)), authority


def _certificate(folder: Path, file: str, name: str, *more: str) -> tuple[Path, Path]:
    certificate, key = folder / f"{file}.pem", folder / f"{file}-key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name.replace(' ', '-')}", *more]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    return certificate, key


def _serving(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


class Tunnel:
    """A proxy that takes CONNECT, and leads to `port` of this machine whatever is asked for; notes the heads."""

    def __init__(self, port: int) -> None:
        self.heads: list[str] = []
        self.port = 0
        self._to = port

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._to)
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        async with asyncio.TaskGroup() as group:
            group.create_task(_pass_on(reader, inner_writer))
            group.create_task(_pass_on(inner_reader, writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()
