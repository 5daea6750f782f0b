"""Going on with runs that nobody carries on, as long as a runtime is open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable
from typing import Any, Protocol, TypeVar

import msgspec

from awaken.contract.commands import ThreadCommand
from awaken.control.cancel import first_of
from awaken.control.tasks import alone, keep_on, log_error, start_logged
from awaken.domain.lifecycle import RunStatus
from awaken.domain.run import RunRecord
from awaken.errors import (
    AwakenError,
    RunLeft,
    StoreError,
    StoreUnavailable,
    ThreadAlreadyRunning,
    ThreadOwned,
)
from awaken.front.result import RecoveredRun, RunResult, Shapes
from awaken.front.suspects import PROBATION, Suspects, is_suspect, most_suspect_first
from awaken.runtime import AgentRuntime, steer

AT_ONCE = 100
A_FEW = 10
"""As many threads are looked at one by one; for more, all there are are looked at."""
ATTEMPTS = 3
"""How often a run may fail before whoever waits for it is told so."""
LOOK_AROUND = 5.0
LONGEST_PAUSE = 300.0
_CANNOT_LOOK = "cannot look for runs to go on with"
log = logging.getLogger("awaken.runtime")

V = TypeVar("V")


class Spawn(Protocol):
    """Starts work that the runtime owns."""

    def __call__(self, work: Awaitable[V]) -> asyncio.Task[V]: ...


def _unread(thread_id: str) -> str:
    return f"thread {thread_id} cannot be looked at"


class Failure(msgspec.Struct, frozen=True):
    """How often a run could not be carried on, when it is tried again, and why it could not."""

    times: int
    until: float
    error: Exception


class Recovery:
    """Takes runs up, each once at a time; one that fails is tried again later and later.

    Until it is started, it goes on only with runs that wait for their tasks, when those have news.
    """

    def __init__(self, engine: AgentRuntime, spawn: Spawn, shapes: Shapes) -> None:
        self._engine = engine
        self._shapes = shapes
        self._spawn = spawn
        self._room = asyncio.Semaphore(AT_ONCE)
        self._suspects = Suspects(engine.store, spawn)
        self._threads: dict[str, str] = {}
        self.at_work: dict[asyncio.Task[Any], str] = {}
        self._failures: dict[str, Failure] = {}
        self._keeper: asyncio.Task[None] | None = None
        self._look_again_at = 0.0
        self._sending: asyncio.Task[None] | None = None
        self._left: set[str] = set()
        self._stirred = asyncio.Event()
        engine.when_left, engine.when_told = self._look_at, self._see_to

    async def recover(self) -> list[RecoveredRun]:
        """Go on with all that nobody carries on, also with what has failed before, and have read
        what agents have written to threads in which nobody runs; returns what was taken up."""
        self._failures.clear()
        self._send_left()
        runs = await self.take_up()
        await self._wake(await self._engine.store.load_commands())
        return runs

    async def take_up(self, thread: str | None = None) -> list[RecoveredRun]:
        """Go on with what nobody carries on, in one thread or in all; returns what was taken up.

        Raises:
            StoreUnavailable: nothing can be read now.
        """
        engine, runs = self._engine, list[RecoveredRun]()
        await engine.unkept.try_again(thread)
        if thread is None:
            await engine.tasks.settle()
        now_ms = steer.overdue_at(engine)
        found = await engine.store.list_interrupted(now_ms=now_ms, thread_id=thread)
        for record in sorted(found, key=most_suspect_first):
            # Something has happened in a thread that is named: that may help.
            if thread is not None or not self._is_put_off(record):
                runs.extend(await self._try(record))
        return runs

    async def goes_on(self, thread: str) -> bool:
        """Take up the run of a thread; whether it goes on, because of this or already."""
        return bool(await self.take_up(thread)) or thread in self._threads.values()

    async def _try(self, record: RunRecord) -> list[RecoveredRun]:
        """Go on with a run or a task, if it is to go on here; the run, if it is one.

        A record that nobody can read, say, keeps no other from being taken up.
        """
        engine = self._engine
        try:
            if record.run_id in self._threads or not await steer.is_to_go_on(engine, record):
                return []
            if not record.is_task:
                return [self._carry_on(record)]
            if is_suspect(record):
                self._hold(record, self._spawn(self._take_up_suspect(record)))
                return []
            await engine.tasks.take_up(record, engine.registry.snapshot())
        except (ThreadAlreadyRunning, ThreadOwned):
            return []  # another process was quicker
        except StoreUnavailable:
            raise
        except Exception as error:
            self._note(record, error)
        else:
            self._failures.pop(record.run_id, None)
        return []

    # -- failures -----------------------------------------------------------------------------

    def _note(self, record: RunRecord, error: Exception) -> None:
        before = self._failures.get(record.run_id)
        times = 1 if before is None else before.times + 1
        pause = min(LOOK_AROUND * 2 ** min(times, 10), LONGEST_PAUSE)
        until = asyncio.get_running_loop().time() + pause
        self._failures[record.run_id] = Failure(times, until, error)
        unforeseen = None if isinstance(error, AwakenError) else error
        log.error("run %s could not be carried on: %s", record.run_id, error, exc_info=unforeseen)

    def _is_put_off(self, record: RunRecord) -> bool:
        failure = self._failures.get(record.run_id)
        return failure is not None and asyncio.get_running_loop().time() < failure.until

    def why_not(self, record: RunRecord, needed: Iterable[str]) -> str | None:
        """Why a run that nobody carries on, and needs these others, is not carried on here either;
        nothing if it will be."""
        enough = ATTEMPTS if self._keeper is not None else 1
        for run_id in (record.run_id, *needed):
            failure = self._failures.get(run_id)
            if failure is not None and failure.times >= enough:
                return f"{run_id!r} fails here ({failure.error}); see to that, and call recover()"
        agent = steer.agent_of(record)
        if record.run_id in self._threads:
            return None
        if agent not in self._engine.registry.snapshot().agent_ids():
            return f"this runtime has no agent {agent!r}; open one that has it, and recovers"
        if self._keeper is None:
            return "this runtime does not recover what others have left; call recover()"
        return None

    # -- looking around -----------------------------------------------------------------------

    def start(self) -> None:
        """From now on, go on with what somebody answers, cancels or leaves."""
        self._look_again_at = asyncio.get_running_loop().time() + LOOK_AROUND
        keeping = keep_on(self._keep_going, LOOK_AROUND, _CANNOT_LOOK, log)
        self._keeper = start_logged(keeping, _CANNOT_LOOK, log)
        self._send_left()

    def stop(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()

    async def stopped(self) -> None:
        """Wait until it has stopped."""
        if self._keeper is not None:
            await asyncio.wait([self._keeper])

    async def _keep_going(self) -> None:
        loop, after = asyncio.get_running_loop(), 0
        while True:
            commands = await self._news(after, self._look_again_at - loop.time())
            after = max([after, *(command.id for command in commands)])
            unheard = [command for command in commands if not await self._is_heard(command)]
            threads, self._left = self._left, set()
            self._stirred.clear()
            for thread_id in threads:
                reading = self._engine.store.load_commands(thread_id)
                unheard.extend(await alone(reading, _unread(thread_id), log) or ())
            threads.update(command.thread_id for command in unheard)
            if loop.time() >= self._look_again_at or len(threads) > A_FEW:
                self._send_left()
                await self.take_up()
                self._look_again_at = loop.time() + LOOK_AROUND
            else:
                for thread_id in threads:
                    await alone(self.take_up(thread_id), _unread(thread_id), log)
            await self._wake(unheard)

    async def _is_heard(self, command: ThreadCommand) -> bool:
        """Whether a command has reached its run, or one that cannot read it is live here."""
        heard = await alone(self._engine.hear(command), _unread(command.thread_id), log)
        return heard is not False

    async def _news(self, after: int, patience: float) -> list[ThreadCommand]:
        """The commands that come next; none if a run has left its thread, or nothing came for so
        many seconds."""
        found: list[ThreadCommand] = []

        async def commands() -> None:
            found.extend(await self._engine.store.next_commands(after))

        async def left() -> None:
            await self._stirred.wait()

        await first_of(commands(), left(), asyncio.sleep(max(patience, 0)))
        return found

    async def _wake(self, commands: Iterable[ThreadCommand]) -> None:
        """Let agents read what others have written to threads in which nobody runs."""
        engine, waiting = self._engine, dict[str, list[ThreadCommand]]()
        for command in commands:
            waiting.setdefault(command.thread_id, []).append(command)
        agents = engine.registry.snapshot().agent_ids()
        for thread_id, unread in waiting.items():
            waking = engine.messages.wake(unread, agents)
            await alone(waking, f"thread {thread_id} could not be woken", log)

    def _send_left(self) -> None:
        """Send what runs that are over have left in their outboxes, beside all else: that may
        take long."""
        if self._sending is None or self._sending.done():
            self._sending = self._spawn(self._send_all())

    async def _send_all(self) -> None:
        try:
            await self._engine.outboxes.send_all(self._engine.registry.snapshot())
        except Exception as error:
            log_error(error, "cannot look for messages to send", log)

    def _look_at(self, thread_id: str) -> None:
        """A run has left a thread: what was sent there while it came to its end was for nobody."""
        self._left.add(thread_id)
        self._stirred.set()
        self._see_to(thread_id)

    def _see_to(self, thread_id: str) -> None:
        """A thread was told something, and none of its runs is live here."""
        if self._keeper is None and not self._engine.closed:
            self._work_on(thread_id, self._go_on_with_own(thread_id))

    def _work_on(self, thread_id: str, work: Awaitable[V]) -> asyncio.Task[V]:
        """Start something that goes on with the run of a thread; `at_work` has it until it ends."""
        task = self._spawn(work)
        self.at_work[task] = thread_id
        task.add_done_callback(self.at_work.pop)
        return task

    async def _go_on_with_own(self, thread_id: str) -> None:
        """Go on with a run of this process whose tasks have told it something."""
        engine = self._engine
        while True:
            try:
                now_ms = steer.overdue_at(engine)
                for run in await engine.store.list_interrupted(now_ms=now_ms, thread_id=thread_id):
                    if run.is_background_task_waiting():
                        await self._try(run)
                return
            except StoreUnavailable as error:
                log.warning("cannot look for the run of thread %s: %s", thread_id, error)
                await asyncio.sleep(LOOK_AROUND)
            except Exception as error:
                log_error(error, f"the run of thread {thread_id} does not go on", log)
                return

    # -- runs ---------------------------------------------------------------------------------

    def _carry_on(self, record: RunRecord) -> RecoveredRun:
        task = self._work_on(record.thread_id, self._go_on(record))
        return RecoveredRun(record, self._hold(record, task))

    def _hold(self, record: RunRecord, task: asyncio.Task[V]) -> asyncio.Task[V]:
        """Know that the run, or task, of a record goes on, or is about to, until this has ended."""
        self._threads[record.run_id] = record.thread_id

        def ended(task: asyncio.Task[V]) -> None:
            self._threads.pop(record.run_id, None)
            # Whoever wants to know awaits it; that nobody did is no news, it was logged.
            if not task.cancelled():
                task.exception()

        task.add_done_callback(ended)
        return task

    async def _take_up_suspect(self, record: RunRecord) -> None:
        """Go on with a task when its turn has come, and let the next suspect wait for it."""
        engine = self._engine
        async with self._suspects.turn(record):
            try:
                await engine.tasks.take_up(record, engine.registry.snapshot())
            except (ThreadAlreadyRunning, ThreadOwned):
                return  # another process was quicker
            except Exception as error:
                self._note(record, error)
                return
            self._failures.pop(record.run_id, None)
            await first_of(self._suspects.gets_ahead(record), asyncio.sleep(PROBATION))

    async def _go_on(self, record: RunRecord) -> RunResult:
        async with self._suspects.turn(record), self._room:
            try:
                result = await steer.go_on(self._engine, record)
            except (ThreadAlreadyRunning, RunLeft):
                raise  # another process was quicker, or will go on
            except Exception as error:
                if not self._engine.closed and not await self._is_over(record):
                    self._note(record, error)
                raise
        self._failures.pop(record.run_id, None)
        return RunResult.of(record.thread_id, result, self._shapes)

    async def _is_over(self, record: RunRecord) -> bool:
        """Whether somebody has ended a run in the meantime."""
        try:
            latest = await self._engine.store.load_run(record.run_id)
        except StoreError:
            return False  # nobody can tell now
        return latest is None or latest.status is RunStatus.DONE
