"""Resuming abandoned runs and background tasks while a runtime is open.

A run without an owner is abandoned if its process died or left it, if it was answered or cancelled
while it waited, or if one of its questions has expired.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import Any, NamedTuple, TypeVar

import msgspec

from awaken.core.aio.cancel import wait_first
from awaken.core.aio.owned_tasks import OwnedTasks, log_error, log_errors
from awaken.core.defaults import CANCEL_GRACE
from awaken.core.lifecycle import RunStatus
from awaken.core.run import AgentRunResult, RunRecord
from awaken.core.store.commits import Fence
from awaken.errors import (
    AwakenError,
    RunLeft,
    StoreError,
    StoreUnavailable,
    ThreadAlreadyRunning,
    ThreadOwned,
)
from awaken.worker import operations, submissions
from awaken.worker.command_listener import list_waiting_threads
from awaken.worker.crash_loop import (
    PROGRESS_TIMEOUT_SECONDS,
    CrashLoopGate,
    is_crash_looping,
    most_takeovers_first,
)
from awaken.worker.live_runs import ActiveRun
from awaken.worker.orphans import recover_run
from awaken.worker.worker import Worker

MAX_SINGLE_LOOKUPS = 10
"""Up to this many ready threads are looked at one by one; for more, the whole store is searched."""
ATTEMPTS = 3
"""After this many failed attempts to resume a run, callers that wait for it get an error."""
RETRY_SECONDS = 5.0
"""Seconds before a search of the store, or a run, that failed is tried again."""
MAX_RETRY_SECONDS = 300.0
_CANNOT_LOOK = "cannot look for runs to resume"
log = logging.getLogger("awaken.runtime")

V = TypeVar("V")


def _unread_warning(thread_id: str) -> str:
    return f"thread {thread_id} cannot be read"


class ResumedRun(NamedTuple):
    """A run's record when it was resumed, and the asyncio task that runs it."""

    record: RunRecord
    task: asyncio.Task[AgentRunResult]


class Failure(msgspec.Struct, frozen=True):
    """How often a run could not be resumed, when the next attempt may begin, and the last error."""

    times: int
    until: float
    error: Exception


