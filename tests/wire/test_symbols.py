"""`agent/symbols` over the wire: asked of clients that announce it, and believed where the text agrees."""

import time

from tests.wire.client import AGENT
from tests.wire.test_looking import git, results

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import Call, ScriptedModel, reply

ABLE = {**AGENT, "symbols": {}}
PYTHON = "class Kettle:\n    def boil(self):\n        water = 1\n\n\ndef boil():\n    pass\n"
GO = "package kettle\n\nfunc (k *Kettle) Boil() {\n\twater := 1\n}\n"


class Index:
    """A client's side of `agent/symbols`."""

    def __init__(self, client, *symbols, version=None):
        self.asked = []
        self.symbols = symbols
        self.version = version
        client.answers["agent/symbols"] = self.answer

    def answer(self, params):
        self.asked.append(params)
        return {"symbols": list(self.symbols), "version": self.version}


def symbol(path, name, kind, first, last, **more):
    return {"uri": path.as_uri(), "name": name, "kind": kind, "startLine": first, "endLine": last, **more}


async def asked(connect, prepare, *calls, agent=ABLE):
    """What the model is told of the calls, by a server whose client was prepared."""
    model = ScriptedModel([reply(*calls), reply("Seen.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url, agent=agent)
        prepared = prepare(client)
        ended = await client.turn("look")
    assert ended["outcome"] == "completed"
    return client, prepared, results(model)


async def test_an_open_document_is_outlined_by_the_editor(connect, workspace):
    path = workspace / "a.go"
    path.write_text(GO)

    def prepare(client):
        client.open(path, GO, version=7)
        return Index(
            client,
            symbol(path, "water", 13, 3, 3),
            symbol(path, "(*Kettle).Boil", 6, 2, 4),
            symbol(path, "T", 26, 2, 2),
            symbol(path, "kettle", 99, 0, 0),
            version=7,
        )

    _, index, (outline,) = await asked(connect, prepare, Call("code_outline", {"path": "a.go"}))
    assert index.asked == [{"uri": path.as_uri(), "waitMs": 500}]
    assert outline == (
        "path: a.go\nlines: 5\nsource: buffer\nsymbols: 2\nvariable kettle :1\nmethod Kettle.Boil :3-5\n"
    )


async def test_an_outline_of_another_version_is_not_used(connect, workspace):
    path = workspace / "a.py"
    path.write_text(PYTHON)

    def prepare(client):
        client.open(path, PYTHON, version=7)
        return Index(client, symbol(path, "Old", 5, 0, 0), version=6)

    _, index, (outline,) = await asked(connect, prepare, Call("code_outline", {"path": "a.py"}))
    assert len(index.asked) == 1
    assert outline.endswith("symbols: 3\nclass Kettle :1-3\n  method boil :2-3\nfunction boil :6-7\n")


async def test_only_open_documents_are_asked_about(connect, workspace):
    (workspace / "a.py").write_text(PYTHON)
    (workspace / "README.md").write_text("# Kettle\n")

    def prepare(client):
        client.open(workspace / "README.md", "# Kettle\n")
        return Index(client)

    calls = (Call("code_outline", {"path": "a.py"}), Call("code_outline", {"path": "README.md"}))
    _, index, (python, headings) = await asked(connect, prepare, *calls)
    assert index.asked == []
    assert python.endswith("function boil :6-7\n")
    assert headings.endswith("heading Kettle :1\n")


async def test_what_the_editor_finds_comes_with_our_own_finding_once(connect, workspace):
    git(workspace, "init", "-q")
    (workspace / "a.py").write_text(PYTHON)
    (workspace / "b.zig").write_text("pub fn boil() void {}\n")
    (workspace / ".gitignore").write_text("built/\n")
    (workspace / ".env").write_text("boil=1\n")
    (workspace / "built").mkdir()
    for path in (workspace / "built" / "c.py", workspace.parent / "d.py"):
        path.write_text(PYTHON)
    opened = workspace / "e.py"

    def prepare(client):
        client.open(opened, "\n\ndef reboil(): pass\n")
        return Index(
            client,
            symbol(workspace / "a.py", "boil(self)", 6, 1, 1, containerName="Kettle"),
            symbol(workspace / "b.zig", "boil", 12, 0, 0, containerName="b"),
            symbol(opened, "reboil", 12, 0, 0),
            symbol(workspace / "built" / "c.py", "boil", 12, 5, 6),
            symbol(workspace.parent / "d.py", "boil", 12, 5, 6),
            symbol(workspace / ".env", "boil", 13, 0, 0),
            symbol(workspace / "a.py", "boil", 12, 900, 901),
            symbol(workspace / "a.py", "bail", 12, 5, 6),
        )

    calls = (Call("code_symbols", {"query": "Kettle.boil"}), Call("code_symbols", {"query": "boil"}))
    _, index, (contained, found) = await asked(connect, prepare, *calls)
    assert index.asked == [{"query": "boil", "waitMs": 500}] * 2
    assert contained == "method boil a.py:2  in Kettle\n"
    assert found == (
        "method boil a.py:2  in Kettle\nfunction boil a.py:6\nfunction boil b.zig:1  in b\nfunction reboil e.py:3\n"
    )


async def test_a_client_that_does_not_announce_it_is_never_asked(connect, workspace):
    (workspace / "a.py").write_text(PYTHON)
    calls = (Call("code_symbols", {"query": "Kettle"}), Call("code_outline", {"path": "a.py"}))
    for agent in (AGENT, None):
        client, _, found = await asked(
            connect, lambda client: client.open(workspace / "a.py", PYTHON), *calls, agent=agent
        )
        assert found[0] == "class Kettle a.py:1\n"
        assert found[1].endswith("function boil :6-7\n")
        assert not [message for message in client.received if message.get("method") == "agent/symbols"]


async def test_a_client_that_is_silent_or_wrong_delays_only_so_long(connect, workspace):
    (workspace / "a.py").write_text(PYTHON)
    calls = (Call("code_symbols", {"query": "Kettle"}), Call("code_outline", {"path": "a.py"}))

    def prepare(client):
        client.open(workspace / "a.py", PYTHON)
        told = iter([{"symbols": "none"}, None])
        client.answers["agent/symbols"] = lambda params: next(told)

    began = time.monotonic()
    client, _, (found, outline) = await asked(connect, prepare, *calls)
    assert time.monotonic() - began < 6
    assert found == "class Kettle a.py:1\n"
    assert outline.endswith("function boil :6-7\n")
    assert len([message for message in client.received if message.get("method") == "agent/symbols"]) == 2
