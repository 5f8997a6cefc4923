"""What the model sees of a history: large old results elided, oldest rounds dropped. Pure; both edges move in steps.

An edge that moves changes the bytes of every later request, so it moves rarely: elision only when as many rounds
as are kept have become old, dropping only when the threshold is crossed, and then down to 60 % of the window.
"""

from collections.abc import Sequence

import msgspec

from tinsmith.domain.ids import message_ordinal
from tinsmith.domain.message import AssistantMessage, ImagePart, Message, Part, TextPart, ToolMessage, UserMessage
from tinsmith.domain.settings import ContextSettings
from tinsmith.domain.turn import WindowEdges
from tinsmith.engine.images import with_newest_images
from tinsmith.engine.repair import valid_history

DROP_TO = 0.6
"""Share of the context window that is left after a drop."""
SHORTENED_CHARS = 4_000
"""What a single result is cut to when it alone does not fit."""
_CHARS_PER_TOKEN = 4


Round = list[Message]
"""Messages that stay together: a user message, or an answer with its results."""


class View(msgspec.Struct, frozen=True):
    """The model's view of a transcript: a valid history, its estimated tokens, and what was left out of it."""

    messages: tuple[Message, ...]
    edges: WindowEdges
    tokens: int
    elided: int
    dropped: int


def make_view(
    transcript: Sequence[Message],
    *,
    settings: ContextSettings,
    context_window: int,
    edges: WindowEdges,
    overhead_chars: int,
    turn_id: str,
    can_recall: bool,
    is_squeezed: bool = False,
) -> View:
    """The view of `transcript` for the turn `turn_id`.

    `overhead_chars` is the size of what goes along (system prompt, tool specs); `is_squeezed` drops once more
    although the estimate allows it, for a provider that has just refused the request as too long.
    """
    rounds = _rounds(with_newest_images(valid_history(transcript)))
    if settings.enabled:
        edges = _step_elision(rounds, settings, edges)
    elided, count = _elide(rounds, settings, edges, can_recall=can_recall)
    limit = context_window * settings.trim_threshold_pct / 100
    tokens = _tokens(_kept(elided, edges, turn_id), overhead_chars, edges)
    if settings.enabled and (tokens > limit or is_squeezed):
        edges = _elide_all(rounds, settings, edges)
        elided, count = _elide(rounds, settings, edges, can_recall=can_recall)
        target = min(context_window, tokens if is_squeezed else context_window) * DROP_TO
        edges = _step_drop(elided, edges, turn_id, overhead_chars, target)
        kept = _kept(elided, edges, turn_id)
        if _tokens(kept, overhead_chars, edges) > target:
            kept = _shorten(kept)
    else:
        kept = _kept(elided, edges, turn_id)
    dropped = sum(map(len, rounds)) - len(kept)
    return View(_mark_dropped(kept, dropped), edges, _tokens(kept, overhead_chars, edges), count, dropped)


def measured(edges: WindowEdges, view: View, overhead_chars: int, input_tokens: int) -> WindowEdges:
    """The edges with the provider's own count of the last request, which calibrates the next estimate."""
    chars = overhead_chars + sum(map(chars_of, view.messages))
    if input_tokens <= 0 or chars == 0:
        return edges
    return msgspec.structs.replace(edges, tokens_per_char=input_tokens / chars)


def _rounds(messages: Sequence[Message]) -> list[Round]:
    """Groups that stay together: a user message, or an answer with its results."""
    rounds: list[Round] = []
    for message in messages:
        if isinstance(message, ToolMessage) and rounds:
            rounds[-1].append(message)
        else:
            rounds.append([message])
    return rounds


def _step_elision(rounds: list[Round], settings: ContextSettings, edges: WindowEdges) -> WindowEdges:
    keep = max(1, settings.tool_output_keep_rounds)
    with_calls = [group for group in rounds if len(group) > 1]
    old = len(with_calls) - settings.tool_output_keep_rounds
    steps = max(0, old) // keep * keep
    edge = _ordinal(with_calls[steps - 1]) + 1 if steps else 0
    return msgspec.structs.replace(edges, elided_below=max(edges.elided_below, edge))


def _elide_all(rounds: list[Round], settings: ContextSettings, edges: WindowEdges) -> WindowEdges:
    """Under pressure: every round older than the newest kept ones."""
    with_calls = [group for group in rounds if len(group) > 1]
    old = len(with_calls) - settings.tool_output_keep_rounds
    edge = _ordinal(with_calls[old - 1]) + 1 if old > 0 else 0
    return msgspec.structs.replace(edges, elided_below=max(edges.elided_below, edge))


