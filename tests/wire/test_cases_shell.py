"""Commands as they went wrong in the field (SH-…), through the server: what the model is told, what is left behind."""

import asyncio
import os
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.wire.client import Client

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import Call, ScriptedModel, reply

pytestmark = pytest.mark.asyncio(loop_scope="module")

STOPPED = "note: 1 background process(es) still ran when the command ended and were stopped\n"
ESCAPES = "(setsid nohup sleep 60 >/dev/null 2>&1 &); echo done"
STUBBORN = "trap '' TERM; sleep 3; touch canary"


class Ran(NamedTuple):
    """What the model was told of a command, the seconds it took, and how its card ended."""

    result: str
    seconds: float
    status: str


def bash(command: str, **arguments):
    return reply(Call("bash", {"command": command, **arguments}))


def ended_call(talk) -> Ran:
    """The one call of a talk."""
    begun, ended = talk.events("toolUpdated")[-2:]
    assert begun["status"] == "running"
    return Ran(ended["result"], (ended["ts"] - begun["ts"]) / 1000, ended["status"])


@pytest.fixture
def run(open_talk):
    """Let the model run one command in the workspace."""

    async def run(command: str, **arguments) -> Ran:
        async with open_talk(ScriptedModel([bash(command, **arguments), reply("I see.")])) as talk:
            assert (await talk.say("run it"))["outcome"] == "completed"
            assert talk.results == [ended_call(talk).result]
            return ended_call(talk)

    return run


