"""Suspended calls: waiting for the answers of approvers, and carrying the answers out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from awaken.core.aio.cancel import interruptible, wait_first
from awaken.core.budget import BUDGET_LIMIT
from awaken.core.event import ToolCallResumed
from awaken.core.inbox import DecisionQueue, InboxClosed
from awaken.core.message import Message, Role, Text, ToolCall
from awaken.core.spec import ToolExecutorKind
from awaken.core.state.call_keys import TOOL_CALL_STATES, PutCall, ToolCallState
from awaken.core.state.command import MutationBatch
from awaken.core.state.store import StateStore
from awaken.core.store.commits import CallEntry, CallPhase
from awaken.core.suspension import (
    Decision,
    ResumeAction,
    ResumedOutcome,
    TicketStatus,
    ToolCallResume,
    ToolCallStatus,
    is_digest_of,
)
from awaken.core.tool import OUTCOME_UNKNOWN, ToolError, ToolResult
from awaken.engine import tool_calls
from awaken.engine.call_results import (
    append_summary,
    cancel_delegate,
    close_call,
    digest_of,
    interrupt,
    load_delegate_summary,
    ticket_of,
    unknown_outcome,
)
from awaken.engine.checkpoint import persist_checkpoint
from awaken.engine.crash_recovery import settle, was_begun
from awaken.engine.live_run import LiveRun
from awaken.engine.spending import take_answer
from awaken.engine.step_calls import StepCalls
from awaken.errors import InvalidResume, StateError, UnknownKey

log = logging.getLogger("awaken.loop")
_replace = msgspec.structs.replace
EXPIRY_GRACE_MS = 1000
"""How long after a question's expiry the run still waits for an answer that was given in time."""

LOOK_AT_CLOCK_SECONDS = 60.0
"""While a run waits for a question to expire, it looks at the clock after at most this time."""

_MISFIT = "the approval was given to another call; ask again"


def prepare_resume(store: StateStore, decisions: Sequence[Decision]) -> None:
    """Write answers to suspended calls into the state, all or none. An answer that the call has
    already, by its decision id, is skipped.

    Raises:
        UnknownKey: a target is neither a call nor a suspension.
        InvalidResume: a call no longer waits for an answer.
    """
    store.commit(decision_batch(store, decisions))


def decision_batch(store: StateStore, decisions: Sequence[Decision]) -> MutationBatch:
    """The state changes that `prepare_resume` commits. Raises the same errors."""
    states = store.read(TOOL_CALL_STATES)
    known = dict(states.calls) if states else {}
    batch = MutationBatch()
    for target, decision in decisions:
        call = find_call(known, target)
        given = call.resume_input
        if given is not None and decision.decision_id and given.decision_id == decision.decision_id:
            continue
        if call.status is not ToolCallStatus.SUSPENDED:
            raise InvalidResume(
                f"tool call '{call.call_id}' ({call.tool_name}) is {call.status.value}, "
                "it no longer waits for a decision"
            )
        # A call that asks on behalf of a delegate runs after a no too: it passes the no on.
        resume = decision.action is ResumeAction.RESUME or call.asker is not None
        decided = _replace(
            call,
            status=ToolCallStatus.RESUMING if resume else ToolCallStatus.CANCELLED,
            resume_input=decision,
            resume_mode=(decision.mode if call.asker is None else None) or call.resume_mode,
            updated_at=decision.updated_at or call.updated_at,
        )
        known[call.call_id] = decided
        batch.update(TOOL_CALL_STATES, PutCall(call=decided))
    return batch


def find_call(known: dict[str, ToolCallState], target: str) -> ToolCallState:
    """The call with that call id, suspension id or question key.

    Raises:
        UnknownKey: there is no such call.
    """
    call = known.get(target) or next(
        (
            call
            for call in known.values()
            if call.suspension_id == target or (call.asked and call.question_key == target)
        ),
        None,
    )
    if call is None:
        waiting = sorted(c.call_id for c in known.values() if c.status is ToolCallStatus.SUSPENDED)
        hint = f"; waiting: {', '.join(waiting)}" if waiting else "; no call waits"
        raise UnknownKey(target, f"tool call or suspension {target} not found{hint}")
    return call


