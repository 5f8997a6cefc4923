"""The demo for a reader: keys typed into a real Neovim, its screen printed, and every claim checked."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

from tinsmith.demo.editor import STUCK, Editor
from tinsmith.domain.errors import InternalError, TransportError

LINES, COLUMNS = 30, 110
WISH = "Why does the kettle never whistle? Please fix it."
TEST_WISH = "Run the tests, please."
TYPED = "# Remember: buy tea."
"""The person's own line, never saved before the edit lands beside it."""
_BROKEN = "    return temperature > BOILING"
_MENDED = "    return temperature >= BOILING"
_TRANSCRIPT = """
for _, buf in ipairs(vim.api.nvim_list_bufs()) do
  if vim.bo[buf].filetype == "tinsmith" then
    return table.concat(vim.api.nvim_buf_get_lines(buf, 0, -1, true), "\\n")
  end
end
return ""
"""


class Tour:
    """One person's way through the demo, with `file` open in the editor. `write` takes the text for the reader."""

    def __init__(self, editor: Editor, file: Path, write: Callable[[str], None]) -> None:
        self._editor = editor
        self._file = file
        self._write = write
        self._numbers: Iterator[int] = itertools.count(1)
        self._seen: list[str] = []
        self._typed = ""

    def run(self) -> tuple[str, ...]:
        """Every step in order; what was seen.

        Raises InternalError `demoFailed` at the first claim that does not hold or does not come true in time,
        TransportError when the editor does not answer.
        """
        try:
            self._steps()
        except TransportError as error:
            if error.code != STUCK:
                raise
            raise InternalError("demoFailed", f"{error.message}\n{self._picture()}") from error
        return tuple(self._seen)

    def _steps(self) -> None:
        self._editor.lua("vim.o.lines, vim.o.columns = ...", LINES, COLUMNS)
        on_disk = self._file.read_bytes()
        typed = self._type_a_line()
        self._ask()
        mended = self._approve_the_edit(typed, on_disk)
        self._save(mended)
        self._run_the_tests()
        self._take_back(typed, mended)

    def _type_a_line(self) -> list[str]:
        self._type(f"ggo{TYPED}<Esc>")
        lines = self._editor.wait("the typed line", self._lines, lambda lines: TYPED in lines)
        self._check(self._is_modified(), "The line you typed was not saved: only the editor had it")
        self._show(f"You have {self._file.name} open and type a line into it. You do not save it.")
        return lines

    def _ask(self) -> None:
        self._type(f":Tinsmith ask {WISH}<CR>")
        lengths: set[int] = set()

        def look() -> str:
            text = self._transcript()
            if "not an AI" in text and self._typed:
                self._show(
                    "You ask. The answer is written beside your file, word by word, while you can go on working."
                )
            lengths.add(len(text))
            return self._state()

        self._editor.wait("the question before the edit", look, "approval".__eq__)
        self._check(len(lengths) > 4, "The answer streamed: it was seen growing")
        self._check("✓ read" in self._transcript(), "Tools ran: the agent read the project's files")

    def _approve_the_edit(self, typed: list[str], on_disk: bytes) -> list[str]:
        self._editor.wait("the card", self._transcript, lambda text: "May Smith change files?" in text)
        self._check(self._lines() == typed, "Nothing changed while the card waited for your answer")
        self._show("Before anything changes, a card shows the exact change and asks. So far nothing has happened.")
        self._type(":Tinsmith approve<CR>")
        self._wait_for_end(1)
        mended = [_MENDED if line == _BROKEN else line for line in typed]
        self._check(self._lines() == mended, "The edit landed in your open file, and your unsaved line was still there")
        self._check(self._file.read_bytes() == on_disk and self._is_modified(), "The file on disk had not changed")
        self._show("You allow it: the edit is in your open, unsaved file, beside your own line. The disk is unchanged.")
        return mended

    def _save(self, mended: list[str]) -> None:
        self._type(":w<CR>")
        self._editor.wait("the file to be saved", self._is_modified, False.__eq__)
        is_saved = self._file.read_text().splitlines() == mended == self._lines()
        self._check(is_saved, "Your own :w saved both, when you wanted it")
        self._show("You save, when you are ready for it.")

    def _run_the_tests(self) -> None:
        self._type(f":Tinsmith ask {TEST_WISH}<CR>")
        self._editor.wait("the question before the command", self._state, "approval".__eq__)
        self._editor.wait("the card", self._transcript, lambda text: "May Smith run a command?" in text)
        self._show("You ask for the tests. The command is shown as it would run, and waits for your answer too.")
        self._type(":Tinsmith approve<CR>")
        text = self._wait_for_end(2)
        is_good = "exit: 0" in text and "tests pass" in text
        self._check(is_good, "The agent ran the project's tests once you allowed it, and they passed")
        self._show("You allow it: the tests run, and they pass.")

    def _take_back(self, typed: list[str], mended: list[str]) -> None:
        self._type("u")
        lines = self._editor.wait("the undo", self._lines, lambda lines: lines != mended)
        self._check(lines == typed, "One u took the agent's edit back, and nothing else")
        self._show("One press of u takes the agent's edit back. Your own line stays.")

    def _type(self, keys: str) -> None:
        self._typed = keys
        self._editor.keys(keys)

    def _wait_for_end(self, turns: int) -> str:
        """The transcript, once this many turns have ended and all of it is drawn."""
        self._editor.wait("the end of the turn", self._state, "idle".__eq__)
        return self._editor.wait("the transcript", self._transcript, lambda text: text.count("\n— completed") == turns)

    def _check(self, holds: bool, claim: str) -> None:  # noqa: FBT001  reads as the sentence it checks
        if not holds:
            raise InternalError("demoFailed", f"This should hold, and does not: {claim}.\n{self._picture()}")
        self._seen.append(claim)

    def _show(self, heading: str) -> None:
        typed = f"   typed: {self._typed}\n" if self._typed else ""
        self._typed = ""
        self._write(f"\n{next(self._numbers)}. {heading}\n{typed}{self._picture()}")

    def _picture(self) -> str:
        rows = "".join(f"│{row}\n" for row in self._editor.screen())
        return f"┌{'─' * COLUMNS}\n{rows}└{'─' * COLUMNS}\n"

    def _lines(self) -> list[str]:
        return self._editor.lua("return vim.api.nvim_buf_get_lines(vim.fn.bufnr(...), 0, -1, true)", self._file.name)

    def _is_modified(self) -> bool:
        return self._editor.lua("return vim.bo[vim.fn.bufnr(...)].modified", self._file.name)

    def _state(self) -> str:
        return self._editor.lua("return require('tinsmith').status().state")

    def _transcript(self) -> str:
        return self._editor.lua(_TRANSCRIPT)
