"""Frames in and out: a reader thread, a writer thread, one ordered queue, and the table of our own requests.

The loop never waits for the client: a frame goes straight into an idle pipe when it surely fits, else the writer
thread takes it. A client that stops reading costs memory up to a bound, and then the connection.
"""

import asyncio
import logging
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from tinsmith.adapters.lsp.frames import FrameError, FrameReader, frame

_log = logging.getLogger(__name__)

MAX_BODY = 64 * 1024 * 1024
"""Bytes of the largest message that is accepted."""
MAX_QUEUED = 128 * 1024 * 1024
"""Bytes that may wait for a client that does not read, before the connection is given up."""
CONGESTED = 256 * 1024
"""From this many waiting bytes on, deltas are joined."""
SURELY_FITS = 4096
"""Bytes that a pipe which polls as writable takes without blocking (PIPE_BUF)."""
TOMBSTONES = 256
"""How many withdrawn requests are remembered, so that a late answer is no surprise."""


ABSENT = msgspec.Raw()
"""A field that did not come; it is empty, so it reads as false."""


class Incoming(msgspec.Struct):
    """Any message of the other side; bodies stay raw until the method is known."""

    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = ABSENT
    result: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT


class RequestError(Exception):
    """The client answered one of our requests with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Failure(msgspec.Struct):
    code: int = 0
    message: str = ""


encode = msgspec.json.Encoder().encode
Result = TypeVar("Result")


class Transport:
    """The wire.

    `receive` is called on the loop, in order, with each message body; `closed` when the connection is gone.
    """

    def __init__(
        self,
        wire_in: int,
        wire_out: int,
        *,
        receive: Callable[[bytes], None],
        closed: Callable[[str], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._in = wire_in
        self._out = wire_out
        self._receive = receive
        self._closed = closed
        self._loop = loop
        self._frames = FrameReader(MAX_BODY)
        self._leftover = b""
        self._reader = threading.Thread(target=self._read, name="wire-reader", daemon=True)
        self._writer = threading.Thread(target=self._write, name="wire-writer", daemon=True)
        self._wakes = threading.Condition()
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._is_writing = False
        self._is_broken = False
        self._is_closing = False
        self._poll = select.poll()
        self._poll.register(wire_out, select.POLLOUT)
        self._requests: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._withdrawn: deque[int] = deque(maxlen=TOMBSTONES)
        self._last_request = 0

    def start(self, leftover: bytes) -> None:
        """Begin to read and write; `leftover` is what was read before."""
        self._leftover = leftover
        self._writer.start()
        self._reader.start()

    @property
    def is_congested(self) -> bool:
        """Whether the client reads slower than we write."""
        return self._queued > CONGESTED

    @property
    def queued(self) -> int:
        """Bytes that wait to be written."""
        return self._queued

    def send(self, message: Any) -> None:
        """Queue one message: encoded now, written in order. Never blocks."""
        self.send_body(encode(message))

    def send_body(self, body: bytes) -> None:
        """Queue one message that is encoded already."""
        payload = frame(body)
        with self._wakes:
            if self._is_broken:
                return
            if not self._queue and not self._is_writing and len(payload) <= SURELY_FITS and self._poll.poll(0):
                self._write_now(payload)
                return
            self._queue.append(payload)
            self._queued += len(payload)
            if self._queued > MAX_QUEUED:
                self._break("the client does not read")
            self._wakes.notify()

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def request(
        self, method: str, params: Any, result_type: type[Result], timeout: float | None = None
    ) -> Result:
        """Ask the client, and decode its answer.

        Raises RequestError when it answers with an error, msgspec.ValidationError for an answer of another
        shape, TimeoutError after `timeout` seconds. A caller that is cancelled or times out takes the request back by
        `$/cancelRequest`; an answer that comes later is dropped.
        """
        self._last_request += 1
        number = self._last_request
        future: asyncio.Future[msgspec.Raw] = self._loop.create_future()
        self._requests[number] = future
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        try:
            async with asyncio.timeout(timeout):
                raw = await future
        except (asyncio.CancelledError, TimeoutError):
            if self._requests.pop(number, None) is not None:
                self._withdrawn.append(number)
                self.notify("$/cancelRequest", {"id": number})
            raise
        return msgspec.json.decode(raw, type=result_type)

    def settle(self, message: Incoming) -> None:
        """Give an answer to the request of ours that waits for it."""
        future = self._requests.pop(message.id, None) if isinstance(message.id, int) else None
        if future is None or future.done():
            if message.id not in self._withdrawn:
                _log.warning("an answer to a request that we did not make: id %r", message.id)
        elif message.error:
            failure = _decode_failure(message.error)
            future.set_exception(RequestError(failure.code, failure.message))
        else:
            future.set_result(message.result)

    def fail_requests(self) -> None:
        """Nobody will answer any more: cancel what waits."""
        for future in self._requests.values():
            future.cancel()
        self._requests.clear()

    def close(self, timeout: float = 1.0) -> None:
        """Write what is queued, for at most `timeout` seconds, then stop."""
        with self._wakes:
            self._is_closing = True
            self._wakes.notify()
        self._writer.join(timeout)

    def _read(self) -> None:
        chunk = self._leftover
        reason = "end of input"
        try:
            while True:
                bodies = self._frames.feed(chunk)
                if bodies:
                    self._loop.call_soon_threadsafe(self._deliver, bodies)
                chunk = os.read(self._in, 262144)
                if not chunk:
                    break
        except FrameError as error:
            reason = f"the stream is out of step: {error}"
            self.send_body(
                encode(
                    {
                        "jsonrpc": "2.0",
                        "id": None,
                        "error": {
                            "code": -32700,
                            "message": f"Cannot read on: {error}.",
                            "data": {"kind": "protocol", "code": "parse", "retryable": False},
                        },
                    }
                )
            )
        except OSError as error:
            reason = f"reading failed: {error.strerror}"
        self._tell_closed(reason)

    def _deliver(self, bodies: list[bytes]) -> None:
        for body in bodies:
            self._receive(body)

    def _write(self) -> None:
        while True:
            with self._wakes:
                while not self._queue and not self._is_closing and not self._is_broken:
                    self._wakes.wait()
                if self._is_broken or not self._queue:
                    return
                payload = b"".join(self._queue)
                self._queue.clear()
                self._is_writing = True
            try:
                _write_all(self._out, payload)
            except OSError:
                with self._wakes:
                    self._break("the client closed its end")
                return
            with self._wakes:
                self._queued -= len(payload)
                self._is_writing = False

    def _write_now(self, payload: bytes) -> None:
        try:
            _write_all(self._out, payload)
        except OSError:
            self._break("the client closed its end")

    def _break(self, reason: str) -> None:
        """Give the connection up; the lock is held."""
        self._is_broken = True
        self._queue.clear()
        self._queued = 0
        self._wakes.notify()
        self._tell_closed(reason)

    def _tell_closed(self, reason: str) -> None:
        try:
            self._loop.call_soon_threadsafe(self._closed, reason)
        except RuntimeError:  # the loop is gone already: nobody needs to know
            _log.debug("closed after the loop: %s", reason)


def _write_all(descriptor: int, payload: bytes) -> None:
    view = memoryview(payload)
    while view:
        view = view[os.write(descriptor, view) :]


def _decode_failure(raw: msgspec.Raw) -> _Failure:
    try:
        return msgspec.json.decode(raw, type=_Failure)
    except msgspec.DecodeError:
        return _Failure(0, "an error of unknown form")
