"""Programs without a shell: both outputs, their bound, the deadline, a cancel."""

import os
import threading

import pytest

from tinsmith.domain.cancel import CancelToken
from tinsmith.domain.errors import Cancelled, ToolError
from tinsmith.proc.execute import execute


def run(*arguments: str, **options):
    options = {
        "cwd": "/",
        "environment": dict(os.environ),
        "timeout": 20,
        "limit": 1000,
        "cancel": CancelToken(),
    } | options
    return execute(arguments, **options)


def test_a_program_is_run_without_a_shell():
    done = run("/bin/sh", "-c", "cat; echo $0 out; echo err >&2; exit 3", "$(x)")
    assert (done.code, done.output, done.errors, done.is_cut) == (3, b"$(x) out\n", b"err\n", False)
    assert run("/bin/sh", "-c", "kill -9 $$").code == -9


def test_a_program_is_stopped_in_time():
    flood = run("/bin/sh", "-c", "yes & wait", limit=100)
    assert (len(flood.output), flood.is_cut) == (100, True)
    with pytest.raises(ToolError, match=r"took longer than 0\.1 s"):
        run("/bin/sleep", "1000", timeout=0.1)
    cancel = CancelToken()
    timer = threading.Timer(0.1, cancel.cancel)
    timer.start()
    with pytest.raises(Cancelled):
        run("/bin/sleep", "1000", cancel=cancel)
    with pytest.raises(ToolError, match="nowhere cannot be started"):
        run("/nowhere")
