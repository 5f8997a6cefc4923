"""`agent/diagnostics` over the wire: asked only of clients that announce it, and never waited for too long."""

import time

from tests.wire.client import AGENT
from tests.wire.test_edits import READ, Buffer, replace_line_two

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import Call, ScriptedModel, reply

ABLE = {**AGENT, "diagnostics": {}}
TEXT = "one\ntwo\nthree\n"
EDITING = {"settings": {"permission_mode": "edits"}}


class Linter:
    """A client's side of `agent/diagnostics`: every line that is upper case is a problem."""

    def __init__(self, client):
        self.client = client
        self.asked = []
        client.answers["agent/diagnostics"] = self.answer

    def answer(self, params):
        self.asked.append(params)
        return {"documents": [self.document(uri) for uri in params["uris"] or self.client.texts]}

    def document(self, uri):
        version, text = self.client.texts[uri]
        items = [
            {
                "range": {"start": {"line": row, "character": 0}, "end": {"line": row, "character": len(line)}},
                "message": f"{line} is too loud",
                "severity": 1,
                "source": "manners",
                "tags": [1],
            }
            for row, line in enumerate(text.split("\n"))
            if line.isupper()
        ]
        return {"uri": uri, "version": version, "items": items}


def results(client, name):
    return [event["result"] for event in client.events("toolUpdated") if event["name"] == name and "result" in event]


async def test_an_edit_tells_what_the_editor_then_finds(connect, workspace):
    (workspace / "a.txt").write_text(TEXT)
    tool = reply(Call("diagnostics", {"path": "a.txt"}))
    async with LoopbackServer(ScriptedModel([READ, replace_line_two, tool, reply("Done.")])) as provider:
        client = await connect(provider.base_url, agent=ABLE, initializationOptions=EDITING)
        uri = client.open(workspace / "a.txt", TEXT)
        Buffer(client)
        linter = Linter(client)
        await client.turn("shout")
    (edited,) = results(client, "edit")
    assert edited.endswith(
        "The change was applied. New problems in the editor since (1 error):\n"
        "a.txt:2:1 error: TWO is too loud [manners]\n"
    )
    (listed,) = results(client, "diagnostics")
    assert listed == "problems: 1 (1 error) in 1 file\na.txt:2:1 error: TWO is too loud [manners]\n"
    assert linter.asked == [
        {"uris": [uri], "minVersions": {}, "waitMs": 0},
        {"uris": [uri], "minVersions": {uri: 2}, "waitMs": 1500},
        {"uris": [uri], "minVersions": {uri: 2}, "waitMs": 1500},
    ]


async def test_a_client_that_does_not_announce_it_is_never_asked(connect, workspace):
    (workspace / "a.txt").write_text(TEXT)
    tool = reply(Call("diagnostics", {}))
    async with LoopbackServer(ScriptedModel([READ, replace_line_two, tool, reply("Done.")])) as provider:
        client = await connect(provider.base_url, initializationOptions=EDITING)
        client.open(workspace / "a.txt", TEXT)
        Buffer(client)
        await client.turn("shout")
    assert "problems" not in results(client, "edit")[0]
    assert results(client, "diagnostics")[0].startswith("There is no editor here that tells")
    assert not [message for message in client.received if message.get("method") == "agent/diagnostics"]


async def test_a_client_that_is_silent_delays_an_edit_only_so_long(connect, workspace):
    (workspace / "a.txt").write_text(TEXT)
    async with LoopbackServer(ScriptedModel([READ, replace_line_two, reply("Done.")])) as provider:
        client = await connect(provider.base_url, agent=ABLE, initializationOptions=EDITING)
        client.open(workspace / "a.txt", TEXT)
        Buffer(client)
        began = time.monotonic()
        ended = await client.turn("shout")
        assert time.monotonic() - began < 4
    assert ended["outcome"] == "completed"
    assert "TWO" in client.texts[(workspace / "a.txt").as_uri()][1]
