"""Server-sent events, split from bytes as they come. Pure; format: the event stream section of the HTML standard."""

from tinsmith.domain.errors import ProtocolError

_BOM = b"\xef\xbb\xbf"
_EVENT_LIMIT = 32 * 1024 * 1024


class SseSplitter:
    """The state of one stream. Feeding it in any pieces gives the same payloads in all.

    A payload is the joined `data` of one event, as bytes. Comments and the fields `event`, `id` and `retry`
    give nothing. Lines end with LF, CR or CRLF and with nothing else.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._values: list[bytes] = []
        self._size = 0  # bytes of the event that is still open
        self._is_after_cr = False
        self._is_first_line = True

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads that `chunk` completes. Raises ProtocolError `eventTooLarge` over 32 MiB."""
        if self._is_after_cr and chunk:
            self._is_after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            self._is_after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *ended, rest = chunk.split(b"\n")
        payloads: list[bytes] = []
        for part in ended:
            self._size += len(part)
            line = part
            if self._pieces:
                line = b"".join((*self._pieces, part))
                self._pieces.clear()
            self._take(line, payloads)
        if rest:
            self._size += len(rest)
            self._pieces.append(rest)
        if self._size > _EVENT_LIMIT:
            message = "The provider sent one event of more than 32 MiB. Try again, or another model."
            raise ProtocolError("eventTooLarge", message, origin="llm")
        return payloads

    def close(self) -> list[bytes]:
        """The payload of a last event that no blank line ended, if there is one."""
        payloads: list[bytes] = []
        if self._pieces:
            self._take(b"".join(self._pieces), payloads)
            self._pieces.clear()
        self._take(b"", payloads)
        return payloads

    def _take(self, line: bytes, payloads: list[bytes]) -> None:
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            if self._values:
                payloads.append(self._values[0] if len(self._values) == 1 else b"\n".join(self._values))
                self._values.clear()
            self._size = 0
        elif line.startswith(b"data:"):
            self._values.append(line[6:] if line.startswith(b"data: ") else line[5:])
        elif line == b"data":
            self._values.append(b"")
