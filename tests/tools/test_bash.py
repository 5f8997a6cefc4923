"""bash over the boundary: outcome line, notes, output; what it may see and must never run."""

import os
import time
from pathlib import Path

import pytest
from tests.tools.stage import Bench, Buffers

from tinsmith.domain.errors import PolicyError
from tinsmith.domain.policy import Access, CommandPart, CommandSubject
from tinsmith.domain.redaction import MARK
from tinsmith.tools.floor import check_floor
from tinsmith.tools.ports import RESULT_CHARACTERS


@pytest.fixture(autouse=True)
def _without_sandbox(monkeypatch):
    monkeypatch.setenv("TINSMITH_SANDBOX", "off")


@pytest.fixture
def bench(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    return Bench(root)


@pytest.mark.parametrize(
    ("command", "content", "ok", "code"),
    [
        ("echo hi", "exit: 0\nhi\n", True, ""),
        ("true", "exit: 0\n(no output)", True, ""),  # SH-18
        ("false", "exit: 1\n(no output)", False, "exitCode"),
        ("echo before; kill -9 $$", "exit: 137 (killed by signal 9, SIGKILL)\nbefore\n", False, "exitCode"),
        (
            "sleep 60 & echo done",
            "exit: 0\nnote: 1 background process(es) still ran when the command ended and were stopped\ndone\n",
            True,
            "",
        ),
    ],
)
async def test_what_bash_says(bench, command, content, ok, code):
    result = await bench.call("bash", command=command)
    assert (result.content, result.ok, result.error_code) == (content, ok, code)
    assert (result.mutation_state, result.is_cancelled) == ("attempted", False)


async def test_a_timeout_says_so(bench):
    result = await bench.call("bash", command="echo begun; sleep 60", timeout_s=0.2)
    assert (result.content, result.mutation_state) == ("timed out after 0.2 s\nbegun\n", "unknown")
    assert (result.ok, result.error_code, result.is_cancelled) == (False, "timedOut", False)


async def test_a_cancel_says_so(bench):
    def cancel_when_begun(text):
        bench.shown.append(text)
        bench.cancel.cancel()

    scope = bench.scope()
    scope.output = cancel_when_begun
    started = time.monotonic()
    arguments = bench.decoded("bash", {"command": "trap '' TERM; echo begun; sleep 1000"})
    result = await bench.specs["bash"].run(arguments, scope)
    assert time.monotonic() - started < 2
    assert (result.content, result.is_cancelled, result.mutation_state) == (
        "cancelled\nbegun\n",
        True,
        "unknown",
    )
    assert bench.shown == ["begun\n"]


async def test_the_gate_sees_the_exact_command(bench):
    command = "git commit -m 'a  b' \\\n  -q"
    access = await bench.preview("bash", command=command)
    argv = ("git", "commit", "-m", "a  b", "-q")
    assert access == Access(
        "run",
        "Run without a sandbox: git commit -m 'a  b' \\ …",
        CommandSubject(command, str(bench.root), "unknown", "none (switched off by TINSMITH_SANDBOX=off)"),
        command,
        command_class="unknown",
        parts=(CommandPart(argv, "unknown", is_plain=True),),
        rule_prefix=("git", "commit"),
    )
    assert (await bench.preview("bash", command="ls", cwd="/")).is_outside


@pytest.mark.parametrize(
    ("command", "command_class", "is_outside", "is_secret"),
    [
        ("ls -la | wc -l", "read", False, False),
        ("cat src/../a.txt", "read", False, False),
        ("cat /etc/hostname", "read", True, False),
        ("cat ../x", "read", True, False),
        ("cd .. && ls", "read", True, False),
        ("cd; ls", "read", True, False),
        ("ls $HOME", "read", True, False),
        ("cat link/passwd", "read", True, False),
        ("cat .env", "read", False, True),
        ("cat certs/*.pem", "read", False, True),
        ("cat ~/.ssh/id_rsa", "read", True, True),
        ("touch new", "write_workspace", False, False),
        ("curl x", "network", False, False),
        ("rm x", "destructive", False, False),
        ("sudo x", "privileged", False, False),
        ("make", "unknown", False, False),
    ],
)
async def test_what_the_gate_is_told_of_a_command(bench, command, command_class, is_outside, is_secret):
    (bench.root / "link").symlink_to("/etc")
    access = await bench.preview("bash", command=command)
    assert (access.command_class, access.subject.command_class) == (command_class, command_class)
    assert (access.is_outside, access.is_secret) == (is_outside, is_secret)


async def test_a_program_of_the_workspace_is_no_program_of_the_system(bench, monkeypatch):
    tools = bench.root / "bin"
    tools.mkdir()
    (tools / "ls").write_text("#!/bin/sh\necho evil\n")
    (tools / "ls").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    assert (await bench.preview("bash", command="ls")).command_class == "unknown"
    assert (await bench.preview("bash", command="cat x")).command_class == "read"
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}")
    assert (await bench.preview("bash", command="cat x")).command_class == "unknown"


