"""Frames as LSP writes them: a header, an empty line, a body. Pure, over bytes."""

MAX_HEADER = 64 * 1024
"""A header longer than this is no header."""


class FrameError(ValueError):
    """The stream is out of step: what follows cannot be told apart any more."""


class FrameReader:
    """Turns bytes, however they are cut, into frame bodies. Header names in any case, other headers ignored."""

    def __init__(self, max_body: int) -> None:
        self._buffer = bytearray()
        self._max_body = max_body
        self._needed = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The bodies that `chunk` completes. Raises FrameError for a header without a usable length."""
        self._buffer += chunk
        bodies: list[bytes] = []
        if len(self._buffer) < self._needed:
            return bodies
        start = 0
        while True:
            head_end = self._buffer.find(b"\r\n\r\n", start)
            if head_end < 0:
                if len(self._buffer) - start > MAX_HEADER:
                    raise FrameError(f"no end of a header within {MAX_HEADER} bytes")
                self._needed = 0
                break
            body_start = head_end + 4
            body_end = body_start + self._length(bytes(self._buffer[start:head_end]))
            if len(self._buffer) < body_end:
                self._needed = body_end - start
                break
            bodies.append(bytes(self._buffer[body_start:body_end]))
            start = body_end
        del self._buffer[:start]
        return bodies

    def _length(self, head: bytes) -> int:
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length":
                text = value.strip()
                if not text.isdigit() or int(text) > self._max_body:
                    raise FrameError(f"Content-Length {text[:20]!r} is not a number up to {self._max_body}")
                return int(text)
        raise FrameError("a header without Content-Length")


def frame(body: bytes) -> bytes:
    """`body` with its header."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
