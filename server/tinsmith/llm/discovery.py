"""Finding a model when none is configured: strategies over a list (pure), and a look at the usual local ports."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from tinsmith.domain.errors import AgentError
from tinsmith.domain.settings import DialectName, LlmSettings
from tinsmith.llm.catalog import CatalogEntry, fetch_catalog
from tinsmith.llm.endpoint import Credentials
from tinsmith.net.http import HttpClient


class Discovery(msgspec.Struct, frozen=True):
    """A model and why it was taken, as a phrase for a person."""

    model_id: str
    reason: str


Strategy = Callable[[Sequence[CatalogEntry]], Discovery | None]
"""Chooses from a list; None when nothing in it fits."""


def first_available(models: Sequence[CatalogEntry]) -> Discovery | None:
    """The first model of the list."""
    return Discovery(models[0].model_id, "the first model the provider lists") if models else None


def prefer_prefix(*prefixes: str) -> Strategy:
    """The model whose id is one of `prefixes`, else the first that begins with it; earlier prefixes first."""

    def choose(models: Sequence[CatalogEntry]) -> Discovery | None:
        for prefix in prefixes:
            for model in models:
                if model.model_id == prefix:
                    return Discovery(model.model_id, f"its id is {prefix}")
            for model in models:
                if model.model_id.startswith(prefix):
                    return Discovery(model.model_id, f"its id begins with {prefix}")
        return None

    return choose


def prefer_capability_tag(tag: str) -> Strategy:
    """The first model that is tagged `tag`, such as `tools`."""

    def choose(models: Sequence[CatalogEntry]) -> Discovery | None:
        for model in models:
            if tag in model.tags:
                return Discovery(model.model_id, f"the provider tags it {tag}")
        return None

    return choose


def fallback_chain(*strategies: Strategy) -> Strategy:
    """What the first strategy that finds anything finds."""

    def choose(models: Sequence[CatalogEntry]) -> Discovery | None:
        for strategy in strategies:
            found = strategy(models)
            if found is not None:
                return found
        return None

    return choose


def begin_with(models: Sequence[CatalogEntry], prefixes: Sequence[str] = ()) -> Discovery | None:
    """The model to begin with: of those that may answer, one of `prefixes`, else one with tools, else the first."""
    answering = [model for model in models if not any(word in model.model_id.lower() for word in _NO_CHAT)]
    return fallback_chain(prefer_prefix(*prefixes), prefer_capability_tag("tools"), first_available)(answering)


_NO_CHAT = ("embed", "whisper", "rerank", "moderation", "tts", "dall-e", "realtime", "transcribe")
"""Words in the ids of models that lists hold too and that cannot hold a conversation."""


class KnownProvider(msgspec.Struct, frozen=True):
    """A provider that is known by the variable its key is usually in.

    `address_env` is the variable in which its own libraries look for another address; then the key belongs there.
    `dialect` is what an address of that kind speaks, None when its look tells. `prefixes` are of the models to
    begin with.
    """

    name: str
    key_env: str
    base_url: str
    prefixes: tuple[str, ...]
    address_env: str = ""
    dialect: DialectName | None = None


KNOWN_PROVIDERS = (
    KnownProvider(
        "Anthropic",
        "ANTHROPIC_API_KEY",
        "https://api.anthropic.com",
        ("claude-sonnet", "claude-opus", "claude"),
        "ANTHROPIC_BASE_URL",
        "anthropic",
    ),
    KnownProvider(
        "OpenAI", "OPENAI_API_KEY", "https://api.openai.com/v1", ("gpt-5.1", "gpt-5", "gpt-4.1"), "OPENAI_BASE_URL"
    ),
    KnownProvider(
        "OpenRouter", "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1", ("anthropic/claude-sonnet", "openai/gpt-5")
    ),
)
"""Source: each provider's own documentation of its API and its libraries. In the order in which they are proposed."""


class LocalServer(msgspec.Struct, frozen=True):
    """A kind of server that people run on their own machine, and where its API usually is."""

    name: str
    base_url: str


LOCAL_SERVERS = (
    LocalServer("Ollama", "http://127.0.0.1:11434"),
    LocalServer("llama.cpp", "http://127.0.0.1:8080/v1"),
    LocalServer("LM Studio", "http://127.0.0.1:1234/v1"),
    LocalServer("vLLM", "http://127.0.0.1:8000/v1"),
)
"""Source: the default ports of each server's documentation."""

_PROBE_SECONDS = 0.3


class FoundServer(msgspec.Struct, frozen=True):
    """A local server that answered, with the models it lists."""

    server: LocalServer
    models: tuple[CatalogEntry, ...]


async def find_local_servers(
    http: HttpClient, servers: Sequence[LocalServer] = LOCAL_SERVERS, seconds: float = _PROBE_SECONDS
) -> tuple[FoundServer, ...]:
    """The `servers` that list their models within `seconds`, in their order. Asked all at once, without a key."""
    async with asyncio.TaskGroup() as group:
        probes = [group.create_task(_probe(http, server, seconds)) for server in servers]
    return tuple(found for probe in probes if (found := probe.result()) is not None)


async def _probe(http: HttpClient, server: LocalServer, seconds: float) -> FoundServer | None:
    settings = LlmSettings(base_url=server.base_url, connect_timeout=seconds, send_timeout=seconds)
    try:
        async with asyncio.timeout(seconds):
            return FoundServer(server, await fetch_catalog(http, settings, _no_credentials))
    except (TimeoutError, AgentError):
        return None  # nothing there, or nothing that we could use


async def _no_credentials(_: LlmSettings) -> Credentials:
    return Credentials()
