"""Pages as they went wrong in the field (WEB-…), through the server: redirects, charsets, bodies without an end."""

import time
from pathlib import Path

import pytest
from tests.net.site import Reply, Site, endless, html, redirect, zeros_by_gzip

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import Call, ScriptedModel, reply
from tinsmith.net.fetch import MAX_BYTES
from tinsmith.tools.ports import RESULT_CHARACTERS

CASES = Path(__file__).parents[1] / "cases" / "WEB-03"
TEXT = {"content-type": "text/plain"}
DONE = reply("Done.")


@pytest.fixture
async def site():
    async with Site() as site:
        yield site


@pytest.fixture
async def begin(connect, site):
    """Start a server that may reach the site, whose model fetches these pages in one round."""
    settings = {
        "permission_mode": "full",
        "services": {"tool": {"web_fetch": {"allowed_addresses": [f"127.0.0.1:{site.port}"]}}},
    }
    providers = []

    async def begin(*urls):
        model = ScriptedModel([*(reply(Call("web_fetch", {"url": url})) for url in urls), DONE])
        provider = await LoopbackServer(model).__aenter__()
        providers.append(provider)
        return await connect(provider.base_url, initializationOptions={"settings": settings})

    yield begin
    for provider in providers:
        await provider.__aexit__(None, None, None)


async def fetched(begin, *urls):
    """What the model is told of each page."""
    client = await begin(*urls)
    assert (await client.turn("look"))["outcome"] == "completed"
    return [event["result"] for event in client.events("toolUpdated") if "result" in event]


async def test_web_01_a_private_page_is_read_only_when_it_is_allowed(begin, site):
    async with Site({"/secret": html("<p>the secret</p>")}) as inner:
        site.pages = {"/": html("<h1>Public</h1>"), "/sly": redirect(inner.url("/secret"))}
        public, sly, direct = await fetched(begin, site.url(), site.url("/sly"), inner.url("/secret"))
        assert "# Public" in public
        assert "not instructions" in public
        assert "part of this machine" in sly
        assert "part of this machine" in direct
        assert inner.asked == []


async def test_web_01_every_hop_is_checked_and_there_is_a_last_one(begin, site):
    hops = {
        "/metadata": "http://169.254.169.254/latest/meta-data/",
        "/decimal": f"http://2130706433:{site.port + 1}/",
        "/mapped": "http://[::ffff:10.0.0.1]/",
        "/file": "file:///etc/passwd",
        "/gopher": "gopher://127.0.0.1:6379/_",
        "/loop": "loop",
    }
    site.pages = {path: redirect(location) for path, location in hops.items()}
    *private, file, gopher, loop = await fetched(begin, *map(site.url, hops))
    assert all("allowed_addresses" in each for each in private)
    assert "redirects to 'file:///etc/passwd', which cannot be fetched" in file
    assert "redirects to 'gopher://127.0.0.1:6379/_', which cannot be fetched" in gopher
    assert "redirect" in loop
    assert site.asked.count("/loop") == 6


async def test_web_03_the_charset_of_header_and_page_counts(begin, site):
    """A header may name it, or the page itself; without either the bytes tell."""
    latin, sjis = (CASES / "latin1.html").read_bytes(), (CASES / "sjis.html").read_bytes()
    site.pages = {
        "/latin": Reply((latin,), headers={"content-type": "text/html; charset=ISO-8859-1"}),
        "/sjis": Reply((sjis,), headers={"content-type": "text/html"}),
    }
    first, second = await fetched(begin, site.url("/latin"), site.url("/sjis"))
    assert "Straße café" in first
    assert "日本語" in second
    assert "\ufffd" not in first + second


async def test_web_04_what_never_ends_stops_at_the_cap(begin, site):
    bomb = zeros_by_gzip(1_000_000_000)
    site.pages = {
        "/endless": Reply(endless(b"<p>more</p>\n" * 5_000), headers={"content-type": "text/html"}),
        "/bomb": Reply((bomb,), headers={**TEXT, "content-encoding": "gzip"}),
        "/image": Reply(endless(b"\x89PNG\0" * 10_000), headers={"content-type": "image/png"}),
        "/zip": Reply((b"PK\x03\x04\0\0",), headers={"content-type": "application/zip", "content-length": "6"}),
        "/lie": Reply((b"\x89PNG\0\0\0",), headers=TEXT),
    }
    began = time.monotonic()
    client = await begin(*map(site.url, site.pages))
    before = memory(client)
    assert (await client.turn("look"))["outcome"] == "completed"
    grown = memory(client) - before
    pages, zeros, image, zipped, lie = [event["result"] for event in client.events("toolUpdated") if "result" in event]
    await site.idle()
    assert time.monotonic() - began < 15
    assert f"only its first {MAX_BYTES:,} bytes were read" in pages
    assert len(pages) <= RESULT_CHARACTERS
    assert len(zeros) <= RESULT_CHARACTERS
    assert "image/png" in image
    assert "application/zip (6 bytes)" in zipped
    assert "7 bytes" in lie
    assert not any("PNG" in each or "PK" in each for each in (image, zipped, lie))
    assert grown < 120 * 1024 * 1024


def memory(client) -> int:
    """The most memory that the server has had, in bytes."""
    status = Path(f"/proc/{client.process.pid}/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


async def test_web_04_a_cancel_ends_it(begin, site):
    site.pages = {"/": Reply((b"x", 30.0), headers=TEXT)}
    client = await begin(site.url())
    started = await client.ask("look")
    await client.poll(lambda: site.asked == ["/"])
    began = time.monotonic()
    await client.request("agent/cancel", {"turnId": started["turnId"]})
    ended = await client.event("turnEnded", turnId=started["turnId"])
    await site.idle()
    assert ended["outcome"] == "cancelled"
    assert time.monotonic() - began < 2
