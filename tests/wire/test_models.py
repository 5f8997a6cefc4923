"""The model list through the running server: what there is, what was chosen and why, and what may change it."""

import pytest
from tests.wire.client import RpcError

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import ScriptedModel, reply


async def test_the_list_of_the_provider_and_the_chosen_one(connect):
    async with LoopbackServer(models=("scripted", "gpt-5")) as provider:
        client = await connect(provider.base_url)
        found = await client.request("agent/modelsList", {})
        assert found["models"] == [
            {"id": "scripted", "name": "scripted", "source": "provider"},
            {"id": "gpt-5", "name": "gpt-5", "source": "family", "contextWindow": 272_000},
        ]
        assert found["chosen"] == {
            "id": "scripted",
            "key": "default_model",
            "reason": "from default_model; a context of 128,000 tokens, assumed, since nobody says; "
            "llm_config.context_window sets it",
            "contextWindow": 128_000,
        }
        assert found["problems"] == []
        await client.request("agent/configSet", {"path": "models.direct", "value": "gpt-5"})
        chosen = (await client.request("agent/modelsList", {}))["chosen"]
        assert (chosen["id"], chosen["key"], chosen["contextWindow"]) == ("gpt-5", "models.direct", 272_000)
        assert [request.path for request in provider.requests] == ["/v1/models"]
        await client.request("agent/modelsList", {"refresh": True})
        assert [request.path for request in provider.requests] == ["/v1/models"] * 2


async def test_a_conversations_own_model_goes_first(connect, workspace):
    async with LoopbackServer(ScriptedModel([reply("Hi.")]), models=("one",)) as provider:
        client = await connect(provider.base_url)
        params = {"workspace": workspace.as_uri(), "model": "mine"}
        made = (await client.request("agent/conversationNew", params))["conversation"]["conversationId"]
        chosen = (await client.request("agent/modelsList", {"conversationId": made}))["chosen"]
        assert (chosen["id"], chosen["key"]) == ("mine", "override")
        assert chosen["reason"].startswith("the conversation's own; ")
        with pytest.raises(RpcError):
            await client.request("agent/modelsList", {"conversationId": "c_none"})


async def test_nothing_is_configured_and_a_key_is_there(connect):
    async with LoopbackServer(models=("gpt-5",)) as provider:
        address = provider.base_url.replace("//", "//me:pass-word@")
        client = await connect(environment={"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": address})
        found = await client.request("agent/modelsList", {})
        assert (found["models"], found["chosen"]) == ([], None)
        first = found["ways"][0]
        assert first["reason"].startswith("OPENAI_API_KEY is set; of 1 models this one was taken: its id is gpt-5")
        assert {name: first[name] for name in ("name", "baseUrl", "dialect", "model", "keyEnv")} == {
            "name": "OpenAI",
            "baseUrl": provider.base_url,
            "dialect": "chat_completions",
            "model": "gpt-5",
            "keyEnv": "OPENAI_API_KEY",
        }
        assert found["problems"][-1].startswith("No model is configured")
        assert "pass-word" not in str(client.received)


async def test_a_provider_that_is_not_there_is_a_problem_and_no_error(connect):
    async with LoopbackServer() as gone:
        pass
    client = await connect(gone.base_url)
    found = await client.request("agent/modelsList", {})
    assert (found["models"], found["chosen"]["id"]) == ([], "scripted")
    assert f"Could not connect to 127.0.0.1:{gone.port}" in found["problems"][0]
