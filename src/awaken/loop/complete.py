"""Ending a call: its state, its result in the log, its line in the ledger, its event."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from awaken.contract.commits import CallEntry, CallPhase, call_key
from awaken.contract.tool import ToolOutput
from awaken.domain.event import ToolCallDone, ToolCallResumed
from awaken.domain.message import Message, Role, Text, ToolCall
from awaken.domain.phase import Phase
from awaken.domain.suspension import SuspendTicket, ToolCallOutcome, ToolCallStatus
from awaken.domain.tool import ToolError, ToolKind, ToolResult, ToolStatus
from awaken.domain.transcript import INTERRUPTED
from awaken.errors import StateError
from awaken.loop.live import LiveRun
from awaken.state.command import Command
from awaken.state.key import Merge
from awaken.state.runtime_keys import TOOL_CALL_STATES, PutCall, ToolCallState

log = logging.getLogger("awaken.loop")

# Bound once: on Python 3.11 reaching a member through its enum costs as much as a call.
_AFTER = Phase.AFTER_TOOL_EXECUTE
_PENDING = ToolStatus.PENDING
_TOOL = Role.TOOL
_SUSPENDED = ToolCallOutcome.SUSPENDED

_STATUS = {
    ToolStatus.SUCCESS: ToolCallStatus.SUCCEEDED,
    _PENDING: ToolCallStatus.SUSPENDED,
    ToolStatus.ERROR: ToolCallStatus.FAILED,
}
_OUTCOME = {status: status.outcome for status in ToolStatus}
_LEDGER = {
    ToolStatus.SUCCESS: CallPhase.SUCCEEDED,
    _PENDING: CallPhase.SUSPENDED,
    ToolStatus.ERROR: CallPhase.FAILED,
}


class Turn:
    """An assistant message's calls, and how far each of them is."""

    __slots__ = (
        "_ended",
        "_logged",
        "blocked",
        "calls",
        "keys",
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
        self.keys = [call_key(message_id, index) for index in range(len(calls))]
        self.resumed = resumed
        self.blocked: str | None = None
        self.suspended = 0
        self.writers: dict[str, str] = {}
        self._ended: dict[int, Message | None] = {}
        self._logged = 0

    def end(self, run: LiveRun, index: int, message: Message | None) -> None:
        """A call ended; its message, and those that waited for it, enter the log."""
        self._ended[index] = message
        if message is None:
            self.suspended += 1
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


def tool_fields(run: LiveRun, turn: Turn, index: int) -> dict[str, Any]:
    """What hooks and gates are told of a call."""
    call, resumed = turn.calls[index], turn.resumed.get(index)
    tool = run.agent.tools.get(call.name)
    return {
        "tool_name": call.name,
        "tool_call_id": call.id,
        "tool_args": call.arguments,
        "tool_kind": tool.descriptor().tool_kind if tool else ToolKind.guess(call.name),
        "resume_input": resumed.resume_input if resumed else None,
        "suspension_id": resumed.suspension_id if resumed else None,
        "suspension_reason": resumed.suspension_reason if resumed else None,
    }


async def complete(
    run: LiveRun, turn: Turn, index: int, output: ToolOutput, *, hooks: bool = True
) -> None:
    """End a call: its state, its tool's changes and the hooks' in one go, then log and ledger."""
    call = turn.calls[index]
    if output.command:
        output = _checked(run, turn, index, output)
    result = output.result
    hooked = hooks and run.is_busy(_AFTER)
    if not hooked and not output.command:
        run.store.update(TOOL_CALL_STATES, _put(run, turn, call, result))
        _record(run, turn, index, result)
        return
    put = _put(run, turn, call, result)
    command = Command().update(TOOL_CALL_STATES, put)
    if output.command:
        command.extend(output.command)
    if hooked:
        try:
            await run.phase(
                _AFTER,
                seed=command,
                final=True,
                tool_result=result,
                **tool_fields(run, turn, index),
            )
        except BaseException:
            # A hook failed, the tool did not: what it changed, and how the call ended, stays.
            states = run.store.read(TOOL_CALL_STATES)
            if states is None or states.calls.get(call.id) is not put.call:
                run.store.commit(command.batch)
            _record(run, turn, index, result)
            raise
    elif command.actions or command.effects:
        await run.phases.submit_command(run.agent.env, command)
    else:
        run.store.commit(command.batch)
    _record(run, turn, index, result)


def _checked(run: LiveRun, turn: Turn, index: int, output: ToolOutput) -> ToolOutput:
    """The output as it can be taken: a refused state change is told to the model."""
    assert output.command is not None, "only changes are checked"
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
    log.warning("state update of tool %r was refused: %s", call.name, refusal)
    result = output.result
    return ToolOutput(
        msgspec.structs.replace(
            result,
            message=f"{result.model_text()}\n[state update refused: {refusal}]",
            metadata={**result.metadata, "state_update_refused": refusal},
        )
    )


def _put(run: LiveRun, turn: Turn, call: ToolCall, result: ToolResult) -> PutCall:
    return PutCall(
        call=_call_state(run, call, result), turn=None if turn.resumed else turn.message_id
    )


def _call_state(run: LiveRun, call: ToolCall, result: ToolResult) -> ToolCallState:
    state = ToolCallState(
        call_id=call.id,
        tool_name=call.name,
        arguments=call.arguments,
        status=_STATUS[result.status],
        updated_at=run.clock.now_ms(),
    )
    if result.status is not _PENDING:
        return state
    ticket = result.suspension or SuspendTicket()
    return state.with_resume_mode(ticket.resume_mode).with_suspension(
        ticket.suspension.id, ticket.suspension.action
    )


def _record(run: LiveRun, turn: Turn, index: int, result: ToolResult) -> None:
    """Log, ledger and event of a call that ended or waits."""
    call = turn.calls[index]
    message: Message | None = None
    if result.status is not _PENDING:
        message = Message(
            id=run.ids.new(),
            role=_TOOL,
            content=(Text(text=result.model_text()),),
            tool_call_id=call.id,
            metadata=run.metadata,
        )
    turn.end(run, index, message)
    run.journal.calls.append(
        CallEntry(
            key=turn.keys[index],
            run_id=run.identity.run_id,
            call_id=call.id,
            tool_name=call.name,
            phase=_LEDGER[result.status],
        )
    )
    outcome = _OUTCOME[result.status]
    if index in turn.resumed and outcome is not _SUSPENDED:
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


def interrupt(run: LiveRun, turn: Turn, indexes: Sequence[int]) -> None:
    """Close calls that will not run; no hook sees them."""
    cancelled = run.token is not None and run.token.is_cancelled()
    for index in indexes:
        call = turn.calls[index]
        text = str(ToolError.cancelled("the run was cancelled")) if cancelled else INTERRUPTED
        result = ToolResult.error(call.name, text)
        run.store.update(TOOL_CALL_STATES, _put(run, turn, call, result))
        _record(run, turn, index, result)
