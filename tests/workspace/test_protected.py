"""What is found of git's machinery and of secret files."""

import os
import subprocess

import pytest

from tinsmith.workspace.protected import Protected, ProtectedPaths, set_aside


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def found(root, home="/nowhere", private=()) -> Protected:
    return ProtectedPaths(str(home), private).find(str(root))


def relative(paths, root):
    return [os.path.relpath(path, root) for path in paths]


def test_an_empty_folder_has_nothing_to_protect(root):
    assert found(root) == Protected()


def test_secret_files_but_no_templates_and_no_dependencies(root):
    for name in (".env", ".env.local", ".env.example", "key.pem", "a.key", "a.txt", "node_modules/x.pem", "venv/c.pem"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("")
    (root / "deep" / ".ssh").mkdir(parents=True)
    assert relative(found(root).hidden, root) == [".env", ".env.local", "a.key", "deep/.ssh", "key.pem"]


def test_a_secret_that_is_a_link_is_hidden_where_it_lies(root, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "shared").write_text("")
    (root / ".env").symlink_to(tmp_path / "home" / "shared")
    (root / "id_rsa").symlink_to("/etc/passwd")
    assert found(root, tmp_path / "home").hidden == (str(tmp_path / "home" / "shared"),)


def test_secrets_of_the_home_and_our_own_folders(root, tmp_path):
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".netrc").write_text("")
    (tmp_path / "data").mkdir()
    paths = (str(tmp_path / "data"), str(tmp_path / "missing"))
    assert relative(found(root, home, paths).hidden, tmp_path) == ["data", "home/.netrc", "home/.ssh"]


def test_a_workspace_inside_a_secret_folder_stays_visible(tmp_path):
    root = tmp_path / "home" / ".ssh" / "project"
    root.mkdir(parents=True)
    assert found(root, tmp_path / "home").hidden == ()


def git(folder, *arguments):
    folder.mkdir(parents=True, exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}
    options = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *options, *arguments], cwd=folder, env=environment, check=True, capture_output=True)


def test_a_repository(root):
    git(root, "init", "-q")
    protected = found(root)
    assert relative(protected.pinned, root) == [".git"]
    assert relative(protected.frozen, root) == [".git/config", ".git/hooks"]
    assert relative(protected.absent, root) == [".git/commondir"]


def test_repositories_inside_their_parents_and_folders_of_hooks(root):
    git(root / "a" / "b", "init", "-q")
    git(root / "a" / "b", "config", "core.hooksPath", "./tools/hooks")
    git(root / "a" / "b", "config", "include.path", "../more")
    (root / "a" / "b" / ".git" / "more").mkdir()
    (root / "a" / "b" / "more").write_text("")
    (root / "a" / "b" / "tools" / "hooks").mkdir(parents=True)
    protected = found(root)
    assert relative(protected.pinned, root) == ["a", "a/b", "a/b/.git", "a/b/tools"]
    assert set(relative(protected.frozen, root)) >= {"a/b/.git/config", "a/b/.git/hooks", "a/b/tools/hooks"}


def test_worktrees_and_submodules(root, tmp_path):
    git(tmp_path / "library", "init", "-q")
    git(tmp_path / "library", "commit", "--allow-empty", "-qm", "x")
    git(root, "init", "-q")
    git(root, "commit", "--allow-empty", "-qm", "x")
    git(root, "submodule", "add", "-q", str(tmp_path / "library"), "sub/module")
    git(root, "worktree", "add", "-q", "tree")
    protected = found(root)
    assert set(relative(protected.pinned, root)) == {
        *(".git", ".git/modules", ".git/modules/sub", ".git/modules/sub/module"),
        *(".git/worktrees", ".git/worktrees/tree", "sub", "sub/module", "tree"),
    }
    assert set(relative(protected.frozen, root)) == {
        *(".git/config", ".git/hooks", ".git/modules/sub/module/config", ".git/modules/sub/module/hooks"),
        *(".git/worktrees/tree/commondir", "sub/module/.git", "tree/.git"),
    }


def test_a_worktree_alone_protects_its_pointer(root, tmp_path):
    git(tmp_path / "main", "init", "-q")
    git(tmp_path / "main", "commit", "--allow-empty", "-qm", "x")
    root.rmdir()
    git(tmp_path / "main", "worktree", "add", "-q", str(root))
    assert found(root) == Protected(frozen=(str(root / ".git"),))


def test_what_editors_run_by_themselves(root):
    (root / ".vscode").mkdir()
    (root / ".nvim.lua").write_text("")
    assert relative(found(root).frozen, root) == [".nvim.lua", ".vscode"]


def test_changes_are_seen_and_gone_files_forgotten(root):
    finder = ProtectedPaths("/nowhere", ())
    (root / "deep" / "er").mkdir(parents=True)
    assert finder.find(str(root)).hidden == ()
    (root / "deep" / "er" / ".env").write_text("")
    assert relative(finder.find(str(root)).hidden, root) == ["deep/er/.env"]
    (root / "deep" / "er" / ".env").unlink()
    assert finder.find(str(root)).hidden == ()


def test_a_pipe_in_the_place_of_a_file_holds_nobody_up(root):
    for name in (".git", "sub"):
        (root / name).mkdir()
    os.mkfifo(root / ".git" / "config")
    os.mkfifo(root / "sub" / ".git")
    os.mkfifo(root / ".env")
    assert relative(found(root).hidden, root) == [".env"]


def test_too_many_secrets_are_said_to_be_too_many(root):
    for number in range(250):
        (root / f"{number}.pem").write_text("")
    (root / ".env").write_text("")
    protected = found(root)
    assert (len(protected.hidden), protected.is_whole) == (200, False)
    assert str(root / ".env") in protected.hidden


def test_what_must_not_be_there_is_set_aside(root):
    (root / "hooks").mkdir()
    (moved,) = set_aside((str(root / "hooks"), str(root / "commondir")))
    assert os.path.basename(moved).startswith("hooks.refused-")
    assert os.listdir(root) == [os.path.basename(moved)]
