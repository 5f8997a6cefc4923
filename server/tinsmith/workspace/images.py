"""Images by their own bytes: which of the formats that models see, and how large. Pure; nothing is decoded.

Sources: PNG (W3C, "IHDR"), GIF89a ("Logical Screen Descriptor"), JPEG (ITU T.81, "Frame header syntax"), WebP
(RFC 9649, "VP8", "VP8L" and "VP8X" chunks).
"""

import struct
from collections.abc import Callable
from typing import Literal, NamedTuple

Kind = Literal["png", "jpeg", "gif", "webp"]

_FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Start of a frame, in any of JPEG's processes; the three others in this range are tables."""
_LONE_MARKERS = frozenset({0x01, *range(0xD0, 0xD9)})
"""Markers without a length behind them."""


class ImageFacts(NamedTuple):
    """What an image is. `width` and `height` in pixels, 0 when the file is broken off before they are told."""

    kind: Kind
    width: int
    height: int

    def __str__(self) -> str:
        """Kind and size as people read them."""
        size = f"{self.width}x{self.height} pixels" if self.width and self.height else "broken off"
        return f"{self.kind.upper()} image, {size}"

    @property
    def mime_type(self) -> str:
        """As providers want it."""
        return f"image/{self.kind}"


def look_at_image(content: bytes) -> ImageFacts | None:
    """What the image is that these bytes begin, None for anything that is no PNG, JPEG, GIF or WebP."""
    kind = _kind(content)
    if kind is None:
        return None
    try:
        return ImageFacts(kind, *_SIZES[kind](content))
    except (struct.error, IndexError):
        return ImageFacts(kind, 0, 0)


def _kind(content: bytes) -> Kind | None:
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if content.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    return "webp" if content.startswith(b"RIFF") and content[8:12] == b"WEBP" else None


def _png_size(content: bytes) -> tuple[int, int]:
    return struct.unpack_from(">II", content, 16) if content[12:16] == b"IHDR" else (0, 0)


def _gif_size(content: bytes) -> tuple[int, int]:
    return struct.unpack_from("<HH", content, 6)


def _jpeg_size(content: bytes) -> tuple[int, int]:
    """Of the first frame: segments are passed over by their lengths."""
    place = 2
    while True:
        while content[place + 1] == 0xFF:  # fill bytes
            place += 1
        if content[place] != 0xFF:
            return 0, 0
        marker = content[place + 1]
        if marker in _FRAME_MARKERS:
            height, width = struct.unpack_from(">HH", content, place + 5)
            return width, height
        if marker in _LONE_MARKERS:
            place += 2
        else:
            place += 2 + max(2, int(struct.unpack_from(">H", content, place + 2)[0]))


def _webp_size(content: bytes) -> tuple[int, int]:
    match content[12:16]:
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", content, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            bits = int(struct.unpack_from("<I", content, 21)[0])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            width, height = (int.from_bytes(content[at : at + 3], "little") + 1 for at in (24, 27))
            return (width, height) if len(content) >= 30 else (0, 0)
        case _:
            return 0, 0


_SIZES: dict[Kind, Callable[[bytes], tuple[int, int]]] = {
    "png": _png_size,
    "jpeg": _jpeg_size,
    "gif": _gif_size,
    "webp": _webp_size,
}
