"""Conversations: new, list, open, read. Opening one takes its lease and closes what a dead process left open."""

import logging
import os
from collections.abc import Sequence
from typing import Literal

import msgspec

from tinsmith.domain.conversation import Conversation
from tinsmith.domain.errors import AgentError, ErrorRecord, PersistenceError, SchemaError
from tinsmith.domain.event import CallCancelled, TurnFailed
from tinsmith.domain.ids import message_id, message_ordinal, new_id, now_ms
from tinsmith.domain.message import AssistantMessage, Message, ToolCall, ToolMessage
from tinsmith.domain.turn import CallRecord, TurnRecord
from tinsmith.engine.repair import missing_results
from tinsmith.proc.identity import boot_id, process_start
from tinsmith.services.journal import Journal
from tinsmith.store import ConversationPage, Hits, Lease, Session, Storage

_log = logging.getLogger(__name__)

TITLE_CHARS = 80
"""A title that nobody chose is the first line of the first message, cut to this."""


def is_alive(lease: Lease) -> bool:
    """Whether the process that took the lease still runs; a later process of the same pid is another."""
    return lease.boot_id == boot_id() and process_start(lease.pid) == lease.process_start


def own_lease(instance: str) -> Lease:
    """The lease of this process, for no conversation yet."""
    pid = os.getpid()
    return Lease("", instance, pid, process_start(pid) or 0, boot_id(), 0)


class ConversationHeldError(AgentError):
    """Another live process runs this conversation."""

    kind = "policy"

    def __init__(self, holder: Lease) -> None:
        super().__init__(
            "conversationHeld",
            f"Another editor window (process {holder.pid}) holds this conversation. Use it there, or close it.",
            data={"pid": holder.pid, "instance": holder.instance},
        )
        self.holder = holder


class History(msgspec.Struct, frozen=True):
    """A page of a transcript with the records of the conversation's calls; `next_cursor` asks for the rest."""

    messages: tuple[Message, ...]
    calls: dict[str, CallRecord]
    next_cursor: str | None


class Conversations:
    """The conversations of the store, as one instance sees them."""

    def __init__(self, storage: Storage, journal: Journal, lease: Lease) -> None:
        self._storage = storage
        self._journal = journal
        self._lease = lease
        self._held: set[str] = set()

    async def new(self, workspace: str, *, title: str = "", role: str = "", model: str = "") -> Conversation:
        """A fresh conversation of `workspace` (an absolute path), held by this instance."""
        now = now_ms()
        conversation = Conversation(new_id("c"), workspace, now, now, title, role, model)

        def write(session: Session) -> None:
            session.conversations.put(conversation)
            session.leases.acquire(self._lease_of(conversation.conversation_id), is_alive)

        await self._storage.write(write)
        self._held.add(conversation.conversation_id)
        return conversation

    def get(self, conversation_id: str) -> Conversation:
        """The conversation as it is stored. Raises SchemaError when there is none."""
        found = self._storage.read(lambda session: session.conversations.get(conversation_id))
        if found is None:
            raise SchemaError(
                "conversationNotFound", f"There is no conversation {conversation_id}. List them, or start a new one."
            )
        return found

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

    def free(self, workspace: str) -> str | None:
        """The active conversation, when no other live process holds it."""
        found = self.active(workspace)
        return found if found and self.holder(found) is None else None

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

        def write(session: Session) -> Lease | list[TurnRecord]:
            holder = session.leases.acquire(self._lease_of(conversation_id), is_alive)
            if holder.instance != self._lease.instance:
                return holder
            return _close_open_turns(session, conversation_id)

        outcome = await self._storage.write(write)
        if isinstance(outcome, Lease):
            raise ConversationHeldError(outcome)
        self._held.add(conversation_id)
        for record in outcome:
            if record.instance != self._lease.instance:  # the end of our own was announced, it could only not be stored
                self._journal.publish(conversation_id, record.turn_id, TurnFailed(record))
        return self.get(conversation_id)

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

    async def release_all(self) -> None:
        """Give every lease back; the instance ends. One that stays is that of a dead process, which counts for none."""
        held, self._held = self._held, set()

        def write(session: Session) -> None:
            for conversation_id in held:
                session.leases.release(conversation_id, self._lease.instance)

        if held:
            try:
                await self._storage.write(write)
            except PersistenceError as error:
                _log.warning("leases were not given back: %s", error.message)

    def transcript(self, conversation_id: str) -> tuple[Message, ...]:
        """Every message, in order."""
        return tuple(self._storage.read(lambda session: session.messages.all(conversation_id)))

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

        def read(session: Session) -> History:
            page = session.messages.page(conversation_id, limit=limit, cursor=cursor, direction=direction)
            messages, following = page.messages, page.next_cursor
            while following is not None and _cuts_a_round(messages, following_is_older=direction == "older"):
                page = session.messages.page(conversation_id, limit=1, cursor=following, direction=direction)
                messages, following = (*messages, *page.messages), page.next_cursor
            calls = {call.call_id: call for call in session.calls.all(conversation_id)}
            return History(messages, calls, following)

        return self._storage.read(read)

    def open_calls(self, conversation_id: str) -> tuple[CallCancelled, ...]:
        """The end of each call that has none, as it is to be stored and announced."""
        return self._storage.read(lambda session: _open_calls(session, conversation_id))

    def turn(self, conversation_id: str, turn_id: str) -> TurnRecord | None:
        """The stored record of a turn."""
        return self._storage.read(lambda session: session.turns.get(conversation_id, turn_id))

    def find_turn(self, turn_id: str) -> TurnRecord | None:
        """The stored record of a turn whose conversation is not known."""
        return self._storage.read(lambda session: session.turns.find(turn_id))

    def _lease_of(self, conversation_id: str) -> Lease:
        return msgspec.structs.replace(self._lease, conversation_id=conversation_id, acquired_at=now_ms())


