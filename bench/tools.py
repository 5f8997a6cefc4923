"""Single calls of tools: on a tree of 20,000 files, half of them ignored, beside plain `rg`, and on a file of 1 MB.

As a program, run by the installed environment: `tools.py TREE TIMES RG` prints the samples as JSON.
"""

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.scenarios import Samples

PATTERN = "def parse_config"
QUERY = "parse_conf"
COMMON = "config"
"""A part of a name that is in nearly every file."""
LARGE = "large.txt"
_VERBS = ("parse", "load", "store", "search", "walk", "match", "hash", "edit", "write", "read", "index", "view")
_NOUNS = ("config", "user", "service", "model", "tree", "window", "engine", "turn", "item", "event", "policy", "role")
_WORDS = (*_VERBS, *_NOUNS, "cache", "rule", "line", "text")
_RULES = (
    "node_modules/\n*.pyc\n__pycache__/\nbuild/\n*.log\n/out\n*.min.js\n!keep.log\n.vscode/*\n!.vscode/settings.json\n"
)


def measure_tools(
    python: Path, place: Path, environment: Mapping[str, str], times: int, server: "Samples", floor: "Samples"
) -> None:
    """Add samples in milliseconds: ours with and without `rg`, and plain `rg`, where there is one."""
    tree = place / "tree"
    make_tree(tree)
    rg = shutil.which("rg", path=environment["PATH"])
    folders = environment["PATH"].split(os.pathsep)
    without = os.pathsep.join(folder for folder in folders if not shutil.which("rg", path=folder))
    for row, path in (("grep with rg", environment["PATH"]), ("grep without rg", without)):
        command = (python, __file__, tree, str(times), rg or "")
        done = subprocess.run(command, env={**environment, "PATH": path}, capture_output=True, check=True)
        told: dict[str, list[float]] = json.loads(done.stdout)
        server[row] += told["code_grep"] if rg or row == "grep without rg" else []
        server["files cold"] += told["cold"]
        server["files warm"] += told["warm"]
        server["symbols"] += told["symbols"]
        server["read 1 MB"] += told["read"]
        server["edit 1 MB"] += told["edit"]
        floor["plain rg"] += told.get("plain", [])


def make_tree(root: Path) -> None:
    """The same 20,000 files every time, 10,000 of them below `node_modules`."""
    chance = random.Random(1)  # noqa: S311  a tree, not a secret
    subprocess.run(("git", "init", "-q", str(root)), check=True)
    (root / ".gitignore").write_text(_RULES)
    for package in range(20):
        for number in range(25):
            folder = root / f"pkg{package}" / f"{chance.choice(_WORDS)}{number}" / chance.choice(_WORDS)
            folder.mkdir(parents=True)
            for file in range(20):
                name = f"{chance.choice(_WORDS)}_{chance.choice(_WORDS)}_{file}.py"
                (folder / name).write_text("".join(_line(chance) for _ in range(chance.randint(5, 250))))
        for number in range(100):
            folder = root / f"pkg{package}" / "node_modules" / f"m{number}"
            folder.mkdir(parents=True)
            for file in range(5):
                (folder / f"f{file}.js").write_text("".join(_line(chance) for _ in range(60)))


def _line(chance: random.Random) -> str:
    one, two, three, four = chance.sample(_WORDS, 4)
    return chance.choice(
        (
            f"    {one}_{two} = {three}({four})\n",
            f"def {one}_{two}({three}, {four}):\n",
            f"    return {one}.{two}[{three}] + {four}\n",
            f"# {one} {two} {three} {four}\n",
            "\n",
        )
    )


def _timed(sync: Callable[[int], None], taken: list[float]) -> Callable[[int], None]:
    """The same, which notes how many seconds it took: that is the disk's share of a write."""

    def timed(descriptor: int) -> None:
        begun = time.perf_counter()
        sync(descriptor)
        taken.append(time.perf_counter() - begun)

    return timed


async def _sampled(tree: str, times: int, rg: str) -> dict[str, list[float]]:
    import msgspec

    from tinsmith.domain.cancel import CancelToken
    from tinsmith.domain.ports import NoDocuments
    from tinsmith.domain.tool import CallScope, ToolSpec
    from tinsmith.tools import builtin_tools

    samples: dict[str, list[float]] = defaultdict(list)
    syncing: list[float] = []
    os.fsync = _timed(os.fsync, syncing)
    names = {"role": "direct", "turn_id": "t", "call_id": "k", "conversation_id": "c", "cwd": tree, "root": tree}
    scope = CallScope(**names, cancel=CancelToken(), output=lambda _: None)

    async def call(row: str, tools: dict[str, ToolSpec], name: str, **arguments: Any) -> str:
        decoded = msgspec.convert(arguments, tools[name].args)
        syncing.clear()
        begun = time.perf_counter()
        await tools[name].preview(decoded, scope)
        result = await tools[name].run(decoded, scope)
        samples[row].append(1000 * (time.perf_counter() - begun - sum(syncing)))
        return result.content

    large = Path(tree) / LARGE
    large.write_text("".join(f"line {number:06} of a file that is one megabyte large\n" for number in range(19_600)))
    for turn in range(times + 1):
        tools = {spec.name: spec for spec in builtin_tools(NoDocuments(), cache_dir=f"{tree}-cache")}
        await call("cold", tools, "code_files", query=QUERY)
        await call("warm", tools, "code_files", query=QUERY)
        await call("first", tools, "code_grep", pattern=PATTERN)
        await call("code_grep", tools, "code_grep", pattern=PATTERN)
        await call("symbols", tools, "code_symbols", query=COMMON)
        shown = await call("read", tools, "read", path=LARGE, start_line=9_800)
        known = shown.partition("hash: ")[2].partition("\n")[0]
        edits = [{"op": "replace", "start": 9_900, "text": f"turn {turn}"}]
        await call("edit", tools, "edit", path=LARGE, hash=known, edits=edits)
        if rg:
            begun = time.perf_counter()
            subprocess.run((rg, "-nS", PATTERN), cwd=tree, stdin=subprocess.DEVNULL, capture_output=True, check=True)  # noqa: ASYNC221
            samples["plain"].append(1000 * (time.perf_counter() - begun))
    return {row: taken[1:] for row, taken in samples.items()}  # the first also imports what it needs


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(_sampled(sys.argv[1], int(sys.argv[2]), sys.argv[3]))))
