"""Programs without a shell: both outputs, their bound, the deadline, a cancel."""

import os
import threading
import time
from pathlib import Path

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
        "check": lambda: None,
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
        run("/bin/sleep", "1000", check=cancel.check)
    with pytest.raises(ToolError, match="nowhere cannot be started"):
        run("/nowhere")


def test_nobody_of_a_stopped_program_goes_on(tmp_path):
    """A shell that is killed does not take along what it started, which would write until the disk is full."""
    written = tmp_path / "out"
    text = f"(while :; do echo >> {written}; sleep 0.01; done) & echo $!; yes; true"
    done = run("/bin/sh", "-c", text, limit=10_000)
    child = int(done.output.split(b"\n")[0])
    assert done.is_cut
    assert not is_running(child)
    assert not is_running(int(run("/bin/sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!").output))


def test_a_program_that_closes_its_outputs_is_waited_for_and_stopped_in_time():
    assert run("/bin/sh", "-c", "exec >&- 2>&-; sleep 0.1; exit 7").code == 7
    with pytest.raises(ToolError, match=r"took longer than 0\.1 s"):
        run("/bin/sh", "-c", "exec >&- 2>&-; sleep 1000", timeout=0.1)


def test_many_small_writes_arrive_whole():
    lines = "".join(f"{number}\n" for number in range(1, 20_001)).encode()
    assert (
        run("/bin/sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo $i; done", limit=10**6).output == lines
    )


def test_where_a_child_that_has_ended_can_only_be_reaped(monkeypatch):
    """As on macOS before Python 3.13."""
    monkeypatch.delattr(os, "waitid")
    assert run("/bin/sh", "-c", "exec >&- 2>&-; sleep 0.1; exit 7").code == 7
    assert run("/bin/sh", "-c", "kill -9 $$").code == -9
    assert not is_running(int(run("/bin/sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!").output))


def is_running(process: int) -> bool:
    """Whether it lives; who was just killed may take a moment to be gone."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            return False
        if state == b"Z":
            return False
        time.sleep(0.01)
    return True
