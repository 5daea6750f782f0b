"""One run from beginning to end: its first phase, its steps, and the commits between them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from awaken.core.agent_services import ToolSource
from awaken.core.aio.cancel import interruptible, is_cancellation, wait_first
from awaken.core.deps import RunInfo
from awaken.core.event import AgentEvent, RunStart
from awaken.core.identity import RunOrigin
from awaken.core.inbox import InboxClosed, InboxReceiver
from awaken.core.lifecycle import (
    AWAITING_TASKS,
    CANCELLED,
    NATURAL_END,
    SUSPENDED,
    SUSPENDED_END,
    Blocked,
    Failed,
    Phase,
    StartCause,
    Suspended,
    TerminationReason,
)
from awaken.core.message import Role
from awaken.core.run import AgentRunResult
from awaken.core.state.call_keys import TOOL_CALL_STATES
from awaken.core.state.run_keys import (
    PENDING_WORK,
    RUN_LIFECYCLE,
    SetPending,
    SetRunning,
    SetWaiting,
    Start,
)
from awaken.core.state.store import UnknownKeyPolicy
from awaken.engine.checkpoint import check_termination, complete_step, persist_checkpoint
from awaken.engine.crash_recovery import abandon, count_unanswered, recover_step
from awaken.engine.finish import fail_run, finish, finish_event, stop_run
from awaken.engine.large_content import keep_large, restore_blob_state
from awaken.engine.live_run import LiveRun
from awaken.engine.output_check import check_answer
from awaken.engine.phases import PhaseRuntime
from awaken.engine.run_setup import RunSetup
from awaken.engine.spending import not_counted
from awaken.engine.step import Outcome, may_switch, step, switch_agent
from awaken.engine.suspension import (
    detect_and_replay_resume,
    list_suspended_calls,
    take_expired,
    wait_for_decisions,
)
from awaken.errors import (
    AgentLoopError,
    Cancelled,
    PhaseError,
    RunLeft,
    RuntimeFailed,
    StateError,
)
from awaken.plugin.resolved_agent import ResolvedAgent

# Module constants, because on Python 3.11 reading an enum member costs as much as a function call.
_RUN_START = Phase.RUN_START
_ANSWERED, _PAUSED = Outcome.NATURAL_END, Outcome.SUSPENDED
_NEW = StartCause.NEW


async def run_agent_loop(
    agent: ResolvedAgent, phases: PhaseRuntime, setup: RunSetup
) -> AgentRunResult:
    """Run one activation of an agent, from its first phase to its last commit. `phases` has the
    run's restored state.

    Raises:
        AgentLoopError: the run failed. Its record and its last event say so too, unless the store
            could not take them.
        RunLeft: this process stopped early, and another one will continue the run.
    """
    if ToolSource in agent.env.services:
        agent = await _with_tools_of_run(agent, setup)
    run = LiveRun(agent, phases, setup)
    run.begin(asyncio.current_task())
    account = setup.controls.budget
    if account is not None:
        account.begin()
    try:
        end = await _begin(run)
        if end is None and _waits_for_work(run):
            end = await _next(run, _ANSWERED)
        while end is None:
            end = await _next(run, await step(run))
        return await finish(run, end)
    except RunLeft:
        raise
    except BaseException as error:
        if is_cancellation(error):
            # `GeneratorExit` means that the coroutine is being closed: it cannot await any more.
            if not isinstance(error, GeneratorExit):
                await stop_run(run)
            raise
        failure = _as_loop_error(error)
        await fail_run(run, Failed(value=str(failure)), failure)
        if failure is error or isinstance(error, KeyboardInterrupt | SystemExit):
            raise  # hooks and tools never raise these two this far: they are for the process
        raise failure from error
    finally:
        run.forget_references()
        if account is not None:
            account.pause()


# -- beginning --------------------------------------------------------------------------------


async def _with_tools_of_run(agent: ResolvedAgent, setup: RunSetup) -> ResolvedAgent:
    """The agent with the tools that it has in this run only. A run that was cancelled or abandoned
    only has to be ended, for which it needs none.

    Raises:
        ResolveFailed, ToolIdConflict: they cannot be had; nothing was written.
    """
    identity, previous = setup.identity, setup.thread.previous
    if previous is not None and previous.is_abandoned:
        return agent
    info = RunInfo.of(
        agent.spec.id, identity.thread_id, identity.run_id, setup.first_commit.request
    )
    try:
        with interruptible(setup.controls.cancellation_token, asyncio.current_task()):
            return await agent.with_offered(info)
    except Cancelled:
        return agent


async def _begin(run: LiveRun) -> TerminationReason | None:
    """Open the run, carry out the answers to its suspended calls, and run its first phase.

    Returns how the run ends, or `None` if it goes on with a step.
    """
    is_new = run.record is None
    _open_state(run)
    await persist_checkpoint(run)
    try:
        if not is_new or run.state.read(TOOL_CALL_STATES) is not None:
            if end := await _recover_open_step(run):
                return end
            if list_suspended_calls(run.state):
                return await _suspend(run)
        elif end := _find_end(run):
            return end
        run.check_token()
        run.transcript.extend(
            run.read_inbox()
        )  # messages that arrived while calls were carried out
        if run.transcript.has_large:
            await keep_large(run)  # the model is shown what the next commit will log
        if may_switch(run) and (refusal := await switch_agent(run)):
            return refusal
        if run.is_busy(_RUN_START):
            await run.phase(_RUN_START)
        run.check_token()
    except Cancelled:
        if run.in_step:
            await complete_step(run)
        return CANCELLED
    return check_termination(run.state)


def _open_state(run: LiveRun) -> None:
    """Start or continue the lifecycle, activate the plugins, and queue the run's first event."""
    now, env, setup = run.clock.now_ms(), run.agent.env, run.setup
    if not run.state.shares(env.keys):
        run.state.register_keys(env.keys.values())
    if setup.is_continuation:
        run.state.update(RUN_LIFECYCLE, SetRunning(updated_at=now))
        _forget_work(run)
    else:
        run.state.update(RUN_LIFECYCLE, Start(run_id=run.identity.run_id, updated_at=now))
    _note_start(run, setup.first_commit.events)
    if run.blobs is not None:
        restore_blob_state(run)
    env.activate(run.state, run.agent.spec)
    if setup.first_commit.state_seed is not None:
        run.state.apply_seed(setup.first_commit.state_seed, UnknownKeyPolicy.ERROR)
    if run.reservation is not None:
        log = setup.thread.log
        count_unanswered(run, log[-1] if log else None)


