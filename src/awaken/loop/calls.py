"""The calls of one step: gate, before, execute, after.

Each call ends with a result, whatever happens: refused, answered by a gate, run, interrupted or
cancelled. Results enter the log in call order, however they come in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from awaken.contract.commits import CallEntry, CallPhase, call_key
from awaken.contract.control import interruptible
from awaken.contract.tool import ToolCallContext, ToolOutput, traits_of
from awaken.domain.event import ToolCallDone, ToolCallResumed
from awaken.domain.intercept import Block, SetResult, Suspend, ToolInterceptPayload, priority
from awaken.domain.message import Message, Role, Text, ToolCall
from awaken.domain.phase import Phase
from awaken.domain.spec import ToolExecutorKind
from awaken.domain.suspension import (
    SuspendTicket,
    ToolCallOutcome,
    ToolCallResumeMode,
    ToolCallStatus,
)
from awaken.domain.tool import ToolError, ToolKind, ToolResult, ToolStatus
from awaken.domain.transcript import INTERRUPTED
from awaken.errors import Cancelled, HookFailed, StateError
from awaken.loop.live import LiveRun
from awaken.loop.save import persist_checkpoint
from awaken.state.command import Command
from awaken.state.key import Merge
from awaken.state.runtime_keys import TOOL_CALL_STATES, PutCall, ToolCallState
from awaken.state.snapshot import Snapshot
from awaken.tool import execute_tool

log = logging.getLogger("awaken.loop")

_STATUS = {
    ToolStatus.SUCCESS: ToolCallStatus.SUCCEEDED,
    ToolStatus.PENDING: ToolCallStatus.SUSPENDED,
    ToolStatus.ERROR: ToolCallStatus.FAILED,
}
_LEDGER = {
    ToolStatus.SUCCESS: CallPhase.SUCCEEDED,
    ToolStatus.PENDING: CallPhase.SUSPENDED,
    ToolStatus.ERROR: CallPhase.FAILED,
}


class Turn:
    """An assistant message's calls, and how far each of them is."""

    __slots__ = (
        "_ended",
        "_logged",
        "blocked",
        "calls",
        "message_id",
        "resumed",
        "suspended",
        "writers",
    )

    def __init__(
        self, message_id: str, calls: Sequence[ToolCall], resumed: dict[int, ToolCallState]
    ) -> None:
        self.message_id = message_id
        self.calls = calls
        self.resumed = resumed
        self.blocked: str | None = None
        self.suspended = False
        self.writers: dict[str, str] = {}
        self._ended: dict[int, Message | None] = {}
        self._logged = 0

    def end(self, run: LiveRun, index: int, message: Message | None) -> None:
        """A call ended; its message, and those that waited for it, enter the log."""
        self._ended[index] = message
        if message is None:
            self.suspended = True
        if index in self.resumed:
            if message is not None:
                run.transcript.answer(self.calls[index].id, message)
            return
        while self._logged in self._ended:
            ready = self._ended[self._logged]
            if ready is not None:
                run.transcript.append(ready)
            self._logged += 1

    def is_open(self, index: int) -> bool:
        return index not in self._ended

    def open_calls(self) -> list[int]:
        return [index for index in range(len(self.calls)) if index not in self._ended]


async def run_calls(run: LiveRun, message_id: str, calls: Sequence[ToolCall]) -> Turn:
    """Carry out an assistant message's calls.

    Raises:
        Cancelled: somebody cancelled the run; open calls were answered so.
        StateError: a hook or gate failed; open calls were answered as interrupted.
    """
    turn = Turn(message_id, calls, {})
    run.journal.calls.extend(
        [
            CallEntry(
                key=call_key(message_id, index),
                run_id=run.identity.run_id,
                call_id=call.id,
                tool_name=call.name,
                phase=CallPhase.INTENT,
                arguments=call.arguments,
            )
            for index, call in enumerate(calls)
        ]
    )
    await persist_checkpoint(run)
    try:
        await _gate_and_execute(run, turn)
    except BaseException:
        _interrupt(run, turn, turn.open_calls())
        raise
    return turn


