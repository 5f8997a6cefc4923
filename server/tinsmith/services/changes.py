"""What turns did to files: kept before it is done, shown as hunks, approved or undone on a person's word."""

import asyncio
import logging
import os
from collections.abc import Collection, Sequence

import msgspec

from tinsmith.domain.change import ChangedFile, ChangeRecord, FileChange, ReviewedChange
from tinsmith.domain.errors import AgentError, SchemaError, ToolError
from tinsmith.domain.event import ChangesReviewed
from tinsmith.domain.ids import new_id, now_ms
from tinsmith.domain.ports import Documents
from tinsmith.domain.tool import CallScope
from tinsmith.services.conversations import Conversations
from tinsmith.services.file_images import TEXT_CHARACTERS, images_of
from tinsmith.services.folding import TurnFile
from tinsmith.services.journal import Journal
from tinsmith.services.resolving import Action, Refusal, Resolution, Selection, chosen, refusals, stale, wanted
from tinsmith.services.reviews import Reviews, Seen, on_disk
from tinsmith.store import Session, Storage
from tinsmith.workspace.files import StaleError
from tinsmith.workspace.review import hunks_of, undoing, undone
from tinsmith.workspace.snapshots import Snapshots
from tinsmith.workspace.text import text_hash

_log = logging.getLogger(__name__)

ANNOUNCED_HUNKS = 500
"""Of one file in an event; more are told when they are asked for."""
_ATTEMPTS = 3
"""How often an undo is worked out anew because the text changed meanwhile."""


