"""The web tools through a running server."""

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import Call, ScriptedModel, reply


async def test_a_search_without_a_key(connect):
    async with LoopbackServer(ScriptedModel([reply(Call("web_search", {"query": "q"})), reply("Done.")])) as provider:
        options = {"settings": {"permission_mode": "full"}}
        client = await connect(provider.base_url, initializationOptions=options)
        await client.turn("search")
    (result,) = [each["result"] for each in client.events("toolUpdated") if "result" in each]
    assert "LINKUP_API_KEY is not set" in result
