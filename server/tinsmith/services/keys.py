"""Keys of providers: from the environment or the system's keyring, and never shown."""

import asyncio
import os
from collections.abc import Iterable

from tinsmith.config.selection import KEY_VARIABLES
from tinsmith.domain.errors import SchemaError, TransportError
from tinsmith.domain.header import fill, variables_of
from tinsmith.domain.redaction import redact
from tinsmith.domain.settings import LlmSettings
from tinsmith.llm.endpoint import KEYRING_SERVICE, Credentials
from tinsmith.proc.environment import known_values
from tinsmith.services.settings import OffLoop

_BACKEND_FAULTS = (OSError, RuntimeError, ImportError, AttributeError, TypeError, ValueError)
"""What the person's own choice of a backend may end in, besides the keyring's errors."""


def api_key(variable: str) -> str | None:
    """The key in an environment variable; None when it is not set."""
    return os.environ.get(variable) or None


def secret_variables(*configured: str) -> frozenset[str]:
    """The variables whose values no command and no text may get: the usual ones and the configured ones."""
    return frozenset((*KEY_VARIABLES, *filter(None, configured)))


def without_secrets(text: str, variables: Iterable[str], found: Iterable[str] = ()) -> str:
    """The text with a mark in place of the values of these variables, of what was `found` elsewhere, and of tokens."""
    return redact(text, known_values(os.environ, variables, found))


class Keys:
    """What makes us known to providers. The keyring is asked once for each entry, off the loop, since it may block."""

    def __init__(self, off_loop: OffLoop) -> None:
        self._off_loop = off_loop
        self._found: dict[str, str] = {}

    async def credentials(self, settings: LlmSettings) -> Credentials:
        """What goes with requests to the provider of these settings.

        Raises SchemaError `keyringMissing` or `keyringFailed`; TransportError `timeout`, and `authRequired` for a
        variable that a header needs.
        """
        headers = fill(settings.headers, os.environ)
        named = variables_of(settings.headers.values())
        entry = settings.api_key_keyring
        key = await self._from_keyring(entry, settings.connect_timeout) if entry else api_key(settings.api_key_env)
        return Credentials(key or "", headers, tuple(value for name in named if (value := api_key(name))))

    def found(self) -> tuple[str, ...]:
        """The keys that the keyring has given so far."""
        return tuple(self._found.values())

    async def _from_keyring(self, entry: str, seconds: float) -> str | None:
        if entry not in self._found:
            try:
                async with asyncio.timeout(seconds):
                    key = await self._off_loop(lambda: _ask_keyring(entry))
            except TimeoutError as error:
                message = f"The system's keyring gave no answer within {seconds:g} s. Unlock it, and try again."
                raise TransportError("timeout", message, origin="keyring") from error
            if key:
                self._found[entry] = key
        return self._found.get(entry)


def _ask_keyring(entry: str) -> str | None:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError as error:
        message = (
            f"llm_config.api_key_keyring names the keyring's entry {entry}, and what reads the keyring is not"
            " installed. Run pip install 'tinsmith[keyring]', or name a variable in llm_config.api_key_env instead."
        )
        raise SchemaError("keyringMissing", message) from error
    try:
        return keyring.get_password(KEYRING_SERVICE, entry)
    except (KeyringError, *_BACKEND_FAULTS) as error:  # their texts are the backend's own and may hold anything
        message = (
            f"The system's keyring did not give its entry {entry} ({type(error).__name__}). Unlock it and try again, or"
            " name a variable in llm_config.api_key_env and take llm_config.api_key_keyring away."
        )
        raise SchemaError("keyringFailed", message) from error
