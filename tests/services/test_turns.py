"""Turns between their callers: races of accepting, ending, steering, cancelling and closing, and a store that fails."""

import asyncio

import msgspec
import pytest
from tests.engine.test_window import is_valid
from tests.services.conftest import until

from tinsmith.domain.errors import AgentError, PersistenceError, ProtocolError, SchemaError
from tinsmith.domain.event import (
    CallCancelled,
    ConversationChanged,
    SteeringTaken,
    TurnCancelRequested,
    TurnCompleted,
    TurnStarted,
)
from tinsmith.domain.message import TextPart, ToolMessage, UserMessage
from tinsmith.domain.policy import PermissionAnswer, PermissionQuestion
from tinsmith.domain.turn import WindowEdges
from tinsmith.llm.scripted import Call, ScriptedModel, Wait, reply
from tinsmith.proc.identity import boot_id
from tinsmith.services.holding import ConversationHeldError
from tinsmith.store import Lease

FOREVER = ScriptedModel(lambda request: reply("One ", Wait()))


def fine():
    return ScriptedModel(lambda request: reply("Fine."))


class TestAccepting:
    async def test_of_two_at_once_one_starts_and_the_other_is_told(self, open_house):
        async with open_house(fine()) as house:
            identifier = (await house.runtime.conversations.new(house.workspace)).conversation_id
            async with asyncio.TaskGroup() as group:
                first = group.create_task(house.accept(conversation_id=identifier))
                second = group.create_task(outcome_of(house.accept(conversation_id=identifier)))
            assert first.result().disposition == "started"
            assert second.result().code == "busy"

    async def test_the_same_turn_twice_at_once_is_one_turn(self, open_house):
        async with open_house(fine()) as house:
            async with asyncio.TaskGroup() as group:
                both = [group.create_task(house.accept(turn_id="mine")) for _ in range(2)]
            assert both[0].result() == both[1].result()
            house.turns.begin("mine")
            await house.turns.wait("mine", 5)
            assert len(house.ends()) == 1

    async def test_a_cancelled_request_before_the_turn_is_stored_leaves_nothing(self, open_house):
        async with open_house(fine()) as house:
            first = asyncio.ensure_future(house.accept(turn_id="first"))
            await asyncio.sleep(0)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            assert house.runtime.conversations.find_turn("first") is None
            assert house.runtime.conversations.active(house.workspace) is None
            assert (await house.turn()).outcome == "completed"

    async def test_a_cancelled_request_while_the_turn_is_stored_comes_too_late(self, open_house):
        async with open_house(fine()) as house:
            identifier = (await house.runtime.conversations.new(house.workspace)).conversation_id
            house.store.gate.clear()
            request = asyncio.ensure_future(house.accept(turn_id="mine", conversation_id=identifier))
            await until(lambda: house.store.waiting == 1)
            request.cancel()
            await asyncio.sleep(0.01)
            request.cancel()
            house.store.gate.set()
            accepted = await request
            assert (accepted.turn_id, request.cancelling()) == ("mine", 0)
            house.turns.begin("mine")
            assert (await house.turns.wait("mine", 5)).outcome == "completed"

    async def test_a_turn_can_be_cancelled_while_it_is_stored(self, open_house):
        async with open_house(fine()) as house:
            identifier = (await house.runtime.conversations.new(house.workspace)).conversation_id
            house.store.gate.clear()
            request = asyncio.ensure_future(house.accept(turn_id="mine", conversation_id=identifier))
            await until(lambda: house.store.waiting == 1)
            assert house.turns.cancel("", "mine", "") == "cancelling"
            house.store.gate.set()
            await request
            assert [event.body for event in house.events] == []
            house.turns.begin("mine")
            assert (await house.turns.wait("mine", 5)).outcome == "cancelled"
            assert house.turns.cancel("", "mine", "") == "ended"

    async def test_what_cannot_be_stored_never_was(self, open_house):
        async with open_house(fine()) as house:
            identifier = (await house.runtime.conversations.new(house.workspace)).conversation_id
            house.store.is_full = True
            with pytest.raises(PersistenceError):
                await house.accept(turn_id="mine", conversation_id=identifier)
            assert (house.events, house.turns.active(identifier)) == ([], None)
            house.store.is_full = False
            assert (await house.turn(turn_id="mine", conversation_id=identifier)).outcome == "completed"

    async def test_without_a_conversation_one_that_another_process_holds_is_left_alone(self, open_house):
        async with open_house(fine()) as house:
            mine = await house.turn()
            house.runtime.conversations.let_go(mine.conversation_id)
            await house.store.write(lambda session: steal(session, mine.conversation_id))
            other = await house.turn()
            assert other.conversation_id != mine.conversation_id
            with pytest.raises(ConversationHeldError):
                await house.accept(conversation_id=mine.conversation_id)

    async def test_nothing_is_accepted_once_the_runtime_closes(self, open_house):
        async with open_house(FOREVER) as house:
            accepted = await house.accept()
            house.turns.begin(accepted.turn_id)
            other = (await house.runtime.conversations.new(house.workspace)).conversation_id
            async with asyncio.TaskGroup() as group:
                group.create_task(house.turns.stop_all(5))
                late = group.create_task(outcome_of(house.accept(conversation_id=other)))
            assert isinstance(late.result(), ProtocolError)
            assert [record.outcome for record in house.ends()] == ["cancelled"]


