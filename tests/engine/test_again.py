"""A call that lacked something: who is asked, what of both runs is told, how a cancel ends it."""

import asyncio

import msgspec
import pytest
from tests.engine.stage import NO_WAIT, Person, Stage, denied, shell

from tinsmith.domain.event import CallFinished, CallStarted, CallWaiting, OutputStreamed
from tinsmith.domain.policy import PermissionAnswer, Rule
from tinsmith.domain.tool import ToolResult
from tinsmith.llm.scripted import Call, ScriptedModel, reply

TWICE = "[the first run, after which the user allowed more and had it run again:]"


class Network:
    """A command that needs the network, and says what it was run with."""

    def __init__(self, second: ToolResult | Exception | None = None) -> None:
        self.ran: list[str | None] = []
        self.second = second or ToolResult("exit: 0\ndone\n", mutation_state="attempted")

    async def __call__(self, args, scope):
        self.ran.append(args.grant)
        scope.output(f"with {args.grant}")
        if args.grant is None:
            return denied(args)
        if isinstance(self.second, Exception):
            raise self.second
        return self.second


def stage_of(run, person=None, *, commands=("get",), **options) -> Stage:
    calls = [reply(Call("bash", {"command": command})) for command in commands]
    return Stage(ScriptedModel([*calls, reply("Done.")]), shell(run), person=person or Person(), **options)


async def test_a_person_lets_it_run_again_with_what_it_lacked():
    run, person = Network(), Person("allow_once")
    stage = stage_of(run, person)
    assert (await stage.run()).outcome == "completed"
    assert run.ran == [None, "network"]
    (question,) = person.questions
    assert question.title == "again get"
    assert question.notes == ("It ended with exit 1.", "network opens much")
    assert question.options[2].rule == "bash(get) with network"
    assert person.kept == []
    result = stage.stored()[1]
    assert result.content == f"exit: 0\ndone\n\n{TWICE}\nexit: 1\nno network\n"
    assert (result.ok, result.mutation_state) == (True, "attempted")


async def test_the_call_is_begun_once_and_ends_once():
    stage = stage_of(Network(), Person("allow_once"))
    await stage.run()
    bodies = [event.body for event in stage.events]
    kinds = (CallStarted, CallWaiting, CallFinished)
    calls = [(type(body), body.call.status, body.call.title) for body in bodies if isinstance(body, kinds)]
    assert calls == [
        (CallStarted, "running", "bash get"),
        (CallWaiting, "awaitingApproval", "bash get"),
        (CallStarted, "running", "again get"),
        (CallFinished, "completed", "again get"),
    ]
    marks = [(body.is_marked, body.call.begun_at) for body in bodies if isinstance(body, CallStarted)]
    (ended,) = stage.store.read(lambda session: session.calls.all("c"))
    assert marks == [(True, ended.begun_at)] * 2
    shown = [(body.offset, body.text) for body in bodies if isinstance(body, OutputStreamed)]
    assert shown == [(0, "with None"), (9, "\nagain get\n"), (20, "with network")]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("deny", "The user declined this call. Do not repeat it; go on without it or ask what they want instead."),
        (PermissionAnswer("deny", "use the cache"), "The user declined this call and said: use the cache"),
        (
            "unheard of",
            "The user declined this call. Do not repeat it; go on without it or ask what they want instead.",
        ),
    ],
)
async def test_a_deny_leaves_the_result_and_says_so(answer, said):
    run = Network()
    stage = stage_of(run, Person(answer))
    assert (await stage.run()).outcome == "completed"
    assert run.ran == [None]
    result = stage.stored()[1]
    assert result.content == f'exit: 1\nno network\nnote: not done: "again get". {said}\n'
    assert (result.ok, result.mutation_state) == (False, "attempted")


async def test_who_declined_is_not_asked_about_the_same_again():
    run, person = Network(), Person("deny", "allow_once")
    stage = stage_of(run, person, commands=("get", "get", "put"))
    await stage.run()
    assert [question.title for question in person.questions] == ["again get", "again put"]
    assert run.ran == [None, None, None, "network"]
    assert "declined that before, for the same call" in stage.stored()[3].content


@pytest.mark.parametrize("mode", ["ask", "edits", "full"])
async def test_a_rule_lets_it_begin_with_a_grant_but_never_run_twice(mode):
    """Whether it may be done a second time, only a person knows."""
    run, person = Network(), Person("allow_once")
    person.kept = [Rule("r", "allow", "bash", "get", "conversation", grant="unsandboxed")]
    await stage_of(run, person, mode=mode).run()
    assert (len(person.questions), run.ran) == (1, [None, "network"])


async def test_what_is_remembered_is_the_rule_that_was_shown():
    run, person = Network(), Person("allow_conversation")
    await stage_of(run, person).run()
    (rule,) = person.kept
    assert (rule.text, rule.scope, rule.grant) == ("bash(get) with network", "conversation", "network")


