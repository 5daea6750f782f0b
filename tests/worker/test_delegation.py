"""Agents that give tasks to other agents: each is a run of its own, seen live from above
(03 §4.1, 03/MH-4, 03/DB-6, 02/8.18, 01/D-22 to D-24)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from delegation_kit import (
    Place,
    T,
    World,
    calls_of,
    children,
    ended,
    only_child,
    open_runs,
    record,
    to,
    told,
)

from awaken import Agent, Block, PhaseContext, Registrar, Runtime, tool
from awaken.core.budget import Budget
from awaken.core.event import (
    CollectingSink,
    InferenceComplete,
    RunEvent,
    RunFinish,
    RunStart,
    StepEnd,
    StepStart,
    TextDelta,
    ToolCallDone,
    ToolCallReady,
)
from awaken.core.identity import RequestOrigin, RunOrigin
from awaken.core.lifecycle import CANCELLED, NATURAL_END, Blocked, Failed, Stopped
from awaken.core.store.threads import ThreadQuery
from awaken.core.tool import ToolStatus
from awaken.errors import BuildError, ValidationFailed
from awaken.testing import ScriptedModel, tool_call_response
from event_kit import as_stored

pytestmark = pytest.mark.anyio

NOTE = ("note", {"what": "it"})


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


def team(world: World) -> list[Agent]:
    return [
        world.agent("boss", [to("helper", "look it up")], delegates=["helper"]),
        world.agent("helper", [NOTE]),
    ]


# -- what is seen -----------------------------------------------------------------------------


async def test_a_childs_events_come_live_inside_its_parents_stream(place: Place) -> None:
    """03/DB-6: as they are, between the call and its end, marked with their run and parent."""
    async with place.runtime(team(World())) as runtime:
        async with runtime.stream("boss", "go", thread=T) as events:
            seen = [event async for event in events]
        child = await only_child(runtime)
        root = events.result.run_id

    kinds = [(event.run_id == child, type(event.event)) for event in seen if _is_border(event)]
    assert kinds == [
        (False, RunStart),
        (False, StepStart),
        (False, ToolCallReady),
        (False, InferenceComplete),
        (True, RunStart),
        (True, StepStart),
        (True, ToolCallReady),
        (True, InferenceComplete),
        (True, ToolCallDone),
        (True, StepEnd),
        (True, StepStart),
        (True, TextDelta),
        (True, InferenceComplete),
        (True, StepEnd),
        (True, RunFinish),
        (False, ToolCallDone),
        (False, StepEnd),
        (False, StepStart),
        (False, TextDelta),
        (False, InferenceComplete),
        (False, StepEnd),
        (False, RunFinish),
    ]
    for event in seen:
        mine = (T, root, None) if event.run_id == root else (child, child, root)
        assert (event.thread_id, event.run_id, event.parent_run_id) == mine


def _is_border(event: RunEvent) -> bool:
    return isinstance(
        event.event,
        RunStart
        | StepStart
        | ToolCallReady
        | InferenceComplete
        | ToolCallDone
        | TextDelta
        | StepEnd
        | RunFinish,
    )


async def test_a_childs_events_keep_the_numbers_of_their_own_thread(place: Place) -> None:
    """Design §8: whoever reads the child's thread later finds the same events there."""
    async with place.runtime(team(World())) as runtime:
        async with runtime.stream("boss", "go", thread=T) as events:
            seen = [event async for event in events]
        child = await only_child(runtime)
        for thread in (T, child):
            kept = {event.seq: event for event in await runtime.store.load_events(thread)}
            assert list(kept) == list(range(1, len(kept) + 1))
            numbered = [e for e in seen if e.thread_id == thread and e.seq is not None]
            assert [e.seq for e in numbered] == sorted({e.seq or 0 for e in numbered})
            assert all(kept[event.seq] == as_stored(event) for event in numbered)
            assert len(numbered) >= 5


async def test_nothing_of_a_child_is_kept_in_its_parents_thread(place: Place) -> None:
    """Design §8: a log and an event stream a thread; the parent keeps the call and its result."""
    async with place.runtime(team(World())) as runtime:
        await runtime.run("boss", "go", thread=T)
        child = await only_child(runtime)
        assert {event.run_id for event in await runtime.store.load_events(child)} == {child}
        assert child not in {event.run_id for event in await runtime.store.load_events(T)}
        texts = [message.text() for message in await runtime.messages(T)]
        assert texts == ["go", "", "helper[noted it]", "boss[helper[noted it]]"]
        texts = [message.text() for message in await runtime.messages(child)]
        assert texts == ["look it up", "", "noted it", "helper[noted it]"]


