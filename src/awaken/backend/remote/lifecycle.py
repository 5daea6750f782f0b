"""Remote runs from their first commit to their end.

The backend does the work; this module commits the run's record, state and answer. The record is
committed before the backend is called, so that after a crash another process can continue the run
or stop it.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from awaken.backend.local import load_setup, reset_ended_record
from awaken.backend.remote.records import remote_backend_error_message
from awaken.backend.remote.run import RemoteRun
from awaken.codec import clean_text
from awaken.core.account import Account
from awaken.core.aio.cancel import CancellationToken, interruptible, is_cancellation
from awaken.core.backend import (
    BackendAbortRequest,
    BackendAgentNotFound,
    BackendLoopError,
    BackendRootRunRequest,
    BackendRunResult,
    BackendRunStatus,
    ExecutionBackendError,
    ExecutionFailed,
)
from awaken.core.budget import Amount
from awaken.core.event import (
    InferenceComplete,
)
from awaken.core.lifecycle import (
    CANCELLED,
    BehaviorRequested,
    NaturalEnd,
)
from awaken.core.run import (
    AgentRunResult,
    PersistedState,
)
from awaken.core.tool import ABANDONED, MAX_TAKEOVERS
from awaken.engine.run_setup import RunServices, RunSetup
from awaken.errors import (
    BudgetExhausted,
    ResolveFailed,
    RunLeft,
    RuntimeFailed,
    StorageError,
    StoreError,
)
from awaken.plugin.resolved_agent import ResolvedBackendAgent

log = logging.getLogger("awaken.backend")
_replace = msgspec.structs.replace

_NO_LIMIT_SECONDS = 10.0**8
_NOT_STARTED = (BackendAgentNotFound, ExecutionFailed, BackendLoopError)
"""Errors by which a backend says that it has started no work."""
INTERRUPTED = (
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
    setup: RunSetup | None = None,
) -> AgentRunResult:
    """Run an agent on its backend, and commit the result.

    Args:
        run_created_at: milliseconds.
        runtime_cancellation_token: ends the run, even if its backend cannot be cancelled.
        previous_state: the state of the run, or of the agent's last run in the thread.
        setup: the run's setup; without it, the thread is read here.

    Raises:
        RuntimeFailed: the backend cannot be built; no event was sent and nothing committed.
        StorageError: the record could not be committed.
        RunLeft: the runtime is closing; another process continues the run.
    """
    try:
        agent.backend()
    except ExecutionBackendError as error:
        raise RuntimeFailed(ResolveFailed(str(error))) from error
    setup = setup or await _load_setup(request)
    run = RemoteRun(agent, request, setup, run_created_at, previous_state)
    try:
        if setup.controls.denied is not None and not runtime_cancellation_token.is_cancelled():
            await run.begin()
            return await _stop_run(run, setup.controls.denied)
        return await _within_budget(run, runtime_cancellation_token)
    except StorageError as error:
        await run.emit_storage_error(error)
        raise


async def fail_interrupted(
    agent: ResolvedBackendAgent,
    request: BackendRootRunRequest,
    run_created_at: int,
    setup: RunSetup,
) -> AgentRunResult:
    """Fail a run whose process died and whose backend cannot continue it.

    Raises:
        StorageError: its end could not be committed.
    """
    run = RemoteRun(agent, request, setup, run_created_at, request.persisted_state)
    try:
        await run.begin()
        return await run.fail(INTERRUPTED, await _stop_remote_work(run))
    except StorageError as error:
        await run.emit_storage_error(error)
        raise


async def fail_abandoned(
    agent: ResolvedBackendAgent,
    request: BackendRootRunRequest,
    run_created_at: int,
    setup: RunSetup,
) -> AgentRunResult:
    """Fail a run that was recovered too often.

    The backend is asked to stop the work only at the first attempt: that call itself may be what
    kills the process.

    Raises:
        StorageError: its end could not be committed.
    """
    previous = setup.thread.previous
    takeovers = previous.takeovers if previous is not None else None
    assert takeovers is not None, "only runs that were taken over are abandoned"
    log.error("run %s is %s", request.run_identity.run_id, ABANDONED)
    run = RemoteRun(agent, request, setup, run_created_at, request.persisted_state)
    try:
        await run.begin()
        left: str | None = run.explain_left_running("the process died that was to stop it")
        if takeovers.times == MAX_TAKEOVERS + takeovers.levels + 1:
            left = await _stop_remote_work(run, after="it was abandoned")
        return await run.fail(ABANDONED, left)
    except StorageError as error:
        await run.emit_storage_error(error)
        raise


async def _load_setup(request: BackendRootRunRequest) -> RunSetup:
    """The setup of the run, with its record even if it is not the thread's latest run.

    Raises:
        StorageError: the store could not be read.
    """
    store, run_id = request.checkpoint_store, request.run_identity.run_id
    try:
        setup = await load_setup(request, RunServices(resolver=request.resolver, store=store))
        known = await store.load_run(run_id) if store and setup.thread.previous is None else None
    except StoreError as error:
        raise StorageError(error) from error
    if known is not None:
        output = known.output and _replace(known.output, message_ids=())
        setup.thread.previous = reset_ended_record(_replace(known, state=None, output=output))
    return setup


# -- executing --------------------------------------------------------------------------------


async def _within_budget(run: RemoteRun, token: CancellationToken) -> AgentRunResult:
    """Execute the run if its budget allows. It is stopped when its time limit is reached.

    The backend's real cost is unknown until it answers, so the call counts as one step, plus its
    time. The step is committed before the backend is called. A process that continues another's
    call counts no second step.
    """
    account = run.controls.budget
    if account is None or token.is_cancelled():
        await run.begin()
        return await _execute(run, token, None)
    account.begin()
    try:
        try:
            await _reserve_step(account, run.identity.run_id, 0 if run.has_sent_input else 1)
        finally:
            await run.begin()
        timeout_token = CancellationToken()
        timer = _cancel_after(_time_left(account), timeout_token)
        try:
            return await _execute(run, token, timeout_token)
        finally:
            timer.cancel()
    except BudgetExhausted as error:
        if error.asks and run.store is not None:
            return await run.suspend_for_budget(error)
        return await _stop_run(run, str(error))
    finally:
        account.pause()


async def _reserve_step(account: Account, run_id: str, steps: int) -> None:
    """Reserve and spend `steps` steps of the budget.

    Raises:
        BudgetExhausted: there are not enough left.
        StorageError: the ledger of the run tree could not be read or written.
    """
    try:
        while (reserved := await account.reserve_shared(run_id, Amount(steps=steps))) is None:
            pass  # other processes have reserved something meanwhile: look again at what is left
    except StoreError as error:
        raise StorageError(error) from error
    reserved.settle(Amount(steps=steps))


def _time_left(account: Account) -> float | None:
    """The seconds after which the run is stopped; `None` if no limit stops it.

    Limits at which an approver is asked do not count: the backend cannot pause in the middle of its
    work, so the approver is asked before the next call.
    """
    limits = [(one.limit("seconds"), one) for one in account.chain()]
    return min(
        (
            limit - one.usage.seconds
            for limit, one in limits
            if limit is not None and one.budget.at_limit == "stop"
        ),
        default=None,
    )


def _cancel_after(seconds: float | None, token: CancellationToken) -> asyncio.TimerHandle:
    limit = _NO_LIMIT_SECONDS if seconds is None else max(0.0, seconds)
    return asyncio.get_running_loop().call_later(limit, token.cancel)


async def _execute(
    run: RemoteRun, token: CancellationToken, timeout_token: CancellationToken | None
) -> AgentRunResult:
    started, leave = run.clock.now_ms(), run.controls.leave
    if not run.abilities.continuation.is_possible:
        # No other process could continue the run, so it may end by itself while the runtime closes.
        leave = None
    try:
        # Each of these tokens interrupts the backend's call.
        with interruptible(leave), interruptible(timeout_token), interruptible(token):
            result = await run.execute()
    except RunLeft:
        raise
    except BaseException as error:
        if is_cancellation(error):
            if isinstance(error, GeneratorExit):
                raise  # the coroutine is being closed and must not await
            if token.is_cancelled() or not _is_cancelled(run.controls.leave):
                await _cancel_run(run, token)
            raise
        if isinstance(error, asyncio.CancelledError):
            return await _on_failure(run, error)
        # An error of an interrupted backend is not reported: the interruption is the reason.
        if token.is_cancelled():
            return await _cancel_run(run, token)
        if _is_cancelled(leave):
            raise RunLeft(run.identity.run_id) from error
        if _is_cancelled(timeout_token):
            return await _stop_run(run, "its time is used up")
        return await _on_failure(run, error)
    return await _on_answer(run, result, started)


def _is_cancelled(token: CancellationToken | None) -> bool:
    return token is not None and token.is_cancelled()


async def _on_answer(run: RemoteRun, result: BackendRunResult, started: int) -> AgentRunResult:
    _record_spending(run, result)
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
    left = await _stop_remote_work(run) if result.status.is_waiting else result.left_running
    return await run.fail(f"what the agent answered cannot be kept: {why}", left)


def _record_spending(run: RemoteRun, result: BackendRunResult) -> None:
    """Count the spending that the backend reports, minus the step that is already counted."""
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
        await run.emit_answer(response)
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
        state=result.state or run.merge_saved_state(run.previous_state),
        left_running=result.left_running,
    )


# -- failing, stopping, cancelling ------------------------------------------------------------


async def _on_failure(run: RemoteRun, error: BaseException) -> AgentRunResult:
    if not isinstance(error, ExecutionBackendError):
        log.error("backend of agent %r failed", run.identity.agent_id, exc_info=error)
    # This raises if the store has failed. The run then stays open, and the process that recovers it
    # continues or stops the backend's work.
    await run.journal.wait_settled()
    left = await _stop_remote_work(run, after="failure") if _may_be_working(run, error) else None
    return await run.fail(remote_backend_error_message(error), left)


def _may_be_working(run: RemoteRun, error: BaseException) -> bool:
    """Whether work may go on remotely although the backend raised `error`."""
    if isinstance(error, ExecutionBackendError) and error.is_over:
        return False
    return run.has_saved or run.request.is_continuation or not isinstance(error, _NOT_STARTED)


async def _stop_run(run: RemoteRun, why: str) -> AgentRunResult:
    """End a run whose budget is used up."""
    left = (
        await _stop_remote_work(run, after="its budget was used up") if run.may_be_at_work else None
    )
    return await run.stop(why, left)


async def _cancel_run(run: RemoteRun, token: CancellationToken) -> AgentRunResult:
    latest = await run.latest_state()
    left: str | None = run.explain_left_running("there was no time to wait for its end")
    try:
        left = await _stop_remote_work(run, token_cancelled=token.is_cancelled())
    finally:
        # Also if the wait for the backend was interrupted.
        status = BackendRunStatus.cancelled()
        result = await run.finish(status, CANCELLED, state=latest, left_running=left)
    return result


async def _stop_remote_work(
    run: RemoteRun, *, token_cancelled: bool = False, after: str = "cancellation"
) -> str | None:
    """Stop the remote work. Returns a text that says why work may go on, or `None` if it has
    stopped.

    `token_cancelled` says that the run's token was cancelled, which stops the work of some
    backends.
    """
    can = run.abilities.cancellation
    if not can.supports_remote_abort:
        if not run.may_be_at_work or (token_cancelled and can.supports_cooperative_token):
            return None
        return run.explain_left_running("its backend cannot stop it")
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
        return run.explain_left_running(
            f"it could not be stopped: {remote_backend_error_message(error)}"
        )
    return None
