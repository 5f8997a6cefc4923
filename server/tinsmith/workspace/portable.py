r"""RE2 expressions rewritten so that every linear-time engine means the same by them. Pure.

Afterwards `.` and negated sets never match `\r`, `$` also matches before `\r\n`, and `\d \w \s \b` are about ASCII, as
they are in RE2. Whatever is not in this common ground (`\p`, `\A`, flags but `i`, …) makes an expression RE2's alone.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

_GROUP = re.compile(r"\((?:(?!\?)|\?:|\?P?<\w+>|(\?i:))", re.ASCII)
_IGNORE_CASE = "(?i)"
_REPEAT = re.compile(r"(?:[*+?]|\{\d+(?:,\d*)?\})\??", re.ASCII)
_CODE = re.compile(r"\\x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\})")
_POSIX = re.compile(r"\[:\^?[a-z]+:\]")
_SETS = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\x{C}\x{20}"}
_CONTROLS = {"t": 9, "f": 12, "v": 11, "a": 7}
_LINE_ENDS = r"\r\n"


class _Part(NamedTuple):
    text: str
    end: int
    kind: str = "atom"


class _NotPortableError(Exception):
    """The expression has something that engines differ in."""


def portable(pattern: str) -> str | None:
    """The rewritten expression, None when there is none. The pattern must be one that RE2 accepts."""
    begin = _IGNORE_CASE if pattern.startswith(_IGNORE_CASE) else ""
    parts, at, depth, before = [begin], len(begin), 0, "open"
    try:
        while at < len(pattern):
            part = _PARTS.get(pattern[at], _plain)(pattern, at)
            depth += (part.kind == "open" and pattern[at] == "(") - (part.kind == "close")
            if (before == "open" and part.kind in {"close", "repeat"}) or (before != "atom" and part.kind == "repeat"):
                return None
            if before == "open" and part.text == "|":
                return None
            parts.append(part.text)
            at, before = part.end, "atom" if part.kind == "close" else part.kind
    except _NotPortableError:
        return None
    return None if depth or before == "open" else "".join(parts)


def literal(character: str) -> str:
    """The expression for one character."""
    is_plain = character > "\x7f" or character.isalnum()
    return character if is_plain else rf"\x{{{ord(character):X}}}"


def for_ripgrep(expression: str) -> str:
    """A rewritten expression as ripgrep reads it, whose own word boundary knows more than ASCII."""
    return expression.replace(r"\b", r"(?-u:\b)")


def _plain(pattern: str, at: int) -> _Part:
    return _Part(literal(pattern[at]), at + 1)


def _group(pattern: str, at: int) -> _Part:
    found = _GROUP.match(pattern, at)
    if found is None:
        raise _NotPortableError
    return _Part("(?i:" if found[1] else "(?:", found.end(), "open")


def _repeat(pattern: str, at: int) -> _Part:
    found = _REPEAT.match(pattern, at)
    return _Part(found[0], found.end(), "repeat") if found else _plain(pattern, at)


def _escape(pattern: str, at: int) -> _Part:
    letter = pattern[at + 1 : at + 2]
    if letter in _SETS:
        return _Part(f"[{_SETS[letter]}]", at + 2)
    if letter.lower() in _SETS:
        return _Part(f"[^{_SETS[letter.lower()]}{_LINE_ENDS}]", at + 2)
    if letter == "b":
        return _Part(r"\b", at + 2, "anchor")
    code, end = _character(pattern, at)
    return _Part(literal(chr(code)), end)


def _character(pattern: str, at: int) -> tuple[int, int]:
    """The code of the character that is written here, escaped or not, and where its writing ends."""
    if pattern[at] != "\\":
        return ord(pattern[at]), at + 1
    letter = pattern[at + 1 : at + 2]
    if letter in _CONTROLS:
        return _CONTROLS[letter], at + 2
    if found := _CODE.match(pattern, at):
        code = int(found[1] or found[2], 16)
        if code in {10, 13} or 0xD800 <= code < 0xE000:
            raise _NotPortableError
        return code, found.end()
    if not letter or letter.isalnum() or letter > "\x7f":
        raise _NotPortableError
    return ord(letter), at + 2


def _bracket(pattern: str, at: int) -> _Part:
    at += 1
    is_negated = pattern.startswith("^", at)
    at += is_negated
    first, members = at, ""
    while at == first or pattern[at : at + 1] != "]":
        member = _POSIX.match(pattern, at)
        if member:
            members, at = members + member[0], member.end()
        elif pattern[at] == "\\" and pattern[at + 1 : at + 2].lower() in _SETS:
            if pattern[at + 1] not in _SETS:
                raise _NotPortableError
            members, at = members + _SETS[pattern[at + 1]], at + 2
        else:
            text, at = _range(pattern, at)
            members += text
    return _Part(f"[^{members}{_LINE_ENDS}]" if is_negated else f"[{members}]", at + 1)


def _range(pattern: str, at: int) -> tuple[str, int]:
    low, at = _character(pattern, at)
    text = rf"\x{{{low:X}}}"
    if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] != "]":
        if pattern.startswith("\\", at + 1) and pattern[at + 2 : at + 3].lower() in _SETS:
            raise _NotPortableError
        high, at = _character(pattern, at + 1)
        text += rf"-\x{{{high:X}}}"
    return text, at


_PARTS: dict[str, Callable[[str, int], _Part]] = {
    "(": _group,
    ")": lambda _, at: _Part(")", at + 1, "close"),
    "|": lambda _, at: _Part("|", at + 1, "open"),
    "^": lambda _, at: _Part("^", at + 1, "anchor"),
    "$": lambda _, at: _Part(r"(?:\r?$)", at + 1, "anchor"),
    ".": lambda _, at: _Part(f"[^{_LINE_ENDS}]", at + 1),
    "[": _bracket,
    "\\": _escape,
    **dict.fromkeys("*+?{", _repeat),
}
