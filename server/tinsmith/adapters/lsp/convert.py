"""Domain to wire and back. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from tinsmith.adapters.lsp import wire
from tinsmith.adapters.lsp.changes import wire_changes
from tinsmith.domain import event as domain
from tinsmith.domain import policy
from tinsmith.domain.change import ChangedFile
from tinsmith.domain.conversation import Conversation
from tinsmith.domain.diagnostic import Diagnostic, DiagnosticSeverity, DocumentDiagnostics
from tinsmith.domain.message import AssistantMessage, Message, Part, TextPart, ToolCall, ToolMessage, Usage, UserMessage
from tinsmith.domain.policy import FileDelta, PermissionQuestion
from tinsmith.domain.tool import Location
from tinsmith.domain.turn import CallRecord, TurnRecord
from tinsmith.llm.catalog import CatalogEntry
from tinsmith.llm.endpoint import shown
from tinsmith.llm.families import known_window
from tinsmith.services.first_run import Way
from tinsmith.services.images import GivenImage
from tinsmith.services.offer import Offer
from tinsmith.store import Hit, Hits
from tinsmith.workspace.paths import path_of_uri, uri_of_path

Head = tuple[str, str, int, int, str]
"""Conversation, epoch, seq, time and turn: what every event of a turn begins with."""

WIRE_OF = {
    "reasoningDelta": domain.ReasoningStreamed,
    "textDelta": domain.TextStreamed,
    "toolOutput": domain.OutputStreamed,
    "usageUpdated": domain.UsageUpdated,
    "activityUpdated": domain.RequestStarted,
}
"""The events a client may opt out of, by their name on the wire."""

_SEVERITIES: tuple[DiagnosticSeverity, ...] = ("error", "warning", "information", "hint")
"""LSP's numbers, from 1."""


def wire_event(event: domain.Event, epoch: str) -> wire.WireEvent | None:
    """The one message that a visible event becomes; None for the invisible."""
    if event.seq == 0:
        return None
    head = (event.conversation_id, epoch, event.seq, event.ts)
    turn = (*head, event.turn_id)
    match event.body:
        case domain.TextStreamed(item_id, offset, text):
            return wire.TextDelta(*turn, item_id, offset, text)
        case domain.ReasoningStreamed(item_id, offset, text):
            return wire.ReasoningDelta(*turn, item_id, offset, text)
        case domain.OutputStreamed(call_id, offset, text):
            return wire.ToolOutput(*turn, call_id, call_id, offset, text)
        case domain.ConversationChanged(state, title, held_by, is_anew):
            holder = wire.Holder(held_by) if isinstance(held_by, int) else held_by
            return wire.ConversationUpdated(*head, state, UNSET if title is None else title, holder, is_anew)
        case domain.SettingsChanged(version):
            return wire.ConfigChanged(*head, version)
        case domain.ChangesReviewed(changes):
            return wire.ChangesUpdated(*head, wire_changes(changes))
        case domain.Notice(severity, code, message):
            return wire.Notice(*head, severity, code, message)
        case _:
            return _turn_event(turn, event.body)


def _turn_event(turn: Head, body: domain.Body) -> wire.WireEvent | None:
    match body:
        case domain.TurnStarted(record, message):
            images = _images(message)
            return wire.TurnStarted(*turn, message.message_id, record.text, record.model, record.role, images)
        case domain.RequestStarted():
            return wire.ActivityUpdated(*turn, "thinking")
        case domain.TurnCancelRequested():
            return wire.ActivityUpdated(*turn, "cancelling")
        case domain.AnswerReceived(message):
            return wire.ItemUpdated(*turn, message.item_id, _assistant_item(message))
        case domain.AnswerWithdrawn(item_id):
            item = wire.AssistantItem(item_id, turn[4], "", turn[3], withdrawn=True)
            return wire.ItemUpdated(*turn, item_id, item)
        case domain.SteeringTaken(message):
            return wire.ItemUpdated(*turn, message.message_id, _user_item(message))
        case domain.RetryScheduled(attempt, reason, delay_ms):
            return wire.Retrying(*turn, attempt, reason, delay_ms)
        case domain.PermissionResolved(request_key, outcome):
            return wire.PermissionResolved(*turn, request_key, outcome)
        case _:
            return _call_event(turn, body) or _sum_event(turn, body)


def _sum_event(turn: Head, body: domain.Body) -> wire.WireEvent | None:
    """What a turn came to so far, and in the end."""
    match body:
        case domain.FilesChanged(files):
            return wire.DiffUpdated(*turn, _file_diffs(files))
        case domain.UsageUpdated(last, so_far, conversation, used, size):
            return wire.UsageUpdated(
                *turn, wire_usage(last), wire_usage(so_far), wire_usage(conversation), wire.ContextUse(used, size)
            )
        case domain.TurnCompleted(record) | domain.TurnFailed(record):
            return turn_ended(record, turn)
        case _:
            return None


