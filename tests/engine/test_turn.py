"""The loop: what a turn does, in which order, and how it ends."""

import asyncio

import msgspec
import pytest
from tests.engine.stage import NO_WAIT, Person, Stage, reader, shell
from tests.engine.test_window import rounds

from tinsmith.domain.event import AnswerReceived, CallCancelled, CallFinished, TextStreamed
from tinsmith.domain.message import AssistantMessage, ToolMessage, UserMessage
from tinsmith.domain.policy import PermissionAnswer
from tinsmith.domain.tool import ToolResult
from tinsmith.engine.step import LONGEST_WAIT_MS
from tinsmith.llm.scripted import Call, Fail, ScriptedModel, Wait, reply


async def until(condition, seconds=5.0):
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.001)


async def test_an_answer_without_calls_ends_the_turn():
    stage = Stage(ScriptedModel([reply("Hello there.")]))
    end = await stage.run()
    assert (end.outcome, end.rounds) == ("completed", 1)
    assert stage.tags() == ["PromptBuilt", "RequestStarted", "AnswerReceived", "UsageUpdated"]
    shown = "".join(event.body.text for event in stage.events if isinstance(event.body, TextStreamed))
    assert shown == "Hello there."
    (message,) = stage.stored()
    assert isinstance(message, AssistantMessage)
    assert message.text == "Hello there."


async def test_visible_events_are_numbered_without_gaps():
    stage = Stage(ScriptedModel([reply("One.", Call("read", {"path": "a"})), reply("Two.")]), reader())
    await stage.run()
    visible = [event.seq for event in stage.events if event.body.is_visible]
    assert visible == list(range(1, len(visible) + 1))


async def test_calls_run_and_their_results_reach_the_model():
    model = ScriptedModel([reply(Call("read", {"path": "a"}), Call("bash", {"command": "x"})), reply("Done.")])
    stage = Stage(model, reader(), shell())
    end = await stage.run()
    assert end.outcome == "completed"
    second = model.requests[1].messages
    assert [type(message) for message in second] == [UserMessage, AssistantMessage, ToolMessage, ToolMessage]
    assert [message.content for message in second[2:]] == ["text of a", "ran x"]
    assert stage.tags() == [
        "PromptBuilt",
        "RequestStarted",
        "ToolCallDetected",
        "ToolCallDetected",
        "AnswerReceived",
        "UsageUpdated",
        "CallStarted",
        "CallFinished",
        "CallStarted",
        "CallFinished",
        "PromptBuilt",
        "RequestStarted",
        "AnswerReceived",
        "UsageUpdated",
    ]


async def test_a_changing_call_is_marked_before_it_runs():
    seen = []

    async def run(args, scope):
        seen.append(stage.store.read(lambda session: session.calls.all("c")))
        return ToolResult("ok")

    stage = Stage(ScriptedModel([reply(Call("bash", {"command": "x"})), reply("Done.")]), shell(run))
    await stage.run()
    ((mark,),) = seen
    assert (mark.status, mark.begun_at > 0, mark.ended_at) == ("running", True, 0)
    (ended,) = stage.store.read(lambda session: session.calls.all("c"))
    assert (ended.status, ended.ended_at > 0) == ("completed", True)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (Call("nothing", {}), "There is no tool 'nothing' here. The tools are: read, bash."),
        (Call("read", '{"path": "a'), "Not run: the arguments of this call are cut off or are not a JSON object."),
        (Call("read", {"path": 3}), "Not run: the arguments do not fit read: Expected `str`, got `int` - at `$.path`."),
        (Call("read", {"path": "a", "x": 1}), "Not run: the arguments do not fit read: Object contains unknown field"),
    ],
)
async def test_a_call_that_cannot_run_is_answered_and_the_turn_goes_on(call, said):
    stage = Stage(ScriptedModel([reply(call), reply("I see.")]), reader(), shell())
    assert (await stage.run()).outcome == "completed"
    result = stage.stored()[1]
    assert isinstance(result, ToolMessage)
    assert (result.ok, result.mutation_state) == (False, "none")
    assert result.content.startswith(said)


async def test_a_bug_in_a_tool_fails_its_call_alone(caplog):
    async def run(args, scope):
        raise ZeroDivisionError

    stage = Stage(ScriptedModel([reply(Call("read", {"path": "a"})), reply("I see.")]), reader(run))
    assert (await stage.run()).outcome == "completed"
    assert "ZeroDivisionError, error e_" in stage.stored()[1].content
    assert "ZeroDivisionError" in caplog.text


