"""A live remote run: its record, its state and its events."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from awaken.backend.remote.records import (
    add_ticket,
    agent_ticket,
    backend_kind,
    budget_ticket,
    encode_state,
    load_checkpoint_state,
    materialize_remote_message_log,
    state_with_backend_output,
    update_backend,
    waiting_state,
    whole_log_input,
)
from awaken.codec import Json, clean_text, dumps, to_json
from awaken.core.backend import (
    BackendRootRunRequest,
    BackendRunOutput,
    BackendRunResult,
    BackendRunStatus,
    ExecutionFailed,
)
from awaken.core.bus import Progress
from awaken.core.event import (
    Error,
    RunFinish,
    RunStart,
    StepEnd,
    StepSnapshot,
    StepStart,
    TextDelta,
)
from awaken.core.lifecycle import (
    SUSPENDED_END,
    Failed,
    RunStatus,
    StartCause,
    Stopped,
    StoppedReason,
    TerminationReason,
)
from awaken.core.message import Message
from awaken.core.run import (
    LEFT_RUNNING,
    AgentRunResult,
    PersistedState,
    RunChanges,
    RunRecord,
    RunWaitingState,
)
from awaken.core.state.run_keys import HAS_BLOB_MEDIA, SPENDING
from awaken.core.suspension import Ticket
from awaken.core.tool import error_payload_of
from awaken.engine.journal import open_journal
from awaken.engine.large_content import move_to_blobs
from awaken.engine.reservation import StepReservation
from awaken.engine.run_setup import RunSetup
from awaken.errors import (
    BudgetExhausted,
    RuntimeFault,
    StorageError,
)
from awaken.plugin.resolved_agent import ResolvedBackendAgent

log = logging.getLogger("awaken.backend")
_replace = msgspec.structs.replace


class RemoteRun:
    """A live remote run: calls its backend, emits its events, and makes its commits.

    - `may_be_at_work` says that the backend may be working on the run.
    - `_saved` is the state that the backend has saved since this process called it.
    - `_undelivered_ids` are the ids of the messages that the backend may not have received.
    """

    def __init__(
        self,
        agent: ResolvedBackendAgent,
        request: BackendRootRunRequest,
        setup: RunSetup,
        created_at_ms: int,
        previous_state: PersistedState | None,
    ) -> None:
        self.agent = agent
        self.backend = agent.backend()
        self.abilities = self.backend.capabilities()
        thread, first = setup.thread, setup.first_commit
        self.controls, self._previous, self._first = setup.controls, thread.previous, first
        self.previous_state = previous_state
        self.clock, self.ids = setup.services.clock, setup.services.ids
        self._blobs = setup.services.blobs
        self.identity, self.store = setup.identity, setup.services.store
        self.created_at_ms = created_at_ms
        self.journal = open_journal(setup)
        # The `seq` of the events that begin and end its step; 0 until they are noted.
        self._step_starts = self._step_ends = 0
        setup.topic.attach(self._progress)
        self.record = update_backend(thread.previous, first.request)
        self.may_be_at_work = request.is_continuation or (
            thread.previous is not None and thread.previous.status is RunStatus.RUNNING
        )
        account = setup.controls.budget
        self._reservation = (
            StepReservation(account, self.identity.run_id) if account is not None else None
        )
        self.message_id = ""
        self._input_count = thread.log_length + len(first.messages)
        self._response = ""
        self._answer_messages: list[Message] = []
        self._saved: dict[str, Json] = {}
        self._undelivered_ids: tuple[str, ...] = ()
        self._begun = self._executing = False
        if request.save_state is None and self.store is not None:
            request = _replace(request, save_state=self._save_state)
        if request.persisted_state is None:
            request = _replace(request, persisted_state=previous_state)
        self.request = request

    @property
    def has_sent_input(self) -> bool:
        """Whether a process that died has already given the run's input to the backend, and the
        backend has confirmed that by saving state."""
        before = self._previous
        if before is None or before.status is not RunStatus.RUNNING:
            return False
        undelivered = before.input.trigger_message_ids if before.input is not None else ()
        return self.request.is_continuation and not undelivered

    def _progress(self) -> Progress:
        """Where the run stands, for its topic."""
        seq, step = self.journal.seq, None
        if 0 < self._step_starts <= seq and not 0 < self._step_ends <= seq:
            text = self._answer_messages[-1].text() if self._answer_messages else ""
            step = StepSnapshot(message_id=self.message_id, text=text)
        return self.journal.progress(step)

    # -- beginning ----------------------------------------------------------------------------

    async def begin(self) -> None:
        """Commit that the run is running, then send its start events.

        Raises:
            StorageError: the commit failed; no event was sent.
        """
        identity = self.identity
        self.message_id = self.ids.new()
        self.journal.note(
            RunStart(
                thread_id=identity.thread_id,
                run_id=identity.run_id,
                parent_run_id=identity.parent_run_id,
                identity=identity,
                cause=StartCause.NEW if self._previous is None else self._previous.next_cause,
            )
        )
        for event in self._first.events:
            self.journal.note(event)
        self.journal.note(StepStart(message_id=self.message_id, agent_id=identity.agent_id))
        self._step_starts = self.journal.last_promised()
        if self.request.is_continuation:
            # Until the backend has saved state, a process that recovers the run sends these
            # messages again. A new run without saved state is started again as a whole.
            self._undelivered_ids = tuple(
                m.id for m in self.request.new_messages if m.id is not None
            )
        # The run's spending and grants are committed before the backend is called.
        known = self._with_spending(None)
        await self._commit(tuple(self._first.messages), self._record(), encode_state(known))
        self._begun = True

    # -- executing ----------------------------------------------------------------------------

    async def execute(self) -> BackendRunResult:
        """Let the backend execute the run.

        Raises:
            ExecutionFailed: the backend returned something other than a `BackendRunResult`.
        """
        self._executing = self.may_be_at_work = True
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
        """Commit state of the backend at once. The first save of a new run includes the state of
        the agent's last run in the thread.

        A run without saved state counts as not started: after a crash it is started again.

        Raises:
            RuntimeFault: the backend's work has ended; no more state is stored.
            StorageError: it could not be committed.
        """
        if not self._executing:
            raise RuntimeFault(
                f"run {self.identity.run_id!r} is not carried out any more: save its state before "
                "execute_root returns"
            )
        before = self.previous_state
        if self._saved or self.request.is_continuation or before is None:
            before = PersistedState()
        state = encode_state(_replace(before, extensions={**before.extensions, **values}))
        self._saved.update(values)
        self._undelivered_ids = ()
        await self._commit((), self._record(), state)

    async def latest_state(self) -> PersistedState | None:
        """The run's stored state, with everything that the backend has saved since, even if that
        could not be committed."""
        return self.merge_saved_state(
            await load_checkpoint_state(self.store, self.identity.run_id, self.previous_state)
        )

    @property
    def has_saved(self) -> bool:
        """Whether the backend has saved state since this process called it."""
        return bool(self._saved)

    def merge_saved_state(self, before: PersistedState | None) -> PersistedState | None:
        """The state `before`, with what the backend has saved since."""
        if not self._saved:
            return before
        before = before or PersistedState()
        return _replace(before, extensions={**before.extensions, **self._saved})

    # -- the end ------------------------------------------------------------------------------

    async def emit_answer(self, response: str) -> None:
        """Emit the answer, and add it to the log with the next commit."""
        self._response = response
        await self.journal.send_transient(TextDelta(delta=response))
        self._answer_messages.append(Message.assistant(response, id=self.message_id))

    def explain_left_running(self, why: str) -> str:
        """The text for a run that its backend may still execute, with the reason."""
        kind, run_id = backend_kind(self.agent), self.identity.run_id
        return clean_text(f"what backend {kind!r} began for run {run_id!r} may go on there: {why}")

    async def fail(self, why: str, left_running: str | None = None) -> AgentRunResult:
        """End the run as failed, with its latest state.

        Raises:
            StorageError: the end could not be committed.
        """
        status, end = BackendRunStatus.failed(why), Failed(value=why)
        state = await self.latest_state()
        return await self.finish(status, end, state=state, left_running=left_running)

    async def stop(self, why: str, left_running: str | None = None) -> AgentRunResult:
        """End the run because its budget is used up.

        Raises:
            StorageError: the end could not be committed.
        """
        end = Stopped(value=StoppedReason(code="budget", detail=why))
        status = BackendRunStatus.failed(f"stopped: budget ({why})")
        state = await self.latest_state()
        return await self.finish(status, end, state=state, left_running=left_running)

    async def suspend_for_budget(self, error: BudgetExhausted) -> AgentRunResult:
        """Pause the run with a ticket that asks an approver for more budget.

        Raises:
            StorageError: the pause could not be committed.
        """
        revision = self.record.revision + 1 if self.record is not None else 1
        question = budget_ticket(self.identity, revision, error, self.clock.now_ms())
        status = BackendRunStatus.suspended(question.message)
        return await self.finish(status, SUSPENDED_END, question=question)

    def _with_spending(self, state: PersistedState | None) -> PersistedState | None:
        """The state with the run's spending added; unchanged if the run has no account."""
        account = self.controls.budget
        if account is None:
            return state
        account.count_time(self.identity.run_id)
        spent = to_json(account.spending_of(self.identity.run_id))
        state = state or PersistedState()
        return _replace(state, extensions={**state.extensions, SPENDING.name: spent})

    async def finish(
        self,
        backend_status: BackendRunStatus,
        termination: TerminationReason,
        *,
        status_reason: str | None = None,
        steps: int = 0,
        output: BackendRunOutput | None = None,
        state: PersistedState | None = None,
        left_running: str | None = None,
        question: Ticket | None = None,
    ) -> AgentRunResult:
        """Commit that the run has ended or waits, then send its last events.

        Args:
            left_running: why remote work may go on although the run has ended.
            question: a ticket about the run's budget, to be answered before the backend is called.

        Raises:
            StorageError: the commit failed.
        """
        output, response = output or BackendRunOutput(), self._response
        kept = encode_state(self._with_spending(state_with_backend_output(state, output)))
        reason = status_reason or backend_status.durable_status_reason(termination)
        status = backend_status.durable_run_status(termination)
        said, source, written = materialize_remote_message_log(
            self._answer_messages,
            self.record,
            self.identity,
            steps,
            self._input_count,
            base_seq=self.journal.length,
        )
        undelivered = self._undelivered_ids if question is not None else ()
        record = _replace(
            self._record(
                termination,
                waiting_state(self.identity, reason) if status is RunStatus.WAITING else None,
                steps=steps,
                left=left_running,
            ),
            input=source and _replace(source, trigger_message_ids=undelivered),
            output=written and _replace(written, message_ids=()),
        )
        if question is not None:
            record = add_ticket(record, question)
        elif self.controls.asks_itself:
            asked = response or backend_status.message
            question = agent_ticket(record, asked, self.clock.now_ms())
        self.journal.extras.tickets.extend([question] if question is not None else [])
        label = backend_status.result_status_label(termination)
        self._note_end(termination, _result_json(response, label, reason, output), record)
        release = self.journal.fence is not None
        if self._reservation is not None:
            await self._reservation.publish(leaves=release)
        await self._commit(said, record, kept, release=release)
        return AgentRunResult(
            run_id=self.identity.run_id,
            agent_id=self.identity.agent_id,
            response=response,
            termination=termination,
            steps=steps,
            tickets=record.waiting.tickets if record.waiting is not None else (),
            waits=status is RunStatus.WAITING,
            spent=self.controls.budget.counted_usage if self.controls.budget is not None else None,
        )

    def _note_end(
        self, termination: TerminationReason, result: dict[str, Json], record: RunRecord
    ) -> None:
        """Note the end of the step and of the run, for the next commit."""
        self.journal.note(StepEnd())
        self._step_ends = self.journal.last_promised()
        self.journal.note(
            RunFinish(
                thread_id=self.identity.thread_id,
                run_id=self.identity.run_id,
                identity=self.identity,
                result=result,
                termination=termination,
                tickets=record.waiting.tickets if record.waiting is not None else (),
                steps=record.steps,
            )
        )

    async def emit_storage_error(self, error: StorageError) -> None:
        """Emit the error of a failed commit. The record stays open for recovery."""
        if self._begun:
            await self.journal.send_transient(StepEnd())
        await self.journal.send_transient(Error(message=str(error), code="storage"))

    # -- the record ---------------------------------------------------------------------------

    def _record(
        self,
        termination: TerminationReason | None = None,
        waiting: RunWaitingState | None = None,
        *,
        steps: int = 0,
        left: str | None = None,
    ) -> RunRecord:
        """The record of the running run or, with a termination, of the waiting or ended run."""
        identity, now = self.identity, self.clock.now_ms()
        before = self.record or RunRecord.begin(identity, self._first.request, self.created_at_ms)
        source = before.input or whole_log_input(identity.thread_id, self._input_count)
        changes: RunChanges = {
            "agent_id": identity.agent_id,
            "input": source and _replace(source, trigger_message_ids=self._undelivered_ids),
            "dispatch_id": identity.dispatch_id,
            "session_id": identity.session_id,
            "transport_request_id": identity.transport_request_id,
            "steps": steps,
        }
        if termination is None:
            return before.advance(now, **changes)
        final = self._response or None
        payload = error_payload_of(termination.value) if isinstance(termination, Failed) else {}
        if left is not None:
            payload[LEFT_RUNNING] = left
        error = payload or None
        if waiting is not None:
            return before.wait(
                now, waiting, termination, final_output=final, error_payload=error, **changes
            )
        return before.finish(now, termination, final_output=final, error_payload=error, **changes)

    async def _commit(
        self,
        messages: tuple[Message, ...],
        record: RunRecord,
        state: dict[str, msgspec.Raw],
        *,
        release: bool = False,
    ) -> None:
        self.record = record
        if record.takeovers is not None and messages:
            self.record = record = _replace(record, takeovers=None)
        thread_state: dict[str, msgspec.Raw] = {}
        if self._blobs is not None and messages:
            messages, used = await move_to_blobs(self._blobs, messages)
            if used:
                self.journal.extras.blobs.extend(used)
                thread_state[HAS_BLOB_MEDIA.name] = msgspec.Raw(dumps(True))
        await self.journal.commit(messages, record, state, thread_state, release=release)


def _result_json(
    response: str, status: str, reason: str | None, output: BackendRunOutput
) -> dict[str, Json]:
    """The `result` of the run's last event, without the parts that the run does not have."""
    result: dict[str, Json] = {"response": response, "status": status}
    if output != BackendRunOutput():
        result["output"] = to_json(output)
    if reason is not None:
        result["status_reason"] = reason
    return result
