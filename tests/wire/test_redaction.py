"""Secrets: a known key, or what looks like a token, reaches neither a provider, the store, the log nor a card."""

import pytest
from tests.wire.talk import bodies_of

from tinsmith.demo.server import LoopbackServer, RawAnswer
from tinsmith.domain.redaction import MARK
from tinsmith.llm.scripted import Call, ScriptedModel, Wait, reply

KEY = "key-of-a-provider-17"
TOKEN = "sk-" + "aB3dE6gH9jK2mN5pQ8sT1vW4"
PRIVATE = f"-----BEGIN PRIVATE KEY-----\n{'MIIEvQIBADANBgkqhkiG9w0BAQ'}\n-----END PRIVATE KEY-----"
SECRETS = (KEY, TOKEN, "MIIEvQIBADANBgkqhkiG9w0BAQ")
TEXT = f"first\nkey = {KEY}\ntoken: {TOKEN} here\n{PRIVATE}\nlast\n"
FULL = {"initializationOptions": {"settings": {"permission_mode": "full", "llm_config": {"retry_backoff_ms": [0]}}}}


def fine() -> ScriptedModel:
    return ScriptedModel(lambda _: reply("Fine."))


@pytest.fixture
def begin(connect):
    """Start a server that knows the key."""
    return lambda provider, **options: connect(
        provider.base_url, environment={"LLM_API_KEY": KEY}, **{**FULL, **options}
    )


async def check_nothing_leaked(client, provider, home) -> None:
    """Stop the server and look at everything that left it or stayed of it."""
    assert await client.stop() == 0
    log = await client.process.stderr.read()
    sent = [request.body for request in provider.requests]
    shown = [str(message).encode() for message in client.received]
    kept = [path.read_bytes() for path in home.rglob("*") if path.is_file()]
    assert sent
    assert kept
    for secret in SECRETS:
        for place in (log, *sent, *shown, *kept):
            assert secret.encode() not in place
    asked = [request for request in provider.requests if request.method == "POST"]
    assert {request.headers["authorization"] for request in asked} == {f"Bearer {KEY}"}


async def test_in_what_a_person_says(begin, home, workspace):
    """Typed, attached, selected, and as a steering message; the title of the conversation is made of it too."""
    script = ScriptedModel([reply("One ", Wait(0.3), "two."), reply("Done."), reply("Done.")])
    async with LoopbackServer(script) as provider:
        client = await begin(provider)
        attached = [
            {"type": "text", "text": TEXT},
            {"type": "resource", "uri": "file:///x", "text": TEXT},
            {"type": "selection", "uri": "file:///x", "text": TEXT},
        ]
        started = await client.ask(f"use {KEY} and {TOKEN}\n{PRIVATE}", input=attached)
        await client.event("textDelta")
        await client.ask(TEXT, mode="steer")
        await client.event("turnEnded", turnId=started["turnId"])
        await client.turn(TEXT)
        first, *_, last = bodies_of(provider)
        await client.request("agent/conversationList", {})
        await client.request("agent/conversationLoad", {"conversationId": started["conversationId"]})
        await check_nothing_leaked(client, provider, home)
    assert first["messages"][1]["content"].startswith(f"use {MARK} and {MARK}\n{MARK}\n{MARK}\n{MARK}")
    assert [message["content"] for message in last["messages"] if message["role"] == "user"][1:] == [
        f"first\nkey = {MARK}\ntoken: {MARK} here\n{MARK}\n{MARK}\n{MARK}\nlast\n"
    ] * 2


@pytest.mark.parametrize("is_open", [False, True], ids=["disk", "buffer"])
async def test_in_a_file(begin, home, workspace, is_open):
    """Its lines are shown with a mark, and what is changed beside them is asked for with a diff without them."""
    file = workspace / "notes.txt"
    file.write_text(TEXT)

    def edit(request):
        known = request.messages[-1].content.split("hash: ")[1][:16]
        part = {"op": "replace", "start": 7, "end": 7, "text": "LAST"}
        return reply(Call("edit", {"path": "notes.txt", "hash": known, "edits": [part]}))

    read = reply(Call("read", {"path": "notes.txt"}))
    settings = {"initializationOptions": {"settings": {"permission_mode": "ask"}}}
    async with LoopbackServer(ScriptedModel([read, edit, reply("Done.")])) as provider:
        client = await begin(provider, **settings)
        client.answers["agent/requestPermission"] = lambda _: {"optionId": "deny"}
        if is_open:
            client.open(file, TEXT)
        assert (await client.turn("read it"))["outcome"] == "completed"
        results = [m["content"] for m in bodies_of(provider)[-1]["messages"] if m["role"] == "tool"]
        await check_nothing_leaked(client, provider, home)
    assert f"    2\tkey = {MARK}\n    3\ttoken: {MARK} here\n" in results[0]
    assert "declined" in results[1]


