"""The models a provider lists: `GET /models`, in the shapes that servers give it."""

import asyncio
import time
from typing import Any, cast

import msgspec

from tinsmith.domain.errors import TransportError
from tinsmith.domain.settings import LlmSettings
from tinsmith.llm import errors
from tinsmith.llm.dialects import dialect_of
from tinsmith.llm.endpoint import Endpoint, FindCredentials, resolve
from tinsmith.net.http import Deadlines, HttpClient

_LIST_LIMIT = 16 * 1024 * 1024
_WINDOW_FIELDS = (
    "context_length",  # OpenRouter, Together
    "context_window",  # Groq
    "max_model_len",  # vLLM
    "max_input_tokens",  # Anthropic
    "loaded_context_length",  # LM Studio: what is really there, before what could be
    "max_context_length",  # Mistral, LM Studio
    "n_ctx",  # llama.cpp
    "n_ctx_train",
)
_LIMIT_FIELDS = ("max_output_tokens", "max_completion_tokens", "max_tokens")  # the last is Anthropic's
_TOOL_TAGS = frozenset({"function_calling", "tool_use", "tool_calling"})
"""What others call `tools`."""
_SEEING = frozenset({"vision", "image_input", "multimodal"})
"""Names of the ability to see images."""
_LM_STUDIO_TYPES = {"vlm": True, "llm": False}
_TAG_FIELDS = ("capabilities", "supported_parameters", "tags")


class CatalogEntry(msgspec.Struct, frozen=True):
    """One model of a list. Sizes in tokens, None when the provider does not tell; `tags` name what it can do.

    `sees_images` is None as well when the provider does not tell.
    """

    model_id: str
    name: str
    context_window: int | None = None
    max_output_tokens: int | None = None
    tags: frozenset[str] = frozenset()
    sees_images: bool | None = None


async def fetch_catalog(
    http: HttpClient, settings: LlmSettings, credentials: FindCredentials
) -> tuple[CatalogEntry, ...]:
    """The provider's models in its order. Raises as Provider does, and ProtocolError `unexpectedBody`."""
    response, body = await ask(http, settings, credentials, dialect_of(settings).models_path)
    return parse_catalog(body, response.endpoint, response.content_type)


class Answered(msgspec.Struct, frozen=True):
    """Who answered, and in which type."""

    endpoint: Endpoint
    content_type: str


async def ask(
    http: HttpClient, settings: LlmSettings, credentials: FindCredentials, path: str, body: bytes | None = None
) -> tuple[Answered, bytes]:
    """The whole answer to a GET, or with a body a POST, of something about models. Raises as Provider does."""
    endpoint = resolve(settings, await credentials(settings), path, dialect_of(settings).headers)
    seconds = settings.connect_timeout
    deadlines = Deadlines(seconds, settings.send_timeout, seconds)
    method = "GET" if body is None else "POST"
    async with http.stream(
        method, endpoint.url, headers=endpoint.headers, body=body, deadlines=deadlines, advice=endpoint.advice
    ) as response:
        try:
            async with asyncio.timeout(seconds):
                answer = await response.read(_LIST_LIMIT)
        except TimeoutError as error:
            message = f"{endpoint.host} did not send its model list within {seconds:g} s. {endpoint.advice}"
            raise TransportError("timeout", message, retryable=True, origin="llm") from error
    if not 200 <= response.status < 300:
        raise errors.from_response(response.status, response.headers, answer, endpoint, time.time())
    return Answered(endpoint, response.headers.get("content-type", "")), answer


def parse_catalog(body: bytes, endpoint: Endpoint, content_type: str = "application/json") -> tuple[CatalogEntry, ...]:
    """The models in a 200 body: a list, or one under `data` or `models`. Raises ProtocolError `unexpectedBody`."""
    try:
        listed = _entries(msgspec.json.decode(body))
    except msgspec.DecodeError as error:
        raise errors.unexpected_body(200, content_type, body, endpoint, "a model list") from error
    if listed is None:
        raise errors.unexpected_body(200, content_type, body, endpoint, "a model list")
    entries = (parse_entry(item) for item in listed)
    return tuple(entry for entry in entries if entry is not None)


def _entries(value: Any) -> list[Any] | None:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if not fields.keys() & {"data", "models"}:
            return None
        value = fields.get("data") or fields.get("models") or []
    return cast("list[Any]", value) if isinstance(value, list) else None


def parse_entry(item: Any) -> CatalogEntry | None:
    """One model of a list; None when it is none."""
    if not isinstance(item, dict):
        return None
    fields = cast("dict[str, Any]", item)
    model_id: Any = fields.get("id") or fields.get("model")
    if not isinstance(model_id, str):
        return None
    nested = [fields.get(key) for key in ("top_provider", "meta")]
    places = [fields, *(cast("dict[str, Any]", place) for place in nested if isinstance(place, dict))]
    name: Any = fields.get("display_name") or fields.get("name")
    return CatalogEntry(
        model_id,
        name if isinstance(name, str) and name else model_id,
        _first_size(places, _WINDOW_FIELDS),
        _first_size(places, _LIMIT_FIELDS),
        frozenset[str]().union(*(tags_of(fields.get(key)) for key in _TAG_FIELDS)),
        sees_images(fields),
    )


def sees_images(fields: dict[str, Any]) -> bool | None:
    """Whether a model takes images, by what its provider tells of it; None when that is nothing.

    Sources: OpenRouter, "Models" (`input_modalities`); Anthropic, "Models" (`image_input`); Mistral, "Models"
    (`vision`); LM Studio, "REST API" (`type`).
    """
    modalities = _table(fields.get("architecture")).get("input_modalities")
    if isinstance(modalities, list):
        return "image" in modalities
    capabilities = fields.get("capabilities")
    if not _SEEING.isdisjoint(tags_of(capabilities)):
        return True
    if not _SEEING.isdisjoint(_table(capabilities)):
        return False
    return _LM_STUDIO_TYPES.get(str(fields.get("type")))


def _table(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _first_size(places: list[dict[str, Any]], names: tuple[str, ...]) -> int | None:
    for place in places:
        for name in names:
            size = place.get(name)
            if isinstance(size, int) and not isinstance(size, bool) and size > 0:
                return size
    return None


def tags_of(value: Any) -> frozenset[str]:
    """Names in a list, or keys of a table that are true, or whose own table says `supported`."""
    names: list[Any] = []
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        names = [key for key, said in table.items() if said is True or _is_supported(said)]
    elif isinstance(value, list):
        names = cast("list[Any]", value)
    return frozenset("tools" if name in _TOOL_TAGS else name for name in names if isinstance(name, str))


def _is_supported(said: Any) -> bool:
    return isinstance(said, dict) and cast("dict[str, Any]", said).get("supported") is True
