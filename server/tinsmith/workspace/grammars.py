"""Symbols by tree-sitter grammars, which are optional: one query a language, in `queries/`."""

import os
import time
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from tinsmith.domain.symbol import CONTAINERS, Symbol, without_owner

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Query, Tree

GRAMMARS = {
    "python": ("tree_sitter_python", "language", "python"),
    "javascript": ("tree_sitter_javascript", "language", "javascript"),
    "typescript": ("tree_sitter_typescript", "language_typescript", "typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx", "typescript"),
    "go": ("tree_sitter_go", "language", "go"),
    "rust": ("tree_sitter_rust", "language", "rust"),
    "c": ("tree_sitter_c", "language", "c"),
    "cpp": ("tree_sitter_cpp", "language", "cpp"),
    "java": ("tree_sitter_java", "language", "java"),
    "lua": ("tree_sitter_lua", "language", "lua"),
    "ruby": ("tree_sitter_ruby", "language", "ruby"),
    "csharp": ("tree_sitter_c_sharp", "language", "csharp"),
    "bash": ("tree_sitter_bash", "language", "bash"),
}
"""Language: package, its function, name of the query."""
_SECONDS = 1.5
"""For one text; one that takes longer has no symbols by grammar."""
_PARSED_BYTES = 16_384
_QUERIED_BYTES = 65_536
"""At a time. The library holds the interpreter meanwhile, so a piece has to be short."""
_ERROR_PARTS = 2_000
_NAME_CHARACTERS = 200


def parse_symbols(language: str, text: str) -> list[Symbol] | None:
    """The symbols in the order of the text; None without a grammar, or when the text takes too long."""
    from_grammar = _grammar(language)
    matches = from_grammar and _matches(*from_grammar, text.encode("utf-8", "replace"))
    return None if matches is None else _symbols(matches)


@cache
def _grammar(language: str) -> "tuple[Language, Query] | None":
    package, function, query = GRAMMARS.get(language, ("", "", ""))
    if not package or find_spec("tree_sitter") is None or find_spec(package) is None:
        return None
    from tree_sitter import Language, Query

    pointer: object = getattr(import_module(package), function)()
    grammar = Language(pointer)
    with open(os.path.join(os.path.dirname(__file__), "queries", f"{query}.scm"), encoding="utf-8") as file:
        return grammar, Query(grammar, file.read())


class _Match(NamedTuple):
    start: int
    end: int
    place: tuple[int, int]
    """Of its name: what makes it another than the rest."""
    pattern: int
    kind: str
    name: str
    container: str
    lines: tuple[int, int]


def _matches(grammar: "Language", query: "Query", source: bytes) -> "list[_Match] | None":
    """What the query finds, by place; of several patterns for one name the first. None when it takes too long."""
    from tree_sitter import Parser, QueryCursor

    deadline = time.monotonic() + _SECONDS
    try:
        tree = Parser(grammar).parse(
            lambda at, _: source[at : at + _PARSED_BYTES],
            progress_callback=lambda _at, _has_error: time.monotonic() > deadline,
        )
    except ValueError:  # what stopping it gives
        return None
    if not _is_queried_fast(tree, deadline):
        return None
    cursor = QueryCursor(query)
    found: dict[tuple[int, int], _Match] = {}
    for start in range(0, len(source), _QUERIED_BYTES):
        if time.monotonic() > deadline:
            return None
        cursor.set_byte_range(start, start + _QUERIED_BYTES)
        for pattern, captures in cursor.matches(tree.root_node):
            for match in _of_captures(pattern, captures, source):
                if match.place not in found or pattern < found[match.place].pattern:
                    found[match.place] = match
    return sorted(found.values(), key=lambda each: (each.start, -each.end, each.place))


def _is_queried_fast(tree: "Tree", deadline: float) -> bool:
    """Whether no error in the tree has so many parts that a query, quadratic in them, would not come back."""
    cursor = tree.walk()
    while time.monotonic() < deadline:
        node = cursor.node
        if node is not None and node.is_error and node.child_count > _ERROR_PARTS:
            return False
        if node is not None and node.has_error and cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return True
    return False


def _of_captures(pattern: int, captures: "dict[str, list[Node]]", source: bytes) -> "Iterator[_Match]":
    kind, (node, *_) = next(item for item in captures.items() if item[0] not in {"name", "container"})
    first, last, column = node.start_point.row, node.end_point.row, node.end_point.column
    lines = (first + 1, max(first, last - (column == 0)) + 1)
    container = "".join(_text(each, source) for each in captures.get("container", ()))
    for name in captures["name"]:
        place = (name.start_byte, name.end_byte)
        yield _Match(node.start_byte, node.end_byte, place, pattern, kind, _text(name, source), container, lines)


def _text(node: "Node", source: bytes) -> str:
    return " ".join(source[node.start_byte : node.end_byte].decode("utf-8", "replace").split())[:_NAME_CHARACTERS]


def _symbols(matches: list[_Match]) -> list[Symbol]:
    """What contains what, by place; functions of classes are methods; `A::b` is `b` in `A`."""
    symbols: list[Symbol] = []
    around: list[tuple[_Match, Symbol]] = []
    for match in matches:
        while around and not _is_within(match, around[-1][0]):
            around.pop()
        symbol = _symbol(match, around[-1][1] if around else None)
        symbols.append(symbol)
        if symbol.kind != "type":
            around.append((match, symbol))
    return symbols


def _is_within(match: _Match, outer: _Match) -> bool:
    return match.end <= outer.end and (match.start, match.end) != (outer.start, outer.end)


def _symbol(match: _Match, outer: Symbol | None) -> Symbol:
    kind = match.kind
    owner, name = ("", match.name) if kind in {"module", "impl"} else without_owner(match.name)
    is_member = (outer is not None and outer.kind in CONTAINERS) or "::" in match.name
    return Symbol(
        "method" if kind == "function" and is_member else kind,
        name.partition("<")[0] if kind == "impl" else name,
        match.container or owner or (outer.name if outer else ""),
        *match.lines,
    )
