"""Every message of the `agent/*` protocol as a typed struct: the source of protocol.md and of the clients' types.

Fields are camelCase on the wire. Absent means unchanged, null means clear. Unknown fields and
unknown enum values are accepted from a client; open enums are plain strings here.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from tinsmith.domain.errors import ErrorRecord

PROTOCOL_VERSION = 1


class Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base of every message: camelCase, defaults left out."""


# LSP's own shapes


class Position(Wire, frozen=True, omit_defaults=False):
    line: int
    character: int


class Range(Wire, frozen=True, omit_defaults=False):
    start: Position
    end: Position


class TextEdit(Wire, frozen=True, omit_defaults=False):
    range: Range
    new_text: str


class TextDocumentItem(Wire, frozen=True):
    uri: str
    version: int
    text: str
    language_id: str = ""


class TextDocumentIdentifier(Wire, frozen=True):
    uri: str
    version: int | None = None


class ContentChange(Wire, frozen=True):
    text: str
    range: Range | None = None


class DidOpenParams(Wire, frozen=True):
    text_document: TextDocumentItem


class DidChangeParams(Wire, frozen=True):
    text_document: TextDocumentIdentifier
    content_changes: tuple[ContentChange, ...]


class DidCloseParams(Wire, frozen=True):
    text_document: TextDocumentIdentifier


class DidSaveParams(Wire, frozen=True):
    text_document: TextDocumentIdentifier


class CancelRequestParams(Wire, frozen=True):
    id: int | str


class EditorSettings(Wire, frozen=True):
    tinsmith: dict[str, Any] = {}


class DidChangeConfigurationParams(Wire, frozen=True):
    settings: EditorSettings | None = None


class WorkspaceFolder(Wire, frozen=True):
    uri: str
    name: str = ""


# initialize


class StreamCapability(Wire, frozen=True):
    max_hz: float | None = None


class AgentCapability(Wire, frozen=True):
    """`capabilities.experimental.agent` of a client. Object markers say what it can do."""

    versions: tuple[int, ...] = (1,)
    apply_edits: dict[str, Any] | None = None
    permissions: dict[str, Any] | None = None
    reload_document: dict[str, Any] | None = None
    diagnostics: dict[str, Any] | None = None
    symbols: dict[str, Any] | None = None
    stream: StreamCapability = StreamCapability()
    opt_out: tuple[str, ...] = ()


class ExperimentalCapabilities(Wire, frozen=True):
    agent: AgentCapability | None = None


class GeneralCapabilities(Wire, frozen=True):
    position_encodings: tuple[str, ...] = ()


class ClientCapabilities(Wire, frozen=True):
    experimental: ExperimentalCapabilities | None = None
    general: GeneralCapabilities | None = None


class InitializationOptions(Wire, frozen=True):
    settings: dict[str, Any] = {}


class InitializeParams(Wire, frozen=True):
    process_id: int | None = None
    root_uri: str | None = None
    root_path: str | None = None
    workspace_folders: tuple[WorkspaceFolder, ...] | None = None
    capabilities: ClientCapabilities = ClientCapabilities()
    initialization_options: InitializationOptions | None = None


# values that several messages share


class Usage(Wire, frozen=True, omit_defaults=False):
    """Tokens, as the provider counted them."""

    input: int = 0
    output: int = 0
    total: int = 0
    cached: int = 0
    reasoning: int = 0


class ContextUse(Wire, frozen=True, omit_defaults=False):
    """How full the model's context is, in tokens."""

    used: int
    size: int


class Location(Wire, frozen=True):
    uri: str
    range: Range | None = None


class FileDiff(Wire, frozen=True, omit_defaults=False):
    """One changed file; `added` and `removed` count lines."""

    uri: str
    op: str
    added: int
    removed: int
    before_hash: str
    after_hash: str


class Image(Wire, frozen=True, omit_defaults=False):
    """An image of a message: SHA-256 of its bytes, how many they are, pixels."""

    hash: str
    mime_type: str
    size: int
    width: int
    height: int


