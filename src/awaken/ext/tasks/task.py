"""A running task: its handle, the context its body gets, and how code finds the task it runs in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self
from weakref import WeakValueDictionary

import msgspec

from awaken.clock import Clock
from awaken.codec import Json, clean_text, to_json
from awaken.core.aio.cancel import CancellationToken
from awaken.core.identity import RunIdentity
from awaken.core.inbox import InboxReceiver, InboxSender
from awaken.core.registry import ExecutionResolver
from awaken.core.task import (
    CURRENT_TASK,
    PersistedTaskMeta,
    TaskJournal,
    TaskStatus,
    custom_event,
)
from awaken.core.value import Value
from awaken.ext.tasks import lazy_tasks as background
from awaken.ext.tasks.state import TaskProgress, TaskSummary
from awaken.ids import Ids

if TYPE_CHECKING:
    from awaken.ext.tasks.handles import TaskHandles
    from awaken.ext.tasks.manager import BackgroundTaskManager


class TaskResult(Value, frozen=True, kw_only=True):
    """The result of a body; `cut_short` if the body was stopped before its end."""

    status: TaskStatus
    value: Json = None
    error: str | None = None
    cut_short: bool = False

    @classmethod
    def success(cls, value: Json = None) -> Self:
        return cls(status=TaskStatus.COMPLETED, value=value)

    @classmethod
    def failed(cls, error: str, *, cut_short: bool = False) -> Self:
        return cls(status=TaskStatus.FAILED, error=clean_text(error), cut_short=cut_short)

    @classmethod
    def cancelled(cls) -> Self:
        return cls(status=TaskStatus.CANCELLED)


class TaskHandle:
    """A task that runs in this process.

    `runner` is done once the task has ended and its end is recorded.
    """

    __slots__ = (
        "__weakref__",
        "_waiting_callback",
        "begun",
        "depth",
        "done",
        "ending",
        "inbox",
        "inbox_receiver",
        "journal",
        "manager",
        "owner_inbox",
        "progress",
        "queued",
        "record",
        "runner",
        "token",
    )

    def __init__(self, record: PersistedTaskMeta, manager: BackgroundTaskManager) -> None:
        self.record = record
        self.manager = manager
        self.journal: TaskJournal | None = manager.journal
        self.owner_inbox: InboxSender | None = None
        self.inbox: InboxSender | None = None
        self.inbox_receiver: InboxReceiver | None = None
        self.token = CancellationToken()
        self.depth = 0
        self.queued = False
        self.begun = False
        self.ending = False
        self.progress: TaskProgress | None = None
        self._waiting_callback: Callable[[bool], None] | None = None
        self.done = asyncio.Event()
        self.runner: asyncio.Future[None] | None = None

    @property
    def thread_id(self) -> str:
        return self.record.owner_thread_id

    @property
    def handles(self) -> TaskHandles:
        return self.manager.handles

    @property
    def owner_manager(self) -> BackgroundTaskManager:
        """The manager that keeps the task's record: the manager of the owner's live run, else the
        one that started the task."""
        return self.handles.find_manager(self.thread_id) or self.manager

    def set_waiting_callback(self, callback: Callable[[bool], None]) -> None:
        """Call `callback` with `True` when the task starts to do nothing but wait, and with `False`
        when it goes on."""
        self._waiting_callback = callback

    def report_waiting(self, waiting: bool) -> None:
        if self._waiting_callback is not None:
            self._waiting_callback(waiting)

    def stop(self) -> None:
        """Cancel the task and its descendants."""
        self.manager.cancel_family(self.record)

    def leave(self) -> None:
        """Stop running the task here without ending it, for the process that resumes it."""
        if self.runner is not None:
            self.runner.cancel()

    def summary(self) -> TaskSummary:
        return TaskSummary.of(self.record, queued=self.queued, progress=self.progress)

    async def emit(self, event: Json) -> bool:
        """Send an event to the owner: to its inbox, through the journal, or to a closed inbox that
        hands over. Returns `False` if none of them took it."""
        inbox = self.handles.inbox_of(self)
        if inbox is not None and inbox.try_send(event):
            return True
        if self.journal is not None and self.begun and await self.journal.emit(self.record, event):
            return True
        return inbox is not None and inbox.send(event)

    def take_inbox(self) -> tuple[InboxSender, InboxReceiver] | None:
        """The task's own inbox, for the first caller only: two readers would take each other's
        messages."""
        receiver, self.inbox_receiver = self.inbox_receiver, None
        if self.inbox is None or receiver is None:
            return None
        return self.inbox, receiver


ALIVE: WeakValueDictionary[str, TaskHandle] = WeakValueDictionary()
"""Every task that runs in this process, by `uid`: a plugin may need a task of another plugin."""


def find_live_task(uid: str) -> TaskHandle | None:
    """The handle of a task, if it runs in this process."""
    return ALIVE.get(uid)


def cancel_tasks_of(thread_id: str) -> int:
    """Cancel all tasks that a thread owns in this process. Returns how many were cancelled."""
    running = [h for h in tuple(ALIVE.values()) if h.thread_id == thread_id]
    for handle in running:
        handle.token.cancel()
    return len(running)


# -- what a body sees -------------------------------------------------------------------------


class TaskContext:
    """The context that a body gets."""

    __slots__ = ("_handle",)

    def __init__(self, handle: TaskHandle) -> None:
        self._handle = handle

    @property
    def task_id(self) -> str:
        return self._handle.record.task_id

    @property
    def uid(self) -> str:
        return self._handle.record.uid

    @property
    def cancel_token(self) -> CancellationToken:
        return self._handle.token

    def identity_within(self, run: RunIdentity) -> RunIdentity:
        """The identity for runs this task starts: the task's own if it has a record, else its
        run's."""
        if not self._handle.begun:
            return run
        return msgspec.structs.replace(
            run,
            thread_id=self.uid,
            run_id=self.uid,
            parent_run_id=run.run_id,
            parent_thread_id=run.thread_id,
        )

    def take_inbox(self) -> InboxReceiver | None:
        """The inbox of the task, for the first caller only; `None` if it has none or it is
        taken."""
        own = self._handle.take_inbox()
        return own[1] if own is not None else None

    def is_cancelled(self) -> bool:
        return self._handle.token.is_cancelled()

    async def cancelled(self) -> None:
        """Wait until the task is cancelled."""
        await self._handle.token.cancelled()

    async def emit(self, event_type: str, payload: Json) -> bool:
        """Send an event that the owner's model reads. Returns `False` if it could not be sent."""
        event = custom_event(self.task_id, event_type, to_json(payload))
        return await self._handle.emit(event)

    def report(self, message: str | None = None, fraction: float | None = None) -> None:
        """Set the progress of the task, with a fraction from 0 to 1, for clients that ask for
        it."""
        if fraction is not None:
            fraction = float(min(1.0, max(0.0, fraction)))
        text = None if message is None else clean_text(message)
        self._handle.progress = TaskProgress(message=text, fraction=fraction)

    @contextmanager
    def waiting(self, message: str) -> Iterator[None]:
        """Mark the task as waiting for something that another process could wait for as well. If
        this process closes meanwhile, the task is left to another process."""
        self.report(message)
        self._handle.report_waiting(True)
        try:
            yield
        finally:
            self._handle.report_waiting(False)


