"""What a run with a budget does before and after it asks the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from awaken.domain.budget import BUDGET_LIMIT, LIMITS, Amount, Spending
from awaken.domain.inference import StreamResult
from awaken.domain.lifecycle import Stopped, StoppedReason
from awaken.domain.message import Message, Role
from awaken.domain.suspension import (
    ResumeAction,
    SuspendTicket,
    Suspension,
    ToolCallResume,
    ToolCallResumeMode,
    ToolCallStatus,
)
from awaken.errors import BudgetExhausted
from awaken.loop.complete import ask
from awaken.loop.live import LiveRun
from awaken.loop.purse import estimate
from awaken.state.runtime_keys import (
    RUN_LIFECYCLE,
    SPENDING,
    TOOL_CALL_STATES,
    Done,
    PutCall,
    ToolCallState,
)


async def set_aside(run: LiveRun) -> None:
    """Reserve what the next inference may take, if the run has a budget.

    Raises:
        BudgetExhausted: there is not enough left.
        Cancelled: somebody cancelled the run.
    """
    if run.purse is not None:
        asked = run.overrides.max_tokens if run.overrides is not None else None
        await run.purse.reserve(run.agent, run.transcript.view(), asked, run.token, run.task)


def count(run: LiveRun, answer: StreamResult) -> None:
    """Count what an answer took, if the run has a budget."""
    if run.purse is not None:
        said = Message(role=Role.ASSISTANT, content=answer.content, tool_calls=answer.tool_calls)
        note(run, run.purse.settle(run.agent, answer.usage, estimate(said)))


def note(run: LiveRun, used: Amount) -> None:
    """Keep what was used up with the run."""
    if used != Amount():
        run.store.update(SPENDING, Spending(spent=used))


@contextmanager
def not_counted(run: LiveRun) -> Iterator[None]:
    """Let time pass that a run waits for somebody, and does not use up."""
    if run.budget is None or run.purse is None:
        yield
        return
    note(run, run.purse.lap())
    run.budget.pause()
    try:
        yield
    finally:
        run.budget.begin()


# -- at the limit -----------------------------------------------------------------------------


def stopped(error: BudgetExhausted) -> Stopped:
    """How a run ends that may use up no more."""
    return Stopped(value=StoppedReason(code="budget", detail=str(error)))


def ask_for_more(run: LiveRun, error: BudgetExhausted) -> None:
    """Put a question of the run itself: may it use up more?"""
    id = f"budget-{run.steps}"
    asked = {
        "limit": error.name,
        "amount": error.limit,
        "left": error.left,
        "wanted": error.wanted,
        "level": error.level,
    }
    ticket = SuspendTicket(
        suspension=Suspension(
            id=id, action=BUDGET_LIMIT, message=f"{error}. Allow more?", parameters=asked
        ),
        resume_mode=ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT,
    )
    state = ToolCallState(
        call_id=id,
        tool_name="budget",
        arguments=asked,
        status=ToolCallStatus.SUSPENDED,
        updated_at=run.clock.now_ms(),
        key=f"{run.identity.run_id}:{id}",
    )
    run.store.update(TOOL_CALL_STATES, PutCall(call=ask(run, state, ticket)))


def take_answer(run: LiveRun, call: ToolCallState) -> None:
    """Go on with more, or end, as somebody decided."""
    decision = call.resume_input
    assert decision is not None, "only decided questions are taken up"
    yes = decision.action is ResumeAction.RESUME
    if yes and run.budget is not None:
        more = granted(call, decision)
        note = run.budget.grant(run.identity.run_id, more, call.arguments["level"])
        run.store.update(SPENDING, note)
    elif not yes:
        why = decision.reason or "nobody allowed more"
        end = Stopped(value=StoppedReason(code="budget", detail=why))
        now = run.clock.now_ms()
        done = Done(reason="stopped:budget", updated_at=now, termination=end)
        run.store.update(RUN_LIFECYCLE, done)
    closed = msgspec.structs.replace(
        call,
        status=ToolCallStatus.SUCCEEDED if yes else ToolCallStatus.CANCELLED,
        resume_input=None,
        suspension_id=None,
        suspension_reason=None,
    )
    run.store.update(TOOL_CALL_STATES, PutCall(call=closed))


def granted(call: ToolCallState, decision: ToolCallResume) -> Amount:
    """How much more: as much as the answer says, else as much as the limit was, again."""
    said, name = decision.result, call.arguments["limit"]
    if isinstance(said, int | float) and not isinstance(said, bool):
        said = {name: said}
    if not isinstance(said, dict) or not any(limit in said for limit in LIMITS):
        said = {name: call.arguments["amount"]}
    return Amount(
        tokens=int(said.get("tokens", 0)),
        money=float(said.get("money", 0)),
        steps=int(said.get("steps", 0)),
        seconds=float(said.get("seconds", 0)),
    )
