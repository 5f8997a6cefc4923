"""Close what an interruption left open. Pure and idempotent: a valid history comes back unchanged."""

from collections.abc import Collection, Sequence

from tinsmith.domain.message import AssistantMessage, Message, ToolCall, ToolMessage

NOT_RUN = "Not run: the turn was interrupted before this call began. Nothing was changed by it."
EFFECT_UNKNOWN = (
    "Interrupted: this call had begun when the process ended, so its effect is unknown. "
    "Look at the current state before you repeat it."
)


def missing_results(messages: Sequence[Message], begun: Collection[str]) -> list[ToolMessage]:
    """A result for every call that has none, in order, without message ids.

    `begun` holds the ids of calls that were marked as begun: what they did is unknown.
    """
    answered = {message.call_id for message in messages if isinstance(message, ToolMessage)}
    return [
        _interrupted(message.turn_id, call, was_begun=call.call_id in begun)
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.calls
        if call.call_id not in answered
    ]


def valid_history(messages: Sequence[Message], begun: Collection[str] = ()) -> tuple[Message, ...]:
    """The transcript with each call's one result directly behind its answer, in the order of the calls.

    Results that belong to no call, or to one that has a result already, are left out; calls
    without a result get one.
    """
    results: dict[str, ToolMessage] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            results.setdefault(message.call_id, message)
    history: list[Message] = []
    placed: set[str] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            continue
        history.append(message)
        if not isinstance(message, AssistantMessage):
            continue
        for call in message.calls:
            if call.call_id in placed:
                continue
            placed.add(call.call_id)
            found = results.get(call.call_id)
            history.append(found or _interrupted(message.turn_id, call, was_begun=call.call_id in begun))
    return tuple(history)


def _interrupted(turn_id: str, call: ToolCall, *, was_begun: bool) -> ToolMessage:
    return ToolMessage(
        message_id="",
        turn_id=turn_id,
        call_id=call.call_id,
        name=call.name,
        content=EFFECT_UNKNOWN if was_begun else NOT_RUN,
        ok=False,
        mutation_state="unknown" if was_begun else "none",
    )
