"""The first run as a person meets it: a real process, an empty home, providers on the loopback interface."""

import asyncio
import json
import os
import pty
import shlex
import sys

import pytest

from tinsmith.demo.server import LoopbackServer, RawAnswer
from tinsmith.llm.scripted import ScriptedModel, reply

KEY = "sk-" + "abc123" * 6
ANSWER = "ready"


@pytest.fixture
def user_file(home):
    return home / "config" / "tinsmith.json"


@pytest.fixture
def tinsmith(home, workspace):
    """Run a command with a home of its own; `typed` goes to a terminal, without it standard input is none."""

    async def run(*arguments, typed=None, **environment):
        names = {f"TINSMITH_{kind}_DIR": str(home / kind.lower()) for kind in ("DATA", "CONFIG", "CACHE")}
        leader, terminal = pty.openpty() if typed is not None else (-1, asyncio.subprocess.DEVNULL)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tinsmith", *arguments),
            stdin=terminal,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=workspace,
            env={"PATH": os.environ["PATH"], "HOME": str(home), **names, **environment},
        )
        if typed is not None:
            os.close(terminal)
            os.write(leader, typed.encode())
        output, errors = await process.communicate()
        if typed is not None:
            os.close(leader)
        assert errors == b""
        assert KEY not in output.decode()
        return process.returncode, output.decode()

    return run


def scripted(*models):
    return LoopbackServer(ScriptedModel([reply(ANSWER)] * 3), models=models or ("demo",))


def written(user_file):
    assert KEY not in user_file.read_text()
    return json.loads(user_file.read_text())


async def test_from_a_key_to_a_turn(tinsmith, user_file):
    async with scripted("text-embedding-3-small", "gpt-5-nano", "gpt-5") as provider:
        keyed = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": provider.base_url}
        code, output = await tinsmith("setup", typed="y\n", **keyed)
        assert code == 0, output
        assert written(user_file) == {
            "default_model": "gpt-5",
            "llm_config": {"base_url": provider.base_url, "api_key_env": "OPENAI_API_KEY"},
        }
        listed, tried = provider.requests
        assert (listed.method, listed.path) == ("GET", "/v1/models")
        assert {each.headers["authorization"] for each in (listed, tried)} == {f"Bearer {KEY}"}
        body = json.loads(tried.body)
        assert (body["model"], [tool["function"]["name"] for tool in body["tools"]]) == ("gpt-5", ["read"])
        for part in (
            f"Proposed: gpt-5 at {provider.base_url}, spoken to in Chat Completions, with the key in OPENAI_API_KEY",
            "OPENAI_API_KEY is set; of 3 models this one was taken: its id is gpt-5",
            f"To be written to {user_file}:",
            "[y/N]",
            f"✓ written to {user_file}",
            "✓ it answers",
        ):
            assert part in output
        code, output = await tinsmith("run", "hello", **keyed)
        assert (code, output.strip()) == (0, ANSWER)


async def test_without_a_terminal_it_says_how_to_confirm_and_that_command_does_it(tinsmith, user_file):
    async with scripted("one", "two") as provider:
        given = ("--base-url", provider.base_url, "--api-key-env", "MY_KEY")
        code, output = await tinsmith("setup", *given, MY_KEY=KEY)
        assert code == 1
        assert not user_file.exists()
        assert [each.method for each in provider.requests] == ["GET"]
        command = output.splitlines()[-1].partition("To confirm it: ")[2]
        assert shlex.split(command) == [
            *("tinsmith", "setup", "--yes", "--base-url", provider.base_url),
            *("--model", "one", "--api-key-env", "MY_KEY"),
        ]
        code, output = await tinsmith(*shlex.split(command)[1:], MY_KEY=KEY)
        assert code == 0, output
    assert written(user_file) == {
        "default_model": "one",
        "llm_config": {"base_url": provider.base_url, "api_key_env": "MY_KEY"},
    }


