"""Continuing a run after a crash: settling the calls that had started and have no outcome.

A call with an outcome is never run again. A call without one is settled by its tool's `Recover`
policy.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from awaken.core.aio.cancel import interruptible, is_cancellation
from awaken.core.event import AgentEvent, StepStart, ToolCallReady
from awaken.core.lifecycle import Failed, RunStatus, TerminationReason
from awaken.core.message import Message, Role
from awaken.core.spec import ToolExecutorKind
from awaken.core.state.call_keys import TOOL_CALL_STATES
from awaken.core.store.commits import CallPhase, call_key
from awaken.core.suspension import (
    PendingToolCall,
    SuspendTicket,
    Suspension,
    ToolCallResumeMode,
    ToolCallStatus,
)
from awaken.core.tool import ABANDONED, OUTCOME_UNKNOWN, Recover, ToolEffect, ToolResult
from awaken.core.tool_context import Tool, ToolOutput, traits_of
from awaken.engine import tool_calls
from awaken.engine.call_results import (
    append_summary,
    build_confirmed_result,
    close_call,
    complete,
    interrupt,
    load_delegate_summary,
    may_delegate,
    unknown_outcome,
)
from awaken.engine.checkpoint import check_termination, complete_step
from awaken.engine.live_run import LiveRun
from awaken.engine.spending import note
from awaken.engine.step_calls import StepCalls
from awaken.errors import Cancelled, RunLeft
from awaken.tool.execute import within
from awaken.tool.output import to_output

log = logging.getLogger("awaken.loop")

_ENDED = (CallPhase.SUCCEEDED, CallPhase.FAILED, CallPhase.CANCELLED, CallPhase.UNKNOWN)
_WHY = "the process ended while the call was under way"


async def recover_step(run: LiveRun) -> StepCalls | None:
    """Finish the step that a crash cut short, except for calls that wait for an approver.

    Returns its calls, or `None` if no step was cut short.

    Raises:
        Cancelled: the run was cancelled; the calls without a result got one that says so.
        RunLeft: another process will continue the run and settle the open calls.
        StateError: a hook or gate failed; the calls without a result got one that says that they
            were interrupted.
    """
    step = find_interrupted_step(run)
    if step is None:
        return None
    run.enter_step(step.message_id)
    await _send_again(run, StepStart(message_id=step.message_id, agent_id=run.agent.spec.id))
    for index in step.open_calls():
        await _announce(run, step, index)
    step.log(run)
    step.note_started(i for i in step.open_calls() if was_begun(run, step, i))
    try:
        fresh = [
            index
            for index in step.open_calls()
            if not was_begun(run, step, index) or not await settle(run, step, index)
        ]
        if step.suspended and run.agent.tool_executor is ToolExecutorKind.SEQUENTIAL:
            fresh = []  # in a sequential agent they must not run before the call that waits
        await tool_calls.carry_out(run, step, fresh)
    except RunLeft:
        raise  # the process that continues the run settles the open calls
    except BaseException:
        await interrupt(run, step, step.open_calls())
        raise
    return step


def count_unanswered(run: LiveRun, last: Message | None) -> None:
    """Charge the run's budget, if it has one, for the model request of a process that died before
    the answer was committed. `last` is the last message of the log.

    That process may have died before it sent the request: the request is charged all the same.
    """
    fence = run.journal.fence
    if (
        run.reservation is None
        or fence is None
        or fence.taken_from is None
        or not _was_asking(run, last)
    ):
        return
    note(run, run.reservation.count_unanswered(run.agent, run.transcript.view()))


def _was_asking(run: LiveRun, last: Message | None) -> bool:
    """Whether asking the model and committing its answer was the next thing the run had to do."""
    record, states = run.record, run.state.read(TOOL_CALL_STATES)
    if record is None or record.status is not RunStatus.RUNNING:
        return False
    if any(
        call.status is ToolCallStatus.SUSPENDED or call.resume_input is not None
        for call in (states.calls.values() if states else ())
    ):
        return False
    if check_termination(run.state) is not None or find_interrupted_step(run) is not None:
        return False
    # A running run whose last message is a final answer of the model waits for background work.
    return last is None or last.role is not Role.ASSISTANT


async def abandon(run: LiveRun) -> TerminationReason:
    """Settle the open calls of a run that too many processes have died with, without running any
    tool. Returns how the run ends.

    The caller commits this together with the run's end. If this process dies before that, the next
    one abandons the run again.
    """
    log.error("run %s is %s", run.identity.run_id, ABANDONED)
    step = find_interrupted_step(run)
    if step is not None:
        run.enter_step(step.message_id)
        step.log(run)
        for index in step.open_calls():
            await _announce(run, step, index)
            await _give_up(run, step, index)
        await complete_step(run)
    return Failed(value=ABANDONED)


async def _give_up(run: LiveRun, step: StepCalls, index: int) -> None:
    """Give an open call a result without running its tool or asking an approver."""
    done = await load_delegate_summary(
        run.setup.services.delegates, run.identity.thread_id, step.keys[index]
    )
    why = append_summary("one process after another ended while the call was under way", done)
    call = step.calls[index]
    tool = run.agent.tools.get(call.name)
    if not was_begun(run, step, index):
        result = ToolResult.error(call.name, "the run was given up before the call began")
    elif tool is not None and traits_of(tool).effect is ToolEffect.READ:
        result = ToolResult.error(call.name, f"{why}; it is not run again")
    else:
        result = unknown_outcome(call.name, why)
    close_call(run, step, index, result)


async def _announce(run: LiveRun, step: StepCalls, index: int) -> None:
    call = step.calls[index]
    await _send_again(run, ToolCallReady(id=call.id, name=call.name, arguments=call.arguments))


async def _send_again(run: LiveRun, event: AgentEvent) -> None:
    """Send an event that an earlier process has stored, with the `seq` it has, if that is known."""
    mine = run.identity.run_id
    told = [known for known in reversed(run.setup.thread.recent_events) if known.run_id == mine]
    known = next((known for known in told if _is_same(known.event, event)), None)
    if known is None:
        await run.journal.send_again(event, None)
    else:
        await run.journal.send_again(known.event, known.seq)


def _is_same(known: AgentEvent, event: AgentEvent) -> bool:
    if isinstance(known, StepStart) and isinstance(event, StepStart):
        return known.message_id == event.message_id  # another agent may have taken the step
    return known == event


def find_interrupted_step(run: LiveRun) -> StepCalls | None:
    """The calls of the run's last step, restored from the log and the ledger. Returns `None` if
    that step was completed, or if the run has no message with calls."""
    message = run.setup.thread.last_step
    if message is None or message.produced_by_run_id() != run.identity.run_id:
        return None
    shown, results = _as_shown(run, message)
    assert message.tool_calls, "a step has calls"
    states = run.state.read(TOOL_CALL_STATES)
    waiting = {
        call.call_id
        for call in (states.calls.values() if states else ())
        if call.resume_input is not None
    }
    step = StepCalls(message.id or "", message.tool_calls, {})
    step.late = True
    for index, call in enumerate(message.tool_calls):
        entry = run.ledger.get(step.keys[index])
        if call.id in results or call.id not in shown:
            step.restore(index, message, logged=True)
        elif call.id in waiting or (entry is not None and entry.phase is CallPhase.SUSPENDED):
            step.restore(index, None)
        elif entry is not None and entry.phase in _ENDED and entry.held is not None:
            step.restore(index, entry.held)
    # Step indexes begin at 0, so a step is incomplete as long as its index equals the number of
    # completed steps.
    number = message.metadata.step_index if message.metadata is not None else None
    return step if step.open_calls() or step.has_held or number == run.steps else None


def _as_shown(run: LiveRun, step: Message) -> tuple[set[str], set[str]]:
    """The ids of the message's calls that the model is still shown, and the ids of the calls that
    have a result. A compaction may have removed the message from what the model is shown."""
    results: set[str] = set()
    for message in reversed(run.transcript.view()):
        if message.role is Role.TOOL and message.tool_call_id is not None:
            results.add(message.tool_call_id)
        elif message.id == step.id:
            return {call.id for call in message.tool_calls or ()}, results
    return set(), results


def was_begun(run: LiveRun, step: StepCalls, index: int) -> bool:
    """Whether a process that died may have started the call."""
    entry = run.ledger.get(step.keys[index])
    return entry is not None and entry.phase is CallPhase.INTENT


async def settle(run: LiveRun, step: StepCalls, index: int) -> bool:
    """Settle a call that a process which died may have started, by its tool's policy. Returns false
    if the call is to be run again."""
    call = step.calls[index]
    run.ledger.pop(step.keys[index], None)
    tool = run.agent.tools.get(call.name)
    policy = Recover.REPORT if tool is None else traits_of(tool).recovery
    log.info("call %s of %r was cut short: %s", step.keys[index], call.name, policy.value)
    if policy is Recover.RETRY:
        return False
    if policy is Recover.VERIFY and tool is not None:
        answer = await _verify_call(run, step, index, tool)
        if answer is False:
            return False
        if answer is not None:
            output = (
                ToolOutput(build_confirmed_result(call.name))
                if answer is True
                else to_output(call.name, answer)
            )
            await complete(run, step, index, output)
            return True
    if policy is Recover.ASK:
        close_call(run, step, index, _ask(step, index))
        return True
    why = _WHY
    if may_delegate(run, call.name):
        thread_id = run.identity.thread_id
        done = await load_delegate_summary(
            run.setup.services.delegates, thread_id, step.keys[index]
        )
        why = append_summary(why, done)
    close_call(run, step, index, unknown_outcome(call.name, why))
    return True


async def _verify_call(run: LiveRun, step: StepCalls, index: int, tool: Tool) -> Any:
    """What the tool's `verify` returns for the call; `None` if that method is missing or fails."""
    verify = getattr(tool, "verify", None)
    if verify is None:
        log.error("tool %r is to verify and has no method verify(ctx)", step.calls[index].name)
        return None
    ctx = tool_calls.tool_context(run, step, index, run.state.snapshot())
    try:
        with interruptible(run.token, run.task):
            timeout = traits_of(tool).timeout
            if timeout is None:
                return await verify(ctx)
            return await within(timeout, partial(verify, ctx), ctx)
    except Cancelled:
        raise
    except BaseException as error:
        if is_cancellation(error):
            raise
        log.exception("tool %r could not verify call %s", step.calls[index].name, step.keys[index])
        return None


def _ask(step: StepCalls, index: int) -> ToolResult:
    call = step.calls[index]
    question = (
        f"'{call.name}' was under way when the process ended. Did it take effect? Yes, or its "
        "result, if it did; no if it did not."
    )
    ticket = SuspendTicket(
        suspension=Suspension(
            id=f"{OUTCOME_UNKNOWN}:{call_key(step.message_id, index)}",
            action=OUTCOME_UNKNOWN,
            message=question,
            parameters=call.arguments,
        ),
        pending=PendingToolCall(id=call.id, name=call.name, arguments=call.arguments),
        resume_mode=ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT,
    )
    return ToolResult.suspended_with(call.name, question, ticket)
