"""Markdown as it is written piece by piece: blocks, flowing text, lists, quotes, links, tables, code. Pure."""

import re
from collections.abc import Iterable, Sequence

_BLANKS = re.compile(r"[ \t\n\r\f]+")
_MAX_COLUMNS = 60


class Writer:
    """One run of blocks. White space of flowing text collapses; gaps between blocks never add up.

    `prefix` begins every line (indents, quotes). `size` counts the characters written.
    """

    def __init__(self) -> None:
        self.prefix = ""
        self.size = 0
        self._parts: list[str] = []
        self._gap = 1
        self._marker = ""
        self._ends_blank = True
        self._link: tuple[str, int] | None = None

    def text(self) -> str:
        """All that was written."""
        self.end_link()
        return "".join(self._parts).strip("\n").rstrip(" ")

    def gap(self, lines: int) -> None:
        """What follows begins on a new line, with `lines - 1` empty ones before it; not behind a mark."""
        if not self._marker:
            self._gap = max(self._gap, lines)

    def tighten(self) -> None:
        """No empty line before what follows."""
        self._gap = min(self._gap, 1)

    def mark(self, marker: str) -> None:
        """What follows begins on a new line with `marker` in place of the prefix."""
        self._gap = max(self._gap, 1)
        self._marker = marker

    def flow(self, text: str) -> None:
        """Text within a line."""
        text = _BLANKS.sub(" ", text)
        if self._gap or self._ends_blank:
            text = text.removeprefix(" ")
        if not text:
            return
        self._begin_line()
        if self._link is not None and self._link[1] < 0:
            self._link = (self._link[0], len(self._parts))
            self._put("[")
        self._put(text)
        self._ends_blank = text.endswith(" ")

    def begin_link(self, url: str) -> None:
        """Text up to the link's end, or to the end of the block, is a link."""
        self.end_link()
        self._link = (url, -1)

    def end_link(self) -> None:
        """Close the link that is open, if there is one."""
        if self._link is None:
            return
        (url, start), self._link = self._link, None
        if start < 0:
            return
        text = "".join(self._parts[start + 1 :])
        if text.strip() == url:
            self._parts[start] = ""
            return
        blank = " " if self._ends_blank else ""
        self._parts[start + 1 :] = [text.rstrip(" ")]
        self._put(f"]({url}){blank}")

    def lines(self, lines: Sequence[str]) -> None:
        """A block of lines that stay as they are."""
        self.gap(2)
        for line in lines:
            self._begin_line()
            self._put(line)
            self._gap = 1
        self.gap(2)

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Rows of cells, the first one as the head; what has one column is no table."""
        columns = min(max(map(len, rows), default=0), _MAX_COLUMNS)
        if columns < 2:
            self.blocks(cell for row in rows for cell in row)
            return
        padded = [[*row, *[""] * columns][:columns] for row in rows]
        written = ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in padded]
        self.lines([written[0], "|" + " --- |" * columns, *written[1:]])

    def blocks(self, texts: Iterable[str]) -> None:
        """Each text as a block of its own."""
        for text in texts:
            if text.strip():
                self.lines(text.strip("\n").split("\n"))

    def _begin_line(self) -> None:
        if not self._gap:
            return
        if self._link is not None and self._link[1] >= 0:
            self.end_link()  # a link over several blocks is one over the first
        if self._parts:
            self._parts[-1] = self._parts[-1].rstrip(" ")
            self._put("\n" * self._gap)
        self._put(self._marker or self.prefix)
        self._gap, self._marker = 0, ""

    def _put(self, text: str) -> None:
        self._parts.append(text)
        self.size += len(text)


def _cell(text: str) -> str:
    return _BLANKS.sub(" ", text).strip().replace("|", "\\|")
