"""Git's wildcard patterns as RE2 expressions over bytes. Pure.

Source: gitignore(5) "PATTERN FORMAT", and git's behaviour where that is silent: `?` is one byte, a bracket that is
never closed matches nothing, and `**` counts as bounded on its left when only plain text stands before it.
"""

import string
from collections.abc import Iterable

_SPECIAL = frozenset(b"*?[\\")
_SLASH = ord("/")
_CLASSES = {
    b"alnum": string.ascii_letters + string.digits,
    b"alpha": string.ascii_letters,
    b"blank": " \t",
    b"cntrl": "".join(map(chr, (*range(32), 127))),
    b"digit": string.digits,
    b"graph": string.ascii_letters + string.digits + string.punctuation,
    b"lower": string.ascii_lowercase,
    b"print": string.ascii_letters + string.digits + string.punctuation + " ",
    b"punct": string.punctuation,
    b"space": string.whitespace,
    b"upper": string.ascii_uppercase,
    b"xdigit": string.hexdigits,
}


def expression(pattern: bytes, *, folds_case: bool = False) -> bytes | None:
    """The expression that the whole of a path must match, None when no path can."""
    plain = next((at for at, byte in enumerate(pattern) if byte in _SPECIAL), len(pattern))
    parts = [_one_of({byte}, folds_case) for byte in pattern[:plain]]
    at = plain
    while at < len(pattern):
        byte = pattern[at]
        if byte == ord("*"):
            part, at = _stars(pattern, at, is_first=at == plain)
        elif byte == ord("?"):
            part, at = b"[^/]", at + 1
        elif byte == ord("["):
            bracket = _bracket(pattern, at + 1)
            if bracket is None:
                return None
            members, at = bracket
            part = _one_of(members - {_SLASH}, folds_case)
        else:
            at += byte == ord("\\")
            if at == len(pattern):
                return None
            part, at = _one_of({pattern[at]}, folds_case), at + 1
        parts.append(part)
    return b"".join(parts)


def _stars(pattern: bytes, at: int, *, is_first: bool) -> tuple[bytes, int]:
    end = at
    while pattern[end : end + 1] == b"*":
        end += 1
    rest = pattern[end:]
    is_bounded = (is_first or pattern[at - 1] == _SLASH) and (not rest or rest.startswith((b"/", b"\\/")))
    if end - at == 1 or not is_bounded:
        return b"[^/]*", end
    return (b"(?:.*/)?", end + 1) if rest.startswith(b"/") else (b".*", end)


def _bracket(pattern: bytes, at: int) -> tuple[set[int], int] | None:
    """The members of the bracket that opened before `at` and its end, None when it has none or names no class."""
    is_negated = pattern[at : at + 1] in (b"!", b"^")
    at += is_negated
    first, members = at, set[int]()
    low: int | None = None
    """What a following `-` would begin its range with."""
    while at == first or pattern[at : at + 1] != b"]":
        if at >= len(pattern):
            return None
        if pattern.startswith(b"[:", at) and (end := pattern.find(b"]", at + 2)) != at + 2:
            name = pattern[at + 2 : end - 1]
            if end < 0:
                return None
            if pattern[end - 1] == ord(":"):
                if name not in _CLASSES:
                    return None
                members |= set(_CLASSES[name].encode())
                low, at = None, end + 1
                continue
        is_range = pattern[at] == ord("-") and low is not None and pattern[at + 1 : at + 2] not in (b"", b"]")
        at += is_range
        at += pattern[at] == ord("\\")
        if at >= len(pattern):
            return None
        value = pattern[at]
        members |= set(range(low if is_range and low is not None else value, value + 1))
        low, at = None if is_range else value, at + 1
    return (set(range(256)) - members if is_negated else members), at + 1


def _one_of(members: Iterable[int], folds_case: bool) -> bytes:  # noqa: FBT001  a fact of the repository
    """An expression for one byte out of these; a lone one stands for itself."""
    chosen = set(members)
    if folds_case:
        chosen |= {ord(chr(byte).swapcase()) for byte in chosen if byte < 128}
    if len(chosen) == 1:
        (byte,) = chosen
        return bytes((byte,)) if byte < 128 and chr(byte).isalnum() else b"\\x%02x" % byte
    if not chosen:
        return rb"[^\x00-\xff]"
    return b"[" + b"".join(b"\\x%02x-\\x%02x" % bounds for bounds in _ranges(sorted(chosen))) + b"]"


def _ranges(numbers: list[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges
