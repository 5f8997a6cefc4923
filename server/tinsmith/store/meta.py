"""Facts about the store and the workspaces.

Keys: `schema_version`, `active_conversation_id:<workspace>`, `valid_settings`.
"""

from collections.abc import Iterable

import msgspec

from tinsmith.domain.errors import PersistenceError
from tinsmith.store.keyspace import Keyspace
from tinsmith.store.transaction import Transaction

SCHEMA_VERSION = 2
_VALID_SETTINGS_LIMIT = 64
_numbers = msgspec.json.Decoder(int)
_texts = msgspec.json.Decoder(str)
_lists = msgspec.json.Decoder(list[str])


def check_schema(transaction: Transaction) -> None:
    """Mark a new store with our schema. Raises PersistenceError for a store that another version wrote."""
    versions = Keyspace(transaction, "meta", _numbers)
    found = versions.get("schema_version")
    if found is None:
        versions.put(SCHEMA_VERSION, "schema_version")
    elif found != SCHEMA_VERSION:
        raise PersistenceError(
            "storeVersion",
            f"The store was written by {'a newer' if found > SCHEMA_VERSION else 'an older'} Tinsmith (schema {found}, "
            f"this one knows {SCHEMA_VERSION}). Use that version, or name another directory with TINSMITH_DATA_DIR.",
            data={"found": found, "known": SCHEMA_VERSION},
        )


class Meta:
    """Facts that belong to no conversation."""

    __slots__ = ("_lists", "_texts")

    def __init__(self, transaction: Transaction) -> None:
        self._texts = Keyspace(transaction, "meta", _texts)
        self._lists = Keyspace(transaction, "meta", _lists)

    def active_conversation(self, workspace: str) -> str | None:
        """The id of the conversation that was last active in the workspace, or None."""
        return self._texts.get("active_conversation_id", workspace)

    def set_active_conversation(self, workspace: str, conversation_id: str | None) -> None:
        """Remember the workspace's active conversation; None forgets it."""
        if conversation_id is None:
            self._texts.delete("active_conversation_id", workspace)
        else:
            self._texts.put(conversation_id, "active_conversation_id", workspace)

    def valid_settings(self) -> frozenset[str]:
        """Hashes of settings trees that were found valid."""
        return frozenset(self._lists.get("valid_settings") or ())

    def remember_valid_settings(self, hashes: Iterable[str]) -> None:
        """Add hashes of valid settings trees; the newest 64 are kept."""
        known = self._lists.get("valid_settings") or []
        added = sorted(set(hashes) - set(known))
        self._lists.put((known + added)[-_VALID_SETTINGS_LIMIT:], "valid_settings")
