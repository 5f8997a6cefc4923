"""Configuration through the running server: what counts when, what is reported, and what is never imported twice."""

import json
from pathlib import Path

import pytest
from tests.wire.client import Client, RpcError
from tests.wire.talk import bodies_of

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import Call, ScriptedModel, Wait, reply

BOM = b"\xef\xbb\xbf"


def fine() -> ScriptedModel:
    return ScriptedModel(lambda _: reply("Fine."))


@pytest.fixture
def user_file(home):
    """Write the user's file; text is UTF-8."""
    path = home / "config" / "tinsmith.json"
    path.parent.mkdir()
    return lambda content: path.write_bytes(content if isinstance(content, bytes) else content.encode())


def has_loaded(client: Client, library: str) -> bool:
    return library in Path(f"/proc/{client.process.pid}/maps").read_text()


async def config(client: Client):
    return await client.request("agent/configGet", {})


async def test_a_tree_that_was_validated_before_needs_no_pydantic(connect, user_file):
    """Not at the start, not for a turn, and not when the editor sends the same settings again; a new tree does."""
    user_file('{"default_model": "m-test", "llm_config": {"retry_backoff_ms": [0]}}')
    settings = {"permission_mode": "edits"}
    options = {"initializationOptions": {"settings": settings}}
    async with LoopbackServer(fine()) as provider:
        client = await connect(provider.base_url, **options)
        assert (await config(client))["problems"] == []
        assert has_loaded(client, "pydantic_core")
        await client.stop()

        client = await connect(provider.base_url, **options)
        assert (await config(client))["values"]["permission_mode"] == "edits"
        assert (await client.turn("hi"))["outcome"] == "completed"
        client.notify("workspace/didChangeConfiguration", {"settings": {"tinsmith": settings}})
        await client.event("configChanged")
        assert not has_loaded(client, "pydantic_core")
        await client.stop()

        user_file('{"default_model": "m-test", "llm_config": {"retry_backoff_ms": [1]}}')
        client = await connect(provider.base_url, **options)
        assert (await config(client))["values"]["llm_config"]["retry_backoff_ms"] == [1]
        assert has_loaded(client, "pydantic_core")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"default_model": "file",\n "permission_mode" "full"}', "line 2, column 20"),
        ('{"default_model": "file", "permission_mode": "everything"}', "`permission_mode` must be 'read_only'"),
        ('{"default_model": "file", "llm_config": {"timeout": -1}}', "`llm_config.timeout` must be greater than 0"),
        ('{"default_model": "file", "tool_step_budget": "many"}', "`tool_step_budget` must be a valid integer"),
        ('["default_model"]', "must be an object of settings"),
        (b'{"default_model": "caf\xe9"}', "Save it as UTF-8 JSON"),
        ("[" * 100_000, "Save it as UTF-8 JSON"),
    ],
)
async def test_a_faulty_file_never_stops_a_turn(connect, home, user_file, content, says):
    """It is left out and named; the other layers count."""
    user_file(content)
    async with LoopbackServer(fine()) as provider:
        client = await connect(provider.base_url)
        assert (await client.turn("hi"))["outcome"] == "completed"
        (problem,) = (await config(client))["problems"]
        assert await client.stop() == 0
    assert problem.startswith(str(home / "config" / "tinsmith.json"))
    assert says in problem
    assert [body["model"] for body in bodies_of(provider)] == ["scripted"]


async def test_a_folder_in_the_place_of_the_file_is_named(connect, home):
    (home / "config" / "tinsmith.json").mkdir(parents=True)
    async with LoopbackServer(fine()) as provider:
        client = await connect(provider.base_url)
        assert (await client.turn("hi"))["outcome"] == "completed"
        (problem,) = (await config(client))["problems"]
    assert "cannot be read (Is a directory). Make it readable" in problem


