"""Export and import: what goes out comes in again, and what somebody else wrote is refused whole, by its line."""

import asyncio
import json
import sys

import pytest
from tests.wire.client import RpcError
from tests.wire.talk import bodies_of

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import Call, ScriptedModel, Wait, reply

FULL = {"initializationOptions": {"settings": {"permission_mode": "full"}}}


@pytest.fixture
async def told(connect, workspace):
    """A client, its provider, and a conversation with a call, a fence in a result and a rewound turn."""
    (workspace / "a.md").write_text("```\nfenced\n```\n")
    script = [reply("Look.", Call("read", {"path": "a.md"})), reply("Seen."), reply("Gone."), reply("On.")]
    async with LoopbackServer(ScriptedModel(script)) as provider:
        client = await connect(provider.base_url, **FULL)
        first = await client.turn("Read it.\nAll of it.")
        identifier = first["conversationId"]
        await client.turn("forgotten words", conversationId=identifier)
        await client.request("agent/conversationRewind", {"conversationId": identifier, "toTurnId": first["turnId"]})
        yield client, provider, identifier


async def export(client, identifier, form):
    params = {"conversationId": identifier, "format": form}
    return (await client.request("agent/conversationExport", params))["text"]


async def test_markdown_is_what_a_person_reads(told):
    client, _, identifier = told
    text = await export(client, identifier, "markdown")
    assert text.startswith("# Read it.\n\n## You\n\nRead it.\nAll of it.\n\n## Tinsmith\n\nLook.\n\n**read**: ")
    assert '\n```json\n{"path":"a.md"}\n```\n' in text
    assert text.endswith("\n````\n\n## Tinsmith\n\nSeen.\n")
    assert "forgotten" not in text
    assert text.count("````") == 2


async def test_what_is_exported_is_imported_and_goes_on(told, connect):
    client, provider, identifier = told
    lines = await export(client, identifier, "jsonl")
    assert [json.loads(line)["record"] for line in lines.splitlines()] == [
        *("conversation", "turn", "message", "message", "call", "message", "message")
    ]
    assert identifier not in lines
    assert str(client.home) not in lines
    imported = (await client.request("agent/conversationImport", {"text": lines}))["conversation"]
    other = imported["conversationId"]
    assert (imported["title"], imported["workspace"]) == ("Read it.", client.workspace.as_uri())
    assert await export(client, other, "markdown") == await export(client, identifier, "markdown")
    assert (await export(client, other, "jsonl")).partition("\n")[2] == lines.partition("\n")[2]
    loaded = [
        (await client.request("agent/conversationLoad", {"conversationId": each}))["snapshot"]["lastItems"]
        for each in (identifier, other)
    ]
    for items in loaded:
        for item in items:
            del item["turnId"]
    assert loaded[0] == loaded[1]
    assert (await client.turn("go on", conversationId=other))["outcome"] == "completed"
    sent = bodies_of(provider)
    assert sent[-1]["messages"][:-1] == sent[2]["messages"][:-1]


async def test_a_running_turn_is_left_out(connect):
    async with LoopbackServer(ScriptedModel([reply("Re: one"), reply("Half ", Wait())])) as provider:
        client = await connect(provider.base_url)
        identifier = (await client.turn("one"))["conversationId"]
        running = await client.ask("two", conversationId=identifier)
        await client.event("textDelta", turnId=running["turnId"])
        assert "two" not in await export(client, identifier, "jsonl")


HEADER = '{"record":"conversation","version":1}'
TURN = {"turn_id": "a", "conversation_id": "", "text": "x", "role": "direct", "model": "m", "started_at": 1}
ENDED = {**TURN, "state": "ended", "outcome": "completed"}


def turn(**fields):
    return json.dumps({"record": "turn", "turn": {**ENDED, **fields}})


def message(kind="user", **fields):
    given = {
        "user": {"parts": [{"type": "text", "text": "x"}]},
        "assistant": {"item_id": "i", "text": "x"},
        "tool": {"call_id": "k", "name": "read", "content": "x"},
    }[kind]
    return json.dumps(
        {"record": "message", "message": {"type": kind, "message_id": "", "turn_id": "a", **given, **fields}}
    )


def call(**fields):
    return json.dumps({"record": "call", "call": {"call_id": "k", "turn_id": "a", "name": "read", **fields}})


CALLING = message("assistant", calls=[{"call_id": "k", "name": "read", "arguments": "{}"}])

