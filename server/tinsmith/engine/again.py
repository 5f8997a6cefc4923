"""A call that failed for want of something: a person is asked whether it runs again with that."""

import msgspec

from tinsmith.domain.errors import AgentError, Cancelled, PolicyError
from tinsmith.domain.message import MutationState
from tinsmith.domain.policy import Access
from tinsmith.domain.request import TurnRequest
from tinsmith.domain.tool import CallScope, Denial, ToolResult, ToolSpec
from tinsmith.domain.turn import CallRecord
from tinsmith.engine.gate import pass_gate_again
from tinsmith.engine.progress import Progress

_FIRST_CHARACTERS = 3_000
_RESULT_CHARACTERS = 20_000
_NOTICE_CHARACTERS = 100
_WORSE: tuple[MutationState, ...] = ("none", "attempted", "unknown")


async def why_not_again(
    request: TurnRequest,
    progress: Progress,
    spec: ToolSpec,
    denial: Denial,
    scope: CallScope,
    call: CallRecord,
    arguments: str,
) -> str:
    """Empty when a person lets the call run again, else the reason, for the model. Raises Cancelled.

    Who said no is not asked about the same call again in this turn.
    """
    try:
        with scope.cancel.scope():
            seen = await spec.preview(denial.arguments, scope)
            access = msgspec.structs.replace(seen, title=denial.title, notes=(denial.account, *seen.notes))
            await _ask_once(request, progress, spec, access, call, arguments)
    except Cancelled:
        raise
    except AgentError as refusal:
        return refusal.message
    scope.cancel.check()
    return ""


async def _ask_once(
    request: TurnRequest, progress: Progress, spec: ToolSpec, access: Access, call: CallRecord, arguments: str
) -> None:
    key = (spec.name, access.target, access.grant)
    if key in progress.declined_again:
        raise PolicyError("declined", "The user declined that before, for the same call.")
    try:
        await pass_gate_again(request, spec, access, call, arguments)
    except PolicyError as refusal:
        if refusal.code == "declined":
            progress.declined_again.add(key)
        raise


def kept(first: ToolResult, denial: Denial, why: str, *, is_cancelled: bool = False) -> ToolResult:
    """The only result of a call that did not run again."""
    content = f'{first.content.rstrip()}\nnote: not done: "{denial.title}". {why}\n'
    return msgspec.structs.replace(first, content=content, is_cancelled=is_cancelled, denied=None)


def joined(first: ToolResult, second: ToolResult) -> ToolResult:
    """One result of both runs: the second is what the call came to, of the first as much is kept as fits."""
    head = "[the first run, after which the user allowed more and had it run again:]"
    before = f"{head}\n{_squeezed(first.content, _FIRST_CHARACTERS)}"
    after = _squeezed(second.content, _RESULT_CHARACTERS - len(before))
    return msgspec.structs.replace(
        second,
        content=f"{after.rstrip()}\n\n{before}",
        mutation_state=max(first.mutation_state, second.mutation_state, key=_WORSE.index),
        files=first.files + second.files,
        denied=None,
    )


def _squeezed(text: str, most: int) -> str:
    """Head and tail of it: how it ended is at its top, and why at its end."""
    if len(text) <= most:
        return text
    room = most - _NOTICE_CHARACTERS
    head, tail = text[: room // 3], text[-(room - room // 3) :]
    left_out = len(text) - len(head) - len(tail)
    return f"{head}\n[... {left_out:,} characters left out here ...]\n{tail}"
