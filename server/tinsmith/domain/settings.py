"""Settings as the rest of the product sees them: validated, complete, frozen."""

from typing import Any, Literal

import msgspec

from tinsmith.domain.policy import PermissionMode

DialectName = Literal["chat_completions", "responses", "anthropic", "ollama"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
WindowSource = Literal["settings", "provider", "family", "assumed"]
LayerName = Literal["defaults", "user", "persisted", "ephemeral"]


class SwitchSettings(msgspec.Struct, frozen=True):
    """What a server is known to need, where the table of known servers (`llm/profiles.py`) is to be overruled."""

    merge_roles: bool | None = None
    bridge_results: bool | None = None
    replay_reasoning: bool | None = None
    empty_content: bool | None = None
    stream_options: bool | None = None


class LlmSettings(msgspec.Struct, frozen=True):
    """How to reach the provider. Times in seconds, backoffs in milliseconds (the last repeats).

    `api_key_keyring` names an entry of the system's keyring and goes before `api_key_env`. `headers` are the person's
    own, as `domain/header.py` reads them. An absent `dialect` is guessed from `base_url`, an absent `reasoning_effort`
    is the model's own. `context_window`, in tokens, goes before what the provider's list says.
    """

    api_key_env: str = "LLM_API_KEY"
    api_key_keyring: str | None = None
    retry_max_retries: int = 2
    retry_backoff_ms: tuple[float, ...] = (2000, 8000)
    stream_retry_after_output: bool = False
    timeout: float = 600
    connect_timeout: float = 120
    send_timeout: float = 30
    stream_stall_timeout: float = 120
    dialect: DialectName | None = None
    base_url: str | None = None
    context_window: int | None = None
    reasoning_effort: Effort | None = None
    headers: dict[str, str] = {}
    switches: SwitchSettings = SwitchSettings()


class ContextSettings(msgspec.Struct, frozen=True):
    """How the window keeps a history inside the model's context."""

    enabled: bool = True
    tool_output_keep_rounds: int = 7
    tool_output_elide_over_chars: int = 1024
    trim_threshold_pct: float = 80


class DispatchSettings(msgspec.Struct, frozen=True):
    """Limits of delegated work."""

    max_parallel: int = 3


class StoreSettings(msgspec.Struct, frozen=True):
    """What is kept: days since a conversation last changed, and bytes of all that is stored; None is no limit."""

    max_age_days: float | None = None
    max_bytes: int | None = None


class WebSearchSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`services.tool.web_search`: the search behind the tool. Times in seconds."""

    api_key_env: str = "LINKUP_API_KEY"
    endpoint: str = "https://api.linkup.so/v1/search"
    depth: Literal["fast", "standard", "deep"] = "standard"
    output_type: Literal["searchResults", "sourcedAnswer"] = "searchResults"
    max_results: int = 8
    timeout: float = 30


class WebFetchSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`services.tool.web_fetch`: addresses that are not public and may be reached all the same."""

    allowed_addresses: tuple[str, ...] = ()


class Settings(msgspec.Struct, frozen=True):
    """The effective configuration; defaults as on the behaviour page."""

    index_file: str = "INDEX.md"
    active_role: str = "direct"
    tool_step_budget: int | None = None
    permission_mode: PermissionMode = "ask"
    default_model: str | None = None
    models: dict[str, str] = {}
    empty_response_retry_max_retries: int = 2
    empty_response_retry_backoff_ms: tuple[float, ...] = (500, 1000)
    llm_config: LlmSettings = LlmSettings()
    context_management: ContextSettings = ContextSettings()
    dispatch: DispatchSettings = DispatchSettings()
    store: StoreSettings = StoreSettings()
    services: dict[str, Any] = {}


class ModelChoice(msgspec.Struct, frozen=True):
    """Which model a turn uses, which setting said so, and who says how large its context is.

    `sees_images` is None where nobody says so.
    """

    model: str
    source: Literal["override", "role", "default"]
    key: str
    context_window: int = 128_000
    max_output_tokens: int | None = None
    window_source: WindowSource = "assumed"
    sees_images: bool | None = None
