"""Looking through a whole store: what cannot be read, what is filed wrongly, what belongs to nothing, a false index.

Each step looks at a part of the store in one short transaction of its own, so that others can write meanwhile.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from tinsmith.domain.change import ChangeRecord
from tinsmith.domain.conversation import Conversation
from tinsmith.domain.errors import PersistenceError
from tinsmith.domain.message import Message, UserMessage
from tinsmith.domain.policy import PermissionQuestion
from tinsmith.domain.turn import CallRecord, TurnRecord
from tinsmith.store.codec import decode_record, encode_key, key_text
from tinsmith.store.documents import document_of, read_message
from tinsmith.store.leases import Lease
from tinsmith.store.notes import Note
from tinsmith.store.segments import NAME, Segments
from tinsmith.store.storage import Storage
from tinsmith.store.transaction import KEYSPACES, Span, Transaction
from tinsmith.store.usage import UsageRecord

_RECORDS, _SEGMENTS = 500, 2
"""Of one step."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with the record `<keyspace>/<key>`. `is_index` when making the index anew mends it."""

    record: str
    problem: str
    is_index: bool = False


@dataclass(frozen=True, slots=True)
class _Kind:
    """Records of a keyspace: how they are read, and what they say their key is."""

    decoder: msgspec.json.Decoder[Any]
    conversation: Callable[[Any], str] | None = None
    """What stands before the first `:`, when the record says it."""
    own: Callable[[Any], str] | None = None
    """What stands behind it."""
    has_owner: bool = True
    """Whether the conversation must be there."""


_KINDS: dict[str, _Kind] = {
    "conversation": _Kind(msgspec.json.Decoder(Conversation), lambda r: r.conversation_id, has_owner=False),
    "message": _Kind(msgspec.json.Decoder(Message), own=lambda r: r.message_id),
    "turn": _Kind(msgspec.json.Decoder(TurnRecord), lambda r: r.conversation_id, lambda r: r.turn_id),
    "call": _Kind(msgspec.json.Decoder(CallRecord), own=lambda r: r.call_id),
    "conversation_note": _Kind(msgspec.json.Decoder(Note), own=lambda r: r.note_id),
    "usage": _Kind(msgspec.json.Decoder(UsageRecord), own=lambda r: f"{r.turn_id}:parent"),
    "lease": _Kind(msgspec.json.Decoder(Lease), lambda r: r.conversation_id),
    "lease_request": _Kind(msgspec.json.Decoder(Lease), lambda r: r.conversation_id),
    "queue": _Kind(msgspec.json.Decoder(UserMessage)),
    "pending": _Kind(msgspec.json.Decoder(PermissionQuestion)),
    "change": _Kind(msgspec.json.Decoder(ChangeRecord)),
}
_ANY = _Kind(msgspec.json.Decoder(), has_owner=False)
"""The other keyspaces, of facts under names."""


def verify(storage: Storage) -> Iterator[Finding]:
    """Everything that is wrong. A store of many messages takes a tenth of a millisecond for each."""
    for keyspace in KEYSPACES:
        if keyspace not in {NAME, "blob"}:
            yield from _in_steps(storage, _Part(keyspace, Span(), _RECORDS), _records)
    yield from _in_steps(storage, _Part("blob", Span(), _SEGMENTS), _blobs)
    yield from _in_steps(storage, _Part(NAME, Segments.HEADS, _SEGMENTS), _index)


async def rebuild_index(storage: Storage) -> int:
    """Make the full-text index anew from the messages, a step at a time. How many there are."""
    count = await storage.write(lambda session: session.search.rebuild())
    while await storage.write(lambda session: session.search.fold(1)):
        pass
    return count


@dataclass(frozen=True, slots=True)
class _Part:
    """What is looked through, and how many rows in one transaction."""

    keyspace: str
    span: Span
    size: int


Step = Callable[[Transaction, str, list[tuple[bytes, bytes]]], list[Finding]]


def _in_steps(storage: Storage, part: _Part, step: Step) -> Iterator[Finding]:
    def look(transaction: Transaction, span: Span) -> tuple[bytes, list[Finding]]:
        rows = [row for _, row in zip(range(part.size), transaction.scan(part.keyspace, span), strict=False)]
        return rows[-1][0] + b"\0" if rows else b"", step(transaction, part.keyspace, rows)

    start: bytes = part.span.start
    while True:
        span = Span(start, part.span.stop)
        start, findings = storage.read(lambda session, span=span: session.look(lambda rows: look(rows, span)))
        yield from findings
        if not start:
            return


def _records(transaction: Transaction, keyspace: str, rows: list[tuple[bytes, bytes]]) -> list[Finding]:
    kind = _KINDS.get(keyspace, _ANY)
    found: list[Finding] = []
    for key, value in rows:
        name = f"{keyspace}/{key_text(key)}"
        owner = key.partition(b":")[0]
        if kind.has_owner and transaction.get("conversation", owner) is None:
            found.append(Finding(name, f"belongs to the conversation {key_text(owner)}, which is not there"))
        try:
            record = decode_record(kind.decoder, keyspace, key, value)
        except PersistenceError:
            found.append(Finding(name, "cannot be read"))
            continue
        first, _, rest = key.partition(b":")
        is_named = kind.conversation is None or encode_key(kind.conversation(record)) == first
        if not is_named or (kind.own is not None and encode_key(kind.own(record)) != rest):
            found.append(Finding(name, "holds a record of another name"))
        if keyspace == "blob_use" and next(transaction.scan("blob", Span(owner + b":", owner + b";")), None) is None:
            found.append(Finding(name, "names bytes that are not there"))
        if keyspace == "message" and not Segments(transaction).knows(key) and read_message(transaction, key):
            found.append(Finding(name, "is not in the index", is_index=True))
    return found


def _blobs(transaction: Transaction, keyspace: str, rows: list[tuple[bytes, bytes]]) -> list[Finding]:
    """Each chunk is of a blob that something uses."""
    found: list[Finding] = []
    for key, _ in rows:
        name = key.partition(b":")[0]
        if next(transaction.scan("blob_use", Span(name + b":", name + b";")), None) is None:
            found.append(Finding(f"{keyspace}/{key_text(key)}", "is used by nothing"))
    return found


def _index(transaction: Transaction, keyspace: str, rows: list[tuple[bytes, bytes]]) -> list[Finding]:
    """Each segment holds the words of its messages and no others, and they know their places."""
    segments = Segments(transaction)
    found: list[Finding] = []
    for key, _ in rows:
        number = int.from_bytes(key[1:5])
        living = segments.living(number)
        expected: dict[str, dict[int, int]] = {}
        for ordinal, message_key in living.items():
            message = read_message(transaction, message_key)
            for word, times in (document_of(message_key, message).words if message else {}).items():
                expected.setdefault(word, {})[ordinal] = min(times, 255)
        actual = {
            word: {ordinal: times for ordinal, times in counts.items() if ordinal in living}
            for word, counts in segments.words(number).items()
        }
        is_right = {word: counts for word, counts in actual.items() if counts} == expected
        if not is_right or any(segments.place(each) != (number, ordinal) for ordinal, each in living.items()):
            name = f"{keyspace}/segment {number}"
            found.append(Finding(name, "does not hold the words of its messages", is_index=True))
    return found
