"""When messages that wait for the index are packed: while nobody writes, or when there are too many."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tinsmith.domain.errors import PersistenceError
from tinsmith.store.fulltext import FullText
from tinsmith.store.segments import SEGMENT

if TYPE_CHECKING:
    from tinsmith.store.env import Environment

_log = logging.getLogger(__name__)

_QUIET = 1.0
"""Seconds without a write before packing begins: it keeps writers waiting, some ten milliseconds a segment."""
_PATIENCE = 4 * SEGMENT
"""Messages after which it begins all the same, since a search reads through all that wait."""


class Packing:
    """The packing of one open store, done by its writer. Owned by the loop that the writes come from."""

    def __init__(self, environment: "Environment", writer: ThreadPoolExecutor) -> None:
        self._environment = environment
        self._writer = writer
        self._noted = SEGMENT  # other processes may have left as many, and ended
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def noted(self, count: int) -> None:
        """So many messages wait since a write that has just ended."""
        self._noted += count
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_closed or self._noted < SEGMENT:
            return
        if self._noted >= _PATIENCE:
            self._begin()
        else:
            self._timer = asyncio.get_running_loop().call_later(_QUIET, self._begin)

    def close(self) -> None:
        """Pack what is due, as the writer's last but one work."""
        if self._timer is not None:
            self._timer.cancel()
            self._begin()
        self._is_closed = True

    def _begin(self) -> None:
        self._noted = 0
        self._timer = None
        self._writer.submit(self._pack)

    def _pack(self) -> None:
        """One step, and the next behind whatever was handed over meanwhile."""
        try:
            is_more = self._environment.write(lambda transaction: FullText(transaction).fold())
        except PersistenceError as error:
            _log.warning("messages wait for the index: %s", error.message)
            return
        if is_more and not self._is_closed:
            self._writer.submit(self._pack)
