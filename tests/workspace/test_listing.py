"""Listings: what a walk sees, that it ends, and that a warm one sees what a cold one does."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tinsmith.domain.cancel import CancelToken
from tinsmith.domain.errors import Cancelled
from tinsmith.workspace import listing as module
from tinsmith.workspace.listing import Listings


def files(root):
    return list(Listings().look(str(root), str(root)).files)


def fill(root, *paths):
    for path in paths:
        (Path(root) / path).parent.mkdir(parents=True, exist_ok=True)
        (Path(root) / path).write_text("x\n")


def test_find_16_links_are_not_followed_and_the_walk_ends(tmp_path):
    fill(tmp_path, "sub/f.txt", "node_modules/real.js", "a.txt")
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    fill(outside, "secret.txt")
    for name, target in {
        "sub/sub": ".",
        "loop": "loop",
        "dead": "nowhere",
        "node_modules/me": "..",
        "link": "a.txt",
    }.items():
        (tmp_path / name).symlink_to(target)
    (tmp_path / "out").symlink_to(outside)
    begun = time.monotonic()
    assert files(tmp_path) == ["a.txt", "node_modules/real.js", "sub/f.txt"]
    assert time.monotonic() - begun < 1


def test_devices_pipes_and_bookkeeping_are_not_listed_and_hidden_files_are(tmp_path):
    fill(tmp_path, ".hidden/.x", ".git/config", "in/.hg/y", "in/.svn/y", ".env")
    os.mkfifo(tmp_path / "pipe")
    assert files(tmp_path) == [".env", ".hidden/.x"]
    found = Listings().look(str(tmp_path), str(tmp_path))
    assert found.passed_over == (".git/", "in/.hg/", "in/.svn/")
    assert found.secret == {".env"}


def test_any_name_is_listed(tmp_path):
    names = ["a\nb", "tab\there", "-n.txt", "--hidden/x", "dir:x/a:1:b.txt", os.fsdecode(b"\xff\xfe"), "ü", " "]
    fill(tmp_path, *names)
    (tmp_path / ".gitignore").write_text("*.log\n")
    fill(tmp_path, "x\ny.log", os.fsdecode(b"\xff.log"))
    assert sorted(files(tmp_path)) == sorted([*names, ".gitignore"])


def test_a_folder_that_is_not_there_is_empty(tmp_path):
    assert files(tmp_path / "nowhere") == []


def test_folders_deeper_than_any_recursion(tmp_path):
    depth = sys.getrecursionlimit() + 100
    try:
        place = os.open(tmp_path, os.O_RDONLY)
        for _ in range(depth):
            os.mkdir("d", dir_fd=place)
            inner = os.open("d", os.O_RDONLY, dir_fd=place)
            os.close(place)
            place = inner
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=place))
        os.close(place)
        assert files(tmp_path) == ["d/" * depth + "f"]
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)  # no cleaner in Python gets that deep


def test_more_files_than_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_FILES", 5)
    fill(tmp_path, *(f"{folder}/{number}" for folder in "abc" for number in range(3)))
    found = Listings().look(str(tmp_path), str(tmp_path))
    assert (found.files, found.is_whole) == (("a/0", "a/1", "a/2", "b/0", "b/1"), False)
    monkeypatch.setattr(module, "MAX_FILES", 9)
    assert Listings().look(str(tmp_path), str(tmp_path)).is_whole


def test_a_look_can_be_stopped(tmp_path):
    fill(tmp_path, "a")
    token = CancelToken()
    token.cancel()
    with pytest.raises(Cancelled):
        Listings().look(str(tmp_path), str(tmp_path), token.check)


def test_nothing_is_read_again_when_nothing_changed(tmp_path):
    fill(tmp_path, "a/b", "c")
    old = time.time() - 100
    for path in (tmp_path, tmp_path / "a"):
        os.utime(path, (old, old))
    listings = Listings()
    first = listings.look(str(tmp_path), str(tmp_path))
    assert listings.look(str(tmp_path), str(tmp_path)) is first
    fill(tmp_path, "a/new")
    assert listings.look(str(tmp_path), str(tmp_path)).files == ("c", "a/b", "a/new")


NAMES = st.sampled_from(["a", "b", "c.txt", "d"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
RULES = st.sampled_from(["a\n", "b\n", "*.txt\n", "!b\n", "d/\n", ""])


def write(root, path, _):
    if not (root / path).is_dir() and not any(parent.is_file() for parent in (root / path).parents):
        fill(root, path)


def ignore(root, path, rules):
    if (root / path).is_dir():
        (root / path / ".gitignore").write_text(rules)


def ignore_everywhere(root, _, rules):
    (root / ".gitignore").write_text(rules)


def remove(root, path, _):
    shutil.rmtree(root / path) if (root / path).is_dir() else (root / path).unlink(missing_ok=True)


def rename(root, path, _):
    if (root / path).exists():
        (root / path).rename(root / f"{path}{len(os.listdir(root))}")


def make_repository(root, path, _):
    if (root / path).is_dir():
        fill(root, f"{path}/.git/HEAD")


EVENTS = st.sampled_from([write, write, write, ignore, ignore_everywhere, remove, rename, make_repository])


@given(st.lists(st.tuples(EVENTS, PATHS, RULES), max_size=20))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_warm_look_sees_what_a_cold_one_sees(tmp_path_factory, events):
    root = tmp_path_factory.mktemp("tree")
    warm = Listings()
    for happens, path, rules in events:
        with contextlib.suppress(NotADirectoryError):
            happens(root, path, rules)
        found, cold = (looks.look(str(root), str(root)) for looks in (warm, Listings()))
        assert (found.files, found.passed_over) == (cold.files, cold.passed_over)
