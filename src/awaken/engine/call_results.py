"""Ending a tool call: its state, its result in the log, its ledger entry and its event.

A call may end without its delegate's answer. Then its result includes a summary of the delegate's
actions, and the next commit cancels the delegate.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from awaken.codec import Json
from awaken.core.aio.cancel import is_cancellation
from awaken.core.backend import DurableDelegates
from awaken.core.event import ToolCallDone, ToolCallResumed
from awaken.core.identity import RunIdentity
from awaken.core.lifecycle import Phase
from awaken.core.message import ContentBlock, Message, Role, Text
from awaken.core.state.call_keys import TOOL_CALL_STATES, PutCall, ToolCallState
from awaken.core.state.command import Command
from awaken.core.state.key import Merge
from awaken.core.store.commands import build_cancels
from awaken.core.store.commits import CallEntry, CallPhase
from awaken.core.suspension import (
    Asker,
    ResumedOutcome,
    SuspendTicket,
    Ticket,
    TicketStatus,
    ToolCallOutcome,
    ToolCallResume,
    ToolCallResumeMode,
    ToolCallStatus,
    call_digest,
)
from awaken.core.thread_ids import child_ids
from awaken.core.tool import (
    OUTCOME_UNKNOWN,
    ToolEffect,
    ToolError,
    ToolKind,
    ToolResult,
    ToolStatus,
)
from awaken.core.tool_context import ToolOutput, traits_of
from awaken.core.transcript import INTERRUPTED
from awaken.engine.large_content import shorten_result, with_content
from awaken.engine.live_run import LiveRun
from awaken.engine.step_calls import StepCalls
from awaken.errors import StateError, StoreError

log = logging.getLogger("awaken.loop")

# Module constants, because on Python 3.11 reading an enum member costs as much as a function call.
_AFTER = Phase.AFTER_TOOL_EXECUTE
_PENDING, _ERROR = ToolStatus.PENDING, ToolStatus.ERROR
_TOOL = Role.TOOL
_NO_LABEL = (ToolKind.OTHER, "")
_SUSPENDED, _DENIED = ToolCallOutcome.SUSPENDED, ToolCallOutcome.DENIED
_REPLAY = ToolCallResumeMode.REPLAY_TOOL_CALL
_USE_DECISION = ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT
_FAR_MS = 10**16
"""Some 300,000 years, in milliseconds: every database can keep an instant so far away."""

_STATUS = {
    ToolStatus.SUCCESS: ToolCallStatus.SUCCEEDED,
    _PENDING: ToolCallStatus.SUSPENDED,
    ToolStatus.ERROR: ToolCallStatus.FAILED,
}
_OUTCOME = {status: status.outcome for status in ToolStatus}
_UNKNOWN = CallPhase.UNKNOWN
_LEDGER = {
    ToolStatus.SUCCESS: CallPhase.SUCCEEDED,
    _PENDING: CallPhase.SUSPENDED,
    ToolStatus.ERROR: CallPhase.FAILED,
}


CHILD_RUN = "child_run_id"
"""The metadata key with the id of the run whose end, or question, a result tells."""

REJECTED = "rejected"
"""The metadata key that marks the result of a call which a gate blocked."""


_MARKS = (REJECTED, OUTCOME_UNKNOWN)
"""The metadata that decides how a call's end is recorded."""


async def complete(
    run: LiveRun, step: StepCalls, index: int, output: ToolOutput, hooks: bool = True
) -> None:
    """End a call: write its state and its tool's state changes, run the hooks after it, and add
    its result to the log, the ledger and the events."""
    call = step.calls[index]
    if output.command:
        output = _check_state_changes(run, step, index, output)
    if run.agent.env.rewrites:
        output = await rewrite_result(run, step, index, output)
    result = logged = output.result
    shown: tuple[ContentBlock, ...] | None = None
    if result.content:
        logged, shown = await with_content(run, call.name, result)
    elif result.status is not _PENDING:
        text = result.model_text()
        run.unsaved += len(text)
        if _is_short(run, result, text):
            shown = (Text(text=text),)
        else:
            logged, short = await shorten_result(run, call.name, result, text)
            shown = (short,)
    put = _put(run, step, index, result)
    command = Command().update(TOOL_CALL_STATES, put)
    if output.command:
        command.extend(output.command)
    if hooks and run.is_busy(_AFTER):
        try:
            await run.phase(
                _AFTER,
                seed=command,
                final=True,
                tool_result=result,
                **tool_fields(run, step, index),
            )
        except BaseException:
            # A hook failed, but the tool did not: keep the call's outcome and the tool's changes.
            states = run.state.read(TOOL_CALL_STATES)
            if states is None or states.calls.get(call.id) is not put.call:
                run.state.commit(command.batch)
            _record(run, step, index, logged, shown)
            raise
    elif command.actions or command.effects:
        await run.phases.submit_command(run.agent.env, command)
    else:
        run.state.commit(command.batch)
    _record(run, step, index, logged, shown)


