"""Tools that only look, through the real server: the orchestrator's git, and a map with unsaved text in it."""

import subprocess

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import Call, ScriptedModel, reply


def git(folder, *arguments):
    identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def results(model):
    """What the model was told of its calls."""
    return [message.content for message in model.requests[-1].messages if type(message).__name__ == "ToolMessage"]


async def test_the_orchestrator_reviews_with_git_and_nothing_else_runs(connect, workspace):
    git(workspace, "init", "-q", "-b", "main")
    (workspace / "a.txt").write_text("one\n")
    git(workspace, "add", ".")
    git(workspace, "commit", "-qm", "First")
    git(workspace, "remote", "add", "origin", "https://ann:tok3n@CODE.example.org/team/app.git")
    git(workspace, "config", "core.fsmonitor", f"touch {workspace}/canary")
    git(workspace, "config", "diff.external", f"touch {workspace}/canary")
    (workspace / "a.txt").write_text("two\n")
    calls = (
        Call("git", {"command": "diff", "args": ["HEAD", "--", "a.txt"]}),
        Call("git", {"command": "log", "args": ["--output=canary"]}),
        Call("bash", {"command": "touch canary"}),
    )
    model = ScriptedModel([reply(*calls), reply("Reviewed.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url)
        ended = await client.turn("review", role="orchestrator")
    assert ended["outcome"] == "completed"
    diff, refused, denied = results(model)
    assert diff.endswith("@@ -1 +1 @@\n-one\n+two\n")
    assert refused.startswith("git log cannot be given '--output=canary' here.")
    assert "bash" in denied
    assert [path.name for path in workspace.iterdir() if path.name == "canary"] == []
    first = model.requests[0]
    assert '- Normalized origin: "code.example.org/team/app"' in first.system
    assert "tok3n" not in first.system


async def test_symbols_of_unsaved_text(connect, workspace):
    (workspace / "a.py").write_text("class Old:\n    pass\n")
    calls = (
        Call("code_symbols", {"query": "fresh"}),
        Call("code_outline", {"path": "a.py"}),
        Call("code_map", {}),
        Call("git", {"command": "status"}),
    )
    model = ScriptedModel([reply(*calls), reply("Seen.")])
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url)
        uri = client.open(workspace / "a.py", "class Old:\n    pass\n")
        client.type(uri, "# new\n\nclass Fresh:\n    def start(self):\n        pass\n")
        ended = await client.turn("where is Fresh?")
    assert ended["outcome"] == "completed"
    symbols, outline, overview, denied = results(model)
    assert symbols == "class Fresh a.py:3\n"
    assert outline.endswith("source: buffer\nsymbols: 2\nclass Fresh :3-5\n  method start :4-5\n")
    assert "a.py  (54 B): class Fresh:3\n" in overview
    assert "git" in denied
    finished = [event for event in client.events("toolUpdated") if event["status"] == "completed"]
    assert [event["name"] for event in finished] == ["code_symbols", "code_outline", "code_map"]
