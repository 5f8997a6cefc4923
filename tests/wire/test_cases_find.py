"""Searches as they went wrong in the field (FIND-…), through the server: what the model is told of them."""

import os
import re
import subprocess
import time

import pytest

from tinsmith.llm.scripted import Call, ScriptedModel, reply

pytestmark = pytest.mark.asyncio(loop_scope="module")

DONE = reply("Done.")
IDENTITY = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "protocol.file.allow=always")


def git(folder, *arguments):
    subprocess.run(["git", *IDENTITY, *arguments], cwd=folder, check=True, capture_output=True)


def fill(folder, files):
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


async def looked(open_talk, *calls):
    """What the model is told of the calls."""
    async with open_talk(ScriptedModel([reply(*calls), DONE])) as talk:
        assert (await talk.say())["outcome"] == "completed"
        return talk.results


def paths_in(result):
    """The paths of what code_grep or code_files found."""
    return {line.partition(":1:")[0] for line in result.splitlines()[1:]}


TREES = {
    "01": ({".gitignore": "out\n!/pkg/out\n"}, "pkg/out/b.txt pkg/c.txt", "out/a.txt", ".", "."),
    "02": ({".gitignore": "dist\n!keep.me\n"}, "src/keep.me", "dist/keep.me dist/x.js", ".", "."),
    "06": ({"a/.gitignore": "n.txt\n"}, "a/k.txt b/n.txt b/k.txt r.txt", "a/n.txt", ".", "."),
    "07": (
        {".gitignore": "node_modules/\n*.min.js\n"},
        "packages/a/index.js",
        "packages/a/node_modules/m.js packages/a/x.min.js",
        ".",
        "packages/a",
    ),
    "10": (
        {"r1/.gitignore": "out/\n", "r1/web/.gitignore": ".cache\n"},
        "r1/web/a.ts r2/out/z.txt",
        "r1/out/b.o r1/web/.cache/c",
        "r1 r2",
        ".",
    ),
    "11": ({".gitignore": "child/\n", "child/.gitignore": "tmp\n"}, "child/a.py", "child/tmp", ". child", "child"),
    "12": (
        {".gitignore": "*.log\nold/\n", "logs/.gitignore": "!keep.log\n", "old/.gitignore": "!keep.txt\n"},
        "logs/keep.log",
        "logs/a.log b.log old/keep.txt",
        ".",
        ".",
    ),
    "14": (
        {".gitignore": "\\#a#\n\\!b\na[!0-9].o\ndoc/frotz\nBuild2/\n"},
        "a1.o a/doc/frotz/x build2/y",
        "#a# !b ab.o doc/frotz/x Build2/y",
        ".",
        ".",
    ),
}


@pytest.mark.parametrize(("rules", "visible", "ignored", "repositories", "start"), TREES.values(), ids=TREES)
async def test_find_trees_are_searched_as_git_would(open_talk, workspace, rules, visible, ignored, repositories, start):
    """FIND-01, 02, 06, 07, 10, 11, 12, 14: every tool that lists looks at the same files."""
    paths = visible.split()
    fill(workspace, {**rules, **dict.fromkeys([*paths, *ignored.split()], "needle\n")})
    for folder in repositories.split():
        git(workspace / folder, "init", "-q")
    grep, files, overview = await looked(
        open_talk,
        Call("code_grep", {"pattern": "needle", "path": start}),
        Call("code_files", {"query": "**", "max_results": 500}),
        Call("code_map", {"path": start, "depth": 6}),
    )
    assert paths_in(grep) == {*paths}
    assert paths_in(files) - {*rules} == ({*paths} if start != "child" else set())  # which the parent ignores
    folders = {part for path in ignored.split() for part in path.split("/")[:-1]}
    folders -= {part for path in paths for part in path.split("/")}
    assert not any(f"{folder}/" in overview for folder in folders)


async def test_find_16_a_circle_of_links_is_not_walked(open_talk, workspace):
    fill(workspace, {"sub/f.txt": "needle\n", "node_modules/x": "needle\n"})
    for link, target in {"sub/sub": ".", "loop": "loop", "dead": "nowhere", "node_modules/me": "../"}.items():
        (workspace / link).symlink_to(target)
    began = time.monotonic()
    grep, files, overview = await looked(
        open_talk,
        Call("code_grep", {"pattern": "needle"}),
        Call("code_files", {"query": "*"}),
        Call("code_map", {}),
    )
    assert time.monotonic() - began < 3
    assert grep == "matches: 2 lines in 2 of 2 files\nnode_modules/x:1:needle\nsub/f.txt:1:needle\n"
    assert files == "found: 2 of 2 files\nnode_modules/x\nsub/f.txt\n"
    assert "sub/sub" not in overview


