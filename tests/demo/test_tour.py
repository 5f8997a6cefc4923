"""`tinsmith demo` in a real Neovim: for a reader, for a person, and stopped half-way."""

import os
import signal
import tempfile
from pathlib import Path

import pytest

from tinsmith.demo.editor import Editor, version_of
from tinsmith.demo.show import _find_neovim
from tinsmith.demo.tour import TYPED

from .conftest import DEMO, Start, mentioning

pytestmark = pytest.mark.neovim


def test_the_reader_sees_every_step_and_every_claim_checked(start: tuple[Start, Path]) -> None:
    demo, folder = start
    process = demo()
    told, problems = process.communicate(timeout=40)
    assert (process.returncode, problems) == (0, "")
    headings = [line for line in told.splitlines() if line[:2] in {f"{number}." for number in range(1, 9)}]
    assert [line.split()[0] for line in headings] == ["1.", "2.", "3.", "4.", "5.", "6.", "7.", "8."]
    screens = told.split("┌")[1:]
    assert "writing…" in screens[1]
    assert "+    return temperature >= BOILING" in screens[2]
    assert "kettle.py [+]" in screens[3]
    assert "return temperature >= BOILING" in screens[3]
    assert "All 4 tests pass. The kettle whistles." in screens[6]
    assert all(f"│{TYPED}" in screen for screen in screens)
    assert told.count("  ✓ ") == 9
    assert told.endswith("  ✓ One u took the agent's edit back, and nothing else.\n")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_half_way_it_leaves_nothing(start: tuple[Start, Path], number: signal.Signals) -> None:
    demo, folder = start
    process = demo()
    assert process.stdout is not None
    while not process.stdout.readline().startswith("2. "):
        assert process.poll() is None
    assert mentioning(str(folder)) != []
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
    assert (mentioning(str(folder)), list(folder.iterdir())) == ([], [])


def test_a_reader_who_leaves_is_no_disaster(start: tuple[Start, Path]) -> None:
    demo, folder = start
    process = demo()
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert (process.wait(timeout=40), process.stderr.read()) == (1, "")
    assert (mentioning(str(folder)), list(folder.iterdir())) == ([], [])


def test_a_person_finds_the_first_message_ready_and_stays_in_control(
    environment: dict[str, str], tmp_path: Path
) -> None:
    home = Path(environment["HOME"])
    elsewhere = {**environment, "HOME": str(tmp_path)}
    found = _find_neovim(elsewhere)
    assert found is not None
    terminal = [found.program, "--clean", "-n"]
    # A socket's path must be short.
    with (
        tempfile.TemporaryDirectory(prefix="tin-") as folder,
        Editor(terminal, folder=folder, cwd=folder, environment=elsewhere) as editor,
    ):
        editor.lua("vim.o.lines, vim.o.columns, vim.o.laststatus = 40, 120, 0")
        editor.lua(
            """
            local command, home = ...
            local function note(_, code) _G.code = code end
            vim.fn.jobstart(command, { term = true, env = { HOME = home }, on_exit = note })
            vim.cmd.startinsert()
            """,
            DEMO,
            str(home),
        )

        def screen() -> str:
            return "\n".join(editor.screen())

        prepared = editor.wait("the prepared message", screen, lambda text: "\n:Tinsmith ask Why" in text)
        assert "What to press" in prepared
        assert prepared.splitlines()[1].startswith(TYPED)
        editor.keys("<CR>")
        editor.wait("the card", screen, lambda text: "gd  Deny" in text)
        editor.keys(":Tinsmith deny not today<CR>")
        denied = editor.wait("the end", screen, lambda text: "— completed" in text)
        assert "return temperature > BOILING" in denied
        assert "not today" in denied
        editor.keys(":qall!<CR>")
        assert editor.wait("the demo to end", lambda: editor.lua("return { _G.code }")) == [0]
    assert list(home.iterdir()) == []


def test_an_old_neovim_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "nvim"
    old.write_text("#!/bin/sh\necho NVIM v0.9.5\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert version_of(str(old), os.environ) == (0, 9, 5)
    found = _find_neovim(os.environ)
    assert found is None or found.program != str(old)
