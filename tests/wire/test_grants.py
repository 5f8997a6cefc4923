"""A command that its sandbox stopped, through the server: the card, both answers, a cancel, and nobody to ask."""

import asyncio
import json
import os
import re
import shutil
import socket
import sys
import tempfile
from pathlib import Path

import pytest
from tests.conftest import MISSING
from tests.wire.client import AGENT

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import Call, ScriptedModel, reply

HAS_BUBBLEWRAP = shutil.which("bwrap") is not None
if not HAS_BUBBLEWRAP:
    MISSING["tests of what a command is granted"] = "no bubblewrap here (apt-get install bubblewrap)"

FIRST = "[the first run, after which the user allowed more and had it run again:]"
MODES = ("ask", "edits", "full")


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def outside():
    """A folder that the sandbox has no private one over, as it has over /tmp."""
    with tempfile.TemporaryDirectory(prefix="tinsmith-", dir="/var/tmp") as folder:
        yield Path(folder)


def script(port: int, **arguments) -> ScriptedModel:
    command = (
        f"echo x >> ran; exec 3<>/dev/tcp/127.0.0.1/{port} || {{ echo Network is unreachable; exit 7; }}; echo got"
    )
    return ScriptedModel([reply(Call("bash", {"command": command, **arguments})), reply("I see.")])


async def open_client(connect, provider, mode, *, agent=AGENT):
    settings = {"initializationOptions": {"settings": {"permission_mode": mode}}}
    return await connect(provider.base_url, agent=agent, **settings)


def of_calls(client) -> list[tuple[str, str]]:
    """What the call's card showed, one after the other: its status, and how the title begins."""
    beginnings = re.compile(r"Run again with network:|Run |$")
    shown = [(event["status"], event.get("title", "")) for event in client.events("toolUpdated")]
    return [(status, beginnings.match(title)[0]) for status, title in shown]


