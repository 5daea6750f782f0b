"""A run that may use up no more asks somebody: the question, its answers, and restarts (ADR 8)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from budget_kit import (
    Meter,
    T,
    assert_valid,
    calls,
    look,
    meter_of,
    on_record,
    says,
    stopped_by_budget,
    took,
    walker,
)

from answer_kit import by_id
from awaken import Agent, RunResult, Runtime, ToolCallResume, tool
from awaken.core.budget import BUDGET_LIMIT, Budget, Price
from awaken.core.event import RunFinish
from awaken.core.lifecycle import CANCELLED, NATURAL_END, RunStatus
from awaken.core.message import Role
from awaken.core.run import CancelOutcome, RunWaitingTicket
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import TicketStatus
from awaken.errors import InvalidResume, RunLeft
from awaken.stores.memory import MemoryStore
from awaken.testing import FakeClock

pytestmark = pytest.mark.anyio

ASK_AT_TWO = Budget(steps=2, at_limit="ask")
yes, no = ToolCallResume.approve, ToolCallResume.deny


def after(steps: int, **options: Any) -> Agent:
    """An agent that looks around so many times, then is done."""
    script = [calls("look", {}, took(100, 20))] * steps
    return walker(*script, says("done", took(100, 20)), **options)


async def waiting(runtime: Runtime, agent: str = "walker") -> RunWaitingTicket:
    """Run until the budget is used up, and return the question."""
    return asked_by(await runtime.run(agent, "go", thread=T))


def asked_by(result: RunResult) -> RunWaitingTicket:
    assert result.suspended, result.termination
    (ticket,) = result.tickets
    assert ticket.reason == BUDGET_LIMIT
    return ticket


# -- the question -----------------------------------------------------------------------------


async def test_the_question_says_what_has_run_out_and_is_not_in_the_conversation() -> None:
    agent = after(5, budget=ASK_AT_TWO)

    async with Runtime([agent]) as runtime:
        ticket = await waiting(runtime)
        (kept,) = await runtime.list_tickets()
        log = await runtime.messages(T)
        (run,) = await runtime.list_runs()

    assert ticket.tool_name == "budget"
    assert ticket.arguments == {"limit": "steps", "amount": 2, "left": 0, "wanted": 1, "level": 0}
    assert kept.ticket_id == ticket.ticket_id
    assert kept.message == (
        "the budget of 2 steps has 0 left, and the next call may take 1. Allow more?"
    )
    assert run.status is RunStatus.WAITING
    assert_valid(log)
    assert [m.role for m in log] == [Role.USER, *[Role.ASSISTANT, Role.TOOL] * 2]


# -- the answers ------------------------------------------------------------------------------


async def test_yes_allows_as_much_again() -> None:
    agent = after(5, budget=ASK_AT_TWO)

    async with Runtime([agent]) as runtime:
        await waiting(runtime)
        asked = []
        result = await runtime.run(thread=T, answers=await by_id(runtime, {"budget-2": True}))
        while result.suspended:
            asked.append(asked_by(result).arguments["amount"])
            result = await runtime.run(thread=T, answers={result.tickets[0]: True})
        log = await runtime.messages(T)

    assert asked == [4], "two at first, and two more each time"
    assert result.response == "done"
    assert result.spent is not None
    assert result.spent.steps == 6
    assert_valid(log)


@pytest.mark.parametrize("answer", [1, 1.0, "1", {"steps": 1}, {"steps": 1, "tokens": 50}])
async def test_an_answer_may_say_how_much_more(answer: Any) -> None:
    agent = after(5, budget=ASK_AT_TWO)

    async with Runtime([agent]) as runtime:
        await waiting(runtime)
        result = await runtime.run(
            thread=T, answers=await by_id(runtime, {"budget-2": yes(answer)})
        )

    assert asked_by(result).arguments["amount"] == 3
    assert len(meter_of(agent).asked) == 3


async def test_no_ends_the_run() -> None:
    agent = after(5, budget=ASK_AT_TWO)

    async with Runtime([agent]) as runtime:
        await waiting(runtime)
        result = await runtime.run(
            thread=T, answers=await by_id(runtime, {"budget-2": no("that is enough")})
        )
        log = await runtime.messages(T)
        tickets = await runtime.list_tickets(TicketQuery())

    assert stopped_by_budget(result) == "that is enough"
    assert len(meter_of(agent).asked) == 2
    assert_valid(log)
    assert [ticket.status for ticket in tickets] == [TicketStatus.ANSWERED]


@pytest.mark.parametrize(
    "answer", ["lots", 1.5, {"tokens": "many"}, -5, {"steps": -1}, 0, False, [], {"other": 1}, {}]
)
async def test_an_answer_that_makes_no_sense_allows_nothing_and_is_asked_for_again(
    answer: Any,
) -> None:
    agent = after(5, budget=ASK_AT_TWO)

    async with Runtime([agent]) as runtime:
        await waiting(runtime)
        again = await runtime.run(thread=T, answers=await by_id(runtime, {"budget-2": yes(answer)}))
        assert asked_by(again).arguments["amount"] == 2
        again = await runtime.run(thread=T, answers={again.tickets[0]: yes(1)})
        assert asked_by(again).arguments["amount"] == 3, "and the next question is another one"
        result = await runtime.run(thread=T, answers={again.tickets[0]: yes(9)})

    assert result.response == "done"


async def test_no_two_questions_of_a_step_have_one_name() -> None:
    """Each is answered in an activation of its own, and an answered one cannot be put again."""
    agent = after(5, budget=ASK_AT_TWO)

    async with Runtime([agent]) as runtime:
        tickets = [await waiting(runtime)]
        for more in ["lots", "lots", "lots", 9]:
            key = tickets[-1].key
            assert key is not None
            result = await runtime.run(thread=T, answers={key: yes(more)})
            tickets.extend(result.tickets)

    assert len({ticket.ticket_id for ticket in tickets}) == len(tickets) == 4
    assert result.response == "done"


async def test_more_of_something_else_does_not_help() -> None:
    """Each limit is a question of its own."""
    agent = after(3, budget=Budget(steps=1, tokens=2_000, at_limit="ask"))

    async with Runtime([agent]) as runtime:
        ticket = await waiting(runtime)
        result = await runtime.run(thread=T, answers={ticket: yes({"tokens": 10_000})})
        ticket = asked_by(result)
        assert ticket.arguments["limit"] == "steps"
        result = await runtime.run(thread=T, answers={ticket: yes(5)})

    assert result.response == "done"


async def test_a_yes_always_suffices_for_the_next_call() -> None:
    """A limit smaller than a single call would be asked about for ever otherwise."""
    agent = after(0, budget=Budget(tokens=5, at_limit="ask"))

    async with Runtime([agent]) as runtime:
        ticket = await waiting(runtime)
        result = await runtime.run(thread=T, answers={ticket: True})

    assert ticket.arguments["wanted"] > 64
    assert result.response == "done"


async def test_money_is_granted_in_money() -> None:
    price = Price(input=1_000, output=1_000)
    agent = after(9, budget=Budget(money=0.5, at_limit="ask"))

    async with Runtime([agent], prices={"walker.model": price}) as runtime:
        ticket = await waiting(runtime)
        assert ticket.arguments["limit"] == "money"
        result = await runtime.run(thread=T, answers={ticket: yes(20.5)})

    assert result.response == "done"
    assert result.spent is not None
    assert result.spent.money == pytest.approx(1.2)


async def test_on_approval_is_asked_like_for_any_call() -> None:
    agent = after(5, budget=ASK_AT_TWO)
    asked: list[RunWaitingTicket] = []

    def allow(ticket: RunWaitingTicket) -> ToolCallResume:
        asked.append(ticket)
        return yes(3)

    async with Runtime([agent]) as runtime:
        result = await runtime.run("walker", "go", on_approval=allow)

    assert result.response == "done"
    assert [ticket.arguments["amount"] for ticket in asked] == [2, 5]


async def test_a_question_can_be_answered_once() -> None:
    agent = after(5, budget=ASK_AT_TWO)

    async with Runtime([agent]) as runtime:
        await waiting(runtime)
        await runtime.run(thread=T, answers=await by_id(runtime, {"budget-2": yes(1)}))
        with pytest.raises(InvalidResume):
            await runtime.run(thread=T, answers=await by_id(runtime, {"budget-2": yes(1)}))


async def test_the_next_run_of_a_thread_has_questions_of_its_own() -> None:
    """Calls of a thread are known by their ids; an answered question must not hide the next."""
    budget = Budget(tokens=5, at_limit="ask")
    agent = after(0, budget=budget)

    async with Runtime([agent]) as runtime:
        for _ in range(3):
            ticket = await waiting(runtime)
            result = await runtime.run(thread=T, answers={ticket: False})
            stopped_by_budget(result)

    assert meter_of(agent).asked == []


# -- instead of an answer ---------------------------------------------------------------------


async def test_a_new_message_instead_of_an_answer_leaves_a_valid_conversation() -> None:
    """The run goes on with it, finds nothing more to spend, and asks again."""
    agent = after(5, budget=ASK_AT_TWO)

    async with Runtime([agent]) as runtime:
        first = await waiting(runtime)
        result = await runtime.run("walker", "well?", thread=T)
        second = asked_by(result)
        log = await runtime.messages(T)
        assert_valid(log)
        assert [m.text() for m in log if m.role is Role.USER] == ["go", "well?"]
        statuses = {t.ticket_id: t.status for t in await runtime.list_tickets(TicketQuery())}
        result = await runtime.run(thread=T, answers={second: yes(9)})
        assert_valid(await runtime.messages(T))

    assert statuses == {
        first.ticket_id: TicketStatus.CLOSED,
        second.ticket_id: TicketStatus.OPEN,
    }
    assert result.response == "done"


async def test_a_run_that_waits_for_more_can_be_cancelled() -> None:
    agent = after(5, budget=ASK_AT_TWO)

    async with Runtime([agent]) as runtime:
        await waiting(runtime)
        receipt = await runtime.cancel(T)
        (run,) = await runtime.list_runs()
        log = await runtime.messages(T)
        assert not await runtime.list_tickets()

    assert run.termination_reason == CANCELLED
    assert receipt.complete
    assert {item.outcome for item in receipt.items if item.kind == "run"} == {CancelOutcome.STOPPED}
    assert_valid(log)


async def test_who_does_not_know_what_models_cost_can_still_end_a_run() -> None:
    """A desk without agents cancels what others have left waiting."""
    store = MemoryStore()
    price = Price(input=1_000, output=1_000)
    runtime = Runtime([after(9)], store=store, prices={"walker.model": price}, recover=False)
    budget = Budget(money=0.5, at_limit="ask")
    asked_by(await runtime.run("walker", "go", thread=T, budget=budget))

    desk = Runtime([], store=store, recover=False)
    assert await desk.cancel(T)

    (run,) = await desk.list_runs()
    assert run.termination_reason == CANCELLED


# -- live runs, other processes, restarts -----------------------------------------------------


async def test_a_live_run_goes_on_with_the_answer_and_waiting_takes_no_time() -> None:
    """What it does before the question and after the answer does take time."""
    clock = FakeClock()

    @tool(effect="read")
    async def look() -> str:
        """Look for two seconds."""
        clock.advance(2)
        return "seen"

    agent = after(3, tools=[look], budget=Budget(steps=2, seconds=60, at_limit="ask"))

    async with Runtime([agent], clock=clock) as runtime, asyncio.timeout(100):
        async with runtime.stream("walker", "go", thread=T, wait=True) as events:
            async for event in events:
                if isinstance(event.event, RunFinish) and clock.monotonic() < 3_600:
                    clock.advance(3_600)
                    assert await runtime.decide(
                        T, await by_id(runtime, {"budget-2": yes(9)}), by="ann"
                    )
        result = events.result
        kept = await on_record(runtime, result.run_id)

    assert result.response == "done"
    assert kept.seconds == 6
    assert kept.steps == 4


async def test_another_process_answers_a_run_that_nobody_carries_on(tmp_path: Path) -> None:
    """The answer is kept first; whoever has the agent goes on with what is left."""
    store = f"sqlite:///{tmp_path / 'awaken.db'}"
    first, second = after(2, budget=ASK_AT_TWO), after(2, budget=ASK_AT_TWO)
    async with Runtime([first], store=store) as runtime:
        await waiting(runtime)

    async with Runtime([], store=store) as desk:
        assert not await desk.decide(T, await by_id(desk, {"budget-2": yes(1)}))
    async with Runtime([second], store=store) as runtime:
        (taken_up,) = runtime.recovered
        result = await taken_up

    assert asked_by(result).arguments == {
        "limit": "steps",
        "amount": 3,
        "left": 0,
        "wanted": 1,
        "level": 0,
    }
    assert len(meter_of(second).asked) == 1


async def test_only_the_rest_is_left_after_a_restart(tmp_path: Path) -> None:
    """Spend some, close, go on: what was granted counts, and so does what was spent."""
    store = f"sqlite:///{tmp_path / 'awaken.db'}"
    budget = Budget(tokens=2_000, at_limit="ask")
    usage = took(500, 100)
    spent, ticket = [0], ""
    for life in range(3):
        agent = walker(usage=usage, budget=budget)
        answers = {"answers": {ticket: yes(1_500)}} if life else {"agent": "walker", "input": "go"}
        async with Runtime([agent], store=store, recover=False) as runtime:
            result = await runtime.run(thread=T, **answers)
        asked = asked_by(result)
        ticket = asked.key or ""
        assert result.spent is not None
        spent.append(result.spent.tokens)
        limit = 2_000 + 1_500 * life
        assert (asked.arguments["amount"], asked.arguments["left"]) == (limit, limit - spent[-1])
        assert 0 < len(meter_of(agent).asked) * 600 == spent[-1] - spent[-2]


async def test_a_run_that_was_left_in_the_middle_goes_on_with_the_rest() -> None:
    """The process closes between two steps; the next one has two of the four steps left."""
    store = MemoryStore()
    here, let_go = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def wander() -> str:
        """Wander."""
        if len(model.asked) == 2:
            here.set()
            await let_go.wait()
        return "nothing"

    model = Meter(ever=calls("wander", {}))
    agent = Agent("a", model=model, tools=[wander], budget=Budget(steps=4), max_rounds=0)
    runtime = Runtime([agent], store=store, on_close="leave")

    async def leave() -> None:
        await here.wait()
        closing = asyncio.ensure_future(runtime.close())
        await asyncio.sleep(0)
        let_go.set()
        await closing

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(leave())
        with pytest.raises(RunLeft):
            await runtime.run("a", "go", thread=T)
    assert len(model.asked) == 2
    async with Runtime([agent], store=store) as runtime:
        (taken_up,) = runtime.recovered
        result = await taken_up

    stopped_by_budget(result)
    assert result.spent is not None
    assert result.spent.steps == len(model.asked) == 4


async def test_a_budget_given_with_the_run_survives_a_restart() -> None:
    store = MemoryStore()
    first, second = after(5), after(5)
    runtime = Runtime([first], store=store, recover=False)
    ticket = asked_by(await runtime.run("walker", "go", thread=T, budget=ASK_AT_TWO))

    again = Runtime([second], store=store, recover=False)
    result = await again.run(thread=T, answers={ticket: yes(1)})

    assert asked_by(result).arguments["amount"] == 3
    assert result.termination != NATURAL_END


async def test_an_approval_beside_the_budget_does_not_mix_with_it() -> None:
    """A call that waits and a budget that is used up are answered each for itself."""

    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    model = Meter(calls("pay", {}), says("done"))
    agent = Agent("a", model=model, tools=[pay, look], budget=Budget(steps=1, at_limit="ask"))

    async with Runtime([agent]) as runtime:
        result = await runtime.run("a", "go", thread=T)
        assert [t.tool_name for t in result.tickets] == ["pay"]
        result = await runtime.run(thread=T, answers=await by_id(runtime, {"c": True}))
        ticket = asked_by(result)
        result = await runtime.run(thread=T, answers={ticket: True})
        log = await runtime.messages(T)

    assert result.response == "done"
    assert [m.text() for m in log if m.role is Role.TOOL] == ["paid"]
