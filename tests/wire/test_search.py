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


async def test_find_02_and_11_what_git_ignores_is_not_found(connect, workspace):
    rules = {".gitignore": "dist\n!keep.me\nchild/\n", "child/.gitignore": "tmp\n"}
    heads = {f"{folder}.git/HEAD": "ref: refs/heads/x\n" for folder in ("", "child/")}
    names = ["src/keep.me", "dist/keep.me", "dist/x.js", "child/a.py", "child/tmp"]
    fill(workspace, {**rules, **heads, **dict.fromkeys(names, "needle\n")})
    calls = [Call("code_grep", {"pattern": "needle"}), Call("code_files", {"query": "keep"})]
    results, _ = await asked(connect, *calls, Call("code_grep", {"pattern": "needle", "path": "child"}))
    assert results == [
        "matches: 1 lines in 1 of 2 files\nsrc/keep.me:1:needle\n",
        "found: 1 of 2 files\nsrc/keep.me\n",
        "matches: 1 lines in 1 of 2 files\nchild/a.py:1:needle\n",
    ]


async def test_find_18_19_and_20_dashes_odd_names_and_long_lines(connect, workspace):
    fill(
        workspace,
        {"dir:x/a:1:b.txt": "x\nk: --flag w\n", "-n.txt": "--flag\n", "long": f"{'a' * 400_000}--flag{'b' * 9}\n"},
    )
    results, client = await asked(connect, Call("code_grep", {"pattern": "--flag"}))
    (result,) = results
    assert result == (
        "matches: 3 lines in 3 of 3 files\n-n.txt:1:--flag\n"
        f'"dir:x/a:1:b.txt":2:k: --flag w\nlong:1:[399,715 characters]…{"a" * 285}--flag{"b" * 9}\n'
    )
    shown = [event for event in client.events("toolUpdated") if event.get("status") == "completed"]
    assert [place["uri"].rpartition("/")[2] for place in shown[-1]["locations"]] == ["-n.txt", "a%3A1%3Ab.txt", "long"]


async def test_find_22_patterns_that_cannot_be_searched_for_and_those_that_take_others_forever(connect, workspace):
    fill(workspace, {"f": "a" * 40 + "!\n"})
    patterns = ["(", "", "(a+)+$", "zzz"]
    results, _ = await asked(connect, *(Call("code_grep", {"pattern": pattern}) for pattern in patterns))
    assert "missing ): (" in results[0]
    assert "it is empty" in results[1]
    assert results[2:] == ["matches: 0 lines in 0 of 1 files\n"] * 2


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
async def test_the_open_buffer_is_searched_and_not_the_disk(connect, workspace, encoding):
    fill(workspace, {"a.txt": "on disk\n", "b.txt": "on disk\n"})

    def type_into_it(client):
        uri = client.open(workspace / "a.txt", "on disk\n")
        client.type(uri, "😋\ntyped on desk\n")

    results, _ = await asked(connect, Call("code_grep", {"pattern": "on d.sk"}), prepare=type_into_it)
    assert results == ["matches: 2 lines in 2 of 2 files\na.txt:2:typed on desk\nb.txt:1:on disk\n"]
