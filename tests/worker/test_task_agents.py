"""Agents in the background: runs beneath a task, which ask, start tasks, and stop themselves."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from delegation_kit import (
    Place,
    T,
    only_child,
    open_runs,
    open_tickets,
    record,
)
from delegation_kit import told as answered
from task_kit import Yard, agent_in_task, boss, dig, over, tasks_in, told, waiting, working

from awaken import Agent, Runtime, ToolCallResume, tool
from awaken.core.lifecycle import CANCELLED, NATURAL_END, Failed, RunStatus
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import TicketStatus
from awaken.engine.suspension import EXPIRY_GRACE_MS
from awaken.errors import InvalidResume
from awaken.testing import FakeClock, ScriptedModel

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


# -- working ----------------------------------------------------------------------------------


async def test_an_agent_in_the_background_is_a_run_beneath_its_task(place: Place) -> None:
    """ADR 7: the boss waits, and is told the answer; all of it is on record."""
    yard = Yard()
    helper = yard.agent("helper", [("blast", {"n": 1})], [("note", {"what": "it"})])

    async with place.runtime([boss(helper), helper]) as runtime:
        result = await runtime.run("boss", "go", thread=T)
        assert (result.response, result.waiting) == ("boss: ", True)
        await yard.until_begun()
        (task,), child = await tasks_in(runtime), await agent_in_task(runtime)
        running = await record(runtime, child)
        yard.let_go(1)
        run = await over(runtime)
        assert await told(runtime) == ["bg_0 completed helper: "]
        assert (await record(runtime, child)).final_output == "helper: "
        steps = (await record(runtime, child)).steps
        kept = json.loads((await record(runtime, task.run_id)).final_output or "")

    assert (task.agent_id, task.parent_run_id) == ("task:agent_run_helper", result.run_id)
    assert (running.agent_id, running.status) == ("helper", RunStatus.RUNNING)
    assert running.parent_run_id == task.run_id
    assert run.final_output == "boss: bg_0 completed helper: "
    assert (kept["agent_id"], kept["status"], kept["response"]) == (
        "helper",
        "completed",
        "helper: ",
    )
    assert steps == 3
    assert yard.done == ["dug 1", "noted it"]


async def test_an_agent_that_breaks_off_is_a_task_that_failed(place: Place) -> None:
    helper = Agent("helper", model=ScriptedModel([ValueError("no idea")]))

    async with place.runtime([boss(helper), helper]) as runtime:
        await runtime.run("boss", "go", thread=T)
        run = await over(runtime)
        (task,) = await tasks_in(runtime)
        child = await record(runtime, await agent_in_task(runtime))

    assert isinstance(child.termination_reason, Failed)
    assert isinstance(task.termination_reason, Failed)
    assert "no idea" in task.termination_reason.value
    assert (run.final_output or "").startswith("boss: bg_0 failed ")
    assert "no idea" in (run.final_output or "")


async def test_a_task_is_cancelled_with_the_agent_in_it(place: Place) -> None:
    """Whether the task is named, or the agent's own run."""
    yard = Yard()
    helper = yard.agent("helper", [("blast", {"n": 1})])

    async with place.runtime([boss(helper), helper]) as runtime:
        await runtime.run("boss", "go", thread=T)
        await yard.until_begun()
        (task,), child = await tasks_in(runtime), await agent_in_task(runtime)
        receipt = await runtime.cancel(task.run_id)
        run = await over(runtime)
        assert (await record(runtime, child)).termination_reason == CANCELLED
        assert await open_runs(runtime) == []

    items = [(item.kind, item.name, item.outcome.value) for item in receipt.items]
    assert items == [
        ("task", "agent_run_helper", "stopped"),
        ("run", "helper", "stopped"),
        ("call", "blast", "stopped"),
    ]
    done = "before that it had done: blast(n=1) → unknown whether it took effect"
    assert run.final_output == f"boss: bg_0 cancelled {done}"


async def test_the_agents_own_run_is_cancelled_and_its_task_has_failed(place: Place) -> None:
    yard = Yard()
    helper = yard.agent("helper", [("blast", {"n": 1})])

    async with place.runtime([boss(helper), helper]) as runtime:
        await runtime.run("boss", "go", thread=T)
        await yard.until_begun()
        assert await runtime.cancel(await agent_in_task(runtime))
        run = await over(runtime)
        (task,) = await tasks_in(runtime)

    done = "before that it had done: blast(n=1) → unknown whether it took effect"
    assert run.final_output == f"boss: bg_0 failed cancelled; {done}"
    assert task.status is RunStatus.DONE
    assert task.termination_reason != NATURAL_END


# -- questions --------------------------------------------------------------------------------


def payer(yard: Yard) -> Agent:
    return yard.agent("helper", [("pay", {"n": 5})])


@pytest.mark.parametrize(
    ("answer", "done", "heard"),
    [(True, ["paid 5"], "paid 5"), (ToolCallResume.deny("too much"), [], "too much")],
)
async def test_what_an_agent_in_the_background_asks_is_answered_at_its_own_run(
    place: Place, answer: Any, done: list[str], heard: str
) -> None:
    """ADR 7: nobody waits at the root, so the question stays the child's; yes or no, it goes on."""
    yard = Yard()
    helper = payer(yard)

    async with place.runtime([boss(helper), helper]) as runtime:
        result = await runtime.run("boss", "go", thread=T)
        assert result.waiting
        assert not result.tickets
        child = await agent_in_task(runtime)
        await waiting(runtime, child)
        assert await open_tickets(runtime) == []
        (ticket,) = await runtime.list_tickets()
        assert (ticket.thread_id, ticket.tool_name) == (child, "pay")
        assert await runtime.decide(child, {ticket.key: answer}), "its task goes on with it"
        run = await over(runtime)
        assert heard in (await answered(runtime, child))[0]
        with pytest.raises(InvalidResume):
            await runtime.decide(child, {ticket.key: True})

    assert yard.done == done
    assert run.final_output == "boss: bg_0 completed helper: "


