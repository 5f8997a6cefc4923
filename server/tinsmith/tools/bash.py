"""bash: one command, its outcome and what it wrote."""

import os
import signal
import time
from collections.abc import Sequence

import msgspec

from tinsmith.domain.change import Refreshed
from tinsmith.domain.errors import PolicyError, ToolError
from tinsmith.domain.policy import Access, CommandSubject, Grant
from tinsmith.domain.tool import CallScope, Denial, ToolResult
from tinsmith.proc.environment import child_environment
from tinsmith.proc.supervise import Cancelled, Command, Exited, Finished, TimedOut
from tinsmith.tools.arguments import BashArguments
from tinsmith.tools.confine import GRANTED, MEANING, Refusal, described, notes_on, refusal_in, room_for
from tinsmith.tools.floor import check_floor
from tinsmith.tools.ports import ToolPorts
from tinsmith.tools.study import study
from tinsmith.workspace.paths import Place, has_file, printable

_TITLE_CHARACTERS = 80
_NAMED_DOCUMENTS = 5


async def preview(ports: ToolPorts, arguments: BashArguments, scope: CallScope) -> Access:
    """The command as it would run. Raises PolicyError for what is never run, or never by this role."""
    place = await _directory(ports, arguments, scope)
    root, home = await ports.snapshots.off_loop(_resolved, scope.root)
    check_floor(arguments.command, place.path, root, home)
    search_path = os.environ.get("PATH", os.defpath)
    found = await ports.snapshots.off_loop(study, arguments.command, place.path, root, search_path)
    if scope.role == "explorer" and found.command_class != "read":
        raise PolicyError(
            "toolDenied",
            "An explorer only runs commands that read, such as ls, cat, grep, find or wc, and this one is of class "
            f"{found.command_class}. Look another way, or report what should be run.",
        )
    state = await ports.snapshots.off_loop(ports.sandbox.state)
    grant = arguments.grant if state.kind != "none" else None
    if scope.role == "explorer" and grant:
        raise PolicyError(
            "toolDenied", "An explorer's commands stay in the sandbox. Leave grant out, or report what should be run."
        )
    return Access(
        action="run",
        title=_title(arguments.command, grant, is_bare=state.kind == "none"),
        subject=CommandSubject(arguments.command, place.path, found.command_class, described(state, grant)),
        target=arguments.command,
        command_class=found.command_class,
        is_outside=place.is_outside or found.is_outside,
        is_secret=found.is_secret,
        grant=grant,
        parts=found.script.parts,
        rule_prefix=found.script.rule_prefix,
        notes=(MEANING[grant],) if grant else (),
    )


async def run(ports: ToolPorts, arguments: BashArguments, scope: CallScope) -> ToolResult:
    """Run the command to its end, its time or a cancel."""
    place = await _directory(ports, arguments, scope)
    unsaved = ports.documents.unsaved()
    environment = child_environment(os.environ, ports.secret_variables())
    async with room_for(ports, scope, place.path, environment, arguments.grant) as room:
        command = Command(
            text=arguments.command,
            cwd=place.path,
            environment=room.environment,
            timeout=arguments.timeout_s,
            confinement=room.confinement,
        )
        began = time.monotonic()
        finished = await ports.runner.run(command, cancel=scope.cancel, show=scope.output, secrets=ports.secrets)
        seconds = time.monotonic() - began
        notes = _noted(await notes_on(ports, room, finished)) + _process_notes(finished)
    refreshed = await ports.snapshots.refresh()
    notes = _document_notes(unsaved, refreshed, scope.root) + notes
    outcome = finished.outcome
    has_ended = isinstance(outcome, Exited)
    refusal = refusal_in(room, finished)
    return ToolResult(
        f"{_outcome_line(finished)}\n{notes}{finished.output.text or '(no output)'}",
        ok=has_ended and outcome.code == 0,
        is_cancelled=isinstance(outcome, Cancelled),
        mutation_state="attempted" if has_ended else "unknown",
        error_code=_error_code(finished),
        metadata={"sandbox": room.sandbox, **({"exit": outcome.code} if has_ended else {})},
        denied=_denial(arguments, refusal, outcome.code, seconds) if has_ended and refusal else None,
    )