def complete_plain(run: LiveRun, step: StepCalls, index: int, output: ToolOutput) -> bool:
    """End a call as `complete` does, but without waiting. Returns false, and does nothing, if the
    call has a long result or content, changes state, waits for an answer, or has hooks after it."""
    result = output.result
    if (
        output.command
        or result.content
        or result.status is _PENDING
        or run.agent.env.rewrites
        or run.is_busy(_AFTER)
    ):
        return False
    text = result.model_text()
    if not _is_short(run, result, text):
        return False
    run.unsaved += len(text)
    put = _put(run, step, index, result)
    run.state.update(TOOL_CALL_STATES, put)
    _record(run, step, index, result, (Text(text=text),), put.call.updated_at)
    return True


def _is_short(run: LiveRun, result: ToolResult, text: str) -> bool:
    """Whether the whole text of a result without content fits into the log."""
    message = result.message
    has_other_data = message is not None and result.data not in (None, message)
    return len(text) <= run.inline_limit and not has_other_data


def tool_fields(run: LiveRun, step: StepCalls, index: int) -> dict[str, Any]:
    """The fields of `PhaseContext` that describe a call to hooks and gates."""
    call, resumed = step.calls[index], step.resumed.get(index)
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


async def rewrite_result(
    run: LiveRun, step: StepCalls, index: int, output: ToolOutput
) -> ToolOutput:
    """Let the agent's plugins rewrite the result of an output, before anything of it is logged. If
    a plugin fails, the result is withheld: it may contain data that must not be written."""
    result: ToolResult = output.result
    if result.status is _PENDING:
        return output
    ctx = run.context(_AFTER, tool_result=result, **tool_fields(run, step, index))
    for hook in run.agent.env.rewrites:
        try:
            result = await hook.call(ctx, result)
        except BaseException as error:
            if is_cancellation(error):
                raise
            log.exception("plugin %r could not rewrite a result", hook.plugin_id)
            told = f"the result is withheld: plugin {hook.plugin_id!r} failed to look at it"
            kept = {name: mark for name, mark in result.metadata.items() if name in _MARKS}
            result = ToolResult(
                tool_name=result.tool_name, status=result.status, message=told, metadata=kept
            )
            break
    return ToolOutput(result, output.command)


def _check_state_changes(
    run: LiveRun, step: StepCalls, index: int, output: ToolOutput
) -> ToolOutput:
    """The output, if its state changes can be applied. Otherwise the output without them, with a
    message that tells the model why they were refused."""
    assert output.command is not None, "only changes are checked"
    call = step.calls[index]
    exclusive = [
        name
        for name in dict.fromkeys(output.command.batch.touched_keys)
        if run.state.merge_strategy(name) is Merge.EXCLUSIVE
    ]
    taken = next((name for name in exclusive if name in step.writers), None)
    try:
        if taken is None:
            run.phases.check_command(run.agent.env, output.command)
            step.writers.update(dict.fromkeys(exclusive, call.id))
            output.command.batch.base_revision = None
            return output
        refusal = (
            f'conflicting parallel state modification on exclusive key "{taken}" '
            f"by tool calls [{step.writers[taken]}] and [{call.id}]"
        )
    except StateError as error:
        refusal = str(error)
    log.warning("state update of tool %r was refused: %s", call.name, refusal)
    result = output.result
    return ToolOutput(
        msgspec.structs.replace(
            result,
            message=f"{result.model_text()}\n[state update refused: {refusal}]",
            content=(*result.content, Text(text=f"[state update refused: {refusal}]"))
            if result.content
            else (),
            metadata={**result.metadata, "state_update_refused": refusal},
        )
    )


