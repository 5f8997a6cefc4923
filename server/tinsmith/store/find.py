"""A search: candidates from the segments and from the messages that wait, weighed by BM25 and age, the best read again.

Segments are looked through newest first, and no further than to CANDIDATES messages: words that are in more tell
messages too little apart, and then the newest are what is wanted.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Literal

import msgspec

from tinsmith.domain.conversation import Conversation
from tinsmith.domain.ids import message_ordinal, now_ms
from tinsmith.domain.message import AssistantMessage, Message, UserMessage
from tinsmith.store.documents import document_of, read_message, searched_text
from tinsmith.store.query import Query, Term, flat
from tinsmith.store.segments import SEGMENT, Segment, Segments
from tinsmith.store.snippet import SnippetPart, snippet_of
from tinsmith.store.transaction import Transaction
from tinsmith.store.words import fold

CANDIDATES = 2_000
"""Messages that are weighed at most."""
READ_AGAIN = 400
"""Candidates that are read again at most, until enough of them are live and hold the phrases."""
WAITING = 4 * SEGMENT
"""Messages that are read through at most because they wait for the index."""

_SATURATION, _LENGTH = 1.2, 0.75  # BM25's k1 and b, at their customary values
_HALF_LIFE = 30 * 86_400
"""Seconds in which half of a message's newness is gone; a new message counts twice as much as a very old one."""

_CHARS_OF_A_WORD = 7

Among = Callable[[Conversation], bool]
_conversations = msgspec.json.Decoder(Conversation)


class Hit(msgspec.Struct, frozen=True):
    """A message that was found. `score` compares hits of one search only; `created_at` in milliseconds."""

    conversation: Conversation
    message_id: str
    kind: Literal["user", "assistant", "tool"]
    created_at: int
    snippet: tuple[SnippetPart, ...]
    score: float


class Hits(msgspec.Struct, frozen=True):
    """What was found, best first. `unindexed` messages wait for the index and were not looked at."""

    hits: tuple[Hit, ...]
    unindexed: int = 0


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A message that holds all terms. `counts` says how often each, `time` is in seconds."""

    key: bytes
    segment: int
    ordinal: int
    counts: tuple[int, ...]
    length: int
    time: int


@dataclass(slots=True)
class _Census:
    """How many words the messages have that come into question, and of each term in how many of how many it stands."""

    messages: int = 0
    words: int = 0
    holding: dict[Term, int] = field(default_factory=dict[Term, int])
    asked: dict[Term, int] = field(default_factory=dict[Term, int])

    def add(self, term: Term, holding: int, asked: int) -> None:
        self.holding[term] = self.holding.get(term, 0) + holding
        self.asked[term] = self.asked.get(term, 0) + asked

    def rarity(self, term: Term) -> float:
        """BM25's weight of a term, higher the fewer messages hold it."""
        holding = self.holding.get(term, 0)
        return math.log(1 + (self.asked.get(term, 0) - holding + 0.5) / (holding + 0.5))


def find(transaction: Transaction, segments: Segments, query: Query, limit: int, among: Among | None) -> Hits:
    """At most `limit` messages that hold every term and phrase, best first; `among` says which conversations count."""
    owners = _Owners(transaction, among)
    census = _Census()
    terms = tuple(sorted(query.terms, key=lambda term: (term.is_prefix, -len(term.text))))
    candidates = [
        *_waiting(transaction, segments.waiting(WAITING), terms, census, owners),
        *_packed(segments, terms, census, owners),
    ]
    rarities = tuple(map(census.rarity, terms))
    usual = max(census.words, 1) / max(census.messages, 1)
    now = now_ms() // 1000

    def score(candidate: _Candidate) -> float:
        damping = _SATURATION * (1 - _LENGTH + _LENGTH * candidate.length / usual)
        weight = 0.0
        for rarity, times in zip(rarities, candidate.counts, strict=True):
            weight += rarity * times * (_SATURATION + 1) / (times + damping)
        return weight * (1 + 0.5 ** (max(now - candidate.time, 0) / _HALF_LIFE))

    hits: list[Hit] = []
    for candidate in nlargest(READ_AGAIN, candidates, key=score):
        if len(hits) == limit:
            break
        key = candidate.key or segments.keys(candidate.segment)[candidate.ordinal]
        message, owner = read_message(transaction, key), owners.of(key)
        if message is not None and owner is not None and _is_live(owner, message) and _holds(message, query):
            hits.append(_hit(owner, message, terms, score(candidate)))
    return Hits(tuple(hits), max(segments.count_waiting() - WAITING, 0))


