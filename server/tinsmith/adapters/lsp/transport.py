"""Frames in and out: a reader thread, a writer thread, one ordered queue, and the table of our own requests.

The loop never waits for the client. The first frame of a loop step goes straight into an idle pipe when it surely
fits, what follows in the same step leaves in one write at its end, and anything else is the writer thread's. A client
that stops reading costs memory up to a bound, and then the connection.
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

from tinsmith.adapters.lsp.errors import failure
from tinsmith.adapters.lsp.frames import FrameError, FrameReader, frame
from tinsmith.adapters.lsp.messages import Incoming, decode
from tinsmith.domain.errors import ProtocolError

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
UNTAKEN = 4
"""How many reads may wait for the loop; then the client waits for us."""


class RequestError(Exception):
    """The client answered one of our requests with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Refusal(msgspec.Struct):
    code: int = 0
    message: str = ""


encode = msgspec.json.Encoder().encode
Result = TypeVar("Result")


class Transport:
    """The wire.

    `receive` is called on the loop, in order, with each message body; `closed` when the connection is gone.
    What one body does wrong is logged by the loop and leaves the next ones alone.
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
        self._untaken = threading.Semaphore(UNTAKEN)
        self._wakes = threading.Condition()
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._gathered = bytearray()
        self._is_in_step = False
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
        """Queue one message that is encoded already. On the loop's thread, as `send`."""
        payload = frame(body)
        with self._wakes:
            if self._is_broken:
                return
            if len(self._gathered) + len(payload) > SURELY_FITS:
                self._flush()
            if len(payload) > SURELY_FITS or self._queue or self._is_writing:
                self._flush()
                self._enqueue(payload)
            elif self._is_in_step:
                self._gathered += payload
                self._queued += len(payload)
            else:
                self._is_in_step = True
                self._loop.call_soon(self._end_step)
                self._write_now(payload)

    def _end_step(self) -> None:
        """The loop has done what one event asked of it: what was gathered meanwhile leaves in one write."""
        with self._wakes:
            self._is_in_step = False
            self._flush()

    def _flush(self) -> None:
        """Send off what was gathered; the lock is held."""
        if self._gathered:
            payload = bytes(self._gathered)
            self._gathered.clear()
            self._queued -= len(payload)
            self._write_now(payload)

    def _enqueue(self, payload: bytes) -> None:
        """Leave the payload to the writer thread; the lock is held."""
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
        return decode(raw, result_type)

    def awaits(self, request_id: object) -> bool:
        """Whether a request of ours with this id waits for its answer."""
        return request_id in self._requests

    def settle(self, message: Incoming) -> None:
        """Give an answer to the request of ours that waits for it; an answer without a result has the result null."""
        future = self._requests.pop(message.id, None) if isinstance(message.id, int) else None
        if future is None or future.done():
            if message.id not in self._withdrawn:
                _log.warning("an answer to a request that we did not make: id %r", message.id)
        elif message.error:
            refusal = _decode_refusal(message.error)
            future.set_exception(RequestError(refusal.code, refusal.message))
        else:
            future.set_result(message.result or msgspec.Raw(b"null"))

    def fail_requests(self) -> None:
        """Nobody will answer any more: cancel what waits."""
        for future in self._requests.values():
            future.cancel()
        self._requests.clear()

    def close(self, timeout: float = 1.0) -> None:
        """Write what is queued, for at most `timeout` seconds, then stop."""
        with self._wakes:
            self._flush()
            self._is_closing = True
            self._wakes.notify()
        self._writer.join(timeout)

    def _read(self) -> None:
        chunk = self._leftover
        reason = "end of input"
        try:
            while True:
                self._hand_over(chunk)
                chunk = os.read(self._in, 262144)
                if not chunk:
                    break
        except FrameError as error:
            reason = f"the stream is out of step: {error}"
            refusal = failure(None, ProtocolError("parse", f"Cannot read on: {error}."))
            self._loop.call_soon_threadsafe(self.send, refusal)
        except OSError as error:
            reason = f"reading failed: {error.strerror}"
        self._tell_closed(reason)

    def _hand_over(self, chunk: bytes) -> None:
        """Give what `chunk` completes to the loop, also when something unreadable stands behind it."""
        bodies: list[bytes] = []
        try:
            bodies.extend(self._frames.feed(chunk))
        finally:
            if bodies:
                self._untaken.acquire()
                for body in bodies[:-1]:
                    self._loop.call_soon_threadsafe(self._receive, body)
                self._loop.call_soon_threadsafe(self._receive_last, bodies[-1])

    def _receive_last(self, body: bytes) -> None:
        self._untaken.release()
        self._receive(body)

    def _write(self) -> None:
        while True:
            with self._wakes:
                while not self._queue and not self._is_closing and not self._is_broken:
                    self._wakes.wait()
                if self._is_broken or not self._queue:
                    return
                waiting, self._queue = self._queue, deque()
                self._is_writing = True
            payload = b"".join(waiting)
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
        """Write at most SURELY_FITS bytes at once when the pipe takes them, else leave them to the writer."""
        if self._is_broken or self._queue or self._is_writing or not self._poll.poll(0):
            self._enqueue(payload)
            return
        try:
            _write_all(self._out, payload)
        except OSError:
            self._break("the client closed its end")

    def _break(self, reason: str) -> None:
        """Give the connection up; the lock is held."""
        self._is_broken = True
        self._queue.clear()
        self._gathered.clear()
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


def _decode_refusal(raw: msgspec.Raw) -> _Refusal:
    try:
        return msgspec.json.decode(raw, type=_Refusal)
    except msgspec.DecodeError:
        return _Refusal(0, "an error of unknown form")
