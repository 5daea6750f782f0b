"""Closing a runtime while delegates are at work: left with the run they work for, or cancelled
with it (03/DB-6, 02/8.18)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from delegation_kit import (
    Place,
    T,
    World,
    answer_of,
    calls_of,
    children,
    ended,
    only_child,
    open_runs,
    open_tickets,
    record,
    to,
    told,
)

from awaken import Agent, RunResult, Runtime
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import CANCELLED, NATURAL_END, RunStatus
from awaken.core.llm import InferenceRequest
from awaken.errors import RunLeft
from awaken.testing import FunctionModel, text_response, tool_calls_response

pytestmark = pytest.mark.anyio

NOTE = ("note", {"what": "first"})
HOLD: tuple[str, Any] = ("hold", {})


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


def holding(world: World) -> list[Agent]:
    """A boss whose helper notes something, holds, and notes something else."""
    return [
        world.agent("boss", [to("helper")], delegates=["helper"]),
        world.agent("helper", [NOTE], [HOLD], [("note", {"what": "last"})]),
    ]


async def close_at(runtime: Runtime, world: World, *, until_held: bool = True) -> None:
    """Close a runtime while a tool holds; it may go on, unless the runtime is not to wait."""
    await world.entered.wait()
    closing = asyncio.ensure_future(runtime.close())
    await asyncio.sleep(0)
    if until_held:
        world.go.set()
    async with asyncio.timeout(4):  # a run that does not come to a border takes longer
        await closing


@asynccontextmanager
async def leaves(runtime: Runtime, *prompt: str, **options: Any) -> AsyncIterator[None]:
    """A run in a runtime that is closed inside the block: it is left for the next runtime."""
    running = asyncio.ensure_future(runtime.run(*prompt, thread=T, **options))
    yield
    with pytest.raises(RunLeft, match="recover it"):
        await running


async def recover_one(runtime: Runtime) -> RunResult[Any]:
    """The end of the only run that the runtime has taken up from the last one."""
    (recovered,) = runtime.recovered
    return await recovered


async def states(runtime: Runtime, *run_ids: str) -> set[RunStatus]:
    return {(await record(runtime, run_id)).status for run_id in run_ids}


async def test_a_delegate_is_left_with_its_parent_and_both_go_on_in_the_next_runtime(
    place: Place,
) -> None:
    """02/8.18: at the end of the child's step; no model is asked twice, no tool run twice."""
    world = World()
    agents = holding(world)
    async with place.runtime(agents, on_close="leave") as first, leaves(first, "boss", "go"):
        await close_at(first, world)
    assert world.done == ["noted first", "held"]
    assert calls_of(agents) == {"boss": 1, "helper": 2}

    async with place.runtime(agents, recover=False) as second:
        root = await second.store.latest_run(T)
        child = await only_child(second)
        assert root is not None
        assert await states(second, root.run_id, child) == {RunStatus.RUNNING}
        (recovered,) = await second.recover()
        assert recovered.run_id == root.run_id
        result = await recovered

        assert result.response == "boss[helper[noted first, held, noted last]]"
        assert await open_runs(second) == []
    assert world.done == ["noted first", "held", "noted last"]
    assert calls_of(agents) == {"boss": 2, "helper": 4}


async def test_three_levels_are_left_and_go_on(place: Place) -> None:
    """02/8.18: the word goes up from whoever comes to a border first."""
    world = World()
    agents = [
        world.agent("boss", [to("middle")], delegates=["middle"]),
        world.agent("middle", [to("clerk")], delegates=["clerk"]),
        world.agent("clerk", [HOLD], [NOTE]),
    ]
    async with place.runtime(agents, on_close="leave") as first, leaves(first, "boss", "go"):
        await close_at(first, world)

    async with place.runtime(agents) as second:
        assert (await recover_one(second)).response == "boss[middle[clerk[held, noted first]]]"
        assert await open_runs(second) == []
    assert world.done == ["held", "noted first"]
    assert calls_of(agents) == {"boss": 2, "middle": 2, "clerk": 3}


async def test_what_a_sibling_has_finished_is_kept_when_the_rest_is_left(place: Place) -> None:
    """02/8.18: one delegate is done, the other is left; the first is not run again."""
    world = World()
    agents = [
        world.agent("boss", [to("quick"), to("slow")], delegates=["quick", "slow"]),
        world.agent("quick", [NOTE]),
        world.agent("slow", [HOLD], [("note", {"what": "last"})]),
    ]
    async with place.runtime(agents, on_close="leave") as first, leaves(first, "boss", "go"):
        await world.entered.wait()
        for child in await children(first):
            if (await record(first, child.id)).agent_id == "quick":
                await ended(first, child.id)
        await close_at(first, world)

    async with place.runtime(agents) as second:
        result = await recover_one(second)
    assert result.response == "boss[quick[noted first], slow[held, noted last]]"
    assert sorted(world.done) == ["held", "noted first", "noted last"]
    assert calls_of(agents) == {"boss": 2, "quick": 2, "slow": 3}


