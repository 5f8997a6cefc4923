"""What git's own configuration says about ignore rules: a small reader of its files. Blocking.

Source: git-config(1), "Syntax" and "FILES". `include.path` is followed, conditional includes are not.
"""

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from tinsmith.workspace.regular import read_regular

_HEADER = re.compile(r'\s*\[([A-Za-z0-9.-]+)(?:\s+"(?:[^"\\\n]|\\.)*")?\]')
_KEY = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)[ \t]*(=?)[ \t]*")
_PIECE = re.compile(r'\\\n|\\(.)|(")|([#;])|(\n)|([^\\"#;\n]+|\\)', re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b"}
_MOST_BYTES = 1_000_000
_MOST_INCLUDES = 10
"""As many levels as git follows itself."""


class IgnoreSettings(NamedTuple):
    """The user's own file of ignore rules, absolute, and whether names that differ in case are one name."""

    excludes_file: str
    folds_case: bool


def ignore_settings(git_folder: str, work_tree: str) -> IgnoreSettings:
    """The settings of the repository whose (common) git folder this is."""
    values: dict[str, str] = {}
    for path in (*_user_files(), os.path.join(git_folder, "config")):
        values.update(_settings(path, _MOST_INCLUDES))
    named = values.get("core.excludesfile")
    path = _default_excludes() if named is None else os.path.join(work_tree, os.path.expanduser(named))
    return IgnoreSettings(path, values.get("core.ignorecase", "").lower() in {"true", "yes", "on", "1"})


def _config_home() -> str:
    return os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")


def _default_excludes() -> str:
    return os.path.join(_config_home(), "git", "ignore")


def _user_files() -> Iterator[str]:
    """The files for every repository, the strongest last."""
    if os.environ.get("GIT_CONFIG_NOSYSTEM", "").lower() not in {"true", "yes", "on", "1"}:
        yield os.environ.get("GIT_CONFIG_SYSTEM", "/etc/gitconfig")
    if "GIT_CONFIG_GLOBAL" in os.environ:
        yield os.environ["GIT_CONFIG_GLOBAL"]
    else:
        yield os.path.join(_config_home(), "git", "config")
        yield os.path.expanduser("~/.gitconfig")


def _settings(path: str, depth: int) -> Iterator[tuple[str, str]]:
    """Every `section.key` of sections without a subsection, in order, and what included files say in between."""
    content = read_regular(path, _MOST_BYTES)
    if content is None:
        return
    text = content.decode("utf-8-sig", "surrogateescape").replace("\r\n", "\n")
    for name, value in parsed(text):
        if name == "include.path" and depth:
            yield from _settings(os.path.join(os.path.dirname(path), os.path.expanduser(value)), depth - 1)
        else:
            yield name, value


def parsed(text: str) -> Iterator[tuple[str, str]]:
    """The settings that a file's text makes: lower-case `section.key` and value. Pure; stops at what git refuses."""
    section, at = "", 0
    while at < len(text):
        if header := _HEADER.match(text, at):
            has_subsection = '"' in header[0]
            section, at = "" if has_subsection else header[1].lower(), header.end()
        elif key := _KEY.match(text, at):
            value, at = _value(text, key.end()) if key[2] else ("true", _line_end(text, key.end()))
            if section:
                yield f"{section}.{key[1].lower()}", value
        elif text[at:].lstrip()[:1] in {"#", ";", ""}:
            at = _line_end(text, len(text) - len(text[at:].lstrip()))
        else:
            return


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _value(text: str, at: int) -> tuple[str, int]:
    """A value without its quotes, escapes and comment, and where the next line begins."""
    value, kept, is_quoted = "", 0, False
    while piece := _PIECE.match(text, at):
        at = piece.end()
        escaped, quote, comment, end, plain = piece.groups()
        if end:
            break
        if quote:
            is_quoted = not is_quoted
        elif comment and not is_quoted:
            at = _line_end(text, at)
            break
        else:
            read = _ESCAPES.get(escaped, escaped) if escaped else (comment or plain or "")
            value += read if value or is_quoted or escaped else read.lstrip()
        kept = max(kept, len(value) if is_quoted or escaped else len(value.rstrip()))
    return value[:kept], at
