"""Scopes and families: what a run starts belongs to the tenant and the tree of its root."""

from __future__ import annotations

from pathlib import Path

import pytest
from delegation_kit import Place, World, planned, to

from awaken import Agent, Message, Runtime, ToolCallContext, tool
from awaken.core.profile import ProfileKey
from awaken.core.store.threads import RunQuery, ThreadQuery, TicketQuery
from awaken.core.thread_ids import parse_family
from awaken.worker import RunRequest

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


def team(world: World) -> list[Agent]:
    """A boss with a delegate that delegates in turn, in the foreground and in the background."""
    helper = world.agent("helper", [to("digger")], delegates=["digger"])
    digger = world.agent("digger", [("note", {"what": "a hole"})])
    boss = world.agent(
        "boss", [to("helper")], [to("digger")], delegates=["helper"], background=[digger]
    )
    return [boss, helper, digger]


async def run_to_the_end(runtime: Runtime, thread: str) -> None:
    asked = RunRequest(thread_id=thread, agent_id="boss", messages=(Message.user("go"),))
    await runtime.engine.run(asked)
    await runtime.wait(thread)


@pytest.mark.parametrize("root", ["talk", "acme/talk", "old~talk", "a b/old"])
async def test_ids_of_children_tasks_and_their_runs_lie_in_the_family_of_their_root(
    place: Place, root: str
) -> None:
    """06/SV-13"""
    async with place.runtime(team(World())) as runtime:
        await run_to_the_end(runtime, root)
        beneath = await runtime.list_threads(ThreadQuery(ancestor_thread_id=root))
        runs = await runtime.list_runs(RunQuery(ancestor_thread_id=root))
        assert len(beneath) == len(runs) == 4, "a delegate with one, and a task with its agent"
        assert {run.run_id for run in runs} == {thread.id for thread in beneath}
        assert {parse_family(thread.id) for thread in beneath} == {parse_family(root)}


async def test_a_thread_of_one_scope_is_in_no_list_of_another(place: Place) -> None:
    """06/SV-13: neither the thread, nor what it starts, nor the questions asked there."""
    world = World()
    boss = world.agent("boss", [to("helper")], delegates=["helper"])
    helper = world.agent("helper", [("pay", {"n": 1})])
    async with place.runtime([boss, helper]) as runtime:
        for root in ("talk", "acme/talk", "zoo/talk"):
            asked = RunRequest(
                thread_id=root,
                agent_id="boss",
                messages=(Message.user("go"),),
                wait_for_decisions=False,
            )
            await runtime.engine.run(asked)
        for scope, root in {"": "talk", "acme": "acme/talk", "zoo": "zoo/talk"}.items():
            threads = await runtime.list_threads(ThreadQuery(scope=scope))
            runs = await runtime.list_runs(RunQuery(scope=scope))
            (question,) = await runtime.list_tickets(TicketQuery(scope=scope))
            assert question.thread_id == root
            assert len(threads) == len(runs) == 2
            assert {thread.id.partition("~")[0] for thread in threads} == {root}
            assert {run.thread_id for run in runs} == {thread.id for thread in threads}
            for thread in threads:
                told = [event async for event in runtime.events(thread.id, follow=False)]
                assert {event.thread_id for event in told} == {thread.id}


async def test_a_run_has_the_profiles_of_its_scope(place: Place) -> None:
    """06/SV-13: so has its delegate."""
    notes = ProfileKey("notes", initial=int)

    @tool
    async def note(ctx: ToolCallContext) -> int:
        """Count."""
        assert ctx.profile_access is not None
        return await ctx.profile_access.update(notes, lambda count: count + 1)

    helper = Agent("helper", model=planned("helper", [("note", {})]), tools=[note], profile=[notes])
    boss = Agent(
        "boss",
        model=planned("boss", [("note", {})], [to("helper")]),
        tools=[note],
        delegates=["helper"],
        profile=[notes],
    )
    heard: dict[str, str] = {}
    async with place.runtime([boss, helper]) as runtime:
        for root in ("talk", "acme/talk", "zoo/talk", "acme/walk"):
            asked = RunRequest(thread_id=root, agent_id="boss", messages=(Message.user("go"),))
            heard[root] = (await runtime.engine.run(asked)).response
    assert heard == {
        "talk": "boss[1, helper[2]]",
        "acme/talk": "boss[1, helper[2]]",
        "zoo/talk": "boss[1, helper[2]]",
        "acme/walk": "boss[3, helper[4]]",
    }
