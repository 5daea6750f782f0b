"""The whole run on one screen."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from awaken.codec import Json
from awaken.contract.commits import CallPhase, ThreadCommit
from awaken.domain.event import Error, RunFinish, RunStart, StepEnd, ToolCallDone
from awaken.domain.identity import RunOrigin
from awaken.domain.lifecycle import (
    AWAITING_TASKS,
    CANCELLED,
    NATURAL_END,
    SUSPENDED,
    SUSPENDED_END,
    Blocked,
    Failed,
    RunStatus,
    Suspended,
    TerminationReason,
    to_run_status,
)
from awaken.domain.message import Message
from awaken.domain.phase import Phase
from awaken.errors import (
    AgentLoopError,
    Cancelled,
    InvalidResume,
    KeyEncode,
    PhaseError,
    RunLeft,
    RuntimeFailed,
    StateError,
    StorageError,
)
from awaken.loop.complete import unknown_outcome
from awaken.loop.inbox import read_inbox, take_payload
from awaken.loop.live import AgentLoopParams, AgentRunResult, LiveRun
from awaken.loop.recover import take_up
from awaken.loop.resume import (
    detect_and_replay_resume,
    give_up_suspended,
    suspended_calls,
    take_expired,
    wait_for_decisions,
)
from awaken.loop.save import check_termination, complete_step, persist_checkpoint
from awaken.loop.step import Outcome, step, switch_agent
from awaken.state.runtime_keys import (
    PENDING_WORK,
    RUN_LIFECYCLE,
    Done,
    RunLifecycleState,
    SetRunning,
    SetWaiting,
    Start,
)

log = logging.getLogger("awaken.loop")


async def run_agent_loop(params: AgentLoopParams) -> AgentRunResult:
    """Drive one run from its first phase to its last commit.

    Raises:
        AgentLoopError: the run broke off; its events and its record say so too.
        RunLeft: it is to be carried on elsewhere.
    """
    agent = params.agent or params.resolver.resolve(params.agent_id)
    run = LiveRun(params, agent)
    run.task = asyncio.current_task()
    try:
        end = await _begin(run, params)
        while end is None:
            end = await _next(run, await step(run))
        return await _finish(run, end)
    except RunLeft:
        raise
    except asyncio.CancelledError:
        if not run.is_left():
            await _break_off(run, CANCELLED)
        raise
    except Exception as error:
        failure = _as_loop_error(error)
        await _break_off(run, Failed(value=str(failure)), failure)
        if failure is error:
            raise
        raise failure from error


# -- beginning --------------------------------------------------------------------------------


async def _begin(run: LiveRun, params: AgentLoopParams) -> TerminationReason | None:
    """Open the run, carry out answers it was given, and run its first phase."""
    now = run.clock.now_ms()
    if not run.store.shares(run.agent.env.keys):
        run.store.register_keys(run.agent.env.keys.values())
    run.store.update(
        RUN_LIFECYCLE,
        SetRunning(updated_at=now)
        if params.is_continuation
        else Start(run_id=run.identity.run_id, updated_at=now),
    )
    _note_start(run)
    run.agent.env.activate(run.store, run.agent.spec)
    await persist_checkpoint(run)
    try:
        if turn := await take_up(run):
            await complete_step(run)
            await _persist_or_leave(run)
            if turn.blocked is not None:
                return Blocked(value=turn.blocked)
        if end := _closed(run):
            return end
        await take_expired(run)
        if blocked := await detect_and_replay_resume(run):
            return Blocked(value=blocked)
        run.check_token()
        if suspended_calls(run.store):
            return await _suspend(run)
        if refusal := switch_agent(run):
            return refusal
        if run.is_busy(Phase.RUN_START):
            await run.phase(Phase.RUN_START)
        run.check_token()
    except Cancelled:
        if run.in_step:
            await complete_step(run)
        return CANCELLED
    return check_termination(run.store)


def _note_start(run: LiveRun) -> None:
    identity = run.identity
    run.journal.note(
        RunStart(
            thread_id=identity.thread_id,
            run_id=identity.run_id,
            parent_run_id=identity.parent_run_id,
            identity=identity,
        )
    )


# -- between steps ----------------------------------------------------------------------------


async def _next(run: LiveRun, outcome: Outcome | TerminationReason) -> TerminationReason | None:
    """Close the step and say how the run ends, or that it goes on."""
    if outcome is Outcome.SUSPENDED:
        _wait(run, SUSPENDED)
    if run.in_step:
        await complete_step(run)
    if outcome is Outcome.SUSPENDED:
        return _closed(run) or await _suspend(run)
    if not isinstance(outcome, Outcome):
        return outcome
    arrived = read_inbox(run)
    run.transcript.extend(arrived)
    end = check_termination(run.store)
    if end is None and outcome is Outcome.NATURAL_END and not arrived:
        end = await _natural_end(run)
    if end is None:
        await _persist_or_leave(run)
    return end


async def _persist_or_leave(run: LiveRun) -> None:
    """Commit the end of a step; a run that is to be left ends here for now.

    Raises:
        RunLeft: it is carried on elsewhere.
    """
    leaves = run.is_left()
    await persist_checkpoint(run, release=leaves)
    if leaves:
        raise RunLeft(run.identity.run_id)


def _closed(run: LiveRun) -> TerminationReason | None:
    """How the run ends, if a hook or a tool has said that it does."""
    end = check_termination(run.store)
    return None if isinstance(end, Suspended) else end


async def _natural_end(run: LiveRun) -> TerminationReason | None:
    """The model is done; the run too, unless work it started is still under way."""
    work = run.store.read(PENDING_WORK)
    if work is None or not work.has_pending:
        return NATURAL_END
    if run.identity.origin is RunOrigin.SUBAGENT and run.inbox is not None:
        await persist_checkpoint(run)
        payload = await run.inbox.recv_or_cancel(run.token)
        if payload is None:
            return CANCELLED
        run.transcript.extend(take_payload(run, payload))
        run.transcript.extend(read_inbox(run))
        return None
    _wait(run, AWAITING_TASKS)
    return NATURAL_END


def _wait(run: LiveRun, reason: str) -> None:
    run.store.update(RUN_LIFECYCLE, SetWaiting(reason=reason, updated_at=run.clock.now_ms()))


async def _suspend(run: LiveRun) -> TerminationReason | None:
    """Wait for decisions and carry them out; without anybody to ask, end as suspended."""
    while True:
        _wait(run, SUSPENDED)
        if run.decisions is None or not (run.decisions.waits or len(run.decisions)):
            return SUSPENDED_END
        finish = _finish_event(run, SUSPENDED_END, None)
        await persist_checkpoint(run, termination=SUSPENDED_END, finish=finish)
        try:
            if not await wait_for_decisions(run):
                return SUSPENDED_END
            run.store.update(RUN_LIFECYCLE, SetRunning(updated_at=run.clock.now_ms()))
            _note_start(run)
            await persist_checkpoint(run)
            if blocked := await detect_and_replay_resume(run):
                return Blocked(value=blocked)
        except Cancelled:
            return CANCELLED
        if not suspended_calls(run.store):
            run.transcript.extend(read_inbox(run))
            await persist_checkpoint(run)
            return check_termination(run.store)


# -- ending -----------------------------------------------------------------------------------


async def _finish(run: LiveRun, end: TerminationReason) -> AgentRunResult:
    """Close the lifecycle, run the last phase, and commit the end."""
    _close_lifecycle(run, end)
    run.ending = True
    if run.is_busy(Phase.RUN_END):
        await run.phase(Phase.RUN_END, final=True)
    await _commit_end(run, end)
    record = run.record
    return AgentRunResult(
        run_id=run.identity.run_id,
        response=run.transcript.response,
        termination=end,
        steps=record.steps if record else 0,
        input_tokens=run.input_tokens,
        output_tokens=run.output_tokens,
        tickets=record.waiting.tickets if record and record.waiting else (),
    )


def _close_lifecycle(run: LiveRun, end: TerminationReason) -> None:
    """Only a suspended run, and one that awaits its tasks, may stay waiting."""
    _close_inbox(run)
    lifecycle = run.store.read(RUN_LIFECYCLE) or RunLifecycleState()
    awaits_tasks = end == NATURAL_END and lifecycle.status_reason == AWAITING_TASKS
    stays = lifecycle.status is RunStatus.WAITING and (isinstance(end, Suspended) or awaits_tasks)
    status, reason = to_run_status(end)
    if stays or status is not RunStatus.DONE:
        return
    give_up_suspended(run)
    if check_termination(run.store) != end:
        run.store.update(
            RUN_LIFECYCLE,
            Done(reason=reason or "", updated_at=run.clock.now_ms(), termination=end),
        )


def _close_inbox(run: LiveRun) -> None:
    """Nobody may write to a run that is over; what came until now stays in the log."""
    inbox = run.inbox
    if inbox is None:
        return
    try:
        run.transcript.extend(read_inbox(run))
    except InvalidResume as error:
        log.warning("what came into the inbox last was dropped: %s", error)
    run.inbox = None
    inbox.close()


async def _commit_end(run: LiveRun, end: TerminationReason) -> None:
    lifecycle = run.store.read(RUN_LIFECYCLE) or RunLifecycleState()
    result: dict[str, Json] = {
        "response": run.transcript.response,
        "status": lifecycle.status.value,
    }
    if lifecycle.status_reason is not None:
        result["status_reason"] = lifecycle.status_reason
    payload = {"message": end.value} if isinstance(end, Failed) else None
    finish = _finish_event(run, end, result)
    release = run.journal.fence is not None
    await persist_checkpoint(
        run, termination=end, error_payload=payload, finish=finish, release=release
    )


def _finish_event(run: LiveRun, end: TerminationReason, result: Json) -> RunFinish:
    return RunFinish(
        thread_id=run.identity.thread_id,
        run_id=run.identity.run_id,
        identity=run.identity,
        result=result,
        termination=end,
    )


async def _break_off(
    run: LiveRun, end: TerminationReason, failure: AgentLoopError | None = None
) -> None:
    """End a run that cannot go on: its step closed, its record final, its last event sent."""
    if isinstance(failure, StorageError):
        refused = run.journal.forgive(failure)
        if refused is None:
            return await _tell_lost(run, failure)
        _make_up_for(run, refused)
    if run.in_step:
        try:
            await complete_step(run)
        except Exception:
            log.exception("the step's last phase failed while the run broke off")
    _close_lifecycle(run, end)
    if not run.ending:
        try:
            await run.phase(Phase.RUN_END, final=True)
        except Exception:
            log.exception("the last phase failed while the run broke off")
    while True:
        try:
            return await _commit_end(run, end)
        except KeyEncode:
            log.exception("a value was given up, so that the run's end can be committed")
        except StorageError as error:
            log.exception("the end of run %s could not be committed", run.identity.run_id)
            return await _tell_lost(run, error)


def _make_up_for(run: LiveRun, refused: ThreadCommit) -> None:
    """Say what can be said of a commit that cannot be written: which calls and steps it ended."""
    ended = {entry.key: entry for entry in refused.calls}.values()
    for entry in ended:
        if entry.phase in (CallPhase.SUCCEEDED, CallPhase.FAILED, CallPhase.UNKNOWN):
            told = unknown_outcome(entry.tool_name, "its result could not be kept")
            message = Message.tool(entry.call_id, told.model_text(), id=run.ids.new())
            run.transcript.append(message)
            run.journal.calls.append(
                msgspec.structs.replace(entry, phase=CallPhase.UNKNOWN, held=None)
            )
            run.journal.note(
                ToolCallDone(
                    id=entry.call_id,
                    message_id=message.id or "",
                    result=told,
                    outcome=told.status.outcome,
                )
            )
    if any(isinstance(envelope.event, StepEnd) for envelope in refused.events):
        run.journal.note(StepEnd())


async def _tell_lost(run: LiveRun, failure: StorageError) -> None:
    """Nothing durable can be said any more: listeners are told, recovery closes the record."""
    if run.in_step or run.journal.holds(StepEnd):
        await run.journal.tell(StepEnd())
    await run.journal.tell(Error(message=str(failure), code="storage"))


def _as_loop_error(error: Exception) -> AgentLoopError:
    if isinstance(error, AgentLoopError):
        return error
    if isinstance(error, StateError):
        return PhaseError(error)
    return RuntimeFailed(error)
