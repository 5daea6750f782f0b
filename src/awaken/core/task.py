"""Background tasks: their records, what their owners are told, and the journal that keeps both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from enum import StrEnum
from typing import Protocol

import msgspec

from awaken.codec import Json
from awaken.core.tool import OUTCOME_UNKNOWN, ToolEffect
from awaken.core.value import Value, nullable
from awaken.errors import AwakenError

# -- tasks ------------------------------------------------------------------------------------


class TaskStatus(StrEnum):
    """All but `running` are final. A task that waits for its turn is `running`."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return self is not TaskStatus.RUNNING


class TaskParentContext(Value, frozen=True, kw_only=True):
    """The task, run, tool call and agent from which a task was started, as far as they are
    known."""

    task_id: str | None = None
    run_id: str | None = None
    call_id: str | None = None
    agent_id: str | None = None

    @property
    def is_empty(self) -> bool:
        return self == _NO_PARENT


_NO_PARENT = TaskParentContext()


class PersistedTaskMeta(Value, frozen=True, kw_only=True):
    """The record of a task.

    `task_id` is unique in the owner's thread, `uid` everywhere. `parent_uid` is the task that
    started this one, if a task did and it is known. The model is not told of an `internal` task,
    and no run waits for it.

    `effect` says what the work does to the world, if that is known. The work of a `stoppable` task
    ends with the task. `outcome_unknown` is set on a task that was cut short and may have taken
    effect.
    """

    task_id: str
    owner_thread_id: str = msgspec.field(default_factory=str)
    task_type: str
    name: str | None = None
    description: str
    status: TaskStatus
    error: str | None = None
    result: Json = None
    created_at_ms: int
    completed_at_ms: int | None = None
    parent_context: TaskParentContext = msgspec.field(default_factory=TaskParentContext)
    uid: str = ""
    parent_uid: str | None = None
    internal: bool = False
    effect: ToolEffect | None = None
    stoppable: bool = True
    outcome_unknown: bool = False

    @property
    def is_terminal(self) -> bool:
        return self.status.is_terminal


def cut_short(task: PersistedTaskMeta, why: str | None = None) -> PersistedTaskMeta:
    """The record of a task that was stopped before its end, with what is known of its outcome."""
    unknown = task.effect is ToolEffect.ONCE or not task.stoppable
    words = [] if why is None else [why]
    if unknown:
        words.append(
            f"it is unknown whether '{task.description}' took effect. Do not assume either: find "
            "out, or say so, before it is started again"
        )
    return msgspec.structs.replace(task, error="; ".join(words) or None, outcome_unknown=unknown)


def terminal_event(task: PersistedTaskMeta) -> Json:
    """The event that tells the owner how a task ended."""
    event: dict[str, Json] = {"kind": task.status.value, "task_id": task.task_id}
    if task.status is TaskStatus.COMPLETED:
        event["result"] = task.result
    elif task.status is TaskStatus.FAILED or task.error is not None:
        event["error"] = task.error
    if task.outcome_unknown:
        event[OUTCOME_UNKNOWN] = True
    return event


def custom_event(task_id: str, event_type: str, payload: Json) -> Json:
    """The event for news that a running task sends, and for messages to a task."""
    return {"kind": "custom", "task_id": task_id, "event_type": event_type, "payload": payload}


class TaskJournal(Protocol):
    """Keeps records of tasks that survive the process, by `uid`.

    Without a journal, only the state of the owner's thread and the owner's inbox know of a task.
    """

    async def begin(self, task: PersistedTaskMeta, resume: Json | None) -> None:
        """Record a task that is about to start; it starts when this returns.

        `resume` is what another process needs to take the task up; a task without it cannot be
        taken up. For a task that is taken up, this is not called again.
        """
        ...

    async def end(self, task: PersistedTaskMeta, event: Json | None) -> bool:
        """Record how a task ended and the event for its owner, in one commit.

        Returns whether the journal tells the owner; if not, the caller writes to the owner's inbox.
        The end of an `internal` task has no event.
        """
        ...

    async def emit(self, task: PersistedTaskMeta, event: Json) -> bool:
        """Keep an event for an owner without an open inbox. Returns whether it was kept."""
        ...

    async def write(self, task: PersistedTaskMeta, id: str, event: Json) -> bool:
        """Keep a message to a task, once for each `id`, for the process that runs the task. Returns
        `False` if the caller has to put it into the task's inbox."""
        ...

    async def find(self, uids: Iterable[str]) -> Mapping[str, PersistedTaskMeta]:
        """Returns these tasks as they are recorded, by `uid`, with their results.

        A task that runs in another process, or will be taken up, is `running`; one that is missing
        in the answer is lost. The journal tells owners of tasks that have ended.
        """
        ...

    async def started_by(self, run_id: str) -> Sequence[PersistedTaskMeta]:
        """The recorded tasks that a run has started."""
        ...


AMBIENT_TASK_JOURNAL: ContextVar[TaskJournal | None] = ContextVar(
    "awaken_task_journal", default=None
)
"""The journal that a host binds for the runs it starts; one given to the plugin precedes it."""


class BackgroundTaskError(AwakenError):
    """A task cannot be started, found or sent an event."""


class TaskMessageError(BackgroundTaskError):
    """A message cannot be delivered to a task."""


# -- messages to other threads ----------------------------------------------------------------


class DurableMessageRequest(Value, frozen=True, kw_only=True):
    """A message to another thread. A repeated delivery has the same `message_id`."""

    message_id: str
    recipient_thread_id: str
    recipient_agent_id: str | None = nullable()
    sender_agent_id: str
    message: str


class DurableMessageSink(Protocol):
    """Delivers messages to other threads, in whatever process their runs are."""

    async def deliver(self, request: DurableMessageRequest) -> None:
        """Make a message durable. If this raises, the message was not taken."""
        ...


AMBIENT_MESSAGE_SINK: ContextVar[DurableMessageSink | None] = ContextVar(
    "awaken_durable_message_sink", default=None
)
"""The sink that a host binds for the runs it starts; one given to the plugin precedes it."""
