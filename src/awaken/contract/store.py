"""What a technology has to bring to keep threads."""

from __future__ import annotations

from typing import Protocol

from awaken.contract.commands import Commands
from awaken.contract.commits import Commits
from awaken.contract.profile import ProfileStore
from awaken.contract.threads import Threads


class Store(Commits, Threads, Commands, Protocol):
    """Threads, runs, tickets, commands and profiles behind one address."""

    @property
    def owner(self) -> str:
        """The name under which this store claims threads."""
        ...

    @property
    def profiles(self) -> ProfileStore: ...

    async def open(self) -> None:
        """Be ready: files are there, readable and of a version this code knows. May be repeated.

        Raises:
            StoreUnavailable: they are not; the text says what is wrong and what to do.
        """
        ...

    async def close(self) -> None:
        """Finish what was begun, and give up every thread this store owns. May be repeated."""
        ...
