"""One LMDB environment: opened, grown when full, and its failures put into words.

Its map may only change while this process has no transaction open, so reads and writes each hold a lock
(taken in the order writing, reading) and never wait for each other otherwise.
"""

import errno
import os
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import lmdb

from tinsmith.domain.errors import InternalError, PersistenceError
from tinsmith.store.transaction import KEYSPACES, Span, Transaction

T = TypeVar("T")

_MAX_DATABASES = 32
_LOCK_FILE_BYTES = 8192
"""LMDB's lock file for its default of 126 readers (lmdb.h, mdb_env_set_maxreaders)."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""LMDB calls a write that the disk took only a part of an I/O error."""

_DAMAGED = (lmdb.CorruptedError, lmdb.InvalidError, lmdb.PageNotFoundError, lmdb.VersionMismatchError)


class Environment:
    """The open environment in directory `path`, for any number of threads; a process opens a path once.

    `check` looks at every transaction before its closure does, since other processes write here too.
    Raises PersistenceError when it cannot be opened, and whatever `prepare`, the first write, raises.
    """

    def __init__(
        self,
        path: str,
        prepare: Callable[[Transaction], None],
        check: Callable[[Transaction], None],
        *,
        map_size: int,
        map_limit: int,
    ) -> None:
        self._path = path
        self._check = check
        self._map_limit = map_limit
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._reader: int | None = None
        self._databases: dict[str, Any] = {}
        try:
            os.makedirs(path, mode=0o700, exist_ok=True)
            _reserve_lock_file(path)
        except OSError as error:
            raise self._failure(error, error.errno) from error
        with self._worded_failures():
            self._lmdb = lmdb.open(path, map_size=map_size, max_dbs=_MAX_DATABASES, mode=0o600)
        try:
            with self._worded_failures():
                self._lengthen()
                self._lmdb.reader_check()
            self._run(lambda handle: self._open_keyspaces(handle, prepare))
        except BaseException:
            self._lmdb.close()
            raise

    def write(self, closure: Callable[[Transaction], T]) -> T:
        """Run the closure as one durable transaction; when it raises, nothing has happened.

        It may run several times (the map grows in between); only the run that returns counts.
        Waits for writers of other processes. Raises PersistenceError when the disk or the map limit is reached.
        """
        return self._run(lambda handle: closure(self._checked(handle)))

    def read(self, closure: Callable[[Transaction], T]) -> T:
        """Run the closure on one consistent state. Must be short: it keeps old pages alive, and other reads waiting."""
        if self._reader == threading.get_ident():
            raise InternalError("nestedRead", "A closure given to read() called read() again; use its own session.")
        with self._worded_failures():
            while True:
                try:
                    with self._reading_alone(), self._lmdb.begin() as handle:
                        return closure(self._checked(handle))
                except lmdb.MapResizedError:
                    with self._writing:
                        self._resize(0)

    def copy(self, directory: str) -> None:
        """Write a compacted copy of one consistent state into an empty directory, while others read and write."""
        with self._worded_failures():
            self._lmdb.copy(directory, compact=True)

    def version(self) -> int:
        """The number of the last transaction that any process committed."""
        with self._worded_failures(), self._reading_alone():
            return self._lmdb.info()["last_txnid"]

    def size(self) -> int:
        """Bytes of the pages in use, which the file has and more: it does not shrink."""
        return self.read(_size)

    def close(self) -> None:
        """Close after whatever runs now. Idempotent."""
        with self._writing, self._reading:
            self._lmdb.close()

    def _run(self, closure: Callable[["lmdb.Transaction[bytes]"], T]) -> T:
        with self._worded_failures(), self._writing:
            while True:
                try:
                    with self._lmdb.begin(write=True) as handle:
                        return closure(handle)
                except lmdb.MapFullError as error:
                    self._resize(self._doubled_size(error))
                except lmdb.MapResizedError:
                    self._resize(0)

    def _lengthen(self) -> None:
        """Give a file that is shorter than it says its length, in zeros: to look for what is cut off would kill us.

        Free pages at its end may never have been written; others are found to be damaged when they are asked for.
        """
        wanted = (self._lmdb.info()["last_pgno"] + 1) * self._lmdb.stat()["psize"]
        path = os.path.join(self._path, "data.mdb")
        missing = wanted - os.path.getsize(path)
        if missing > 0 and hasattr(os, "posix_fallocate"):
            try:
                with open(path, "r+b") as file:
                    os.posix_fallocate(file.fileno(), wanted - missing, missing)
            except OSError as error:
                raise self._failure(error, error.errno) from error

    def _checked(self, handle: "lmdb.Transaction[bytes]") -> Transaction:
        transaction = LmdbTransaction(handle, self._databases)
        self._check(transaction)
        return transaction

    def _open_keyspaces(self, handle: "lmdb.Transaction[bytes]", prepare: Callable[[Transaction], None]) -> None:
        self._databases = {name: self._lmdb.open_db(name.encode(), txn=handle) for name in KEYSPACES}
        prepare(LmdbTransaction(handle, self._databases))

    def _resize(self, size: int) -> None:
        """Change the map, while writing is held; 0 adopts the size that another process gave it."""
        with self._reading:
            self._lmdb.set_mapsize(size)

    def _doubled_size(self, cause: lmdb.Error) -> int:
        size = self._lmdb.info()["map_size"]
        doubled = min(2 * size, self._map_limit)
        if doubled <= size:
            raise PersistenceError(
                "storeFull",
                f"The store in {self._path} has reached its limit of {self._map_limit} bytes. "
                "Delete old conversations, or raise the limit.",
            ) from cause
        return doubled

    @contextmanager
    def _reading_alone(self) -> Generator[None]:
        with self._reading:
            self._reader = threading.get_ident()
            try:
                yield
            finally:
                self._reader = None

    @contextmanager
    def _worded_failures(self) -> Generator[None]:
        try:
            yield
        except lmdb.ReadonlyError as error:
            raise InternalError(
                "readOnlyTransaction", "A closure given to read() tried to write; give it to write()."
            ) from error
        except lmdb.Error as error:
            raise self._failure(error, error.code) from error

    def _failure(self, error: Exception, code: int | None) -> PersistenceError:
        if code in _FULL:
            return PersistenceError(
                "storeFull",
                f"The store in {self._path} could not be written ({error}). The disk is probably full; "
                "free some space and try again.",
            )
        if isinstance(error, _DAMAGED):
            return PersistenceError(
                "storeDamaged",
                f"The store in {self._path} is damaged ({error}). Move it away and put a backup in its place, or name "
                "another directory with TINSMITH_DATA_DIR.",
            )
        return PersistenceError(
            "storeFailed",
            f"The store in {self._path} cannot be used ({error}). Check the directory, or name another one "
            "with TINSMITH_DATA_DIR.",
        )


