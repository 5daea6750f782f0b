"""A run of an agent that is elsewhere: its record, its events, its end.

What happens on the other side is the backend's; what is durable of it is here. The run is on record
before the backend is asked, so that whoever finds it after a crash can go on with it or stop it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from awaken.backend.local import ThreadContextSnapshot, read_thread
from awaken.codec import Json, clean_text, dumps, to_json
from awaken.contract.backend import (
    BACKEND_OUTPUT_STATE_KEY,
    BackendAbortRequest,
    BackendLoopError,
    BackendRootRunRequest,
    BackendRunOutput,
    BackendRunResult,
    BackendRunStatus,
    ExecutionBackendError,
    ExecutionFailed,
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
    ResolveFailed,
    RunLeft,
    RuntimeFailed,
    RuntimeFault,
    StorageError,
    StoreError,
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
        agent.backend()
    except ExecutionBackendError as error:
        raise RuntimeFailed(ResolveFailed(str(error))) from error
    context = context or await _read(request)
    run = RemoteRun(agent, request, context, run_created_at, previous_state)
    try:
        await run.begin()
        return await _carried_out(run, runtime_cancellation_token)
    except StorageError as error:
        await run.tell_lost(error)
        raise


async def close_cut_short(
    agent: ResolvedBackendAgent,
    request: BackendRootRunRequest,
    run_created_at: int,
    context: ThreadContextSnapshot,
) -> AgentRunResult:
    """End, as failed, a run whose process is gone and whose backend cannot go on with it.

    Raises:
        StorageError: its end could not be kept.
    """
    run = RemoteRun(agent, request, context, run_created_at, request.persisted_state)
    try:
        await run.begin()
        return await run.fail(CUT_SHORT)
    except StorageError as error:
        await run.tell_lost(error)
        raise


async def _read(request: BackendRootRunRequest) -> ThreadContextSnapshot:
    """The thread, and the run if there is one, whether or not it is the thread's latest."""
    store, run_id = request.checkpoint_store, request.run_identity.run_id
    try:
        context = await read_thread(request)
        known = await store.load_run(run_id) if store and context.previous is None else None
    except StoreError as error:
        raise StorageError(error) from error
    if known is not None:
        output = known.output and _replace(known.output, message_ids=())
        context.previous = _replace(known, state=None, output=output)
    return context


# -- carrying it out --------------------------------------------------------------------------


async def _carried_out(run: RemoteRun, token: CancellationToken) -> AgentRunResult:
    started, leave = run.clock.now_ms(), run.context.leave
    if not run.abilities.continuation.is_possible:
        # Nobody could go on with it: it is given the time that is left to end by itself.
        leave = None
    try:
        # Whoever wants the run to stop cuts the backend short and waits until it has ended.
        with interruptible(leave), interruptible(token):
            result = await run.execute()
    except RunLeft:
        raise
    except asyncio.CancelledError as error:
        if not _is_torn_down():
            return await _failed(run, error)
        if token.is_cancelled() or not _is_cancelled(run.context.leave):
            await _cancelled(run)
        raise
    except Exception as error:
        # What a backend raises while it is cut short is no news.
        if token.is_cancelled():
            return await _cancelled(run)
        if _is_cancelled(leave):
            raise RunLeft(run.identity.run_id) from error
        return await _failed(run, error)
    return await _answered(run, result, started)


