"""The full-text index: which messages it holds, kept up with their records, packed and rebuilt."""

from tinsmith.store.codec import encode_key
from tinsmith.store.documents import document_of, read_message
from tinsmith.store.find import Among, Hits, find
from tinsmith.store.query import parse_query
from tinsmith.store.segments import SEGMENT, Document, Segments
from tinsmith.store.transaction import Span, Transaction


class FullText:
    """The index as one transaction sees it. `noted` counts the messages that were noted in it."""

    __slots__ = ("_segments", "_transaction", "noted")

    def __init__(self, transaction: Transaction) -> None:
        self.noted = 0
        self._transaction = transaction
        self._segments = Segments(transaction)

    def note(self, conversation_id: str, message_id: str) -> None:
        """The message was stored or replaced: what is found of it follows its record from now on."""
        self._segments.wait(encode_key(conversation_id, message_id))
        self.noted += 1

    def forget(self, conversation_id: str, message_id: str) -> None:
        """The message was deleted. Its words go too, as soon as nobody writes for a moment."""
        if self._segments.forget(encode_key(conversation_id, message_id)):
            self.noted += SEGMENT

    def find(self, query: str, *, limit: int = 20, among: Among | None = None) -> Hits:
        """The messages that hold all words of the query (see `parse_query`), best first.

        `among` says of a conversation whether it is searched; None takes all. Raises SchemaError for a query
        without words.
        """
        return find(self._transaction, self._segments, parse_query(query), limit, among)

    def fold(self, at_least: int = SEGMENT) -> bool:
        """Pack up to SEGMENT messages, when `at_least` wait, or take the dead out of one segment. Whether it did.

        One step of what may be much, so that other writers need not wait long: call it until it says no.
        """
        stale = self._segments.first_dead()
        if stale is not None:
            living = self._segments.unpack(stale)
            self._segments.pack(self._documents(living), (), stale)
            return True
        waiting = self._segments.waiting(SEGMENT)
        if len(waiting) < at_least:
            return False
        self._segments.pack(self._documents(waiting), waiting)
        return True

    def rebuild(self) -> int:
        """Forget the index; every message waits to be packed anew. How many there are."""
        self._segments.clear()
        keys = [key for key, _ in self._transaction.scan("message", Span())]
        for key in keys:
            self._segments.wait(key)
        return len(keys)

    def _documents(self, keys: list[bytes]) -> list[Document]:
        """Those of the messages that are there and can be read."""
        found = ((key, read_message(self._transaction, key)) for key in keys)
        return [document_of(key, message) for key, message in found if message is not None]
