"""The methods about stored conversations: decode, one call of the runtime, encode."""

from collections.abc import Callable

import msgspec

from tinsmith.adapters.lsp import convert, wire
from tinsmith.adapters.lsp.router import Reply
from tinsmith.domain.conversation import Conversation
from tinsmith.domain.errors import SchemaError
from tinsmith.runtime import Runtime
from tinsmith.services.editing import Edited

LAST_ITEMS = 50
"""Items of a snapshot."""


class ConversationMethods:
    """`path` gives the directory that a client names, `subscribe` lets it get the events of a conversation."""

    def __init__(self, runtime: Runtime, path: Callable[[str | None], str], subscribe: Callable[[str], None]) -> None:
        self._runtime = runtime
        self._path = path
        self._subscribe = subscribe

    async def new(self, params: wire.ConversationNewParams) -> Reply:
        conversation = await self._runtime.conversations.new(
            self._path(params.workspace), title=params.title, role=params.role, model=params.model
        )
        return self._opened(conversation)

    async def list(self, params: wire.ConversationListParams) -> Reply:
        page = self._runtime.conversations.list(
            self._path(params.workspace) if params.workspace else None,
            params.query,
            is_archived=params.archived,
            cursor=params.cursor,
            limit=max(1, min(params.limit, 500)),
        )
        found = tuple(map(self._told, page.conversations))
        return Reply(wire.ConversationListResult(found, page.next_cursor or msgspec.UNSET))

    async def search(self, params: wire.ConversationSearchParams) -> Reply:
        workspace = self._path(params.workspace) if params.workspace else None
        limit = max(1, min(params.limit, 100))
        look = self._runtime.conversations.search
        return Reply(convert.wire_hits(await self._runtime.off_loop(lambda: look(params.query, workspace, limit))))

    async def load(self, params: wire.ConversationLoadParams) -> Reply:
        runtime = self._runtime
        identifier = params.conversation_id or runtime.conversations.resumable(self._path(None))
        if identifier is None:
            raise SchemaError("conversationNotFound", "There is no conversation to go on with here. Start a new one.")
        holder = await runtime.windows.open(identifier, take_over=params.take_over)
        runtime.windows.tell(identifier)
        conversation = runtime.conversations.get(identifier)
        runtime.conversations.opened(conversation)
        self._subscribe(identifier)
        return Reply(
            wire.ConversationLoadResult(
                self._told(conversation),
                self.snapshot(identifier),
                runtime.journal.epoch,
                runtime.journal.seq(identifier),
                wire.Holder(holder.pid, runtime.windows.is_asking(identifier)) if holder else msgspec.UNSET,
            )
        )

    async def fork(self, params: wire.ConversationForkParams) -> Reply:
        forked = await self._runtime.transcripts.fork(params.conversation_id, params.through_turn_id)
        return self._opened(forked)

    async def rewind(self, params: wire.ConversationRewindParams) -> Reply:
        removed = await self._runtime.transcripts.rewind(
            params.conversation_id, params.to_turn_id, is_dry_run=params.dry_run
        )
        return Reply(wire.ConversationRewindResult(tuple(map(convert.removed_turn, removed))))

    async def unrewind(self, params: wire.ConversationParams) -> Reply:
        conversation = await self._runtime.transcripts.unrewind(params.conversation_id)
        return Reply(wire.ConversationResult(self._told(conversation)))

    async def update(self, params: wire.ConversationUpdateParams) -> Reply:
        title = None if params.title is msgspec.UNSET else params.title or ""
        updated = await self._runtime.transcripts.update(
            params.conversation_id, title=title, is_archived=params.archived
        )
        return Reply(wire.ConversationResult(self._told(updated)))

    async def clear(self, params: wire.ConversationParams) -> Reply:
        await self._runtime.transcripts.clear(params.conversation_id)
        return Reply(wire.Done())

    async def delete(self, params: wire.ConversationParams) -> Reply:
        await self._runtime.transcripts.delete(params.conversation_id)
        return Reply(wire.Done())

    async def export(self, params: wire.ConversationExportParams) -> Reply:
        text = self._runtime.transcripts.export(params.conversation_id, params.format)
        return Reply(wire.ConversationExportResult(text))

    async def receive(self, params: wire.ConversationImportParams) -> Reply:
        received = await self._runtime.transcripts.receive(params.text, self._path(params.workspace))
        return self._opened(received)

    async def history_read(self, params: wire.HistoryReadParams) -> Reply:
        history = self._runtime.conversations.history(
            params.conversation_id,
            cursor=params.cursor,
            limit=max(1, min(params.limit, 500)),
            direction=params.direction,
        )
        is_older = params.direction == "older"
        messages = tuple(reversed(history.messages)) if is_older else history.messages
        items = convert.items_of(messages, history.calls)
        ordered = tuple(reversed(items)) if is_older else tuple(items)
        return Reply(wire.HistoryReadResult(ordered, history.next_cursor or msgspec.UNSET))

    async def edit_message(self, params: wire.InspectEditParams) -> Reply:
        identifier = params.conversation_id
        return self._edited(
            identifier, await self._runtime.transcripts.edit(identifier, params.message_id, params.text)
        )

    async def delete_message(self, params: wire.InspectDeleteParams) -> Reply:
        identifier = params.conversation_id
        return self._edited(identifier, await self._runtime.transcripts.delete_message(identifier, params.message_id))

    def snapshot(self, conversation_id: str) -> wire.Snapshot:
        """Everything a client needs to draw the conversation anew."""
        runtime = self._runtime
        conversation = runtime.conversations.get(conversation_id)
        history = runtime.conversations.history(conversation_id, cursor=None, limit=LAST_ITEMS, direction="older")
        record = runtime.turns.active(conversation_id) or runtime.windows.running(conversation_id)
        return wire.Snapshot(
            wire.ActiveTurn(record.turn_id, record.text, record.started_at) if record else None,
            tuple(convert.wire_question(each) for each in runtime.approvals.waiting(conversation_id)),
            tuple(
                wire.QueuedMessage(each.entry_id, each.turn_id, each.text, each.created_at)
                for each in runtime.queue.waiting(conversation_id)
            ),
            convert.wire_usage(conversation.usage),
            wire.ContextUse(conversation.context_used, runtime.context_window(conversation)),
            tuple(convert.items_of(tuple(reversed(history.messages)), history.calls)),
        )

    def _opened(self, conversation: Conversation) -> Reply:
        self._subscribe(conversation.conversation_id)
        return Reply(wire.ConversationResult(self._told(conversation)))

    def _told(self, conversation: Conversation) -> wire.Conversation:
        identifier = conversation.conversation_id
        running = self._runtime.turns.active(identifier) or self._runtime.windows.running(identifier)
        return convert.wire_conversation(conversation, is_running=running is not None)

    def _edited(self, conversation_id: str, edited: Edited) -> Reply:
        calls = self._runtime.conversations.calls(conversation_id, edited.messages)
        items = tuple(convert.items_of(edited.messages, calls))
        return Reply(wire.EditResult(edited.turn_id, items, edited.removed))
