"""The store in memory: for tests and short-lived programs."""

from awaken.stores.blobs.memory import MemoryBlobs
from awaken.stores.memory.profiles import MemoryProfiles
from awaken.stores.memory.store import MemoryStore

__all__ = ["MemoryBlobs", "MemoryProfiles", "MemoryStore"]
