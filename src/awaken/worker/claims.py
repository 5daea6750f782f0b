"""The threads that this process owns, and for which use it owns each of them.

Every claim is noted here from before the store is asked for it until the store no longer has it. A
release that fails stays here and is tried again. Now and then the list is compared with the store:
a thread that this process owns by the store's account, and that is not in the list, has no run
here, and no other process may claim it. It is released.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum

from awaken.clock import Clock, Timer
from awaken.core.aio.callbacks import Callbacks
from awaken.core.aio.cancel import is_cancellation
from awaken.core.aio.owned_tasks import OwnedTasks
from awaken.core.run import RunRecord
from awaken.core.store.commits import Fence
from awaken.core.store.store import Store

COMPARE_SECONDS = 30.0
"""Seconds between two comparisons with the store. A difference counts when two of them show it."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a release that failed is tried again: twice as long after each failure."""
_CLOSING_PAUSE = 0.1
log = logging.getLogger("awaken.runtime")


class ClaimUse(StrEnum):
    """The use for which a thread is owned.

    `starting`: the run has not begun, and may wait for its turn. `live`: its run is live. `task`: a
    background task. `pending_commits`: commits that the store did not take yet. `releasing`: there
    is nothing to do for the thread here, and the store has yet to take the release.
    """

    STARTING = "starting"
    LIVE = "live"
    TASK = "task"
    PENDING_COMMITS = "pending_commits"
    RELEASING = "releasing"


class Claim:
    """A thread that this process owns, with the time of the claim and its use."""

    __slots__ = ("failures", "fence", "since_ms", "use")

    def __init__(self, fence: Fence, since_ms: int, use: ClaimUse) -> None:
        self.fence, self.since_ms, self.use = fence, since_ms, use
        self.failures = 0


