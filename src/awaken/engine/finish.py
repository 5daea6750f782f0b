"""Ending a run, whether it finished or failed: close its lifecycle, run its last phase, commit."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Coroutine
from typing import Any

import msgspec

from awaken.codec import Json
from awaken.core.aio.cancel import is_cancellation
from awaken.core.event import Error, RunFinish, StepEnd, ToolCallDone
from awaken.core.inference import TokenUsage
from awaken.core.lifecycle import (
    AWAITING_TASKS,
    CANCELLED,
    NATURAL_END,
    Failed,
    Phase,
    RunStatus,
    Suspended,
    TerminationReason,
    to_run_status,
)
from awaken.core.message import Message
from awaken.core.run import AgentRunResult
from awaken.core.state.run_keys import EMPTY_TWICE, RUN_LIFECYCLE, Done, RunLifecycleState
from awaken.core.store.commands import CommandKind
from awaken.core.store.commits import CallPhase, ThreadCommit
from awaken.core.tool import error_payload_of
from awaken.engine.call_results import unknown_outcome
from awaken.engine.checkpoint import (
    check_termination,
    complete_step,
    persist_checkpoint,
    waiting_tickets_from_store,
)
from awaken.engine.inference import drop_announced_calls
from awaken.engine.live_run import LiveRun
from awaken.engine.spending import release_all
from awaken.engine.suspension import cancel_open_calls, list_open_calls
from awaken.errors import AgentLoopError, InvalidResume, KeyEncode, Serialization, StorageError

log = logging.getLogger("awaken.loop")
# Module constants, because on Python 3.11 reading an enum member costs as much as a function call.
_RUN_END = Phase.RUN_END
_WAITING, _DONE = RunStatus.WAITING, RunStatus.DONE
_WORDS = {status: status.value for status in RunStatus}


async def finish(run: LiveRun, end: TerminationReason) -> AgentRunResult:
    """Close the lifecycle, run the last phase, and commit the end. Returns the run's result."""
    await _close_lifecycle(run, end)
    run.ending = True
    if run.is_busy(_RUN_END):
        await run.phase(_RUN_END, final=True)
    await _commit_end(run, end)
    record, account = run.record, run.controls.budget
    response = (record.final_output if record else None) or run.response
    steps = record.steps if record else 0
    return AgentRunResult(
        run_id=run.identity.run_id,
        agent_id=run.agent.spec.id,
        response=response,
        termination=end,
        steps=steps,
        empty_twice=not response and run.state.read(EMPTY_TWICE) == steps,
        input_tokens=run.input_tokens,
        output_tokens=run.output_tokens,
        **run.usage_totals,
        tickets=record.waiting.tickets if record and record.waiting else (),
        waits=record is not None and record.waiting is not None,
        spent=account.counted_usage if account is not None else None,
    )


async def _close_lifecycle(run: LiveRun, end: TerminationReason) -> None:
    """Close the inbox and set the lifecycle to done.

    A lifecycle that waits is left as it is if the run ends as suspended, or to wait for background
    work.
    """
    _close_inbox(run)
    lifecycle = run.state.read(RUN_LIFECYCLE) or RunLifecycleState()
    awaits_tasks = end == NATURAL_END and lifecycle.status_reason == AWAITING_TASKS
    stays = lifecycle.status is _WAITING and (isinstance(end, Suspended) or awaits_tasks)
    status, reason = to_run_status(end)
    if stays or status is not _DONE:
        return
    if calls := list_open_calls(run.state):
        await cancel_open_calls(run, calls)
    release_all(run)
    if check_termination(run.state) != end:
        run.state.update(
            RUN_LIFECYCLE,
            Done(reason=reason or "", updated_at=run.clock.now_ms(), termination=end),
        )


def _close_inbox(run: LiveRun) -> None:
    """Log the messages that are in the inbox, and close it: later senders are refused."""
    inbox = run.inbox
    if inbox is None:
        return
    try:
        run.transcript.extend(run.read_inbox())
    except InvalidResume as error:
        log.warning("what came into the inbox last was dropped: %s", error)
    run.inbox = None
    inbox.close()


def _commit_end(run: LiveRun, end: TerminationReason) -> Coroutine[Any, Any, None]:
    """Commit the end of the run, and release the thread. The caller awaits the coroutine."""
    lifecycle = run.state.read(RUN_LIFECYCLE) or RunLifecycleState()
    result: dict[str, Json] = {
        "response": run.response,
        "status": _WORDS[lifecycle.status],
    }
    if lifecycle.status_reason is not None:
        result["status_reason"] = lifecycle.status_reason
    payload = error_payload_of(end.value) if isinstance(end, Failed) else None
    finish = finish_event(run, end, result)
    release = run.journal.fence is not None
    return persist_checkpoint(
        run, termination=end, error_payload=payload, finish=finish, release=release
    )