async def test_find_18_what_begins_with_a_dash_is_no_option(open_talk, workspace):
    fill(
        workspace,
        {"-n.txt": "--flag\n", "--hidden/a": "-e\n", "--pre=x": "-> x\n", **{f"f{n}": "other\n" for n in range(400)}},
    )
    found = await looked(
        open_talk,
        *(Call("code_grep", {"pattern": pattern}) for pattern in ("--flag", "-e", "-> x")),
        Call("code_grep", {"pattern": "e", "path": "--hidden"}),
        Call("code_files", {"query": "--pre"}),
    )
    assert found == [
        "matches: 1 lines in 1 of 403 files\n-n.txt:1:--flag\n",
        "matches: 1 lines in 1 of 403 files\n--hidden/a:1:-e\n",
        "matches: 1 lines in 1 of 403 files\n--pre=x:1:-> x\n",
        "matches: 1 lines in 1 of 1 files\n--hidden/a:1:-e\n",
        "found: 1 of 403 files\n--pre=x\n",
    ]


async def test_find_19_a_name_with_colons_is_told_from_its_line(open_talk, workspace):
    odd = {"dir:x/a:1:b.txt": "x\nk: v: w\n", "new\nline.txt": "k\n", "t\tab.txt": "k\n"}
    fill(workspace, odd)
    async with open_talk(ScriptedModel([reply(Call("code_grep", {"pattern": "k"})), DONE])) as talk:
        await talk.say()
        (found,) = talk.results
        locations = talk.events("toolUpdated")[-1]["locations"]
    assert found == (
        'matches: 3 lines in 3 of 3 files\n"dir:x/a:1:b.txt":2:k: v: w\n"new\\nline.txt":1:k\n"t\\tab.txt":1:k\n'
    )
    names = [place["uri"].rpartition("/")[2] for place in locations]
    assert names == ["a%3A1%3Ab.txt", "new%0Aline.txt", "t%09ab.txt"]


async def test_find_20_of_a_long_line_the_part_around_the_match_is_shown(open_talk, workspace):
    (workspace / "long").write_text("a" * 500_000 + "NEEDLE" + "b" * 500_000 + "\n")
    (found,) = await looked(open_talk, Call("code_grep", {"pattern": "NEEDLE"}))
    assert len(found) < 500
    assert re.fullmatch(
        r"matches: 1 lines in 1 of 1 files\n"
        r"long:1:\[499,9\d\d characters\]…a+NEEDLEb+…\[499,\d{3} characters\]\n",
        found,
    )


async def test_find_22_patterns_that_cannot_be_searched_for_and_those_that_take_others_forever(open_talk, workspace):
    fill(workspace, {"f": "a" * 40 + "!\n"})
    began = time.monotonic()
    broken, empty, *found = await looked(
        open_talk, *(Call("code_grep", {"pattern": pattern}) for pattern in ("(", "", "(a+)+$", "zzz"))
    )
    assert time.monotonic() - began < 3
    assert "missing ): (" in broken
    assert "it is empty" in empty
    assert found == ["matches: 0 lines in 0 of 1 files\n"] * 2


async def test_find_23_a_worktree_and_a_submodule_stand_alone(open_talk, server, workspace):
    """Their `.git` is a file; rules of a repository around them do not count."""
    library, main = workspace / "library", workspace / "main"
    for folder in (library, main):
        fill(folder, {"deep/f.txt": "needle\n", "deep/g.out": "needle\n"})
        git(folder, "init", "-q", "-b", "main")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "one")
    fill(main, {".gitignore": "*.out\n"})
    git(main, "submodule", "add", "-q", str(library), "sub")
    git(main, "worktree", "add", "-q", "-b", "side", str(main / "tree"))
    (main / "sub" / "new.txt").write_text("new\n")
    (main / "tree" / "new.txt").write_text("new\n")
    whole, tree, sub = await looked(
        open_talk,
        Call("code_grep", {"pattern": "needle", "path": "main"}),
        Call("code_grep", {"pattern": "needle", "path": "main/tree/deep"}),
        Call("code_grep", {"pattern": "needle", "path": "main/sub/deep"}),
    )
    seen = {f"main/{folder}deep/{name}" for folder in ("tree/", "sub/") for name in ("f.txt", "g.out")}
    assert paths_in(whole) == {"main/deep/f.txt", *seen}
    assert paths_in(tree) == {"main/tree/deep/f.txt", "main/tree/deep/g.out"}
    assert paths_in(sub) == {"main/sub/deep/f.txt", "main/sub/deep/g.out"}
    assert os.path.isfile(main / "tree" / ".git")
