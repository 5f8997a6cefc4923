"""Which model a turn uses: the first that is named, and a way out when none is."""

import pytest

from tinsmith.config.selection import find_keys, select_model
from tinsmith.domain.errors import AgentError
from tinsmith.domain.settings import LlmSettings, ModelChoice, Settings

FULL = Settings(default_model="last", models={"worker": "own", "default": "any"})


@pytest.mark.parametrize(
    ("settings", "role", "override", "expected"),
    [
        (FULL, "worker", "asked", ModelChoice("asked", "override", "override")),
        (FULL, "worker", None, ModelChoice("own", "role", "models.worker")),
        (FULL, "worker", "", ModelChoice("own", "role", "models.worker")),
        (FULL, "direct", None, ModelChoice("any", "role", "models.default")),
        (Settings(default_model="last"), "direct", None, ModelChoice("last", "default", "default_model")),
        (Settings(), "direct", "asked", ModelChoice("asked", "override", "override", 128_000, None)),
    ],
)
def test_the_first_that_is_named(settings, role, override, expected):
    assert select_model(settings, role, override) == expected


@pytest.mark.parametrize(
    ("settings", "found_keys", "words"),
    [
        (Settings(), (), ["No provider's key was found", "No provider is set"]),
        (Settings(), ("OPENAI_API_KEY", "LLM_API_KEY"), ["Keys were found in OPENAI_API_KEY, LLM_API_KEY."]),
        (
            Settings(llm_config=LlmSettings(base_url="http://localhost:1", api_key_env="MY_KEY")),
            (),
            ["The provider at http://localhost:1 is set", "variable MY_KEY"],
        ),
    ],
)
def test_no_model_is_an_error_that_says_what_to_do(settings, found_keys, words):
    with pytest.raises(AgentError) as caught:
        select_model(settings, "orchestrator", None, found_keys)
    assert (caught.value.code, caught.value.kind) == ("modelNotConfigured", "schema")
    usual = ["`models.orchestrator`", "`models.default`", "`default_model`", "TINSMITH_MODEL", "TINSMITH_BASE_URL"]
    for part in [*usual, "tinsmith setup", "tinsmith.json", *words]:
        assert part in caught.value.message
    assert caught.value.data["foundKeys"] == list(found_keys)


def test_keys_are_found_by_name_only():
    environment = {"OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": "", "OTHER_API_KEY": "x", "OPENROUTER_API_KEY": "y"}
    assert find_keys(environment) == ("OPENAI_API_KEY", "OPENROUTER_API_KEY")
