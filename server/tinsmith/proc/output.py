"""The output of one command while it runs: bounded in memory, readable, free of known secrets.

Bytes become plain lines. The first lines are kept for the head, the last bytes for the tail; output that is too long
to show goes whole into a file, up to a limit. What is shown live is what is kept.
"""

import codecs
import contextlib
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from tinsmith.domain.ids import new_id
from tinsmith.domain.redaction import redact
from tinsmith.proc.terminal import plain

SHOWN_CHARACTERS = 18_000
"""Of a result; longer output loses its middle."""
LIVE_CHARACTERS = 200_000
SPILLED_CHARACTERS = 8_000_000
SPILLED_FILES = 40
_HEAD_CHARACTERS = 6_000
_TAIL_BYTES = 64_000
_LONGEST_LINE = 32_000
_LONGEST_KEY = 16_000


@dataclass(frozen=True, slots=True)
class Output:
    """What is left of an output of `lines` lines and `size` bytes: whole, or head and tail with a marked gap.

    `spilled` is the file that holds all of it (its beginning, when not `is_spilled_whole`), empty when `text` does.
    """

    text: str
    lines: int
    size: int
    spilled: str = ""
    is_spilled_whole: bool = True


class OutputCollector:
    """Takes bytes as they come. One per command; not for several threads."""

    def __init__(self, folder: str, secrets: tuple[str, ...], live: Callable[[str], None]) -> None:
        self._secrets = secrets
        self._live = _Live(live)
        self._spill = _Spill(folder)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._open = ""
        self._head: list[str] = []
        self._head_size = 0
        self._characters = 0
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._newlines = 0
        self._size = 0
        self._ends_line = True

    def feed(self, chunk: bytes) -> None:
        """More bytes, at least one."""
        self._size += len(chunk)
        self._newlines += chunk.count(b"\n")
        self._ends_line = chunk.endswith(b"\n")
        self._tail.append(chunk)
        self._tail_size += len(chunk)
        while self._tail_size - len(self._tail[0]) >= _TAIL_BYTES:
            self._tail_size -= len(self._tail.popleft())
        if self._characters < SPILLED_CHARACTERS:
            self._take(self._open + self._decoder.decode(chunk))

    def pause(self) -> None:
        """Nothing came for a while: show the line that is still open."""
        if self._open and self._characters < SPILLED_CHARACTERS:
            self._live.open_line(self._readable(self._open))

    def finish(self) -> Output:
        """The output as a whole. Closes the file; nothing may be fed afterwards."""
        is_whole = self._characters < SPILLED_CHARACTERS
        if is_whole:
            self._keep(self._open + self._decoder.decode(b"", final=True))
        self._live.close()
        lines = self._newlines + (not self._ends_line)
        text = "".join(self._head)
        if self._characters <= SHOWN_CHARACTERS:
            return Output(redact(text, self._secrets), lines, self._size)
        head = _first_lines(text, _HEAD_CHARACTERS)
        tail = self._last_lines(SHOWN_CHARACTERS - len(head))
        gap = max(lines - head.count("\n") - tail.count("\n") - (not tail.endswith("\n")), 0)
        middle = f"[... {gap:,} lines left out here, of {lines:,} lines and {self._size:,} bytes in all ...]\n"
        return Output(redact(head, self._secrets) + middle + tail, lines, self._size, self._spill.close(), is_whole)

    def _take(self, text: str) -> None:
        """Keep whole lines, of a line without end all but the newest piece; hold an unfinished private key back."""
        cut = text.rfind("\n") + 1
        key = text.rfind("-----BEGIN ", 0, cut)
        if key >= 0 and "-----END " not in text[key:cut] and len(text) - key < _LONGEST_KEY:
            cut = text.rfind("\n", 0, key) + 1
        elif len(text) - cut > _LONGEST_LINE:
            redraw = text.rfind("\r", cut, -1)
            if redraw >= 0:
                text = text[:cut] + text[redraw:]
            else:
                cut = len(text) - _LONGEST_LINE // 2
        self._open = text[cut:]
        if cut:
            self._keep(text[:cut])

    def _keep(self, raw: str) -> None:
        text = self._readable(raw)
        self._live.lines(text)
        self._characters += len(text)
        if self._characters > SHOWN_CHARACTERS:
            self._spill.write("".join(self._head) if self._spill.is_unused else "", text)
        if self._characters <= SHOWN_CHARACTERS or self._head_size < _HEAD_CHARACTERS:
            self._head.append(text)
            self._head_size += len(text)

    def _readable(self, raw: str) -> str:
        return redact(plain(raw), self._secrets)

    def _last_lines(self, limit: int) -> str:
        last = self._readable(b"".join(self._tail).decode("utf-8", "replace"))[-limit:]
        return last[last.find("\n", 0, -1) + 1 :]


class _Live:
    """Text on its way to whoever watches: whole lines, and a line's beginning when it lingers."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._begun = ""
        self._left = LIVE_CHARACTERS

    def lines(self, text: str) -> None:
        if self._begun:
            begun, self._begun = self._begun, ""
            text = text.removeprefix(begun) if text.startswith(begun) else "\n" + text
        self._send(text)

    def open_line(self, text: str) -> None:
        if text.startswith(self._begun) and text != self._begun:
            self._send(text.removeprefix(self._begun))
            self._begun = text

    def close(self) -> None:
        if self._left < 0:
            self._show("\n[... more than is shown live; the result has the end ...]\n")

    def _send(self, text: str) -> None:
        if text and self._left > 0:
            self._show(text[: self._left])
        self._left -= len(text)


class _Spill:
    """A private file in a folder of such files, made when first written to; a full disk loses it and nothing else."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None
        self._path = ""
        self.is_unused = True

    def write(self, *texts: str) -> None:
        try:
            if self.is_unused:
                self.is_unused = False
                self._file = self._opened()
            if self._file is not None:
                self._file.write("".join(texts).encode("utf-8", "replace"))
        except OSError:
            self._drop()

    def close(self) -> str:
        """The file's path, empty when it could not be written."""
        try:
            if self._file is not None:
                self._file.close()
        except OSError:
            self._drop()
        return self._path

    def _opened(self) -> BinaryIO:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        for name in sorted(os.listdir(self._folder))[: -SPILLED_FILES + 1]:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._folder, name))
        self._path = os.path.join(self._folder, new_id("o") + ".txt")
        return os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")

    def _drop(self) -> None:
        with contextlib.suppress(OSError):
            if self._file is not None:
                self._file.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        self._file, self._path = None, ""


def _first_lines(text: str, limit: int) -> str:
    head = text[:limit]
    cut = head.rfind("\n") + 1
    return head[:cut] if cut else head + "\n"
