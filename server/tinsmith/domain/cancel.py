"""Cancel tokens: a tree of flags, and the scope that turns a flag into the end of an await."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager

from tinsmith.domain.errors import Cancelled


class CancelToken:
    """One flag of the tree. Cancelling it cancels every descendant, once; it never resets."""

    def __init__(self) -> None:
        self.is_cancelled = False
        self._children: dict[str, CancelToken] = {}
        self._reactions: dict[object, Callable[[], object]] = {}

    @contextmanager
    def child(self, name: str) -> "Generator[CancelToken]":
        """For the length of a block: a token that is cancelled with this one, and may be cancelled alone."""
        token = CancelToken()
        release = self.on_cancel(token.cancel)
        self._children[name] = token
        try:
            yield token
        finally:
            del self._children[name]
            release()

    def find(self, name: str) -> "CancelToken | None":
        """The living child of that name."""
        return self._children.get(name)

    def cancel(self) -> None:
        """Set the flag and run every reaction once. Idempotent; reactions must not raise."""
        if self.is_cancelled:
            return
        self.is_cancelled = True
        reactions, self._reactions = list(self._reactions.values()), {}
        for react in reactions:
            react()

    def on_cancel(self, react: Callable[[], object]) -> Callable[[], object]:
        """Call `react` when the token is cancelled, at once if it is already. Returns the way to take that back."""
        if self.is_cancelled:
            react()
            return lambda: None
        key = object()
        self._reactions[key] = react
        return lambda: self._reactions.pop(key, None)

    def check(self) -> None:
        """Raises Cancelled when the token is cancelled."""
        if self.is_cancelled:
            raise Cancelled

    @contextmanager
    def scope(self, grace: float = 0.0) -> Generator[None]:
        """Interrupt the awaits of this block when the token is cancelled.

        `grace` seconds later, for those who watch the token themselves.
        Raises Cancelled in place of the CancelledError that it caused; a cancellation
        of the task from elsewhere passes through untouched.
        """
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a cancel scope needs a running task")
        loop = asyncio.get_running_loop()
        pending: asyncio.Handle | None = None
        interrupted = False

        def interrupt() -> None:
            nonlocal interrupted
            interrupted = True
            task.cancel()

        def react() -> None:
            nonlocal pending
            if grace > 0:
                pending = loop.call_later(grace, interrupt)
            elif asyncio.current_task() is task:
                pending = loop.call_soon(interrupt)  # a task cannot interrupt an await that it is not in
            else:
                interrupt()

        before = task.cancelling()
        release = self.on_cancel(react)
        try:
            yield
        except asyncio.CancelledError as stop:
            if interrupted and task.cancelling() <= before + 1:
                raise Cancelled from stop
            raise
        finally:
            release()
            if pending is not None:
                pending.cancel()
            if interrupted:
                task.uncancel()
