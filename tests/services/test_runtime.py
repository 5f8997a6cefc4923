"""The composition root: background work that fails fails alone, and closing is in order."""

import asyncio

import pytest
from tests.services.conftest import until

from tinsmith.llm.scripted import ScriptedModel, Wait, reply

FINE = ScriptedModel(lambda request: reply("Fine."))


async def test_background_work_that_fails_ends_alone(open_house, caplog):
    async def fail():
        raise ZeroDivisionError

    async with open_house(FINE) as house:
        task = house.runtime.spawn(fail(), "broken work")
        await until(task.done)
        assert task.result() is None
        assert (await house.turn()).outcome == "completed"
    assert "broken work failed, error e_" in caplog.text


async def test_the_result_of_background_work_is_handed_on(open_house):
    async def work():
        return 7

    async with open_house(FINE) as house:
        assert await house.runtime.spawn(work(), "work") == 7


async def test_closing_stops_what_runs_and_what_would_still_begin(open_house):
    ended = []

    async def forever(name):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async def respawn(runtime):
        try:
            await asyncio.Event().wait()
        finally:
            runtime.spawn(forever("late"), "late")

    async with asyncio.timeout(5):
        async with open_house(FINE) as house:
            house.runtime.spawn(forever("early"), "early")
            house.runtime.spawn(respawn(house.runtime), "respawn")
            await asyncio.sleep(0)
    assert ended == ["early"]


async def test_leases_are_given_back_after_the_last_write(open_house):
    model = ScriptedModel([reply("One ", Wait()), reply("Two.")])
    async with open_house(model) as house:
        accepted = await house.accept()
        house.turns.begin(accepted.turn_id)
        await until(lambda: model.requests)
        held = house.store.read(lambda session: session.leases.get(accepted.conversation_id))
        assert held is not None
    async with open_house(model) as house:
        assert house.store.read(lambda session: session.leases.get(accepted.conversation_id)) is None
        record = house.runtime.conversations.turn(accepted.conversation_id, accepted.turn_id)
        assert (record.state, record.outcome) == ("ended", "cancelled")


async def test_an_error_of_ours_in_the_body_comes_out_as_it_is(open_house):
    from tinsmith.domain.errors import SchemaError

    with pytest.raises(SchemaError, match="There is no conversation nobody"):
        async with open_house(FINE) as house:
            await house.accept(conversation_id="nobody")
