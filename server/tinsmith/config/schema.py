"""The rules for settings, with messages for the person who wrote them. Imported only when a tree is new to us."""

import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from tinsmith.domain.errors import SchemaError
from tinsmith.domain.header import find_fault
from tinsmith.domain.policy import PermissionMode
from tinsmith.domain.role import ROLES
from tinsmith.domain.settings import (
    ContextSettings,
    DialectName,
    DispatchSettings,
    Effort,
    LlmSettings,
    Settings,
    StoreSettings,
    SwitchSettings,
    WebSearchSettings,
)
from tinsmith.net.guard import parse_allowed


def find_faults(tree: dict[str, Any]) -> list[tuple[str, str]]:
    """Path of each faulty leaf with what is wrong, such as `must be greater than 0`. Never quotes a value."""
    try:
        RootTree.model_validate(tree)
    except ValidationError as error:
        return [_fault(detail) for detail in error.errors(include_url=False, include_input=False)]
    return []


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the user's tinsmith.json, for editors."""
    schema = RootTree.model_json_schema()
    schema["properties"]["$schema"] = {"type": "string"}
    return {**schema, "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Tinsmith settings"}


def _fault(detail: ErrorDetails) -> tuple[str, str]:
    location = [part for part in detail["loc"] if part != "[key]"]
    is_key = len(location) < len(detail["loc"])
    path = ".".join(str(part) for part in (location[:-1] if is_key else location))
    if detail["type"] in {"too_short", "string_too_short"}:
        return path, "must not have an empty key" if is_key else "must not be empty"
    return path, detail["msg"].removeprefix("Value error, ").replace("Input should be", "must be")


def _check_relative_path(path: str) -> str:
    segments = re.split(r"[/\\]", path)
    if not path or not segments[0] or ".." in segments or re.match(r"[A-Za-z]:", path) or "\0" in path:
        raise ValueError("must be a relative path inside the project, without `..`")
    return path


def _check_url(url: str) -> str:
    message = "must be an http:// or https:// URL such as http://127.0.0.1:8080/v1"
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise ValueError(message) from error
    if not is_good or re.search(r"[\s\x00-\x1f]", url):
        raise ValueError(message)
    return url


def _check_role(role: str) -> str:
    names = [known.name for known in ROLES.values() if known.is_user_facing]
    if role not in names:
        raise ValueError(f"must be {' or '.join(repr(name) for name in names)}")
    return role


def _check_address(text: str) -> str:
    try:
        parse_allowed([text])
    except SchemaError as error:
        raise ValueError("must be an address or network such as 127.0.0.1:8000, 10.0.0.0/8 or [::1]:8000") from error
    return text


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, text in headers.items():
        if fault := find_fault(name, text):
            raise ValueError(f"{fault} ({name})")
    return headers


_Text = Annotated[str, Field(min_length=1)]
_Seconds = Annotated[float, Field(gt=0)]
_Count = Annotated[int, Field(ge=0)]
_Backoff = Annotated[list[Annotated[float, Field(ge=0)]], Field(min_length=1)]
_Url = Annotated[str, AfterValidator(_check_url), Field(json_schema_extra={"format": "uri"})]
_Role = Annotated[
    str,
    AfterValidator(_check_role),
    Field(json_schema_extra={"enum": [role.name for role in ROLES.values() if role.is_user_facing]}),
]
_RelativePath = Annotated[str, AfterValidator(_check_relative_path)]

_ROOT = Settings()
_LLM = LlmSettings()
_SWITCHES = SwitchSettings()
_CONTEXT = ContextSettings()
_DISPATCH = DispatchSettings()
_STORE = StoreSettings()
_SEARCH = WebSearchSettings()


