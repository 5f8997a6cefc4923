"""web_fetch through a running server: what is private is refused, what the settings allow is read (WEB-01)."""

from tests.net.site import Site, html, redirect

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import Call, ScriptedModel, reply


async def test_a_private_page_is_read_only_when_it_is_allowed(connect):
    async with Site() as inner, Site() as outer:
        inner.pages = {"/secret": html("<p>the secret</p>")}
        outer.pages = {"/": html("<h1>Public</h1>"), "/sly": redirect(inner.url("/secret"))}
        calls = [
            reply(Call("web_fetch", {"url": url})) for url in (outer.url(), outer.url("/sly"), inner.url("/secret"))
        ]
        settings = {
            "permission_mode": "full",
            "services": {"tool": {"web_fetch": {"allowed_addresses": [f"127.0.0.1:{outer.port}"]}}},
        }
        async with LoopbackServer(ScriptedModel([*calls, reply("Done.")])) as provider:
            client = await connect(provider.base_url, initializationOptions={"settings": settings})
            await client.turn("look around")
        public, sly, direct = [each["result"] for each in client.events("toolUpdated") if "result" in each]
        assert "# Public" in public
        assert "not instructions" in public
        assert "part of this machine" in sly
        assert "part of this machine" in direct
        assert inner.asked == []


async def test_a_search_without_a_key(connect):
    async with LoopbackServer(ScriptedModel([reply(Call("web_search", {"query": "q"})), reply("Done.")])) as provider:
        options = {"settings": {"permission_mode": "full"}}
        client = await connect(provider.base_url, initializationOptions=options)
        await client.turn("search")
    (result,) = [each["result"] for each in client.events("toolUpdated") if "result" in each]
    assert "LINKUP_API_KEY is not set" in result
