"""Background tasks: their records and events, the journal that stores them, and its host.

`ext.tasks` implements the journal, `worker` the host: neither imports the other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

import msgspec

from awaken.codec import Json, from_json, to_json
from awaken.core.lifecycle import RunStatus
from awaken.core.tool import OUTCOME_UNKNOWN, ToolEffect
from awaken.core.value import Value, nullable
from awaken.errors import AwakenError

if TYPE_CHECKING:
    from awaken.clock import Clock
    from awaken.core.account import Account
    from awaken.core.aio.cancel import CancellationToken
    from awaken.core.backend import DurableDelegates
    from awaken.core.deps import RunDeps
    from awaken.core.inbox import InboxSender
    from awaken.core.registry import ExecutionResolver
    from awaken.core.run import Requester, RunRecord
    from awaken.core.store.commands import ThreadCommand
    from awaken.core.store.commits import Fence, ThreadCommit
    from awaken.core.store.store import Store
    from awaken.ids import Ids

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


TASK_AGENT = "task:"
"""The prefix of the `agent_id` of a task's record, before the task's name. For display only."""


class StoredTask(msgspec.Struct, frozen=True):
    """A task as its run record stores it. `resume` is the data for resuming the task."""

    task: PersistedTaskMeta
    resume: Json = None

    @classmethod
    def of(cls, record: RunRecord) -> StoredTask:
        """The task in a record of kind `task`. A task that this version cannot read can be listed
        and ended, but not resumed."""
        found = record.request.request_extras if record.request is not None else None
        extras = found if isinstance(found, dict) else {}
        try:
            return cls(from_json(extras.get("task"), PersistedTaskMeta), extras.get("resume"))
        except msgspec.ValidationError as error:
            return cls(_read_parts(record, extras.get("task"), error))

    def to_extras(self) -> Json:
        """The `request_extras` of the task's record."""
        return {"task": to_json(self.task), "resume": self.resume}

    @property
    def agent_key(self) -> str | None:
        """The key that names the run of the agent in the task; `None` if no agent works in it."""
        resume = self.resume
        if not isinstance(resume, dict) or resume.get("runs_agent") is not True:
            return None
        key = resume.get("key")
        return key if isinstance(key, str) and key else None

    @property
    def parent_run_id(self) -> str | None:
        """The run that the task belongs to: another task, or the run of an agent."""
        return self.task.parent_uid or self.task.parent_context.run_id


def _read_parts(record: RunRecord, stored: Json, error: Exception) -> PersistedTaskMeta:
    """The readable fields of a task whose record this version cannot read as a whole."""
    task = PersistedTaskMeta(
        task_id=record.run_id,
        owner_thread_id=(record.request and record.request.parent_thread_id) or "",
        task_type="unreadable",
        description=record.agent_id.removeprefix(TASK_AGENT),
        status=TaskStatus.FAILED if record.status is RunStatus.DONE else TaskStatus.RUNNING,
        error=f"the record of the task cannot be read: {error}",
        created_at_ms=record.created_at_ms,
        uid=record.run_id,
    )
    fields = stored.items() if isinstance(stored, dict) else ()
    for name, value in fields:
        try:
            task = from_json({**to_json(task), name: value}, PersistedTaskMeta)
        except msgspec.ValidationError:
            continue
    return task


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


class BackgroundTaskError(AwakenError):
    """A task cannot be started, found or sent an event."""


class TaskMessageError(BackgroundTaskError):
    """A message cannot be delivered to a task."""


# -- the journal ------------------------------------------------------------------------------


class TaskJournal(Protocol):
    """Stores records of tasks that survive the process, by `uid`.

    Without a journal, only the state of the owner's thread and the owner's inbox know of a task.
    """

    async def begin(self, task: PersistedTaskMeta, resume: Json | None) -> None:
        """Record a task that is about to start; it starts when this returns.

        `resume` is what another process needs to resume the task; a task without it cannot be
        resumed. For a resumed task, this is not called again.
        """
        ...

    async def end(self, task: PersistedTaskMeta, event: Json | None) -> bool:
        """Record how a task ended and the event for its owner, in one commit.

        Returns whether the journal delivers the event; if not, the caller writes to the owner's
        inbox. The end of an `internal` task has no event.
        """
        ...

    async def emit(self, task: PersistedTaskMeta, event: Json) -> bool:
        """Store an event for an owner without an open inbox. Returns whether it was stored."""
        ...

    async def write(self, task: PersistedTaskMeta, id: str, event: Json) -> bool:
        """Store a message to a task, once for each `id`, for the process that runs the task.
        Returns `False` if the caller has to put it into the task's inbox."""
        ...

    async def find(self, uids: Iterable[str]) -> Mapping[str, PersistedTaskMeta]:
        """Returns these tasks as they are recorded, by `uid`, with their results.

        A task that runs in another process, or will be resumed, is `running`; one that is missing
        in the answer is lost. If a task has ended, its event is delivered to its owner.
        """
        ...

    async def list_started(self, run_id: str) -> Sequence[PersistedTaskMeta]:
        """The recorded tasks that a run has started."""
        ...


