"""Programs that run another program: what is left when they are taken off. Pure."""

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from tinsmith.domain.policy import CommandClass
from tinsmith.proc.catalogue import HARMLESS
from tinsmith.proc.programs import Word

SAFE_VARIABLES = re.compile(r"[a-z][a-z0-9_]*|LC_[A-Z]+|LANG|TZ|NO_COLOR|CI|COLUMNS|TERM|IFS|[A-Z]", re.ASCII)
"""Names that may be assigned without changing what a program does beyond its output."""
_UNSAFE_LOWER = re.compile(r".*_proxy|auto_resume|histchars", re.ASCII)
_SHELLS = frozenset({"bash", "sh", "dash"})
_PLAIN_OPTIONS: dict[str, tuple[re.Pattern[str], int]] = {
    "timeout": (re.compile(r"-v|--(foreground|preserve-status|verbose|(signal|kill-after)=\S+)|-[sk].+"), 1),
    "time": (re.compile(r"-p"), 0),
    "nice": (re.compile(r"-\d+|-n\d+|--adjustment=-?\d+"), 0),
    "ionice": (re.compile(r"-c\d|-n\d|-t"), 0),
    "nohup": (re.compile(r"(?!)"), 0),
    "setsid": (re.compile(r"-[fw]|--(fork|wait)"), 0),
    "stdbuf": (re.compile(r"-[ioe]\w+|--(input|output|error)=\w+"), 0),
    "command": (re.compile(r"-p|--"), 0),
    "builtin": (re.compile(r"--"), 0),
    "unbuffer": (re.compile(r"(?!)"), 0),
}
"""Wrappers that change nothing about what is done: their own options, and how many words follow before the command."""
_VALUED_OPTIONS: dict[str, frozenset[str]] = {"timeout": frozenset({"-s", "-k"}), "nice": frozenset({"-n"})}
_XARGS_OPTIONS = re.compile(r"-[0rtx]+|-[nPLsdI].+|--(null|no-run-if-empty|verbose|exit|max-\w+=\d+|delimiter=.+)")
_XARGS_VALUED = frozenset({"-n", "-P", "-L", "-s", "-d", "-I", "-E"})
_SUDO_VALUED = frozenset({"-u", "-g", "-h", "-p", "-C", "-T", "-D", "-R", "-r", "-t", "-U"})


class Inner(NamedTuple):
    """What a wrapper runs: `words`, or the text of a `script`. The whole is `at_least` of that class.

    `is_counted` when the wrapper is a command of its own for rules, as sudo is.
    """

    words: Sequence[Word] = ()
    at_least: CommandClass = "read"
    script: str | None = None
    is_counted: bool = False


def is_safe_variable(name: str) -> bool:
    """Whether the variable may be assigned in a script that only reads."""
    return SAFE_VARIABLES.fullmatch(name) is not None and _UNSAFE_LOWER.fullmatch(name) is None


def inner_of(words: Sequence[Word]) -> Inner | None:
    """What the command runs when its program is a wrapper, else None."""
    name = os.path.basename(words[0].text) if words[0].kind == "exact" else ""
    rest = words[1:]
    if name in _PLAIN_OPTIONS:
        return _plain(name, rest)
    if name in {"sudo", "doas"}:
        return Inner(_after_options(rest, _SUDO_VALUED), "privileged", is_counted=True)
    if name == "env" and rest:
        return _env(rest)
    if name == "xargs":
        return _xargs(rest)
    if name in _SHELLS:
        return _shell(rest)
    if name == "eval":
        text = " ".join(word.text for word in rest) if all(word.kind == "exact" for word in rest) else ""
        return Inner((), "unknown", text)
    if name in {"exec", "busybox", "coproc", "watch", "strace", "ltrace", "unshare", "chroot", "flock", "parallel"}:
        at_least: CommandClass = "privileged" if name in {"unshare", "chroot"} else "unknown"
        return Inner(_after_options(rest, frozenset()), at_least, is_counted=True)
    if name == "find" and any(word.text in {"-exec", "-execdir", "-ok", "-okdir"} for word in rest):
        place = next(place for place, word in enumerate(rest) if word.text in {"-exec", "-execdir", "-ok", "-okdir"})
        return Inner(rest[place + 1 :], "unknown", is_counted=True)
    return None


def _plain(name: str, rest: Sequence[Word]) -> Inner | None:
    options, skipped = _PLAIN_OPTIONS[name]
    left = list(rest)
    while left and left[0].text.startswith("-"):
        option = left.pop(0)
        if name == "command" and option.text in {"-v", "-V"}:
            return Inner((Word("type"), *left))
        if option.text in _VALUED_OPTIONS.get(name, frozenset()) and left:
            left.pop(0)
        elif option.kind != "exact" or not options.fullmatch(option.text):
            return Inner(left, "unknown", is_counted=True)
    return Inner(left[skipped:]) if len(left) > skipped else Inner((), "unknown", is_counted=True)


def _env(rest: Sequence[Word]) -> Inner:
    left = list(rest)
    at_least: CommandClass = "read"
    while left and (left[0].text.startswith("-") or "=" in left[0].text):
        word = left.pop(0)
        name = word.text.partition("=")[0]
        if word.kind != "exact" or not is_safe_variable(name):
            at_least = "unknown"
        if word.text in {"-u", "-C", "-S"} and left:
            left.pop(0)
    return Inner(left or (Word("env"),), at_least, is_counted=at_least != "read")


def _xargs(rest: Sequence[Word]) -> Inner:
    """The program gets words from its input too, so it must be one that no word can turn into something else."""
    left = list(rest)
    while left and left[0].text.startswith("-"):
        option = left.pop(0)
        if option.text in _XARGS_VALUED and left:
            left.pop(0)
        elif option.kind != "exact" or not _XARGS_OPTIONS.fullmatch(option.text):
            return Inner(left, "unknown", is_counted=True)
    if not left:
        return Inner((Word("echo"),))
    is_harmless = left[0].kind == "exact" and left[0].text in HARMLESS
    return Inner(left, "read" if is_harmless else "unknown", is_counted=not is_harmless)


def _shell(rest: Sequence[Word]) -> Inner | None:
    left = list(rest)
    while left and re.fullmatch(r"-[eux]+|--(norc|noprofile)", left[0].text):
        left.pop(0)
    if len(left) == 2 and re.fullmatch(r"-[eux]*c[eux]*", left[0].text) and left[1].kind == "exact":
        return Inner((), "read", left[1].text)
    return None


def _after_options(rest: Sequence[Word], valued: frozenset[str]) -> Sequence[Word]:
    left = list(rest)
    while left and left[0].text.startswith("-"):
        option = left.pop(0)
        if option.text in valued and left:
            left.pop(0)
    return left