async def test_an_explorer_only_runs_what_reads(bench):
    scope = bench.scope()
    scope.role = "explorer"
    spec = bench.specs["bash"]
    assert (await spec.preview(bench.decoded("bash", {"command": "ls"}), scope)).command_class == "read"
    for command in ("touch x", "make", "git log", "ls > x", "rm x", "ls $(ls)"):
        with pytest.raises(PolicyError, match="only runs commands that read"):
            await spec.preview(bench.decoded("bash", {"command": command}), scope)


@pytest.mark.parametrize("grant", ["network", "unsandboxed"])
async def test_without_a_sandbox_there_is_none_to_leave(bench, grant):
    access = await bench.preview("bash", command="make", grant=grant)
    assert (access.grant, access.title, access.notes) == (None, "Run without a sandbox: make", ())


async def test_a_missing_directory_is_named(bench):
    """SH-14."""
    sub = bench.root / "sub"
    sub.mkdir()
    assert (await bench.call("bash", command="pwd", cwd="sub")).content == f"exit: 0\n{sub}\n"
    sub.rmdir()
    refusal = await bench.refusal("bash", command="echo hi", cwd="sub")
    assert (refusal.code, str(sub) in refusal.message) == ("noDirectory", True)
    assert (await bench.call("bash", command="echo hi")).content == "exit: 0\nhi\n"


async def test_keys_are_neither_inherited_nor_shown(tmp_path, monkeypatch):
    """SH-16."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("MY_LLM_KEY", "k-test-123")
    (tmp_path / "root").mkdir()
    bench = Bench(tmp_path / "root", secret_variables=lambda: frozenset({"MY_LLM_KEY"}))
    result = await bench.call("bash", command="env; printf 'k-test-'; printf '123\\n'")
    assert "sk-test" not in result.content
    assert "k-test-123" not in result.content + "".join(bench.shown)
    assert result.content.endswith(f"{MARK}\n")
    assert f"PATH={os.environ['PATH']}\n" in result.content


async def test_long_output_can_be_paged_with_read(bench):
    result = await bench.call("bash", command="seq 1 100000")
    assert len(result.content) <= RESULT_CHARACTERS
    note = next(line for line in result.content.split("\n") if line.startswith("note: the whole output is in "))
    path = note.removeprefix("note: the whole output is in ").partition(";")[0]
    access = await bench.preview("read", path=path)
    assert (access.is_outside, access.is_secret) == (False, False)
    page = await bench.call("read", path=path, start_line=50_000, end_line=50_001)
    assert page.content.endswith("50000\t50000\n50001\t50001\n")


async def test_unsaved_documents_are_named(tmp_path):
    bench = Bench(tmp_path, Buffers({str(tmp_path / "src" / "a.py"): "x"}))
    result = await bench.call("bash", command="true")
    assert result.content == (
        "exit: 0\nnote: open with unsaved changes, so the command saw older text on disk: src/a.py\n(no output)"
    )


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /",
        "rm -r --no-preserve-root /",
        "sudo rm -fr /*",
        "rm -rf ~",
        "rm -rf ~/",
        'rm -rf "$HOME"',
        "rm -rf ${HOME}/*",
        "rm -rf .",
        "rm -rf ./*",
        "rm -rf ..",
        "rm -rf /work/proj",
        "cd src && rm -rf ..",
        "cd / && rm -rf *",
        "rm -rf /home",
        "true; rm -rf .git",
        "rm -rf .git/",
        "rm -rf sub/.git",
        "X=1 env -i rm --recursive .git",
        "bash -c 'rm -rf .git'",
        "(rm -rf .git)",
        "echo a\nrm -rf .git",
        "mv .git /tmp/x",
        "find . -delete",
        "if true; then rm -rf /; fi",
        "/bin/rm -rf -- /",
    ],
)
def test_some_commands_are_never_run(command):
    with pytest.raises(PolicyError) as refusal:
        check_floor(command, "/work/proj", "/work/proj", "/home/ann")
    assert refusal.value.code == "neverAllowed"


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf build",
        "rm -rf ./build/*",
        "rm -rf ~/.cache/x",
        "rm .gitignore",
        "rm -rf .github",
        "echo 'rm -rf /'",
        "git rm -r docs",
        "cd build && rm -rf *",
        "find . -name '*.pyc' -delete",
        "mv a.py .git",
        "mv * ../elsewhere",
        "ls / ~ .git",
        "echo 'unbalanced",
        "rm -f /tmp/x",
    ],
)
def test_other_commands_are_the_gates_to_judge(command):
    check_floor(command, "/work/proj", "/work/proj", "/home/ann")


async def test_the_floor_is_checked_before_anybody_is_asked(bench):
    (bench.root / ".git").mkdir()
    with pytest.raises(PolicyError):
        await bench.preview("bash", command="rm -rf .git")
    assert Path(bench.root, ".git").exists()
