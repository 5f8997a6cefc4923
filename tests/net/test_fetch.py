"""Pages of hostile servers: bounded in size and time, redirects checked, connections closed (WEB-01, WEB-04)."""

import asyncio
import contextlib
import gzip
import time
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.net.site import Reply, Site, endless, html, packed, redirect, zeros_by_gzip

from tinsmith.domain.errors import AgentError, SchemaError, ToolError
from tinsmith.domain.web import Fetched
from tinsmith.net.fetch import MAX_BYTES, WebFetcher, _Inflater, parse_url

TEXT = {"content-type": "text/plain"}
Make = Callable[..., WebFetcher]


@pytest.fixture
async def reaching() -> AsyncIterator[Make]:
    made: list[WebFetcher] = []

    def make(*sites: Site, **limits: float) -> WebFetcher:
        allowed = [f"127.0.0.1:{site.port}" for site in sites]
        made.append(WebFetcher({"allowed_addresses": allowed}, **limits))
        return made[-1]

    yield make
    for fetcher in made:
        await fetcher.aclose()


async def refusal(fetcher: WebFetcher, url: str) -> AgentError:
    with pytest.raises(AgentError) as refused:
        await fetcher.fetch(url)
    return refused.value


async def test_a_page(reaching) -> None:
    async with Site({"/a?b=c": html("héllo")}) as site:
        fetched = await reaching(site).fetch(site.url("/a?b=c#part"))
        assert fetched == Fetched(site.url("/a?b=c"), 200, "text/html; charset=utf-8", "héllo".encode())
        head = site.heads[0].lower()
        assert "user-agent: tinsmith/" in head
        assert "cookie" not in head


async def test_no_cookie_is_kept(reaching) -> None:
    async with Site({"/": Reply((b"x",), headers={**TEXT, "set-cookie": "id=1; Path=/"})}) as site:
        fetcher = reaching(site)
        for _ in range(2):
            await fetcher.fetch(site.url())
        assert all("cookie" not in head.lower() for head in site.heads)


async def test_a_redirect_into_the_machine_is_refused(reaching) -> None:
    """WEB-01: the second hop is checked like the first."""
    async with Site({"/secret": html("secret")}) as inner, Site() as outer:
        host = f"127.0.0.1:{inner.port}"
        for location in (
            f"http://{host}/secret",
            f"//{host}/secret",
            f"http://2130706433:{inner.port}/secret",
            f"http://0x7f.1:{inner.port}/secret",
            f"http://[::ffff:127.0.0.1]:{inner.port}/secret",
            f"http://localhost:{inner.port}/secret",
            "http://169.254.169.254/latest/meta-data/",
            "http://[fd00:ec2::254]/",
        ):
            outer.pages["/"] = redirect(location)
            assert (await refusal(reaching(outer), outer.url())).code == "privateAddress", location
        assert inner.asked == []


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "ftp://x/", "gopher://127.0.0.1:6379/_", "data:text/html,x", "http://u:p@h/",
     "javascript:1", "http://a b/", "http://[::1"],
)  # fmt: skip
async def test_a_redirect_to_no_web_address_is_refused(reaching, location) -> None:
    async with Site({"/": redirect(location)}) as site:
        assert (await refusal(reaching(site), site.url())).code == "badRedirect"


async def test_redirects_on_one_host_are_followed_to_a_limit(reaching) -> None:
    chain = {f"/{n}": redirect(f"/{n + 1}", 301 + n % 2) for n in range(5)}
    async with Site({**chain, "/5": html("there"), "/loop": redirect("loop")}) as site:
        fetched = await reaching(site).fetch(site.url("/0"))
        assert (fetched.url, fetched.body) == (site.url("/5"), b"there")
        site.asked.clear()
        assert (await refusal(reaching(site), site.url("/loop"))).code == "tooManyRedirects"
        assert site.asked == ["/loop"] * 6


async def test_a_redirect_to_another_host_is_told(reaching) -> None:
    """A permission for one host opens no other."""

    async def resolve(host: str, port: int):
        return ["127.0.0.1"]

    async with Site() as site:
        site.pages = {
            "/": redirect(f"http://other.example:{site.port}/x?y=1#z"),
            "/www": redirect(f"http://www.one.example:{site.port}/x"),
            "/x": html("x"),
        }
        fetcher = WebFetcher({"allowed_addresses": ["127.0.0.1"]}, resolve=resolve)
        error = await refusal(fetcher, f"http://one.example:{site.port}/")
        assert (error.code, error.data) == ("redirected", {"url": f"http://other.example:{site.port}/x?y=1"})
        assert (await fetcher.fetch(f"http://one.example:{site.port}/www")).body == b"x"
        await fetcher.aclose()
        assert site.asked == ["/", "/www", "/x"]


