"""code_map, code_symbols and code_outline over the boundary."""

import os
import subprocess

import pytest
from tests.tools.stage import Bench, Buffers

from tinsmith.domain.cancel import CancelToken
from tinsmith.domain.errors import Cancelled
from tinsmith.tools.ports import RESULT_CHARACTERS
from tinsmith.workspace.imports import Modules
from tinsmith.workspace.listing import list_files
from tinsmith.workspace.overview import overview
from tinsmith.workspace.sources import Sources
from tinsmith.workspace.symbol_search import search_symbols

FILES = {
    "README.md": "# Kettle\n\n## Use\n",
    "pyproject.toml": "[project]\n",
    "src/kettle/__init__.py": "",
    "src/kettle/__main__.py": "from kettle.boil import boil\n\ndef main():\n    boil()\n",
    "src/kettle/boil.py": (
        "from .heat import Heat\n\nLIMIT = 3\n\nclass Kettle:\n    def boil(self):\n        return Heat()\n\n"
        "def boil():\n    pass\n"
    ),
    "src/kettle/heat.py": "class Heat:\n    def heat(self):\n        pass\n\ndef _reheat():\n    pass\n",
    "tests/test_boil.py": "from kettle.boil import boil\n\ndef test_boil():\n    boil()\n",
    "web/app.ts": "import { x } from './lib/boil'\nexport class App {}\n",
    "web/lib/boil.ts": "export function boilWater() {}\n",
    ".gitignore": "build/\n",
    "build/boil.py": "def boil_built(): pass\n",
    ".env": "def boil_secret(): pass\n",
    "data.bin": "\0\0def boil_binary(): pass",
}


class Open(Buffers):
    """Open documents that can also be listed."""

    def open_paths(self):
        return tuple(self.texts)


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


@pytest.fixture
def bench(root):
    return Bench(root)


async def test_the_map(bench):
    result = await bench.call("code_map")
    assert result.content == (
        "path: .\n"
        "files: 12, 459 B; python 5, typescript 2, markdown 1, toml 1, other 3\n"
        "\n"
        "Folders\n"
        "src/  4 files, 236 B; python 4\n"
        "  kettle/  4 files, 236 B; python 4\n"
        "tests/  1 files, 58 B; python 1\n"
        "web/  2 files, 82 B; typescript 2\n"
        "  lib/  1 files, 31 B; typescript 1\n"
        "\n"
        "Files to know first\n"
        "README.md  (17 B): heading Kettle:1\n"
        "pyproject.toml  (10 B)\n"
        "web/app.ts  (51 B): class App:2\n"
        "src/kettle/__main__.py  (53 B): function main:3\n"
        "src/kettle/boil.py  (113 B, imported by 2): class Kettle:5, function boil:9, variable LIMIT:3\n"
        "src/kettle/heat.py  (70 B, imported by 1): class Heat:1, function _reheat:5\n"
        "web/lib/boil.ts  (31 B, imported by 1): function boilWater:1\n"
        "src/kettle/__init__.py  (0 B)\n"
        "[3 other files; code_files and code_outline find them]\n"
        "\n"
        "Tests: 1 files, 58 B; the largest\n"
        "tests/test_boil.py  (58 B)\n"
    )
    assert result == await bench.call("code_map")


async def test_the_map_of_a_folder(bench):
    content = (await bench.call("code_map", path="src", depth=1)).content
    assert content.startswith("path: src\nfiles: 4, 236 B; python 4\n\nFolders\nkettle/  4 files, 236 B; python 4\n\n")
    refusal = await bench.refusal("code_map", path="README.md")
    assert (refusal.code, refusal.message) == (
        "noDirectory",
        "There is no folder README.md. For one file use code_outline.",
    )
    assert (await bench.preview("code_map", path="/etc")).is_outside
    (bench.root / "void").mkdir()
    assert (await bench.call("code_map", path="void")).content == "path: void\nfiles: 0\n"


async def test_a_large_repository_keeps_to_the_budget(tmp_path):
    for folder in range(120):
        os.makedirs(tmp_path / "r" / f"{'long' * 20}{folder}")
        for name in ("main", "other"):
            text = "".join(f"class {'Name' * 10}{n}: pass\n" for n in range(20))
            (tmp_path / "r" / f"{'long' * 20}{folder}" / f"{name}.py").write_text(text)
    content = (await Bench(tmp_path / "r").call("code_map")).content
    assert len(content) <= RESULT_CHARACTERS
    assert "[60 smaller folders left out; ask for one with `path`]\n" in content
    assert content.endswith("[210 other files; code_files and code_outline find them]\n")


