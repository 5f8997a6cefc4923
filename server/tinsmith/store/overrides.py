"""The persisted patch of the configuration: one partial tree. Key: `runtime_overrides`."""

from typing import Any

import msgspec

from tinsmith.store.keyspace import Keyspace
from tinsmith.store.transaction import Transaction

_decoder = msgspec.json.Decoder(dict[str, Any])
_KEY = "runtime_overrides"


class Overrides:
    """What was set at run time and outlives it."""

    __slots__ = ("_rows",)

    def __init__(self, transaction: Transaction) -> None:
        self._rows = Keyspace(transaction, "config", _decoder)

    def get(self) -> dict[str, Any]:
        """The patch; empty when nothing was set."""
        return self._rows.get(_KEY) or {}

    def put(self, patch: dict[str, Any]) -> None:
        """Store the patch in place of what was there."""
        self._rows.put(patch, _KEY)
