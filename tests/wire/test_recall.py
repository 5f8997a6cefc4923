"""What was said is found again: over the wire, from the command line, after a restart, whatever somebody asks for."""

import asyncio
import json
import os
import sys

import pytest
from tests.wire.client import Client, RpcError

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import Call, ScriptedModel, reply
from tinsmith.store import Store
from tinsmith.store.codec import encode_key

SETTINGS = {"initializationOptions": {"settings": {"permission_mode": "full"}}}


async def hits(client: Client, query: str, **params) -> list[tuple[str, str, str]]:
    """Conversation, kind and snippet of each hit, the hits in brackets."""
    result = await client.request("agent/conversationSearch", {"query": query, **params})
    assert result["unindexed"] == 0
    return [(hit["conversationId"], hit["kind"], text_of(hit)) for hit in result["hits"]]


def text_of(hit) -> str:
    return "".join(f"[{part['text']}]" if part.get("hit") else part["text"] for part in hit["snippet"])


async def test_everything_that_was_said_is_found(connect, home, workspace):
    calling = reply("Let me look.", Call("bash", {"command": "echo the parseHeader of $((40 + 2))"}))
    async with LoopbackServer(ScriptedModel([calling, reply("It whistles at last.")])) as provider:
        client = await connect(provider.base_url, **SETTINGS)
        ended = await client.turn("Why does the kettle never whistle?")
        first = ended["conversationId"]
        assert await hits(client, "whistle ") == [(first, "user", "Why does the kettle never [whistle]?")]
        assert {kind for _, kind, _ in await hits(client, "whis")} == {"user", "assistant"}
        assert [kind for _, kind, _ in await hits(client, '"parseHeader of 42"')] == ["tool"]
        assert [(kind, text) for _, kind, text in await hits(client, "header 40")] == [
            ("assistant", "Let me look. bash echo the [parseHeader] of $(([40] + 2))")
        ]
        assert await hits(client, "kettle", workspace=workspace.as_uri())
        assert await hits(client, "kettle", workspace=home.as_uri()) == []
        assert await hits(client, "kettle ", limit=0) == await hits(client, "kettle ", limit=1)
        assert await client.stop() == 0
        client = await connect(provider.base_url, **SETTINGS)
        assert len(await hits(client, "whis")) == 2


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"query": "?"}, "emptyQuery"),
        ({"query": ""}, "emptyQuery"),
        ({}, "invalidParams"),
        ({"query": "x", "workspace": "relative"}, "invalidParams"),
    ],
)
async def test_a_search_for_nothing_is_refused(connect, params, code):
    client = await connect()
    error = await client.answer_error(client.post("agent/conversationSearch", params))
    assert (error["code"], error["data"]["code"]) == (-32602, code)


@pytest.mark.parametrize(
    "query", ["\0", '"' * 400, "x" * 100_000, "a* " * 5_000, "\ud800 x", "(.*)+", "%s{}\\", "🦊 x"]
)
async def test_no_query_harms(connect, query):
    client = await connect()
    try:
        result = await client.request("agent/conversationSearch", {"query": query})
    except RpcError as refused:
        result = refused.name
    assert result in ({"hits": [], "unindexed": 0}, "emptyQuery")
    assert (await client.request("agent/conversationList", {}))["conversations"] == []


@pytest.fixture
def tinsmith(home, workspace):
    """Run a command in the workspace: exit code, output, errors."""

    async def run(*arguments: str, **environment: str) -> tuple[int, str, str]:
        names = {f"TINSMITH_{kind}_DIR": str(home / kind.lower()) for kind in ("DATA", "CONFIG", "CACHE")}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tinsmith", *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=workspace,
            env={"PATH": os.environ["PATH"], "HOME": str(home), **names, **environment},
        )
        output, errors = await process.communicate()
        return process.returncode, output.decode(), errors.decode()

    return run


async def test_the_command_line_finds_it_too(connect, tinsmith):
    async with LoopbackServer(ScriptedModel([reply("The \x1b]0;red\x07 kettle.")])) as provider:
        client = await connect(provider.base_url)
        identifier = (await client.turn("What whistles?"))["conversationId"]
    code, output, errors = await tinsmith("search", "red", "kett")
    assert (code, errors) == (0, "")
    head, said = output.splitlines()
    assert (head.split("  ")[0], head.split("  ")[2]) == (identifier, "What whistles?")
    assert said == "    assistant: The \ufffd]0;red\ufffd kettle."
    code, output, errors = await tinsmith("search", "--json", "--workspace", ".", "--limit", "1", "whis* what")
    assert (code, errors) == (0, "")
    line = json.loads(output)
    assert (line["conversationId"], line["kind"], text_of(line)) == (identifier, "user", "[What] [whistles]?")
    assert await tinsmith("search", "--workspace", "/", "kettle") == (1, "", "")
    code, output, errors = await tinsmith("search", "?!")
    assert (code, output) == (1, "")
    assert "There is no word" in errors


async def test_a_backup_is_made_beside_a_running_server_and_used(connect, tinsmith, workspace):
    assert (await tinsmith("backup", "copy"))[:2] == (1, "")
    async with LoopbackServer(ScriptedModel([reply("It whistles."), reply("Later.")])) as provider:
        client = await connect(provider.base_url)
        identifier = (await client.turn("first"))["conversationId"]
        code, output, errors = await tinsmith("backup", "copy")
        assert (code, errors) == (0, "")
        assert "TINSMITH_DATA_DIR=copy" in output
        await client.turn("second", conversationId=identifier)
    assert (await tinsmith("backup", "copy"))[0] == 1
    for words, code in (("first", 0), ("whistles", 0), ("second", 1)):
        assert (await tinsmith("search", words, TINSMITH_DATA_DIR="copy"))[0] == code


async def test_doctor_names_what_is_damaged_and_mends_the_index(connect, tinsmith, home):
    async with LoopbackServer(ScriptedModel([reply("It whistles.")])) as provider:
        client = await connect(provider.base_url)
        identifier = (await client.turn("torn one"))["conversationId"]
        await client.stop()
    store = Store.open(str(home / "data" / "store"))
    key = encode_key(identifier, "m00000000")
    await store.write(
        lambda s: s.look(lambda rows: (rows.put("message", key, b'{"torn'), rows.clear("message_search")))
    )
    await store.close()
    _, output, _ = await tinsmith("doctor")
    lines = [line for line in output.splitlines() if "record" in line or "index" in line]
    assert lines == [
        f"✗ stored record message/{key.decode()} cannot be read",
        f"✗ stored record message/{identifier}:m00000001 is not in the index",
        "✗ these records are left out, all others are unharmed; a backup may still have them",
        "✓ the index was made anew: 2 messages",
    ]
    assert (await tinsmith("search", "whistles"))[0] == 0
    _, output, _ = await tinsmith("doctor", "--rebuild-index")
    assert [line for line in output.splitlines() if "index" in line] == ["✓ the index was made anew: 2 messages"]
