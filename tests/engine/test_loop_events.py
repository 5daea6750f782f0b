"""What a run tells, in which order, and when it becomes true (02 §5.11, design §8)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from loop_stage import THREAD, CheckedModel, Stage, assert_event_order

from awaken import Agent, RunRequest, ToolCallContext, ToolCallResume, tool
from awaken.core.event import (
    DURABLE,
    RunEvent,
    RunFinish,
    StateSnapshot,
    StepStart,
    TextDelta,
    ToolCallCancel,
    ToolCallReady,
)
from awaken.core.lifecycle import NATURAL_END
from awaken.core.message import as_messages
from awaken.core.store.store import Store
from awaken.errors import AwakenError
from awaken.stores.memory import MemoryStore
from awaken.testing import (
    FakeClock,
    max_tokens_response,
    tool_call_response,
    tool_calls_response,
)
from event_kit import as_stored

pytestmark = pytest.mark.anyio


@tool
async def look(ctx: ToolCallContext) -> str:
    """Look around, loudly."""
    await ctx.stream_output("looking")
    return "seen"


@tool(needs_approval=True)
async def launch() -> str:
    """Launch, if somebody agrees."""
    return "up"


@tool
async def explode() -> str:
    """Raise."""
    raise ZeroDivisionError("ouch")


def agent(*script: object) -> Agent:
    model = CheckedModel(*script)  # type: ignore[arg-type]
    return Agent("a", model=model, tools=[look, launch, explode])


ASK = tool_call_response("", "launch", "c1", {})

# -- scenarios --------------------------------------------------------------------------------


async def text_only(store: Store) -> Stage:
    stage = Stage(agent("hello"), store=store)
    await stage.run()
    return stage


async def two_steps(store: Store) -> Stage:
    calls = tool_calls_response("so", ("look", "c1", {}), ("explode", "c2", {}))
    stage = Stage(agent(calls, "done"), store=store)
    await stage.run()
    return stage


async def cut_off(store: Store) -> Stage:
    stage = Stage(agent(max_tokens_response("half"), "whole"), store=store)
    await stage.run()
    return stage


async def model_error(store: Store) -> Stage:
    stage = Stage(agent(tool_call_response("", "look", "c1", {}), ValueError("down")), store=store)
    with pytest.raises(AwakenError):
        await stage.run()
    return stage


async def suspended(store: Store) -> Stage:
    stage = Stage(agent(ASK), store=store)
    await stage.run()
    return stage


async def resumed(store: Store) -> Stage:
    stage = Stage(agent(ASK, "done"), store=store)
    await stage.run()
    stage.sink.take()
    await stage.resume(("c1", ToolCallResume.approve()))
    return stage


async def live(store: Store) -> Stage:
    two = tool_calls_response("", ("launch", "c1", {}), ("launch", "c2", {}))
    stage = Stage(agent(two, "done"), store=store)
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(stage.run(wait_for_decisions=True))
        await stage.sink.until(RunFinish, 1)
        await stage.decide(("c1", ToolCallResume.approve()))
        await stage.sink.until(RunFinish, 2)
        await stage.decide(("c2", ToolCallResume.deny()))
    return stage


async def cancelled_while_waiting(store: Store) -> Stage:
    stage = Stage(agent(ASK), store=store)
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(stage.run(wait_for_decisions=True))
        await stage.sink.until(RunFinish)
        stage.engine.cancel(THREAD)
    return stage


async def stopped(store: Store) -> Stage:
    model = CheckedModel(tool_call_response("so far", "look", "c1", {}))
    stage = Stage(Agent("a", model=model, tools=[look], max_rounds=1), store=store)
    await stage.run()
    return stage


SCENARIOS = [
    text_only,
    two_steps,
    cut_off,
    model_error,
    suspended,
    resumed,
    live,
    cancelled_while_waiting,
    stopped,
]
Scenario = Callable[[Store], Awaitable[Stage]]
each_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)


# -- order and place --------------------------------------------------------------------------


@each_scenario
async def test_events_come_in_one_order(scenario: Scenario) -> None:
    """02 §5.11: the same grammar, however the run goes."""
    stage = await scenario(MemoryStore())

    assert_event_order(stage.sink.events())


@each_scenario
async def test_durable_events_are_kept_without_a_gap(scenario: Scenario) -> None:
    """Design §8: `seq` counts 1, 2, 3 … in the thread, and only durable kinds have one."""
    store = MemoryStore()
    stage = await scenario(store)

    kept = await store.load_events(THREAD)
    assert [event.seq for event in kept] == list(range(1, len(kept) + 1))
    assert all(isinstance(event.event, DURABLE) for event in kept)
    told = [e for e in stage.sink.events() if isinstance(e.event, DURABLE)]
    assert [e.event for e in kept][-len(told) :] == [e.event for e in told], "nothing is left out"
    # 06/SV-1. What tells of a beginning, or takes it back, is sent ahead of its commit, with the
    # number it will have.
    for event in told:
        assert event.seq is not None
        assert kept[event.seq - 1] == as_stored(event)
        begins = isinstance(event.event, StepStart | ToolCallReady | ToolCallCancel)
        assert event.ahead == (begins and not event.again)


@each_scenario
async def test_live_events_are_counted_from_one_without_a_hole(scenario: Scenario) -> None:
    """06/SV-2: over all activations under one claim, whether the events are stored or not."""
    stage = await scenario(MemoryStore())

    counted: dict[int, list[int]] = {}
    for event in stage.sink.events():
        assert event.live is not None
        epoch, n = event.live
        counted.setdefault(epoch, []).append(n)
    for numbers in counted.values():
        assert numbers == list(range(1, len(numbers) + 1))


@each_scenario
async def test_transient_events_have_no_place(scenario: Scenario) -> None:
    """Design §8: deltas, activity and snapshots are for whoever listens."""
    stage = await scenario(MemoryStore())

    for event in stage.sink.events():
        if not isinstance(event.event, DURABLE):
            assert event.seq is None


async def test_nobody_listening_keeps_the_same_events() -> None:
    """Design §3: the same run with and without a sink, compared by what the store has."""
    kept: list[list[object]] = []
    for listening in (True, False):
        store, clock = MemoryStore(), FakeClock()
        calls = tool_calls_response("so", ("look", "c1", {}), ("explode", "c2", {}))
        stage = Stage(agent(calls, "done"), store=store, clock=clock)
        request = RunRequest(
            thread_id=THREAD, messages=as_messages("hi"), agent_id="a", run_id_hint="r-1"
        )
        await stage.engine.run(request, stage.sink if listening else None)
        kept.append([(type(e.event), e.seq, e.at_ms) for e in await store.load_events(THREAD)])

    assert kept[0] == kept[1]
    assert kept[0]


# -- when it becomes true ---------------------------------------------------------------------


class Auditor:
    """A sink that looks into the store whenever it is told that something is done."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.checked = 0
        self.snapshots: list[int] = []

    async def emit(self, event: RunEvent) -> None:
        record = await self.store.latest_run(THREAD)
        if event.seq is not None and not event.ahead:
            (kept,) = await self.store.load_events(THREAD, after=event.seq - 1, limit=1)
            assert kept == as_stored(event), "told before it was true"
            self.checked += 1
        if isinstance(event.event, StateSnapshot):
            assert record is not None
            self.snapshots.append(record.steps)
        if isinstance(event.event, RunFinish):
            assert record is not None
            assert record.termination_reason == event.event.termination

    async def close(self) -> None:
        return