async def test_the_text_of_a_stream_is_the_roots_alone(place: Place) -> None:
    """Design §8: what a delegate says is its parent's to use."""
    helper = Agent("helper", model=ScriptedModel(["whisper"], chunk=2))
    ask = tool_call_response("Let me ask. ", "agent_run_helper", "c", {"prompt": "hm"})
    boss = Agent("boss", model=ScriptedModel([ask, "So be it."], chunk=3), delegates=["helper"])
    async with place.runtime([boss, helper]) as runtime, runtime.stream("boss", "go") as events:
        text = "".join([piece async for piece in events.text()])

    assert text == "Let me ask. So be it."
    assert events.result.response == "So be it."


async def test_events_of_children_side_by_side_are_each_in_order(place: Place) -> None:
    """03/DB-6: they may mix, and no child loses or repeats one."""
    world = World()
    agents = [
        world.agent("boss", [to("ann"), to("bob")], delegates=["ann", "bob"]),
        world.agent("ann", [NOTE], [NOTE]),
        world.agent("bob", [NOTE]),
    ]
    async with place.runtime(agents) as runtime:
        async with runtime.stream("boss", "go", thread=T) as events:
            seen = [event async for event in events]
        for child in await children(runtime):
            mine = [event for event in seen if event.thread_id == child.id]
            assert isinstance(mine[0].event, RunStart)
            assert isinstance(mine[-1].event, RunFinish)
            numbers = [event.seq for event in mine if event.seq is not None]
            assert numbers == sorted(set(numbers))
    assert events.result.response == "boss[ann[noted it, noted it], bob[noted it]]"


async def test_events_of_a_grandchild_reach_the_root_too(place: Place) -> None:
    """03/DB-6: each with its own parent."""
    world = World()
    agents = [
        world.agent("boss", [to("middle")], delegates=["middle"]),
        world.agent("middle", [to("clerk")], delegates=["clerk"]),
        world.agent("clerk", [NOTE]),
    ]
    sink = CollectingSink()
    async with place.runtime(agents) as runtime:
        result = await runtime.run("boss", "go", thread=T, sink=sink)
        middle = await only_child(runtime)
        clerk = await only_child(runtime, middle)
    parents = {event.run_id: event.parent_run_id for event in sink.events()}
    assert parents == {result.run_id: None, middle: result.run_id, clerk: middle}


async def test_a_sink_that_fails_ends_no_run(place: Place) -> None:
    """02/8.33: whoever listens to the parent cannot break the child."""

    class Deaf(CollectingSink):
        failed = 0

        async def emit(self, event: RunEvent) -> None:
            if event.parent_run_id is not None:
                self.failed += 1
                raise OSError("the page was closed")
            await super().emit(event)

    sink = Deaf()
    async with place.runtime(team(World())) as runtime:
        result = await runtime.run("boss", "go", thread=T, sink=sink)
        assert result.response == "boss[helper[noted it]]"
        assert await open_runs(runtime) == []
    assert sink.failed == 1, "one that fails is not asked again"


# -- what is kept -----------------------------------------------------------------------------


async def test_a_child_is_on_record_with_its_lineage(place: Place) -> None:
    """03 §4.1: which thread, run and call it works for; its thread is beneath its parent's."""
    sink = CollectingSink()
    async with place.runtime(team(World())) as runtime:
        result = await runtime.run("boss", "go", thread=T, sink=sink)
        (thread,) = await children(runtime)
        child = await record(runtime, thread.id)
        roots = await runtime.list_threads(ThreadQuery(root=True))

    assert thread.parent_thread_id == T
    assert [root.id for root in roots] == [T]
    assert (child.thread_id, child.run_id) == (thread.id, thread.id)
    assert (child.agent_id, child.parent_run_id) == ("helper", result.run_id)
    assert child.request is not None
    assert child.request.parent_thread_id == T
    assert child.request.parent_tool_call_id == "boss-00"
    assert child.request.origin is RequestOrigin.INTERNAL
    start = next(e.event for e in sink.events() if e.run_id == child.run_id)
    assert isinstance(start, RunStart)
    assert start.identity is not None
    assert start.identity.origin is RunOrigin.SUBAGENT
    assert start.identity.parent_tool_call_id == "boss-00"
    assert start.identity.parent_thread_id == T
    assert start.parent_run_id == result.run_id