async def test_unknown_keys_are_reported_and_the_others_count(connect, user_file):
    user_file('{"defalt_model": "x", "default_model": "m-test", "llm_config": {"time_out": 3}}')
    async with LoopbackServer(fine()) as provider:
        where = {"llm_config": {"base_url": provider.base_url}, "permision_mode": "full"}
        client = await connect(initializationOptions={"settings": where})
        assert (await client.turn("hi"))["outcome"] == "completed"
        problems = (await config(client))["problems"]
    assert [body["model"] for body in bodies_of(provider)] == ["m-test"]
    assert len(problems) == 3
    in_file, nested, in_editor = problems
    assert "tinsmith.json: `defalt_model` is not a setting and is ignored; did you mean `default_model`?" in in_file
    assert "tinsmith.json: `llm_config.time_out` is not a setting" in nested
    assert in_editor.startswith("the editor's settings: `permision_mode` is not a setting")


async def test_cfg_01_a_file_with_a_bom_applies(connect, user_file):
    async with LoopbackServer(fine()) as provider:
        tree = {"default_model": "m-test", "llm_config": {"base_url": provider.base_url}}
        user_file(BOM + json.dumps(tree).encode())
        client = await connect()
        assert (await client.turn("hi"))["outcome"] == "completed"
        assert (await config(client))["problems"] == []
    assert [body["model"] for body in bodies_of(provider)] == ["m-test"]


async def test_cfg_03_comments_and_trailing_commas_are_read_and_strings_kept_whole(connect, user_file):
    async with LoopbackServer(fine()) as provider:
        user_file(
            "{\n"
            "  // local server\n"
            f'  "llm_config": {{"base_url": "{provider.base_url}", /* x */}},\n'
            '  "default_model": "/* keep */ // me",\n'
            '  "headers": {"a": "/* keep */"},\n'
            "}\n"
        )
        client = await connect()
        assert (await client.turn("hi"))["outcome"] == "completed"
        found = await config(client)
    assert found["values"]["llm_config"]["base_url"] == provider.base_url
    assert [body["model"] for body in bodies_of(provider)] == ["/* keep */ // me"]
    (problem,) = found["problems"]
    assert "`headers` is not a setting" in problem


async def test_the_editors_settings_count_from_the_next_turn_on(connect, workspace):
    """A running turn keeps the model and the permission mode that it began with."""
    two_rounds = (reply("One ", Wait(0.2), Call("bash", {"command": "touch made"})), reply("Done."))
    denied = (reply(Call("bash", {"command": "touch never"})), reply("I see."))
    async with LoopbackServer(ScriptedModel([*two_rounds, *denied])) as provider:
        before = {"default_model": "before", "permission_mode": "full", "llm_config": {"base_url": provider.base_url}}
        after = {**before, "default_model": "after", "permission_mode": "read_only"}
        client = await connect(initializationOptions={"settings": before})
        started = await client.ask("go")
        await client.event("textDelta")
        client.notify("workspace/didChangeConfiguration", {"settings": {"tinsmith": after}})
        changed = await client.event("configChanged")
        assert changed["version"] == (await config(client))["version"]
        assert client.events("turnEnded") == []
        assert (await client.event("turnEnded", turnId=started["turnId"]))["outcome"] == "completed"
        assert (workspace / "made").exists()
        await client.turn("go")
        assert not (workspace / "never").exists()
        assert [body["model"] for body in bodies_of(provider)] == ["before", "before", "after", "after"]
        assert "permission mode read_only" in bodies_of(provider)[-1]["messages"][-1]["content"]


async def test_faulty_editor_settings_are_left_out_and_named(connect):
    async with LoopbackServer(fine()) as provider:
        client = await connect(provider.base_url, initializationOptions={"settings": {"permission_mode": "edits"}})
        await client.turn("hi")
        client.notify("workspace/didChangeConfiguration", {"settings": {"tinsmith": {"permission_mode": 7}}})
        await client.event("configChanged")
        found = await config(client)
        assert (await client.turn("hi"))["outcome"] == "completed"
    assert found["values"]["permission_mode"] == "ask"
    (problem,) = found["problems"]
    assert problem.startswith("the editor's settings: `permission_mode` ")