def _cuts_a_round(messages: Sequence[Message], *, following_is_older: bool) -> bool:
    """Whether a page that ends here has the results of an answer without it, or (going forward) may miss some."""
    last = messages[-1] if messages else None
    if following_is_older:
        return isinstance(last, ToolMessage)
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    answered = {message.call_id for message in messages if isinstance(message, ToolMessage)}
    return bool(answers) and any(call.call_id not in answered for call in answers[-1].calls)


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


def _close_open_turns(session: Session, conversation_id: str) -> list[TurnRecord]:
    """Write the missing results and the ends of turns whose process died. Returns the ended records."""
    open_turns = [record for record in session.turns.all(conversation_id) if record.state != "ended"]
    if not open_turns:
        return []
    for ending in _open_calls(session, conversation_id):
        session.calls.put(conversation_id, ending.call)
        session.messages.put(conversation_id, ending.message)
    ended = [
        msgspec.structs.replace(
            record,
            state="ended",
            outcome="interrupted",
            ended_at=now_ms(),
            error=ErrorRecord(
                "internal",
                "interrupted",
                "The server process ended during this turn. What was finished is kept; send a message to go on.",
            ),
        )
        for record in open_turns
    ]
    for record in ended:
        session.turns.put(record)
    return ended


def _open_calls(session: Session, conversation_id: str) -> tuple[CallCancelled, ...]:
    """A result and an end for each call that has none; of one that was marked as begun the effect is unknown."""
    records = {call.call_id: call for call in session.calls.all(conversation_id)}
    begun = {call_id for call_id, call in records.items() if call.begun_at and not call.ended_at}
    messages = session.messages.all(conversation_id)
    arguments = {call.call_id: call.arguments for call in _calls(messages)}
    ordinal = message_ordinal(session.messages.next_id(conversation_id))
    endings: list[CallCancelled] = []
    for number, result in enumerate(missing_results(messages, begun), start=ordinal):
        known = records.get(result.call_id) or CallRecord(result.call_id, result.turn_id, result.name, result.name)
        endings.append(
            CallCancelled(
                msgspec.structs.replace(known, status="cancelled", ended_at=now_ms()),
                arguments[result.call_id],
                msgspec.structs.replace(result, message_id=message_id(number), created_at=now_ms()),
            )
        )
    return tuple(endings)


def _calls(messages: Sequence[Message]) -> list[ToolCall]:
    return [call for message in messages if isinstance(message, AssistantMessage) for call in message.calls]
