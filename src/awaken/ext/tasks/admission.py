"""The checks before a task starts, and finding the parent of a new task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from awaken.codec import Json, clean_text
from awaken.core.state.command import MutationBatch
from awaken.core.storable import parse_argument
from awaken.core.task import (
    BackgroundTaskError,
    PersistedTaskMeta,
    TaskParentContext,
    TaskStatus,
)
from awaken.core.thread_ids import task_uid
from awaken.core.tool import ToolEffect
from awaken.core.tool_context import CURRENT_CALL, ToolCallContext
from awaken.ext.tasks.handles import TaskHandles
from awaken.ext.tasks.record_rules import RESERVED_NAMES
from awaken.ext.tasks.state import BACKGROUND_TASK_STATE, UpsertTask
from awaken.ext.tasks.task import (
    ALIVE,
    BackgroundTaskExecutionContext,
    TaskHandle,
    current_background_task_context,
)

if TYPE_CHECKING:
    from awaken.ext.tasks.manager import BackgroundTaskManager


class TaskOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Further options of a task.

    `deadline` is in seconds. `task_id` is a reserved id; `uid` is globally unique, such as a call's
    idempotency key. `resume` is the data that another process needs to resume the task. The end of
    an `internal` task is not reported to its owner, and no run waits for it. A task with an `inbox`
    can receive messages. `effect` and `stoppable` decide what is reported if the task is cut short:
    whether it may have taken effect, and whether its work has stopped.
    """

    deadline: float | None = None
    task_id: str | None = None
    uid: str | None = None
    resume: Json | None = None
    internal: bool = False
    inbox: bool = False
    effect: ToolEffect | None = None
    stoppable: bool = True


PLAIN = TaskOptions()


def fill_parent(
    parent: TaskParentContext,
    task: BackgroundTaskExecutionContext | None,
    call: ToolCallContext | None,
) -> TaskParentContext:
    """The given parent, with missing fields filled in from the task and call that the caller runs
    in."""
    task_id, run_id = parent.task_id, parent.run_id
    call_id, agent_id = parent.call_id, parent.agent_id
    if task_id is None and task is not None:
        task_id, run_id = task.task_id, run_id or task.run_id
    if call is not None:
        run_id = run_id or call.run_identity.run_id
        call_id = call_id or call.call_id or None
        agent_id = agent_id or call.run_identity.agent_id or None
    return TaskParentContext(task_id=task_id, run_id=run_id, call_id=call_id, agent_id=agent_id)


class Origin(msgspec.Struct, frozen=True):
    """The parent of a new task as it is recorded, and the `uid` of its parent task if known."""

    parent: TaskParentContext
    parent_uid: str | None


def find_origin(
    parent: TaskParentContext, thread_id: str, tasks: Mapping[str, PersistedTaskMeta]
) -> Origin:
    """The origin of a new task, from the given parent and the task and call that the caller runs
    in."""
    ambient = current_background_task_context()
    full = fill_parent(parent, ambient, CURRENT_CALL.get())
    if full.task_id is None:
        return Origin(full, None)
    if ambient is not None and ambient.task_id == full.task_id:
        # Threads may use the same task ids: a given id means a task of the given thread.
        if parent.task_id is None or ambient.record.owner_thread_id == thread_id:
            return Origin(full, ambient.record.uid)
        if full.task_id not in tasks:
            return Origin(full, ambient.record.uid)
    known = tasks.get(full.task_id)
    return Origin(full, known.uid if known is not None else None)


def check_name(name: str | None, tasks: Iterable[PersistedTaskMeta]) -> None:
    """
    Raises:
        BackgroundTaskError: the name is reserved, or a running task has it.
    """
    if name is None:
        return
    if name in RESERVED_NAMES:
        raise BackgroundTaskError(f"'{name}' is a reserved name")
    if any(task.name == name and not task.is_terminal for task in tasks):
        raise BackgroundTaskError(f"a running task named '{name}' already exists")


def check_run(run_id: str | None, handles: TaskHandles) -> None:
    """
    Raises:
        BackgroundTaskError: the run that the task belongs to was cancelled.
    """
    known = (run_id or "").strip()
    if known and known in handles.cancelled_runs:
        raise BackgroundTaskError(f"parent run '{known}' has already been cancelled")


def depth_below(parent_uid: str | None, handles: TaskHandles) -> int:
    """The number of ancestors of a new task.

    Raises:
        BackgroundTaskError: there are too many.
    """
    parent = ALIVE.get(parent_uid) if parent_uid is not None else None
    depth = parent.depth + 1 if parent is not None else 0
    if depth >= handles.limits.depth:
        raise BackgroundTaskError(
            f"tasks start tasks at most {handles.limits.depth} levels deep: do this one's work "
            "where you are"
        )
    return depth


def check_queue(thread_id: str, depth: int, handles: TaskHandles) -> None:
    """
    Raises:
        BackgroundTaskError: no slot is free, and too many tasks wait for one.
    """
    if handles.slots.waiting >= handles.limits.queue and not handles.slots.has_free_slot(
        thread_id, depth
    ):
        raise BackgroundTaskError(
            f"{handles.slots.waiting} tasks are waiting to run already: wait until some have "
            "ended, or cancel them"
        )


def admit(
    manager: BackgroundTaskManager,
    thread_id: str,
    task_type: str,
    name: str | None,
    description: str,
    parent: TaskParentContext,
    options: TaskOptions,
) -> TaskHandle:
    """Check that a task may start, and register it. Returns its handle.

    Raises:
        BackgroundTaskError: the task may not start.
        ConfigError: an argument has a wrong type.
        StateError: the owner's state refuses the record.
    """
    ambient = current_background_task_context()
    if ambient is not None and thread_id == ambient.record.uid:
        # No run reads a task's own thread, so tasks that a task starts belong to the same owner.
        thread_id = ambient.record.owner_thread_id
    handles, owner_manager, tasks = (
        manager.handles,
        manager.manager_of(thread_id),
        manager.records.tasks_of(thread_id),
    )
    origin = find_origin(parent, thread_id, tasks)
    check_name(name, tasks.values())
    check_run(origin.parent.run_id, handles)
    if owner_manager.store is None:
        raise BackgroundTaskError("background task state store is not configured")
    depth = depth_below(origin.parent_uid, handles)
    check_queue(thread_id, depth, handles)
    if options.task_id in tasks or options.uid in ALIVE:
        taken = options.task_id if options.task_id in tasks else options.uid
        raise BackgroundTaskError(f"task '{taken}' has been started already")
    task = PersistedTaskMeta(
        task_id=options.task_id or manager.reserve_task_id(thread_id),
        owner_thread_id=thread_id,
        task_type=task_type,
        name=name,
        description=clean_text(parse_argument("description", description, str)),
        status=TaskStatus.RUNNING,
        created_at_ms=handles.clock.now_ms(),
        parent_context=origin.parent,
        uid=options.uid or task_uid(thread_id, handles.ids.new()),
        parent_uid=origin.parent_uid,
        internal=options.internal,
        effect=options.effect,
        stoppable=options.stoppable,
    )
    parse_argument("", task, PersistedTaskMeta)  # the state is not read back
    owner_manager.store.check(MutationBatch().update(BACKGROUND_TASK_STATE, UpsertTask(task=task)))
    handle = TaskHandle(task, owner_manager)
    handle.owner_inbox, handle.depth = owner_manager.inbox, depth
    handles.add(handle)
    return handle
