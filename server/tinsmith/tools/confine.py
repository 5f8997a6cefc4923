"""The sandbox around one command: what it is granted, and what is said when the sandbox stopped it."""

import os
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import NamedTuple

from tinsmith.domain.policy import Grant
from tinsmith.domain.tool import CallScope
from tinsmith.proc.bubblewrap import Grants
from tinsmith.proc.environment import sandbox_environment
from tinsmith.proc.launch import Confinement
from tinsmith.proc.sandbox import SandboxState
from tinsmith.proc.supervise import Exited, Finished
from tinsmith.tools.ports import ToolPorts
from tinsmith.workspace.protected import set_aside

GRANTED: dict[Grant, str] = {"network": "with network", "unsandboxed": "without the sandbox, with network"}
"""How a command with a grant runs, in a title."""
MEANING: dict[Grant, str] = {
    "network": (
        "With network it reaches what this machine reaches: the internet, the local network, services of this machine "
        "(127.0.0.1) and a cloud's metadata (169.254.169.254), and can send there whatever it can read. Its files are "
        "as in the sandbox."
    ),
    "unsandboxed": "Without the sandbox it can do whatever you can.",
}
"""What a person should know of a grant."""
_NO_NETWORK = re.compile(
    r"(?i:network is unreachable|could not resolve|unable to resolve host|temporary failure in name resolution)|"
    r"ENETUNREACH|EAI_AGAIN|ENOTFOUND|Name or service not known|No address associated|UnknownHostException|dial tcp|"
    r"unable to access 'https?:|Failed to establish a new connection|failed to lookup address|dns error"
)
_UNREADABLE = "a secret file or a file of somebody else"
_OTHER_REFUSALS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "a write outside the workspace or to git's own files",
        re.compile(r"(?i:read-only file system)|EROFS|\[Errno 30\]"),
    ),
    ("replacing or moving git's own files", re.compile(r"(?i:device or resource busy)|EBUSY|\[Errno 16\]")),
    ("a key of the home", re.compile(r"Permission denied \(publickey|Host key verification failed")),
    (_UNREADABLE, re.compile(r"(?i:permission denied)|EACCES|\[Errno 13\]")),
    ("a system call", re.compile(r"(?i:operation not permitted)|EPERM|\[Errno 1\]|Function not implemented")),
)
"""What is stopped, and how programs say so."""
_NOT_EXECUTABLE = 126
"""Exit code of a shell that may not run the program it found: the sandbox forbids that nowhere. Source: bash(1)."""


class Room(NamedTuple):
    """Where a command runs: `sandbox` as people and models read it. `absent` must not be there afterwards.

    `hidden` is all that permission is denied for there and not elsewhere, None when that may be anything.
    """

    sandbox: str
    environment: dict[str, str]
    confinement: Confinement | None = None
    absent: tuple[str, ...] = ()
    has_network: bool = False
    hidden: tuple[str, ...] | None = None


class Refusal(NamedTuple):
    """What the sandbox stopped, and the grant that lets it through."""

    what: str
    grant: Grant


def described(state: SandboxState, grant: Grant | None) -> str:
    """What a command runs in, for the card and the record."""
    if state.kind == "none" or grant is None:
        return str(state)
    return f"{state}, with network" if grant == "network" else "none, with network"


@asynccontextmanager
async def room_for(
    ports: ToolPorts, scope: CallScope, cwd: str, environment: dict[str, str], grant: Grant | None
) -> AsyncGenerator[Room]:
    """What the command runs in, with what it was granted; there for as long as the block."""
    with ExitStack() as kept:
        yield await ports.snapshots.off_loop(_room, kept, ports, scope, cwd, environment, grant)


def _room(
    kept: ExitStack,
    ports: ToolPorts,
    scope: CallScope,
    cwd: str,
    environment: dict[str, str],
    grant: Grant | None,
) -> Room:
    state = ports.sandbox.state()
    shown = described(state, grant)
    if state.kind == "none" or grant == "unsandboxed":
        return Room(shown, environment)
    root = os.path.realpath(scope.root)
    tmp = kept.enter_context(ports.sandbox.temporary_folder(scope.conversation_id))
    found = ports.protected_paths.find(root)
    grants = Grants(
        root, ports.sandbox.caches, tmp, found.pinned, found.frozen, found.hidden, has_network=grant == "network"
    )
    has_own_tmp = state.kind == "bubblewrap"
    return Room(
        shown if found.is_whole else f"{shown} (too many folders or secret files here to shield them all)",
        sandbox_environment(environment, ports.sandbox.caches, "/tmp" if has_own_tmp else tmp),  # noqa: S108  its own
        ports.sandbox.confine(grants, cwd),
        found.absent,
        grants.has_network,
        None if not has_own_tmp or os.geteuid() == 0 else found.hidden,
    )


async def notes_on(ports: ToolPorts, room: Room, finished: Finished) -> tuple[str, ...]:
    """What the model should know of the sandbox after the command."""
    if room.confinement is None:
        return ()
    moved = await ports.snapshots.off_loop(set_aside, room.absent)
    notes = [f"git would run what is there, so it was set aside as {path}" for path in moved]
    refusal = refusal_in(room, finished)
    if refusal:
        notes.append(f"the sandbox may have stopped this ({refusal.what})")
    return tuple(notes)


def refusal_in(room: Room, finished: Finished) -> Refusal | None:
    """What the sandbox seems to have stopped, going by a failed command's last words."""
    if room.confinement is None or not isinstance(finished.outcome, Exited) or finished.outcome.code == 0:
        return None
    last_words = finished.output.text[-4000:]
    if not room.has_network and _NO_NETWORK.search(last_words):
        return Refusal("network", "network")
    if finished.outcome.code == _NOT_EXECUTABLE:
        return None
    for what, pattern in _OTHER_REFUSALS:
        lines = [line for line in last_words.splitlines() if pattern.search(line)]
        if lines and (what != _UNREADABLE or _names_one(lines, room.hidden)):
            return Refusal(what, "unsandboxed")
    return None


def _names_one(lines: Sequence[str], paths: tuple[str, ...] | None) -> bool:
    """Whether a line tells of one of these paths; an ordinary user is denied much that no sandbox denies."""
    return paths is None or any(os.path.basename(path) in line for line in lines for path in paths)
