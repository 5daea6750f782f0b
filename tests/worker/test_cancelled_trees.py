"""What a cancel promises of a tree: all of it is told at once, nothing else costs anything, and
what cannot be stopped here is said to be unknown."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from delegation_kit import Place, T, World, end_record, ended, only_child, open_runs, to
from far_kit import Far, FarBackend, Held, asks, can, far_agent, runtime_of
from receipt_kit import Site, caller, outcomes

from awaken import Agent, Runtime
from awaken.backend import BackendAbortRequest, BackendCancellationCapability
from awaken.core.backend import RemoteError
from awaken.core.lifecycle import CANCELLED
from awaken.core.run import CancelOutcome
from awaken.core.store.commands import CommandKind
from awaken.core.store.commits import Fence
from awaken.core.store.threads import ChildStrategy
from awaken.errors import RunOpen, StoreUnavailable, ThreadOwned
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel
from awaken.testing.conformance.helpers import pending, waiting_threads

pytestmark = pytest.mark.anyio

STOPPED, FINISHED, UNKNOWN = CancelOutcome


async def told_to_end(store: MemoryStore) -> list[str | None]:
    """The runs that a command tells to end."""
    commands = await pending(store, *await waiting_threads(store))
    return [command.run_id for command in commands if command.kind is CommandKind.CANCEL]


def three_levels(world: World) -> list[Agent]:
    return [
        world.agent("boss", [to("middle")], delegates=["middle"]),
        world.agent("middle", [to("helper")], delegates=["helper"]),
        world.agent("helper", [("pay", {"n": 1})]),
    ]


# -- agents elsewhere -------------------------------------------------------------------------


async def test_a_run_elsewhere_is_not_closed_by_who_cannot_stop_it() -> None:
    """03/DB-6: the cancel waits for a runtime that has the agent; that one stops the work."""
    store, far = MemoryStore(), FarBackend(asks("where?", job="job-1"))
    async with runtime_of(far, store=store) as first:
        run_id = (await first.run("far", "go", thread=T)).run_id

    desk = Runtime([], store=store, recover=False)
    receipt = await desk.cancel(T, deadline=0.01)

    assert receipt
    assert not receipt.complete
    (item,) = receipt.items
    assert (item.id, item.outcome) == (run_id, UNKNOWN)
    assert item.note is not None
    assert "agent 'far'" in item.note
    assert far.aborts == []
    assert await told_to_end(store) == [run_id]

    async with runtime_of(far, store=store) as second:
        record = await ended(second, run_id)
    assert record.termination_reason == CANCELLED
    (abort,) = far.aborts
    assert abort.persisted_state is not None
    assert abort.persisted_state.extensions["job"] == "job-1"
    assert await told_to_end(store) == []


async def test_a_delegate_elsewhere_waits_for_its_agent_though_its_root_has_ended() -> None:
    """03/DB-6: what is here is ended at once."""
    store, far, world = MemoryStore(), FarBackend(asks("where?")), World()
    boss = world.agent("boss", [to("far")], delegates=["far"])
    async with runtime_of(far, boss, store=store) as first:
        await first.run("boss", "go", thread=T)
        child = await only_child(first)

    receipt = await Runtime([], store=store, recover=False).cancel(T, deadline=0.5)

    fates = [(item.name, item.outcome) for item in receipt.items]
    assert fates == [("boss", STOPPED), ("agent_run_far", STOPPED), ("far", UNKNOWN)]
    async with runtime_of(far, boss, store=store) as second:
        assert (await ended(second, child)).termination_reason == CANCELLED
    assert len(far.aborts) == 1


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_run_whose_agent_never_comes_back_is_deleted_by_force(
    kind: str, tmp_path: Path
) -> None:
    """The receipt and the refusal say how; its root has ended, and goes along."""
    place, far, world = Place(kind, tmp_path), FarBackend(asks("where?")), World()
    boss = world.agent("boss", [to("far")], delegates=["far"])
    agents: list[Any] = [boss, far_agent()]
    tree = ChildStrategy.CASCADE
    async with place.runtime(agents, backends=[Far(far)]) as first:
        await first.run("boss", "go", thread=T)
        child = await only_child(first)

    async with place.runtime([]) as desk:
        *_, item = (await desk.cancel(T, deadline=0.5)).items
        assert "force=True" in (item.note or "")
        with pytest.raises(RunOpen, match="force=True") as refused:
            await desk.delete_thread(T, children=tree)
        assert refused.value.run_id == child
        assert (await desk.delete_thread(T, children=tree, force=True)).threads == 2
        assert await desk.recover() == []
        assert not await waiting_threads(desk.store)
    async with place.runtime(agents, backends=[Far(far)]) as second:
        assert second.recovered == []


async def test_a_run_that_somebody_carries_on_is_not_deleted_by_force() -> None:
    held = Held()
    async with runtime_of(FarBackend(held)) as runtime, asyncio.TaskGroup() as group:
        group.create_task(runtime.run("far", "go", thread=T))
        await held.under_way.wait()
        with pytest.raises(ThreadOwned):
            await runtime.delete_thread(T, force=True)
        held.let_go.set()


class OnStrike(FarBackend):
    """Does not stop when it is told to."""

    async def abort(self, request: BackendAbortRequest) -> None:
        raise RemoteError("the agent is on strike")


@pytest.mark.parametrize("backend", ["refuses", "cannot"])
async def test_what_may_go_on_elsewhere_is_unknown(backend: str) -> None:
    """03/DB-6: the run has ended here; its record says what it has left running."""
    held = Held(job="job-1")
    nothing = can(cancellation=BackendCancellationCapability.NONE)
    far = OnStrike(held) if backend == "refuses" else FarBackend(held, can=nothing)
    async with runtime_of(far) as runtime:
        stream = runtime.stream("far", "go", thread=T, detached=True)
        async with stream:
            await held.under_way.wait()
            receipt = await runtime.cancel(T)
        (run,) = await runtime.list_runs()

    assert run.termination_reason == CANCELLED
    assert run.left_running is not None
    (item,) = receipt.items
    assert (item.outcome, item.note) == (UNKNOWN, run.left_running)
    assert not receipt.complete


# -- what was left open -----------------------------------------------------------------------


async def test_what_a_run_that_has_ended_left_open_is_reached_through_it() -> None:
    """03/DB-6: its record was ended, and a run two levels beneath was not."""
    store, world = MemoryStore(), World()
    async with Runtime(three_levels(world), store=store, recover=False) as runtime:
        root = (await runtime.run("boss", "go", thread=T)).run_id
        for thread in (T, await only_child(runtime)):
            await end_record(store, thread)
        leaf = await only_child(runtime, await only_child(runtime))
        assert await open_runs(runtime) == [leaf]

        receipt = await runtime.cancel(root)

        assert outcomes(receipt) == [("run", "helper", "stopped"), ("call", "pay", "stopped")]
        assert await open_runs(runtime) == []
        assert not await runtime.cancel(root)


async def test_a_run_that_is_over_is_not_cancelled_by_way_of_the_next_one() -> None:
    """01/D-11: its thread has gone on; what is open there is not its own."""
    world = World()
    async with Runtime([world.agent("boss", [("pay", {"n": 1})])]) as runtime:
        first = (await runtime.run("boss", "go", thread=T)).run_id
        assert await runtime.cancel(first)
        second = (await runtime.run("boss", "again", thread=T)).run_id

        assert not await runtime.cancel(first)

        assert await open_runs(runtime) == [second]


# -- kept first, and cheap --------------------------------------------------------------------


class Unclaimable(MemoryStore):
    """Nobody can take a thread any more, once that is said."""

    stuck = False

    async def claim(self, thread_id: str, *, at_ms: int) -> Fence:
        if self.stuck:
            raise StoreUnavailable("no claims today")
        return await super().claim(thread_id, at_ms=at_ms)


async def test_a_whole_tree_is_told_before_anything_of_it_is_ended() -> None:
    """01/D-11: whoever opens the store next ends all of it."""
    store, world = Unclaimable(), World()
    runtime = Runtime(three_levels(world), store=store, recover=False)
    await runtime.run("boss", "go", thread=T)
    runs = await open_runs(runtime)
    store.stuck = True

    with pytest.raises(StoreUnavailable, match="no claims today"):
        await runtime.cancel(T)

    assert sorted(str(run) for run in await told_to_end(store)) == sorted(runs)
    store.stuck = False
    async with Runtime(three_levels(world), store=store) as second:
        for run in runs:
            assert (await ended(second, run)).termination_reason == CANCELLED
    assert await told_to_end(store) == []


class Counting(MemoryStore):
    """Counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    def __getattribute__(self, name: str) -> Any:
        if name.startswith(("load_", "list_", "cancel_", "send")):
            super().__getattribute__("asked")[name] += 1
        return super().__getattribute__(name)


