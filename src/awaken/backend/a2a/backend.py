"""The backend for runs and delegates on remote agents."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property

import httpcore

from awaken.backend.a2a.client import A2aClient
from awaken.backend.a2a.config import A2aConfig
from awaken.backend.a2a.exchange import A2aExchange, ExchangeInput
from awaken.backend.a2a.lookup import stop_task
from awaken.backend.a2a.snapshot import ExchangeOutcome
from awaken.backend.a2a.state import RemoteTask, load_task, merge_state, remote_state
from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.aio.cancel import interruptible
from awaken.core.backend import (
    BackendAbortRequest,
    BackendCancellationCapability,
    BackendCapabilities,
    BackendContinuationCapability,
    BackendDelegateRunRequest,
    BackendOutputCapability,
    BackendRootRunRequest,
    BackendRunResult,
    BackendRunStatus,
    BackendStatusKind,
    BackendTranscriptCapability,
    BackendWaitCapability,
    ExecutionBackend,
    ExecutionBackendError,
    RemoteError,
)
from awaken.core.event import ActivitySnapshot, EventSink, RunEvent
from awaken.core.lifecycle import CANCELLED
from awaken.core.run import PersistedState
from awaken.errors import Cancelled
from awaken.ids import UUID7, Ids
from awaken.net.pinned import Http, SizeLimit

ABORT_TIMEOUT = 15.0
_MAX_TASKS = 1024
_DEFAULT_QUESTIONS = {
    BackendStatusKind.WAITING_INPUT: "the remote agent needs more input",
    BackendStatusKind.WAITING_AUTH: "the remote agent needs to be authorised",
}

CAPABILITIES = BackendCapabilities(
    cancellation=BackendCancellationCapability.REMOTE_ABORT,
    decisions=False,
    overrides=False,
    frontend_tools=False,
    continuation=BackendContinuationCapability.REMOTE_STATE,
    waits=BackendWaitCapability.INPUT_AND_AUTH,
    transcript=BackendTranscriptCapability.INCREMENTAL_USER_MESSAGES_WITH_REMOTE_STATE,
    output=BackendOutputCapability.TEXT_AND_ARTIFACTS,
)


class A2aBackend(ExecutionBackend):
    """Agents that speak the Agent2Agent protocol 1.0, at one endpoint.

    State that a run needs after a crash is stored through its request's `save_state`; this object
    only caches it.
    """

    def __init__(self, config: A2aConfig, *, clock: Clock = SYSTEM_CLOCK, ids: Ids = UUID7) -> None:
        self._config = config
        self._clock, self._ids = clock, ids
        self._tasks: dict[str, RemoteTask] = {}

    def __repr__(self) -> str:
        return f"A2aBackend({self._config.target_key!r})"

    def capabilities(self) -> BackendCapabilities:
        return CAPABILITIES

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        """Run an agent, or continue a run that was cut short or waits.

        Raises:
            ExecutionFailed: there is no message to send, or the run's remote state cannot be read.
            RemoteError: the agent failed or cannot be reached, or it is unknown what it did.
        """
        identity, target = request.run_identity, self._config.target_key
        state = request.persisted_state

        async def save(task: RemoteTask) -> None:
            self._remember(identity.run_id, task)
            if request.save_state is not None:
                await request.save_state(remote_state(state, target, task))

        exchange_input = ExchangeInput(
            run_id=identity.run_id,
            thread_id=identity.thread_id,
            messages=request.messages,
            new_messages=request.new_messages,
            known=load_task(state, target),
            is_continuation=request.is_continuation,
        )
        emitter = _ProgressEmitter(
            request.sink, self._clock, identity.thread_id, identity.run_id, identity.parent_run_id
        )
        try:
            async with self._client() as client:
                exchange = A2aExchange(
                    client,
                    self._config,
                    exchange_input,
                    save=save,
                    on_progress=emitter.emit,
                    clock=self._clock,
                )
                outcome = await exchange.run()
        except ExecutionBackendError as error:
            # The caller may abort the run next, and `abort` must then find its task.
            if error.is_over:
                self._tasks.pop(identity.run_id, None)
            raise
        self._tasks.pop(identity.run_id, None)
        new_state = merge_state(state, remote_state(state, target, exchange.task))
        result = _result(request.agent_id, identity.run_id, outcome, new_state)
        result.left_running = exchange.left_running
        return result

    async def execute_delegate(self, request: BackendDelegateRunRequest) -> BackendRunResult:
        """Run an agent for another run. No state is stored; when the parent is stopped, so is the
        agent.

        Raises:
            ExecutionFailed: there is no message to send.
            RemoteError: the agent failed, or cannot be reached.
        """
        run_id, parent = self._ids.new(), request.parent
        exchange_input = ExchangeInput(
            run_id=run_id, messages=request.messages, new_messages=request.new_messages
        )
        emitter = _ProgressEmitter(request.sink, self._clock, run_id, run_id, parent.parent_run_id)
        async with self._client() as client:
            exchange = A2aExchange(
                client,
                self._config,
                exchange_input,
                save=_save_nothing,
                on_progress=emitter.emit,
                clock=self._clock,
            )
            try:
                with interruptible(request.control.cancellation_token):
                    outcome = await exchange.run()
            except Cancelled:
                await exchange.stop()
                outcome = ExchangeOutcome(
                    status=BackendRunStatus.cancelled(), termination=CANCELLED
                )
            except asyncio.CancelledError:
                await exchange.stop()
                raise
        return _result(request.agent_id, run_id, _with_question(outcome), None)

    async def abort(self, request: BackendAbortRequest) -> None:
        """Cancel the remote task of a run, if it has one that may still run.

        Raises:
            ExecutionFailed: the run's remote state cannot be read.
            RemoteError: the agent did not cancel the task.
        """
        run_id = request.run_identity.run_id
        task = self._tasks.pop(run_id, None)
        if task is None:
            task = load_task(request.persisted_state, self._config.target_key)
        if task is None or task.run_id not in (None, run_id):
            return
        try:
            async with asyncio.timeout(ABORT_TIMEOUT), self._client() as client:
                await stop_task(client, task, self._clock)
        except TimeoutError:
            raise RemoteError(
                f"{task.name} was not cancelled within {ABORT_TIMEOUT:.0f} s"
            ) from None
        except RemoteError as error:
            raise RemoteError(f"{task.name} was not cancelled: {error.message}") from error

    def _remember(self, run_id: str, task: RemoteTask) -> None:
        self._tasks[run_id] = task
        while len(self._tasks) > _MAX_TASKS:
            del self._tasks[next(iter(self._tasks))]

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[A2aClient]:
        config = self._config
        async with Http(
            config.policy,
            config.credentials,
            limit=SizeLimit(
                size=config.options.max_response_bytes,
                why="the endpoint's option max_response_bytes",
            ),
            tls=self._tls if config.interface.scheme == "https" else None,
        ) as http:
            yield A2aClient(config, http)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return httpcore.default_ssl_context()


class _ProgressEmitter:
    """Emits progress as events of a run."""

    def __init__(
        self, sink: EventSink, clock: Clock, thread_id: str, run_id: str, parent: str | None
    ) -> None:
        self._sink, self._clock = sink, clock
        self._thread_id, self._run_id, self._parent = thread_id, run_id, parent

    async def emit(self, event: ActivitySnapshot) -> None:
        await self._sink.emit(
            RunEvent(
                thread_id=self._thread_id,
                run_id=self._run_id,
                parent_run_id=self._parent,
                at_ms=self._clock.now_ms(),
                event=event,
            )
        )


async def _save_nothing(task: RemoteTask) -> None:
    return


def _with_question(outcome: ExchangeOutcome) -> ExchangeOutcome:
    """Make sure that a waiting delegate has a question, because its parent shows it to an
    approver."""
    status = outcome.status
    if status.kind in _DEFAULT_QUESTIONS and status.message is None:
        status = BackendRunStatus(kind=status.kind, message=_DEFAULT_QUESTIONS[status.kind])
    return ExchangeOutcome(
        status=status,
        termination=outcome.termination,
        status_reason=outcome.status_reason,
        output=outcome.output,
    )


def _result(
    agent_id: str, run_id: str, outcome: ExchangeOutcome, state: PersistedState | None
) -> BackendRunResult:
    return BackendRunResult(
        agent_id=agent_id,
        status=outcome.status,
        termination=outcome.termination,
        status_reason=outcome.status_reason,
        response=outcome.output.text,
        output=outcome.output,
        steps=1,
        run_id=run_id,
        state=state,
    )
