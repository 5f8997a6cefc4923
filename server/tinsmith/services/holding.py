"""Who holds a conversation: leases, the processes that they name, and what is said when it is another one."""

import os

from tinsmith.domain.errors import AgentError
from tinsmith.proc.identity import boot_id, process_start
from tinsmith.store import Lease


def is_alive(lease: Lease) -> bool:
    """Whether the process that took the lease still runs; a later process of the same pid is another."""
    return lease.boot_id == boot_id() and process_start(lease.pid) == lease.process_start


def own_lease(instance: str) -> Lease:
    """The lease of this process, for no conversation yet."""
    pid = os.getpid()
    return Lease("", instance, pid, process_start(pid) or 0, boot_id(), 0)


class ConversationHeldError(AgentError):
    """Another live process runs this conversation."""

    kind = "policy"

    def __init__(self, holder: Lease) -> None:
        super().__init__(
            "conversationHeld",
            f"Another editor window (process {holder.pid}) holds this conversation. Use it there, close it, "
            "or take it over: load it with takeOver.",
            data={"pid": holder.pid, "instance": holder.instance, "takeOver": True},
        )
        self.holder = holder
