"""Budgets of run trees: shared with delegates, counted once, and kept over restarts (ADR 8)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
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

from awaken import Agent, RunResult, Runtime, ToolCallResume, tool
from awaken.core.budget import Amount, Budget, Price
from awaken.core.inference import StreamResult, TokenUsage
from awaken.core.lifecycle import CANCELLED, NATURAL_END
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.run import RunWaitingTicket
from awaken.core.store.commits import CallPhase, Committed, ThreadCommit
from awaken.core.store.threads import RunQuery
from awaken.errors import StorageError, StoreError
from awaken.stores.memory import MemoryStore
from awaken.testing import FakeClock, tool_calls_response

pytestmark = pytest.mark.anyio

yes, no = ToolCallResume.approve, ToolCallResume.deny
PROMPT = {"prompt": "go"}


def boss(*script: Any, workers: tuple[str, ...] = ("walker",), **options: Any) -> Agent:
    """An agent that gives each of its workers a task at once, then follows its script."""
    asked = [(f"agent_run_{worker}", f"d-{worker}", PROMPT) for worker in workers]
    first = msgspec.structs.replace(tool_calls_response("", *asked), usage=took(100, 20))
    rest = script or (says("all done", took(100, 20)),)
    return Agent("boss", model=Meter(first, *rest), delegates=workers, **options)


def worker(id: str, *script: Any, usage: TokenUsage | None = None, **options: Any) -> Agent:
    """The same as a walker, under another name."""
    model = Meter(*script, ever=calls("look", {}, usage or took(100, 20)))
    return Agent(id, model=model, tools=[look], max_rounds=0, **options)


def told(messages: Any) -> list[str]:
    return [message.text() for message in messages if message.role is Role.TOOL]


def asked_by(result: RunResult) -> RunWaitingTicket:
    assert result.suspended, result.termination
    (ticket,) = result.tickets
    return ticket


async def children(runtime: Runtime, of: str) -> list[str]:
    runs = await runtime.list_runs(RunQuery(limit=100))
    return [run.run_id for run in runs if run.parent_run_id == of]


# -- sharing ----------------------------------------------------------------------------------


async def test_what_a_delegate_uses_up_is_gone_for_its_parent() -> None:
    lead, hand = boss(budget=Budget(steps=4)), walker()

    async with Runtime([lead, hand]) as runtime:
        result = await runtime.run("boss", "go", thread=T)
        log = await runtime.messages(T)
        kept = await on_record(runtime, result.run_id)

    assert len(meter_of(hand).asked) == 3
    assert "the budget of 4 steps has 0 left" in told(log)[0]
    assert "steps" in stopped_by_budget(result)
    assert result.spent == kept
    assert (kept.steps, kept.tokens) == (4, 480)
    assert_valid(log)


async def test_delegates_side_by_side_never_use_up_more_together() -> None:
    hands = [worker(f"w{n}", usage=took(150, 100)) for n in range(3)]
    lead = boss(workers=("w0", "w1", "w2"), budget=Budget(tokens=5_000))

    async with Runtime([lead, *hands]) as runtime, asyncio.timeout(100):
        result = await runtime.run("boss", "go")

    asked = [len(meter_of(hand).asked) for hand in hands]
    assert result.spent is not None
    assert 4_000 < result.spent.tokens <= 5_000
    assert result.spent.tokens == 120 + 250 * sum(asked) + 120 * (len(meter_of(lead).asked) - 1)
    assert all(asked)


async def test_a_delegate_keeps_to_its_own_budget_and_its_parent_goes_on() -> None:
    lead, hand = boss(budget=Budget(steps=10)), walker(budget=Budget(steps=2))

    async with Runtime([lead, hand]) as runtime:
        result = await runtime.run("boss", "go", thread=T)
        log = await runtime.messages(T)

    assert len(meter_of(hand).asked) == 2
    assert "the budget of 2 steps has 0 left" in told(log)[0]
    assert result.response == "all done"
    assert result.spent is not None
    assert result.spent.steps == 4


async def test_a_delegate_gets_a_share_of_what_is_left() -> None:
    lead, hand = boss(budget=Budget(steps=9, share=0.5)), walker()

    async with Runtime([lead, hand]) as runtime:
        result = await runtime.run("boss", "go")

    assert len(meter_of(hand).asked) == 4, "half of eight"
    assert result.response == "all done"


async def test_a_share_stays_the_same_over_a_restart() -> None:
    """What is left has shrunk by then; the delegate's share has not."""
    store = MemoryStore()
    budget = Budget(steps=9, share=0.5, at_limit="ask")
    runtime = Runtime([boss(budget=budget), walker()], store=store, recover=False)
    ticket = asked_by(await runtime.run("boss", "go", thread=T))
    assert ticket.arguments["amount"] == 4

    hand = walker()
    again = Runtime([boss(budget=budget), hand], store=store, recover=False)
    result = await again.run(thread=T, answers={ticket: yes(1)})

    ticket = asked_by(result)
    assert (ticket.arguments["amount"], ticket.arguments["level"]) == (5, 0)
    assert len(meter_of(hand).asked) == 1


