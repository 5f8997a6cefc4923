"""Conversations that the settings no longer want to keep; without such settings all of them stay."""

import logging
from collections.abc import Sequence

from tinsmith.domain.conversation import Conversation
from tinsmith.domain.errors import AgentError
from tinsmith.domain.ids import now_ms
from tinsmith.domain.settings import StoreSettings
from tinsmith.services.conversations import Conversations
from tinsmith.services.settings import OffLoop
from tinsmith.services.transcripts import Transcripts
from tinsmith.store import Session, Storage

_log = logging.getLogger(__name__)

_DAY_MS = 86_400_000


class Retention:
    """Deletes what is too old, or too much: never what a window has open, or what its workspace used last."""

    def __init__(
        self, storage: Storage, conversations: Conversations, transcripts: Transcripts, off_loop: OffLoop
    ) -> None:
        self._storage = storage
        self._conversations = conversations
        self._transcripts = transcripts
        self._off_loop = off_loop

    async def apply(self, limits: StoreSettings) -> int:
        """Delete by these limits, oldest first; how many conversations went."""
        if limits.max_age_days is None and limits.max_bytes is None:
            return 0
        deleted = 0
        for conversation in await self._off_loop(lambda: self._storage.read(_disposable)):
            if not self._is_over(conversation, limits):
                break
            identifier = conversation.conversation_id
            if self._conversations.holds(identifier) or self._conversations.holder(identifier) is not None:
                continue
            try:
                await self._transcripts.delete(identifier)
            except AgentError as error:  # taken up or deleted by a window meanwhile
                _log.info("conversation %s was left alone: %s", identifier, error.message)
            else:
                deleted += 1
        if deleted:
            _log.warning("%d conversations were deleted by the limits in store.*", deleted)
        return deleted

    def _is_over(self, conversation: Conversation, limits: StoreSettings) -> bool:
        if limits.max_age_days is not None and conversation.updated_at < now_ms() - limits.max_age_days * _DAY_MS:
            return True
        return limits.max_bytes is not None and self._storage.size() > limits.max_bytes


def _disposable(session: Session) -> Sequence[Conversation]:
    """Every conversation but those that their workspaces used last, the oldest first."""
    found = sorted(session.conversations.all(), key=lambda each: (each.updated_at, each.conversation_id))
    return [each for each in found if session.meta.active_conversation(each.workspace) != each.conversation_id]
