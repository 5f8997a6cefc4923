"""The text of files: snapshots, and changes that name the text they were made from."""

from typing import Literal

import msgspec

Source = Literal["buffer", "disk"]
Eol = Literal["\n", "\r\n"]
Encoding = Literal["utf-8", "utf-16-le", "utf-16-be"]
ApplyStatus = Literal["applied", "stale", "missing", "readOnly", "rejected", "hashMismatch", "unverified"]


class Snapshot(msgspec.Struct, frozen=True):
    r"""The text of one file as seen at one moment.

    `text` keeps its line ends and has no BOM. `hash` is the first 16 hex digits of
    SHA-256 over the UTF-8 text with `\r\n` read as `\\n`. `eol` is what new lines get.
    `is_editable` is false when the bytes could only be read with replacement marks.
    """

    path: str
    text: str
    hash: str
    source: Source
    eol: Eol = "\n"
    has_bom: bool = False
    encoding: Encoding = "utf-8"
    is_editable: bool = True
    version: int | None = None
    is_dirty: bool = False


class TextChange(msgspec.Struct, frozen=True):
    """Replace `[start, end)`, offsets in code points of the snapshot's `text`, by `text`."""

    start: int
    end: int
    text: str


class FileChange(msgspec.Struct, frozen=True):
    """A change to one file: `before` is None for a file that must not exist yet. `changes` are sorted and disjoint."""

    path: str
    before: Snapshot | None
    changes: tuple[TextChange, ...]
    after_text: str
    after_hash: str


class ApplyResult(msgspec.Struct, frozen=True):
    """What became of one file of a change; `hash` is its text's hash now, when known."""

    path: str
    status: ApplyStatus
    hash: str = ""
    is_dirty: bool = False
    reason: str = ""


class Refreshed(msgspec.Struct, frozen=True):
    """Open documents whose file changed behind the editor.

    `reloaded` were read again by it, `outdated` were not although they are clean, `conflicting` hold unsaved text.
    """

    reloaded: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()
    conflicting: tuple[str, ...] = ()


class ChangedFile(msgspec.Struct, frozen=True):
    """One file that a turn changed, summed over the turn. `added` and `removed` count lines."""

    path: str
    op: Literal["edit", "create", "delete"]
    added: int
    removed: int
    before_hash: str
    after_hash: str
