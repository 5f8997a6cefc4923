"""Several windows on one store: follow what another one runs, give up what it asks for, take over what it gives.

One loop looks whether the store has changed, a few times a second, and only while this instance holds, follows or
asks for a conversation.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from tinsmith.domain.errors import AgentError, SchemaError
from tinsmith.domain.event import ConversationChanged, Notice, TurnFailed
from tinsmith.domain.ids import now_ms
from tinsmith.domain.turn import TurnRecord
from tinsmith.services.conversations import Conversations
from tinsmith.services.following import Seen, first_seen, look, tell
from tinsmith.services.holding import ConversationHeldError, is_alive
from tinsmith.services.journal import Journal
from tinsmith.services.turns import Turns
from tinsmith.store import Lease, Storage

_log = logging.getLogger(__name__)

INTERVAL = 0.25
"""Seconds between two looks at the store."""
PATIENCE = 2.0
"""Seconds that a request waits for a holder in which nothing runs; after that the answer says that it still waits."""
FOLLOWED = 32
"""Conversations that are followed at once, those that were opened last."""


class Windows:
    """What this instance does about conversations that other instances hold, or want."""

    def __init__(
        self,
        storage: Storage,
        journal: Journal,
        conversations: Conversations,
        turns: Turns,
        lease: Lease,
        forget: Callable[[str], None],
    ) -> None:
        self._storage = storage
        self._journal = journal
        self._conversations = conversations
        self._turns = turns
        self._lease = lease
        self._forget = forget
        self._followed: OrderedDict[str, Seen] = OrderedDict()
        self._wanted: dict[str, asyncio.Event] = {}
        self._asked: dict[str, bool] = {}
        """Held conversations that another window asks for, and whether that was told."""
        self._version = -1
        self._has_work = asyncio.Event()
        conversations.on_taken = self._taken
        conversations.on_held = self._has_work.set

    async def open(self, conversation_id: str, *, take_over: bool | None) -> Lease | None:
        """Hold the conversation, or follow it when another window does: then its lease.

        With `take_over` the other one is asked for it. An idle one gives it within PATIENCE; else it comes when the
        turn there has ended, and is announced. False asks no more. Raises SchemaError `conversationNotFound`,
        `takeOverPending` when a third window asks already; PersistenceError.
        """
        self._conversations.get(conversation_id)
        if take_over is False and conversation_id in self._wanted:
            await self._give_up(conversation_id)
        holder = self._conversations.holder(conversation_id)
        if holder is None:
            try:
                await self._conversations.hold(conversation_id)
            except ConversationHeldError as held:
                holder = held.holder
        if holder is None:
            return None
        self.follow(conversation_id)
        if take_over:
            await self._ask(conversation_id)
        return self._conversations.holder(conversation_id)

    def follow(self, conversation_id: str) -> None:
        """Publish what others store in the conversation from now on, until this instance holds it."""
        if self._conversations.holds(conversation_id):
            return
        if conversation_id not in self._followed:
            found = self._storage.read(lambda session: look(session, conversation_id, None))
            if found.conversation is None:
                return
            self._followed[conversation_id] = first_seen(found, self._holder(conversation_id))
        self._followed.move_to_end(conversation_id)
        while len(self._followed) > FOLLOWED:
            self._followed.popitem(last=False)
        self._has_work.set()

    def is_asking(self, conversation_id: str) -> bool:
        """Whether this instance waits for the conversation."""
        return conversation_id in self._wanted

    def running(self, conversation_id: str) -> TurnRecord | None:
        """The turn that runs in a followed conversation, as far as was told."""
        seen = self._followed.get(conversation_id)
        return self._conversations.turn(conversation_id, seen.turn_id) if seen and seen.turn_id else None

    def tell(self, conversation_id: str) -> None:
        """Publish what is stored in a followed conversation and was not told yet. Nothing for one that is not."""
        seen = self._followed.get(conversation_id)
        if seen is None:
            return
        found = self._storage.read(lambda session: look(session, conversation_id, seen))
        events, now = tell(seen, found, self._holder(conversation_id))
        if now is None:
            del self._followed[conversation_id]
        else:
            self._followed[conversation_id] = now
        for event in events:
            self._journal.publish(conversation_id, event.turn_id, event.body)

    async def run(self) -> None:
        """Look again and again, as long as there is something to look for."""
        while True:
            await self._has_work.wait()
            try:
                await self._look()
            except AgentError as error:
                _log.warning("other windows cannot be seen: %s", error.message)
            if not (self._followed or self._wanted or self._conversations.held):
                self._has_work.clear()
            await asyncio.sleep(INTERVAL)

    async def _look(self) -> None:
        version = self._storage.version()
        has_changed, self._version = version != self._version, version
        for conversation_id in tuple(self._wanted):
            await self._take(conversation_id)
        for conversation_id, seen in tuple(self._followed.items()):
            if has_changed or self._is_orphaned(conversation_id, seen):
                self.tell(conversation_id)
        if has_changed and self._conversations.held:
            for request in self._storage.read(lambda session: session.leases.requests()):
                if self._conversations.holds(request.conversation_id):
                    self._asked.setdefault(request.conversation_id, False)
        for conversation_id in tuple(self._asked):
            await self._hand_over(conversation_id)

    def _is_orphaned(self, conversation_id: str, seen: Seen) -> bool:
        """Whether the holder that was told has died, which changes nothing in the store."""
        return seen.holder is not None and self._conversations.holder(conversation_id) is None

    async def _ask(self, conversation_id: str) -> None:
        wanted = msgspec.structs.replace(self._lease, conversation_id=conversation_id, acquired_at=now_ms())
        first = await self._storage.write(lambda session: session.leases.request(wanted, is_alive))
        if first.instance != self._lease.instance:
            raise SchemaError(
                "takeOverPending",
                f"Another window (process {first.pid}) has asked for this conversation already. "
                "Try again when it has it.",
                data={"pid": first.pid},
            )
        taken = self._wanted.setdefault(conversation_id, asyncio.Event())
        self._has_work.set()
        if self.running(conversation_id) is not None:
            return
        try:
            async with asyncio.timeout(PATIENCE):
                await taken.wait()
        except TimeoutError:
            _log.info("conversation %s is still held", conversation_id)

    async def _give_up(self, conversation_id: str) -> None:
        self._wanted.pop(conversation_id).set()
        await self._storage.write(lambda session: session.leases.withdraw(conversation_id, self._lease.instance))

    async def _take(self, conversation_id: str) -> None:
        """Take what was asked for, when it was handed over or its holder is gone."""
        if self._conversations.holder(conversation_id) is not None:
            return
        try:
            await self._conversations.hold(conversation_id)
        except ConversationHeldError:
            return  # a third window was faster; the request stands
        except SchemaError:  # it was deleted
            self._wanted.pop(conversation_id).set()

    async def _hand_over(self, conversation_id: str) -> None:
        """Give the conversation to the window that asks for it, unless a turn runs: then when that has ended."""
        if self._turns.active(conversation_id) is not None:
            self._tell_asked(conversation_id)
            return
        async with self._turns.idle(conversation_id):
            holder = await self._storage.write(
                lambda session: session.leases.hand_over(conversation_id, self._lease.instance, is_alive)
            )
            if holder is not None:
                self._conversations.let_go(conversation_id)
        del self._asked[conversation_id]
        if holder is not None:
            self._forget(conversation_id)
            self.follow(conversation_id)
            self._journal.publish(conversation_id, "", ConversationChanged("idle", held_by=holder.pid))

    def _tell_asked(self, conversation_id: str) -> None:
        """Say once that another window waits for the running turn."""
        if not self._asked[conversation_id]:
            self._asked[conversation_id] = True
            text = "Another window asks for this conversation. It gets it when the running turn has ended."
            self._journal.publish(conversation_id, "", Notice("info", "takeOverAsked", text))

    def _taken(self, conversation_id: str, interrupted: tuple[TurnRecord, ...]) -> None:
        """Tell what the client does not know yet of a conversation that this instance holds from now on."""
        self._forget(conversation_id)
        wanted = self._wanted.pop(conversation_id, None)
        if conversation_id in self._followed:
            self.tell(conversation_id)
            self._followed.pop(conversation_id, None)
        else:
            for record in interrupted:
                self._journal.publish(conversation_id, record.turn_id, TurnFailed(record))
        if wanted is not None:
            wanted.set()

    def _holder(self, conversation_id: str) -> int | None:
        lease = self._conversations.holder(conversation_id)
        return lease.pid if lease is not None else None
