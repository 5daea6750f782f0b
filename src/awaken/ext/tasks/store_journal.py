"""The journal of background tasks that stores each task as a run record, before the task starts.

The record is in a thread below the owner's, so any process can list and cancel the task. If the
task's process dies, another one resumes it or reports it as interrupted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

import msgspec

from awaken.codec import Json
from awaken.core.aio.owned_tasks import start_logged
from awaken.core.event import RunStart
from awaken.core.inbox import inbox_channel, payload_messages
from awaken.core.lifecycle import CANCELLED, RunStatus
from awaken.core.message import Message
from awaken.core.registry import ExecutionResolver
from awaken.core.run import NO_REQUESTER, RunKind, RunRecord
from awaken.core.state.store import StateStore
from awaken.core.store.commands import CommandKind, ThreadCommand, build_cancels
from awaken.core.store.commits import Fence, ThreadCommit, commit_once
from awaken.core.store.threads import RunQuery
from awaken.core.task import (
    PersistedTaskMeta,
    StoredTask,
    TaskHost,
    TaskSlot,
    TaskStatus,
    cut_short,
    terminal_event,
)
from awaken.core.thread_ids import agent_ids, child_ids
from awaken.core.tool import ABANDONED
from awaken.errors import AwakenError, NotFound, StaleFence, StoreError
from awaken.ext.tasks.background_tool import BackgroundTool
from awaken.ext.tasks.manager import BackgroundTaskManager
from awaken.ext.tasks.outbox import Outboxes
from awaken.ext.tasks.records import ATTEMPTS
from awaken.ext.tasks.task import describe, find_live_task
from awaken.ext.tasks.task_commits import (
    INTERRUPTED,
    build_commit,
    build_finish_event,
    build_start_record,
    end_record,
)
from awaken.ext.tasks.task_inbox import TaskInbox
from awaken.plugin.resolved_agent import ResolvedAgent

log = logging.getLogger("awaken.runtime")


class ClaimedTask:
    """A task that this process owns. `end` is the commit of its end, once the task has ended and
    until the store has taken that commit."""

    __slots__ = ("end", "failures", "fence", "forwarding", "record", "slot")

    def __init__(self, slot: TaskSlot, fence: Fence, record: RunRecord) -> None:
        self.slot, self.fence, self.record = slot, fence, record
        self.failures = 0
        self.forwarding: asyncio.Future[None] | None = None
        self.end: ThreadCommit | None = None

    @property
    def is_recoverable(self) -> bool:
        return StoredTask.of(self.record).resume is not None


class StoreTaskJournal:
    """A `TaskJournal` that keeps tasks in the store of its host."""

    def __init__(self, host: TaskHost) -> None:
        self._host = host
        self._store, self._clock = host.store, host.clock
        self._inbox = TaskInbox(host)
        self._outboxes = Outboxes(host, self)
        self._live: dict[str, ClaimedTask] = {}

    async def begin(self, task: PersistedTaskMeta, resume: Json | None) -> None:
        """Record a task that is about to start; cancelling its run cancels the task.

        Raises:
            StoreError: the store did not take it.
        """
        stored = StoredTask(task, resume)
        now = self._clock.now_ms()
        parent = self._host.find_live(stored.parent_run_id)
        requester = parent.requester if parent is not None else NO_REQUESTER
        record = build_start_record(stored, now, requester)
        start = RunStart(thread_id=task.uid, run_id=task.uid, parent_run_id=record.parent_run_id)
        if stored.agent_key is not None:
            await self._host.share_budget(task.parent_context.run_id)
        async with self._claim_task(record) as live:
            commit = build_commit(
                record,
                live.fence,
                start,
                at_ms=now,
                parent_thread_id=await self._find_parent_thread(task),
            )
            await commit_once(self._store, commit)
            self._connect(live, left_on_close=parent is not None and parent.left_on_close)
        if live.slot.notified_before_start:
            await self._deliver_or_log(record.thread_id)

    async def _find_parent_thread(self, task: PersistedTaskMeta) -> str | None:
        """The parent of a task's thread: the owner's thread, or that of another task of the
        owner."""
        run = await self._store.load_run(task.parent_uid) if task.parent_uid else None
        parent = StoredTask.of(run).task if run is not None and run.is_task else None
        if parent is not None and parent.owner_thread_id == task.owner_thread_id:
            return parent.uid
        owner = await self._store.load_thread(task.owner_thread_id)
        return owner.id if owner is not None else None

    @asynccontextmanager
    async def _claim_task(self, record: RunRecord) -> AsyncIterator[ClaimedTask]:
        """Claim a task for this process. The claim is released if the block raises."""
        slot = self._host.reserve(record)
        try:
            fence = await self._host.claim(record.thread_id)
        except BaseException:
            slot.release()
            raise
        live = ClaimedTask(slot, fence, record)
        try:
            yield live
        except BaseException:
            await self._abandon(live)
            raise

    def _connect(self, live: ClaimedTask, *, left_on_close: bool) -> None:
        """Connect a claimed task: cancelling its run cancels the task, messages to it go to the
        agent in it, and a task that only waits stays open when the runtime closes."""
        slot, uid = live.slot, live.record.run_id

        def on_waiting(waiting: bool) -> None:
            slot.left_on_close = waiting or left_on_close

        on_waiting(False)
        handle = find_live_task(uid)
        if handle is not None:
            handle.set_waiting_callback(on_waiting)
            slot.token.on_cancel(handle.stop)
        agent = StoredTask.of(live.record).agent_key
        if agent is not None:
            slot.inbox, messages = inbox_channel()
            forwarding = self._inbox.forward(messages, live.fence, agent)
            live.forwarding = start_logged(
                forwarding, f"messages to task {uid} are not delivered", log
            )
        slot.begin(live.fence, ())
        self._live[uid] = live
        self._host.subscribe()

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
        if self._host.is_pending(task.uid):
            return True
        try:
            return await self._end(live, task, event)
        except StoreError:
            live.failures += 1
            if live.failures < ATTEMPTS:
                raise
            self._commit_end_later(live)
            return True

    async def _end(self, live: ClaimedTask, task: PersistedTaskMeta, event: Json) -> bool:
        end, is_tried = live.end, live.end is not None
        live.end = end = end or self._build_end_commit(live.record, live.fence, task, event)
        try:
            await commit_once(self._store, end, is_tried=is_tried)
        except StaleFence:
            log.warning("task %s belongs to another process by now", task.uid)
            self._host.drop(live.fence)
            self._drop(live)
            return True
        await self._on_end_committed(live)
        return any(command.kind is CommandKind.MESSAGES for command in end.sends)

    def _commit_end_later(self, live: ClaimedTask) -> None:
        """Commit the task's end when the store is available again; until then the task is live."""
        assert live.end is not None, "the task has ended"
        self._host.add_pending(live.fence, live.end, partial(self._on_end_committed, live))

    async def _on_end_committed(self, live: ClaimedTask) -> None:
        """After the commit of a task's end: free its slot and deliver the event to its owner."""
        self._host.drop(live.fence)
        self._drop(live)
        for command in live.end.sends if live.end is not None else ():
            await self._deliver_or_log(command.thread_id)

    def _drop(self, live: ClaimedTask) -> None:
        self._live.pop(live.record.run_id, None)
        if live.forwarding is not None:
            live.forwarding.cancel()
        live.slot.release()

    async def emit(self, task: PersistedTaskMeta, event: Json) -> bool:
        """Store an event for an owner without a live run; the next run of its thread reads it.
        Returns false if the owner's thread does not exist."""
        command = self._build_report(task, event, None)
        try:
            await self._store.send(command)
        except NotFound:
            return False
        await self._deliver_or_log(task.owner_thread_id)
        return True

    async def write(self, task: PersistedTaskMeta, id: str, event: Json) -> bool:
        """Store a message to the agent that runs in a task. Returns false if the task has ended, or
        no agent runs in it."""
        record = await self._store.load_run(task.uid)
        if record is None or not record.is_task or record.status is RunStatus.DONE:
            return False
        if StoredTask.of(record).agent_key is None:
            return False
        await self._inbox.store_message(record.thread_id, id, event)
        await self._deliver_or_log(record.thread_id)
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
                known[uid] = StoredTask.of(record).task
        for owner in {task.owner_thread_id for task in known.values() if task.is_terminal}:
            await self._deliver_or_log(owner)
        return known

    async def list_started(self, run_id: str) -> Sequence[PersistedTaskMeta]:
        """The recorded tasks that a run has started."""
        query = RunQuery(parent_run_id=run_id, kind=RunKind.TASK)
        found: list[PersistedTaskMeta] = []
        while True:
            page = await self._store.list_runs(query)
            found.extend(StoredTask.of(record).task for record in page)
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
            if (leave or live.slot.left_on_close) and live.is_recoverable:
                handle.leave()
            else:
                handle.stop()
            runners += [handle.runner] if handle.runner is not None else []
        if runners:
            await asyncio.wait(runners, timeout=grace)
        for uid, live in tuple(self._live.items()):
            if live.end is None:
                await self._abandon(live)
                continue
            if not self._host.is_pending(uid):
                self._commit_end_later(live)
            self._drop(live)

    async def _abandon(self, live: ClaimedTask) -> None:
        """Release the claim on a task, so that another process can resume it."""
        self._drop(live)
        await self._host.release(live.fence)

    async def release_idle(self) -> None:
        """Release tasks that no longer run here and have no recorded end; recovery resumes them."""
        for uid, live in tuple(self._live.items()):
            if not self._host.is_pending(uid) and find_live_task(uid) is None:
                await self._abandon(live)

    async def send_outboxes(self, thread_ids: Iterable[str], resolver: ExecutionResolver) -> None:
        """Try once to send the unsent messages of these threads; see `Outboxes.send`."""
        await self._outboxes.send(thread_ids, resolver)

    # -- after a crash ------------------------------------------------------------------------

    async def recover(self, record: RunRecord, resolver: ExecutionResolver) -> bool:
        """Resume a task whose process died, or end it as interrupted. Returns whether it was
        resumed.

        Raises:
            ThreadOwned: another process owns it.
        """
        stored = StoredTask.of(record)
        if await self._is_cancelled(record):
            await self.end_interrupted(record, cancelled=True)
            return False
        try:
            found = _find_tool(stored, resolver)
        except AwakenError as error:
            log.warning("task %s cannot be resumed: %s", record.run_id, error)
            found = None
        if found is None:
            await self.end_interrupted(record)
            return False
        agent, tool = found
        budget, deps = await self._host.load_resources(
            agent.spec.id, stored.task.parent_context.run_id, resolver
        )
        async with self._claim_task(record) as live:
            # Read again under the claim: another process may have owned the task until now.
            now = await self._store.load_run(record.run_id)
            if now is None or now.status is RunStatus.DONE:
                await self._abandon(live)
                return False
            live.record = await self._count_takeover(live.fence, now)
            commit = build_commit(live.record, live.fence, at_ms=self._clock.now_ms())
            await commit_once(self._store, commit)
            if live.record.is_abandoned:
                await self._end(live, *await self._describe_interrupted(stored, ABANDONED))
                return False
            try:
                manager = self._manager_of(agent)
                tool.resume(
                    manager, stored.task, stored.resume, agent, self._host.delegates, budget, deps
                )
            except Exception as error:
                # The tool cannot resume from the record.
                log.warning("task %s cannot be resumed", record.run_id, exc_info=True)
                reason = f"{INTERRUPTED}, and it cannot go on: {describe(error)}"
                await self._end(live, *await self._describe_interrupted(stored, reason))
                return False
            self._connect(live, left_on_close=True)
        # A cancel may have arrived before the task was connected.
        await self._deliver_or_log(record.thread_id)
        return True

    async def _count_takeover(self, fence: Fence, record: RunRecord) -> RunRecord:
        """The record of a task that is resumed here, with the takeover counted if its owner
        died."""
        if fence.taken_from is None:
            return record.advance(self._clock.now_ms(), state=None)
        has_agent = StoredTask.of(record).agent_key is not None
        record = msgspec.structs.replace(record, state=None)
        delegates = agent_ids(record.run_id) if has_agent else ()
        return await self._host.count_takeover(record, delegates)

    def _manager_of(self, agent: ResolvedAgent) -> BackgroundTaskManager:
        """The agent's task manager, connected to this journal and to a new state store, which keeps
        the tasks that a task starts while the agent has no live run."""
        manager = agent.env.services.get(BackgroundTaskManager)
        if not isinstance(manager, BackgroundTaskManager):
            return BackgroundTaskManager(journal=self)
        manager.set_journal(self)
        manager.set_store(StateStore(agent.env.keys))
        return manager

    async def _is_cancelled(self, record: RunRecord) -> bool:
        """Whether a task, or a run or task above it, was cancelled."""
        runs = [record]
        for run in runs:
            if run.termination_reason == CANCELLED:
                return True
            for command in await self._store.load_commands(run.thread_id):
                if command.kind is CommandKind.CANCEL and command.run_id in (None, run.run_id):
                    return True
            for run_id in _parent_ids(run) - {seen.run_id for seen in runs}:
                parent = await self._store.load_run(run_id)
                if parent is not None:
                    runs.append(parent)
        return False

    async def end_interrupted(self, record: RunRecord, *, cancelled: bool = False) -> None:
        """End a task whose process died, and send its owner the event.

        Raises:
            ThreadOwned: another process owns it.
        """
        fence = await self._host.claim(record.thread_id)
        try:
            now = await self._store.load_run(record.run_id)
            if now is None or now.status is RunStatus.DONE:
                await self._host.release(fence)
                return
            stored = StoredTask.of(now)
            reason = None if cancelled else stored.task.error or INTERRUPTED
            ending = self._build_end_commit(
                now, fence, *await self._describe_interrupted(stored, reason)
            )
            await commit_once(self._store, ending)
        except BaseException:
            await self._host.release(fence)
            raise
        self._host.drop(fence)
        for command in ending.sends:
            await self._deliver_or_log(command.thread_id)

    async def _describe_interrupted(
        self, stored: StoredTask, reason: str | None
    ) -> tuple[PersistedTaskMeta, Json]:
        """The ended task and the event for its owner, for a task whose process died. Both say what
        its agent had done. Without a reason the task counts as cancelled."""
        ended = msgspec.structs.replace(
            stored.task,
            status=TaskStatus.CANCELLED if reason is None else TaskStatus.FAILED,
            completed_at_ms=self._clock.now_ms(),
        )
        agent = stored.agent_key
        delegates = self._host.delegates
        done = await delegates.summarize_delegate(ended.uid, agent) if agent is not None else None
        ended = cut_short(ended, "; ".join(word for word in (reason, done) if word) or None)
        return ended, {**terminal_event(ended), "interrupted": True}

    # -- commits ------------------------------------------------------------------------------

    def _build_end_commit(
        self, record: RunRecord, fence: Fence, task: PersistedTaskMeta, event: Json
    ) -> ThreadCommit:
        """The commit that ends a task and, unless the task is internal, sends its owner the event.
        If the task ends without the end of the agent in it, the agent's run is cancelled."""
        stored = StoredTask(task, StoredTask.of(record).resume)
        ended = end_record(record, stored, now := self._clock.now_ms())
        has_reader = bool(task.owner_thread_id) and not task.internal
        sends = [self._build_report(task, event, "end")] if has_reader else []
        if stored.agent_key is not None and task.status is not TaskStatus.COMPLETED:
            sends += build_cancels(child_ids(record.run_id, stored.agent_key), now)
        return build_commit(
            ended, fence, build_finish_event(task), at_ms=now, sends=tuple(sends), release=True
        )

    async def _deliver_or_log(self, thread_id: str) -> None:
        """Deliver the thread's commands to its run, if that is live here. Store errors are
        logged."""
        try:
            await self._host.deliver(thread_id)
        except StoreError as error:
            log.warning("the report to thread %s is delayed: %s", thread_id, error)

    def _build_report(
        self, task: PersistedTaskMeta, event: Json, name: str | None
    ) -> ThreadCommand:
        """The command that brings an event to the task's owner as a message."""
        (message,) = payload_messages(event)
        id = f"{task.uid}:{name}" if name is not None else message.id
        return ThreadCommand(
            thread_id=task.owner_thread_id,
            kind=CommandKind.MESSAGES,
            messages=(_with_id(message, id),),
            at_ms=self._clock.now_ms(),
        )


def _parent_ids(run: RunRecord) -> set[str]:
    """The ids of a run's parents: the run that started it and, for a task, the run that it works
    for."""
    ids = {run.parent_run_id}
    if run.is_task:
        ids.add(StoredTask.of(run).task.parent_context.run_id)
    return {id for id in ids if id is not None}


def _find_tool(
    stored: StoredTask, resolver: ExecutionResolver
) -> tuple[ResolvedAgent, BackgroundTool] | None:
    """The agent and its tool that can resume a task; `None` if the task cannot be resumed."""
    agent_id = stored.task.parent_context.agent_id
    name = stored.resume.get("tool") if isinstance(stored.resume, dict) else None
    if not isinstance(name, str) or agent_id is None:
        return None
    agent: ResolvedAgent = resolver.resolve(agent_id)
    tool = agent.tools.get(name)
    return (agent, tool) if isinstance(tool, BackgroundTool) else None


def _with_id(message: Message, id: str | None) -> Message:
    return msgspec.structs.replace(message, id=id)
