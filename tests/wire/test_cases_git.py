"""Repositories as they went wrong in the field (GIT-…, FIND-23), through the server and its orchestrator."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.tools.test_git import arm, canaries
from tests.wire.talk import Talk

from tinsmith.demo.server import LoopbackServer
from tinsmith.llm.scripted import Call, ScriptedModel, reply

pytestmark = pytest.mark.asyncio(loop_scope="module")

DONE = reply("Done.")
IDENTITY = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "protocol.file.allow=always")


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *IDENTITY, *arguments], cwd=folder, check=True, capture_output=True)


def asking(*commands: tuple[str, ...]) -> ScriptedModel:
    """A model that runs git with these commands and arguments, in one round."""
    return ScriptedModel([reply(*(Call("git", {"command": each[0], "args": each[1:]}) for each in commands)), DONE])


async def told(open_talk, *commands: tuple[str, ...]) -> list[str]:
    """What the orchestrator is told of each command."""
    async with open_talk(asking(*commands)) as talk:
        assert (await talk.say(role="orchestrator"))["outcome"] == "completed"
        return talk.results


@pytest.fixture
def repository(workspace) -> Path:
    git(workspace, "init", "-q", "-b", "main")
    (workspace / "a.txt").write_text("one\n")
    git(workspace, "add", ".")
    git(workspace, "commit", "-qm", "First")
    return workspace


ONE = (
    "git@code.example.org:team/app.git",
    "ssh://git@code.example.org/team/app.git",
    "ssh://git@code.example.org:2222/team/app.git",
    "https://code.example.org/team/app",
    "https://code.example.org/team/app.git/",
    "https://user:tok3n@CODE.example.org/team/app.git",
)
"""The port of ssh is dropped."""
ANOTHER = "https://code.example.org:8443/team/app.git"


@pytest.mark.asyncio(loop_scope="function")
async def test_git_01_every_way_to_write_an_address_is_one_project(connect, home, repository):
    git(repository, "remote", "add", "origin", "x")
    model = ScriptedModel([DONE] * (len(ONE) + 1))
    async with LoopbackServer(model) as provider:
        client = await connect(provider.base_url)
        for url in (*ONE, ANOTHER):
            git(repository, "remote", "set-url", "origin", url)
            await client.turn("go")
    prompts = [request.system for request in model.requests]
    facts = [
        tuple(line for line in prompt.splitlines() if line.startswith(("- Normalized origin", "- Project id")))
        for prompt in prompts
    ]
    assert [len(each) for each in facts] == [2] * len(facts)
    assert len({*facts[:-1]}) == 1
    assert '- Normalized origin: "code.example.org/team/app"' in facts[0]
    assert facts[-1] != facts[0]
    assert await client.stop() == 0
    log = (await client.process.stderr.read()).decode()
    for text in (*prompts, str(client.received), log):
        assert "tok3n" not in text
        assert "user:" not in text
    stored = [path for path in home.rglob("*") if path.is_file()]
    assert stored
    assert [path for path in stored if b"tok3n" in path.read_bytes()] == []


async def test_git_03_names_are_shown_as_they_are_and_can_be_used(open_talk, repository):
    (repository / "docs").mkdir()
    note = repository / "docs" / "日本語 é.md"
    note.write_text("eins\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "Zweite")
    note.write_text("zwei\n")
    (repository / "new ü.txt").write_text("neu\n")
    names = ["docs/日本語 é.md", "new ü.txt"]
    reading = [Call("read", {"path": name}) for name in names]
    commands = [("status",), ("diff",), ("log", "--stat=100", "-1")]
    looking = [Call("git", {"command": each[0], "args": each[1:]}) for each in commands]
    async with open_talk(ScriptedModel([reply(*looking, *reading), DONE])) as talk:
        await talk.say(role="orchestrator")
        status, diff, log, *texts = talk.results
    assert all(name in status for name in names)
    assert "+++ b/docs/日本語 é.md" in diff
    assert "docs/日本語 é.md | 1 +" in log
    assert [text.partition("\t")[2] for text in texts] == ["zwei\n", "neu\n"]


async def test_git_05_what_begins_with_a_dash_is_a_path_or_refused(open_talk, repository):
    before = sorted(os.listdir(repository))
    path, *others = await told(
        open_talk,
        ("diff", "--", "--output=pwn"),
        ("diff", "--output=pwn"),
        ("log", "-n1 --output=pwn"),
        ("log", "-n1", "--output=pwn"),
        ("show", "--help"),
        ("diff", "--", ":(glob)**"),
        ("log", ":(glob)**"),
    )
    assert path == "(no output)"
    *refused, no_match, no_revision = others
    assert all("cannot be given" in each for each in refused)
    assert no_match == "(no output)"
    assert "bad revision ':(glob)**'" in no_revision
    assert sorted(os.listdir(repository)) == before


async def test_git_07_a_repository_without_a_commit(open_talk, workspace):
    git(workspace, "init", "-q", "-b", "main")
    (workspace / "a.txt").write_text("one\n")
    status, log = await told(open_talk, ("status", "-sb"), ("log",))
    assert status == "## No commits yet on main\n?? a.txt\n"
    assert log == "exit: 128\nfatal: your current branch 'main' does not have any commits yet"


async def test_git_07_no_repository(open_talk, workspace):
    (result,) = await told(open_talk, ("status",))
    assert "is in no git repository" in result


async def test_git_07_detached_locked_and_of_somebody_else(open_talk, repository):
    git(repository, "checkout", "-q", "--detach")
    (repository / ".git" / "index.lock").write_text("")
    if os.geteuid() == 0:  # only root can give a folder to somebody else
        for path in (repository, repository / ".git"):
            os.chown(path, 12345, 12345)
    began = time.monotonic()
    status, log = await told(open_talk, ("status",), ("log", "--format=%s"))
    assert time.monotonic() - began < 5
    assert status.startswith("HEAD detached at ")
    assert log == "First\n"


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.usefixtures("repository")
async def test_git_07_no_git(connect, tmp_path):
    async with LoopbackServer(asking(("status",))) as provider:
        client = await connect(provider.base_url, environment={"PATH": str(tmp_path)})
        assert (await client.turn("look", role="orchestrator"))["outcome"] == "completed"
    (result,) = [event["result"] for event in client.events("toolUpdated") if "result" in event]
    assert result == "There is no git on this machine. Go on without it or ask the user."


async def test_find_23_branch_and_status_are_those_of_the_worktree_and_the_submodule(server, repository, tmp_path):
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q", "-b", "trunk")
    git(library, "commit", "-q", "--allow-empty", "-m", "One")
    git(repository, "submodule", "add", "-q", str(library), "sub")
    git(repository, "worktree", "add", "-q", "-b", "side", str(tmp_path / "tree"))
    wanted = {repository / "sub": "## trunk...origin/trunk", tmp_path / "tree": "## side"}
    for root, branch in wanted.items():
        (root / "deep").mkdir()
        (root / "new.txt").write_text("new\n")
        for start in (root, root / "deep"):
            async with LoopbackServer(asking(("status", "-sb"))) as provider:
                made = await server.request("agent/conversationNew", {"workspace": start.as_uri()})
                talk = Talk(server, provider, start, made["conversation"]["conversationId"])
                await talk.say(role="orchestrator")
                assert f'- Repository root: "{root}"' in talk.bodies[0]["messages"][0]["content"]
                assert talk.results[0].splitlines()[0] == branch
                assert "new.txt" in talk.results[0]


async def test_no_program_of_a_hostile_repository_is_run(open_talk, repository):
    """Filters, hooks, monitors, pagers, external diffs, included settings: each would leave a file."""
    (repository / "x.evil").write_text("line\n")
    (repository / ".gitattributes").write_text("*.evil filter=evil diff=evil\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "Second")
    (repository / "x.evil").write_text("line\nmore\n")
    arm(repository)
    status, diff, *_ = await told(
        open_talk, ("status",), ("diff",), ("log", "-p"), ("show", "HEAD"), ("blame", "x.evil")
    )
    assert "x.evil" in status
    assert "+more\n" in diff
    assert canaries(repository) == set()
    subprocess.run(["git", "status"], cwd=repository, capture_output=True, check=False)
    assert canaries(repository) != set(), "the traps do not work"
