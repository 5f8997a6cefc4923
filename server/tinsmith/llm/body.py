"""A request body as bytes, and the parts of it that dialects write alike. Pure, and equal bytes for equal requests."""

import base64
from typing import Any, cast

import msgspec

from tinsmith.domain.message import ImagePart, Part
from tinsmith.llm.dialect import Terms
from tinsmith.llm.surrogates import mend


def encode_body(body: dict[str, Any], terms: Terms) -> bytes:
    """The body without the fields that the server refuses. Never raises for any text that a message can hold."""
    kept = {name: value for name, value in body.items() if name not in terms.profile.omits}
    try:
        return msgspec.json.encode(kept)
    except UnicodeEncodeError:
        return msgspec.json.encode(_mended(kept))


def text_of(part: Part) -> str:
    """A part as text: a label in front of what is about the moment, an image that is not there by its name."""
    if isinstance(part, ImagePart):
        return f"[an image ({part.mime_type}) that cannot be shown to this model]"
    return f"[{part.label}]\n{part.text}" if part.label else part.text


def image_of(part: Part, terms: Terms) -> str | None:
    """The bytes of an image in base64, None for everything else and for an image that is not there."""
    image = terms.load_image(part.blob) if isinstance(part, ImagePart) else None
    return None if image is None else base64.b64encode(image).decode()


def _mended(value: Any) -> Any:
    match value:
        case str():
            return mend(value)
        case dict():
            return {_mended(name): _mended(member) for name, member in cast("dict[Any, Any]", value).items()}
        case list():
            return [_mended(member) for member in cast("list[Any]", value)]
        case _:
            return value
