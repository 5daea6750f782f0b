"""The search index, and the updates of threads that it takes.

The index is beside the store, and never in a commit: it is filled from what was committed, and may
be thrown away at any time. What was committed is found by comparing heads: what the store has of a
thread (`ThreadHead`) with what the index has of it (`IndexedHead`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from awaken.core.search.query import SearchKind, SearchTerms
from awaken.core.search.usage import UsageQuery, UsageRow
from awaken.core.value import Value

FORMAT = 1
"""The version of what an index holds. An index of another version is built anew."""
MAX_TEXT_PIECE = 8 * 1024
"""The characters that are indexed of each message, of each call's arguments and of each result."""


class ThreadHead(Value, frozen=True, kw_only=True):
    """How far a thread is in the store: how many commits it has, and the revision of its metadata.

    `created_at` (in milliseconds) tells a thread from an earlier one of its id, `updated_at` is the
    time of the last commit.
    """

    thread_id: str
    created_at: int
    updated_at: int
    commits: int
    revision: int = 0


class IndexedHead(Value, frozen=True, kw_only=True):
    """How far a thread is in the index. `events` are the events of its indexed commits."""

    created_at: int
    commits: int
    events: int
    revision: int = 0

    def is_at(self, head: ThreadHead) -> bool:
        """Whether the index has all that the store has."""
        mine = (self.created_at, self.commits, self.revision)
        return mine == (head.created_at, head.commits, head.revision)


class EntryUpdate(Value, frozen=True, kw_only=True):
    """What became known of a run; or, without `run_id`, of the messages of a thread that are no
    run's, or of its title (`is_title`).

    `texts` and `tags` are added to what the index has, but for those of a title, which replace it
    as the other values do. `status` is one of `STATUS_WORDS`. `cost` is in billionths, `None` if no
    price is known.
    """

    run_id: str | None = None
    is_title: bool = False
    agent: str = ""
    model: str = ""
    user: str = ""
    status: str = ""
    started_ms: int = 0
    updated_ms: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int | None = None
    question: str = ""
    texts: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def id_in(self, thread_id: str) -> str:
        """How the index names the entry."""
        if self.run_id is not None:
            return f"r:{self.run_id}"
        return f"{'t' if self.is_title else 'm'}:{thread_id}"


class ThreadUpdate(Value, frozen=True, kw_only=True):
    """What became known of a thread: the index writes all of it or none.

    It is written only if the index is at `before` (`None`: it does not have the thread), so that
    two writers never count anything twice. With `is_reset`, all that the index has of the thread is
    dropped first. `tags` are those of the thread, which hold for each of its runs as well; `None`
    leaves them as they are.
    """

    thread_id: str
    scope: str
    before: IndexedHead | None
    after: IndexedHead
    is_reset: bool = False
    entries: tuple[EntryUpdate, ...] = ()
    tags: tuple[str, ...] | None = None


class FoundEntry(Value, frozen=True, kw_only=True):
    """A run that fits a query; or, without `run_id`, the title or other messages of a thread.

    `key` orders entries by the time they began; `body` is the text in which the words were found.
    """

    key: int
    thread_id: str
    run_id: str | None
    agent: str
    model: str
    user: str
    status: str
    started_ms: int
    updated_ms: int
    tokens: int
    cost: int | None
    question: str
    body: str = ""


class FoundPage(Value, frozen=True, kw_only=True):
    """Entries in the order of the list, and the key behind which the next page begins: `None` if
    there is nothing more."""

    entries: tuple[FoundEntry, ...] = ()
    next_key: int | None = None


class IndexState(Value, frozen=True, kw_only=True):
    """How an index is: its time zone, and what its owner said last.

    When it last went through the whole store it counted `threads`. At `seen_ms`, `pending` threads
    had commits that were not indexed, the oldest from `behind_ms` milliseconds before. The index
    `is_complete` once its owner has gone through the whole store. Without an `owner`, no process
    keeps the index up to date. `made` names the index: one that was made anew has another name.
    """

    made: str = ""
    zone: str = "UTC"
    threads: int = 0
    owner: str | None = None
    seen_ms: int = 0
    pending: int = 0
    behind_ms: int = 0
    is_complete: bool = False


class SearchIndex(Protocol):
    """An index of threads and runs, and the sums of what runs have used.

    Every method raises `SearchUnavailable` if the index cannot be used, with the reason. An index
    that is damaged or of another version is thrown away when that is found out, and begins empty.
    """

    async def claim(self, owner: str, seconds: float, state: IndexState) -> bool:
        """Become, or stay, the one owner of the index for so many seconds, and write what the owner
        says of its state. Returns whether `owner` is the owner now."""
        ...

    async def release(self, owner: str) -> None:
        """Give up the ownership, so that another process may begin at once."""
        ...

    async def load_state(self) -> IndexState:
        """What the owner has said; an owner whose time is over is left out."""
        ...

    async def load_heads(self, thread_ids: Sequence[str]) -> Mapping[str, IndexedHead]:
        """How far the index is with these threads; those it does not have are left out."""
        ...

    async def list_heads(self, after: str, until: str | None) -> Mapping[str, IndexedHead]:
        """The same for all threads whose id is behind `after`, up to and with `until`, in the order
        of code points."""
        ...

    async def apply(self, updates: Sequence[ThreadUpdate]) -> int:
        """Write updates, and return how many fitted: see `ThreadUpdate`."""
        ...

    async def remove(self, thread_ids: Sequence[str]) -> None:
        """Drop all that the index has of these threads."""
        ...

    async def find(
        self,
        terms: SearchTerms,
        *,
        scope: str | None,
        kind: SearchKind,
        before_key: int | None,
        limit: int,
    ) -> FoundPage:
        """A page of what fits, the latest first. Of a thread, the list of threads has the latest
        entry that fits. The page may have fewer entries than there are, as `next_key` then says."""
        ...

    async def sum_usage(self, query: UsageQuery) -> Sequence[UsageRow]:
        """What runs have used, by the parts that the query groups by."""
        ...

    async def rebuild(self, zone: str | None = None) -> None:
        """Drop all that the index has; it is filled again by its owner. Its days are those of
        `zone` from then on."""
        ...

    async def exists(self) -> bool:
        """Whether there is an index. Nothing is made."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class Searchable(Protocol):
    """A store whose threads can be found again by what was said in them."""

    async def list_heads(self, *, after: str = "", limit: int = 1000) -> Sequence[ThreadHead]:
        """The heads of the threads whose id is behind `after`, in the order of code points."""
        ...

    async def list_active_heads(self, *, since_ms: int) -> Sequence[ThreadHead]:
        """The heads of the threads in which a run is running, or has started, paused or ended at
        `since_ms` or later. The cost does not depend on the number of other threads."""
        ...

    def search_index(self) -> SearchIndex:
        """The index beside this store. Nothing is read or made before it is used."""
        ...
