"""Linkup, the default back end of web_search: one POST, JSON both ways.

Source: docs.linkup.so, endpoint /search and "Errors".
"""

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tinsmith.domain.errors import SchemaError, ToolError
from tinsmith.domain.settings import WebSearchSettings
from tinsmith.domain.web import Found, Hit
from tinsmith.net.http import Deadlines, HttpClient, host_of

_MAX_BYTES = 2_000_000
_CONNECT_SECONDS = 10.0
_MESSAGE_CHARACTERS = 300


class Linkup:
    """A Searcher. `tree` are its settings, `find_key` gives the value of an environment variable."""

    def __init__(self, http: HttpClient, tree: Any, find_key: Callable[[str], str | None]) -> None:
        self._http = http
        self._tree = tree
        self._find_key = find_key

    @property
    def host(self) -> str:
        """As Searcher.host. Raises SchemaError `invalidSetting`."""
        endpoint = _options(self._tree).endpoint
        return urlsplit(endpoint).hostname or host_of(endpoint)

    async def search(self, query: str, max_results: int | None) -> Found:
        """As Searcher.search.

        Raises ToolError (`noSearchKey`, `searchRefused`, `searchFailed`), TransportError, SchemaError `invalidSetting`.
        """
        options = _options(self._tree)
        key = self._find_key(options.api_key_env)
        if key is None:
            raise ToolError("noSearchKey", _how_to_start(options.api_key_env))
        body = {
            "q": query,
            "depth": options.depth,
            "outputType": options.output_type,
            "maxResults": max_results or options.max_results,
        }
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json", "accept": "application/json"}
        deadlines = Deadlines(min(_CONNECT_SECONDS, options.timeout), options.timeout, options.timeout)
        try:
            async with (
                asyncio.timeout(options.timeout),
                self._http.stream(
                    "POST", options.endpoint, headers=headers, deadlines=deadlines, body=msgspec.json.encode(body)
                ) as response,
            ):
                answer = await response.read(_MAX_BYTES)
        except TimeoutError as error:
            raise ToolError(
                "searchFailed", f"{self.host} did not answer within {options.timeout:g} s. Try again, or go on without."
            ) from error
        if response.status != 200:
            raise _refused(self.host, response.status, answer, options.api_key_env)
        try:
            return msgspec.json.decode(answer, type=_Answer).found()
        except msgspec.DecodeError as error:
            raise ToolError(
                "searchFailed", f"{self.host} answered in a form that is not known. Use web_fetch or ask the user."
            ) from error


class _Result(msgspec.Struct, frozen=True):
    name: str | None = None
    url: str | None = None
    content: str | None = None
    snippet: str | None = None

    def hit(self) -> Hit:
        return Hit(self.name or "", self.url or "", self.content or self.snippet or "")


class _Answer(msgspec.Struct, frozen=True):
    results: tuple[_Result, ...] = ()
    answer: str = ""
    sources: tuple[_Result, ...] = ()

    def found(self) -> Found:
        return Found(tuple(each.hit() for each in (*self.results, *self.sources) if each.url), self.answer)


class _Fault(msgspec.Struct, frozen=True):
    message: str = ""


class _Failure(msgspec.Struct, frozen=True):
    error: _Fault = _Fault()


def _options(tree: Any) -> WebSearchSettings:
    try:
        return msgspec.convert(tree, WebSearchSettings)
    except msgspec.ValidationError as error:
        raise SchemaError("invalidSetting", f"`services.tool.web_search` does not fit: {error}.") from error


def _how_to_start(variable: str) -> str:
    return (
        f"web_search has no key: the environment variable {variable} is not set. Go on without it, with web_fetch for "
        f"addresses you know, and tell the user: get a key at https://www.linkup.so, set {variable} where the editor "
        "starts, and restart it."
    )


def _refused(host: str, status: int, body: bytes, variable: str) -> ToolError:
    said = _message(body)
    match status:
        case 401 | 403:
            message = f"{host} does not take the key in {variable}. Tell the user to check it."
        case 402 | 429:
            message = f"{host} lets no more searches through for now (too many, or no credit left). Go on without."
        case 400 | 422:
            message = f"{host} found nothing or did not take the query{said}. Ask in other words."
        case _:
            message = f"{host} failed with status {status}{said}. Try again later, or go on without."
    return ToolError("searchRefused" if status < 500 else "searchFailed", message)


def _message(body: bytes) -> str:
    """What the error says of itself, as data in brackets."""
    try:
        text = msgspec.json.decode(body, type=_Failure).error.message
    except msgspec.DecodeError:
        return ""
    return f" ({' '.join(text.split())[:_MESSAGE_CHARACTERS]})" if text else ""
