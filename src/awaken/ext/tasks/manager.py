"""The API of background tasks: start, find, await, cancel them, and send them messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Literal

from awaken.codec import Json
from awaken.core.aio.cancel import CancellationToken, wait_first
from awaken.core.inbox import InboxReceiver, InboxSender, inbox_channel
from awaken.core.state.store import StateStore
from awaken.core.task import (
    BackgroundTaskError,
    PersistedTaskMeta,
    TaskJournal,
    TaskMessageError,
    TaskParentContext,
    custom_event,
    find_ambient_journal,
)
from awaken.core.tool_context import CURRENT_CALL
from awaken.ext.tasks.admission import PLAIN, TaskOptions, admit
from awaken.ext.tasks.handles import TaskHandles, ThreadOwner
from awaken.ext.tasks.record_rules import family, is_child, number_of
from awaken.ext.tasks.records import SUB_AGENT, TaskRecords
from awaken.ext.tasks.runner import launch, start
from awaken.ext.tasks.state import TaskSummary
from awaken.ext.tasks.task import (
    AgentTaskBody,
    AgentTaskContext,
    TaskBody,
    TaskContext,
    TaskHandle,
    TaskResult,
)

AGENT_MESSAGE = "agent_message"


class BackgroundTaskManager:
    """The background tasks of one run, or of code that binds the manager to a store and an inbox.

    Managers with the same `handles` share their tasks: if a thread has a live run, that run's
    manager keeps the `records` of its tasks and receives their reports.

    Args:
        handles: the tasks of this process; by default the manager has its own.
        journal: makes tasks survive this process; by default the one that the host has bound.
    """

    def __init__(
        self, handles: TaskHandles | None = None, *, journal: TaskJournal | None = None
    ) -> None:
        self.handles = handles if handles is not None else TaskHandles()
        self.own_journal = journal
        self.store: StateStore | None = None
        self.inbox: InboxSender | None = None
        self.thread_id: str | None = None
        self.records = TaskRecords(self)

    # -- binding ------------------------------------------------------------------------------

    def set_store(self, store: StateStore) -> None:
        """Keep the records in this store; the plugin's keys must be registered in it."""
        self.store = store

    def set_owner_inbox(self, inbox: InboxSender | None) -> None:
        """Send the reports of tasks to this inbox."""
        self.inbox = inbox

    def set_journal(self, journal: TaskJournal | None) -> None:
        """Make the tasks that start from now on survive this process."""
        self.own_journal = journal

    @property
    def journal(self) -> TaskJournal | None:
        """The journal for tasks started in the current context."""
        return self.own_journal if self.own_journal is not None else find_ambient_journal()

    def manager_of(self, thread_id: str) -> BackgroundTaskManager:
        """The manager of the run that is live in a thread, or this one."""
        return self.handles.find_manager(thread_id) or self

    def attach(self, thread_id: str, run_id: str, token: CancellationToken | None = None) -> None:
        """Make this the manager of the run that is live in a thread, until `handles.detach`.

        When the token is cancelled, so are the run's tasks.
        """
        self.thread_id = thread_id
        self.handles.attach(ThreadOwner(thread_id, run_id, self, token))

    def adopt_running(self) -> None:
        """Take over the tasks in the store that another plugin has started in the same run."""
        for task in self.records.state_records().values():
            if not task.is_terminal:
                self.handles.adopt(task, self)

    def find_task(self, task_id: str, thread_id: str | None = None) -> PersistedTaskMeta | None:
        """The task with that id: in the given thread, else in this manager's, else the only one
        known."""
        thread_id = thread_id if thread_id is not None else self.thread_id
        if thread_id is not None:
            return self.records.tasks_of(thread_id).get(task_id)
        task = self.records.state_records().get(task_id)
        if task is not None:
            handle = self.handles.find(task)
            return handle.record if handle is not None else task
        known = [*self._running(), *(ended.record for ended in self.handles.ended.values())]
        found = [task for task in known if task.task_id == task_id]
        return found[0] if len(found) == 1 else None

    def _running(self) -> Sequence[PersistedTaskMeta]:
        return [handle.record for handle in self.handles.live.values()]

    def get(self, task_id: str) -> TaskSummary | None:
        """A summary of a task; `None` if the task is unknown."""
        task = self.find_task(task_id)
        return self.summary(task) if task is not None else None

    def list(self, owner_thread_id: str) -> Sequence[TaskSummary]:
        """Summaries of a thread's tasks, oldest first."""
        tasks = self.records.tasks_of(owner_thread_id).values()
        return [self.summary(task) for task in sorted(tasks, key=by_age)]

    def summary(self, task: PersistedTaskMeta) -> TaskSummary:
        """A summary of a task. The result of a task that ended in an earlier run may be missing;
        `wait` returns it."""
        handle = self.handles.find(task)
        return (
            handle.summary() if handle is not None else TaskSummary.of(self.records.current(task))
        )

    # -- starting -----------------------------------------------------------------------------

    def reserve_task_id(self, owner_thread_id: str) -> str:
        """Reserve an id for a task that is started later, with `TaskOptions(task_id=...)`."""
        live = (handle.record.task_id for handle in self.handles.of_thread(owner_thread_id))
        taken = {*self.manager_of(owner_thread_id).records.state_records(), *live}
        return self.handles.reserve(owner_thread_id, taken)

    async def spawn(
        self,
        owner_thread_id: str,
        task_type: str,
        name: str | None,
        description: str,
        parent: TaskParentContext,
        body: TaskBody,
        options: TaskOptions = PLAIN,
    ) -> str:
        """Start a task and return its id.

        Missing fields of `parent` are filled in from the task and the tool call that the caller
        runs in.

        Raises:
            BackgroundTaskError: the name is taken or reserved, the run was cancelled, there is no
                store, or a limit is reached. No task was started.
            StateError: the store refused the record. No task was started.
        """
        await self._learn_ids(owner_thread_id, parent)
        handle = admit(self, owner_thread_id, task_type, name, description, parent, options)
        if options.inbox:
            handle.inbox, handle.inbox_receiver = inbox_channel()
        return await launch(handle, lambda: body(TaskContext(handle)), options)

    async def spawn_agent_with_context(
        self,
        owner_thread_id: str,
        name: str | None,
        description: str,
        parent: TaskParentContext,
        body: AgentTaskBody,
        options: TaskOptions = PLAIN,
    ) -> str:
        """The same for a body that runs an agent; the task has an inbox and can receive
        messages."""
        await self._learn_ids(owner_thread_id, parent)
        handle = admit(self, owner_thread_id, SUB_AGENT, name, description, parent, options)
        sender, receiver = inbox_channel()
        handle.inbox, handle.inbox_receiver = sender, receiver
        context = AgentTaskContext(handle, sender, receiver)
        return await launch(handle, lambda: body(context), options)

    async def spawn_agent(
        self,
        owner_thread_id: str,
        name: str | None,
        description: str,
        parent: TaskParentContext,
        body: Callable[[CancellationToken, InboxSender, InboxReceiver], Awaitable[TaskResult]],
        options: TaskOptions = PLAIN,
    ) -> str:
        """The same for a body that takes its token and both ends of its inbox."""

        def with_context(ctx: AgentTaskContext) -> Awaitable[TaskResult]:
            return body(ctx.cancel_token, ctx.inbox_sender, ctx.inbox_receiver)

        return await self.spawn_agent_with_context(
            owner_thread_id, name, description, parent, with_context, options
        )

    async def _learn_ids(self, thread_id: str, parent: TaskParentContext) -> None:
        """Read which ids are taken before the first is reserved: a run that was cut short may have
        started tasks that are not in its state."""
        call, journal = CURRENT_CALL.get(), self.manager_of(thread_id).journal
        run_id = parent.run_id or (call.run_identity.run_id if call is not None else None)
        if journal is not None and run_id is not None and not self.handles.has_reserved(thread_id):
            started = await journal.list_started(run_id)
            mine = [task.task_id for task in started if task.owner_thread_id == thread_id]
            self.handles.skip(thread_id, mine)

    def resume_task(
        self,
        task: PersistedTaskMeta,
        body: TaskBody,
        *,
        deadline: float | None = None,
        inbox: bool = False,
    ) -> str:
        """Resume a task that another process started, under its old ids.

        Raises:
            BackgroundTaskError: the task has ended.
        """
        if task.is_terminal:
            raise BackgroundTaskError(f"task '{task.task_id}' is {task.status.value} already")
        if self.handles.find(task) is not None:
            return task.task_id
        owner_manager = self.manager_of(task.owner_thread_id)
        handle = TaskHandle(task, owner_manager)
        # Not the live run's journal: that may be bound only in the context of its run.
        handle.journal = self.journal
        handle.owner_inbox, handle.begun = owner_manager.inbox, handle.journal is not None
        if inbox:
            handle.inbox, handle.inbox_receiver = inbox_channel()
        owner_manager.records.save(task)
        self.handles.add(handle)
        start(handle, lambda: body(TaskContext(handle)), deadline)
        return task.task_id

    # -- waiting ------------------------------------------------------------------------------

    async def wait(
        self,
        task_ids: Iterable[str],
        mode: Literal["any", "all"] = "all",
        timeout: float | None = None,
    ) -> Sequence[TaskSummary]:
        """Wait until all of the tasks, or any, have ended or `timeout` seconds have passed. Returns
        their summaries.

        A task that runs in another process is not waited for.

        Raises:
            BackgroundTaskError: there is no task with that id.
        """
        tasks = [self._get_task(task_id) for task_id in task_ids]
        await self.wait_for(tasks, mode, timeout)
        return [self.summary(task) for task in await self.records.load_latest(tasks)]

    def _get_task(self, task_id: str) -> PersistedTaskMeta:
        task = self.find_task(task_id)
        if task is None:
            raise BackgroundTaskError(f"task '{task_id}' not found")
        return task

    async def wait_for(
        self, tasks: Sequence[PersistedTaskMeta], mode: Literal["any", "all"], timeout: float | None
    ) -> None:
        """Wait until all of the tasks, or any, have ended or `timeout` seconds have passed."""
        ends = [h.done for task in tasks if (h := self.handles.find(task)) is not None]
        if not ends or (
            mode == "any" and any(self.records.current(task).is_terminal for task in tasks)
        ):
            return
        limit = () if timeout is None else (self.handles.clock.sleep(timeout),)
        waits = [_wait_all([end]) for end in ends] if mode == "any" else [_wait_all(ends)]
        await wait_first(*waits, *limit)

    # -- cancelling ---------------------------------------------------------------------------

    def cancel(self, task_id: str) -> bool:
        """Cancel a task. Returns `False` if it is unknown or has ended."""
        task = self.find_task(task_id)
        return task is not None and self.handles.signal([task]) == 1

    def cancel_tree(self, task_id: str) -> int:
        """Cancel a task and its descendants. Returns how many were cancelled."""
        task = self.find_task(task_id)
        return self.cancel_family(task) if task is not None else 0

    def cancel_family(self, task: PersistedTaskMeta) -> int:
        """The same for a task whose record the caller has."""
        ended = (ended.record for ended in self.handles.ended.values())
        known = {task.uid: task for task in ended}
        known |= {
            t.uid: t for t in self.manager_of(task.owner_thread_id).records.state_records().values()
        }
        known |= {task.uid: task for task in self._running()}
        return self.handles.signal(family(task, known.values()))

    def cancel_all(self, owner_thread_id: str) -> int:
        """Cancel all tasks of a thread. Returns how many were cancelled."""
        return self.handles.signal(h.record for h in self.handles.of_thread(owner_thread_id))

    def cancel_descendants_for_run(self, run_id: str) -> int:
        """Cancel all tasks of a run, and let it start no more. Returns how many were cancelled."""
        run_id = run_id.strip()
        if not run_id:
            return 0
        self.handles.cancelled_runs.put(run_id, None)
        return sum(self.cancel_family(task) for task in self.roots_of(run_id))

    def roots_of(self, run_id: str) -> Sequence[PersistedTaskMeta]:
        """The running tasks that a run started directly."""
        return [
            task
            for task in self._running()
            if task.parent_context.run_id == run_id
            and task.parent_context.task_id is None
            and not task.is_terminal
        ]

    def children_of(self, task: PersistedTaskMeta) -> Sequence[PersistedTaskMeta]:
        """The running tasks that a task started directly."""
        return [t for t in self._running() if is_child(t, task) and not t.is_terminal]

    # -- writing to tasks ---------------------------------------------------------------------

    def has_inbox(self, task: PersistedTaskMeta) -> bool:
        """Whether a task runs here and can receive messages."""
        handle = self.handles.find(task)
        return handle is not None and handle.inbox is not None and not handle.inbox.is_closed

    def send_task_inbox_message(
        self, task_id: str, owner_thread_id: str, sender: str, text: str
    ) -> None:
        """Send a message to a task that runs an agent in this process.

        Raises:
            TaskMessageError: the task is unknown, belongs to another thread, is over, or has no
            inbox.
        """
        self._put(
            self._open_task(task_id, owner_thread_id), _build_message_event(task_id, sender, text)
        )

    async def write_to_task(
        self, task_id: str, owner_thread_id: str, sender: str, text: str, *, message_id: str
    ) -> None:
        """The same. If the task's journal keeps messages, a process that resumes the task reads
        this one, too, and a message that is sent twice under one id is read once.

        Raises:
            TaskMessageError: see `send_task_inbox_message`.
            StoreError: the journal did not take it.
        """
        task, event = (
            self._open_task(task_id, owner_thread_id),
            _build_message_event(task_id, sender, text),
        )
        handle = self.handles.find(task)
        journal = handle.journal if handle is not None else self.journal
        if journal is None or not await journal.write(task, message_id, event):
            self._put(task, event)

    def _open_task(self, task_id: str, owner_thread_id: str) -> PersistedTaskMeta:
        task = self.find_task(task_id, owner_thread_id) or self.find_task(task_id)
        if task is None:
            raise TaskMessageError("task not found")
        if task.owner_thread_id != owner_thread_id:
            raise TaskMessageError("caller does not own this task")
        if task.is_terminal:
            raise TaskMessageError(f"task already {task.status.value}")
        return task

    def _put(self, task: PersistedTaskMeta, event: Json) -> None:
        handle = self.handles.find(task)
        if handle is None or handle.inbox is None:
            raise TaskMessageError("task has no inbox")
        if not handle.inbox.send(event):
            raise TaskMessageError("sub-agent inbox closed")

    # -- restarts -----------------------------------------------------------------------------

    async def restore_for_thread(
        self, thread_id: str, tasks: Mapping[str, PersistedTaskMeta]
    ) -> None:
        """Bring a thread's persisted records up to date; see `TaskRecords.restore`."""
        await self.records.restore(thread_id, tasks)


def _build_message_event(task_id: str, sender: str, text: str) -> Json:
    return custom_event(task_id, AGENT_MESSAGE, {"from": sender, "content": text})


def by_age(task: PersistedTaskMeta) -> tuple[int, int]:
    return task.created_at_ms, number_of(task.task_id) or 0


async def _wait_all(ends: Iterable[asyncio.Event]) -> None:
    for end in ends:
        await end.wait()
