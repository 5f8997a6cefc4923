"""What there is to choose from, why the chosen model was chosen, and who says how large it is."""

import pytest
from tests.net.site import Reply, Site

from tinsmith.config.load import load
from tinsmith.config.schema import find_faults
from tinsmith.demo.server import LoopbackServer
from tinsmith.domain.settings import LlmSettings, Settings
from tinsmith.llm.catalog import CatalogEntry
from tinsmith.llm.discovery import LocalServer
from tinsmith.net.http import HttpClient
from tinsmith.services.first_run import Way
from tinsmith.services.keys import Keys
from tinsmith.services.models import Models
from tinsmith.services.offer import Offer, look_around

find_faults({})  # loads the rules once, before a loop runs


@pytest.fixture
async def models():
    async def at_once(work):
        return work()

    http = HttpClient()
    yield Models(http, Keys(at_once).credentials)
    await http.aclose()


def settings(**tree):
    return load(user_file="/nowhere", environment={}, command_line=tree)


def listing(body: str) -> Reply:
    return Reply((body.encode(),), headers={"content-type": "application/json"})


async def test_the_provider_says_how_large_its_model_is_and_is_asked_once(models):
    body = '{"data": [{"id": "a", "context_length": 32000, "max_output_tokens": 4000}, {"id": "gpt-5"}]}'
    async with Site({"/v1/models": listing(body)}) as site, LoopbackServer(models=("local",)) as local:
        llm = {"base_url": site.url("/v1")}
        servers = (LocalServer("Local", local.base_url), LocalServer("Itself", site.url("/v1")))
        for model, window, says, limit in (
            ("a", 32_000, "as the provider says", 4_000),
            ("gpt-5", 272_000, "as is known of models of that name", None),
            ("b", 128_000, "assumed, since nobody says; llm_config.context_window sets it", None),
        ):
            found = await look_around(models, settings(llm_config=llm, default_model=model), {}, local_servers=servers)
            assert found.chosen is not None
            assert (found.chosen.model, found.chosen.context_window) == (model, window)
            assert found.chosen.max_output_tokens == limit
            assert found.reason == f"from default_model; a context of {window:,} tokens, {says}"
            assert (found.models, found.problems, found.is_reachable) == (
                (CatalogEntry("a", "a", 32_000, 4_000), CatalogEntry("gpt-5", "gpt-5")),
                (),
                True,
            )
            assert [way.name for way in found.ways] == ["Local"]
        asked = site.asked.count("/v1/models")
        await look_around(models, settings(llm_config=llm), {}, is_fresh=True, local_servers=())
        assert site.asked.count("/v1/models") == asked + 1


async def test_the_settings_go_before_what_the_provider_says(models):
    async with Site({"/v1/models": listing('{"data": [{"id": "a", "context_length": 32000}]}')}) as site:
        llm = {"base_url": site.url("/v1"), "context_window": 9_000}
        found = await look_around(models, settings(llm_config=llm, default_model="a"), {}, local_servers=())
    assert found.reason == "from default_model; a context of 9,000 tokens, as llm_config.context_window says"


async def test_ollama_is_asked_for_the_chosen_model_and_again_on_demand(models):
    pages = {
        "/api/tags": listing('{"models": [{"name": "m", "model": "m"}]}'),
        "/api/show": listing('{"parameters": "num_ctx 16384", "capabilities": ["tools"]}'),
    }
    async with Site(pages) as site:
        tree = {"llm_config": {"base_url": site.url("/"), "dialect": "ollama"}, "models": {"direct": "m"}}
        found = await look_around(models, settings(**tree), {}, local_servers=())
        assert found.reason == "from models.direct; a context of 16,384 tokens, as the provider says"
        pages["/api/show"] = listing('{"model_info": {"x.context_length": 4096}}')
        found = await look_around(models, settings(**tree), {}, local_servers=())
        assert found.chosen is not None
        assert found.chosen.context_window == 16_384
        found = await look_around(models, settings(**tree), {}, is_fresh=True, local_servers=())
        assert found.chosen is not None
        assert found.chosen.context_window == 4_096
        assert site.asked.count("/api/show") == 2


async def test_the_size_is_known_before_the_first_request_where_it_must_be_told(models):
    async with Site({"/api/show": listing('{"model_info": {"x.context_length": 8192}}')}) as site:
        llm = LlmSettings(base_url=site.url("/"), dialect="ollama")
        chosen = Settings(llm_config=llm, default_model="m")
        for _ in range(2):
            await models.learn_first(llm, "m")
            assert models.choose(chosen, "direct", "").context_window == 8_192
        await models.learn_first(LlmSettings(base_url=site.url("/v1")), "m")
        assert site.asked == ["/api/show"]


async def test_a_provider_without_a_list_and_one_that_is_not_there(models):
    async with Site() as site:
        tree = {"llm_config": {"base_url": site.url("/v1")}, "default_model": "m"}
        found = await look_around(models, settings(**tree), {}, local_servers=())
        assert (found.models, found.is_reachable, found.chosen is not None) == ((), True, True)
        assert "answered 404 to /v1/models" in found.problems[0]
    found = await look_around(models, settings(**tree), {}, local_servers=())
    assert (found.is_reachable, len(found.problems)) == (False, 1)


async def test_without_a_provider_the_first_way_is_what_would_be_proposed(models):
    async with LoopbackServer(models=("gpt-5",)) as provider, LoopbackServer(models=("local",)) as local:
        environment = {"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": provider.base_url}
        servers = (LocalServer("Local", local.base_url),)
        found = await look_around(models, settings(), environment, local_servers=servers)
    reason = "OPENAI_API_KEY is set; of 1 models this one was taken: its id is gpt-5"
    first = Way(
        "OpenAI", provider.base_url, "chat_completions", "OPENAI_API_KEY", "gpt-5", reason, found.ways[0].prefixes
    )
    assert found.ways[0] == first
    assert [way.name for way in found.ways] == ["OpenAI", "Local"]
    assert (found.models, found.chosen, found.is_reachable) == ((), None, False)
    assert found.problems[-1].startswith("No model is configured")


async def test_nothing_at_all(models):
    found = await look_around(models, settings(), {}, local_servers=())
    assert found == Offer(problems=found.problems)
