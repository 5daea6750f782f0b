"""Committing a run: its record, its own messages in the log, and the reason for which it waits."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from awaken.codec import Json
from awaken.core.event import RunFinish, StateDelta, StateSnapshot, StepEnd
from awaken.core.identity import RunIdentity
from awaken.core.lifecycle import (
    AWAITING_TASKS,
    SUSPENDED_END,
    Phase,
    RunStatus,
    TerminationReason,
    from_done_reason,
)
from awaken.core.message import Message, Role
from awaken.core.run import (
    MessageSeqRange,
    RunChanges,
    RunMessageInput,
    RunMessageOutput,
    RunRecord,
    RunWaitingState,
    RunWaitingTicket,
    WaitingReason,
)
from awaken.core.state.call_keys import TOOL_CALL_STATES
from awaken.core.state.run_keys import RUN_LIFECYCLE, RunLifecycleState, StepCompleted
from awaken.core.state.store import StateStore
from awaken.core.store.commits import has_outcomes
from awaken.core.suspension import ToolCallStatus
from awaken.engine.commit_state import SETTLED
from awaken.engine.large_content import keep_large
from awaken.engine.live_run import LiveRun
from awaken.engine.spending import count_time
from awaken.errors import KeyEncode

# Module constants, because on Python 3.11 reading an enum member costs as much as a function call.
_RUNNING = RunStatus.RUNNING
_WAITING = RunStatus.WAITING
_DONE = RunStatus.DONE
_STEP_END = Phase.STEP_END
_STEP_ENDED = StepEnd()

log = logging.getLogger("awaken.loop")
_replace = msgspec.structs.replace


async def complete_step(run: LiveRun) -> None:
    """Count the step, run its last phase, and queue its `StepEnd` event for the next commit."""
    run.in_step = False
    run.steps += 1
    lifecycle, now = run.state.read(RUN_LIFECYCLE), run.clock.now_ms()
    if lifecycle is None or lifecycle.status is not _DONE:
        run.state.update(RUN_LIFECYCLE, StepCompleted(updated_at=now))
    try:
        if run.is_busy(_STEP_END):
            await run.phase(_STEP_END, final=True)
            now = run.clock.now_ms()
    finally:
        if run.journal.has_listener():
            emit_state_snapshot(run)
        run.journal.note(_STEP_ENDED, now)
        run.step_ends = run.journal.last_promised()


# The parameters are not keyword-only, here and in other functions that every step calls: Python
# 3.11 calls a function that has such parameters on a slow path, even if they are not given.
async def persist_checkpoint(
    run: LiveRun,
    termination: TerminationReason | None = None,
    error_payload: Json = None,
    finish: RunFinish | None = None,
    release: bool = False,
    wait: bool = True,
) -> None:
    """Commit everything since the last commit; with `termination`, the end of the run too.

    With `release` this process gives up the claim on the thread. Without `wait` the commit may
    still be under way on return: `run.journal.wait_settled()` waits for it.

    Raises:
        StorageError: the store refused the commit or could not be reached, or a large medium could
            not be kept.
        KeyEncode: a state value cannot be written.
    """
    journal = run.journal
    if journal.state is not SETTLED:
        await journal.wait_settled()
    if run.reservation is not None:
        count_time(run)
        if release:
            await run.reservation.publish(leaves=True)
    run.unsaved = 0
    if run.transcript.has_large:
        await keep_large(run)
    run_state, thread_state = run.state.take_unsaved()
    lifecycle = run.state.read(RUN_LIFECYCLE) or RunLifecycleState()
    fresh, record = run.transcript.take_pending(), run.record
    if (
        record is not None
        and termination is None
        and record.status is _RUNNING is lifecycle.status
        and record.input is not None
        and record.agent_id == run.agent.spec.id
    ):
        # The most frequent case, a run that goes on: most of its record stays as it is.
        record = record.advance_step(
            lifecycle.updated_at or run.created_at_ms,
            _longer_output(run, record, fresh) if fresh else record.output,
            run.steps,
            run.input_tokens,
            run.output_tokens,
        )
    else:
        fresh, source, output = _own_messages(run, lifecycle, fresh)
        record = _next_record(run, lifecycle, source, output, termination, error_payload)
    if run.usage_totals:
        record = _replace(record, **run.usage_totals)
    if record.takeovers is not None and (fresh or has_outcomes(journal.calls)):
        record = _replace(record, takeovers=None)
    if finish is not None:
        journal.note(finish)
    run.record = record
    making = journal.start_commit(fresh, record, run_state, thread_state, release, wait)
    if making is not None:
        await making


def _own_messages(
    run: LiveRun, lifecycle: RunLifecycleState, fresh: tuple[Message, ...]
) -> tuple[tuple[Message, ...], RunMessageInput | None, RunMessageOutput | None]:
    """The new messages, and the ranges of the log that are the run's input and its output so far.

    The output has no message ids: the log has them, and a record that repeated them would grow
    with each step.
    """
    record, before = run.record, run.journal.length
    if record is not None and record.input is not None:
        return fresh, record.input, _longer_output(run, record, fresh)
    fresh, source, output = materialize_message_log(
        fresh,
        record,
        run.identity,
        lifecycle.step_count,
        len(run.setup.first_commit.messages),
        base_seq=before,
    )
    return fresh, source or _find_logged_input(run), output and _replace(output, message_ids=())


def _longer_output(
    run: LiveRun, record: RunRecord, fresh: tuple[Message, ...]
) -> RunMessageOutput | None:
    """The run's output with these new messages. The first commit of the run is made: messages of
    later ones name the run that made them, so only the end of the range has to be found."""
    output, before = record.output, run.journal.length
    if fresh and fresh[-1].metadata is run.metadata:
        last = before + len(fresh)  # mostly: a message of this step
    elif not (last := _last_produced_seq(fresh, run.identity.run_id, before)):
        return output
    if output is not None and output.range is not None:
        first = output.range.from_seq
    else:
        first = first_existing_produced_seq(fresh, run.identity.run_id, before) or last
    grown = MessageSeqRange(from_seq=first, to_seq=last)
    return RunMessageOutput(thread_id=run.identity.thread_id, range=grown)


def _last_produced_seq(fresh: Sequence[Message], run_id: str, before: int) -> int:
    """The position of the last of the new messages that the run produced, or 0."""
    for back, message in enumerate(reversed(fresh)):
        if message.produced_by_run_id() == run_id:
            return before + len(fresh) - back
    return 0


def _find_logged_input(run: LiveRun) -> RunMessageInput | None:
    """The input of a new run whose request names messages that are in the log already, or `None`
    if it names none."""
    request = run.setup.first_commit.request
    count = request.input_message_count if request is not None else 0
    if count == 0 or run.record is not None:
        return None
    return _input_from_count(run.identity.thread_id, run.journal.length - count, count)


def _next_record(
    run: LiveRun,
    lifecycle: RunLifecycleState,
    source: RunMessageInput | None,
    output: RunMessageOutput | None,
    termination: TerminationReason | None,
    error_payload: Json,
) -> RunRecord:
    """The record for the next commit."""
    now = lifecycle.updated_at or run.created_at_ms
    record, status, agent = run.record, lifecycle.status, run.agent
    if termination is None and status is _DONE:
        # A hook has ended the run. Its record is running until the commit of its end.
        status = _RUNNING
    if record is None:
        record = RunRecord.begin(run.identity, run.setup.first_commit.request, run.created_at_ms)
    elif record.status is _DONE and termination is None:
        # The store is away, and the commit of the run's end is held in memory. This commit follows
        # it, so its record must say the same.
        status, termination = _DONE, record.termination_reason
        error_payload = record.error_payload
    changes: RunChanges = {
        "agent_id": agent.spec.id,
        "agent_fingerprint": agent.fingerprint or record.agent_fingerprint,
        "input": source,
        "output": output,
        "steps": run.steps,
        "input_tokens": run.input_tokens,
        "output_tokens": run.output_tokens,
    }
    final = (run.response or None) if termination is not None else None
    if status is _WAITING:
        tickets = waiting_tickets_from_store(run.state)
        waiting = waiting_state_from_lifecycle(
            status, lifecycle.status_reason, run.identity.dispatch_id, tickets
        )
        assert waiting is not None, "a waiting lifecycle gives a waiting state"
        return record.wait(
            now, waiting, termination, final_output=final, error_payload=error_payload, **changes
        )
    if status is _DONE and termination is not None:
        return record.finish(
            now, termination, final_output=final, error_payload=error_payload, **changes
        )
    return record.advance(now, **changes)


# -- the run's input and output ---------------------------------------------------------------


def materialize_message_log(
    messages: Sequence[Message],
    previous: RunRecord | None,
    identity: RunIdentity,
    step_count: int,
    input_message_count: int,
    *,
    base_seq: int = 0,
) -> tuple[tuple[Message, ...], RunMessageInput | None, RunMessageOutput | None]:
    """Mark the messages that the run produced. Returns all messages, and the ranges of the log that
    are the run's input and its output.

    The first of `messages` is number `base_seq + 1` of the log.
    """
    source = (
        (previous.input if previous is not None else None)
        or _input_from_request(previous, identity.thread_id, base_seq + len(messages))
        or _input_from_count(identity.thread_id, base_seq, input_message_count)
    )
    start = (
        source.range.to_seq + 1
        if source is not None and source.range is not None
        else first_existing_produced_seq(messages, identity.run_id, base_seq)
        or base_seq + input_message_count + 1
    )
    before = previous.output if previous is not None else None
    ids = list(before.message_ids) if before is not None else []
    low = before.range.from_seq if before is not None and before.range is not None else None
    high = before.range.to_seq if before is not None and before.range is not None else None
    step_index = step_count - 1 if step_count > 0 else None
    fresh = False
    marked: list[Message] = []
    for seq, message in enumerate(messages, start=base_seq + 1):
        produced = message.produced_by_run_id()
        mine = produced == identity.run_id
        if seq >= start and produced in (None, identity.run_id) and is_run_output_message(message):
            message = message.mark_produced_by(identity.run_id, step_index)
            mine = fresh = True
        marked.append(message)
        if mine:
            low = seq if low is None else min(low, seq)
            high = seq if high is None else max(high, seq)
            if message.id is not None and message.id not in ids:
                ids.append(message.id)
    if low is None or high is None or (not fresh and not ids):
        return tuple(marked), source, before
    output = RunMessageOutput(
        thread_id=identity.thread_id, range=MessageSeqRange.new(low, high), message_ids=tuple(ids)
    )
    return tuple(marked), source, output


def _input_from_request(
    previous: RunRecord | None, thread_id: str, total: int
) -> RunMessageInput | None:
    """The input of a run whose record has only its request: the last messages of the log, as many
    as the request says. Returns `None` if there is no request or it has no messages."""
    request = previous.request if previous is not None else None
    if request is None:
        return None
    count = max(request.input_message_count, len(request.input_message_ids))
    if count == 0:
        return None
    return RunMessageInput(
        thread_id=thread_id,
        range=MessageSeqRange.new(max(1, total - count + 1), total),
        trigger_message_ids=request.input_message_ids,
    )


def _input_from_count(thread_id: str, base_seq: int, count: int) -> RunMessageInput | None:
    """The input of a run that was started with `count` messages: the log up to the last of them.
    Returns `None` if `count` is 0."""
    if count == 0:
        return None
    return RunMessageInput(thread_id=thread_id, range=MessageSeqRange.new(1, base_seq + count))


def is_run_output_message(message: Message) -> bool:
    return message.role in (Role.ASSISTANT, Role.TOOL)


def first_existing_produced_seq(
    messages: Sequence[Message], run_id: str, base_seq: int = 0
) -> int | None:
    for seq, message in enumerate(messages, start=base_seq + 1):
        if message.produced_by_run_id() == run_id:
            return seq
    return None


# -- what the run waits for -------------------------------------------------------------------


def waiting_state_from_lifecycle(
    status: RunStatus,
    status_reason: str | None,
    since_dispatch_id: str | None,
    tickets: Sequence[RunWaitingTicket],
) -> RunWaitingState | None:
    """The reason for which a waiting run waits, or `None` if the status is not waiting."""
    if status is not _WAITING:
        return None
    return RunWaitingState(
        reason=WaitingReason.from_status_reason(status_reason),
        ticket_ids=tuple([ticket.ticket_id for ticket in tickets]),
        tickets=tuple(tickets),
        since_dispatch_id=since_dispatch_id,
        message=status_reason,
    )


def waiting_tickets_from_store(store: StateStore) -> list[RunWaitingTicket]:
    """The tickets of all suspended calls, sorted by call id."""
    states = store.read(TOOL_CALL_STATES)
    tickets = [
        RunWaitingTicket(
            ticket_id=call.suspension_id or call_id,
            tool_call_id=call_id,
            tool_name=call.asks_about[0],
            arguments=call.asks_about[1],
            resume_mode=call.resume_mode,
            reason=call.suspension_reason,
            updated_at=call.updated_at,
            digest=call.digest,
            expires_at=call.expires_at,
            asker=call.asker,
            key=call.question_key,
            message=call.message,
            response_schema=call.response_schema,
        )
        for call_id, call in (states.calls if states else {}).items()
        if call.status is ToolCallStatus.SUSPENDED
    ]
    return sorted(tickets, key=lambda ticket: (ticket.tool_call_id, ticket.ticket_id))


# -- snapshot and termination -----------------------------------------------------------------


def emit_state_snapshot(run: LiveRun) -> None:
    """Queue the run's public state as events for listeners, to be sent after the next commit: what
    changed, and the whole of it for readers that come late."""
    try:
        state = run.state.public_json()
    except KeyEncode as error:
        log.warning("failed to export state snapshot: %s", error)
        return
    if state.changes:
        run.journal.note_transient(StateDelta(delta=state.changes))
    snapshot = {"revision": state.revision, "extensions": state.values}
    run.journal.note_transient(StateSnapshot(snapshot=snapshot))


def check_termination(store: StateStore) -> TerminationReason | None:
    """How the run ends if its lifecycle is done or suspended, else `None`. A run that waits only
    for background work has not ended."""
    lifecycle = store.read(RUN_LIFECYCLE)
    if lifecycle is None:
        return None
    status = lifecycle.status
    if status is _RUNNING or status is RunStatus.CREATED:
        return None
    if status is _DONE:
        return lifecycle.termination or from_done_reason(lifecycle.status_reason or "unknown")
    return None if lifecycle.status_reason == AWAITING_TASKS else SUSPENDED_END
