"""Somebody types into a buffer while the agent edits it: what comes out is the keys and the applied edits, in order.

The keys and the edits are written down in the editor, in one sequence. Replayed in a Neovim that has never heard
of Tinsmith, with the agent's own words for the edits, they must give the same text to the byte.
"""

import collections
import contextlib
import itertools
import os
import random
import re
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pynvim
import pytest

from tinsmith.demo.server import ServerThread
from tinsmith.domain.message import ToolMessage
from tinsmith.domain.ports import ModelRequest
from tinsmith.llm.scripted import Call, Reply, ScriptedModel, Wait, reply

from .conftest import StartEditor, hash_of, neovim

TEXT = "".join(f"This was line {number} at the start.\n" for number in range(1, 31))
EDITS_A_TURN = 10
LETTERS = "abcdefghijklmnopqrstuvwxyz     "
ARROWS = ("<Up>", "<Down>", "<Left>", "<Right>")

WRITE_DOWN = """
    _G.sequence = {}
    vim.on_key(function(_, typed)
      if typed ~= "" then
        table.insert(_G.sequence, { key = vim.fn.keytrans(typed) })
      end
    end)
    local edits = require("tinsmith.edits")
    local apply = edits.apply
    edits.apply = function(client, params)
      local before = vim.api.nvim_get_current_line()
      local result = apply(client, params)
      local document = result.documents[1]
      table.insert(_G.sequence, {
        applied = result.applied,
        status = document.status,
        hash = document.hash,
        turn = params.turnId,
        mode = vim.api.nvim_get_mode().mode,
        view = vim.fn.winsaveview(),
        line = { before, vim.api.nvim_get_current_line() },
      })
      return result
    end
"""

MAKE = """
    local first, last, lines, turn, cursor = ...
    local latest = _G.latest or {}
    if latest.turn == turn and latest.tick == vim.b.changedtick then
      vim.cmd.undojoin()
    else
      vim.bo.undolevels = vim.bo.undolevels
    end
    vim.api.nvim_buf_set_lines(0, first, last, true, lines)
    vim.bo.undolevels = vim.bo.undolevels
    _G.latest = { turn = turn, tick = vim.b.changedtick }
    vim.fn.winrestview(cursor)
"""


class Edit(msgspec.Struct):
    """What the agent asked for: `text` in the place of lines `first` (from 0) to before `last`; what it was told."""

    first: int
    last: int
    text: str
    told: str = ""

    @property
    def hash(self) -> str:
        """Of the text that the edit made, when it was reported as applied."""
        found = re.match(r"hash: ([0-9a-f]{16})\n", self.told)
        return found[1] if found else ""

    def words(self) -> dict[str, str | int]:
        """The edit as the tool takes it."""
        if self.first == self.last:
            return {"op": "insert", "start": self.first, "text": self.text}
        span = {"start": self.first + 1, "end": self.last}
        return {"op": "replace", **span, "text": self.text} if self.text else {"op": "delete", **span}


class Agent:
    """A model that reads and edits, again and again, with the hash it saw; sometimes it thinks too long in between."""

    def __init__(self, dice: random.Random, pause: float) -> None:
        self.dice = dice
        self.pause = pause
        self.edits: list[Edit] = []
        self.is_done = False
        self.seen = ""
        """The hash of the text that was read last."""

    def answer(self, request: ModelRequest) -> Reply:
        """The reply to one request of the server."""
        last = request.messages[-1]
        if not isinstance(last, ToolMessage):
            return reply(Call("read", {"path": "a.txt"}))
        if last.content.startswith("path: "):
            self.seen = re.search(r"^hash: (\w+)$", last.content, re.MULTILINE)[1]
            lines = re.findall(r"^ *\d+\t(.*)$", last.content, re.MULTILINE)
            return reply("Done.") if self.is_done else self.edit(lines)
        self.edits[-1].told = last.content
        if len(self.edits) % EDITS_A_TURN == 0:
            return reply("That is enough for now.")
        return reply(Wait(self.dice.uniform(0.3, 1.7) * self.pause), Call("read", {"path": "a.txt"}))

    def edit(self, lines: list[str]) -> Reply:
        first = self.dice.randint(0, len(lines))
        last = min(first + self.dice.choice([0, 1, 2]), len(lines))
        # A line among others like it would be one of them that is deleted, and nobody could say which.
        is_unlike = len(set(lines[max(first - 1, 0) : last + 1])) == len(lines[max(first - 1, 0) : last + 1])
        may_delete = first < last and is_unlike and len(lines) > 20
        number, rows = len(self.edits), self.dice.choice([0, 1, 3] if may_delete else [2])
        text = "".join(f"Edit {number} wrote this as line {row}.\n" for row in range(rows))
        self.edits.append(Edit(first, last, text))
        thought = self.dice.choice([0.0, 0.0, self.dice.uniform(0.1, 1.0) * self.pause])
        call = Call("edit", {"path": "a.txt", "hash": self.seen, "edits": [self.edits[-1].words()]})
        return reply(Wait(thought), call)


