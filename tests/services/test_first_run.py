"""Which way to a model is proposed: local servers, and what is said when there is nothing."""

import pytest

from tinsmith.config.load import load
from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.discovery import LocalServer
from tinsmith.net.http import HttpClient
from tinsmith.services.first_run import Findings, Way, find_ways, is_configured, leaves_of
from tinsmith.services.keys import Keys
from tinsmith.services.models import Models


@pytest.fixture
async def models():
    async def at_once(work):
        return work()

    http = HttpClient()
    yield Models(http, Keys(at_once).credentials)
    await http.aclose()


def settings(tmp_path, text=None, **ephemeral):
    path = tmp_path / "tinsmith.json"
    if text is not None:
        path.write_text(text)
    return load(user_file=str(path), environment={}, command_line=ephemeral)


async def test_a_local_server_is_proposed_and_the_next_one_is_listed(models, tmp_path):
    async with LoopbackServer(models=("embed-x", "a")) as one, LoopbackServer(models=("b",)) as two:
        servers = (LocalServer("One", one.base_url), LocalServer("Two", two.base_url))
        found = await find_ways(models, settings(tmp_path), {}, servers)
    said = "it answers on this machine; of {} models this one was taken: the first model the provider lists"
    first = Way("One", one.base_url, "chat_completions", "", "a", said.format(2))
    assert found == Findings(first, (Way("Two", two.base_url, "chat_completions", "", "b", said.format(1)),), ())
    assert leaves_of(first, settings(tmp_path)) == {"default_model": "a", "llm_config.base_url": one.base_url}


def test_a_local_server_is_not_sent_the_key_of_somebody_else(tmp_path):
    way = Way("One", "http://127.0.0.1:1/v1", "chat_completions", "", "a")
    standing = settings(tmp_path, '{"llm_config": {"api_key_env": "OPENAI_API_KEY", "dialect": "anthropic"}}')
    assert leaves_of(way, standing) == {
        "default_model": "a",
        "llm_config.base_url": way.base_url,
        "llm_config.dialect": "chat_completions",
        "llm_config.api_key_env": "LLM_API_KEY",
    }


async def test_nothing_is_there(models, tmp_path):
    assert await find_ways(models, settings(tmp_path), {}, ()) == Findings(None, (), ())


@pytest.mark.parametrize(
    ("text", "ephemeral", "expected"),
    [
        ('{"default_model": "m", "llm_config": {"base_url": "http://h/v1"}}', {}, True),
        ('{"models": {"direct": "m"}, "llm_config": {"base_url": "http://h/v1"}}', {}, True),
        ('{"models": {"worker": "m"}, "llm_config": {"base_url": "http://h/v1"}}', {}, False),
        ('{"default_model": "m"}', {}, False),
        (None, {"default_model": "m", "llm_config": {"base_url": "http://h/v1"}}, False),
    ],
)
def test_what_only_this_process_was_told_is_not_configured(tmp_path, text, ephemeral, expected):
    assert is_configured(settings(tmp_path, text, **ephemeral)) is expected