def _elide(
    rounds: list[Round], settings: ContextSettings, edges: WindowEdges, *, can_recall: bool
) -> tuple[list[Round], int]:
    count = 0
    elided: list[Round] = []
    for group in rounds:
        if len(group) == 1 or _ordinal(group) >= edges.elided_below:
            elided.append(group)
            continue
        shorter = [_elided(message, settings, can_recall=can_recall) for message in group]
        count += sum(before is not after for before, after in zip(group, shorter, strict=True))
        elided.append(shorter)
    return elided, count


def _elided(message: Message, settings: ContextSettings, *, can_recall: bool) -> Message:
    if not isinstance(message, ToolMessage) or len(message.content) <= settings.tool_output_elide_over_chars:
        return message
    hint = f'; retrieve with recall(key="{message.recall_key}")' if can_recall and message.recall_key else ""
    return msgspec.structs.replace(message, content=f"[elided {len(message.content)} chars of tool output{hint}]")


def _step_drop(
    rounds: list[Round], edges: WindowEdges, turn_id: str, overhead_chars: int, target: float
) -> WindowEdges:
    """Move the drop edge over the oldest rounds until the rest fits `target` tokens."""
    candidates = [group for group in rounds if isinstance(group[0], AssistantMessage)]
    for group in candidates[:-1]:
        if _tokens(_kept(rounds, edges, turn_id), overhead_chars, edges) <= target:
            break
        edges = msgspec.structs.replace(edges, dropped_below=max(edges.dropped_below, _ordinal(group) + 1))
    return edges


def _kept(rounds: list[Round], edges: WindowEdges, turn_id: str) -> list[Message]:
    """The messages that are not below the drop edge.

    A user message goes when nothing of its turn is left, but for the one that opened this turn and the newest.
    """
    users = [group[0] for group in rounds if isinstance(group[0], UserMessage)]
    opening = next((message for message in users if message.turn_id == turn_id), None)
    needed = {opening.message_id if opening else "", users[-1].message_id if users else ""}
    living = {group[0].turn_id for group in rounds if _ordinal(group) >= edges.dropped_below}
    kept: list[Message] = []
    for group in rounds:
        head = group[0]
        if isinstance(head, UserMessage):
            if head.message_id in needed or head.turn_id in living:
                kept.append(head)
        elif _ordinal(group) >= edges.dropped_below:
            kept.extend(group)
    return kept


def _shorten(messages: list[Message]) -> list[Message]:
    """Head and tail of every result that is too large to stay whole when even the newest round does not fit."""
    return [
        msgspec.structs.replace(message, content=_head_and_tail(message.content))
        if isinstance(message, ToolMessage) and len(message.content) > SHORTENED_CHARS
        else message
        for message in messages
    ]


def _head_and_tail(content: str) -> str:
    half = SHORTENED_CHARS // 2
    left_out = len(content) - 2 * half
    return f"{content[:half]}\n[{left_out} characters left out: the result does not fit the context]\n{content[-half:]}"


def _mark_dropped(messages: list[Message], dropped: int) -> tuple[Message, ...]:
    if dropped == 0 or not messages or not isinstance(messages[0], UserMessage):
        return tuple(messages)
    note = TextPart("[Earlier messages of this conversation are left out here.]", label="window")
    first = msgspec.structs.replace(messages[0], parts=(note, *messages[0].parts))
    return (first, *messages[1:])


def _tokens(messages: Sequence[Message], overhead_chars: int, edges: WindowEdges) -> int:
    return int((overhead_chars + sum(map(chars_of, messages))) * edges.tokens_per_char)


def chars_of(message: Message) -> int:
    """How many characters the message counts as; an image as those that usually make as many tokens."""
    match message:
        case UserMessage():
            return sum(map(_part_chars, message.parts))
        case AssistantMessage():
            return len(message.text) + sum(len(call.name) + len(call.arguments) for call in message.calls)
        case ToolMessage():
            return len(message.content)


def _part_chars(part: Part) -> int:
    return part.tokens * _CHARS_PER_TOKEN if isinstance(part, ImagePart) else len(part.text)


def _ordinal(group: Round) -> int:
    return message_ordinal(group[0].message_id)
