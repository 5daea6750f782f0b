"""Background tasks as runs of their own: on record before they start, and told of when they end.

A task is a run in a thread beneath its owner's. So it can be listed and cancelled from any process,
and one whose process is gone is found: it is taken up again, or reported as interrupted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import msgspec

from awaken.clock import Clock
from awaken.codec import Json, dumps_text, from_json, to_json
from awaken.contract.backend import DurableDelegates
from awaken.contract.background import (
    PersistedTaskMeta,
    TaskStatus,
    terminal_event,
)
from awaken.contract.commands import CommandKind, ThreadCommand
from awaken.contract.commits import Fence, ThreadCommit
from awaken.contract.registry import ExecutionResolver
from awaken.contract.store import Store
from awaken.domain.event import RunEvent, RunFinish, RunStart
from awaken.domain.identity import RequestOrigin
from awaken.domain.lifecycle import CANCELLED, NATURAL_END, Failed, RunStatus, TerminationReason
from awaken.domain.message import Message
from awaken.domain.run import RunOutcome, RunRecord, RunRequestSnapshot
from awaken.errors import AwakenError, NotFound, StoreError
from awaken.ext.background import (
    BackgroundTaskManager,
    BackgroundTool,
    cancel_live_task,
    drop_live_task,
    live_task_end,
)
from awaken.loop.inbox import payload_messages
from awaken.plugin.agent import ResolvedAgent
from awaken.runtime.active import ActiveRun, ActiveRuns

INTERRUPTED = "interrupted: the process ended while the task ran"
_PREFIX = "task:"
log = logging.getLogger("awaken.runtime")


def is_task(record: RunRecord) -> bool:
    return record.agent_id.startswith(_PREFIX)


class KeptTask(msgspec.Struct, frozen=True):
    """A task as its record has it, and what is needed to take it up again."""

    task: PersistedTaskMeta
    resume: Json = None

    @classmethod
    def of(cls, record: RunRecord) -> KeptTask:
        extras = record.request.request_extras if record.request is not None else None
        assert isinstance(extras, dict), "a task's record says what it is"
        task = from_json(extras["task"], PersistedTaskMeta)
        if record.status is RunStatus.DONE:
            task = msgspec.structs.replace(
                task,
                status=_status(record.termination_reason),
                completed_at_ms=(record.finished_at or 0) * 1000,
                error=_error(record.termination_reason),
                result=extras.get("result"),
            )
        return cls(task, extras.get("resume"))


class Tasks:
    """Keeps tasks in the store: a `TaskJournal`."""

    def __init__(
        self,
        store: Store,
        active: ActiveRuns,
        clock: Clock,
        deliver: Callable[[str], Awaitable[None]],
        delegates: DurableDelegates,
    ) -> None:
        self._delegates = delegates
        self._store = store
        self._active = active
        self._clock = clock
        self._deliver = deliver
        self._live: dict[str, tuple[ActiveRun, Fence, RunRecord]] = {}

    async def begin(self, task: PersistedTaskMeta, resume: Json | None) -> None:
        """Keep that a task is about to start; whoever cancels its run cancels it.

        Raises:
            StoreError: it could not be kept.
        """
        now = self._clock.now_ms()
        record = RunRecord(
            run_id=task.uid,
            thread_id=task.uid,
            agent_id=f"{_PREFIX}{task.description if task.task_type == 'tool' else task.task_type}",
            parent_run_id=task.parent_uid or task.parent_context.run_id,
            request=RunRequestSnapshot(
                origin=RequestOrigin.INTERNAL,
                request_extras={"task": to_json(task), "resume": resume},
                parent_thread_id=task.owner_thread_id or None,
            ),
            status=RunStatus.RUNNING,
            created_at=now // 1000,
            started_at=now // 1000,
            updated_at=now // 1000,
        )
        start = RunStart(thread_id=task.uid, run_id=task.uid, parent_run_id=record.parent_run_id)
        await self._own(record, start)

    async def take_over(self, record: RunRecord) -> None:
        """Own a task whose process is gone, to carry it on.

        Raises:
            ThreadOwned: somebody else does.
        """
        record = msgspec.structs.replace(record, revision=record.revision + 1, state=None)
        await self._own(record, None)

    async def _own(self, record: RunRecord, start: RunStart | None) -> None:
        slot = self._active.reserve(record.thread_id)
        try:
            self._active.name(slot, record.run_id)
            fence = await self._store.claim(record.thread_id, at_ms=self._clock.now_ms())
            try:
                await self._commit(record, fence, *((start,) if start is not None else ()))
            except BaseException:
                await self._store.release(fence)
                raise
        except BaseException:
            slot.release()
            raise
        slot.token.on_cancel(partial(cancel_live_task, record.run_id))
        slot.begin(0)
        self._live[record.run_id] = (slot, fence, record)

    async def end(self, task: PersistedTaskMeta, event: Json) -> bool:
        """Keep how a task ended and what its owner is told, both at once.

        Raises:
            StoreError: it could not be kept.
        """
        kept = self._live.get(task.uid)
        if kept is None:
            return False
        slot, fence, record = kept
        told = await self._finish(record, fence, task, event)
        self._live.pop(task.uid, None)
        slot.release()
        return told

    async def emit(self, task: PersistedTaskMeta, event: Json) -> bool:
        """Keep an event for an owner that nobody runs now; whoever runs it next reads it."""
        command = self._told(task, event, None)
        try:
            await self._store.send(command)
        except NotFound:
            return False
        await self._deliver(task.owner_thread_id)
        return True

    async def find(self, tasks: Sequence[PersistedTaskMeta]) -> Mapping[str, PersistedTaskMeta]:
        """What the store knows of tasks that do not run here."""
        known: dict[str, PersistedTaskMeta] = {}
        for task in tasks:
            record = await self._store.load_run(task.uid) if task.uid else None
            if record is not None:
                known[task.uid] = KeptTask.of(record).task
        return known

    async def close(self, *, leave: bool, grace: float) -> None:
        """End the tasks of this process, or leave them to the next one; wait, though not for ever.

        One that cannot be taken up again is ended in any case.
        """
        runners = []
        for uid, (_, _, record) in tuple(self._live.items()):
            if leave and KeptTask.of(record).resume is not None:
                runners.append(drop_live_task(uid))
            else:
                cancel_live_task(uid)
                runners.append(live_task_end(uid))
        waits = [runner for runner in runners if runner is not None]
        if waits:
            await asyncio.wait(waits, timeout=grace)
        for slot, fence, _ in tuple(self._live.values()):
            try:
                await self._store.release(fence)
            except StoreError:
                log.exception("task %s could not be given up", fence.thread_id)
            slot.release()
        self._live.clear()

    # -- after a crash ------------------------------------------------------------------------

    async def take_up(self, record: RunRecord, resolver: ExecutionResolver) -> bool:
        """Carry a task on whose process is gone, or end it as interrupted; whether it goes on.

        Raises:
            ThreadOwned: somebody else does.
        """
        kept = KeptTask.of(record)
        try:
            found = _tool_of(kept, resolver)
        except AwakenError as error:
            log.warning("task %s cannot be taken up: %s", record.run_id, error)
            found = None
        if found is None:
            await self.end_interrupted(record)
            return False
        agent, tool = found
        await self.take_over(record)
        manager = BackgroundTaskManager(journal=self)
        offered = agent.env.services.get(BackgroundTaskManager)
        if isinstance(offered, BackgroundTaskManager):
            manager = offered
            manager.set_journal(self)
        tool.take_up(manager, kept.task, kept.resume, agent, self._delegates)
        return True

    async def end_interrupted(self, record: RunRecord, *, cancelled: bool = False) -> None:
        """End a task whose process is gone, and tell its owner.

        Raises:
            ThreadOwned: somebody carries it on.
        """
        fence = await self._store.claim(record.thread_id, at_ms=self._clock.now_ms())
        try:
            now = await self._store.load_run(record.run_id)
            if now is None or now.status is RunStatus.DONE:
                await self._store.release(fence)
                return
            task = msgspec.structs.replace(
                KeptTask.of(now).task,
                status=TaskStatus.CANCELLED if cancelled else TaskStatus.FAILED,
                error=None if cancelled else INTERRUPTED,
                completed_at_ms=self._clock.now_ms(),
            )
            event = {**terminal_event(task), "interrupted": True}
            await self._finish(now, fence, task, event)
        except BaseException:
            await self._store.release(fence)
            raise

    # -- commits ------------------------------------------------------------------------------

    async def _finish(
        self, record: RunRecord, fence: Fence, task: PersistedTaskMeta, event: Json
    ) -> bool:
        now = self._clock.now_ms() // 1000
        termination = _termination(task)
        final = None if task.result is None else _text(task.result)
        payload = {"message": task.error} if task.error is not None else None
        asked, extras = record.request, {}
        if asked is not None and isinstance(asked.request_extras, dict):
            extras = {**asked.request_extras, "result": task.result}
            asked = msgspec.structs.replace(asked, request_extras=extras)
        ended = msgspec.structs.replace(
            record,
            request=asked,
            status=RunStatus.DONE,
            termination_reason=termination,
            final_output=final,
            error_payload=payload,
            outcome=RunOutcome(
                termination_reason=termination, final_output=final, error_payload=payload
            ),
            finished_at=now,
            updated_at=now,
            revision=record.revision + 1,
            state=None,
        )
        finish = RunFinish(
            thread_id=task.uid,
            run_id=task.uid,
            result={"response": final or "", "status": task.status.value},
            termination=termination,
        )
        told = bool(task.owner_thread_id) and not task.internal
        sends = (self._told(task, event, "end"),) if told else ()
        await self._commit(ended, fence, finish, sends=sends, release=True)
        if told:
            await self._deliver(task.owner_thread_id)
        return told

    def _told(self, task: PersistedTaskMeta, event: Json, name: str | None) -> ThreadCommand:
        """An event as a message to the owner."""
        (message,) = payload_messages(event)
        id = f"{task.uid}:{name}" if name is not None else message.id
        return ThreadCommand(
            thread_id=task.owner_thread_id,
            kind=CommandKind.MESSAGES,
            messages=(_with_id(message, id),),
            at_ms=self._clock.now_ms(),
        )

    async def _commit(
        self,
        record: RunRecord,
        fence: Fence,
        *events: RunStart | RunFinish,
        sends: tuple[ThreadCommand, ...] = (),
        release: bool = False,
    ) -> None:
        now = self._clock.now_ms()
        owner = record.request.parent_thread_id if record.request is not None else None
        first = record.revision == 0
        if first and owner is not None and await self._store.load_thread(owner) is None:
            owner = None
        await self._store.commit(
            ThreadCommit(
                thread_id=record.thread_id,
                expected_length=0,
                run=record,
                events=tuple(
                    RunEvent(
                        thread_id=record.thread_id,
                        run_id=record.run_id,
                        parent_run_id=record.parent_run_id,
                        at_ms=now,
                        event=event,
                    )
                    for event in events
                ),
                sends=sends,
                parent_thread_id=owner if first else None,
                at_ms=now,
                fence=fence,
                release=release,
            )
        )


def _tool_of(
    kept: KeptTask, resolver: ExecutionResolver
) -> tuple[ResolvedAgent, BackgroundTool] | None:
    """The tool that can run a task again, and its agent."""
    agent_id = kept.task.parent_context.agent_id
    if kept.resume is None or agent_id is None:
        return None
    agent: ResolvedAgent = resolver.resolve(agent_id)
    tool = agent.tools.get(kept.resume["tool"])
    return (agent, tool) if isinstance(tool, BackgroundTool) else None


def _with_id(message: Message, id: str | None) -> Message:
    return msgspec.structs.replace(message, id=id)


def _text(result: Json) -> str:
    return result if isinstance(result, str) else dumps_text(result)


def _termination(task: PersistedTaskMeta) -> TerminationReason:
    if task.status is TaskStatus.COMPLETED:
        return NATURAL_END
    return CANCELLED if task.status is TaskStatus.CANCELLED else Failed(value=task.error or "")


def _status(termination: TerminationReason | None) -> TaskStatus:
    if termination == NATURAL_END:
        return TaskStatus.COMPLETED
    return TaskStatus.CANCELLED if termination == CANCELLED else TaskStatus.FAILED


def _error(termination: TerminationReason | None) -> str | None:
    return termination.value if isinstance(termination, Failed) else None
