"""Globs as models write them: git's wildcards, with `{a,b}` and a leading `!` for the opposite. Pure."""

import os
import re
from collections.abc import Callable, Iterator

from tinsmith.domain.errors import ToolError
from tinsmith.workspace.regex import RegexError, compiled
from tinsmith.workspace.wildmatch import expression

_MOST_CHOICES = 200
_BRACES = re.compile(r"\{([^{}]*)\}")
_SUFFIX = re.compile(r"\*[^*?\[\]\\{}/]+")


def glob_filter(glob: str) -> Callable[[str], bool]:
    """Whether a path (relative, with slashes) is meant. A glob without a slash is about names, in whatever folder.

    Raises ToolError `badGlob`.
    """
    is_negated, wanted = glob.startswith("!"), glob.removeprefix("!").removeprefix("./")
    choices = list(_choices(wanted, _MOST_CHOICES))
    if all(_SUFFIX.fullmatch(choice) for choice in choices):
        suffixes = tuple(choice[1:] for choice in choices)
        return (lambda path: not path.endswith(suffixes)) if is_negated else (lambda path: path.endswith(suffixes))
    expressions = [_expression(choice) for choice in choices]
    try:
        matcher = compiled(b"(?s)" + b"|".join(filter(None, expressions)), is_utf8=False)
    except RegexError as error:
        raise _refusal(glob, "it is too large") from error
    if not all(expressions):
        raise _refusal(glob, "a bracket is not closed, or it ends with a backslash")
    return lambda path: (matcher.fullmatch(os.fsencode(path)) is None) == is_negated


def _choices(glob: str, most: int) -> Iterator[str]:
    """The glob once for each choice of its braces."""
    found = _BRACES.search(glob)
    if found is None:
        yield glob
        return
    count = 0
    for choice in found[1].split(","):
        for each in _choices(glob[: found.start()] + choice + glob[found.end() :], most):
            count += 1
            if count > most:
                raise _refusal(glob, f"its braces stand for more than {most} globs")
            yield each


def _expression(glob: str) -> bytes | None:
    text = os.fsencode(glob)
    inner = b"**" if text.endswith(b"/") else b""
    matched = expression(text.removeprefix(b"/") + inner)
    anywhere = b"" if b"/" in text.rstrip(b"/") else b"(?:.*/)?"
    return matched and anywhere + matched


def _refusal(glob: str, reason: str) -> ToolError:
    return ToolError(
        "badGlob", f"{glob!r} is no usable glob: {reason}. Write one such as `*.py` or `src/**/*.{{ts,tsx}}`."
    )