async def test_neighbours_that_only_read_run_together_and_are_answered_in_order():
    running = 0
    together = []

    async def run(args, scope):
        nonlocal running
        running += 1
        together.append(running)
        await asyncio.sleep(0.03 if args.path == "a" else 0.0)
        running -= 1
        return ToolResult(args.path)

    calls = [Call("read", {"path": name}) for name in "abc"]
    stage = Stage(ScriptedModel([reply(*calls), reply("Done.")]), reader(run))
    await stage.run()
    assert max(together) == 3
    assert [message.content for message in stage.stored()[1:4]] == ["a", "b", "c"]


async def test_more_than_thirty_two_calls_are_answered_without_running():
    ran = []

    async def run(args, scope):
        ran.append(args.command)
        return ToolResult("ok")

    calls = [Call("bash", {"command": str(number)}) for number in range(40)]
    stage = Stage(ScriptedModel([reply(*calls), reply("Done.")]), shell(run))
    assert (await stage.run()).outcome == "completed"
    assert len(ran) == 32
    results = [message for message in stage.stored() if isinstance(message, ToolMessage)]
    assert len(results) == 40
    assert results[32].content.startswith("Not run: at most 32 calls")


async def test_the_budget_ends_the_turn_and_answers_what_did_not_run():
    settings = msgspec.structs.replace(NO_WAIT, tool_step_budget=2)
    calls = [Call("bash", {"command": str(number)}) for number in range(3)]
    stage = Stage(ScriptedModel([reply(*calls)]), shell(), settings=settings)
    end = await stage.run()
    assert (end.outcome, end.error.code, end.rounds) == ("budget_exhausted", "budget", 1)
    assert [message.content for message in stage.stored()[1:]] == [
        "ran 0",
        "ran 1",
        "Not run: the budget of tool calls is used up.",
    ]


async def test_steering_joins_at_the_next_safe_point_and_keeps_the_turn_alive():
    model = ScriptedModel([reply("First."), reply("Second.")])
    stage = Stage(model)
    stage.inbox.say("early")
    said = iter(["late"])
    stage.journal.subscribe(
        lambda event: [stage.inbox.say(text) for text in said] if isinstance(event.body, TextStreamed) else None
    )
    assert (await stage.run()).outcome == "completed"
    texts = [message.text for message in model.requests[-1].messages]
    assert texts == ["go", "early", "First.", "late"]


async def test_transport_errors_are_retried_and_then_final():
    fail = reply(Fail("connectFailed", "No server at 127.0.0.1.", retryable=True))
    model = ScriptedModel([fail, fail, fail])
    stage = Stage(model)
    end = await stage.run()
    assert (end.outcome, end.error.code, len(model.requests)) == ("error", "connectFailed", 3)
    assert stage.tags().count("RetryScheduled") == 2


async def test_both_retry_layers_nest_to_nine_requests():
    fail = reply(Fail("overloaded", "Too much.", retryable=True))
    empty = reply("")
    model = ScriptedModel([fail, fail, empty] * 3)
    stage = Stage(model)
    end = await stage.run()
    assert (end.outcome, end.error.code, len(model.requests)) == ("error", "emptyAnswer", 9)


@pytest.mark.parametrize(("asked_for", "requests"), [(10, 3), (LONGEST_WAIT_MS + 1, 1), (3_600_000, 1)])
async def test_a_wait_that_a_provider_asks_for_has_a_ceiling_that_is_said(asked_for, requests):
    fail = reply(Fail("rateLimited", "Slow down.", retryable=True, retry_after_ms=asked_for))
    model = ScriptedModel([fail] * 3)
    stage = Stage(model)
    end = await stage.run()
    assert (end.error.code, end.error.data, len(model.requests)) == (
        "rateLimited",
        {"retryAfterMs": asked_for},
        requests,
    )
    minutes = {10: 0, LONGEST_WAIT_MS + 1: 3, 3_600_000: 60}[asked_for]
    told = f"It asks to be left alone for {minutes} minutes, which is longer than the 2 that are waited"
    assert (told in end.error.message) == (requests == 1)
    assert stage.tags().count("RetryScheduled") == requests - 1


async def test_an_error_that_is_not_retryable_is_final():
    model = ScriptedModel([reply(Fail("authRequired", "Set LLM_API_KEY."))])
    end = await Stage(model).run()
    assert (end.outcome, end.error.message, len(model.requests)) == ("error", "Set LLM_API_KEY.", 1)


async def test_a_stream_that_showed_text_is_not_retried_and_its_text_stays():
    stage = Stage(ScriptedModel([reply("Half an ans", Fail("streamInterrupted", "Broke off.", retryable=True))]))
    end = await stage.run()
    assert end.error.code == "streamInterrupted"
    (message,) = stage.stored()
    assert (message.text, message.marks) == ("Half an ans", ("interrupted",))


