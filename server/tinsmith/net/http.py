"""The one HTTP client: pooled connections, separate deadlines, errors that name the host and the next step."""

import asyncio
import ssl
import threading
from collections.abc import AsyncGenerator, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from tinsmith.domain.errors import AgentError, SchemaError, TransportError

if TYPE_CHECKING:
    import httpx

    from tinsmith.net.guard import AddressGuard

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
"""Hosts that are reached directly even when the environment names a proxy."""

_KEEP_IDLE = 300.0
"""Seconds an unused connection is kept, so that a person may think between two messages."""


class Deadlines(msgspec.Struct, frozen=True):
    """Limits in seconds.

    `connect` for TCP and TLS, `send` for each write, `head` from the start to the head of the response.
    """

    connect: float
    send: float
    head: float


class HttpResponse:
    """An open response. `headers` have lower-case names; a repeated one is joined with commas."""

    def __init__(self, response: "httpx.Response", host: str) -> None:
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = dict(response.headers)
        self._response = response
        self._host = host

    async def chunks(self, *, is_decoded: bool = True) -> AsyncGenerator[bytes]:
        """The body as it comes, content-encoding undone unless `is_decoded` is false, without a limit of time.

        Reading to the end keeps the connection for the next request.
        Raises TransportError `streamInterrupted` when the connection breaks.
        """
        import httpx

        is_plain = not is_decoded or "content-encoding" not in self.headers
        try:
            async for chunk in self._response.aiter_raw() if is_plain else self._response.aiter_bytes():
                yield chunk
        except httpx.HTTPError as error:
            raise _broken(self._host) from error

    async def read(self, limit: int) -> bytes:
        """At most the first `limit` bytes of the body; one that is longer costs the connection. Raises as `chunks`."""
        parts: list[bytes] = []
        size = 0
        async with aclosing(self.chunks()) as chunks:
            async for chunk in chunks:
                parts.append(chunk)
                size += len(chunk)
                if size > limit:
                    break
        return b"".join(parts)[:limit]


class HttpClient:
    """Owns one connection pool. httpx is imported, and the pool made, when first needed or by `warm`.

    With a guard it reaches only what that allows, through no proxy, and keeps neither connections nor cookies.
    """

    def __init__(self, guard: "AddressGuard | None" = None) -> None:
        self._guard = guard
        self._client: httpx.AsyncClient | None = None
        self._making = threading.Lock()

    def warm(self) -> None:
        """Import httpx and make the client. Idempotent; blocks for some 150 ms, so not for the loop's own thread.

        Raises SchemaError `invalidProxy` or `invalidCertificates` for what the environment says.
        """
        with self._making:
            if self._client is None:
                self._client = _make_client() if self._guard is None else _make_guarded_client(self._guard)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        deadlines: Deadlines,
        body: bytes | None = None,
        advice: str = "Check the address and the network, then try again.",
    ) -> AsyncGenerator[HttpResponse]:
        """Send a request; the response is open within the block. Leaving it before the body's end ends the connection.

        `advice` is the next step that a message about an unreachable host ends with. Raises
        TransportError (`connectFailed`, `timeout`, `streamInterrupted`), SchemaError `invalidUrl` or as `warm`.
        """
        client = await self._ready()
        import httpx

        host = host_of(url)
        limits = httpx.Timeout(None, connect=deadlines.connect, write=deadlines.send)
        with _named_failures(url, deadlines, advice):
            request = client.build_request(method, url, headers=headers, content=body, timeout=limits)
            async with asyncio.timeout(deadlines.head):
                response = await client.send(request, stream=True)
        try:
            yield HttpResponse(response, host)
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        """Close every connection. The client may not be used afterwards."""
        if self._client is not None:
            await self._client.aclose()

    async def _ready(self) -> "httpx.AsyncClient":
        if self._client is None:
            maker = ThreadPoolExecutor(1, "tinsmith-http")
            try:
                await asyncio.get_running_loop().run_in_executor(maker, self.warm)
            finally:
                maker.shutdown(wait=False)
        assert self._client is not None
        return self._client