def _put(run: LiveRun, step: StepCalls, index: int, result: ToolResult) -> PutCall:
    call = step.calls[index]
    state = ToolCallState(
        call_id=call.id,
        tool_name=call.name,
        arguments=call.arguments,
        status=_STATUS[result.status],
        updated_at=run.clock.now_ms(),
        resume_mode=_REPLAY,  # given, because its default is made by a function
        key=step.keys[index],
    )
    if result.status is _PENDING:
        ticket = result.suspension or SuspendTicket()
        state = ask(run, state, ticket, _parameters(run, call.name, ticket))
    return PutCall(call=state, turn=None if step.resumed else step.message_id)


# -- calls that wait for an answer ------------------------------------------------------------


def ask(
    run: LiveRun, state: ToolCallState, ticket: SuspendTicket, parameters: Json = None
) -> ToolCallState:
    """Returns the state of a call that now waits for an answer, and adds its ticket to the next
    commit. `parameters` is the schema of the tool."""
    states = run.state.read(TOOL_CALL_STATES)
    before = states.calls.get(state.call_id) if states else None
    asked = before.asked if before is not None and before.key == state.key else 0
    if ticket.asker is not None:
        expires_at = ticket.asker.expires_at
    elif ticket.expires_in is not None:
        expires_at = state.updated_at + round(min(_FAR_MS, ticket.expires_in * 1000))
    else:
        expires_at = None
    state = msgspec.structs.replace(
        state.with_resume_mode(ticket.resume_mode).with_suspension(
            ticket.suspension.id,
            ticket.suspension.action,
            ticket.suspension.message,
            ticket.suspension.response_schema,
        ),
        asked=asked + 1,
        asker=ticket.asker,
        expires_at=expires_at,
    )
    state = msgspec.structs.replace(state, digest=digest_of(state, run.identity))
    opened = msgspec.structs.replace(ticket_of(state, run.identity), parameters=parameters)
    run.journal.extras.tickets.append(opened)
    return state


def _parameters(run: LiveRun, tool_name: str, ticket: SuspendTicket) -> Json:
    """The schema for edited arguments of a suspended call; `None` if an answer cannot edit them."""
    tool = run.agent.tools.get(tool_name)
    if tool is None or ticket.asker is not None or ticket.resume_mode is _USE_DECISION:
        return None
    return tool.descriptor().parameters


def digest_of(state: ToolCallState, identity: RunIdentity) -> str:
    """The digest that binds an answer to the call's question."""
    # A delegate may ask twice for one tool with one set of arguments, both times through this
    # call: the question key tells the two apart.
    asks = identity.run_id if state.asker is None else state.question_key
    return call_digest(asks, *state.asks_about)


def ticket_of(
    state: ToolCallState,
    identity: RunIdentity,
    *,
    status: TicketStatus = TicketStatus.OPEN,
    decision: ToolCallResume | None = None,
) -> Ticket:
    """The ticket of a call that waits, or has waited, for an answer."""
    tool_name, arguments = state.asks_about
    return Ticket(
        key=state.question_key,
        thread_id=identity.thread_id,
        run_id=identity.run_id,
        ticket_id=state.suspension_id or state.call_id,
        call_id=state.call_id,
        tool_name=tool_name,
        digest=state.digest or "",
        asked_at=state.updated_at,
        arguments=arguments,
        resume_mode=state.resume_mode,
        reason=state.suspension_reason,
        message=state.message,
        response_schema=state.response_schema,
        expires_at=state.expires_at,
        status=status,
        decision=decision,
        asker=state.asker,
    )


# -- what the next commit writes --------------------------------------------------------------