def finish_event(run: LiveRun, end: TerminationReason, result: Json) -> RunFinish:
    return RunFinish(
        thread_id=run.identity.thread_id,
        run_id=run.identity.run_id,
        identity=run.identity,
        result=result,
        termination=end,
        tickets=tuple(waiting_tickets_from_store(run.state)) if isinstance(end, Suspended) else (),
        usage=_usage(run),
        cost=run.usage_totals.get("cost"),
        steps=run.steps,
    )


def _usage(run: LiveRun) -> TokenUsage | None:
    """The tokens of all the run's model calls, or `None` if no provider has reported any."""
    sent, received = run.input_tokens, run.output_tokens
    if not (sent or received):
        return None
    others = {name: count for name, count in run.usage_totals.items() if name != "cost"}
    return TokenUsage(
        prompt_tokens=sent, completion_tokens=received, total_tokens=sent + received, **others
    )


async def fail_run(
    run: LiveRun, end: TerminationReason, failure: AgentLoopError | None = None
) -> None:
    """End a run that has failed: close its step, run its last phase, and commit its end.

    If the store does not take the end, listeners get an `Error` event, and commits that must not
    be lost are kept in memory.
    """
    if isinstance(failure, StorageError):
        refused = run.journal.forgive(failure)
        if refused is None:
            await _emit_storage_error(run, failure)
            return await _keep_outcomes(run)
        _replace_refused_commit(run, refused)
    await drop_announced_calls(run, "the run broke off")
    if run.in_step:
        await _attempt(complete_step(run), "the step's last phase")
    await _close_lifecycle(run, end)
    if not run.ending:
        await _attempt(run.phase(_RUN_END, final=True), "the last phase")
    while True:
        try:
            return await _commit_end(run, end)
        except KeyEncode:
            log.exception("a value was given up, so that the run's end can be committed")
        except StorageError as error:
            log.exception("the end of run %s could not be committed", run.identity.run_id)
            if isinstance(error.cause, Serialization) and run.journal.forgive(error) is not None:
                continue  # without the value that could not be read back
            await _emit_storage_error(run, error)
            return await _keep_outcomes(run)


async def stop_run(run: LiveRun) -> None:
    """End a run whose task was cancelled, unless another process is to continue it. In both cases,
    outcomes of calls that were not committed are kept in memory."""
    try:
        if not run.is_left():
            await fail_run(run, CANCELLED)
    finally:
        await run.journal.stop()
        await _keep_outcomes(run)


async def _attempt(work: Awaitable[None], what: str) -> None:
    """Await a part of the ending of a failed run. A further failure is only logged."""
    try:
        await work
    except BaseException as error:
        if is_cancellation(error):
            raise
        log.exception("%s failed while the run was being ended", what)


def _replace_refused_commit(run: LiveRun, refused: ThreadCommit) -> None:
    """Note what the next commit has to write in place of one that cannot be written.

    The calls that it ended get the result that their outcome is unknown, and a step that it ended
    gets its `StepEnd` again. An answer in it is not the run's answer. The commands that it
    acknowledged are acknowledged all the same, since they would fail the next run as well, and the
    delegates that it cancelled are cancelled all the same.
    """
    run.journal.extras.acks.extend(refused.acks)
    run.journal.extras.sends.extend(
        command for command in refused.sends if command.kind is CommandKind.CANCEL
    )
    last = run.transcript.last
    if last is not None and any(message.id == last.id for message in refused.messages):
        run.transcript.last = None
    ended = {entry.key: entry for entry in refused.calls}.values()
    for entry in ended:
        if entry.phase not in (CallPhase.INTENT, CallPhase.SUSPENDED):
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


async def _keep_outcomes(run: LiveRun) -> None:
    """If the store is away, keep the commits with outcomes of calls in memory, to be made later."""
    if not run.journal.hold():
        return
    log.error(
        "run %s: the store is away; what its calls came to is kept in memory", run.identity.run_id
    )
    if run.has_pending() or run.journal.calls:
        try:
            await persist_checkpoint(run)
        except KeyEncode:
            log.exception("a value of run %s was given up", run.identity.run_id)


async def _emit_storage_error(run: LiveRun, failure: StorageError) -> None:
    """Send listeners the end of the step and an `Error`, without storing them.

    The store cannot take the end of the run; recovery closes the run's record later.
    """
    if run.in_step or run.journal.has_noted(StepEnd):
        await run.journal.send_transient(StepEnd())
    await run.journal.send_transient(Error(message=str(failure), code="storage"))
