"""A run's budget: reserving before the model is asked, counting after, and asking for more."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from itertools import count as count_from
from math import isfinite

import msgspec

from awaken.core.account import Account
from awaken.core.answer_builder import StreamAccumulator
from awaken.core.answer_stream import GO_ON
from awaken.core.budget import BUDGET_LIMIT, Amount, Price, Spending, question_of
from awaken.core.inference import InferenceOverride, TokenUsage
from awaken.core.lifecycle import Stopped, StoppedReason
from awaken.core.llm import InferenceRequest
from awaken.core.message import Message, Role
from awaken.core.state.call_keys import TOOL_CALL_STATES, PutCall, ToolCallState
from awaken.core.state.run_keys import RUN_LIFECYCLE, SPENDING, Done
from awaken.core.suspension import (
    ResumeAction,
    SuspendTicket,
    Suspension,
    ToolCallResume,
    ToolCallStatus,
)
from awaken.engine.call_results import ask
from awaken.engine.live_run import LiveRun
from awaken.engine.reservation import estimate
from awaken.errors import BudgetExhausted, ModelPriceUnknown, StorageError, StoreError

log = logging.getLogger("awaken.loop")


async def reserve_step(run: LiveRun, *more: Message, goes_on: bool = False) -> None:
    """Reserve the budget for the next model request, if the run has a budget. `more` are messages
    that the request adds to the conversation. With `goes_on` the request continues an answer, and
    does not count as a step of its own.

    Raises:
        BudgetExhausted: too little of the budget is left.
        Cancelled: the run was cancelled.
        StorageError: the store could not be asked what other processes have used.
    """
    if run.reservation is not None:
        asked = run.setup.overrides.max_tokens if run.setup.overrides is not None else None
        messages: Sequence[Message] = run.transcript.view()
        if more:
            messages = [*messages, *more]
        try:
            steps = 0 if goes_on else 1
            await run.reservation.reserve(
                run.agent, messages, asked, run.token, run.task, steps=steps
            )
        except StoreError as error:
            raise StorageError(error) from error


def at_most(run: LiveRun, request: InferenceRequest) -> InferenceRequest:
    """The request with its answer limited to the output tokens that were reserved for it."""
    most = run.reservation.max_output if run.reservation is not None else None
    if most is None:
        return request
    overrides = request.overrides or InferenceOverride()
    asked = overrides.max_tokens
    limited = msgspec.structs.replace(
        overrides, max_tokens=most if asked is None else min(most, asked)
    )
    return msgspec.structs.replace(request, overrides=limited)


def count(run: LiveRun, heard: StreamAccumulator, model_id: str | None) -> None:
    """Charge the run's budget, if it has one, for what has arrived of an answer."""
    if run.reservation is not None:
        answer = heard.this_stream()
        said = Message(role=Role.ASSISTANT, content=answer.content)
        size = estimate(said, more=heard.size_of_calls)
        price = price_of(run, model_id)
        note(run, run.reservation.settle(price, answer.usage, size))


def add_costs(run: LiveRun, usage: TokenUsage, price: Price | None) -> float | None:
    """Add an answer's tokens and cost to the run's totals. Returns the cost, or `None` if the price
    is unknown."""
    run.input_tokens += usage.prompt_tokens or 0
    run.output_tokens += usage.completion_tokens or 0
    if not (
        price is not None
        or usage.cache_read_tokens
        or usage.cache_creation_tokens
        or usage.thinking_tokens
    ):
        return None
    took = run.usage_totals
    for name in ("cache_read_tokens", "cache_creation_tokens", "thinking_tokens"):
        if more := getattr(usage, name):
            took[name] = took.get(name, 0) + more
    if price is None:
        return None
    cost = price.of_usage(usage)
    took["cost"] = took.get("cost", 0.0) + cost
    return cost


def price_of(run: LiveRun, model_id: str | None) -> Price | None:
    """The price of `model_id`, the model of the agent's pool that answered. If that is `None`, the
    price of the agent's model. Returns `None` if the price is unknown."""
    prices = run.agent.prices
    return prices.get(model_id) if model_id is not None else run.agent.price


def note(run: LiveRun, used: Amount) -> None:
    """Add the usage to the spending in the run's state."""
    if used != Amount():
        run.state.update(SPENDING, Spending(spent=used))


def count_time(run: LiveRun) -> None:
    """Charge the run's budget, if it has one, for the time since the last call."""
    if run.reservation is not None:
        note(run, run.reservation.lap())


def release_all(run: LiveRun) -> None:
    """Add the unreported usage of the runs that it started to the run's spending. The run is over,
    so no report can follow."""
    if run.controls.budget is not None:
        rest = run.controls.budget.merge_all_runs(run.identity.run_id)
        if rest != Spending():
            run.state.update(SPENDING, rest)


