"""JSON as people write it into editors' files: comments, trailing commas. Pure."""

import json
import re
from collections.abc import Sequence
from typing import Any

_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{_STRING}|,(?=\s*[\]}}])", re.DOTALL)
_DECODER = json.JSONDecoder()
_NOT_LINE_END = re.compile(r"[^\r\n]")


def parse(text: str) -> Any:
    """The value; a text of nothing but blanks and comments is an empty object.

    Raises json.JSONDecodeError with the line and column in `text`, RecursionError when it is nested too deeply.
    """
    bare = _bare(text)
    return json.loads(bare) if bare.strip() else {}


def with_member(text: str, keys: Sequence[str], value: Any) -> str:
    """The text with one member set, everything else in it as it was. `keys` lead to it; missing objects are made.

    `text` must be what `parse` takes, and what `keys` lead through must be objects.
    """
    bare = _bare(text)
    if not bare.strip():
        text = f"{text.rstrip()}\n{{}}\n".lstrip("\n")
        bare = _bare(text)
    brace = last = bare.index("{")
    for depth, key in enumerate(keys, 1):
        members, end = _members(bare, brace)
        if key not in members:
            for missing in reversed(keys[depth:]):
                value = {missing: value}
            return _appended(text, end, max((last for _, last in members.values()), default=0), depth, key, value)
        brace, last = members[key]
    return text[:brace] + json.dumps(value, ensure_ascii=False) + text[last:]


def _appended(text: str, end: int, after: int, depth: int, key: str, value: Any) -> str:
    """The text with a member before the brace at `end`, behind the value that ends at `after` (0 for none)."""
    indent = "  " * depth
    written = json.dumps(value, ensure_ascii=False, indent=2).replace("\n", f"\n{indent}")
    without_comments = _COMMENT.sub(_blank, text)
    if after and without_comments[after:end].strip() != ",":
        text, end = f"{text[:after]},{text[after:]}", end + 1
    return f"{text[:end].rstrip()}\n{indent}{json.dumps(key)}: {written}\n{indent[2:]}{text[end:]}"


def _members(bare: str, brace: int) -> tuple[dict[str, tuple[int, int]], int]:
    """Where the value of each member of the object begins and ends, the last one of a name; and where its brace is."""
    found: dict[str, tuple[int, int]] = {}
    at = _skip(bare, brace + 1)
    while bare[at] != "}":
        if bare[at] == ",":
            at = _skip(bare, at + 1)
        key, at = _DECODER.raw_decode(bare, at)
        start = _skip(bare, _skip(bare, at) + 1)  # over the colon
        _, end = _DECODER.raw_decode(bare, start)
        found[key] = (start, end)
        at = _skip(bare, end)
    return found, at


def _skip(bare: str, at: int) -> int:
    """The next place that is not blank."""
    while bare[at] in " \t\r\n":
        at += 1
    return at


def _bare(text: str) -> str:
    return _TRAILING_COMMA.sub(_blank, _COMMENT.sub(_blank, text))


def _blank(match: re.Match[str]) -> str:
    """Blanks in place of everything but strings, so that lines and columns stay where they are."""
    found = match.group()
    return found if found.startswith('"') else _NOT_LINE_END.sub(" ", found)
