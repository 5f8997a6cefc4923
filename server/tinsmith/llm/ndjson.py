"""Lines of JSON, split from bytes as they come. Pure."""

from tinsmith.domain.errors import ProtocolError

_LINE_LIMIT = 32 * 1024 * 1024


class LineSplitter:
    """The state of one stream. Feeding it in any pieces gives the same lines in all."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0  # bytes of the line that is still open

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes. Raises ProtocolError `eventTooLarge` over 32 MiB."""
        *ended, rest = chunk.split(b"\n")
        if ended:
            ended[0] = b"".join((*self._pieces, ended[0]))
            self._pieces.clear()
            self._size = 0
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
        if self._size > _LINE_LIMIT:
            message = "The provider sent one line of more than 32 MiB. Try again, or another model."
            raise ProtocolError("eventTooLarge", message, origin="llm")
        return ended

    def close(self) -> list[bytes]:
        """A last line that nothing ended, if there is one."""
        rest = b"".join(self._pieces)
        self._pieces.clear()
        return [rest] if rest else []
