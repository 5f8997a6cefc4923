"""Conversations: new, list, open, read. Opening one takes its lease and closes what a dead process left open."""

import logging
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from tinsmith.domain.conversation import Conversation
from tinsmith.domain.errors import PersistenceError, SchemaError
from tinsmith.domain.event import CallCancelled, TurnFailed
from tinsmith.domain.ids import new_id, now_ms
from tinsmith.domain.message import Message
from tinsmith.domain.turn import CallRecord, TurnRecord
from tinsmith.services.history import History, calls_of, read_history
from tinsmith.services.holding import ConversationHeldError, is_alive
from tinsmith.services.interruption import close_open_turns, open_calls
from tinsmith.services.journal import Journal
from tinsmith.store import ConversationPage, Hits, Lease, Session, Storage, UsageRecord

_log = logging.getLogger(__name__)

TITLE_CHARS = 80
"""A title that nobody chose is the first line of the first message, cut to this."""

Taken = Callable[[str, tuple[TurnRecord, ...]], None]
"""Conversation taken over from a dead process or another window, and its turns that are closed as interrupted."""


class Conversations:
    """The conversations of the store, as one instance sees them.

    `on_taken` is called for each stored one that it takes up, `on_held` for these and for new ones.
    """

    def __init__(self, storage: Storage, journal: Journal, lease: Lease) -> None:
        self._storage = storage
        self._journal = journal
        self._lease = lease
        self._held: set[str] = set()
        self._opened: dict[str, str] = {}
        self.on_taken: Taken = self._announce_interrupted
        self.on_held: Callable[[], None] = lambda: None

    async def new(self, workspace: str, *, title: str = "", role: str = "", model: str = "") -> Conversation:
        """A fresh conversation of `workspace` (an absolute path), held by this instance."""
        now = now_ms()
        return await self.add(Conversation(new_id("c"), workspace, now, now, title, role, model), lambda _: None)

    async def add(self, conversation: Conversation, fill: Callable[[Session], None]) -> Conversation:
        """Store a conversation under a fresh id, with what `fill` writes for it, held by this instance."""
        identifier = conversation.conversation_id

        def write(session: Session) -> None:
            session.conversations.put(conversation)
            session.leases.acquire(self._lease_of(identifier), is_alive)
            fill(session)

        await self._storage.write(write)
        self._held.add(identifier)
        self.on_held()
        self.opened(conversation)
        return conversation

    def get(self, conversation_id: str) -> Conversation:
        """The conversation as it is stored. Raises SchemaError when there is none."""
        return self._storage.read(lambda session: stored(session, conversation_id))

    def list(
        self, workspace: str | None, query: str, *, is_archived: bool, cursor: str | None, limit: int
    ) -> ConversationPage:
        """Newest first; the words of `query` must stand in the title."""
        return self._storage.read(
            lambda session: session.conversations.newest(
                workspace=workspace, query=query, is_archived=is_archived, cursor=cursor, limit=limit
            )
        )

    def search(self, query: str, workspace: str | None, limit: int) -> Hits:
        """Messages that hold the words of `query`, best first. Some ten milliseconds in a large store."""
        return search(self._storage, query, workspace, limit)

    def active(self, workspace: str) -> str | None:
        """The id of the conversation that the workspace used last, when it still exists and can be read."""

        def read(session: Session) -> str | None:
            found = session.meta.active_conversation(workspace)
            return found if found and session.conversations.get(found) else None

        try:
            return self._storage.read(read)
        except PersistenceError as error:
            _log.warning("no active conversation: %s", error.message)
            return None

    def opened(self, conversation: Conversation) -> None:
        """Remember what this instance shows of a workspace; from now on nothing is resumed there."""
        self._opened[conversation.workspace] = conversation.conversation_id

    def resumable(self, workspace: str) -> str | None:
        """The conversation that an instance takes up by itself when it has opened none in the workspace yet.

        The one that the workspace used last, unless it is empty, archived, or held by another live process.
        """
        found = None if workspace in self._opened else self.active(workspace)
        if found is None or self.get(found).is_archived or self.holder(found) is not None:
            return None
        is_empty = not self._storage.read(lambda session: session.messages.last(found, 1))
        return None if is_empty else found

    def free(self, workspace: str) -> str | None:
        """Where a message goes that names no conversation: to the opened or resumed one, unless another holds it."""
        found = self._opened.get(workspace)
        if found is None:
            return self.resumable(workspace)
        exists = self._storage.read(lambda session: session.conversations.get(found)) is not None
        return found if exists and self.holder(found) is None else None

    async def activate(self, conversation: Conversation) -> None:
        """Make the conversation the one that its workspace used last."""
        identifier = conversation.conversation_id
        await self._storage.write(
            lambda session: session.meta.set_active_conversation(conversation.workspace, identifier)
        )

    async def hold(self, conversation_id: str) -> Conversation:
        """Take the conversation's lease and close what a dead holder left open.

        Raises ConversationHeldError when a live process has it, SchemaError when there is no such conversation.
        """
        conversation = self.get(conversation_id)
        if conversation_id in self._held:
            return conversation

        def write(session: Session) -> Lease | tuple[TurnRecord, ...]:
            stored(session, conversation_id)
            holder = session.leases.acquire(self._lease_of(conversation_id), is_alive)
            if holder.instance != self._lease.instance:
                return holder
            session.leases.withdraw(conversation_id, self._lease.instance)
            return close_open_turns(session, conversation_id)

        outcome = await self._storage.write(write)
        if isinstance(outcome, Lease):
            raise ConversationHeldError(outcome)
        self._held.add(conversation_id)
        self.on_held()
        # the end of our own was announced, it could only not be stored
        self.on_taken(conversation_id, tuple(each for each in outcome if each.instance != self._lease.instance))
        return self.get(conversation_id)

    def holds(self, conversation_id: str) -> bool:
        """Whether this instance has the lease."""
        return conversation_id in self._held

    @property
    def held(self) -> frozenset[str]:
        """The conversations whose lease this instance has."""
        return frozenset(self._held)

    def let_go(self, conversation_id: str) -> None:
        """Look at the stored conversation anew at the next `hold`: something of it could not be stored."""
        self._held.discard(conversation_id)

    def holder(self, conversation_id: str) -> Lease | None:
        """The live process that holds the conversation, when it is another one."""
        if conversation_id in self._held:
            return None
        lease = self._storage.read(lambda session: session.leases.get(conversation_id))
        if lease is None or lease.instance == self._lease.instance or not is_alive(lease):
            return None
        return lease

    async def release(self, conversation_id: str) -> None:
        """Give one lease back."""
        self._held.discard(conversation_id)
        await self._storage.write(lambda session: session.leases.release(conversation_id, self._lease.instance))

    async def release_all(self) -> None:
        """Give every lease back; the instance ends. One that stays is that of a dead process, which counts for none."""
        held, self._held = self._held, set()
        instance = self._lease.instance

        def write(session: Session) -> None:
            for conversation_id in held:
                session.leases.release(conversation_id, instance)
            for request in session.leases.requests():
                session.leases.withdraw(request.conversation_id, instance)

        try:
            requests = self._storage.read(lambda session: session.leases.requests())
            if held or any(request.instance == instance for request in requests):
                await self._storage.write(write)
        except PersistenceError as error:
            _log.warning("leases were not given back: %s", error.message)

    def transcript(self, conversation_id: str) -> tuple[Message, ...]:
        """Every message, in order."""
        return tuple(self._storage.read(lambda session: session.messages.all(conversation_id)))

    def usage(self, conversation_id: str) -> tuple[UsageRecord, ...]:
        """What each turn that has ended used, rewound and deleted ones too."""
        return self._storage.read(lambda session: session.usage.all(conversation_id))

    def next_message_id(self, conversation_id: str) -> str:
        """The id of the conversation's next message; also behind a last one that cannot be read."""
        return self._storage.read(lambda session: session.messages.next_id(conversation_id))

    def history(
        self, conversation_id: str, *, cursor: str | None, limit: int, direction: Literal["older", "newer"]
    ) -> History:
        """A page of the transcript: `older` newest first, `newer` oldest first.

        It may be a little longer than `limit`: an answer and the results of its calls stay together.
        """
        self.get(conversation_id)
        return self._storage.read(
            lambda session: read_history(session, conversation_id, cursor=cursor, limit=limit, direction=direction)
        )

    def calls(self, conversation_id: str, messages: Sequence[Message]) -> dict[str, CallRecord]:
        """The stored records of the calls that these messages make, by their ids."""
        return self._storage.read(lambda session: calls_of(session, conversation_id, messages))

    def open_calls(self, conversation_id: str) -> tuple[CallCancelled, ...]:
        """The end of each call that has none, as it is to be stored and announced."""
        return self._storage.read(lambda session: open_calls(session, conversation_id))

    def turn(self, conversation_id: str, turn_id: str) -> TurnRecord | None:
        """The stored record of a turn."""
        return self._storage.read(lambda session: session.turns.get(conversation_id, turn_id))

    def find_turn(self, turn_id: str) -> TurnRecord | None:
        """The stored record of a turn whose conversation is not known."""
        return self._storage.read(lambda session: session.turns.find(turn_id))

    def _announce_interrupted(self, conversation_id: str, interrupted: tuple[TurnRecord, ...]) -> None:
        for record in interrupted:
            self._journal.publish(conversation_id, record.turn_id, TurnFailed(record))

    def _lease_of(self, conversation_id: str) -> Lease:
        return msgspec.structs.replace(self._lease, conversation_id=conversation_id, acquired_at=now_ms())


def stored(session: Session, conversation_id: str) -> Conversation:
    """The conversation's record. Raises SchemaError when there is none."""
    found = session.conversations.get(conversation_id)
    if found is None:
        raise SchemaError(
            "conversationNotFound", f"There is no conversation {conversation_id}. List them, or start a new one."
        )
    return found


def search(storage: Storage, query: str, workspace: str | None, limit: int) -> Hits:
    """Messages that hold the words of `query` (see `store/query.py`); a `workspace` of None means all.

    Raises SchemaError for a query without words.
    """

    def among(conversation: Conversation) -> bool:
        return conversation.workspace == workspace

    return storage.read(lambda session: session.search.find(query, limit=limit, among=among if workspace else None))


def title_of(text: str) -> str:
    """A title for a conversation that begins with `text`."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return first if len(first) <= TITLE_CHARS else first[: TITLE_CHARS - 1] + "…"
