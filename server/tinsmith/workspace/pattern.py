"""What a search looks for: a pattern as expressions for RE2, and for ripgrep where that agrees. Pure."""

import re
from typing import Literal, NamedTuple

from tinsmith.domain.errors import ToolError
from tinsmith.workspace.portable import for_ripgrep, literal, portable
from tinsmith.workspace.regex import Regex, RegexError, compiled

Case = Literal["smart", "sensitive", "ignore"]
MAX_CHARACTERS = 2_000
_BRACKET = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:[pP](?:\{[^}]*\}|.)|x(?:\{[^}]*\}|..)|.)|\(\?P?<\w+>", re.DOTALL)
_DEFINING = (
    "def|class|fn|func|function|struct|enum|union|trait|interface|protocol|type|typedef|impl|mod|module|namespace|package"
    "|const|let|var|val|static|macro|define|record|object|extension|sub"
)
_NO_WORD = "[^0-9A-Za-z_]"
_GO_RECEIVER = r"(?:\([^)\r\n]*\)[\t ]*)?"


class Matcher(NamedTuple):
    r"""Finds a line; finds whole words only; finds only what follows a word that defines things.

    `ripgrep` is the first for ripgrep, None where it would not agree; only then do the expressions know `\r\n`.
    """

    line: Regex
    word: Regex | None
    definition: Regex | None
    ignores_case: bool
    ripgrep: str | None


def matcher(pattern: str, *, is_regex: bool, case: Case) -> Matcher:
    """The matcher. Raises ToolError `badPattern` for what is empty, too long, no expression, or more than a line."""
    _check(pattern, is_regex=is_regex)
    ignores_case = case == "ignore" or (case == "smart" and not _has_capitals(pattern, is_regex=is_regex))
    shared = portable(pattern) if is_regex else "".join(map(literal, pattern))
    own = shared or pattern
    line = _prepared(f"(?:{own})", ignores_case=ignores_case)
    if line is None:
        raise _refusal(pattern, "it is too large")
    return Matcher(
        line,
        _prepared(rf"(?:^|{_NO_WORD})(?:{own})(?:$|{_NO_WORD})", ignores_case=ignores_case),
        _prepared(_definition(own), ignores_case=ignores_case),
        ignores_case,
        shared and for_ripgrep(shared),
    )


def definition_of(name: str, *, is_whole: bool) -> Matcher:
    """Finds lines that define this name, or one that only begins so, by the words that define things; in any case."""
    expression = _definition("".join(map(literal, name))) + (f"(?:{_NO_WORD}|$)" if is_whole else "")
    line = _prepared(expression, ignores_case=True)
    if line is None:
        raise _refusal(name, "it is too large")
    return Matcher(line, None, None, ignores_case=True, ripgrep=expression)


def _check(pattern: str, *, is_regex: bool) -> None:
    if not pattern:
        raise _refusal(pattern, "it is empty")
    if len(pattern) > MAX_CHARACTERS:
        raise _refusal(f"{pattern[:40]}…", f"it has {len(pattern):,} characters, of at most {MAX_CHARACTERS:,}")
    escapes = _ESCAPE.findall(_BRACKET.sub("", pattern)) if is_regex else []
    if "\n" in pattern or r"\n" in escapes:
        raise _refusal(pattern, "lines are searched one by one, so nothing can match a line end")
    try:
        compiled(pattern.encode(), is_literal=not is_regex)
    except (RegexError, UnicodeEncodeError) as error:
        raise _refusal(pattern, str(error)) from error


def _refusal(pattern: str, reason: str) -> ToolError:
    return ToolError(
        "badPattern",
        f"{pattern!r} cannot be searched for: {reason}. Write an expression in RE2 syntax (no look-around, no "
        "back-references), or set `regex` to false to find the text as it stands.",
    )


def _has_capitals(pattern: str, *, is_regex: bool) -> bool:
    return any(character.isupper() for character in (_ESCAPE.sub("", pattern) if is_regex else pattern))


def _prepared(expression: str, *, ignores_case: bool) -> Regex | None:
    try:
        return compiled(f"(?m){expression}".encode(), ignores_case=ignores_case, within_lines=True)
    except RegexError:
        return None


def _definition(expression: str) -> str:
    return rf"(?:^|[^0-9A-Za-z_.])(?:{_DEFINING})[\t ]+{_GO_RECEIVER}(?:{expression})"