async def _gate_and_execute(run: LiveRun, turn: Turn) -> None:
    allowed: list[int] = []
    if not run.agent.env.gates:
        allowed.extend(range(len(turn.calls)))
    else:
        for index in range(len(turn.calls)):
            verdict = await gate(run, turn, index)
            if verdict is not None and allowed:
                # What runs first may change the gate's mind.
                await _execute(run, turn, allowed)
                allowed = []
                if turn.suspended:
                    _interrupt(run, turn, turn.open_calls())
                    return
                verdict = await gate(run, turn, index)
            if verdict is None:
                allowed.append(index)
                continue
            await intercept(run, turn, index, verdict)
            if turn.blocked is not None:
                _interrupt(run, turn, turn.open_calls())
                return
    if allowed:
        await _execute(run, turn, allowed)
        if turn.suspended:
            _interrupt(run, turn, turn.open_calls())


# -- the gate ---------------------------------------------------------------------------------


async def gate(run: LiveRun, turn: Turn, index: int) -> ToolInterceptPayload | None:
    """What the gates say of a call, one after another; the strongest word counts.

    Raises:
        HookFailed: a gate raised.
    """
    run.check_token()
    chosen: ToolInterceptPayload | None = None
    ctx = run.context(Phase.TOOL_GATE, **_tool_fields(run, turn, index))
    for hook in run.agent.env.gates:
        try:
            verdict: ToolInterceptPayload | None = await hook.call(ctx)
        except StateError:
            raise
        except Exception as error:
            raise HookFailed(hook.plugin_id, Phase.TOOL_GATE, error) from error
        if verdict is None:
            continue
        if chosen is None or priority(verdict) > priority(chosen):
            chosen = verdict
        elif priority(verdict) == priority(chosen):
            log.error("gates disagree about %r: the first word counts", ctx.tool_name)
    return chosen


async def intercept(run: LiveRun, turn: Turn, index: int, verdict: ToolInterceptPayload) -> None:
    """Do as a gate says."""
    call = turn.calls[index]
    match verdict:
        case Block(reason=reason):
            turn.blocked = reason
            result = ToolResult.error(call.name, reason)
            result = msgspec.structs.replace(result, metadata={"rejected": True})
            await complete(run, turn, index, ToolOutput(result))
        case Suspend(ticket=ticket):
            result = ToolResult.suspended_with(
                call.name, f"Tool '{call.name}' suspended: awaiting approval", ticket
            )
            await complete(run, turn, index, ToolOutput(result), hooks=False)
        case SetResult(result=result):
            await complete(run, turn, index, ToolOutput(result))


def _tool_fields(run: LiveRun, turn: Turn, index: int) -> dict[str, Any]:
    call, resumed = turn.calls[index], turn.resumed.get(index)
    tool = run.agent.tools.get(call.name)
    return {
        "tool_name": call.name,
        "tool_call_id": call.id,
        "tool_args": call.arguments,
        "tool_kind": tool.descriptor().tool_kind if tool else ToolKind.guess(call.name),
        "cancellation_token": run.token,
        "resume_input": resumed.resume_input if resumed else None,
        "suspension_id": resumed.suspension_id if resumed else None,
        "suspension_reason": resumed.suspension_reason if resumed else None,
    }


# -- execution --------------------------------------------------------------------------------


def groups(run: LiveRun, turn: Turn, indexes: Iterable[int]) -> list[list[int]]:
    """Which calls run side by side: a resumed call, and a sequential tool's, run alone."""
    together: list[list[int]] = []
    joinable = False
    for index in indexes:
        tool = run.agent.tools.get(turn.calls[index].name)
        alone = index in turn.resumed or (tool is not None and traits_of(tool).sequential)
        if joinable and not alone:
            together[-1].append(index)
        else:
            together.append([index])
        joinable = not alone
    return together