def _call_event(turn: Head, body: domain.Body) -> wire.WireEvent | None:
    match body:
        case domain.ToolCallDetected(call_id, name):
            return wire.ToolUpdated(*turn, call_id, call_id, name, "pending")
        case domain.ToolCallDropped(call_id, name):
            return wire.ToolUpdated(*turn, call_id, call_id, name, "cancelled", mutation_state="none")
        case domain.CallWaiting(call, arguments, locations):
            return _tool_updated(turn, call, arguments, locations)
        case domain.CallStarted(call, arguments, _, locations):
            return _tool_updated(turn, call, arguments, locations)
        case domain.CallFinished(call, arguments, message, locations):
            return _tool_ended(_tool_updated(turn, call, arguments, locations), message)
        case domain.CallCancelled(call, arguments, message):
            return _tool_ended(_tool_updated(turn, call, arguments, ()), message)
        case _:
            return None


def _tool_updated(turn: Head, call: CallRecord, arguments: str, locations: Sequence[Location]) -> wire.ToolUpdated:
    return wire.ToolUpdated(
        *turn,
        call.call_id,
        call.call_id,
        call.name,
        call.status,
        call.title,
        _arguments(arguments),
        tuple(_location(each) for each in locations),
    )


def _tool_ended(updated: wire.ToolUpdated, message: ToolMessage) -> wire.ToolUpdated:
    return msgspec.structs.replace(updated, result=message.content, mutation_state=message.mutation_state)


def turn_ended(record: TurnRecord, turn: Head) -> wire.TurnEnded:
    """The end of a turn as its last event carries it."""
    usage = record.usage
    return wire.TurnEnded(
        *turn,
        record.outcome or "error",
        wire.TurnUsage(
            usage.input,
            usage.output,
            usage.total,
            usage.cached,
            usage.reasoning,
            {record.role: wire_usage(usage)},
        ),
        _file_diffs(record.files),
        record.error.message if record.error else UNSET,
        record.error or UNSET,
    )


def items_of(messages: Sequence[Message], calls: dict[str, CallRecord]) -> list[wire.Item]:
    """What a client shows of a piece of transcript, oldest first; calls stand behind the answer that made them."""
    results = {message.call_id: message for message in messages if isinstance(message, ToolMessage)}
    items: list[wire.Item] = []
    for message in messages:
        match message:
            case UserMessage():
                items.append(_user_item(message))
            case AssistantMessage():
                items.append(_assistant_item(message))
                items.extend(
                    _tool_item(message, call, results.get(call.call_id), calls.get(call.call_id))
                    for call in message.calls
                )
            case ToolMessage():
                continue
    return items


def _user_item(message: UserMessage) -> wire.UserItem:
    shown = (message.text, message.created_at, message.is_steering, _images(message))
    return wire.UserItem(message.message_id, message.turn_id, *shown)


def _images(message: UserMessage) -> tuple[wire.Image, ...]:
    return tuple(wire.Image(*msgspec.structs.astuple(image)) for image in message.images)


def _assistant_item(message: AssistantMessage) -> wire.AssistantItem:
    return wire.AssistantItem(
        message.item_id,
        message.turn_id,
        message.text,
        message.created_at,
        message.reasoning,
        tuple(call.call_id for call in message.calls),
        message.model,
        message.marks,
    )


def _tool_item(
    answer: AssistantMessage, call: ToolCall, result: ToolMessage | None, record: CallRecord | None
) -> wire.ToolItem:
    ended = "completed" if result is not None and result.ok else "failed"
    return wire.ToolItem(
        call.call_id,
        answer.turn_id,
        call.call_id,
        call.name,
        record.title if record else call.name,
        record.status if record else (ended if result else "pending"),
        answer.created_at,
        _arguments(call.arguments),
        result.content if result else None,
        result.mutation_state if result else "none",
    )