async def test_an_endless_body_stops_at_the_cap(reaching) -> None:
    """WEB-04."""
    async with Site({"/": Reply(endless(b"x" * 65_536), headers=TEXT)}) as site:
        fetched = await reaching(site).fetch(site.url())
        await site.idle()
        assert (len(fetched.body), fetched.cut) == (MAX_BYTES, "size")
        assert site.sent < 20 * MAX_BYTES


async def test_a_gzip_bomb_stops_at_the_cap(reaching) -> None:
    """WEB-04: zeros, a thousand times as many as the bytes sent."""
    bomb = zeros_by_gzip(300_000_000)
    async with Site({"/": Reply((bomb,), headers={**TEXT, "content-encoding": "gzip"})}) as site:
        fetcher = reaching(site)
        await fetcher.fetch(site.url())
        tracemalloc.start()
        fetched = await fetcher.fetch(site.url())
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert (len(fetched.body), fetched.cut) == (MAX_BYTES, "size")
        assert peak < 5 * MAX_BYTES


async def test_a_body_that_unpacks_to_nothing_for_ever_stops_too(reaching) -> None:
    pieces = endless(gzip.compress(b"") * 1_000)
    async with Site({"/": Reply(pieces, headers={**TEXT, "content-encoding": "gzip"})}) as site:
        fetched = await reaching(site, max_bytes=200_000).fetch(site.url())
        assert (fetched.body, fetched.cut) == (b"", "size")


async def test_a_slow_head_and_a_slow_body(reaching) -> None:
    """Slow loris: a byte now and then keeps nobody."""
    drip = [piece for byte in b"HTTP/1.1 200 \r\nx-slow: 1" for piece in (bytes([byte]), 0.05)]
    pages = {
        "/head": Reply(head=drip),
        "/silent": Reply(head=(30.0,)),
        "/body": Reply((b"begin", *(0.05, b".") * 100), headers=TEXT),
    }
    async with Site(pages) as site:
        fetcher = reaching(site, max_seconds=0.4)
        began = time.monotonic()
        assert (await refusal(fetcher, site.url("/head"))).code == "timeout"
        assert (await refusal(fetcher, site.url("/silent"))).code == "timeout"
        fetched = await fetcher.fetch(site.url("/body"))
        assert time.monotonic() - began < 3
        assert fetched.cut == "time"
        assert fetched.body.startswith(b"begin.")
        await site.idle()


async def test_a_body_that_breaks_off(reaching) -> None:
    pages = {
        "/some": Reply((b"some",), headers={**TEXT, "content-length": "100"}),
        "/none": Reply(headers={**TEXT, "content-length": "100"}),
    }
    async with Site(pages) as site:
        fetched = await reaching(site).fetch(site.url("/some"))
        assert (fetched.body, fetched.cut) == (b"some", "broken")
        assert (await refusal(reaching(site), site.url("/none"))).code == "streamInterrupted"


async def test_what_is_no_text_is_refused_with_type_and_size(reaching) -> None:
    """WEB-04: and not even read."""
    headers = {"content-type": "application/zip", "content-length": "1234567"}
    async with Site({"/": Reply(endless(b"PK" * 10_000), headers=headers)}) as site:
        error = await refusal(reaching(site), site.url())
        assert (error.code, "application/zip (1,234,567 bytes)" in error.message) == ("notText", True)
        await site.idle()


@pytest.mark.parametrize("kind", ["image/png", "video/mp4", "application/octet-stream", "font/woff2", "x" * 5000])
async def test_other_types_are_refused(reaching, kind) -> None:
    async with Site({"/": Reply((b"x",), headers={"content-type": kind})}) as site:
        assert (await refusal(reaching(site), site.url())).code == "notText"


