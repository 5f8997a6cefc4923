"""Laws of the loop: whatever models answer, tools do and people stop, the history is valid and the end is one."""

import asyncio
import re
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engine.stage import NO_WAIT, Person, Stage, denied, reader, shell
from tests.engine.test_window import is_valid

from tinsmith.domain.errors import PersistenceError, ToolError
from tinsmith.domain.event import (
    AnswerReceived,
    CallCancelled,
    CallFinished,
    CallStarted,
    CallWaiting,
    OutputStreamed,
    PromptBuilt,
    SteeringTaken,
    ToolCallDetected,
    ToolCallDropped,
)
from tinsmith.domain.message import AssistantMessage, ToolMessage, UserMessage
from tinsmith.domain.tool import ToolResult
from tinsmith.engine import execute
from tinsmith.llm.chat_request import encode_request
from tinsmith.llm.dialect import Terms
from tinsmith.llm.history import check_history
from tinsmith.llm.profiles import DEFAULT
from tinsmith.llm.scripted import Call, Fail, Reply, Say, ScriptedModel, Think, reply
from tinsmith.store import InMemoryStore

ANSWER_STEPS = st.one_of(
    st.sampled_from(["Hello there.", "One two three four", "\n", " "]).map(Say),
    st.just(Think("I should look first.")),
    st.sampled_from(["a", "b"]).map(lambda path: Call("read", {"path": path})),
    st.sampled_from(["x", "y"]).map(lambda command: Call("bash", {"command": command})),
    st.sampled_from(
        [Call("read", {"path": 3}), Call("bash", '{"command": "cut'), Call("nobody", {}), Call("edit", "[]")]
    ),
    st.booleans().map(lambda may_retry: Fail("overloaded", "Too much.", retryable=may_retry)),
)
ANSWERS = st.lists(st.lists(ANSWER_STEPS, max_size=4).map(lambda steps: Reply(tuple(steps))), max_size=6)
DEEDS = st.lists(
    st.sampled_from(["ok", "failure", "error", "bug", "cancelled", "slow", "deaf", "chatty", "denied"]),
    min_size=1,
    max_size=5,
)


@dataclass
class Plan:
    """What happens in one turn. Moments count published events or turns of the loop."""

    answers: list[Reply]
    deeds: list[str]
    cancel_at_event: int | None
    cancel_at_tick: int | None
    steer_at: list[int]
    mode: str
    people: list[str]
    budget: int | None
    retries_after_output: bool
    log: list = field(default_factory=list)


PLANS = st.builds(
    Plan,
    answers=ANSWERS,
    deeds=DEEDS,
    cancel_at_event=st.none() | st.integers(1, 60),
    cancel_at_tick=st.none() | st.integers(0, 80),
    steer_at=st.lists(st.integers(1, 50), max_size=3, unique=True),
    mode=st.sampled_from(["full", "full", "ask", "read_only"]),
    people=st.lists(
        st.sampled_from(["allow_once", "allow_turn", "allow_conversation", "deny", "cancel_turn", "?"]), max_size=4
    ),
    budget=st.none() | st.integers(1, 4),
    retries_after_output=st.booleans(),
    log=st.builds(list),
)


class SlowStore(InMemoryStore):
    """A store whose writes take a moment, so that other things happen meanwhile."""

    async def write(self, closure):
        await asyncio.sleep(0)
        written = await super().write(closure)
        await asyncio.sleep(0)
        return written


def tool(plan):
    """A run that does the next deed, whichever tool it is of."""

    async def run(args, scope):
        deed = plan.deeds[len(plan.log) % len(plan.deeds)]
        plan.log.append(scope.call_id)
        match deed:
            case "denied" if getattr(args, "grant", "") is None:
                scope.output("half ")
                return denied(args)
            case "failure":
                return ToolResult("no", ok=False)
            case "error":
                raise ToolError("gone", "It is gone. Look again.")
            case "bug":
                raise ZeroDivisionError
            case "cancelled":
                return ToolResult("stopped", ok=False, is_cancelled=True, mutation_state="unknown")
            case "slow":
                for _ in range(5):
                    await asyncio.sleep(0)
            case "deaf":
                for _ in range(100):
                    await asyncio.sleep(0)
                if scope.cancel.is_cancelled:
                    await asyncio.sleep(60)
            case "chatty":
                for _ in range(4):
                    scope.output("word ")
                    await asyncio.sleep(0)
            case _:
                pass
        return ToolResult(f"done {scope.call_id}")

    return run


