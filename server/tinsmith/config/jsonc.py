"""JSON as people write it into editors' files: comments, trailing commas. Pure."""

import json
import re
from typing import Any

_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{_STRING}|,(?=\s*[\]}}])", re.DOTALL)
_NOT_LINE_END = re.compile(r"[^\r\n]")


def parse(text: str) -> Any:
    """The value; a text of nothing but blanks and comments is an empty object.

    Raises json.JSONDecodeError with the line and column in `text`, RecursionError when it is nested too deeply.
    """
    bare = _TRAILING_COMMA.sub(_blank, _COMMENT.sub(_blank, text))
    return json.loads(bare) if bare.strip() else {}


def _blank(match: re.Match[str]) -> str:
    """Blanks in place of everything but strings, so that lines and columns stay where they are."""
    found = match.group()
    return found if found.startswith('"') else _NOT_LINE_END.sub(" ", found)
