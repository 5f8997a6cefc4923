"""Who needs a blob. Key: `<hash>:<keyspace>:<conversation>`.

A use is there or not, however many records name the blob, so nothing can be counted wrong.
"""

import msgspec

from tinsmith.store.keyspace import Keyspace
from tinsmith.store.transaction import Transaction

_decoder = msgspec.json.Decoder(dict[str, str])


class BlobUses:
    """Which conversations' records, by keyspace, name which blobs. Changed in the transaction of the records."""

    __slots__ = ("_rows",)

    def __init__(self, transaction: Transaction) -> None:
        self._rows = Keyspace(transaction, "blob_use", _decoder)

    def add(self, name: str, keyspace: str, conversation_id: str) -> None:
        """Records of this keyspace in this conversation name the blob."""
        self._rows.put({}, name, keyspace, conversation_id)

    def drop(self, name: str, keyspace: str, conversation_id: str) -> bool:
        """They do not any more. Whether nobody names it now, so that it may go."""
        self._rows.delete(name, keyspace, conversation_id)
        return next(self._rows.ids(name), None) is None

    def of(self, keyspace: str, conversation_id: str) -> set[str]:
        """The blobs that records of this keyspace in this conversation name. Looks at every key: for what is rare."""
        user = f":{keyspace}:{conversation_id}"
        return {use.partition(":")[0] for use in self._rows.ids() if use.endswith(user)}
