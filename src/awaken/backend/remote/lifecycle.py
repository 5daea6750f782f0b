"""A run of an agent that is elsewhere, from its record to its end.

What happens on the other side is the backend's; what is durable of it is here. The run is on record
before the backend is asked, so that whoever finds it after a crash can go on with it or stop it.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from awaken.backend.local import read_start
from awaken.backend.remote.keep import remote_backend_error_message
from awaken.backend.remote.run import RemoteRun
from awaken.budget.account import Account
from awaken.codec import clean_text
from awaken.contract.backend import (
    BackendAbortRequest,
    BackendAgentNotFound,
    BackendLoopError,
    BackendRootRunRequest,
    BackendRunResult,
    BackendRunStatus,
    ExecutionBackendError,
    ExecutionFailed,
)
from awaken.contract.start import PreparedRun, RunServices
from awaken.control.cancel import CancellationToken, interruptible, is_ours
from awaken.domain.budget import Amount
from awaken.domain.event import (
    InferenceComplete,
)
from awaken.domain.lifecycle import (
    CANCELLED,
    BehaviorRequested,
    NaturalEnd,
)
from awaken.domain.recovery import ABANDONED, MOST_TAKEOVERS
from awaken.domain.result import AgentRunResult
from awaken.domain.run import (
    PersistedState,
)
from awaken.errors import (
    BudgetExhausted,
    ResolveFailed,
    RunLeft,
    RuntimeFailed,
    StorageError,
    StoreError,
)
from awaken.plugin.agent import ResolvedBackendAgent

log = logging.getLogger("awaken.backend")
_replace = msgspec.structs.replace

_FOR_EVER = 10.0**8
_NOT_ASKED = (BackendAgentNotFound, ExecutionFailed, BackendLoopError)
"""How a backend says that nothing was begun elsewhere."""
CUT_SHORT = (
    "the process ended while the agent ran elsewhere, and its backend cannot go on with such a "
    "run: it is unknown what it did"
)


async def execute_remote_root_lifecycle(
    agent: ResolvedBackendAgent,
    request: BackendRootRunRequest,
    run_created_at: int,
    runtime_cancellation_token: CancellationToken,
    previous_state: PersistedState | None = None,
    *,
    start: PreparedRun | None = None,
) -> AgentRunResult:
    """Run an agent elsewhere, and keep what becomes of it.

    Args:
        run_created_at: milliseconds.
        runtime_cancellation_token: ends the run, whatever its backend can do about it.
        previous_state: what is known of the run, or of the agent's last one in the thread.
        start: what the caller has prepared; without it, the thread is read here.

    Raises:
        RuntimeFailed: there is no such backend; nothing was said or written.
        StorageError: the record could not be kept.
        RunLeft: it is to be carried on elsewhere.
    """
    try:
        agent.backend()
    except ExecutionBackendError as error:
        raise RuntimeFailed(ResolveFailed(str(error))) from error
    start = start or await _read(request)
    run = RemoteRun(agent, request, start, run_created_at, previous_state)
    try:
        if start.controls.denied is not None and not runtime_cancellation_token.is_cancelled():
            await run.begin()
            return await _stopped(run, start.controls.denied)
        return await _within_budget(run, runtime_cancellation_token)
    except StorageError as error:
        await run.tell_lost(error)
        raise


async def close_cut_short(
    agent: ResolvedBackendAgent,
    request: BackendRootRunRequest,
    run_created_at: int,
    start: PreparedRun,
) -> AgentRunResult:
    """End, as failed, a run whose process is gone and whose backend cannot go on with it.

    Raises:
        StorageError: its end could not be kept.
    """
    run = RemoteRun(agent, request, start, run_created_at, request.persisted_state)
    try:
        await run.begin()
        return await run.fail(CUT_SHORT, await _end_there(run))
    except StorageError as error:
        await run.tell_lost(error)
        raise


async def abandon(
    agent: ResolvedBackendAgent,
    request: BackendRootRunRequest,
    run_created_at: int,
    start: PreparedRun,
) -> AgentRunResult:
    """End, as failed, a run with which one process after another died.

    Its backend is told to stop the work there, but only once: that may be what kills a process.

    Raises:
        StorageError: its end could not be kept.
    """
    takeovers = start.thread.previous.takeovers if start.thread.previous is not None else None
    assert takeovers is not None, "only runs that were taken over are abandoned"
    log.error("run %s is %s", request.run_identity.run_id, ABANDONED)
    run = RemoteRun(agent, request, start, run_created_at, request.persisted_state)
    try:
        await run.begin()
        left: str | None = run.left_because("the process died that was to stop it")
        if takeovers.times == MOST_TAKEOVERS + takeovers.levels + 1:
            left = await _end_there(run, after="it was abandoned")
        return await run.fail(ABANDONED, left)
    except StorageError as error:
        await run.tell_lost(error)
        raise


async def _read(request: BackendRootRunRequest) -> PreparedRun:
    """The thread, and the run if there is one, whether or not it is the thread's latest."""
    store, run_id = request.checkpoint_store, request.run_identity.run_id
    try:
        start = await read_start(request, RunServices(resolver=request.resolver))
        known = await store.load_run(run_id) if store and start.thread.previous is None else None
    except StoreError as error:
        raise StorageError(error) from error
    if known is not None:
        output = known.output and _replace(known.output, message_ids=())
        start.thread.previous = _replace(known, state=None, output=output)
    return start


