"""Pages of the public web: one bounded GET, each hop of a redirect checked like the first."""

import asyncio
import re
import zlib
from collections.abc import Callable, Mapping
from contextlib import aclosing
from ipaddress import IPv6Address
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import msgspec

from tinsmith import __version__
from tinsmith.domain.errors import SchemaError, ToolError, TransportError
from tinsmith.domain.settings import WebFetchSettings
from tinsmith.domain.web import Cut, Fetched
from tinsmith.net.guard import LOCATION, AddressGuard, Resolve, parse_allowed
from tinsmith.net.http import Deadlines, HttpClient, HttpResponse

MAX_BYTES = 2_000_000
"""Of a body, after its content-encoding is undone."""
MAX_SECONDS = 30.0
MAX_HOPS = 5
_CONNECT_SECONDS = 10.0
_LONGEST_URL = 8_000
_GZIP = b"\x1f\x8b"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_.])?")
_NOT_IN_URL = re.compile(r"[\s\\\x00-\x1f\x7f]")
_TEXT_TYPES = re.compile(
    r"text/.*|application/(.*\+)?(json|xml|yaml|x-yaml|toml|javascript|x-javascript|ecmascript|x-sh|sql|graphql"
    r"|x-ndjson|jsonl|x-www-form-urlencoded|rtf|tex|x-tex|x-latex|x-patch|x-diff)|image/svg\+xml|message/.*"
)
_HEADERS: Mapping[str, str] = {
    "user-agent": f"Tinsmith/{__version__}",
    "accept": "text/html, application/xhtml+xml, text/markdown, text/plain, application/json;q=0.9, text/*;q=0.8, "
    "*/*;q=0.1",
    "accept-encoding": "gzip, deflate",
}


class WebAddress(NamedTuple):
    """An http or https URL in its parts; `host` is as it is looked up (lower case, ASCII), `url` has no fragment."""

    url: str
    host: str
    port: int


def parse_url(text: str) -> WebAddress:
    """The parts of a URL that may be fetched. Raises ToolError `badUrl`."""
    if _NOT_IN_URL.search(text) or len(text) > _LONGEST_URL:
        raise _bad_url(text, "has blanks, control characters or backslashes, or is too long")
    try:
        parts = urlsplit(text)
        port = parts.port
        host = _host(parts.netloc, parts.hostname or "")
    except ValueError as error:
        raise _bad_url(text, "is no URL") from error
    scheme = parts.scheme.lower()
    if scheme not in {"http", "https"}:
        raise _bad_url(text, "is not an http or https URL")
    if parts.username is not None or parts.password is not None:
        raise _bad_url(text, "holds a user name or password, which are not sent")
    default = 443 if scheme == "https" else 80
    shown = f"[{host}]" if ":" in host else host
    origin = f"{scheme}://{shown}" + ("" if port in (None, default) else f":{port}")
    query = f"?{parts.query}" if parts.query else ""
    return WebAddress(f"{origin}{parts.path or '/'}{query}", host, default if port is None else port)