class _Group(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


class SwitchTree(_Group):
    """What the server needs, where Tinsmith does not know it by itself."""

    merge_roles: bool | None = _SWITCHES.merge_roles
    """Whether neighbouring messages of one role become one."""
    bridge_results: bool | None = _SWITCHES.bridge_results
    """Whether an assistant message stands between tool results and a user message."""
    replay_reasoning: bool | None = _SWITCHES.replay_reasoning
    """Whether the reasoning of an answer with calls is sent back, as reasoning_content."""
    empty_content: bool | None = _SWITCHES.empty_content
    """Whether an answer of calls alone is sent back with the empty text, and not with null, as its content."""
    stream_options: bool | None = _SWITCHES.stream_options
    """Whether stream_options may be sent, which ask for token counts."""


class LlmTree(_Group):
    """How to reach the provider."""

    api_key_env: _Text = _LLM.api_key_env
    """The environment variable that holds the provider's key."""
    api_key_keyring: _Text | None = _LLM.api_key_keyring
    """The entry of the system's keyring, under the service tinsmith, that holds the key; goes before api_key_env."""
    retry_max_retries: _Count = _LLM.retry_max_retries
    """How often a request that failed on its way is made again."""
    retry_backoff_ms: _Backoff = list(_LLM.retry_backoff_ms)
    """Milliseconds before each of those; the last repeats."""
    stream_retry_after_output: bool = _LLM.stream_retry_after_output
    """Whether an answer that broke off after some text is asked for again."""
    timeout: _Seconds = _LLM.timeout
    """Seconds for a whole request that is not streamed."""
    connect_timeout: _Seconds = _LLM.connect_timeout
    """Seconds until the head of the response."""
    send_timeout: _Seconds = _LLM.send_timeout
    """Seconds for sending a request."""
    stream_stall_timeout: _Seconds = _LLM.stream_stall_timeout
    """Seconds without an event on an open stream."""
    dialect: DialectName | None = _LLM.dialect
    """The protocol that the provider speaks; absent means that it is guessed from base_url."""
    base_url: _Url | None = _LLM.base_url
    """Where the provider is, up to and including its version, such as http://127.0.0.1:8080/v1."""
    context_window: Annotated[int, Field(gt=0)] | None = _LLM.context_window
    """Tokens of the model's context, where the provider's list is silent or wrong; Ollama reserves that much memory."""
    reasoning_effort: Effort | None = _LLM.reasoning_effort
    """How much a reasoning model thinks; absent leaves it to the model."""
    headers: Annotated[dict[_Text, str], AfterValidator(_check_headers)] = {}
    """Headers of your own for the provider; secrets are named by their variables, as in ${MY_KEY}."""
    switches: SwitchTree = SwitchTree()


class ContextTree(_Group):
    """How a long conversation is kept inside the model's context."""

    enabled: bool = _CONTEXT.enabled
    """Whether old tool output is elided and old rounds are dropped at all."""
    tool_output_keep_rounds: _Count = _CONTEXT.tool_output_keep_rounds
    """The newest rounds whose tool output is never elided."""
    tool_output_elide_over_chars: _Count = _CONTEXT.tool_output_elide_over_chars
    """Older tool output longer than this is elided."""
    trim_threshold_pct: Annotated[float, Field(gt=0, le=100)] = _CONTEXT.trim_threshold_pct
    """Percent of the context at which whole rounds are dropped."""


class DispatchTree(_Group):
    """Limits of delegated work."""

    max_parallel: Annotated[int, Field(gt=0)] = _DISPATCH.max_parallel
    """How many delegated tasks run at once."""


class StoreTree(_Group):
    """What is kept of old conversations."""

    max_age_days: Annotated[float, Field(gt=0)] | None = _STORE.max_age_days
    """Conversations that did not change for so many days are deleted; absent keeps them."""
    max_bytes: Annotated[int, Field(gt=0)] | None = _STORE.max_bytes
    """The oldest conversations are deleted while more bytes than this are stored; absent means no limit."""


class WebSearchTree(_Group):
    """The search behind web_search."""

    api_key_env: _Text = _SEARCH.api_key_env
    """The environment variable that holds the search's key."""
    endpoint: _Url = _SEARCH.endpoint
    """Where queries are sent."""
    depth: Literal["fast", "standard", "deep"] = _SEARCH.depth
    """How thoroughly is searched; deep takes longer."""
    output_type: Literal["searchResults", "sourcedAnswer"] = _SEARCH.output_type
    """Whether the search gives results, or an answer of its own with its sources."""
    max_results: Annotated[int, Field(ge=1, le=20)] = _SEARCH.max_results
    """How many results are asked for when the model does not say."""
    timeout: _Seconds = _SEARCH.timeout
    """Seconds for one search."""


class WebFetchTree(_Group):
    """What web_fetch may reach."""

    allowed_addresses: list[Annotated[str, AfterValidator(_check_address)]] = []
    """Addresses that are not public and may be reached all the same, such as 127.0.0.1:8000 or 10.0.0.0/8."""


class ToolServicesTree(_Group):
    """Options of tools that ask somebody else."""

    web_search: WebSearchTree = WebSearchTree()
    web_fetch: WebFetchTree = WebFetchTree()


class ServicesTree(_Group):
    """Options of services, by the name of the service or tool."""

    tool: ToolServicesTree = ToolServicesTree()


class RootTree(_Group):
    """The settings of Tinsmith. Every key may be left out."""

    index_file: _RelativePath = _ROOT.index_file
    """The project's own introduction for the model, relative to its root."""
    active_role: _Role = _ROOT.active_role
    """The role that answers you."""
    tool_step_budget: Annotated[int, Field(gt=0)] | None = _ROOT.tool_step_budget
    """The most calls that one turn may make; absent means no limit."""
    permission_mode: PermissionMode = _ROOT.permission_mode
    """What runs without asking you first."""
    default_model: _Text | None = _ROOT.default_model
    """The model, by the provider's name for it."""
    models: dict[_Text, _Text] = {}
    """The model of a role, by the role's name."""
    empty_response_retry_max_retries: _Count = _ROOT.empty_response_retry_max_retries
    """How often an answer without text and calls is asked for again."""
    empty_response_retry_backoff_ms: _Backoff = list(_ROOT.empty_response_retry_backoff_ms)
    """Milliseconds before each of those; the last repeats."""
    llm_config: LlmTree = LlmTree()
    context_management: ContextTree = ContextTree()
    dispatch: DispatchTree = DispatchTree()
    store: StoreTree = StoreTree()
    services: ServicesTree = ServicesTree()
