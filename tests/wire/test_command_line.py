"""The command line as a person and a script use it: exit codes, what is printed where, and nothing else."""

import asyncio
import json
import os
import signal
import sys

import pytest

from tinsmith.demo.server import LoopbackServer, RawAnswer
from tinsmith.llm.scripted import Call, ScriptedModel, Wait, reply


@pytest.fixture
def tinsmith(home, workspace):
    """Run a command in the workspace with a home of its own: exit code, output, errors."""

    async def start(*arguments, **environment):
        names = {f"TINSMITH_{kind}_DIR": str(home / kind.lower()) for kind in ("DATA", "CONFIG", "CACHE")}
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tinsmith",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=workspace,
            env={"PATH": os.environ["PATH"], "HOME": str(home), **names, **environment},
        )

    async def run(*arguments, stdin=b"", **environment):
        process = await start(*arguments, **environment)
        output, errors = await process.communicate(stdin)
        return process.returncode, output.decode(), errors.decode()

    run.start = start
    return run


async def test_run_prints_what_a_person_reads(tinsmith, workspace):
    (workspace / "a.py").write_text("x = 1\n")
    model = ScriptedModel([reply("Let me look. ", Call("read", {"path": "a.py"})), reply("x is 1.")])
    async with LoopbackServer(model) as provider:
        code, output, errors = await tinsmith("run", "--base-url", provider.base_url, "--model", "x", "what is x?")
    assert (code, errors) == (0, "")
    assert output == "Let me look. \n✓ Read a.py\nx is 1.\n"


async def test_run_json_prints_the_events_and_the_end_last(tinsmith):
    async with LoopbackServer(ScriptedModel([reply("Hello.")])) as provider:
        code, output, errors = await tinsmith(
            "run", "--base-url", provider.base_url, "--model", "x", "--json", "-", stdin=b"hi there\n"
        )
    assert (code, errors) == (0, "")
    events = [json.loads(line) for line in output.splitlines()]
    assert events[0]["type"] == "turnStarted"
    assert events[0]["text"].strip() == "hi there"
    assert (events[-1]["type"], events[-1]["outcome"]) == ("turnEnded", "completed")
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))


async def test_a_conversation_is_gone_on_with(tinsmith):
    model = ScriptedModel([reply("One."), reply("Two.")])
    async with LoopbackServer(model) as provider:
        first = ("run", "--base-url", provider.base_url, "--model", "x", "--json")
        _, output, _ = await tinsmith(*first, "one")
        identifier = json.loads(output.splitlines()[0])["conversationId"]
        code, _, _ = await tinsmith(*first, "--conversation", identifier, "two")
    assert code == 0
    assert [message.text for message in model.requests[1].messages] == ["one", "One.", "two"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, "usage: tinsmith"),
        (("run",), 2, "TEXT"),
        (("run", " "), 2, "the text is empty"),
        (("run", "--workspace", "/nowhere", "hi"), 2, "there is no directory /nowhere"),
        (("run", "--set", "nothing", "hi"), 2, "is not PATH=VALUE"),
        (("run", "--set", "defualt_model=x", "hi"), 2, "did you mean `default_model`?"),
        (("run", "--set", "tool_step_budget=-1", "hi"), 2, "tool_step_budget"),
        (("run", "--permission-mode", "yolo", "hi"), 2, "invalid choice"),
        (("run", "--model", "x", "--role", "worker", "hi"), 2, "role"),
        (("run", "--model", "x", "--conversation", "nobody", "hi"), 2, "There is no conversation nobody"),
        (("run", "hi"), 1, "No model is configured"),
        (("run", "--model", "x", "hi"), 1, "llm_config.base_url"),
        (("doctor",), 1, "No model is configured"),
    ],
)
async def test_what_cannot_run_says_why_without_a_traceback(tinsmith, arguments, code, says):
    found, output, errors = await tinsmith(*arguments)
    assert found == code
    assert says in output + errors
    assert "Traceback" not in errors


async def test_the_budget_has_an_exit_code_of_its_own(tinsmith):
    script = [reply(Call("read", {"path": "."})), reply(Call("read", {"path": "."}))]
    async with LoopbackServer(ScriptedModel(script)) as provider:
        code, _, errors = await tinsmith(
            "run", "--base-url", provider.base_url, "--model", "x", "--set", "tool_step_budget=1", "hi"
        )
    assert code == 3
    assert "budget of 1 tool calls" in errors


async def test_a_provider_that_refuses_is_an_error_in_words(tinsmith):
    refusal = RawAnswer((b'{"error": {"message": "bad key"}}',), 401, "application/json")
    async with LoopbackServer(refusal) as provider:
        code, _, errors = await tinsmith("run", "--base-url", provider.base_url, "--model", "x", "hi")
    assert code == 1
    assert "LLM_API_KEY" in errors


async def test_control_c_cancels_and_a_finished_part_stays(tinsmith):
    async with LoopbackServer(ScriptedModel([reply("Some words ", Wait())])) as provider:
        process = await tinsmith.start("run", "--base-url", provider.base_url, "--model", "x", "hi")
        assert (await process.stdout.readexactly(4)) == b"Some"
        process.send_signal(signal.SIGINT)
        _, errors = await process.communicate()
    assert process.returncode == 130
    assert "cancelled" in errors.decode()
    assert "Traceback" not in errors.decode()


async def test_doctor_says_that_a_turn_could_run(tinsmith):
    async with LoopbackServer(ScriptedModel([]), models=("x", "y")) as provider:
        code, output, errors = await tinsmith("doctor", "--base-url", provider.base_url, "--model", "x")
    assert (code, errors) == (0, "")
    assert "✗" not in output
    assert "lists 2 models" in output
    assert "model x (from default_model; a context of 128,000 tokens, assumed, since nobody says;" in output


async def test_doctor_names_what_is_like_the_model_that_is_not_there(tinsmith):
    async with LoopbackServer(ScriptedModel([]), models=("gpt-5-mini", "other")) as provider:
        code, output, _ = await tinsmith("doctor", "--base-url", provider.base_url, "--model", "gpt5-mini")
    assert code == 0
    assert "✗ gpt5-mini is not among them; the nearest: gpt-5-mini, other" in output


async def test_doctor_says_what_there_would_be(tinsmith):
    async with LoopbackServer(ScriptedModel([]), models=("gpt-5",)) as provider:
        keyed = {"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": provider.base_url}
        code, output, _ = await tinsmith("doctor", **keyed)
    assert code == 1
    assert f"found as well: OpenAI at {provider.base_url} with gpt-5 (OPENAI_API_KEY is set; of 1 models" in output


async def test_schema_is_json_schema(tinsmith):
    code, output, _ = await tinsmith("schema", "--json")
    assert code == 0
    assert "RunTurnParams" in json.loads(output)["$defs"]
