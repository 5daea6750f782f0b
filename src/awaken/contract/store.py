"""The whole contract of a store, put together from its parts."""

from __future__ import annotations

from typing import Protocol

from awaken.contract.blobs import BlobUses
from awaken.contract.commands import Commands
from awaken.contract.commits import Commits
from awaken.contract.profile import ProfileStore
from awaken.contract.threads import Threads


class Store(Commits, Threads, Commands, BlobUses, Protocol):
    """A store of threads, runs, tickets, commands and profiles."""

    @property
    def owner(self) -> str:
        """The name under which this store claims threads."""
        ...

    @property
    def profiles(self) -> ProfileStore: ...

    async def open(self) -> None:
        """Connect, and check that the data is readable and of a known version. May be repeated.

        Raises:
            StoreUnavailable: it cannot be used; the text says what is wrong and what to do.
        """
        ...

    async def close(self) -> None:
        """Finish the writes under way and release every thread this store owns. May be repeated."""
        ...
