"""Work beside a run: what is kept of a task, what its owner is told, and who makes that durable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from enum import StrEnum
from typing import Protocol

import msgspec

from awaken.codec import Json
from awaken.domain.recovery import OUTCOME_UNKNOWN, ToolEffect
from awaken.domain.value import Value, nullable
from awaken.errors import AwakenError

# -- tasks ------------------------------------------------------------------------------------


class TaskStatus(StrEnum):
    """How a task stands; all but `running` are final. One that waits for its turn is running."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return self is not TaskStatus.RUNNING


class TaskParentContext(Value, frozen=True, kw_only=True):
    """What a task was started from: a task, a run, a call in it, and the agent that made it."""

    task_id: str | None = None
    run_id: str | None = None
    call_id: str | None = None
    agent_id: str | None = None

    @property
    def is_empty(self) -> bool:
        return self == _NO_PARENT


_NO_PARENT = TaskParentContext()


class PersistedTaskMeta(Value, frozen=True, kw_only=True):
    """A task as it is kept.

    `task_id` is its name in the owner's thread, `uid` its name anywhere. `parent_uid` is the task
    it belongs to, where that one is known. The model is not told of an `internal` one, and no run
    waits for it.

    `effect` is what its work does to the world, where that is known, and it is `stoppable` if that
    work ends with the task. `outcome_unknown` says of one that was cut short that it may have taken
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
    """A task that was begun and did not come to its end, with what can be said of its outcome."""
    unknown = task.effect is ToolEffect.ONCE or not task.stoppable
    words = [] if why is None else [why]
    if unknown:
        words.append(
            f"it is unknown whether '{task.description}' took effect. Do not assume either: find "
            "out, or say so, before it is started again"
        )
    return msgspec.structs.replace(task, error="; ".join(words) or None, outcome_unknown=unknown)


def terminal_event(task: PersistedTaskMeta) -> Json:
    """What the owner is told of a task's end."""
    event: dict[str, Json] = {"kind": task.status.value, "task_id": task.task_id}
    if task.status is TaskStatus.COMPLETED:
        event["result"] = task.result
    elif task.status is TaskStatus.FAILED or task.error is not None:
        event["error"] = task.error
    if task.outcome_unknown:
        event[OUTCOME_UNKNOWN] = True
    return event


def custom_event(task_id: str, event_type: str, payload: Json) -> Json:
    """What a task tells its owner while it runs, and what is written to a task."""
    return {"kind": "custom", "task_id": task_id, "event_type": event_type, "payload": payload}


class TaskJournal(Protocol):
    """Makes tasks survive their process. It knows them by `uid`.

    Without one, a task is known to its run's state and its owner's inbox alone.
    """

    async def begin(self, task: PersistedTaskMeta, resume: Json | None) -> None:
        """Keep that a task is about to start; it starts when this returns.

        `resume` is what another process needs to take it up again; a task without it cannot be.
        One that is taken up is not begun again.
        """
        ...

    async def end(self, task: PersistedTaskMeta, event: Json | None) -> bool:
        """Keep how a task ended and what its owner is told, both at once.

        Answers whether the owner will be told; if not, its inbox is written to. Of an `internal`
        task nothing is told, and there is no event.
        """
        ...

    async def emit(self, task: PersistedTaskMeta, event: Json) -> bool:
        """Take over an event for an owner who cannot be written to now, if possible."""
        ...

    async def write(self, task: PersistedTaskMeta, id: str, event: Json) -> bool:
        """Take over for good what is written to a task, once for each `id`: it is read by whoever
        runs the task. False if it has to be put into the task's inbox."""
        ...

    async def find(self, uids: Iterable[str]) -> Mapping[str, PersistedTaskMeta]:
        """Returns these tasks as they are recorded, by `uid`, with their results.

        A task that runs in another process, or will be taken up, is `running`; one that is missing
        in the answer is lost. The journal tells owners of tasks that have ended.
        """
        ...

    async def started_by(self, run_id: str) -> Sequence[PersistedTaskMeta]:
        """The tasks that a run has started, as far as they are known."""
        ...


AMBIENT_TASK_JOURNAL: ContextVar[TaskJournal | None] = ContextVar(
    "awaken_task_journal", default=None
)
"""The journal a host binds for the runs it starts; one given to the plugin goes first."""


class BackgroundTaskError(AwakenError):
    """A task that cannot be started, found or written to."""


class TaskMessageError(BackgroundTaskError):
    """A message that a task cannot be given."""


# -- messages to other threads ----------------------------------------------------------------


class DurableMessageRequest(Value, frozen=True, kw_only=True):
    """A message to another thread. One that comes twice has the same `message_id`."""

    message_id: str
    recipient_thread_id: str
    recipient_agent_id: str | None = nullable()
    sender_agent_id: str
    message: str


class DurableMessageSink(Protocol):
    """Brings messages to other threads, whoever runs them."""

    async def deliver(self, request: DurableMessageRequest) -> None:
        """Take a message over for good; whatever is raised means that it was not taken."""
        ...


AMBIENT_MESSAGE_SINK: ContextVar[DurableMessageSink | None] = ContextVar(
    "awaken_durable_message_sink", default=None
)
"""The sink a host binds for the runs it starts; one given to the plugin goes first."""