async def test_what_is_told_as_done_is_already_committed() -> None:
    """02 §5.11, 01/D-16: the step's checkpoint is durable before its snapshot and its end."""
    store = MemoryStore()
    calls = tool_calls_response("so", ("look", "c1", {}), ("explode", "c2", {}))
    stage = Stage(agent(calls, "done"), store=store)
    auditor = Auditor(store)

    result = await stage.engine.run(
        RunRequest(thread_id=THREAD, messages=as_messages("hi"), agent_id="a"), auditor
    )

    assert result.termination == NATURAL_END
    assert auditor.checked == 8, "start, two answers, two calls, two step ends, finish"
    assert auditor.snapshots == [1, 2], "one snapshot a step, of the step that ended"


async def test_events_carry_thread_run_and_time() -> None:
    """Design §8: the envelope."""
    clock = FakeClock(start_ms=1_000)
    stage = Stage(agent("hello"), clock=clock)

    result = await stage.run(parent_run_id="parent")

    for event in stage.sink.events():
        assert (event.thread_id, event.run_id, event.at_ms) == (THREAD, result.run_id, 1_000)
        assert event.parent_run_id == "parent"


async def test_deltas_are_told_while_the_model_speaks() -> None:
    """02 §5.11: each piece as it comes, not at the end."""
    heard: list[str] = []

    class Listener:
        async def emit(self, event: RunEvent) -> None:
            if isinstance(event.event, TextDelta):
                heard.append(event.event.delta)
                passed.set()

        async def close(self) -> None:
            return

    passed = asyncio.Event()

    async def talk() -> object:
        yield TextDelta(delta="one ")
        await passed.wait()
        assert heard == ["one "]
        yield TextDelta(delta="two")

    stage = Stage(agent(lambda _: talk()))

    async with asyncio.timeout(100):
        result = await stage.engine.run(
            RunRequest(thread_id=THREAD, messages=as_messages("hi"), agent_id="a"), Listener()
        )

    assert heard == ["one ", "two"]
    assert result.response == "one two"


async def test_a_listener_that_breaks_does_not_end_the_run() -> None:
    """02/8.33: the run is the store's business; a broken sink is not asked again."""
    emitted: list[RunEvent] = []

    class Broken:
        async def emit(self, event: RunEvent) -> None:
            emitted.append(event)
            raise ConnectionError("client gone")

        async def close(self) -> None:
            return

    stage = Stage(agent(tool_call_response("", "look", "c1", {}), "done"))

    result = await stage.engine.run(
        RunRequest(thread_id=THREAD, messages=as_messages("hi"), agent_id="a"), Broken()
    )

    assert result.response == "done"
    assert len(emitted) == 1
    kept = await stage.store.load_events(THREAD)
    assert isinstance(kept[-1].event, RunFinish)
