"""Our methods, one short function each: decode, one call of the runtime, encode."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any

from tinsmith.adapters.lsp import convert, wire
from tinsmith.adapters.lsp.changes import selection_of, wire_changes, wire_resolution
from tinsmith.adapters.lsp.conversation_methods import ConversationMethods
from tinsmith.adapters.lsp.documents import OpenDocuments
from tinsmith.adapters.lsp.editor import Editor
from tinsmith.adapters.lsp.log import PatientHandler
from tinsmith.adapters.lsp.messages import convert_what_fits
from tinsmith.adapters.lsp.plain import PlainCommands
from tinsmith.adapters.lsp.room import LanguageRoom
from tinsmith.adapters.lsp.router import Notification, Reply, Request, Router
from tinsmith.adapters.lsp.transport import Transport, encode
from tinsmith.domain.errors import AgentError, SchemaError, ToolError
from tinsmith.domain.event import Event
from tinsmith.proc.identity import process_start
from tinsmith.runtime import Runtime, open_runtime
from tinsmith.services.offer import look_around
from tinsmith.services.turns import TurnStart
from tinsmith.workspace.files import read_file
from tinsmith.workspace.paths import path_of_uri

_log = logging.getLogger(__name__)

PARENT_POLL = 2.0
"""Seconds between looks at whether the editor's process still lives."""
_ERROR = 1
"""`MessageType.Error` of LSP."""


def run(opening: dict[str, Any], leftover: bytes, wire_in: int, wire_out: int) -> int:
    """Serve until the client says goodbye or is gone, then end with the exit code of LSP's rule."""
    logging.basicConfig(handlers=[PatientHandler(descriptor=2)])
    code = asyncio.Runner().run(_serve(opening, leftover, wire_in, wire_out))
    logging.shutdown()
    os._exit(code)  # neither a reader blocked on a pipe nor a thread that looks up a name must keep the process


async def _serve(opening: dict[str, Any], leftover: bytes, wire_in: int, wire_out: int) -> int:
    loop = asyncio.get_running_loop()
    params, dropped = convert_what_fits(opening["params"], wire.InitializeParams)
    for path in dropped:
        _log.warning("initialize: %s does not fit and counts as not said", path)
    ended: asyncio.Future[int] = loop.create_future()

    def end(code: int) -> None:
        if not ended.done():
            ended.set_result(code)

    router = Router(end)
    transport = Transport(wire_in, wire_out, receive=router.receive, closed=router.closed, loop=loop)
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, router.closed, f"signal {each.name}")
    documents = OpenDocuments(opening["encoding"])
    editor = Editor(transport, documents, _capability(params))
    settings = params.initialization_options.settings if params.initialization_options else {}
    async with AsyncExitStack() as stack:
        opened = open_runtime(
            epoch=opening["epoch"],
            editor_settings=settings,
            documents=editor,
            prompter=editor,
            diagnostics=editor,
            symbols=editor,
        )
        try:
            runtime = await stack.enter_async_context(opened)
        except AgentError as error:
            _log.error("nothing can be served: %s", error.message)
            router.bar(error, transport)
            transport.start(leftover)
            transport.notify(
                "window/showMessage", {"type": _ERROR, "message": f"{error.message} Then restart Tinsmith."}
            )
            code = await ended
        else:
            methods = Methods(runtime, documents, transport, params)
            if _capability(params) is None:
                commands = PlainCommands(runtime, methods.workspace, transport)
                methods.requests |= LanguageRoom(runtime, opening["params"], commands).requests
            router.open(runtime, transport, methods.requests, methods.notifications)
            transport.start(leftover)
            runtime.spawn(runtime.warm(), "warm up")
            if params.process_id is not None:
                runtime.spawn(_watch_parent(params.process_id, router.closed), "watch the editor")
            code = await ended
            await router.close()
    await loop.run_in_executor(None, transport.close)
    return code


async def _watch_parent(process_id: int, closed: Callable[[str], None]) -> None:
    """An editor that died without closing the pipe is gone all the same."""
    started = process_start(process_id)
    while True:
        await asyncio.sleep(PARENT_POLL)
        if started is None or process_start(process_id) != started:
            closed("the editor's process is gone")
            return


def _capability(params: wire.InitializeParams) -> wire.AgentCapability | None:
    experimental = params.capabilities.experimental
    return experimental.agent if experimental else None


