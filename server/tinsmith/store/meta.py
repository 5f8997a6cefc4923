"""Facts about the store and the workspaces.

Keys: `schema_version` (see `migrate.py`), `active_conversation_id:<workspace>`, `valid_settings`.
"""

from collections.abc import Iterable

import msgspec

from tinsmith.store.keyspace import Keyspace
from tinsmith.store.transaction import Transaction

_VALID_SETTINGS_LIMIT = 64
_texts = msgspec.json.Decoder(str)
_lists = msgspec.json.Decoder(list[str])


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