if HAS_BUBBLEWRAP:

    async def test_a_command_that_had_no_network_runs_again_with_it(connect, workspace, listener):
        model = script(listener)
        async with LoopbackServer(model) as provider:
            client = await open_client(connect, provider, "full")
            asked = []
            client.answers["agent/requestPermission"] = lambda params: (
                asked.append(params) or {"optionId": "allow_once"}
            )
            assert (await client.turn("go"))["outcome"] == "completed"
        (card,) = asked
        assert card["title"].startswith("Run again with network: echo x >> ran")
        assert card["subject"]["sandbox"] == "bubblewrap, with network"
        account, meaning = card["notes"]
        assert account.startswith("It ended with exit 7 after ")
        assert account.endswith("What it had done until then stays, and running it again does it again.")
        assert "169.254.169.254" in meaning
        rules = [option["rule"] for option in card["options"] if "rule" in option]
        assert [rule.endswith(") with network") for rule in rules] == [True, True]
        assert of_calls(client) == [
            ("pending", ""),
            ("running", "Run "),
            ("awaitingApproval", "Run "),
            ("running", "Run again with network:"),
            ("completed", "Run again with network:"),
        ]
        second, first = model.requests[-1].messages[-1].content.split(FIRST)
        assert second == "exit: 0\ngot\n\n"
        assert first.startswith("\nexit: 7\nnote: the sandbox may have stopped this (network)\n")
        assert (workspace / "ran").read_text() == "x\nx\n"

    async def test_a_deny_is_the_result_of_the_first_run(connect, workspace, listener):
        model = script(listener)
        async with LoopbackServer(model) as provider:
            client = await open_client(connect, provider, "full")
            client.answers["agent/requestPermission"] = lambda _: {"optionId": "deny", "feedback": "work offline"}
            assert (await client.turn("go"))["outcome"] == "completed"
        result = model.requests[-1].messages[-1].content
        assert result.startswith("exit: 7\nnote: the sandbox may have stopped this (network)\n")
        assert result.endswith("The user declined this call and said: work offline\n")
        assert client.events("toolUpdated")[-1]["mutationState"] == "attempted"
        assert (workspace / "ran").read_text() == "x\n"

    @pytest.mark.parametrize("mode", MODES)
    async def test_what_the_model_asks_for_itself_is_asked_before(connect, workspace, listener, mode):
        model = script(listener, grant="network")
        async with LoopbackServer(model) as provider:
            client = await open_client(connect, provider, mode)
            asked = []
            client.answers["agent/requestPermission"] = lambda params: (
                asked.append((params, [*workspace.iterdir()])) or {"optionId": "allow_once"}
            )
            assert (await client.turn("go"))["outcome"] == "completed"
        ((card, there),) = asked
        assert card["title"].startswith("Run with network: ")
        assert (there, len(card["notes"])) == ([], 1)
        assert model.requests[-1].messages[-1].content == "exit: 0\ngot\n"
        assert (workspace / "ran").read_text() == "x\n"

    async def test_a_denied_write_is_offered_without_the_sandbox(connect, outside):
        command = f"echo x > {outside}/file"
        model = ScriptedModel([reply(Call("bash", {"command": command})), reply("I see.")])
        async with LoopbackServer(model) as provider:
            client = await open_client(connect, provider, "full")
            titles = []
            client.answers["agent/requestPermission"] = lambda params: (
                titles.append(params["title"]) or {"optionId": "allow_once"}
            )
            assert (await client.turn("go"))["outcome"] == "completed"
        assert titles == [f"Run again without the sandbox, with network: {command}"]
        assert (outside / "file").read_text() == "x\n"

    async def test_a_cancel_while_the_card_is_open(connect, workspace, listener):
        async with LoopbackServer(script(listener)) as provider:
            client = await open_client(connect, provider, "full")
            started = await client.ask("go")
            await client.until(lambda message: message.get("method") == "agent/requestPermission")
            await client.request("agent/cancel", {"turnId": started["turnId"]})
            assert (await client.event("turnEnded", turnId=started["turnId"]))["outcome"] == "cancelled"
        ended = client.events("toolUpdated")[-1]
        assert (ended["status"], ended["mutationState"]) == ("cancelled", "attempted")
        assert ended["result"].startswith("exit: 7\n")
        assert ended["result"].endswith("The user stopped it.\n")
        assert client.events("permissionResolved")[-1]["outcome"] == "cancelled"
        assert (workspace / "ran").read_text() == "x\n"

    async def test_killed_while_the_card_is_open_the_call_had_begun(connect, workspace, listener):
        model = script(listener)
        async with LoopbackServer(model) as provider:
            client = await open_client(connect, provider, "full")
            started = await client.ask("go")
            await client.until(lambda message: message.get("method") == "agent/requestPermission")
            await client.kill()
            client = await open_client(connect, provider, "full")
            await client.turn("go on", conversationId=started["conversationId"])
        result = model.requests[-1].messages[2].content
        assert result.startswith("Interrupted: this call had begun when the process ended")
        assert (workspace / "ran").read_text() == "x\n"

    async def test_with_nobody_to_ask_there_is_no_card(home, workspace, listener):
        model = script(listener)
        folders = {f"TINSMITH_{kind}_DIR": str(home / kind.lower()) for kind in ("DATA", "CONFIG", "CACHE")}
        async with LoopbackServer(model) as provider:
            options = ("--base-url", provider.base_url, "--model", "x", "--permission-mode", "full", "--json")
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tinsmith", "run", *options, "go"),
                stdout=asyncio.subprocess.PIPE,
                cwd=workspace,
                env={"PATH": os.environ["PATH"], "HOME": str(home), **folders},
            )
            output, _ = await process.communicate()
        events = [json.loads(line) for line in output.splitlines()]
        assert (process.returncode, events[-1]["outcome"]) == (0, "completed")
        statuses = [event["status"] for event in events if event["type"] == "toolUpdated"]
        assert statuses == ["pending", "running", "failed"]
        assert "nobody is there to be asked" in model.requests[-1].messages[-1].content
        assert (workspace / "ran").read_text() == "x\n"

    async def test_an_editor_without_our_plug_in_is_asked_in_a_message(connect, workspace, listener):
        model = script(listener)
        async with LoopbackServer(model) as provider:
            client = await open_client(connect, provider, "full", agent=None)
            client.answers["window/showDocument"] = lambda _: {"success": True}
            shown = []
            client.answers["window/showMessageRequest"] = lambda params: (
                shown.append(params["message"]) or {"title": "Allow once"}
            )
            await client.request("workspace/executeCommand", {"command": "tinsmith.ask", "arguments": ["go"]})
            await client.until(lambda message: message.get("method") == "window/showMessage")
        (message,) = shown
        assert "Run again with network" in message
        assert "running it again does it again" in message
        assert "169.254.169.254" in message
        assert (workspace / "ran").read_text() == "x\nx\n"
