"""Regular expressions that take linear time whatever they are: RE2 over bytes. The one door to that library."""

from collections.abc import Iterator
from typing import Any, Protocol, cast


class Match(Protocol):
    """Where an expression matched."""

    def start(self) -> int: ...
    def end(self) -> int: ...
    def group(self) -> bytes: ...


class Regex(Protocol):
    """A compiled expression."""

    def search(self, text: bytes, pos: int = 0) -> Match | None: ...
    def fullmatch(self, text: bytes) -> Match | None: ...
    def finditer(self, text: bytes) -> Iterator[Match]: ...


class RegexError(ValueError):
    """RE2's own words on what is wrong with an expression."""


def compiled(
    pattern: bytes,
    *,
    is_utf8: bool = True,
    is_literal: bool = False,
    ignores_case: bool = False,
    within_lines: bool = False,
    max_bytes: int = 8_000_000,
) -> Regex:
    r"""The expression; texts are UTF-8, or bytes that stand for themselves.

    `within_lines`: nothing matches a `\n`. `max_bytes` bounds what the compiled form and its cache need. Groups
    are not captured. Raises RegexError for what is no expression or needs more.
    """
    import re2

    module = cast("Any", re2)
    options = module.Options()
    if not is_utf8:
        options.encoding = module.Options.Encoding.LATIN1
    options.literal = is_literal
    options.case_sensitive = not ignores_case
    options.never_nl = within_lines
    options.max_mem = max_bytes
    options.never_capture = True
    options.log_errors = False
    try:
        return module.compile(pattern, options=options)
    except module.error as error:
        (reason,) = error.args
        raise RegexError(reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)) from error
