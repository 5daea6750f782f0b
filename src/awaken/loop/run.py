"""The whole run on one screen."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from awaken.contract.backend import BackendRootRunRequest
from awaken.contract.start import PreparedRun
from awaken.control.cancel import first_of, interruptible, is_ours
from awaken.control.inbox import InboxClosed, InboxReceiver
from awaken.domain.event import AgentEvent, RunStart
from awaken.domain.identity import RunOrigin
from awaken.domain.lifecycle import (
    AWAITING_TASKS,
    CANCELLED,
    NATURAL_END,
    SUSPENDED,
    SUSPENDED_END,
    Blocked,
    Failed,
    Suspended,
    TerminationReason,
)
from awaken.domain.message import Role
from awaken.domain.phase import Phase
from awaken.domain.result import AgentRunResult
from awaken.errors import (
    AgentLoopError,
    Cancelled,
    PhaseError,
    RunLeft,
    RuntimeFailed,
    StateError,
)
from awaken.loop.answer import check_answer
from awaken.loop.end import break_off, finish, finish_event, tear_down
from awaken.loop.inbox import read_inbox
from awaken.loop.live import LiveRun
from awaken.loop.recover import abandon, count_unanswered, take_up
from awaken.loop.resume import (
    detect_and_replay_resume,
    suspended_calls,
    take_expired,
    wait_for_decisions,
)
from awaken.loop.save import check_termination, complete_step, persist_checkpoint
from awaken.loop.spending import not_counted
from awaken.loop.step import Outcome, step, switch_agent
from awaken.phase.engine import PhaseRuntime
from awaken.plugin.agent import ResolvedAgent
from awaken.state.call_keys import TOOL_CALL_STATES
from awaken.state.runtime_keys import (
    PENDING_WORK,
    RUN_LIFECYCLE,
    SetPending,
    SetRunning,
    SetWaiting,
    Start,
)
from awaken.state.store import UnknownKeyPolicy


async def run_agent_loop(
    agent: ResolvedAgent, phases: PhaseRuntime, request: BackendRootRunRequest, start: PreparedRun
) -> AgentRunResult:
    """Drive one run from its first phase to its last commit.

    Raises:
        AgentLoopError: the run broke off; its events and its record say so too.
        RunLeft: the run is left open for another process.
    """
    run = LiveRun(agent, phases, request, start)
    run.begin(asyncio.current_task())
    if run.budget is not None:
        run.budget.begin()
    try:
        end = await _begin(run, start, is_continuation=request.is_continuation)
        if end is None and _waits_for_work(run):
            end = await _next(run, Outcome.NATURAL_END)
        while end is None:
            end = await _next(run, await step(run))
        return await finish(run, end)
    except RunLeft:
        raise
    except BaseException as error:
        if is_ours(error):
            # In a coroutine that is being closed nothing can be awaited.
            if not isinstance(error, GeneratorExit):
                await tear_down(run)
            raise
        failure = _as_loop_error(error)
        await break_off(run, Failed(value=str(failure)), failure)
        if failure is error or isinstance(error, KeyboardInterrupt | SystemExit):
            raise  # user code's own never come so far: these are for the process
        raise failure from error
    finally:
        if run.budget is not None:
            run.budget.pause()


# -- beginning --------------------------------------------------------------------------------


async def _begin(
    run: LiveRun, start: PreparedRun, *, is_continuation: bool
) -> TerminationReason | None:
    """Open the run, carry out answers it was given, and run its first phase."""
    is_new = run.record is None
    _open_state(run, start, is_continuation)
    await persist_checkpoint(run)
    try:
        if not is_new or run.state.read(TOOL_CALL_STATES) is not None:
            if end := await _settle_the_past(run):
                return end
            if suspended_calls(run.state):
                return await _suspend(run)
        elif end := _closed(run):
            return end
        run.check_token()
        run.transcript.extend(read_inbox(run))  # what came while calls were carried out
        if refusal := switch_agent(run):
            return refusal
        if run.is_busy(Phase.RUN_START):
            await run.phase(Phase.RUN_START)
        run.check_token()
    except Cancelled:
        if run.in_step:
            await complete_step(run)
        return CANCELLED
    return check_termination(run.state)


def _open_state(run: LiveRun, start: PreparedRun, is_continuation: bool) -> None:
    """Start or continue the lifecycle, activate the plugins, and note the run's first event."""
    now, env = run.clock.now_ms(), run.agent.env
    if not run.state.shares(env.keys):
        run.state.register_keys(env.keys.values())
    if is_continuation:
        run.state.update(RUN_LIFECYCLE, SetRunning(updated_at=now))
        _forget_work(run)
    else:
        run.state.update(RUN_LIFECYCLE, Start(run_id=run.identity.run_id, updated_at=now))
    _note_start(run, start.first.events)
    env.activate(run.state, run.agent.spec)
    if start.first.state_seed is not None:
        run.state.apply_seed(start.first.state_seed, UnknownKeyPolicy.ERROR)
    if run.reservation is not None:
        log = start.thread.log
        count_unanswered(run, log[-1] if log else None)


