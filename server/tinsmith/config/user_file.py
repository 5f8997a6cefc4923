"""Writing into the user's settings file: some leaves change, comments and every other key stay as they are."""

import os
from collections.abc import Mapping

from tinsmith.config import jsonc
from tinsmith.config.load import find_reasons_to_leave_out, read_user_file
from tinsmith.domain.change import FileChange, Snapshot
from tinsmith.domain.errors import AgentError, PersistenceError, SchemaError
from tinsmith.workspace.files import is_missing, read_file
from tinsmith.workspace.text import text_hash
from tinsmith.workspace.writing import write_file


def plan_change(path: str, leaves: Mapping[str, str | None]) -> FileChange:
    """The change that sets these leaves (by their dotted paths, none below `models`). Nothing is written. Blocking.

    Raises SchemaError `faultyFile` when the file is one that would be left out: then nothing may be written.
    """
    path = os.path.realpath(path)
    source, problems = read_user_file(path)
    for problem in (*problems, *find_reasons_to_leave_out(source)):
        raise SchemaError("faultyFile", f"{problem.text} Nothing was written.", data={"path": path})
    before = _look(path)
    text = "" if before is None else before.text
    for leaf, value in leaves.items():
        text = jsonc.with_member(text, leaf.split("."), value)
    return FileChange(path, before, (), text, text_hash(text))


def write_change(change: FileChange) -> None:
    """Put a planned change on disk, or leave the file as it is. Raises PersistenceError `notWritten`. Blocking."""
    try:
        write_file(change)
    except AgentError as error:
        message = f"{change.path} was not written and is as it was ({error.code}). See that it can be, and try again."
        raise PersistenceError("notWritten", message) from error


def _look(path: str) -> Snapshot | None:
    if is_missing(path):
        return None
    try:
        snapshot = read_file(path)
    except AgentError as error:
        raise SchemaError("faultyFile", f"{path} cannot be changed ({error.code}). Save it as UTF-8 JSON.") from error
    if not snapshot.is_editable:
        raise SchemaError("faultyFile", f"{path} cannot be changed in its encoding. Save it as UTF-8 JSON.")
    return snapshot