async def play(plan):
    """Run the plan on a stage: stage, end, model, and what was not yet stored when it was announced."""
    waits = {"retry_backoff_ms": [0], "stream_retry_after_output": plan.retries_after_output}
    chosen = msgspec.convert({"empty_response_retry_backoff_ms": [0], "llm_config": waits}, type(NO_WAIT))
    replies = iter(plan.answers)
    model = ScriptedModel(lambda request: next(replies, reply("Done.")))
    stage = Stage(
        model,
        reader(tool(plan)),
        shell(tool(plan)),
        settings=msgspec.structs.replace(chosen, tool_step_budget=plan.budget),
        mode=plan.mode,
        person=Person(*plan.people),
        store=SlowStore(),
    )
    too_early = []

    def react(event):
        if not is_stored(stage, event.body):
            too_early.append(event.body)
        if len(stage.events) == plan.cancel_at_event:
            stage.cancel.cancel()
        if len(stage.events) in plan.steer_at:
            stage.inbox.say(f"steer {len(stage.events)}")

    async def cancel_later():
        for _ in range(plan.cancel_at_tick):
            await asyncio.sleep(0)
        stage.cancel.cancel()

    stage.journal.subscribe(react)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        if plan.cancel_at_tick is not None:
            group.create_task(cancel_later())
        turn = group.create_task(stage.run())
    return stage, turn.result(), model, too_early


def is_stored(stage, body):
    """Whether what a durable event carries is in the store now."""
    match body:
        case AnswerReceived(message) | SteeringTaken(message):
            return stage.store.read(lambda session: session.messages.get("c", message.message_id)) == message
        case CallFinished(call, _, message) | CallCancelled(call, _, message):
            found = stage.store.read(
                lambda session: (session.messages.get("c", message.message_id), session.calls.get("c", call.call_id))
            )
            return found == (message, call)
        case CallStarted(call, is_marked=True):
            return stage.store.read(lambda session: session.calls.get("c", call.call_id)) == call
        case _:
            return True


RANKS = {ToolCallDetected: 0, CallWaiting: 1, CallStarted: 2, OutputStreamed: 3, CallFinished: 4, CallCancelled: 4}


def call_of(body):
    match body:
        case ToolCallDetected(call_id) | OutputStreamed(call_id) | ToolCallDropped(call_id):
            return call_id
        case CallWaiting(call) | CallStarted(call) | CallFinished(call) | CallCancelled(call):
            return call.call_id
        case _:
            return None


def check_calls(stage):
    """The status of each call only ever goes on, to one end, but for a second run that was asked for.

    What never became part of an answer was dropped.
    """
    by_call = {}
    for event in stage.events:
        if (call_id := call_of(event.body)) is not None:
            by_call.setdefault(call_id, []).append(event.body)
    answered = {
        call.call_id for message in stage.stored() if isinstance(message, AssistantMessage) for call in message.calls
    }
    for call_id, bodies in by_call.items():
        if call_id not in answered:
            assert [type(body) for body in bodies] == [ToolCallDetected, ToolCallDropped]
            continue
        ranks = "".join(str(RANKS[type(body)]) for body in bodies)
        assert re.fullmatch(r"0?1?(23*(1(23*)?)?)?4", ranks)
    assert answered <= set(by_call)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PLANS)
def test_any_turn_leaves_a_valid_history_and_one_end(plan):
    check_turn(plan)


@pytest.mark.long
@pytest.mark.timeout(600)
@settings(max_examples=20_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PLANS)
def test_any_turn_leaves_a_valid_history_and_one_end_at_length(plan):
    check_turn(plan)


def check_turn(plan):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execute, "GRACE", 0.01)
        stage, end, model, too_early = asyncio.run(play(plan))
    assert too_early == []
    numbers = [event.seq for event in stage.events if event.body.is_visible]
    assert numbers == list(range(1, len(numbers) + 1))
    stored = stage.stored()
    assert [message.message_id for message in stored] == [f"m{number + 1:08d}" for number in range(len(stored))]
    assert is_valid(stored)
    announced = [
        event.body.message
        for event in stage.events
        if isinstance(event.body, AnswerReceived | SteeringTaken | CallFinished | CallCancelled)
    ]
    assert announced == list(stored)
    for request in model.requests:
        check_history(request.messages)
        assert is_valid(request.messages)
    check_calls(stage)
    is_stopped = stage.cancel.is_cancelled
    assert end.outcome in {"completed", "error", "budget_exhausted", *(["cancelled"] if is_stopped else [])}
    steering = [message.text for message in stored if isinstance(message, UserMessage)]
    waiting = [message.text for message in stage.inbox.messages]
    said = [f"steer {moment}" for moment in sorted(plan.steer_at) if moment <= len(stage.events)]
    assert steering + waiting == said
    if end.outcome == "completed":
        assert waiting == []
    assert plan.budget is None or len({*plan.log}) <= plan.budget


