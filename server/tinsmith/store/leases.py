"""Leases: which process runs a conversation. Key: `<conversation>`."""

from collections.abc import Callable

import msgspec

from tinsmith.store.keyspace import Keyspace
from tinsmith.store.transaction import Transaction


class Lease(msgspec.Struct, frozen=True):
    """A conversation held by one instance. Pid, start time and boot tell its process from a later one of the same pid.

    `process_start` is in the clock of the operating system, `acquired_at` in milliseconds.
    """

    conversation_id: str
    instance: str
    pid: int
    process_start: int
    boot_id: str
    acquired_at: int


_decoder = msgspec.json.Decoder(Lease)


def settle(current: Lease | None, wanted: Lease, is_alive: Callable[[Lease], bool]) -> Lease:
    """Who holds the conversation once `wanted` was asked for: whoever had it, as long as that instance lives. Pure."""
    if current is None or not (current.instance == wanted.instance or is_alive(current)):
        return wanted
    return current


class Leases:
    """The leases of every conversation."""

    __slots__ = ("_rows",)

    def __init__(self, transaction: Transaction) -> None:
        self._rows = Keyspace(transaction, "lease", _decoder)

    def get(self, conversation_id: str) -> Lease | None:
        """The lease, whether its holder lives or not."""
        return self._rows.get(conversation_id)

    def acquire(self, wanted: Lease, is_alive: Callable[[Lease], bool]) -> Lease:
        """The holder after this request: the instance of `wanted`, or the living other one. The dead are replaced."""
        current = self._rows.get(wanted.conversation_id)
        holder = settle(current, wanted, is_alive)
        if holder != current:
            self._rows.put(holder, wanted.conversation_id)
        return holder

    def release(self, conversation_id: str, instance: str) -> bool:
        """Give the lease up. Whether `instance` held it; the lease of another is left alone."""
        current = self._rows.get(conversation_id)
        return current is not None and current.instance == instance and self._rows.delete(conversation_id)