def _is_torn_down() -> bool:
    """Whether the task is cancelled from outside, and not by the backend itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _is_cancelled(token: CancellationToken | None) -> bool:
    return token is not None and token.is_cancelled()


async def _answered(run: RemoteRun, result: BackendRunResult, started: int) -> AgentRunResult:
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
    return await run.fail(f"what the agent answered cannot be kept: {why}")


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
    )


async def _failed(run: RemoteRun, error: BaseException) -> AgentRunResult:
    if not isinstance(error, ExecutionBackendError):
        log.error("backend of agent %r failed", run.identity.agent_id, exc_info=error)
    return await run.fail(remote_backend_error_message(error))


async def _cancelled(run: RemoteRun) -> AgentRunResult:
    latest = await run.latest_state()
    try:
        if run.abilities.cancellation.supports_remote_abort:
            await _abort(run, latest)
    finally:
        # Also if there is no time left to wait for the other side.
        result = await run.finish(BackendRunStatus.cancelled(), CANCELLED, state=latest)
    return result


async def _abort(run: RemoteRun, state: PersistedState | None) -> None:
    """Stop the work on the other side; that it cannot be stopped is only worth a warning."""
    try:
        await run.backend.abort(
            BackendAbortRequest(
                agent_id=run.identity.agent_id,
                run_identity=run.identity,
                persisted_state=state,
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


def remote_backend_error_message(error: BaseException) -> str:
    """What went wrong, without the words that say of what kind it is."""
    if isinstance(error, BackendLoopError):
        text = str(error.error)
    elif isinstance(error, ExecutionBackendError):
        text = error.message
    elif isinstance(error, AwakenError):
        text = str(error)
    else:
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return clean_text(text)


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
        self.backend = agent.backend()
        self.abilities = self.backend.capabilities()
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
            begins=context.previous is None,
        )
        self.journal.acks.extend(context.acks)
        self.journal.tickets.extend(context.tickets)
        self.record = context.previous
        self.message_id = ""
        self._input_count = context.log_length + len(context.uncommitted)
        self._response = ""
        self._said: list[Message] = []
        self._saved: dict[str, Json] = {}
        self._begun = self._executing = False
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
        await self._commit(tuple(self.context.uncommitted), self._record(RunStatus.RUNNING), {})
        self._begun = True

    # -- while it is carried out --------------------------------------------------------------

    async def execute(self) -> BackendRunResult:
        """Have the backend do its work.

        Raises:
            ExecutionFailed: its answer is none.
        """
        self._executing = True
        try:
            result: Any = await self.backend.execute_root(self.request)
        finally:
            self._executing = False
        if not isinstance(result, BackendRunResult):
            raise ExecutionFailed(
                f"the backend answered with {type(result).__name__}, not with a BackendRunResult"
            )
        return result

    async def _save_state(self, values: Mapping[str, Json]) -> None:
        """Keep what the backend must not lose, at once; a new run begins with the state before it.

        A run without any has not begun its work: whoever finds it begins it.

        Raises:
            RuntimeFault: the backend's work is over; nothing more is kept of it.
            StorageError: it could not be kept.
        """
        if not self._executing:
            raise RuntimeFault(
                f"run {self.identity.run_id!r} is not carried out any more: save its state before "
                "execute_root returns"
            )
        before = self.previous_state
        if self._saved or self.request.is_continuation or before is None:
            before = PersistedState()
        state = _encoded(_replace(before, extensions={**before.extensions, **values}))
        self._saved.update(values)
        await self._commit((), self._record(RunStatus.RUNNING), state)

    async def latest_state(self) -> PersistedState | None:
        """What is known of the run: what is on record, and what the backend wanted to be."""
        return self.known_state(
            await load_checkpoint_state(self.store, self.identity.run_id, self.previous_state)
        )

    def known_state(self, before: PersistedState | None) -> PersistedState | None:
        """The state before, with what the backend has saved since."""
        if not self._saved:
            return before
        before = before or PersistedState()
        return _replace(before, extensions={**before.extensions, **self._saved})

    # -- the end ------------------------------------------------------------------------------

    async def say(self, response: str) -> None:
        """The answer, to listeners and into the log."""
        self._response = response
        await self.journal.tell(TextDelta(delta=response))
        self._said.append(Message.assistant(response, id=self.message_id))

    async def fail(self, why: str) -> AgentRunResult:
        """End the run as failed, with what is known of it.

        Raises:
            StorageError: that could not be kept.
        """
        status, end = BackendRunStatus.failed(why), Failed(value=why)
        return await self.finish(status, end, state=await self.latest_state())

    async def finish(
        self,
        backend_status: BackendRunStatus,
        termination: TerminationReason,
        *,
        status_reason: str | None = None,
        steps: int = 0,
        output: BackendRunOutput | None = None,
        state: PersistedState | None = None,
    ) -> AgentRunResult:
        """Keep how the run stands now, then say it.

        Raises:
            StorageError: it could not be kept.
        """
        output, response = output or BackendRunOutput(), self._response
        kept = _encoded(state_with_backend_output(state, output))
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
            self._record(status, termination, reason=reason, steps=steps),
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
        await self._commit(said, record, kept, release=release)
        return AgentRunResult(
            run_id=self.identity.run_id,
            response=response,
            termination=termination,
            steps=steps,
        )

    async def tell_lost(self, error: StorageError) -> None:
        """Nothing durable can be said any more: listeners are told, recovery closes the record."""
        if self._begun:
            await self.journal.tell(StepEnd())
        await self.journal.tell(Error(message=str(error), code="storage"))

    # -- the record ---------------------------------------------------------------------------

    def _record(
        self,
        status: RunStatus,
        termination: TerminationReason | None = None,
        *,
        reason: str | None = None,
        steps: int = 0,
    ) -> RunRecord:
        identity, now = self.identity, self.clock.now_ms() // 1000
        final = self._response or None
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
        state: dict[str, msgspec.Raw],
        *,
        release: bool = False,
    ) -> None:
        self.record = record
        await self.journal.commit(messages, record, state, {}, release=release)


def _encoded(state: PersistedState | None) -> dict[str, msgspec.Raw]:
    """State as a commit takes it.

    Raises:
        TypeError, ValueError: a value in it is no JSON.
    """
    values = state.extensions if state is not None else {}
    return {name: msgspec.Raw(dumps(value)) for name, value in values.items()}


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