def list_suspended_calls(store: StateStore) -> list[ToolCallState]:
    states = store.read(TOOL_CALL_STATES)
    return [
        call
        for call in (states.calls.values() if states else ())
        if call.status is ToolCallStatus.SUSPENDED
    ]


def list_open_calls(store: StateStore) -> list[ToolCallState]:
    """The calls that wait for an answer, or have one that was not carried out."""
    states = store.read(TOOL_CALL_STATES)
    return [
        call
        for call in (states.calls.values() if states else ())
        if call.status is ToolCallStatus.SUSPENDED or call.resume_input is not None
    ]


async def cancel_open_calls(run: LiveRun, calls: Sequence[ToolCallState]) -> None:
    """Cancel the open calls of a run that ends.

    A late answer then finds no waiting call, and no later run resumes one. If a call asked on
    behalf of a delegate, its result includes a summary of the delegate's actions for the model of
    the thread's next run, and the delegate's run is cancelled.
    """
    for call in calls:
        waits = call.status is ToolCallStatus.SUSPENDED
        why = "anybody decided" if waits else "the decision was carried out"
        if call.suspension_reason != BUDGET_LIMIT:
            text = str(ToolError.cancelled(f"the run ended before {why}"))
            phase = CallPhase.CANCELLED
            if call.suspension_reason == OUTCOME_UNKNOWN and waits:
                text = unknown_outcome(call.tool_name, text).model_text()
                phase = CallPhase.UNKNOWN
            if call.asker is not None:
                thread_id = run.identity.thread_id
                done = await load_delegate_summary(
                    run.setup.services.delegates, thread_id, call.key
                )
                text = append_summary(text, done)
            _answer(run, call, text, phase, ResumedOutcome.CANCELLED, reason=text)
        cancel_delegate(run, call.tool_name, call.key, call.asker)
        closed = _replace(
            call,
            status=ToolCallStatus.CANCELLED,
            resume_input=None,
            suspension_id=None,
            suspension_reason=None,
        )
        run.state.update(TOOL_CALL_STATES, PutCall(call=closed))


def _answer(
    run: LiveRun,
    call: ToolCallState,
    text: str,
    phase: CallPhase,
    outcome: ResumedOutcome,
    *,
    reason: str | None,
) -> None:
    """Give a result to a suspended call that will not run: add it to the log, the ledger and the
    events."""
    decision = call.resume_input
    message = Message(
        id=(decision.message_id if decision is not None else None) or run.ids.new(),
        role=Role.TOOL,
        content=(Text(text=text),),
        tool_call_id=call.call_id,
        metadata=run.metadata,
    )
    run.journal.note(
        ToolCallResumed(
            target_id=call.call_id,
            result=decision.result if decision is not None else None,
            message_id=message.id or "",
            name=call.tool_name,
            outcome=outcome,
            reason=reason,
            by=decision.by if decision is not None else None,
            text=text,
        )
    )
    if call.key:
        run.journal.calls.append(
            CallEntry(
                key=call.key,
                run_id=run.identity.run_id,
                call_id=call.call_id,
                tool_name=call.tool_name,
                phase=phase,
            )
        )
    run.transcript.answer(call.call_id, message)


# -- replay -----------------------------------------------------------------------------------


async def take_expired(run: LiveRun) -> bool:
    """Answer expired questions with a no. Returns whether a call has got an answer, be it that no
    or one from the store."""
    if not _overdue(run):
        return False
    if run.controls.look is not None:
        # An approver may have answered in time, and the answer not have arrived in this process.
        await run.controls.look()
        if take_decisions(run):
            return True
    now = run.clock.now_ms()
    late = _overdue(run)
    for call in late:
        no = ToolCallResume.deny(f"nobody decided about '{call.tool_name}' in time")
        no = _replace(no, updated_at=now, decision_id=_expiry_decision_id(call))
        run.journal.extras.tickets.append(
            ticket_of(call, run.identity, status=TicketStatus.EXPIRED, decision=no)
        )
        prepare_resume(run.state, [(call.question_key, no)])
    return bool(late)


