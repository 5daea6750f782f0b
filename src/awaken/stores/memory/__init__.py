"""Threads in memory: the contract without a file."""

from awaken.stores.memory.commits import MemoryCommits
from awaken.stores.memory.profile import MemoryProfiles

__all__ = ["MemoryCommits", "MemoryProfiles"]
