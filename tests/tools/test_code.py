"""code_map, code_symbols and code_outline over the boundary."""

import os
import subprocess

import pytest
from tests.tools.stage import Bench, Buffers

from tinsmith.tools.ports import RESULT_CHARACTERS

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


@pytest.mark.parametrize("has_ripgrep", [True, False])
async def test_of_a_name_that_is_everywhere_the_definitions_come_first(bench, monkeypatch, has_ripgrep):
    monkeypatch.setattr("tinsmith.workspace.symbol_search.SECONDS", 0)
    if not has_ripgrep:
        monkeypatch.setattr("tinsmith.workspace.symbol_search.find_ripgrep", lambda root: None)
    (bench.root / "used").mkdir()
    for number in range(400):
        (bench.root / f"used/kettle_{number:03}.py").write_text("x = kettle(1)\n" * 200)
    (bench.root / "zz.py").write_text("def kettle_whistle(): pass\n")
    (bench.root / "zzz.py").write_text("def kettle(): pass\n")
    content = (await bench.call("code_symbols", query="kettle", kind="function")).content
    assert content.startswith("function kettle zzz.py:1\n")
    assert content.endswith("of 406 files that hold the name; ask for a longer name]\n")
    looked_into = int(content.rpartition("likeliest ")[2].split()[0])
    assert 100 < looked_into < 200
    everywhere = (await bench.call("code_symbols", query="kettle_w")).content
    assert everywhere == "function kettle_whistle zz.py:1\n"


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
