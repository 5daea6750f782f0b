"""Agents elsewhere within budgets: each turn counts as a step, and by its time (ADR 8)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from far_kit import FarBackend, Held, asks, can, runtime_of, says
from run_kit import record_of

from awaken import Agent, ToolCallResume
from awaken.core.budget import Amount, Budget, Spending
from awaken.core.lifecycle import NATURAL_END, Stopped
from awaken.core.message import Role
from awaken.testing import ScriptedModel, tool_calls_response

pytestmark = pytest.mark.anyio

T = "t"


async def test_a_turn_elsewhere_is_a_step() -> None:
    async with runtime_of(FarBackend(says("hi"))) as runtime:
        counted = await runtime.run("far", "go", budget=Budget())

    assert counted.spent is not None
    assert (counted.spent.steps, counted.spent.tokens) == (1, 0)


async def test_a_run_elsewhere_that_waits_goes_on_with_the_rest() -> None:
    """Two turns are all it may take; the third is not begun."""
    backend = FarBackend(asks("which?"), asks("really?"), says("never said"))

    async with runtime_of(backend) as runtime:
        await runtime.run("far", "go", thread=T, budget=Budget(steps=2))
        await runtime.run("far", "this one", thread=T)
        result = await runtime.run("far", "yes", thread=T)

    assert len(backend.requests) == 2
    assert isinstance(result.termination, Stopped)
    assert result.termination.value.code == "budget"
    assert result.spent is not None
    assert result.spent.steps == 2


async def test_delegates_elsewhere_are_counted_as_their_parents() -> None:
    calls = [("agent_run_far", f"d{n}", {"prompt": "go"}) for n in range(3)]
    model = ScriptedModel([tool_calls_response("", *calls), "done"])
    boss = Agent("boss", model=model, delegates=["far"], sequential=True)
    backend = FarBackend(*[says("hi")] * 3)

    async with runtime_of(backend, boss) as runtime:
        result = await runtime.run("boss", "go", thread=T, budget=Budget(steps=3))
        log = await runtime.messages(T)

    results = [message.text() for message in log if message.role is Role.TOOL]
    assert len(backend.requests) == 2
    assert results[:2] == ["hi", "hi"]
    assert "the budget of 3 steps has 0 left" in results[2]
    assert isinstance(result.termination, Stopped)
    assert result.spent is not None
    assert result.spent.steps == 3


async def test_a_run_elsewhere_is_cut_short_when_its_time_is_up() -> None:
    held = Held()
    backend = FarBackend(held)

    async with runtime_of(backend) as runtime, asyncio.timeout(100):
        result = await runtime.run("far", "go", thread=T, budget=Budget(seconds=0.02))

    assert isinstance(result.termination, Stopped)
    assert result.termination.value.code == "budget"
    assert len(backend.aborts) == 1
    assert not held.let_go.is_set()


# -- what the other side says -----------------------------------------------------------------


async def test_what_the_other_side_says_it_has_used_up_is_counted() -> None:
    """The turn was counted as a step before; its time is counted here."""
    used = Spending(spent=Amount(steps=4, tokens=700, money=0.5, seconds=1000))
    async with runtime_of(FarBackend(says("hi", spending=used))) as runtime:
        result = await runtime.run("far", "go", thread=T, budget=Budget(steps=3))

    spent = result.spent
    assert spent is not None
    assert result.termination == NATURAL_END
    assert (spent.steps, spent.tokens, spent.money, spent.seconds < 100) == (4, 700, 0.5, True)


async def test_what_a_delegate_elsewhere_has_used_up_is_its_parents() -> None:
    used = Spending(spent=Amount(steps=3, tokens=700))
    model = ScriptedModel([tool_calls_response("", ("agent_run_far", "d", {"prompt": "go"})), "ok"])
    boss = Agent("boss", model=model, delegates=["far"])
    async with runtime_of(FarBackend(says("hi", spending=used)), boss) as runtime:
        result = await runtime.run("boss", "go", thread=T, budget=Budget())

    assert result.spent is not None
    assert result.spent.steps == 5
    assert result.spent.tokens >= 700


# -- asking for more --------------------------------------------------------------------------

ASKS = Budget(steps=1, at_limit="ask")


async def test_a_run_elsewhere_asks_before_it_takes_more_than_it_may() -> None:
    """It waits, with a ticket, as runs here do; the backend hears of it once it may go on."""
    backend = FarBackend(asks("which?"), says("done"))
    async with runtime_of(backend) as runtime:
        await runtime.run("far", "go", thread=T, budget=ASKS)
        waiting = await runtime.run("far", "that one", thread=T)
        asked = len(backend.requests)
        listed = [ticket.key for ticket in await runtime.list_tickets()]
        (ticket,) = waiting.tickets
        result = await runtime.run(thread=T, answers={ticket.key or "": True})
        record = await record_of(runtime, result.run_id)

    assert (waiting.suspended, waiting.waiting, asked) == (True, True, 1)
    assert (ticket.tool_name, ticket.reason, listed) == ("budget", "budget:limit", [ticket.key])
    assert (result.response, result.run_id) == ("done", waiting.run_id)
    assert backend.new_messages() == [["go"], ["that one"]]
    assert result.spent is not None
    assert (result.spent.steps, record.left_running) == (2, None)


async def test_a_run_elsewhere_that_may_not_even_begin_begins_when_it_may() -> None:
    """Also by a backend that goes on with nothing: it has not begun."""
    calls = [("agent_run_far", f"d{n}", {"prompt": f"do {n}"}) for n in range(2)]
    model = ScriptedModel([tool_calls_response("", *calls), "done"])
    boss = Agent("boss", model=model, delegates=["far"], sequential=True)
    backend = FarBackend(says("one"), says("two"), can=can())
    async with runtime_of(backend, boss) as runtime:
        budget = Budget(steps=2, at_limit="ask")
        waiting = await runtime.run("boss", "go", thread=T, budget=budget)
        (ticket,) = waiting.tickets
        asked = backend.new_messages()
        result = await runtime.run(thread=T, answers={ticket.key or "": True})

    assert ticket.asker is not None
    assert (ticket.asker.agent_id, asked) == ("far", [["do 0"]])
    assert backend.new_messages() == [["do 0"], ["do 1"]]
    assert not backend.requests[1].is_continuation
    assert result.response == "done"


async def test_a_run_elsewhere_that_gets_no_more_is_stopped_and_so_is_its_work() -> None:
    backend = FarBackend(asks("which?", job="job-1"))
    async with runtime_of(backend) as runtime:
        await runtime.run("far", "go", thread=T, budget=ASKS)
        waiting = await runtime.run("far", "that one", thread=T)
        no = ToolCallResume.deny("too dear")
        result = await runtime.run(thread=T, answers={waiting.tickets[0].key or "": no})

    assert isinstance(result.termination, Stopped)
    assert (result.termination.value.code, result.termination.value.detail) == (
        "budget",
        "too dear",
    )
    assert len(backend.requests) == len(backend.aborts) == 1


async def test_what_a_run_elsewhere_was_granted_is_kept(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'awaken.db'}"
    backend = FarBackend(asks("which?"), asks("really?"), says("done"))
    async with runtime_of(backend, store=store) as runtime:
        await runtime.run("far", "go", thread=T, budget=ASKS)
        waiting = await runtime.run("far", "that one", thread=T)
        more = ToolCallResume.approve(2)
        await runtime.run(thread=T, answers={waiting.tickets[0].key or "": more})
    async with runtime_of(backend, store=store) as runtime:
        result = await runtime.run("far", "yes", thread=T)

    assert (result.response, result.tickets) == ("done", ())


async def test_work_elsewhere_that_may_ask_is_not_cut_short_by_its_time() -> None:
    """It cannot wait in the middle: it ends its turn, and asks before the next one."""
    held = Held()
    backend = FarBackend(held, says("never said"))
    async with runtime_of(backend) as runtime, asyncio.timeout(100):
        budget = Budget(seconds=0.01, at_limit="ask")
        running = asyncio.ensure_future(runtime.run("far", "go", thread=T, budget=budget))
        await held.under_way.wait()
        await asyncio.sleep(0.02)
        held.let_go.set()
        result = await running

    assert (result.response, backend.aborts) == ("let go", [])
