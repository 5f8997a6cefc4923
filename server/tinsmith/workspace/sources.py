"""The texts of many files, one after the other: open buffers before the disk. Blocking."""

import os
import stat
from collections.abc import Mapping

from tinsmith.domain.errors import ToolError
from tinsmith.workspace.descriptors import open_resolved
from tinsmith.workspace.paths import is_secret
from tinsmith.workspace.text import decode

MAX_SOURCE_BYTES = 2_000_000
"""Of a file that is looked into while looking at many."""


class Sources:
    """Files below `root` by relative paths. `buffers` are the texts of open documents by absolute path."""

    def __init__(self, root: str, buffers: Mapping[str, str]) -> None:
        self.root = root
        self._real_root = os.path.realpath(root)
        self._buffers = {
            os.path.relpath(path, each): text
            for each in (root, self._real_root)
            for path, text in buffers.items()
            if path.startswith(each.rstrip(os.sep) + os.sep)
        }

    @property
    def opened(self) -> Mapping[str, str]:
        """The texts of the open documents below the root, by relative path."""
        return self._buffers

    def unsaved_files(self) -> list[str]:
        """Open documents that have no file yet."""
        return sorted(path for path in self._buffers if not os.path.lexists(os.path.join(self.root, path)))

    def size(self, path: str) -> int | None:
        """Bytes of a file or of its buffer; None when it is no regular file."""
        if path in self._buffers:
            return len(self._buffers[path].encode("utf-8", "surrogatepass"))
        try:
            facts = os.lstat(os.path.join(self.root, path))
        except OSError:
            return None
        return facts.st_size if stat.S_ISREG(facts.st_mode) else None

    def text(self, path: str, needle: str = "") -> str | None:
        """The text; None for a file that is secret, too large, gone or no text, or that does not hold the needle.

        The needle is in lower case; upper and lower case are the same to it.
        """
        if path in self._buffers:
            text = self._buffers[path]
            return text if needle in text.lower() else None
        content = None if is_secret(path) else self._content(path)
        if content is None or not _may_hold(content, needle):
            return None
        try:
            text = decode(path, content).text
        except ToolError:
            return None
        return text if needle in text.lower() else None

    def _content(self, path: str) -> bytes | None:
        try:
            descriptor = open_resolved(os.path.join(self._real_root, path), os.O_RDONLY | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                facts = os.fstat(descriptor)
                is_usual = stat.S_ISREG(facts.st_mode) and facts.st_size <= MAX_SOURCE_BYTES
                return file.read(MAX_SOURCE_BYTES) if is_usual else None
        except OSError:
            return None


def _may_hold(content: bytes, needle: str) -> bool:
    """False only when the needle is not there for sure; another encoding than UTF-8 is looked at later."""
    return not needle.isascii() or content[:2] in {b"\xff\xfe", b"\xfe\xff"} or needle.encode() in content.lower()