def check_price(run: LiveRun) -> None:
    """Return if the price of the agent's model is known, or not needed.

    Raises:
        ModelPriceUnknown: the budget limits money, and the agent's model has no known price.
    """
    agent = run.agent
    if run.controls.budget is not None and run.controls.budget.counts_money and agent.price is None:
        raise ModelPriceUnknown(agent.spec.model_id, agent.spec.id)


@contextmanager
def not_counted(run: LiveRun) -> Iterator[None]:
    """Stop the budget's clock while the run waits for an approver."""
    if run.controls.budget is None or run.reservation is None:
        yield
        return
    count_time(run)
    run.controls.budget.pause()
    try:
        yield
    finally:
        run.controls.budget.begin()


# -- at the limit -----------------------------------------------------------------------------


def build_budget_stop(error: BudgetExhausted) -> Stopped:
    """Build the end of a run whose budget is exhausted."""
    return Stopped(value=StoppedReason(code="budget", detail=str(error)))


def ask_for_more(run: LiveRun, error: BudgetExhausted) -> None:
    """Ask an approver whether the run may use more than its budget.

    The question is a suspended call of the tool `budget`, which no model made.
    """
    id = _new_id(run)
    asked = question_of(error)
    ticket = SuspendTicket(
        suspension=Suspension(
            id=id, action=BUDGET_LIMIT, message=f"{error}. Allow more?", parameters=asked
        )
    )
    state = ToolCallState(
        call_id=id,
        tool_name="budget",
        arguments=asked,
        status=ToolCallStatus.SUSPENDED,
        updated_at=run.clock.now_ms(),
        key=f"{run.identity.run_id}:{id}",
    )
    run.state.update(TOOL_CALL_STATES, PutCall(call=ask(run, state, ticket)))


def _new_id(run: LiveRun) -> str:
    """A call id that no question of the run has had: an answered question cannot be reused."""
    states = run.state.read(TOOL_CALL_STATES)
    known, first = states.calls if states else {}, f"budget-{run.steps}"
    again = (f"{first}.{number}" for number in count_from(1))
    return next(id for id in chain([first], again) if id not in known)


def take_answer(run: LiveRun, call: ToolCallState) -> None:
    """Carry out the answer to a budget question: raise the budget, or end the run."""
    decision = call.resume_input
    assert decision is not None, "only decided questions are taken up"
    yes = decision.action is ResumeAction.RESUME
    if yes and run.controls.budget is not None:
        more = parse_grant(run.controls.budget, call, decision)
        known = run.controls.budget.grant(run.identity.run_id, more, call.arguments["level"])
        run.state.update(SPENDING, known)
        _ask_to_continue(run)
    elif not yes:
        why = decision.reason or "nobody allowed more"
        end = Stopped(value=StoppedReason(code="budget", detail=why))
        now = run.clock.now_ms()
        done = Done(reason="stopped:budget", updated_at=now, termination=end)
        run.state.update(RUN_LIFECYCLE, done)
    # The question is in neither the log nor the ledger. It keeps its suspension reason, so that
    # commits store it and its id is not used again.
    closed = msgspec.structs.replace(
        call,
        status=ToolCallStatus.SUCCEEDED if yes else ToolCallStatus.CANCELLED,
        resume_input=None,
        suspension_id=None,
    )
    run.state.update(TOOL_CALL_STATES, PutCall(call=closed))


def _ask_to_continue(run: LiveRun) -> None:
    """Ask the model to continue, if its answer was interrupted because the budget was exhausted."""
    said = run.transcript.view()
    last = said[-1] if said else None
    if last is not None and last.role is Role.ASSISTANT and not last.tool_calls:
        run.transcript.append(Message.internal_user(GO_ON, id=run.ids.new()))


def parse_grant(account: Account, call: ToolCallState, decision: ToolCallResume) -> Amount:
    """The additional budget that an approver's decision grants.

    It is the amount in the answer. A plain yes grants the original limit once more, or what the
    next call needs if that is more. An answer that is no valid amount grants nothing, and the run
    asks again.
    """
    said, asked = decision.result, call.arguments
    if said is None or said is True:
        limited = list(account.chain())[asked["level"]].budget
        missing = asked["wanted"] - asked["left"]
        said = max(getattr(limited, asked["limit"]) or 0, missing)
    try:
        amounts = said if isinstance(said, dict) else {asked["limit"]: said}
        more = msgspec.convert(amounts, Amount, strict=False)
    except msgspec.ValidationError as error:
        log.warning("%s: %r is no amount to grant: %s", call.call_id, decision.result, error)
        return Amount()
    if not (isfinite(more.money) and isfinite(more.seconds)):
        return Amount()
    return more.beyond(Amount())