# -- carrying it out --------------------------------------------------------------------------


async def _within_budget(run: RemoteRun, token: CancellationToken) -> AgentRunResult:
    """Carry the run out, unless it may use up no more; one whose time is up is stopped.

    What it takes on the other side is not known before it has answered: it counts as one step, and
    by its time. The step is on record before the backend is asked; a process that goes on with what
    another has asked for takes no other one.
    """
    account = run.controls.budget
    if account is None or token.is_cancelled():
        await run.begin()
        return await _carried_out(run, token, None)
    account.begin()
    try:
        try:
            await _take_a_step(account, run.identity.run_id, 0 if run.was_asked else 1)
        finally:
            await run.begin()
        time_is_up = CancellationToken()
        timer = _ring_after(_time_left(account), time_is_up)
        try:
            return await _carried_out(run, token, time_is_up)
        finally:
            timer.cancel()
    except BudgetExhausted as error:
        if error.asks and run.store is not None:
            return await run.ask_for_more(error)
        return await _stopped(run, str(error))
    finally:
        account.pause()


async def _take_a_step(account: Account, run_id: str, steps: int) -> None:
    """
    Raises:
        BudgetExhausted: there is none left.
        StorageError: nobody knows what other processes have used up.
    """
    try:
        while (reserved := await account.reserve_shared(run_id, Amount(steps=steps))) is None:
            pass  # others have set something aside meanwhile
    except StoreError as error:
        raise StorageError(error) from error
    reserved.settle(Amount(steps=steps))


def _time_left(account: Account) -> float | None:
    """In how many seconds the run is to be cut short.

    Work elsewhere cannot wait in the middle: whoever is to be asked is asked before the next turn.
    """
    limits = [(one.limit("seconds"), one) for one in account.chain()]
    return min(
        (
            limit - one.spent.seconds
            for limit, one in limits
            if limit is not None and one.budget.at_limit == "stop"
        ),
        default=None,
    )


def _ring_after(seconds: float | None, token: CancellationToken) -> asyncio.TimerHandle:
    limit = _FOR_EVER if seconds is None else max(0.0, seconds)
    return asyncio.get_running_loop().call_later(limit, token.cancel)


async def _carried_out(
    run: RemoteRun, token: CancellationToken, time_is_up: CancellationToken | None
) -> AgentRunResult:
    started, leave = run.clock.now_ms(), run.controls.leave
    if not run.abilities.continuation.is_possible:
        # Nobody could go on with it: it is given the time that is left to end by itself.
        leave = None
    try:
        # Whoever wants the run to stop cuts the backend short and waits until it has ended.
        with interruptible(leave), interruptible(time_is_up), interruptible(token):
            result = await run.execute()
    except RunLeft:
        raise
    except BaseException as error:
        if is_ours(error):
            if isinstance(error, GeneratorExit):
                raise  # the coroutine is being closed: nothing can be awaited
            if token.is_cancelled() or not _is_cancelled(run.controls.leave):
                await _cancelled(run, token)
            raise
        if isinstance(error, asyncio.CancelledError):
            return await _failed(run, error)
        # What a backend raises while it is cut short is no news.
        if token.is_cancelled():
            return await _cancelled(run, token)
        if _is_cancelled(leave):
            raise RunLeft(run.identity.run_id) from error
        if _is_cancelled(time_is_up):
            return await _stopped(run, "its time is used up")
        return await _failed(run, error)
    return await _answered(run, result, started)