async def test_a_retry_after_output_withdraws_what_was_shown():
    settings = msgspec.convert(
        {"llm_config": {"retry_backoff_ms": [0], "stream_retry_after_output": True}}, type(NO_WAIT)
    )
    model = ScriptedModel([reply("Half", Fail("streamInterrupted", "Broke off.", retryable=True)), reply("Whole.")])
    stage = Stage(model, settings=settings)
    assert (await stage.run()).outcome == "completed"
    assert [message.text for message in stage.stored()] == ["Whole."]
    tags = stage.tags()
    assert tags.index("AnswerWithdrawn") < tags.index("RetryScheduled") < tags.index("AnswerReceived")


async def test_a_context_overflow_is_squeezed_and_tried_once_more():
    overflow = reply(Fail("contextWindow", "Too long."))
    old = rounds(12, turn="old")
    model = ScriptedModel([overflow, reply("Fine.")])
    assert (await Stage(model, history=old).run()).outcome == "completed"
    assert len(model.requests[1].messages) < len(model.requests[0].messages)
    model = ScriptedModel([overflow, overflow])
    end = await Stage(model, history=old).run()
    assert (end.error.code, len(model.requests)) == ("contextWindow", 2)


async def test_where_nothing_can_be_left_out_a_refused_request_is_not_made_again():
    model = ScriptedModel([reply(Fail("contextWindow", "Too long."))])
    end = await Stage(model).run()
    assert (end.error.code, len(model.requests)) == ("contextWindow", 1)


class TestCancel:
    async def test_before_the_first_request(self):
        stage = Stage(ScriptedModel([]))
        stage.cancel.cancel()
        assert (await stage.run()).outcome == "cancelled"

    async def test_before_the_first_byte(self):
        stage = Stage(ScriptedModel([reply(Wait())]))
        run = asyncio.ensure_future(stage.run())
        await until(lambda: "RequestStarted" in stage.tags())
        stage.cancel.cancel()
        assert (await asyncio.wait_for(run, 1)).outcome == "cancelled"
        assert stage.stored() == ()

    async def test_in_the_stream_keeps_what_was_shown(self):
        stage = Stage(ScriptedModel([reply("Some words", Wait())]))
        run = asyncio.ensure_future(stage.run())
        await until(lambda: sum(isinstance(event.body, TextStreamed) for event in stage.events) == 2)
        stage.cancel.cancel()
        assert (await asyncio.wait_for(run, 1)).outcome == "cancelled"
        (message,) = stage.stored()
        assert (message.text, message.marks) == ("Some words", ("cancelled",))
        assert any(isinstance(event.body, AnswerReceived) for event in stage.events)

    async def test_in_a_retry_wait(self):
        settings = msgspec.convert({"llm_config": {"retry_backoff_ms": [60_000]}}, type(NO_WAIT))
        stage = Stage(ScriptedModel([reply(Fail("overloaded", "Busy.", retryable=True))]), settings=settings)
        run = asyncio.ensure_future(stage.run())
        await until(lambda: "RetryScheduled" in stage.tags())
        stage.cancel.cancel()
        assert (await asyncio.wait_for(run, 1)).outcome == "cancelled"

    async def test_in_a_tool_answers_the_calls_that_did_not_run(self):
        started = asyncio.Event()

        async def run(args, scope):
            started.set()
            released = asyncio.Event()
            scope.cancel.on_cancel(released.set)
            await released.wait()
            return ToolResult("cancelled\npart", ok=False, is_cancelled=True, mutation_state="unknown")

        calls = [Call("bash", {"command": "a"}), Call("bash", {"command": "b"})]
        stage = Stage(ScriptedModel([reply(*calls)]), shell(run))
        turn = asyncio.ensure_future(stage.run())
        await started.wait()
        stage.cancel.cancel()
        assert (await asyncio.wait_for(turn, 1)).outcome == "cancelled"
        _, first, second = stage.stored()
        assert (first.content, first.mutation_state) == ("cancelled\npart", "unknown")
        assert (second.content, second.mutation_state) == ("Not run: the user stopped the turn.", "none")
        assert sum(isinstance(event.body, CallCancelled) for event in stage.events) == 2

    async def test_of_a_tool_that_does_not_listen_ends_within_two_seconds(self):
        started = asyncio.Event()

        async def run(args, scope):
            started.set()
            await asyncio.Event().wait()

        stage = Stage(ScriptedModel([reply(Call("bash", {"command": "a"}))]), shell(run))
        turn = asyncio.ensure_future(stage.run())
        await started.wait()
        stage.cancel.cancel()
        assert (await asyncio.wait_for(turn, 2)).outcome == "cancelled"
        assert stage.stored()[1].mutation_state == "unknown"

    async def test_of_one_call_lets_the_turn_go_on(self):
        started = asyncio.Event()

        async def run(args, scope):
            started.set()
            await asyncio.Event().wait()

        stage = Stage(ScriptedModel([reply(Call("bash", {"command": "a"})), reply("I go on.")]), shell(run))
        turn = asyncio.ensure_future(stage.run())
        await started.wait()
        call_id = stage.stored()[0].calls[0].call_id
        stage.cancel.find(call_id).cancel()
        assert (await asyncio.wait_for(turn, 3)).outcome == "completed"
        assert stage.stored()[-1].text == "I go on."

    async def test_while_asking(self):
        class Silent(Person):
            async def ask(self, question):
                self.questions.append(question)
                await asyncio.Event().wait()

        person = Silent()
        stage = Stage(ScriptedModel([reply(Call("bash", {"command": "a"}))]), shell(), mode="ask", person=person)
        turn = asyncio.ensure_future(stage.run())
        await until(lambda: person.questions)
        stage.cancel.cancel()
        assert (await asyncio.wait_for(turn, 1)).outcome == "cancelled"
        assert "PermissionResolved" in stage.tags()
        assert stage.stored()[1].content == "Not run: the user stopped the turn."