def _reserve_lock_file(path: str) -> None:
    """Give the lock file its blocks. LMDB writes to it as memory, and a full disk would end the process by SIGBUS."""
    if not hasattr(os, "posix_fallocate"):
        return  # macOS has none, and APFS reports a full disk when the file is made longer
    descriptor = os.open(os.path.join(path, "lock.mdb"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, _LOCK_FILE_BYTES)
    finally:
        os.close(descriptor)


def _size(transaction: Transaction) -> int:
    assert isinstance(transaction, LmdbTransaction)
    return transaction.size()


class LmdbTransaction:
    """A Transaction on LMDB's own."""

    __slots__ = ("_databases", "_handle", "set_aside")

    def __init__(self, handle: "lmdb.Transaction[bytes]", databases: dict[str, Any]) -> None:
        self.set_aside: list[str] = []
        self._handle = handle
        self._databases = databases

    def size(self) -> int:
        """Bytes of the pages that all keyspaces have."""
        found = [self._handle.stat(database) for database in self._databases.values()]
        return sum(
            each["psize"] * (each["branch_pages"] + each["leaf_pages"] + each["overflow_pages"]) for each in found
        )

    def get(self, keyspace: str, key: bytes) -> bytes | None:
        return self._handle.get(key, db=self._databases[keyspace])

    def put(self, keyspace: str, key: bytes, value: bytes) -> None:
        self._handle.put(key, value, db=self._databases[keyspace])

    def delete(self, keyspace: str, key: bytes) -> bool:
        return self._handle.delete(key, db=self._databases[keyspace])

    def clear(self, keyspace: str) -> None:
        self._handle.drop(self._databases[keyspace], delete=False)

    def scan(self, keyspace: str, span: Span, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        cursor = self._handle.cursor(self._databases[keyspace])
        return self._backwards(cursor, span) if reverse else self._forwards(cursor, span)

    @staticmethod
    def _forwards(cursor: "lmdb.Cursor[bytes]", span: Span) -> Iterator[tuple[bytes, bytes]]:
        is_placed = cursor.set_range(span.start) if span.start else cursor.first()
        while is_placed and (span.stop is None or cursor.key() < span.stop):
            yield cursor.item()
            is_placed = cursor.next()

    @staticmethod
    def _backwards(cursor: "lmdb.Cursor[bytes]", span: Span) -> Iterator[tuple[bytes, bytes]]:
        is_beyond = span.stop is not None and cursor.set_range(span.stop)
        is_placed = cursor.prev() if is_beyond else cursor.last()
        while is_placed and cursor.key() >= span.start:
            yield cursor.item()
            is_placed = cursor.prev()
