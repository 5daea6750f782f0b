"""The commits with which a background task begins and ends. Pure."""

from __future__ import annotations

import msgspec

from awaken.codec import Json, dumps_text
from awaken.core.blobs import INLINE_LIMIT
from awaken.core.event import RunEvent, RunFinish, RunStart
from awaken.core.identity import RequestOrigin, RunIdentity
from awaken.core.lifecycle import CANCELLED, NATURAL_END, Failed, TerminationReason
from awaken.core.run import Requester, RunKind, RunRecord, RunRequestSnapshot
from awaken.core.store.commands import ThreadCommand
from awaken.core.store.commits import Fence, ThreadCommit
from awaken.core.task import TASK_AGENT, PersistedTaskMeta, StoredTask, TaskStatus
from awaken.core.tool import error_payload_of

INTERRUPTED = "interrupted: the process ended while the task ran"
_MAX_EVENT_CHARS = 4096
"""How many characters of a large result the event of a task's end holds."""


def build_start_record(stored: StoredTask, now_ms: int, requester: Requester) -> RunRecord:
    """The run record of a task that is about to start. `requester` is that of its parent run."""
    task = stored.task
    name = task.description if task.task_type == "tool" else task.task_type
    identity = RunIdentity(
        run_id=task.uid,
        thread_id=task.uid,
        agent_id=f"{TASK_AGENT}{name}",
        parent_run_id=stored.parent_run_id,
    )
    request = RunRequestSnapshot(
        origin=RequestOrigin.INTERNAL,
        request_extras=stored.to_extras(),
        parent_thread_id=task.owner_thread_id or None,
        **requester.fields(),
    )
    return RunRecord.begin(identity, request, now_ms, RunKind.TASK)


def end_record(record: RunRecord, ended: StoredTask, now_ms: int) -> RunRecord:
    """The run record of a task that has ended."""
    task = ended.task
    assert record.request is not None, "a task's record says what it is"
    return record.finish(
        now_ms,
        _termination_of(task),
        final_output=None if task.result is None else _text(task.result),
        error_payload=error_payload_of(task.error) if task.error is not None else None,
        request=msgspec.structs.replace(record.request, request_extras=ended.to_extras()),
        state=None,
    )


def build_finish_event(task: PersistedTaskMeta) -> RunFinish:
    """The event that says how a task ended."""
    final = "" if task.result is None else _text(task.result)
    if len(final) > INLINE_LIMIT:
        # The record has all of it, and is no part of the commit's row.
        note = f"[the first {_MAX_EVENT_CHARS} of {len(final)} characters]"
        final = f"{final[:_MAX_EVENT_CHARS]}\n{note}"
    return RunFinish(
        thread_id=task.uid,
        run_id=task.uid,
        result={"response": final, "status": task.status.value},
        termination=_termination_of(task),
    )


def build_commit(
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


def _termination_of(task: PersistedTaskMeta) -> TerminationReason:
    if task.status is TaskStatus.COMPLETED:
        return NATURAL_END
    return CANCELLED if task.status is TaskStatus.CANCELLED else Failed(value=task.error or "")


def _text(result: Json) -> str:
    return result if isinstance(result, str) else dumps_text(result)
