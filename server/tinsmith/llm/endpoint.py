"""Where a request goes and with which key: pure, from the settings."""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

from tinsmith.domain.errors import SchemaError, TransportError
from tinsmith.domain.settings import LlmSettings
from tinsmith.net.http import host_of

_PATHS = ("/chat/completions", "/models")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address of a provider. `host` is for messages; `key` is empty when a local server needs none."""

    url: str
    host: str
    key_env: str
    key: str = field(repr=False, default="")

    @property
    def headers(self) -> dict[str, str]:
        """What every request to the provider carries."""
        fixed = {"content-type": "application/json", "user-agent": "tinsmith"}
        return {**fixed, "authorization": f"Bearer {self.key}"} if self.key else fixed

    @property
    def advice(self) -> str:
        """The next step when the host cannot be reached."""
        return f"Check that the server at {self.host} is running and that llm_config.base_url is right, then try again."

    def scrub(self, text: str) -> str:
        """`text` without the key: providers quote it back in errors."""
        return text.replace(self.key, "[key]") if self.key else text


def resolve(settings: LlmSettings, api_key: Callable[[str], str | None], path: str) -> Endpoint:
    """The endpoint for `path` (such as `/models`) below `llm_config.base_url`.

    Raises SchemaError `baseUrlMissing` or `invalidUrl`; TransportError `authRequired` when a
    key is needed and missing, or cannot be sent in a header.
    """
    if not settings.base_url:
        message = (
            "No provider is configured. Set llm_config.base_url, or TINSMITH_BASE_URL in the environment, to the"
            " address of a Chat Completions server, such as http://127.0.0.1:11434/v1."
        )
        raise SchemaError("baseUrlMissing", message, origin="llm")
    url = join(settings.base_url, path)
    host = host_of(url)
    key = (api_key(settings.api_key_env) or "").strip()
    if not key and not is_local(settings.base_url):
        message = f"{host} needs a key and the environment has none. Set {settings.api_key_env} to it and start again."
        raise TransportError("authRequired", message, origin="llm")
    if not (key.isascii() and (key.isprintable() or not key)):
        message = (
            f"The key in {settings.api_key_env} holds characters that no key has. Set it again, without line breaks."
        )
        raise TransportError("authRequired", message, origin="llm")
    return Endpoint(url, host, settings.api_key_env, key)


def join(base_url: str, path: str) -> str:
    """`base_url` with `path`; a trailing slash, a query, or an address that already names an endpoint are fine."""
    try:
        parts = urlsplit(base_url.strip())
    except ValueError as error:
        raise _not_a_url(base_url) from error
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise _not_a_url(base_url)
    base = parts.path.rstrip("/")
    for known in _PATHS:
        base = base.removesuffix(known)
    return urlunsplit((parts.scheme, parts.netloc, base + path, parts.query, ""))


def is_local(base_url: str) -> bool:
    """Whether the host is this machine or on its own network, where servers need no key."""
    host = urlsplit(base_url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".localhost", ".local", ".internal"))


def _not_a_url(base_url: str) -> SchemaError:
    message = f"llm_config.base_url is not an http or https address: {base_url[:80]!r}. Use one such as http://127.0.0.1:11434/v1."
    return SchemaError("invalidUrl", message, origin="llm")