async def _recover_open_step(run: LiveRun) -> TerminationReason | None:
    """Finish the step that a crash cut short, and carry out the answers to suspended calls.

    Returns how the run ends, or `None` if it goes on.
    """
    if end := await _finish_open_step(run):
        return end
    await take_expired(run)
    if blocked := await detect_and_replay_resume(run):
        return Blocked(value=blocked)
    run.check_token()
    return None


async def _finish_open_step(run: LiveRun) -> TerminationReason | None:
    """Finish the step that a crash cut short, or give the run up if too many processes died with
    it. Returns how the run ends, or `None` if it goes on."""
    if run.record is not None and run.record.is_abandoned and not run.is_cancelled():
        return await abandon(run)
    if step := await recover_step(run):
        await complete_step(run)
        await _persist_or_leave(run)
        if step.blocked is not None:
            return Blocked(value=step.blocked)
    return _find_end(run)


def _forget_work(run: LiveRun) -> None:
    """Clear the pending work of the run's earlier activation.

    A plugin whose work is still under way reports it again at the end of the next step. A plugin
    that does not has no work left, or does not belong to the agent that continues the run.
    """
    work = run.state.read(PENDING_WORK)
    for owner in work.owners if work is not None else ():
        run.state.update(PENDING_WORK, SetPending(pending=False, owner=owner))


def _note_start(run: LiveRun, events: Sequence[AgentEvent] = ()) -> None:
    """Queue the `RunStart` event, and `events` behind it, for the next commit."""
    identity = run.identity
    run.journal.note(
        RunStart(
            thread_id=identity.thread_id,
            run_id=identity.run_id,
            parent_run_id=identity.parent_run_id,
            identity=identity,
            cause=_NEW if run.record is None else run.record.next_cause,
        )
    )
    for event in events:
        run.journal.note(event)


# -- between steps ----------------------------------------------------------------------------


async def _next(run: LiveRun, outcome: Outcome | TerminationReason) -> TerminationReason | None:
    """Close the step, and commit it if the run goes on. Returns how the run ends, or `None`."""
    if outcome is _PAUSED:
        _set_waiting(run, SUSPENDED)
    if run.in_step:
        await complete_step(run)
    if outcome is _PAUSED:
        return _find_end(run) or await _suspend(run)
    if not isinstance(outcome, Outcome):
        return outcome
    arrived = run.read_inbox()
    if arrived:
        run.transcript.extend(arrived)
    end = check_termination(run.state)
    if end is None and outcome is _ANSWERED and not arrived:
        end = await _after_final_answer(run)
    if end is None:
        await (_persist_or_leave(run) if run.is_left() else persist_checkpoint(run))
    return end