async def test_symbols_come_best_first(bench):
    result = await bench.call("code_symbols", query="boil")
    assert result.content == (
        "method boil src/kettle/boil.py:6  in Kettle\n"
        "function boil src/kettle/boil.py:9\n"
        "function boilWater web/lib/boil.ts:1\n"
        "function test_boil tests/test_boil.py:3\n"
    )
    assert [(each.path, each.start_line, each.end_line) for each in result.locations][:2] == [
        (str(bench.root / "src/kettle/boil.py"), 6, 7),
        (str(bench.root / "src/kettle/boil.py"), 9, 10),
    ]
    assert (await bench.call("code_symbols", query="HEAT")).content == (
        "class Heat src/kettle/heat.py:1\nmethod heat src/kettle/heat.py:2  in Heat\n"
        "function _reheat src/kettle/heat.py:5\n"
    )
    assert (await bench.call("code_symbols", query="heat", kind="class")).content == "class Heat src/kettle/heat.py:1\n"
    for query in ("Kettle.boil", "Kettle::boil", "kettle#BOIL"):
        assert (
            await bench.call("code_symbols", query=query)
        ).content == "method boil src/kettle/boil.py:6  in Kettle\n"
    assert (await bench.call("code_symbols", query="zzz")).content == "No symbol of that name. Search the text.\n"
    assert (await bench.call("code_symbols", query="..")).content == "No symbol of that name. Search the text.\n"


async def test_unsaved_text_comes_before_the_disk(root):
    buffers = {
        str(root / "src/kettle/heat.py"): "\n\nclass Warmth: pass\n",
        str(root / "src/new.py"): "class WarmthNew: pass\n",
        "/elsewhere/x.py": "class WarmthElsewhere: pass\n",
    }
    bench = Bench(root, Open(buffers))
    assert (await bench.call("code_symbols", query="warmth")).content == (
        "class Warmth src/kettle/heat.py:3\nclass WarmthNew src/new.py:1\n"
    )
    assert (await bench.call("code_symbols", query="Heat", kind="class")).content.startswith("No symbol")
    outline = (await bench.call("code_outline", path="src/kettle/heat.py")).content
    assert outline == "path: src/kettle/heat.py\nlines: 3\nsource: buffer\nsymbols: 1\nclass Warmth :3\n"
    assert "src/kettle/heat.py  (21 B, imported by 1): class Warmth:3\n" in (await bench.call("code_map")).content


async def test_many_symbols_are_counted(bench):
    (bench.root / "many.py").write_text("".join(f"def item_{n:04}(): pass\n" for n in range(300)))
    content = (await bench.call("code_symbols", query="item")).content
    assert content.count("\n") == 101
    assert content.endswith("[200 more; ask for a longer name, a container or a kind]\n")
    (bench.root / "more.py").write_text("".join(f"def item_{n:04}(): pass\n" for n in range(4_000)))
    outline = (await bench.call("code_outline", path="more.py")).content
    assert len(outline) <= RESULT_CHARACTERS
    assert "symbols left out; find them with code_symbols or read the file]\n" in outline


async def test_the_outline_nests(bench):
    assert (await bench.call("code_outline", path="src/kettle/boil.py")).content == (
        "path: src/kettle/boil.py\nlines: 10\nsource: disk\nsymbols: 4\n"
        "variable LIMIT :3\nclass Kettle :5-7\n  method boil :6-7\nfunction boil :9-10\n"
    )
    (bench.root / "a.go").write_text("package p\nfunc (k *Kettle) Boil() {\n}\n")
    assert (await bench.call("code_outline", path="a.go")).content.endswith("symbols: 1\nmethod Kettle.Boil :2-3\n")


async def test_other_outlines(bench):
    (bench.root / "a.kt").write_text("class A {\n")
    assert (await bench.call("code_outline", path="a.kt")).content.endswith(
        "symbols: 1\nnote: found by the look of the lines, so some may be missing and their ends are not known\n"
        "class A :1\n"
    )
    assert "note: this kind of file has no outline" in (await bench.call("code_outline", path="pyproject.toml")).content
    assert (await bench.refusal("code_outline", path="data.bin")).code == "binary"
    assert (await bench.preview("code_outline", path=".env")).is_secret
    (bench.root / "wide.py").write_bytes("\ufeff\r\nclass Ä:\r\n    pass\r\n".encode("utf-16-le"))
    assert (await bench.call("code_outline", path="wide.py")).content.endswith("symbols: 1\nclass Ä :2-3\n")
    assert (await bench.call("code_symbols", query="ä")).content == "class Ä wide.py:2\n"