def running_in(folder: Path) -> list[str]:
    """What runs in the folder, or below it."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if Path(os.readlink(entry / "cwd")).is_relative_to(folder):
                    found.append((entry / "cmdline").read_bytes().decode())
            except OSError:
                continue
    return found


@pytest.mark.parametrize(
    ("command", "result", "status"),
    [
        ("true", "exit: 0\n(no output)", "completed"),  # SH-18
        ("false", "exit: 1\n(no output)", "failed"),
        ("false | cat", "exit: 0\n(no output)", "completed"),  # SH-22
        ("set -o pipefail; false | cat", "exit: 1\n(no output)", "failed"),
        ("exit 300", "exit: 44\n(no output)", "failed"),
        ("printf 'ok \\344\\366 \\360\\n'; exit 4", "exit: 4\nok \ufffd\ufffd \ufffd\n", "failed"),  # SH-11
        ("echo before; kill -9 $$", "exit: 137 (killed by signal 9, SIGKILL)\nbefore\n", "failed"),  # SH-13
        ("echo before; kill -TERM $$", "exit: 143 (killed by signal 15, SIGTERM)\nbefore\n", "failed"),
        (  # SH-20
            r"printf '\033[31mred\033[0m\033]0;title\007\n10%%\r55%%\r100%%\n'",
            "exit: 0\nred\n100%\n",
            "completed",
        ),
    ],
)
async def test_what_the_model_is_told(run, command, result, status):
    ran = await run(command)
    assert (ran.result, ran.status) == (result, status)
    assert ran.seconds < 2


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("sleep 60 & echo done", f"exit: 0\n{STOPPED}done\n"),
        ("sleep 60 >/dev/null 2>&1 & echo done", f"exit: 0\n{STOPPED}done\n"),
        ("setsid sleep 60 & echo done", f"exit: 0\n{STOPPED}done\n"),
        (ESCAPES, f"exit: 0\n{STOPPED}done\n"),
    ],
    ids=["holds the pipe", "silent", "own session", "double fork"],
)
async def test_sh_01_background_children_end_with_the_call(run, workspace, command, result):
    ran = await run(command)
    assert (ran.result, ran.status) == (result, "completed")
    assert ran.seconds < 2
    assert running_in(workspace) == []


async def test_sh_01_a_child_that_ignores_the_request_to_end_is_killed(run, workspace):
    ran = await run("sh -c \"trap '' TERM HUP; echo done; exec sleep 60\" & sleep 0.1")
    assert (ran.result, ran.status) == (f"exit: 0\n{STOPPED}done\n", "completed")
    assert ran.seconds < 3
    assert running_in(workspace) == []


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_sh_01_no_child_escapes_while_the_machine_is_busy(open_talk, workspace):
    """Processes that fork, exec and lose their parent while somebody looks for them."""
    script = [reply(*[Call("bash", {"command": ESCAPES})] * 32), reply("Fine.")] * 10
    busy = ["sh", "-c", "while :; do python3 -S -c 0; done"]
    others = [await asyncio.create_subprocess_exec(*busy) for _ in range(4)]
    try:
        async with open_talk(ScriptedModel(script)) as talk:
            talk.client.deadline = 120.0  # 32 commands a turn, on a machine that has no time
            for _ in range(10):
                assert (await talk.say("run them"))["outcome"] == "completed"
            assert {*talk.results} == {f"exit: 0\n{STOPPED}done\n"}
            assert running_in(workspace) == []
    finally:
        for each in others:
            each.kill()
            await each.wait()


@pytest.mark.parametrize("command", ['sh -c "sleep 3; touch canary" & wait', STUBBORN, f'setsid -w sh -c "{STUBBORN}"'])
async def test_sh_04_a_timeout_ends_grandchildren_too(run, workspace, command):
    ran = await run(command, timeout_s=0.3)
    assert (ran.result, ran.status) == ("timed out after 0.3 s\n(no output)", "failed")
    assert 0.3 <= ran.seconds < 1.8
    assert (running_in(workspace), [*workspace.iterdir()]) == ([], [])


@pytest.mark.parametrize("command", ['sh -c "sleep 3; touch canary" & wait', STUBBORN, f'setsid -w sh -c "{STUBBORN}"'])
async def test_sh_04_a_cancel_ends_grandchildren_too(open_talk, server, workspace, command):
    async with open_talk(ScriptedModel([bash(f"echo begun; {command}"), reply("Fine.")])) as talk:
        turn_id = await talk.begin("run it")
        await talk.event("toolOutput")
        assert await server.request("agent/cancel", {"turnId": turn_id}) == {"state": "cancelling"}
        asked = asyncio.get_running_loop().time()
        assert (await talk.end(turn_id))["outcome"] == "cancelled"
        assert asyncio.get_running_loop().time() - asked < 2
        assert (running_in(workspace), [*workspace.iterdir()]) == ([], [])
        assert ended_call(talk)[::2] == ("cancelled\nbegun\n", "cancelled")
        assert (await talk.say("go on"))["outcome"] == "completed"
        assert talk.results == ["cancelled\nbegun\n"]


async def test_sh_06_a_command_gets_the_end_of_input_and_no_byte_of_ours(open_talk, server):
    """`grep` without a file reads its input, as `rg` does; other requests are answered while all this runs."""
    command = "cat; python3 -c 'input()' 2>&1 | tail -1; grep x; touch begun; sleep 0.3; cat; echo end"
    async with open_talk(ScriptedModel([bash(command), reply("Fine.")])) as talk:
        turn_id = await talk.begin("run it")
        await server.poll((talk.folder / "begun").exists)
        for _ in range(20):
            assert (await server.request("agent/configGet", {"path": "permission_mode"}))["values"]
        assert talk.events("turnEnded") == []
        await talk.end(turn_id)
    ran = ended_call(talk)
    assert ran.result == "exit: 0\nEOFError: EOF when reading a line\nend\n"
    assert ran.seconds < 2


def peak_bytes(client: Client) -> int:
    """The most memory the server's process ever had."""
    status = Path(f"/proc/{client.process.pid}/status").read_text()
    return int(re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)[1]) * 1024


