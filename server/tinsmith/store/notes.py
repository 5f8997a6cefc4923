"""Notes of a conversation: scratchpad, turn records. Key: `<conversation>:<note>`; a note id may hold colons."""

import msgspec

from tinsmith.store.codec import clean_text
from tinsmith.store.keyspace import Keyspace
from tinsmith.store.transaction import Transaction


class Note(msgspec.Struct, frozen=True):
    """A named text; `updated_at` in milliseconds."""

    note_id: str
    content: str
    updated_at: int


_decoder = msgspec.json.Decoder(Note)


class Notes:
    """The notes of every conversation."""

    __slots__ = ("_rows",)

    def __init__(self, transaction: Transaction) -> None:
        self._rows = Keyspace(transaction, "conversation_note", _decoder)

    def get(self, conversation_id: str, note_id: str) -> Note | None:
        """The note, or None."""
        return self._rows.get(conversation_id, note_id)

    def put(self, conversation_id: str, note: Note) -> None:
        """Store the note in place of what was there."""
        self._rows.put(note, conversation_id, note.note_id)

    def delete(self, conversation_id: str, note_id: str) -> bool:
        """Whether there was a note to delete."""
        return self._rows.delete(conversation_id, note_id)

    def all(self, conversation_id: str, prefix: str = "") -> tuple[Note, ...]:
        """The conversation's notes whose ids begin with `prefix`, in the order of their ids."""
        start = clean_text(prefix)
        notes = self._rows.scan(conversation_id, prefix=prefix)
        return tuple(note for note in notes if note.note_id.startswith(start))
