"""The repository's pages as data: links, headings, code, tables. Pure, but for reading them."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "ARCHITECTURE.md", "protocol.md", "CHANGELOG.md")


def page(name: str) -> str:
    """The text of a page."""
    return (ROOT / name).read_text()


def code(text: str) -> list[str]:
    """Every piece of code: the lines of fenced blocks, and inline code."""
    fenced = [
        line
        for block in re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        for line in block.splitlines()
    ]
    prose = re.sub(r"^```\w*\n.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return [*fenced, *re.findall(r"`([^`\n]+)`", prose)]


def anchors(text: str) -> set[str]:
    """The anchors that a page's headings make."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next of its level or a higher one."""
    level = heading.split(" ", 1)[0]
    start = text.index(f"\n{heading}\n") + len(heading) + 2
    end = re.search(rf"^#{{1,{len(level)}}} ", text[start:], re.MULTILINE)
    return text[start : start + end.start()] if end else text[start:]


def rows(text: str) -> list[list[str]]:
    """The cells of every row of every table, without the lines under the heads."""
    lines = [line for line in text.splitlines() if line.startswith("|") and not re.match(r"\|[-:|]+$", line)]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def definitions(path: Path) -> set[str]:
    """Functions and classes of a Python file, methods as `Class::method`."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found |= {node.name, *(f"{node.name}::{each.name}" for each in node.body if hasattr(each, "name"))}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
    return found
