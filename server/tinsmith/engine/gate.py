"""May this call run? The role's matrix, the tool's own lists, the permission mode, the rules, and then a person."""

import asyncio
from typing import Literal

import msgspec

from tinsmith.domain.errors import PolicyError
from tinsmith.domain.event import CallWaiting, PermissionResolved
from tinsmith.domain.ids import new_id
from tinsmith.domain.policy import (
    Access,
    AnswerKind,
    PermissionAnswer,
    PermissionOption,
    PermissionQuestion,
    Scope,
    judge,
    modes_that_run,
    rule_for,
)
from tinsmith.domain.request import TurnRequest
from tinsmith.domain.role import permits
from tinsmith.domain.tool import Location, ToolSpec
from tinsmith.domain.turn import CallRecord

OPTIONS: tuple[tuple[str, AnswerKind, Scope, str], ...] = (
    ("allow_once", "allow", "once", "Allow once"),
    ("allow_turn", "allow", "turn", "Allow for this turn"),
    ("allow_conversation", "allow", "conversation", "Allow for this conversation"),
    ("deny", "deny", "once", "Deny"),
    ("cancel_turn", "cancelTurn", "once", "Deny and stop the turn"),
)
"""Every answer that can be given: option id, kind, scope, label."""


def is_offered(spec: ToolSpec, role: str) -> bool:
    """Whether `role` may have the tool: by the matrix and by the tool's own lists."""
    listed = spec.role_allowlist is None or role in spec.role_allowlist
    return permits(role, spec.name) and listed and role not in spec.role_denylist


async def pass_gate(request: TurnRequest, spec: ToolSpec, access: Access, call: CallRecord, arguments: str) -> None:
    """Returns when the call may run. Raises PolicyError with a sentence for the model when not."""
    if _judged(request, spec, access) == "ask":
        await _ask(request, spec, access, call, arguments)


async def pass_gate_again(
    request: TurnRequest, spec: ToolSpec, access: Access, call: CallRecord, arguments: str
) -> None:
    """As pass_gate, for a call that ran already. No rule and no mode is enough: a person is asked, or it is refused."""
    _judged(request, spec, access)
    if not request.approvals.is_there:
        raise _no_one_to_ask(request, access)
    await _ask(request, spec, access, call, arguments)


def _judged(request: TurnRequest, spec: ToolSpec, access: Access) -> Literal["run", "ask"]:
    if not is_offered(spec, request.role):
        raise PolicyError("toolDenied", f"The role {request.role} may not use {spec.name}.")
    mode = request.settings.permission_mode
    rules = request.approvals.rules(request.conversation_id)
    decision = judge(mode, access, spec.name, rules, request.turn_id)
    if decision == "refuse":
        raise PolicyError(
            "permissionDenied",
            f"Refused: permission mode {mode} or a rule does not allow this ({access.title}). Do not try it "
            "another way; tell the user what you wanted to do.",
        )
    return decision


async def _ask(request: TurnRequest, spec: ToolSpec, access: Access, call: CallRecord, arguments: str) -> None:
    question = _question(request, spec, access, call)
    waiting = msgspec.structs.replace(call, status="awaitingApproval")
    locations = tuple(Location(path) for path in access.paths)
    request.journal.publish(CallWaiting(waiting, arguments, locations))
    try:
        answer = await request.approvals.ask(question)
    except asyncio.CancelledError:
        request.journal.publish(PermissionResolved(question.request_key, "cancelled"))
        raise
    option = next((each for each in question.options if answer and each.option_id == answer.option_id), None)
    is_allowed = option is not None and option.kind == "allow"
    request.journal.publish(PermissionResolved(question.request_key, "allow" if is_allowed else "deny"))
    if option is not None and is_allowed:
        if option.scope != "once":
            rule = rule_for(access, spec.name, option.scope, request.turn_id)
            await request.approvals.remember(request.conversation_id, rule)
        return
    if option is not None and option.kind == "cancelTurn":
        request.cancel.cancel()
    raise _declined(answer) if answer is not None else _no_one_to_ask(request, access)


def _question(request: TurnRequest, spec: ToolSpec, access: Access, call: CallRecord) -> PermissionQuestion:
    rule = rule_for(access, spec.name, "conversation", request.turn_id).text
    return PermissionQuestion(
        request_key=new_id("q"),
        conversation_id=request.conversation_id,
        turn_id=request.turn_id,
        call_id=call.call_id,
        tool=spec.name,
        title=access.title,
        subject=access.subject,
        options=tuple(
            PermissionOption(option_id, kind, scope, label, rule if scope in {"turn", "conversation"} else "")
            for option_id, kind, scope, label in OPTIONS
        ),
        notes=access.notes,
    )


def _no_one_to_ask(request: TurnRequest, access: Access) -> PolicyError:
    modes = " or ".join(modes_that_run(access))
    way = f"The permission mode {modes} would allow it." if modes else "No permission mode allows it without asking."
    return PolicyError(
        "noOneToAsk",
        f"Refused: permission mode {request.settings.permission_mode} asks before this, and nobody is there to be "
        f"asked. {way} Tell the user.",
    )


def _declined(answer: PermissionAnswer) -> PolicyError:
    if answer.feedback:
        return PolicyError("declined", f"The user declined this call and said: {answer.feedback}")
    return PolicyError(
        "declined", "The user declined this call. Do not repeat it; go on without it or ask what they want instead."
    )
