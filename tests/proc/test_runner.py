"""Commands from start to end: outcomes, deadlines, and nothing left behind (SH-…)."""

import asyncio
import os
import resource
import time
from pathlib import Path

import pytest

from tinsmith.domain.cancel import CancelToken
from tinsmith.domain.errors import ToolError
from tinsmith.proc.runner import Runner
from tinsmith.proc.supervise import Cancelled, Command, Exited, TimedOut


class Shell:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runner = Runner(str(folder / "spill"))
        self.cancel = CancelToken()
        self.shown: list[str] = []

    async def run(self, text: str, timeout: float = 20, cwd: str = ""):
        started = time.monotonic()
        command = Command(text, cwd or str(self.folder), dict(os.environ), timeout)
        finished = await self.runner.run(command, cancel=self.cancel, show=self.shown.append)
        self.seconds = time.monotonic() - started
        return finished

    async def run_until(self, file: str, text: str):
        """Run a command and cancel it once it made the file."""
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(self.run(text))
            while not (self.folder / file).exists():
                await asyncio.sleep(0.005)
            cancelled = time.monotonic()
            self.cancel.cancel()
            finished = await running
        self.seconds = time.monotonic() - cancelled
        return finished


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def pids(folder: Path) -> list[int]:
    return [int(word) for file in folder.glob("*.pid") for word in file.read_text().split()]


async def all_dead(folder: Path) -> bool:
    deadline = time.monotonic() + 1
    while any(is_alive(pid) for pid in pids(folder)):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.01)
    return bool(pids(folder))


@pytest.mark.parametrize(
    ("text", "outcome", "output"),
    [
        ("true", Exited(0), ""),  # SH-18
        ("false", Exited(1), ""),
        ("false | cat", Exited(0), ""),  # SH-22
        ("set -o pipefail; false | cat", Exited(1), ""),
        ("exit 300", Exited(44), ""),
        ("echo before; kill -9 $$", Exited(137, 9), "before\n"),  # SH-13
        ("kill -TERM $$", Exited(143, 15), ""),
        ("cat; echo end", Exited(0), "end\n"),  # SH-06
        ("printf 'ok \\344\\366 \\360\\n'; exit 4", Exited(4), "ok \ufffd\ufffd \ufffd\n"),  # SH-11
        ("printf '\\033[31mred\\033[0m\\033]0;title\\007\\n10%%\\r55%%\\r100%%\\n'", Exited(0), "red\n100%\n"),  # SH-20
        ("echo out; echo err >&2", Exited(0), "out\nerr\n"),
        ("exec > >(sed s/a/b/); echo aaa", Exited(0), "baa\n"),
    ],
)
async def test_outcomes_are_the_shells(shell, text, outcome, output):
    finished = await shell.run(text)
    assert (finished.outcome, finished.output.text, finished.leftovers, finished.survivors) == (outcome, output, 0, 0)


async def test_where_a_shell_that_has_ended_can_only_be_reaped(shell, monkeypatch):
    """As on macOS before Python 3.13."""
    monkeypatch.delattr(os, "waitid")
    assert (await shell.run("exit 3")).outcome == Exited(3)
    assert (await shell.run("kill -9 $$")).outcome == Exited(137, 9)
    left = await shell.run("sleep 60 & echo $! > a.pid; echo done")
    assert (left.outcome, left.output.text, left.leftovers) == (Exited(0), "done\n", 1)
    assert await all_dead(shell.folder)


async def test_there_is_no_terminal_and_no_input(shell):
    finished = await shell.run("python3 -c 'input()'; tty; ps -o tty= -p $$ 2>/dev/null | tr -d ' ?'")
    assert "EOFError" in finished.output.text
    assert "not a tty" in finished.output.text


WAIT = "until [ -s a.pid ]; do :; done"


@pytest.mark.parametrize(
    "text",
    [
        "sleep 60 & echo $! > a.pid; echo done",
        "sleep 60 >/dev/null 2>&1 & echo $! > a.pid; echo done",
        "(trap '' TERM; exec sleep 60) & echo $! > a.pid; echo done",
        f"nohup setsid sh -c 'echo $$ > a.pid; exec sleep 60' >/dev/null 2>&1 & {WAIT}; echo done",
        f"(setsid sh -c 'sleep 60 & echo $! > a.pid' &); {WAIT}; echo done",
    ],
)
async def test_background_children_neither_hold_the_call_nor_outlive_it(shell, text):
    """SH-01, and what setsid, nohup and double forks do."""
    finished = await shell.run(text)
    assert shell.seconds < 2
    assert (finished.outcome, finished.survivors) == (Exited(0), 0)
    assert finished.output.text.splitlines()[-1] == "done"
    assert finished.leftovers >= 1
    assert await all_dead(shell.folder)


DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 50)
        open("a.pid", "w").write(str(os.getpid()))
        time.sleep(60)
    os._exit(0)
while not os.path.exists("a.pid") or not open("a.pid").read():
    time.sleep(0.002)
