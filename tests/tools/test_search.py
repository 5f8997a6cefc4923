"""code_grep and code_files over the boundary: what is found, in which order, what is said of the rest."""

import json
import os
import shutil
import subprocess
import time

import pytest
from tests.tools.stage import Bench, Buffers, field

from tinsmith.domain.errors import Cancelled
from tinsmith.domain.policy import Access, ToolSubject
from tinsmith.domain.redaction import MARK
from tinsmith.domain.tool import Location
from tinsmith.tools.ports import RESULT_CHARACTERS
from tinsmith.workspace import listing
from tinsmith.workspace.listing import Listings


@pytest.fixture(autouse=True)
def _no_git_configuration(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))


@pytest.fixture
def bench(tmp_path):
    (tmp_path / "ws").mkdir()
    return Bench(tmp_path / "ws")


def fill(bench, files):
    for path, text in files.items():
        place = bench.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text if isinstance(text, bytes) else text.encode())


async def grep(bench, pattern, **arguments):
    return (await bench.call("code_grep", pattern=pattern, **arguments)).content


async def lines(bench, pattern, **arguments):
    """The lines of the answer without its header and notes."""
    return [line for line in (await grep(bench, pattern, **arguments)).split("\n")[1:-1] if not line.startswith("[")]


async def test_an_answer(bench):
    fill(bench, {"b.py": "import os\r\nfound = 1\r\n", "a/x.py": "nothing\nfound\n", "c.md": "none\n"})
    result = await bench.call("code_grep", pattern="found")
    assert result.content == "matches: 2 lines in 2 of 3 files\na/x.py:2:found\nb.py:2:found = 1\n"
    places = (("a/x.py", 2), ("b.py", 2))
    assert result.locations == tuple(Location(str(bench.root / path), line, line) for path, line in places)
    assert await grep(bench, "zzz") == "matches: 0 lines in 0 of 3 files\n"


async def test_what_the_gate_is_told(bench):
    fill(bench, {"in/a": "x\n", ".env": "x\n"})
    assert await bench.preview("code_grep", pattern="x", path="in") == Access(
        action="look",
        title="Search in for 'x'",
        subject=ToolSubject("code_grep", {"pattern": "x", "path": "in"}),
        target="in",
        paths=(str(bench.root / "in"),),
    )
    assert (await bench.preview("code_grep", pattern="x", path="/etc")).is_outside
    assert (await bench.preview("code_grep", pattern="x", path=".env")).is_secret
    access = await bench.preview("code_files", query="x")
    assert (access.action, access.target, access.is_outside) == ("look", ".", False)


async def test_line_numbers_are_those_of_read(bench):
    text = "one\rstill one\n\x0c two \u2028 two\r\nthree\r\r\n\nfive needle\u0085\n"
    for name, content in {
        "a": text.encode(),
        "b": b"\xef\xbb\xbf" + text.encode(),
        "c": b"\xff\xfe" + text.encode("utf-16-le"),
    }.items():
        fill(bench, {name: content})
        shown = (await bench.call("read", path=name)).content
        number = next(line.split("\t")[0].strip() for line in shown.split("\n") if "needle" in line)
        assert await lines(bench, "needle", path=name) == [f"{name}:{number}:five needle\u0085"]
    assert await lines(bench, "two$", path="b") == ["b:2:\x0c two \u2028 two"]
    assert await lines(bench, "^three", path="c") == ["c:3:three\r"]


@pytest.mark.parametrize("pattern", ["--flag", "-e", "-> x", "--pre=x", "--", "-"])
async def test_find_18_a_pattern_or_a_path_that_begins_with_a_dash(bench, pattern):
    fill(bench, {"-n.txt": f"a {pattern} b\n", "--hidden/f": f"{pattern}\n", "-": f"{pattern}\n", "x": "echo\n"})
    (bench.root / "x").chmod(0o755)
    wanted = {f"-n.txt:1:a {pattern} b", f"--hidden/f:1:{pattern}", f"-:1:{pattern}"}
    fill(bench, {f"many/{number}": "\n" for number in range(400)})  # enough for another program to be used
    for is_regex in (True, False):
        assert set(await lines(bench, pattern, regex=is_regex)) == wanted
    assert await lines(bench, pattern, path="--hidden") == [f"--hidden/f:1:{pattern}"]
    assert await lines(bench, pattern, path="-n.txt", glob="-*") == [f"-n.txt:1:a {pattern} b"]