def _record(
    run: LiveRun,
    step: StepCalls,
    index: int,
    result: ToolResult,
    shown: tuple[ContentBlock, ...] | None,
    at_ms: int | None = None,
    stopped: bool | None = None,
) -> None:
    """Write the message, the ledger entry and the event of a call that ended or is suspended.

    `shown` is the text for the model, `None` if the call is suspended. `at_ms` is the current time,
    if the caller has read it already. `stopped` is given only for a cancelled call: whether its
    work has really stopped.
    """
    call, message_id = step.calls[index], ""
    message: Message | None = None
    if shown is not None:
        message_id = (step.resumed and step.client_message_id(index)) or run.ids.new()
        message = Message(
            id=message_id,
            role=_TOOL,
            content=shown,
            tool_call_id=call.id,
            metadata=run.metadata,
        )
        if result.status is _ERROR or step.late or step.resumed:
            _cancel_delegate(run, step, index, result)
    held = step.end(run, index, message)
    run.journal.calls.append(
        CallEntry(
            key=step.keys[index],
            run_id=run.identity.run_id,
            call_id=call.id,
            tool_name=call.name,
            phase=_LEDGER[result.status]
            if stopped is None and OUTCOME_UNKNOWN not in result.metadata
            else _phase(result, stopped),
            held=held,
            stopped=stopped is True,
        )
    )
    outcome = _OUTCOME[result.status]
    if index in step.resumed and outcome is not _SUSPENDED:
        event = _build_resumed_event(step, index, result, is_cancelled=stopped is not None)
        text = result.model_text()
        run.journal.note(msgspec.structs.replace(event, message_id=message_id, text=text), at_ms)
    else:
        run.journal.note(_build_done_event(run, step, index, result, message_id), at_ms)


def _build_done_event(
    run: LiveRun, step: StepCalls, index: int, result: ToolResult, message_id: str
) -> ToolCallDone:
    """The event of a call that has ended, or waits for an answer."""
    call = step.calls[index]
    kind, title = run.agent.labels.get(call.name, _NO_LABEL)
    done = ToolCallDone(
        id=call.id,
        message_id=message_id,
        result=result,
        outcome=_OUTCOME[result.status] if REJECTED not in result.metadata else _DENIED,
        kind=kind,
        title=title,
        started_at_ms=step.started.get(index),
    )
    return done if result.status is not _PENDING else _with_ticket(run, done)


def _with_ticket(run: LiveRun, done: ToolCallDone) -> ToolCallDone:
    """The event of a suspended call, with the ticket that the next commit opens for it."""
    asked = next((t for t in reversed(run.journal.extras.tickets) if t.call_id == done.id), None)
    if asked is None:
        return done
    return msgspec.structs.replace(
        done, ticket_key=asked.key, digest=asked.digest, expires_at=asked.expires_at
    )


def _build_resumed_event(
    step: StepCalls, index: int, result: ToolResult, *, is_cancelled: bool
) -> ToolCallResumed:
    """The event of a call that was suspended and has ended now."""
    call = step.resumed[index]
    decision = call.resume_input
    reason = decision.reason if decision is not None else None
    if is_cancelled:
        outcome, reason = ResumedOutcome.CANCELLED, result.message
    elif REJECTED in result.metadata:
        outcome, reason = ResumedOutcome.DENIED, result.message
    elif result.status is ToolStatus.SUCCESS:
        outcome = ResumedOutcome.SUCCEEDED
    else:
        outcome = ResumedOutcome.FAILED
    return ToolCallResumed(
        target_id=step.calls[index].id,
        name=step.calls[index].name,
        result=result.resume_payload(),
        outcome=outcome,
        reason=reason,
        by=decision.by if decision is not None else None,
        edited=step.calls[index].arguments if call.is_edited else None,
    )


def _phase(result: ToolResult, stopped: bool | None) -> CallPhase:
    """The ledger phase of a call that was cancelled, or whose outcome is unknown."""
    unknown = OUTCOME_UNKNOWN in result.metadata or not stopped
    return _UNKNOWN if unknown else CallPhase.CANCELLED


# -- calls that end without a result of their tool --------------------------------------------


async def interrupt(run: LiveRun, step: StepCalls, indexes: Sequence[int]) -> None:
    """Give a result to calls that will not run, or not to their end, without running hooks.

    If a call has started a delegate, its result includes a summary of the delegate's actions.
    """
    done: dict[int, str | None] = {}
    try:
        for index in indexes:
            if index in step.started and may_delegate(run, step.calls[index].name):
                done[index] = await load_delegate_summary(
                    run.setup.services.delegates, run.identity.thread_id, step.keys[index]
                )
    finally:
        # In `finally`, as `load_delegate_summary` may be cancelled: every call gets a result.
        for index in indexes:
            _interrupt_one(run, step, index, done.get(index))