def presses(dice: random.Random) -> Iterator[list[str]]:
    """What a person does, one thing after the other, each beginning and ending in Normal mode."""
    while True:
        still = [key for _ in range(dice.randint(3, 9)) for key in [dice.choice(ARROWS)] * dice.randint(3, 10)]
        deed = dice.choice(["write", "write and look", "look", "look", "dd", "p", "x", "P", "u", "<C-R>"])
        written = [dice.choice([*LETTERS, "<CR>", "<BS>", "<BS>", dice.choice(ARROWS)]) for _ in range(15)]
        yield {
            "look": still,
            "u": ["u"] * dice.randint(1, 6),
            "<C-R>": ["<C-R>"] * dice.randint(1, 3),
            "write": [dice.choice("iaAoOI"), *written, "<Esc>"],
            "write and look": [dice.choice("iaAoOI"), *written[:5], *still, *written[5:], "<Esc>"],
        }.get(deed, [*deed])


def type_keys(nvim: pynvim.Nvim, keys: list[str], interval: float) -> None:
    """Press one key every `interval` seconds."""
    due = time.monotonic()
    for key in keys:
        nvim.input(key)
        due += interval
        time.sleep(max(0.0, due - time.monotonic()))


def text_of(nvim: pynvim.Nvim) -> str:
    return "\n".join(nvim.api.buf_get_lines(0, 0, -1, True)) + "\n"


def replay(nvim: pynvim.Nvim, sequence: list[dict[str, Any]], edits: list[Edit]) -> None:
    """Do the same again: the keys by pressing them, the edits by exchanging lines of text."""
    made = iter(edits)
    for is_key, steps in itertools.groupby(sequence, lambda step: "key" in step):
        if is_key:
            for key in steps:
                nvim.input(key["key"])
            nvim.exec_lua("return 0")
            continue
        for step in steps:
            edit = next(made)
            row = nvim.funcs.line(".") - 1
            cursor = {name: step["view"][name] for name in ("lnum", "col", "coladd", "curswant")}
            nvim.exec_lua(MAKE, edit.first, edit.last, edit.text.splitlines(), step["turn"], cursor)
            assert hash_of(text_of(nvim)) == step["hash"] == edit.hash
            assert edit.first <= row < edit.last or step["line"][0] == step["line"][1]
    assert next(made, None) is None


def play(
    start_editor: StartEditor, tmp_path: Path, *, edits: int, keys_a_second: float, pause: float, seconds: float
) -> None:
    seed = int(os.environ.get("ROBOT_SEED") or secrets.randbelow(2**32))
    print(f"ROBOT_SEED={seed}")
    agent = Agent(random.Random(seed), pause)
    home = tmp_path / "home"
    names = {f"TINSMITH_{kind}_DIR": str(home / kind.lower()) for kind in ("DATA", "CONFIG", "CACHE")}
    with ServerThread(ScriptedModel(agent.answer)) as provider:
        editor = start_editor(
            [sys.executable, "-m", "tinsmith", "serve"],
            env={**names, "TINSMITH_MODEL": "scripted", "TINSMITH_BASE_URL": provider.base_url},
            options={"settings": {"permission_mode": "edits"}},
        )
        editor.open("a.txt", TEXT)
        editor.lua(WRITE_DOWN)
        typed: list[str] = []
        turns, end = 0, time.monotonic() + seconds
        for keys in presses(random.Random(seed + 1)):
            if len(agent.edits) == turns * EDITS_A_TURN and editor.status()["state"] == "idle":
                has_both = len({bool(edit.hash) for edit in agent.edits}) == 2
                if len(agent.edits) < edits or not has_both:
                    editor.command("Tinsmith ask Go on")
                    turns += 1
                elif time.monotonic() > end:
                    break
            type_keys(editor.nvim, keys, 1 / keys_a_second)
            typed += keys
        agent.is_done = True
        editor.command("Tinsmith ask Look")
        editor.wait_for_text("Done.")
        editor.command("write")
    compare(editor.lua("return _G.sequence"), typed, agent.edits, tmp_path)
    replayed = (tmp_path / "a.txt").read_bytes()
    assert (editor.workspace / "a.txt").read_bytes() == replayed
    assert agent.seen == hash_of(replayed.decode())


def compare(sequence: list[dict[str, Any]], typed: list[str], edits: list[Edit], directory: Path) -> None:
    """What was written down is what was typed and what was reported; done again, it gives `a.txt` in `directory`."""
    made = [step for step in sequence if step.get("applied")]
    applied = [edit for edit in edits if edit.hash]
    late = [step for step in sequence if step.get("status") == "stale"]
    modes = collections.Counter(step["mode"] for step in made)
    print(f"{len(typed)} keys, {len(edits)} edits, {len(applied)} applied in {modes}, {len(late)} too late")
    assert [step["key"] for step in sequence if "key" in step] == [{" ": "<Space>"}.get(key, key) for key in typed]
    assert [step["hash"] for step in made] == [edit.hash for edit in applied]
    assert 0 < len(applied) < len(edits)
    (directory / "a.txt").write_text(TEXT)
    with contextlib.ExitStack() as stack:
        # A socket's path must be short.
        address = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tin-"))) / "nvim"
        nvim = stack.enter_context(neovim(address, directory, directory / "home", {}, plugin=None))
        nvim.command("edit a.txt")
        replay(nvim, [step for step in sequence if "key" in step or step["applied"]], applied)
        nvim.command("write")


def test_a_quick_robot_and_a_quick_agent(start_editor: StartEditor, tmp_path: Path) -> None:
    play(start_editor, tmp_path, edits=20, keys_a_second=60, pause=0.15, seconds=6)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_robot_types_for_two_minutes_while_the_agent_edits(start_editor: StartEditor, tmp_path: Path) -> None:
    play(start_editor, tmp_path, edits=100, keys_a_second=20, pause=0.7, seconds=120)
