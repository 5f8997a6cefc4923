"""Decoding of what a provider sent, strictly first and then as loosely as the field demands. Pure."""

import json
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin

import msgspec

from tinsmith.domain.errors import ProtocolError
from tinsmith.llm.surrogates import mend

T = TypeVar("T")

QUOTED = 200
"""Characters of a foreign body that a message shows."""


def decode(payload: bytes, decoder: msgspec.json.Decoder[T], host: str, title: str) -> T:
    """The struct in `payload`; fields of a wrong type count as absent.

    Raises ProtocolError `badEvent` when it is not a JSON object. `title` names the dialect in its message.
    """
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return salvage(decode_loosely(payload, host, title), decoder.type)


def decode_loosely(payload: bytes, host: str, title: str) -> dict[str, Any]:
    """The JSON object in `payload` with the flaws of the field: control characters, lone surrogates, broken UTF-8.

    Raises as `decode`.
    """
    text = payload.decode("utf-8", "replace")
    try:
        clean = mend(json.dumps(json.loads(text, strict=False), ensure_ascii=False))
        value: Any = msgspec.json.decode(clean)
    except (ValueError, RecursionError) as error:
        raise _bad_event(text, host, title) from error
    if not isinstance(value, dict):
        raise _bad_event(text, host, title)
    return cast("dict[str, Any]", value)


def is_object(text: str) -> bool:
    """Whether `text` is a whole JSON object, as the arguments of a call must be."""
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False


def salvage(value: Any, kind: Any) -> Any:
    """As much of `value` as fits `kind`, None for what does not."""
    options: tuple[Any, ...] = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    for option in options:
        if get_origin(option) is list and isinstance(value, list):
            (item,) = get_args(option)
            entries = [salvage(entry, item) for entry in cast("list[Any]", value)]
            return [entry for entry in entries if entry is not None]
        if isinstance(option, type) and issubclass(option, msgspec.Struct) and isinstance(value, dict):
            named = cast("dict[str, Any]", value)
            fields = [field for field in msgspec.structs.fields(option) if field.encode_name in named]
            return option(**{field.name: salvage(named[field.encode_name], field.type) for field in fields})
    try:
        return msgspec.convert(value, kind, strict=False)
    except (msgspec.ValidationError, RecursionError):
        return None


def _bad_event(text: str, host: str, title: str) -> ProtocolError:
    what = f"{host} sent something that does not belong to an answer in {title}: {text[:QUOTED]!r}"
    advice = "Check llm_config.base_url and llm_config.dialect."
    return ProtocolError("badEvent", f"{what}. {advice}", origin="llm")