async def test_a_child_that_does_not_come_to_a_border_is_torn_down_not_cancelled(
    place: Place,
) -> None:
    """02/8.18: it goes on from its last commit; what may have happened is not repeated."""
    world = World()
    agents = holding(world)
    async with place.runtime(agents, on_close="leave") as first, leaves(first, "boss", "go"):
        await world.entered.wait()
        await first.engine.leave_all(grace=0.01)

    async with place.runtime(agents) as second:
        result = await recover_one(second)
        child = await only_child(second)
        assert (await record(second, child)).termination_reason == NATURAL_END
        heard = await told(second, child)
    assert "it is unknown whether 'hold' took effect" in heard[1]
    assert heard[2] == "noted last"
    assert result.termination == NATURAL_END
    assert world.done == ["noted first", "noted last"]


class Slow:
    """A boss whose model takes its time before it gives its helper a task."""

    def __init__(self) -> None:
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        self.agent = Agent("boss", model=FunctionModel(self._answer), delegates=["helper"])

    async def _answer(self, request: InferenceRequest) -> StreamResult:
        if len(request.messages) > 1:
            return text_response(f"boss[{request.messages[-1].text()}]")
        self.asked.set()
        await self.go.wait()
        return tool_calls_response("", ("agent_run_helper", "c1", {"prompt": "do it"}))


async def test_a_task_given_while_the_runtime_closes_is_left_for_the_next(place: Place) -> None:
    """02/8.18: nobody can start it any more; it is not told to have failed."""
    world, boss = World(), Slow()
    agents = [boss.agent, world.agent("helper", [NOTE])]
    async with place.runtime(agents, on_close="leave") as first, leaves(first, "boss", "go"):
        await boss.asked.wait()
        closing = asyncio.ensure_future(first.close())
        await asyncio.sleep(0)
        boss.go.set()
        await closing
    assert world.done == []

    async with place.runtime(agents) as second:
        assert (await recover_one(second)).response == "boss[helper[noted first]]"
    assert world.done == ["noted first"]


async def test_a_delegate_of_a_run_that_was_taken_up_is_left_with_it(place: Place) -> None:
    """02/8.18: a runtime that cancels its own runs leaves those of others, children included."""
    world = World()
    agents = holding(world)
    async with place.runtime(agents, on_close="leave") as first, leaves(first, "boss", "go"):
        await world.entered.wait()
        await first.engine.leave_all(grace=0.01)
    slow = World()
    again = [agents[0], slow.agent("helper", [NOTE], [HOLD], [HOLD])]

    second = place.runtime(again)
    async with second:
        (recovered,) = second.recovered
        await close_at(second, slow)
        with pytest.raises(RunLeft):
            await recovered

    async with place.runtime(again) as third:
        assert await states(third, await only_child(third)) == {RunStatus.RUNNING}
        result = await recover_one(third)
        child = await record(third, await only_child(third))
    assert (result.termination, child.termination_reason) == (NATURAL_END, NATURAL_END)
    assert slow.done == ["held"]


async def test_an_approved_child_is_left_and_not_asked_for_again(place: Place) -> None:
    """03/DB-6: the answer was taken; the next runtime goes on behind it."""
    world = World()
    agents = [
        world.agent("boss", [to("helper")], delegates=["helper"]),
        world.agent("helper", [("pay", {"n": 5})], [HOLD], [NOTE]),
    ]
    async with place.runtime(agents, on_close="leave") as first:
        result = await first.run("boss", "go", thread=T)
        async with leaves(first, answers={result.tickets[0]: True}):
            await close_at(first, world)

    async with place.runtime(agents) as second:
        assert (await recover_one(second)).response == "boss[helper[paid 5, held, noted first]]"
        assert list(await second.list_tickets()) == []
        assert await open_runs(second) == []
    assert world.done == ["paid 5", "held", "noted first"]


async def test_a_child_that_waits_stays_as_it_is(place: Place) -> None:
    """03/DB-6: neither leaving nor cancelling is for runs that only wait."""
    world = World()
    agents = [
        world.agent("boss", [to("helper")], delegates=["helper"]),
        world.agent("helper", [("pay", {"n": 5})]),
    ]
    async with (
        place.runtime(agents) as first,
        first.stream("boss", "go", thread=T, wait=True) as events,
    ):
        async for event in events:
            if event.parent_run_id is None and await open_tickets(first):
                await first.engine.leave_all()
    async with place.runtime(agents) as second:
        assert second.recovered == []
        (ticket,) = await open_tickets(second)
        assert await second.decide(T, {ticket.key: True})
        await ended(second, ticket.run_id)
        assert await answer_of(second) == "boss[helper[paid 5]]"


async def test_a_runtime_that_cancels_ends_the_delegate_too(place: Place) -> None:
    """01/D-23: nothing is left open."""
    world = World()
    agents = holding(world)
    first = place.runtime(agents)
    async with first:
        running = asyncio.ensure_future(first.run("boss", "go", thread=T))
        await close_at(first, world, until_held=False)
        assert (await running).termination == CANCELLED

    async with place.runtime(agents) as second:
        assert second.recovered == []
        assert await open_runs(second) == []
        assert (await record(second, await only_child(second))).termination_reason == CANCELLED
    assert world.done == ["noted first"]
