"""A fresh home and workspace per test, and clients that never outlive it; one server for many talks of a module."""

from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from tests.wire.client import Client
from tests.wire.talk import Talk

from tinsmith.demo.server import LoopbackServer


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    return made


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    made.mkdir()
    return made


@pytest.fixture
async def connect(home, workspace):
    """Start a server, maybe `inside` a command; `base_url` names its provider, what is left goes to Client.start."""
    clients: list[Client] = []

    async def connect(base_url: str = "", *, environment=None, inside=(), **options) -> Client:
        provider = {"TINSMITH_BASE_URL": base_url, "TINSMITH_MODEL": "scripted"} if base_url else {}
        client = Client(home, workspace, inside=inside, **provider, **(environment or {}))
        clients.append(client)
        return await client.start(**options)

    yield connect
    for client in clients:
        await client.kill()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory):
    """A server that every talk of a module shares; at the end it must say goodbye as one."""
    folder = tmp_path_factory.mktemp("shared")
    client = Client(folder, folder)
    try:
        yield await client.start()
        assert await client.stop() == 0
    finally:
        await client.kill()


@pytest.fixture
def open_talk(server, workspace):
    """Open a conversation of the shared server in the test's own workspace, with a provider of these answers."""

    @asynccontextmanager
    async def open_talk(*answers):
        async with LoopbackServer(*answers) as provider:
            params = {"workspace": workspace.as_uri()}
            made = await server.request("agent/conversationNew", params)
            yield Talk(server, provider, workspace, made["conversation"]["conversationId"])

    return open_talk