async def test_a_setting_changed_by_a_person_counts_from_the_next_turn_on(connect):
    slow = reply("One ", Wait(0.2), Call("read", {"path": "."}))
    async with LoopbackServer(ScriptedModel([slow, reply("Done."), reply("Done.")])) as provider:
        client = await connect(environment={"TINSMITH_BASE_URL": provider.base_url})
        await client.request("agent/configSet", {"path": "default_model", "value": "before"})
        started = await client.ask("go")
        await client.event("textDelta")
        await client.request("agent/configSet", {"path": "default_model", "value": "after"})
        await client.event("turnEnded", turnId=started["turnId"])
        await client.turn("go")
    assert [body["model"] for body in bodies_of(provider)] == ["before", "before", "after"]


async def test_overrides_count_for_their_turn_alone(connect, workspace):
    touch = reply(Call("bash", {"command": "touch made"}))
    async with LoopbackServer(ScriptedModel([touch, reply("Done."), reply("Done.")])) as provider:
        client = await connect(provider.base_url)
        overrides = {"default_model": "once", "permission_mode": "full"}
        assert (await client.turn("go", overrides=overrides))["outcome"] == "completed"
        assert (workspace / "made").exists()
        assert (await client.turn("go"))["outcome"] == "completed"
        assert (await config(client))["values"]["permission_mode"] == "ask"
        assert client.events("configChanged") == []
    assert [body["model"] for body in bodies_of(provider)] == ["once", "once", "scripted"]


@pytest.mark.parametrize(
    ("overrides", "code", "name", "says"),
    [
        ({"defalt_model": "x"}, -32602, "unknownSetting", "did you mean `default_model`?"),
        ({"tool_step_budget": -1}, -32602, "invalidSetting", "`tool_step_budget` must be greater than 0"),
        ({"llm_config.base_url": "ftp://x"}, -32602, "invalidSetting", "`llm_config.base_url` must be an http://"),
        ({"services.tool.web_search.depth": "deep"}, -32602, "settingNotOverridable", "cannot be changed at run time"),
    ],
)
async def test_overrides_that_make_no_sense_start_nothing(connect, overrides, code, name, says):
    async with LoopbackServer(fine()) as provider:
        client = await connect(provider.base_url)
        with pytest.raises(RpcError) as refused:
            await client.ask("go", overrides=overrides)
        assert (refused.value.code, refused.value.name) == (code, name)
        assert says in str(refused.value)
        assert client.events("turnStarted") == []
        assert (await client.turn("go"))["outcome"] == "completed"


async def test_layers_stand_in_their_order(connect, user_file):
    """The user's file below what was set at run time, below the environment, below the editor."""
    user_file('{"default_model": "file", "index_file": "file.md", "tool_step_budget": 3, "permission_mode": "edits"}')
    async with LoopbackServer(fine()) as provider:
        client = await connect(provider.base_url, initializationOptions={"settings": {"permission_mode": "read_only"}})
        for path, value in (("default_model", "set"), ("index_file", "set.md"), ("permission_mode", "full")):
            await client.request("agent/configSet", {"path": path, "value": value})
        found = await config(client)
        await client.turn("go")
    options = {option["path"]: (option["value"], option["layer"]) for option in found["options"]}
    expected = {
        "tool_step_budget": (3, "user"),
        "index_file": ("set.md", "persisted"),
        "default_model": ("scripted", "ephemeral"),
        "llm_config.base_url": (provider.base_url, "ephemeral"),
        "permission_mode": ("read_only", "ephemeral"),
        "active_role": ("direct", "defaults"),
    }
    assert {path: options[path] for path in expected} == expected
    assert found["layers"]["user"]["default_model"] == "file"
    assert [body["model"] for body in bodies_of(provider)] == ["scripted"]


async def test_a_faulty_variable_of_the_environment_is_named_and_left_out(connect, user_file):
    async with LoopbackServer(fine()) as provider:
        user_file(json.dumps({"default_model": "m-test", "llm_config": {"base_url": provider.base_url}}))
        client = await connect(environment={"TINSMITH_BASE_URL": "localhost"})
        assert (await client.turn("go"))["outcome"] == "completed"
        (problem,) = (await config(client))["problems"]
    assert problem.startswith("TINSMITH_BASE_URL: `llm_config.base_url` must be an http://")
