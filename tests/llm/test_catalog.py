"""Model lists in the shapes that servers give, strategies over them, and the look at local ports."""

import asyncio
import json

import pytest
from tests.llm.conftest import keys
from tests.net.site import Reply, Site

from tinsmith.demo.server import LoopbackServer
from tinsmith.domain.errors import ProtocolError, TransportError
from tinsmith.domain.settings import LlmSettings
from tinsmith.llm.catalog import CatalogEntry, ask, fetch_catalog, parse_catalog, parse_entry
from tinsmith.llm.details import fetch_details, has_details, parse_shown
from tinsmith.llm.discovery import (
    Discovery,
    FoundServer,
    LocalServer,
    begin_with,
    fallback_chain,
    find_local_servers,
    first_available,
    prefer_capability_tag,
    prefer_prefix,
)
from tinsmith.llm.endpoint import Endpoint
from tinsmith.llm.families import known_window

ENDPOINT = Endpoint("https://h/v1/models", "h", "KEY")


@pytest.mark.parametrize(
    ("entry", "listing"),
    [
        ({"id": "a"}, CatalogEntry("a", "a")),
        ({"id": "a", "name": "Model A"}, CatalogEntry("a", "Model A")),
        (
            {"id": "a", "context_length": 200000, "top_provider": {"context_length": 1, "max_completion_tokens": 8}},
            CatalogEntry("a", "a", 200000, 8),
        ),
        ({"id": "a", "context_window": 32768, "max_completion_tokens": 4096}, CatalogEntry("a", "a", 32768, 4096)),
        ({"id": "a", "max_model_len": 8192}, CatalogEntry("a", "a", 8192)),
        ({"id": "a", "meta": {"n_ctx_train": 131072}}, CatalogEntry("a", "a", 131072)),
        ({"id": "a", "max_context_length": 9000, "loaded_context_length": 4096}, CatalogEntry("a", "a", 4096)),
        ({"id": "a", "context_length": "big", "max_output_tokens": True}, CatalogEntry("a", "a")),
        ({"id": "a", "context_length": 0, "top_provider": {"context_length": 7}}, CatalogEntry("a", "a", 7)),
        (
            {"id": "a", "capabilities": {"vision": True, "fim": False}},
            CatalogEntry("a", "a", tags=frozenset({"vision"}), sees_images=True),
        ),
        (
            {
                "type": "model",
                "id": "claude-x",
                "display_name": "Claude X",
                "max_input_tokens": 200000,
                "max_tokens": 64000,
                "capabilities": {"image_input": {"supported": True}, "batch": {"supported": False}},
            },
            CatalogEntry("claude-x", "Claude X", 200000, 64000, frozenset({"image_input"}), sees_images=True),
        ),
        (
            {"id": "a", "max_context_length": 32768, "capabilities": {"function_calling": True}},
            CatalogEntry("a", "a", 32768, tags=frozenset({"tools"})),
        ),
        ({"id": "a", "capabilities": {"vision": False}}, CatalogEntry("a", "a", sees_images=False)),
        ({"id": "a", "capabilities": {"image_input": {"supported": False}}}, CatalogEntry("a", "a", sees_images=False)),
        (
            {"id": "a", "architecture": {"input_modalities": ["text", "image"]}},
            CatalogEntry("a", "a", sees_images=True),
        ),
        ({"id": "a", "architecture": {"input_modalities": ["text"]}}, CatalogEntry("a", "a", sees_images=False)),
        ({"id": "a", "type": "vlm"}, CatalogEntry("a", "a", sees_images=True)),
        ({"id": "a", "type": "llm"}, CatalogEntry("a", "a", sees_images=False)),
        (
            {"id": "a", "supported_parameters": ["tools", 7], "tags": ["new"]},
            CatalogEntry("a", "a", tags=frozenset({"tools", "new"})),
        ),
    ],
)
def test_one_entry(entry: dict, listing: CatalogEntry) -> None:
    for body in ({"object": "list", "data": [entry]}, {"models": [entry]}, [entry], {"data": [entry], "models": []}):
        assert parse_catalog(json.dumps(body).encode(), ENDPOINT) == (listing,)


