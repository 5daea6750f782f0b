"""Commits of ended runs and background tasks that could not be made while the store was
unavailable.

This process keeps its claim on a thread until these commits are made. Otherwise another process
would find calls without an outcome there, and report as unknown what is known here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from awaken.core.aio.owned_tasks import log_error, start_logged
from awaken.core.store.commits import Commits, Committed, Fence, ThreadCommit
from awaken.core.store.store import Store
from awaken.errors import CommitUnknown, StoreError, StoreUnavailable
from awaken.worker.claims import Claims, ClaimUse

PAUSE = 2.0
"""Seconds between two attempts to make the commits."""
log = logging.getLogger("awaken.runtime")


class Held:
    """The commits of one thread that are still to be made, in order, and a callback for afterwards.

    A caller must hold the `lock` while it makes them.
    """

    __slots__ = ("commits", "fence", "lock", "then")

    def __init__(
        self, fence: Fence, commits: list[ThreadCommit], then: Callable[[], Awaitable[None]]
    ) -> None:
        self.fence, self.commits, self.then = fence, commits, then
        self.lock = asyncio.Lock()

    def lost(self, error: object) -> None:
        """Log what is lost with these commits."""
        entries = [entry for commit in self.commits for entry in commit.calls]
        calls = sorted({f"{entry.tool_name} ({entry.key})" for entry in entries})
        what = f"the outcomes of these calls are lost: {', '.join(calls)}"
        log.error("thread %s: %s; %s", self.fence.thread_id, what if calls else _END_LOST, error)


_END_LOST = "the end of its run is lost"


class Unkept:
    """Commits that are still to be made, by thread. While there are any, a task tries them again
    every `PAUSE` seconds."""

    def __init__(self, store: Store, claims: Claims) -> None:
        self._store, self._claims = store, claims
        self._held: dict[str, Held] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._closed = False

    def __contains__(self, thread_id: str) -> bool:
        return thread_id in self._held

    def hold(
        self,
        fence: Fence,
        commits: Sequence[ThreadCommit],
        then: Callable[[], Awaitable[None]],
    ) -> None:
        """Hold the commits of a run or background task that has ended here. `then` is called once
        they are made and the thread is released."""
        held = Held(fence, list(commits), then)
        if self._closed:
            held.lost("the runtime is closed")
            self._claims.release_later(fence)
            return
        self._held[fence.thread_id] = held
        self._claims.mark(fence, ClaimUse.PENDING_COMMITS)
        self.keep_trying()

    def __bool__(self) -> bool:
        """Whether any commits are held."""
        return bool(self._held)

    def keep_trying(self) -> None:
        """Start the task that tries again, in this event loop, if any commits are held."""
        if not self._held:
            return
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # The task and the locks belong to an event loop that is closed.
            self._loop, self._keeper = loop, None
            for held in self._held.values():
                held.lock = asyncio.Lock()
        if self._keeper is None or self._keeper.done():
            self._keeper = start_logged(
                self._keep_trying(), "held commits will not be retried", log
            )

    async def _keep_trying(self) -> None:
        while self._held:
            await asyncio.sleep(PAUSE)
            await self.try_again()

    async def try_again(self, thread_id: str | None = None) -> None:
        """Try to make the commits of one thread, or of all. A failure is logged, and the commits
        stay held."""
        for id in tuple(self._held) if thread_id is None else (thread_id,):
            try:
                await self.settle(id)
            except Exception as error:
                log_error(
                    error, f"thread {id} is still held, with commits that are not stored", log
                )

    async def settle(self, thread_id: str) -> None:
        """Make the commits that are held for a thread, and release the thread.

        Raises:
            StoreUnavailable, CommitUnknown: the store still does not answer; the commits stay held.
        """
        held = self._held.get(thread_id)
        if held is None:
            return
        async with held.lock:
            if self._held.get(thread_id) is not held:
                return  # the caller that held the lock has made them
            try:
                while held.commits:
                    await commit_once(self._store, held.commits[0], is_tried=True)
                    del held.commits[0]
            except (StoreUnavailable, CommitUnknown):
                raise
            except StoreError as error:
                held.lost(error)
                held.commits.clear()
            await self._claims.release(held.fence)
            del self._held[thread_id]
        await held.then()

    async def close(self, grace: float) -> None:
        """Try once more, for at most `grace` seconds, and log the commits that are lost. After
        this, `hold` only logs its commits as lost."""
        self._closed = True
        if self._keeper is not None:
            self._keeper.cancel()
        until = asyncio.get_running_loop().time() + grace
        for thread_id, held in tuple(self._held.items()):
            try:
                async with asyncio.timeout_at(until):
                    await self.settle(thread_id)
            except TimeoutError:
                held.lost("the store did not answer in time")
                self._claims.release_later(held.fence)
            except StoreError as error:
                held.lost(error)
                self._claims.release_later(held.fence)


async def commit_once(
    commits: Commits, commit: ThreadCommit, *, is_tried: bool = False
) -> Committed:
    """Make a commit that has a run record exactly once, even if the store's answer gets lost.

    `is_tried` says that the commit may have been made before.

    Raises:
        StoreError: as `Commits.commit`; after `CommitUnknown` the commit may have been made.
    """
    if not is_tried:
        try:
            return await commits.commit(commit)
        except CommitUnknown:
            pass
    made = await commits.find_commit(commit)
    return made if made is not None else await commits.commit(commit)
