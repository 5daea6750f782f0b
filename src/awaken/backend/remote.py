"""A run of an agent that is elsewhere: its record, its events, its end.

What happens on the other side is the backend's; what is durable of it is here. The run is on record
before the backend is asked, so that whoever finds it after a crash can go on with it or stop it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import msgspec

from awaken.backend.local import ThreadContextSnapshot, read_thread
from awaken.codec import Json, dumps, to_json
from awaken.contract.backend import (
    BACKEND_OUTPUT_STATE_KEY,
    BackendAbortRequest,
    BackendLoopError,
    BackendRootRunRequest,
    BackendRunOutput,
    BackendRunStatus,
    ExecutionBackend,
    ExecutionBackendError,
)
from awaken.contract.control import CancellationToken, interruptible
from awaken.contract.store import Store
from awaken.domain.event import (
    Error,
    InferenceComplete,
    RunFinish,
    RunStart,
    StepEnd,
    StepStart,
    TextDelta,
)
from awaken.domain.identity import RunIdentity
from awaken.domain.lifecycle import (
    CANCELLED,
    BehaviorRequested,
    Failed,
    NaturalEnd,
    RunStatus,
    TerminationReason,
)
from awaken.domain.message import Message, Role
from awaken.domain.run import (
    MessageSeqRange,
    PersistedState,
    RunMessageInput,
    RunMessageOutput,
    RunOutcome,
    RunRecord,
    RunWaitingState,
    WaitingReason,
)
from awaken.errors import (
    AwakenError,
    Cancelled,
    ResolveFailed,
    RunLeft,
    RuntimeFailed,
    StorageError,
)
from awaken.loop import AgentRunResult
from awaken.loop.journal import Journal
from awaken.plugin.agent import ResolvedBackendAgent

log = logging.getLogger("awaken.backend")
_replace = msgspec.structs.replace

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
    context: ThreadContextSnapshot | None = None,
) -> AgentRunResult:
    """Run an agent elsewhere, and keep what becomes of it.

    Args:
        run_created_at: milliseconds.
        runtime_cancellation_token: ends the run, whatever its backend can do about it.
        previous_state: what is known of the run, or of the agent's last one in the thread.
        context: what the caller has read of the thread already.

    Raises:
        RuntimeFailed: there is no such backend; nothing was said or written.
        StorageError: the record could not be kept.
        RunLeft: it is to be carried on elsewhere.
    """
    try:
        backend = agent.backend()
    except ExecutionBackendError as error:
        raise RuntimeFailed(ResolveFailed(str(error))) from error
    run = RemoteRun(
        agent, request, context or await read_thread(request), run_created_at, previous_state
    )
    await run.begin()
    try:
        return await _carried_out(run, backend, runtime_cancellation_token)
    except StorageError as error:
        await run.tell_lost(error)
        raise


async def close_cut_short(
    agent: ResolvedBackendAgent,
    request: BackendRootRunRequest,
    run_created_at: int,
    context: ThreadContextSnapshot,
) -> AgentRunResult:
    """End, as failed, a run whose process is gone and whose backend cannot go on with it."""
    run = RemoteRun(agent, request, context, run_created_at, request.persisted_state)
    await run.begin()
    return await run.finish(
        BackendRunStatus.failed(CUT_SHORT), Failed(value=CUT_SHORT), state=request.persisted_state
    )


async def _carried_out(
    run: RemoteRun, backend: ExecutionBackend, token: CancellationToken
) -> AgentRunResult:
    started = run.clock.now_ms()
    try:
        # Whoever wants the run to stop cuts the backend short and waits until it has ended.
        with interruptible(run.context.leave), interruptible(token):
            result = await backend.execute_root(run.request)
    except Cancelled:
        if not token.is_cancelled():
            raise RunLeft(run.identity.run_id) from None
        return await _cancelled(run, backend)
    except RunLeft:
        raise
    except Exception as error:
        if not isinstance(error, ExecutionBackendError):
            log.exception("backend of agent %r failed", run.identity.agent_id)
        message = remote_backend_error_message(error)
        return await run.finish(
            BackendRunStatus.failed(message),
            Failed(value=message),
            state=await run.latest_state(),
        )
    response = result.output.text_or(result.response) or ""
    output = result.output
    if output.text is None and response:
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
        response=response,
        output=output,
        state=result.state or run.previous_state,
    )


async def _cancelled(run: RemoteRun, backend: ExecutionBackend) -> AgentRunResult:
    latest = await run.latest_state()
    if backend.capabilities().cancellation.supports_remote_abort:
        try:
            await backend.abort(
                BackendAbortRequest(
                    agent_id=run.identity.agent_id,
                    run_identity=run.identity,
                    persisted_state=latest,
                    is_continuation=run.request.is_continuation,
                )
            )
        except Exception as error:
            log.warning(
                "non-local backend abort hook failed after cancellation (agent %s, run %s): %s",
                run.identity.agent_id,
                run.identity.run_id,
                error,
            )
    return await run.finish(BackendRunStatus.cancelled(), CANCELLED, state=latest)


def remote_backend_error_message(error: Exception) -> str:
    """What went wrong, without the words that say of what kind it is."""
    if isinstance(error, BackendLoopError):
        return str(error.error)
    if isinstance(error, ExecutionBackendError):
        return error.message
    return str(error) if isinstance(error, AwakenError) else f"{type(error).__name__}: {error}"


async def load_checkpoint_state(
    store: Store | None, run_id: str, fallback: PersistedState | None
) -> PersistedState | None:
    """The state a run is on record with, else the fallback."""
    if store is None:
        return fallback
    try:
        state = await store.load_run_state(run_id)
    except AwakenError as error:
        log.warning("failed to load latest checkpoint state of run %s: %s", run_id, error)
        return fallback
    return state if state.extensions else fallback


class RemoteRun:
    """One run elsewhere, while it lives: what it tells and what is kept of it."""

    def __init__(
        self,
        agent: ResolvedBackendAgent,
        request: BackendRootRunRequest,
        context: ThreadContextSnapshot,
        created_at_ms: int,
        previous_state: PersistedState | None,
    ) -> None:
        self.agent = agent
        self.context = context
        self.previous_state = previous_state
        self.clock, self.ids = context.clock, context.ids
        self.identity = request.run_identity
        self.store = request.checkpoint_store
        self.created_at_ms = created_at_ms
        self.journal = Journal(
            request.sink,
            request.checkpoint_store,
            self.identity,
            self.clock,
            context.log_length,
            context.fence,
        )
        self.journal.acks.extend(context.acks)
        self.journal.tickets.extend(context.tickets)
        self.record = context.previous
        self.message_id = ""
        self._input_count = context.log_length + len(context.uncommitted)
        self._said: list[Message] = []
        if request.save_state is None and self.store is not None:
            request = _replace(request, save_state=self._save_state)
        if request.persisted_state is None:
            request = _replace(request, persisted_state=previous_state)
        self.request = request

    # -- beginning ----------------------------------------------------------------------------

    async def begin(self) -> None:
        """Keep that the run is under way, then say so.

        Raises:
            StorageError: it could not be kept; nothing was said.
        """
        identity = self.identity
        self.message_id = self.ids.new()
        self.journal.note(
            RunStart(
                thread_id=identity.thread_id,
                run_id=identity.run_id,
                parent_run_id=identity.parent_run_id,
                identity=identity,
            )
        )
        self.journal.note(StepStart(message_id=self.message_id))
        record = self._record(RunStatus.RUNNING)
        state = self.previous_state if self.record is None else None
        await self._commit(tuple(self.context.uncommitted), record, state)

    async def _save_state(self, values: Mapping[str, Json]) -> None:
        """Keep what the backend must not lose, at once."""
        record = self._record(RunStatus.RUNNING)
        await self._commit((), record, PersistedState(extensions=dict(values)))

    async def latest_state(self) -> PersistedState | None:
        return await load_checkpoint_state(self.store, self.identity.run_id, self.previous_state)

    # -- the end ------------------------------------------------------------------------------

    async def say(self, response: str) -> None:
        """The answer, to listeners and into the log."""
        await self.journal.tell(TextDelta(delta=response))
        self._said.append(Message.assistant(response, id=self.message_id))

    async def finish(
        self,
        backend_status: BackendRunStatus,
        termination: TerminationReason,
        *,
        status_reason: str | None = None,
        steps: int = 0,
        response: str = "",
        output: BackendRunOutput | None = None,
        state: PersistedState | None = None,
    ) -> AgentRunResult:
        """Keep how the run stands now, then say it.

        Raises:
            StorageError: it could not be kept.
        """
        output = output or BackendRunOutput()
        reason = status_reason or backend_status.durable_status_reason(termination)
        result: dict[str, Json] = {
            "response": response,
            "status": backend_status.result_status_label(termination),
        }
        if output != BackendRunOutput():
            result["output"] = to_json(output)
        if reason is not None:
            result["status_reason"] = reason
        status = backend_status.durable_run_status(termination)
        said, source, written = materialize_remote_message_log(
            self._said,
            self.record,
            self.identity,
            steps,
            self._input_count,
            base_seq=self.journal.length,
        )
        record = _replace(
            self._record(status, termination, reason=reason, response=response, steps=steps),
            input=source,
            output=written and _replace(written, message_ids=()),
        )
        self.journal.note(StepEnd())
        self.journal.note(
            RunFinish(
                thread_id=self.identity.thread_id,
                run_id=self.identity.run_id,
                identity=self.identity,
                result=result,
                termination=termination,
            )
        )
        release = self.journal.fence is not None
        await self._commit(said, record, state_with_backend_output(state, output), release=release)
        return AgentRunResult(
            run_id=self.identity.run_id,
            response=response,
            termination=termination,
            steps=steps,
        )

    async def tell_lost(self, error: StorageError) -> None:
        """Nothing durable can be said any more: listeners are told, recovery closes the record."""
        await self.journal.tell(StepEnd())
        await self.journal.tell(Error(message=str(error), code="storage"))

    # -- the record ---------------------------------------------------------------------------

    def _record(
        self,
        status: RunStatus,
        termination: TerminationReason | None = None,
        *,
        reason: str | None = None,
        response: str = "",
        steps: int = 0,
    ) -> RunRecord:
        identity, now = self.identity, self.clock.now_ms() // 1000
        final = response or None
        payload = {"message": termination.value} if isinstance(termination, Failed) else None
        before = self.record or self._first_record()
        return _replace(
            before,
            agent_id=identity.agent_id,
            input=before.input or input_of(identity.thread_id, self._input_count),
            status=status,
            termination_reason=termination,
            final_output=final,
            error_payload=payload,
            dispatch_id=identity.dispatch_id,
            session_id=identity.session_id,
            transport_request_id=identity.transport_request_id,
            waiting=waiting_state(identity, reason) if status is RunStatus.WAITING else None,
            outcome=termination
            and RunOutcome(
                termination_reason=termination, final_output=final, error_payload=payload
            ),
            started_at=before.started_at or self.created_at_ms // 1000,
            finished_at=now if status is RunStatus.DONE else None,
            updated_at=now,
            steps=steps,
            revision=before.revision + 1,
        )

    def _first_record(self) -> RunRecord:
        return RunRecord(
            run_id=self.identity.run_id,
            thread_id=self.identity.thread_id,
            agent_id=self.identity.agent_id,
            parent_run_id=self.identity.parent_run_id,
            request=self.context.request,
            status=RunStatus.RUNNING,
            created_at=self.created_at_ms // 1000,
            updated_at=self.created_at_ms // 1000,
        )

    async def _commit(
        self,
        messages: tuple[Message, ...],
        record: RunRecord,
        state: PersistedState | None,
        *,
        release: bool = False,
    ) -> None:
        self.record = record
        values = state.extensions if state is not None else {}
        await self.journal.commit(
            messages,
            record,
            {name: msgspec.Raw(dumps(value)) for name, value in values.items()},
            {},
            release=release,
        )


def waiting_state(identity: RunIdentity, status_reason: str | None) -> RunWaitingState:
    """Why a run elsewhere waits; nobody here has put a question, so there are no tickets."""
    return RunWaitingState(
        reason=WaitingReason.from_status_reason(status_reason),
        since_dispatch_id=identity.dispatch_id,
        message=status_reason,
    )


def state_with_backend_output(
    state: PersistedState | None, output: BackendRunOutput
) -> PersistedState | None:
    """The state with what came out of the run in it, if anything did."""
    if output == BackendRunOutput():
        return state
    state = state or PersistedState()
    return _replace(
        state, extensions={**state.extensions, BACKEND_OUTPUT_STATE_KEY: to_json(output)}
    )


# -- which messages are whose -----------------------------------------------------------------


def materialize_remote_message_log(
    messages: Sequence[Message],
    previous: RunRecord | None,
    identity: RunIdentity,
    steps: int,
    input_message_count: int,
    *,
    base_seq: int = 0,
) -> tuple[tuple[Message, ...], RunMessageInput | None, RunMessageOutput | None]:
    """Mark what the run produced, and say which stretch of the log it read and wrote.

    `messages` is a window of the log that begins behind `base_seq`; of what lies before it, the
    previous record knows. Messages that other runs produced are never claimed.
    """
    source = (previous.input if previous is not None else None) or input_of(
        identity.thread_id, input_message_count
    )
    start = (
        source.range.to_seq + 1
        if source is not None and source.range is not None
        else input_message_count + 1
    )
    step_index = steps - 1 if steps > 0 else None
    before = previous.output if previous is not None else None
    marked: list[Message] = []
    seqs: list[int] = []
    ids: list[str] = []
    for seq, message in enumerate(messages, start=base_seq + 1):
        mine = message.produced_by_run_id() in (None, identity.run_id)
        if seq >= start and mine and message.role in (Role.ASSISTANT, Role.TOOL):
            message = message.mark_produced_by(identity.run_id, step_index)
            seqs.append(seq)
            ids.extend([message.id] if message.id is not None else [])
        marked.append(message)
    if not seqs:
        return tuple(marked), source, before
    low = seqs[0]
    if base_seq and before is not None and before.range is not None:
        low, ids = min(low, before.range.from_seq), [*before.message_ids, *ids]
    output = RunMessageOutput(
        thread_id=identity.thread_id,
        range=MessageSeqRange.new(low, seqs[-1]),
        message_ids=tuple(ids),
    )
    return tuple(marked), source, output


def input_of(thread_id: str, count: int) -> RunMessageInput | None:
    """All of a log of so many messages, as the input of a run."""
    if count == 0:
        return None
    return RunMessageInput(thread_id=thread_id, range=MessageSeqRange.new(1, count))
