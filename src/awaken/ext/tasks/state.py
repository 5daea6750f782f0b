"""The state that a thread keeps about its tasks and undelivered messages."""

from __future__ import annotations

import msgspec

from awaken.codec import Json
from awaken.core.state.key import BuiltInKey, Merge, Scope, StateKey
from awaken.core.store.commands import OUTBOX_KEY
from awaken.core.task import (
    DurableMessageRequest,
    PersistedTaskMeta,
    TaskParentContext,
    TaskStatus,
)
from awaken.core.value import Value

BACKGROUND_PLUGIN_ID = "background_tasks"
"""The id of the plugin that keeps this state."""

# -- tasks ------------------------------------------------------------------------------------


def _no_tasks() -> dict[str, PersistedTaskMeta]:
    return {}


class BackgroundTaskState(Value, frozen=True, kw_only=True):
    """A thread's tasks, by id."""

    tasks: dict[str, PersistedTaskMeta] = msgspec.field(default_factory=_no_tasks)


class UpsertTask(Value, frozen=True, kw_only=True):
    """Add or replace one task."""

    task: PersistedTaskMeta


class ReplaceTasks(Value, frozen=True, kw_only=True):
    """Replace all tasks by these."""

    tasks: dict[str, PersistedTaskMeta]


def _tasks(state: BackgroundTaskState, update: UpsertTask | ReplaceTasks) -> BackgroundTaskState:
    if isinstance(update, ReplaceTasks):
        return BackgroundTaskState(tasks=update.tasks)
    return BackgroundTaskState(tasks={**state.tasks, update.task.task_id: update.task})


BACKGROUND_TASK_STATE: StateKey[BackgroundTaskState, UpsertTask | ReplaceTasks] = BuiltInKey(
    "background_task_state",
    initial=BackgroundTaskState,
    apply=_tasks,
    scope=Scope.THREAD,
)


class TaskProgress(Value, frozen=True, kw_only=True):
    """A task's progress: a fraction from 0 to 1 and a message."""

    message: str | None = None
    fraction: float | None = None


class TaskSummary(Value, frozen=True, kw_only=True):
    """A task as others see it; a `queued` task has not begun."""

    task_id: str
    task_type: str
    description: str
    status: TaskStatus
    error: str | None = None
    result: Json = None
    created_at_ms: int
    completed_at_ms: int | None = None
    parent_context: TaskParentContext | None = None
    uid: str = ""
    queued: bool = False
    progress: TaskProgress | None = None
    outcome_unknown: bool = False

    @classmethod
    def of(
        cls,
        task: PersistedTaskMeta,
        *,
        queued: bool = False,
        progress: TaskProgress | None = None,
    ) -> TaskSummary:
        return cls(
            task_id=task.task_id,
            task_type=task.task_type,
            description=task.description,
            status=task.status,
            error=task.error,
            result=task.result,
            created_at_ms=task.created_at_ms,
            completed_at_ms=task.completed_at_ms,
            parent_context=None if task.parent_context.is_empty else task.parent_context,
            uid=task.uid,
            queued=queued,
            progress=progress,
            outcome_unknown=task.outcome_unknown,
        )


class BackgroundTaskView(Value, frozen=True, kw_only=True):
    """The tasks that were running when the last step ended."""

    tasks: tuple[TaskSummary, ...] = ()


BACKGROUND_TASKS: StateKey[BackgroundTaskView, BackgroundTaskView] = BuiltInKey(
    "background_tasks", initial=BackgroundTaskView
)


# -- messages ---------------------------------------------------------------------------------


class LiveInboxRoute(Value, frozen=True, kw_only=True, tag="live_inbox", tag_field="type"):
    """To a task of the same thread."""

    task_id: str
    owner_thread_id: str
    sender_agent_id: str
    message: str


class DurableRoute(Value, frozen=True, kw_only=True, tag="durable", tag_field="type"):
    """To another thread."""

    request: DurableMessageRequest


class OutboxEntry(Value, frozen=True, kw_only=True):
    """An undelivered message, and the number of failed attempts."""

    id: str
    route: LiveInboxRoute | DurableRoute
    attempts: int = msgspec.field(default_factory=int)


class Outbox(Value, frozen=True, kw_only=True):
    """Undelivered messages, in the order in which they were written."""

    pending: tuple[OutboxEntry, ...] = msgspec.field(default_factory=lambda: ())

    def find(self, id: str) -> OutboxEntry | None:
        return next((entry for entry in self.pending if entry.id == id), None)


class Enqueue(Value, frozen=True, kw_only=True):
    """Add a message, or replace it."""

    entry: OutboxEntry


class RemoveMessage(Value, frozen=True, kw_only=True):
    """Remove a message that was delivered or given up."""

    id: str


def _outbox(outbox: Outbox, update: Enqueue | RemoveMessage) -> Outbox:
    gone = update.id if isinstance(update, RemoveMessage) else update.entry.id
    pending = [entry for entry in outbox.pending if entry.id != gone]
    if isinstance(update, Enqueue):
        pending.append(update.entry)
        # Ids sort by the time they were made, so the order of the writers does not matter.
        pending.sort(key=lambda entry: entry.id)
    return Outbox(pending=tuple(pending))


OUTBOX: StateKey[Outbox, Enqueue | RemoveMessage] = StateKey(
    OUTBOX_KEY,
    initial=Outbox,
    apply=_outbox,
    merge=Merge.COMMUTATIVE,
    scope=Scope.THREAD,
)


class FailedMessage(Value, frozen=True, kw_only=True):
    """A message that could not be delivered, and why."""

    request: DurableMessageRequest
    error: str


class FailedMessages(Value, frozen=True, kw_only=True):
    """Messages that could not be delivered, oldest first."""

    messages: tuple[FailedMessage, ...] = msgspec.field(default_factory=lambda: ())


class AddFailedMessage(Value, frozen=True, kw_only=True):
    """Add a message that could not be delivered."""

    message: FailedMessage


class ClearFailedMessages(Value, frozen=True, kw_only=True):
    """Remove all messages that could not be delivered."""


def _apply_failed(
    failed: FailedMessages, update: AddFailedMessage | ClearFailedMessages
) -> FailedMessages:
    if isinstance(update, ClearFailedMessages):
        return FailedMessages()
    id = update.message.request.message_id
    others = [message for message in failed.messages if message.request.message_id != id]
    return FailedMessages(messages=(*others, update.message)[-MAX_FAILED_MESSAGES:])


MAX_FAILED_MESSAGES = 1000

FAILED_MESSAGES: StateKey[FailedMessages, AddFailedMessage | ClearFailedMessages] = StateKey(
    "background_failed_durable_messages",
    initial=FailedMessages,
    apply=_apply_failed,
    scope=Scope.THREAD,
)
