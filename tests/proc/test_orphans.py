"""A sandbox whose server is killed at any moment of its start, or taken down then, leaves nobody behind."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tinsmith.proc.sandbox import Sandbox

SERVER = """
import asyncio, os, sys
from tinsmith.domain.cancel import CancelToken
from tinsmith.proc.bubblewrap import Grants
from tinsmith.proc.environment import child_environment
from tinsmith.proc.runner import Runner
from tinsmith.proc.sandbox import Sandbox
from tinsmith.proc.supervise import Command

async def main(folder):
    sandbox, runner = Sandbox(folder + "/cache", os.environ), Runner(folder + "/output")
    os.makedirs(sandbox.caches, exist_ok=True)
    with sandbox.temporary_folder("c") as tmp:
        confinement = sandbox.confine(Grants(folder, sandbox.caches, tmp), folder)
        command = Command("sleep 300", folder, child_environment(os.environ), 400, confinement)
        print("now", flush=True)
        await runner.run(command, cancel=CancelToken(), show=print)

asyncio.run(main(sys.argv[1]))
"""


def living_with(mark):
    """Whoever has the mark in its environment, by what it runs."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as environ, open(f"/proc/{name}/stat", "rb") as stat:
                    is_dead = stat.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
                    if mark.encode() in environ.read() and not is_dead:
                        found.append(name)
            except OSError:
                pass
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is there on Linux only")
@pytest.mark.parametrize("kills", [25, pytest.param(600, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
def test_a_killed_server_leaves_nobody_in_a_sandbox_that_was_just_being_made(tmp_path, kills):
    assert shutil.which("bwrap"), "could not run: needs bubblewrap"
    assert Sandbox(str(tmp_path / "cache"), os.environ).state().kind == "bubblewrap"
    for number in range(kills):
        mark = f"TINSMITH_ORPHAN_{os.getpid()}_{number}="
        server = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(tmp_path)],
            env={**os.environ, mark.removesuffix("="): "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        with server:
            assert server.stdout.readline() == "now\n"
            time.sleep(random.uniform(0, 0.012))  # the moment is what is tried
            server.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + 2
        while (left := living_with(mark)) and time.monotonic() < deadline:
            time.sleep(0.005)
        assert left == [], f"kill {number}"
