r"""Open buffers as the editor tells us: text, version, hash. Only `\n` and `\r\n` end a line, as everywhere here."""

import asyncio
from collections.abc import Sequence

from tinsmith.adapters.lsp.wire import ContentChange, Position, Range, TextDocumentItem
from tinsmith.domain.change import Eol, Snapshot
from tinsmith.workspace.paths import path_of_uri
from tinsmith.workspace.text import dominant_eol, text_hash


class Document:
    """One open document, kept as lines with their ends, so that a change costs what it touches."""

    def __init__(self, uri: str, version: int, text: str, encoding: str) -> None:
        self.uri = uri
        self.version = version
        self.saved_hash: str | None = None
        """The hash of what is on disk, as far as we know; None until somebody looked."""
        self._lines = text.split("\n")
        self._encoding = encoding
        self._text: str | None = text
        self._hash: str | None = None

    @property
    def text(self) -> str:
        """The whole text, with the line ends the editor sent."""
        if self._text is None:
            self._text = "\n".join(self._lines)
        return self._text

    @property
    def hash(self) -> str:
        """The hash of the text, counted once per version."""
        if self._hash is None:
            self._hash = text_hash(self.text)
        return self._hash

    @property
    def is_dirty(self) -> bool:
        """Whether the editor holds text that is not on disk."""
        return self.saved_hash is not None and self.saved_hash != self.hash

    @property
    def eol(self) -> Eol:
        """What new lines get."""
        return dominant_eol(self.text)

    def change(self, version: int, changes: Sequence[ContentChange]) -> None:
        """Apply the changes of one notification, one after the other. Positions beyond the text are clamped."""
        for each in changes:
            if each.range is None:
                self._lines = each.text.split("\n")
            else:
                self._splice(each.range, each.text)
        if self.saved_hash is None:
            self.saved_hash = self.hash
        self.version = version
        self._text = self._hash = None

    def offset_range(self, start: int, end: int) -> Range:
        """The range of code-point offsets `[start, end)` of the text, in the client's position encoding."""
        return Range(self._position(start), self._position(end))

    def _splice(self, span: Range, text: str) -> None:
        first, start = self._locate(span.start)
        last, end = self._locate(span.end)
        last, end = max((last, end), (first, start))
        joined = self._lines[first][:start] + text + self._lines[last][end:]
        self._lines[first : last + 1] = joined.split("\n")

    def _locate(self, position: Position) -> tuple[int, int]:
        """Line and code-point column of a position, clamped to the text and to before a line's end."""
        if position.line >= len(self._lines):
            return len(self._lines) - 1, len(self._lines[-1])
        line = max(0, position.line)
        text = self._lines[line].removesuffix("\r") if line < len(self._lines) - 1 else self._lines[line]
        return line, _code_points(text, max(0, position.character), self._encoding)

    def _position(self, offset: int) -> Position:
        text = self.text
        line_start = text.rfind("\n", 0, offset) + 1
        return Position(text.count("\n", 0, offset), _units(text[line_start:offset], self._encoding))


def _code_points(text: str, units: int, encoding: str) -> int:
    """How many code points of `text` the first `units` units of the encoding reach into; half a character counts."""
    if encoding == "utf-32" or text.isascii():
        return min(units, len(text))
    low, high = 0, min(units, len(text))
    while low < high:
        middle = (low + high) // 2
        if _units(text[low:middle], encoding) < units:
            units -= _units(text[low : middle + 1], encoding)
            low = middle + 1
        else:
            high = middle
    return low


def _units(text: str, encoding: str) -> int:
    """The length of `text` in units of the encoding."""
    if encoding == "utf-32" or text.isascii():
        return len(text)
    if encoding == "utf-16":
        return len(text.encode("utf-16-le", "surrogatepass")) // 2
    return len(text.encode("utf-8", "surrogatepass"))


class OpenDocuments:
    """Every open document, found by the path its URI means, however the URI is written."""

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding
        self._by_key: dict[str, Document] = {}
        self._waiting: list[asyncio.Future[None]] = []

    def open(self, item: TextDocumentItem) -> None:
        """Take a document in; opening it again replaces it."""
        document = Document(item.uri, item.version, item.text, self.encoding)
        if path_of_uri(item.uri) is None:
            document.saved_hash = text_hash("")
        self._by_key[_key(item.uri)] = document
        self._tell()

    def change(self, uri: str, version: int | None, changes: Sequence[ContentChange]) -> bool:
        """Apply changes to an open document. False when it is not open or the version is not a newer one."""
        document = self._by_key.get(_key(uri))
        if document is None or (version is not None and version < document.version):
            return False
        document.change(document.version if version is None else version, changes)
        self._tell()
        return True

    def close(self, uri: str) -> None:
        """Let a document go; from now on the disk is its truth."""
        self._by_key.pop(_key(uri), None)
        self._tell()

    def save(self, uri: str) -> None:
        """The editor wrote the document to disk."""
        if document := self._by_key.get(_key(uri)):
            document.saved_hash = document.hash

    def get(self, uri: str) -> Document | None:
        """The open document that `uri` names."""
        return self._by_key.get(_key(uri))

    def items(self) -> tuple[tuple[str, Document], ...]:
        """Every open document with its path (or, when it has none, its URI)."""
        return tuple(self._by_key.items())

    async def changed(self) -> None:
        """Returns when a document was opened, changed or closed."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    def _tell(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def at(self, path: str) -> Document | None:
        """The open document at an absolute path."""
        return self._by_key.get(path)

    def snapshot(self, path: str) -> Snapshot | None:
        """The open document at an absolute path, as a snapshot."""
        document = self._by_key.get(path)
        if document is None:
            return None
        return Snapshot(
            path=path,
            text=document.text,
            hash=document.hash,
            source="buffer",
            eol=document.eol,
            version=document.version,
            is_dirty=document.is_dirty,
        )


def _key(uri: str) -> str:
    """The path of a file URI; any other URI stands for itself."""
    return path_of_uri(uri) or uri
