"""Budgets and the background: agents that work beside a run live off its budget (ADR 8)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from budget_kit import Meter, T, calls, look, meter_of, on_record, says, took

from awaken import Agent, Runtime, tool
from awaken.core.account import ledger_key
from awaken.core.budget import Budget
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import NATURAL_END, RunStatus, Stopped
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.profile import ProfileOwner
from awaken.core.run import RunRecord
from awaken.core.store.threads import ChildStrategy, RunQuery
from awaken.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

PROMPT = {"prompt": "go"}


def owner(aside: Agent, budget: Budget, more: int = 0) -> Agent:
    """An agent that sends another one off, and is done when it has heard of it and looked around
    so many times."""

    def answer(request: InferenceRequest) -> StreamResult:
        results = [m for m in request.messages if m.role is Role.TOOL]
        if not results:
            return calls("agent_run_walker", PROMPT, took(100, 20), id="d")
        told = [m for m in request.messages[2:] if m.role is Role.USER]
        if told and len(results) <= more:
            return calls("look", {}, took(100, 20), id=f"look-{len(results)}")
        return says("all done" if told else "sent off", took(100, 20))

    return Agent(
        "owner",
        model=Meter(ever=answer),
        tools=[look],
        background=[aside],
        budget=budget,
        max_rounds=0,
    )


def walker(steps: int, **options: Any) -> Agent:
    """An agent that looks around so many times, then is done."""
    script = [calls("look", {}, took(200, 50))] * steps
    model = Meter(*script, says("found", took(200, 50)))
    return Agent("walker", model=model, tools=[look], max_rounds=0, **options)


async def found(runtime: Runtime, run_id: str) -> RunRecord:
    record = await runtime.find_run(run_id)
    assert record is not None
    return record


async def ended(runtime: Runtime, run: RunRecord) -> RunRecord:
    """The record of a run once it is over."""
    seen = 0
    async with asyncio.timeout(100):
        while run.status is not RunStatus.DONE:
            seen = await runtime.store.wait_changed(run.thread_id, seen)
            run = await found(runtime, run.run_id)
    return run


async def test_what_works_in_the_background_is_counted_as_its_owners(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hand = walker(2)
    lead = owner(hand, Budget(tokens=50_000))

    async with Runtime([lead, hand]) as runtime:
        result = await runtime.run("owner", "go", thread=T)
        record = await ended(runtime, await found(runtime, result.run_id))
        kept = await on_record(runtime, record.run_id)

    assert record.termination_reason == NATURAL_END
    assert "refused" not in caplog.text, "it is no change of state nobody wanted"
    assert len(meter_of(hand).asked) == 3
    own = len(meter_of(lead).asked)
    assert (kept.tokens, kept.steps) == (120 * own + 250 * 3, own + 3)


async def test_what_works_in_the_background_may_not_use_up_more_than_is_left() -> None:
    hand = walker(3)
    lead = owner(hand, Budget(steps=6), more=9)

    async with Runtime([lead, hand]) as runtime:
        result = await runtime.run("owner", "go", thread=T)
        record = await ended(runtime, await found(runtime, result.run_id))
        kept = await on_record(runtime, record.run_id)

    assert isinstance(record.termination_reason, Stopped)
    assert record.termination_reason.value.code == "budget"
    assert len(meter_of(lead).asked) + len(meter_of(hand).asked) == 6
    assert kept.steps == 6


async def test_an_owner_that_goes_on_beside_its_task_shares_what_is_left() -> None:
    """It is written to while the other still works: both live off the same rest."""
    here, let_go = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def dig() -> str:
        """Dig."""
        here.set()
        await let_go.wait()
        return "dug"

    @tool(effect="read")
    async def watch() -> str:
        """Let the other one dig, and wait until it has ended."""
        let_go.set()
        (run,) = await runtime.list_runs(RunQuery(agent_id="walker"))
        return (await ended(runtime, run)).status.value

    def answer(request: InferenceRequest) -> StreamResult:
        last = request.messages[-1]
        if last.role is Role.USER and last.text() == "go":
            return calls("agent_run_walker", PROMPT, took(10), id="d")
        if last.role is Role.USER and last.text() == "watch":
            return calls("watch", {}, took(10), id="w")
        return says("so be it", took(10))

    hand = Agent("walker", model=Meter(ever=calls("dig", {}, took(10))), tools=[dig], max_rounds=0)
    lead = Agent(
        "owner",
        model=Meter(ever=answer),
        tools=[watch],
        background=[hand],
        budget=Budget(steps=8),
    )

    async with Runtime([lead, hand]) as runtime, asyncio.timeout(100):
        first = await runtime.run("owner", "go", thread=T)
        await here.wait()
        second = await runtime.run("owner", "watch", thread=T)
        assert second.run_id == first.run_id
        record = await ended(runtime, await found(runtime, first.run_id))
        kept = await on_record(runtime, record.run_id)

    assert len(meter_of(lead).asked) == 3
    assert len(meter_of(hand).asked) == 5
    assert kept.steps == 8


async def test_what_the_background_starts_in_its_own_is_counted_once() -> None:
    leaf = walker(1)
    middle = Agent(
        "middle", model=owner(leaf, Budget()).model, tools=[look], background=[leaf], max_rounds=0
    )

    def answer(request: InferenceRequest) -> StreamResult:
        if len(request.messages) == 1:
            return calls("agent_run_middle", PROMPT, took(100, 20), id="d")
        return says("well", took(100, 20))

    lead = Agent("owner", model=Meter(ever=answer), background=[middle], budget=Budget())

    async with Runtime([lead, middle, leaf]) as runtime:
        result = await runtime.run("owner", "go", thread=T)
        record = await ended(runtime, await found(runtime, result.run_id))
        kept = await on_record(runtime, record.run_id)

    asked = [len(meter_of(agent).asked) for agent in (lead, middle, leaf)]
    assert asked[2] == 2
    assert kept.steps == sum(asked)
    assert kept.tokens == 120 * (asked[0] + asked[1]) + 250 * 2


async def test_a_task_that_is_taken_up_after_a_restart_has_the_rest() -> None:
    """Another process goes on with the background agent, under the budget of its owner."""
    store = MemoryStore()
    here, let_go = asyncio.Event(), asyncio.Event()

    def hand(steps: int, gate: bool) -> Agent:
        @tool(effect="read")
        async def dig() -> str:
            """Dig."""
            if gate and len(model.asked) == steps:
                here.set()
                await let_go.wait()
            return "dug"

        model = Meter(ever=calls("dig", {}, took(10)))
        return Agent("walker", model=model, tools=[dig], max_rounds=0)

    budget = Budget(steps=8)
    first_hand = hand(3, gate=True)
    first_lead = owner(first_hand, budget)
    first = Runtime([first_lead, first_hand], store=store, on_close="leave")
    async with asyncio.timeout(100):
        result = await first.run("owner", "go", thread=T)
        await here.wait()
        closing = asyncio.ensure_future(first.close())
        await asyncio.sleep(0)
        let_go.set()
        await closing

    again = hand(9, gate=False)
    lead = owner(again, budget)
    async with Runtime([lead, again], store=store) as runtime:
        record = await ended(runtime, await found(runtime, result.run_id))
        kept = await on_record(runtime, record.run_id)

    everybody = [first_lead, first_hand, lead, again]
    assert sum(len(meter_of(agent).asked) for agent in everybody) == 8
    assert kept.steps == 8
    assert meter_of(again).asked


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_the_book_of_a_tree_is_deleted_with_its_root(kind: str, tmp_path: Path) -> None:
    """And those of other trees stay."""
    address = "memory:" if kind == "memory" else f"sqlite:///{tmp_path / 'a.db'}"
    hand = Agent("walker", model=Meter(ever=says("found", took(200, 50))))
    agents = [owner(hand, Budget(tokens=50_000)), hand]

    async with Runtime(agents, store=address) as runtime:
        roots = {}
        for thread in ("one", "other", "third"):
            result = await runtime.run("owner", "go", thread=thread)
            await ended(runtime, await found(runtime, result.run_id))
            roots[thread] = result.run_id
        books = runtime.store.profiles
        assert len(await books.list(ProfileOwner())) == 3
        await runtime.delete_thread("one", children=ChildStrategy.CASCADE)
        kept = [entry.key for entry in await books.list(ProfileOwner())]
        assert sorted(kept) == sorted(ledger_key(roots[name]) for name in ("other", "third"))
        await runtime.store.prune(before_ms=2**60)
        assert await books.list(ProfileOwner()) == []