class TestAsking:
    async def test_allowed_once_is_asked_again(self):
        person = Person("allow_once", "allow_once")
        calls = [Call("bash", {"command": "a"}), Call("bash", {"command": "a"})]
        stage = Stage(ScriptedModel([reply(*calls), reply("Done.")]), shell(), mode="ask", person=person)
        await stage.run()
        assert len(person.questions) == 2
        assert [message.content for message in stage.stored()[1:3]] == ["ran a", "ran a"]

    @pytest.mark.parametrize("scope", ["turn", "conversation"])
    async def test_allowed_for_longer_is_not_asked_again_for_the_same_command(self, scope):
        person = Person(f"allow_{scope}", "deny")
        calls = [Call("bash", {"command": "a"}), Call("bash", {"command": "a"}), Call("bash", {"command": "b"})]
        stage = Stage(ScriptedModel([reply(*calls), reply("Done.")]), shell(), mode="ask", person=person)
        await stage.run()
        assert [question.title for question in person.questions] == ["bash a", "bash b"]
        (rule,) = person.kept
        assert (rule.text, rule.scope) == ("bash(a)", scope)

    async def test_declined_is_a_result_and_not_the_end(self):
        person = Person(PermissionAnswer("deny", "use make instead"))
        stage = Stage(
            ScriptedModel([reply(Call("bash", {"command": "a"})), reply("Fine.")]), shell(), mode="ask", person=person
        )
        assert (await stage.run()).outcome == "completed"
        result = stage.stored()[1]
        assert result.content == "The user declined this call and said: use make instead"
        finished = next(event.body for event in stage.events if isinstance(event.body, CallFinished))
        assert finished.call.status == "declined"

    async def test_an_unknown_answer_is_a_deny(self):
        stage = Stage(
            ScriptedModel([reply(Call("bash", {"command": "a"})), reply("Fine.")]),
            shell(),
            mode="ask",
            person=Person("something else"),
        )
        await stage.run()
        assert stage.stored()[1].content.startswith("The user declined this call.")

    async def test_deny_and_stop_ends_the_turn(self):
        stage = Stage(
            ScriptedModel([reply(Call("bash", {"command": "a"}))]), shell(), mode="ask", person=Person("cancel_turn")
        )
        assert (await stage.run()).outcome == "cancelled"
        assert stage.stored()[1].content.startswith("The user declined this call.")

    async def test_with_nobody_there_it_is_refused_with_the_mode_that_would_allow_it(self):
        stage = Stage(ScriptedModel([reply(Call("bash", {"command": "a"})), reply("Fine.")]), shell(), mode="ask")
        await stage.run()
        assert "nobody is there to be asked" in stage.stored()[1].content

    async def test_read_only_refuses_without_asking(self):
        person = Person()
        stage = Stage(
            ScriptedModel([reply(Call("bash", {"command": "a"})), reply("Fine.")]),
            shell(),
            mode="read_only",
            person=person,
        )
        await stage.run()
        assert person.questions == []
        assert stage.stored()[1].content.startswith("Refused: permission mode read_only")

    async def test_a_role_cannot_use_a_tool_that_its_matrix_denies(self):
        stage = Stage(
            ScriptedModel([reply(Call("bash", {"command": "a"})), reply("Fine.")]), shell(), role="orchestrator"
        )
        await stage.run()
        assert stage.stored()[1].content.startswith("There is no tool 'bash' here.")