@pytest.mark.parametrize(
    "kind", ["text/css", "application/ld+json", "application/atom+xml; charset=x", "", "TEXT/HTML"]
)
async def test_texts_are_read(reaching, kind) -> None:
    async with Site({"/": Reply((b"x",), headers={"content-type": kind})}) as site:
        assert (await reaching(site).fetch(site.url())).body == b"x"


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", packed("hello")),
        ("x-gzip", packed("hel") + packed("lo")),
        ("gzip", packed("hello") + b"\0\0\0"),
        ("deflate", zlib.compress(b"hello")),
        ("deflate", zlib.compress(b"hello")[2:-4]),
        ("identity", b"hello"),
    ],
)
async def test_compressed_bodies(reaching, encoding, body) -> None:
    pieces = [body[n : n + 1] for n in range(len(body))]
    async with Site({"/": Reply(pieces, headers={**TEXT, "content-encoding": encoding})}) as site:
        assert (await reaching(site).fetch(site.url())).body == b"hello"


@pytest.mark.parametrize(("encoding", "body"), [("br", b"x"), ("gzip", b"no gzip"), ("deflate", b"\xff\xff\xff\xff")])
async def test_what_cannot_be_unpacked(reaching, encoding, body) -> None:
    async with Site({"/": Reply((body,), headers={**TEXT, "content-encoding": encoding})}) as site:
        assert (await refusal(reaching(site), site.url())).code == "badEncoding"


@given(st.binary(max_size=300), st.integers(1, 40), st.integers(1, 60))
def test_unpacking_never_gives_more_than_asked_for_and_loses_nothing(content, step, limit) -> None:
    body = gzip.compress(content)
    pieces = [body[at : at + step] for at in range(0, len(body), step)]
    inflater = _Inflater(zlib.MAX_WBITS | 16)
    parts = [inflater.unpack(piece, 1_000) for piece in pieces]
    assert b"".join(parts) == content
    assert len(_Inflater(zlib.MAX_WBITS | 16).unpack(body, limit)) == min(limit, len(content))


async def test_a_cancel_closes_the_connection_at_once(reaching) -> None:
    async with Site({"/": Reply((b"x", 30.0), headers=TEXT), "/head": Reply(head=(30.0,))}) as site:
        for path in ("/", "/head"):
            fetching = asyncio.ensure_future(reaching(site).fetch(site.url(path)))
            async with asyncio.timeout(2):
                while path not in site.asked:
                    await asyncio.sleep(0.005)
            fetching.cancel()
            began = time.monotonic()
            with pytest.raises(asyncio.CancelledError):
                await fetching
            await site.idle()
            assert time.monotonic() - began < 1


async def test_a_faulty_setting_is_told_when_it_matters() -> None:
    for tree in ({"allowed_addresses": "x"}, {"allowed_addresses": ["x"]}, {"allowed": []}):
        with pytest.raises(SchemaError) as refused:
            await WebFetcher(tree).fetch("http://example.org/")
        assert refused.value.code == "invalidSetting"


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://Example.ORG", "http://example.org/"),
        ("https://example.org:443/a b".replace(" ", "%20"), "https://example.org/a%20b"),
        ("HTTPS://example.org:8443?q=1#f", "https://example.org:8443/?q=1"),
        ("http://bücher.example/ü", "http://xn--bcher-kva.example/ü"),
        ("http://[::1]:80/", "http://[::1]/"),
        ("http://[2001:DB8:0::1]/", "http://[2001:db8::1]/"),
    ],
)
def test_urls_in_one_form(text, url) -> None:
    assert parse_url(text).url == url


@pytest.mark.parametrize(
    "text",
    ["", "example.org", "//example.org", "file:///etc/passwd", "ftp://a/", "http://", "http://u@a/", "http://u:p@a/",
     "http://a\\@b/", "http://a/\n", "http://a b/", "http://a:x/", "http://a:99999/", "http://a%2eb/", "http://[::1%eth0]/",
     "http://[v1.x]/", "http://℀.example/", "http://a/" + "x" * 9000, "http://" + "a" * 64 + ".example/", "http://-a/"],
)  # fmt: skip
def test_what_is_no_web_address(text) -> None:
    with pytest.raises(ToolError) as refused:
        parse_url(text)
    assert refused.value.code == "badUrl"


@given(st.text(max_size=60))
def test_any_text_is_a_url_or_refused_in_words(text) -> None:
    with contextlib.suppress(ToolError):
        once = parse_url(f"http://{text}")
        assert parse_url(once.url) == once