async def test_the_result_names_the_childs_run(place: Place) -> None:
    """03/MH-4: `child_run_id`, and the data of every outcome."""
    sink = CollectingSink()
    async with place.runtime(team(World())) as runtime:
        await runtime.run("boss", "go", thread=T, sink=sink)
        child = await only_child(runtime)
    done = next(
        event.event
        for event in sink.events()
        if isinstance(event.event, ToolCallDone) and event.thread_id == T
    )
    assert done.result.metadata == {"child_run_id": child}
    assert done.result.data == {
        "agent_id": "helper",
        "status": "completed",
        "response": "helper[noted it]",
        "output": {"text": "helper[noted it]"},
        "steps": 2,
    }


async def test_every_task_is_a_run_of_its_own(place: Place) -> None:
    """02/8.18: the same agent asked twice, in one turn or in the next, starts from scratch."""
    world = World()
    agents = team(world)
    async with place.runtime(agents) as runtime:
        await runtime.run("boss", "go", thread=T)
        await runtime.run("boss", "once more", thread=T)
        threads = await children(runtime)
        assert len(threads) == 2
        for thread in threads:
            assert len(await runtime.messages(thread.id)) == 4
    assert calls_of(agents) == {"boss": 4, "helper": 4}


# -- ends -------------------------------------------------------------------------------------


async def test_a_childs_failure_is_told_with_its_run(place: Place) -> None:
    """03/MH-4: the failure's text, and where to look; the parent goes on."""
    sink = CollectingSink()
    helper = Agent("helper", model=ScriptedModel([ValueError("no network")]))
    boss = World().agent("boss", [to("helper")], delegates=["helper"])
    async with place.runtime([boss, helper]) as runtime:
        result = await runtime.run("boss", "go", thread=T, sink=sink)
        child = await record(runtime, await only_child(runtime))
    assert result.response == "boss[failed: inference failed: no network]"
    assert child.termination_reason == Failed(value="inference failed: no network")
    (done,) = [e.event for e in sink.events() if isinstance(e.event, ToolCallDone)]
    assert done.result.status is ToolStatus.ERROR
    assert done.result.metadata == {"child_run_id": child.run_id}


async def test_a_child_that_is_stopped_says_why(place: Place) -> None:
    """02 §2.15: the code of the stop."""
    world = World()
    agents = [
        world.agent("boss", [to("helper")], delegates=["helper"]),
        world.agent("helper", [NOTE], [NOTE], max_rounds=1),
    ]
    async with place.runtime(agents) as runtime:
        result = await runtime.run("boss", "go", thread=T)
        child = await record(runtime, await only_child(runtime))
    assert result.response.startswith("boss[failed: stopped: max_rounds")
    assert isinstance(child.termination_reason, Stopped)


async def test_a_child_that_is_cancelled_by_its_own_id_does_not_end_its_parent(
    place: Place,
) -> None:
    """01/D-23: the parent reads that it was, and goes on."""
    world = World()
    agents = [
        world.agent("boss", [to("helper")], [NOTE], delegates=["helper"]),
        world.agent("helper", [("hold", {})]),
    ]
    async with place.runtime(agents) as runtime, asyncio.timeout(100):
        running = asyncio.ensure_future(runtime.run("boss", "go", thread=T))
        await world.entered.wait()
        child = await only_child(runtime)

        receipt = await runtime.cancel(child)

        assert receipt
        assert [item.id for item in receipt.items if item.kind == "run"] == [child]
        result = await running
        assert (await record(runtime, child)).termination_reason == CANCELLED
    assert result.termination == NATURAL_END
    done = "before that it had done: hold() → unknown whether it took effect"
    assert result.response == f"boss[cancelled; {done}, noted it]"
    assert world.done == ["noted it"]


