"""A provider's client, as the tests of this folder drive it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from itertools import count

import pytest

from tinsmith.demo.server import Answering, LoopbackServer
from tinsmith.domain.header import fill, variables_of
from tinsmith.domain.message import ModelDelta, TextPart, UserMessage
from tinsmith.domain.ports import ModelRequest
from tinsmith.domain.settings import LlmSettings, ModelChoice
from tinsmith.llm.endpoint import Credentials, FindCredentials
from tinsmith.llm.provider import Provider
from tinsmith.net.http import HttpClient


def keys(environment: Mapping[str, str | None]) -> FindCredentials:
    """Credentials as they come from variables alone."""

    async def find(settings: LlmSettings) -> Credentials:
        headers = fill(settings.headers, {name: value or "" for name, value in environment.items()})
        secrets = tuple(environment[name] or "" for name in variables_of(settings.headers.values()))
        return Credentials(environment.get(settings.api_key_env) or "", headers, secrets)

    return find


Ask = Callable[..., Awaitable[list[ModelDelta]]]


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    client = HttpClient()
    yield client
    await client.aclose()


@pytest.fixture
def model(http: HttpClient) -> Provider:
    numbers = count(1)
    return Provider(http, keys({"LLM_API_KEY": "sk-secret"}), lambda: f"call_{next(numbers)}")


@pytest.fixture
def request_of() -> Callable[..., ModelRequest]:
    def make(*messages: object, **fields: object) -> ModelRequest:
        opening = UserMessage("m1", "t1", (TextPart("hello"),))
        choice = ModelChoice("m-test", "override", "model")
        return ModelRequest(choice, "You are a test.", messages or (opening,), **fields)

    return make


@pytest.fixture
def ask(model: Provider, request_of: Callable[..., ModelRequest]) -> Ask:
    """Every delta of one answer by a server that gives `answers`."""

    async def run(*answers: Answering, request: ModelRequest | None = None, **settings: object) -> list[ModelDelta]:
        async with LoopbackServer(*answers) as server:
            chosen = LlmSettings(base_url=server.base_url, **settings)
            return await collect(model, request or request_of(), chosen)

    return run


async def collect(model: Provider, request: ModelRequest, settings: LlmSettings) -> list[ModelDelta]:
    batches: list[Sequence[ModelDelta]] = [batch async for batch in model.stream(request, settings)]
    assert all(batches)
    return [delta for batch in batches for delta in batch]


def make() -> tuple[HttpClient, Provider, ModelRequest]:
    """A client, a provider and a request, for tests that have a loop of their own."""
    client, numbers = HttpClient(), count(1)
    choice = ModelChoice("m-test", "override", "model")
    request = ModelRequest(choice, "", (UserMessage("m1", "t1", (TextPart("hello"),)),))
    return client, Provider(client, keys({}), lambda: f"call_{next(numbers)}"), request