@pytest.mark.parametrize("body", [{"data": []}, {"data": None}, {"models": []}, [], {"data": [7, {"name": "no id"}]}])
def test_lists_without_models(body: object) -> None:
    assert parse_catalog(json.dumps(body).encode(), ENDPOINT) == ()


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"7", b'{"data":{"a":1}}', b""])
def test_what_is_no_list(body: bytes) -> None:
    with pytest.raises(ProtocolError) as failed:
        parse_catalog(body, ENDPOINT)
    assert failed.value.code == "unexpectedBody"
    assert "a model list" in failed.value.message


async def test_fetching(http) -> None:
    async with LoopbackServer(models=("one", "two")) as server:
        settings = LlmSettings(base_url=server.base_url)
        assert await fetch_catalog(http, settings, keys({"LLM_API_KEY": "sk-x"})) == (
            CatalogEntry("one", "one"),
            CatalogEntry("two", "two"),
        )
        (sent,) = server.requests
        assert (sent.method, sent.path, sent.headers["authorization"]) == ("GET", "/v1/models", "Bearer sk-x")


async def test_a_list_that_is_not_there(http) -> None:
    async with LoopbackServer() as server:
        settings = LlmSettings(base_url=server.base_url.removesuffix("/v1"))
        with pytest.raises(TransportError, match="The path has no version") as failed:
            await fetch_catalog(http, settings, keys({}))
    assert (failed.value.code, failed.value.data) == ("providerHttp", {"status": 404})


