"""Changing one leaf of the persisted patch, or of any other partial tree. Pure, but for loading the rules."""

import json
from typing import Any

from tinsmith.config.layers import Tree, check_overridable, with_value, without_value
from tinsmith.domain.errors import SchemaError


def set_override(patch: Tree, path: str, value: Any) -> Tree:
    """The patch with this leaf set; a text is read as JSON when it is JSON.

    Raises SchemaError `unknownSetting` or `invalidSetting` (`data.path` names the leaf), PolicyError when the
    leaf cannot be changed at run time; then nothing is to be written.
    """
    from tinsmith.config.schema import find_faults

    check_overridable(path)
    candidate = with_value(patch, path, coerce(value))
    for faulty, fault in find_faults(candidate):
        raise SchemaError("invalidSetting", f"`{faulty}` {fault}. Nothing was changed.", data={"path": faulty})
    return candidate


def unset_override(patch: Tree, path: str) -> Tree:
    """The patch without this leaf and without the groups that this leaves empty. Raises as `set_override`."""
    check_overridable(path)
    return without_value(patch, path)


def coerce(value: Any) -> Any:
    """A text as the JSON that it is, else as it stands: `80`, `false`, `[2000, 8000]`, but `gpt-5`."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
