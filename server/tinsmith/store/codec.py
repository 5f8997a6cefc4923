"""Keys and records as bytes. Pure.

A key is its segments joined by `:`. Only the last segment may hold a `:` itself; keys of one keyspace have
the same number of segments, so distinct ids give distinct keys, and below the same leading segments the keys
sort as the last segments do. A record is JSON with sorted keys.
"""

import hashlib
from typing import Any, TypeVar, cast

import msgspec

from tinsmith.domain.errors import PersistenceError, SchemaError
from tinsmith.store.transaction import Span

T = TypeVar("T")

SEGMENT_LIMIT = 120
"""Bytes of the longest segment: four of them and their separators stay below the 511 bytes that LMDB takes as a key."""
_DIGEST_DIGITS = 32
_encoder = msgspec.json.Encoder(order="sorted")


def encode_key(*segments: str) -> bytes:
    """The key of these segments, at most 511 bytes for up to four of them.

    A segment of SEGMENT_LIMIT bytes or more keeps its head and ends in its hash. Raises SchemaError for a
    leading segment that is empty or holds a `:`, and for a key without any text.
    """
    *leading, last = segments
    if not leading and not last:
        raise SchemaError("invalidKey", "An empty text cannot name a record. Give it a name.")
    return _leading_bytes(leading) + _segment_bytes(last)


def span_below(*leading: str, prefix: str = "", after: str | None = None, before: str | None = None) -> Span:
    """The keys below these leading segments; `prefix`, `after` and `before` (both exclusive) speak of the last segment.

    A prefix that is as long as a hashed segment finds more than it names; compare the ids that come back.
    """
    head = _leading_bytes(leading)
    begin = head + _text_bytes(prefix)[: SEGMENT_LIMIT - _DIGEST_DIGITS - 1]
    start = begin if after is None else max(begin, head + _segment_bytes(after) + b"\0")
    stop = successor(begin)
    if before is not None:
        bound = head + _segment_bytes(before)
        stop = bound if stop is None else min(stop, bound)
    return Span(start, stop)


def key_text(key: bytes) -> str:
    """The key as a person reads it in a message or the log."""
    return key.decode("utf-8", "replace")


def last_segment(key: bytes, leading_count: int) -> str:
    """The last segment of a key that has `leading_count` segments before it."""
    return key.split(b":", leading_count)[leading_count].decode("utf-8", "surrogatepass")


def encode_record(record: Any) -> bytes:
    """The record as JSON with sorted keys. Halves of surrogate pairs, which UTF-8 cannot hold, become U+FFFD."""
    try:
        return _encoder.encode(record)
    except UnicodeEncodeError:
        return _encoder.encode(_clean(msgspec.to_builtins(record)))


def decode_record(decoder: msgspec.json.Decoder[T], keyspace: str, key: bytes, value: bytes) -> T:
    """The record of this value. Raises PersistenceError that names keyspace and key, never the contents."""
    try:
        return decoder.decode(value)
    except (msgspec.DecodeError, RecursionError) as error:
        name = f"{keyspace}/{key_text(key)}"
        raise PersistenceError(
            "unreadableRecord",
            f"The stored record {name} cannot be read ({type(error).__name__}). The rest of the store is unharmed; "
            "go on without it, or restore it from a backup.",
            data={"record": name},
        ) from error


def clean_text(text: str) -> str:
    """The text as it comes back from a record: pairs of surrogates joined, lone ones replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _leading_bytes(leading: tuple[str, ...] | list[str]) -> bytes:
    for segment in leading:
        if not segment or ":" in segment:
            raise SchemaError("invalidId", f"{segment!r} is not an id: it must not be empty and must not hold a colon.")
    return b"".join(_segment_bytes(segment) + b":" for segment in leading)


def _segment_bytes(segment: str) -> bytes:
    raw = _text_bytes(segment)
    if len(raw) < SEGMENT_LIMIT:
        return raw
    digest = hashlib.sha256(raw).hexdigest()[:_DIGEST_DIGITS]
    return raw[: SEGMENT_LIMIT - _DIGEST_DIGITS - 1] + b"#" + digest.encode()


def _text_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def successor(prefix: bytes) -> bytes | None:
    """The first key after all that begin with `prefix`."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def _clean(value: Any) -> Any:
    match value:
        case str():
            return clean_text(value)
        case dict():
            members = cast("dict[Any, Any]", value)
            return {_clean(key): _clean(member) for key, member in members.items()}
        case list() | tuple():
            return [_clean(member) for member in cast("list[Any]", value)]
        case _:
            return value
