"""The arguments of the four tools, as a model writes them."""

from typing import Annotated

from msgspec import Meta, Struct

from tinsmith.workspace.edits import LineEdit

Hash = Annotated[str, Meta(min_length=1, description="as a tool last gave it")]


class ReadArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Which lines of which file; all from the first when none are named."""

    path: str
    start_line: int | None = None
    end_line: int | None = None


class EditArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Line edits to the text that `hash` names."""

    path: str
    hash: Hash
    edits: Annotated[tuple[LineEdit, ...], Meta(min_length=1, max_length=200)]


class WriteArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole content of a file; `hash` is needed when there is one already."""

    path: str
    content: str
    hash: Hash | None = None


class BashArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """A command, how long it may take in seconds, where it runs, and whether it needs to be free of the sandbox."""

    command: Annotated[str, Meta(min_length=1)]
    timeout_s: Annotated[float, Meta(gt=0, le=3600)] = 120
    cwd: str | None = None
    unsandboxed: bool = False
