"""The address guard: what may be reached, and that the connection goes nowhere else."""

import ipaddress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.net.site import Site, html, self_signed

from tinsmith.domain.errors import AgentError, PolicyError, SchemaError, TransportError
from tinsmith.net.fetch import WebFetcher
from tinsmith.net.guard import AddressGuard, AllowedAddress, parse_allowed, special_kind


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.0.9"),
        *("168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.168.1.1"),
        *("198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.1.1.1", "240.0.0.1"),
        *("255.255.255.255", "192.88.99.1"),
        *("::", "::1", "::ffff:8.8.8.8", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1"),
        *("100::1", "2001::1", "2001:db8::1", "2002:7f00:1::1", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254"),
        *("fe80::1", "fec0::1", "ff02::1", "4000::1"),
    ],
)
def test_special_addresses(address) -> None:
    assert special_kind(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00::1"])
def test_public_addresses(address) -> None:
    assert special_kind(address) == ""


addresses = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str)


@given(addresses)
@example("::ffff:10.0.0.1")
def test_nothing_passes_that_the_standard_library_calls_special(address) -> None:
    found = ipaddress.ip_address(address)
    if not found.is_global or found.is_multicast or found.is_reserved:
        assert special_kind(address)


async def resolving(*found: str):
    async def resolve(host: str, port: int):
        return found

    return AddressGuard(parse_allowed(["10.1.0.0/16", "127.0.0.1:8000"]), resolve)


async def test_every_address_of_a_name_must_be_public() -> None:
    assert await (await resolving("8.8.8.8", "2606:4700::1", "8.8.8.8")).addresses("a.example", 443) == (
        "8.8.8.8",
        "2606:4700::1",
    )
    with pytest.raises(PolicyError) as refused:
        await (await resolving("8.8.8.8", "10.0.0.7")).addresses("a.example", 443)
    assert refused.value.code == "privateAddress"
    assert "10.0.0.7" in refused.value.message


async def test_what_is_allowed_is_allowed_at_its_port_alone() -> None:
    guard = await resolving("127.0.0.1", "10.1.2.3")
    assert await guard.addresses("a.example", 8000) == ("127.0.0.1", "10.1.2.3")
    with pytest.raises(PolicyError):
        await guard.addresses("a.example", 8001)


async def test_no_address_and_a_scope() -> None:
    with pytest.raises(TransportError, match="no address for the host"):
        await (await resolving()).addresses("a.example", 80)
    with pytest.raises(PolicyError, match="link-local"):
        await (await resolving("fe80::1%eth0")).addresses("a.example", 80)


def test_allowed_addresses_are_read_or_refused() -> None:
    v4, v6 = ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("::1")
    assert parse_allowed(["10.0.0.0/8", "10.0.0.0/8:80", "::1", "[::1]:80"]) == (
        AllowedAddress(v4),
        AllowedAddress(v4, 80),
        AllowedAddress(v6),
        AllowedAddress(v6, 80),
    )
    for text in ("localhost", "", "127.0.0.1:", "10.0.0.1/8", "[::1", "*"):
        with pytest.raises(SchemaError):
            parse_allowed([text])


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0", "[::1]", "[::ffff:127.0.0.1]", "localhost",
     "LOCALHOST", "localhost.", "[::ffff:7f00:1]", "ⓛocalhost", "127。0。0。1"],
)  # fmt: skip
async def test_no_way_to_write_loopback_gets_there(host) -> None:
    async with Site({"/": html("secret")}) as site:
        fetcher = WebFetcher()
        with pytest.raises(AgentError) as refused:
            await fetcher.fetch(f"http://{host}:{site.port}/")
        await fetcher.aclose()
        assert (site.asked, site.open) == ([], 0)
    assert refused.value.code in {"privateAddress", "connectFailed", "badUrl", "invalidUrl"}


async def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    """A name server that answers otherwise the second time is not asked a second time."""
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])

    async def rebinding(host: str, port: int):
        return next(answers)

    async with Site({"/": html("first")}) as site:
        fetcher = WebFetcher({"allowed_addresses": ["127.0.0.1"]}, resolve=rebinding)
        assert (await fetcher.fetch(f"http://rebind.example:{site.port}/")).body == b"first"
        assert f"\r\nhost: rebind.example:{site.port}\r\n" in site.heads[0].lower()
        with pytest.raises(PolicyError, match=r"127\.0\.0\.2"):
            await fetcher.fetch(f"http://rebind.example:{site.port}/")
        await fetcher.aclose()


async def test_another_address_is_tried_when_one_is_dead() -> None:
    async def resolve(host: str, port: int):
        return ["127.0.0.3", "127.0.0.1"]

    async with Site({"/": html("alive")}) as site:
        fetcher = WebFetcher({"allowed_addresses": ["127.0.0.0/8"]}, resolve=resolve)
        assert (await fetcher.fetch(f"http://two.example:{site.port}/")).body == b"alive"
        await fetcher.aclose()


async def test_a_certificate_is_that_of_the_name_not_of_the_address(tmp_path, monkeypatch) -> None:
    context = self_signed(tmp_path, "good.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    asked: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: asked.append(name)

    async def resolve(host: str, port: int):
        return ["127.0.0.1"]

    async with Site({"/": html("over TLS")}, tls=context) as site:
        fetcher = WebFetcher({"allowed_addresses": ["127.0.0.1"]}, resolve=resolve)
        assert (await fetcher.fetch(f"https://good.example:{site.port}/")).body == b"over TLS"
        for host in ("other.example", "127.0.0.1"):
            with pytest.raises(TransportError) as failed:
                await fetcher.fetch(f"https://{host}:{site.port}/")
            assert failed.value.code == "connectFailed"
        await fetcher.aclose()
        assert asked == ["good.example", "other.example", None]
        assert site.asked == ["/"]