def test_files_are_those_that_git_would_track(root):
    wanted = sorted(set(FILES) - {"build/boil.py"})
    assert list_files(str(root), CancelToken()) == wanted
    assert list_files(str(root / "src"), CancelToken()) == [path[4:] for path in wanted if path.startswith("src/")]
    with pytest.raises(Cancelled):
        cancelled = CancelToken()
        cancelled.cancel()
        list_files(str(root), cancelled)


def test_files_without_git(root, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list_files(str(root), CancelToken()) == sorted(set(FILES) - {"build/boil.py"})


def test_files_without_a_repository_and_in_several_repositories(tmp_path):
    """FIND-10, FIND-16."""
    for path in ("r1/web/a.ts", "r1/out/b.o", "r2/out/z.txt", "x.txt", "node_modules/m.js", "r1/sub/.git"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")
    (tmp_path / "r1" / ".gitignore").write_text("out/\n")
    os.symlink("..", tmp_path / "r2" / "loop")
    os.symlink("nowhere", tmp_path / "dead")
    for name in ("r1", "r2"):
        subprocess.run(["git", "init", "-q"], cwd=tmp_path / name, check=True)
    listed = list_files(str(tmp_path), CancelToken())
    assert {"r1/.gitignore", "r1/web/a.ts", "r2/out/z.txt", "r2/loop", "x.txt"} <= set(listed)
    assert not {"r1/out/b.o", "node_modules/m.js"} & set(listed)
    sources = Sources(str(tmp_path), {})
    assert [path for path in listed if sources.size(path) is not None] == [
        "r1/.gitignore",
        "r1/web/a.ts",
        "r2/out/z.txt",
        "x.txt",
    ]


def test_links_and_devices_are_not_read(tmp_path):
    (tmp_path / "secret.txt").write_text("class Secret: pass\n")
    root = tmp_path / "root"
    root.mkdir()
    os.symlink("../secret.txt", root / "link.py")
    os.mkfifo(root / "pipe.py")
    sources = Sources(str(root), {})
    assert [sources.text(path) for path in ("link.py", "pipe.py", "gone.py")] == [None] * 3


def test_a_search_that_takes_too_long_says_what_it_left_out(root, monkeypatch):
    monkeypatch.setattr("tinsmith.workspace.symbol_search.SECONDS", -1)
    found = search_symbols(Sources(str(root), {}), ["a.py", "b.py"], "x", None, cancel=CancelToken())
    assert (found.files, found.left) == (2, 2)


def test_cancel_reaches_the_overview(root):
    cancel = CancelToken()
    cancel.cancel()
    with pytest.raises(Cancelled):
        overview(Sources(str(root), {}), ["README.md"], 2, cancel=cancel)


@pytest.mark.parametrize(
    ("path", "text", "imported"),
    [
        ("pkg/a.py", "from pkg.b import X, y as z\nimport pkg.c", {"pkg/b.py", "pkg/c/__init__.py"}),
        ("pkg/a.py", "from . import b\nfrom .c import (d,\n", {"pkg/b.py", "pkg/c/d.py"}),
        ("pkg/c/d.py", "from ..b import X\nimport os", {"pkg/b.py"}),
        ("web/a.ts", "import x from './b'\nexport * from './lib'\n", {"web/b.tsx", "web/lib/index.ts"}),
        ("web/a.ts", "require('../z.js'); require('./b.js')", {"web/b.tsx"}),
        ("c/a.c", '#include "util.h"\n#include <stdio.h>', {"c/include/util.h"}),
        ("j/A.java", "import org.x.B;\nimport static org.x.B.go;", {"j/org/x/B.java"}),
        ("r/main.rs", "mod util;\nuse crate::net::Client;", {"r/util.rs", "r/net/mod.rs"}),
        ("l/a.lua", "local b = require('x.b')", {"l/x/b.lua"}),
        ("b/a.rb", "require_relative './b'", {"b/b.rb"}),
        ("g/a.go", 'import "x"', set()),
    ],
)  # fmt: skip
def test_imports(path, text, imported):
    names = (
        "pkg/a.py pkg/b.py pkg/c/__init__.py pkg/c/d.py web/a.ts web/b.tsx web/lib/index.ts c/include/util.h "
        "j/org/x/B.java r/util.rs r/net/mod.rs r/main.rs l/x/b.lua b/b.rb g/a.go"
    ).split()
    assert Modules(names).imported(path, text) == imported
