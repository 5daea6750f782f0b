"""Crash loops: counting how often a run was taken over from a process that died.

The count is committed right after the claim, before any of the agent's tools, models or plugins is
used: if one of them kills this process too, the attempt is already recorded. After too many
takeovers in a row the run is ended.

Before that, runs and background tasks whose processes died several times are resumed one at a time.
One of them may have killed those processes, and may do so again; if all were resumed at once, each
further death would count against all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from awaken.backend import remote
from awaken.core.aio.cancel import wait_first
from awaken.core.aio.owned_tasks import OwnedTasks
from awaken.core.event import NullEventSink
from awaken.core.lifecycle import RunStatus
from awaken.core.run import RunRecord, Takeovers
from awaken.core.store.commands import CommandKind
from awaken.core.store.commits import CallPhase, Fence, ThreadCommit, commit_once
from awaken.core.store.store import Store
from awaken.core.store.threads import ThreadContext
from awaken.core.thread_ids import child_ids
from awaken.engine import run_agent_loop
from awaken.errors import StorageError, StoreError
from awaken.plugin.env import ExecutionEnv
from awaken.plugin.resolved_agent import ResolvedAgent
from awaken.worker.activate import Activation, prepare_local, prepare_remote
from awaken.worker.attempt import AttemptEnded, StartOver
from awaken.worker.prepare import PendingCommands
from awaken.worker.request import continuation

# -- counting takeovers -----------------------------------------------------------------------


async def count_takeover(store: Store, fence: Fence, at_ms: int) -> None:
    """Record a takeover if the thread's last owner died while it was running a run.

    Raises:
        StorageError: it could not be recorded; the run must not be started.
    """
    context = await store.load_context(fence.thread_id, tail=0)
    run = context.open_run if context is not None else None
    if context is None or run is None or not _was_running(run, context, at_ms):
        return
    commit = ThreadCommit(
        thread_id=fence.thread_id,
        expected_length=context.thread.message_count,
        run=await add_takeover(store, run, _delegates(context)),
        at_ms=at_ms,
        fence=fence,
    )
    try:
        await commit_once(store, commit)
    except StoreError as error:
        raise StorageError(error) from error


async def add_takeover(store: Store, run: RunRecord, delegates: Iterable[str]) -> RunRecord:
    """The run's record with one more takeover. `delegates` are the ids that its open delegates may
    have: if they have made progress since the last takeover, the count starts again at 1."""
    beneath, levels = await _measure_delegates(store, delegates)
    before, times = run.takeovers, 1
    if before is not None and beneath <= before.beneath:
        times = before.times + 1
    return run.taken_over(Takeovers(times=times, beneath=beneath, levels=levels))


def _was_running(run: RunRecord, context: ThreadContext, at_ms: int) -> bool:
    """Whether the dead owner was running the run, rather than owning it while it only waited.

    An owner resumes a waiting run for an answer, a cancel, an expired ticket or a message about its
    tasks. If the run still waits, that command or ticket is still there.
    """
    if run.status is not RunStatus.WAITING:
        return run.status is RunStatus.RUNNING
    if run.is_background_task_waiting():
        return any(command.kind is not CommandKind.RUN for command in context.commands)
    tickets = run.waiting.tickets if run.waiting is not None else ()
    wakes = (CommandKind.DECISIONS, CommandKind.CANCEL)
    return any(
        command.kind in wakes and command.run_id in (None, run.run_id)
        for command in context.commands
    ) or any(ticket.expires_at is not None and ticket.expires_at < at_ms for ticket in tickets)


def _delegates(context: ThreadContext) -> list[str]:
    """The ids that the delegates of the open calls may have; most of them do not exist."""
    return [
        child
        for call in context.calls
        if call.phase is CallPhase.INTENT
        for child in child_ids(context.thread.id, call.key)
    ]


async def _measure_delegates(store: Store, run_ids: Iterable[str]) -> tuple[int, int]:
    """The number of messages in the threads of these delegates and of the ones below them, and how
    many levels deep running delegates are nested."""
    messages = levels = 0
    for run_id in run_ids:
        context = await store.load_context(run_id, tail=0)
        if context is None:
            continue
        messages += context.thread.message_count
        run = context.open_run
        if run is not None and run.status is RunStatus.RUNNING:
            more, deeper = await _measure_delegates(store, _delegates(context))
            messages, levels = messages + more, max(levels, 1 + deeper)
    return messages, levels


# -- ending a run after too many --------------------------------------------------------------


async def end_abandoned(activation: Activation) -> AttemptEnded | StartOver:
    """End a run that was taken over too often, without its agent's model and plugins."""
    asks_for_more, now = activation.asks_for_more, activation.services.clock.now_ms
    if asks_for_more:
        activation.sink = NullEventSink()  # the request gets its own run: its sink skips this one
    for child in _delegates(activation.context):
        # The whole tree, and before the run ends: afterwards no process would look for them.
        await activation.store.cancel_tree(child, at_ms=now())
    activation.request = continuation(activation.request, activation.run.run_id)
    activation.commands = PendingCommands(cancelled=activation.commands.cancelled)
    if activation.commands.cancelled:
        activation.slot.token.cancel()
    agent = activation.agent
    if isinstance(agent, ResolvedAgent):
        # The tools are needed to settle their calls; plugins are left out.
        agent = agent.with_env(ExecutionEnv())
        phases, setup = await prepare_local(activation, agent)
        ended = await run_agent_loop(agent, phases, setup)
    else:
        request, setup = await prepare_remote(activation, agent)
        ended = await remote.fail_abandoned(agent, request, now(), setup)
    return StartOver() if asks_for_more else AttemptEnded(ended)


