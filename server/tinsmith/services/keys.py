"""Keys of providers: where they come from, and which must never be shown. From the environment alone."""

import os
from collections.abc import Iterable

from tinsmith.config.selection import KEY_VARIABLES
from tinsmith.domain.redaction import redact
from tinsmith.proc.environment import known_values


def api_key(variable: str) -> str | None:
    """The key in an environment variable; None when it is not set."""
    return os.environ.get(variable) or None


def secret_variables(*configured: str) -> frozenset[str]:
    """The variables whose values no command and no text may get: the usual ones and the configured ones."""
    return frozenset((*KEY_VARIABLES, *filter(None, configured)))


def without_secrets(text: str, variables: Iterable[str]) -> str:
    """The text with the values of these variables, and whatever looks like a token, replaced by a mark."""
    return redact(text, known_values(os.environ, variables))
