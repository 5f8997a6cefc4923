"""The calls of one answer: prepare, pass the gate, run, finalize. A call that cannot run takes the same exit."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tinsmith.domain.cancel import CancelToken
from tinsmith.domain.errors import AgentError, BudgetExhausted, Cancelled, PolicyError, ToolError
from tinsmith.domain.event import CallCancelled, CallFinished, CallStarted, FilesChanged, OutputStreamed
from tinsmith.domain.ids import new_id, now_ms
from tinsmith.domain.message import ToolCall, ToolMessage
from tinsmith.domain.request import TurnRequest
from tinsmith.domain.tool import CallScope, Denial, ToolResult, ToolSpec
from tinsmith.domain.turn import CallRecord, CallStatus
from tinsmith.engine.again import joined, kept, why_not_again
from tinsmith.engine.gate import is_offered, pass_gate
from tinsmith.engine.limits import CALLS_PER_ANSWER, calls_left, check_budget
from tinsmith.engine.progress import Progress

_log = logging.getLogger(__name__)

GRACE = 1.5
"""Seconds a tool that may change something has, after a cancel, to end by itself and give its result."""


async def execute_calls(request: TurnRequest, progress: Progress, calls: Sequence[ToolCall]) -> None:
    """Run the calls in the model's order; neighbours that only read run together. Each gets exactly one result.

    Raises Cancelled or BudgetExhausted, after every call that did not run was answered.
    """
    specs = {spec.name: spec for spec in request.tools()}
    waiting = list(calls)
    try:
        while waiting:
            request.cancel.check()
            check_budget(request.settings, progress)
            may_run = min(CALLS_PER_ANSWER - (len(calls) - len(waiting)), calls_left(request.settings, progress))
            if may_run <= 0:
                await _answer_unrun(
                    request,
                    progress,
                    waiting,
                    f"Not run: at most {CALLS_PER_ANSWER} calls of one answer run. Make the rest in your next answer.",
                )
                return
            group = _next_group(specs, waiting[:may_run])
            del waiting[: len(group)]
            await _run_group(request, progress, specs, group)
    except Cancelled:
        await _answer_unrun(request, progress, waiting, "Not run: the user stopped the turn.")
        raise
    except BudgetExhausted:
        await _answer_unrun(request, progress, waiting, "Not run: the budget of tool calls is used up.")
        raise


def _next_group(specs: dict[str, ToolSpec], waiting: Sequence[ToolCall]) -> list[ToolCall]:
    """The next call, and those right behind it when all of them only read."""
    group: list[ToolCall] = []
    for call in waiting:
        spec = specs.get(call.name)
        only_reads = spec is not None and not spec.is_barrier and spec.effects <= {"reads"}
        if group and not only_reads:
            break
        group.append(call)
        if not only_reads:
            break
    return group


async def _run_group(
    request: TurnRequest, progress: Progress, specs: dict[str, ToolSpec], group: Sequence[ToolCall]
) -> None:
    progress.calls += len(group)
    runs = [_Run(request, call, specs.get(call.name)) for call in group]
    if len(runs) == 1:
        endings = [await _execute(runs[0], progress)]
    else:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(_execute(run, progress)) for run in runs]
        endings = [task.result() for task in running]
    for run, result in zip(runs, endings, strict=True):
        await _finalize(run, progress, result)
    request.cancel.check()


@dataclass(slots=True)
class _Run:
    """One call on its way: what is known of it so far."""

    request: TurnRequest
    call: ToolCall
    spec: ToolSpec | None
    title: str = ""
    begun_at: int = 0
    is_over: bool = False
    first: ToolResult | None = None
    """Of a call that runs again."""

    def record(self, status: CallStatus) -> CallRecord:
        return CallRecord(
            self.call.call_id,
            self.request.turn_id,
            self.call.name,
            self.title or self.call.name,
            status,
            self.begun_at,
            now_ms() if status not in {"pending", "awaitingApproval", "running"} else 0,
        )


async def _execute(run: _Run, progress: Progress) -> tuple[CallStatus, ToolResult]:
    """Prepare, ask, run. Whatever happens becomes a status and a result."""
    status, result = await _attempt(run, progress)
    return status, joined(run.first, result) if run.first else result


async def _attempt(run: _Run, progress: Progress) -> tuple[CallStatus, ToolResult]:
    try:
        with run.request.cancel.child(run.call.call_id) as cancel:
            result = await _prepare_and_run(run, progress, cancel)
    except Cancelled:
        return "cancelled", _cancelled(run)
    except PolicyError as refusal:
        return "declined", _refusal(refusal)
    except AgentError as error:
        return "failed", _refusal(error)
    except Exception as bug:  # noqa: BLE001  a tool's bug is its call's failure, not the turn's
        return "failed", _bug(run, bug)
    if result.is_cancelled:
        return "cancelled", result
    return ("completed" if result.ok else "failed"), result


async def _prepare_and_run(run: _Run, progress: Progress, cancel: CancelToken) -> ToolResult:
    """Raises PolicyError when the call may not run, Cancelled, or any error of the tool."""
    spec, args = _decode(run)
    scope = _scope(run, cancel)
    with cancel.scope():
        access = await spec.preview(args, scope)
        run.title = access.title
        await pass_gate(run.request, spec, access, run.record("pending"), run.call.arguments)
    cancel.check()
    await _begin(run, spec)
    with cancel.scope(GRACE if spec.may_change else 0.0):
        first = await spec.run(args, scope)
    if first.denied is None or first.is_cancelled:
        return first
    return await _run_again(run, progress, spec, first, first.denied, scope)


async def _run_again(
    run: _Run, progress: Progress, spec: ToolSpec, first: ToolResult, denial: Denial, scope: CallScope
) -> ToolResult:
    """With what it lacked, when a person allows that; the call's one begun mark holds for both runs."""
    record, arguments = run.record("pending"), run.call.arguments
    try:
        why_not = await why_not_again(run.request, progress, spec, denial, scope, record, arguments)
    except Cancelled:
        return kept(first, denial, "The user stopped it.", is_cancelled=True)
    if why_not:
        return kept(first, denial, why_not)
    run.first, run.title = first, denial.title
    await _begin(run, spec)
    scope.output(f"\n{denial.title}\n")
    with scope.cancel.scope(GRACE if spec.may_change else 0.0):
        return await spec.run(denial.arguments, scope)


