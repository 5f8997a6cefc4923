"""Searches over the wire: a scripted model asks the running server, the answer is what the model and the client see."""

import pytest

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import Call, ScriptedModel, reply


async def asked(connect, *calls, prepare=lambda client: None):
    """The results of the calls, as the next request of the model has them, and the client."""
    model = ScriptedModel([*(reply(call) for call in calls), reply("Done.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url)
        prepare(client)
        ended = await client.turn("look")
    assert ended["outcome"] == "completed"
    messages = model.requests[-1].messages
    return [message.content for message in messages if type(message).__name__ == "ToolMessage"], client


def fill(workspace, files):
    for path, text in files.items():
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text(text)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
async def test_the_open_buffer_is_searched_and_not_the_disk(connect, workspace, encoding):
    fill(workspace, {"a.txt": "on disk\n", "b.txt": "on disk\n"})

    def type_into_it(client):
        uri = client.open(workspace / "a.txt", "on disk\n")
        client.type(uri, "😋\ntyped on desk\n")

    results, _ = await asked(connect, Call("code_grep", {"pattern": "on d.sk"}), prepare=type_into_it)
    assert results == ["matches: 2 lines in 2 of 2 files\na.txt:2:typed on desk\nb.txt:1:on disk\n"]
