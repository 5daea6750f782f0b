"""The whole contract of a store, put together from its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from awaken.core.blobs import BlobUses
from awaken.core.profile import ProfileStore
from awaken.core.request_manifest import Requests
from awaken.core.store.commands import Commands
from awaken.core.store.commits import Commits, Lease
from awaken.core.store.threads import Threads
from awaken.core.value import Value

if TYPE_CHECKING:
    from awaken.core.access_store import Access


class Process(Value, frozen=True, kw_only=True):
    """A live process that has the store open. `owner` is the name under which it claims threads;
    the rest is `None` where the store does not know it. `since_ms` is when it opened the store."""

    owner: str
    pid: int | None = None
    host: str | None = None
    since_ms: int | None = None


class Store(Commits, Threads, Commands, BlobUses, Requests, Protocol):
    """A store of threads, runs, tickets, commands and profiles, and of the keys of its servers."""

    @property
    def owner(self) -> str:
        """The name under which this store claims threads."""
        ...

    @property
    def lease(self) -> Lease:
        """Whether this store's owner may start effects on the threads it has claimed."""
        ...

    @property
    def profiles(self) -> ProfileStore: ...

    @property
    def access(self) -> Access:
        """What the servers in front of this store keep in it."""
        ...

    async def open(self) -> None:
        """Connect, and check that the data is readable and of a known version. May be repeated.

        Raises:
            StoreUnavailable: it cannot be used; the text says what is wrong and what to do.
        """
        ...

    async def check(self) -> None:
        """Return if the store can be read now; it costs one small read.

        Raises:
            StoreUnavailable: it cannot; the text says what is wrong and what to do.
        """
        ...

    @property
    def is_refusing_writes(self) -> bool:
        """Whether the store could not take its last write. Reading it does no I/O. A store that
        never refuses one says `False`."""
        ...

    async def check_write(self) -> None:
        """Make one small write that changes nothing, and return if the store has taken it.

        Raises:
            StoreUnavailable: it has not; the text says what is wrong and what to do.
        """
        ...

    def add_batch_callback(self, callback: Callable[[int, float], object]) -> None:
        """Call `callback` after each batch of writes, from now on, with the number of writes in the
        batch and the seconds it took. It may be called on another thread. A store without
        batches never calls it."""
        ...

    async def processes(self) -> Sequence[Process]:
        """The live processes that have the store open for writing, this one included, by owner."""
        ...

    async def close(self) -> None:
        """Finish the writes under way and release every thread this store owns. May be repeated."""
        ...


@runtime_checkable
class CountsUnreadable(Protocol):
    """A store that counts the rows it could not decode. Not every store has rows."""

    def count_unreadable(self) -> Mapping[str, int]:
        """How many different rows this process has met that it could not decode, by their kind."""
        ...