async def _execute(run: LiveRun, turn: Turn, indexes: Sequence[int]) -> None:
    if run.agent.tool_executor is ToolExecutorKind.SEQUENTIAL:
        for position, index in enumerate(indexes):
            await run_alone(run, turn, index)
            if turn.suspended:
                return
            if position + 1 < len(indexes):
                await persist_checkpoint(run)
        return
    batches = [list(indexes)] if len(indexes) == 1 else groups(run, turn, indexes)
    for position, batch in enumerate(batches):
        if len(batch) == 1:
            await run_alone(run, turn, batch[0])
        else:
            await _run_together(run, turn, batch)
        if position + 1 < len(batches):
            await persist_checkpoint(run)


async def run_alone(run: LiveRun, turn: Turn, index: int) -> None:
    """Run one call; what it did counts even if the run was cancelled meanwhile.

    Raises:
        Cancelled: somebody cancelled the run before the call ended.
    """
    await _before(run, turn, index)
    turn.writers.clear()
    output: ToolOutput | None = None
    try:
        with interruptible(run.token):
            output = await invoke(run, turn, index, run.store.snapshot())
    except Cancelled:
        if output is None:
            raise
    assert output is not None, "a call that was not interrupted has an output"
    await complete(run, turn, index, output)


async def _run_together(run: LiveRun, turn: Turn, batch: Sequence[int]) -> None:
    """Run calls side by side on one snapshot; each outcome is kept as soon as it is there.

    Raises:
        Cancelled: somebody cancelled the run; the calls that had ended were kept.
    """
    for index in batch:
        await _before(run, turn, index)
    turn.writers.clear()
    snapshot = run.store.snapshot()
    ended: list[tuple[int, ToolOutput]] = []
    some_ended = asyncio.Event()

    async def one(index: int) -> None:
        ended.append((index, await invoke(run, turn, index, snapshot)))
        some_ended.set()

    async def keep() -> None:
        some_ended.clear()
        while ended:
            await complete(run, turn, *ended.pop(0))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(index)) for index in batch]
        try:
            while any(turn.is_open(index) for index in batch):
                if len(turn.open_calls()) < len(turn.calls) and not ended:
                    await persist_checkpoint(run)
                # Only the waiting is cut short by a cancel, never a commit.
                with interruptible(run.token):
                    await some_ended.wait()
                await keep()
        except Cancelled:
            for task in tasks:
                task.cancel()
    await keep()
    run.check_token()


async def _before(run: LiveRun, turn: Turn, index: int) -> None:
    if run.is_busy(Phase.BEFORE_TOOL_EXECUTE):
        await run.phase(Phase.BEFORE_TOOL_EXECUTE, **_hook_fields(run, turn, index))


def _hook_fields(run: LiveRun, turn: Turn, index: int) -> dict[str, Any]:
    fields = _tool_fields(run, turn, index)
    del fields["cancellation_token"]
    return fields


async def invoke(run: LiveRun, turn: Turn, index: int, snapshot: Snapshot) -> ToolOutput:
    """Run one tool, or take the decision that stands for its result."""
    call, resumed = turn.calls[index], turn.resumed.get(index)
    decision = resumed.resume_input if resumed else None
    if decision is not None and resumed is not None:
        if resumed.resume_mode is ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT:
            return ToolOutput(ToolResult.success(call.name, decision.result))
        if resumed.resume_mode is ToolCallResumeMode.PASS_DECISION_TO_TOOL:
            call = msgspec.structs.replace(call, arguments=decision.result)
    ctx = ToolCallContext(
        call_id=call.id,
        tool_name=call.name,
        run_identity=run.identity,
        agent_spec=run.agent.spec,
        snapshot=snapshot,
        idempotency_key=call_key(turn.message_id, index),
        activity_sink=run.journal.tell if run.journal.live else None,
        cancellation_token=run.token,
        resume_input=decision,
        suspension_id=resumed.suspension_id if resumed else None,
        suspension_reason=resumed.suspension_reason if resumed else None,
        profile_access=run.profile,
    )
    try:
        return await execute_tool(run.agent.tools, call, ctx)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # Nobody cancelled us: something the tool awaited was, and the tool let it pass.
        return ToolOutput(ToolResult.error(call.name, str(ToolError.cancelled("by the tool"))))


# -- completion -------------------------------------------------------------------------------