class ThreadClaims:
    """The claims that one runtime has made; no other object asks the store for one.

    Subscribers of `released` are called with a thread whose release had failed, or that was owned
    without a claim, once it is released. `mended` counts the latter.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._claims: dict[tuple[str, int], Claim] = {}
        self._asked: dict[str, int] = {}
        """The threads that the store is being asked for, and how often."""
        self._searches = 0
        """How many searches for runs to claim are under way."""
        self._unknown: set[tuple[str, int]] = set()
        self._timer: Timer | None = None
        self._retries: dict[tuple[str, int], Timer] = {}
        self._tasks = OwnedTasks(log)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self.released: Callbacks[str] = Callbacks()
        self.mended = 0
        _all.add(weakref.ref(self, _all.discard))

    def all(self) -> Sequence[Claim]:
        return list(self._claims.values())

    def by_use(self) -> Mapping[ClaimUse, int]:
        """How many threads are owned for each use."""
        found = Counter(claim.use for claim in self._claims.values())
        return {use: found[use] for use in ClaimUse}

    # -- claiming -----------------------------------------------------------------------------

    async def claim(self, thread_id: str, use: ClaimUse = ClaimUse.STARTING) -> Fence:
        """Claim a thread; see `Commits.claim`. A release of it that has failed is tried first.

        Raises:
            ThreadOwned: the thread's owner is alive.
        """
        self._keep_comparing()
        self._asked[thread_id] = self._asked.get(thread_id, 0) + 1
        try:
            if self._retries:
                await self.release_again(thread_id)
            now_ms = self._clock.now_ms()
            fence = await self._store.claim(thread_id, at_ms=now_ms)
            self._claims[thread_id, fence.epoch] = Claim(fence, now_ms, use)
        finally:
            others = self._asked.pop(thread_id) - 1
            if others:
                self._asked[thread_id] = others
        return fence

    async def claim_next(
        self, agents: Collection[str], *, limit: int, overdue_ms: int, skip: Collection[str]
    ) -> Sequence[tuple[Fence, RunRecord]]:
        """Claim the threads of runs that can continue; see `Commits.claim_next`."""
        self._searches += 1
        try:
            now_ms = self._clock.now_ms()
            claimed = await self._store.claim_next(
                agents, limit=limit, at_ms=now_ms, overdue_ms=overdue_ms, skip=skip
            )
            for fence, _ in claimed:
                claim = Claim(fence, now_ms, ClaimUse.STARTING)
                self._claims[fence.thread_id, fence.epoch] = claim
        except (Exception, asyncio.CancelledError):
            self._keep_comparing()  # the store may have made claims that it could not answer with
            raise
        finally:
            self._searches -= 1
        if claimed:
            self._keep_comparing()
        return claimed

    def mark(self, fence: Fence, use: ClaimUse) -> None:
        """Note that a claim is used for something else from now on."""
        claim = self._claims.get((fence.thread_id, fence.epoch))
        if claim is not None:
            claim.use = use

    def drop(self, fence: Fence) -> None:
        """Forget a claim: a commit has released the thread, or another process has claimed it."""
        self._claims.pop((fence.thread_id, fence.epoch), None)

    # -- releasing ----------------------------------------------------------------------------

    async def release(self, fence: Fence) -> None:
        """Release a thread; has no effect if another process has claimed it. An error is logged,
        and the release is tried again until the store has taken it."""
        await self._release(self._note_release(fence))

    def release_later(self, fence: Fence) -> None:
        """Release a thread without waiting."""
        self._note_release(fence)
        self._retry_in(0, (fence.thread_id, fence.epoch))

    def _note_release(self, fence: Fence) -> Claim:
        claim = Claim(fence, self._clock.now_ms(), ClaimUse.RELEASING)
        claim = self._claims.setdefault((fence.thread_id, fence.epoch), claim)
        claim.use = ClaimUse.RELEASING
        return claim

    async def release_again(self, thread_id: str | None = None) -> None:
        """Try the releases that have failed again: that of one thread, or all."""
        for key in tuple(self._retries):
            claim = self._claims.get(key)
            if claim is not None and thread_id in (None, claim.fence.thread_id):
                await self._release(claim)

    async def _release(self, claim: Claim) -> None:
        thread_id, key = claim.fence.thread_id, (claim.fence.thread_id, claim.fence.epoch)
        try:
            await self._store.release(claim.fence)
        except BaseException as error:
            claim.failures += 1
            pause = min(FIRST_PAUSE * 2 ** min(claim.failures - 1, 10), LONGEST_PAUSE)
            if not isinstance(error, GeneratorExit):
                self._retry_in(pause, key)
            if is_cancellation(error):
                raise
            log.warning(
                "thread %s could not be released: %s; trying again in %g s", thread_id, error, pause
            )
            return
        self._forget_retry(key)
        if self._claims.pop(key, None) is not None and claim.failures:
            log.info("thread %s is released, after %d failures", thread_id, claim.failures)
            self.released.notify(thread_id)

    def _retry_in(self, seconds: float, key: tuple[str, int]) -> None:
        self._forget_retry(key)
        self._retries[key] = self._clock.call_later(seconds, lambda: self._retry(key))

    def _forget_retry(self, key: tuple[str, int]) -> None:
        timer = self._retries.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _retry(self, key: tuple[str, int]) -> None:
        claim = self._claims.get(key)
        if claim is not None and not self._is_closed:
            self._tasks.start_logged(self._release(claim), "a thread was not released")

    # -- comparing with the store -------------------------------------------------------------

    def _keep_comparing(self) -> None:
        """Compare with the store in a while, and again as long as there is something to compare."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # The timers belong to an event loop that is closed.
            self._loop, self._timer = loop, None
            for key in tuple(self._retries):
                self._retry_in(FIRST_PAUSE, key)
        if self._timer is None and not self._is_closed:
            self._timer = self._clock.call_later(COMPARE_SECONDS, self._start_comparing)

    def _start_comparing(self) -> None:
        self._timer = None
        if not self._is_closed:
            failed = "the claims could not be compared with the store"
            self._tasks.start_logged(self._compare(), failed)

    async def _compare(self) -> None:
        """Release threads that were unknown here twice though the store says we own them."""
        is_settled = False
        try:
            found = await self._store.list_claims()
            if _is_searching(self._store.owner):
                return  # it may have claimed any of them, and has not yet returned
            unknown = {
                (fence.thread_id, fence.epoch): fence for fence in found if not _is_known(fence)
            }
            twice = self._unknown & unknown.keys()
            self._unknown = unknown.keys() - twice
            for key in twice:
                await self._mend(unknown[key])
            is_settled = not (self._claims or self._asked or self._unknown)
        finally:
            if not is_settled:
                self._keep_comparing()

    async def _mend(self, fence: Fence) -> None:
        self.mended += 1
        log.warning(
            "thread %s is owned by this process (epoch %d), which has no run in it: releasing it",
            fence.thread_id,
            fence.epoch,
        )
        await self.release(fence)
        if (fence.thread_id, fence.epoch) not in self._claims:
            self.released.notify(fence.thread_id)

    # -- closing ------------------------------------------------------------------------------

    async def close(self, grace: float) -> None:
        """Try the releases that have failed again, for at most `grace` seconds."""
        self._is_closed = True
        for timer in (self._timer, *self._retries.values()):
            if timer is not None:
                timer.cancel()
        await self._tasks.close(grace)
        try:
            async with asyncio.timeout(grace):
                while self._retries:
                    await self.release_again()
                    if self._retries:
                        await asyncio.sleep(_CLOSING_PAUSE)
        except TimeoutError:
            log.error(
                "these threads could not be released, and stay owned by %s until its store is "
                "closed: %s",
                self._store.owner,
                ", ".join(sorted(thread_id for thread_id, _ in self._retries)),
            )


# Several runtimes, in several event loops, may use one store: their claims have one owner.
_all: set[weakref.ref[ThreadClaims]] = set()


def _of_process() -> list[ThreadClaims]:
    return [claims for found in tuple(_all) if (claims := found()) is not None]


def _is_known(fence: Fence) -> bool:
    """Whether a runtime of this process has made this claim, or is about to claim the thread. A
    runtime with another store may have a thread of the same name: the owner tells them apart."""
    key = (fence.thread_id, fence.epoch)
    return any(
        one._store.owner == fence.owner and (key in one._claims or fence.thread_id in one._asked)
        for one in _of_process()
    )


def _is_searching(owner: str) -> bool:
    """Whether a runtime of this process, with that owner, searches for runs to claim."""
    return any(one._searches and one._store.owner == owner for one in _of_process())