class WebFetcher:
    """Fetches pages whose addresses the guard allows. `tree` are its settings: addresses that need not be public.

    A redirect to another host is not followed but told, so that a permission for one host opens no other.
    """

    def __init__(
        self,
        tree: Any = None,
        *,
        resolve: Resolve | None = None,
        max_bytes: int = MAX_BYTES,
        max_seconds: float = MAX_SECONDS,
    ) -> None:
        self._tree = tree
        self._resolve = resolve
        self._max_bytes = max_bytes
        self._max_seconds = max_seconds
        self._made: tuple[AddressGuard, HttpClient] | None = None

    async def fetch(self, url: str) -> Fetched:
        """As Fetcher.fetch.

        Raises ToolError (`badUrl`, `badRedirect`, `redirected`, `tooManyRedirects`, `notText`, `badEncoding`),
        PolicyError `privateAddress`, TransportError (`connectFailed`, `timeout`, `streamInterrupted`), SchemaError
        `invalidSetting`.
        """
        _, http = self._ready()
        ends = asyncio.get_running_loop().time() + self._max_seconds
        address = parse_url(url)
        for _ in range(MAX_HOPS + 1):
            deadlines = _deadlines(ends - asyncio.get_running_loop().time())
            async with http.stream("GET", address.url, headers=_HEADERS, deadlines=deadlines) as response:
                location = response.headers.get(LOCATION, "")
                if response.status not in _REDIRECTS or not location:
                    return await self._page(response, address, ends)
            address = await self._next_hop(address, location)
        raise ToolError("tooManyRedirects", f"{url} redirects more than {MAX_HOPS} times. Try another address.")

    async def aclose(self) -> None:
        """End what is still open. Nothing may be fetched afterwards."""
        if self._made is not None:
            await self._made[1].aclose()

    def _ready(self) -> tuple[AddressGuard, HttpClient]:
        if self._made is None:
            guard = AddressGuard(parse_allowed(_settings(self._tree).allowed_addresses), self._resolve)
            self._made = guard, HttpClient(guard)
        return self._made

    async def _next_hop(self, address: WebAddress, location: str) -> WebAddress:
        try:
            target = parse_url(urljoin(address.url, location))
        except (ToolError, ValueError) as error:
            raise ToolError(
                "badRedirect",
                f"{address.host} redirects to {location[:200]!r}, which cannot be fetched. Try another address.",
            ) from error
        if target.host.removeprefix("www.") != address.host.removeprefix("www."):
            await self._ready()[0].addresses(target.host, target.port)
            raise ToolError(
                "redirected",
                f"{address.url} redirects to another host: {target.url}\nCall web_fetch with that URL if you want it.",
                data={"url": target.url},
            )
        return target

    async def _page(self, response: HttpResponse, address: WebAddress, ends: float) -> Fetched:
        content_type = response.headers.get("content-type", "")
        kind = content_type.partition(";")[0].strip().lower()
        if kind and not _TEXT_TYPES.fullmatch(kind):
            size = response.headers.get("content-length", "")
            told = f"{int(size):,} bytes" if size.isdecimal() and len(size) < 20 else "size not told"
            raise ToolError(
                "notText",
                f"{address.url} is {kind[:100]} ({told}), no text, so it is not shown. If it is needed, download it "
                "with bash.",
            )
        body, cut = await self._body(response, ends)
        return Fetched(address.url, response.status, content_type, body, cut)

    async def _body(self, response: HttpResponse, ends: float) -> tuple[bytes, Cut]:
        """At most the permitted bytes in the permitted time; both the bytes sent and what they unpack to count."""
        unpack = _unpacker(response.headers.get("content-encoding", ""))
        parts: list[bytes] = []
        sent = size = 0
        try:
            async with asyncio.timeout_at(ends), aclosing(response.chunks(is_decoded=False)) as chunks:
                async for chunk in chunks:
                    sent += len(chunk)
                    part = unpack(chunk, self._max_bytes + 1 - size)
                    size += len(part)
                    parts.append(part)
                    if max(sent, size) > self._max_bytes:
                        return b"".join(parts)[: self._max_bytes], "size"
        except TimeoutError:
            return b"".join(parts), "time"
        except TransportError:
            if not size:
                raise
            return b"".join(parts), "broken"
        except zlib.error as error:
            raise ToolError("badEncoding", "The page's compression is broken, so it cannot be read.") from error
        return b"".join(parts), ""


def _settings(tree: Any) -> WebFetchSettings:
    try:
        return msgspec.convert(tree or {}, WebFetchSettings)
    except msgspec.ValidationError as error:
        raise SchemaError("invalidSetting", f"`services.tool.web_fetch` does not fit: {error}.") from error


def _host(netloc: str, name: str) -> str:
    """The name as it is looked up. Raises ValueError when it is none."""
    if netloc.rpartition("@")[2].startswith("["):
        address = IPv6Address(name)
        if address.scope_id is not None:
            raise ValueError(name)
        return address.compressed
    ascii_name = name.encode("idna").decode("ascii").lower()
    if not _HOST.fullmatch(ascii_name):
        raise ValueError(name)
    return ascii_name


def _bad_url(text: str, fault: str) -> ToolError:
    return ToolError(
        "badUrl", f"{text[:200]!r} {fault}. Give a whole address such as https://example.org/page, without log-in."
    )


def _deadlines(left: float) -> Deadlines:
    head = round(max(left, 0.1), 1)
    return Deadlines(connect=min(_CONNECT_SECONDS, head), send=_CONNECT_SECONDS, head=head)


Unpack = Callable[[bytes, int], bytes]


def _unpacker(encoding: str) -> Unpack:
    """Undoes a content-encoding piece by piece, never giving more than it is asked for. Raises ToolError."""
    match encoding.strip().lower():
        case "" | "identity":
            return lambda chunk, limit: chunk[:limit]
        case "gzip" | "x-gzip":
            return _Inflater(zlib.MAX_WBITS | 16).unpack
        case "deflate":
            return _Inflater(zlib.MAX_WBITS).unpack
        case _:
            raise ToolError(
                "badEncoding", f"The page comes compressed as {encoding[:40]!r}, which was not asked for. Try another."
            )


class _Inflater:
    """zlib over pieces: several members, raw deflate where the zlib header is missing, rubbish at the end."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._stream = zlib.decompressobj(window)
        self._is_begun = False
        self._is_over = False

    def unpack(self, chunk: bytes, limit: int) -> bytes:
        """At most `limit` bytes. Raises zlib.error."""
        parts: list[bytes] = []
        while chunk and limit > 0 and not self._is_over:
            part = self._inflate(chunk, limit)
            limit -= len(part)
            parts.append(part)
            chunk = self._stream.unconsumed_tail or self._stream.unused_data
            if self._stream.eof:
                self._stream = zlib.decompressobj(self._window)
                self._is_over = bool(chunk) and not chunk.startswith(_GZIP)
        return b"".join(parts)

    def _inflate(self, chunk: bytes, limit: int) -> bytes:
        try:
            part = self._stream.decompress(chunk, limit)
        except zlib.error:
            if self._is_begun or self._window != zlib.MAX_WBITS:
                raise
            self._window = -zlib.MAX_WBITS
            self._stream = zlib.decompressobj(self._window)
            part = self._stream.decompress(chunk, limit)
        self._is_begun = True
        return part
