"""A turn that runs in this instance: from the moment it is about to be stored until its one end is announced."""

import asyncio
import logging

import msgspec

from tinsmith.domain.errors import AgentError, InternalError
from tinsmith.domain.event import (
    Body,
    ConversationChanged,
    Notice,
    TurnCancelRequested,
    TurnCompleted,
    TurnFailed,
    TurnPersisted,
    TurnStarted,
)
from tinsmith.domain.ids import new_id, now_ms
from tinsmith.domain.message import UserMessage
from tinsmith.domain.request import TurnRequest
from tinsmith.domain.turn import TurnEnd, TurnRecord, advance
from tinsmith.engine.turn import run_turn
from tinsmith.services.conversations import Conversations
from tinsmith.services.journal import Journal
from tinsmith.services.queue import Queue

_log = logging.getLogger(__name__)


class Inbox:
    """Steering messages of one turn, until the engine takes them."""

    def __init__(self) -> None:
        self._waiting: list[UserMessage] = []

    def put(self, message: UserMessage) -> None:
        """Let the message wait for the next safe point."""
        self._waiting.append(message)

    def take(self) -> tuple[UserMessage, ...]:
        taken, self._waiting = tuple(self._waiting), []
        return taken


class ActiveTurn:
    """One turn. `record` is as it stands now; `ended` is set by its owner when everything of it is over."""

    def __init__(
        self,
        request: TurnRequest,
        started: TurnStarted,
        inbox: Inbox,
        *,
        journal: Journal,
        conversations: Conversations,
        queue: Queue,
    ) -> None:
        self.request = request
        self.record: TurnRecord = started.record
        self.started = started
        self.inbox = inbox
        self.ended = asyncio.Event()
        self.has_begun = False
        self._journal = journal
        self._conversations = conversations
        self._queue = queue

    @property
    def is_ending(self) -> bool:
        """Whether the engine is done with it, so that nothing can join it any more."""
        return self.record.state == "ended"

    def announce(self, *notices: Notice) -> None:
        """Say that it begins, and what a person should know of that."""
        self.has_begun = True
        self._publish(self.started, ConversationChanged("running", self.started.title or None), *notices)

    def stop(self) -> None:
        """Ask it to stop. Idempotent."""
        if self.record.state == "running":
            self.record = msgspec.structs.replace(self.record, state=advance("running", "cancelling"))
            if self.has_begun:
                self._publish(TurnCancelRequested())
        self.request.cancel.cancel()

    async def run(self) -> None:
        """Run it to its announced end, however the engine comes to that."""
        edges = self.request.edges
        try:
            end = await run_turn(self.request)
        except asyncio.CancelledError:  # this instance closes, and something did not stop in time
            await self._finish(TurnEnd("cancelled", edges=edges), is_broken_off=True)
            raise
        except Exception:  # noqa: BLE001  the turn is the long half of the request that started it: the same boundary
            end = TurnEnd("error", _bug().record(), edges=edges)
        await self._finish(end, is_broken_off=end.outcome == "error")

    async def _finish(self, end: TurnEnd, *, is_broken_off: bool) -> None:
        """Write and announce the one end. It is announced even when it cannot be stored."""
        identifier = self.record.conversation_id
        self.record = msgspec.structs.replace(
            self.record,
            state=advance(self.record.state, "ended"),
            outcome=end.outcome,
            error=end.error,
            ended_at=now_ms(),
            rounds=end.rounds,
            usage=end.usage,
            files=end.files,
            edges=end.edges,
        )
        try:
            if is_broken_off:
                await self.request.journal.record(*self._conversations.open_calls(identifier))
            await self._queue.settle(identifier)
            await self._journal.commit(identifier, (self._ending(end),))
        except AgentError as error:
            self.record = msgspec.structs.replace(self.record, outcome="error", error=error.record())
            self._conversations.let_go(identifier)
        finally:
            self._publish(TurnPersisted(self.record.turn_id), self._ending(end))
            self._journal.publish(identifier, "", ConversationChanged("idle"))

    def _ending(self, end: TurnEnd) -> TurnCompleted | TurnFailed:
        return (TurnFailed if self.record.outcome == "error" else TurnCompleted)(self.record, end.edges)

    def _publish(self, *bodies: Body) -> None:
        for body in bodies:
            self._journal.publish(self.record.conversation_id, self.record.turn_id, body)


def _bug() -> InternalError:
    error_id = new_id("e")
    _log.exception("turn failed, error %s", error_id)
    text = f"An internal error ended the turn (error {error_id} in the log). Send the message again."
    return InternalError("internal", text, data={"errorId": error_id})
