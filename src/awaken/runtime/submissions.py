"""Carrying out submissions: from the command in the store to the run's request."""

from __future__ import annotations

from msgspec.structs import replace

from awaken.contract.commands import ThreadCommand
from awaken.contract.commits import Fence, ThreadCommit
from awaken.contract.submissions import Submission
from awaken.domain.event import RunEvent, RunFinish, RunStart
from awaken.domain.lifecycle import Failed, RunStatus, StartCause
from awaken.domain.result import AgentRunResult
from awaken.domain.run import RunRecord
from awaken.errors import (
    CommitTooLarge,
    PhaseError,
    ResolveError,
    ResolveFailed,
    ThreadAlreadyRunning,
    ThreadOwned,
)
from awaken.runtime.request import RunRequest
from awaken.runtime.runtime import AgentRuntime
from awaken.runtime.unkept import commit_once


async def start(engine: AgentRuntime, record: RunRecord, fence: Fence) -> AgentRunResult:
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
    engine.waited.tell(max(0, engine.clock.now_ms() - due) / 1000)
    request = replace(request_of(command.submission), rewinds_to=command.rewinds_to)
    try:
        return await engine.run(request, fence=fence)
    except (ResolveFailed, ResolveError, PhaseError) as error:
        await _end_unstarted(engine, command, command.submission, error)
        raise


async def _end_unstarted(
    engine: AgentRuntime, command: ThreadCommand, submission: Submission, error: Exception
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
        engine.unattended.tell(thread_id)
    else:
        await engine.claims.release(fence)


async def _commit_unstarted(
    engine: AgentRuntime,
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
    told = (
        RunStart(thread_id=thread_id, run_id=run_id, cause=StartCause.NEW),
        RunFinish(thread_id=thread_id, run_id=run_id, termination=end),
    )
    commit = ThreadCommit(
        thread_id=thread_id,
        expected_length=thread.message_count,
        messages=submission.messages,
        run=record.finish(now, end),
        events=tuple(
            RunEvent(thread_id=thread_id, run_id=run_id, at_ms=now, event=event) for event in told
        ),
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


async def withdraw(engine: AgentRuntime, run_id: str) -> RunRecord | None:
    """Cancel a submitted run that has not started. Returns its record, or `None` if there is no
    such run, or if its thread's owner is starting it and gets the cancel."""
    record = await engine.store.load_run(run_id)
    if record is None or record.status is not RunStatus.CREATED:
        return None
    cancel = ThreadCommand.cancel(record.thread_id, run_id, at_ms=engine.clock.now_ms())
    await engine.store.send(cancel)
    await engine.deliver(record.thread_id)
    record = await engine.store.load_run(run_id)
    return record if record is not None and record.status is RunStatus.DONE else None
