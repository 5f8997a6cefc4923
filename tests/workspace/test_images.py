"""What an image is, by its bytes: each format as its own encoder writes it, broken off anywhere, and what is none."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.workspace.images import ImageFacts, look_at_image

sides = st.integers(1, 0x3FFF)


def png(width: int, height: int) -> bytes:
    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


def jpeg(width: int, height: int, *, frame: int = 0xC0, before: bytes = b"") -> bytes:
    application = b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0\1\1\0\0\1\0\1\0\0"
    table = b"\xff\xc4" + struct.pack(">H", 6) + b"\xff\xc0\0\0"  # a table that looks like a frame inside
    size = struct.pack(">HBHHB", 11, 8, height, width, 1)
    return b"\xff\xd8" + application + table + before + bytes([0xFF, frame]) + size + b"\1\x11\0\xff\xd9"


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0, 0, 0) + b";"


def webp(kind: bytes, body: bytes) -> bytes:
    chunk = kind + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk


def lossy(width: int, height: int) -> bytes:
    return webp(b"VP8 ", b"\x30\1\0\x9d\1\x2a" + struct.pack("<HH", width | 0x4000, height | 0x8000) + b"\0" * 8)


def lossless(width: int, height: int) -> bytes:
    return webp(b"VP8L", b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14) + b"\0" * 8)


def extended(width: int, height: int) -> bytes:
    return webp(b"VP8X", b"\x10\0\0\0" + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"))


MAKERS = {
    "png": png,
    "jpeg": jpeg,
    "jpeg progressive": lambda width, height: jpeg(width, height, frame=0xC2),
    "jpeg filled": lambda width, height: jpeg(width, height, before=b"\xff\xff\xff\xd0\xff"),
    "gif": gif,
    "webp lossy": lossy,
    "webp lossless": lossless,
    "webp extended": extended,
}


@given(st.sampled_from(sorted(MAKERS)), sides, sides, st.data())
def test_kind_and_size(name, width, height, data):
    content = MAKERS[name](width, height)
    kind = name.partition(" ")[0]
    assert look_at_image(content) == ImageFacts(kind, width, height)
    cut = look_at_image(content[: data.draw(st.integers(0, len(content)))])
    assert cut in {None, ImageFacts(kind, 0, 0), ImageFacts(kind, width, height)}


@given(st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"RIFF\0\0\0\0WEBP"]), st.binary(max_size=80))
def test_whatever_follows_a_signature_is_looked_at_without_harm(signature, rest):
    facts = look_at_image(signature + rest)
    assert facts is not None
    assert facts.mime_type == f"image/{facts.kind}"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x89PNG",
        b"BM6\0\0\0",
        b"II*\0",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"RIFF\0\0\0\0WAVEfmt ",
        b"GIF8",
    ],
)
def test_what_is_no_image_that_models_see(content):
    assert look_at_image(content) is None


def test_in_words():
    assert str(ImageFacts("png", 640, 480)) == "PNG image, 640x480 pixels"
    assert str(ImageFacts("webp", 0, 0)) == "WEBP image, broken off"
