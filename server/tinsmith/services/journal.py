"""Store, number, publish: the one way an event leaves.

What a durable event carries is committed first; only then is the event numbered and published. Deltas are
published at once while whoever writes them out keeps up, and joined with their neighbours while it does not.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from tinsmith.domain.conversation import Conversation
from tinsmith.domain.event import (
    AnswerReceived,
    Body,
    CallCancelled,
    CallFinished,
    CallStarted,
    Delta,
    Event,
    OutputStreamed,
    ReasoningStreamed,
    SteeringTaken,
    TextStreamed,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from tinsmith.domain.ids import now_ms
from tinsmith.domain.message import Usage
from tinsmith.domain.turn import TurnRecord
from tinsmith.store import Note, Session, Storage, UsageRecord
from tinsmith.store.codec import encode_record

_log = logging.getLogger(__name__)

REPLAY_EVENTS = 4096
"""How many events of a conversation are kept for a client that missed some."""
REPLAY_CONVERSATIONS = 32
"""Of how many conversations, those that spoke last; a client of another gets a snapshot."""
JOINED_CHARS = 8192
"""A joined delta is sent when it has grown this large, however slow the reader is."""

Subscriber = Callable[[Event], None]
Pace = Callable[[], float]
"""Seconds a delta should wait for its neighbours; 0 sends it at once."""


class _Stream:
    """The numbered events of one conversation in this instance, and the delta that waits."""

    def __init__(self) -> None:
        self.seq = 0
        self.recent: deque[Event] = deque(maxlen=REPLAY_EVENTS)
        self.waiting: tuple[str, Delta] | None = None
        self.timer: asyncio.TimerHandle | None = None


class Journal:
    """Every event of this instance. `epoch` names the instance in its numbering."""

    def __init__(self, storage: Storage, epoch: str) -> None:
        self.epoch = epoch
        self.pace: Pace = lambda: 0.0
        self.muted: frozenset[type] = frozenset()
        self._storage = storage
        self._streams: dict[str, _Stream] = {}
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` with every event from now on. Returns the way out."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def bind(self, conversation_id: str, turn_id: str = "") -> "BoundJournal":
        """The journal as one turn sees it."""
        return BoundJournal(self, conversation_id, turn_id)

    def seq(self, conversation_id: str) -> int:
        """The number of the last event of the conversation, 0 before the first."""
        stream = self._streams.get(conversation_id)
        return stream.seq if stream else 0

    def since(self, conversation_id: str, seq: int) -> tuple[Event, ...] | None:
        """The events after `seq`, or None when they are not all here any more."""
        stream = self._streams.get(conversation_id)
        if stream is None:
            return () if seq == 0 else None
        self._flush(conversation_id, stream)
        oldest = stream.recent[0].seq if stream.recent else stream.seq + 1
        if not oldest - 1 <= seq <= stream.seq:
            return None
        return tuple(event for event in stream.recent if event.seq > seq)

    async def commit(self, conversation_id: str, bodies: Iterable[Body]) -> None:
        """Store what the events carry, in one transaction. Raises PersistenceError."""
        durable = [body for body in bodies if _is_durable(body)]
        if durable:
            await self._storage.write(lambda session: _keep(session, conversation_id, durable))

    def publish(self, conversation_id: str, turn_id: str, body: Body) -> None:
        """Number and publish; never raises."""
        stream = self._streams.get(conversation_id) or self._open(conversation_id)
        if not isinstance(body, TextStreamed | ReasoningStreamed | OutputStreamed):
            self._flush(conversation_id, stream)
            self._send(conversation_id, turn_id, stream, body)
            return
        if stream.waiting is not None:
            joined = _joined(stream.waiting[1], body)
            if joined is not None and len(joined.text) < JOINED_CHARS:
                stream.waiting = (turn_id, joined)
                return
            self._flush(conversation_id, stream)
        delay = self.pace()
        if delay <= 0:
            self._send(conversation_id, turn_id, stream, body)
            return
        stream.waiting = (turn_id, body)
        stream.timer = asyncio.get_running_loop().call_later(delay, self._flush, conversation_id, stream)

    def announce(self, body: Body) -> None:
        """Publish in every conversation that this instance has spoken in."""
        for conversation_id in tuple(self._streams):
            self.publish(conversation_id, "", body)

    def _open(self, conversation_id: str) -> _Stream:
        """A stream for one more conversation; what longest said nothing cannot be replayed any more."""
        replayable = [stream for stream in self._streams.values() if stream.recent]
        if len(replayable) >= REPLAY_CONVERSATIONS:
            min(replayable, key=lambda stream: stream.recent[-1].ts).recent.clear()
        stream = self._streams[conversation_id] = _Stream()
        return stream

    def _flush(self, conversation_id: str, stream: _Stream) -> None:
        """Send the delta that waits, so that nothing overtakes it."""
        if stream.timer is not None:
            stream.timer.cancel()
            stream.timer = None
        if stream.waiting is not None:
            (turn_id, body), stream.waiting = stream.waiting, None
            self._send(conversation_id, turn_id, stream, body)

    def _send(self, conversation_id: str, turn_id: str, stream: _Stream, body: Body) -> None:
        is_numbered = body.is_visible and type(body) not in self.muted
        if is_numbered:
            stream.seq += 1
        event = Event(conversation_id, turn_id, stream.seq if is_numbered else 0, now_ms(), body)
        if is_numbered:
            stream.recent.append(event)
        for subscriber in tuple(self._subscribers):
            try:
                subscriber(event)
            except Exception:  # noqa: BLE001  a faulty subscriber never breaks a turn
                _log.exception("a subscriber failed on %s", type(body).__name__)


class BoundJournal:
    """The Journal port of one turn (or, without a turn, of one conversation)."""

    def __init__(self, journal: Journal, conversation_id: str, turn_id: str) -> None:
        self._journal = journal
        self._conversation_id = conversation_id
        self._turn_id = turn_id

    async def record(self, *bodies: Body) -> None:
        await self._journal.commit(self._conversation_id, bodies)
        for body in bodies:
            self.publish(body)

    def publish(self, body: Body) -> None:
        self._journal.publish(self._conversation_id, self._turn_id, body)


def _joined(first: Delta, second: Delta) -> Delta | None:
    """Both as one, when they are neighbours of the same item and kind."""
    match first, second:
        case TextStreamed(item, offset, text), TextStreamed(other, _, more) if item == other:
            return TextStreamed(item, offset, text + more)
        case ReasoningStreamed(item, offset, text), ReasoningStreamed(other, _, more) if item == other:
            return ReasoningStreamed(item, offset, text + more)
        case OutputStreamed(call, offset, text), OutputStreamed(other, _, more) if call == other:
            return OutputStreamed(call, offset, text + more)
        case _:
            return None


def _is_durable(body: Body) -> bool:
    if isinstance(body, CallStarted):
        return body.is_marked
    return isinstance(
        body, TurnStarted | AnswerReceived | CallFinished | CallCancelled | SteeringTaken | TurnCompleted | TurnFailed
    )


def _keep(session: Session, conversation_id: str, bodies: Iterable[Body]) -> None:
    """Write what the events carry."""
    for body in bodies:
        match body:
            case TurnStarted(record, message, title):
                session.turns.put(record)
                session.messages.put(conversation_id, message)
                conversation = _update(session, conversation_id, lambda kept: replace(kept, title=title or kept.title))
                if conversation is not None:
                    session.meta.set_active_conversation(conversation.workspace, conversation_id)
            case AnswerReceived(message, context_used):
                session.messages.put(conversation_id, message)
                _update(session, conversation_id, _counting(message.usage, context_used))
            case SteeringTaken(message):
                session.messages.put(conversation_id, message)
                session.queue.delete(conversation_id, message.entry_id)
            case CallStarted(call):
                session.calls.put(conversation_id, call)
                session.pending.settle(conversation_id, call.call_id)
            case CallFinished(call, _, message) | CallCancelled(call, _, message):
                session.calls.put(conversation_id, call)
                session.pending.settle(conversation_id, call.call_id)
                session.messages.put(conversation_id, message)
            case TurnCompleted(record, edges) | TurnFailed(record, edges):
                session.turns.put(record)
                session.usage.put(conversation_id, UsageRecord(record.turn_id, record.role, record.model, record.usage))
                session.notes.put(conversation_id, note_of(record))
                _update(session, conversation_id, lambda kept: replace(kept, edges=edges or kept.edges))
            case _:
                raise AssertionError(body)


def _update(
    session: Session, conversation_id: str, change: Callable[[Conversation], Conversation]
) -> Conversation | None:
    """Change the conversation's record, when it has one, and note the time."""
    conversation = session.conversations.get(conversation_id)
    if conversation is None:
        return None
    changed = replace(change(conversation), updated_at=now_ms())
    session.conversations.put(changed)
    return changed


def _counting(usage: Usage, context_used: int) -> Callable[[Conversation], Conversation]:
    return lambda kept: replace(kept, usage=kept.usage + usage, context_used=context_used or kept.context_used)


def note_of(record: TurnRecord) -> Note:
    """The whole record once more as a note, where the scratchpad's readers find it."""
    return Note(f"turn_record-{record.turn_id}", encode_record(record).decode(), now_ms())