@pytest.mark.parametrize("typed", ["n\n", "\n", "\x04"])
async def test_anything_but_yes_writes_nothing(tinsmith, user_file, typed):
    async with scripted() as provider:
        code, output = await tinsmith("setup", "--base-url", provider.base_url, typed=typed)
    assert (code, user_file.exists()) == (1, False)
    assert output.endswith("Nothing was written.\n")
    assert [each.method for each in provider.requests] == ["GET"]


async def test_an_address_of_its_own_for_anthropic_is_spoken_to_in_anthropic(tinsmith, user_file):
    async with scripted("claude-opus-9", "claude-sonnet-9") as provider:
        address = provider.base_url.removesuffix("/v1")
        code, output = await tinsmith("setup", ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=address)
    assert code == 1
    assert "spoken to in Anthropic Messages" in output
    assert "--dialect anthropic" in output
    assert provider.requests[0].headers["x-api-key"] == KEY
    assert not user_file.exists()


async def test_other_settings_and_comments_stay_and_stale_ones_are_corrected(tinsmith, user_file):
    user_file.parent.mkdir()
    user_file.write_text(
        '{\n  // mine\n  "permission_mode": "edits",\n  "llm_config": {"dialect": "ollama", "api_key_env": "OLD"},\n}\n'
    )
    async with scripted() as provider:
        code, output = await tinsmith(
            "setup", "--yes", "--base-url", provider.base_url, "--dialect", "chat_completions"
        )
    assert code == 0, output
    assert "where everything else stays" in output
    assert user_file.read_text() == (
        '{\n  // mine\n  "permission_mode": "edits",\n  "llm_config": {"dialect": "chat_completions", '
        f'"api_key_env": "LLM_API_KEY",\n    "base_url": "{provider.base_url}"\n  }},\n  "default_model": "demo"\n}}\n'
    )


async def test_a_faulty_file_is_refused_and_left_alone(tinsmith, user_file):
    user_file.parent.mkdir()
    user_file.write_text('{"default_model": ')
    async with scripted() as provider:
        code, output = await tinsmith("setup", "--yes", "--base-url", provider.base_url)
    assert code == 1
    assert f"✗ {user_file}: line 1, column 19" in output
    assert "Nothing was written" in output
    assert user_file.read_text() == '{"default_model": '


async def test_a_model_that_refuses_is_told_after_it_was_configured(tinsmith, user_file):
    refusal = RawAnswer((f'{{"error": {{"message": "bad key {KEY}"}}}}'.encode(),), 401, "application/json")
    async with LoopbackServer(refusal) as provider:
        keyed = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": provider.base_url}
        code, output = await tinsmith("setup", "--yes", **keyed)
        assert code == 1
        assert "✗ it does not work yet: " in output
        assert "OPENAI_API_KEY" in output.partition("does not work yet")[2]
        assert written(user_file)["default_model"] == "demo"
        code, output = await tinsmith("setup", **keyed)
    assert code == 1
    assert "configured already" in output
    assert "✗ it does not work yet: " in output


async def test_what_is_configured_is_tried_and_not_written_again(tinsmith, user_file):
    async with scripted() as provider:
        await tinsmith("setup", "--yes", "--base-url", provider.base_url)
        before = user_file.stat().st_mtime_ns
        code, output = await tinsmith("setup")
    assert (code, user_file.stat().st_mtime_ns) == (0, before)
    assert "configured already" in output
    assert "✓ it answers" in output


async def test_a_provider_that_does_not_list_is_passed_over_in_words(tinsmith, user_file):
    async with scripted("gpt-5") as provider, LoopbackServer() as gone:
        pass
    async with scripted("gpt-5") as provider:
        code, output = await tinsmith(
            "setup",
            ANTHROPIC_API_KEY=KEY,
            ANTHROPIC_BASE_URL=gone.base_url,
            OPENAI_API_KEY=KEY,
            OPENAI_BASE_URL=provider.base_url,
            OPENROUTER_API_KEY=KEY,
            LLM_API_KEY=KEY,
        )
    assert code == 1
    assert "✗ Anthropic (ANTHROPIC_API_KEY is set): " in output
    assert "✗ LLM_API_KEY is set, but nothing says whose key it is" in output
    assert f"Proposed: gpt-5 at {provider.base_url}" in output
    assert (
        "  OpenRouter: tinsmith setup --base-url https://openrouter.ai/api/v1 --api-key-env OPENROUTER_API_KEY"
        in output
    )
    assert not user_file.exists()


