"""Delegates nobody waits for any more, or whose agent is gone: they are ended, or told of once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from pathlib import Path

import pytest
from delegation_kit import (
    Place,
    T,
    World,
    end_record,
    ended,
    only_child,
    open_runs,
    open_tickets,
    record,
    to,
    told,
)

from awaken import Agent, Runtime
from awaken.core.intercept import Suspend
from awaken.core.lifecycle import CANCELLED, NATURAL_END, RunStatus
from awaken.core.store.commands import CommandKind
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import SuspendTicket, Suspension
from awaken.errors import InvalidResume, RunLeft, ThreadAlreadyRunning
from awaken.plugin.context import PhaseContext
from awaken.plugin.registrar import Registrar
from awaken.stores.memory import MemoryStore
from awaken.worker import operations

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


def asking(world: World) -> list[Agent]:
    return [
        world.agent("boss", [to("helper")], delegates=["helper"]),
        world.agent("helper", [("pay", {"n": 5})]),
    ]


# -- answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["decide", "run"])
async def test_who_works_for_nobody_takes_no_answers(place: Place, door: str) -> None:
    """03/DB-6: what it would do is wanted by nobody; it is ended instead."""
    world = World()
    async with place.runtime(asking(world), recover=False) as runtime:
        await runtime.run("boss", "go", thread=T)
        child = await only_child(runtime)
        (ticket,) = await open_tickets(runtime, child)
        await end_record(runtime.store)
        answers = {ticket.key: True}
        deed: Awaitable[object] = (
            runtime.decide(child, answers)
            if door == "decide"
            else runtime.run(thread=child, answers=answers)
        )

        with pytest.raises(InvalidResume, match="which has ended"):
            await deed

        for left in await runtime.recover():
            await left
        assert (await record(runtime, child)).termination_reason == CANCELLED
    assert world.done == []


async def test_a_question_is_listed_once_at_the_root(place: Place) -> None:
    """03/DB-6: not once for every level; a run that is named shows its own."""
    world = World()
    agents = [
        world.agent("boss", [to("middle")], delegates=["middle"]),
        world.agent("middle", [to("helper")], delegates=["helper"]),
        world.agent("helper", [("pay", {"n": 5})]),
    ]
    async with place.runtime(agents) as runtime:
        result = await runtime.run("boss", "go", thread=T)
        (shown,) = await runtime.list_tickets()
        middle = await only_child(runtime)
        helper = await only_child(runtime, middle)

        assert (shown.run_id, shown.tool_name) == (result.run_id, "pay")
        for run_id in (middle, helper):
            (own,) = await runtime.list_tickets(TicketQuery(run_id=run_id))
            assert own.run_id == run_id
            assert len(await open_tickets(runtime, run_id)) == 1

        await runtime.decide(shown.thread_id, {shown.key: True})
        assert (await ended(runtime, result.run_id)).termination_reason == NATURAL_END
        assert list(await runtime.list_tickets()) == []
        (history,) = await runtime.list_tickets(TicketQuery())
        assert history.run_id == result.run_id
    assert world.done == ["paid 5"]


class AsksAlways:
    """A gate that wants every task for another agent approved, each time it is asked."""

    id = "asks-always"

    def register(self, registrar: Registrar) -> None:
        registrar.gate(self.judge)

    async def judge(self, ctx: PhaseContext) -> Suspend | None:
        if ctx.tool_name != "agent_run_helper":
            return None
        return Suspend(ticket=SuspendTicket(suspension=Suspension(id="gate", action="ask")))


async def test_a_gate_that_would_ask_again_does_not_keep_an_answer_from_the_delegate(
    place: Place,
) -> None:
    """03/DB-6: it was asked before the delegate began, and the delegate asks once."""
    world = World()
    agents = [
        world.agent("boss", [to("helper")], delegates=["helper"], plugins=[AsksAlways()]),
        world.agent("helper", [("pay", {"n": 5})]),
    ]
    async with place.runtime(agents) as runtime:
        result = await runtime.run("boss", "go", thread=T)
        asked = []
        while result.suspended:
            (ticket,) = result.tickets
            asked.append(ticket.tool_name)
            result = await runtime.run(thread=T, answers={str(ticket.key): True})

        assert asked == ["agent_run_helper", "pay"]
        assert result.response == "boss[helper[paid 5]]"
    assert world.done == ["paid 5"]


# -- what earlier versions have left ----------------------------------------------------------


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_delegate_that_was_left_waiting_is_ended_at_the_next_start(
    place: Place, is_known: bool
) -> None:
    """03/DB-6: its parent has ended and no cancel is pending; its agent is not needed to end it."""
    world = World()
    async with place.runtime(asking(world), recover=False) as runtime:
        await runtime.run("boss", "go", thread=T)
        child = await only_child(runtime)
        await end_record(runtime.store)

    agents = asking(world) if is_known else [world.agent("other")]
    async with place.runtime(agents) as runtime:
        assert (await ended(runtime, child)).termination_reason == CANCELLED
        assert list(await open_tickets(runtime, child)) == []
    assert world.done == []


# -- agents and tools that are gone -----------------------------------------------------------


async def crashed(agents: Sequence[Agent], world: World) -> tuple[MemoryStore, str]:
    """A store whose process died while a delegate held; and the delegate's run."""
    store = MemoryStore()
    first = Runtime(agents, store=store, recover=False)
    running = asyncio.ensure_future(first.run("boss", "go", thread=T))
    await world.entered.wait()
    child = await only_child(first)
    await first.engine.leave_all(grace=0.01)
    with pytest.raises(RunLeft):
        await running
    store.forsake()
    return store, child