async def _settle_the_past(run: LiveRun) -> TerminationReason | None:
    """Finish the step that was cut short, and carry out answers that have arrived.

    Returns how the run ends, if it does.
    """
    if end := await _finish_turn(run):
        return end
    await take_expired(run)
    if blocked := await detect_and_replay_resume(run):
        return Blocked(value=blocked)
    run.check_token()
    return None


async def _finish_turn(run: LiveRun) -> TerminationReason | None:
    """Finish the step that was cut short. Returns how the run ends, if it does: an abandoned run is
    only ended."""
    if run.record is not None and run.record.is_abandoned and not run.is_cancelled():
        return await abandon(run)
    if turn := await take_up(run):
        await complete_step(run)
        await _persist_or_leave(run)
        if turn.blocked is not None:
            return Blocked(value=turn.blocked)
    return _closed(run)


def _forget_work(run: LiveRun) -> None:
    """Clear the pending work of an earlier activation.

    A plugin that still has work says so again at the end of the step. A plugin that does not say so
    has none left, or the active agent does not use it.
    """
    work = run.state.read(PENDING_WORK)
    for owner in work.owners if work is not None else ():
        run.state.update(PENDING_WORK, SetPending(pending=False, owner=owner))


def _note_start(run: LiveRun, events: Sequence[AgentEvent] = ()) -> None:
    """Note the start of the run or its continuation, and the events that come with it."""
    identity = run.identity
    run.journal.note(
        RunStart(
            thread_id=identity.thread_id,
            run_id=identity.run_id,
            parent_run_id=identity.parent_run_id,
            identity=identity,
        )
    )
    for event in events:
        run.journal.note(event)


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
    end = check_termination(run.state)
    if end is None and outcome is Outcome.NATURAL_END and not arrived:
        end = await _natural_end(run)
    if end is None:
        await (_persist_or_leave(run) if run.is_left() else persist_checkpoint(run))
    return end


async def _persist_or_leave(run: LiveRun) -> None:
    """Commit the end of a step; a run that is to be left stops here.

    Raises:
        RunLeft: another process continues the run.
    """
    leaves = run.is_left()
    await persist_checkpoint(run, release=leaves)
    if leaves:
        raise RunLeft(run.identity.run_id)


def _closed(run: LiveRun) -> TerminationReason | None:
    """How the run ends, if a hook or a tool has ended it."""
    end = check_termination(run.state)
    return None if isinstance(end, Suspended) else end


async def _natural_end(run: LiveRun) -> TerminationReason | None:
    """How the run ends after the model's final answer; `None` if it goes on with news."""
    work = run.state.read(PENDING_WORK)
    if work is None or not work.has_pending:
        return None if work is not None and await _has_late_news(run) else check_answer(run)
    if run.identity.origin is RunOrigin.SUBAGENT and run.inbox is not None:
        await _persist_or_leave(run)
        if not await _is_told(run, run.inbox):
            return CANCELLED
        run.transcript.extend(read_inbox(run))
        return None
    _wait(run, AWAITING_TASKS)
    return NATURAL_END


async def _has_late_news(run: LiveRun) -> bool:
    """Read the news of a task that is recorded as ended; its message may still be on its way."""
    if run.controls.look is None:
        return False
    await run.controls.look()
    arrived = read_inbox(run)
    run.transcript.extend(arrived)
    return bool(arrived)


def _waits_for_work(run: LiveRun) -> bool:
    """Whether a resumed delegate had given its answer and waited for work it started: its model is
    not called again before there is news to read."""
    if run.identity.origin is not RunOrigin.SUBAGENT:
        return False
    work, said = run.state.read(PENDING_WORK), run.transcript.view()
    is_pending = work is not None and work.has_pending
    has_news = run.inbox is not None and len(run.inbox) > 0
    if not (is_pending or has_news):
        return False
    last = said[-1] if said else None
    return (
        last is not None
        and last.role is Role.ASSISTANT
        and not last.tool_calls
        and last.produced_by_run_id() == run.identity.run_id
    )


async def _is_told(run: LiveRun, inbox: InboxReceiver) -> bool:
    """Wait for a message, or until the run is to be left. Returns false if it is cancelled."""
    try:
        with interruptible(run.token):
            left = () if run.controls.leave is None else (run.controls.leave.cancelled(),)
            await first_of(inbox.ready(), *left)
    except (Cancelled, InboxClosed):
        return False
    return True


def _wait(run: LiveRun, reason: str) -> None:
    run.state.update(RUN_LIFECYCLE, SetWaiting(reason=reason, updated_at=run.clock.now_ms()))


async def _suspend(run: LiveRun) -> TerminationReason | None:
    """Wait for decisions and carry them out; if none can come, end as suspended."""
    while True:
        _wait(run, SUSPENDED)
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
        if not suspended_calls(run.state):
            run.transcript.extend(read_inbox(run))
            if run.has_news():
                await persist_checkpoint(run)
            return check_termination(run.state)


def _as_loop_error(error: BaseException) -> AgentLoopError:
    if isinstance(error, AgentLoopError):
        return error
    if isinstance(error, StateError):
        return PhaseError(error)
    return RuntimeFailed(error)
