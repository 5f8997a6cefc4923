"""What is searched of a message: what a person typed, an answer's text, the texts in its calls' arguments, a result.

Neither its reasoning nor what was said about the moment.
"""

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from tinsmith.domain.message import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from tinsmith.store.segments import Document
from tinsmith.store.transaction import Transaction
from tinsmith.store.words import count_words

SEARCHED = 16_384
"""Characters of a message that are searched; what follows in a longer one is the rest of some output."""
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def read_message(transaction: Transaction, key: bytes) -> Message | None:
    """The message of this key, live or rewound, when it is there and can be read."""
    value = transaction.get("message", key)
    try:
        return None if value is None else _decoder.decode(value)
    except (msgspec.DecodeError, RecursionError):  # whoever asks for this record is told
        return None


def document_of(key: bytes, message: Message) -> Document:
    """The message as the index keeps it."""
    return Document(key, count_words(searched_text(message)), message.created_at)


def searched_text(message: Message) -> str:
    """The text of a message that is searched, at most SEARCHED characters."""
    match message:
        case UserMessage():
            text = message.text
        case AssistantMessage():
            text = "\n".join((message.text, *(line for call in message.calls for line in _told(call))))
        case ToolMessage():
            text = message.content
    return text[:SEARCHED]


def _told(call: ToolCall) -> Iterator[str]:
    yield call.name
    try:
        yield from _texts(msgspec.json.decode(call.arguments))
    except (msgspec.DecodeError, RecursionError):  # cut off, or never JSON
        yield call.arguments


def _texts(value: Any) -> Iterator[str]:
    """The texts of a JSON value, without its keys."""
    match value:
        case str():
            yield value
        case dict():
            for member in cast("dict[str, Any]", value).values():
                yield from _texts(member)
        case list():
            for member in cast("list[Any]", value):
                yield from _texts(member)
        case _:
            return
