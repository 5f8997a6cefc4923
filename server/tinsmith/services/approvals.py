"""Remembered answers, and the person who can be asked for new ones."""

import logging

import msgspec

from tinsmith.domain.errors import PersistenceError
from tinsmith.domain.ids import now_ms
from tinsmith.domain.policy import PermissionAnswer, PermissionQuestion, Rule
from tinsmith.domain.ports import Prompter
from tinsmith.store import Note, Storage

_log = logging.getLogger(__name__)

NOTE = "permission_rules"
"""The note that holds a conversation's rules."""


class Approvals:
    """The Approvals port: rules of a turn or a conversation, and the questions that wait for an answer.

    A question is stored before it is asked, and leaves the store together with the mark or the end of its call.
    """

    def __init__(self, storage: Storage, prompter: Prompter) -> None:
        self._storage = storage
        self._prompter = prompter
        self._rules: dict[str, tuple[Rule, ...]] = {}
        self._pending: dict[str, PermissionQuestion] = {}

    def rules(self, conversation_id: str) -> tuple[Rule, ...]:
        if conversation_id not in self._rules:
            self._rules[conversation_id] = self._lasting(conversation_id)
        return self._rules[conversation_id]

    @property
    def is_there(self) -> bool:
        return self._prompter.is_there

    async def remember(self, conversation_id: str, rule: Rule) -> None:
        kept = (*self.rules(conversation_id), rule)
        self._rules[conversation_id] = kept
        if rule.scope == "conversation":
            lasting = msgspec.json.encode(tuple(each for each in kept if each.scope == "conversation")).decode()
            await self._storage.write(lambda session: session.notes.put(conversation_id, Note(NOTE, lasting, now_ms())))

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer | None:
        await self._storage.write(lambda session: session.pending.put(question))
        self._pending[question.request_key] = question
        try:
            return await self._prompter.ask(question)
        finally:
            del self._pending[question.request_key]

    def waiting(self, conversation_id: str) -> tuple[PermissionQuestion, ...]:
        """The questions of the conversation that have no answer yet, oldest first."""
        return tuple(each for each in self._pending.values() if each.conversation_id == conversation_id)

    def forget_turn(self, conversation_id: str) -> None:
        """The conversation's turn is over: its rules are too. Those that last are read again when they are needed."""
        self._rules.pop(conversation_id, None)

    def _lasting(self, conversation_id: str) -> tuple[Rule, ...]:
        """The stored rules. Rules that cannot be read do not count: the person is asked again."""
        try:
            note = self._storage.read(lambda session: session.notes.get(conversation_id, NOTE))
            return msgspec.json.decode(note.content, type=tuple[Rule, ...]) if note else ()
        except (PersistenceError, msgspec.DecodeError) as error:
            _log.warning("the permission rules of a conversation cannot be read: %s", type(error).__name__)
            return ()
