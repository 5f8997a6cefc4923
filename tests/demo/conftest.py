"""The demo as a process, on a machine where nothing is set up."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

DEMO = (sys.executable, "-m", "tinsmith", "demo")
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An empty home, a temporary directory of its own, no setting and no key."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TINSMITH", "XDG", "LLM"))}
    (tmp_path / "home").mkdir()
    return {**kept, "HOME": str(tmp_path / "home"), "LC_ALL": "C.UTF-8"}


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[tuple[Start, Path]]:
    """Start the demo with these options; and the directory that it makes its own in."""
    # A socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="tin-") as folder:
        running: list[subprocess.Popen[str]] = []

        def start(*options: str, path: str = "") -> subprocess.Popen[str]:
            own = {"TMPDIR": folder, **({"PATH": path} if path else {})}
            process = subprocess.Popen(
                [*DEMO, *options],
                env={**environment, **own},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            running.append(process)
            return process

        yield start, Path(folder)
        for process in running:
            process.terminate()
            process.communicate(timeout=10)


def mentioning(text: str) -> list[bytes]:
    """The command lines of the processes that have `text` in them or in their environment."""
    found: list[bytes] = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile, or somebody else's
            command = process.joinpath("cmdline").read_bytes()
            if text.encode() in command + process.joinpath("environ").read_bytes():
                found.append(command)
    return found