class RecoverableTasks(TaskJournal, Protocol):
    """A journal whose tasks another process can resume, as its host uses it."""

    async def recover(self, record: RunRecord, resolver: ExecutionResolver) -> bool:
        """Resume a task that no process runs, or end it as interrupted. Returns whether it was
        resumed.

        Raises:
            ThreadOwned: another process owns it.
        """
        ...

    async def end_interrupted(self, record: RunRecord, *, cancelled: bool = False) -> None:
        """End a task that no process runs, and send its owner the event.

        Raises:
            ThreadOwned: another process owns it.
        """
        ...

    async def send_outboxes(self, thread_ids: Iterable[str], resolver: ExecutionResolver) -> None:
        """Try once to send the unsent messages of these threads, whose runs have ended or wait.

        Raises:
            StoreUnavailable: the outboxes cannot be read or updated now.
        """
        ...

    async def release_idle(self) -> None:
        """Release tasks that no longer run here and have no recorded end; recovery resumes them."""
        ...

    async def close(self, *, leave: bool, grace: float) -> None:
        """Stop this process's tasks, or leave them open for another process; wait at most `grace`
        seconds."""
        ...


AMBIENT_TASK_JOURNAL: ContextVar[Callable[[], TaskJournal] | None] = ContextVar(
    "awaken_task_journal", default=None
)
"""Returns the journal of the host that started the running code; one given to the plugin precedes
it. It is a function, so that a host makes its journal only when a run needs it."""


def find_ambient_journal() -> TaskJournal | None:
    """The journal of the host that started the running code, if it has one."""
    get_journal = AMBIENT_TASK_JOURNAL.get()
    return get_journal() if get_journal is not None else None


# -- the host ---------------------------------------------------------------------------------


class TaskSlot(Protocol):
    """The entry of a run or task among those that are live in its process. Commands for its thread
    arrive here."""

    requester: Requester
    token: CancellationToken
    inbox: InboxSender | None
    left_on_close: bool
    """Whether it is left open for another process when this one closes."""
    notified_before_start: bool
    """Whether a command came before `begin`, so that the store must be read again."""

    def begin(self, fence: Fence, read: Iterable[ThreadCommand]) -> None:
        """Let commands arrive. This process owns the thread and has read the commands `read`."""
        ...

    def release(self) -> None:
        """Remove the entry."""
        ...


class TaskHost(Protocol):
    """What a process offers to the background tasks it runs. The worker implements it."""

    @property
    def store(self) -> Store: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def delegates(self) -> DurableDelegates: ...

    def find_live(self, run_id: str | None) -> TaskSlot | None:
        """The entry of a run or task that is live here."""
        ...

    def reserve(self, record: RunRecord) -> TaskSlot:
        """Make an entry for a task.

        Raises:
            ThreadAlreadyRunning: it is live here already.
        """
        ...

    def subscribe(self) -> None:
        """Receive the commands that other processes send to the threads of this one."""
        ...

    async def deliver(self, thread_id: str) -> None:
        """Pass the commands of a thread on to its run or task, if that is live here."""
        ...

    async def claim(self, thread_id: str) -> Fence:
        """Claim a thread for a task.

        Raises:
            ThreadOwned: another process owns it.
        """
        ...

    async def release(self, fence: Fence) -> None:
        """Release a claim. A failed release is repeated until the store takes it."""
        ...

    def drop(self, fence: Fence) -> None:
        """Forget a claim: a commit has released it, or another process has the thread."""
        ...

    def add_pending(
        self, fence: Fence, commit: ThreadCommit, then: Callable[[], Awaitable[None]]
    ) -> None:
        """Repeat a commit until the store takes it; then release the claim and call `then`."""
        ...

    def is_pending(self, thread_id: str) -> bool:
        """Whether a commit of the thread is being repeated."""
        ...

    async def count_takeover(self, record: RunRecord, delegates: Iterable[str]) -> RunRecord:
        """The record with one more takeover. `delegates` are the ids that the task's agent may
        have: its progress resets the count."""
        ...

    async def share_budget(self, run_id: str | None) -> None:
        """Publish what the tree of a run spends, since other processes may run parts of it."""
        ...

    async def load_resources(
        self, agent_id: str, run_id: str | None, resolver: ExecutionResolver
    ) -> tuple[Account | None, RunDeps | None]:
        """The budget account and the dependencies for a task that a run of an agent has
        started."""
        ...


MakeTaskJournal = Callable[[TaskHost], RecoverableTasks]


class AmbientTask(Protocol):
    """The background task that the running code belongs to, as its host uses it."""

    def wrap_resolver(
        self, resolver: ExecutionResolver, *, clock: Clock, ids: Ids
    ) -> ExecutionResolver:
        """A resolver for runs in this task. Their agents can cancel it."""
        ...


CURRENT_TASK: ContextVar[AmbientTask | None] = ContextVar("awaken_background_task", default=None)
"""The task that the running code belongs to."""


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
