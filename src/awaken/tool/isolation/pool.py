"""The worker processes of one function: how many run, which call gets one, and how long they
live."""

from __future__ import annotations

import asyncio
import atexit
import os
import queue
import threading
from collections import deque
from contextlib import suppress

from awaken.tool.isolation.frames import BadFrame, Setup
from awaken.tool.isolation.process import GRACE, WorkerProcess

MOST_WORKERS = os.cpu_count() or 1
IDLE_SECONDS = 60.0

_POOLS: dict[Setup, Pool] = {}


CallOutcome = bytes | int | Exception
"""The worker's answer; or the return code of a worker that died; or why no worker could start."""


class _Job:
    """One call, and the event loop in which its caller waits for it."""

    __slots__ = ("_loop", "done", "request", "unwanted")

    def __init__(self, request: bytes, loop: asyncio.AbstractEventLoop) -> None:
        self.request = request
        self.unwanted = False
        self.done: asyncio.Future[CallOutcome] = loop.create_future()
        self._loop = loop

    def settle(self, outcome: CallOutcome) -> None:
        """Give the caller the outcome, from any thread."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._settle, outcome)

    def _settle(self, outcome: CallOutcome) -> None:
        if not self.done.done():
            self.done.set_result(outcome)


class Pool:
    """Runs one function's calls concurrently, in at most as many processes as there are processors.

    A process is started when all others are busy, reused for later calls, and ended when it has
    been idle for a while. Calls may come from several event loops.
    """

    def __init__(
        self, setup: Setup, *, limit: int = MOST_WORKERS, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self.setup = setup
        self.idle_seconds = idle_seconds
        self._limit = limit
        self.forget()

    def forget(self) -> None:
        """Reset to no workers: a forked child does not have its parent's threads and workers."""
        self._lock = threading.Lock()
        self._keepers: set[_Keeper] = set()
        self._idle: list[_Keeper] = []
        self._waiting: deque[_Job] = deque()
        self._running: dict[_Job, WorkerProcess] = {}

    async def call(self, request: bytes) -> CallOutcome:
        """The outcome of a request. A cancelled call raises once its process is dead."""
        job = _Job(request, asyncio.get_running_loop())
        self._hand_out(job)
        try:
            return await asyncio.shield(job.done)
        except asyncio.CancelledError:
            self._stop(job)
            while not job.done.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.shield(job.done)
            raise
        except GeneratorExit:  # the event loop was closed, so this cannot wait
            self._stop(job)
            raise

    def _hand_out(self, job: _Job) -> None:
        with self._lock:
            if self._idle:
                # The last one first, so that the others become idle long enough to be ended.
                self._idle.pop().jobs.put(job)
            elif len(self._keepers) < self._limit:
                keeper = _Keeper(self)
                keeper.jobs.put(job)
                keeper.start()
                self._keepers.add(keeper)
            else:
                self._waiting.append(job)

    def _stop(self, job: _Job) -> None:
        """Kill the job's process; a job that has none yet never begins."""
        with self._lock:
            job.unwanted = True
            if job in self._running:
                self._running[job].kill()
                return
            if job in self._waiting:
                self._waiting.remove(job)
            job.done.cancel()

    def close(self) -> None:
        """End all processes; those that work on a call are killed."""
        with self._lock:
            keepers, self._keepers = self._keepers, set()
            for keeper in keepers.difference(self._idle):
                keeper.kill()
            self._idle.clear()
            for keeper in keepers:
                keeper.jobs.put(None)
        for keeper in keepers:
            keeper.join(2 * GRACE)

    # -- called by keepers -------------------------------------------------------------------------

    def begin(self, job: _Job, process: WorkerProcess) -> bool:
        """Whether the job is still wanted; if so, cancelling it kills `process` from now on."""
        with self._lock:
            if not job.unwanted:
                self._running[job] = process
            return not job.unwanted

    def finish(self, job: _Job) -> bool:
        """Whether the job was not cancelled, so that its process is still good."""
        with self._lock:
            del self._running[job]
            return not job.unwanted

    def take_back(self, keeper: _Keeper) -> None:
        """Give the keeper a waiting job, or count it as idle."""
        with self._lock:
            if self._waiting:
                keeper.jobs.put(self._waiting.popleft())
            elif keeper in self._keepers:
                self._idle.append(keeper)

    def dismiss(self, keeper: _Keeper) -> bool:
        """Whether an idle keeper may end; it may not if it was given a job just now."""
        with self._lock:
            if keeper not in self._idle:
                return False
            self._idle.remove(keeper)
            self._keepers.remove(keeper)
            return True


class _Keeper(threading.Thread):
    """A thread that keeps one worker process: starts it, talks with it, and waits for its end.

    It is a thread because all of this blocks, and a daemon so that it never holds up the program's
    end.
    """

    def __init__(self, pool: Pool) -> None:
        super().__init__(name=f"awaken-worker-{pool.setup.tool}", daemon=True)
        self.jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._pool = pool
        self._process: WorkerProcess | None = None

    def kill(self) -> None:
        if (process := self._process) is not None:
            process.kill()

    def run(self) -> None:
        while (job := self._next()) is not None:
            try:
                outcome = self._do(job)
            except Exception as error:
                self._process = None
                outcome = error
            # Before the caller gets the outcome, so that its next call finds this process idle.
            self._pool.take_back(self)
            job.settle(outcome)
        if self._process is not None:
            self._process.retire()

    def _next(self) -> _Job | None:
        while True:
            try:
                return self.jobs.get(timeout=self._pool.idle_seconds)
            except queue.Empty:
                if self._pool.dismiss(self):
                    return None

    def _do(self, job: _Job) -> CallOutcome:
        process = self._process
        if process is not None and not process.is_alive():
            process.end()
            process = None
        if process is None:
            # A call may be cancelled while the process starts; the next call finds it ready.
            process = self._process = WorkerProcess(self._pool.setup)
            process.get_ready()
        if not self._pool.begin(job, process):
            return b""
        answer, wrong = None, None
        try:
            answer = process.call(job.request)
        except BadFrame as error:
            wrong = error
        if self._pool.finish(job) and answer is not None:
            return answer
        self._process = None
        status = process.end()
        return status if wrong is None else wrong


def pool_of(setup: Setup) -> Pool:
    """The pool of a function; tools made again from the same function share it."""
    return _POOLS.setdefault(setup, Pool(setup))


@atexit.register
def _close_all() -> None:
    for pool in _POOLS.values():
        pool.close()


def _forget_all() -> None:
    for pool in _POOLS.values():
        pool.forget()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget_all)
