"""A scripted Chat Completions provider, in a process of its own and too simple to be the bottleneck.

It writes its port as the first line, then one JSON line for each completion.
"""

import gc
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

from bench.answers import blocks_of, end_events, plan_of, text_event

PACE = 0.005
"""Seconds between two paced deltas."""
MODELS = b'{"object":"list","data":[{"id":"bench","object":"model","created":0,"owned_by":"bench"}]}'


class Completion(msgspec.Struct, frozen=True):
    """One answered request; times are CLOCK_MONOTONIC in nanoseconds.

    `connection` counts every connection from 1, `size` is the body's. `closed` is 0 unless the client left first.
    """

    connection: int
    size: int
    arrived: int
    first: int
    last: int
    closed: int = 0


class Provider:
    """The provider's process, for the length of a block."""

    def __enter__(self) -> Self:
        root = Path(__file__).resolve().parent.parent
        self._process = subprocess.Popen(
            (sys.executable, "-m", "bench.provider"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root
        )
        assert self._process.stdout is not None
        self._lines = self._process.stdout
        self.base_url = f"http://127.0.0.1:{int(self._lines.readline())}/v1"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()  # the end of its input ends it

    def take(self, count: int = 1) -> list[Completion]:
        """The next `count` completions, in the order they ended in."""
        return [msgspec.json.decode(self._lines.readline(), type=Completion) for _ in range(count)]


class _Request(NamedTuple):
    target: bytes
    body: bytes
    arrived: int


def main() -> None:
    """Serve until whoever started this is gone."""
    gc.disable()
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        _say(b"%d" % listener.getsockname()[1])
        threading.Thread(target=_accept, args=(listener,), daemon=True).start()
        sys.stdin.buffer.read()
        os._exit(0)  # threads that wait for clients must not keep the process


def _accept(listener: socket.socket) -> None:
    connections = 0
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connections += 1
        threading.Thread(target=_serve, args=(connection, connections), daemon=True).start()


def _serve(connection: socket.socket, number: int) -> None:
    with connection:
        while (request := _read(connection)) is not None:
            if not request.target.endswith(b"/chat/completions"):
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(MODELS), MODELS))
                continue
            first, last, closed = _answer(connection, request)
            _say(msgspec.json.encode(Completion(number, len(request.body), request.arrived, first, last, closed)))


def _read(connection: socket.socket) -> _Request | None:
    """The next request; None when the client has gone."""
    received = b""
    while True:
        head, separator, body = received.partition(b"\r\n\r\n")
        if separator and len(body) >= _length(head):
            return _Request(head.split(b" ", 2)[1], body, time.monotonic_ns())
        try:
            piece = connection.recv(1 << 20)
        except ConnectionError:
            return None
        if not piece:
            return None
        received += piece


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line[15:])
    return 0


def _answer(connection: socket.socket, request: _Request) -> tuple[int, int, int]:
    """When the first and the last piece were handed to the kernel, and when the client was seen to be gone."""
    plan = plan_of(request.body)
    blocks = blocks_of(plan)
    first = last = time.monotonic_ns()
    try:
        for block in blocks:
            last = time.monotonic_ns()
            connection.sendall(block)
        if plan.kind == "silent":
            connection.recv(1)
            return first, last, time.monotonic_ns()
        if plan.kind == "paced":
            last = _pace(connection, plan.number)
    except ConnectionError:
        return first, last, time.monotonic_ns()
    return first, last, 0


def _pace(connection: socket.socket, count: int) -> int:
    for _ in range(count):
        time.sleep(PACE)
        connection.sendall(text_event(f"@{time.monotonic_ns()} "))
    last = time.monotonic_ns()
    connection.sendall(end_events("stop"))
    return last


def _say(line: bytes) -> None:
    os.write(1, line + b"\n")  # short enough to be written whole, whichever thread writes


if __name__ == "__main__":
    main()