class TestEnding:
    async def test_a_message_that_comes_while_the_end_is_stored_starts_the_next_turn(self, open_house):
        async with open_house(ScriptedModel([reply("One."), reply("Two.")])) as house:
            accepted, request = await end_at_the_gate(house, "steerOrStart")
            house.store.gate.set()
            answer = await request
            assert (answer.disposition, answer.turn_id != accepted.turn_id) == ("started", True)
            house.turns.begin(answer.turn_id)
            await house.turns.wait(answer.turn_id, 5)
            texts = [message.text for message in house.transcript(accepted.conversation_id)]
            assert texts == ["go", "One.", "late", "Two."]

    async def test_there_is_nothing_to_steer_while_the_end_is_stored(self, open_house):
        async with open_house(fine()) as house:
            _, request = await end_at_the_gate(house, "steer")
            house.store.gate.set()
            with pytest.raises(SchemaError, match="nothing to steer"):
                await request

    async def test_a_cancel_while_the_end_is_stored_changes_nothing(self, open_house):
        async with open_house(fine()) as house:
            accepted, request = await end_at_the_gate(house, "steer")
            assert house.turns.cancel("", accepted.turn_id, "") == "cancelling"
            house.store.gate.set()
            assert isinstance(await outcome_of(request), SchemaError)
            assert (await house.turns.wait(accepted.turn_id, 5)).outcome == "completed"
            assert not any(isinstance(event.body, TurnCancelRequested) for event in house.events)
            assert house.turns.cancel("", accepted.turn_id, "") == "ended"

    async def test_steering_that_a_cancelled_turn_did_not_take_stays(self, open_house):
        async with open_house(ScriptedModel([reply("One ", Wait()), reply("Two.")])) as house:
            accepted = await house.accept()
            house.turns.begin(accepted.turn_id)
            await until(lambda: house.store.read(lambda session: session.turns.find(accepted.turn_id)))
            await house.accept("left!", conversation_id=accepted.conversation_id, mode="steer")
            house.turns.cancel("", accepted.turn_id, "")
            await house.turns.wait(accepted.turn_id, 5)
            bodies = [event.body for event in house.events]
            taken = next(number for number, body in enumerate(bodies) if isinstance(body, SteeringTaken))
            assert taken < next(number for number, body in enumerate(bodies) if isinstance(body, TurnCompleted))
            assert house.transcript(accepted.conversation_id)[-1].text == "left!"

    async def test_the_end_is_the_last_event_of_its_turn(self, open_house):
        async with open_house(ScriptedModel([reply("One."), reply("Two.")])) as house:
            first = await house.turn()
            second = await house.turn(conversation_id=first.conversation_id)
            for record in (first, second):
                bodies = [event.body for event in house.events if event.turn_id == record.turn_id]
                assert isinstance(bodies[0], TurnStarted)
                assert isinstance(bodies[-1], TurnCompleted)
            assert len(house.ends()) == 2

    async def test_a_bug_in_the_engine_ends_its_turn_in_words_and_forgets_nothing(self, open_house, caplog):
        class Broken(ScriptedModel):
            async def stream(self, request, settings):
                if request.messages[-1].text == "break":
                    raise ZeroDivisionError
                async for batch in super().stream(request, settings):
                    yield batch

        async with open_house(Broken(lambda request: reply("Fine."))) as house:
            first = await house.turn()
            edges = WindowEdges(elided_below=3, tokens_per_char=0.5)
            await house.store.write(lambda session: move_edges(session, first.conversation_id, edges))
            broken = await house.turn("break", conversation_id=first.conversation_id)
            assert (broken.outcome, broken.error.code) == ("error", "internal")
            assert "ZeroDivisionError" in caplog.text
            assert house.runtime.conversations.get(first.conversation_id).edges == edges
            assert (await house.turn(conversation_id=first.conversation_id)).outcome == "completed"
            assert len(house.ends()) == 3

    async def test_a_turn_that_does_not_stop_in_time_has_its_end_all_the_same(self, open_house, monkeypatch):
        monkeypatch.setattr("tinsmith.runtime.STOP_TIMEOUT", 0.05)
        monkeypatch.setattr("tinsmith.engine.execute.GRACE", 60.0)
        person = Nobody()
        model = ScriptedModel([reply(Call("bash", {"command": "x"})), reply("Fine.")])
        async with open_house(model, prompter=person, overrides={"permission_mode": "ask"}) as house:
            accepted = await house.accept()
            house.turns.begin(accepted.turn_id)
            await until(lambda: person.questions)
        assert [record.outcome for record in house.ends()] == ["cancelled"]
        assert person.withdrawn == 1
        async with open_house(fine()) as house:
            assert (await house.turn(conversation_id=accepted.conversation_id)).outcome == "completed"
            assert is_valid(house.transcript(accepted.conversation_id))