def host_of(url: str) -> str:
    """Host and port of a URL as a message may show them: no user info, path or query."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2] or "the server"
    except ValueError:
        return "the server"


def _by_proxy(url: str) -> str:
    """What is to be added to advice when the environment puts a proxy in between."""
    from urllib.request import getproxies, proxy_bypass

    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return ""
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or host in LOOPBACK_HOSTS or proxy_bypass(host):
        return ""
    return f" The way goes through the proxy at {host_of(proxy)} (HTTPS_PROXY, HTTP_PROXY, NO_PROXY)."


def _make_client() -> "httpx.AsyncClient":
    import anyio
    import httpx

    from tinsmith.net.trust import trusting_context

    anyio.run(anyio.sleep, 0)  # httpx stands on anyio, which loads its asyncio half when it first runs
    context = trusting_context()
    try:
        return httpx.AsyncClient(
            verify=context,
            follow_redirects=False,
            headers={"accept-encoding": "identity"},
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=8, keepalive_expiry=_KEEP_IDLE),
            mounts={f"all://{f'[{host}]' if ':' in host else host}": None for host in LOOPBACK_HOSTS},
        )
    except (ValueError, httpx.InvalidURL, ImportError) as error:  # their texts may quote the proxy's password
        is_socks = isinstance(error, ImportError)
        advice = "For SOCKS install the package socksio" if is_socks else "Set it to one such as http://proxy:3128"
        message = f"The proxy in HTTPS_PROXY, HTTP_PROXY or ALL_PROXY cannot be used. {advice}, and start again."
        raise SchemaError("invalidProxy", message, origin="net") from error


def _make_guarded_client(guard: "AddressGuard") -> "httpx.AsyncClient":
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import anyio
    import httpx

    from tinsmith.net.guard import guarded_transport

    anyio.run(anyio.sleep, 0)
    return httpx.AsyncClient(
        transport=guarded_transport(guard),
        trust_env=False,
        follow_redirects=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
    )


@contextmanager
def _named_failures(url: str, deadlines: Deadlines, advice: str) -> Generator[None]:
    import httpx

    host = host_of(url)
    try:
        yield
    except TimeoutError as error:
        message = f"{host} did not begin to answer within {deadlines.head:g} s. {advice}{_by_proxy(url)}"
        raise TransportError("timeout", message, retryable=True, origin="net") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _refused(error, host, deadlines, advice + _by_proxy(url)) from error


def _refused(error: Exception, host: str, deadlines: Deadlines, advice: str) -> AgentError:
    import httpx

    match error:
        case httpx.UnsupportedProtocol() | httpx.InvalidURL():
            return SchemaError(
                "invalidUrl", f"The address of {host} is not an http or https URL. {advice}", origin="net"
            )
        case httpx.ConnectTimeout():
            message = f"No connection to {host} within {deadlines.connect:g} s. {advice}"
            return TransportError("connectFailed", message, retryable=True, origin="net")
        case httpx.ConnectError() if (fault := _tls_fault(error)) is not None:
            return TransportError("connectFailed", _about_tls(fault, host, advice), origin="net")
        case httpx.ConnectError() | httpx.ProxyError():
            message = f"Could not connect to {host} ({str(error) or type(error).__name__}). {advice}"
            return TransportError("connectFailed", message, retryable=True, origin="net")
        case httpx.TimeoutException():
            message = f"{host} did not take the request within {deadlines.send:g} s. {advice}"
            return TransportError("timeout", message, retryable=True, origin="net")
        case httpx.LocalProtocolError():  # its text quotes the header that it refuses, which may hold a key
            return SchemaError(
                "invalidRequest", f"The request to {host} cannot be written as HTTP. {advice}", origin="net"
            )
        case _:
            return _broken(host)


def _tls_fault(error: BaseException) -> ssl.SSLError | None:
    """What TLS did not like, in the chain of causes."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None


def _about_tls(fault: ssl.SSLError, host: str, advice: str) -> str:
    if isinstance(fault, ssl.SSLCertVerificationError):
        return (
            f"The certificate of {host} is not trusted ({fault.verify_message}). If a proxy or a server of your own"
            f" stands there, set SSL_CERT_FILE to the certificate of its authority. {advice}"
        )
    return f"{host} does not speak TLS as it should ({fault.reason}). Should its address begin with http://? {advice}"


def _broken(host: str) -> TransportError:
    message = f"The connection to {host} broke off before the answer was whole. Try again."
    return TransportError("streamInterrupted", message, retryable=True, origin="net")
