"""The editor as the agent needs it: its open documents, its guarded edits, and the person in front of it."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TypeVar, cast, get_args

import msgspec

from tinsmith.adapters.lsp import wire
from tinsmith.adapters.lsp.convert import document_diagnostics, wire_question
from tinsmith.adapters.lsp.documents import OpenDocuments
from tinsmith.adapters.lsp.symbols import outline_of, placed_symbol
from tinsmith.adapters.lsp.transport import RequestError, Transport
from tinsmith.domain.change import ApplyResult, ApplyStatus, FileChange, Refreshed, Snapshot
from tinsmith.domain.diagnostic import DocumentDiagnostics
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
from tinsmith.domain.symbol import PlacedSymbol, Symbol
from tinsmith.workspace.paths import uri_of_path

Answered = TypeVar("Answered")

APPLY_TIMEOUT = 30.0
"""Seconds an editor may take to apply an edit; it cannot while its user is at a prompt."""
RELOAD_TIMEOUT = 5.0
"""Seconds an editor may take to read a file again."""
ANSWER_GRACE = 0.3
"""Seconds that an editor has beyond those it was told to wait."""
SYNC_TIMEOUT = 1.0
"""Seconds until an applied edit must have come back as a change of the document."""


class Editor:
    """The Documents, the Diagnostics, the Symbols and the Prompter of a client.

    One that speaks `agent/applyEdits` compares the hashes itself; for any other `workspace/applyEdit` is
    followed by a look at what came of it, because its `applied: true` proves nothing.
    """

    is_there = True

    def __init__(self, transport: Transport, documents: OpenDocuments, capability: wire.AgentCapability | None) -> None:
        self._transport = transport
        self._documents = documents
        self._capability = capability or wire.AgentCapability()

    def find(self, path: str) -> Snapshot | None:
        return self._documents.snapshot(path)

    def unsaved(self) -> tuple[str, ...]:
        return tuple(path for path, document in self._documents.items() if document.is_dirty)

    def open_paths(self) -> tuple[str, ...]:
        return tuple(path for path, _ in self._documents.items())

    async def refresh(self, disk_hashes: Mapping[str, str]) -> Refreshed:
        reloaded: list[str] = []
        outdated: list[str] = []
        conflicting: list[str] = []
        for path, document in self._documents.items():
            disk_hash = disk_hashes.get(path)
            if disk_hash is None or disk_hash in {document.hash, document.saved_hash}:
                continue
            if document.is_dirty:
                conflicting.append(path)
            elif await self._reload(path, document.uri, disk_hash):
                reloaded.append(path)
            else:
                outdated.append(path)
            document.saved_hash = disk_hash
        return Refreshed(tuple(reloaded), tuple(outdated), tuple(conflicting))

    @property
    def has_diagnostics(self) -> bool:
        return self._capability.diagnostics is not None

    async def diagnose(
        self, paths: Sequence[str], min_versions: Mapping[str, int], wait: float
    ) -> tuple[DocumentDiagnostics, ...]:
        if not self.has_diagnostics:
            return ()
        versions = {self._uri(path): version for path, version in min_versions.items()}
        params = wire.DiagnosticsParams(tuple(map(self._uri, paths)), versions, round(wait * 1000))
        try:
            answer = await self._transport.request(
                "agent/diagnostics", params, wire.DiagnosticsResult, wait + ANSWER_GRACE
            )
        except (RequestError, TimeoutError, msgspec.DecodeError):
            return ()
        return tuple(map(document_diagnostics, answer.documents))

    @property
    def has_symbols(self) -> bool:
        return self._capability.symbols is not None

    async def outline(self, path: str, version: int, wait: float) -> tuple[Symbol, ...]:
        answer = await self._ask_symbols(wire.SymbolsParams(round(wait * 1000), uri=self._uri(path)))
        return outline_of(answer.symbols) if answer.version == version else ()

    async def named(self, name: str, wait: float) -> tuple[PlacedSymbol, ...]:
        answer = await self._ask_symbols(wire.SymbolsParams(round(wait * 1000), query=name))
        return tuple(each for each in map(placed_symbol, answer.symbols) if each is not None)

    async def apply(self, label: str, turn_id: str, changes: Sequence[FileChange]) -> tuple[ApplyResult, ...]:
        if self._capability.apply_edits is None:
            return await self._apply_plainly(label, changes)
        edits = tuple(map(self._document_edit, changes))
        params = wire.ApplyEditsParams(new_id("d"), label, turn_id, edits)
        answer = await self._ask_to_apply("agent/applyEdits", params, wire.ApplyEditsResult)
        by_uri = {status.uri: status for status in answer.documents}
        results: list[ApplyResult] = []
        for change, edit in zip(changes, edits, strict=True):
            status = by_uri.get(edit.uri)
            if answer.applied and status is not None and status.status == "applied":
                results.append(await self._verified(change))
            else:
                results.append(self._refused(change, status.status if status else "rejected"))
        return tuple(results)

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer | None:
        if self._capability.permissions is None:
            return await self._ask_plainly(question)
        try:
            answer = await self._transport.request(
                "agent/requestPermission", wire_question(question), wire.RequestPermissionResult
            )
        except (RequestError, msgspec.DecodeError):
            return None
        return PermissionAnswer(answer.option_id, answer.feedback)

    async def _ask_symbols(self, params: wire.SymbolsParams) -> wire.SymbolsResult:
        if not self.has_symbols:
            return wire.SymbolsResult()
        try:
            return await self._transport.request(
                "agent/symbols", params, wire.SymbolsResult, params.wait_ms / 1000 + ANSWER_GRACE
            )
        except (RequestError, TimeoutError, msgspec.DecodeError):
            return wire.SymbolsResult()

    async def _reload(self, path: str, uri: str, disk_hash: str) -> bool:
        """Whether the editor has read the file again and says so by a change of the document."""
        if self._capability.reload_document is None:
            return await self._arrives(path, disk_hash)
        params = wire.ReloadDocumentParams(uri, disk_hash)
        try:
            answer = await self._transport.request(
                "agent/reloadDocument", params, wire.ReloadDocumentResult, RELOAD_TIMEOUT
            )
        except (RequestError, TimeoutError, msgspec.DecodeError):
            return False
        return answer.reloaded and await self._arrives(path, disk_hash)

    async def _apply_plainly(self, label: str, changes: Sequence[FileChange]) -> tuple[ApplyResult, ...]:
        edits = tuple(map(self._document_edit, changes))
        documents = tuple(
            wire.TextDocumentEdit(wire.VersionedIdentifier(edit.uri, edit.expect.version), edit.edits) for edit in edits
        )
        params = wire.ApplyEditParams(label, wire.WorkspaceEdit(documents))
        answer = await self._ask_to_apply("workspace/applyEdit", params, wire.ApplyEditResult)
        if not answer.applied:
            return tuple(self._refused(change, "rejected", answer.failure_reason) for change in changes)
        return tuple([await self._verified(change) for change in changes])

    async def _ask_plainly(self, question: PermissionQuestion) -> PermissionAnswer | None:
        """As a message with buttons, for an editor that knows no more."""
        by_label = {option.label: option.option_id for option in question.options}
        params = {
            "type": 3,
            "message": "\n\n".join((f"Tinsmith asks: {question.title}", _shown(question.subject), *question.notes)),
            "actions": [{"title": label} for label in by_label],
        }
        try:
            answer = await self._transport.request("window/showMessageRequest", params, _DISMISSIBLE)
        except (RequestError, msgspec.DecodeError):
            return None
        return PermissionAnswer(by_label.get(answer.title, "") if answer else "")

    async def _ask_to_apply(self, method: str, params: object, result_type: type[Answered]) -> Answered:
        try:
            return await self._transport.request(method, params, result_type, APPLY_TIMEOUT)
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

    def _uri(self, path: str) -> str:
        document = self._documents.at(path)
        return document.uri if document else uri_of_path(path)

    def _refused(self, change: FileChange, status: str, reason: str = "") -> ApplyResult:
        known = cast("ApplyStatus", status) if status in get_args(ApplyStatus) else "rejected"
        document = self._documents.at(change.path)
        return ApplyResult(change.path, known, document.hash if document else "", reason=reason)

    async def _verified(self, change: FileChange) -> ApplyResult:
        """What an edit that the editor calls applied came to, as far as the document itself tells."""
        is_there = await self._arrives(change.path, change.after_hash)
        document = self._documents.at(change.path)
        found = document.hash if document else ""
        return ApplyResult(change.path, "applied" if is_there else "unverified", found, is_dirty=True)

    async def _arrives(self, path: str, expected: str) -> bool:
        """Wait until the document, as the editor tells us, has this hash."""
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
        case CommandSubject(command, sandbox=sandbox):
            return f"{command}\n\nsandbox: {sandbox}" if sandbox else command
        case EditSubject(_, diff):
            return diff
        case NetworkSubject(host):
            return host
        case ToolSubject(name):
            return name


_DISMISSIBLE = cast("type[wire.MessageAction | None]", wire.MessageAction | None)
