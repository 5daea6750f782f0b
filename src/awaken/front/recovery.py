"""Going on with runs that nobody carries on, as long as a runtime is open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from awaken.contract.commands import ThreadCommand
from awaken.contract.control import first_of
from awaken.domain.lifecycle import RunStatus
from awaken.domain.run import RunRecord
from awaken.errors import AwakenError, RunLeft, StoreError, ThreadAlreadyRunning
from awaken.front.result import RecoveredRun, RunResult
from awaken.runtime import AgentRuntime, steer
from awaken.runtime.task_records import is_task

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
        self._left: set[str] = set()
        self._stirred = asyncio.Event()

    async def take_up(self, thread: str | None = None) -> list[RecoveredRun]:
        """Go on with what nobody carries on, in one thread or in all; returns what was taken up."""
        runs: list[RecoveredRun] = []
        await self._engine.tasks.settle()
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
        # What was sent while a run came to its end was for nobody.
        self._engine.when_left = self._look_at

    def stop(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()

    async def stopped(self) -> None:
        """Wait until it has stopped."""
        if self._keeper is not None:
            await asyncio.wait([self._keeper])

    async def _keep_going(self) -> None:
        engine, after = self._engine, 0
        while True:
            try:
                commands = await self._news(after)
                after = max([after, *(command.id for command in commands)])
                unheard = [command for command in commands if not self._is_heard(command)]
                left, self._left = self._left, set()
                self._stirred.clear()
                for thread_id in left:
                    unheard.extend(await engine.store.load_commands(thread_id))
                if commands and not unheard:
                    continue  # those who are meant are here, and are told
                await self.take_up()
                await engine.messages.wake(unheard, engine.registry.snapshot().agent_ids())
            except StoreError as error:
                log.warning("cannot look for runs to go on with: %s", error)
                await asyncio.sleep(LOOK_AROUND)

    async def _news(self, after: int) -> list[ThreadCommand]:
        """The commands that come next; none if a run has left its thread, or nothing came for a
        while."""
        found: list[ThreadCommand] = []

        async def commands() -> None:
            found.extend(await self._engine.store.next_commands(after))

        async def left() -> None:
            await self._stirred.wait()

        await first_of(commands(), left(), asyncio.sleep(LOOK_AROUND))
        return found

    def _look_at(self, thread_id: str) -> None:
        """A run has left a thread; something may have been sent there just now."""
        self._left.add(thread_id)
        self._stirred.set()

    def _is_heard(self, command: ThreadCommand) -> bool:
        """Whether the run that a command is for is here, and told."""
        run = self._engine.active.find_by_thread(command.thread_id)
        if run is not None:
            run.take(command)
        return run is not None

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
