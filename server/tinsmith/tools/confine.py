"""The sandbox around one command: what it is granted, and what is said when the sandbox stopped it."""

import os
import re
from typing import NamedTuple

from tinsmith.domain.tool import CallScope
from tinsmith.proc.bubblewrap import Grants
from tinsmith.proc.environment import sandbox_environment
from tinsmith.proc.launch import Confinement
from tinsmith.proc.supervise import Exited, Finished
from tinsmith.tools.ports import ToolPorts
from tinsmith.workspace.protected import set_aside

_REFUSALS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "network",
        re.compile(
            r"Network is unreachable|ENETUNREACH|Could not resolve|Temporary failure in name resolution|EAI_AGAIN|"
            r"ENOTFOUND|Name or service not known|No address associated|dial tcp|unable to access 'https?:|"
            r"Failed to establish a new connection|failed to lookup address"
        ),
    ),
    ("a write outside the workspace or to git's own files", re.compile(r"Read-only file system|EROFS|\[Errno 30\]")),
    ("replacing or moving git's own files", re.compile(r"Device or resource busy|EBUSY|\[Errno 16\]")),
    ("a secret file or a file of somebody else", re.compile(r"Permission denied|EACCES|\[Errno 13\]")),
    ("a system call", re.compile(r"Operation not permitted|EPERM|\[Errno 1\]|Function not implemented")),
)
"""What is stopped, and how programs say so."""


class Room(NamedTuple):
    """Where a command runs: `sandbox` as people and models read it. `absent` must not be there afterwards."""

    sandbox: str
    environment: dict[str, str]
    confinement: Confinement | None = None
    absent: tuple[str, ...] = ()


async def room_for(ports: ToolPorts, scope: CallScope, cwd: str, environment: dict[str, str], *, is_free: bool) -> Room:
    """Make ready what the command runs in; `is_free` is a command that was allowed to do without."""
    return await ports.snapshots.off_loop(_room, ports, scope, cwd, environment, is_free)


def _room(ports: ToolPorts, scope: CallScope, cwd: str, environment: dict[str, str], is_free: bool) -> Room:  # noqa: FBT001  passed on by position
    state = ports.sandbox.state()
    if state.kind == "none":
        return Room(str(state), environment)
    if is_free:
        return Room("none (asked for with unsandboxed)", environment)
    root = os.path.realpath(scope.root)
    tmp = ports.sandbox.temporary_folder(scope.conversation_id)
    found = ports.protected_paths.find(root)
    grants = Grants(root, ports.sandbox.caches, tmp, found.pinned, found.frozen, found.hidden)
    has_own_tmp = state.kind == "bubblewrap"
    shown = str(state) if found.is_whole else f"{state} (too many folders or secret files here to shield them all)"
    return Room(
        shown,
        sandbox_environment(environment, ports.sandbox.caches, "/tmp" if has_own_tmp else tmp),  # noqa: S108  its own
        ports.sandbox.confine(grants, cwd),
        found.absent,
    )


async def notes_on(ports: ToolPorts, room: Room, finished: Finished) -> tuple[str, ...]:
    """What the model should know of the sandbox after the command."""
    if room.confinement is None:
        return ()
    moved = await ports.snapshots.off_loop(set_aside, room.absent)
    notes = [f"git would run what is there, so it was set aside as {path}" for path in moved]
    refused = refusal_in(finished)
    if refused:
        notes.append(
            f"the sandbox may have stopped this ({refused}); if the command needs that, call again with unsandboxed: "
            "true, and the user is asked to run it without the sandbox, with network"
        )
    return tuple(notes)


def refusal_in(finished: Finished) -> str:
    """What the sandbox seems to have stopped, going by a failed command's last words; empty for nothing."""
    if not isinstance(finished.outcome, Exited) or finished.outcome.code == 0:
        return ""
    last_words = finished.output.text[-4000:]
    return next((what for what, pattern in _REFUSALS if pattern.search(last_words)), "")