async def complete(
    run: LiveRun, turn: Turn, index: int, output: ToolOutput, *, hooks: bool = True
) -> None:
    """End a call: its state, its tool's changes and the hooks' in one go, then log and ledger."""
    call = turn.calls[index]
    output = _checked(run, turn, index, output)
    result = output.result
    command = Command().update(TOOL_CALL_STATES, PutCall(call=_call_state(run, call, result)))
    if output.command:
        command.extend(output.command)
    if hooks and run.is_busy(Phase.AFTER_TOOL_EXECUTE):
        await run.phase(
            Phase.AFTER_TOOL_EXECUTE,
            seed=command,
            final=True,
            tool_result=result,
            **_hook_fields(run, turn, index),
        )
    elif command.actions or command.effects:
        await run.phases.submit_command(run.agent.env, command)
    else:
        run.store.commit(command.batch)
    _record(run, turn, index, result)


def _checked(run: LiveRun, turn: Turn, index: int, output: ToolOutput) -> ToolOutput:
    """The output as it can be taken: a refused state change is told to the model."""
    if not output.command:
        return output
    call = turn.calls[index]
    exclusive = [
        name
        for name in dict.fromkeys(output.command.batch.touched_keys)
        if run.store.merge_strategy(name) is Merge.EXCLUSIVE
    ]
    taken = next((name for name in exclusive if name in turn.writers), None)
    try:
        if taken is None:
            run.phases.check_command(run.agent.env, output.command)
            turn.writers.update(dict.fromkeys(exclusive, call.id))
            output.command.batch.base_revision = None
            return output
        refusal = (
            f'conflicting parallel state modification on exclusive key "{taken}" '
            f"by tool calls [{turn.writers[taken]}] and [{call.id}]"
        )
    except StateError as error:
        refusal = str(error)
    result = output.result
    return ToolOutput(
        msgspec.structs.replace(
            result,
            message=f"{result.model_text()}\n[state update refused: {refusal}]",
            metadata={**result.metadata, "state_update_refused": refusal},
        )
    )


def _call_state(run: LiveRun, call: ToolCall, result: ToolResult) -> ToolCallState:
    state = ToolCallState(
        call_id=call.id,
        tool_name=call.name,
        arguments=call.arguments,
        status=_STATUS[result.status],
        updated_at=run.clock.now_ms(),
    )
    if result.status is not ToolStatus.PENDING:
        return state
    ticket = result.suspension or SuspendTicket()
    return state.with_resume_mode(ticket.resume_mode).with_suspension(
        ticket.suspension.id, ticket.suspension.action
    )


def _record(run: LiveRun, turn: Turn, index: int, result: ToolResult) -> None:
    """Log, ledger and event of a call that ended or waits."""
    call = turn.calls[index]
    message: Message | None = None
    if result.status is not ToolStatus.PENDING:
        message = Message(
            id=run.ids.new(),
            role=Role.TOOL,
            content=(Text(text=result.model_text()),),
            tool_call_id=call.id,
            metadata=run.metadata,
        )
    turn.end(run, index, message)
    run.journal.calls.append(
        CallEntry(
            key=call_key(turn.message_id, index),
            run_id=run.identity.run_id,
            call_id=call.id,
            tool_name=call.name,
            phase=_LEDGER[result.status],
        )
    )
    outcome = result.outcome
    if index in turn.resumed and outcome is not ToolCallOutcome.SUSPENDED:
        run.journal.note(ToolCallResumed(target_id=call.id, result=result.resume_payload()))
    else:
        run.journal.note(
            ToolCallDone(
                id=call.id,
                message_id=message.id or "" if message else "",
                result=result,
                outcome=outcome,
            )
        )


def _interrupt(run: LiveRun, turn: Turn, indexes: Sequence[int]) -> None:
    """Close calls that will not run; no hook sees them."""
    cancelled = run.token is not None and run.token.is_cancelled()
    for index in indexes:
        call = turn.calls[index]
        text = str(ToolError.cancelled("the run was cancelled")) if cancelled else INTERRUPTED
        result = ToolResult.error(call.name, text)
        run.store.update(TOOL_CALL_STATES, PutCall(call=_call_state(run, call, result)))
        _record(run, turn, index, result)
