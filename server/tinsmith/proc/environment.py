"""The environment of a command: what this process inherited, minus secrets. Pure."""

from collections.abc import Iterable, Mapping

from tinsmith.domain.redaction import is_distinctive, is_token

KNOWN_SECRETS = frozenset(
    {"LLM_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "LINKUP_API_KEY", "GEMINI_API_KEY"}
)
"""Variables that hold keys of providers, whatever the configuration says."""


def child_environment(inherited: Mapping[str, str], secret_variables: Iterable[str] = ()) -> dict[str, str]:
    """`inherited` without `secret_variables`, known keys, every `…_API_KEY`, and values that look like tokens."""
    secret = KNOWN_SECRETS.union(secret_variables)
    return {
        name: value
        for name, value in inherited.items()
        if name not in secret and not name.upper().endswith("_API_KEY") and not is_token(value)
    }


def known_values(inherited: Mapping[str, str], secret_variables: Iterable[str] = ()) -> tuple[str, ...]:
    """The values of secret variables that can be told from ordinary words, longest first."""
    names = KNOWN_SECRETS.union(secret_variables)
    values = {inherited[name] for name in names if is_distinctive(inherited.get(name, ""))}
    return tuple(sorted(values, key=lambda value: (-len(value), value)))
