"""A fresh home and workspace per test, and clients that never outlive it."""

from pathlib import Path

import pytest
from tests.wire.client import Client


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
    """Start a server; `base_url` names its provider, everything else goes to Client.start."""
    clients: list[Client] = []

    async def connect(base_url: str = "", *, environment=None, **options) -> Client:
        provider = {"TINSMITH_BASE_URL": base_url, "TINSMITH_MODEL": "scripted"} if base_url else {}
        client = Client(home, workspace, **provider, **(environment or {}))
        clients.append(client)
        return await client.start(**options)

    yield connect
    for client in clients:
        await client.kill()
