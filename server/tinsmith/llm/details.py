"""What a server tells of one model and does not list: how large the context is with which it runs it."""

import re
from typing import Any, cast

import msgspec

from tinsmith.domain.settings import LlmSettings
from tinsmith.llm.catalog import CatalogEntry, ask, parse_entry, tags_of
from tinsmith.llm.dialects import dialect_of
from tinsmith.llm.endpoint import FindCredentials
from tinsmith.llm.profiles import profile_for
from tinsmith.net.http import HttpClient

_NUM_CTX = re.compile(r"^num_ctx\s+(\d{1,9})\s*$", re.MULTILINE)


def has_details(settings: LlmSettings) -> bool:
    """Whether the server tells more of one model than it lists."""
    return dialect_of(settings).name == "ollama" or _is_lm_studio(settings)


async def fetch_details(
    http: HttpClient, settings: LlmSettings, credentials: FindCredentials, model_id: str
) -> CatalogEntry | None:
    """What the server tells of this model; None when it says nothing of use. Raises as `fetch_catalog`.

    Sources: Ollama's API reference, "Show Model Information"; LM Studio's REST API, `GET /api/v0/models/{model}`.
    """
    if _is_lm_studio(settings):
        _, body = await ask(http, settings, credentials, f"/api/v0/models/{model_id}")
        return parse_entry(_object(body))
    _, body = await ask(http, settings, credentials, "/api/show", msgspec.json.encode({"model": model_id}))
    return parse_shown(model_id, _object(body))


def parse_shown(model_id: str, shown: dict[str, Any]) -> CatalogEntry | None:
    """The answer of Ollama's `/api/show`: a `num_ctx` of the model's own file goes before what it was made for."""
    parameters, details = shown.get("parameters"), shown.get("model_info")
    chosen = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    fields = cast("dict[str, Any]", details) if isinstance(details, dict) else {}
    made_for = next((size for name, size in fields.items() if name.endswith(".context_length")), None)
    window = int(chosen[1]) if chosen else made_for
    if not isinstance(window, int) or window <= 0:
        return None
    capabilities = shown.get("capabilities")
    tags = tags_of(capabilities)
    return CatalogEntry(model_id, model_id, window, None, tags, None if capabilities is None else "vision" in tags)


def _is_lm_studio(settings: LlmSettings) -> bool:
    return dialect_of(settings).name != "ollama" and profile_for(settings.base_url or "").name == "LM Studio"


def _object(body: bytes) -> dict[str, Any]:
    try:
        value: Any = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