def _interrupt_one(run: LiveRun, step: StepCalls, index: int, done: str | None) -> None:
    cancelled = run.token is not None and run.token.is_cancelled()
    call = step.calls[index]
    text = str(ToolError.cancelled("the run was cancelled")) if cancelled else INTERRUPTED
    begun = index in step.started
    stopped = (not begun or is_stoppable(run, call.name)) if cancelled else None
    if begun and must_run_once(run, call.name):
        result = unknown_outcome(call.name, text)
    else:
        result = ToolResult.error(call.name, append_summary(text, done))
    close_call(run, step, index, result, stopped=stopped)


def close_call(
    run: LiveRun, step: StepCalls, index: int, result: ToolResult, *, stopped: bool | None = None
) -> None:
    """End a call with `result`, without running hooks."""
    run.state.update(TOOL_CALL_STATES, _put(run, step, index, result))
    shown = None if result.status is _PENDING else (Text(text=result.model_text()),)
    _record(run, step, index, result, shown, stopped=stopped)


def is_stoppable(run: LiveRun, tool_name: str) -> bool:
    """Whether cancelling a call of the tool ends its work, and not only the wait for it."""
    tool = run.agent.tools.get(tool_name)
    return tool is None or traits_of(tool).stoppable


def must_run_once(run: LiveRun, tool_name: str) -> bool:
    tool = run.agent.tools.get(tool_name)
    return tool is not None and traits_of(tool).effect is ToolEffect.ONCE


def build_confirmed_result(tool_name: str) -> ToolResult:
    """Build the result of a call that took effect, and whose own result was lost in a crash."""
    text = f"'{tool_name}' took effect; what it returned was lost when the process ended"
    return ToolResult.success_with_message(tool_name, None, text)


def unknown_outcome(tool_name: str, why: str) -> ToolResult:
    """The result of a call of which it is unknown whether it took effect; `why` comes first."""
    result = ToolResult.error(
        tool_name,
        f"{why}; it is unknown whether '{tool_name}' took effect. Do not assume either: find out, "
        "or say so, before it is called again",
    )
    return msgspec.structs.replace(result, metadata={OUTCOME_UNKNOWN: True})


# -- delegates of calls that end --------------------------------------------------------------


def _cancel_delegate(run: LiveRun, step: StepCalls, index: int, result: ToolResult) -> None:
    """Let the next commit cancel the delegate of a call that ends without the delegate's end."""
    if CHILD_RUN in result.metadata:
        return  # the result of a run that has ended
    resumed = step.resumed.get(index)
    if step.late or resumed is not None or index in step.started:
        asker = resumed.asker if resumed is not None else None
        cancel_delegate(run, step.calls[index].name, step.keys[index], asker)


def cancel_delegate(run: LiveRun, tool_name: str, key: str, asker: Asker | None = None) -> None:
    """Let the next commit cancel the delegate that the call `key` may have started; `asker` names
    the one that the call asked for."""
    children: Sequence[str] = ()
    if asker is not None:
        children = (asker.run_id,)
    elif key and may_delegate(run, tool_name):
        children = child_ids(run.identity.thread_id, key)
    run.journal.extras.sends.extend(build_cancels(children, run.clock.now_ms()))


def may_delegate(run: LiveRun, tool_name: str) -> bool:
    """Whether a call of the tool may have started a delegate: the tool declares `runs_agent`, or
    the agent does not have the tool any more."""
    tool = run.agent.tools.get(tool_name)
    return tool is None or getattr(tool, "runs_agent", False) is True


async def load_delegate_summary(
    delegates: DurableDelegates | None, thread_id: str, key: str
) -> str | None:
    """A text for the model on the actions of the delegate of the call `key` of a thread.

    Returns `None` if the delegate has done nothing. If the store is away, the text says that it is
    unknown.
    """
    if delegates is None:
        return None
    try:
        return await delegates.summarize_delegate(thread_id, key)
    except StoreError as error:
        log.warning("what was done for call %s cannot be read: %s", key, error)
        return "it is unknown what it had done before that"


def append_summary(text: str, done: str | None) -> str:
    """The text of a call's result, followed by the summary of its delegate's actions, if any."""
    return text if done is None else f"{text}; {done}"
