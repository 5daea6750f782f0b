"""The memory store, put together from its parts."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.secret import redact_address
from awaken.core.store.store import Process
from awaken.errors import ConfigError
from awaken.stores import lazy_search
from awaken.stores.blobs.memory import MemoryBlobs
from awaken.stores.memory.access import MemoryAccess
from awaken.stores.memory.maintenance import MemoryMaintenance
from awaken.stores.memory.submissions import MemorySubmissions

if TYPE_CHECKING:
    from awaken.core.search.index import SearchIndex, ThreadHead
    from awaken.stores.memory.search_heads import MemoryHeads


class MemoryStore(MemorySubmissions, MemoryMaintenance):
    """A store in the memory of one process. The tests compare other stores with this one.

    A closed store can still be read, and may be opened again. Its blobs are in memory, too.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(clock)
        self.access = MemoryAccess()
        self._index: SearchIndex | None = None
        self.blobs = MemoryBlobs(self, clock=clock)

    @classmethod
    def from_address(cls, address: str) -> Self:
        """A new store for `memory:`.

        Raises:
            ConfigError: the address has a path or options.
        """
        if address.rstrip("/") != "memory:":
            raise ConfigError(
                f"store {redact_address(address)!r}: a memory store has no path: write memory:"
            )
        return cls()

    async def open(self) -> None:
        return

    async def check(self) -> None:
        return

    @property
    def is_refusing_writes(self) -> bool:
        return False

    async def check_write(self) -> None:
        return

    def add_batch_callback(self, callback: Callable[[int, float], object]) -> None:
        return

    async def processes(self) -> Sequence[Process]:
        return (Process(owner=self.owner, pid=os.getpid(), host=socket.gethostname()),)

    async def close(self) -> None:
        self._owners.clear()

    # -- searching ----------------------------------------------------------------------------

    async def list_heads(self, *, after: str = "", limit: int = 1000) -> Sequence[ThreadHead]:
        return self._heads.list_heads(after, limit)

    async def list_active_heads(self, *, since_ms: int) -> Sequence[ThreadHead]:
        return self._heads.list_active(since_ms)

    def search_index(self) -> SearchIndex:
        self._index = self._index or lazy_search.MemorySearchIndex(self._clock)
        return self._index

    @property
    def _heads(self) -> MemoryHeads:
        return lazy_search.MemoryHeads(self._threads, self._names, self._runs)
