"""Pages of a transcript that never separate an answer from the results of its calls. Within a transaction."""

import logging
from collections.abc import Sequence
from typing import Literal

import msgspec

from tinsmith.domain.errors import PersistenceError
from tinsmith.domain.message import AssistantMessage, Message, ToolMessage
from tinsmith.domain.turn import CallRecord
from tinsmith.store import Session

_log = logging.getLogger(__name__)


class History(msgspec.Struct, frozen=True):
    """A page of a transcript with the records of its calls; `next_cursor` asks for the rest."""

    messages: tuple[Message, ...]
    calls: dict[str, CallRecord]
    next_cursor: str | None


def read_history(
    session: Session, conversation_id: str, *, cursor: str | None, limit: int, direction: Literal["older", "newer"]
) -> History:
    """A page of the transcript: `older` newest first, `newer` oldest first; a little longer than `limit` if needed."""
    page = session.messages.page(conversation_id, limit=limit, cursor=cursor, direction=direction)
    messages, following = page.messages, page.next_cursor
    while following is not None and _cuts_a_round(messages, following_is_older=direction == "older"):
        page = session.messages.page(conversation_id, limit=1, cursor=following, direction=direction)
        messages, following = (*messages, *page.messages), page.next_cursor
    return History(messages, calls_of(session, conversation_id, messages), following)


def calls_of(session: Session, conversation_id: str, messages: Sequence[Message]) -> dict[str, CallRecord]:
    """The stored records of the calls that these messages make, by their ids. What cannot be read is left out."""
    found: dict[str, CallRecord] = {}
    for answer in messages:
        for call in answer.calls if isinstance(answer, AssistantMessage) else ():
            try:
                record = session.calls.get(conversation_id, call.call_id)
            except PersistenceError as error:
                _log.warning("left out: %s", error.message)
                continue
            if record is not None:
                found[call.call_id] = record
    return found


def _cuts_a_round(messages: Sequence[Message], *, following_is_older: bool) -> bool:
    """Whether a page that ends here has the results of an answer without it, or (going forward) may miss some."""
    last = messages[-1] if messages else None
    if following_is_older:
        return isinstance(last, ToolMessage)
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    answered = {message.call_id for message in messages if isinstance(message, ToolMessage)}
    return bool(answers) and any(call.call_id not in answered for call in answers[-1].calls)