class UserItem(Wire, frozen=True, tag_field="kind", tag="user"):
    """What a person said."""

    item_id: str
    turn_id: str
    text: str
    ts: int
    steering: bool = False
    images: tuple[Image, ...] = ()


class AssistantItem(Wire, frozen=True, tag_field="kind", tag="assistant"):
    """One answer of the model, whole. `marks` may hold `cancelled`: only a part came."""

    item_id: str
    turn_id: str
    text: str
    ts: int
    reasoning: str = ""
    call_ids: tuple[str, ...] = ()
    model: str = ""
    marks: tuple[str, ...] = ()
    withdrawn: bool = False


class ToolItem(Wire, frozen=True, tag_field="kind", tag="tool"):
    """One call and, once it has ended, its result."""

    item_id: str
    turn_id: str
    call_id: str
    name: str
    title: str
    status: str
    ts: int
    args: Any = None
    result: str | None = None
    mutation_state: str = "none"


Item = UserItem | AssistantItem | ToolItem


class Conversation(Wire, frozen=True):
    conversation_id: str
    workspace: str
    created_at: int
    updated_at: int
    title: str = ""
    role: str = ""
    model: str = ""
    state: str = "idle"
    archived: bool = False
    parent: str = ""


class ActiveTurn(Wire, frozen=True, omit_defaults=False):
    turn_id: str
    text: str
    started_at: int


class Shown(Wire, frozen=True):
    success: bool = False


class MessageAction(Wire, frozen=True):
    title: str = ""


class PermissionOption(Wire, frozen=True):
    """`rule` is the exact text of what would be remembered."""

    option_id: str
    kind: Literal["allow", "deny", "cancelTurn"]
    scope: str
    label: str
    rule: str | None = None


class CommandSubject(Wire, frozen=True, tag_field="type", tag="command"):
    command: str
    cwd: str
    class_: str = msgspec.field(name="class", default="unknown")
    sandbox: str = ""


class EditSubject(Wire, frozen=True, tag_field="type", tag="edit"):
    files: tuple[FileDiff, ...]
    diff: str


class NetworkSubject(Wire, frozen=True, tag_field="type", tag="network"):
    host: str


class ToolSubject(Wire, frozen=True, tag_field="type", tag="tool"):
    name: str
    args: dict[str, Any]


class RequestPermissionParams(Wire, frozen=True):
    """`agent/requestPermission`: a person is asked before a call runs."""

    request_key: str
    conversation_id: str
    turn_id: str
    call_id: str
    title: str
    subject: CommandSubject | EditSubject | NetworkSubject | ToolSubject
    options: tuple[PermissionOption, ...]
    notes: tuple[str, ...] = ()


class RequestPermissionResult(Wire, frozen=True):
    option_id: str = ""
    feedback: str = ""


class Expectation(Wire, frozen=True):
    """What must be true of a document for its edit to be applied."""

    exists: bool = True
    hash: str | None = None
    version: int | None = None


class AfterHash(Wire, frozen=True):
    hash: str


class BeforeImage(Wire, frozen=True, omit_defaults=False):
    """A file at the start of a turn: its text or, where that would be too much, the name of its blob."""

    hash: str
    text: str | UnsetType = UNSET
    blob: str | UnsetType = UNSET


class Hunk(Wire, frozen=True, omit_defaults=False):
    """Whole lines that the agent changed."""

    hunk_id: str
    state: str
    before_range: Range
    after_range: Range | UnsetType = UNSET


class Change(Wire, frozen=True, omit_defaults=False):
    """All that a turn did to one file."""

    change_id: str
    turn_id: str
    uri: str
    op: str
    before: BeforeImage
    after: AfterHash
    current_hash: str
    hunks: tuple[Hunk, ...]
    partial: bool = False


class Refusal(Wire, frozen=True):
    """Why a hunk, or without one a change, was left as it is."""

    code: str
    message: str
    change_id: str | UnsetType = UNSET
    hunk_id: str | UnsetType = UNSET


class DocumentEdit(Wire, frozen=True, omit_defaults=False):
    uri: str
    op: Literal["edit", "create", "delete", "rename"]
    expect: Expectation
    edits: tuple[TextEdit, ...]
    after: AfterHash
    save: Literal["never", "ifClean"] = "never"