class AgentTaskContext(TaskContext):
    """The same for a task that runs an agent and can receive messages."""

    __slots__ = ("inbox_receiver", "inbox_sender")

    def __init__(
        self, handle: TaskHandle, inbox_sender: InboxSender, inbox_receiver: InboxReceiver
    ) -> None:
        super().__init__(handle)
        self.inbox_sender = inbox_sender
        self.inbox_receiver = inbox_receiver


TaskBody = Callable[[TaskContext], Awaitable[TaskResult]]
AgentTaskBody = Callable[[AgentTaskContext], Awaitable[TaskResult]]


# -- where code runs --------------------------------------------------------------------------


class BackgroundTaskExecutionContext:
    """The task that the running code belongs to. `run_id` is the run that started the task."""

    __slots__ = ("_handle", "manager", "run_id", "task_id")

    def __init__(self, handle: TaskHandle) -> None:
        self._handle = handle
        self.manager = handle.manager
        self.task_id = handle.record.task_id
        self.run_id = handle.record.parent_context.run_id

    @property
    def record(self) -> PersistedTaskMeta:
        return self._handle.record

    def take_inbox(self) -> tuple[InboxSender, InboxReceiver] | None:
        """The task's inbox, for the one run in the task that reads it."""
        return self._handle.take_inbox()

    def wrap_resolver(
        self, resolver: ExecutionResolver, *, clock: Clock, ids: Ids
    ) -> ExecutionResolver:
        """A resolver for runs in this task: its agents have a tool that cancels the task."""
        return background.BackgroundControlResolver(resolver, self, clock=clock, ids=ids)


def current_background_task_context() -> BackgroundTaskExecutionContext | None:
    """The task that the running code belongs to, or `None`."""
    context = CURRENT_TASK.get()
    return context if isinstance(context, BackgroundTaskExecutionContext) else None


def current_background_task_id() -> str | None:
    """The id of the task that the running code belongs to, or `None`."""
    context = current_background_task_context()
    return context.task_id if context is not None else None


def describe(error: BaseException) -> str:
    """An exception in one line."""
    try:
        text = str(error)
    except BaseException:
        text = "(its text cannot be read)"
    name = type(error).__name__
    return f"{name}: {text}" if text else name
