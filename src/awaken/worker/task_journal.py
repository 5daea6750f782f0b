"""The runtime's journal of background tasks. Each task has its own run record, stored before the
task starts.

The record is in a thread below the owner's, so any process can list and cancel the task. If the
task's process dies, another one resumes it or reports it as interrupted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

import msgspec

from awaken.clock import Clock
from awaken.codec import Json
from awaken.core.aio.owned_tasks import start_logged
from awaken.core.backend import DurableDelegates
from awaken.core.event import RunStart
from awaken.core.inbox import inbox_channel
from awaken.core.lifecycle import CANCELLED, RunStatus
from awaken.core.message import Message
from awaken.core.registry import ExecutionResolver
from awaken.core.run import RunKind, RunRecord
from awaken.core.state.store import StateStore
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import Fence, ThreadCommit
from awaken.core.store.store import Store
from awaken.core.store.threads import RunQuery
from awaken.core.task import (
    PersistedTaskMeta,
    TaskStatus,
    cut_short,
    terminal_event,
)
from awaken.core.thread_ids import agent_ids, child_ids
from awaken.core.tool import ABANDONED
from awaken.engine.call_results import build_cancels
from awaken.engine.inbox import payload_messages
from awaken.errors import AwakenError, NotFound, StaleFence, StoreError
from awaken.ext import tasks as background
from awaken.ext.tasks import find_live_task
from awaken.plugin.resolved_agent import ResolvedAgent
from awaken.tool.thread_pool import TOOL_THREADS, ToolThreads
from awaken.worker.budgets import Accounts
from awaken.worker.claims import Claims, ClaimUse
from awaken.worker.crash_loop import add_takeover
from awaken.worker.dependencies import Dependencies
from awaken.worker.live_runs import ActiveRun, ActiveRuns, Requester
from awaken.worker.pending_commits import PendingCommits, commit_once
from awaken.worker.task_inbox import TaskMail
from awaken.worker.task_records import INTERRUPTED, KeptTask, commit_of

log = logging.getLogger("awaken.runtime")


class OwnedTask:
    """A task that this process owns. `end` is the commit of its end, once the task has ended and
    until the store has taken that commit."""

    __slots__ = ("end", "failures", "fence", "mail", "record", "slot")

    def __init__(self, slot: ActiveRun, fence: Fence, record: RunRecord) -> None:
        self.slot, self.fence, self.record = slot, fence, record
        self.failures = 0
        self.mail: asyncio.Future[None] | None = None
        self.end: ThreadCommit | None = None

    @property
    def can_be_taken_up(self) -> bool:
        return KeptTask.of(self.record).resume is not None


class Tasks:
    """A `TaskJournal` that keeps tasks in the store."""

    def __init__(
        self,
        store: Store,
        active: ActiveRuns,
        clock: Clock,
        claims: Claims,
        deliver: Callable[[str], Awaitable[None]],
        delegates: DurableDelegates,
        accounts: Accounts,
        listen: Callable[[], None],
        threads: ToolThreads,
        pending_commits: PendingCommits,
        deps: Dependencies,
    ) -> None:
        self._claims, self._delegates = claims, delegates
        self._deps = deps
        self._threads = threads
        self._pending_commits = pending_commits
        self._accounts = accounts
        self._store = store
        self._active = active
        self._clock = clock
        self._deliver = deliver
        self._listen = listen
        self._mail = TaskMail(store, clock, deliver)
        self._live: dict[str, OwnedTask] = {}

    async def begin(self, task: PersistedTaskMeta, resume: Json | None) -> None:
        """Record a task that is about to start; cancelling its run cancels the task.

        Raises:
            StoreError: the store did not take it.
        """
        kept = KeptTask(task, resume)
        now = self._clock.now_ms()
        above = self._active.find_by_run(kept.parent_run_id or "")
        record = kept.begun(now, above.requester if above is not None else Requester())
        start = RunStart(thread_id=task.uid, run_id=task.uid, parent_run_id=record.parent_run_id)
        if kept.agent_key is not None:
            await self._accounts.spread(task.parent_context.run_id)
        async with self._claimed(record) as live:
            begun = commit_of(
                record, live.fence, start, at_ms=now, beneath=await self._thread_above(task)
            )
            await commit_once(self._store, begun)
            self._hold(live, left_on_close=above is not None and above.left_on_close)
        if live.slot.notified_before_start:
            await self._pass_on(record.thread_id)

    async def _thread_above(self, task: PersistedTaskMeta) -> str | None:
        """The parent of a task's thread: the owner's thread, or that of another task of the
        owner."""
        parent = await self._store.load_run(task.parent_uid) if task.parent_uid else None
        above = KeptTask.of(parent).task if parent is not None and parent.is_task else None
        if above is not None and above.owner_thread_id == task.owner_thread_id:
            return above.uid
        owner = await self._store.load_thread(task.owner_thread_id)
        return owner.id if owner is not None else None

    @asynccontextmanager
    async def _claimed(self, record: RunRecord) -> AsyncIterator[OwnedTask]:
        """Claim a task for this process. The claim is released if the block raises."""
        slot = self._active.reserve(record.thread_id)
        try:
            self._active.name(slot, record.run_id)
            slot.requester = Requester.of(record.request)
            fence = await self._claims.claim(record.thread_id, ClaimUse.TASK)
        except BaseException:
            slot.release()
            raise
        live = OwnedTask(slot, fence, record)
        try:
            yield live
        except BaseException:
            await self._give_up(live)
            raise

    def _hold(self, live: OwnedTask, *, left_on_close: bool) -> None:
        """Connect a claimed task: cancelling its run cancels the task, messages to it go to the
        agent in it, and a task that only waits stays open when the runtime closes."""
        slot, uid = live.slot, live.record.run_id

        def waits(waiting: bool) -> None:
            slot.left_on_close = waiting or left_on_close

        waits(False)
        handle = find_live_task(uid)
        if handle is not None:
            handle.when_waiting(waits)
            slot.token.on_cancel(handle.stop)
        agent = KeptTask.of(live.record).agent_key
        if agent is not None:
            slot.inbox, letters = inbox_channel()
            bringing = self._mail.bring(letters, live.fence, agent)
            live.mail = start_logged(bringing, f"messages to task {uid} are not delivered", log)
        slot.begin(live.fence, ())
        self._live[uid] = live
        self._listen()

    async def end(self, task: PersistedTaskMeta, event: Json) -> bool:
        """Record how a task ended and send its owner the event, in one commit. After several
        failures the commit is held and repeated until the store takes it.

        Returns what `TaskJournal.end` does; false if this process does not own the task.

        Raises:
            StoreError: the store did not take the commit.
        """
        live = self._live.get(task.uid)
        if live is None:
            return False
        if task.uid in self._pending_commits:
            return True
        try:
            return await self._end(live, task, event)
        except StoreError:
            live.failures += 1
            if live.failures < background.ATTEMPTS:
                raise
            self._keep_later(live)
            return True

    async def _end(self, live: OwnedTask, task: PersistedTaskMeta, event: Json) -> bool:
        end, is_tried = live.end, live.end is not None
        live.end = end = end or self._ending(live.record, live.fence, task, event)
        try:
            await commit_once(self._store, end, is_tried=is_tried)
        except StaleFence:
            log.warning("task %s belongs to another process by now", task.uid)
            self._claims.drop(live.fence)
            self._drop(live)
            return True
        await self._ended(live)
        return any(command.kind is CommandKind.MESSAGES for command in end.sends)

    def _keep_later(self, live: OwnedTask) -> None:
        """Commit the task's end when the store is available again; until then the task is live."""
        assert live.end is not None, "the task has ended"
        self._pending_commits.add(live.fence, [live.end], partial(self._ended, live))

    async def _ended(self, live: OwnedTask) -> None:
        """After the commit of a task's end: free its slot and deliver the event to its owner."""
        self._claims.drop(live.fence)
        self._drop(live)
        for command in live.end.sends if live.end is not None else ():
            await self._pass_on(command.thread_id)

    def _drop(self, live: OwnedTask) -> None:
        self._live.pop(live.record.run_id, None)
        if live.mail is not None:
            live.mail.cancel()
        live.slot.release()

    async def emit(self, task: PersistedTaskMeta, event: Json) -> bool:
        """Store an event for an owner without a live run; the next run of its thread reads it.
        Returns false if the owner's thread does not exist."""
        command = self._told(task, event, None)
        try:
            await self._store.send(command)
        except NotFound:
            return False
        await self._pass_on(task.owner_thread_id)
        return True

    async def write(self, task: PersistedTaskMeta, id: str, event: Json) -> bool:
        """Store a message to the agent that runs in a task. Returns false if the task has ended, or
        no agent runs in it."""
        record = await self._store.load_run(task.uid)
        if record is None or not record.is_task or record.status is RunStatus.DONE:
            return False
        if KeptTask.of(record).agent_key is None:
            return False
        await self._mail.keep(record.thread_id, id, event)
        await self._pass_on(record.thread_id)
        return True

    async def find(self, uids: Iterable[str]) -> Mapping[str, PersistedTaskMeta]:
        """The recorded tasks with these ids, by `uid`.

        If a task has ended, the commands that wait for its owner are delivered, so that a caller
        that sees the end also gets its event.
        """
        known: dict[str, PersistedTaskMeta] = {}
        for uid in uids:
            record = await self._store.load_run(uid)
            if record is not None and record.is_task:
                known[uid] = KeptTask.of(record).task
        for owner in {task.owner_thread_id for task in known.values() if task.is_terminal}:
            await self._pass_on(owner)
        return known

    async def started_by(self, run_id: str) -> Sequence[PersistedTaskMeta]:
        """The recorded tasks that a run has started."""
        query = RunQuery(parent_run_id=run_id, kind=RunKind.TASK)
        found: list[PersistedTaskMeta] = []
        while True:
            page = await self._store.list_runs(query)
            found.extend(KeptTask.of(record).task for record in page)
            if page.cursor is None:
                return found
            query = msgspec.structs.replace(query, cursor=page.cursor)

    async def close(self, *, leave: bool, grace: float) -> None:
        """Stop this process's tasks, or leave them open for another process; wait at most `grace`
        seconds.

        A task that cannot be resumed is stopped in any case. A task with `left_on_close`, such as a
        resumed one, is left open if it can be.
        """
        runners: list[asyncio.Future[None]] = []
        for uid, live in tuple(self._live.items()):
            handle = find_live_task(uid)
            if handle is None:
                continue
            if (leave or live.slot.left_on_close) and live.can_be_taken_up:
                handle.leave()
            else:
                handle.stop()
            runners += [handle.runner] if handle.runner is not None else []
        if runners:
            await asyncio.wait(runners, timeout=grace)
        for uid, live in tuple(self._live.items()):
            if live.end is None:
                await self._give_up(live)
                continue
            if uid not in self._pending_commits:
                self._keep_later(live)
            self._drop(live)

    async def _give_up(self, live: OwnedTask) -> None:
        """Release the claim on a task, so that another process can resume it."""
        self._drop(live)
        await self._claims.release(live.fence)

    async def settle(self) -> None:
        """Release tasks that no longer run here and have no recorded end; recovery resumes them."""
        for uid, live in tuple(self._live.items()):
            if uid not in self._pending_commits and find_live_task(uid) is None:
                await self._give_up(live)

    # -- after a crash ------------------------------------------------------------------------

    async def take_up(self, record: RunRecord, resolver: ExecutionResolver) -> bool:
        """Resume a task whose process died, or end it as interrupted. Returns whether it goes on.

        Raises:
            ThreadOwned: another process owns it.
        """
        kept = KeptTask.of(record)
        if await self._is_cancelled(record):
            await self.end_interrupted(record, cancelled=True)
            return False
        try:
            found = _tool_of(kept, resolver)
        except AwakenError as error:
            log.warning("task %s cannot be resumed: %s", record.run_id, error)
            found = None
        if found is None:
            await self.end_interrupted(record)
            return False
        agent, tool = found
        budget = await self._accounts.of_run(kept.task.parent_context.run_id, resolver)
        deps = await self._deps.find_for_task(agent.spec.id, kept.task.parent_context.run_id)
        async with self._claimed(record) as live:
            # Read again under the claim: another process may have owned the task until now.
            now = await self._store.load_run(record.run_id)
            if now is None or now.status is RunStatus.DONE:
                await self._give_up(live)
                return False
            live.record = await self._taken_over(live.fence, now)
            taken = commit_of(live.record, live.fence, at_ms=self._clock.now_ms())
            await commit_once(self._store, taken)
            if live.record.is_abandoned:
                await self._end(live, *await self._broken_off(kept, ABANDONED))
                return False
            TOOL_THREADS.set(self._threads)  # the task inherits it
            try:
                manager = self._manager_of(agent)
                tool.take_up(manager, kept.task, kept.resume, agent, self._delegates, budget, deps)
            except Exception as error:
                # The tool cannot resume from the record.
                log.warning("task %s cannot be resumed", record.run_id, exc_info=True)
                reason = f"{INTERRUPTED}, and it cannot go on: {background.describe(error)}"
                await self._end(live, *await self._broken_off(kept, reason))
                return False
            self._hold(live, left_on_close=True)
        # A cancel may have arrived before the task was connected.
        await self._pass_on(record.thread_id)
        return True

    async def _taken_over(self, fence: Fence, record: RunRecord) -> RunRecord:
        """The record of a task that is resumed here, with the takeover counted if its owner
        died."""
        if fence.taken_from is None:
            return record.advance(self._clock.now_ms(), state=None)
        has_agent = KeptTask.of(record).agent_key is not None
        record = msgspec.structs.replace(record, state=None)
        delegates = agent_ids(record.run_id) if has_agent else ()
        return await add_takeover(self._store, record, delegates)

    def _manager_of(self, agent: ResolvedAgent) -> background.BackgroundTaskManager:
        """The agent's task manager, connected to this journal and to a new state store, which keeps
        the tasks that a task starts while the agent has no live run."""
        manager = agent.env.services.get(background.BackgroundTaskManager)
        if not isinstance(manager, background.BackgroundTaskManager):
            return background.BackgroundTaskManager(journal=self)
        manager.set_journal(self)
        manager.set_store(StateStore(agent.env.keys))
        return manager

    async def _is_cancelled(self, record: RunRecord) -> bool:
        """Whether a task, or a run or task above it, was cancelled."""
        above: list[RunRecord] = [record]
        for run in above:
            if run.termination_reason == CANCELLED:
                return True
            for command in await self._store.load_commands(run.thread_id):
                if command.kind is CommandKind.CANCEL and command.run_id in (None, run.run_id):
                    return True
            known = {seen.run_id for seen in above}
            for run_id in _parents(run) - known:
                parent = await self._store.load_run(run_id)
                if parent is not None:
                    above.append(parent)
        return False

    async def end_interrupted(self, record: RunRecord, *, cancelled: bool = False) -> None:
        """End a task whose process died, and send its owner the event.

        Raises:
            ThreadOwned: another process owns it.
        """
        fence = await self._claims.claim(record.thread_id, ClaimUse.TASK)
        try:
            now = await self._store.load_run(record.run_id)
            if now is None or now.status is RunStatus.DONE:
                await self._claims.release(fence)
                return
            kept = KeptTask.of(now)
            reason = None if cancelled else kept.task.error or INTERRUPTED
            ending = self._ending(now, fence, *await self._broken_off(kept, reason))
            await commit_once(self._store, ending)
        except BaseException:
            await self._claims.release(fence)
            raise
        self._claims.drop(fence)
        for command in ending.sends:
            await self._pass_on(command.thread_id)

    async def _broken_off(
        self, kept: KeptTask, reason: str | None
    ) -> tuple[PersistedTaskMeta, Json]:
        """The ended task and the event for its owner, for a task whose process died. Both say what
        its agent had done. Without a reason the task counts as cancelled."""
        ended = msgspec.structs.replace(
            kept.task,
            status=TaskStatus.CANCELLED if reason is None else TaskStatus.FAILED,
            completed_at_ms=self._clock.now_ms(),
        )
        agent = kept.agent_key
        done = await self._delegates.done_by(ended.uid, agent) if agent is not None else None
        ended = cut_short(ended, "; ".join(word for word in (reason, done) if word) or None)
        return ended, {**terminal_event(ended), "interrupted": True}

    # -- commits ------------------------------------------------------------------------------

    def _ending(
        self, record: RunRecord, fence: Fence, task: PersistedTaskMeta, event: Json
    ) -> ThreadCommit:
        """The commit that ends a task and, unless the task is internal, sends its owner the event.
        If the task ends without the end of the agent in it, the agent's run is cancelled."""
        kept = KeptTask(task, KeptTask.of(record).resume)
        ended = kept.ended(record, now := self._clock.now_ms())
        told = bool(task.owner_thread_id) and not task.internal
        sends = [self._told(task, event, "end")] if told else []
        if kept.agent_key is not None and task.status is not TaskStatus.COMPLETED:
            sends += build_cancels(child_ids(record.run_id, kept.agent_key), now)
        return commit_of(ended, fence, kept.finish(), at_ms=now, sends=tuple(sends), release=True)

    async def _pass_on(self, thread_id: str) -> None:
        """Deliver the thread's commands to its run, if that is live here. Store errors are
        logged."""
        try:
            await self._deliver(thread_id)
        except StoreError as error:
            log.warning("the report to thread %s is delayed: %s", thread_id, error)

    def _told(self, task: PersistedTaskMeta, event: Json, name: str | None) -> ThreadCommand:
        """The command that brings an event to the task's owner as a message."""
        (message,) = payload_messages(event)
        id = f"{task.uid}:{name}" if name is not None else message.id
        return ThreadCommand(
            thread_id=task.owner_thread_id,
            kind=CommandKind.MESSAGES,
            messages=(_with_id(message, id),),
            at_ms=self._clock.now_ms(),
        )


def _parents(run: RunRecord) -> set[str]:
    """The ids of a run's parents: the run that started it and, for a task, the run that it works
    for."""
    ids = {run.parent_run_id}
    if run.is_task:
        ids.add(KeptTask.of(run).task.parent_context.run_id)
    return {id for id in ids if id is not None}


def _tool_of(
    kept: KeptTask, resolver: ExecutionResolver
) -> tuple[ResolvedAgent, background.BackgroundTool] | None:
    """The agent and its tool that can resume a task; `None` if the task cannot be resumed."""
    agent_id = kept.task.parent_context.agent_id
    name = kept.resume.get("tool") if isinstance(kept.resume, dict) else None
    if not isinstance(name, str) or agent_id is None:
        return None
    agent: ResolvedAgent = resolver.resolve(agent_id)
    tool = agent.tools.get(name)
    return (agent, tool) if isinstance(tool, background.BackgroundTool) else None


def _with_id(message: Message, id: str | None) -> Message:
    return msgspec.structs.replace(message, id=id)