class ApplyEditsParams(Wire, frozen=True, omit_defaults=False):
    """`agent/applyEdits`: the client compares every hash, then applies all documents in one tick or none."""

    edit_id: str
    label: str
    turn_id: str
    documents: tuple[DocumentEdit, ...]
    atomic: bool = True


class DocumentStatus(Wire, frozen=True):
    uri: str
    status: str
    version: int | None = None
    hash: str | None = None
    dirty: bool = False


class ApplyEditsResult(Wire, frozen=True):
    applied: bool
    documents: tuple[DocumentStatus, ...] = ()


class ReloadDocumentParams(Wire, frozen=True, omit_defaults=False):
    """`agent/reloadDocument`: the file of an open document has this text now; a clean document is read again."""

    uri: str
    disk_hash: str


class ReloadDocumentResult(Wire, frozen=True):
    reloaded: bool = False


class DiagnosticsParams(Wire, frozen=True, omit_defaults=False):
    """`agent/diagnostics`: what the client's own language servers say of these documents, all of them for none."""

    uris: tuple[str, ...]
    min_versions: dict[str, int]
    wait_ms: int


class Diagnostic(Wire, frozen=True):
    range: Range
    message: str
    severity: int | None = None
    code: int | str | None = None
    source: str | None = None


class DocumentDiagnostics(Wire, frozen=True):
    uri: str
    version: int | None = None
    items: tuple[Diagnostic, ...] = ()


class DiagnosticsResult(Wire, frozen=True):
    documents: tuple[DocumentDiagnostics, ...] = ()


class SymbolsParams(Wire, frozen=True):
    """`agent/symbols`: what the client's own language servers know, of a name or of one document."""

    wait_ms: int
    query: str | None = None
    uri: str | None = None


class Symbol(Wire, frozen=True):
    """Lines are numbered from 0, both included, as in LSP's FoldingRange."""

    uri: str
    name: str
    kind: int
    start_line: int
    end_line: int
    container_name: str = ""


class SymbolsResult(Wire, frozen=True):
    symbols: tuple[Symbol, ...] = ()
    version: int | None = None


class VersionedIdentifier(Wire, frozen=True, omit_defaults=False):
    uri: str
    version: int | None


class TextDocumentEdit(Wire, frozen=True, omit_defaults=False):
    text_document: VersionedIdentifier
    edits: tuple[TextEdit, ...]


class WorkspaceEdit(Wire, frozen=True, omit_defaults=False):
    document_changes: tuple[TextDocumentEdit, ...]


class ApplyEditParams(Wire, frozen=True, omit_defaults=False):
    """LSP's own `workspace/applyEdit`, for a client without `agent/applyEdits`."""

    label: str
    edit: WorkspaceEdit


class ApplyEditResult(Wire, frozen=True):
    applied: bool = False
    failure_reason: str = ""


class QueuedMessage(Wire, frozen=True):
    entry_id: str
    turn_id: str
    text: str
    ts: int


class Snapshot(Wire, frozen=True, omit_defaults=False):
    """Everything a client needs to draw a conversation anew."""

    active_turn: ActiveTurn | None
    pending: tuple[RequestPermissionParams, ...]
    queue: tuple[QueuedMessage, ...]
    usage: Usage
    context: ContextUse
    last_items: tuple[Item, ...]


# client → server


class ConversationNewParams(Wire, frozen=True):
    workspace: str | None = None
    title: str = ""
    role: str = ""
    model: str = ""


class ConversationResult(Wire, frozen=True):
    conversation: Conversation


class ConversationListParams(Wire, frozen=True):
    workspace: str | None = None
    query: str = ""
    archived: bool = False
    cursor: str | None = None
    limit: int = 50


class ConversationListResult(Wire, frozen=True, omit_defaults=False):
    conversations: tuple[Conversation, ...]
    next_cursor: str | UnsetType = UNSET


class ConversationSearchParams(Wire, frozen=True):
    query: str
    workspace: str | None = None
    limit: int = 20


