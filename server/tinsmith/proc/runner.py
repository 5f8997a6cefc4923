"""Runs shell commands for tools: a thread each, so that neither output nor waiting ever holds up the loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tinsmith.domain.cancel import CancelToken
from tinsmith.proc.output import OutputCollector
from tinsmith.proc.supervise import Command, Finished, StopSignal, supervise

MAX_COMMANDS = 32
"""At one time; more wait."""


class Runner:
    """Owns the threads that watch commands. `spill_folder` takes outputs that are too long to show."""

    def __init__(self, spill_folder: str) -> None:
        self._spill_folder = spill_folder
        self._threads = ThreadPoolExecutor(MAX_COMMANDS, thread_name_prefix="command")

    async def run(
        self,
        command: Command,
        *,
        cancel: CancelToken,
        show: Callable[[str], None],
        secrets: tuple[str, ...] = (),
    ) -> Finished:
        """Run the command to its end. What it writes is passed to `show` on the loop as it comes.

        A cancelled token ends it and everything it started within two seconds, which is an outcome and not an error;
        so does a cancelled task, which raises CancelledError after that. Raises ToolError as `supervise`.
        """
        loop = asyncio.get_running_loop()
        stop = StopSignal()
        collector = OutputCollector(self._spill_folder, secrets, lambda text: _later(loop, show, text))
        release = cancel.on_cancel(stop.set)
        job = self._threads.submit(supervise, command, collector, stop)
        job.add_done_callback(lambda _: stop.close())
        ended = asyncio.wrap_future(job)
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            stop.set()
            if not job.cancel():
                await asyncio.wait([ended])
            raise
        finally:
            release()


def _later(loop: asyncio.AbstractEventLoop, show: Callable[[str], None], text: str) -> None:
    loop.call_soon_threadsafe(show, text)
