"""git: what changed and when, by commands that only look."""

import os
import shlex
from typing import NamedTuple

from tinsmith.domain.errors import ToolError
from tinsmith.domain.policy import Access, ToolSubject
from tinsmith.domain.tool import CallScope, ToolResult
from tinsmith.proc.execute import Executed
from tinsmith.tools.arguments import GitArguments
from tinsmith.tools.git_flags import Asked, checked
from tinsmith.tools.ports import RESULT_CHARACTERS, ToolPorts
from tinsmith.workspace.git import run_git
from tinsmith.workspace.patches import without_secret_hunks
from tinsmith.workspace.paths import Place, is_secret, is_within
from tinsmith.workspace.repository import Repository, find_repository

_SHOWN_CHARACTERS = RESULT_CHARACTERS - 1_000
_READ_BYTES = 2_000_000
"""Of an output; git is stopped there."""
_ERROR_CHARACTERS = 1_000
_ALWAYS = {
    "status": ("--ignore-submodules=dirty",),
    "log": ("--no-ext-diff", "--no-textconv", "--submodule=short"),
    "show": ("--no-ext-diff", "--no-textconv", "--submodule=short"),
    "diff": ("--no-ext-diff", "--no-textconv", "--submodule=short", "--ignore-submodules=dirty"),
    "blame": (),
}
"""Behind what was asked for. A submodule's own files are never looked at: it has a configuration of its own."""


async def preview(ports: ToolPorts, arguments: GitArguments, scope: CallScope) -> Access:
    """What the command looks at. Raises ToolError for arguments that git is never given."""
    plan = await ports.snapshots.off_loop(_plan, arguments, scope.root, await _places(ports, arguments, scope))
    shown = shlex.join(["git", arguments.command, *arguments.args])
    return Access(
        action="look",
        title=f"Look: {shown[:80]}",
        subject=ToolSubject("git", {"command": arguments.command, "args": list(arguments.args)}),
        target=shown,
        is_outside=not plan.repository.is_own,
        is_secret=plan.is_secret,
    )


async def run(ports: ToolPorts, arguments: GitArguments, scope: CallScope) -> ToolResult:
    """Run the command; what stands in secret files is shown only when they were named."""
    plan = await ports.snapshots.off_loop(_plan, arguments, scope.root, await _places(ports, arguments, scope))
    done = await ports.snapshots.off_loop(
        run_git, plan.repository, plan.command, cancel=scope.cancel, limit=_READ_BYTES, sandbox=ports.sandbox
    )
    text = done.output.decode("utf-8", "replace")
    text = await ports.snapshots.off_loop(lambda: ports.redact(text if plan.is_secret else without_secret_hunks(text)))
    if done.code and not done.is_cut:
        return ToolResult(_failure(ports, done, text), ok=False, error_code="gitFailed", metadata={"exit": done.code})
    return ToolResult(_bounded(text, done.is_cut) or "(no output)")


class _Plan(NamedTuple):
    repository: Repository
    command: tuple[str, ...]
    is_secret: bool


async def _places(ports: ToolPorts, arguments: GitArguments, scope: CallScope) -> dict[str, Place]:
    """Where each argument would lead as a path."""
    asked = checked(arguments.command, arguments.args)
    return {name: await ports.locate(name, scope) for name in (*asked.names, *asked.paths)}


def _plan(arguments: GitArguments, root: str, places: dict[str, Place]) -> _Plan:
    repository = find_repository(root)
    if repository is None:
        raise ToolError("noRepository", f"{root} is in no git repository. Look at the files with read instead.")
    asked = _sorted_out(arguments, places)
    if arguments.command == "blame" and len(asked.paths) != 1:
        raise ToolError("badPath", "blame needs exactly one file. Put its path behind '--'.")
    behind = tuple(_in_repository(places[path], repository) for path in asked.paths)
    secret_revisions = (is_secret(name.partition(":")[2]) for name in asked.names)
    return _Plan(
        repository,
        (arguments.command, *asked.flags, *_ALWAYS[arguments.command], *asked.names, "--", *behind),
        any(secret_revisions) or any(places[path].is_secret for path in asked.paths),
    )


def _sorted_out(arguments: GitArguments, places: dict[str, Place]) -> Asked:
    """Names before `--` that are paths moved behind it; where there is a `--`, all before it are revisions."""
    asked = checked(arguments.command, arguments.args)
    if "--" in arguments.args:
        return asked
    names = tuple(name for name in asked.names if arguments.command != "status" and not _exists(places[name]))
    return Asked(asked.flags, names, tuple(name for name in asked.names if name not in names))


def _exists(place: Place) -> bool:
    return os.path.lexists(place.given)


def _in_repository(place: Place, repository: Repository) -> str:
    """The path as git takes it: relative to the root, never magic."""
    real_root = os.path.realpath(repository.root)
    for path, root in ((place.given, repository.root), (place.given, real_root), (place.path, real_root)):
        if is_within(path, root):
            relative = os.path.relpath(path, root)
            return f"./{relative}" if relative.startswith(":") else relative
    raise ToolError("badPath", f"{place.shown} is not in the repository {repository.root}. Name a path in it.")


def _failure(ports: ToolPorts, done: Executed, text: str) -> str:
    errors = ports.redact(done.errors.decode("utf-8", "replace")).strip()[:_ERROR_CHARACTERS]
    return f"exit: {done.code}\n{errors or _bounded(text, is_cut=False)}"


def _bounded(text: str, is_cut: bool) -> str:  # noqa: FBT001  a fact about the text, beside it
    """The whole text, or its first lines and a note."""
    if len(text) <= _SHOWN_CHARACTERS and not is_cut:
        return text
    end = text.rfind("\n", 0, _SHOWN_CHARACTERS) + 1 or _SHOWN_CHARACTERS
    size = f"more than {_READ_BYTES:,} bytes" if is_cut else f"{len(text):,} characters"
    return f"{text[:end]}[cut: {end:,} characters of {size}; ask for less with paths, -n, --stat or other revisions]\n"