class SnippetPart(Wire, frozen=True):
    text: str
    hit: bool = False


class SearchHit(Wire, frozen=True, omit_defaults=False):
    """A message that was found."""

    conversation_id: str
    message_id: str
    kind: Literal["user", "assistant", "tool"]
    created_at: int
    workspace: str
    title: str
    snippet: tuple[SnippetPart, ...]
    score: float


class ConversationSearchResult(Wire, frozen=True, omit_defaults=False):
    hits: tuple[SearchHit, ...]
    unindexed: int = 0


class ConversationLoadParams(Wire, frozen=True):
    conversation_id: str | None = None
    take_over: bool | None = None


class Holder(Wire, frozen=True):
    """The other process that runs a conversation."""

    pid: int
    asked: bool = False


class ConversationLoadResult(Wire, frozen=True, omit_defaults=False):
    conversation: Conversation
    snapshot: Snapshot
    epoch: str
    seq: int
    held_by: Holder | UnsetType = UNSET


class ConversationForkParams(Wire, frozen=True):
    conversation_id: str
    through_turn_id: str | None = None


class ConversationRewindParams(Wire, frozen=True):
    conversation_id: str
    to_turn_id: str | None
    dry_run: bool = False


class RemovedTurn(Wire, frozen=True):
    turn_id: str
    text: str
    started_at: int
    outcome: str = ""


class ConversationRewindResult(Wire, frozen=True, omit_defaults=False):
    removed_turns: tuple[RemovedTurn, ...]


class ConversationParams(Wire, frozen=True):
    conversation_id: str


class ConversationUpdateParams(Wire, frozen=True):
    conversation_id: str
    title: str | UnsetType | None = UNSET
    archived: bool | None = None


class Done(Wire, frozen=True):
    """Nothing to say but that it is done."""


class ConversationExportParams(Wire, frozen=True):
    conversation_id: str
    format: Literal["markdown", "jsonl"] = "markdown"


class ConversationExportResult(Wire, frozen=True):
    text: str


class ConversationImportParams(Wire, frozen=True):
    text: str
    workspace: str | None = None


class HistoryReadParams(Wire, frozen=True):
    conversation_id: str
    cursor: str | None = None
    limit: int = 50
    direction: Literal["older", "newer"] = "older"


class HistoryReadResult(Wire, frozen=True, omit_defaults=False):
    items: tuple[Item, ...]
    next_cursor: str | UnsetType = UNSET


class TextInput(Wire, frozen=True, tag_field="type", tag="text"):
    text: str


class MentionInput(Wire, frozen=True, tag_field="type", tag="mention"):
    uri: str
    range: Range | None = None


class SelectionInput(Wire, frozen=True, tag_field="type", tag="selection"):
    uri: str
    text: str
    range: Range | None = None
    version: int | None = None
    hash: str | None = None


class ResourceInput(Wire, frozen=True, tag_field="type", tag="resource"):
    uri: str
    text: str


class ImageInput(Wire, frozen=True, tag_field="type", tag="image"):
    """Either `data`, in base64, or a `file:` URI. What kind it is, the bytes say."""

    data: str | None = None
    uri: str | None = None
    mime_type: str | None = None


InputPart = TextInput | MentionInput | SelectionInput | ResourceInput | ImageInput


class OpenDocument(Wire, frozen=True):
    uri: str
    version: int | None = None
    hash: str | None = None
    dirty: bool = False


class TurnContext(Wire, frozen=True):
    """What the person is looking at; stored with the message as facts of the moment."""

    focus: str | None = None
    open: tuple[OpenDocument, ...] = ()


class RunTurnParams(Wire, frozen=True):
    conversation_id: str | None = None
    turn_id: str | None = None
    text: str = ""
    input: tuple[InputPart, ...] = ()
    context: TurnContext | None = None
    mode: Literal["start", "steer", "steerOrStart"] = "start"
    role: str | None = None
    model: str | None = None
    overrides: dict[str, Any] = {}
    workspace: str | None = None


class RunTurnResult(Wire, frozen=True, omit_defaults=False):
    conversation_id: str
    turn_id: str
    disposition: Literal["started", "steered"]
    seq: int