class Methods:
    """The typed table of what a client may send."""

    def __init__(
        self, runtime: Runtime, documents: OpenDocuments, transport: Transport, params: wire.InitializeParams
    ) -> None:
        self.runtime = runtime
        self._documents = documents
        self._transport = transport
        self.workspace = _workspace(params)
        self._subscribed: set[str] = set()
        _pace(runtime, transport, _capability(params) or wire.AgentCapability())
        runtime.journal.subscribe(self._forward)
        conversations = self._conversations = ConversationMethods(runtime, self._path, self._subscribed.add)
        self.requests: dict[str, Request] = {
            "agent/conversationNew": (wire.ConversationNewParams, conversations.new),
            "agent/conversationList": (wire.ConversationListParams, conversations.list),
            "agent/conversationSearch": (wire.ConversationSearchParams, conversations.search),
            "agent/conversationLoad": (wire.ConversationLoadParams, conversations.load),
            "agent/conversationFork": (wire.ConversationForkParams, conversations.fork),
            "agent/conversationRewind": (wire.ConversationRewindParams, conversations.rewind),
            "agent/conversationUnrewind": (wire.ConversationParams, conversations.unrewind),
            "agent/conversationUpdate": (wire.ConversationUpdateParams, conversations.update),
            "agent/conversationClear": (wire.ConversationParams, conversations.clear),
            "agent/conversationDelete": (wire.ConversationParams, conversations.delete),
            "agent/conversationExport": (wire.ConversationExportParams, conversations.export),
            "agent/conversationImport": (wire.ConversationImportParams, conversations.receive),
            "agent/historyRead": (wire.HistoryReadParams, conversations.history_read),
            "agent/runTurn": (wire.RunTurnParams, self.run_turn),
            "agent/turnWait": (wire.TurnWaitParams, self.turn_wait),
            "agent/cancel": (wire.CancelParams, self.cancel),
            "agent/subscribe": (wire.SubscribeParams, self.subscribe),
            "agent/turnChanges": (wire.TurnChangesParams, self.turn_changes),
            "agent/changeResolve": (wire.ChangeResolveParams, self.change_resolve),
            "agent/inspect": (wire.InspectParams, self.inspect),
            "agent/inspectEdit": (wire.InspectEditParams, conversations.edit_message),
            "agent/inspectDelete": (wire.InspectDeleteParams, conversations.delete_message),
            "agent/modelsList": (wire.ModelsListParams, self.models_list),
            "agent/configGet": (wire.ConfigGetParams, self.config_get),
            "agent/configSet": (wire.ConfigSetParams, self.config_set),
            "agent/configUnset": (wire.ConfigUnsetParams, self.config_unset),
        }
        self.notifications: dict[str, Notification] = {
            "textDocument/didOpen": (wire.DidOpenParams, self.did_open),
            "textDocument/didChange": (wire.DidChangeParams, self.did_change),
            "textDocument/didClose": (wire.DidCloseParams, lambda p: documents.close(p.text_document.uri)),
            "textDocument/didSave": (wire.DidSaveParams, lambda p: documents.save(p.text_document.uri)),
            "workspace/didChangeConfiguration": (wire.DidChangeConfigurationParams, self.did_change_configuration),
            "workspace/didChangeWorkspaceFolders": (dict[str, Any], lambda _: None),
            "initialized": (dict[str, Any], lambda _: None),
        }

    async def run_turn(self, params: wire.RunTurnParams) -> Reply:
        accepted = await self.runtime.turns.accept(
            TurnStart(
                workspace=self._path(params.workspace),
                parts=convert.parts_of(params),
                conversation_id=params.conversation_id or "",
                turn_id=params.turn_id or "",
                mode=params.mode,
                role=params.role or "",
                model=params.model or "",
                overrides=params.overrides,
            )
        )
        self._subscribed.add(accepted.conversation_id)
        result = wire.RunTurnResult(accepted.conversation_id, accepted.turn_id, accepted.disposition, accepted.seq)
        return Reply(result, after=lambda: self.runtime.turns.begin(accepted.turn_id))

    async def turn_wait(self, params: wire.TurnWaitParams) -> Reply:
        timeout = None if params.timeout_ms is None else params.timeout_ms / 1000
        try:
            record = await self.runtime.turns.wait(params.turn_id, timeout)
        except TimeoutError as error:
            raise SchemaError("timeout", "The turn has not ended yet. Wait again.") from error
        head = (record.conversation_id, self.runtime.journal.epoch, 0, record.ended_at, record.turn_id)
        return Reply(convert.turn_ended(record, head))

    async def cancel(self, params: wire.CancelParams) -> Reply:
        state = self.runtime.turns.cancel(params.conversation_id or "", params.turn_id or "", params.call_id or "")
        return Reply(wire.CancelResult(state))

    async def subscribe(self, params: wire.SubscribeParams) -> Reply:
        identifier, journal = params.conversation_id, self.runtime.journal
        self.runtime.conversations.get(identifier)
        self._subscribed.add(identifier)
        self.runtime.windows.follow(identifier)
        self.runtime.windows.tell(identifier)
        missed = journal.since(identifier, params.after_seq or 0) if params.epoch in {None, journal.epoch} else None
        seq = journal.seq(identifier)
        if params.after_seq is None:
            return Reply(wire.SubscribeResult(journal.epoch, seq))
        if missed is None:
            return Reply(
                wire.SubscribeResult(journal.epoch, seq, resync=True, snapshot=self._conversations.snapshot(identifier))
            )
        return Reply(wire.SubscribeResult(journal.epoch, seq), after=lambda: self._forward_all(missed))

    async def turn_changes(self, params: wire.TurnChangesParams) -> Reply:
        changes = await self.runtime.changes.of_turns(params.conversation_id, params.turn_id or "")
        return Reply(wire.TurnChangesResult(wire_changes(changes)))

    async def change_resolve(self, params: wire.ChangeResolveParams) -> Reply:
        changes = self.runtime.changes
        return Reply(
            wire_resolution(await changes.resolve(params.conversation_id, selection_of(params), params.action))
        )

    async def inspect(self, params: wire.InspectParams) -> Reply:
        if params.what == "config":
            return Reply(self._config(None))
        identifier = params.conversation_id or self.runtime.conversations.active(self.workspace) or ""
        return Reply(await self.runtime.inspect(params.what, identifier))

    async def models_list(self, params: wire.ModelsListParams) -> Reply:
        runtime = self.runtime
        model = runtime.conversations.get(params.conversation_id).model if params.conversation_id else ""
        found = await look_around(
            runtime.models, runtime.settings.effective, os.environ, override=model, is_fresh=params.refresh
        )
        return Reply(convert.wire_offer(found))

    async def config_get(self, params: wire.ConfigGetParams) -> Reply:
        return Reply(self._config(params.path))

    async def config_set(self, params: wire.ConfigSetParams) -> Reply:
        await self.runtime.settings.set(params.path, params.value, params.expected_version)
        return Reply(self._config(None))

    async def config_unset(self, params: wire.ConfigUnsetParams) -> Reply:
        await self.runtime.settings.unset(params.path)
        return Reply(self._config(None))

    def did_open(self, params: wire.DidOpenParams) -> None:
        self._documents.open(params.text_document)
        self.runtime.spawn(self._compare_with_disk(params.text_document.uri), "compare with disk")

    async def _compare_with_disk(self, uri: str) -> None:
        """A buffer may have been unsaved before it was shown to us."""
        path = path_of_uri(uri)
        try:
            saved = (await self.runtime.off_loop(lambda: read_file(os.path.realpath(path)))).hash if path else ""
        except ToolError:
            saved = ""
        document = self._documents.get(uri)
        if document is not None and document.saved_hash is None:
            document.saved_hash = saved

    def did_change(self, params: wire.DidChangeParams) -> None:
        document = params.text_document
        if not self._documents.change(document.uri, document.version, params.content_changes):
            _log.warning("a change of a document that is not open, or of an older version")

    def did_change_configuration(self, params: wire.DidChangeConfigurationParams) -> None:
        if params.settings is not None:
            self.runtime.spawn(self.runtime.settings.set_editor(params.settings.tinsmith), "editor's settings")

    def _forward_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self._forward(event)

    def _forward(self, event: Event) -> None:
        """Send an event to the client, when it follows the conversation."""
        if event.conversation_id not in self._subscribed:
            return
        message = convert.wire_event(event, self.runtime.journal.epoch)
        if message is not None:
            self._transport.send_body(_EVENT_HEAD + encode(message) + b"}")

    def _config(self, path: str | None) -> wire.ConfigResult:
        settings = self.runtime.settings
        return wire.ConfigResult(
            settings.tree(path),
            {name: tree for name, tree in settings.effective.layers.items() if name != "defaults"},
            tuple(
                wire.ConfigOption(leaf.path, leaf.value, leaf.layer, leaf.is_overridable)
                for leaf in settings.leaves(path)
            ),
            settings.effective.version,
            tuple(problem.text for problem in settings.effective.problems),
        )

    def _path(self, uri: str | None) -> str:
        """The directory a client names, by URI or path; its workspace when it names none. Raises SchemaError."""
        path = (path_of_uri(uri) or uri) if uri else self.workspace
        if not os.path.isabs(path) or "\0" in path:
            raise SchemaError(
                "invalidParams",
                f"Name a directory by file URI or absolute path, not {uri!r}.",
                data={"path": "workspace"},
            )
        return path


_EVENT_HEAD = b'{"jsonrpc":"2.0","method":"agent/event","params":'


def _workspace(params: wire.InitializeParams) -> str:
    folders = params.workspace_folders or ()
    uri = folders[0].uri if folders else params.root_uri
    return os.path.abspath((path_of_uri(uri) if uri else None) or params.root_path or "")


def _pace(runtime: Runtime, transport: Transport, capability: wire.AgentCapability) -> None:
    """Deltas leave at once; joined to the client's `maxHz`, and while it reads slower than we write."""
    slow = 1 / capability.stream.max_hz if capability.stream.max_hz else 0.0
    runtime.journal.pace = lambda: max(slow, 0.05 if transport.is_congested else 0.0)
    runtime.journal.muted = frozenset(kind for name, kind in convert.WIRE_OF.items() if name in capability.opt_out)