def _expiry_decision_id(call: ToolCallState) -> str:
    """The id of the denial that an expired question gets."""
    return f"expired:{call.question_key}"


def _overdue(run: LiveRun) -> list[ToolCallState]:
    now = run.clock.now_ms()
    return [
        call
        for call in list_suspended_calls(run.state)
        if call.expires_at is not None and call.expires_at + EXPIRY_GRACE_MS <= now
    ]


def next_expiry(run: LiveRun) -> float | None:
    """The seconds until the next question is taken as expired, or `None` if no question expires."""
    times = [c.expires_at for c in list_suspended_calls(run.state) if c.expires_at is not None]
    if not times:
        return None
    return max(0.0, (min(times) + EXPIRY_GRACE_MS - run.clock.now_ms()) / 1000)


async def detect_and_replay_resume(run: LiveRun) -> str | None:
    """Carry out the answers that suspended calls have got, and commit as calls end.

    Returns why a gate blocked the run, or `None` if none did. An agent with batch approval carries
    out no answer before all its suspended calls have one.

    Raises:
        Cancelled: the run was cancelled.
    """
    if run.agent.tool_executor is ToolExecutorKind.PARALLEL_BATCH_APPROVAL and list_suspended_calls(
        run.state
    ):
        return None
    states = run.state.read(TOOL_CALL_STATES)
    decided = [c for c in (states.calls.values() if states else ()) if c.resume_input is not None]
    for call in [call for call in decided if call.suspension_reason == BUDGET_LIMIT]:
        decided.remove(call)
        take_answer(run, call)
        await persist_checkpoint(run)
    decided.sort(key=lambda call: call.call_id)
    for call in [call for call in decided if call.status is ToolCallStatus.CANCELLED]:
        _take_no(run, call)
        await persist_checkpoint(run)
    for step in _steps(run, [call for call in decided if call.status is ToolCallStatus.RESUMING]):
        await _take_yes(run, step)
        await persist_checkpoint(run)
        if step.blocked is not None:
            return step.blocked
    return None


def _take_no(run: LiveRun, call: ToolCallState) -> None:
    """Carry out a denial: the call gets a result that gives the model the reason."""
    decision = call.resume_input
    assert decision is not None, "only decided calls are taken up"
    reason = decision.reason
    if reason is None and call.suspension_reason == OUTCOME_UNKNOWN:
        reason = f"somebody found that '{call.tool_name}' did not take effect"
    text = str(ToolError.denied(reason or f"'{call.tool_name}' was not approved"))
    is_late = decision.decision_id == _expiry_decision_id(call)
    outcome = ResumedOutcome.EXPIRED if is_late else ResumedOutcome.DENIED
    _answer(run, call, text, CallPhase.FAILED, outcome, reason=reason)
    cancel_delegate(run, call.tool_name, call.key)
    settled = _replace(call, resume_input=None, suspension_id=None, suspension_reason=None)
    run.state.update(TOOL_CALL_STATES, PutCall(call=settled))


def _steps(run: LiveRun, approved: Sequence[ToolCallState]) -> list[StepCalls]:
    """The approved calls, grouped by the assistant message that made them, with the arguments that
    they will run with."""
    steps: dict[str, StepCalls] = {}
    for call in approved:
        arguments = call.arguments
        if call.is_edited and call.resume_input:
            # The approver has edited the arguments: the gates must judge those that will run.
            arguments = call.resume_input.result
        own = ToolCall(id=call.call_id, name=call.tool_name, arguments=arguments)
        message, index = run.transcript.find_call(call.call_id) or (None, 0)
        if message is None:
            steps[call.call_id] = StepCalls("", (own,), {0: call})
            continue
        id = message.id or ""
        step = steps.get(id)
        made = list(step.calls if step is not None else message.tool_calls or ())
        made[index] = own
        resumed = step.resumed if step is not None else {}
        steps[id] = StepCalls(id, made, {**resumed, index: call})
    return list(steps.values())