async def test_two_questions_are_answered_one_after_the_other(place: Place) -> None:
    yard = Yard()
    helper = yard.agent("helper", [("pay", {"n": 1})], [("pay", {"n": 2})])

    async with place.runtime([boss(helper), helper]) as runtime:
        await runtime.run("boss", "go", thread=T)
        child = await agent_in_task(runtime)
        for n in (1, 2):
            (ticket,) = await _questions(runtime, child, n)
            assert await runtime.decide(child, {ticket.key: True})
        run = await over(runtime)

    assert yard.done == ["paid 1", "paid 2"]
    assert run.final_output == "boss: bg_0 completed helper: "


async def _questions(runtime: Runtime, child: str, n: int) -> list[Any]:
    """Wait for the n-th question of a run."""
    seen = 0
    async with asyncio.timeout(100):
        while True:
            seen = await runtime.store.wait_changed(child, seen)
            asked = await runtime.list_tickets(TicketQuery(run_id=child))
            if len(asked) == n:
                return [ticket for ticket in asked if ticket.status is TicketStatus.OPEN]


async def test_what_nobody_answers_in_time_is_a_no(place: Place) -> None:
    """Nobody asks for it at the root, so the task itself sees that it is too late."""
    clock, done = FakeClock(), []

    @tool(needs_approval=True, approval_expires_in=60)
    async def pay(n: int) -> str:
        """Pay."""
        done.append(n)
        return "paid"

    helper = Agent("helper", model=working("helper", [("pay", {"n": 5})]), tools=[pay])
    async with place.runtime([boss(helper), helper], clock=clock) as runtime:
        await runtime.run("boss", "go", thread=T)
        child = await agent_in_task(runtime)
        await waiting(runtime, child)
        await clock.until_sleeping()
        clock.advance(62)
        run = await over(runtime)
        (ticket,) = await runtime.list_tickets(TicketQuery(run_id=child))
        (heard,) = await answered(runtime, child)

    assert ticket.status is TicketStatus.EXPIRED
    assert "nobody decided about 'pay' in time" in heard
    assert run.final_output == "boss: bg_0 completed helper: "
    assert done == []


async def test_a_task_sleeps_until_the_first_of_its_agents_questions_is_over(place: Place) -> None:
    """Each question has its own time limit, and the grace besides, to the millisecond."""
    clock = FakeClock()

    @tool(needs_approval=True, approval_expires_in=60)
    async def later() -> str:
        """Ask, for a minute."""
        raise AssertionError("nobody agreed")

    @tool(needs_approval=True, approval_expires_in=10)
    async def soon() -> str:
        """Ask, for ten seconds."""
        raise AssertionError("nobody agreed")

    helper = Agent(
        "helper", model=working("helper", [("later", {}), ("soon", {})]), tools=[later, soon]
    )
    async with place.runtime([boss(helper), helper], clock=clock, recover=False) as runtime:
        await runtime.run("boss", "go", thread=T)
        child = await agent_in_task(runtime)
        await waiting(runtime, child)
        await clock.until_sleeping()
        clock.advance(10 + EXPIRY_GRACE_MS / 1000)
        await clock.until_sleeping()
        assert [ticket.tool_name for ticket in await open_tickets(runtime, child)] == ["later"]
        clock.advance(50)
        await over(runtime)

    assert clock.sleeps == [10 + EXPIRY_GRACE_MS / 1000, 50]


# -- tasks of its own -------------------------------------------------------------------------


async def test_an_agent_in_the_background_waits_for_tasks_of_its_own(place: Place) -> None:
    """03/MH-1: a sub-agent waits for its task before it returns; each is told by its own thread."""
    yard = Yard()
    helper = yard.agent("helper", dig(1), background=["dig"])

    async with place.runtime([boss(helper), helper]) as runtime:
        await runtime.run("boss", "go", thread=T)
        await yard.until_begun()
        outer, inner = await tasks_in(runtime)
        child = await agent_in_task(runtime)
        assert await only_child(runtime, child) == inner.run_id
        assert (await record(runtime, child)).status is RunStatus.RUNNING
        yard.let_go(1)
        run = await over(runtime)
        assert await told(runtime, child) == ["bg_0 completed dug 1"]
        assert await open_runs(runtime) == []

    assert (outer.agent_id, inner.agent_id) == ("task:agent_run_helper", "task:dig")
    assert run.final_output == "boss: bg_0 completed helper: bg_0 completed dug 1"


async def test_cancelling_the_boss_reaches_the_task_of_the_agent_of_its_task(
    place: Place,
) -> None:
    yard = Yard()
    helper = yard.agent("helper", dig(1), background=["dig"])

    async with place.runtime([boss(helper), helper]) as runtime:
        await runtime.run("boss", "go", thread=T)
        await yard.until_begun()
        receipt = await runtime.cancel(T)
        assert await open_runs(runtime) == []

    items = {(item.kind, item.name, item.outcome.value) for item in receipt.items}
    assert items >= {
        ("run", "boss", "stopped"),
        ("task", "agent_run_helper", "stopped"),
        ("run", "helper", "stopped"),
        ("task", "dig", "stopped"),
    }
    assert receipt.complete
    assert yard.done == []
