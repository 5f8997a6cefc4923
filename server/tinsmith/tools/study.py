"""What a command is about before it runs: its class, and whether it reads outside the workspace or secret files."""

import os
import re
import shutil
from typing import NamedTuple

from tinsmith.domain.errors import ToolError
from tinsmith.domain.policy import CommandClass
from tinsmith.proc.classify import Script, classify
from tinsmith.workspace.paths import is_within, locate

_MOST_PATHS = 200


class Study(NamedTuple):
    """A script with what the disk says about it."""

    script: Script
    command_class: CommandClass
    is_outside: bool = False
    is_secret: bool = False


def study(command: str, cwd: str, root: str, search_path: str) -> Study:
    """Classify the command. Looks at the disk; the first call imports the parser."""
    script = classify(command, cwd=cwd, root=os.path.realpath(root))
    if script.command_class != "read":
        return Study(script, script.command_class)
    if len(script.paths) > _MOST_PATHS or _is_shadowed(script, root, search_path):
        return Study(script, "unknown")
    try:
        places = [locate(_absolute(path, cwd), root) for path in script.paths if path]
    except ToolError:
        return Study(script, "unknown")
    return Study(script, "read", any(place.is_outside for place in places), any(place.is_secret for place in places))


def _absolute(path: str, cwd: str) -> str:
    known = re.sub(r"^\$(HOME|\{HOME\})(?=/|$)", "~", re.sub(r"^\$(PWD|\{PWD\})(?=/|$)", ".", path))
    return os.path.join(cwd, os.path.expanduser(known))


def _is_shadowed(script: Script, root: str, search_path: str) -> bool:
    """Whether one of its programs would be taken from where a command can write, instead of the system's."""
    if any(not os.path.isabs(folder) for folder in search_path.split(os.pathsep)):
        return True
    found = {shutil.which(part.argv[0], path=search_path) for part in script.parts}
    return any(is_within(os.path.realpath(program), os.path.realpath(root)) for program in found if program)
