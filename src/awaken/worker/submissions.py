"""Carrying out submissions: from the command in the store to the run's request."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from msgspec.structs import replace

from awaken.core.aio.owned_tasks import log_errors
from awaken.core.event import RunEvent, RunFinish, RunStart
from awaken.core.lifecycle import CANCELLED, Failed, RunStatus, StartCause, TerminationReason
from awaken.core.run import AgentRunResult, RunRecord
from awaken.core.store.commands import CommandKind, Submission, ThreadCommand
from awaken.core.store.commits import Fence, ThreadCommit, commit_once
from awaken.core.store.store import Store
from awaken.errors import (
    CommitTooLarge,
    PhaseError,
    ResolveError,
    ResolveFailed,
    ThreadAlreadyRunning,
    ThreadOwned,
)
from awaken.worker.request import RunRequest
from awaken.worker.worker import Worker

log = logging.getLogger("awaken.runtime")


async def start(engine: Worker, record: RunRecord, fence: Fence) -> AgentRunResult:
    """Start a submitted run whose thread this process has claimed.

    A submission whose agent cannot run at all, because its model is unknown or has no price for a
    budget in money, ends as a failed run: trying again would keep the thread from its next ones.

    Raises:
        ThreadAlreadyRunning: the submission was withdrawn, or another process has carried it out.
        ResolveFailed, ResolveError, PhaseError: the agent cannot run; the record says why.
        AgentLoopError: the run failed.
    """
    try:
        commands = await engine.store.load_commands(record.thread_id)
        mine = (one for one in commands if one.run_id == record.run_id)
        command = next((one for one in mine if one.submission is not None), None)
        if command is None or command.submission is None:
            raise ThreadAlreadyRunning(record.thread_id)
    except BaseException:
        await engine.claims.release(fence)
        raise
    due = max(record.created_at_ms, command.submission.not_before_ms or 0)
    engine.waited.notify(max(0, engine.clock.now_ms() - due) / 1000)
    request = replace(request_of(command.submission), rewinds_to=command.rewinds_to)
    try:
        return await engine.run(request, fence=fence)
    except (ResolveFailed, ResolveError, PhaseError) as error:
        await _end_unstarted(engine, command, command.submission, error)
        raise


async def _end_unstarted(
    engine: Worker, command: ThreadCommand, submission: Submission, error: Exception
) -> None:
    """End a submitted run as failed, if it has not started."""
    thread_id = submission.thread_id
    try:
        fence = await engine.claims.claim(thread_id)
    except ThreadOwned:
        return  # another process tries it, or has withdrawn it
    try:
        has_ended = await _commit_unstarted(engine, command, submission, error, fence)
    except BaseException:
        await engine.claims.release(fence)
        raise
    if has_ended:
        engine.claims.drop(fence)
        engine.unattended.notify(thread_id)
    else:
        await engine.claims.release(fence)


async def _commit_unstarted(
    engine: Worker,
    command: ThreadCommand,
    submission: Submission,
    error: Exception,
    fence: Fence,
) -> bool:
    """Commit the end of a submitted run, and release its thread. Returns false if the run has
    started."""
    thread_id, run_id, now = submission.thread_id, submission.run_id, engine.clock.now_ms()
    record = await engine.store.load_run(run_id)
    thread = await engine.store.load_thread(thread_id)
    if record is None or thread is None or record.status is not RunStatus.CREATED:
        return False
    end = Failed(value=str(error))
    commit = ThreadCommit(
        thread_id=thread_id,
        expected_length=thread.message_count,
        messages=submission.messages,
        run=record.finish(now, end),
        events=_start_and_end(thread_id, run_id, end, now),
        acks=(command.id,),
        rewinds_to=command.rewinds_to,
        at_ms=now,
        fence=fence,
        release=True,
    )
    try:
        await commit_once(engine.store, commit)
    except CommitTooLarge:  # no run has moved its media to the blobs
        await commit_once(engine.store, replace(commit, messages=(), rewinds_to=None))
    return True


def request_of(submission: Submission) -> RunRequest:
    """The request for the run of a submission. The run is left open when the runtime closes."""
    return RunRequest(
        **submission.fields(),
        run_id_hint=submission.run_id,
        agent_id=submission.agent_id,
        wait_for_decisions=False,
        left_on_close=True,
    )


async def withdraw(engine: Worker, run_id: str, by: str | None = None) -> RunRecord | None:
    """Cancel a submitted run that has not started; `by` is the id of the principal that cancels.
    Returns its record, or `None` if there is no such run, or if its thread's owner is starting it
    and gets the cancel."""
    record = await engine.store.load_run(run_id)
    if record is None or record.status is not RunStatus.CREATED:
        return None
    thread_id = record.thread_id
    await engine.store.send(
        ThreadCommand.cancel(thread_id, run_id, at_ms=engine.clock.now_ms(), by=by)
    )
    await engine.deliver(thread_id)
    record = await engine.store.load_run(run_id)
    if record is None or record.status is not RunStatus.DONE:
        return None
    await log_errors(write_ends(engine, thread_id), f"run {run_id} has no events yet", log)
    return record


async def write_ends(engine: Worker, thread_id: str) -> None:
    """Write the start and the end of the thread's submitted runs that were cancelled before they
    started. Their cancels wait in the thread until then.

    Only an owner of a thread writes events. If the thread has one, this returns: it is called
    again when the owner has released the thread.
    """
    store = engine.store
    if not await _list_unstarted_cancels(store, thread_id):
        return
    thread = await store.load_thread(thread_id)
    if thread is None or thread.owner is not None:
        return
    try:
        fence = await engine.claims.claim(thread_id)
    except ThreadOwned:
        return
    try:
        # Read under the claim: another process may have written some of them.
        for cancel, record in await _list_unstarted_cancels(store, thread_id):
            await commit_once(store, await _end_of(engine, fence, record, cancel.id))
    finally:
        await engine.claims.release(fence)
    engine.unattended.notify(thread_id)  # something else may have come while the thread was claimed


async def _list_unstarted_cancels(
    store: Store, thread_id: str
) -> Sequence[tuple[ThreadCommand, RunRecord | None]]:
    """The cancels that wait in a thread though their runs have ended: these had not started. With
    the runs' records; `None` if there is no such run. A run that is open takes its cancel."""
    found: list[tuple[ThreadCommand, RunRecord | None]] = []
    for command in await store.load_commands(thread_id):
        if command.kind is CommandKind.CANCEL and command.run_id is not None:
            record = await store.load_run(command.run_id)
            if record is None or record.status is RunStatus.DONE:
                found.append((command, record))
    return found


