"""Runs commands in a sandbox, as the program does: one request on stdin, one answer on stdout.

A program of its own, so that it can be started as another user.
"""

import asyncio
import json
import os
import sys

from tinsmith.domain.cancel import CancelToken
from tinsmith.proc.bubblewrap import Grants
from tinsmith.proc.environment import child_environment, sandbox_environment
from tinsmith.proc.runner import Runner
from tinsmith.proc.sandbox import Sandbox
from tinsmith.proc.supervise import Command, Exited
from tinsmith.workspace.protected import ProtectedPaths, set_aside


async def run_all(world: str, commands: list[str], timeout: float, *, has_network: bool) -> dict[str, object]:
    """The state of the sandbox, and of each command its exit code (-1 for a timeout) and what it wrote."""
    workspace = os.path.join(world, "workspace")
    sandbox = Sandbox(os.path.join(world, "cache"), os.environ)
    protected = ProtectedPaths(os.path.join(world, "home"), (os.path.join(world, "data"),))
    runner = Runner(os.path.join(world, "output"))
    state = sandbox.state()
    results = []
    for text in commands:
        found = protected.find(workspace)
        with sandbox.temporary_folder("c1") as tmp:
            pass
        grants = Grants(workspace, sandbox.caches, tmp, found.pinned, found.frozen, found.hidden, has_network)
        environment = sandbox_environment(
            child_environment(os.environ), sandbox.caches, "/tmp" if state.kind == "bubblewrap" else tmp
        )
        command = Command(text, workspace, environment, timeout, sandbox.confine(grants, workspace))
        finished = await runner.run(command, cancel=CancelToken(), show=lambda text: None)
        set_aside(found.absent)
        code = finished.outcome.code if isinstance(finished.outcome, Exited) else -1
        results.append((code, finished.output.text))
    return {"kind": state.kind, "reason": state.reason, "results": results}


if __name__ == "__main__":
    request = json.load(sys.stdin)
    json.dump(asyncio.run(run_all(**request)), sys.stdout)
