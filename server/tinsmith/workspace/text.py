r"""Bytes of a file to text and back, exactly; lines; the hash that buffer and disk agree on. Pure.

Only `\n` and `\r\n` end a line. A lone `\r`, a form feed or U+2028 is part of its line.
"""

import hashlib
import re
from collections.abc import Sequence

from tinsmith.domain.change import Encoding, Eol, Snapshot, Source
from tinsmith.domain.errors import ToolError
from tinsmith.workspace.images import ImageFacts, look_at_image

_BOMS: tuple[tuple[bytes, Encoding], ...] = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_NO_BOM: tuple[bytes, Encoding] = (b"", "utf-8")
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive"),
    (b"\x1f\x8b", "gzip archive"),
    (b"\x7fELF", "ELF program"),
    (b"SQLite format 3\0", "SQLite database"),
)
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


class ImageFileError(ToolError):
    """The file is an image and no text; `image` and `size`, in bytes, say which."""

    def __init__(self, path: str, image: ImageFacts, size: int) -> None:
        super().__init__(
            "binary",
            f"{path} is a binary file ({image}, {size:,} bytes), so it cannot be edited as text. Use bash with a "
            "program that understands it.",
            data={"bytes": size, "kind": f"{image.kind.upper()} image"},
        )
        self.image = image
        self.size = size


def decode(path: str, content: bytes, source: Source = "disk") -> Snapshot:
    """The snapshot of a file's bytes.

    UTF-8 with or without BOM and UTF-16 with BOM can be edited; any other text is read
    with replacement marks and `is_editable` false. Raises ToolError `binary` for what is no text, as an
    ImageFileError for an image.
    """
    image = look_at_image(content)
    if image is not None:
        raise ImageFileError(path, image, len(content))
    bom, encoding = next((known for known in _BOMS if content.startswith(known[0])), _NO_BOM)
    body = content[len(bom) :]
    kind = next((kind for magic, kind in _MAGIC if content.startswith(magic)), "")
    try:
        text, is_exact = body.decode(encoding), True
    except UnicodeDecodeError:
        text, is_exact = body.decode(encoding, "replace"), False
    if kind or "\0" in text or (not is_exact and len(_CONTROLS.findall(text)) * 10 > len(text)):
        raise ToolError(
            "binary",
            f"{path} is a binary file ({kind or 'unknown kind'}, {len(content):,} bytes), so it cannot be shown or "
            "edited as text. Use bash with a program that understands it.",
            data={"bytes": len(content), "kind": kind or "unknown"},
        )
    return Snapshot(
        path=path,
        text=text,
        hash=text_hash(text),
        source=source,
        eol=dominant_eol(text),
        has_bom=bool(bom),
        encoding=encoding,
        is_editable=is_exact,
    )


def encode(text: str, has_bom: bool, encoding: Encoding) -> bytes:  # noqa: FBT001  a fact of the file, beside its encoding
    """The inverse of `decode` for editable text."""
    return _bom(has_bom, encoding) + text.encode(encoding)


def image_of(text: str, has_bom: bool, encoding: Encoding) -> bytes:  # noqa: FBT001  as `encode`
    """The bytes to keep of a text: those of its file, halves of surrogate pairs included, which no file can hold."""
    return _bom(has_bom, encoding) + text.encode(encoding, "surrogatepass")


def text_of_image(content: bytes, has_bom: bool, encoding: Encoding) -> str:  # noqa: FBT001  as `encode`
    """The inverse of `image_of`."""
    return content[len(_bom(has_bom, encoding)) :].decode(encoding, "surrogatepass")


def text_hash(text: str) -> str:
    r"""First 16 hex digits of SHA-256 over the UTF-8 text with `\r\n` read as `\n`; `text` has no BOM."""
    unix = text.replace("\r\n", "\n") if "\r" in text else text
    return hashlib.sha256(unix.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def dominant_eol(text: str) -> Eol:
    r"""The line end most lines have; the first one's on a tie, `\n` without any."""
    if "\r" not in text:
        return "\n"
    windows = text.count("\r\n")
    unix = text.count("\n") - windows
    if windows == unix and windows:
        return "\r\n" if text[: text.index("\n")].endswith("\r") else "\n"
    return "\r\n" if windows > unix else "\n"


def lines_of(text: str, most: int = -1) -> list[str]:
    """The lines without their ends, the first `most` of them. A final line end opens no further line."""
    lines = text.split("\n", most)
    last = lines.pop()
    if "\r" in text:
        lines = [line.removesuffix("\r") for line in lines]
    return [*lines, last] if last and len(lines) != most else lines


def line_count(text: str) -> int:
    """How many lines `lines_of` gives."""
    return text.count("\n") + (bool(text) and not text.endswith("\n"))


def line_starts(text: str) -> list[int]:
    """The offset of each line of `lines_of`, then the length of the text."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    if starts[-1] != len(text):
        starts.append(len(text))
    return starts


def with_eol(text: str, eol: Eol) -> str:
    """`text` with every line ended by `eol`."""
    unix = text.replace("\r\n", "\n")
    return unix if eol == "\n" else unix.replace("\n", eol)


def numbered(lines: Sequence[str], first: int) -> str:
    r"""The lines as every tool shows them: `   12\ttext`, counted from `first`."""
    return "".join(f"{number:>5}\t{line}\n" for number, line in enumerate(lines, first))


def _bom(has_bom: bool, encoding: Encoding) -> bytes:  # noqa: FBT001  as `encode`
    return next(bom for bom, name in _BOMS if name == encoding) if has_bom else b""
