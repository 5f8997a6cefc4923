"""The log on stderr, written by a thread of its own: a client that does not read it stops nobody."""

import contextlib
import logging
import os
import queue
import threading
import time

WAITING = 1000
"""Lines that may wait to be written; what comes when these are full is lost."""
FLUSH = 0.5
"""Seconds that the last lines have to leave."""


class PatientHandler(logging.Handler):
    """Writes each record as a line, later."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(logging.WARNING)
        self._lines: queue.Queue[bytes] = queue.Queue(WAITING)
        self._descriptor = descriptor
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        threading.Thread(target=self._write, name="log-writer", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(f"{self.format(record)}\n".encode("utf-8", "backslashreplace"))

    def flush(self) -> None:
        deadline = time.monotonic() + FLUSH
        while self._lines.unfinished_tasks and time.monotonic() < deadline:
            time.sleep(0.005)

    def _write(self) -> None:
        while True:
            line = self._lines.get()
            with contextlib.suppress(OSError):
                os.write(self._descriptor, line)
            self._lines.task_done()