def _arguments(text: str) -> Any:
    """Arguments as an object when they are one, else the raw text."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _location(location: Location) -> wire.Location:
    if location.start_line <= 0:
        return wire.Location(uri_of_path(location.path))
    end_line = max(location.start_line, location.end_line)
    span = wire.Range(wire.Position(location.start_line - 1, 0), wire.Position(end_line, 0))
    return wire.Location(uri_of_path(location.path), span)


def _file_diffs(files: Sequence[ChangedFile | FileDelta]) -> tuple[wire.FileDiff, ...]:
    return tuple(
        wire.FileDiff(uri_of_path(file.path), file.op, file.added, file.removed, file.before_hash, file.after_hash)
        for file in files
    )


def wire_usage(usage: Usage) -> wire.Usage:
    """Token counts."""
    return wire.Usage(usage.input, usage.output, usage.total, usage.cached, usage.reasoning)


def wire_conversation(conversation: Conversation, *, is_running: bool) -> wire.Conversation:
    """A conversation as lists show it."""
    return wire.Conversation(
        conversation.conversation_id,
        uri_of_path(conversation.workspace),
        conversation.created_at,
        conversation.updated_at,
        conversation.title,
        conversation.role,
        conversation.model,
        "running" if is_running else "idle",
        conversation.is_archived,
        conversation.parent,
    )


def wire_hits(found: Hits) -> wire.ConversationSearchResult:
    """What a search found."""
    return wire.ConversationSearchResult(tuple(map(wire_hit, found.hits)), found.unindexed)


def wire_hit(hit: Hit) -> wire.SearchHit:
    """A message that was found."""
    return wire.SearchHit(
        hit.conversation.conversation_id,
        hit.message_id,
        hit.kind,
        hit.created_at,
        uri_of_path(hit.conversation.workspace),
        hit.conversation.title,
        tuple(wire.SnippetPart(part.text, part.is_hit) for part in hit.snippet),
        hit.score,
    )


def removed_turn(record: TurnRecord) -> wire.RemovedTurn:
    """A turn that a rewind leaves out."""
    return wire.RemovedTurn(record.turn_id, record.text, record.started_at, record.outcome or "")


def wire_question(question: PermissionQuestion) -> wire.RequestPermissionParams:
    """A question for a person."""
    return wire.RequestPermissionParams(
        question.request_key,
        question.conversation_id,
        question.turn_id,
        question.call_id,
        question.title,
        _subject(question.subject),
        tuple(
            wire.PermissionOption(each.option_id, each.kind, each.scope, each.label, each.rule or None)
            for each in question.options
        ),
        question.notes,
    )


def _subject(
    subject: policy.Subject,
) -> wire.CommandSubject | wire.EditSubject | wire.NetworkSubject | wire.ToolSubject:
    match subject:
        case policy.CommandSubject(command, cwd, command_class, sandbox):
            return wire.CommandSubject(command, cwd, command_class, sandbox)
        case policy.EditSubject(files, diff):
            return wire.EditSubject(_file_diffs(files), diff)
        case policy.NetworkSubject(host):
            return wire.NetworkSubject(host)
        case policy.ToolSubject(name, args):
            return wire.ToolSubject(name, args)


def document_diagnostics(document: wire.DocumentDiagnostics) -> DocumentDiagnostics:
    """What a client's language servers say of a document."""
    path = path_of_uri(document.uri) or document.uri
    return DocumentDiagnostics(path, document.version, tuple(map(_diagnostic, document.items)))


def _diagnostic(item: wire.Diagnostic) -> Diagnostic:
    severity = _SEVERITIES[item.severity - 1] if item.severity in (1, 2, 3, 4) else "error"
    return Diagnostic(
        item.range.start.line + 1,
        item.range.start.character + 1,
        severity,
        item.message,
        item.source or "",
        "" if item.code is None else str(item.code),
    )


def parts_of(params: wire.RunTurnParams) -> tuple[Part | GivenImage, ...]:
    """The message's parts: what was typed, what was attached, and the facts of the moment behind it."""
    parts: list[Part | GivenImage] = [TextPart(params.text)] if params.text else []
    for place, each in enumerate(params.input):
        match each:
            case wire.TextInput(text):
                parts.append(TextPart(text))
            case wire.MentionInput(uri, span):
                parts.append(TextPart(f"[mentioned: {_place(uri, span)}]", label="mention"))
            case wire.SelectionInput(uri, text, span):
                parts.append(TextPart(f"[selected in {_place(uri, span)}]\n{text}", label="selection"))
            case wire.ResourceInput(uri, text):
                parts.append(TextPart(f"[attached: {uri}]\n{text}", label="resource"))
            case wire.ImageInput(data, uri):
                parts.append(GivenImage(f"input[{place}]", data, uri))
    moment = _moment(params.context)
    if moment:
        parts.append(TextPart(moment, label="moment"))
    return tuple(parts)


def _place(uri: str, span: wire.Range | None) -> str:
    path = path_of_uri(uri) or uri
    return f"{path}, lines {span.start.line + 1}-{span.end.line + 1}" if span else path


def _moment(context: wire.TurnContext | None) -> str:
    if context is None:
        return ""
    lines: list[str] = []
    if context.focus:
        lines.append(f"in focus: {path_of_uri(context.focus) or context.focus}")
    names = [(path_of_uri(each.uri) or each.uri) + (" (unsaved)" if each.dirty else "") for each in context.open]
    if names:
        lines.append("open in the editor: " + ", ".join(names[:20]))
    return "[" + "; ".join(lines) + "]" if lines else ""


def wire_offer(offer: Offer) -> wire.ModelsListResult:
    """The models there are to choose from."""
    chosen = offer.chosen
    return wire.ModelsListResult(
        tuple(map(_listed, offer.models)),
        chosen
        and wire.ChosenModel(chosen.model, chosen.key, offer.reason, chosen.context_window, chosen.max_output_tokens),
        tuple(map(_way, offer.ways)),
        offer.problems,
    )


def _way(way: Way) -> wire.FoundWay:
    place = (way.name, shown(way.base_url), way.dialect)
    return wire.FoundWay(*place, way.reason, way.model or None, way.key_env or None)


def _listed(entry: CatalogEntry) -> wire.ListedModel:
    window = entry.context_window or known_window(entry.model_id)
    source = "family" if window and not entry.context_window else "provider"
    return wire.ListedModel(
        entry.model_id, entry.name, source, window, entry.max_output_tokens, tuple(sorted(entry.tags))
    )