class TurnWaitParams(Wire, frozen=True):
    turn_id: str
    timeout_ms: int | None = None


class CancelParams(Wire, frozen=True):
    conversation_id: str | None = None
    turn_id: str | None = None
    call_id: str | None = None


class CancelResult(Wire, frozen=True):
    state: Literal["cancelling", "ended"]


class SubscribeParams(Wire, frozen=True):
    conversation_id: str
    epoch: str | None = None
    after_seq: int | None = None


class SubscribeResult(Wire, frozen=True):
    epoch: str
    seq: int
    resync: bool = False
    snapshot: Snapshot | None = None


class TurnChangesParams(Wire, frozen=True):
    conversation_id: str
    turn_id: str | None = None


class TurnChangesResult(Wire, frozen=True, omit_defaults=False):
    changes: tuple[Change, ...]


class ChangeResolveParams(Wire, frozen=True):
    conversation_id: str
    action: Literal["keep", "undo"]
    change_ids: tuple[str, ...] = ()
    hunk_ids: tuple[str, ...] = ()
    turn_id: str | None = None


class ChangeResolveResult(Wire, frozen=True, omit_defaults=False):
    changes: tuple[Change, ...]
    refused: tuple[Refusal, ...]


class InspectParams(Wire, frozen=True):
    what: str
    conversation_id: str | None = None


class InspectEditParams(Wire, frozen=True):
    conversation_id: str
    message_id: str
    text: str


class InspectDeleteParams(Wire, frozen=True):
    conversation_id: str
    message_id: str


class EditResult(Wire, frozen=True, omit_defaults=False):
    """What a change of the transcript left of its turn."""

    turn_id: str
    items: tuple[Item, ...]
    removed: tuple[str, ...]


class ConfigGetParams(Wire, frozen=True):
    path: str | None = None


class ConfigSetParams(Wire, frozen=True):
    path: str
    value: Any
    expected_version: int | None = None


class ConfigUnsetParams(Wire, frozen=True):
    path: str


class ConfigOption(Wire, frozen=True, omit_defaults=False):
    """One leaf: its value, the layer it comes from, and whether `configSet` may change it."""

    path: str
    value: Any
    layer: str
    overridable: bool


class ConfigResult(Wire, frozen=True, omit_defaults=False):
    values: dict[str, Any]
    layers: dict[str, Any]
    options: tuple[ConfigOption, ...]
    version: int
    problems: tuple[str, ...] = ()


class ModelsListParams(Wire, frozen=True):
    refresh: bool = False
    conversation_id: str | None = None


class ListedModel(Wire, frozen=True):
    """One model of the configured provider; sizes in tokens, left out when nobody says them."""

    id: str
    name: str
    source: Literal["provider", "family"]
    context_window: int | None = None
    max_output_tokens: int | None = None
    tags: tuple[str, ...] = ()


class ChosenModel(Wire, frozen=True):
    """The model that a turn would use."""

    id: str
    key: str
    reason: str
    context_window: int
    max_output_tokens: int | None = None


class FoundWay(Wire, frozen=True):
    """Another way to a model: a provider whose key is in the environment, or a local server that answers."""

    name: str
    base_url: str
    dialect: str
    reason: str
    model: str | None = None
    key_env: str | None = None


class ModelsListResult(Wire, frozen=True, omit_defaults=False):
    models: tuple[ListedModel, ...]
    chosen: ChosenModel | None
    ways: tuple[FoundWay, ...]
    problems: tuple[str, ...]


# server → client: the one notification


class AgentEvent(Wire, frozen=True):
    """Envelope of `agent/event`: `seq` is gap-free per conversation within one `epoch`; `ts` in milliseconds."""

    conversation_id: str
    epoch: str
    seq: int
    ts: int


class TurnEvent(AgentEvent, frozen=True):
    """Envelope of an event of a turn."""

    turn_id: str


class TurnStarted(TurnEvent, frozen=True, tag_field="type", tag="turnStarted"):
    """First event of its turn."""

    item_id: str
    text: str
    model: str
    role: str
    images: tuple[Image, ...] = ()