# -- resuming such runs one at a time ---------------------------------------------------------

CRASH_LOOP_TAKEOVERS = 3
"""After this many takeovers in a row, a run waits for its turn. Other runs of a killed process are
resumed at once."""
PROGRESS_TIMEOUT_SECONDS = 60.0
"""The most seconds that a run without progress keeps the next one waiting."""


def is_crash_looping(record: RunRecord) -> bool:
    """Whether so many processes in a row died while they ran the run that it may have killed
    them."""
    return record.takeovers is not None and record.takeovers.times >= CRASH_LOOP_TAKEOVERS


def most_takeovers_first(record: RunRecord) -> int:
    """A sort key: runs with more takeovers come first."""
    return 0 if record.takeovers is None else -record.takeovers.times


class CrashLoopGate:
    """Resumes runs that may be in a crash loop one at a time: each starts when the one before has
    made progress or ended."""

    def __init__(self, store: Store, tasks: OwnedTasks) -> None:
        self._store = store
        self._tasks = tasks
        self._turn = asyncio.Lock()
        self._current: RunRecord | None = None

    @asynccontextmanager
    async def turn(self, record: RunRecord) -> AsyncIterator[None]:
        """Wait for the turn of a run that may be in a crash loop, then run the block. The turn
        passes to the next run as soon as this one has made progress, while the block still runs.
        Other runs do not wait."""
        if not is_crash_looping(record):
            yield
            return
        await self._turn.acquire()
        self._current = record
        failed = f"cannot see whether run {record.run_id} makes progress"
        watching = self._tasks.start_logged(self._pass_turn_on_progress(record), failed)
        try:
            yield
        finally:
            watching.cancel()
            self._pass_turn(record)

    async def _pass_turn_on_progress(self, record: RunRecord) -> None:
        try:
            await wait_first(self.wait_progress(record), asyncio.sleep(PROGRESS_TIMEOUT_SECONDS))
        finally:
            self._pass_turn(record)

    def _pass_turn(self, record: RunRecord) -> None:
        if self._current is record:
            self._current = None
            self._turn.release()

    async def wait_progress(self, record: RunRecord) -> None:
        """Wait until the run has made progress since it was resumed, or is no longer running.
        Progress resets its takeovers."""
        since = 0
        while True:
            since = await self._store.wait_changed(record.thread_id, since)
            now = await self._store.load_run(record.run_id)
            if now is None or now.takeovers is None or now.status is not RunStatus.RUNNING:
                return
