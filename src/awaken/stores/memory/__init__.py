"""Threads in memory: the contract without a file."""

from awaken.stores.memory.profile import MemoryProfiles
from awaken.stores.memory.store import MemoryStore

__all__ = ["MemoryProfiles", "MemoryStore"]
