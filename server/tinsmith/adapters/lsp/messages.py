"""JSON-RPC messages as they come in: bytes to typed values. Pure, over bytes.

What is nearly JSON is mended where its meaning is plain: a byte order mark, bytes that are no UTF-8, halves of
surrogate pairs (a buffer may hold both) and NaN. Everything else is refused in words.
"""

import json
import re
from typing import Any, TypeVar, cast

import msgspec
from msgspec import UNSET, UnsetType

from tinsmith.domain.errors import ProtocolError, SchemaError

RequestId = int | float | str
"""What names a request; it is given back as it came."""
ABSENT = msgspec.Raw()
"""A field that did not come, or a null where null says nothing; it is empty, so it reads as false."""

_NULL = b"null"
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

Shape = TypeVar("Shape")


class Incoming(msgspec.Struct):
    """Any message of the other side; bodies stay raw until the method is known. A notification has no id at all."""

    id: RequestId | UnsetType | None = UNSET
    method: str | None = None
    params: msgspec.Raw = ABSENT
    result: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT


def read_message(body: bytes) -> Incoming:
    """The message in a frame. Raises ProtocolError `parse`, `batchUnsupported` or `invalidRequest`."""
    try:
        message = decode(body, Incoming)
    except msgspec.ValidationError as error:
        if body.lstrip()[:1] == b"[":
            raise ProtocolError("batchUnsupported", "Send one message per frame, not a batch.") from error
        text = str(error).partition(" - at `$")[0]
        raise ProtocolError("invalidRequest", f"The message is not a JSON-RPC object: {text}.") from error
    except msgspec.DecodeError as error:
        raise ProtocolError("parse", "The message is not JSON.") from error
    except RecursionError as error:
        raise ProtocolError("parse", "The message is nested too deeply. Flatten it.") from error
    if message.error and bytes(message.error) == _NULL:
        message.error = ABSENT
    return message


def id_of(body: bytes) -> RequestId | None:
    """The id of a request that cannot be read as one, as far as it can be told."""
    try:
        message: Any = json.loads(_mended(body))
    except (ValueError, RecursionError):
        return None
    fields = cast("dict[str, Any]", message) if isinstance(message, dict) else {}
    request_id = fields.get("id") if "method" in fields else None
    return request_id if isinstance(request_id, int | float | str) and not isinstance(request_id, bool) else None


def read_params(raw: msgspec.Raw, shape: type[Shape]) -> Shape:
    """Typed parameters; null is no parameters. Raises SchemaError `invalidParams` with the path of the faulty field."""
    try:
        return decode(b"{}" if not raw or bytes(raw) == _NULL else raw, shape)
    except msgspec.ValidationError as error:
        text, path = _fault(error)
        raise SchemaError("invalidParams", f"Invalid parameters: {text}.", data={"path": path}) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise SchemaError("invalidParams", f"Invalid parameters: {error}.", data={"path": ""}) from error


def decode(raw: bytes | msgspec.Raw, shape: type[Shape]) -> Shape:
    """The value in `raw`, mended where needed.

    Raises msgspec.ValidationError for another shape, another msgspec.DecodeError for what is no JSON, RecursionError
    for what is nested too deeply.
    """
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        try:
            mended = _mended(bytes(raw))
        except ValueError as error:
            raise msgspec.DecodeError(str(error)) from error
        return msgspec.json.decode(mended, type=shape)


def convert_what_fits(value: Any, shape: type[Shape]) -> tuple[Shape, tuple[str, ...]]:
    """The value as `shape` without the fields that do not fit it, and the paths of these.

    Raises msgspec.ValidationError when the value fits in no way.
    """
    dropped: list[str] = []
    while True:
        try:
            return msgspec.convert(value, shape, strict=False), tuple(dropped)
        except msgspec.ValidationError as error:
            path = _fault(error)[1].partition("[")[0]
            if not path:
                raise
            value = _without(value, path.split("."))
            dropped.append(path)


def _fault(error: msgspec.ValidationError) -> tuple[str, str]:
    """What is wrong, and the path of the field that is."""
    text, _, path = str(error).partition(" - at `$")
    return text, path.rstrip("`").lstrip(".")


def _without(value: Any, path: list[str]) -> Any:
    first, *rest = path
    kept = {**value}
    inner = kept.pop(first)
    return {**kept, first: _without(inner, rest)} if rest else kept


def _mended(raw: bytes) -> str:
    """JSON made of nearly JSON: U+FFFD for what UTF-8 cannot hold, null for NaN. Raises ValueError, RecursionError."""
    value = json.loads(raw.decode("utf-8-sig", "replace"), parse_constant=lambda _: None)
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", json.dumps(value, ensure_ascii=False))