async def test_find_19_names_that_could_be_taken_for_something_else(bench):
    names = ["dir:x/a:1:b.txt", "new\nline", "tab\there", 'quote"d', " outer ", "plain name", "ünï"]
    fill(bench, dict.fromkeys(names, "x\nk: v: w\n"))
    assert sorted(await lines(bench, "k")) == sorted(
        f"{name if name in {'plain name', 'ünï'} else json.dumps(name, ensure_ascii=False)}:2:k: v: w" for name in names
    )
    listing = (await bench.call("code_files", query="*")).content.split("\n")
    assert '"dir:x/a:1:b.txt"' in listing
    assert '"new\\nline"' in listing


async def test_find_20_a_very_long_line_is_cut_around_the_match(bench):
    fill(bench, {"f": "a" * 500_000 + "NEEDLE" + "b" * 500_000 + "\n"})
    (line,) = await lines(bench, "NEEDLE")
    assert "aNEEDLEb" in line
    assert len(line) < 400
    assert line.startswith("f:1:[499,900 characters]…a")
    assert line.endswith("b…[499,806 characters]")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "missing ): ("),
        ("", "it is empty"),
        ("(?<=a)b", "invalid perl operator"),
        ("a" * 3_000, "3,000 characters"),
        ("((a{100}){100}){100}", "repetition"),
        ("a\nb", "line end"),
        (r"a\nb", "line end"),
    ],
)
async def test_find_22_patterns_that_cannot_be_searched_for(bench, pattern, reason):
    error = await bench.refusal("code_grep", pattern=pattern)
    assert error.code == "badPattern"
    assert reason in error.message
    assert "RE2" in error.message


async def test_find_22_no_pattern_takes_long(bench):
    fill(bench, {"f": "a" * 40 + "!\n", "g": "a" * 1_000_000 + "!\n"})
    begun = time.monotonic()
    for pattern in ("(a+)+$", "(a*)*b", "(a|aa)+$", "(.*)(.*)(.*)[^a!]"):
        assert await lines(bench, pattern) == []
    assert time.monotonic() - begun < 5


async def test_text_as_it_stands(bench):
    fill(bench, {"f": "a.b(c[\naxbxc\n"})
    assert await lines(bench, "a.b(c[", regex=False) == ["f:1:a.b(c["]
    assert await lines(bench, r"[^\n]x") == ["f:2:axbxc"]


async def test_case(bench):
    fill(bench, {"f": "Word\nword\nWORD\n"})
    found = {}
    for pattern in ("word", "Word"):
        for case in ("smart", "sensitive", "ignore"):
            found[pattern, case] = len(await lines(bench, pattern, case=case))
    assert list(found.values()) == [3, 1, 3, 1, 1, 3]


async def test_context(bench):
    fill(bench, {"a": "".join(f"{number}\n" for number in range(1, 20)), "b": "x\n5\ny\n"})
    assert await lines(bench, "^(5|7|15)$", context=1, path="a") == [
        *("a-4-4", "a:5:5", "a-6-6", "a:7:7", "a-8-8", "--", "a-14-14", "a:15:15", "a-16-16")
    ]
    assert await lines(bench, "^5$", context=1) == ["a-4-4", "a:5:5", "a-6-6", "--", "b-1-x", "b:2:5", "b-3-y"]
    assert await lines(bench, "^(1|19)$", context=2, path="a") == [
        *("a:1:1", "a-2-2", "a-3-3", "--", "a-17-17", "a-18-18", "a:19:19")
    ]


async def test_the_best_files_come_first(bench):
    texts = {
        "aa/use.py": "x = load()\n",
        "docs/guide.md": "call load()\n",
        "package.lock": "load\n",
        "tests/test_load.py": "def test(): load()\n",
        "zz/impl.go": "// other\nfunc (s *Store) load() {}\n",
        "aa/part.py": "reload_all = 1\n",
        "zz/load.py": "load()\n",
    }
    fill(bench, texts)
    assert [line.split(":")[0] for line in await lines(bench, "load")] == [
        *("zz/impl.go", "zz/load.py", "aa/use.py", "tests/test_load.py", "docs/guide.md", "package.lock", "aa/part.py")
    ]