def _denial(arguments: BashArguments, refusal: Refusal, code: int, seconds: float) -> Denial:
    return Denial(
        msgspec.structs.replace(arguments, grant=refusal.grant),
        _title(arguments.command, refusal.grant, is_bare=False, verb="Run again"),
        f"It ended with exit {code} after {seconds:.1f} s, and the sandbox may have stopped it ({refusal.what}). What "
        "it had done until then stays, and running it again does it again.",
    )


def _title(command: str, grant: Grant | None, *, is_bare: bool, verb: str = "Run") -> str:
    """What the person reads of it, always: a command outside a sandbox never looks like one inside."""
    first, _, rest = command.strip().partition("\n")
    is_cut = bool(rest) or len(first) > _TITLE_CHARACTERS
    how = f" {GRANTED[grant]}:" if grant else " without a sandbox:" if is_bare else ""
    return f"{verb}{how} {first[:_TITLE_CHARACTERS]}{' …' if is_cut else ''}"


async def _directory(ports: ToolPorts, arguments: BashArguments, scope: CallScope) -> Place:
    place = await ports.locate(arguments.cwd or scope.cwd, scope)
    if not await ports.snapshots.off_loop(os.path.isdir, place.path):
        raise ToolError(
            "noDirectory",
            f"There is no directory {place.path} to run the command in. Name another `cwd` or leave it out.",
        )
    return place


def _resolved(root: str) -> tuple[str, str]:
    return os.path.realpath(root), os.path.realpath(os.path.expanduser("~"))


def _outcome_line(finished: Finished) -> str:
    match finished.outcome:
        case Exited(code, 0):
            return f"exit: {code}"
        case Exited(code, number):
            return f"exit: {code} (killed by signal {number}, {signal.Signals(number).name})"
        case TimedOut(seconds):
            return f"timed out after {seconds:g} s"
        case Cancelled():
            return "cancelled"


def _error_code(finished: Finished) -> str:
    match finished.outcome:
        case Exited(0):
            return ""
        case Exited():
            return "exitCode"
        case TimedOut():
            return "timedOut"
        case Cancelled():
            return "cancelled"


def _document_notes(unsaved: tuple[str, ...], refreshed: Refreshed, root: str) -> str:
    """What a command and the open documents do not know of each other."""
    found = (
        ("open with unsaved changes, so the command saw older text on disk", unsaved),
        ("changed on disk and read again by the editor, so read before the next edit", refreshed.reloaded),
        ("changed on disk, but the editor still shows the older text; ask the user to reload", refreshed.outdated),
        ("changed on disk, but open with unsaved text that stays; ask the user which counts", refreshed.conflicting),
    )
    return "".join(f"note: {what}: {_names(paths, root)}\n" for what, paths in found if paths)


def _names(paths: tuple[str, ...], root: str) -> str:
    names = [printable(os.path.relpath(path, root) if has_file(path) else path) for path in paths[:_NAMED_DOCUMENTS]]
    more = f" and {len(paths) - len(names)} more" if len(paths) > len(names) else ""
    return ", ".join(names) + more


def _process_notes(finished: Finished) -> str:
    notes: list[str] = []
    if finished.leftovers:
        notes.append(f"{finished.leftovers} background process(es) still ran when the command ended and were stopped")
    if finished.survivors:
        notes.append(f"{finished.survivors} process(es) could not be stopped")
    if finished.output.spilled:
        whole = "whole output" if finished.output.is_spilled_whole else "beginning of the output"
        notes.append(f"the {whole} is in {finished.output.spilled}; read it in pages")
    return _noted(notes)


def _noted(notes: Sequence[str]) -> str:
    return "".join(f"note: {note}\n" for note in notes)
