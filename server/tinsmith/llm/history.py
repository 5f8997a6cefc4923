"""What every dialect demands of a history before it is sent. Pure."""

from collections.abc import Sequence

from tinsmith.domain.errors import SchemaError
from tinsmith.domain.message import AssistantMessage, Message, ToolMessage


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


def _listed(call_ids: set[str]) -> str:
    return ", ".join(sorted(call_ids))


def _broken(code: str, what: str) -> SchemaError:
    return SchemaError(
        code, f"The request was not made: {what}. Rewind the conversation to before that message.", origin="llm"
    )