async def test_a_delegate_is_told_to_end_in_the_commit_that_gives_it_up() -> None:
    """03/DB-6: its parent has lost the tool, goes on, and waits for somebody else."""
    world = World()
    step = [to("helper"), ("note", {"what": "first"})]
    helper = world.agent("helper", [("hold", {})])
    store, child = await crashed(
        [world.agent("boss", step, [("pay", {"n": 1})], delegates=["helper"]), helper], world
    )
    boss = world.agent("boss", step, [("pay", {"n": 1})])

    async with Runtime([boss], store=store, recover=False) as runtime:
        (taken,) = await runtime.recover()
        assert (await taken).suspended
        (command,) = await store.load_commands(child)
        assert (command.kind, command.run_id) == (CommandKind.CANCEL, child)
        assert (await record(runtime, child)).status is RunStatus.RUNNING

        for left in await runtime.recover():
            await left

        assert (await record(runtime, child)).termination_reason == CANCELLED
        assert await store.load_commands(child) == []
    assert "held" not in world.done


async def test_a_delegate_whose_agent_is_gone_ends_with_its_root(place: Place) -> None:
    """03/DB-6: nothing of its agent is needed for that; no answer ever came."""
    world = World()
    async with place.runtime(asking(world)) as first:
        result = await first.run("boss", "go", thread=T)
        child = await only_child(first)

    async with place.runtime([world.agent("boss")]) as second:
        await second.run("boss", "forget it", thread=T)
        assert (await ended(second, child)).termination_reason == CANCELLED
        assert await open_runs(second) == []
        assert list(await second.list_tickets()) == []
    assert result.suspended
    assert world.done == []


async def test_a_delegate_whose_agent_is_gone_ends_when_its_parent_cannot_tell_it(
    place: Place,
) -> None:
    """03/DB-6: the answer came, and there is no tool to pass it on."""
    world = World()
    async with place.runtime(asking(world)) as runtime:
        result = await runtime.run("boss", "go", thread=T)
        child = await only_child(runtime)
        runtime.replace([world.agent("boss")])

        await runtime.decide(T, {str(result.tickets[0].key): True})

        await ended(runtime, result.run_id)
        assert (await ended(runtime, child)).termination_reason == CANCELLED
        assert "not found" in (await told(runtime))[0]
    assert world.done == []


async def test_a_run_whose_agent_is_gone_is_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Design §8: it is another process's to go on with; the log names the run and the agent."""
    world = World()
    store, child = await crashed(
        [
            world.agent("boss", [to("helper")], delegates=["helper"]),
            world.agent("helper", [("hold", {})]),
        ],
        world,
    )
    caplog.set_level(logging.WARNING, "awaken.runtime")

    async with Runtime([world.agent("another")], store=store, recover=False) as runtime:
        for _ in range(3):
            assert await runtime.recover() == []
        root = await store.latest_run(T)

    assert root is not None
    (line,) = [entry.getMessage() for entry in caplog.records]
    assert root.run_id in line
    assert "agent 'boss'" in line
    assert child not in line, "its parent carries it on"


async def test_a_run_that_another_was_quicker_with_is_running_there(place: Place) -> None:
    """Design §8: whoever waits for what was recovered is told so, also if it is over by then."""
    world = World()
    async with place.runtime(asking(world), recover=False) as runtime:
        result = await runtime.run("boss", "go", thread=T)
        left = await record(runtime, result.run_id)
        await runtime.cancel(T)

        with pytest.raises(ThreadAlreadyRunning):
            await operations.continue_run(runtime.engine, left)
