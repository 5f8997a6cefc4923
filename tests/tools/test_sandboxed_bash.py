"""bash in its sandbox, over the boundary: what it grants, what it says, and how a command gets out of it."""

import re
import shutil
import socket
from pathlib import Path

import pytest
from tests.conftest import MISSING
from tests.tools.stage import Bench

from tinsmith.domain.errors import PolicyError
from tinsmith.proc.launch import Confinement
from tinsmith.proc.output import Output
from tinsmith.proc.supervise import Exited, Finished
from tinsmith.tools.confine import Room, refusal_in

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
    assert (access.title, access.subject.sandbox, access.grant) == ("Run make", "bubblewrap", None)
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
    grant = "network" if what == "network" else "unsandboxed"
    how = "with network" if what == "network" else "without the sandbox, with network"
    assert f"note: the sandbox may have stopped this ({what})\n" in result.content
    assert not result.ok
    assert result.denied.arguments == bench.decoded("bash", {"command": command, "grant": grant})
    assert result.denied.title == f"Run again {how}: {command}"
    assert re.fullmatch(
        rf"It ended with exit \d+ after \d\.\d s, and the sandbox may have stopped it \({what}\)\. What it had done "
        "until then stays, and running it again does it again\\.",
        result.denied.account,
    )


async def test_an_ordinary_failure_blames_no_sandbox(bench):
    (bench.root / "script").write_text("echo hi\n")
    for command in ("false", "ls missing", "exit 3", "echo Permission denied", "nosuchprogram", "./script"):
        result = await bench.call("bash", command=command)
        assert ("note:" in result.content, result.denied) == (False, None)


@pytest.mark.parametrize(
    ("said", "code", "hidden", "what"),
    [
        ("cat: .env: Permission denied", 1, None, "a secret file or a file of somebody else"),
        ("cat: .env: Permission denied", 1, ("/w/.env",), "a secret file or a file of somebody else"),
        ("open /w/.env: permission denied", 1, ("/w/.env",), "a secret file or a file of somebody else"),
        ("cat: /root/x: Permission denied", 1, ("/w/.env",), None),
        ("cat: /root/x: Permission denied", 1, None, "a secret file or a file of somebody else"),
        ("bash: ./x: Permission denied", 126, None, None),
        ("git@x: Permission denied (publickey).", 128, (), "a key of the home"),
        ("mkdir /x: read-only file system", 1, (), "a write outside the workspace or to git's own files"),
        ("curl: (6) Could not resolve host: x", 126, (), "network"),
        ("Could not resolve host\nmkdir: Read-only file system", 1, (), "network"),
        ("connect: Connection refused", 1, None, None),
    ],
)
def test_which_last_words_blame_the_sandbox(said, code, hidden, what):
    """An ordinary user is denied much that no sandbox denies; root without capabilities and Landlock deny more."""
    room = Room("bubblewrap", {}, Confinement(()), hidden=hidden)
    found = refusal_in(room, Finished(Exited(code), Output(said, 1, len(said))))
    assert (found and found.what) == what


async def test_out_of_the_sandbox_asks_in_its_own_words_and_says_so(bench):
    access = await bench.preview("bash", command="npm install", grant="unsandboxed")
    assert (access.grant, access.title) == ("unsandboxed", "Run without the sandbox, with network: npm install")
    assert access.subject.sandbox == "none, with network"
    assert access.notes == ("Without the sandbox it can do whatever you can.",)
    result = await bench.call("bash", command="echo x > ../outside; cat ../outside", grant="unsandboxed")
    assert result.content == "exit: 0\nx\n"
    assert result.metadata["sandbox"] == "none, with network"


async def test_the_network_alone_is_granted_in_its_own_words_and_says_so(bench):
    access = await bench.preview("bash", command="npm install", grant="network")
    assert (access.grant, access.title) == ("network", "Run with network: npm install")
    assert access.subject.sandbox == "bubblewrap, with network"
    (note,) = access.notes
    for reached in ("internet", "local network", "127.0.0.1", "169.254.169.254", "send there whatever it can read"):
        assert reached in note
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = f"echo x > /dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo reached; echo x > /etc/tinsmith-test"
        assert (await bench.call("bash", command=command)).content.count("reached") == 0
        result = await bench.call("bash", command=command, grant="network")
    assert "reached\n" in result.content
    assert "note: the sandbox may have stopped this (a write outside" in result.content
    assert not Path("/etc/tinsmith-test").exists()
    assert result.metadata == {"exit": 1, "sandbox": "bubblewrap, with network"}


async def test_with_the_network_its_failures_are_no_sandbox_s(bench):
    result = await bench.call("bash", command="echo Could not resolve host; exit 6", grant="network")
    assert (result.content, result.denied) == ("exit: 6\nCould not resolve host\n", None)


@pytest.mark.parametrize("grant", ["network", "unsandboxed"])
async def test_an_explorer_is_granted_nothing(bench, grant):
    scope = bench.scope()
    scope.role = "explorer"
    with pytest.raises(PolicyError, match="stay in the sandbox"):
        await bench.specs["bash"].preview(bench.decoded("bash", {"command": "ls", "grant": grant}), scope)


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
