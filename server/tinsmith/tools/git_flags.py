"""Which arguments git may be given: a table of flags that only look, for each command. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tinsmith.domain.errors import ToolError


class Asked(NamedTuple):
    """Arguments that were checked. `names` are revisions or paths, `paths` stood behind `--`."""

    flags: tuple[str, ...]
    names: tuple[str, ...]
    paths: tuple[str, ...]


class _Flag(NamedTuple):
    """A flag's value: none without a pattern, always or sometimes there with one."""

    value: str = ""
    is_required: bool = False


def checked(command: str, arguments: Sequence[str]) -> Asked:
    """The arguments of a command, each flag one of the table and joined with its value. Raises ToolError `badFlag`."""
    flags: list[str] = []
    names: list[str] = []
    paths: tuple[str, ...] = ()
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            paths = tuple(rest)
        elif argument.startswith("-"):
            flags += _checked_flag(command, argument, rest)
        elif _NAME.fullmatch(argument):
            names.append(argument)
        else:
            raise ToolError("badRevision", f"{argument[:80]!r} is no revision. Put paths behind '--'.")
    if "--graph" in flags and any(flag.startswith(_PATCHES) for flag in flags):
        raise ToolError("badFlag", "git log draws a graph or shows patches, not both. Leave one of them out.")
    return Asked(tuple(flags), names=tuple(names), paths=paths)


def _checked_flag(command: str, argument: str, rest: Iterator[str]) -> list[str]:
    table = _TABLE[command]
    name, has_value, value = argument, False, ""
    if argument.startswith("--"):
        name, equals, value = argument.partition("=")
        has_value = bool(equals)
    elif argument[1:].isdecimal() and "-n" in table:
        name, has_value, value = "-n", True, argument[1:]
    elif argument not in table:
        name, has_value, value = argument[:2], True, argument[2:]
    flag = table.get(name)
    if flag is not None and flag.is_required and not has_value:
        value, has_value = next(rest, ""), True
    if flag is None or (has_value and re.fullmatch(flag.value or r"(?!)", value) is None):
        letters = [f"-{letter}" for letter in argument[1:]]
        if letters and all(letter in table and not table[letter].is_required for letter in letters):
            return letters
        known = " ".join(sorted(table))
        raise ToolError("badFlag", f"git {command} cannot be given {argument[:80]!r} here. It takes: {known}.")
    return [f"{name}{'=' if name.startswith('--') else ''}{value}" if has_value else name]


_NAME = re.compile(r"[^\x00-\x20\x7f-][^\x00-\x1f\x7f]{0,300}")
_NUMBER = r"[0-9]{1,9}"
_TEXT = r"[^\x00-\x1f\x7f]{1,300}"
_WORD = r"[A-Za-z0-9-]{1,30}"
_LINES = r"[0-9]+(,([+-]?[0-9]+)?)?|:[A-Za-z_][\w.]*"
_FORMAT = r"(?:[^%]|%(?:[-+ ]?(?:[HhTtPpSsfbBdDeNm]|[ac][nNeElLdDrtiIsh]|g[dDsnNeE])|[n%]|x[0-9A-Fa-f]{2}|C[a-z]+))*"
"""Without `%G…`, which has a program check signatures."""


def _bare(names: str) -> dict[str, _Flag]:
    return dict.fromkeys(names.split(), _Flag())


def _taking(value: str, names: str) -> dict[str, _Flag]:
    return dict.fromkeys(names.split(), _Flag(value, is_required=True))


def _maybe_taking(value: str, names: str) -> dict[str, _Flag]:
    return dict.fromkeys(names.split(), _Flag(value))


_PATCH = (
    _bare("""
    -p -u --patch -s --no-patch --raw --numstat --shortstat --summary --compact-summary --name-only --name-status
    --patch-with-stat -W --function-context --full-index -R --no-color --no-ext-diff --no-textconv --no-renames
    -w -b --ignore-all-space --ignore-space-change --ignore-space-at-eol --ignore-blank-lines --ignore-cr-at-eol
    --minimal --patience --histogram --pickaxe-all --pickaxe-regex
    """)
    | _maybe_taking(r"[0-9]{1,3}(,[0-9]{1,3})*", "--stat")
    | _maybe_taking(r"[0-9]{1,3}%?", "-M -C --find-renames --find-copies")
    | _taking(_NUMBER, "-U --unified --inter-hunk-context")
    | _taking(_TEXT, "-S -G")
    | _taking(_WORD, "--diff-filter --diff-algorithm")
)
_COMMIT = (
    _bare("--oneline --abbrev-commit --no-abbrev-commit --no-decorate --no-notes -m -c --cc --first-parent")
    | _taking(_FORMAT, "--format --pretty")
    | _taking(_WORD, "--date")
    | _maybe_taking(_WORD, "--decorate")
)
_WALK = (
    _bare("""
    --all --branches --tags --remotes --merges --no-merges --boundary --no-walk -g --walk-reflogs --reverse --graph
    --follow --full-history --ancestry-path --simplify-by-decoration --date-order --topo-order --author-date-order
    -i --regexp-ignore-case -E --extended-regexp -F --fixed-strings --invert-grep --all-match
    --left-right --left-only --right-only --cherry --cherry-pick --cherry-mark
    """)
    | _taking(_NUMBER, "-n --max-count --skip")
    | _taking(_TEXT, "--since --after --until --before --author --committer --grep")
)
_TABLE: Mapping[str, Mapping[str, _Flag]] = {
    "status": _bare("-s --short -b --branch --long --show-stash --ahead-behind --no-ahead-behind --renames")
    | _bare("--no-renames")
    | _maybe_taking(_WORD, "--porcelain --ignored -u --untracked-files"),
    "log": _PATCH | _COMMIT | _WALK,
    "diff": _PATCH | _bare("--cached --staged --merge-base"),
    "show": _PATCH | _COMMIT,
    "blame": _bare("-w -s -e -l -t -f -n -p --show-email --show-name --show-number --root --porcelain")
    | _bare("--line-porcelain --first-parent")
    | _taking(_LINES, "-L")
    | _taking(_TEXT, "--since")
    | _taking(_WORD, "--date")
    | _maybe_taking(_NUMBER, "-M -C"),
}
_PATCHES = ("-p", "-u", "-U", "-W", "-m", "-c", "--patch", "--unified", "--function-context", "--cc", "--inter-hunk")
