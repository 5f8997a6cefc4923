"""The stall clock: how long an open stream may go without an event."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class StallClock:
    """Limits the waiting for one event to `seconds`, however many reads that takes; time between waits does not count.

    One timer that is moved only when it rings: an event costs a reading of the loop's clock.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Task[object] | None = None
        self._has_rung = False

    def restart(self) -> None:
        """An event came: the next wait has all its time again."""
        self._deadline = None

    async def wait(self, awaited: Awaitable[T]) -> T:
        """The result of `awaited`. Raises TimeoutError when the time is up."""
        task = asyncio.current_task()
        assert task is not None
        if self._deadline is None:
            self._deadline = self._loop.time() + self.seconds
        if self._timer is None:
            self._timer = self._loop.call_at(self._deadline, self._ring)
        before = task.cancelling()
        self._waiting = task
        try:
            return await awaited
        except asyncio.CancelledError as stop:
            if self._has_rung and task.uncancel() <= before:
                raise TimeoutError from stop
            raise
        finally:
            self._waiting = None

    def close(self) -> None:
        """Take the timer back."""
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        self._timer = None
        if self._waiting is None or self._deadline is None:
            return
        if self._deadline > self._loop.time():
            self._timer = self._loop.call_at(self._deadline, self._ring)
        else:
            self._has_rung = True
            self._waiting.cancel()
