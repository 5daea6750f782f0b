"""Going on with runs that nobody carries on, as long as a runtime is open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from awaken.domain.lifecycle import RunStatus
from awaken.domain.run import RunRecord
from awaken.errors import AwakenError, RunLeft, StoreError, ThreadAlreadyRunning
from awaken.front.result import RecoveredRun, RunResult
from awaken.runtime import AgentRuntime, steer
from awaken.runtime.tasks import is_task

AT_ONCE = 100
ATTEMPTS = 3
LOOK_AROUND = 5.0
log = logging.getLogger("awaken.runtime")

Spawn = Callable[[Awaitable[RunResult]], asyncio.Task[RunResult]]


class Recovery:
    """Takes runs up, each once at a time; one that fails again and again is left alone."""

    def __init__(self, engine: AgentRuntime, spawn: Spawn) -> None:
        self._engine = engine
        self._spawn = spawn
        self._room = asyncio.Semaphore(AT_ONCE)
        self._threads: dict[str, str] = {}
        self._failures: dict[str, int] = {}
        self._keeper: asyncio.Task[None] | None = None

    async def take_up(self, thread: str | None = None) -> list[RecoveredRun]:
        """Go on with what nobody carries on, in one thread or in all; returns what was taken up."""
        runs: list[RecoveredRun] = []
        for record in await steer.interrupted(self._engine):
            if is_task(record):
                await steer.take_up_task(self._engine, record)
            elif (
                thread in (None, record.thread_id)
                and record.run_id not in self._threads
                and self._failures.get(record.run_id, 0) < ATTEMPTS
            ):
                runs.append(self._carry_on(record))
        return runs

    async def goes_on(self, thread: str) -> bool:
        """Take up the run of a thread; whether it goes on, because of this or already."""
        return bool(await self.take_up(thread)) or thread in self._threads.values()

    def start(self) -> None:
        """From now on, go on with what somebody answers, cancels or leaves."""
        self._keeper = asyncio.ensure_future(self._keep_going())

    def stop(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()

    async def stopped(self) -> None:
        """Wait until it has stopped."""
        if self._keeper is not None:
            await asyncio.wait([self._keeper])

    async def _keep_going(self) -> None:
        after = 0
        while True:
            try:
                async with asyncio.timeout(LOOK_AROUND):
                    commands = await self._engine.store.next_commands(after)
                after = commands[-1].id
                if all(self._engine.active.find_by_thread(c.thread_id) for c in commands):
                    continue  # those who are meant are here, and are told
            except TimeoutError:
                pass
            except StoreError as error:
                log.warning("cannot look for runs to go on with: %s", error)
                await asyncio.sleep(LOOK_AROUND)
            try:
                await self.take_up()
            except StoreError as error:
                log.warning("cannot look for runs to go on with: %s", error)

    def _carry_on(self, record: RunRecord) -> RecoveredRun:
        self._threads[record.run_id] = record.thread_id
        task = self._spawn(self._go_on(record))

        def ended(task: asyncio.Task[RunResult]) -> None:
            self._threads.pop(record.run_id, None)
            # Whoever wants to know awaits it; that nobody did is no news, it was logged.
            if not task.cancelled():
                task.exception()

        task.add_done_callback(ended)
        return RecoveredRun(record, task)

    async def _go_on(self, record: RunRecord) -> RunResult:
        async with self._room:
            try:
                result = await steer.go_on(self._engine, record)
            except (ThreadAlreadyRunning, RunLeft):
                raise  # another process was quicker, or will go on
            except AwakenError as error:
                if not self._engine.closed and not await self._is_over(record):
                    self._failures[record.run_id] = self._failures.get(record.run_id, 0) + 1
                    log.error("run %s could not be carried on: %s", record.run_id, error)
                raise
        self._failures.pop(record.run_id, None)
        return RunResult.of(record.thread_id, result)

    async def _is_over(self, record: RunRecord) -> bool:
        """Whether somebody has ended a run in the meantime."""
        latest = await self._engine.store.load_run(record.run_id)
        return latest is None or latest.status is RunStatus.DONE