class TestAStoreThatFails:
    @pytest.mark.parametrize("moment", range(1, 6))
    async def test_in_the_middle_of_a_turn_ends_it_once_and_the_next_one_works(self, open_house, moment):
        """The n-th write from the turn's beginning fails, and all that follow, until the turn has ended."""
        script = [reply("Look. ", Call("bash", {"command": "true"})), reply("Done."), reply("Fine.")]
        async with open_house(ScriptedModel(script)) as house:
            accepted = await house.accept()
            writes = 0
            write = house.store.write

            async def failing(closure):
                nonlocal writes
                writes += 1
                house.store.is_full = writes >= moment
                return await write(closure)

            house.store.write = failing
            house.turns.begin(accepted.turn_id)
            record = await house.turns.wait(accepted.turn_id, 5)
            assert (record.outcome, record.error.code) == ("error", "storeFull")
            house.store.is_full, house.store.write = False, write
            assert isinstance(house.events[-1].body, ConversationChanged)
            assert len(house.ends()) == 1
            again = await house.turn(conversation_id=accepted.conversation_id)
            assert again.outcome == "completed"
            assert [record.turn_id for record in house.ends()] == [accepted.turn_id, again.turn_id]
            assert is_valid(house.transcript(accepted.conversation_id))
            stored = house.runtime.conversations.turn(accepted.conversation_id, accepted.turn_id)
            assert stored.state == "ended"

    async def test_for_one_result_only_says_that_the_effect_is_unknown(self, open_house):
        async with open_house(ScriptedModel([reply(Call("bash", {"command": "true"})), reply("Fine.")])) as house:
            accepted = await house.accept()
            writes = 0
            write = house.store.write

            async def failing(closure):
                nonlocal writes
                writes += 1
                if writes == 3:  # the answer, the mark, then the result
                    raise PersistenceError("storeFull", "Full.")
                return await write(closure)

            house.store.write = failing
            house.turns.begin(accepted.turn_id)
            assert (await house.turns.wait(accepted.turn_id, 5)).outcome == "error"
            result = house.transcript(accepted.conversation_id)[-1]
            assert isinstance(result, ToolMessage)
            assert result.mutation_state == "unknown"
            assert [event.body.message for event in house.events if isinstance(event.body, CallCancelled)] == [result]

    async def test_while_leases_are_given_back_harms_nobody(self, open_house):
        async with open_house(fine()) as house:
            await house.turn()
            house.store.is_full = True


class TestCancel:
    async def test_of_a_turn_that_another_process_runs_says_who_has_it(self, open_house):
        async with open_house(fine()) as house:
            record = await house.turn()
            house.runtime.conversations.let_go(record.conversation_id)
            open_again = msgspec.structs.replace(record, state="running", outcome=None, turn_id="theirs")

            def write(session):
                steal(session, record.conversation_id)
                session.turns.put(open_again)

            await house.store.write(write)
            with pytest.raises(ConversationHeldError):
                house.turns.cancel("", "theirs", "")

    async def test_what_is_remembered_of_turns_that_never_came_is_bounded(self, open_house):
        async with open_house(fine()) as house:
            for number in range(1100):
                assert house.turns.cancel("", f"never_{number}", "") == "cancelling"
            assert (await house.turn(turn_id="never_1099")).outcome == "cancelled"
            assert (await house.turn(turn_id="never_0")).outcome == "completed"


