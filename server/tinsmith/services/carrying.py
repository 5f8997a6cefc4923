"""Work that is done to its end, whatever becomes of whoever waits for it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from tinsmith.domain.errors import AgentError, InternalError

Done = TypeVar("Done")


class Spawn(Protocol):
    """Runs work as a task that somebody owns; its result is None when a bug ended it."""

    def __call__(self, work: Coroutine[Any, Any, Done], name: str) -> "asyncio.Task[Done | None]": ...


async def carried_out(spawn: Spawn, work: Callable[[], Coroutine[Any, Any, Done]], name: str) -> Done:
    """What the work returns or raises. A cancel of the waiting task meanwhile comes too late: it is dropped."""
    waiting = asyncio.current_task()
    assert waiting is not None
    task = spawn(_outcome(work), name)
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            waiting.uncancel()
    outcome = task.result()
    if outcome is None:
        raise InternalError("internal", f"This failed ({name}); the log says why. Try it again.")
    if isinstance(outcome, AgentError):
        raise outcome
    return outcome.result


class _Result(NamedTuple, Generic[Done]):
    result: Done


async def _outcome(work: Callable[[], Coroutine[Any, Any, Done]]) -> _Result[Done] | AgentError:
    try:
        return _Result(await work())
    except AgentError as error:
        return error