def _is_cancelled(token: CancellationToken | None) -> bool:
    return token is not None and token.is_cancelled()


async def _answered(run: RemoteRun, result: BackendRunResult, started: int) -> AgentRunResult:
    _count(run, result)
    try:
        return await _keep_answer(run, result, started)
    except StorageError as error:
        if run.journal.forgive(error) is None:
            raise
        refused: Exception = error
    except Exception as error:
        refused = error
    log.error("an answer of agent %r was refused", run.identity.agent_id, exc_info=refused)
    why = remote_backend_error_message(refused)
    left = await _end_there(run) if result.status.is_waiting else result.left_running
    return await run.fail(f"what the agent answered cannot be kept: {why}", left)


def _count(run: RemoteRun, result: BackendRunResult) -> None:
    """Count what the other side says that it has used up, beyond the one step that is counted."""
    account, known = run.controls.budget, result.spending
    if account is not None and known is not None:
        more = known.spent.beyond(Amount(steps=1)).without_time()
        account.use(run.identity.run_id, more)


async def _keep_answer(run: RemoteRun, result: BackendRunResult, started: int) -> AgentRunResult:
    output = result.output
    response = clean_text(output.text_or(result.response) or "")
    if response or output.text is not None:
        output = _replace(output, text=response)
    if response:
        await run.say(response)
    if isinstance(result.termination, NaturalEnd | BehaviorRequested):
        run.journal.note(
            InferenceComplete(
                model=run.agent.spec.model_id,
                duration_ms=max(0, run.clock.now_ms() - started),
            )
        )
    return await run.finish(
        result.status,
        result.termination,
        status_reason=result.status_reason,
        steps=result.steps,
        output=output,
        state=result.state or run.known_state(run.previous_state),
        left_running=result.left_running,
    )


# -- what does not end by itself --------------------------------------------------------------


async def _failed(run: RemoteRun, error: BaseException) -> AgentRunResult:
    if not isinstance(error, ExecutionBackendError):
        log.error("backend of agent %r failed", run.identity.agent_id, exc_info=error)
    # A run nothing more can be kept of stays open: whoever finds it sees to its work.
    await run.journal.settled()
    left = await _end_there(run, after="failure") if _may_go_on(run, error) else None
    return await run.fail(remote_backend_error_message(error), left)


def _may_go_on(run: RemoteRun, error: BaseException) -> bool:
    """Whether something may be at work on the other side though its backend broke off."""
    if isinstance(error, ExecutionBackendError) and error.is_over:
        return False
    return run.has_saved or run.request.is_continuation or not isinstance(error, _NOT_ASKED)


async def _stopped(run: RemoteRun, why: str) -> AgentRunResult:
    """End a run that may use up no more."""
    left = await _end_there(run, after="its budget was used up") if run.may_be_at_work else None
    return await run.stop(why, left)


async def _cancelled(run: RemoteRun, token: CancellationToken) -> AgentRunResult:
    latest = await run.latest_state()
    left: str | None = run.left_because("there was no time to wait for its end")
    try:
        left = await _end_there(run, told=token.is_cancelled())
    finally:
        # Also if there is no time left to wait for the other side.
        status = BackendRunStatus.cancelled()
        result = await run.finish(status, CANCELLED, state=latest, left_running=left)
    return result


async def _end_there(
    run: RemoteRun, *, told: bool = False, after: str = "cancellation"
) -> str | None:
    """End the work on the other side; returns what may be left of it, if that is not certain.

    `told` says that the run's token was cancelled, by which some backends end.
    """
    can = run.abilities.cancellation
    if not can.supports_remote_abort:
        if not run.may_be_at_work or (told and can.supports_cooperative_token):
            return None
        return run.left_because("its backend cannot stop it")
    try:
        await run.backend.abort(
            BackendAbortRequest(
                agent_id=run.identity.agent_id,
                run_identity=run.identity,
                persisted_state=await run.latest_state(),
                is_continuation=run.request.is_continuation,
            )
        )
    except Exception as error:
        log.warning(
            "non-local backend abort hook failed after %s (agent %s, run %s): %s",
            after,
            run.identity.agent_id,
            run.identity.run_id,
            error,
        )
        return run.left_because(f"it could not be stopped: {remote_backend_error_message(error)}")
    return None
