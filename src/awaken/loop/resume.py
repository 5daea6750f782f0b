"""Suspended calls and their answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from awaken.contract.commits import CallEntry, CallPhase, call_key
from awaken.contract.control import InboxClosed, first_of, interruptible
from awaken.domain.event import ToolCallResumed
from awaken.domain.intercept import Suspend, ToolInterceptPayload
from awaken.domain.message import Message, Role, Text, ToolCall
from awaken.domain.spec import ToolExecutorKind
from awaken.domain.suspension import (
    Decision,
    ResumeAction,
    ToolCallResumeMode,
    ToolCallStatus,
)
from awaken.domain.tool import ToolError
from awaken.errors import InvalidResume, StateError, UnknownKey
from awaken.loop import calls
from awaken.loop.complete import Turn, interrupt
from awaken.loop.inbox import drain
from awaken.loop.live import LiveRun
from awaken.loop.save import persist_checkpoint
from awaken.state.command import MutationBatch
from awaken.state.runtime_keys import TOOL_CALL_STATES, PutCall, ToolCallState
from awaken.state.store import StateStore

log = logging.getLogger("awaken.loop")
_replace = msgspec.structs.replace


def prepare_resume(
    store: StateStore,
    decisions: Sequence[Decision],
    mode_override: ToolCallResumeMode | None = None,
) -> None:
    """Take answers to suspended calls, all or none; an answer given before is ignored.

    Raises:
        UnknownKey: a target is neither a call nor a suspension.
        InvalidResume: a call no longer waits.
    """
    store.commit(decision_batch(store, decisions, mode_override))


def decision_batch(
    store: StateStore,
    decisions: Sequence[Decision],
    mode_override: ToolCallResumeMode | None = None,
) -> MutationBatch:
    """What `prepare_resume` would write; the same errors."""
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
        resume = decision.action is ResumeAction.RESUME
        decided = _replace(
            call,
            status=ToolCallStatus.RESUMING if resume else ToolCallStatus.CANCELLED,
            resume_input=decision,
            resume_mode=mode_override or call.resume_mode,
            updated_at=decision.updated_at or call.updated_at,
        )
        known[call.call_id] = decided
        batch.update(TOOL_CALL_STATES, PutCall(call=decided))
    return batch


def find_call(known: dict[str, ToolCallState], target: str) -> ToolCallState:
    """The call of that id, or with that suspension id.

    Raises:
        UnknownKey: there is none.
    """
    call = known.get(target) or next(
        (call for call in known.values() if call.suspension_id == target), None
    )
    if call is None:
        waiting = sorted(c.call_id for c in known.values() if c.status is ToolCallStatus.SUSPENDED)
        hint = f"; waiting: {', '.join(waiting)}" if waiting else "; no call waits"
        raise UnknownKey(target, f"tool call or suspension {target} not found{hint}")
    return call


def suspended_calls(store: StateStore) -> list[ToolCallState]:
    states = store.read(TOOL_CALL_STATES)
    return [
        call
        for call in (states.calls.values() if states else ())
        if call.status is ToolCallStatus.SUSPENDED
    ]


def give_up_suspended(run: LiveRun) -> None:
    """Close calls that wait, or were decided and not carried out: the run is over.

    A late answer must find nothing, and no other run may take them up.
    """
    states = run.store.read(TOOL_CALL_STATES)
    for call in list(states.calls.values()) if states else ():
        waits = call.status is ToolCallStatus.SUSPENDED
        if not waits and call.resume_input is None:
            continue
        why = "anybody decided" if waits else "the decision was carried out"
        _answer(run, call, ToolError.cancelled(f"the run ended before {why}"))
        closed = _replace(
            call,
            status=ToolCallStatus.CANCELLED,
            resume_input=None,
            suspension_id=None,
            suspension_reason=None,
        )
        run.store.update(TOOL_CALL_STATES, PutCall(call=closed))


def _answer(run: LiveRun, call: ToolCallState, error: ToolError) -> None:
    """Settle a call that does not run: in the log, and in the ledger."""
    if found := run.transcript.find_call(call.call_id):
        message, index = found
        run.journal.calls.append(
            CallEntry(
                key=call_key(message.id or "", index),
                run_id=run.identity.run_id,
                call_id=call.call_id,
                tool_name=call.tool_name,
                phase=CallPhase.FAILED,
            )
        )
    run.transcript.answer(
        call.call_id,
        Message(
            id=run.ids.new(),
            role=Role.TOOL,
            content=(Text(text=str(error)),),
            tool_call_id=call.call_id,
            metadata=run.metadata,
        ),
    )


# -- replay -----------------------------------------------------------------------------------


async def detect_and_replay_resume(run: LiveRun) -> str | None:
    """Carry out the answers that are there, each committed as it is done.

    Returns why a gate blocked the run, if one did. A batch-approval agent carries out nothing
    until the last of its calls is decided.

    Raises:
        Cancelled: somebody cancelled the run.
    """
    if run.agent.tool_executor is ToolExecutorKind.PARALLEL_BATCH_APPROVAL and suspended_calls(
        run.store
    ):
        return None
    states = run.store.read(TOOL_CALL_STATES)
    decided = [c for c in (states.calls.values() if states else ()) if c.resume_input is not None]
    for call in sorted(decided, key=lambda call: call.call_id):
        if call.status is ToolCallStatus.CANCELLED:
            _take_no(run, call)
            await persist_checkpoint(run)
    for call in sorted(decided, key=lambda call: call.call_id):
        if call.status is ToolCallStatus.RESUMING:
            blocked = await _take_yes(run, call)
            await persist_checkpoint(run)
            if blocked is not None:
                return blocked
    return None


def _take_no(run: LiveRun, call: ToolCallState) -> None:
    """A refused call: the model is told, once."""
    decision = call.resume_input
    assert decision is not None, "only decided calls are taken up"
    run.journal.note(ToolCallResumed(target_id=call.call_id, result=decision.result))
    _answer(run, call, ToolError.denied(decision.reason or f"'{call.tool_name}' was not approved"))
    settled = _replace(call, resume_input=None, suspension_id=None, suspension_reason=None)
    run.store.update(TOOL_CALL_STATES, PutCall(call=settled))


async def _take_yes(run: LiveRun, call: ToolCallState) -> str | None:
    """An approved call goes through the gates again, and runs alone."""
    found = run.transcript.find_call(call.call_id)
    message, index = found if found else (None, 0)
    made = message.tool_calls if message and message.tool_calls else ()
    arguments = call.arguments
    if call.resume_mode is ToolCallResumeMode.PASS_DECISION_TO_TOOL and call.resume_input:
        # The gates judge what will really run.
        arguments = call.resume_input.result
    own = ToolCall(id=call.call_id, name=call.tool_name, arguments=arguments)
    turn = Turn(
        (message.id or "") if message else "",
        tuple(own if i == index else other for i, other in enumerate(made)) or (own,),
        {index: call},
    )
    try:
        verdict = await calls.gate(run, turn, index) if run.agent.env.gates else None
        if verdict is not None and not _was_answered(verdict, call):
            await calls.intercept(run, turn, index, verdict)
        else:
            await calls.run_alone(run, turn, index)
    except BaseException:
        if turn.is_open(index):
            interrupt(run, turn, [index])
        raise
    return turn.blocked


def _was_answered(verdict: ToolInterceptPayload, call: ToolCallState) -> bool:
    """Whether a gate only asks again what was just answered; another ticket is another question."""
    if not isinstance(verdict, Suspend):
        return False
    asked = verdict.ticket.suspension.id.strip() or call.call_id
    return asked == (call.suspension_id or call.call_id)


# -- waiting ----------------------------------------------------------------------------------


async def wait_for_decisions(run: LiveRun) -> bool:
    """Wait until somebody decides; what comes into the inbox meanwhile is kept, unanswered.

    Returns False when no decision can come any more.

    Raises:
        Cancelled: somebody cancelled the run.
    """
    queue = run.decisions
    if queue is None:
        return False
    while True:
        run.check_token()
        if decisions := queue.drain():
            try:
                prepare_resume(run.store, decisions)
            except (StateError, InvalidResume) as error:
                # The door checks decisions too; one that got stale on the way changes nothing.
                log.warning("decisions were refused: %s", error)
                continue
            return True
        if queue.closed:
            return False
        if messages := drain(run.inbox):
            run.transcript.extend(messages)
            await persist_checkpoint(run)
            continue
        with interruptible(run.token):
            await first_of(queue.ready(), _inbox_ready(run))


async def _inbox_ready(run: LiveRun) -> None:
    if run.inbox is not None:
        try:
            return await run.inbox.ready()
        except InboxClosed:
            run.inbox = None
    # Nothing will ever come this way: leave the waiting to the other side.
    await asyncio.Event().wait()
