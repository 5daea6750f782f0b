"""The worker processes of one function: starting them, assigning calls to them, ending them."""

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

MAX_WORKERS = os.cpu_count() or 1
IDLE_SECONDS = 60.0

_POOLS: dict[Setup, WorkerPool] = {}


CallOutcome = bytes | int | Exception
"""The worker's answer; or the return code of a worker that died; or the error of its start."""


class _PendingCall:
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


class WorkerPool:
    """Runs one function's calls concurrently, in at most as many processes as there are processors.

    A process is started when all others are busy, reused for later calls, and ended when it has
    been idle for a while. Calls may come from several event loops.
    """

    def __init__(
        self, setup: Setup, *, limit: int = MAX_WORKERS, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self.setup = setup
        self.idle_seconds = idle_seconds
        self._limit = limit
        self.forget()

    def forget(self) -> None:
        """Reset to no workers: a forked child does not have its parent's threads and workers."""
        self._lock = threading.Lock()
        self._threads: set[_WorkerThread] = set()
        self._idle: list[_WorkerThread] = []
        self._waiting: deque[_PendingCall] = deque()
        self._running: dict[_PendingCall, WorkerProcess] = {}

    async def call(self, request: bytes) -> CallOutcome:
        """The outcome of a request. A cancelled call raises once its process is dead."""
        job = _PendingCall(request, asyncio.get_running_loop())
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

    def _hand_out(self, job: _PendingCall) -> None:
        with self._lock:
            if self._idle:
                # The last one first, so that the others become idle long enough to be ended.
                self._idle.pop().jobs.put(job)
            elif len(self._threads) < self._limit:
                thread = _WorkerThread(self)
                thread.jobs.put(job)
                thread.start()
                self._threads.add(thread)
            else:
                self._waiting.append(job)

    def _stop(self, job: _PendingCall) -> None:
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
            threads, self._threads = self._threads, set()
            for thread in threads.difference(self._idle):
                thread.kill()
            self._idle.clear()
            for thread in threads:
                thread.jobs.put(None)
        for thread in threads:
            thread.join(2 * GRACE)

    # -- called by the worker threads --------------------------------------------------------------

    def begin(self, job: _PendingCall, process: WorkerProcess) -> bool:
        """Whether the job is still wanted; if so, cancelling it kills `process` from now on."""
        with self._lock:
            if not job.unwanted:
                self._running[job] = process
            return not job.unwanted

    def finish(self, job: _PendingCall) -> bool:
        """Whether the job was not cancelled, so that its process is still good."""
        with self._lock:
            del self._running[job]
            return not job.unwanted

    def take_back(self, thread: _WorkerThread) -> None:
        """Give the thread a waiting job, or count it as idle."""
        with self._lock:
            if self._waiting:
                thread.jobs.put(self._waiting.popleft())
            elif thread in self._threads:
                self._idle.append(thread)

    def dismiss(self, thread: _WorkerThread) -> bool:
        """Whether an idle thread may end; it may not if it was given a job just now."""
        with self._lock:
            if thread not in self._idle:
                return False
            self._idle.remove(thread)
            self._threads.remove(thread)
            return True


class _WorkerThread(threading.Thread):
    """A thread with one worker process: starts it, sends it calls, and waits for its end.

    It is a thread because all of this blocks, and a daemon so that it never holds up the program's
    end.
    """

    def __init__(self, pool: WorkerPool) -> None:
        super().__init__(name=f"awaken-worker-{pool.setup.tool}", daemon=True)
        self.jobs: queue.SimpleQueue[_PendingCall | None] = queue.SimpleQueue()
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

    def _next(self) -> _PendingCall | None:
        while True:
            try:
                return self.jobs.get(timeout=self._pool.idle_seconds)
            except queue.Empty:
                if self._pool.dismiss(self):
                    return None

    def _do(self, job: _PendingCall) -> CallOutcome:
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


def pool_of(setup: Setup) -> WorkerPool:
    """The pool of a function; tools made again from the same function share it."""
    return _POOLS.setdefault(setup, WorkerPool(setup))


@atexit.register
def _close_all() -> None:
    for pool in _POOLS.values():
        pool.close()


def _forget_all() -> None:
    for pool in _POOLS.values():
        pool.forget()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget_all)
