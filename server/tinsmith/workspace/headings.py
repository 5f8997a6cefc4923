"""The headings of a Markdown text. Pure."""

import re
from collections.abc import Iterator

from tinsmith.domain.symbol import Symbol
from tinsmith.workspace.text import lines_of

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_BLOCK = re.compile(r"\s*([-*+>|]|\d+[.)]|<)")


def find_headings(text: str) -> list[Symbol]:
    """The headings of a Markdown text, each to the line before the next one of its level or above."""
    lines = lines_of(text)
    symbols: list[Symbol] = []
    around: list[tuple[int, int]] = []
    for number, level, name in (*_headings(lines), (len(lines) + 1, 0, "")):
        while around and around[-1][0] >= level:
            _, index = around.pop()
            symbols[index] = symbols[index]._replace(end_line=number - 1)
        container = symbols[around[-1][1]].name if around else ""
        around.append((level, len(symbols)))
        symbols.append(Symbol("heading", name, container, number, number))
    return symbols[:-1]  # without the end of the text, which ended all that were open


def _headings(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Line, level and text of each heading, `#` or underlined; none inside a fence (CommonMark 4.2, 4.3, 4.5)."""
    fence = ""
    for number, line in enumerate(lines, 1):
        opened = _FENCE.match(line)
        if fence:
            if opened and opened[1].startswith(fence) and not line.strip(" \t" + fence[0]):
                fence = ""
        elif opened:
            fence = opened[1]
        elif found := _HEADING.match(line):
            yield number, len(found[1]), found[2].rstrip().rstrip("#").rstrip() or "(empty)"
        elif number > 1 and (under := _UNDERLINE.match(line)) and _is_paragraph(lines[number - 2]):
            yield number - 1, 1 if under[1].startswith("=") else 2, lines[number - 2].strip()


def _is_paragraph(line: str) -> bool:
    is_other = _HEADING.match(line) or _FENCE.match(line) or _BLOCK.match(line) or _UNDERLINE.match(line)
    return bool(line.strip()) and not line.startswith("    ") and not is_other
