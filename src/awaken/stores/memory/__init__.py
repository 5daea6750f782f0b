"""The store in memory: for tests and short-lived programs."""

from awaken.stores.memory.blobs import MemoryBlobs
from awaken.stores.memory.profile import MemoryProfiles
from awaken.stores.memory.store import MemoryStore

__all__ = ["MemoryBlobs", "MemoryProfiles", "MemoryStore"]
