"""Commits of a live run: its record, the ranges of the log it read and wrote, why it waits."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from awaken.codec import Json
from awaken.contract.commits import has_outcomes
from awaken.domain.event import RunFinish, StateSnapshot, StepEnd
from awaken.domain.identity import RunIdentity
from awaken.domain.lifecycle import (
    AWAITING_TASKS,
    SUSPENDED_END,
    RunStatus,
    TerminationReason,
    from_done_reason,
)
from awaken.domain.message import Message, Role
from awaken.domain.phase import Phase
from awaken.domain.run import (
    MessageSeqRange,
    RunChanges,
    RunMessageInput,
    RunMessageOutput,
    RunRecord,
    RunWaitingState,
    RunWaitingTicket,
    WaitingReason,
)
from awaken.domain.suspension import ToolCallStatus
from awaken.errors import KeyEncode
from awaken.loop.commit_state import SETTLED
from awaken.loop.live import LiveRun
from awaken.loop.spending import count_time
from awaken.state.call_keys import TOOL_CALL_STATES
from awaken.state.runtime_keys import RUN_LIFECYCLE, RunLifecycleState, StepCompleted
from awaken.state.store import StateStore

# Bound once: on Python 3.11 reaching a member through its enum costs as much as a call.
_RUNNING = RunStatus.RUNNING
_WAITING = RunStatus.WAITING
_DONE = RunStatus.DONE
_STEP_END = Phase.STEP_END
_STEP_ENDED = StepEnd()

log = logging.getLogger("awaken.loop")
_replace = msgspec.structs.replace


async def complete_step(run: LiveRun) -> None:
    """Count the step, run its last phase, and note its end for the next commit."""
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
        if run.journal.live:
            emit_state_snapshot(run)
        run.journal.note(_STEP_ENDED, now)


async def persist_checkpoint(
    run: LiveRun,
    *,
    termination: TerminationReason | None = None,
    error_payload: Json = None,
    finish: RunFinish | None = None,
    release: bool = False,
    wait: bool = True,
) -> None:
    """Commit everything since the last commit; with `termination`, the end of the run too.

    With `release`, the thread is released. Without `wait`, the commit may still be under way on
    return; `run.journal.settled()` waits for it.

    Raises:
        StorageError: the commit was not made; its events were not sent.
        KeyEncode: a state value cannot be written.
    """
    if run.journal.state is not SETTLED:
        await run.journal.settled()
    if run.reservation is not None:
        count_time(run)
        if release:
            await run.reservation.tell(leaves=True)
    run_state, thread_state = run.state.take_unsaved()
    lifecycle = run.state.read(RUN_LIFECYCLE) or RunLifecycleState()
    messages, source, output = _own_messages(run, lifecycle)
    record = _next_record(run, lifecycle, source, output, termination, error_payload)
    if run.took:
        record = _replace(record, **run.took)
    if record.takeovers is not None and (messages or has_outcomes(run.journal.calls)):
        record = _replace(record, takeovers=None)
    if finish is not None:
        run.journal.note(finish)
    run.record = record
    await run.journal.commit(messages, record, run_state, thread_state, release=release, wait=wait)


def _own_messages(
    run: LiveRun, lifecycle: RunLifecycleState
) -> tuple[tuple[Message, ...], RunMessageInput | None, RunMessageOutput | None]:
    """The new messages of the log, and the ranges of it that the run has read and written.

    The log has the ids of these messages; repeating them in every record would make each step cost
    more than the one before.
    """
    fresh, before, record = run.transcript.take_pending(), run.journal.length, run.record
    if record is None or record.input is None:
        fresh, source, output = materialize_message_log(
            fresh, record, run.identity, lifecycle.step_count, run.input_count, base_seq=before
        )
        return fresh, source or _persisted_input(run), output and _replace(output, message_ids=())
    # From here on every message names the run that made it, so only the range has to grow.
    mine, output, last = run.identity.run_id, record.output, before + len(fresh)
    for message in reversed(fresh):
        metadata = message.metadata
        if metadata is not None and metadata.run_id == mine:
            break
        last -= 1
    else:
        return fresh, record.input, output
    known = output.range if output is not None else None
    first = first_existing_produced_seq(fresh, mine, before) if known is None else known.from_seq
    grown = MessageSeqRange(from_seq=first or last, to_seq=last)
    return fresh, record.input, RunMessageOutput(thread_id=run.identity.thread_id, range=grown)


def _persisted_input(run: LiveRun) -> RunMessageInput | None:
    """The input of a run whose request named messages that were already in the log."""
    count = run.request.input_message_count if run.request is not None else 0
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
    """The record of the run as it stands now."""
    now = (lifecycle.updated_at or run.created_at_ms) // 1000
    record, status, agent = run.record, lifecycle.status, run.agent
    if termination is None and status is _DONE:
        # A hook has asked for the end of the run; until that is committed, the run goes on.
        status = _RUNNING
    if (
        record is not None
        and termination is None
        and status is record.status is _RUNNING
        and record.agent_id == agent.spec.id
    ):
        # A run that simply goes on: most of its record stays as it is.
        return record.advance_step(now, output, run.steps, run.input_tokens, run.output_tokens)
    if record is None:
        record = RunRecord.begin(run.identity, run.request, run.created_at_ms // 1000)
    elif record.status is _DONE and termination is None:
        # The commit of the end is held back until the store can take it; what follows it in the
        # log belongs to the same end.
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


# -- which messages are whose -----------------------------------------------------------------


def materialize_message_log(
    messages: Sequence[Message],
    previous: RunRecord | None,
    identity: RunIdentity,
    step_count: int,
    input_message_count: int,
    *,
    base_seq: int = 0,
) -> tuple[tuple[Message, ...], RunMessageInput | None, RunMessageOutput | None]:
    """Mark the messages that the run wrote, and find the ranges of the log it read and wrote.

    `messages` is a window of the log that begins behind `base_seq`.
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
    """The input for a record that has only the number of the request's messages."""
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
    """The input of a run whose request had `count` messages: the log up to the last of them."""
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


# -- why it waits -----------------------------------------------------------------------------


def waiting_state_from_lifecycle(
    status: RunStatus,
    status_reason: str | None,
    since_dispatch_id: str | None,
    tickets: Sequence[RunWaitingTicket],
) -> RunWaitingState | None:
    """What a waiting run waits for; `None` for any other run."""
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
    """A ticket for every suspended call."""
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
        )
        for call_id, call in (states.calls if states else {}).items()
        if call.status is ToolCallStatus.SUSPENDED
    ]
    return sorted(tickets, key=lambda ticket: (ticket.tool_call_id, ticket.ticket_id))


# -- snapshot and termination -----------------------------------------------------------------


def emit_state_snapshot(run: LiveRun) -> None:
    """Note the run's state for the listener."""
    try:
        revision, state = run.state.as_json()
    except KeyEncode as error:
        log.warning("failed to export state snapshot: %s", error)
        return
    snapshot = {"revision": revision, "extensions": state}
    run.journal.note_transient(StateSnapshot(snapshot=snapshot))


def check_termination(store: StateStore) -> TerminationReason | None:
    """How the run ended, if its lifecycle says it did."""
    lifecycle = store.read(RUN_LIFECYCLE)
    if lifecycle is None:
        return None
    status = lifecycle.status
    if status is _RUNNING or status is RunStatus.CREATED:
        return None
    if status is _DONE:
        return lifecycle.termination or from_done_reason(lifecycle.status_reason or "unknown")
    return None if lifecycle.status_reason == AWAITING_TASKS else SUSPENDED_END