async def _persist_or_leave(run: LiveRun) -> None:
    """Commit the end of a step. If this process is to leave the run, release the thread too.

    Raises:
        RunLeft: another process will continue the run.
    """
    leaves = run.is_left()
    await persist_checkpoint(run, release=leaves)
    if leaves:
        raise RunLeft(run.identity.run_id)


def _find_end(run: LiveRun) -> TerminationReason | None:
    """How the run ends if a hook or a tool has ended it, else `None`. A suspension is no end."""
    end = check_termination(run.state)
    return None if isinstance(end, Suspended) else end


async def _after_final_answer(run: LiveRun) -> TerminationReason | None:
    """What follows a final answer: the end of the run, a wait for the work that it started, or
    (`None`) another model call."""
    work = run.state.read(PENDING_WORK)
    if work is None:
        return await check_answer(run)
    if not work.has_pending:  # its task may be recorded as ended before its message has arrived
        return None if await _poll_inbox_once_more(run) else await check_answer(run)
    if run.inbox is None or run.identity.origin is not RunOrigin.SUBAGENT:
        _set_waiting(run, AWAITING_TASKS)  # recovery resumes it
        return NATURAL_END
    await _persist_or_leave(run)  # a subagent waits here: its parent's call is open
    return None if await _wait_and_read_inbox(run, run.inbox) else CANCELLED


async def _poll_inbox_once_more(run: LiveRun) -> bool:
    """Read the commands in the store and then the inbox. Returns whether there was a message."""
    if run.controls.look is None:
        return False
    await run.controls.look()
    arrived = run.read_inbox()
    run.transcript.extend(arrived)
    return bool(arrived)


def _waits_for_work(run: LiveRun) -> bool:
    """Whether a subagent's run, continued by this process, had given a final answer and waited for
    work it started. Such a run reads the news of that work before its model is asked again."""
    if run.identity.origin is not RunOrigin.SUBAGENT:
        return False
    work, said = run.state.read(PENDING_WORK), run.transcript.view()
    is_pending = work is not None and work.has_pending
    has_pending = run.inbox is not None and len(run.inbox) > 0
    if not (is_pending or has_pending):
        return False
    last = said[-1] if said else None
    return (
        last is not None
        and last.role is Role.ASSISTANT
        and not last.tool_calls
        and last.produced_by_run_id() == run.identity.run_id
    )


async def _wait_and_read_inbox(run: LiveRun, inbox: InboxReceiver) -> bool:
    """Wait until the inbox has a message, or this process is to leave the run, and read the inbox.
    Returns false if the run is cancelled or the inbox is closed."""
    try:
        with interruptible(run.token):
            left = () if run.controls.leave is None else (run.controls.leave.cancelled(),)
            await wait_first(inbox.ready(), *left)
    except (Cancelled, InboxClosed):
        return False
    run.transcript.extend(run.read_inbox())
    return True


def _set_waiting(run: LiveRun, reason: str) -> None:
    run.state.update(RUN_LIFECYCLE, SetWaiting(reason=reason, updated_at=run.clock.now_ms()))


async def _suspend(run: LiveRun) -> TerminationReason | None:
    """Wait until all suspended calls are decided, and carry the decisions out.

    Returns how the run ends, or `None` if it goes on. A run without a queue that waits for
    decisions ends as suspended.
    """
    while True:
        _set_waiting(run, SUSPENDED)
        if run.controls.decision_rx is None or not (
            run.controls.decision_rx.waits or len(run.controls.decision_rx)
        ):
            return SUSPENDED_END
        finish = finish_event(run, SUSPENDED_END, None)
        await persist_checkpoint(run, termination=SUSPENDED_END, finish=finish)
        try:
            with not_counted(run):
                if not await wait_for_decisions(run):
                    return SUSPENDED_END
            run.state.update(RUN_LIFECYCLE, SetRunning(updated_at=run.clock.now_ms()))
            _note_start(run)
            await persist_checkpoint(run)
            if blocked := await detect_and_replay_resume(run):
                return Blocked(value=blocked)
        except Cancelled:
            return CANCELLED
        if not list_suspended_calls(run.state):
            run.transcript.extend(run.read_inbox())
            if run.has_pending():
                await persist_checkpoint(run)
            return check_termination(run.state)


def _as_loop_error(error: BaseException) -> AgentLoopError:
    if isinstance(error, AgentLoopError):
        return error
    if isinstance(error, StateError):
        return PhaseError(error)
    return RuntimeFailed(error)
