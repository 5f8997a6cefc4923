"""A keyspace: records of one type under ordered keys, within one transaction."""

import logging
from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec

from tinsmith.domain.errors import PersistenceError
from tinsmith.store.codec import decode_record, encode_key, encode_record, last_segment, span_below
from tinsmith.store.transaction import Transaction

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Keyspace(Generic[T]):
    """The typed view of one named keyspace. Segments are those of `codec.encode_key`."""

    __slots__ = ("_decoder", "_name", "_transaction")

    def __init__(self, transaction: Transaction, name: str, decoder: msgspec.json.Decoder[T]) -> None:
        self._transaction = transaction
        self._name = name
        self._decoder = decoder

    def get(self, *segments: str) -> T | None:
        """The record, or None. Raises PersistenceError when it is there and cannot be read."""
        key = encode_key(*segments)
        value = self._transaction.get(self._name, key)
        return None if value is None else decode_record(self._decoder, self._name, key, value)

    def put(self, record: T, *segments: str) -> None:
        """Store the record in place of any other."""
        self._transaction.put(self._name, encode_key(*segments), encode_record(record))

    def delete(self, *segments: str) -> bool:
        """Whether there was a record to delete."""
        return self._transaction.delete(self._name, encode_key(*segments))

    def scan(
        self,
        *leading: str,
        prefix: str = "",
        after: str | None = None,
        before: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> list[T]:
        """At most `limit` records below these leading segments, in the order of their keys.

        `prefix`, `after` and `before` as in `codec.span_below`. A record that cannot be read is
        skipped, logged and listed in the transaction's `set_aside`.
        """
        span = span_below(*leading, prefix=prefix, after=after, before=before)
        records: list[T] = []
        for key, value in self._transaction.scan(self._name, span, reverse=reverse):
            if limit is not None and len(records) >= limit:
                break
            try:
                records.append(decode_record(self._decoder, self._name, key, value))
            except PersistenceError as error:
                self._transaction.set_aside.append(error.data["record"])
                _log.warning("set aside: %s", error.message)
        return records

    def ids(self, *leading: str, reverse: bool = False) -> Iterator[str]:
        """The last segments below these leading ones, readable records or not. Nothing may be written meanwhile."""
        for key, _ in self._transaction.scan(self._name, span_below(*leading), reverse=reverse):
            yield last_segment(key, len(leading))
