"""What runs of this process have done that the store, which was away, has not taken yet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from awaken.contract.commits import Fence, ThreadCommit
from awaken.contract.store import Store
from awaken.errors import CommitUnknown, StoreError, StoreUnavailable

log = logging.getLogger("awaken.runtime")


class Unkept:
    """Commits that are still to be made, by thread.

    A thread stays this process's until they are: another one would find calls without an outcome,
    and report as unknown what is known here.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: dict[str, tuple[Fence, list[ThreadCommit]]] = {}

    def __contains__(self, thread_id: str) -> bool:
        return thread_id in self._held

    def hold(self, fence: Fence, commits: Sequence[ThreadCommit]) -> None:
        """Keep the commits of a run that has broken off; they are made in their order."""
        self._held[fence.thread_id] = (fence, list(commits))

    async def settle(self, thread_id: str | None = None) -> None:
        """Try again to make the commits of one thread, or of all, and then give it up.

        Raises:
            StoreUnavailable, CommitUnknown: the store is still away; nothing is forgotten.
        """
        for id in tuple(self._held) if thread_id is None else (thread_id,):
            # Taken out meanwhile: nobody else makes them, too.
            held = self._held.pop(id, None)
            if held is None:
                continue
            fence, commits = held
            try:
                await self._make(commits)
            except (StoreUnavailable, CommitUnknown, asyncio.CancelledError):
                self._held[id] = held
                raise
            except StoreError as error:
                log.error("%s; %s", _lost(fence, commits), error)
            await self._store.release(fence)

    async def _make(self, commits: list[ThreadCommit]) -> None:
        while commits:
            # The answer to an earlier try may be what was lost.
            if await self._store.settle(commits[0]) is None:
                await self._store.commit(commits[0])
            del commits[0]

    async def close(self) -> None:
        """Try once more, and say what was lost if that was in vain."""
        for thread_id in tuple(self._held):
            fence, commits = self._held[thread_id]
            try:
                await self.settle(thread_id)
            except StoreError as error:
                log.error("%s; %s", _lost(fence, commits), error)


def _lost(fence: Fence, commits: Sequence[ThreadCommit]) -> str:
    """What is lost with these commits."""
    calls = sorted({f"{entry.tool_name} ({entry.key})" for each in commits for entry in each.calls})
    return f"thread {fence.thread_id}: what these calls came to is lost: {', '.join(calls)}"