class TextDelta(TurnEvent, frozen=True, tag_field="type", tag="textDelta", omit_defaults=False):
    """`offset` counts the code points of the item's text that came before."""

    item_id: str
    offset: int
    text: str


class ReasoningDelta(TurnEvent, frozen=True, tag_field="type", tag="reasoningDelta", omit_defaults=False):
    """As textDelta, for the item's reasoning."""

    item_id: str
    offset: int
    text: str


class ToolUpdated(TurnEvent, frozen=True, tag_field="type", tag="toolUpdated"):
    """Upsert of a call.

    Its status only moves forward: pending, awaitingApproval, running, then one of completed, failed, declined,
    cancelled. Once it may go back from running to awaitingApproval, to run again with what it lacked.
    """

    item_id: str
    call_id: str
    name: str
    status: str
    title: str = ""
    args: Any | UnsetType = UNSET
    locations: tuple[Location, ...] = ()
    result: str | UnsetType = UNSET
    mutation_state: str | UnsetType = UNSET


class ToolOutput(TurnEvent, frozen=True, tag_field="type", tag="toolOutput", omit_defaults=False):
    """Live output of a running call."""

    item_id: str
    call_id: str
    offset: int
    text: str


class ItemUpdated(TurnEvent, frozen=True, tag_field="type", tag="itemUpdated"):
    """The item, authoritative and whole; replaces what deltas built."""

    item_id: str
    item: Item


class DiffUpdated(TurnEvent, frozen=True, tag_field="type", tag="diffUpdated"):
    """Every file the turn has changed so far."""

    files: tuple[FileDiff, ...]


class ChangesUpdated(AgentEvent, frozen=True, tag_field="type", tag="changesUpdated"):
    """These changes, of whichever turns, are so now; the texts before are named by their blobs."""

    changes: tuple[Change, ...]


class UsageUpdated(TurnEvent, frozen=True, tag_field="type", tag="usageUpdated"):
    last: Usage
    turn: Usage
    conversation: Usage
    context: ContextUse


class ConversationUpdated(AgentEvent, frozen=True, tag_field="type", tag="conversationUpdated"):
    state: str
    title: str | UnsetType = UNSET
    held_by: Holder | UnsetType | None = UNSET
    resync: bool = False


class ConfigChanged(AgentEvent, frozen=True, tag_field="type", tag="configChanged"):
    """The configuration is another; `configGet` tells it, the next turn uses it."""

    version: int


class ActivityUpdated(TurnEvent, frozen=True, tag_field="type", tag="activityUpdated"):
    """What the turn is doing: thinking, streaming, tool, idle, error, cancelling."""

    state: str


class Retrying(TurnEvent, frozen=True, tag_field="type", tag="retrying", omit_defaults=False):
    attempt: int
    reason: str
    delay_ms: int


class Notice(AgentEvent, frozen=True, tag_field="type", tag="notice"):
    severity: str
    code: str
    message: str


class PermissionResolved(TurnEvent, frozen=True, tag_field="type", tag="permissionResolved"):
    """The question has its answer; a card that is still open may close."""

    request_key: str
    outcome: str


class TurnUsage(Usage, frozen=True, omit_defaults=False):
    """The turn's tokens, and the same by role."""

    by_role: dict[str, Usage] = {}


class TurnEnded(TurnEvent, frozen=True, tag_field="type", tag="turnEnded"):
    """Exactly once per accepted turn, and its last event."""

    outcome: str
    usage: TurnUsage
    files: tuple[FileDiff, ...] = ()
    message: str | UnsetType = UNSET
    error: ErrorRecord | UnsetType = UNSET


WireEvent = (
    TurnStarted
    | TextDelta
    | ReasoningDelta
    | ToolUpdated
    | ToolOutput
    | ItemUpdated
    | DiffUpdated
    | ChangesUpdated
    | UsageUpdated
    | ConversationUpdated
    | ConfigChanged
    | ActivityUpdated
    | Retrying
    | Notice
    | PermissionResolved
    | TurnEnded
)
