"""The editor as the agent needs it: its open documents, its guarded edits, and the person in front of it."""

import asyncio
from collections.abc import Sequence
from typing import cast

import msgspec

from tinsmith.adapters.lsp import wire
from tinsmith.adapters.lsp.convert import wire_question
from tinsmith.adapters.lsp.documents import OpenDocuments
from tinsmith.adapters.lsp.transport import RequestError, Transport
from tinsmith.domain.change import ApplyResult, FileChange, Snapshot
from tinsmith.domain.errors import TransportError
from tinsmith.domain.ids import new_id
from tinsmith.domain.policy import (
    CommandSubject,
    EditSubject,
    NetworkSubject,
    PermissionAnswer,
    PermissionQuestion,
    Subject,
    ToolSubject,
)

APPLY_TIMEOUT = 30.0
"""Seconds an editor may take to apply an edit; it cannot while its user is at a prompt."""
SYNC_TIMEOUT = 2.0
"""Seconds until an applied edit must have come back as a change of the document."""


class Editor:
    """The Documents and the Prompter of a client that speaks `agent/*`; a plain client has neither."""

    def __init__(
        self,
        transport: Transport,
        documents: OpenDocuments,
        capability: wire.AgentCapability | None,
    ) -> None:
        self._transport = transport
        self._documents = documents
        self._can_apply = capability is not None and capability.apply_edits is not None
        self._can_ask = capability is not None and capability.permissions is not None

    def find(self, path: str) -> Snapshot | None:
        return self._documents.snapshot(path)

    def unsaved(self) -> tuple[str, ...]:
        return tuple(path for path, document in self._documents.items() if document.is_dirty)

    async def apply(self, label: str, turn_id: str, changes: Sequence[FileChange]) -> tuple[ApplyResult, ...]:
        if not self._can_apply:
            reason = "this editor cannot apply guarded edits; ask the user to save and close the file, then edit again"
            return tuple(ApplyResult(change.path, "rejected", reason=reason) for change in changes)
        params = wire.ApplyEditsParams(new_id("d"), label, turn_id, tuple(map(self._document_edit, changes)))
        answer = await self._ask_to_apply(params)
        by_uri = {status.uri: status for status in answer.documents}
        return tuple(
            [
                await self._result(change, by_uri.get(edit.uri), is_applied=answer.applied)
                for change, edit in zip(changes, params.documents, strict=True)
            ]
        )

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer | None:
        if not self._can_ask:
            return await self._ask_plainly(question)
        try:
            answer = await self._transport.request(
                "agent/requestPermission", wire_question(question), wire.RequestPermissionResult
            )
        except (RequestError, msgspec.DecodeError):
            return None
        return PermissionAnswer(answer.option_id, answer.feedback)

    async def _ask_plainly(self, question: PermissionQuestion) -> PermissionAnswer | None:
        """As a message with buttons, for an editor that knows no more."""
        by_label = {option.label: option.option_id for option in question.options}
        params = {
            "type": 3,
            "message": f"Tinsmith asks: {question.title}\n\n{_shown(question.subject)}",
            "actions": [{"title": label} for label in by_label],
        }
        try:
            answer = await self._transport.request("window/showMessageRequest", params, _DISMISSIBLE)
        except (RequestError, msgspec.DecodeError):
            return None
        return PermissionAnswer(by_label.get(answer.title, "")) if answer else PermissionAnswer("")

    async def _ask_to_apply(self, params: wire.ApplyEditsParams) -> wire.ApplyEditsResult:
        try:
            return await self._transport.request("agent/applyEdits", params, wire.ApplyEditsResult, APPLY_TIMEOUT)
        except TimeoutError as error:
            raise TransportError(
                "editorSilent",
                f"The editor did not answer an edit within {APPLY_TIMEOUT:.0f} s; whether it was applied is unknown. "
                "Read the file again before the next edit.",
            ) from error
        except (RequestError, msgspec.DecodeError) as error:
            raise TransportError(
                "editorRefused", f"The editor refused the edit: {error}. Nothing was applied."
            ) from error

    def _document_edit(self, change: FileChange) -> wire.DocumentEdit:
        document = self._documents.at(change.path)
        if document is None or change.before is None:
            raise TransportError(
                "notOpen", f"{change.path} was closed in the editor. Read it again and repeat the edit."
            )
        return wire.DocumentEdit(
            document.uri,
            "edit",
            wire.Expectation(hash=change.before.hash, version=change.before.version),
            tuple(wire.TextEdit(document.offset_range(each.start, each.end), each.text) for each in change.changes),
            wire.AfterHash(change.after_hash),
        )

    async def _result(self, change: FileChange, status: wire.DocumentStatus | None, *, is_applied: bool) -> ApplyResult:
        if status is None or not is_applied or status.status != "applied":
            word = status.status if status is not None and status.status in _REFUSALS else "rejected"
            now = self._documents.at(change.path)
            return ApplyResult(change.path, word, now.hash if now else "")  # pyright: ignore[reportArgumentType]
        is_there = await self._arrives(change.path, change.after_hash)
        if not is_there:
            return ApplyResult(change.path, "unverified", status.hash or "", is_dirty=True)
        return ApplyResult(change.path, "applied", change.after_hash, is_dirty=True)

    async def _arrives(self, path: str, expected: str) -> bool:
        """Wait until the document, as the editor tells us, is what the edit made of it."""
        try:
            async with asyncio.timeout(SYNC_TIMEOUT):
                while True:
                    document = self._documents.at(path)
                    if document is None or document.hash == expected:
                        return document is not None
                    await self._documents.changed()
        except TimeoutError:
            return False


def _shown(subject: Subject) -> str:
    match subject:
        case CommandSubject(command):
            return command
        case EditSubject(_, diff):
            return diff
        case NetworkSubject(host):
            return host
        case ToolSubject(name):
            return name


_DISMISSIBLE = cast("type[wire.MessageAction | None]", wire.MessageAction | None)
_REFUSALS = frozenset({"stale", "missing", "readOnly", "rejected", "hashMismatch"})