@pytest.mark.parametrize("seconds", [0.5, pytest.param(5, marks=pytest.mark.long)])
async def test_sh_08_endless_output_takes_no_memory(run, server, seconds):
    await run("true")
    before = peak_bytes(server)
    ran = await run("yes", timeout_s=seconds)
    assert peak_bytes(server) - before < 50_000_000
    assert seconds <= ran.seconds < seconds + 1.5
    first, note, *_ = ran.result.split("\n")
    assert first == f"timed out after {seconds} s"
    assert re.match(r"note: the (whole|beginning of the) output is in \S+; read it in pages$", note)
    assert re.search(r"^\[.*left out.*\]$", ran.result, re.MULTILINE)
    assert len(ran.result) <= 20_000


async def test_sh_10_head_and_tail_are_kept(run):
    ran = await run('echo HEAD; seq 1 200000; echo "fatal: the reason" >&2; exit 3')
    assert ran.result.startswith("exit: 3\nnote: the whole output is in ")
    assert "\nHEAD\n1\n2\n" in ran.result
    assert ran.result.endswith("200000\nfatal: the reason\n")
    gap = re.search(r"^\[\.\.\. ([\d,]+) lines left out here, of 200,002 lines ", ran.result, re.MULTILINE)
    shown = len(re.findall(r"^\d+$", ran.result, re.MULTILINE))
    assert int(gap[1].replace(",", "")) == 200_000 - shown
    assert len(ran.result) <= 20_000


async def test_sh_14_a_directory_that_is_gone_is_named(open_talk, workspace):
    """The call in it fails in words, and the next call works."""
    (workspace / "sub").mkdir()
    script = [bash("pwd; rmdir ../sub", cwd="sub"), bash("echo hi", cwd="sub"), bash("echo hi"), reply("I see.")]
    async with open_talk(ScriptedModel(script)) as talk:
        assert (await talk.say())["outcome"] == "completed"
        first, second, third = talk.results
    assert (first, third) == (f"exit: 0\n{workspace}/sub\n", "exit: 0\nhi\n")
    assert f"There is no directory {workspace}/sub" in second


async def test_sh_19_much_on_stderr_does_not_block(run):
    ran = await run("python3 -c \"import sys; sys.stderr.write('e' * 1_000_000); print('out')\"")
    assert ran.result.startswith("exit: 0\n")
    assert "eeee" in ran.result
    assert ran.result.endswith("out\n")
    assert ran.seconds < 3


KEYS = {"OPENAI_API_KEY": "sk-test", "MY_LLM_KEY": "k-test", "LLM_API_KEY": "key-of-a-provider-17", "HARMLESS": "seen"}


@pytest.mark.asyncio(loop_scope="function")
async def test_sh_16_no_command_inherits_a_key(home, workspace):
    """Neither the usual variables nor the configured one reach a command; what a command needs does."""
    settings = {"permission_mode": "full", "llm_config": {"api_key_env": "MY_LLM_KEY"}}
    script = ScriptedModel([bash("env"), reply("I see.")])
    async with LoopbackServer(script) as provider:
        named = {"TINSMITH_BASE_URL": provider.base_url, "TINSMITH_MODEL": "scripted"}
        client = Client(home, workspace, **KEYS, **named)
        try:
            await client.start(initializationOptions={"settings": settings})
            assert (await client.turn("what is set?"))["outcome"] == "completed"
            assert await client.stop() == 0
        finally:
            await client.kill()
    result = script.requests[-1].messages[-1].content
    assert "HARMLESS=seen\n" in result
    assert f"HOME={home}\n" in result
    assert f"PATH={os.environ['PATH']}\n" in result
    asked = [request for request in provider.requests if request.method == "POST"]
    assert {request.headers["authorization"] for request in asked} == {"Bearer k-test"}
    log = await client.process.stderr.read()
    kept = [path.read_bytes() for path in home.rglob("*") if path.is_file()]
    sent = [str(client.received).encode(), *(request.body for request in asked)]
    for place in (log, *kept, *sent):
        for value in (KEYS["OPENAI_API_KEY"], KEYS["MY_LLM_KEY"], KEYS["LLM_API_KEY"]):
            assert value.encode() not in place
