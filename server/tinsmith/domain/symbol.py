"""A symbol, as every way of finding one gives it: grammars, the look of lines, an editor's language servers."""

import re
from typing import Literal, NamedTuple

Kind = Literal[
    "class",
    "struct",
    "union",
    "enum",
    "interface",
    "trait",
    "impl",
    "type",
    "function",
    "method",
    "property",
    "declaration",
    "constant",
    "variable",
    "macro",
    "module",
    "heading",
]
"""`declaration` is a function without its body."""
CONTAINERS = frozenset({"class", "struct", "union", "enum", "interface", "trait", "impl"})
"""Kinds whose functions are methods."""
_OWNED = re.compile(r"(.+?)(?:::|[.:])([^.:]+)")


class Symbol(NamedTuple):
    """Something a text defines, from its first to its last line (1-based, inclusive).

    `kind` is one of Kind. `container` is the name of what it stands in, empty at the top.
    """

    kind: str
    name: str
    container: str
    start_line: int
    end_line: int


class PlacedSymbol(NamedTuple):
    """A symbol and the path of the file that defines it."""

    path: str
    symbol: Symbol


def without_owner(name: str) -> tuple[str, str]:
    """`a::B`, `c` for the name `a::B::c`, and so with dots and colons; an empty owner when there is none."""
    owned = None if name.startswith("operator") else _OWNED.fullmatch(name)
    return (owned[1], owned[2]) if owned else ("", name)