async def test_what_has_ended_long_ago_costs_a_cancel_nothing() -> None:
    """As many questions to the store with forty delegates that are done as with none."""
    costs: list[Counter[str]] = []
    for done in (0, 40):
        store, world = Counting(), World()
        agents = [
            world.agent("before", [to("quick")] * done, delegates=["quick"]),
            world.agent("quick"),
            world.agent("root", [("hold", {})]),
        ]
        runtime = Runtime(agents, store=store, recover=False)
        async with runtime, asyncio.TaskGroup() as group:
            if done:
                await runtime.run("before", "go", thread=T)
            group.create_task(runtime.run("root", "go", thread=T))
            await world.entered.wait()
            store.asked.clear()
            receipt = await runtime.cancel(T)
            costs.append(store.asked.copy())
        assert outcomes(receipt) == [("run", "root", "stopped"), ("call", "hold", "stopped")]
    assert costs[0]["cancel_tree"] == 1
    assert costs[0] == costs[1]


async def test_tasks_of_a_thread_are_listed_with_one_question() -> None:
    store, site = Counting(), Site()
    quick = site.tools[2]
    agent = Agent("owner", model=FunctionModel(caller(*["quick"] * 9)), background=[quick])
    async with Runtime([agent], store=store) as runtime:
        await runtime.run("owner", "go", thread=T)
        await runtime.wait(T)
        store.asked.clear()
        tasks = (await runtime.tasks(T)).items

        assert len(tasks) == 9
        assert store.asked == {"list_runs": 1}
        assert [task.id for task in await runtime.tasks(T, limit=2)] == [t.id for t in tasks[:2]]
        assert not await runtime.tasks(T, status="running")
        assert len(await runtime.tasks(T, status="completed", limit=5)) == 5