async def test_cancelling_the_root_ends_every_run_beneath_it(place: Place) -> None:
    """01/D-23: the receipt names all of them; none is left open."""
    world = World()
    agents = [
        world.agent("boss", [to("middle"), to("clerk")], delegates=["middle", "clerk"]),
        world.agent("middle", [to("clerk")], delegates=["clerk"]),
        world.agent("clerk", [("hold", {})]),
    ]
    async with place.runtime(agents) as runtime, asyncio.timeout(100):
        running = asyncio.ensure_future(runtime.run("boss", "go", thread=T))
        await world.until_held(2)

        receipt = await runtime.cancel(T)

        assert (await running).termination == CANCELLED
        runs = [item for item in receipt.items if item.kind == "run"]
        assert len(runs) == 4
        assert {item.outcome.value for item in runs} == {"stopped"}
        assert await open_runs(runtime) == []
        done = "before that it had done: hold() → unknown whether it took effect"
        assert set(await told(runtime)) == {f"Cancelled: the run was cancelled; {done}"}
    assert world.done == []


async def test_leaving_a_stream_early_ends_the_child_too(place: Place) -> None:
    """Design §8: who is gone reads no answer, of nobody."""
    world = World()
    agents = [
        world.agent("boss", [to("helper")], delegates=["helper"]),
        world.agent("helper", [("hold", {})]),
    ]
    async with place.runtime(agents) as runtime, asyncio.timeout(100):
        async with runtime.stream("boss", "go", thread=T) as events:
            async for event in events:
                if event.parent_run_id is not None and isinstance(event.event, ToolCallReady):
                    await world.until_held(1)
                    break
        child = await only_child(runtime)
        assert (await record(runtime, child)).termination_reason == CANCELLED
        assert await open_runs(runtime) == []


async def test_a_root_cancelled_from_another_runtime_takes_its_children_along(
    tmp_path: Path,
) -> None:
    """01/D-23: by commands, to the process that carries them on."""
    world = World()
    place = Place("sqlite", tmp_path)
    agents = [
        world.agent("boss", [to("helper")], delegates=["helper"]),
        world.agent("helper", [("hold", {})]),
    ]
    async with place.runtime(agents) as runtime, place.runtime([]) as elsewhere:
        running = asyncio.ensure_future(runtime.run("boss", "go", thread=T))
        await world.until_held(1)

        receipt = await elsewhere.cancel(T)

        assert (await running).termination == CANCELLED
        assert len([item for item in receipt.items if item.kind == "run"]) == 2
        assert await open_runs(runtime) == []


# -- limits -----------------------------------------------------------------------------------


async def test_depth_counts_over_runs_and_is_the_same_after_a_pause() -> None:
    """01/D-23: a circle ends at the limit also if every level had to wait for an answer first."""
    world = World()
    circle = world.agent("loop", [("pay", {"n": 1})], [to("loop")], delegates=["loop"])
    asked: list[int] = []

    def approve(_: object) -> bool:
        asked.append(1)
        return True

    async with Runtime([circle]) as runtime:
        result = await runtime.run("loop", "go", thread=T, on_approval=approve)
        assert await open_runs(runtime) == []
    assert "agents delegate at most 8 levels deep; answer without 'loop'" in result.response
    assert len(asked) == len(world.done) == 9


async def test_a_child_lives_off_its_parents_budget(place: Place) -> None:
    """DB-6: what delegates use up is used up; the whole tree takes no more steps than that."""
    world = World()
    agents = [
        world.agent("boss", [to("helper")], [to("helper")], delegates=["helper"]),
        world.agent("helper", [NOTE], [NOTE]),
    ]
    async with place.runtime(agents) as runtime:
        result = await runtime.run("boss", "go", thread=T, budget=Budget(steps=6))
        assert await open_runs(runtime) == []
    assert isinstance(result.termination, Stopped)
    assert sum(calls_of(agents).values()) == 6
    assert world.done == ["noted it", "noted it", "noted it"]


# -- names ------------------------------------------------------------------------------------


def offered(model: ScriptedModel) -> list[str]:
    return [descriptor.id for descriptor in model.requests[0].tools]


