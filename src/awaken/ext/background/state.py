"""What a thread keeps of its tasks and of messages on their way."""

from __future__ import annotations

import msgspec

from awaken.codec import Json
from awaken.contract.background import (
    DurableMessageRequest,
    PersistedTaskMeta,
    TaskParentContext,
    TaskStatus,
)
from awaken.contract.commands import OUTBOX_KEY
from awaken.domain.value import Value
from awaken.state.key import Merge, Scope, StateKey

BACKGROUND_PLUGIN_ID = "background_tasks"
"""The plugin that keeps it."""

# -- tasks ------------------------------------------------------------------------------------


def _no_tasks() -> dict[str, PersistedTaskMeta]:
    return {}


class BackgroundTaskState(Value, frozen=True, kw_only=True):
    """A thread's tasks, by id."""

    tasks: dict[str, PersistedTaskMeta] = msgspec.field(default_factory=_no_tasks)


class UpsertTask(Value, frozen=True, kw_only=True):
    """Put one task."""

    task: PersistedTaskMeta


class ReplaceTasks(Value, frozen=True, kw_only=True):
    """Put these tasks in place of all others."""

    tasks: dict[str, PersistedTaskMeta]


def _tasks(state: BackgroundTaskState, update: UpsertTask | ReplaceTasks) -> BackgroundTaskState:
    if isinstance(update, ReplaceTasks):
        return BackgroundTaskState(tasks=update.tasks)
    return BackgroundTaskState(tasks={**state.tasks, update.task.task_id: update.task})


BACKGROUND_TASK_STATE: StateKey[BackgroundTaskState, UpsertTask | ReplaceTasks] = StateKey(
    "background_task_state",
    initial=BackgroundTaskState,
    apply=_tasks,
    scope=Scope.THREAD,
)


class TaskProgress(Value, frozen=True, kw_only=True):
    """How far a task is, from 0 to 1, in its own words."""

    message: str | None = None
    fraction: float | None = None


class TaskSummary(Value, frozen=True, kw_only=True):
    """A task as others see it; a `queued` one has not begun."""

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
    """What was under way when the last step ended."""

    tasks: tuple[TaskSummary, ...] = ()


BACKGROUND_TASKS: StateKey[BackgroundTaskView, BackgroundTaskView] = StateKey(
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
    """A message on its way, and how often it could not be delivered."""

    id: str
    route: LiveInboxRoute | DurableRoute
    attempts: int = msgspec.field(default_factory=int)


class Outbox(Value, frozen=True, kw_only=True):
    """Messages on their way, in the order they were written."""

    pending: tuple[OutboxEntry, ...] = msgspec.field(default_factory=lambda: ())

    def find(self, id: str) -> OutboxEntry | None:
        return next((entry for entry in self.pending if entry.id == id), None)


class Enqueue(Value, frozen=True, kw_only=True):
    """Send a message, or send it again."""

    entry: OutboxEntry


class RemoveMessage(Value, frozen=True, kw_only=True):
    """A message is on its way no more."""

    id: str


def _outbox(outbox: Outbox, update: Enqueue | RemoveMessage) -> Outbox:
    gone = update.id if isinstance(update, RemoveMessage) else update.entry.id
    pending = [entry for entry in outbox.pending if entry.id != gone]
    if isinstance(update, Enqueue):
        pending.append(update.entry)
        # Ids are sorted by the time they were made, so writers may come in any order.
        pending.sort(key=lambda entry: entry.id)
    return Outbox(pending=tuple(pending))


OUTBOX: StateKey[Outbox, Enqueue | RemoveMessage] = StateKey(
    OUTBOX_KEY,
    initial=Outbox,
    apply=_outbox,
    merge=Merge.COMMUTATIVE,
    scope=Scope.THREAD,
)


class DeadLetter(Value, frozen=True, kw_only=True):
    """A message nobody could be given, and why."""

    request: DurableMessageRequest
    error: str


class DeadLetters(Value, frozen=True, kw_only=True):
    """Messages that were given up, the oldest first."""

    messages: tuple[DeadLetter, ...] = msgspec.field(default_factory=lambda: ())


class PushDead(Value, frozen=True, kw_only=True):
    """Give a message up."""

    letter: DeadLetter


class ClearDead(Value, frozen=True, kw_only=True):
    """Forget all of them."""


def _dead(letters: DeadLetters, update: PushDead | ClearDead) -> DeadLetters:
    if isinstance(update, ClearDead):
        return DeadLetters()
    id = update.letter.request.message_id
    others = [letter for letter in letters.messages if letter.request.message_id != id]
    return DeadLetters(messages=(*others, update.letter)[-DEAD_LETTERS_KEPT:])


DEAD_LETTERS_KEPT = 1000

FAILED_MESSAGES: StateKey[DeadLetters, PushDead | ClearDead] = StateKey(
    "background_failed_durable_messages",
    initial=DeadLetters,
    apply=_dead,
    scope=Scope.THREAD,
)