async def test_time_of_a_delegate_is_that_of_its_parent() -> None:
    """A parent waits while its delegate works; those are the same seconds, not twice as many."""
    clock = FakeClock()

    @tool
    async def dawdle() -> None:
        """Take four seconds."""
        clock.advance(4)

    lead = boss(budget=Budget(seconds=100))
    hand = Agent("walker", model=Meter(calls("dawdle", {}), says("done")), tools=[dawdle])

    async with Runtime([lead, hand], clock=clock) as runtime:
        result = await runtime.run("boss", "go", thread=T)
        (child,) = await children(runtime, result.run_id)
        own = await on_record(runtime, child)

    assert result.spent is not None
    assert (result.spent.seconds, own.seconds) == (4, 4)


async def test_a_delegate_that_costs_nobody_knows_what_is_not_asked() -> None:
    price = Price(input=1_000, output=1_000)
    lead, hand = boss(budget=Budget(money=10.0)), walker()

    async with Runtime([lead, hand], prices={"boss.model": price}) as runtime:
        result = await runtime.run("boss", "go", thread=T)
        log = await runtime.messages(T)

    assert meter_of(hand).asked == []
    assert "walker.model" in told(log)[0]
    assert result.response == "all done"


# -- asking through the root ------------------------------------------------------------------


async def test_a_delegate_at_the_roots_limit_asks_there_and_goes_on() -> None:
    lead = boss(budget=Budget(steps=3, at_limit="ask"))
    hand = worker("walker", *[calls("look", {}, took(100, 20))] * 3, says("found it", took(1)))

    async with Runtime([lead, hand]) as runtime:
        waiting = await runtime.run("boss", "go", thread=T)
        ticket = asked_by(waiting)
        (child,) = await children(runtime, waiting.run_id)
        result = await runtime.run(thread=T, answers={ticket: yes(20)})
        log = await runtime.messages(T)

    assert ticket.tool_name == "budget"
    assert ticket.asker is not None
    assert ticket.asker.agent_id == "walker"
    assert ticket.asker.run_id == child
    assert ticket.arguments["level"] == 1
    assert told(log) == ["found it"]
    assert result.response == "all done"
    assert result.spent is not None
    assert result.spent.steps == 6
    assert_valid(log)


async def test_a_no_ends_the_delegate_and_its_parent_is_told() -> None:
    lead, hand = boss(budget=Budget(steps=3, at_limit="ask")), walker()

    async with Runtime([lead, hand]) as runtime:
        ticket = asked_by(await runtime.run("boss", "go", thread=T))
        result = await runtime.run(thread=T, answers={ticket: no("enough")})
        second = asked_by(result)
        assert second.asker is None, "now the parent asks, for itself"
        result = await runtime.run(thread=T, answers={second: yes(1)})
        log = await runtime.messages(T)

    assert "enough" in told(log)[0]
    assert result.response == "all done"
    assert len(meter_of(hand).asked) == 2


async def test_what_a_delegate_was_granted_for_the_root_stays_the_roots() -> None:
    """The delegate is done and counted as its parent's: the grant with it, also after a restart."""
    store = MemoryStore()
    budget = Budget(steps=2, at_limit="ask")

    def agents() -> list[Agent]:
        more = [calls("look", {}, took(100, 20))] * 9
        lead = boss(*more, budget=budget, tools=[look])
        return [lead, worker("walker", calls("look", {}, took(1)), says("found", took(1)))]

    runtime = Runtime(agents(), store=store, recover=False)
    ticket = asked_by(await runtime.run("boss", "go", thread=T))
    result = await runtime.run(thread=T, answers={ticket: yes(2)})
    ticket = asked_by(result)
    assert (ticket.arguments["amount"], ticket.arguments["level"]) == (4, 0)

    again = Runtime(agents(), store=store, recover=False)
    result = await again.run(thread=T, answers={ticket: yes(1)})

    assert asked_by(result).arguments["amount"] == 5
    assert result.spent is not None
    assert result.spent.steps == 5


# -- counted once -----------------------------------------------------------------------------


class Breaking(MemoryStore):
    """A store that refuses the first commit of which something is so."""

    def __init__(self, when: Callable[[ThreadCommit], bool]) -> None:
        super().__init__()
        self._when: Callable[[ThreadCommit], bool] | None = when

    async def commit(self, commit: ThreadCommit) -> Committed:
        if self._when is not None and self._when(commit):
            self._when = None
            raise StoreError("killed")
        return await super().commit(commit)


