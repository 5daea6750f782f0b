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
from awaken.core.store.commits import Fence, ThreadCommit, commit_once
from awaken.core.store.store import Store
from awaken.errors import CommitUnknown, StoreError, StoreUnavailable
from awaken.worker.claims import ClaimUse, ThreadClaims

RETRY_SECONDS = 2.0
"""Seconds between two attempts to make the commits."""
log = logging.getLogger("awaken.runtime")


class ThreadBacklog:
    """The pending commits of one thread, in order. `then` is called after the last of them.

    A caller must hold the `lock` while it makes them.
    """

    __slots__ = ("commits", "fence", "lock", "then")

    def __init__(
        self, fence: Fence, commits: list[ThreadCommit], then: Callable[[], Awaitable[None]]
    ) -> None:
        self.fence, self.commits, self.then = fence, commits, then
        self.lock = asyncio.Lock()

    def log_lost(self, error: object) -> None:
        """Log the call outcomes or the run end that these commits had."""
        entries = [entry for commit in self.commits for entry in commit.calls]
        calls = sorted({f"{entry.tool_name} ({entry.key})" for entry in entries})
        lost = f"the outcomes of these calls are lost: {', '.join(calls)}"
        log.error("thread %s: %s; %s", self.fence.thread_id, lost if calls else _END_LOST, error)


_END_LOST = "the end of its run is lost"


class PendingCommits:
    """The pending commits of all threads. While there are any, a task of this process makes them
    again every `RETRY_SECONDS` seconds."""

    def __init__(self, store: Store, claims: ThreadClaims) -> None:
        self._store, self._claims = store, claims
        self._backlogs: dict[str, ThreadBacklog] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._retrying: asyncio.Task[None] | None = None
        self._closed = False

    def __contains__(self, thread_id: str) -> bool:
        return thread_id in self._backlogs

    def add(
        self,
        fence: Fence,
        commits: Sequence[ThreadCommit],
        then: Callable[[], Awaitable[None]],
    ) -> None:
        """Add the commits of a run or background task that has ended here. `then` is called once
        they are made and the thread is released."""
        backlog = ThreadBacklog(fence, list(commits), then)
        if self._closed:
            backlog.log_lost("the runtime is closed")
            self._claims.release_later(fence)
            return
        self._backlogs[fence.thread_id] = backlog
        self._claims.mark(fence, ClaimUse.PENDING_COMMITS)
        self.start_retrying()

    def __bool__(self) -> bool:
        """Whether any commits are pending."""
        return bool(self._backlogs)

    def start_retrying(self) -> None:
        """Start the task that tries again, in this event loop, if any commits are pending."""
        if not self._backlogs:
            return
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # The task and the locks belong to an event loop that is closed.
            self._loop, self._retrying = loop, None
            for backlog in self._backlogs.values():
                backlog.lock = asyncio.Lock()
        if self._retrying is None or self._retrying.done():
            self._retrying = start_logged(
                self._retry_until_done(), "held commits will not be retried", log
            )

    async def _retry_until_done(self) -> None:
        while self._backlogs:
            await asyncio.sleep(RETRY_SECONDS)
            await self.retry()

    async def retry(self, thread_id: str | None = None) -> None:
        """Try to make the commits of one thread, or of all. A failure is logged, and the commits
        stay pending."""
        for id in tuple(self._backlogs) if thread_id is None else (thread_id,):
            try:
                await self.flush_thread(id)
            except Exception as error:
                log_error(
                    error, f"thread {id} is still held, with commits that are not stored", log
                )

    async def flush_thread(self, thread_id: str) -> None:
        """Make the pending commits of a thread, and release the thread.

        Raises:
            StoreUnavailable, CommitUnknown: the store still does not answer; the commits stay
                pending.
        """
        backlog = self._backlogs.get(thread_id)
        if backlog is None:
            return
        async with backlog.lock:
            if self._backlogs.get(thread_id) is not backlog:
                return  # the caller that held the lock has made them
            try:
                while backlog.commits:
                    await commit_once(self._store, backlog.commits[0], is_tried=True)
                    del backlog.commits[0]
            except (StoreUnavailable, CommitUnknown):
                raise
            except StoreError as error:
                backlog.log_lost(error)
                backlog.commits.clear()
            await self._claims.release(backlog.fence)
            del self._backlogs[thread_id]
        await backlog.then()

    async def close(self, grace: float) -> None:
        """Try once more, for at most `grace` seconds, and log the commits that are lost. After
        this, `add` only logs its commits as lost."""
        self._closed = True
        if self._retrying is not None:
            self._retrying.cancel()
        until = asyncio.get_running_loop().time() + grace
        for thread_id, backlog in tuple(self._backlogs.items()):
            try:
                async with asyncio.timeout_at(until):
                    await self.flush_thread(thread_id)
            except TimeoutError:
                backlog.log_lost("the store did not answer in time")
                self._claims.release_later(backlog.fence)
            except StoreError as error:
                backlog.log_lost(error)
                self._claims.release_later(backlog.fence)
