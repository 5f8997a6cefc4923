"""Leases: which process runs a conversation, and which one asks for it. Key of both: `<conversation>`."""

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

    __slots__ = ("_requests", "_rows")

    def __init__(self, transaction: Transaction) -> None:
        self._rows = Keyspace(transaction, "lease", _decoder)
        self._requests = Keyspace(transaction, "lease_request", _decoder)

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

    def request(self, wanted: Lease, is_alive: Callable[[Lease], bool]) -> Lease:
        """Ask the holder for the conversation. Whose request it waits for now: the first living one's."""
        asking = settle(self._requests.get(wanted.conversation_id), wanted, is_alive)
        self._requests.put(asking, wanted.conversation_id)
        return asking

    def withdraw(self, conversation_id: str, instance: str) -> bool:
        """Ask no more. Whether `instance` had asked; the request of another is left alone."""
        asking = self._requests.get(conversation_id)
        return asking is not None and asking.instance == instance and self._requests.delete(conversation_id)

    def requests(self) -> tuple[Lease, ...]:
        """Every request, also those of processes that have died since."""
        return tuple(self._requests.scan())

    def requested(self, conversation_id: str) -> Lease | None:
        """The request for this conversation, or None."""
        return self._requests.get(conversation_id)

    def hand_over(self, conversation_id: str, instance: str, is_alive: Callable[[Lease], bool]) -> Lease | None:
        """Give the lease that `instance` has to whoever asks for it and lives. The new holder, or None."""
        current, asking = self._rows.get(conversation_id), self._requests.get(conversation_id)
        if asking is None or current is None or current.instance != instance:
            return None
        self._requests.delete(conversation_id)
        if not is_alive(asking):
            return None
        self._rows.put(asking, conversation_id)
        return asking

    def drop(self, conversation_id: str) -> None:
        """Forget lease and request: there is no such conversation any more."""
        self._rows.delete(conversation_id)
        self._requests.delete(conversation_id)
