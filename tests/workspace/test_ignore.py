"""Ignore rules: the trees of the cases, and whatever tree and rules, judged as git judges them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tinsmith.workspace.gitconfig import parsed
from tinsmith.workspace.ignore import is_ignored
from tinsmith.workspace.listing import Listings

GIT = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": "/nonexistent"}


@pytest.fixture(autouse=True)
def _no_configuration(monkeypatch, tmp_path):
    for name in ("GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def git(folder, *arguments, **options):
    return subprocess.run(["git", *arguments], cwd=folder, env=GIT, capture_output=True, check=False, **options)


def ignored_by_git(root, paths):
    told = git(root, "check-ignore", "-z", "--stdin", "--no-index", input=b"\0".join(map(os.fsencode, paths)))
    assert told.returncode in (0, 1), told.stderr
    return {os.fsdecode(path) for path in told.stdout.split(b"\0") if path}


def ignored_by_us(root, paths):
    return {path for path in paths if is_ignored(os.path.join(root, path), str(root))}


def fill(root, files):
    for path, text in files.items():
        place = Path(root) / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text if isinstance(text, bytes) else text.encode())


BRACKETS = (
    "[ab] [!a] [^b] [a- []a] [!]a] [b-a] [[:alpha:]] [[:nope:]] [[:x] [a-[:digit:]] [\\]a] [a\\-z] [*--] [,-0] [--0]"
)
OTHERS = r"a b ab * ** *** ? / / // \ \* \a ! \! # \# {a,b} . é + ( | $ ^ ] - A 1"
PIECES = st.sampled_from([*BRACKETS.split(), *OTHERS.split(), " ", "\\ ", "\t", "\r"])
PATTERNS = st.lists(PIECES, min_size=1, max_size=6).map("".join)
RULES = st.lists(PATTERNS, max_size=5).flatmap(
    lambda rules: st.sampled_from(["\n", "\r\n"]).map(lambda end: end.join(rules))
)
NAMES = st.sampled_from(
    ["a", "b", "ab", "ba", "aab", "A", "é", "a.b", "{a,b}", "[a]", "#", "!b", "a ", "-", "1", "*", "a\\", "+a"]
)
FOLDERS = st.lists(st.one_of(NAMES, st.just("d")), max_size=3)
PATHS = st.lists(st.builds(lambda folders, name: "/".join([*folders, name]), FOLDERS, NAMES), min_size=1, max_size=12)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    root = tmp_path_factory.mktemp("repository")
    git(root, "init", "-q")
    return root


@given(top=RULES, inner=RULES, exclude=RULES, paths=PATHS)
@example(top="a**/b", inner="", exclude="", paths=["ab", "a/x/b", "axb"])
@example(top="x/a**", inner="", exclude="", paths=["x/ab/c", "x/a"])
@example(top="/**", inner="", exclude="", paths=["a", "a/b"])
@example(top="\ufeffa", inner="!ab", exclude="b", paths=["a", "b", "d/ab"])
@example(top="a\\ \nb  \n", inner="", exclude="", paths=["a ", "b", "a"])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_path_is_judged_as_git_judges_it(repository, top, inner, exclude, paths):
    for entry in repository.iterdir():
        if entry.name != ".git":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    fill(repository, {".gitignore": top, "d/.gitignore": inner, ".git/info/exclude": exclude})
    assert ignored_by_us(repository, paths) == ignored_by_git(repository, paths)


def listed(start, top):
    return set(Listings().look(str(start), str(top)).files)


def test_find_01_a_negated_folder_brings_its_files_back(tmp_path):
    check_tree(tmp_path, {".gitignore": "out\n!/pkg/out\n"}, {"pkg/out/b.txt", "pkg/c.txt"}, {"out/a.txt"})


def test_find_02_nothing_comes_back_below_an_excluded_folder(tmp_path):
    check_tree(tmp_path, {".gitignore": "dist\n!keep.me\n"}, {"src/keep.me"}, {"dist/keep.me", "dist/x.js"})


def test_find_06_nested_rules_do_not_leak_into_siblings(tmp_path):
    check_tree(tmp_path, {"a/.gitignore": "n.txt\n"}, {"a/k.txt", "b/n.txt", "b/k.txt", "r.txt"}, {"a/n.txt"})


def test_find_07_a_search_in_a_folder_sees_the_rules_above_it(tmp_path):
    check_tree(
        tmp_path,
        {".gitignore": "node_modules/\n*.min.js\n"},
        {"packages/a/index.js"},
        {"packages/a/node_modules/m.js", "packages/a/x.min.js"},
        start="packages/a",
    )


def test_find_10_a_workspace_of_several_repositories(tmp_path):
    check_tree(
        tmp_path,
        {"r1/.gitignore": "out/\n", "r1/web/.gitignore": ".cache\n"},
        {"r1/web/a.ts", "r2/out/z.txt"},
        {"r1/out/b.o", "r1/web/.cache/c"},
        repositories=("r1", "r2"),
    )


def test_find_11_a_repository_that_the_one_around_it_ignores(tmp_path):
    rules = {".gitignore": "child/\n", "child/.gitignore": "tmp\n"}
    check_tree(tmp_path, rules, {"child/a.py"}, {"child/tmp"}, repositories=(".", "child"), start="child")
    assert listed(tmp_path, tmp_path) == {".gitignore"}


def test_find_12_nested_negation(tmp_path):
    rules = {".gitignore": "*.log\nold/\n", "logs/.gitignore": "!keep.log\n", "old/.gitignore": "!keep.txt\n"}
    check_tree(tmp_path, rules, {"logs/keep.log"}, {"logs/a.log", "b.log", "old/keep.txt"})


def test_find_14_escapes_classes_and_case(tmp_path):
    rules = {".gitignore": "\\#a#\n\\!b\na[!0-9].o\ndoc/frotz\nBuild2/\n"}
    visible = {"a1.o", "a/doc/frotz/x", "build2/y"}
    check_tree(tmp_path, rules, visible, {"#a#", "!b", "ab.o", "doc/frotz/x", "Build2/y"})


def check_tree(root, rules, visible, ignored, *, repositories=(".",), start="."):
    """The tree as a search sees it, and each path as it is judged alone."""
    for repository in repositories:
        (root / repository).mkdir(exist_ok=True)
        git(root / repository, "init", "-q")
    fill(root, {**rules, **dict.fromkeys(visible | ignored, "x\n")})
    begin = Path(start)
    found = {(begin / path).as_posix() for path in listed(root / begin, root)}
    assert {path for path in found if not path.endswith(".gitignore")} == visible
    assert ignored_by_us(root, visible | ignored) == ignored


def test_find_23_a_work_tree_and_a_submodule_are_repositories_of_their_own(tmp_path):
    main, tree = tmp_path / "main", tmp_path / "main" / "tree"
    main.mkdir()
    for arguments in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "x"), ("worktree", "add", "-q", "tree")):
        done = git(main, "-c", "user.name=a", "-c", "user.email=a@b", *arguments)
        assert done.returncode == 0, done.stderr
    fill(main, {".gitignore": "*.txt\n", ".git/info/exclude": "shared\n"})
    fill(tree, {"a.txt": "", "shared": "", "inner/b.txt": "", "inner/shared": "", ".gitignore": "c\n", "c": ""})
    assert listed(tree, main) == {"a.txt", "inner/b.txt", ".gitignore"}
    assert listed(tree / "inner", main) == {"b.txt"}
    module = main / "module"
    fill(main, {".git/modules/m/HEAD": "ref: refs/heads/x\n", ".git/modules/m/info/exclude": "own\n"})
    fill(module, {".git": "gitdir: ../.git/modules/m\n", "own": "", "a.txt": "", "in/own": "", "in/a.txt": ""})
    assert listed(module, main) == {"a.txt", "in/a.txt"}
    assert listed(module / "in", main) == {"a.txt"}


def test_the_users_own_file_and_those_of_the_repository(tmp_path, monkeypatch):
    root, home = tmp_path / "root", tmp_path / "home"
    fill(root, {"a": "", "b": "", "c": "", "in/a": ""})
    git(root, "init", "-q")
    fill(home, {".config/git/ignore": "a\n"})
    assert listed(root, root) == {"b", "c"}
    fill(home, {".gitconfig": "[core]\n\texcludesFile = ~/mine # all\n", "mine": "/b\n"})
    assert listed(root, root) == {"a", "c", "in/a"}
    fill(root, {".git/info/exclude": "!b\nc\n"})
    assert listed(root, root) == {"a", "b", "in/a"}
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "elsewhere"))
    fill(home, {".gitconfig": "", "elsewhere/git/config": "[include]\npath = more\n", "elsewhere/git/more": ""})
    fill(home, {"elsewhere/git/more": f'[core]\nexcludesfile = "{home}/mine"\n', "mine": "in/\n"})
    assert listed(root, root) == {"a", "b"}
    git(root, "config", "core.ignoreCase", "true")
    git(root, "config", "core.excludesFile", "")
    fill(root, {".gitignore": "A\nI[M-O]\n"})
    assert listed(root, root) == {"b", ".gitignore"}


def test_without_a_repository_the_rules_from_the_workspace_root_count(tmp_path):
    fill(tmp_path, {".gitignore": "above\n", "ws/.gitignore": "a\n", "ws/a": "", "ws/in/a": "", "ws/in/above": ""})
    assert listed(tmp_path / "ws" / "in", tmp_path / "ws") == {"above"}
    assert listed(tmp_path / "ws", tmp_path / "ws") == {".gitignore", "in/above"}


def test_a_rules_file_that_is_a_link_or_a_folder_is_none(tmp_path):
    git(tmp_path, "init", "-q")
    fill(tmp_path, {"rules": "a\n", "a": "", "in/a": "", "in/.gitignore/x": ""})
    (tmp_path / ".gitignore").symlink_to("rules")
    assert listed(tmp_path, tmp_path) == {"rules", "a", "in/a", "in/.gitignore/x"}
    assert ignored_by_git(tmp_path, ["a", "in/a"]) == set()


VALUES = st.text(st.sampled_from('ab "\\#;=[]tn\n~/.'), max_size=12)  # a tab is kept or not, as git's version will


@given(st.lists(st.tuples(st.sampled_from(["core", "Core", 'core "x"', "include-not"]), VALUES), max_size=4))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_configuration_is_read_as_git_reads_it(tmp_path_factory, sections):
    text = "".join(f"[{section}]\n\texcludesFile = {value}\n" for section, value in sections)
    path = tmp_path_factory.mktemp("config") / "config"
    path.write_text(text)
    told = git(path.parent, "config", "-z", "--file", str(path), "--get-all", "core.excludesfile")
    if told.returncode in (0, 1):  # git refuses a file that it cannot read to its end, we take what came before
        expected = [value.decode() for value in told.stdout.split(b"\0")[:-1]]
        assert [value for name, value in parsed(text) if name == "core.excludesfile"] == expected