HOSTILE = {
    "nothing": (1, ""),
    "no JSON": (1, "hello"),
    "no object": (1, "[1, 2]"),
    "deeply nested": (1, "[" * 100_000),
    "an unknown record": (2, HEADER, '{"record":"rule"}'),
    "no header": (1, turn()),
    "two headers": (2, HEADER, HEADER),
    "from the future": (1, '{"record":"conversation","version":2}'),
    "a wrong type": (1, '{"record":"conversation","version":1,"title":7}'),
    "an empty line": (2, HEADER, "", turn(), message()),
    "a message without a turn": (2, HEADER, message()),
    "a message of another turn": (3, HEADER, turn(), message(turn_id="b")),
    "a turn without a message": (3, HEADER, turn(), turn(turn_id="b"), message(turn_id="b")),
    "a turn without a message at the end": (2, HEADER, turn()),
    "a turn twice": (4, HEADER, turn(), message(), turn()),
    "a turn that runs": (2, HEADER, turn(state="running", outcome=None)),
    "a turn without a name": (2, HEADER, turn(turn_id="")),
    "an answer first": (3, HEADER, turn(), message("assistant")),
    "a result of nothing": (4, HEADER, turn(), message(), message("tool")),
    "a call without a result": (4, HEADER, turn(), message(), CALLING),
    "a call without a result in between": (5, HEADER, turn(), message(), CALLING, message()),
    "two results": (6, HEADER, turn(), message(), CALLING, message("tool"), message("tool")),
    "a call twice": (6, HEADER, turn(), message(), CALLING, message("tool"), CALLING, message("tool")),
    "a call without an id": (4, HEADER, turn(), message(), CALLING.replace('"k"', '""')),
    "a record of no call": (4, HEADER, turn(), message(), call()),
    "a record of a call twice": (6, HEADER, turn(), message(), CALLING, call(), call()),
    "permissions": (2, HEADER, '{"record":"note","note":{"note_id":"permission_rules","content":"[]","updated_at":1}}'),
}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", HOSTILE)
async def test_what_does_not_fit_is_refused_by_its_line(server, name):
    number, *lines = HOSTILE[name]
    before = await server.request("agent/conversationList", {})
    with pytest.raises(RpcError) as caught:
        await server.request("agent/conversationImport", {"text": "\n".join(lines)})
    assert (caught.value.code, caught.value.name, caught.value.data["line"]) == (-32602, "invalidImport", number)
    assert str(caught.value).startswith(f"Line {number} cannot be imported: ")
    assert await server.request("agent/conversationList", {}) == before


@pytest.mark.asyncio(loop_scope="module")
async def test_hostile_values_become_harmless(server):
    """An unknown role, halves of characters, ids that are no ids: stored as text, or not at all."""
    header = {"record": "conversation", "version": 1, "title": "a\nb", "role": "root", "model": "m", "unknown": [1]}
    odd = "k:\0/../" + "x" * 700
    calling = message("assistant", calls=[{"call_id": odd, "name": "read", "arguments": "{"}])
    lines = [json.dumps(header), turn(turn_id="../../x:y"), message(turn_id="../../x:y"), calling, message("tool")]
    text = "\r\n".join(lines).replace('"k"', json.dumps(odd)).replace('"turn_id": "a"', '"turn_id": "../../x:y"')
    imported = (await server.request("agent/conversationImport", {"text": text}))["conversation"]
    assert (imported["title"], imported.get("role", ""), imported["model"]) == ("a", "", "m")
    loaded = await server.request("agent/conversationLoad", {"conversationId": imported["conversationId"]})
    assert [item["kind"] for item in loaded["snapshot"]["lastItems"]] == ["user", "assistant", "tool"]
    assert loaded["snapshot"]["lastItems"][2]["result"] == "x"


async def run(client, *arguments, given=b""):
    """`tinsmith` with these words in the client's environment: exit code, output, errors."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tinsmith", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=client.environment,
        cwd=client.workspace,
    )
    async with asyncio.timeout(client.deadline):
        output, errors = await process.communicate(given)
    return process.returncode, output.decode(), errors.decode()


async def test_export_and_import_on_the_command_line(told, workspace):
    client, _, identifier = told
    markdown = await export(client, identifier, "markdown")
    lines = await export(client, identifier, "jsonl")
    assert await run(client, "export", identifier) == (0, markdown, "")
    assert await run(client, "export", identifier, "--format", "jsonl") == (0, lines, "")
    (workspace / "conversation.jsonl").write_text(lines)
    code, output, errors = await run(client, "import", "conversation.jsonl")
    assert (code, errors) == (0, "")
    assert await export(client, output.strip(), "markdown") == markdown
    code, again, _ = await run(client, "import", "-", "--workspace", str(workspace.parent), given=lines.encode())
    assert code == 0
    listed = await client.request("agent/conversationList", {"workspace": workspace.parent.as_uri()})
    assert [each["conversationId"] for each in listed["conversations"]] == [again.strip()]
    code, output, errors = await run(client, "export", "c_none")
    assert (code, output) == (2, "")
    assert "There is no conversation c_none" in errors
    code, output, errors = await run(client, "import", "-", given=b"{}\n")
    assert (code, output) == (2, "")
    assert errors.startswith("tinsmith import: Line 1 cannot be imported")
    assert (await run(client, "import", "nowhere.jsonl"))[0] == 2
    assert (await run(client, "import", "-", given=b"\xff"))[0] == 2
