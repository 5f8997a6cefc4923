"""What was done to files, and the bytes before and after. Key: `<conversation>:<record>`, in the order it was done."""

from collections.abc import Iterable

import msgspec

from tinsmith.domain.change import ChangeRecord, Image
from tinsmith.store.blobs import Blobs
from tinsmith.store.keyspace import Keyspace
from tinsmith.store.transaction import Transaction
from tinsmith.store.uses import BlobUses

_decoder = msgspec.json.Decoder(ChangeRecord)
_KEYSPACE = "change"


class Changes:
    """The changes of every conversation. Their images are blobs, which go with the last record that names them."""

    __slots__ = ("_blobs", "_rows", "_uses")

    def __init__(self, transaction: Transaction) -> None:
        self._rows = Keyspace(transaction, _KEYSPACE, _decoder)
        self._blobs = Blobs(transaction)
        self._uses = BlobUses(transaction)

    def append(self, conversation_id: str, record: ChangeRecord, images: Iterable[bytes] = ()) -> ChangeRecord:
        """Store the record as the conversation's last one, with the contents of its images. Returns it as stored."""
        for content in images:
            self._uses.add(self._blobs.put(content), _KEYSPACE, conversation_id)
        last = next(self._rows.ids(conversation_id, reverse=True), None)
        ordinal = 0 if last is None else int(last[1:]) + 1
        numbered = msgspec.structs.replace(record, record_id=f"f{ordinal:08d}")
        self._rows.put(numbered, conversation_id, numbered.record_id)
        return numbered

    def put(self, conversation_id: str, record: ChangeRecord) -> None:
        """Store the record in place of what was there; its images stay."""
        self._rows.put(record, conversation_id, record.record_id)

    def all(self, conversation_id: str) -> tuple[ChangeRecord, ...]:
        """The conversation's records, in the order in which the changes were made."""
        return tuple(self._rows.scan(conversation_id))

    def delete(self, conversation_id: str, record_id: str) -> bool:
        """Whether there was a record to delete. Its images go unless another record has them."""
        record = self._rows.get(conversation_id, record_id)
        if record is None:
            return False
        self._rows.delete(conversation_id, record_id)
        others = {name for other in self.all(conversation_id) for name in _blobs_of(other)}
        self._let_go(conversation_id, set(_blobs_of(record)) - others)
        return True

    def delete_all(self, conversation_id: str) -> int:
        """Forget everything that was done in the conversation; how many records went.

        Images that no other conversation has go with them, those of records that cannot be read included.
        """
        self._let_go(conversation_id, self._uses.of(_KEYSPACE, conversation_id))
        record_ids = list(self._rows.ids(conversation_id))
        for record_id in record_ids:
            self._rows.delete(conversation_id, record_id)
        return len(record_ids)

    def _let_go(self, conversation_id: str, blobs: Iterable[str]) -> None:
        for name in blobs:
            if self._uses.drop(name, _KEYSPACE, conversation_id):
                self._blobs.delete(name)


def _blobs_of(record: ChangeRecord) -> list[str]:
    images: tuple[Image | None, ...] = (record.before, record.after)
    return [image.blob for image in images if image is not None]