"""


async def test_a_daemon_dies_with_the_call(shell):
    (shell.folder / "daemon.py").write_text(DAEMON)
    finished = await shell.run("python3 daemon.py")
    assert (finished.outcome, finished.leftovers) == (Exited(0), 1)
    assert await all_dead(shell.folder)


async def test_a_timeout_ends_everything(shell):
    """SH-04."""
    text = "sh -c 'echo $$ > a.pid; sleep 60; touch canary' & setsid sh -c 'echo $$ > b.pid; exec sleep 60' & wait"
    finished = await shell.run(text, timeout=0.4)
    assert finished.outcome == TimedOut(0.4)
    assert shell.seconds < 1
    assert len(pids(shell.folder)) == 2
    assert await all_dead(shell.folder)


async def test_a_cancel_ends_everything(shell):
    """SH-04."""
    finished = await shell.run_until("a.pid", "echo begun; sh -c 'echo $$ > a.pid; sleep 60; touch canary' & wait")
    assert (finished.outcome, finished.output.text) == (Cancelled(), "begun\n")
    assert shell.seconds < 1
    assert await all_dead(shell.folder)


async def test_who_ignores_a_request_to_end_is_killed(shell):
    text = "trap '' TERM; echo $$ > a.pid; (trap '' TERM; setsid sleep 1000 & echo $! > b.pid); touch ready; sleep 1000"
    finished = await shell.run_until("ready", text)
    assert (finished.outcome, finished.survivors) == (Cancelled(), 0)
    assert 0.9 < shell.seconds < 2
    assert await all_dead(shell.folder)


async def test_a_stopped_process_is_ended_too(shell):
    finished = await shell.run("sleep 60 & echo $! > a.pid; kill -STOP $!; wait", timeout=0.3)
    assert finished.outcome == TimedOut(0.3)
    assert await all_dead(shell.folder)


async def test_a_cancelled_task_leaves_nothing_behind(shell):
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(shell.run("echo $$ > a.pid; sleep 60"))
        while not pids(shell.folder):
            await asyncio.sleep(0.005)
        running.cancel()
    assert running.cancelled()
    assert not any(is_alive(pid) for pid in pids(shell.folder))


async def test_nothing_is_started_after_a_cancel(shell):
    shell.cancel.cancel()
    finished = await shell.run("touch canary")
    assert (finished.outcome, os.listdir(shell.folder)) == (Cancelled(), [])


async def test_a_neighbour_is_not_touched(shell):
    other = Shell(shell.folder)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(other.run("echo $$ > n.pid; sleep 0.6 & wait; echo whole"))
        while not pids(shell.folder):
            await asyncio.sleep(0.005)
        await shell.run("sleep 60 &")
        await shell.run("sleep 60", timeout=0.1)
    assert running.result().output.text == "whole\n"


async def test_a_missing_directory_is_named(shell):
    """SH-14."""
    gone = shell.folder / "sub"
    with pytest.raises(ToolError, match="sub") as refusal:
        await shell.run("echo hi", cwd=str(gone))
    assert refusal.value.code == "noDirectory"
    assert (await shell.run("echo hi")).output.text == "hi\n"


async def test_much_on_stderr_does_not_block(shell):
    """SH-19."""
    finished = await shell.run("python3 -c \"import sys;sys.stderr.write('e'*1000000);print('out')\"")
    assert finished.outcome == Exited(0)
    assert finished.output.text.endswith("eout\n")
    assert finished.output.size == 1_000_004


async def test_head_and_tail_are_kept(shell):
    """SH-10."""
    finished = await shell.run("echo HEAD; seq 1 200000; echo 'fatal: the reason' >&2; exit 3")
    assert finished.outcome == Exited(3)
    assert finished.output.text.startswith("HEAD\n1\n2\n")
    assert finished.output.text.endswith("\n200000\nfatal: the reason\n")
    assert "lines left out here, of 200,002 lines" in finished.output.text
    assert Path(finished.output.spilled).read_text().count("\n") == 200_002


async def test_endless_output_takes_no_memory(shell):
    """SH-08."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    finished = await shell.run("yes", timeout=1)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert finished.outcome == TimedOut(1)
    assert finished.output.size > 10_000_000
    assert "lines left out here" in finished.output.text
    assert grown < 50_000, f"{grown} kB"
    assert sum(map(len, shell.shown)) < 210_000


async def test_output_is_seen_while_the_command_runs(shell):
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(
            shell.run("echo first; printf 'no end'; until [ -e go ]; do sleep 0.01; done; echo last")
        )
        deadline = time.monotonic() + 5
        while "".join(shell.shown) != "first\nno end":
            assert time.monotonic() < deadline, shell.shown
            await asyncio.sleep(0.01)
        (shell.folder / "go").touch()
    assert "".join(shell.shown) == running.result().output.text == "first\nno endlast\n"


async def test_a_trivial_command_stays_near_the_floor(shell):
    times = []
    for _ in range(15):
        await shell.run("true")
        times.append(shell.seconds)
    assert sorted(times)[3] < 0.02
