"""Starting the shell of one command, in a sandbox or not."""

import os
import socket
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from tinsmith.domain.errors import ToolError

_WAITING_SHELL = (
    'exec 3>&2 2>/dev/null; echo >&0; read go || exit; trap : TERM; (exec bash -c "$1" 2>&3 3>&- </dev/null); '
    'echo $? >&0; trap "" TERM; read end'
)
"""Says on descriptor 0 that the sandbox stands, waits to be told to go on, runs the command, tells its exit code, and
keeps the namespace standing until it is taken down.

Were it to end with the command, the kernel would end the command's children in the same moment. bubblewrap ends with
its parent only from some moment of its start on; who was killed before that does not tell it to go on, and the end of
the descriptor's other side ends it.
"""


@dataclass(frozen=True, slots=True)
class Confinement:
    """How a command is started in a sandbox: `arguments` stand before it.

    With a `filter` of system calls the sandbox is bubblewrap's: a process namespace with an init of its own.
    """

    arguments: tuple[str, ...]
    filter: bytes = b""


class Started(NamedTuple):
    """A running shell: its session's leader, the end of the pipe it writes to, and where its exit code comes from.

    `status` is None when the leader is the shell itself; else a socket, on which the shell also waits for a line.
    """

    process: subprocess.Popen[bytes]
    output: int
    status: int | None


def start(text: str, cwd: str, environment: dict[str, str], confinement: Confinement | None) -> Started:
    """Start bash with the text. Raises ToolError `noDirectory` or `noShell`."""
    if confinement is None or not confinement.filter:
        with confined(("bash", "-c", text), confinement) as (arguments, _):
            process, output = _spawn(arguments, cwd, environment, subprocess.DEVNULL, ())
        return Started(process, output, None)
    ours, theirs = socket.socketpair()
    with ours, theirs, confined(("sh", "-c", _WAITING_SHELL, "sh", text), confinement) as (arguments, passed):
        process, output = _spawn(arguments, cwd, environment, theirs.fileno(), passed)
        ours.setblocking(False)
        return Started(process, output, ours.detach())


@contextmanager
def confined(
    arguments: Sequence[str], confinement: Confinement | None
) -> Generator[tuple[Sequence[str], tuple[int, ...]]]:
    """A program's arguments behind those of the sandbox, and the descriptors that it has to be given."""
    if confinement is None:
        yield arguments, ()
    elif not confinement.filter:
        yield (*confinement.arguments, *arguments), ()
    else:
        with filter_file(confinement.filter) as file:
            yield (*confinement.arguments, "--seccomp", str(file), "--", *arguments), (file,)


@contextmanager
def filter_file(program: bytes) -> Generator[int]:
    """A descriptor from which bubblewrap can read the filter."""
    file = os.memfd_create("filter")
    try:
        os.write(file, program)
        os.lseek(file, 0, os.SEEK_SET)
        yield file
    finally:
        os.close(file)


def _spawn(
    arguments: Sequence[str], cwd: str, environment: dict[str, str], stdin: int, passed: tuple[int, ...]
) -> tuple[subprocess.Popen[bytes], int]:
    read, write = os.pipe()
    try:
        process = subprocess.Popen(
            arguments,
            cwd=cwd,
            env=environment,
            stdin=stdin,
            stdout=write,
            stderr=write,
            start_new_session=True,
            pass_fds=passed,
        )
    except OSError as error:
        os.close(read)
        if not os.path.isdir(cwd):
            raise ToolError(
                "noDirectory", f"The directory {cwd} does not exist. Name another `cwd` or leave it out."
            ) from error
        raise ToolError("noShell", f"bash cannot be started ({error.strerror}). Ask the user about it.") from error
    finally:
        os.close(write)
    os.set_blocking(read, False)
    return process, read
