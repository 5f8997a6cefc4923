"""The floor under every permission: commands that plainly remove `/`, the home, the workspace root or `.git`. Pure.

It stops accidents, not malice: what hides behind variables, scripts or other programs is for the sandbox.
"""

import os
import re
import shlex
from collections.abc import Iterator, Sequence

from tinsmith.domain.errors import PolicyError

_SEPARATORS = frozenset({";", "&&", "||", "|", "&", "(", ")", "{", "}", "\n", "|&", ";;", "then", "do", "else", "!"})
_WRAPPERS = frozenset(
    {"sudo", "doas", "env", "command", "builtin", "exec", "nice", "nohup", "time", "busybox", "xargs"}
)
_SHELLS = frozenset({"bash", "sh", "dash", "zsh"})
_FILTERS = frozenset({"-name", "-iname", "-path", "-ipath", "-regex", "-type", "-mtime", "-size", "-empty"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)


def check_floor(command: str, cwd: str, root: str, home: str) -> None:
    """Raises PolicyError `neverAllowed` for a command below the floor; every path is absolute and resolved."""
    for folder, words in _simple_commands(command, cwd, home):
        for target in _removed(words):
            path = _absolute(target, folder, home)
            if _is_kept(path, (home, root)):
                raise PolicyError(
                    "neverAllowed",
                    f"A command that removes {path} is never run for a model, in any permission mode. Do without it, "
                    "or ask the user to do it.",
                )


def _simple_commands(command: str, cwd: str, home: str) -> Iterator[tuple[str, list[str]]]:
    """Each simple command with the directory it runs in, as far as `cd` words tell."""
    lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=";&|()")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        tokens = list(lexer)
    except ValueError:
        tokens = command.split()
    words: list[str] = []
    for token in [*tokens, ";"]:
        if token not in _SEPARATORS and token.strip(";&|()"):
            words.append(token)
            continue
        words = _unwrapped(words)
        if words[:1] == ["cd"]:
            cwd = _absolute(words[1] if len(words) > 1 else "~", cwd, home)
        elif words and os.path.basename(words[0]) in _SHELLS and "-c" in words[:-1]:
            yield from _simple_commands(words[words.index("-c") + 1], cwd, home)
        elif words:
            yield cwd, words
        words = []


def _unwrapped(words: Sequence[str]) -> list[str]:
    rest = list(words)
    is_wrapped = False
    while rest:
        if os.path.basename(rest[0]) in _WRAPPERS:
            is_wrapped = True
        elif not _ASSIGNMENT.fullmatch(rest[0]) and not (is_wrapped and rest[0].startswith("-")):
            break
        rest.pop(0)
    return rest


def _removed(words: Sequence[str]) -> list[str]:
    """What the command removes whole."""
    name, *arguments = words
    options = [word for word in arguments if word.startswith("-")]
    paths = [word for word in arguments if not word.startswith("-")]
    match os.path.basename(name):
        case "rm" if any(re.fullmatch(r"--recursive|-[A-Za-z]*[rR][A-Za-z]*", option) for option in options):
            return paths
        case "rmdir" | "shred" | "unlink":
            return paths
        case "mv":
            return [path for path in paths[:-1] if not path.endswith("*")]
        case "find" if "-delete" in options and _FILTERS.isdisjoint(options):
            return paths[:1]
        case _:
            return []


def _is_kept(path: str, kept: Sequence[str]) -> bool:
    is_above = any(path == folder or folder.startswith(path + os.sep) for folder in kept)
    return path == "/" or is_above or os.path.basename(path) == ".git"


def _absolute(target: str, cwd: str, home: str) -> str:
    text = re.sub(r"^(~|\$HOME|\$\{HOME\})(?=/|$)", lambda _: home, target)
    text = re.sub(r"^(\$PWD|\$\{PWD\})(?=/|$)", lambda _: cwd, text)
    path = os.path.normpath(os.path.join(cwd, text))
    name = os.path.basename(path)
    return os.path.dirname(path) if name in ("*", ".*", "{*,.*}") else "/" + path.lstrip("/")
