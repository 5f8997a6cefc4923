"""The address guard: a name is resolved once, every address must be public, and the connection goes to a checked one.

What a model asks for must not reach what only this machine or its network can reach.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, NamedTuple

from tinsmith.domain.errors import PolicyError, SchemaError, TransportError

if TYPE_CHECKING:
    import httpx

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Every address of a host name, or of any way to write an address, as text."""

_ALLOWED = re.compile(r"(?:\[(?P<inner>[^\]]+)\]|(?P<v4>[0-9./]+))(?::(?P<port>[1-9]\d{0,4}))?|(?P<v6>[0-9a-fA-F:./]+)")
LOCATION = "x-location"
"""The header under which a response of the guarded transport has its `location`."""

_MAX_TRIED = 4
"""Addresses of one host that are connected to, one after the other."""
_RESOLVING_THREADS = 4
_RESOLVE_SECONDS = 10.0

_SPECIAL: tuple[tuple[IPv4Network | IPv6Network, str], ...] = tuple(
    (ip_network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "this host"),
        ("10.0.0.0/8", "a private network"),
        ("100.64.0.0/10", "a provider's inner network"),
        ("127.0.0.0/8", "this machine"),
        ("168.63.129.16/32", "a cloud provider's inner service"),
        ("169.254.0.0/16", "a link-local network"),
        ("172.16.0.0/12", "a private network"),
        ("192.0.0.0/24", "a reserved range"),
        ("192.0.2.0/24", "a range for documentation"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("192.168.0.0/16", "a private network"),
        ("198.18.0.0/15", "a range for measurements"),
        ("198.51.100.0/24", "a range for documentation"),
        ("203.0.113.0/24", "a range for documentation"),
        ("224.0.0.0/4", "a multicast group"),
        ("240.0.0.0/4", "a reserved range"),
        ("::/128", "this host"),
        ("::1/128", "this machine"),
        ("::ffff:0:0/96", "an IPv4 address in another form"),
        ("64:ff9b::/96", "an IPv4 address in another form"),
        ("2001::/23", "a reserved range"),
        ("2001:db8::/32", "a range for documentation"),
        ("2002::/16", "an IPv4 address in another form"),
        ("3fff::/20", "a range for documentation"),
        ("fc00::/7", "a private network"),
        ("fe80::/10", "a link-local network"),
        ("ff00::/8", "a multicast group"),
    )
)
"""Source: IANA's registries of special-purpose addresses; 168.63.129.16 is public by them, and inside Azure is not."""

_UNICAST_V6 = IPv6Network("2000::/3")
"""All that is given out for hosts on the internet (RFC 4291, section 2.4)."""


class AllowedAddress(NamedTuple):
    """A network that may be reached although it is not public; `port` 0 stands for every port."""

    network: IPv4Network | IPv6Network
    port: int = 0


def parse_allowed(texts: Sequence[str]) -> tuple[AllowedAddress, ...]:
    """Addresses and networks such as `127.0.0.1:8000`, `10.0.0.0/8` or `[::1]:8000`. Raises SchemaError."""
    return tuple(map(_parse_allowed, texts))


def special_kind(address: str) -> str:
    """What a special address belongs to, such as `a private network`; empty for a public one."""
    found = ip_address(address)
    kind = next((kind for network, kind in _SPECIAL if found in network), "")
    if not kind and isinstance(found, IPv6Address) and found not in _UNICAST_V6:
        return "a reserved range"
    return kind


class AddressGuard:
    """Decides where connections may go. `resolve` is the system's resolver unless another is given."""

    def __init__(self, allowed: Sequence[AllowedAddress] = (), resolve: Resolve | None = None) -> None:
        self._allowed = tuple(allowed)
        self._resolve = resolve or _SystemResolver().resolve

    async def addresses(self, host: str, port: int) -> tuple[str, ...]:
        """The host's addresses, each of them checked.

        Raises PolicyError `privateAddress` when any of them is not public, TransportError `connectFailed` when
        there is none.
        """
        try:
            async with asyncio.timeout(_RESOLVE_SECONDS):
                found = [address.partition("%")[0] for address in await self._resolve(host, port)]
        except TimeoutError as error:
            raise _unknown(host) from error
        for address in found:
            kind = special_kind(address)
            if kind and not self._is_allowed(ip_address(address), port):
                where = f"{host} is" if host == address else f"{host} means {address},"
                raise PolicyError(
                    "privateAddress",
                    f"{where} part of {kind}, which the web tools never reach. Use a public address; the user can "
                    f'allow this one in tinsmith.json: services.tool.web_fetch.allowed_addresses = ["{address}"].',
                )
        if not found:
            raise _unknown(host)
        return tuple(dict.fromkeys(found))[:_MAX_TRIED]

    def _is_allowed(self, address: IPv4Address | IPv6Address, port: int) -> bool:
        return any(address in each.network and each.port in (0, port) for each in self._allowed)


def guarded_transport(guard: AddressGuard) -> "httpx.AsyncBaseTransport":
    """A transport for httpx whose connections go to addresses that the guard has checked, and to no others.

    Host header, server name and certificate check stay those of the URL. No connection is used twice: two hosts
    behind one address must not share one.
    """
    import httpx

    class GuardedTransport(httpx.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            url = request.url
            port = url.port or (443 if url.scheme == "https" else 80)
            failure: httpx.TransportError | None = None
            host = url.raw_host.decode("ascii")
            for address in await guard.addresses(host, port):
                pinned = httpx.Request(
                    request.method,
                    url.copy_with(host=address),
                    headers=request.headers,
                    stream=request.stream,
                    extensions={**request.extensions, "sni_hostname": host},
                )
                try:
                    return _with_location_aside(await super().handle_async_request(pinned))
                except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                    failure = error
            assert failure is not None
            raise failure

    return GuardedTransport(limits=httpx.Limits(max_connections=None, max_keepalive_connections=0))


def _with_location_aside(response: "httpx.Response") -> "httpx.Response":
    """The response under whose `location` httpx looks for a URL, and fails on any other, even if it follows none."""
    location = response.headers.pop("location", None)
    if location is not None:
        response.headers[LOCATION] = location
    return response


class _SystemResolver:
    """getaddrinfo in threads of its own: a name server that is silent holds up nobody else."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_RESOLVING_THREADS, "tinsmith-resolve")
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host, port)
        except (OSError, UnicodeError) as error:
            raise _unknown(host) from error
        return found


def _look_up(host: str, port: int) -> list[str]:
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def _unknown(host: str) -> TransportError:
    message = f"There is no address for the host {host}. Check its name; without a network no host has one."
    return TransportError("connectFailed", message, retryable=True, origin="net")


def _parse_allowed(text: str) -> AllowedAddress:
    found = _ALLOWED.fullmatch(text)
    host = (found["inner"] or found["v4"] or found["v6"]) if found else ""
    try:
        return AllowedAddress(ip_network(host), int(found["port"] or 0) if found else 0)
    except ValueError as error:
        raise SchemaError(
            "invalidSetting",
            f"{text!r} is no address or network. Write it as 127.0.0.1:8000, 10.0.0.0/8 or [::1]:8000.",
        ) from error
