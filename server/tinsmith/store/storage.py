"""What services hold: a place that runs closures over the stored records, on disk or in memory."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeVar

from tinsmith.domain.errors import PersistenceError
from tinsmith.store.migrate import check, prepare
from tinsmith.store.packing import Packing
from tinsmith.store.place import check_place
from tinsmith.store.session import Session
from tinsmith.store.transaction import Transaction

if TYPE_CHECKING:
    from tinsmith.store.env import Environment

T = TypeVar("T")

MAP_SIZE = 1 << 30
"""Bytes of address space that a store maps at first; its file is only as large as its contents."""
MAP_LIMIT = 1 << 40
"""Bytes up to which the map grows by doubling."""


class Storage(Protocol):
    """Runs closures over a Session as transactions."""

    async def write(self, closure: Callable[[Session], T]) -> T:
        """Run the closure as one durable transaction, in the order the writes were handed over.

        Either all of its changes are stored when this returns, or none and it raises what the closure raised, or
        PersistenceError. A write that was handed over is carried out even when its awaiter is cancelled. The closure
        runs in another thread and maybe more than once (the last run counts): it must touch nothing but its session
        and immutable values.
        """
        ...

    def read(self, closure: Callable[[Session], T]) -> T:
        """Run the closure at once on one consistent state. Short, without waiting, and not inside another closure.

        Raises PersistenceError when a record it asks for by key cannot be read.
        """
        ...

    def version(self) -> int:
        """A number that grows with every change of the store, by whichever process. Costs next to nothing."""
        ...

    def size(self) -> int:
        """Bytes that the stored records and their indexes take. Costs next to nothing."""
        ...

    async def close(self) -> None:
        """Finish the writes that were handed over, then close. Idempotent.

        Whatever comes later raises PersistenceError.
        """
        ...


class Store:
    """The Storage on disk. One thread writes; each caller awaits its write, which bounds the queue."""

    def __init__(self, environment: "Environment") -> None:
        self._environment = environment
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tinsmith-store")
        self._packing = Packing(environment, self._writer)
        self._is_closed = False

    @classmethod
    def open(cls, path: str, *, map_size: int = MAP_SIZE, map_limit: int = MAP_LIMIT) -> "Store":
        """Open the store in directory `path`, made when missing; sizes in bytes.

        Raises PersistenceError when that is impossible, when this process has it open already, when it is on a file
        system over a network, or when a newer version of the product wrote it.
        """
        from tinsmith.store.env import Environment

        check_place(path, os.environ)

        return cls(Environment(path, prepare, check, map_size=map_size, map_limit=map_limit))

    async def write(self, closure: Callable[[Session], T]) -> T:
        if self._is_closed:
            raise PersistenceError("storeClosed", "The store is closed. Start Tinsmith again to go on.")
        noted = 0

        def run(transaction: Transaction) -> T:
            nonlocal noted
            session = Session(transaction)
            result = closure(session)
            noted = session.search.noted
            return result

        result = await self._in_writer(lambda: self._environment.write(run))
        self._packing.noted(noted)
        return result

    def read(self, closure: Callable[[Session], T]) -> T:
        if self._is_closed:
            raise PersistenceError("storeClosed", "The store is closed. Start Tinsmith again to go on.")
        return self._environment.read(lambda transaction: closure(Session(transaction)))

    def copy(self, directory: str) -> None:
        """Write a compacted copy of what is stored into `directory`, which must be there and empty. Takes a while.

        Raises PersistenceError when it cannot be written.
        """
        if self._is_closed:
            raise PersistenceError("storeClosed", "The store is closed. Start Tinsmith again to go on.")
        self._environment.copy(directory)

    def version(self) -> int:
        if self._is_closed:
            raise PersistenceError("storeClosed", "The store is closed. Start Tinsmith again to go on.")
        return self._environment.version()

    def size(self) -> int:
        if self._is_closed:
            raise PersistenceError("storeClosed", "The store is closed. Start Tinsmith again to go on.")
        return self._environment.size()

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._packing.close()
        await self._in_writer(self._environment.close)
        self._writer.shutdown(wait=False)

    async def _in_writer(self, work: Callable[[], T]) -> T:
        return await asyncio.shield(asyncio.wrap_future(self._writer.submit(work)))
