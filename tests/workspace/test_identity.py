"""Which project a folder is: roots, addresses of one repository, the facts in the prompt."""

import os
import subprocess
from itertools import combinations
from pathlib import Path

import pytest

from tinsmith.services.prompts import Scope, system_prompt
from tinsmith.workspace.identity import look_at_project
from tinsmith.workspace.origin import normalized_origin, without_secrets
from tinsmith.workspace.repository import Setting, find_repository, parse_settings

ONE_REPOSITORY = (
    "git@code.example.org:team/app.git",
    "code.example.org:team/app",
    "git@code.example.org:/team/app.git",
    "ssh://git@code.example.org/team/app.git",
    "ssh://git@code.example.org:2222/team/app.git",
    "git+ssh://git@code.example.org/team/app",
    "https://code.example.org/team/app",
    "https://code.example.org:443/team/app.git",
    "https://code.example.org/team/app.git/",
    "https://user:tok3n@CODE.example.org/team/app.git",
    "https://tok3n@code.example.org/team/app.git?key=tok3n",
    "http://code.example.org/team/app//",
    "git://code.example.org/team/app.git",
    "  https://code.example.org/team/app  ",
)
OTHERS = (
    "https://code.example.org:8443/team/app.git",
    "https://code.example.org/Team/app.git",
    "https://code.example.net/team/app.git",
    "ssh://git@[2001:db8::1]:22/team/app.git",
    "/srv/git/app.git",
    "C:/team/app",
)


def test_every_way_to_write_an_address_is_one_repository():
    """GIT-01."""
    assert {normalized_origin(url, "/w") for url in ONE_REPOSITORY} == {"code.example.org/team/app"}
    names = [normalized_origin(url, "/w") for url in OTHERS]
    assert names == [
        "code.example.org:8443/team/app",
        "code.example.org/Team/app",
        "code.example.net/team/app",
        "[2001:db8::1]/team/app",
        "/srv/git/app",
        "/w/C:/team/app",
    ]
    assert all(one != other for one, other in combinations([*names, "code.example.org/team/app"], 2))


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("file:///srv/git/app.git", "/srv/git/app"),
        ("/srv/git/app/.git", "/srv/git/app"),
        ("../app.git", "/work/app"),
        ("", ""),
        ("https://", ""),
        ("https://host:port/x", ""),
        ("[::1]:x", "[::1]/x"),
        ("ssh://git@host/~ann/a%20b.git", "host/~ann/a b"),
    ],
)
def test_addresses_of_other_kinds(address, expected):
    assert normalized_origin(address, "/work/here") == expected


@pytest.mark.parametrize("url", [*ONE_REPOSITORY, "user:tok3n@host:a/b", "ssh://user:tok3n@host/x#tok3n"])
def test_nothing_secret_is_left_in_an_address(url):
    shown = without_secrets(url) + normalized_origin(url, "/w")
    assert "tok3n" not in shown
    assert "user:" not in shown


def test_a_user_name_of_ssh_is_no_secret():
    assert without_secrets("git@host:a.git") == "git@host:a.git"
    assert without_secrets("ssh://git@host:22/a.git") == "ssh://git@host:22/a.git"
    assert without_secrets("https://me@host/a") == "https://host/a"


def test_the_syntax_of_a_configuration():
    text = (
        "\ufeff; comment\n[core] bare = false # no\n\tSymlinks\n"
        '[remote "My \\"Fork\\\\"] # x\r\n\turl = "a # b" ; c\r\n\tfetch = one\\\n two  \n'
        '[branch.Old]\n merge= "q\\t\\\\z"\n[x "#;]"] y=z\n?\nnever = read\n'
    )
    assert parse_settings(text) == (
        Setting("core", "", "bare", "false"),
        Setting("core", "", "symlinks", "true"),
        Setting("remote", 'My "Fork\\', "url", "a # b"),
        Setting("remote", 'My "Fork\\', "fetch", "one two"),
        Setting("branch", "old", "merge", "q\t\\z"),
        Setting("x", "#;]", "y", "z"),
    )
    assert parse_settings("key = outside\n[a]\nb = c") == ()