class TestSecrets:
    async def test_what_a_person_types_by_mistake_is_neither_stored_nor_sent(self, open_house, monkeypatch):
        monkeypatch.setenv("LLM_API_KEY", "our-own-key-0123456789")
        model = ScriptedModel(lambda request: reply("Fine."))
        async with open_house(model) as house:
            text = f"my key is our-own-key-0123456789 and ghp_{'a' * 36}"
            record = await house.turn(text)
            expected = "my key is «redacted» and «redacted»"
            assert record.text == expected
            assert house.runtime.conversations.get(record.conversation_id).title == expected
            assert model.requests[0].messages[0].text == expected
            assert house.transcript(record.conversation_id)[0] == UserMessage(
                "m00000000", record.turn_id, (TextPart(expected),), record.started_at
            )
            assert "our-own-key" not in repr(house.events)

    async def test_text_that_no_encoding_holds_is_the_same_everywhere(self, open_house):
        model = ScriptedModel(lambda request: reply("Fine."))
        async with open_house(model) as house:
            record = await house.turn("half a pair \ud83d, both \ud83d\ude80")
            expected = "half a pair \ufffd, both \U0001f680"
            stored = house.transcript(record.conversation_id)[0].text
            assert (record.text, stored, model.requests[0].messages[0].text) == (expected,) * 3


class TestRules:
    async def test_rules_that_cannot_be_read_are_asked_about_again(self, open_house):
        class Person(Nobody):
            async def ask(self, question):
                self.questions.append(question)
                return PermissionAnswer("allow_conversation")

        script = [reply(Call("bash", {"command": "make"})), reply("Done.")]
        person = Person()
        options = {"prompter": person, "overrides": {"permission_mode": "ask"}}
        async with open_house(ScriptedModel(script * 3), **options) as house:
            first = await house.turn()
            await house.turn(conversation_id=first.conversation_id)
            assert len(person.questions) == 1
            await house.store.write(lambda session: spoil_rules(session, first.conversation_id))
            assert (await house.turn(conversation_id=first.conversation_id)).outcome == "completed"
            assert len(person.questions) == 2


class Nobody:
    """A person who never answers."""

    is_there = True

    def __init__(self):
        self.questions: list[PermissionQuestion] = []
        self.withdrawn = 0

    async def ask(self, question):
        self.questions.append(question)
        try:
            await asyncio.Event().wait()
        finally:
            self.withdrawn += 1


async def outcome_of(work):
    """The result, or the error of ours."""
    try:
        return await work
    except AgentError as error:
        return error


async def end_at_the_gate(house, mode):
    """A turn whose end waits to be stored, and a message that comes just then."""
    accepted = await house.accept()
    house.turns.begin(accepted.turn_id)
    await until(lambda: house.turns.active(accepted.conversation_id).state == "running" and house.events)
    house.store.gate.clear()
    await until(lambda: house.store.waiting == 1)
    if house.turns.active(accepted.conversation_id).state != "ended":  # its answer came to the gate first
        house.store.gate.set()
        house.store.gate.clear()
        await until(lambda: house.turns.active(accepted.conversation_id).state == "ended" and house.store.waiting == 1)
    request = asyncio.ensure_future(house.accept("late", conversation_id=accepted.conversation_id, mode=mode))
    await asyncio.sleep(0.01)
    assert not request.done()
    return accepted, request


def steal(session, conversation_id):
    """The lease of a process that lives for certain: the first one of the machine."""
    from tinsmith.proc.identity import process_start

    session.leases.release(conversation_id, session.leases.get(conversation_id).instance)
    session.leases.acquire(Lease(conversation_id, "other", 1, process_start(1), boot_id(), 0), lambda lease: True)


def move_edges(session, conversation_id, edges):
    conversation = session.conversations.get(conversation_id)
    session.conversations.put(msgspec.structs.replace(conversation, edges=edges))


def spoil_rules(session, conversation_id):
    note = session.notes.get(conversation_id, "permission_rules")
    session.notes.put(conversation_id, msgspec.structs.replace(note, content="{nonsense"))
