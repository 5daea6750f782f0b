"""The store in memory."""

from __future__ import annotations

from typing import Self

from awaken.domain.secret import shown_address
from awaken.errors import ConfigError
from awaken.stores.memory.commands import MemoryCommands
from awaken.stores.memory.commits import MemoryWrites
from awaken.stores.memory.upkeep import MemoryUpkeep


class MemoryStore(MemoryWrites, MemoryUpkeep, MemoryCommands):
    """Everything a process knows, as long as it lives. Other stores are held against this one.

    Reading stays possible when it is closed, and it may be opened again.
    """

    @classmethod
    def from_address(cls, address: str) -> Self:
        """A new store for `memory:`.

        Raises:
            ConfigError: the address says more, which would mean nothing.
        """
        if address.rstrip("/") != "memory:":
            raise ConfigError(
                f"store {shown_address(address)!r}: memory has no places, write memory:"
            )
        return cls()

    async def open(self) -> None:
        return

    async def close(self) -> None:
        self._owners.clear()
