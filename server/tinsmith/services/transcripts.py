"""Changes of a stored conversation that no turn makes: each refused while a turn runs, and told to whoever follows."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from msgspec.structs import replace

from tinsmith.domain.conversation import Conversation
from tinsmith.domain.event import ConversationChanged
from tinsmith.domain.ids import new_id, now_ms
from tinsmith.domain.turn import TurnRecord
from tinsmith.services import editing, erasing, forking, rewinding
from tinsmith.services.carrying import Spawn, carried_out
from tinsmith.services.conversations import Conversations, stored, title_of
from tinsmith.services.editing import Edited
from tinsmith.services.journal import Journal
from tinsmith.services.queue import Queue
from tinsmith.services.reception import receive
from tinsmith.services.settings import OffLoop
from tinsmith.services.transfer import export
from tinsmith.services.turns import Turns
from tinsmith.store import Session, Storage
from tinsmith.store.codec import clean_text

Result = TypeVar("Result")


class Transcripts:
    """Rewind, fork, edit, clear and delete. `forget` is told that what a model was shown may not have been so."""

    def __init__(
        self,
        storage: Storage,
        journal: Journal,
        conversations: Conversations,
        turns: Turns,
        queue: Queue,
        redact: Callable[[str], str],
        forget: Callable[[str], None],
        spawn: Spawn,
        off_loop: OffLoop,
    ) -> None:
        self._storage = storage
        self._journal = journal
        self._conversations = conversations
        self._turns = turns
        self._queue = queue
        self._redact = redact
        self._forget = forget
        self._spawn = spawn
        self._off_loop = off_loop

    async def update(self, conversation_id: str, *, title: str | None, is_archived: bool | None) -> Conversation:
        """Give it another title (empty: the next message makes one), archive it or bring it back; None changes nothing.

        Raises SchemaError `conversationNotFound`, ConversationHeldError when another window has it, PersistenceError.
        So do all of these, and but for this one and `fork` SchemaError `busy` while a turn runs.
        """

        def write(session: Session) -> Conversation:
            conversation = stored(session, conversation_id)
            changed = replace(
                conversation,
                title=conversation.title if title is None else title_of(self._cleaned(title)),
                is_archived=conversation.is_archived if is_archived is None else is_archived,
            )
            session.conversations.put(changed)
            return changed

        async def change() -> Conversation:
            changed = await self._storage.write(write)
            state = "idle" if self._turns.active(conversation_id) is None else "running"
            self._journal.publish(conversation_id, "", ConversationChanged(state, changed.title))
            return changed

        if self._conversations.holds(conversation_id):
            return await carried_out(self._spawn, change, "update")
        return await carried_out(self._spawn, lambda: self._alone(conversation_id, change), "update")

    async def fork(self, conversation_id: str, through_turn_id: str | None) -> Conversation:
        """A new conversation with a copy of this one up to the end of that turn, or of the last one that ended.

        Also of one that another window holds or runs. Raises SchemaError `turnNotFound`, `busy` when it still runs.
        """
        source = self._conversations.get(conversation_id)
        now = now_ms()
        target = Conversation(
            new_id("c"), source.workspace, now, now, source.title, source.role, source.model, conversation_id
        )
        await self._conversations.add(
            target, lambda session: forking.fork(session, conversation_id, through_turn_id, target)
        )
        return self._conversations.get(target.conversation_id)

    async def rewind(
        self, conversation_id: str, to_turn_id: str | None, *, is_dry_run: bool = False
    ) -> tuple[TurnRecord, ...]:
        """Go back to the end of that turn, or to the beginning for None. The turns that are left out from now on.

        A dry run only says which they would be. Raises SchemaError `turnNotFound`.
        """
        if is_dry_run:
            self._conversations.get(conversation_id)
            return self._storage.read(lambda session: rewinding.turns_after(session, conversation_id, to_turn_id))
        return await self._change(
            conversation_id, lambda session: rewinding.rewind(session, conversation_id, to_turn_id)
        )

    async def unrewind(self, conversation_id: str) -> Conversation:
        """Take the last rewind back. Raises SchemaError `nothingRewound` once a message has come after it."""
        return await self._change(conversation_id, lambda session: rewinding.unrewind(session, conversation_id))

    async def edit(self, conversation_id: str, message_id: str, text: str) -> Edited:
        """Let a message of a person or the text of an answer be another. Raises SchemaError as `editing.edit`."""
        said = self._cleaned(text)
        return await self._change(
            conversation_id, lambda session: editing.edit(session, conversation_id, message_id, said)
        )

    async def delete_message(self, conversation_id: str, message_id: str) -> Edited:
        """Remove a message for good, with what cannot stand without it. Raises SchemaError `messageNotFound`."""
        return await self._change(conversation_id, lambda session: editing.delete(session, conversation_id, message_id))

    async def clear(self, conversation_id: str) -> None:
        """Delete what was said; the conversation stays, empty."""
        await self._change(conversation_id, lambda session: erasing.clear(session, conversation_id))
        self._conversations.opened(self._conversations.get(conversation_id))

    async def delete(self, conversation_id: str) -> None:
        """Delete the conversation and everything of it."""

        async def erase() -> None:
            await self._storage.write(lambda session: erasing.erase(session, conversation_id))
            self._conversations.let_go(conversation_id)
            self._forget(conversation_id)
            self._journal.publish(conversation_id, "", ConversationChanged("deleted"))

        await carried_out(self._spawn, lambda: self._alone(conversation_id, erase), "delete")

    def export(self, conversation_id: str, form: str) -> str:
        """The conversation as `markdown` or `jsonl`, up to the last turn that has ended."""
        return self._storage.read(lambda session: export(session, conversation_id, form))

    async def receive(self, text: str, workspace: str) -> Conversation:
        """A new conversation of `workspace` from an export as JSON Lines. Raises SchemaError `invalidImport`."""
        received = await self._off_loop(lambda: receive(text, self._redact))
        head = received.head(new_id("c"), workspace, now_ms())
        return await self._conversations.add(head, lambda session: received.fill(session, head.conversation_id))

    async def _change(self, conversation_id: str, change: Callable[[Session], Result]) -> Result:
        """Change what is stored, and tell whoever follows to draw it anew."""

        async def work() -> Result:
            result = await self._storage.write(change)
            self._forget(conversation_id)
            title = self._conversations.get(conversation_id).title
            self._journal.publish(conversation_id, "", ConversationChanged("idle", title, is_anew=True))
            return result

        return await carried_out(self._spawn, lambda: self._alone(conversation_id, work), "change")

    async def _alone(self, conversation_id: str, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Hold the conversation while no turn begins in it; a lease that was taken only for this is given back."""
        async with self._turns.idle(conversation_id):
            was_held = self._conversations.holds(conversation_id)
            await self._conversations.hold(conversation_id)
            try:
                await self._queue.settle(conversation_id)  # what a dead turn was told and did not take belongs to it
                return await work()
            finally:
                if not was_held and self._conversations.holds(conversation_id):
                    await self._conversations.release(conversation_id)

    def _cleaned(self, text: str) -> str:
        return self._redact(clean_text(text))
