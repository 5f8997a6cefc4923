"""Cancel tokens: a tree of flags, and the scope that turns a flag into the end of an await."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager

from tinsmith.domain.errors import Cancelled


class CancelToken:
    """One flag of the tree. Cancelling it cancels every descendant, once; it never resets."""

    def __init__(self) -> None:
        self.is_cancelled = False
        self._reactions: dict[object, Callable[[], None]] = {}

    def child(self) -> "CancelToken":
        """A token that is cancelled with this one, and may be cancelled alone."""
        token = CancelToken()
        if self.is_cancelled:
            token.cancel()
        else:
            self._reactions[token] = token.cancel
            token._detach = lambda: self._reactions.pop(token, None)
        return token

    def _detach(self) -> object:
        """Forget the parent; the root has none."""
        return None

    def close(self) -> None:
        """Unhook from the parent, so that a long-lived parent does not collect finished children."""
        self._detach()

    def cancel(self) -> None:
        """Set the flag and run every reaction once. Idempotent; reactions must not raise."""
        if self.is_cancelled:
            return
        self.is_cancelled = True
        reactions, self._reactions = list(self._reactions.values()), {}
        for react in reactions:
            react()

    def on_cancel(self, react: Callable[[], None]) -> Callable[[], object]:
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
        """Interrupt the awaits of this block when the token is cancelled, after `grace` seconds for those who watch it themselves.

        Raises Cancelled in place of the CancelledError that it caused; a cancellation
        of the task from elsewhere passes through untouched.
        """
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a cancel scope needs a running task")
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle | None = None
        interrupted = False

        def interrupt() -> None:
            nonlocal interrupted
            interrupted = True
            task.cancel()

        def react() -> None:
            nonlocal timer
            if grace > 0:
                timer = loop.call_later(grace, interrupt)
            else:
                interrupt()

        before = task.cancelling()
        release = self.on_cancel(react)
        try:
            yield
        except asyncio.CancelledError as stop:
            if interrupted and task.uncancel() <= before:
                raise Cancelled from stop
            raise
        else:
            if interrupted:
                task.uncancel()
        finally:
            release()
            if timer is not None:
                timer.cancel()