async def _take_yes(run: LiveRun, step: StepCalls) -> None:
    """Carry out approved calls: they go through the gates again, and run like new calls."""
    begun = [index for index in step.resumed if was_begun(run, step, index)]
    try:
        fresh = [index for index in sorted(step.resumed) if await _is_to_run(run, step, index)]
        await tool_calls.gate_and_execute(run, step, fresh)
    except BaseException:
        step.note_started(begun)
        # A call that asks on behalf of a delegate was started when the delegate was.
        step.note_started(i for i, call in step.resumed.items() if call.asker is not None)
        await interrupt(run, step, [index for index in step.resumed if step.is_open(index)])
        raise


async def _is_to_run(run: LiveRun, step: StepCalls, index: int) -> bool:
    """Whether an approved call is to run now.

    If not, it gets a result or a new question here: because the answer was given to another
    question, because its tool is gone, or because a process that died had started it.
    """
    call = step.resumed[index]
    why = None if _fits(run, call) else _MISFIT
    if call.asker is not None and call.tool_name not in run.agent.tools:
        why = f"tool '{call.tool_name}' not found"
    if why is not None:
        if call.asker is not None:
            thread_id = run.identity.thread_id
            delegates = run.setup.services.delegates
            done = await load_delegate_summary(delegates, thread_id, call.key)
            why = append_summary(why, done)
        close_call(run, step, index, ToolResult.error(call.tool_name, why))
        return False
    return not was_begun(run, step, index) or not await settle(run, step, index)


def _fits(run: LiveRun, call: ToolCallState) -> bool:
    """Whether the answer belongs to this question: same run, same tool, same arguments. An answer
    without a digest always does."""
    given = call.resume_input.digest if call.resume_input else None
    return given is None or is_digest_of(given, digest_of(call, run.identity))


# -- waiting ----------------------------------------------------------------------------------


async def wait_for_decisions(run: LiveRun) -> bool:
    """Wait until a decision arrives or a question expires. Messages that come into the inbox
    meanwhile are logged and committed; the model is not asked about them yet.

    Returns `False` if no decision can come any more.

    Raises:
        Cancelled: the run was cancelled.
    """
    queue = run.controls.decision_rx
    if queue is None:
        return False
    while True:
        run.check_token()
        if take_decisions(run) or await take_expired(run):
            return True
        if queue.closed or not queue.waits:
            return False
        if messages := run.read_inbox():
            run.transcript.extend(messages)
            await persist_checkpoint(run)
            continue
        if run.journal.has_pending:
            await persist_checkpoint(run)
            continue
        with interruptible(run.token):
            await _something_comes(run, queue)


def take_decisions(run: LiveRun) -> bool:
    """Write the queued answers into the state, batch by batch. Returns whether a batch was
    accepted."""
    taken = False
    for decisions, command in (
        run.controls.decision_rx.drain() if run.controls.decision_rx is not None else ()
    ):
        if command is not None:
            run.journal.extras.acks.append(command)
        try:
            prepare_resume(run.state, decisions)
            taken = True
        except (StateError, InvalidResume) as error:
            # Answers are also checked when they are sent: these became stale on the way.
            log.warning("decisions were refused: %s", error)
    return taken


async def _something_comes(run: LiveRun, queue: DecisionQueue) -> None:
    waits = [queue.ready(), _inbox_ready(run)]
    if (seconds := next_expiry(run)) is not None:
        # A clock that was set forward, or a machine that was suspended, does not end a sleep early.
        waits.append(run.clock.sleep(min(seconds, LOOK_AT_CLOCK_SECONDS)))
    await wait_first(*waits)


async def _inbox_ready(run: LiveRun) -> None:
    if run.inbox is not None:
        try:
            return await run.inbox.ready()
        except InboxClosed:
            run.inbox = None
    # The inbox is closed: wait for ever, so that only the decisions or the timer end the wait.
    await asyncio.Event().wait()
