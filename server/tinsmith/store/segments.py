"""The rows of the full-text index, all in `message_search`; the only keyspace whose records are bytes, not JSON.

Every stored message has a row in it, written in the transaction that stored the message: it *waits* until SEGMENT of
them are packed into one segment. A row a word a message would make a commit ten times as slow, because the words of
40 messages touch as many pages of the tree; a segment lies in one place.

| key | value |
|---|---|
| `p` message | empty: waits to be packed |
| `l` message | its place: segment (4 bytes, big-endian, as in all keys) and ordinal (1 byte) |
| `s` segment | lengths in words (2 bytes each), then times in seconds (4 each); as LMDB's own, in the machine's order |
| `k` segment | keys of its messages, as a MessagePack array |
| `t` segment, word | ordinals of the messages that hold the word (1 byte each), then how often (1 byte each) |
| `d` segment, ordinal | empty: that message is gone or has changed |

`message` is the key of the message's record.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import msgspec

from tinsmith.store.codec import successor
from tinsmith.store.transaction import Span, Transaction

if TYPE_CHECKING:
    from collections.abc import Sequence

SEGMENT = 256
"""Messages of a segment at most, so that an ordinal is one byte."""
NAME = "message_search"
_MOST = 255
_keys = msgspec.msgpack.Decoder(list[bytes])


@dataclass(frozen=True, slots=True)
class Document:
    """A message as the index knows it. `words` maps each to its count; `created_at` in milliseconds."""

    key: bytes
    words: dict[str, int]
    created_at: int


@dataclass(frozen=True, slots=True)
class Segment:
    """The head of a segment, and which of its messages are dead."""

    number: int
    head: bytes
    dead: frozenset[int]

    @property
    def size(self) -> int:
        """How many messages it holds, the dead among them."""
        return len(self.head) // 6

    @property
    def lengths(self) -> "Sequence[int]":
        """Words of each message, by ordinal."""
        return array("H", self.head[: 2 * self.size])

    @property
    def times(self) -> "Sequence[int]":
        """When each was made, in seconds, by ordinal."""
        return array("I", self.head[2 * self.size :])


class Segments:
    """The rows as one transaction sees them."""

    __slots__ = ("_transaction",)

    HEADS: ClassVar = Span(b"k", b"l")
    """Where each segment has one row."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def wait(self, key: bytes) -> None:
        """Let the message wait to be packed, whatever was known of it."""
        self.forget(key)
        self._transaction.put(NAME, b"p" + key, b"")

    def forget(self, key: bytes) -> bool:
        """Know nothing of the message any more. Whether a segment still has its words, until that is folded."""
        self._transaction.delete(NAME, b"p" + key)
        place = self._transaction.get(NAME, b"l" + key)
        if place is None:
            return False
        self._transaction.put(NAME, b"d" + place, b"")
        self._transaction.delete(NAME, b"l" + key)
        return True

    def waiting(self, limit: int) -> list[bytes]:
        """Keys of at most `limit` messages that wait."""
        rows = self._transaction.scan(NAME, _below(b"p"))
        return [key[1:] for (key, _), _ in zip(rows, range(limit), strict=False)]

    def count_waiting(self) -> int:
        """How many wait."""
        return sum(1 for _ in self._transaction.scan(NAME, _below(b"p")))

    def pack(self, documents: "Sequence[Document]", taken: "Sequence[bytes]", number: int | None = None) -> None:
        """Write at most SEGMENT documents as a segment, the newest unless its number is given; `taken` wait no more."""
        for key in taken:
            self._transaction.delete(NAME, b"p" + key)
        if not documents:
            return
        number = self._next_number() if number is None else number
        head = number.to_bytes(4)
        postings: dict[str, tuple[bytearray, bytearray]] = {}
        for ordinal, document in enumerate(documents):
            self._transaction.put(NAME, b"l" + document.key, head + bytes((ordinal,)))
            for word, times in document.words.items():
                row = postings.get(word)
                if row is None:
                    row = postings[word] = bytearray(), bytearray()
                row[0].append(ordinal)
                row[1].append(min(times, _MOST))
        lengths = array("H", (min(sum(document.words.values()), 0xFFFF) for document in documents))
        times = array("I", (document.created_at // 1000 & 0xFFFFFFFF for document in documents))
        self._transaction.put(NAME, b"k" + head, msgspec.msgpack.encode([document.key for document in documents]))
        self._transaction.put(NAME, b"s" + head, lengths.tobytes() + times.tobytes())
        for word, (ordinals, counts) in sorted((word.encode(), row) for word, row in postings.items()):
            self._transaction.put(NAME, b"t" + head + word, bytes(ordinals + counts))

    def unpack(self, number: int) -> list[bytes]:
        """Take the segment apart. Returns the keys of its living messages, which are in no segment now."""
        head = number.to_bytes(4)
        living = [*self.living(number).values()]
        for kind in (b"t", b"d"):
            for key in [key for key, _ in self._transaction.scan(NAME, _below(kind + head))]:
                self._transaction.delete(NAME, key)
        for key in (b"k" + head, b"s" + head, *(b"l" + each for each in living)):
            self._transaction.delete(NAME, key)
        return living

    def knows(self, key: bytes) -> bool:
        """Whether the message waits or has a place."""
        return any(self._transaction.get(NAME, kind + key) is not None for kind in (b"p", b"l"))

    def place(self, key: bytes) -> tuple[int, int] | None:
        """Segment and ordinal of a message, or None."""
        place = self._transaction.get(NAME, b"l" + key)
        return None if place is None else (int.from_bytes(place[:4]), place[4])

    def living(self, number: int) -> dict[int, bytes]:
        """Ordinal → key of the segment's messages that are not dead."""
        dead = self._dead(number.to_bytes(4))
        return {ordinal: key for ordinal, key in enumerate(self.keys(number)) if ordinal not in dead}

    def words(self, number: int) -> dict[str, dict[int, int]]:
        """Every word of the segment, with what `exact` gives for it."""
        head = b"t" + number.to_bytes(4)
        rows = self._transaction.scan(NAME, _below(head))
        return {key[len(head) :].decode("utf-8", "replace"): _counts(value) for key, value in rows}

    def first_dead(self) -> int | None:
        """The number of a segment that holds a dead message, or None."""
        row = next(self._transaction.scan(NAME, _below(b"d")), None)
        return None if row is None else int.from_bytes(row[0][1:5])

    def newest_first(self) -> "Iterator[Segment]":
        """The heads of every segment."""
        dead: dict[bytes, set[int]] = {}
        for key, _ in self._transaction.scan(NAME, _below(b"d")):
            dead.setdefault(key[1:5], set()).add(key[5])
        for key, value in self._transaction.scan(NAME, _below(b"s"), reverse=True):
            yield Segment(int.from_bytes(key[1:]), value, frozenset(dead.get(key[1:], ())))

    def keys(self, number: int) -> list[bytes]:
        """The keys of the segment's messages by ordinal."""
        return _keys.decode(self._transaction.get(NAME, b"k" + number.to_bytes(4)) or b"\x90")

    def exact(self, number: int, word: bytes) -> dict[int, int]:
        """Ordinal → how often the word stands in that message of the segment."""
        value = self._transaction.get(NAME, b"t" + number.to_bytes(4) + word)
        return {} if value is None else _counts(value)

    def beginning(self, number: int, prefix: bytes) -> dict[int, int]:
        """The same for all words that begin so."""
        found: dict[int, int] = {}
        for _, value in self._transaction.scan(NAME, _below(b"t" + number.to_bytes(4) + prefix)):
            middle = len(value) // 2
            for at in range(middle):
                found[value[at]] = found.get(value[at], 0) + value[middle + at]
        return found

    def clear(self) -> None:
        """Remove every row."""
        self._transaction.clear(NAME)

    def _dead(self, head: bytes) -> frozenset[int]:
        return frozenset(key[5] for key, _ in self._transaction.scan(NAME, _below(b"d" + head)))

    def _next_number(self) -> int:
        newest = next(self._transaction.scan(NAME, _below(b"s"), reverse=True), None)
        return 0 if newest is None else int.from_bytes(newest[0][1:]) + 1


def _counts(value: bytes) -> dict[int, int]:
    middle = len(value) // 2
    return dict(zip(value[:middle], value[middle:], strict=False))


def _below(prefix: bytes) -> Span:
    return Span(prefix, successor(prefix))
