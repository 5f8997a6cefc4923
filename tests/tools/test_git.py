"""git over the boundary: what it shows, what it refuses, and that no program of a repository is ever run."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.tools.stage import Bench

from tinsmith.tools.git_flags import Asked, checked
from tinsmith.tools.ports import RESULT_CHARACTERS
from tinsmith.workspace.patches import without_secret_hunks

IDENTITY = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "protocol.file.allow=always")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *IDENTITY, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def root(tmp_path):
    """A repository of two commits, a changed, a staged and an untracked file."""
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    (root / "docs" / "日本語 é.md").write_text("eins\n")
    (root / "a.txt").write_text("one\ntwo\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "First")
    (root / "a.txt").write_text("one\nTWO\n")
    git(root, "commit", "-qam", "Second")
    (root / "docs" / "日本語 é.md").write_text("zwei\n")
    (root / "new ü.txt").write_text("new\n")
    return root


@pytest.fixture
def bench(root):
    return Bench(root)


async def shown(bench: Bench, command: str, *args: str) -> str:
    result = await bench.call("git", command=command, args=args)
    assert (result.ok, result.mutation_state) == (True, "none"), result.content
    return result.content


async def test_names_are_shown_as_they_are(bench):
    """GIT-03."""
    assert await shown(bench, "status", "--short", "--branch") == '## main\n M "docs/日本語 é.md"\n?? "new ü.txt"\n'
    status = await shown(bench, "status")
    assert "modified:   docs/日本語 é.md\n" in status
    assert "\tnew ü.txt\n" in status
    diff = await shown(bench, "diff")
    assert "+++ b/docs/日本語 é.md\t\n@@ -1 +1 @@\n-eins\n+zwei\n" in diff
    assert (await bench.call("read", path="docs/日本語 é.md")).content.endswith("1\tzwei\n")


async def test_history(bench):
    assert (await shown(bench, "log", "--format=%s")) == "Second\nFirst\n"
    assert (await shown(bench, "log", "-1", "--format=%an %s", "HEAD~1")) == "Ann First\n"
    assert (await shown(bench, "log", "--format=%s", "--", "docs")) == "First\n"
    assert (await shown(bench, "log", "--format=%s", "docs")) == "First\n"  # a path, since there is one
    assert (await shown(bench, "show", "HEAD~1:a.txt")) == "one\ntwo\n"
    assert "-two\n+TWO\n" in await shown(bench, "show", "HEAD", "--format=%h")
    assert (await shown(bench, "diff", "--stat=60", "HEAD~1..HEAD")).startswith(" a.txt | 2 +-\n")
    blame = await shown(bench, "blame", "-L1,2", "-s", "a.txt")
    assert [line.partition(" ")[2] for line in blame.splitlines()] == ["1) one", "2) TWO"]
    assert (await shown(bench, "diff", "--cached")) == "(no output)"


@pytest.mark.parametrize(
    ("command", "args", "code"),
    [
        ("diff", ["--output=pwn"], "badFlag"),
        ("log", ["-n1 --output=pwn"], "badFlag"),
        ("show", ["--help"], "badFlag"),
        ("diff", ["--no-index", "/etc/hostname", "a.txt"], "badFlag"),
        ("diff", ["--ext-diff"], "badFlag"),
        ("show", ["--textconv"], "badFlag"),
        ("log", ["--show-signature"], "badFlag"),
        ("log", ["--format=%h %G?"], "badFlag"),
        ("log", ["--format=%+GK"], "badFlag"),
        ("log", ["--pretty", "%GG"], "badFlag"),
        ("log", ["-pO/etc/passwd"], "badFlag"),
        ("log", ["--outpu=x"], "badFlag"),
        ("log", ["--graph", "-p"], "badFlag"),
        ("log", ["-n", "--all"], "badFlag"),
        ("log", ["-"], "badFlag"),
        ("diff", ["--submodule=log"], "badFlag"),
        ("blame", ["--contents", "/etc/passwd", "a.txt"], "badFlag"),
        ("blame", ["--ignore-revs-file=x", "a.txt"], "badFlag"),
        ("status", ["--column"], "badFlag"),
        ("log", ["a\nb"], "badRevision"),
        ("log", [""], "badRevision"),
        ("blame", [], "badPath"),
        ("blame", ["HEAD"], "badPath"),
        ("log", ["--", "../elsewhere"], "badPath"),
        ("diff", ["--", "/etc/hostname", "a.txt"], "badPath"),
    ],
)
async def test_what_does_not_only_look_is_refused(bench, command, args, code):
    """GIT-05."""
    assert (await bench.refusal("git", command=command, args=args)).code == code
    assert not (bench.root / "pwn").exists()


async def test_paths_are_paths_and_revisions_revisions(bench):
    """GIT-05."""
    for name in ("--output=pwn", ":(glob)**", ":/", "-n1"):
        assert await shown(bench, "diff", "--", name) == "(no output)"
    result = await bench.call("git", command="log", args=[":(glob)**"])
    assert (result.ok, result.error_code) == (False, "gitFailed")
    assert "bad revision ':(glob)**'" in result.content
    assert sorted(os.listdir(bench.root)) == [".git", "a.txt", "docs", "new ü.txt"]


def test_flags_keep_their_values():
    arguments = ["-n", "3", "-sb", "--since", "2 days ago", "-U5", "-Sx y", "--stat", "HEAD@{1 day ago}", "--", "-x"]
    assert checked("log", arguments) == Asked(
        ("-n3", "-s", "-b", "--since=2 days ago", "-U5", "-Sx y", "--stat"), ("HEAD@{1 day ago}",), ("-x",)
    )
    assert checked("status", ["-sb", "-uno"]) == Asked(("-s", "-b", "-uno"), (), ())
    assert checked("log", ["-5"]) == Asked(("-n5",), (), ())


HOSTILE = {
    "core.fsmonitor": "touch CANARY-fsmonitor",
    "core.hooksPath": "hooks",
    "core.pager": "touch CANARY-pager;cat",
    "core.editor": "touch CANARY-editor",
    "core.sshCommand": "touch CANARY-ssh;false",
    "core.alternateRefsCommand": "touch CANARY-refs",
    "core.attributesFile": "attributes",
    "pager.log": "touch CANARY-pagerlog;cat",
    "pager.status": "true",
    "diff.external": "touch CANARY-external;true",
    "diff.evil.command": "touch CANARY-command;true",
    "diff.evil.textconv": "touch CANARY-textconv;cat",
    "diff.evil.cachetextconv": "true",
    "diff.submodule": "diff",
    "diff.ignoreSubmodules": "none",
    "status.submoduleSummary": "true",
    "filter.evil.clean": "touch CANARY-clean;cat",
    "filter.evil.smudge": "touch CANARY-smudge;cat",
    "filter.a=b.clean": "touch CANARY-clean2;cat",
    "filter.slow.process": "touch CANARY-process;false",
    "filter.slow.required": "true",
    "alias.status": "!touch CANARY-alias",
    "alias.log": "!touch CANARY-alias",
    "log.showSignature": "true",
    "gpg.program": "touch CANARY-gpg;false",
    "format.pretty": "format:%H %G?",
    "uploadpack.packObjectsHook": "touch CANARY-upload",
    "credential.helper": "!touch CANARY-credential",
    "trace2.eventTarget": "CANARY-trace",
    "extensions.partialClone": "origin",
    "remote.origin.promisor": "true",
    "remote.origin.url": "ext::sh -c touch% CANARY-remote",
    "remote.origin.uploadpack": "touch CANARY-uploadpack",
    "protocol.allow": "always",
    "blame.ignoreRevsFile": "/dev/zero",
    "interactive.diffFilter": "touch CANARY-filter",
    "man.viewer": "touch CANARY-man",
}
LOOKS = (
    ("status",),
    ("status", "--ignored", "-uall", "--show-stash"),
    ("diff",),
    ("diff", "--cached"),
    ("diff", "HEAD~1"),
    ("log", "-p", "--decorate", "-S", "line"),
    ("show", "HEAD"),
    ("show", "HEAD:x.evil"),
    ("blame", "x.evil"),
    ("blame", "HEAD", "--", "x.evil"),
)


def arm(root: Path) -> None:
    """Configure everything in a repository that could have git run a program; each would leave a file."""
    trap = root / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {root}/CANARY-$(basename $0)\n")
    trap.chmod(0o755)
    for key, value in HOSTILE.items():
        git(root, "config", key, value.replace("CANARY", f"{root}/CANARY"))
    included = root / "included"
    for key in ("core.fsmonitor", "diff.external", "filter.slow.clean"):
        git(root, "config", "--file", str(included), key, f"touch {root}/CANARY-included")
    git(root, "config", "include.path", "../included")
    git(root, "config", f"includeIf.gitdir:{root}/.path", "../included")
    (root / "attributes").write_text("* filter=evil diff=evil\n")
    (root / ".git" / "info" / "attributes").write_text("*.slow filter=slow\n")
    for folder in (root / "hooks", root / ".git" / "hooks"):
        folder.mkdir(exist_ok=True)
        for hook in ("post-index-change", "fsmonitor-watchman", "pre-auto-gc", "reference-transaction", "query"):
            (folder / hook).write_bytes(trap.read_bytes())
            (folder / hook).chmod(0o755)
    for name in ("git", "cat", "sh", "gpg", "less"):
        (root / name).write_bytes(trap.read_bytes())
        (root / name).chmod(0o755)
    (root / "trap").unlink()


@pytest.fixture
def hostile(tmp_path):
    """A repository that runs a program at every occasion, with a submodule of the same kind."""
    library, root = tmp_path / "library", tmp_path / "hostile"
    for folder in (library, root):
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main")
        (folder / ".gitattributes").write_text("*.evil filter=evil diff=evil\n*.odd filter=a=b\n")
        for name in ("x.evil", "x.slow", "x.odd"):
            (folder / name).write_text("line\n")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "one")
    git(root, "submodule", "add", "-q", str(library), "sub")
    git(root, "commit", "-qam", "two")
    for folder in (root, root / "sub"):
        for name in ("x.evil", "x.slow", "x.odd"):
            (folder / name).write_text("line\nmore\n")
    arm(root)
    sub = root / ".git" / "modules" / "sub"
    for key in ("core.fsmonitor", "diff.external", "filter.evil.clean"):
        git(root, "config", "--file", str(sub / "config"), key, f"touch {root}/CANARY-sub")
    return root


def canaries(root: Path) -> set[str]:
    return {path.name for path in root.rglob("CANARY*")}


def test_the_traps_work(hostile):
    """Plain git falls into enough of them; else the next test could not fail."""
    for look in (["status"], ["diff"], ["log", "-p"], ["-p", "log"]):
        subprocess.run(["git", *look], cwd=hostile, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    fallen = {"clean", "clean2", "process", "textconv", "included", "sub", "post-index-change"}
    assert {f"CANARY-{name}" for name in fallen} <= canaries(hostile)


async def test_no_program_of_a_repository_is_run(hostile, monkeypatch):
    monkeypatch.setenv("PATH", os.pathsep.join((".", "", str(hostile), os.environ["PATH"])))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", f"touch {hostile}/CANARY-environment")
    monkeypatch.setenv("GIT_PAGER", f"touch {hostile}/CANARY-environment")
    monkeypatch.setenv("GIT_TRACE", f"{hostile}/CANARY-trace")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    bench = Bench(hostile)
    index = (hostile / ".git" / "index").stat()
    for command, *args in LOOKS:
        os.utime(hostile / "x.evil")
        content = await shown(bench, command, *args)
        assert content != "(no output)" or "--cached" in args
        assert "%G" not in content
    assert canaries(hostile) == set()
    after = (hostile / ".git" / "index").stat()
    assert (index.st_mtime_ns, index.st_ino) == (after.st_mtime_ns, after.st_ino)
    assert list(hostile.rglob("*.lock")) == []
    diff = await shown(bench, "diff", "--", "x.evil")
    assert diff.endswith("@@ -1 +1,2 @@\n line\n+more\n")


async def test_a_missing_object_is_not_fetched(hostile):
    blob = git(hostile, "-c", "core.fsmonitor=false", "rev-parse", "HEAD:x.evil").strip()
    (hostile / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    result = await Bench(hostile).call("git", command="show", args=["HEAD:x.evil"])
    assert (result.ok, canaries(hostile)) == (False, set())


async def test_worktrees_and_submodules(root, tmp_path):
    """FIND-23: branch and status are those of the worktree, of the submodule."""
    git(root, "worktree", "add", "-q", "-b", "side", str(tmp_path / "tree"))
    git(tmp_path / "tree", "commit", "-q", "--allow-empty", "-m", "Third")
    git(root, "submodule", "add", "-q", "-b", "main", str(tmp_path / "root"), "sub")
    (tmp_path / "tree" / "a.txt").write_text("three\n")
    tree, sub = Bench(tmp_path / "tree"), Bench(root / "sub")
    assert await shown(tree, "status", "-sb") == "## side\n M a.txt\n"
    assert await shown(tree, "log", "--format=%s", "-g", "-2") == "Third\nSecond\n"
    assert "side" in await shown(tree, "log", "--format=%D", "--all")
    assert "main" in await shown(tree, "log", "--format=%D", "--all")
    assert await shown(sub, "status", "-sb") == "## main...origin/main\n"
    assert (await shown(Bench(root), "status", "-s")).startswith("A  .gitmodules\n")
    assert (await tree.preview("git", command="status")).is_outside is False


async def test_repositories_in_other_states(tmp_path, root):
    """GIT-07."""
    empty = tmp_path / "empty"
    empty.mkdir()
    assert (await Bench(empty).refusal("git", command="status")).code == "noRepository"
    git(empty, "init", "-q", "-b", "main")
    assert "No commits yet" in await shown(Bench(empty), "status")
    unborn = await Bench(empty).call("git", command="log")
    assert (unborn.ok, unborn.content) == (
        False,
        "exit: 128\nfatal: your current branch 'main' does not have any commits yet",
    )
    git(root, "checkout", "-q", "--detach", "HEAD~1")
    (root / ".git" / "index.lock").write_text("")
    bench = Bench(root)
    assert (await shown(bench, "status")).startswith("HEAD detached at ")
    assert (await shown(bench, "log", "--format=%s")) == "First\n"
    for path in (root, root / ".git"):
        if os.geteuid() == 0:  # only root can give a folder to somebody else
            os.chown(path, 12345, 12345)
    assert (await shown(bench, "status")).startswith("HEAD detached at ")


async def test_without_git(bench, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    refusal = await bench.refusal("git", command="status")
    assert (refusal.code, refusal.message) == (
        "noProgram",
        "There is no git on this machine. Go on without it or ask the user.",
    )


async def test_somebody_elses_repository_is_asked_for(tmp_path, root):
    thief = tmp_path / "thief"
    thief.mkdir()
    (thief / ".git").write_text(f"gitdir: {root}/.git\n")
    assert (await Bench(thief).preview("git", command="log")).is_outside is True
    assert (await Bench(root).preview("git", command="log")).is_outside is False


async def test_output_is_bounded(bench):
    (bench.root / "a.txt").write_text("".join(f"line {n}\n" for n in range(60_000)))
    content = await shown(bench, "diff", "--", "a.txt")
    assert len(content) <= RESULT_CHARACTERS
    body, _, note = content.rpartition("[cut: ")
    assert body.endswith("\n")
    assert note.endswith(" characters; ask for less with paths, -n, --stat or other revisions]\n")
    (bench.root / "a.txt").write_text("x" * 3_000_000)
    content = await shown(bench, "diff", "--", "a.txt")
    assert len(content) <= RESULT_CHARACTERS
    assert "of more than 2,000,000 bytes;" in content


async def test_secret_files_are_shown_only_when_named(bench):
    (bench.root / ".env").write_text("KEY=hidden-one\n")
    (bench.root / "b.txt").write_text("open\n")
    git(bench.root, "add", ".")
    git(bench.root, "commit", "-qm", "Third")
    for command, *args in (("show", "HEAD"), ("log", "-p"), ("diff", "HEAD~1", "HEAD"), ("log", "-p", "--", ".e*")):
        content = await shown(bench, command, *args)
        assert "hidden-one" not in content
        assert "+++ b/.env\n[what stands in this file is left out" in content
        assert "+open" in content or ".e*" in args
    for command, *args in (("show", "HEAD:.env"), ("blame", ".env"), ("log", "-p", "--", ".env")):
        assert (await bench.preview("git", command=command, args=args)).is_secret
        assert "hidden-one" in await shown(bench, command, *args)


def test_a_secret_hunk_ends_where_git_says():
    patch = (
        "diff --git a/.env b/x\n--- a/.env\n+++ b/x\n@@ -1,3 +1,3 @@\n S1\n-diff --git a/b b/b\n+++ b/b\n"
        "\\ No newline at end of file\n@@ -9 +9 @@\n S2\ndiff --cc y\n--- a/y\n+++ b/y\n@@@ -1 -1 +1 @@@\n++shown\n"
        'commit 1\n\n    text\n\ndiff --git "a/k\\t.pem" "b/k\\t.pem"\nnew file mode 100644\n--- /dev/null\n'
        '+++ "b/k\\t.pem"\n@@ -0,0 +1 @@\n+S3\ncommit 2\n'
    )
    note = "[what stands in this file is left out: it may hold secrets; read asks the user]\n"
    assert without_secret_hunks(patch) == (
        f"diff --git a/.env b/x\n--- a/.env\n+++ b/x\n{note}diff --cc y\n--- a/y\n+++ b/y\n@@@ -1 -1 +1 @@@\n++shown\n"
        'commit 1\n\n    text\n\ndiff --git "a/k\\t.pem" "b/k\\t.pem"\nnew file mode 100644\n--- /dev/null\n'
        f'+++ "b/k\\t.pem"\n{note}commit 2\n'
    )
