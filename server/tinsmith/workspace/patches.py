"""Patches as git writes them, without what stands in secret files. Pure."""

import re

from tinsmith.workspace.paths import is_secret

_FILE = re.compile(r'(?:---|\+\+\+) "?(?:[ab]/)?(.*?)"?\t?$')
_HUNK_LINES = (" ", "+", "-", "\\", "@@")


def without_secret_hunks(output: str) -> str:
    """The output of git with the hunks of files left out whose names say that secrets are inside.

    A line of a hunk starts with a blank, a sign or `@@`; so nothing in a file can end its hunk.
    """
    kept: list[str] = []
    is_header = is_hidden = False
    for line in output.split("\n"):
        if line.startswith("diff --"):
            is_header, is_hidden = True, False
        elif is_header and line.startswith("@@"):
            is_header = False
            if is_hidden:
                kept.append("[what stands in this file is left out: it may hold secrets; read asks the user]")
        elif is_header:
            name = _FILE.match(line)
            is_hidden = is_hidden or (name is not None and is_secret(name[1]))
        elif is_hidden and not line.startswith(_HUNK_LINES):
            is_hidden = False
        if is_header or not is_hidden:
            kept.append(line)
    return "\n".join(kept)
