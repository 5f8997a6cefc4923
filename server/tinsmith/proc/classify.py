"""What a command text does, before it runs: its class, its simple commands, the paths it names. Pure.

The text is parsed with tree-sitter. A script is of class `read` only when every byte of it was understood: the parser
reports no error, each node is of a kind listed here, each word has a known value or cannot turn into something else.
The class decides who is asked, never what is possible; that is the sandbox's part.
"""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tinsmith.domain.policy import CommandClass, CommandPart
from tinsmith.proc.catalogue import names
from tinsmith.proc.prefixes import prefix_of
from tinsmith.proc.programs import Word, doing_of
from tinsmith.proc.syntax import assigned, is_covered, normal, parse, substitutions, text_of, variables_of
from tinsmith.proc.words import word_of
from tinsmith.proc.wrappers import inner_of, is_safe_variable

if TYPE_CHECKING:
    from tree_sitter import Node

SEVERITY: tuple[CommandClass, ...] = ("read", "write_workspace", "unknown", "network", "destructive", "privileged")
"""From harmless to worst; a script is as bad as the worst of its commands."""
_LONGEST = 8_000
"""Characters; the parser is quadratic in some nonsense, and longer texts are files rather than commands."""
_DEEPEST = 60
_STRANGE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f`]|\$\((?!\()")
"""Control characters, and what runs or decodes inside a word; none of it is read on."""
_TRANSPARENT = names(
    "program list pipeline negated_command subshell if_statement elif_clause else_clause "
    "while_statement do_group case_item comment"
)
_OUTPUTS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_KNOWN_VARIABLES = frozenset({"?", "#", "$", "!", "HOME", "PWD", "USER", "RANDOM", "SECONDS"})


@dataclass(frozen=True, slots=True)
class Script:
    """A command text, understood as far as possible.

    `rule_prefix` is what a remembered answer would match, empty when only the exact text can stand for it.
    `paths` are those that a script of class `read` looks at.
    """

    command_class: CommandClass
    parts: tuple[CommandPart, ...] = ()
    rule_prefix: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


def classify(text: str, *, cwd: str, root: str) -> Script:
    """Understand `text` as it would run in `cwd` of the workspace `root`, both absolute. Never raises.

    The first call imports the parser, which takes some 20 ms.
    """
    if len(text) > _LONGEST:
        return Script("unknown")
    reading = _Reading(cwd, root)
    reading.take_script(text)
    worst = _worst({*reading.at_least, *(part.command_class for part in reading.parts)})
    if worst == "write_workspace" and reading.moves:
        worst = "unknown"
    is_plain = not reading.at_least and not reading.assigns
    parts = tuple(CommandPart(each.argv, each.command_class, each.is_plain and is_plain) for each in reading.parts)
    is_one = len(parts) == 1 and parts[0].is_plain and not reading.wraps
    return Script(
        command_class=worst,
        parts=parts,
        rule_prefix=prefix_of(parts[0].argv) if is_one else (),
        paths=tuple(dict.fromkeys(reading.paths)) if worst == "read" else (),
    )


def _worst(classes: set[CommandClass]) -> CommandClass:
    return SEVERITY[max(map(SEVERITY.index, classes), default=0)]


class _Reading:
    """What is known of a script while it is read."""

    def __init__(self, cwd: str, root: str) -> None:
        self.parts: list[CommandPart] = []
        self.paths: list[str] = []
        self.at_least: set[CommandClass] = set()
        self.moves = False
        self.wraps = False
        self.assigns = False
        self._cwd = cwd
        self._root = root
        self._source = ""
        self._depth = 0
        self._is_plain = True

    def take_script(self, text: str) -> None:
        """Read a whole script, perhaps one inside another."""
        self._depth += 10
        outer, self._source = self._source, normal(text)
        tree = parse(self._source)
        if tree.root_node.has_error or _STRANGE.search(text) or not is_covered(tree.root_node, self._source):
            self._lose()
        known = assigned(tree.root_node, self._source) | _KNOWN_VARIABLES
        if any(name not in known for name in variables_of(tree.root_node, self._source)):
            self._lose()
        self._walk(tree.root_node)
        self._source = outer
        self._depth -= 10

    def _lose(self, command_class: CommandClass = "unknown") -> None:
        """Something is not understood, or does more than the commands alone say."""
        self.at_least.add(command_class)

    def _walk(self, node: "Node") -> None:
        if self._depth > _DEEPEST:
            self._lose()
            return
        self._depth += 1
        take = _TAKERS.get(node.type)
        if take is not None:
            take(self, node)
        elif node.is_named:
            if node.type not in _TRANSPARENT:
                self._lose()
            self.children(node)
        self._depth -= 1

    def children(self, node: "Node") -> None:
        """Read what is below."""
        for child in node.children:
            self._walk(child)

    def redirected(self, node: "Node") -> None:
        """A command with redirections; the parser hands words behind one to it, the shell to the command."""
        body = node.child_by_field_name("body")
        redirects = [child for child in node.children if child.type == "file_redirect"]
        behind = [word for each in redirects for word in each.children_by_field_name("destination")[1:]]
        if behind and body is not None and body.type == "command":
            self.command(body, tuple(self._word(word) for word in behind))
        else:
            if behind:
                self._lose()
            self.children(node)
            return
        for child in node.children:
            if child != body:
                self._walk(child)

    def command(self, node: "Node", behind: tuple[Word, ...] = ()) -> None:
        """A simple command, and the words behind its redirections."""
        words: list[Word] = []
        was_plain, self._is_plain = self._is_plain, self._is_plain and not _is_redirected(node, self._source)
        for child in node.children:
            if child.type == "command_name":
                words.append(self._word(child.children[0]))
            elif child.type in _TAKERS and child.type != "word":
                self._is_plain = self._is_plain and child.type not in {"variable_assignment", "file_redirect"}
                self._walk(child)
            else:
                words.append(self._word(child))
        if words:
            self._run([*words, *behind])
        self._is_plain = was_plain

    def _run(self, words: "list[Word]") -> None:
        """Take wrappers off and note what is run in the end."""
        self._depth += 1
        inner = inner_of(words) if self._depth <= _DEEPEST else None
        if inner is None:
            self._note(words)
        else:
            self.wraps = True
            if inner.at_least != "read":
                self._lose(inner.at_least)
            if inner.is_counted:
                self.parts.append(CommandPart(_texts(words), inner.at_least))
            if inner.script is not None:
                self.take_script(inner.script)
            elif inner.words:
                self._run(list(inner.words))
        self._depth -= 1

    def _note(self, words: "list[Word]") -> None:
        doing = doing_of(words)
        command_class = doing.command_class
        if command_class == "write_workspace" and not all(self._is_inside(path) for path in doing.writes):
            command_class = "unknown"
        self.moves = self.moves or words[0].text in {"cd", "pushd", "popd"}
        self.paths.extend(doing.reads)
        is_plain = self._is_plain and all(word.kind == "exact" for word in words)
        self.parts.append(CommandPart(_texts(words), command_class, is_plain))

    def redirect(self, node: "Node") -> None:
        """A redirection: to nowhere, to another descriptor, from a file, or a write."""
        self._is_plain = self._is_plain and _is_silent(node, self._source)
        operator = next((child.type for child in node.children if not child.is_named), "")
        target = node.child_by_field_name("destination")
        word = self._word(target) if target is not None else Word("")
        if operator in {"<&", ">&", "<&-", ">&-"} and (target is None or word.text.isdigit() or word.text == "-"):
            return
        if word.kind != "exact" or word.text.startswith(("/dev/tcp/", "/dev/udp/")):
            self._lose("network" if word.text.startswith("/dev/") else "unknown")
        elif operator == "<":
            self.paths.append(word.text)
        elif word.text not in _OUTPUTS:
            self._lose("write_workspace" if self._is_inside(word.text) else "unknown")

    def herestring(self, node: "Node") -> None:
        """A text as input."""
        for child in node.children:
            if child.is_named:
                self._word(child)

    def assignment(self, node: "Node") -> None:
        self.assigns = True
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        word = self._word(value) if value is not None else Word("")
        text = self._text(name) if name is not None else ""
        if name is None or name.type != "variable_name" or not is_safe_variable(text):
            self._lose()
        if word.kind != "exact" or word.text.startswith("-"):
            self._lose()
        self.paths.extend([word.text] if "/" in word.text or word.text.startswith((".", "~")) else ())

    def loop(self, node: "Node") -> None:
        name = node.child_by_field_name("variable")
        if name is None or node.children[0].type != "for" or not is_safe_variable(self._text(name)):
            self._lose()
        for value in node.children_by_field_name("value"):
            word = self._word(value)
            if word.kind not in {"exact", "pattern"} or word.text.startswith("-"):
                self._lose()
            self.paths.append(word.text)
        self._only_of_type(node, "do_group")

    def case(self, node: "Node") -> None:
        value = node.child_by_field_name("value")
        if value is None or self._word(value).kind == "opaque":
            self._lose()
        for item in node.children:
            if item.type == "case_item":
                patterns = item.children_by_field_name("value")
                for child in item.children:
                    if child in patterns:
                        self._word(child)
                    else:
                        self._walk(child)

    def _only_of_type(self, node: "Node", kind: str) -> None:
        for child in node.children:
            if child.type == kind:
                self._walk(child)

    def test(self, node: "Node") -> None:
        """`[ … ]` and `[[ … ]]`: read like the program of that name."""
        name = node.children[0].type
        is_sign = {"test_operator", *(_SIGNS if name == "[[" else _SIGNS - {"<", ">", "=~"})}
        words = [Word(self._text(leaf)) if leaf.type in is_sign else self._word(leaf) for leaf in _operands(node)]
        is_arithmetic = name == "[[" and any(re.fullmatch(r"-(eq|ne|lt|le|gt|ge)", word.text) for word in words)
        if name not in {"[", "[["} or is_arithmetic:
            self._lose()
        self._note([Word("["), *words, Word("]")])

    def group(self, node: "Node") -> None:
        if node.children[0].type != "{":
            self._lose()
        self.children(node)

    def _word(self, node: "Node") -> Word:
        """The word; what it runs inside is walked too."""
        for child in substitutions(node):
            self.children(child)
        word = word_of(node, self._source)
        if word.kind == "opaque":
            self._lose()
        return word

    def _text(self, node: "Node") -> str:
        return text_of(node, self._source)

    def _is_inside(self, path: str) -> bool:
        whole = os.path.normpath(os.path.join(self._cwd, path))
        below = whole.removeprefix(self._root.rstrip(os.sep) + os.sep)
        return below != whole and not path.startswith("~") and ".git" not in below.split(os.sep)


_SIGNS = frozenset({"==", "=", "!=", "<", ">", "!", "=~"})
_TAKERS: "dict[str, Callable[[_Reading, Node], None]]" = {
    "command": _Reading.command,
    "file_redirect": _Reading.redirect,
    "redirected_statement": _Reading.redirected,
    "herestring_redirect": _Reading.herestring,
    "variable_assignment": _Reading.assignment,
    "variable_assignments": _Reading.children,
    "for_statement": _Reading.loop,
    "case_statement": _Reading.case,
    "test_command": _Reading.test,
    "compound_statement": _Reading.group,
}


def _texts(words: "list[Word]") -> tuple[str, ...]:
    return tuple(word.text.encode("utf-8", "replace").decode() for word in words)


def _operands(node: "Node") -> "Iterator[Node]":
    """The words and operators of a test, in order."""
    for child in node.children:
        if child.type in {"unary_expression", "binary_expression"}:
            yield from _operands(child)
        elif child.type not in {"[", "]", "[[", "]]"}:
            yield child


def _is_redirected(node: "Node", source: str) -> bool:
    """Whether the command stands under a redirection that could write or read a file."""
    parent = node.parent
    while parent is not None and parent.type != "program":
        if any(child.type.endswith("_redirect") and not _is_silent(child, source) for child in parent.children):
            return True
        parent = parent.parent
    return False


def _is_silent(node: "Node", source: str) -> bool:
    """A redirection that only joins or drops output."""
    target = node.child_by_field_name("destination")
    return node.type == "file_redirect" and (
        target is None or target.type == "number" or text_of(target, source) in _OUTPUTS
    )
