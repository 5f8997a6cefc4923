"""The words of a parsed script: their values, as far as they are known before it runs. Pure."""

import re
from typing import TYPE_CHECKING

from tinsmith.proc.programs import Kind, Word
from tinsmith.proc.syntax import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_UNQUOTED = re.compile(r"(?:[^\s;|&<>()$`\"'\\]|\\[^\n])+|")
_PATTERN = re.compile(r"(?<!\\)(?:\\\\)*[*?\[{]|^~(?!/|$)")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r"\\([$`\"\\])")


_KINDS: tuple[Kind, ...] = ("exact", "quoted", "variable", "pattern", "opaque")
"""From well known to not at all; a word of several pieces is of the last kind among them."""


def word_of(node: "Node", source: str) -> Word:
    """One word. Nothing that runs a command, decodes escapes or computes is known."""
    text = text_of(node, source)
    match node.type:
        case "word" | "number" if node.child_count == 0:
            return _unquoted(text)
        case "raw_string":
            return Word(text[1:-1])
        case "string":
            return _quoted(node, source)
        case "simple_expansion" | "expansion":
            return Word(text, "variable") if _is_plain_expansion(node, source) else Word(text, "opaque")
        case "brace_expression":
            return Word(text, "pattern") if re.fullmatch(r"\{[\w.-]+\}", text) else Word(text, "opaque")
        case "extglob_pattern" | "regex" if re.fullmatch(r"[\w.*?/^$-]+", text):
            return Word(text)
        case "process_substitution" if text.startswith("<("):
            return Word("<()", "pattern")
        case "arithmetic_expansion":
            return Word(text, "pattern" if re.fullmatch(r"\$\(\([\d+*/%\s()-]+\)\)", text) else "opaque")
        case "concatenation":
            return _joined([word_of(child, source) for child in node.children])
        case _:
            return Word(text, "opaque")


def _unquoted(text: str) -> Word:
    if not _UNQUOTED.fullmatch(text):
        return Word(text, "opaque")
    if _PATTERN.search(text.replace("{}", "")) and text != "{":  # a lone brace is a word; a pair is seen when joined
        return Word(text, "pattern")
    return Word(_ESCAPED.sub(r"\1", text))


def _quoted(node: "Node", source: str) -> Word:
    inside = text_of(node, source)[1:-1]
    expansions = [child for child in node.children if child.type not in {'"', "string_content"}]
    if expansions:
        is_plain = all(_is_plain_expansion(child, source) for child in expansions)
        return Word(inside, "quoted" if is_plain else "opaque")
    if re.search(r"(?<!\\)(?:\\\\)*[\"`$]", inside):
        return Word(inside, "exact") if re.fullmatch(r"[^\"`\\]*\$", inside) else Word(inside, "opaque")
    return Word(_ESCAPED_IN_QUOTES.sub(r"\1", inside.replace("\\\n", "")))


def _is_plain_expansion(node: "Node", source: str) -> bool:
    text = text_of(node, source).lstrip()
    return re.fullmatch(r"\$(\w+|[?#$!])|\$\{\w+\}", text, re.ASCII) is not None


def _joined(words: list[Word]) -> Word:
    text = "".join(word.text for word in words)
    kind = _KINDS[max((_KINDS.index(word.kind) for word in words), default=len(_KINDS) - 1)]
    braces = "".join(word.text if word.text in {"{", "}", "{}"} else "." for word in words).replace("{}", "")
    if kind == "exact" and re.search(r"[{}]", braces):
        kind = "pattern"
    if kind == "pattern" and any(word.kind in {"variable", "quoted"} for word in words):
        kind = "opaque"
    return Word(text, kind)
