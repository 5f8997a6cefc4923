"""SIGKILL from outside at any moment, two windows on one store: nothing is lost, doubled or told untruly."""

import asyncio
import os
import random
import shutil
import subprocess

import pytest
from tests.wire.client import RpcError
from tests.wire.crash.judge import Evidence, figures, verdict
from tests.wire.crash.windows import Conversations, Disk, LimitedFiles, Provider, SmallDisk, Window

from tinsmith.demo.server import LoopbackServer

WINDOWS = 2
LONG = [pytest.mark.crash, pytest.mark.timeout(3600)]


@pytest.fixture
def harass(connect, home, workspace, capsys):
    """Let two windows live and die so often, then judge; the figures."""

    async def harass(lives: int, disk: Disk | None = None) -> dict[str, int]:
        seed = random.SystemRandom().randrange(10**9)
        evidence = Evidence(workspace, home / "data" / "store", was_full=disk is not None)
        conversations = Conversations()
        async with LoopbackServer(Provider(evidence, random.Random(seed))) as provider:
            windows = [
                Window(connect, provider.base_url, evidence, conversations, random.Random(seed + number))
                for number in range(1, WINDOWS + 1)
            ]

            async def live(window: Window) -> None:
                for _ in range(lives // WINDOWS):
                    await window.live_and_die(disk)

            async with asyncio.TaskGroup() as group:
                for window in windows:
                    group.create_task(live(window))
            await windows[0].go_on_everywhere()
        found = figures(evidence)
        with capsys.disabled():
            print(f"\n{lives} kills, seed {seed}: {found}")
        assert verdict(evidence) == [], f"seed {seed}"
        return found

    return harass


@pytest.fixture
def small_disk(home):
    """The store's folder on a file system of 8 MB, or with a limit on its files where none can be mounted."""
    folder = home / "data"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    is_mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    yield SmallDisk(folder) if is_mounted else LimitedFiles(folder / "store")
    if is_mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("kills", [20, pytest.param(2400, marks=LONG)])
async def test_killed_at_any_moment_in_two_windows(harass, kills):
    found = await harass(kills)
    assert found["calls done"] > 0
    assert found["calls unknown"] + found["calls not run"] > 0


@pytest.mark.parametrize("kills", [8, pytest.param(400, marks=LONG)])
async def test_a_disk_that_is_full_at_any_moment(harass, small_disk, kills):
    found = await harass(kills, small_disk)
    assert found["accepted"] > 0


@pytest.mark.parametrize("kills", [4, pytest.param(200, marks=LONG)])
async def test_files_that_may_not_grow_at_any_moment(harass, home, kills):
    found = await harass(kills, LimitedFiles(home / "data" / "store"))
    assert found["accepted"] > 0


async def test_a_store_that_cannot_be_written_is_said_and_stays_as_it_is(connect, home):
    client = await connect()
    made = (await client.request("agent/conversationNew", {}))["conversation"]
    await client.kill()
    folder = home / "data"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    bind = ("--dev-bind", "/", "/", "--ro-bind", str(folder), str(folder))
    assert shutil.which("bwrap"), "could not run: bubblewrap makes the folder read-only"
    client = await connect(inside=("bwrap", "--die-with-parent", *bind, "--"))
    said = await client.until(lambda message: message.get("method") == "window/showMessage")
    assert "Read-only file system" in said["params"]["message"]
    assert said["params"]["message"].endswith("Then restart Tinsmith.")
    with pytest.raises(RpcError, match="name another one with TINSMITH_DATA_DIR") as refused:
        await client.request("agent/conversationList", {})
    assert (refused.value.code, refused.value.name) == (-32803, "storeFailed")
    assert await client.stop() == 0
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    client = await connect()
    listed = await client.request("agent/conversationList", {})
    assert [each["conversationId"] for each in listed["conversations"]] == [made["conversationId"]]


async def test_a_server_that_starts_on_a_full_disk_says_so(connect, small_disk, home):
    """LMDB writes to its lock file as memory: without its blocks a full disk would end the process by SIGBUS."""
    if isinstance(small_disk, SmallDisk):
        small_disk.fill(os.getpid(), 0)
        client = await connect()
        said = await client.until(lambda message: message.get("method") == "window/showMessage")
        assert "free some space" in said["params"]["message"]
        assert await client.stop() == 0
        small_disk.free()
    client = await connect()
    assert (await client.request("agent/conversationList", {})) == {"conversations": []}