async def _end_of(
    engine: Worker, fence: Fence, record: RunRecord | None, command_id: int
) -> ThreadCommit:
    """The commit with the events of a run that was cancelled before it started. If there is no such
    run, it only drops the cancel."""
    thread_id, now = fence.thread_id, engine.clock.now_ms()
    thread = await engine.store.load_thread(thread_id)
    commit = ThreadCommit(
        thread_id=thread_id,
        expected_length=thread.message_count if thread is not None else 0,
        acks=(command_id,),
        at_ms=now,
        fence=fence,
    )
    if record is None:
        return commit
    told = _start_and_end(thread_id, record.run_id, record.termination_reason or CANCELLED, now)
    ended = replace(record, revision=record.revision + 1, state=None)
    return replace(commit, run=ended, events=told, acks=())


def _start_and_end(
    thread_id: str, run_id: str, end: TerminationReason, at_ms: int
) -> tuple[RunEvent, ...]:
    """The events of a run that has ended without having started."""
    told = (
        RunStart(thread_id=thread_id, run_id=run_id, cause=StartCause.NEW),
        RunFinish(thread_id=thread_id, run_id=run_id, termination=end),
    )
    return tuple(
        RunEvent(thread_id=thread_id, run_id=run_id, at_ms=at_ms, event=event) for event in told
    )
