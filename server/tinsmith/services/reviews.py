"""Each file of a turn as it is now: its records, folded, and followed to the text that is there."""

import os
from collections import OrderedDict
from itertools import dropwhile
from typing import NamedTuple

from tinsmith.domain.change import ChangeRecord, Snapshot
from tinsmith.domain.errors import ToolError
from tinsmith.domain.ports import Documents
from tinsmith.services.file_images import ImageTexts, blobs_of
from tinsmith.services.folding import TurnFile, files_of, folded, made
from tinsmith.store import Storage
from tinsmith.workspace.files import read_file
from tinsmith.workspace.paths import has_file
from tinsmith.workspace.review import Review, followed, lost
from tinsmith.workspace.snapshots import Snapshots

_REVIEWS = 32
"""How many are kept at hand, so that an edit does not fold all edits before it once more."""


class Seen(NamedTuple):
    """A file of a turn, its review brought up to the text that is there now (None: nothing, or no text)."""

    file: TurnFile
    review: Review
    current: Snapshot | None


class Reviews:
    """Reviews of stored changes. What it remembers only saves work."""

    def __init__(self, storage: Storage, documents: Documents, snapshots: Snapshots) -> None:
        self._storage = storage
        self._documents = documents
        self._snapshots = snapshots
        self._texts = ImageTexts(storage)
        self._reviews: OrderedDict[tuple[str, str, str], tuple[tuple[ChangeRecord, ...], Review]] = OrderedDict()

    def files(self, conversation_id: str, turn_id: str = "") -> tuple[TurnFile, ...]:
        """What the turn, or every turn, may have done to files."""
        records = self._storage.read(lambda session: session.changes.all(conversation_id))
        return files_of(record for record in records if not turn_id or record.turn_id == turn_id)

    async def seen(self, conversation_id: str, file: TurnFile) -> Seen | None:
        """The file as it is now; None when the turn did nothing to it after all."""
        current, is_text = await self._present(file.path)
        calls = {record.call_id for record in file.records if record.call_id}
        found = self._storage.read(lambda session: [session.calls.get(conversation_id, each) for each in calls])
        ended = {call.call_id for call in found if call is not None and call.status == "completed"}
        certain = made(file, ended, current.hash if current else "")
        if certain is None:
            return None
        review = await self._review(conversation_id, certain)
        if review is None:
            return None
        text = current.text if current else None
        live = await self._snapshots.off_loop(followed, review, text) if is_text else lost(review)
        return Seen(certain, live, current)

    def text_before(self, file: TurnFile) -> str | None:
        """The text at the turn's start; None for a new file, and when its bytes are damaged."""
        return self._texts.of(file.records[:1]).get(file.first.blob) if file.first else None

    async def _review(self, conversation_id: str, file: TurnFile) -> Review | None:
        """All records folded, going on from the last time; None when their bytes are damaged."""
        key = (conversation_id, file.turn_id, file.path)
        done, so_far = self._reviews.pop(key, ((), None))
        if so_far is None or file.records[: len(done)] != done:
            done, so_far = (), None
        records = file.records[len(done) :]
        texts = self._texts.of(records)
        readable = tuple(record for record in records if blobs_of(record) <= texts.keys())
        if so_far is None:
            readable = tuple(dropwhile(lambda record: record.kind != "edit", readable))
            if not readable:
                return None
        review = await self._snapshots.off_loop(folded, readable, texts, so_far) if readable else so_far
        assert review is not None
        self._reviews[key] = (file.records, review)
        while len(self._reviews) > _REVIEWS:
            self._reviews.popitem(last=False)
        return review

    async def _present(self, path: str) -> tuple[Snapshot | None, bool]:
        """The text that is there now, None for none; and whether it is one that can be compared."""
        opened = self._documents.find(path)
        if opened is not None:
            return opened, True
        if not has_file(path):
            return None, False
        try:
            found = await self._snapshots.off_loop(on_disk, path)
        except ToolError as error:
            return None, error.code == "notFound"
        return (found, True) if found.is_editable else (None, False)


def on_disk(path: str) -> Snapshot:
    """The file that the path leads to now, when nobody has it open. Raises ToolError as `read_file`."""
    return read_file(os.path.realpath(path))
