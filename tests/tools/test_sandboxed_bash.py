"""bash in its sandbox, over the boundary: what it grants, what it says, and how a command gets out of it."""

import shutil
from pathlib import Path

import pytest
from tests.conftest import MISSING
from tests.tools.stage import Bench

if shutil.which("bwrap") is None:
    MISSING["tests of bash in its sandbox"] = "no bubblewrap here (apt-get install bubblewrap)"
    pytest.skip("no bubblewrap", allow_module_level=True)


@pytest.fixture
def bench(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    return Bench(root)


async def test_the_card_and_the_record_name_the_sandbox(bench):
    access = await bench.preview("bash", command="make")
    assert (access.title, access.subject.sandbox, access.is_unsandboxed) == ("Run make", "bubblewrap", False)
    result = await bench.call("bash", command="echo hi > f; cat f")
    assert result.content == "exit: 0\nhi\n"
    assert result.metadata == {"exit": 0, "sandbox": "bubblewrap"}
    assert (bench.root / "f").read_text() == "hi\n"


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("echo x > /etc/tinsmith-test", "a write outside the workspace or to git's own files"),
        ("git config a.b c", "replacing or moving git's own files"),
        ("echo x > /dev/tcp/192.0.2.1/80", "network"),
        ("python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80))'", "network"),
        ("cat .env", "a secret file or a file of somebody else"),
        ("python3 -c 'import socket; socket.socket(socket.AF_UNIX)'", "a system call"),
    ],
)
async def test_a_refusal_is_recognised_and_names_the_way_out(bench, command, what):
    (bench.root / ".env").write_text("KEY=1")
    await bench.call("bash", command="git init -q .")
    result = await bench.call("bash", command=command)
    assert f"note: the sandbox may have stopped this ({what}); " in result.content
    assert "unsandboxed: true" in result.content
    assert not result.ok


async def test_an_ordinary_failure_blames_no_sandbox(bench):
    for command in ("false", "ls missing", "exit 3", "echo Permission denied", "nosuchprogram"):
        assert "note:" not in (await bench.call("bash", command=command)).content


async def test_out_of_the_sandbox_asks_in_its_own_words_and_says_so(bench):
    access = await bench.preview("bash", command="npm install", unsandboxed=True)
    assert (access.is_unsandboxed, access.title) == (True, "Run without the sandbox, with network: npm install")
    assert access.subject.sandbox == "none, with network (the model asked to run without the sandbox)"
    result = await bench.call("bash", command="echo x > ../outside; cat ../outside", unsandboxed=True)
    assert result.content == "exit: 0\nx\n"
    assert result.metadata["sandbox"] == "none (asked for with unsandboxed)"


async def test_temporary_files_last_as_long_as_a_conversation(bench):
    await bench.call("bash", "c1", command="echo one > /tmp/note")
    assert (await bench.call("bash", "c1", command="cat /tmp/note")).content.endswith("\none\n")
    assert not (await bench.call("bash", "c2", command="cat /tmp/note")).ok


async def test_what_git_would_run_is_named_when_it_is_set_aside(bench):
    await bench.call("bash", command="git init -q . && rmdir .git/hooks 2>/dev/null || rm -rf .git/hooks")
    result = await bench.call("bash", command="mkdir .git/hooks && echo evil > .git/hooks/pre-commit")
    assert "note: git would run what is there, so it was set aside as " in result.content
    assert not (bench.root / ".git" / "hooks").exists()


async def test_our_own_folders_are_not_to_be_seen(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "store").write_text("conversations")
    bench = Bench(tmp_path / "root", protected=(str(tmp_path / "data"),))
    assert "conversations" not in (await bench.call("bash", command=f"cat {tmp_path}/data/store")).content


async def test_git_can_write_nothing_and_reach_nobody(bench, monkeypatch):
    """Whatever a repository might make it run: here all of git is somebody else's program."""
    await bench.call("bash", command="git init -q .")
    programs = bench.root.parent / "bin"
    programs.mkdir()
    places = (bench.root / "f", bench.root / ".git" / "f", "/var/tmp/f-of-git", "/tmp/f-of-git")
    attempts = "; ".join(f"echo x > {place}; echo $?" for place in places)
    (programs / "git").write_text(
        f"#!/bin/bash\nexec 2>/dev/null\n{attempts}\necho x > /dev/tcp/127.0.0.1/1; echo $?\n"
    )
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    assert (await bench.call("git", command="status")).content == "1\n1\n1\n0\n1\n"
    assert [place for place in map(Path, places) if place.exists()] == []