async def test_a_list_that_never_ends(http) -> None:
    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{")
        await _listen(reader, writer)

    async with await asyncio.start_server(trickle, "127.0.0.1", 0) as server:
        base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        with pytest.raises(TransportError, match=r"0\.1 s") as failed:
            await fetch_catalog(http, LlmSettings(base_url=base_url, connect_timeout=0.1), keys({}))
    assert (failed.value.code, failed.value.retryable) == ("timeout", True)


MODELS = (
    CatalogEntry("mini", "Mini"),
    CatalogEntry("big-1", "Big", tags=frozenset({"tools"})),
    CatalogEntry("big-2", "Big 2", tags=frozenset({"tools", "vision"})),
)


@pytest.mark.parametrize(
    ("strategy", "found"),
    [
        (first_available, "mini"),
        (prefer_prefix("big"), "big-1"),
        (prefer_prefix("huge", "big-2", "mini"), "big-2"),
        (prefer_prefix("big-", "mini"), "big-1"),
        (prefer_prefix("big", "big-2"), "big-1"),
        (prefer_prefix("huge"), None),
        (prefer_capability_tag("vision"), "big-2"),
        (prefer_capability_tag("audio"), None),
        (fallback_chain(prefer_prefix("huge"), prefer_capability_tag("tools"), first_available), "big-1"),
        (fallback_chain(prefer_prefix("huge")), None),
    ],
)
def test_strategies(strategy, found: str | None) -> None:
    chosen = strategy(MODELS)
    assert (chosen.model_id if chosen else None) == found
    assert chosen is None or chosen.reason
    assert strategy(()) is None


@pytest.mark.parametrize(
    ("ids", "prefixes", "found"),
    [
        (("gpt-5-nano", "gpt-5", "gpt-4.1"), ("gpt-5", "gpt-4.1"), "gpt-5"),
        (("text-embedding-3-small", "whisper-1", "gpt-9"), ("gpt-5",), "gpt-9"),
        (("nomic-embed-text",), (), None),
    ],
)
def test_the_model_to_begin_with_can_answer(ids, prefixes, found) -> None:
    chosen = begin_with([CatalogEntry(each, each) for each in ids], prefixes)
    assert (chosen.model_id if chosen else None) == found


def test_a_reason_is_a_phrase() -> None:
    assert prefer_prefix("big")(MODELS) == Discovery("big-1", "its id begins with big")


async def test_local_servers(http) -> None:
    async with LoopbackServer(models=("llama",)) as up, LoopbackServer(models=()) as empty:
        async with LoopbackServer() as gone:
            pass
        servers = tuple(
            LocalServer(name, server.base_url) for name, server in (("Up", up), ("Gone", gone), ("Empty", empty))
        )
        assert await find_local_servers(http, servers, 2) == (
            FoundServer(servers[0], (CatalogEntry("llama", "llama"),)),
            FoundServer(servers[2], ()),
        )
        assert "authorization" not in up.requests[0].headers


async def test_a_port_where_something_else_answers_and_one_that_is_silent(http) -> None:
    async with LoopbackServer() as server, await asyncio.start_server(_listen, "127.0.0.1", 0) as mute:
        odd = LocalServer("Odd", server.base_url.removesuffix("/v1"))
        silent = LocalServer("Silent", f"http://127.0.0.1:{mute.sockets[0].getsockname()[1]}/v1")
        assert await find_local_servers(http, (odd, silent), 0.2) == ()


async def _listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def test_a_whole_page_of_anthropics_models_is_asked_for(http) -> None:
    listed = Reply((b'{"data": [{"id": "claude-x", "type": "model"}], "has_more": false}',))
    paths = ["/v1/models?limit=1000&team=7", "/v1/models?limit=1000"]
    async with Site(dict.fromkeys(paths, listed)) as site:
        for end in ("/v1?team=7", ""):
            settings = LlmSettings(base_url=f"http://127.0.0.1:{site.port}{end}", dialect="anthropic")
            assert await fetch_catalog(http, settings, keys({})) == (CatalogEntry("claude-x", "claude-x"),)
        assert site.asked == paths


@pytest.mark.parametrize(
    ("shown", "entry"),
    [
        (
            {
                "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960},
                "capabilities": ["completion", "tools"],
            },
            CatalogEntry("m", "m", 40960, tags=frozenset({"completion", "tools"}), sees_images=False),
        ),
        (
            {"model_info": {"gemma3.context_length": 8192}, "capabilities": ["completion", "vision"]},
            CatalogEntry("m", "m", 8192, tags=frozenset({"completion", "vision"}), sees_images=True),
        ),
        (
            {"parameters": 'stop "x"\nnum_ctx        16384\n', "model_info": {"qwen3.context_length": 40960}},
            CatalogEntry("m", "m", 16384),
        ),
        ({"parameters": 7, "model_info": {"a.context_length": "big"}}, None),
        ({"parameters": "temperature 1", "model_info": []}, None),
        ({}, None),
    ],
)
def test_what_ollama_shows_of_a_model(shown, entry) -> None:
    assert parse_shown("m", shown) == entry


async def test_details_that_ollama_tells(http) -> None:
    async with Site({"/api/show": Reply((b'{"model_info": {"llama.context_length": 8192}}',))}) as site:
        settings = LlmSettings(base_url=f"http://127.0.0.1:{site.port}/v1", dialect="ollama")
        assert has_details(settings)
        assert await fetch_details(http, settings, keys({}), "m:1") == CatalogEntry("m:1", "m:1", 8192)
        assert site.heads[0].startswith("POST /api/show HTTP/1.1")


async def test_details_that_lm_studio_tells(http) -> None:
    body = b'{"id": "m", "state": "loaded", "max_context_length": 131072, "loaded_context_length": 4096}'
    async with Site({"/api/v0/models/m": Reply((body,))}) as site:
        settings = LlmSettings(base_url=f"http://127.0.0.1:{site.port}/v1")
        assert not has_details(settings)
        assert has_details(LlmSettings(base_url="http://127.0.0.1:1234/v1"))
        _, answer = await ask(http, settings, keys({}), "/api/v0/models/m")
        assert parse_entry(json.loads(answer)) == CatalogEntry("m", "m", 4096)


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("gpt-5.1-codex", 272_000),
        ("openai/gpt-5-mini", 272_000),
        ("gpt-5-chat-latest", 128_000),
        ("gpt-4.1-nano", 1_047_576),
        ("gpt-4o-2024-11-20", 128_000),
        ("gpt-4", 8_192),
        ("gpt-4-0613", 8_192),
        ("o3", 200_000),
        ("o3-pro", 200_000),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", 200_000),
        ("Claude-Opus-4-5@20251101", 200_000),
        ("models/gemini-2.5-pro", 1_048_576),
        ("deepseek/deepseek-chat", 128_000),
        ("llama3.1:8b", 131_072),
        ("meta-llama/Llama-3.3-70B-Instruct", 131_072),
        ("my-gpt-5", None),
        ("o30", None),
        ("a-model", None),
        ("", None),
    ],
)
def test_known_families(model, window) -> None:
    assert known_window(model) == window
