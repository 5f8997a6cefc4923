"""Messages that wait: stored when they are taken in, so that a kill loses nothing that was typed."""

from msgspec.structs import replace

from tinsmith.domain.event import SteeringTaken
from tinsmith.domain.message import UserMessage
from tinsmith.services.journal import Journal
from tinsmith.store import Storage


class Queue:
    """The waiting messages of every conversation, as this instance sees them."""

    def __init__(self, storage: Storage, journal: Journal) -> None:
        self._storage = storage
        self._journal = journal

    async def put(self, conversation_id: str, message: UserMessage) -> UserMessage:
        """Store the message; with its `entry_id`, under which it leaves when a turn takes it."""
        return await self._storage.write(lambda session: session.queue.append(conversation_id, message))

    def waiting(self, conversation_id: str) -> tuple[UserMessage, ...]:
        """The messages that no turn has taken, oldest first."""
        return self._storage.read(lambda session: session.queue.all(conversation_id))

    async def settle(self, conversation_id: str) -> None:
        """Move what came too late for its turn into the transcript, so that the next turn sees it."""
        for message in self.waiting(conversation_id):
            next_id = self._storage.read(lambda session: session.messages.next_id(conversation_id))
            bound = self._journal.bind(conversation_id, message.turn_id)
            await bound.record(SteeringTaken(replace(message, message_id=next_id)))