class _Owners:
    """The conversations of messages, read once a search."""

    def __init__(self, transaction: Transaction, among: Among | None) -> None:
        self._transaction = transaction
        self._among = among
        self._known: dict[bytes, Conversation | None] = {}

    def of(self, key: bytes) -> Conversation | None:
        """The conversation of the message, when it is there, can be read, and is searched."""
        segment = key.partition(b":")[0]
        if segment not in self._known:
            found = self._read(segment)
            self._known[segment] = found if found and (self._among is None or self._among(found)) else None
        return self._known[segment]

    def chosen(self, segments: Segments, number: int, ordinals: set[int]) -> set[int]:
        """Those messages of the segment whose conversation is searched."""
        if self._among is None or not ordinals:
            return ordinals
        keys = segments.keys(number)
        return {ordinal for ordinal in ordinals if self.of(keys[ordinal])}

    def _read(self, segment: bytes) -> Conversation | None:
        value = self._transaction.get("conversation", segment)
        try:
            return None if value is None else _conversations.decode(value)
        except (msgspec.DecodeError, RecursionError):  # whoever lists it is told
            return None


def _packed(segments: Segments, terms: tuple[Term, ...], census: _Census, owners: _Owners) -> Iterator[_Candidate]:
    found = 0
    for segment in segments.newest_first():
        if found >= CANDIDATES:
            return
        tables = _tables(segments, segment, terms, census)
        if tables is None:
            continue
        ordinals = set(tables[0]).intersection(*tables[1:]) - segment.dead
        ordinals = owners.chosen(segments, segment.number, ordinals)
        if not ordinals:
            continue
        lengths, times = segment.lengths, segment.times
        census.messages += len(lengths)
        census.words += sum(lengths)
        found += len(ordinals)
        for ordinal in sorted(ordinals, reverse=True):
            counts = tuple(table[ordinal] for table in tables)
            yield _Candidate(b"", segment.number, ordinal, counts, lengths[ordinal], times[ordinal])


def _tables(
    segments: Segments, segment: Segment, terms: tuple[Term, ...], census: _Census
) -> list[dict[int, int]] | None:
    """For each term which messages of the segment hold it how often; None once one is in none of them."""
    tables: list[dict[int, int]] = []
    for term in terms:
        look = segments.beginning if term.is_prefix else segments.exact
        table = look(segment.number, term.text.encode())
        census.add(term, len(table), segment.size)
        if not table:
            return None
        tables.append(table)
    return tables


def _waiting(
    transaction: Transaction, keys: list[bytes], terms: tuple[Term, ...], census: _Census, owners: _Owners
) -> Iterator[_Candidate]:
    """Candidates of the messages that wait: read through, and taken apart only when all terms may be there."""
    for key in reversed(keys):
        message = read_message(transaction, key) if owners.of(key) else None
        if message is None:
            continue
        text = fold(searched_text(message))
        census.messages += 1
        census.words += len(text) // _CHARS_OF_A_WORD + 1
        present = [term.text in text for term in terms]
        for term, is_present in zip(terms, present, strict=True):
            census.add(term, is_present, 1)
        if not all(present):
            continue
        document = document_of(key, message)
        counts = tuple(_count(document.words, term) for term in terms)
        if all(counts):
            length = sum(document.words.values())
            yield _Candidate(key, 0, 0, counts, length, message.created_at // 1000)


def _count(words: dict[str, int], term: Term) -> int:
    if not term.is_prefix:
        return words.get(term.text, 0)
    return sum(times for word, times in words.items() if word.startswith(term.text))


def _is_live(owner: Conversation, message: Message) -> bool:
    """Whether no rewind covers the message."""
    ordinal = message_ordinal(message.message_id)
    return not any(rewind.first <= ordinal <= rewind.last for rewind in owner.rewinds)


def _holds(message: Message, query: Query) -> bool:
    if not query.phrases:
        return True
    text = flat(searched_text(message))
    return all(phrase in text for phrase in query.phrases)


def _hit(owner: Conversation, message: Message, terms: tuple[Term, ...], score: float) -> Hit:
    match message:
        case UserMessage():
            kind = "user"
        case AssistantMessage():
            kind = "assistant"
        case _:
            kind = "tool"
    snippet = snippet_of(searched_text(message), terms)
    return Hit(owner, message.message_id, kind, message.created_at, snippet, round(score, 3))