async def test_in_the_output_of_a_command(begin, home, workspace):
    """While it runs, in its result, and in the file that holds what was too long."""
    (workspace / "notes.txt").write_text(TEXT)
    long = f"seq 1 20000; cat notes.txt; seq 1 20000; printf '%s' {KEY[:8]}; sleep 0.1; echo {KEY[8:]}"
    calls = [reply(Call("bash", {"command": command})) for command in ("cat notes.txt", long)]
    async with LoopbackServer(ScriptedModel([*calls, reply("I see.")])) as provider:
        client = await begin(provider)
        assert (await client.turn("show it"))["outcome"] == "completed"
        short, spilled = [m["content"] for m in bodies_of(provider)[-1]["messages"] if m["role"] == "tool"]
        await check_nothing_leaked(client, provider, home)
    assert short == f"exit: 0\nfirst\nkey = {MARK}\ntoken: {MARK} here\n{MARK}\n{MARK}\n{MARK}\nlast\n"
    assert spilled.endswith(f"20000\n{MARK}\n")
    assert any(MARK.encode() in path.read_bytes() for path in (home / "cache").rglob("*") if path.is_file())


async def test_in_what_a_provider_says_of_a_key(begin, home):
    refusal = RawAnswer((b'{"error": {"message": "Wrong key: %b."}}' % KEY.encode(),), 401, "application/json")
    async with LoopbackServer(refusal, fine()) as provider:
        client = await begin(provider)
        ended = await client.turn("hi")
        assert (ended["outcome"], ended["error"]["code"]) == ("error", "authRequired")
        assert (await client.turn("hi"))["outcome"] == "completed"
        await check_nothing_leaked(client, provider, home)


async def test_in_the_texts_that_a_project_keeps_for_agents(begin, home, workspace):
    (workspace / "AGENTS.md").write_text(TEXT)
    (workspace / "INDEX.md").write_text(TEXT)
    async with LoopbackServer(fine()) as provider:
        client = await begin(provider)
        assert (await client.turn("hi"))["outcome"] == "completed"
        await client.request("agent/inspect", {"what": "context"})
        await check_nothing_leaked(client, provider, home)


async def test_a_key_that_is_named_later_is_kept_as_well(connect, home):
    env = reply(Call("bash", {"command": "env"}))
    async with LoopbackServer(ScriptedModel([env, reply("I see.")])) as provider:
        client = await connect(provider.base_url, environment={"MY_LLM_SECRET": KEY}, **FULL)
        await client.request("agent/configSet", {"path": "llm_config.api_key_env", "value": "MY_LLM_SECRET"})
        assert (await client.turn(f"hi {KEY}"))["outcome"] == "completed"
        await check_nothing_leaked(client, provider, home)


BACKEND = """
from keyring.backend import KeyringBackend

class Backend(KeyringBackend):
    priority = 1

    def get_password(self, service, username):
        return {("tinsmith", "work"): "%s"}.get((service, username))

    def set_password(self, service, username, password):
        raise NotImplementedError
"""


async def test_a_key_from_the_keyring_in_a_file_and_a_header_in_what_a_command_prints(
    connect, home, workspace, tmp_path
):
    (tmp_path / "ours.py").write_text(BACKEND % KEY)
    (workspace / "notes.txt").write_text(f"key = {KEY}\n")
    gateway = "of-the-gateway-1"
    look = reply(
        Call("read", {"path": "notes.txt"}), Call("bash", {"command": "env; printf %s of-the; echo -gateway-1"})
    )
    keyring = {"PYTHONPATH": str(tmp_path), "PYTHON_KEYRING_BACKEND": "ours.Backend"}
    llm = {"retry_backoff_ms": [0], "api_key_keyring": "work", "headers": {"x-gateway-key": "${GATEWAY}"}}
    settings = {"initializationOptions": {"settings": {"permission_mode": "full", "llm_config": llm}}}
    async with LoopbackServer(ScriptedModel([look, reply("I see.")])) as provider:
        client = await connect(provider.base_url, environment={**keyring, "GATEWAY": gateway}, **settings)
        assert (await client.turn("look"))["outcome"] == "completed"
        await client.request("agent/configGet", {})
        asked = [request for request in provider.requests if request.method == "POST"]
        assert [request.headers["x-gateway-key"] for request in asked] == [gateway] * 2
        assert gateway.encode() not in asked[1].body
        assert f"key = {MARK}" in asked[1].body.decode()
        assert not any(gateway in str(message) for message in client.received)
        await check_nothing_leaked(client, provider, home)
