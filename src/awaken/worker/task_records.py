"""The records of background tasks: what is committed when a task begins and when it ends. Pure."""

from __future__ import annotations

import msgspec

from awaken.codec import Json, dumps_text, from_json, to_json
from awaken.core.blobs import INLINE_LIMIT
from awaken.core.event import RunEvent, RunFinish, RunStart
from awaken.core.identity import RequestOrigin, RunIdentity
from awaken.core.lifecycle import CANCELLED, NATURAL_END, Failed, RunStatus, TerminationReason
from awaken.core.run import RunKind, RunRecord, RunRequestSnapshot
from awaken.core.store.commands import ThreadCommand
from awaken.core.store.commits import Fence, ThreadCommit
from awaken.core.task import PersistedTaskMeta, TaskStatus
from awaken.core.tool import error_payload_of
from awaken.worker.live_runs import Requester

TASK_AGENT = "task:"
"""The prefix of the `agent_id` of a task's record, before the task's name. For display only."""
INTERRUPTED = "interrupted: the process ended while the task ran"
_MAX_EVENT_CHARS = 4096
"""How many characters of a large result the event of a task's end holds."""


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

    def to_start_record(self, now_ms: int, requester: Requester) -> RunRecord:
        """The record of a task that is about to start. `requester` is that of its parent run."""
        task = self.task
        name = task.description if task.task_type == "tool" else task.task_type
        identity = RunIdentity(
            run_id=task.uid,
            thread_id=task.uid,
            agent_id=f"{TASK_AGENT}{name}",
            parent_run_id=self.parent_run_id,
        )
        request = RunRequestSnapshot(
            origin=RequestOrigin.INTERNAL,
            request_extras=self._extras(),
            parent_thread_id=task.owner_thread_id or None,
            **requester.fields(),
        )
        return RunRecord.begin(identity, request, now_ms, RunKind.TASK)

    def to_end_record(self, record: RunRecord, now_ms: int) -> RunRecord:
        """The record of a task that has ended."""
        task = self.task
        assert record.request is not None, "a task's record says what it is"
        return record.finish(
            now_ms,
            termination_of(task),
            final_output=None if task.result is None else _text(task.result),
            error_payload=error_payload_of(task.error) if task.error is not None else None,
            request=msgspec.structs.replace(record.request, request_extras=self._extras()),
            state=None,
        )

    def to_finish_event(self) -> RunFinish:
        """The event that says how the task ended."""
        task = self.task
        final = "" if task.result is None else _text(task.result)
        if len(final) > INLINE_LIMIT:
            # The record has all of it, and is no part of the commit's row.
            note = f"[the first {_MAX_EVENT_CHARS} of {len(final)} characters]"
            final = f"{final[:_MAX_EVENT_CHARS]}\n{note}"
        return RunFinish(
            thread_id=task.uid,
            run_id=task.uid,
            result={"response": final, "status": task.status.value},
            termination=termination_of(task),
        )

    def _extras(self) -> Json:
        return {"task": to_json(self.task), "resume": self.resume}


def commit_of(
    record: RunRecord,
    fence: Fence,
    *events: RunStart | RunFinish,
    at_ms: int,
    sends: tuple[ThreadCommand, ...] = (),
    parent_thread_id: str | None = None,
    release: bool = False,
) -> ThreadCommit:
    """A commit of a task's record, in the task's own thread."""
    return ThreadCommit(
        thread_id=record.thread_id,
        expected_length=0,
        run=record,
        events=tuple(
            RunEvent(
                thread_id=record.thread_id,
                run_id=record.run_id,
                parent_run_id=record.parent_run_id,
                at_ms=at_ms,
                event=event,
            )
            for event in events
        ),
        sends=sends,
        parent_thread_id=parent_thread_id,
        at_ms=at_ms,
        fence=fence,
        release=release,
    )


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


def termination_of(task: PersistedTaskMeta) -> TerminationReason:
    """How the run of a task ended."""
    if task.status is TaskStatus.COMPLETED:
        return NATURAL_END
    return CANCELLED if task.status is TaskStatus.CANCELLED else Failed(value=task.error or "")


def _text(result: Json) -> str:
    return result if isinstance(result, str) else dumps_text(result)