@pytest.mark.parametrize(
    ("arguments", "environment", "says"),
    [
        (("--api-key-env", KEY), {}, "Give the name, not the key"),
        (("--api-key-env", "NOT_SET"), {}, "Give the name, not the key"),
        (("--base-url", f"http://me:{KEY}@127.0.0.1:1/v1", "--model", "x"), {}, "never written"),
        (("--base-url", f"http://127.0.0.1:1/v1?key={KEY}", "--model", "x"), {}, "never written"),
        (
            ("--base-url", "http://127.0.0.1:1/v1", "--model", "word-1234"),
            {"LLM_API_KEY": "word-1234"},
            "never written",
        ),
        (("--base-url", "http://me:secret@127.0.0.1:1/v1", "--model", "x"), {}, "never written"),
        (("--base-url", "nowhere"), {}, "llm_config.base_url"),
        (("--base-url", "http://127.0.0.1:1/v1"), {}, "Nothing was written"),
    ],
)
async def test_what_cannot_be_written_is_refused_in_words(tinsmith, user_file, arguments, environment, says):
    code, output = await tinsmith("setup", "--yes", *arguments, **environment)
    assert code == 1
    assert says in output
    assert "secret@" not in output
    assert not user_file.exists()


BACKEND = """
from keyring.backend import KeyringBackend

class Backend(KeyringBackend):
    priority = 1

    def get_password(self, service, username):
        return {("tinsmith", "work"): "%s"}.get((service, username))

    def set_password(self, service, username, password):
        raise NotImplementedError
"""


async def test_a_key_in_the_keyring(tinsmith, user_file, tmp_path):
    (tmp_path / "ours.py").write_text(BACKEND % KEY)
    keyring = {"PYTHONPATH": str(tmp_path), "PYTHON_KEYRING_BACKEND": "ours.Backend"}
    async with scripted() as provider:
        given = ("--base-url", provider.base_url, "--api-key-keyring", "work")
        code, output = await tinsmith("setup", *given, typed="y\n", LLM_API_KEY="sk-of-another", **keyring)
        assert code == 0, output
        assert "with the key in the keyring's entry work" in output
        assert written(user_file) == {
            "default_model": "demo",
            "llm_config": {"base_url": provider.base_url, "api_key_keyring": "work"},
        }
        code, output = await tinsmith("doctor", **keyring)
        assert "✓ key in the keyring's entry work" in output
        assert {each.headers["authorization"] for each in provider.requests} == {f"Bearer {KEY}"}
        code, output = await tinsmith("setup", "--yes", *given[:2], "--api-key-env", "MINE", MINE="sk-mine", **keyring)
        assert code == 0, output
        assert written(user_file)["llm_config"] == {
            "base_url": provider.base_url,
            "api_key_keyring": None,
            "api_key_env": "MINE",
        }
        assert provider.requests[-1].headers["authorization"] == "Bearer sk-mine"


async def test_headers_of_ones_own_go_along_and_their_secrets_stay_in_their_variables(tinsmith, user_file):
    user_file.parent.mkdir()
    user_file.write_text('{"llm_config": {"headers": {"x-gateway-key": "${GATEWAY}", "x-title": "me"}}}')
    async with scripted() as provider, scripted("gpt-5") as other:
        keyed = {"OPENAI_API_KEY": "sk-other", "OPENAI_BASE_URL": other.base_url, "GATEWAY": KEY}
        code, output = await tinsmith("setup", "--base-url", provider.base_url, "--yes", **keyed)
        assert code == 0, output
        assert "and the headers x-gateway-key, x-title, which are set already" in output
        for asked in provider.requests:
            assert (asked.headers["x-gateway-key"], asked.headers["x-title"]) == (KEY, "me")
        assert other.requests == []
    assert written(user_file)["llm_config"]["headers"] == {"x-gateway-key": "${GATEWAY}", "x-title": "me"}
