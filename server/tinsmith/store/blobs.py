"""Bytes under the hash of themselves: images, and files as they were. Key: `<hash>:<chunk>`."""

import hashlib

from tinsmith.store.codec import encode_key, span_below
from tinsmith.store.transaction import Transaction

CHUNK_SIZE = 256 * 1024
"""Bytes of a chunk: LMDB wants neighbouring free pages for each value, which short ones find in an old file."""


def blob_hash(content: bytes) -> str:
    """The name that these bytes are kept under: the 64 hex digits of their SHA-256."""
    return hashlib.sha256(content).hexdigest()


class Blobs:
    """Contents of files and images; equal ones are kept once, whoever refers to them."""

    __slots__ = ("_transaction",)

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def put(self, content: bytes) -> str:
        """Keep the bytes, under the name it returns. What is there already is not written again."""
        name = blob_hash(content)
        if self.get(name) is None:
            self.delete(name)
            for index, start in enumerate(range(0, max(len(content), 1), CHUNK_SIZE)):
                self._transaction.put("blob", encode_key(name, f"{index:08}"), content[start : start + CHUNK_SIZE])
        return name

    def get(self, name: str) -> bytes | None:
        """The bytes of this name; None when they are not there, or are not any more what the name says."""
        chunks = [chunk for _, chunk in self._transaction.scan("blob", span_below(name))]
        content = b"".join(chunks)
        return content if chunks and blob_hash(content) == name else None

    def delete(self, name: str) -> bool:
        """Whether there was something to delete."""
        keys = [key for key, _ in self._transaction.scan("blob", span_below(name))]
        for key in keys:
            self._transaction.delete("blob", key)
        return bool(keys)