async def test_every_file_gives_a_line_before_any_gives_two(bench):
    fill(bench, {"a.py": "k 1\nk 2\nk 3\ndef k\n", "b.py": "k 1\nk 2\n", "c.py": "k 1\n"})
    assert await lines(bench, "k", max_results=4) == ["a.py:1:k 1", "a.py:4:def k", "b.py:1:k 1", "c.py:1:k 1"]
    content = await grep(bench, "k", max_results=1)
    assert content.startswith("matches: 7 lines in 3 of 3 files\na.py:4:def k\n[6 more lines match;")


async def test_answers_are_bounded_and_count_what_is_left_out(bench):
    fill(bench, {f"{number}.txt": f"{'word ' * 90}\n" * 40 for number in range(20)})
    result = await bench.call("code_grep", pattern="word", max_results=500)
    assert len(result.content) <= RESULT_CHARACTERS
    shown = sum(line[:1].isdigit() for line in result.content.split("\n"))
    assert result.content.startswith("matches: 800 lines in 20 of 20 files\n")
    assert f"[{800 - shown} more lines match;" in result.content
    fill(bench, {"many": "hit\n" * 100_000})
    assert (await grep(bench, "^hit")).startswith("matches: 100,000 lines in 1 of 21 files\n")


async def test_paths_and_globs(bench):
    names = ["a.ts", "b.tsx", "c.js", "src/d.ts", "src/in/e.ts", "src/in/f.md"]
    fill(bench, {**dict.fromkeys(names, "k\n"), ".gitignore": "out\n", "out/g.ts": "k\n"})

    async def found(**arguments):
        return [line.split(":")[0] for line in await lines(bench, "k", **arguments)]

    assert await found(glob="*.{ts,tsx}") == ["a.ts", "b.tsx", "src/d.ts", "src/in/e.ts"]
    assert await found(glob="src/**/*.ts") == ["src/d.ts", "src/in/e.ts"]
    assert await found(glob="!src/") == ["a.ts", "b.tsx", "c.js"]
    assert await found(glob="./*.[jt]s") == ["a.ts", "c.js", "src/d.ts", "src/in/e.ts"]
    assert await found(glob="/*.ts") == ["a.ts"]
    assert await found(glob="in/*.ts", path="src") == await found(glob="src/in/*.ts", path="src") == ["src/in/e.ts"]
    assert await found(path="out") == await found(path="out/g.ts") == ["out/g.ts"]
    for glob in ("[a", "a\\", "{0,1}" * 9):
        assert (await bench.refusal("code_grep", pattern="k", glob=glob)).code == "badGlob"
    assert (await bench.refusal("code_grep", pattern="k", path="nowhere")).code == "notFound"


async def test_a_place_outside_is_searched_when_it_was_granted(bench, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "f").write_text("k\n")
    (bench.root / "link").symlink_to(tmp_path / "other")
    assert await lines(bench, "k") == []
    assert await lines(bench, "k", path="link") == [f"{tmp_path}/other/f:1:k"]


async def test_open_documents_before_the_disk(tmp_path):
    root = tmp_path / "ws"
    (root / "in").mkdir(parents=True)
    (root / ".gitignore").write_text("*.log\n")
    for name in ("a", "b", "gone"):
        (root / name).write_text("on disk\n")
    texts = {"a": "typed\r\n\r\ntyped k\r\n", "in/new": "k\n", "in/x.log": "k\n", ".env": "k\n", "gone": "typed\n"}
    bench = Bench(root, Buffers({str(root / name): text for name, text in texts.items()}))
    assert await grep(bench, "k$") == "matches: 3 lines in 3 of 5 files\na:3:typed k\nin/new:1:k\nb:1:on disk\n"
    assert await lines(bench, "k$", path="in") == ["in/new:1:k"]
    assert await lines(bench, "k$", glob="new") == ["in/new:1:k"]
    assert await lines(bench, "k$", path="in/new") == ["in/new:1:k"]
    assert await lines(bench, "disk", path="gone") == []


async def test_secrets_stay_where_they_are(bench, tmp_path):
    key = "-----BEGIN PRIVATE KEY-----\nMIIEzz\n-----END PRIVATE KEY-----\n"
    token = f"sk-{'x' * 20}"
    fill(bench, {".env": "k=MIIEzz\n", "in/server.pem": key, "a.txt": key, "b.txt": f"k {token} MIIEzz\n"})
    content = await grep(bench, "MIIEzz|k")
    assert content == (
        f"matches: 2 lines in 2 of 2 files\na.txt:2:{MARK}\nb.txt:1:k {MARK} MIIEzz\n"
        "[2 secret files (.env, keys) were not searched; name one as `path` to do so]\n"
    )
    assert await lines(bench, "k=", path=".env") == [".env:1:k=MIIEzz"]


