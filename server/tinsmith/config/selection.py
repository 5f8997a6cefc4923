"""Which model a turn uses. Pure."""

from collections.abc import Mapping, Sequence

from tinsmith.domain.errors import SchemaError
from tinsmith.domain.settings import ModelChoice, Settings

KEY_VARIABLES = ("LLM_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY")
"""Where providers' keys usually are."""


def select_model(
    settings: Settings, role: str, override: str | None = None, found_keys: Sequence[str] = ()
) -> ModelChoice:
    """The first of: `override` (the request's or the conversation's), the role's, `models.default`, `default_model`.

    Raises SchemaError `modelNotConfigured`, which says where a model was looked for, that the variables
    `found_keys` hold keys, and how to name a model.
    """
    if override:
        return ModelChoice(override, "override", "override")
    for key in (role, "default"):
        if settings.models.get(key):
            return ModelChoice(settings.models[key], "role", f"models.{key}")
    if settings.default_model:
        return ModelChoice(settings.default_model, "default", "default_model")
    raise _not_configured(settings, role, found_keys)


def find_keys(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the usual key variables that are set; never what they hold."""
    return tuple(name for name in KEY_VARIABLES if environment.get(name))


def _not_configured(settings: Settings, role: str, found_keys: Sequence[str]) -> SchemaError:
    found = f"Keys were found in {', '.join(found_keys)}." if found_keys else "No provider's key was found either."
    base_url = settings.llm_config.base_url
    place = f"The provider at {base_url} is set." if base_url else "No provider is set (`llm_config.base_url`)."
    message = (
        f"No model is configured: looked at the request, the conversation, `models.{role}`, `models.default` and "
        f"`default_model`. {found} {place} Run `tinsmith setup` in a terminal: it finds one and configures it. Or name "
        "a model with the variable TINSMITH_MODEL (and its provider with TINSMITH_BASE_URL), or set `default_model` "
        "and `llm_config.base_url` in tinsmith.json; the provider's key "
        f"is read from the variable {settings.llm_config.api_key_env} (`llm_config.api_key_env`)."
    )
    return SchemaError(
        "modelNotConfigured",
        message,
        data={
            "role": role,
            "lookedAt": [f"models.{role}", "models.default", "default_model"],
            "foundKeys": [*found_keys],
        },
    )
