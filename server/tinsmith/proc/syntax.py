"""The syntax tree of a script, and whether the parser read the script as the shell does. Pure.

The parser is made for editors: it forgives. Where it is known to cut a text differently from bash, the text is not
covered, and nothing that is concluded from its tree may let a command run unasked.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from tinsmith.proc.catalogue import names

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_GAP = re.compile(r"(?:[ \t\n]|\\\n)*")
_SEPARATING = frozenset(";|&()<>\n")
_ONE_WORD = names(
    "concatenation string simple_expansion expansion variable_assignment brace_expression arithmetic_expansion "
    "command_substitution process_substitution"
)
_SEQUENCES = names(
    "program subshell compound_statement do_group if_statement elif_clause else_clause while_statement for_statement "
    "case_statement case_item command_substitution process_substitution"
)
"""Where a new line begins a new command; in anything else that is not quoted, the parser ran on into the next line."""
_RUNNING_ON = frozenset({"|", "|&", "&&", "||"})
"""After these a command goes on in the next line."""
_ESCAPE_AT_START = re.compile(r"(?<!\\)\n(?=\\[^\n])")
"""The parser takes a line that begins with an escaped word for more of the line before; a blank prevents that."""


def normal(text: str) -> str:
    """The text as it is parsed; nodes point into it."""
    return _ESCAPE_AT_START.sub("\n ", text)


def parse(source: str) -> "Tree":
    """Parse a normal text. The first call imports the parser, which takes some 20 ms.

    For the parser, byte by character, whatever is not ASCII is a `%`, as ordinary in a word: its scanner looks
    characters up in tables of 256 (`isdigit`), and reads wild memory for those far beyond.
    """
    return _parser().parse(_NOT_ASCII.sub("%", source).encode("ascii"))


def text_of(node: "Node", source: str) -> str:
    """What stands at the node, in the text that was masked."""
    return source[node.start_byte : node.end_byte]


def is_covered(root: "Node", source: str) -> bool:
    """Whether the parser cut the text as the shell does.

    Nothing but blanks between tokens, no word in two, and no command from two lines.
    """
    before: Node | None = None
    end = 0
    for leaf in _leaves(root):
        gap = source[end : leaf.start_byte]
        if not _is_blank(gap):
            return False
        if before is not None and not gap and not _may_touch(before, leaf, source):
            return False
        if before is not None and "\n" in gap.replace("\\\n", "") and not _may_break(before, leaf):
            return False
        before, end = leaf, leaf.end_byte
    return _is_blank(source[end:])


def _may_touch(before: "Node", after: "Node", source: str) -> bool:
    """Whether two tokens stand side by side where the shell sees two as well, or where both are of one word."""
    is_separated = not before.is_named and source[before.end_byte - 1] in _SEPARATING
    if is_separated or (not after.is_named and source[after.start_byte] in _SEPARATING):
        return True
    return after.type != "comment" and _holder_of(before, after) in _ONE_WORD


def _may_break(before: "Node", after: "Node") -> bool:
    """Whether a line may end between two tokens: in quotes, after an operator, or where the shell begins anew too."""
    return before.type in _RUNNING_ON or _holder_of(before, after) in _SEQUENCES | {"string"}


def _holder_of(before: "Node", after: "Node") -> str:
    """What the smallest node that has both tokens in it is."""
    holder = after.parent
    while holder is not None and not (holder.start_byte <= before.start_byte and holder.end_byte >= after.end_byte):
        holder = holder.parent
    return holder.type if holder is not None else ""


def _is_blank(gap: str) -> bool:
    """Blanks and continued lines; these alone would join what stands around them."""
    return _GAP.fullmatch(gap) is not None and ("\\\n" not in gap or gap.replace("\\\n", "") != "")


def variables_of(root: "Node", source: str) -> Iterator[str]:
    """The names of every variable whose value the script uses."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type in {"simple_expansion", "expansion"}:
            for child in node.children:
                if child.type in {"variable_name", "special_variable_name"}:
                    yield text_of(child, source)
        waiting.extend(node.children)


def assigned(root: "Node", source: str) -> frozenset[str]:
    """The variables that the script itself gives values to."""
    names: set[str] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type in {"variable_assignment", "for_statement"}:
            name = node.child_by_field_name("name") or node.child_by_field_name("variable")
            names.update([text_of(name, source)] if name is not None else ())
        elif node.type == "command" and text_of(node, source).startswith("read "):
            names.update(text_of(child, source) for child in node.children if child.type == "word")
        waiting.extend(node.children)
    return frozenset(names)


def substitutions(node: "Node") -> "list[Node]":
    """The commands inside a word, outermost only."""
    found: list[Node] = []
    waiting = [node]
    while waiting:
        top = waiting.pop()
        if top.type in {"command_substitution", "process_substitution"}:
            found.append(top)
        else:
            waiting.extend(top.children)
    return found


def _leaves(node: "Node") -> "Iterator[Node]":
    waiting = [node]
    while waiting:
        top = waiting.pop()
        if top.child_count == 0:
            yield top
        waiting.extend(reversed(top.children))


@cache
def _parser() -> "Parser":
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
