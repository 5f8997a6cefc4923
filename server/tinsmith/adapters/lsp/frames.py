"""Frames as LSP writes them: a header, an empty line, a body. Pure, over bytes."""

from collections.abc import Generator

MAX_HEADER = 64 * 1024
"""A header longer than this is no header."""
MAX_DIGITS = 12
"""A length of more digits is no length (and too much for `int`)."""


class FrameError(ValueError):
    """The stream is out of step: what follows cannot be told apart any more."""


class FrameReader:
    """Turns bytes, however they are cut, into frame bodies. Header names in any case, other headers ignored."""

    def __init__(self, max_body: int) -> None:
        self._buffer = bytearray()
        self._max_body = max_body
        self._needed = 0

    def feed(self, chunk: bytes) -> Generator[bytes]:
        """The bodies that `chunk` completes. Raises FrameError behind them, at a header without a usable length."""
        self._buffer += chunk
        if len(self._buffer) < self._needed:
            return
        start = 0
        try:
            while (place := self._body(start)) is not None:
                yield bytes(self._buffer[place])
                start = place.stop
        finally:
            del self._buffer[:start]

    def _body(self, start: int) -> slice | None:
        """Where the body of the frame that begins at `start` lies, None while a part of it is missing."""
        found = self._buffer.find(b"\r\n\r\n", start)
        head_end = found if found >= 0 else len(self._buffer)
        if head_end - start > MAX_HEADER:
            raise FrameError(f"no end of a header within {MAX_HEADER} bytes")
        if found < 0:
            self._needed = 0
            return None
        body_start = head_end + 4
        body_end = body_start + self._length(bytes(self._buffer[start:head_end]))
        if len(self._buffer) < body_end:
            self._needed = body_end - start
            return None
        return slice(body_start, body_end)

    def _length(self, head: bytes) -> int:
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length":
                text = value.strip()
                if not text.isdigit() or len(text) > MAX_DIGITS or int(text) > self._max_body:
                    raise FrameError(f"Content-Length {text[:20]!r} is not a number up to {self._max_body}")
                return int(text)
        raise FrameError("a header without Content-Length")


def frame(body: bytes) -> bytes:
    """`body` with its header."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