async def test_a_delegate_that_was_done_before_a_crash_is_counted_once() -> None:
    """Its parent's process ends before it has kept the answer; the next one reads it again."""

    def ends_the_call(commit: ThreadCommit) -> bool:
        done = any(call.phase is CallPhase.SUCCEEDED for call in commit.calls)
        return commit.thread_id == T and done

    store = Breaking(ends_the_call)
    hand = worker("walker", calls("look", {}, took(100, 20)), says("found it", took(100, 20)))
    lead = boss(budget=Budget(tokens=5_000))
    runtime = Runtime([lead, hand], store=store, recover=False)
    with pytest.raises(StorageError):
        await runtime.run("boss", "go", thread=T)

    async with Runtime([lead, hand], store=store) as again:
        (taken_up,) = again.recovered
        result = await taken_up
        log = await again.messages(T)

    assert len(meter_of(hand).asked) == 2, "it was not asked twice"
    assert told(log) == ["found it"]
    assert result.spent is not None
    assert (result.spent.tokens, result.spent.steps) == (480, 4)


async def test_a_delegate_that_broke_off_is_counted_too() -> None:
    hand = worker(
        "walker",
        calls("look", {}, took(100, 20)),
        RuntimeError("away"),
        sections={"retry": {"max_retries": 0}},
    )
    lead = boss(budget=Budget(tokens=5_000))

    async with Runtime([lead, hand]) as runtime:
        result = await runtime.run("boss", "go", thread=T)
        kept = await on_record(runtime, result.run_id)

    assert result.response == "all done"
    assert kept.tokens == 360


async def test_a_tree_that_is_cancelled_says_what_all_of_it_has_spent() -> None:
    digging = asyncio.Event()

    @tool
    async def dig() -> None:
        """Dig for ever."""
        digging.set()
        await asyncio.Event().wait()

    model = Meter(calls("dig", {}, took(700, 50)))
    hand = Agent("walker", model=model, tools=[dig])

    async with Runtime([boss(budget=Budget()), hand]) as runtime, asyncio.timeout(100):
        task = asyncio.ensure_future(runtime.run("boss", "go", thread=T))
        await digging.wait()
        assert await runtime.cancel(T)
        result = await task
        kept = await on_record(runtime, result.run_id)

    assert result.termination == CANCELLED
    assert result.spent == kept
    assert (kept.tokens, kept.steps) == (870, 2)


async def test_what_delegates_have_spent_that_still_wait_is_known_before_one_goes_on() -> None:
    """Two wait when the process ends. The first to be answered must not have what the other has
    used up already."""
    store = MemoryStore()
    budget = Budget(tokens=3_000)

    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    def hands() -> list[Agent]:
        def hand(id: str) -> Agent:
            def answer(request: InferenceRequest) -> StreamResult:
                if any(m.role is Role.TOOL for m in request.messages):
                    return says("thanks", took(100, 20))
                return calls("pay", {}, took(900, 100), id=f"pay-{id}")

            return Agent(id, model=Meter(ever=answer), tools=[pay])

        return [hand("a"), hand("b")]

    lead = boss(workers=("a", "b"), budget=budget)
    first = Runtime([lead, *hands()], store=store, recover=False)
    result = await first.run("boss", "go", thread=T)
    assert len(result.tickets) == 2
    assert result.spent is not None
    assert result.spent.tokens == 2_120

    team = hands()
    again = Runtime([lead, *team], store=store, recover=False)
    answers = {ticket.key or "": True for ticket in result.tickets}
    result = await again.run(thread=T, answers=answers)

    for hand in team:
        (allowed,) = meter_of(hand).allowed
        assert allowed is not None
        assert allowed <= 3_000 - 2_120
    assert result.response == "all done"
    assert result.spent is not None
    assert (result.spent.tokens, result.spent.steps) == (2_480, 6)


async def test_grandchildren_are_counted_on_all_levels() -> None:
    """Three levels, each of them on record with what is beneath it."""
    middle = Agent(
        "middle",
        model=Meter(calls("agent_run_leaf", PROMPT, took(10), id="m"), says("so so", took(20))),
        delegates=["leaf"],
    )
    leaf = Agent("leaf", model=Meter(says("a leaf", took(400))))
    lead = boss(workers=("middle",), budget=Budget(tokens=90_000))

    async with Runtime([lead, middle, leaf]) as runtime:
        result = await runtime.run("boss", "go", thread=T)
        (child,) = await children(runtime, result.run_id)
        (grandchild,) = await children(runtime, child)
        kept = [await on_record(runtime, id) for id in (grandchild, child, result.run_id)]

    assert result.termination == NATURAL_END
    assert [amount.tokens for amount in kept] == [400, 430, 670]
    assert [amount.steps for amount in kept] == [1, 3, 5]
    assert result.spent == kept[-1] != Amount()
