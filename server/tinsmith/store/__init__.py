"""The store: typed keyspaces in one LMDB environment, or in memory. lmdb is imported when a Store is opened."""

from tinsmith.store.conversations import ConversationPage
from tinsmith.store.find import Hit, Hits
from tinsmith.store.inmemory import InMemoryStore
from tinsmith.store.leases import Lease
from tinsmith.store.messages import MessagePage
from tinsmith.store.notes import Note
from tinsmith.store.session import Session
from tinsmith.store.storage import Storage, Store
from tinsmith.store.usage import UsageRecord

__all__ = [
    "ConversationPage",
    "Hit",
    "Hits",
    "InMemoryStore",
    "Lease",
    "MessagePage",
    "Note",
    "Session",
    "Storage",
    "Store",
    "UsageRecord",
]