@settings(max_examples=60, deadline=None)
@given(PLANS, st.integers(0, 12))
def test_a_store_that_fails_ends_the_turn_with_its_error(plan, writes):
    class Full(SlowStore):
        async def write(self, closure):
            nonlocal writes
            writes -= 1
            if writes < 0:
                raise PersistenceError("storeFull", "The disk is full. Free some space.")
            return await super().write(closure)

    plan.cancel_at_event = plan.cancel_at_tick = plan.budget = None
    plan.mode = "full"
    store = Full()
    stage = Stage(
        ScriptedModel(lambda request: reply("Look.", Call("bash", {"command": "x"}))),
        reader(tool(plan)),
        shell(tool(plan)),
        store=store,
    )

    async def run():
        await InMemoryStore.write(store, lambda session: None)
        async with asyncio.timeout(20):
            return await run_without_conversation(stage)

    end = asyncio.run(run())
    assert (end.outcome, end.error.code) == ("error", "storeFull")
    assert [event.body.message for event in stage.events if isinstance(event.body, AnswerReceived)] == [
        message for message in stage.stored() if isinstance(message, AssistantMessage)
    ]


async def run_without_conversation(stage):
    from tinsmith.engine.turn import run_turn

    return await run_turn(stage.request)


@pytest.mark.parametrize(("keep_rounds", "steps"), [(7, 1), (3, 5), (20, 0)])
async def test_requests_begin_with_the_bytes_of_the_one_before_but_for_counted_steps(keep_rounds, steps):
    """Twenty rounds through the real encoder; what a provider can cache grows, and changes only in steps."""

    async def long(args, scope):
        return ToolResult(f"{args.path}\n" + "x" * 2000)

    script = [reply(f"Round {number}. ", Call("read", {"path": f"{number}.txt"})) for number in range(20)]
    model = ScriptedModel([*script, reply("Done.")])
    window = msgspec.structs.replace(NO_WAIT.context_management, tool_output_keep_rounds=keep_rounds)
    stage = Stage(model, reader(long), settings=msgspec.structs.replace(NO_WAIT, context_management=window))
    assert (await stage.run()).outcome == "completed"
    bodies = [encode_request(request, Terms(DEFAULT)) for request in model.requests]
    heads = [body[: body.rindex(b'],"tools":')] for body in bodies]
    tails = {body[len(head) :] for body, head in zip(bodies, heads, strict=True)}
    assert len(tails) == 1
    elided = [event.body.elided for event in stage.events if isinstance(event.body, PromptBuilt)]
    changed = [after != before for before, after in pairwise(elided)]
    kept = [later.startswith(head) for head, later in pairwise(heads)]
    assert kept == [not each for each in changed]
    assert kept.count(False) == steps
    assert len(bodies) == 21


async def test_a_group_of_reads_keeps_to_the_budget_and_to_the_limit_of_one_answer():
    settings_of_two = msgspec.structs.replace(NO_WAIT, tool_step_budget=2)
    calls = [Call("read", {"path": str(number)}) for number in range(3)]
    stage = Stage(ScriptedModel([reply(*calls)]), reader(), settings=settings_of_two)
    assert (await stage.run()).outcome == "budget_exhausted"
    results = [message.content for message in stage.stored() if isinstance(message, ToolMessage)]
    assert results == ["text of 0", "text of 1", "Not run: the budget of tool calls is used up."]
    many = [Call("read", {"path": str(number)}) for number in range(40)]
    stage = Stage(ScriptedModel([reply(*many), reply("Done.")]), reader())
    assert (await stage.run()).outcome == "completed"
    results = [message.content for message in stage.stored() if isinstance(message, ToolMessage)]
    assert results[:32] == [f"text of {number}" for number in range(32)]
    assert all(text.startswith("Not run: at most 32 calls") for text in results[32:])


async def test_what_an_empty_answer_showed_is_withdrawn():
    stage = Stage(ScriptedModel([reply(Think("Hm.")), reply("Fine.")]))
    assert (await stage.run()).outcome == "completed"
    assert stage.tags()[:4] == ["PromptBuilt", "RequestStarted", "AnswerWithdrawn", "RetryScheduled"]


async def test_a_secret_in_a_result_is_a_mark_for_the_model_and_in_the_store():
    secret = "ghp_" + "a" * 36

    async def leak(args, scope):
        return ToolResult(f"token: {secret}")

    model = ScriptedModel([reply(Call("read", {"path": "a"})), reply("Done.")])
    stage = Stage(model, reader(leak))
    await stage.run()
    assert model.requests[1].messages[-1].content == "token: «redacted»"
    assert secret not in repr((stage.stored(), stage.events))


async def test_output_that_comes_after_the_end_of_its_call_is_dropped():
    loop = asyncio.get_running_loop()

    async def leave_behind(args, scope):
        scope.output("in time")
        loop.call_later(0, scope.output, "too late")
        return ToolResult("ok")

    stage = Stage(
        ScriptedModel([reply(Call("read", {"path": "a"})), reply("Many words, so that time passes.")]),
        reader(leave_behind),
    )
    await stage.run()
    assert [event.body.text for event in stage.events if isinstance(event.body, OutputStreamed)] == ["in time"]