def _decode(run: _Run) -> tuple[ToolSpec, Any]:
    """The tool and its typed arguments. Raises ToolError with what to change."""
    call, spec = run.call, run.spec
    if spec is None or not is_offered(spec, run.request.role):
        names = ", ".join(each.name for each in run.request.tools())
        raise ToolError("unknownTool", f"There is no tool {call.name!r} here. The tools are: {names}.")
    if not call.is_complete:
        raise ToolError(
            "incompleteArguments",
            "Not run: the arguments of this call are cut off or are not a JSON object. Make the call again, whole; "
            "if it is long, split it into smaller calls.",
        )
    try:
        return spec, msgspec.json.decode(call.arguments, type=spec.args)
    except msgspec.DecodeError as error:
        raise ToolError(
            "invalidArguments", f"Not run: the arguments do not fit {call.name}: {error}. Correct them and call again."
        ) from error


def _scope(run: _Run, cancel: CancelToken) -> CallScope:
    request = run.request
    length = 0

    def output(text: str) -> None:
        nonlocal length
        if run.is_over:  # a thread of the tool that was left behind
            return
        request.journal.publish(OutputStreamed(run.call.call_id, length, text))
        length += len(text)

    return CallScope(
        role=request.role,
        turn_id=request.turn_id,
        call_id=run.call.call_id,
        conversation_id=request.conversation_id,
        cwd=request.cwd,
        root=request.root,
        cancel=cancel,
        output=output,
    )


async def _begin(run: _Run, spec: ToolSpec) -> None:
    """Say that the call runs; durably, before it may change something. Said again, it has begun when it first did."""
    run.begun_at = run.begun_at or now_ms()
    started = CallStarted(run.record("running"), run.call.arguments, is_marked=spec.may_change)
    if spec.may_change:
        await run.request.journal.record(started)
    else:
        run.request.journal.publish(started)


async def _finalize(run: _Run, progress: Progress, ending: tuple[CallStatus, ToolResult]) -> None:
    """Store the result, then announce it; from here on it is part of the transcript."""
    status, result = ending
    run.is_over = True
    message = ToolMessage(
        message_id=progress.next_message_id(),
        turn_id=run.request.turn_id,
        call_id=run.call.call_id,
        name=run.call.name,
        content=run.request.redact(result.content),
        ok=status == "completed",
        mutation_state=result.mutation_state,
        created_at=now_ms(),
    )
    record, arguments = run.record(status), run.call.arguments
    if status == "cancelled":
        await run.request.journal.record(CallCancelled(record, arguments, message))
    else:
        await run.request.journal.record(CallFinished(record, arguments, message, result.locations))
    progress.messages.append(message)
    if result.files:
        progress.add_files(result.files)
        run.request.journal.publish(FilesChanged(tuple(progress.files.values())))
    if run.spec is not None and run.spec.is_terminal and status == "completed":
        progress.is_terminal = True


async def _answer_unrun(request: TurnRequest, progress: Progress, calls: Sequence[ToolCall], why: str) -> None:
    """A result for each call that does not run, so that the history stays valid."""
    for call in calls:
        run = _Run(request, call, None)
        await _finalize(run, progress, ("cancelled", ToolResult(why, ok=False, is_cancelled=True)))


def _cancelled(run: _Run) -> ToolResult:
    may_have_changed = run.begun_at > 0 and run.spec is not None and run.spec.may_change
    return ToolResult(
        "Cut off: the user stopped the turn while this call ran; its effect is unknown."
        if run.begun_at
        else "Not run: the user stopped the turn.",
        ok=False,
        is_cancelled=True,
        mutation_state="unknown" if may_have_changed else "none",
    )


def _refusal(error: AgentError) -> ToolResult:
    return ToolResult(error.message, ok=False, error_code=error.code)


def _bug(run: _Run, bug: Exception) -> ToolResult:
    error_id = new_id("e")
    _log.error("tool %s failed, error %s", run.call.name, error_id, exc_info=bug)
    may_have_changed = run.begun_at > 0 and run.spec is not None and run.spec.may_change
    return ToolResult(
        f"The tool {run.call.name} failed inside ({type(bug).__name__}, error {error_id}). Try it another way.",
        ok=False,
        error_code="internal",
        mutation_state="unknown" if may_have_changed else "none",
    )