class Recovery:
    """Resumes abandoned runs, each in one asyncio task at a time. After each failed attempt the
    pause before the next one is longer.

    Without `start`, it resumes only runs that wait for their background tasks, when one of those
    has reported.
    """

    def __init__(self, engine: Worker) -> None:
        self._engine = engine
        self._slots = asyncio.Semaphore(engine.max_runs)
        self._crash_loop_gate = CrashLoopGate(engine.store, engine.owned)
        self._threads: dict[str, str] = {}
        self.at_work: dict[asyncio.Task[Any], str] = {}
        """The tasks that resume runs, with their threads."""
        self._failures: dict[str, Failure] = {}
        self._watching = OwnedTasks(log)
        self._next_search_at = 0.0
        self._sending: asyncio.Task[None] | None = None
        self._ready: set[str] = set()
        """Threads that may have something to do: to look at next."""
        self._is_due = asyncio.Event()
        self._excluded: set[str] = set()
        self._is_full = False
        self._claiming = asyncio.Lock()
        self._claimed: dict[str, Fence] = {}
        """The claims for runs whose task has not got to them yet, by run."""
        self._ready_later: set[str] = set()
        """Threads to look at when the task that resumes a run of them has ended."""
        self._unsubscribe = engine.unattended.subscribe(self._enqueue)
        self._unsubscribe_changes: Callable[[], None] = lambda: None

    async def recover(self) -> list[ResumedRun]:
        """Resume every abandoned run, including those that failed before. Start runs for messages
        that agents have sent to threads without an open run, and send the messages that ended runs
        have left in their outboxes.

        Returns the runs that were resumed.
        """
        self._failures.clear()
        self._send_outboxes()
        runs = await self.resume()
        await self._start_woken_runs(await list_waiting_threads(self._engine.store))
        return runs

    async def resume(
        self, thread: str | None = None, *, wait_for_slot: bool = True
    ) -> list[ResumedRun]:
        """Resume the abandoned runs and tasks of one thread, or of all. Returns the resumed runs.

        Args:
            wait_for_slot: runs that are over the limit of live runs wait here for their turn.
                Otherwise they are left to other processes, or to a later search.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        engine, runs = self._engine, list[ResumedRun]()
        if thread is None:
            await self._release_idle_threads()
            runs = await self._claim_next()
            if not engine.store.lease.can_claim:
                return runs  # the next search finds the others
        else:
            await engine.pending_commits.retry(thread)
        now_ms = operations.expiry_cutoff_ms(engine)
        found = await engine.store.list_interrupted(now_ms=now_ms, thread_id=thread)
        slots = len(found) if wait_for_slot else engine.max_runs - len(self._busy())
        for record in sorted(found, key=most_takeovers_first):
            # A single thread is searched because a command came: now an attempt may succeed.
            if thread is None and self._is_delayed(record.run_id):
                continue
            if slots <= 0 and not record.is_task:
                self._is_full = True
                continue
            resumed = await self._try_resume(record)
            slots -= len(resumed)
            runs.extend(resumed)
        return runs

    async def _release_idle_threads(self) -> None:
        """Release the threads that are held here though nothing of them runs here any more."""
        await self._engine.pending_commits.retry()
        await self._engine.tasks.release_idle()
        await self._engine.claims.release_again()

    async def _claim_next(self) -> list[ResumedRun]:
        """Claim and resume runs up to this runtime's limit of live runs."""
        async with self._claiming:
            return await self._claim_and_recover()

    async def _claim_and_recover(self) -> list[ResumedRun]:
        engine = self._engine
        busy = self._busy()
        self._is_full = len(busy) >= engine.max_runs
        if self._is_full or engine.is_stopping:
            return []
        claimed = await engine.claims.claim_next(
            engine.deps.with_makeable_deps(engine.registry.snapshot().agent_ids()),
            limit=engine.max_runs - len(busy),
            overdue_ms=operations.expiry_cutoff_ms(engine),
            skip=self._runs_not_to_claim(),
        )
        runs, busy = list[ResumedRun](), self._busy()
        for fence, record in claimed:
            if record.thread_id not in busy:
                self._claimed[record.run_id] = fence
                runs.append(self._start_recovery(record))
                continue
            # A request of this process waits for the thread, or its last run is just ending.
            await engine.claims.release(fence)
            if not await self._is_at_work(record.thread_id):
                self._enqueue(record.thread_id)
        return runs

    def _runs_not_to_claim(self) -> set[str]:
        """The runs that are live here or about to be, and those whose next attempt is put off."""
        live = {run.run_id for run in self._engine.active.all() if run.run_id is not None}
        delayed = {run_id for run_id in self._failures if self._is_delayed(run_id)}
        return live | delayed | self._threads.keys()

    def _busy(self) -> set[str]:
        """The threads that have a run here, or are about to."""
        return {live.thread_id for live in self._engine.active.all()} | {*self._threads.values()}

    async def resume_thread(self, thread: str) -> bool:
        """Resume the run of a thread. Returns whether it is being resumed, by this or an earlier
        call, or is still live: then it continues when it has read its commands, or has ended."""
        if await self.resume(thread) or thread in self._busy():
            return True
        async with self._claiming:  # the watching task may be claiming it at this moment
            return thread in self._busy()

    async def _try_resume(self, record: RunRecord) -> list[ResumedRun]:
        """Resume a run or a background task, if this runtime should. Returns the resumed run, or an
        empty list for a task.

        An error is recorded and logged, so that one unreadable record does not stop the others.
        """
        engine = self._engine
        try:
            if await self._is_at_work(record.thread_id):
                return []
            if not await operations.should_recover(engine, record):
                return []
            if record.run_id in self._threads:
                return []  # another call has resumed it during the reads above
            if not record.is_task:
                return [self._start_recovery(record)]
            if is_crash_looping(record):
                self._hold(record, engine.owned.start(self._recover_in_turn(record)))
                return []
            await engine.tasks.recover(record)
        except (ThreadAlreadyRunning, ThreadOwned):
            return []  # another process has resumed it
        except StoreUnavailable:
            raise
        except Exception as error:
            self._add_failure(record, error)
        else:
            self._failures.pop(record.run_id, None)
        return []

    async def _is_at_work(self, thread_id: str) -> bool:
        """Whether a run of the thread is live here, or is being resumed.

        That run may have read the store before the command came for which the thread is looked at,
        and may be about to end: the thread is then looked at again when it has ended.
        """
        if thread_id in self._threads.values():
            self._ready_later.add(thread_id)
            return True
        return await self._engine.on_command(thread_id)

    # -- failures -----------------------------------------------------------------------------

    def _add_failure(self, record: RunRecord, error: Exception) -> None:
        before = self._failures.get(record.run_id)
        times = 1 if before is None else before.times + 1
        pause = min(RETRY_SECONDS * 2 ** min(times, 10), MAX_RETRY_SECONDS)
        until = asyncio.get_running_loop().time() + pause
        self._failures[record.run_id] = Failure(times, until, error)
        unforeseen = None if isinstance(error, AwakenError) else error
        log.error("run %s could not be resumed: %s", record.run_id, error, exc_info=unforeseen)

    def _is_delayed(self, run_id: str) -> bool:
        failure = self._failures.get(run_id)
        return failure is not None and asyncio.get_running_loop().time() < failure.until

    def refusal_reason(self, record: RunRecord, needed: Iterable[str]) -> str | None:
        """Why this runtime will not resume an abandoned run, which needs the runs `needed` to go
        on. Returns `None` if it will."""
        enough = ATTEMPTS if self._is_started else 1
        for run_id in (record.run_id, *needed):
            failure = self._failures.get(run_id)
            if failure is not None and failure.times >= enough:
                return f"{run_id!r} fails here ({failure.error}); fix that, and call recover()"
        agent = operations.agent_of(record)
        if record.run_id in self._threads:
            return None
        if agent not in self._engine.registry.snapshot().agent_ids():
            return f"this runtime has no agent {agent!r}; open one that has it, with recover=True"
        why = self._engine.deps.refusal_reason(agent or "", operations.run_of(record))
        if why is not None:
            return why
        if not self._is_started:
            return "this runtime does not resume runs of other processes; call recover()"
        return None

    # -- watching -----------------------------------------------------------------------------

    @property
    def _search_interval(self) -> float:
        """Seconds between two searches of the whole store."""
        return self._engine.store.lease.poll_interval

    @property
    def _is_started(self) -> bool:
        return bool(self._watching)

    def start(self) -> None:
        """From now on, resume each run that is answered, cancelled or abandoned."""
        self._next_search_at = asyncio.get_running_loop().time() + self._search_interval
        self._engine.commands.subscribe(self.on_command)
        self._unsubscribe_changes = self._engine.active.changes.subscribe(self._on_run_changed)
        self._watching.start_repeating(self._watch, RETRY_SECONDS, _CANNOT_LOOK)
        self._send_outboxes()

    def stop(self) -> None:
        """Stop resuming runs. Runs that were already resumed continue."""
        self._unsubscribe()
        self._unsubscribe_changes()
        self._engine.commands.unsubscribe(self.on_command)
        self._watching.cancel()

    async def wait_stopped(self) -> None:
        """Wait, after `stop`, until the watching task has ended, and release the threads that were
        claimed for runs that did not start."""
        await self._watching.close(CANCEL_GRACE)
        while self._claimed:
            _, fence = self._claimed.popitem()
            await self._engine.claims.release(fence)
        await self._engine.claims.close(CANCEL_GRACE)

    def exclude_thread(self, thread: str | None) -> None:
        """Without `start`: do not resume the run of this thread (of any thread, if `None`) when its
        background tasks report. The caller resumes it."""
        if thread is None:
            self._unsubscribe()
        else:
            self._excluded.add(thread)

    async def on_command(self, thread_id: str) -> None:
        """Look at a thread in which commands wait, soon."""
        self._ready.add(thread_id)
        self._is_due.set()

    def _enqueue(self, thread_id: str) -> None:
        """Look, soon, at a thread that has no live run here and for which a command may wait."""
        if self._is_started:
            self._ready.add(thread_id)
            self._is_due.set()
        elif not self._engine.closed and thread_id not in self._excluded:
            self._work_on(thread_id, self._resume_own(thread_id))

    def _on_run_changed(self, run: ActiveRun) -> None:
        """Look for further runs when one has ended, if this runtime was at its limit before."""
        if run.has_ended and self._is_full:
            self._is_due.set()

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        # Commands that came before this task started, or during an attempt that failed.
        self._ready |= await list_waiting_threads(self._engine.store)
        self._is_due.set()
        while True:
            await self._wait_due(self._next_search_at - loop.time())
            self._is_due.clear()
            ready, self._ready = self._ready, set()
            threads = [each for each in ready if not await self._passes_to_live_run(each)]
            if loop.time() >= self._next_search_at or len(threads) > MAX_SINGLE_LOOKUPS:
                await self._search_store()
                self._next_search_at = loop.time() + self._search_interval
            else:
                await self._claim_next()
                for thread_id in threads:
                    await log_errors(self.resume(thread_id), _unread_warning(thread_id), log)
            await self._start_woken_runs(threads)

    async def _search_store(self) -> None:
        """Search the whole store, if it has anything to find."""
        engine = self._engine
        await self._release_idle_threads()
        if await engine.store.lease.has_work(
            at_ms=engine.clock.now_ms(), overdue_ms=operations.expiry_cutoff_ms(engine)
        ):
            self._send_outboxes()
            await self.resume(wait_for_slot=False)

    async def _wait_due(self, timeout: float) -> None:
        """Wait until a thread is ready, a run may be claimed again, or the next search is due."""
        try:
            async with asyncio.timeout(timeout):
                await self._is_due.wait()
        except TimeoutError:
            return

    async def _passes_to_live_run(self, thread_id: str) -> bool:
        """Pass the thread's commands to its live run; false if no run of it is live here."""
        passing = self._engine.on_command(thread_id)
        is_live = await log_errors(passing, _unread_warning(thread_id), log)
        return is_live is not False

    async def _start_woken_runs(self, threads: Iterable[str]) -> None:
        """Start runs in threads without an open run to which other agents have sent messages, and
        write the ends of submitted runs that were cancelled before they started."""
        engine = self._engine
        agents = engine.registry.snapshot().agent_ids()
        try:
            async with asyncio.TaskGroup() as group:
                for thread_id in threads:
                    waking = self._start_woken_run(thread_id, agents)
                    group.create_task(log_errors(waking, f"cannot wake thread {thread_id}", log))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None  # the store does not answer

    async def _start_woken_run(self, thread_id: str, agents: Collection[str]) -> None:
        await self._engine.messages.wake(thread_id, agents)
        await submissions.write_ends(self._engine, thread_id)

    def _send_outboxes(self) -> None:
        """Send the messages in the outboxes of ended runs, in a task, since that may take long."""
        if self._sending is None or self._sending.done():
            sending = self._engine.tasks.send_outboxes()
            owned = self._engine.owned
            self._sending = owned.start_logged(sending, "cannot look for messages to send")

    def _work_on(self, thread_id: str, work: Coroutine[Any, Any, V]) -> asyncio.Task[V]:
        """Start a task that resumes the run of a thread; it is in `at_work` until it ends."""
        task = self._engine.owned.start(work, f"resume {thread_id}")
        self.at_work[task] = thread_id
        task.add_done_callback(self.at_work.pop)
        return task

    async def _resume_own(self, thread_id: str) -> None:
        """Resume a run of this process that waits for its background tasks."""
        engine = self._engine
        while True:
            try:
                now_ms = operations.expiry_cutoff_ms(engine)
                for run in await engine.store.list_interrupted(now_ms=now_ms, thread_id=thread_id):
                    if run.is_background_task_waiting():
                        await self._try_resume(run)
                return
            except StoreUnavailable as error:
                log.warning("cannot look for the run of thread %s: %s", thread_id, error)
                await asyncio.sleep(RETRY_SECONDS)
            except Exception as error:
                log_error(error, f"the run of thread {thread_id} could not be resumed", log)
                return

    # -- runs ---------------------------------------------------------------------------------

    def _start_recovery(self, record: RunRecord) -> ResumedRun:
        task = self._work_on(record.thread_id, self._recover_in_slot(record))
        self._hold(record, task)
        return ResumedRun(record, task)

    def _hold(self, record: RunRecord, task: asyncio.Task[Any]) -> None:
        """Mark the record's run or background task as being resumed until `task` has ended."""
        self._threads[record.run_id] = record.thread_id

        def on_end(task: asyncio.Task[Any]) -> None:
            self._threads.pop(record.run_id, None)
            if record.thread_id in self._ready_later:
                self._ready_later.discard(record.thread_id)
                self._enqueue(record.thread_id)
            # The error was logged; asyncio need not report that no caller has awaited it.
            if not task.cancelled():
                task.exception()

        task.add_done_callback(on_end)

    async def _recover_in_turn(self, record: RunRecord) -> None:
        """Resume a background task that may be in a crash loop, when its turn comes. The next one
        waits until this one makes progress, at most `PROGRESS_TIMEOUT_SECONDS` seconds."""
        engine = self._engine
        async with self._crash_loop_gate.turn(record):
            try:
                await engine.tasks.recover(record)
            except (ThreadAlreadyRunning, ThreadOwned):
                return  # another process has resumed it
            except Exception as error:
                self._add_failure(record, error)
                return
            self._failures.pop(record.run_id, None)
            progress = self._crash_loop_gate.wait_progress(record)
            await wait_first(progress, asyncio.sleep(PROGRESS_TIMEOUT_SECONDS))

    async def _recover_in_slot(self, record: RunRecord) -> AgentRunResult:
        async with self._crash_loop_gate.turn(record), self._slots:
            try:
                result = await self._run(record)
            except RunLeft:
                raise  # another process will resume it
            except ThreadAlreadyRunning:
                # Another process has resumed it, or a request of this one has taken the thread. If
                # that request fails before it has read the commands, the thread is looked at again.
                await self._engine.on_command(record.thread_id)
                raise
            except Exception as error:
                if not self._engine.is_stopping and not await self._is_over(record):
                    self._add_failure(record, error)
                raise
        self._failures.pop(record.run_id, None)
        return result

    async def _run(self, record: RunRecord) -> AgentRunResult:
        """Resume a run, or start a submitted one, with the claim on its thread if there is one."""
        fence = self._claimed.pop(record.run_id, None)
        if fence is None:
            return await operations.continue_run(self._engine, record)
        if record.status is RunStatus.CREATED:
            return await submissions.start(self._engine, record, fence)
        return await recover_run(self._engine, record, fence=fence)

    async def _is_over(self, record: RunRecord) -> bool:
        """Whether another process has ended or deleted the run meanwhile."""
        try:
            latest = await self._engine.store.load_run(record.run_id)
        except StoreError:
            return False  # it cannot be read now
        return latest is None or latest.status is RunStatus.DONE