async def test_with_nobody_there_no_card_is_shown():
    class Nobody(Person):
        is_there = False

    run, person = Network(), Nobody("allow_once")
    stage = stage_of(run, person)
    assert (await stage.run()).outcome == "completed"
    assert (run.ran, person.questions) == ([None], [])
    assert "CallWaiting" not in stage.tags()
    assert "nobody is there to be asked" in stage.stored()[1].content


async def test_what_is_refused_is_not_asked():
    run, person = Network(), Person("allow_once")
    person.kept = [Rule("r", "deny", "bash", "get", "conversation")]
    spec = shell(run)

    async def preview(args, scope):
        access = await spec.preview(args, scope)
        return msgspec.structs.replace(access, command_class="read") if args.grant is None else access

    stage = Stage(
        ScriptedModel([reply(Call("bash", {"command": "get"})), reply("Done.")]),
        msgspec.structs.replace(spec, preview=preview),
        mode="read_only",
        person=Person("allow_once"),
    )
    await stage.run()
    assert (run.ran, stage.person.questions) == ([None], [])
    assert "Refused: permission mode read_only" in stage.stored()[1].content


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (ToolResult("exit: 2\nworse\n", ok=False, mutation_state="attempted"), "exit: 2\nworse\n"),
        (ZeroDivisionError(), "The tool bash failed inside (ZeroDivisionError, error "),
        (denied(msgspec.convert({"command": "get"}, shell().args), "exit: 3\nstill not\n"), "exit: 3\nstill not\n"),
    ],
)
async def test_however_the_second_run_ends_the_first_is_told(second, said):
    run, person = Network(second), Person("allow_once")
    stage = stage_of(run, person)
    assert (await stage.run()).outcome == "completed"
    assert (run.ran, len(person.questions)) == ([None, "network"], 1)
    result = stage.stored()[1]
    assert result.content.startswith(said)
    assert result.content.endswith(f"{TWICE}\nexit: 1\nno network\n")
    assert not result.ok


async def test_both_results_together_are_bounded():
    async def run(args, scope):
        if args.grant is None:
            return denied(args, "exit: 1\n" + "a" * 19_000 + "\nthe reason\n")
        return ToolResult("exit: 0\n" + "b" * 19_000 + "\nthe end\n")

    stage = stage_of(run, Person("allow_once"))
    await stage.run()
    content = stage.stored()[1].content
    assert len(content) <= 20_000
    second, first = content.split(TWICE)
    assert second.startswith("exit: 0\nbbb")
    assert second.endswith("\nthe end\n\n")
    assert first.startswith("\nexit: 1\naaa")
    assert first.endswith("\nthe reason\n")
    assert content.count(" characters left out here ...]") == 2


async def test_it_counts_as_one_call_of_the_budget():
    settings = msgspec.structs.replace(NO_WAIT, tool_step_budget=2)
    run, person = Network(), Person("allow_once", "allow_once")
    stage = stage_of(run, person, commands=("a", "b"), settings=settings)
    assert (await stage.run()).outcome == "budget_exhausted"
    assert run.ran == [None, "network"] * 2


class Silent(Person):
    """Somebody who is there and does not answer."""

    async def ask(self, question):
        self.questions.append(question)
        await asyncio.Event().wait()


@pytest.mark.parametrize("is_one_call", [False, True])
async def test_a_cancel_while_the_card_is_open_keeps_the_first_result(is_one_call):
    run, person = Network(), Silent()
    stage = stage_of(run, person)
    turn = asyncio.ensure_future(stage.run())
    async with asyncio.timeout(5):
        while not person.questions:
            await asyncio.sleep(0.001)
    call_id = person.questions[0].call_id
    (stage.cancel.find(call_id) if is_one_call else stage.cancel).cancel()
    assert (await asyncio.wait_for(turn, 1)).outcome == ("completed" if is_one_call else "cancelled")
    assert run.ran == [None]
    result = stage.stored()[1]
    assert result.content == 'exit: 1\nno network\nnote: not done: "again get". The user stopped it.\n'
    assert result.mutation_state == "attempted"
    (record,) = stage.store.read(lambda session: session.calls.all("c"))
    assert record.status == "cancelled"
    assert "PermissionResolved" in stage.tags()


async def test_deny_and_stop_ends_the_turn_and_keeps_the_first_result():
    run = Network()
    stage = stage_of(run, Person("cancel_turn"))
    assert (await stage.run()).outcome == "cancelled"
    assert run.ran == [None]
    assert stage.stored()[1].content.startswith("exit: 1\nno network\nnote: not done: ")


async def test_a_cancel_of_the_second_run_tells_of_the_first():
    begun = asyncio.Event()

    async def run(args, scope):
        if args.grant is None:
            return denied(args)
        begun.set()
        return await asyncio.Event().wait()

    stage = stage_of(run, Person("allow_once"))
    turn = asyncio.ensure_future(stage.run())
    await begun.wait()
    stage.cancel.cancel()
    assert (await asyncio.wait_for(turn, 2)).outcome == "cancelled"
    result = stage.stored()[1]
    assert result.content.startswith("Cut off: the user stopped the turn")
    assert result.content.endswith(f"{TWICE}\nexit: 1\nno network\n")
    assert result.mutation_state == "unknown"
