"""The store without a disk: same keyspaces, same atomicity, gone with the process."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from typing import TypeVar

from tinsmith.domain.errors import InternalError, PersistenceError
from tinsmith.store.migrate import prepare
from tinsmith.store.segments import SEGMENT
from tinsmith.store.session import Session
from tinsmith.store.transaction import KEYSPACES, Span

T = TypeVar("T")


class InMemoryStore:
    """A Storage whose closures run at once, in the calling thread. Not for several threads."""

    def __init__(self) -> None:
        self._tables = {keyspace: _Table() for keyspace in KEYSPACES}
        self._is_closed = False
        self._noted = 0
        self._version = 0
        prepare(_MemoryTransaction(self._tables, may_change=True))

    async def write(self, closure: Callable[[Session], T]) -> T:
        self._check_open()
        transaction = _MemoryTransaction(self._tables, may_change=True)
        session = Session(transaction)
        try:
            result = closure(session)
        except BaseException:
            transaction.undo()
            raise
        self._version += 1
        self._noted += session.search.noted
        if self._noted >= SEGMENT:
            self._noted = 0
            while session.search.fold():
                pass
        return result

    def read(self, closure: Callable[[Session], T]) -> T:
        self._check_open()
        return closure(Session(_MemoryTransaction(self._tables, may_change=False)))

    def version(self) -> int:
        self._check_open()
        return self._version

    def size(self) -> int:
        self._check_open()
        return sum(len(key) + len(row) for table in self._tables.values() for key, row in table.rows.items())

    async def close(self) -> None:
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise PersistenceError("storeClosed", "The store is closed. Start Tinsmith again to go on.")


class _Table:
    """Rows by key, and the keys in order."""

    __slots__ = ("keys", "rows")

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.rows: dict[bytes, bytes] = {}

    def put(self, key: bytes, value: bytes | None) -> bytes | None:
        """Set the row, or remove it when `value` is None. Returns what was there."""
        before = self.rows.pop(key, None)
        if before is not None and value is None:
            del self.keys[bisect_left(self.keys, key)]
        if value is not None:
            if before is None:
                insort(self.keys, key)
            self.rows[key] = value
        return before


class _MemoryTransaction:
    def __init__(self, tables: dict[str, _Table], *, may_change: bool) -> None:
        self.set_aside: list[str] = []
        self._tables = tables
        self._may_change = may_change
        self._changes: list[tuple[str, bytes, bytes | None]] = []

    def get(self, keyspace: str, key: bytes) -> bytes | None:
        return self._tables[keyspace].rows.get(key)

    def put(self, keyspace: str, key: bytes, value: bytes) -> None:
        self._change(keyspace, key, value)

    def delete(self, keyspace: str, key: bytes) -> bool:
        return self._change(keyspace, key, None) is not None

    def clear(self, keyspace: str) -> None:
        for key in [*self._tables[keyspace].keys]:
            self._change(keyspace, key, None)

    def scan(self, keyspace: str, span: Span, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        table = self._tables[keyspace]
        first = bisect_left(table.keys, span.start)
        last = len(table.keys) if span.stop is None else bisect_left(table.keys, span.stop)
        indexes = range(first, last)
        for index in reversed(indexes) if reverse else indexes:
            key = table.keys[index]
            yield key, table.rows[key]

    def undo(self) -> None:
        """Take every change back, the last one first."""
        for keyspace, key, before in reversed(self._changes):
            self._tables[keyspace].put(key, before)

    def _change(self, keyspace: str, key: bytes, value: bytes | None) -> bytes | None:
        if not self._may_change:
            raise InternalError("readOnlyTransaction", "A closure given to read() tried to write; give it to write().")
        before = self._tables[keyspace].put(key, value)
        self._changes.append((keyspace, key, before))
        return before
