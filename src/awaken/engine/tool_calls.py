"""The tool calls of one step: ask the gates, run the hooks before, execute, run the hooks after.

Each call ends with a result, whether it was refused, answered by a gate, run, interrupted or
cancelled; a suspended call gets its result later. Results enter the log in call order, whichever
call ends first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec

from awaken.codec import Json
from awaken.core.aio.cancel import interruptible, is_cancellation
from awaken.core.blobs import INLINE_LIMIT
from awaken.core.intercept import Block, SetResult, Suspend, ToolInterceptPayload, priority
from awaken.core.lifecycle import Phase
from awaken.core.message import ToolCall
from awaken.core.spec import ToolExecutorKind
from awaken.core.state.call_keys import ToolCallState
from awaken.core.state.snapshot import Snapshot
from awaken.core.store.commits import CallEntry, CallPhase
from awaken.core.suspension import (
    ToolCallResumeMode,
)
from awaken.core.tool import OUTCOME_UNKNOWN, Recover, ToolEffect, ToolResult, ToolStatus
from awaken.core.tool_context import (
    CURRENT_CALL,
    Tool,
    ToolCallContext,
    ToolOutput,
    only_asks,
    traits_of,
)
from awaken.engine.call_results import (
    REJECTED,
    append_summary,
    build_confirmed_result,
    complete,
    complete_plain,
    interrupt,
    load_delegate_summary,
    must_run_once,
    tool_fields,
    unknown_outcome,
)
from awaken.engine.checkpoint import persist_checkpoint
from awaken.engine.commit_state import SETTLED
from awaken.engine.live_run import LiveRun, wait_for_lease
from awaken.engine.step_calls import StepCalls
from awaken.errors import Cancelled, HookFailed, RunLeft, StateError, StorageError
from awaken.plugin.registrar import HookEntry
from awaken.tool import execute_tool
from awaken.tool.output import was_cut_short
from awaken.tool.thread_pool import NotStarted

# Module constants, because on Python 3.11 reading an enum member costs as much as a function call.
_INTENT = CallPhase.INTENT
_SEQUENTIAL = ToolExecutorKind.SEQUENTIAL
_BEFORE = Phase.BEFORE_TOOL_EXECUTE
_RETRY = Recover.RETRY
_READ = ToolEffect.READ
_TAKES_DECISION = ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT

log = logging.getLogger("awaken.loop")
_replace = msgspec.structs.replace


async def carry_out(run: LiveRun, step: StepCalls, indexes: Sequence[int]) -> None:
    """Carry out the calls at `indexes`.

    First the model's answer is committed, with the intents of the calls that start at once.

    Raises:
        Cancelled: the run was cancelled; the calls without a result got one that says so.
        RunLeft: another process will continue the run and settle the open calls.
        StateError: a hook or gate failed; the calls without a result got one that says that they
            were interrupted.
    """
    try:
        if len(indexes) == 1 and not run.agent.env.gates:
            await _run_alone(run, step, indexes[0])  # the most frequent case
        else:
            await gate_and_execute(run, step, indexes)
        if step.suspended or step.blocked is not None:
            await interrupt(run, step, step.open_calls())
    except RunLeft:
        raise  # the process that continues the run settles the open calls
    except BaseException:
        await interrupt(run, step, step.open_calls())
        raise


async def gate_and_execute(run: LiveRun, step: StepCalls, indexes: Sequence[int]) -> None:
    """Ask the gates about calls, and execute those that are allowed. Raises as `carry_out` does.

    Unlike `carry_out`, this may leave calls without a result.
    """
    if run.agent.env.gates and indexes:
        await persist_checkpoint(run)
        indexes = await _ask_gates(run, step, indexes)
    if indexes:
        await _execute(run, step, indexes)


async def _ask_gates(run: LiveRun, step: StepCalls, indexes: Sequence[int]) -> list[int]:
    """Ask the gates about each call in order. Returns the calls that are still to be executed.

    The list is empty if a call was blocked, or if a new call that had to run first was suspended.
    """
    allowed: list[int] = []
    for index in indexes:
        verdict, objectors = await gate(run, step, index, run.agent.env.gates)
        if verdict is not None and allowed:
            # The calls before this one run first: what they change may satisfy the gates that
            # object. The other gates have allowed the call and are not asked again.
            waiting = step.suspended
            await _execute(run, step, allowed)
            allowed = []
            if step.suspended > waiting and not step.resumed:
                return []
            verdict, _ = await gate(run, step, index, objectors)
        if verdict is None:
            allowed.append(index)
            continue
        await intercept(run, step, index, verdict)
        if step.blocked is not None:
            return []
    return allowed


# -- the gate ---------------------------------------------------------------------------------


async def gate(
    run: LiveRun, step: StepCalls, index: int, gates: Sequence[HookEntry]
) -> tuple[ToolInterceptPayload | None, Sequence[HookEntry]]:
    """Ask gates about a call, one after another.

    Returns the verdict with the highest priority, or `None` if the call may run, and the gates
    that gave a verdict.

    Raises:
        Cancelled: the run was cancelled.
        HookFailed: a gate raised.
    """
    run.check_token()
    chosen: ToolInterceptPayload | None = None
    objectors: list[HookEntry] = []
    ctx = run.context(
        Phase.TOOL_GATE, cancellation_token=run.token, **tool_fields(run, step, index)
    )
    for hook in gates:
        try:
            with interruptible(run.token, run.task):
                verdict: ToolInterceptPayload | None = await hook.call(ctx)
        except StateError:
            raise
        except BaseException as error:
            if is_cancellation(error):
                raise
            raise HookFailed(hook.plugin_id, Phase.TOOL_GATE, error) from error
        if verdict is None:
            continue
        objectors.append(hook)
        if chosen is None or priority(verdict) > priority(chosen):
            chosen = verdict
        elif priority(verdict) == priority(chosen):
            log.error("gates disagree about %r: the first word counts", ctx.tool_name)
    answered = _was_answered(chosen, step.resumed.get(index))
    return None if answered else chosen, objectors


def _was_answered(verdict: ToolInterceptPayload | None, resumed: ToolCallState | None) -> bool:
    """Whether a gate only repeats the question that the resumed call has the answer to.

    A verdict with another suspension id is another question. A call that asks on behalf of a
    delegate passed its gates before the delegate started, so every suspension is a repetition.
    """
    if resumed is None or not isinstance(verdict, Suspend):
        return False
    if resumed.asker is not None:
        return True
    id = verdict.ticket.suspension.id
    asked = id if id.strip() else resumed.call_id
    return asked == (resumed.suspension_id or resumed.call_id)


async def intercept(
    run: LiveRun, step: StepCalls, index: int, verdict: ToolInterceptPayload
) -> None:
    """Carry out a gate's verdict: block the call, suspend it, or take the gate's result."""
    call = step.calls[index]
    match verdict:
        case Block(reason=reason):
            step.blocked = reason
            resumed = step.resumed.get(index)
            if resumed is not None and resumed.asker is not None:
                thread_id = run.identity.thread_id
                done = await load_delegate_summary(
                    run.setup.services.delegates, thread_id, resumed.key
                )
                reason = append_summary(reason, done)
            result = ToolResult.error(call.name, reason)
            result = msgspec.structs.replace(result, metadata={REJECTED: True})
            await complete(run, step, index, ToolOutput(result))
        case Suspend(ticket=ticket):
            result = ToolResult.suspended_with(
                call.name, f"Tool '{call.name}' suspended: awaiting approval", ticket
            )
            await complete(run, step, index, ToolOutput(result), hooks=False)
        case SetResult(result=result):
            await complete(run, step, index, ToolOutput(result))


# -- execution --------------------------------------------------------------------------------


def must_wait(tool: Tool | None) -> bool:
    """Whether a call may start only after its intent is committed.

    If the process died before that commit, the model's answer would be lost too, and the calls of
    the next answer would have other idempotency keys. So only a tool that changes nothing, and is
    retried after a crash, may start before the commit.
    """
    if tool is None:
        return False
    traits = traits_of(tool)
    return traits.effect is not _READ or traits.recovery is not _RETRY


def groups(run: LiveRun, step: StepCalls, indexes: Iterable[int]) -> list[list[int]]:
    """Split calls into batches; the calls of a batch run in parallel. A call of a sequential tool
    is a batch of its own, and resumed calls are never in one batch with new ones."""
    together: list[list[int]] = []
    joins: bool | None = None
    for index in indexes:
        tool = run.agent.tools.get(step.calls[index].name)
        alone, resumed = tool is not None and traits_of(tool).sequential, index in step.resumed
        if joins is resumed and not alone:
            together[-1].append(index)
        else:
            together.append([index])
        joins = None if alone else resumed
    return together


async def _execute(run: LiveRun, step: StepCalls, indexes: Sequence[int]) -> None:
    if run.agent.tool_executor is _SEQUENTIAL:
        waiting = step.suspended
        for index in indexes:
            await _run_alone(run, step, index)
            if step.suspended > waiting and not step.resumed:
                return
        return
    if len(indexes) == 1:
        return await _run_alone(run, step, indexes[0])
    for batch in groups(run, step, indexes):
        if len(batch) == 1:
            await _run_alone(run, step, batch[0])
        else:
            await _run_together(run, step, batch)


async def _intend(run: LiveRun, step: StepCalls, batch: Sequence[int]) -> None:
    """Run the hooks before calls, and commit the intent to run the calls.

    If some of the calls may start before the commit is made, it may still be under way on return.
    The other calls of the batch then wait for it in `_may_start`.
    """
    if run.is_busy(_BEFORE):
        if run.has_pending():
            await persist_checkpoint(run)
        for index in batch:
            await run.phase(_BEFORE, **tool_fields(run, step, index))
    if not run.controls.lease.held:
        await wait_for_lease(run)  # before the intent: a call that did not start has none
    if step.writers:
        step.writers = {}
    waiting = 0
    for index in batch:
        waiting += _note_intent(run, step, index)
    if waiting or run.has_pending():
        await persist_checkpoint(run, wait=waiting == len(batch))


def _note_intent(run: LiveRun, step: StepCalls, index: int) -> bool:
    """Have the next commit record that a call will run, if its tool will do its work. Returns
    whether the call may start only after that commit."""
    call = step.calls[index]
    tool = run.agent.tools.get(call.name)
    if not _will_act(tool, call, step.resumed.get(index)):
        return False
    run.journal.calls.append(
        CallEntry(
            key=step.keys[index],
            run_id=run.identity.run_id,
            call_id=call.id,
            tool_name=call.name,
            phase=_INTENT,
            arguments=call.arguments,
        )
    )
    return must_wait(tool)


def _will_act(tool: Tool | None, call: ToolCall, resumed: ToolCallState | None) -> bool:
    """Whether the tool will do its work, and not only ask an approver or take a decision as its
    result."""
    if resumed is None:
        return not only_asks(tool, call.arguments, None)
    if resumed.resume_mode is _TAKES_DECISION:
        return False
    return not only_asks(tool, call.arguments, resumed.resume_input)


async def _may_start(run: LiveRun, tool_name: str) -> bool:
    """Wait for the commit that is under way, if the call must not start before it. Returns false if
    the store did not take the commit."""
    if must_wait(run.agent.tools.get(tool_name)):
        try:
            await run.journal.wait_settled()
        except StorageError:
            return False  # `_run_together` waits for the same commit, and raises the error
    return True


async def _run_alone(run: LiveRun, step: StepCalls, index: int) -> None:
    """Run one call. If it ends, its result is kept even if the run was cancelled meanwhile.

    Raises:
        Cancelled: the run was cancelled before the call ended.
        RunLeft: another process will continue the call.
    """
    await _intend(run, step, (index,))
    output: ToolOutput | None = None
    try:
        with run.until_cancelled:
            output = await invoke(run, step, index, run.state.snapshot())
    except Cancelled:
        if output is None:
            raise
    except RunLeft:
        await persist_checkpoint(run, release=True)
        raise
    assert output is not None, "a call that was not interrupted has an output"
    if not complete_plain(run, step, index, output):
        await complete(run, step, index, output)


async def _run_together(run: LiveRun, step: StepCalls, batch: Sequence[int]) -> None:
    """Run calls in parallel on one snapshot of the state. Each result is committed soon after its
    call ends, while the others still run.

    Raises:
        Cancelled: the run was cancelled; the results of the calls that had ended are kept.
        RunLeft: another process will continue some of the calls; the results of the others are
            kept.
    """
    await _intend(run, step, batch)
    snapshot = run.state.snapshot()
    ended: list[tuple[int, ToolOutput]] = []
    some_ended = asyncio.Event()
    failure: Exception | None = None

    async def one(index: int) -> None:
        if run.journal.state is SETTLED or await _may_start(run, step.calls[index].name):
            try:
                ended.append((index, await invoke(run, step, index, snapshot)))
            except RunLeft:
                step.left |= {index}
            some_ended.set()

    async def keep() -> None:
        some_ended.clear()
        await _complete_ended(run, step, ended)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(index)) for index in batch]
        try:
            await run.journal.wait_settled()
            while step.awaits(batch):
                if len(step.open_calls()) < len(step.calls) and not ended:
                    await persist_checkpoint(run)
                # Cancelling the run interrupts only this wait, never a commit.
                with interruptible(run.token, run.task):
                    await some_ended.wait()
                await keep()
        except Exception as error:
            # Raised after the group, which would wrap it in an `ExceptionGroup`: callers catch it
            # by its class.
            failure = None if isinstance(error, Cancelled) else error
            for task in tasks:
                task.cancel()
    if failure is not None:
        while ended:
            with suppress(StateError):
                await keep()
        raise failure
    await keep()
    await _leave_some(run, step)
    run.check_token()


async def _complete_ended(
    run: LiveRun, step: StepCalls, ended: list[tuple[int, ToolOutput]]
) -> None:
    """End calls, and commit now and then: all their results may be too much for one commit."""
    while ended:
        index, output = ended.pop(0)
        if not complete_plain(run, step, index, output):
            await complete(run, step, index, output)
        if ended and run.unsaved > INLINE_LIMIT:
            await persist_checkpoint(run)


async def _leave_some(run: LiveRun, step: StepCalls) -> None:
    """If another process will continue some of the calls, commit what has ended and release the
    thread.

    Raises:
        RunLeft: another process will continue some of the calls.
    """
    if step.left:
        await persist_checkpoint(run, release=True)
        raise RunLeft(run.identity.run_id)


def _as_result(tool_name: str, answer: Json) -> ToolResult:
    """An answer as the result of a call. The model reads text as it is, other answers as JSON."""
    text = answer if isinstance(answer, str) else None
    return ToolResult(tool_name=tool_name, status=ToolStatus.SUCCESS, data=answer, message=text)


async def invoke(run: LiveRun, step: StepCalls, index: int, snapshot: Snapshot) -> ToolOutput:
    """Run one tool. A resumed call may take the approver's decision as its result instead."""
    call, resumed = step.calls[index], step.resumed.get(index)
    decision = resumed.resume_input if resumed else None
    if decision is not None and resumed is not None and resumed.resume_mode is _TAKES_DECISION:
        if resumed.suspension_reason == OUTCOME_UNKNOWN and decision.result is None:
            return ToolOutput(build_confirmed_result(call.name))
        return ToolOutput(_as_result(call.name, decision.result))
    if not run.controls.lease.held:
        await wait_for_lease(run)
    step.started[index] = run.clock.now_ms()
    ctx = tool_context(run, step, index, snapshot)
    # Only services of plugins read the current call, and setting it takes time.
    mark = CURRENT_CALL.set(ctx) if ctx.services else None
    try:
        output = await execute_tool(run.agent.tools, call, ctx)
        result = output.result
        if result.metadata and was_cut_short(result) and must_run_once(run, call.name):
            return ToolOutput(unknown_outcome(call.name, result.message or ""))
        return output
    except NotStarted:
        del step.started[index]
        raise
    finally:
        if mark is not None:
            CURRENT_CALL.reset(mark)


def tool_context(run: LiveRun, step: StepCalls, index: int, snapshot: Snapshot) -> ToolCallContext:
    """The context that a tool gets for one call."""
    call, resumed = step.calls[index], step.resumed.get(index)
    # Most fields are the same for every call of a run: copying is quicker than building anew.
    ctx = _replace(
        run.around_calls(),
        call_id=call.id,
        tool_name=call.name,
        arguments=call.arguments,
        idempotency_key=step.keys[index],
        snapshot=snapshot,
    )
    if resumed is not None:
        ctx.resume_input, ctx.asker = resumed.resume_input, resumed.asker
        ctx.suspension_id = resumed.suspension_id
        ctx.suspension_reason = resumed.suspension_reason
    return ctx