class Changes:
    """The changes of every conversation; the port that the tools keep theirs by."""

    def __init__(self, storage: Storage, journal: Journal, conversations: Conversations, documents: Documents) -> None:
        self._storage = storage
        self._journal = journal
        self._conversations = conversations
        self._snapshots = Snapshots(documents)
        self._reviews = Reviews(storage, documents, self._snapshots)
        self._resolving = asyncio.Lock()

    async def keep(self, change: FileChange, scope: CallScope) -> str:
        record = ChangeRecord("", scope.turn_id, change.path, "edit", now_ms(), scope.call_id)
        return (await self._store(scope.conversation_id, record, change)).record_id

    async def forget(self, record_id: str, scope: CallScope) -> None:
        try:
            await self._storage.write(lambda session: session.changes.delete(scope.conversation_id, record_id))
        except AgentError as error:  # it then tells of a change that the text does not have
            _log.warning("the record of a change that was not made stays: %s", error.message)

    async def announce(self, change: FileChange, scope: CallScope) -> ChangedFile | None:
        try:
            files = self._reviews.files(scope.conversation_id, scope.turn_id)
            changes = await self._publish(scope.conversation_id, [file for file in files if file.path == change.path])
        except AgentError as error:
            _log.warning("a change was not announced: %s", error.message)
            return None
        return _in_all(changes[0]) if changes else None

    async def of_turns(self, conversation_id: str, turn_id: str = "") -> tuple[ReviewedChange, ...]:
        """The changes of a turn, or of all turns of the conversation, with the texts before.

        Texts stand in it as long as they have TEXT_CHARACTERS together.

        Raises SchemaError for a conversation or turn that there is not.
        """
        self._check(conversation_id, turn_id)
        changes: list[ReviewedChange] = []
        room = TEXT_CHARACTERS
        for file in self._reviews.files(conversation_id, turn_id):
            seen = await self._reviews.seen(conversation_id, file)
            if seen is None:
                continue
            text = self._reviews.text_before(seen.file)
            if text is not None and len(text) > room:
                text = None
            room -= len(text or "")
            changes.append(_reviewed(seen, text))
        return tuple(changes)

    async def resolve(self, conversation_id: str, selection: Selection, action: Action) -> Resolution:
        """Keep or undo the chosen hunks, each file by itself; of one file all that can be, at once.

        What cannot be is refused and told, and so is a hunk that is not there (any more). Raises SchemaError as
        `of_turns`, and when nothing is chosen; ConversationHeldError when another process has the conversation.
        """
        self._check(conversation_id, selection.turn_id)
        await self._conversations.hold(conversation_id)
        async with self._resolving:
            files, refused = chosen(self._reviews.files(conversation_id), selection)
            for file, named in files:
                resolve = self._keep_hunks if action == "keep" else self._undo_hunks
                refused += await resolve(conversation_id, file, named)
            meant = {file.change_id for file, _ in files}
            now = [file for file in self._reviews.files(conversation_id) if file.change_id in meant]
            return Resolution(await self._publish(conversation_id, now), tuple(refused))

    async def _keep_hunks(self, conversation_id: str, file: TurnFile, named: Collection[str]) -> list[Refusal]:
        seen = await self._reviews.seen(conversation_id, file)
        if seen is None:
            return []
        hunk_ids = wanted(seen.review, named)
        if hunk_ids:
            record = ChangeRecord("", file.turn_id, file.path, "keep", now_ms(), hunk_ids=hunk_ids, is_made=True)
            await self._storage.write(lambda session: session.changes.append(conversation_id, record))
        return refusals(file.change_id, seen.review, named, "keep")

    async def _undo_hunks(self, conversation_id: str, file: TurnFile, named: Collection[str]) -> list[Refusal]:
        hunk_ids: tuple[str, ...] = ()
        for _ in range(_ATTEMPTS):
            seen = await self._reviews.seen(conversation_id, file)
            if seen is None:
                return []
            refused = refusals(file.change_id, seen.review, named, "undo")
            hunk_ids = wanted(seen.review, named)
            if not hunk_ids:
                return refused
            try:
                await self._undo(conversation_id, seen, hunk_ids)
            except StaleError:
                continue
            except AgentError as error:
                return refused + [Refusal(file.change_id, each, error.code, error.message) for each in hunk_ids]
            return refused
        return [stale(file.change_id, each) for each in hunk_ids]

    async def _undo(self, conversation_id: str, seen: Seen, hunk_ids: tuple[str, ...]) -> None:
        """Store the undo, make it as every other change is made, and mark it as made.

        Raises StaleError when the text is another by now, AgentError when it cannot be changed.
        """
        change = await self._undoing(seen, hunk_ids)
        undo = ChangeRecord("", seen.file.turn_id, seen.file.path, "undo", now_ms(), hunk_ids=hunk_ids)
        record = await self._store(conversation_id, undo, change)
        label = f"Undo changes to {os.path.basename(change.path)}"
        try:
            (result,) = await self._snapshots.apply(label, new_id("r"), (change,))
        except ToolError:
            await self._storage.write(lambda session: session.changes.delete(conversation_id, record.record_id))
            raise
        if result.status == "applied":
            certain = msgspec.structs.replace(record, is_made=True)
            await self._storage.write(lambda session: session.changes.put(conversation_id, certain))

    async def _undoing(self, seen: Seen, hunk_ids: tuple[str, ...]) -> FileChange:
        after, current = undone(seen.review, hunk_ids), seen.current
        assert current is not None, "nothing is open in a file that is not there"
        if not after.exists and current.source == "buffer":
            current = await self._snapshots.off_loop(on_disk, current.path)
        changes = undoing(seen.review, hunk_ids)
        return FileChange(
            current.path, current, changes, after.text, text_hash(after.text), is_deletion=not after.exists
        )

    async def _store(self, conversation_id: str, record: ChangeRecord, change: FileChange) -> ChangeRecord:
        """Store the record with the bytes before and after, in one transaction."""

        def write(session: Session) -> ChangeRecord:
            before, after = images_of(change)
            images = {"before": before and before[0], "after": after and after[0]}
            contents = [image[1] for image in (before, after) if image]
            return session.changes.append(conversation_id, msgspec.structs.replace(record, **images), contents)

        return await self._storage.write(write)

    async def _publish(self, conversation_id: str, files: Sequence[TurnFile]) -> tuple[ReviewedChange, ...]:
        """Tell how these changes are now. Returns them."""
        found = [await self._reviews.seen(conversation_id, file) for file in files]
        changes = tuple(_reviewed(seen) for seen in found if seen is not None)
        if changes:
            cut = tuple(
                msgspec.structs.replace(change, hunks=change.hunks[:ANNOUNCED_HUNKS], is_cut=True)
                if len(change.hunks) > ANNOUNCED_HUNKS
                else change
                for change in changes
            )
            self._journal.publish(conversation_id, "", ChangesReviewed(cut))
        return changes

    def _check(self, conversation_id: str, turn_id: str) -> None:
        self._conversations.get(conversation_id)
        if turn_id and self._conversations.turn(conversation_id, turn_id) is None:
            raise SchemaError("turnNotFound", f"There is no turn {turn_id} in this conversation.")


def _in_all(change: ReviewedChange) -> ChangedFile:
    """What the turn did to the file, counted in the lines that are the agent's still."""
    ranges = [(hunk.before, hunk.after) for hunk in change.hunks if hunk.after and hunk.state != "undone"]
    return ChangedFile(
        change.path,
        change.op,
        sum(after[1] - after[0] for _, after in ranges),
        sum(before[1] - before[0] for before, _ in ranges),
        change.before_hash,
        change.after_hash,
    )


def _reviewed(seen: Seen, text: str | None = None) -> ReviewedChange:
    file = seen.file
    return ReviewedChange(
        file.change_id,
        file.turn_id,
        file.path,
        file.op,
        file.first.hash if file.first else "",
        file.first.blob if file.first else "",
        file.after_hash,
        seen.current.hash if seen.current else "",
        hunks_of(seen.review),
        text,
    )
