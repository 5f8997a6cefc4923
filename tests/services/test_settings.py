"""The live configuration: changes at once and one after the other, and records that cannot be read."""

import asyncio

import pytest

from tinsmith.domain.errors import SchemaError
from tinsmith.domain.event import Notice
from tinsmith.llm.scripted import ScriptedModel, reply

FINE = ScriptedModel(lambda request: reply("Fine."))


def spoil(keyspace, key):
    """Write something that is no record."""

    def write(session):
        session._transaction.put(keyspace, key, b"{nonsense")

    return write


async def test_changes_that_come_at_once_are_all_kept(open_house):
    async with open_house(FINE) as house:
        settings = house.runtime.settings
        async with asyncio.TaskGroup() as group:
            group.create_task(settings.set("default_model", "a"))
            group.create_task(settings.set("index_file", "b.md"))
            group.create_task(settings.set("tool_step_budget", 3))
        found = house.store.read(lambda session: session.overrides.get())
        assert found == {"default_model": "a", "index_file": "b.md", "tool_step_budget": 3}


async def test_of_two_changes_of_one_version_one_wins(open_house):
    async with open_house(FINE) as house:
        settings, version = house.runtime.settings, house.runtime.settings.effective.version

        async def change(value):
            try:
                await settings.set("index_file", value, version)
            except SchemaError as error:
                return error.code
            return value

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(change(value)) for value in ("a.md", "b.md")]
        assert [task.result() for task in tasks] == ["a.md", "configVersion"]


async def test_what_another_process_set_meanwhile_stays(open_house):
    async with open_house(FINE) as house:
        await house.store.write(lambda session: session.overrides.put({"index_file": "theirs.md"}))
        await house.runtime.settings.set("tool_step_budget", 3)
        found = house.store.read(lambda session: session.overrides.get())
        assert found == {"index_file": "theirs.md", "tool_step_budget": 3}


async def test_a_refused_change_writes_nothing(open_house):
    async with open_house(FINE) as house:
        for path, value in (("tool_step_budget", -1), ("nothing", 1)):
            with pytest.raises(SchemaError):
                await house.runtime.settings.set(path, value)
        assert house.store.read(lambda session: session.overrides.get()) == {}


async def test_a_patch_that_cannot_be_read_leaves_only_its_layer_out(open_house):
    async with open_house(FINE) as house:
        await house.runtime.settings.set("index_file", "mine.md")
        await house.store.write(spoil("config", b"runtime_overrides"))
    async with open_house(FINE) as house:
        assert house.runtime.settings.effective.settings.index_file == "INDEX.md"
        (problem,) = house.runtime.settings.effective.problems
        assert "config/runtime_overrides cannot be read" in problem.text
        assert (await house.turn()).outcome == "completed"
        said = [event.body.message for event in house.events if isinstance(event.body, Notice)]
        assert said == [problem.text]
        await house.runtime.settings.set("index_file", "new.md")
        assert house.runtime.settings.effective.problems == ()
        assert house.store.read(lambda session: session.overrides.get()) == {"index_file": "new.md"}


async def test_a_note_of_valid_settings_that_cannot_be_read_costs_nothing_but_time(open_house):
    async with open_house(FINE) as house:
        await house.store.write(spoil("meta", b"valid_settings"))
    async with open_house(FINE) as house:
        assert (await house.turn()).outcome == "completed"
        await house.runtime.settings.set("index_file", "new.md")


async def test_an_active_conversation_that_cannot_be_read_is_left_for_a_new_one(open_house):
    async with open_house(FINE) as house:
        first = await house.turn()
        await house.store.write(spoil("conversation", first.conversation_id.encode()))
    async with open_house(FINE) as house:
        second = await house.turn()
        assert (second.outcome, second.conversation_id != first.conversation_id) == ("completed", True)


async def test_overrides_of_one_turn_stay_with_it(open_house):
    async with open_house(FINE) as house:
        await house.turn(overrides={"default_model": "other"})
        await house.turn()
    assert [request.model.model for request in FINE.requests[-2:]] == ["other", "scripted"]
