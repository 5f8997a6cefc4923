"""The HTTP client against real sockets."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest
from tests.net.site import Reply, Site, Tunnel, self_signed, signed

from tinsmith.demo.server import LoopbackServer, RawAnswer
from tinsmith.domain.errors import AgentError
from tinsmith.net.http import Deadlines, HttpClient, host_of

SOON = Deadlines(connect=2, send=2, head=2)
FOREVER = float("inf")


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    client = HttpClient()
    yield client
    await client.aclose()


@asynccontextmanager
async def opened(http: HttpClient, server: LoopbackServer, deadlines: Deadlines = SOON):
    url = server.base_url + "/chat/completions"
    async with http.stream("POST", url, headers={"x-test": "1"}, body=b"{}", deadlines=deadlines) as response:
        yield response


async def failure(
    http: HttpClient, url: str, headers: dict[str, str] | None = None, deadlines: Deadlines = SOON
) -> AgentError:
    with pytest.raises(AgentError) as failed:
        async with http.stream("GET", url, headers=headers or {}, deadlines=deadlines, advice="Look again."):
            pass
    assert failed.value.message.endswith("Look again.")
    return failed.value


async def test_status_headers_and_chunks(http) -> None:
    async with LoopbackServer(RawAnswer((b"ab", b"cd"), 201, "text/x", {"X-Odd": "1"})) as server:
        async with opened(http, server) as response:
            assert (response.status, response.headers["content-type"], response.headers["x-odd"]) == (
                201,
                "text/x",
                "1",
            )
            assert b"".join([chunk async for chunk in response.chunks()]) == b"abcd"
        (sent,) = server.requests
        assert (sent.method, sent.path, sent.body) == ("POST", "/v1/chat/completions", b"{}")
        assert (sent.headers["x-test"], sent.headers["accept-encoding"]) == ("1", "identity")


async def test_a_server_without_tls(http) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as plain:
        host = f"127.0.0.1:{plain.sockets[0].getsockname()[1]}"
        error = await failure(http, f"https://{host}/v1")
    assert (error.code, error.retryable) == ("connectFailed", False)
    assert f"{host} does not speak TLS" in error.message
    assert "http://" in error.message


async def test_a_certificate_that_nobody_vouches_for(http, tmp_path) -> None:
    context = self_signed(tmp_path, "localhost")
    async with Site(tls=context) as site:
        error = await failure(http, f"https://localhost:{site.port}/")
        assert (error.code, error.retryable) == ("connectFailed", False)
        assert f"The certificate of localhost:{site.port} is not trusted (self-signed certificate)" in error.message
        assert "SSL_CERT_FILE" in error.message
        assert site.asked == []


async def test_an_authority_of_ones_own(http, tmp_path, monkeypatch) -> None:
    context, authority = signed(tmp_path, "localhost")
    async with Site({"/": Reply((b"trusted",))}, tls=context) as site:
        stranger = await failure(http, f"https://localhost:{site.port}/")
        assert "is not trusted" in stranger.message
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        assert await fetched(f"https://localhost:{site.port}/") == b"trusted"


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
async def test_an_authority_that_cannot_be_read(http, tmp_path, monkeypatch, content) -> None:
    file = tmp_path / "authority.pem"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with pytest.raises(AgentError) as failed:
        await fetched("https://localhost:1/")
    assert failed.value.code == "invalidCertificates"
    assert str(file) in failed.value.message


async def test_tls_through_a_proxy(tmp_path, monkeypatch) -> None:
    context, authority = signed(tmp_path, "provider.invalid")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    async with Site({"/v1/models": Reply((b"through",))}, tls=context) as site, Tunnel(site.port) as proxy:
        set_proxy(monkeypatch, "https_proxy", f"http://me:pass-word@127.0.0.1:{proxy.port}")
        assert await fetched("https://provider.invalid/v1/models", {"authorization": "Bearer sk-secret"}) == b"through"
        (head,) = proxy.heads
        assert head.startswith("CONNECT provider.invalid:443 HTTP/1.1\r\n")
        assert "proxy-authorization: basic " in head.lower()
        assert "sk-secret" not in head
        assert "authorization: Bearer sk-secret" in site.heads[0]
        assert "proxy-authorization" not in site.heads[0].lower()


async def test_hosts_that_are_excepted_from_the_proxy(tmp_path, monkeypatch) -> None:
    async with LoopbackServer() as proxy:
        set_proxy(monkeypatch, "http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", ".example, provider.invalid")
        with pytest.raises(AgentError) as failed:
            await fetched("http://provider.invalid/")
        assert failed.value.code == "connectFailed"
        assert "proxy" not in failed.value.message
        assert proxy.requests == []


async def test_a_proxy_that_is_not_there_is_named_without_its_password(http, monkeypatch) -> None:
    async with LoopbackServer() as gone:
        pass
    set_proxy(monkeypatch, "http_proxy", f"http://me:pass-word@127.0.0.1:{gone.port}")
    with pytest.raises(AgentError) as failed:
        await fetched("http://provider.invalid/")
    assert failed.value.code == "connectFailed"
    assert failed.value.message.endswith(
        f" The way goes through the proxy at 127.0.0.1:{gone.port} (HTTPS_PROXY, HTTP_PROXY, NO_PROXY)."
    )
    assert "pass-word" not in failed.value.message


@pytest.mark.parametrize(
    ("proxy", "says"),
    [
        ("socks5://me:pass-word@h:1", "socksio"),
        ("ftp://me:pass-word@h", "http://proxy:3128"),
        ("http://[::1", "Set it"),
    ],
)
async def test_a_proxy_that_cannot_be_used(monkeypatch, proxy, says) -> None:
    set_proxy(monkeypatch, "https_proxy", proxy)
    with pytest.raises(AgentError) as failed:
        await fetched("https://provider.invalid/")
    assert failed.value.code == "invalidProxy"
    assert says in failed.value.message
    assert "pass-word" not in failed.value.message


async def fetched(url: str, headers: dict[str, str] | None = None) -> bytes:
    """The body at this address, by a client that looks at the environment as it is now."""
    client = HttpClient()
    try:
        async with client.stream("GET", url, headers=headers or {}, deadlines=SOON) as response:
            return await response.read(100)
    finally:
        await client.aclose()


def set_proxy(monkeypatch, name: str, value: str) -> None:
    for kind in ("http", "https", "all", "no"):
        for variable in (f"{kind}_proxy", f"{kind}_PROXY".upper()):
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(name, value)


async def test_a_body_read_to_its_end_keeps_the_connection(http) -> None:
    async with LoopbackServer(RawAnswer((b"ab", b"cd"))) as server:
        for _ in range(5):
            async with opened(http, server) as response:
                assert await response.read(100) == b"abcd"
        assert (server.connections, len(server.requests)) == (1, 5)


async def test_a_body_left_early_closes_the_connection(http) -> None:
    async with LoopbackServer(RawAnswer((b"ab", FOREVER)), RawAnswer()) as server:
        async with opened(http, server) as response, aclosing(response.chunks()) as chunks:
            assert await anext(chunks) == b"ab"
        async with asyncio.timeout(2):
            while server.abandoned == 0:
                await asyncio.sleep(0.005)
        async with opened(http, server) as response:
            assert await response.read(10) == b""
        assert server.connections == 2


async def test_no_more_than_the_limit_is_read(http) -> None:
    async with LoopbackServer(RawAnswer((b"abcdef", FOREVER))) as server, opened(http, server) as response:
        assert await response.read(4) == b"abcd"


async def test_a_broken_body(http) -> None:
    async with LoopbackServer(RawAnswer((b"ab",), is_cut=True)) as server, opened(http, server) as response:
        with pytest.raises(AgentError) as failed:
            await response.read(100)
    assert (failed.value.code, failed.value.retryable) == ("streamInterrupted", True)


async def test_silence_until_the_deadline(http) -> None:
    async with LoopbackServer(RawAnswer((FOREVER,), is_silent=True)) as server:
        with pytest.raises(AgentError) as failed:
            async with opened(http, server, Deadlines(2, 2, 0.1)):
                pass
        assert (failed.value.code, failed.value.retryable) == ("timeout", True)
        assert "0.1 s" in failed.value.message


async def test_nobody_there(http) -> None:
    async with LoopbackServer() as server:
        pass
    error = await failure(http, server.base_url)
    assert (error.code, error.retryable) == ("connectFailed", True)
    assert f"127.0.0.1:{server.port}" in error.message


@pytest.mark.parametrize("url", ["ftp://host/x", "no url", "http://", "http://[::1/x", "http://a\x00b/"])
async def test_what_is_no_address(http, url) -> None:
    assert (await failure(http, url)).code == "invalidUrl"


async def test_a_header_that_cannot_be_sent_is_not_shown(http) -> None:
    async with LoopbackServer() as server:
        error = await failure(http, server.base_url, {"authorization": "Bearer sk-sec\nret"})
        assert server.requests == []
    assert error.code == "invalidRequest"
    assert "sk-sec" not in error.message


async def test_a_proxy_of_the_environment_is_not_asked_for_loopback(http, monkeypatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with LoopbackServer(RawAnswer((b"direct",))) as server, opened(http, server) as response:
        assert await response.read(10) == b"direct"


async def test_a_proxy_of_the_environment_is_asked_for_others(http, monkeypatch) -> None:
    async with LoopbackServer() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        async with http.stream("GET", "http://provider.invalid/x", headers={}, deadlines=SOON) as response:
            assert response.status == 404
        assert [request.headers["host"] for request in proxy.requests] == ["provider.invalid"]


async def test_the_client_is_made_once_and_not_on_the_loops_thread(monkeypatch) -> None:
    makers: list[threading.Thread] = []
    from tinsmith.net import http as module

    make = module._make_client

    def watched():
        makers.append(threading.current_thread())
        return make()

    monkeypatch.setattr(module, "_make_client", watched)
    http = HttpClient()
    async with LoopbackServer(RawAnswer()) as server, asyncio.TaskGroup() as group:

        async def ask() -> None:
            async with opened(http, server) as response:
                await response.read(1)

        for _ in range(3):
            group.create_task(ask())
    await http.aclose()
    assert len(makers) == 1
    assert makers[0] is not threading.main_thread()


async def test_a_client_that_was_never_used_can_be_closed() -> None:
    await HttpClient().aclose()


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://user:secret@h:8/p?key=1", "h:8"),
        ("http://h", "h"),
        ("nonsense", "the server"),
        ("http://[::1", "the server"),
    ],
)
def test_the_host_that_a_message_names(url: str, host: str) -> None:
    assert host_of(url) == host