async def test_a_cancelled_search_ends(bench):
    fill(bench, {"f": "k\n"})
    bench.cancel.cancel()
    with pytest.raises(Cancelled):
        await bench.call("code_grep", pattern="k")
    with pytest.raises(Cancelled):
        await bench.call("code_files", query="f")


async def test_a_file_that_changes_while_it_is_searched_does_no_harm(bench, monkeypatch):
    from tinsmith.tools import code_grep

    fill(bench, {"a": "k\n" * 50, "b": "x\nk\n", "c": "k\n"})
    search = code_grep.search

    def search_and_change(*args, **options):
        found = search(*args, **options)
        (bench.root / "a").unlink()
        (bench.root / "b").write_text("k\n")
        (bench.root / "c").write_text("\n")
        return found

    monkeypatch.setattr(code_grep, "search", search_and_change)
    assert await lines(bench, "k") == ["b:1:k"]


async def test_a_folder_that_becomes_a_link_while_it_is_searched_leads_nowhere(bench, monkeypatch, tmp_path):
    """The symlink race: what is outside is neither counted nor shown."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("def needle_outside(): pass\n" * 3)
    fill(bench, {"in/a.py": "def needle(): pass\n", "b.py": "def needle(): pass\n"})
    look = Listings.look

    def swap_behind(self, *arguments):
        found = look(self, *arguments)
        if not (bench.root / "in").is_symlink():
            (bench.root / "in").rename(bench.root / "moved")
            (bench.root / "in").symlink_to(outside)
        return found

    monkeypatch.setattr(Listings, "look", swap_behind)
    for call, shown in (
        (("code_grep", {"pattern": "needle"}), "matches: 1 lines in 1 of 2 files\nb.py:1:def needle(): pass\n"),
        (("code_symbols", {"query": "needle"}), "function needle b.py:1\n"),
    ):
        name, arguments = call
        assert (await bench.call(name, **arguments)).content == shown
        (bench.root / "in").unlink()
        (bench.root / "moved").rename(bench.root / "in")
    assert "outside" not in (await bench.call("code_map")).content


def test_a_folder_that_becomes_a_link_while_it_is_listed_is_empty(tmp_path, monkeypatch):
    outside, root = tmp_path / "outside", tmp_path / "root"
    for path in (outside / "secret.txt", root / "in" / "a.txt"):
        path.parent.mkdir(parents=True)
        path.write_text("x\n")
    entries = listing._entries

    def swap_behind(folder):
        found = [*entries(folder)]
        if folder == str(root):
            (root / "in").rename(root / "moved")
            (root / "in").symlink_to(outside)
        return iter(found)

    monkeypatch.setattr(listing, "_entries", swap_behind)
    assert Listings().look(str(root), str(root)).files == ()


async def test_nothing_in_a_repository_makes_a_search_run_or_read_on(bench, tmp_path):
    """A hostile configuration: rules without end, settings that include themselves, options for rg, pipes and links."""
    root = bench.root
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    canary = tmp_path / "canary"
    program = root / "rg"
    program.write_text(f"#!/bin/sh\ntouch {canary}\n")
    program.chmod(0o755)
    fill(
        bench, {"a.py": "needle\n", ".ripgreprc": f"--pre={program}\n", "in/b.py": "needle\n", "deep/c.py": "needle\n"}
    )
    (root / "in" / ".gitignore").symlink_to("/dev/zero")
    (root / "deep" / ".gitignore").write_text("[" * 100_000 + "*" * 10_000 + "\n" + "**/" * 5_000 + "x\n")
    (root / ".git" / "info" / "exclude").unlink()
    for pipe in (root / ".git" / "info" / "exclude", root / ".git" / "commondir", root / "in" / ".git"):
        os.mkfifo(pipe)
    for key, value in {
        "core.excludesFile": "/dev/zero",
        "core.fsmonitor": f"touch {canary}",
        "include.path": str(root / ".git" / "config"),
        "alias.ls-files": f"!touch {canary}",
    }.items():
        subprocess.run(["git", "config", "--file", str(root / ".git" / "config"), key, value], check=True)
    began = time.monotonic()
    assert await lines(bench, "needle") == ["a.py:1:needle", "deep/c.py:1:needle", "in/b.py:1:needle"]
    assert "a.py" in await files(bench, "a.py")
    assert time.monotonic() - began < 5
    assert not canary.exists()


@pytest.mark.ripgrep
async def test_with_and_without_ripgrep(bench, monkeypatch):
    """The whole answer is the same, byte for byte."""
    subprocess.run(["git", "init", "-q", str(bench.root)], check=True)
    fill(bench, {".gitignore": "*.o\nout/\n!out/keep\n", "out/keep": "def k\n", "x.o": "k\n"})
    for number in range(450):
        fill(
            bench,
            {f"p{number % 7}/{number}.py": f"a\r\ndef k{number}(k):\r\n    k = {number}\r\n" + "k\n" * (number % 3)},
        )
    fill(bench, {"bin": b"k\n\0", "utf16": b"\xff\xfe" + "k\r\n".encode("utf-16-le"), ".hid/den": "k\n"})
    searches = [{"pattern": "k"}, {"pattern": r"def k\d+\(k\):$", "context": 1}, {"pattern": "k$", "glob": "*.py"}]
    searches += [{"pattern": "K", "case": "ignore", "path": "p1"}, {"pattern": "k4[0-4]", "max_results": 7}]
    with_it = [await grep(bench, **arguments) for arguments in searches]
    path = os.pathsep.join(
        folder for folder in os.environ["PATH"].split(os.pathsep) if not shutil.which("rg", path=folder)
    )
    monkeypatch.setenv("PATH", path)
    assert [await grep(bench, **arguments) for arguments in searches] == with_it
    assert with_it[0].startswith("matches: 1,3")


async def files(bench, query, **arguments):
    return (await bench.call("code_files", query=query, **arguments)).content.split("\n")[1:-1]


async def test_paths_by_a_part_of_them(bench):
    names = [
        "src/user_service.py",
        "src/users/index.py",
        "tests/test_user_service.py",
        "src/useless.py",
        "docs/User.md",
    ]
    fill(bench, dict.fromkeys([*names, "a/UserServiceImpl.java", "node/user.js"], ""))
    assert (await files(bench, "user"))[:3] == ["docs/User.md", "node/user.js", "src/user_service.py"]
    assert (await files(bench, "user_service"))[:2] == ["src/user_service.py", "tests/test_user_service.py"]
    assert (await files(bench, "usrsvc"))[0] in {"src/user_service.py", "a/UserServiceImpl.java"}
    assert (await files(bench, "test user"))[0] == "tests/test_user_service.py"
    assert (await files(bench, "users/ind"))[0] == "src/users/index.py"
    assert (await files(bench, "USER.JS")) == ["node/user.js"]
    assert await files(bench, "*.py") == sorted(name for name in names if name.endswith(".py"))
    assert await files(bench, "src/*.py") == ["src/useless.py", "src/user_service.py"]
    assert await files(bench, "zzz") == []


async def test_how_many_paths_there_are(bench):
    fill(bench, {f"{number}/file.txt": "" for number in range(60)})
    result = await bench.call("code_files", query="file", max_results=3)
    assert result.content == (
        "found: 60 of 60 files\n0/file.txt\n1/file.txt\n2/file.txt\n"
        "[57 more; say more of the path, or raise `max_results`]\n"
    )
    for query in ("", "  ", "x" * 300):
        assert (await bench.refusal("code_files", query=query)).code == "badQuery"
    assert (await bench.refusal("code_files", query="[a")).code == "badGlob"


async def test_a_new_file_is_found_at_once(bench):
    fill(bench, {"old": "k\n"})
    assert await files(bench, "o") == ["old"]
    assert await lines(bench, "k") == ["old:1:k"]
    fill(bench, {"in/also": "k\n"})
    (bench.root / "old").unlink()
    assert await files(bench, "o") == ["in/also"]
    assert await lines(bench, "k") == ["in/also:1:k"]
    digest = await bench.read("in/also")
    await bench.edit("in/also", digest, ("replace", 1, 1, "j"))
    assert await lines(bench, "j") == ["in/also:1:j"]
    assert field(await bench.call("read", path="in/also"), "lines") == "1"