async def test_any_agent_id_makes_a_name_providers_take(place: Place) -> None:
    """03/DB-6: letters they refuse are replaced, long names are cut; the call finds its agent."""
    ids = ["team/helper", "Über.prüfer", "x" * 80]
    names = ["agent_run_team_helper", "agent_run__ber_pr_fer"]
    model = ScriptedModel([tool_call_response("", names[0], "c", {"prompt": "hi"}), "done"])
    helpers = [Agent(id, model=ScriptedModel([f"I am {id}"])) for id in ids]
    boss = Agent("boss", model=model, delegates=ids)
    async with place.runtime([boss, *helpers]) as runtime:
        await runtime.run("boss", "go", thread=T)
        assert await told(runtime) == ["I am team/helper"]
    long = next(name for name in offered(model) if name.startswith("agent_run_xxx"))
    assert sorted([*names, long]) == sorted(offered(model))
    assert len(long) == 64


async def test_long_names_that_differ_at_their_end_stay_apart() -> None:
    """03/DB-6: a cut name is marked by the whole of the id."""
    ids = ["x" * 80 + "1", "x" * 80 + "2"]
    model = ScriptedModel(["no need"])
    helpers = [Agent(id, model=ScriptedModel([])) for id in ids]
    async with Runtime([Agent("boss", model=model, delegates=ids), *helpers]) as runtime:
        await runtime.run("boss", "go")
    assert len(set(offered(model))) == 2


def test_delegates_whose_names_meet_are_refused_by_name() -> None:
    """03/DB-6, 01/D-22: two agents under one name would be one too few."""
    ids = ["team/helper", "team.helper"]
    helpers = [Agent(id, model=ScriptedModel([])) for id in ids]
    boss = Agent("boss", model=ScriptedModel([]), delegates=ids)

    with pytest.raises(BuildError) as raised:
        Runtime([boss, *helpers])

    text = str(raised.value)
    assert "agent_run_team_helper" in text
    assert "'team/helper' and 'team.helper'" in text
    assert "rename" in text


def test_a_delegate_and_a_tool_of_the_same_name_are_refused() -> None:
    """01/D-22: neither overwrites the other."""

    @tool
    async def agent_run_helper() -> str:
        return ""

    helper = Agent("helper", model=ScriptedModel([]))
    boss = Agent("boss", model=ScriptedModel([]), delegates=["helper"], tools=[agent_run_helper])

    with pytest.raises(ValidationFailed, match=r"agent_run_helper.*rename one of the two"):
        Runtime([boss, helper])


def test_a_delegate_nobody_has_is_refused_before_anything_runs() -> None:
    """03 §4.1: a missing delegate fails the parent; the text names it, and what there is."""
    boss = Agent("boss", model=ScriptedModel([]), delegates=["ghost"])

    with pytest.raises(ValidationFailed, match=r"(?s)delegate 'ghost'.*boss"):
        Runtime([boss])


async def test_a_child_whose_parent_cannot_tell_it_the_answer_is_ended(place: Place) -> None:
    """03/MH-4, 03/DB-6: the parent has lost its delegate; nobody will ever answer the child."""
    world = World()
    boss, helper = (
        world.agent("boss", [to("helper")], delegates=["helper"]),
        world.agent("helper", [("pay", {"n": 5})]),
    )
    async with place.runtime([boss, helper]) as runtime:
        result = await runtime.run("boss", "go", thread=T)
        child = await only_child(runtime)
        runtime.replace([Agent("boss", model=boss.model), helper])

        last = await runtime.run(thread=T, answers={result.tickets[0]: True})

        assert last.termination == NATURAL_END
        assert "tool 'agent_run_helper' not found" in last.response
        assert (await ended(runtime, child)).termination_reason == CANCELLED
    assert world.done == []


async def test_a_child_whose_parent_was_blocked_before_it_could_tell_it_is_ended(
    place: Place,
) -> None:
    """03/DB-6: the same, by a gate that has changed its mind."""

    class Gate:
        id = "gate"

        def register(self, registrar: Registrar) -> None:
            registrar.gate(self.judge)

        async def judge(self, ctx: PhaseContext) -> Block | None:
            return Block(reason="closed") if ctx.resume_input is not None else None

    world = World()
    agents = [
        world.agent("boss", [to("helper")], delegates=["helper"], plugins=[Gate()]),
        world.agent("helper", [("pay", {"n": 5})]),
    ]
    async with place.runtime(agents) as runtime:
        result = await runtime.run("boss", "go", thread=T)
        child = await only_child(runtime)

        last = await runtime.run(thread=T, answers={result.tickets[0]: True})

        assert last.termination == Blocked(value="closed")
        assert (await ended(runtime, child)).termination_reason == CANCELLED
    assert world.done == []
