"""Where a request goes and with which key: pure, from the settings."""

import ipaddress
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

from tinsmith.domain.errors import SchemaError, TransportError
from tinsmith.domain.header import is_secret
from tinsmith.domain.settings import LlmSettings
from tinsmith.net.http import host_of

_ENDPOINTS = ("/chat/completions", "/responses", "/messages", "/api/chat", "/models")
"""What people copy along with the address of an API."""
_VERSION = re.compile(r"/v\d+[a-z0-9]*(?=/|$)")
_DOUBLED_VERSION = re.compile(r"(/v\d+[a-z0-9]*)\1(?=/|$)")


KEYRING_SERVICE = "tinsmith"
"""Under which name of a service our entries of the system's keyring are."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What makes us known to a provider: its key, empty when there is none, and headers by their lower-case names.

    `secrets` are the parts of those headers that nobody may see.
    """

    key: str = field(repr=False, default="")
    headers: Mapping[str, str] = field(repr=False, default_factory=dict[str, str])
    secrets: tuple[str, ...] = field(repr=False, default=())


FindCredentials = Callable[[LlmSettings], Awaitable[Credentials]]
"""Looks up what goes with requests to the provider of these settings."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address of a provider. `host` is for messages; `key` is empty when a local server needs none.

    `key_place` says where the key belongs, `secrets` are what else of the headers nobody may see. `headers` are what
    every request to it carries, `model` is what it is asked for.
    """

    url: str
    host: str
    key_place: str
    key: str = field(repr=False, default="")
    headers: Mapping[str, str] = field(repr=False, default_factory=dict[str, str])
    model: str = ""
    secrets: tuple[str, ...] = field(repr=False, default=())

    @property
    def path(self) -> str:
        """The path of the address, without its query."""
        return urlsplit(self.url).path or "/"

    @property
    def asked(self) -> str:
        """What was asked for, behind "answered 404 to": the path, without the query, which may hold a key."""
        return f"{self.path} for {self.model!r}" if self.model else self.path

    @property
    def advice(self) -> str:
        """The next step when the host cannot be reached."""
        return f"Check that the server at {self.host} is running and that llm_config.base_url is right, then try again."

    @property
    def address_advice(self) -> str:
        """The next step when the host answers and has nothing at this path, as exactly as the path tells it."""
        parts = urlsplit(self.url)
        origin = urlunsplit((parts.scheme, self.host, "", "", ""))
        if doubled := _DOUBLED_VERSION.search(parts.path):
            base = parts.path[: doubled.end(1)]
            return f"The path has {doubled[1]} twice: set llm_config.base_url to {origin}{base}."
        if not _VERSION.search(parts.path) and not parts.path.endswith(("/api/chat", "/api/tags", "/api/show")):
            return f"The path has no version: set llm_config.base_url to {origin}/v1."
        return "Check that llm_config.base_url is the address of the API, and llm_config.dialect what it speaks."

    def scrub(self, text: str) -> str:
        """`text` without the key: providers quote it back in errors."""
        for secret in filter(None, (self.key, *self.secrets)):
            text = text.replace(secret, "[key]")
        return text


def resolve(
    settings: LlmSettings,
    credentials: Credentials,
    path: str,
    headers: Callable[[str, str], Mapping[str, str]],
    model: str = "",
) -> Endpoint:
    """The endpoint for `path` (such as `/models`) below `llm_config.base_url`; `headers` make the key known to a host.

    The person's own headers go before those. Raises SchemaError `baseUrlMissing` or `invalidUrl`; TransportError
    `authRequired` when a key is needed and missing, or cannot be sent in a header.
    """
    if not settings.base_url:
        message = (
            "No provider is configured. Set llm_config.base_url, or TINSMITH_BASE_URL in the environment, to the"
            " address of its API, such as http://127.0.0.1:8080/v1."
        )
        raise SchemaError("baseUrlMissing", message, origin="llm")
    url = join(settings.base_url, path)
    host = host_of(url)
    key, place = credentials.key.strip(), _key_place(settings)
    if not key and not is_local(settings.base_url) and not any(is_secret(name) for name in settings.headers):
        message = f"{host} needs a key and there is none. Set {place} to it and start again."
        raise TransportError("authRequired", message, origin="llm")
    if not (key.isascii() and (key.isprintable() or not key)):
        message = f"The key in {place} holds characters that no key has. Set it again, without line breaks."
        raise TransportError("authRequired", message, origin="llm")
    sent = {"content-type": "application/json", "user-agent": "tinsmith", **headers(key, host), **credentials.headers}
    return Endpoint(url, host, place, key, sent, model, credentials.secrets)


def _key_place(settings: LlmSettings) -> str:
    entry = settings.api_key_keyring
    return f"the keyring's entry {entry} (keyring set {KEYRING_SERVICE} {entry})" if entry else settings.api_key_env


def join(base_url: str, path: str) -> str:
    """`base_url` with `path`; a trailing slash, a query, or an address that already names an endpoint are fine.

    A `path` with a version or `/api` of its own takes the place of the one that `base_url` ends in.
    """
    try:
        parts = urlsplit(base_url.strip())
    except ValueError as error:
        raise _not_a_url(base_url) from error
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise _not_a_url(base_url)
    base, (path, _, query) = parts.path.rstrip("/"), path.partition("?")
    for known in _ENDPOINTS:
        base = base.removesuffix(known)
    if path.startswith(("/v1/", "/api/")):
        base = base.removesuffix("/v1")
    if path.startswith("/api/"):
        base = base.removesuffix("/api")
    query = "&".join(filter(None, (query, parts.query)))
    return urlunsplit((parts.scheme, parts.netloc, base + path, query, ""))


def shown(base_url: str) -> str:
    """The address as a person may see it, without what stands before its host."""
    return re.sub(r"//[^/@\s]*@", "//", base_url)


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