def test_settings_are_read_as_git_reads_them(tmp_path):
    written = {"remote.A b.url": 'x "y" \\ #;=', "core.spaces": "  two  ", "x.tab": "a\tb", "sub.a.b.k": "", "n.e": "é"}
    file = tmp_path / "config"
    for key, value in written.items():
        subprocess.run(["git", "config", "--file", file, key, value], check=True)
    read = parse_settings(file.read_text())
    assert {".".join(part for part in each[:3] if part): each.value for each in read} == written


def git(folder, *arguments):
    identity = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path):
    """A repository with an origin, a linked worktree beside it and a submodule in it, each with a folder `deep`."""
    library = tmp_path / "library"
    main = tmp_path / "main"
    for folder in (library, main):
        (folder / "deep").mkdir(parents=True)
        (folder / "deep" / "f").write_text("x")
        git(folder, "init", "-q", "-b", "main")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "one")
    git(main, "remote", "add", "origin", "https://me:tok3n@host/main.git")
    git(main, "submodule", "add", "-q", str(library), "sub")
    git(main, "worktree", "add", "-q", str(tmp_path / "tree"))
    return tmp_path


def test_worktrees_and_submodules_are_roots_of_their_own(repository):
    """FIND-23."""
    projects = {name: look_at_project(str(repository / name / "deep"), "INDEX.md") for name in ("main", "tree")}
    sub = look_at_project(str(repository / "main" / "sub" / "deep"), "INDEX.md")
    assert [projects["main"].root, projects["tree"].root, sub.root] == [
        str(repository / "main"),
        str(repository / "tree"),
        str(repository / "main" / "sub"),
    ]
    assert projects["main"].normalized_origin == projects["tree"].normalized_origin == "host/main"
    assert projects["main"].project_id == projects["tree"].project_id
    assert projects["main"].origin == "https://host/main.git"
    assert sub.normalized_origin == str(repository / "library")
    for path in ("main", "tree", "main/sub"):
        assert find_repository(str(repository / path)).is_own


def test_a_git_file_that_leads_to_somebody_else_is_told_apart(repository):
    thief = repository / "thief"
    thief.mkdir()
    (thief / ".git").write_text(f"gitdir: {repository}/main/.git\n")
    assert find_repository(str(thief)).is_own is False
    (thief / ".git").write_text(f"gitdir: {repository}/main/.git/worktrees/tree\n")
    assert find_repository(str(thief)).is_own is False
    (thief / ".git").write_text("gitdir: nowhere\n")
    assert find_repository(str(thief)) is None


def test_a_folder_without_an_origin_is_known_by_its_path(tmp_path):
    os.symlink(tmp_path, tmp_path / "link")
    one, other = (look_at_project(str(path), "INDEX.md") for path in (tmp_path, tmp_path / "link"))
    assert (one.origin, one.normalized_origin, one.project_id) == ("", "", other.project_id)
    assert len(one.project_id) == 16


def test_the_prompt_holds_the_facts_as_quoted_data(repository):
    project = look_at_project(str(repository / "main"), "INDEX.md")
    scope = Scope(
        project.cwd,
        project.root,
        origin=project.origin,
        normalized_origin='host/"\n# x' + "y" * 400,
        project_id=project.project_id,
    )
    prompt = system_prompt("direct", scope)
    facts = prompt[prompt.index("## Project information") :].splitlines()
    assert facts == [
        "## Project information",
        "",
        f'- CWD: "{repository}/main"',
        f'- Repository root: "{repository}/main"',
        '- Git origin: "https://host/main.git"',
        f'- Normalized origin: "host/\\"\\n# x{"y" * 246}"',
        f'- Project id: "{project.project_id}"',
    ]
    assert "tok3n" not in prompt


def test_a_broken_configuration_harms_nothing(tmp_path: Path):
    git(tmp_path, "init", "-q")
    (tmp_path / ".git" / "config").write_bytes(b'\xff\xfe[remote "origin\n url = \x00')
    assert look_at_project(str(tmp_path), "INDEX.md").origin == ""
    (tmp_path / ".git" / "config").unlink()
    os.mkfifo(tmp_path / ".git" / "config")
    assert look_at_project(str(tmp_path), "INDEX.md").origin == ""
