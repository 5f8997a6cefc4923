"""What every dialect demands of a history before it is sent, and what strict servers want on top. Pure."""

from collections.abc import Sequence

import msgspec

from tinsmith.domain.errors import SchemaError
from tinsmith.domain.message import AssistantMessage, Message, ToolMessage, UserMessage
from tinsmith.llm.profiles import Profile

BRIDGE = "I have the results."
"""What an assistant says between results and a user message, where a template wants it to say something."""


def check_history(messages: Sequence[Message]) -> None:
    """Every call has an id of its own and exactly one result, which follows before anything else does.

    Raises SchemaError: `callWithoutId`, `doubledCall`, `danglingCall`, `unknownCall`.
    """
    seen: set[str] = set()
    pending: set[str] = set()
    for position, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if message.call_id not in pending:
                raise _broken(
                    "unknownCall",
                    f"message {position} is the result of a call that waits for none ({message.call_id!r})",
                )
            pending.remove(message.call_id)
            continue
        if pending:
            raise _broken("danglingCall", f"message {position} follows calls without a result ({_listed(pending)})")
        if isinstance(message, AssistantMessage):
            for call in message.calls:
                if not call.call_id:
                    raise _broken("callWithoutId", f"message {position} has a call without an id")
                if call.call_id in seen:
                    raise _broken(
                        "doubledCall", f"message {position} has a call id that was used before ({call.call_id!r})"
                    )
                seen.add(call.call_id)
                pending.add(call.call_id)
    if pending:
        raise _broken("danglingCall", f"the history ends with calls without a result ({_listed(pending)})")


def arrange(messages: Sequence[Message], profile: Profile) -> Sequence[Message]:
    """The history as the server's template takes it: empty answers left out, neighbours merged, results bridged."""
    sent = [message for message in messages if not _is_empty(message)]
    if profile.merges_roles:
        sent = _merged(sent)
    return _bridged(sent) if profile.bridges_results else sent


def _is_empty(message: Message) -> bool:
    """An answer that says nothing and calls nothing: no content for it suits every server."""
    return isinstance(message, AssistantMessage) and not message.text.strip() and not message.calls


def _merged(messages: Sequence[Message]) -> list[Message]:
    merged: list[Message] = []
    for message in messages:
        last = merged[-1] if merged else None
        if isinstance(last, UserMessage) and isinstance(message, UserMessage):
            merged[-1] = msgspec.structs.replace(last, parts=(*last.parts, *message.parts))
        elif isinstance(last, AssistantMessage) and isinstance(message, AssistantMessage) and not last.calls:
            text = "\n\n".join(filter(None, (last.text, message.text)))
            merged[-1] = msgspec.structs.replace(message, text=text, sealed=())
        else:
            merged.append(message)
    return merged


def _bridged(messages: Sequence[Message]) -> list[Message]:
    bridged: list[Message] = []
    for message in messages:
        last = bridged[-1] if bridged else None
        if isinstance(last, ToolMessage) and isinstance(message, UserMessage):
            bridged.append(AssistantMessage("", last.turn_id, "", BRIDGE))
        bridged.append(message)
    return bridged


def _listed(call_ids: set[str]) -> str:
    return ", ".join(sorted(call_ids))


def _broken(code: str, what: str) -> SchemaError:
    return SchemaError(
        code, f"The request was not made: {what}. Rewind the conversation to before that message.", origin="llm"
    )
