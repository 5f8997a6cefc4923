"""The arguments of the tools, as a model writes them."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from tinsmith.domain.policy import Grant
from tinsmith.domain.symbol import Kind
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
    """A command, how long it may take in seconds, where it runs, and what it needs beyond the sandbox."""

    command: Annotated[str, Meta(min_length=1)]
    timeout_s: Annotated[float, Meta(gt=0, le=3600)] = 120
    cwd: str | None = None
    grant: Grant | None = None


class WebSearchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """What to look for, and how many results to give."""

    query: Annotated[str, Meta(min_length=1, max_length=1_000)]
    max_results: Annotated[int, Meta(ge=1, le=20)] | None = None


class WebFetchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Which page, and how much of its text to give at most."""

    url: Annotated[str, Meta(min_length=1)]
    max_chars: Annotated[int, Meta(ge=1)] | None = None


class DiagnosticsArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Which file or folder; the whole workspace when none is named."""

    path: str | None = None


class GrepArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """What to look for in the lines of which files; `context` lines around each."""

    pattern: str
    path: str | None = None
    glob: str | None = None
    regex: bool = True
    case: Literal["smart", "sensitive", "ignore"] = "smart"
    context: Annotated[int, Meta(ge=0, le=20)] = 0
    max_results: Annotated[int, Meta(ge=1, le=500)] = 100


class FilesArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Parts of a path, or a glob."""

    query: str
    max_results: Annotated[int, Meta(ge=1, le=500)] = 50


class MapArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The folder to give an overview of, and how many levels of folders."""

    path: str | None = None
    depth: Annotated[int, Meta(ge=1, le=6)] = 2


class SymbolsArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """A symbol's name or a part of it, `Container.name` too; its kind."""

    query: Annotated[str, Meta(min_length=1, max_length=200)]
    kind: Kind | None = None


class OutlineArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The file to outline."""

    path: str


class GitArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """A git command that only looks, and its arguments."""

    command: Literal["status", "log", "diff", "show", "blame"]
    args: Annotated[tuple[Annotated[str, Meta(max_length=1_000)], ...], Meta(max_length=50)] = ()
