"""Images that come with a message: looked at, bounded, kept under their hash, and found again for each request.

An image that its provider refuses would have every later request of the conversation refused as well, so the bounds are
those of the strictest one.
"""

import base64
import os
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tinsmith.domain.errors import SchemaError, ToolError
from tinsmith.domain.message import ImagePart, Part
from tinsmith.engine.images import MOST_BYTES, MOST_IMAGES
from tinsmith.services.settings import OffLoop
from tinsmith.store import Storage
from tinsmith.store.blobs import blob_hash
from tinsmith.workspace.files import read_bytes
from tinsmith.workspace.images import look_at_image
from tinsmith.workspace.paths import locate, path_of_uri

MOST_BASE64 = 5 * 1024 * 1024
"""Characters of one image in base64. Source: Anthropic, "Images and vision": 5 MB an image; it counts them encoded."""
MOST_PIXELS = 8_000
"""A side. Source: the same."""
_UNREADABLE = {
    "notFound": "is not there",
    "isDirectory": "is a directory",
    "notRegular": "is no regular file",
    "notReadable": "cannot be read",
}


class GivenImage(msgspec.Struct, frozen=True):
    """An image as a client gives it: base64 `data` or a `file:` URI; `place` is where in its request, for errors."""

    place: str
    data: str | None = None
    uri: str | None = None


class Images:
    """The images of every conversation."""

    def __init__(self, storage: Storage, off_loop: OffLoop) -> None:
        self._storage = storage
        self._off_loop = off_loop

    async def take_in(self, parts: Sequence[Part | GivenImage], root: str) -> tuple[Part, ...]:
        """The parts with every image kept, and named by its hash; URIs must lead into the directory `root`.

        Raises SchemaError `invalidParams` with the place of the first image that cannot be taken; none is kept then.
        """
        if not any(isinstance(part, GivenImage) for part in parts):
            return tuple(part for part in parts if not isinstance(part, GivenImage))
        taken = await self._off_loop(lambda: _take(parts, root))
        contents = [part.content for part in taken if isinstance(part, _Taken)]
        await self._storage.write(lambda session: [session.blobs.put(content) for content in contents])
        return tuple(part.image if isinstance(part, _Taken) else part for part in taken)

    def load(self, name: str) -> bytes | None:
        """The bytes of an image by its hash, None when they are not there."""
        return self._storage.read(lambda session: session.blobs.get(name))


class _Taken(NamedTuple):
    image: ImagePart
    content: bytes


def _take(parts: Sequence[Part | GivenImage], root: str) -> list[Part | _Taken]:
    """The parts with every image looked at. Blocking."""
    taken: list[Part | _Taken] = []
    count = size = 0
    for part in parts:
        if not isinstance(part, GivenImage):
            taken.append(part)
            continue
        count += 1
        if count > MOST_IMAGES:
            raise _refused(part.place, f"A message can have {MOST_IMAGES} images. Send the others with the next one")
        place, content = _content(part, root)
        size += len(content)
        if size > MOST_BYTES:
            together = f"The images of a message can have {MOST_BYTES:,} bytes together"
            raise _refused(place, f"{together}. Send this one with the next message, or make them smaller")
        taken.append(_Taken(_checked(place, content), content))
    return taken


def _content(given: GivenImage, root: str) -> tuple[str, bytes]:
    """The place of what says where the image is, and its bytes."""
    if given.data is not None and given.uri is None:
        place = f"{given.place}.data"
        return place, _decoded(place, given.data)
    if given.uri is not None and given.data is None:
        place = f"{given.place}.uri"
        return place, _read(place, given.uri, root)
    raise _refused(given.place, "An image needs either data, in base64, or a uri. Send one of them")


def _decoded(place: str, text: str) -> bytes:
    if len(text) > MOST_BASE64:
        raise _too_large(place)
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise _refused(
            place, f"This is not base64 ({error}). Encode the bytes of the image, and nothing else"
        ) from error


def _read(place: str, uri: str, root: str) -> bytes:
    if path_of_uri(uri) is None:
        raise _refused(place, "The uri of an image must be a file: URI. Send the bytes of others as data")
    try:
        found = locate(uri, root)
        if found.is_outside or found.is_secret:
            why = "is outside the workspace" if found.is_outside else "has a name that secret files have"
            raise _refused(place, f"{found.shown} {why}, so it was not opened. Send its bytes as data")
        return read_bytes(found.path)
    except ToolError as error:
        if error.code == "tooLarge":
            raise _too_large(place) from error
        why = _UNREADABLE.get(error.code, "is no path")
        raise _refused(place, f"{os.path.basename(uri)} {why}. Name a file that is an image") from error


def _checked(place: str, content: bytes) -> ImagePart:
    """What the image is, whatever it was called. Raises SchemaError for what no model would look at."""
    if (len(content) + 2) // 3 * 4 > MOST_BASE64:
        raise _too_large(place)
    facts = look_at_image(content)
    if facts is None:
        raise _refused(place, "This is no PNG, JPEG, GIF or WebP image. Convert it to one of them")
    if not facts.width or not facts.height:
        raise _refused(place, f"This {facts.kind.upper()} image is broken off: its size cannot be read. Save it anew")
    if max(facts.width, facts.height) > MOST_PIXELS:
        raise _refused(place, f"The image ({facts}) has more than {MOST_PIXELS:,} pixels a side. Make it smaller")
    return ImagePart(blob_hash(content), facts.mime_type, len(content), facts.width, facts.height)


def _too_large(place: str) -> SchemaError:
    return _refused(place, f"An image can have {MOST_BASE64 // 4 * 3:,} bytes. Make it smaller, or save it as JPEG")


def _refused(place: str, why: str) -> SchemaError:
    return SchemaError("invalidParams", f"{why}.", data={"path": place})
