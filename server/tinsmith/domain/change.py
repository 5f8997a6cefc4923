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
    """A change to one file: `before` is None for a file that must not exist yet. `changes` are sorted and disjoint.

    After a deletion there is no file; its `after_text` is empty.
    """

    path: str
    before: Snapshot | None
    changes: tuple[TextChange, ...]
    after_text: str
    after_hash: str
    is_deletion: bool = False


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


HunkState = Literal["open", "kept", "undone", "gone"]
LineSpan = tuple[int, int]
"""Lines `[start, end)` of a text, counted from 0."""


class Image(msgspec.Struct, frozen=True, omit_defaults=True):
    """The exact bytes of a file at one moment: the hash of its text, the name of the blob, and how to read it."""

    hash: str
    blob: str
    has_bom: bool = False
    encoding: Encoding = "utf-8"


class ChangeRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was done to one file at once: an `edit` by a call, or what a person made of its hunks afterwards.

    `before` is None where there was no file, `after` where there is none any more; `kept` hunks leave the text alone.
    Stored before the text changes. Whether it did is told by the end of the call, for an undo by `is_made`.
    """

    record_id: str
    turn_id: str
    path: str
    kind: Literal["edit", "keep", "undo"]
    at: int
    call_id: str = ""
    before: Image | None = None
    after: Image | None = None
    hunk_ids: tuple[str, ...] = ()
    is_made: bool = False


class ReviewedHunk(msgspec.Struct, frozen=True):
    """Lines that an agent changed: `before` counts in the text at the turn's start, `after` in the present one.

    A hunk is `gone` when what it became was changed by somebody else; there is no `after` then.
    """

    hunk_id: str
    state: HunkState
    before: LineSpan
    after: LineSpan | None


class ReviewedChange(msgspec.Struct, frozen=True):
    """All that a turn did to one file, against the text at the turn's start.

    The text before has its hash and the name of its blob, both empty for a new file, and stands here itself only where
    it was asked for. `after_hash` is of what the agent left, `current_hash` of what is there now (empty for nothing).
    """

    change_id: str
    turn_id: str
    path: str
    op: Literal["edit", "create"]
    before_hash: str
    before_blob: str
    after_hash: str
    current_hash: str
    hunks: tuple[ReviewedHunk, ...]
    before_text: str | None = None
    is_cut: bool = False
