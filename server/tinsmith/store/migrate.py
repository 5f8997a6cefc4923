"""The schema of the store: which form its records have, and the steps from older forms to ours.

A step looks at a store of its version and says what is to change for the next one; it changes nothing itself. All
steps that a store needs are applied in the transaction that opens it, or none. A step never deletes what it cannot
read: such a record stays as it is and is named when somebody asks for it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from tinsmith.domain.errors import PersistenceError
from tinsmith.store.keyspace import Keyspace
from tinsmith.store.transaction import Span, Transaction

SCHEMA_VERSION = 3
Change = tuple[str, bytes, bytes | None]
"""Keyspace, key, and the value that it is to have; None deletes it."""
Step = Callable[[Transaction], Iterable[Change]]

_KEY = "schema_version"
_RAW_KEY, _RAW_VERSION = _KEY.encode(), str(SCHEMA_VERSION).encode()
_numbers = msgspec.json.Decoder(int)


def let_messages_wait(transaction: Transaction) -> Iterator[Change]:
    """2 → 3: messages are found by their words. Each waits for the index, in a row of its own."""
    for key, _ in transaction.scan("message", Span()):
        yield "message_search", b"p" + key, b""


STEPS: Mapping[int, Step] = {2: let_messages_wait}
"""By the version that each starts from."""


def prepare(transaction: Transaction) -> None:
    """Mark a new store with our schema, or bring an older one to it.

    Raises PersistenceError for a store that is newer, or older than any step knows.
    """
    versions = Keyspace(transaction, "meta", _numbers)
    found = versions.get(_KEY)
    if found == SCHEMA_VERSION:
        return
    if found is not None:
        _migrate(transaction, found)
    versions.put(SCHEMA_VERSION, _KEY)


def check(transaction: Transaction) -> None:
    """Whether the store still has the schema it was opened with, as cheap as one look at a key.

    Raises PersistenceError once another version of the product has brought it to its own.
    """
    if transaction.get("meta", _RAW_KEY) != _RAW_VERSION:
        raise PersistenceError(
            "storeVersion",
            "Another version of Tinsmith has changed the store since this one opened it. "
            "Nothing more is stored from here; restart this server to go on.",
            data={"known": SCHEMA_VERSION},
        )


def _migrate(transaction: Transaction, found: int) -> None:
    if found > SCHEMA_VERSION or any(version not in STEPS for version in range(found, SCHEMA_VERSION)):
        raise PersistenceError(
            "storeVersion",
            f"The store was written by {'a newer' if found > SCHEMA_VERSION else 'an older'} Tinsmith (schema {found}, "
            f"this one knows {SCHEMA_VERSION}). Use that version, or name another directory with TINSMITH_DATA_DIR.",
            data={"found": found, "known": SCHEMA_VERSION},
        )
    for version in range(found, SCHEMA_VERSION):
        for keyspace, key, value in [*STEPS[version](transaction)]:  # a keyspace must not change while it is scanned
            if value is None:
                transaction.delete(keyspace, key)
            else:
                transaction.put(keyspace, key, value)
