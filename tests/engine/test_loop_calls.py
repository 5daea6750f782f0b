"""The calls of one step: side by side or one after another (02 §5.6, §5.7, design §4)."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from loop_stage import (
    CheckedModel,
    CountingCommits,
    Stage,
    TestPlugin,
    assert_event_order,
)

from awaken import (
    Agent,
    Block,
    Command,
    Merge,
    PhaseContext,
    SetResult,
    StateKey,
    Suspend,
    SuspendTicket,
    ToolCallContext,
    ToolOutput,
    ToolResult,
    tool,
)
from awaken.core.event import ToolCallDone, ToolCallReady, ToolCallStreamDelta
from awaken.core.lifecycle import NATURAL_END, Blocked, Phase, Suspended
from awaken.core.message import Role
from awaken.core.spec import ToolExecutorKind
from awaken.core.suspension import Suspension
from awaken.testing import tool_call_response, tool_calls_response

pytestmark = pytest.mark.anyio

PARALLEL = [ToolExecutorKind.PARALLEL_STREAMING, ToolExecutorKind.PARALLEL_BATCH_APPROVAL]
INTERRUPTED = "[Tool execution was interrupted]"


class Turnstile:
    """Tools that end when the test lets them; `inside` are those that run now."""

    def __init__(self, *names: str) -> None:
        self.gates = {name: asyncio.Event() for name in names}
        self.entered = {name: asyncio.Event() for name in names}
        self.inside: set[str] = set()
        self.order: list[str] = []

        @tool
        async def walk(name: str) -> str:
            self.inside.add(name)
            self.entered[name].set()
            await self.gates[name].wait()
            self.inside.discard(name)
            self.order.append(name)
            return f"{name} walked"

        self.tool = walk

    def calls(self, *names: str) -> list[Any]:
        return [("walk", f"c-{name}", {"name": name}) for name in names]

    async def all_inside(self) -> None:
        for event in self.entered.values():
            await event.wait()


# -- order ------------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", PARALLEL)
async def test_results_are_in_call_order_whoever_ends_first(executor: ToolExecutorKind) -> None:
    """02 §5.7, 01/P-18: all run at once; the log keeps the order of the calls."""
    walkers = Turnstile("a", "b", "c")
    model = CheckedModel(tool_calls_response("", *walkers.calls("a", "b", "c")), "done")
    stage = Stage(Agent("x", model=model, tools=[walkers.tool], tool_executor=executor))

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(stage.run())
        await walkers.all_inside()
        assert walkers.inside == {"a", "b", "c"}
        for number, name in enumerate(("c", "a", "b"), start=1):
            walkers.gates[name].set()
            if number < 3:
                await stage.sink.until(ToolCallDone, number)

    assert walkers.order == ["c", "a", "b"]
    assert [d.id for d in stage.told(ToolCallDone)] == ["c-c", "c-a", "c-b"]
    assert await stage.results() == ["a walked", "b walked", "c walked"]
    assert [m.text() for m in model.requests[1] if m.role is Role.TOOL] == await stage.results()
    assert_event_order(stage.sink.events())


async def test_an_outcome_is_committed_as_soon_as_it_is_there() -> None:
    """Design §4, §8: the ledger has it at once, the log gets a contiguous prefix."""
    walkers = Turnstile("a", "b", "c")
    model = CheckedModel(tool_calls_response("", *walkers.calls("a", "b", "c")), "done")
    store = CountingCommits()
    stage = Stage(Agent("x", model=model, tools=[walkers.tool]), store=store)

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(stage.run())
        await walkers.all_inside()
        walkers.gates["b"].set()
        await stage.sink.until(ToolCallDone, 1)
        run_id = (await stage.record()).run_id
        phases = {e.call_id: e.phase.value for e in await store.load_calls(run_id)}
        assert phases == {"c-a": "intent", "c-b": "succeeded", "c-c": "intent"}
        assert await stage.results() == [], "its message waits for the call before it"
        walkers.gates["a"].set()
        await stage.sink.until(ToolCallDone, 2)
        assert await stage.results() == ["a walked", "b walked"]
        walkers.gates["c"].set()

    assert [[e.phase.value for e in commit.calls] for commit in store.made] == [
        [],
        ["intent", "intent", "intent"],
        ["succeeded"],
        ["succeeded"],
        ["succeeded"],
        [],
    ], "the last outcome comes with the step's end"


async def test_a_sequential_tool_is_a_barrier() -> None:
    """Design §2: it runs alone; what is before it has ended, what is behind it has not begun."""
    running: list[int] = []
    seen: list[int] = []

    @tool
    async def plain() -> str:
        running.append(1)
        await asyncio.sleep(0)
        running.pop()
        return "plain"

    @tool(sequential=True)
    async def alone() -> str:
        seen.append(len(running))
        running.append(1)
        await asyncio.sleep(0)
        seen.append(len(running))
        running.pop()
        return "alone"

    names = ["plain", "plain", "alone", "plain", "alone", "alone"]
    model = CheckedModel(
        tool_calls_response("", *[(name, f"c{n}", {}) for n, name in enumerate(names)]), "done"
    )
    stage = Stage(Agent("x", model=model, tools=[plain, alone]))

    await stage.run()

    assert seen == [0, 1] * 3
    assert await stage.results() == names


async def test_a_barrier_lets_what_is_behind_it_see_its_state() -> None:
    """Design §2: each batch works on its own snapshot."""
    reads: dict[str, int | None] = {}

    @tool(sequential=True)
    async def write(value: int) -> ToolOutput:
        return ToolOutput(ToolResult.success("write"), Command().update(SEAT, value))

    @tool
    async def read(name: str, ctx: ToolCallContext) -> str:
        reads[name] = ctx.state(SEAT)
        return name

    model = CheckedModel(
        tool_calls_response(
            "",
            ("read", "c1", {"name": "before"}),
            ("write", "c2", {"value": 7}),
            ("read", "c3", {"name": "after"}),
        ),
        "done",
    )
    stage = Stage(Agent("x", model=model, tools=[write, read], state=[SEAT]))

    await stage.run()

    assert reads == {"before": None, "after": 7}


# -- state ------------------------------------------------------------------------------------

SEAT: StateKey[int, int] = StateKey("test.seat", initial=int)
SUM: StateKey[int, int] = StateKey(
    "test.sum", initial=int, apply=lambda a, b: a + b, merge=Merge.COMMUTATIVE
)


@tool
async def take(seat: int) -> ToolOutput:
    """Take a seat."""
    return ToolOutput(
        ToolResult.success_with_message("take", None, f"took {seat}"), Command().update(SEAT, seat)
    )


@tool
async def add(n: int) -> ToolOutput:
    """Add to the sum."""
    return ToolOutput(
        ToolResult.success_with_message("add", None, f"added {n}"), Command().update(SUM, n)
    )


@pytest.mark.parametrize("executor", PARALLEL)
async def test_the_loser_of_an_exclusive_key_keeps_its_result(executor: ToolExecutorKind) -> None:
    """02 §5.7, 01/D-3, design §8: its write is refused, and the model is told so."""
    model = CheckedModel(
        tool_calls_response("", ("take", "c1", {"seat": 1}), ("take", "c2", {"seat": 2})), "I see"
    )
    stage = Stage(Agent("x", model=model, tools=[take], state=[SEAT], tool_executor=executor))

    result = await stage.run()

    assert result.response == "I see"
    assert await stage.state(SEAT) == 1
    first, second = await stage.results()
    refusal = (
        'conflicting parallel state modification on exclusive key "test.seat" '
        "by tool calls [c1] and [c2]"
    )
    assert first == "took 1"
    assert second == f"took 2\n[state update refused: {refusal}]"
    done = stage.told(ToolCallDone)[1]
    assert done.outcome.value == "succeeded"
    assert done.result.metadata == {"state_update_refused": refusal}


async def test_commutative_writes_of_one_step_all_count() -> None:
    """Design §2: writes merge by their keys' rules."""
    model = CheckedModel(
        tool_calls_response("", *[("add", f"c{n}", {"n": n}) for n in range(1, 6)]), "done"
    )
    stage = Stage(Agent("x", model=model, tools=[add], state=[SUM]))

    await stage.run()

    assert await stage.state(SUM) == 15


async def test_writes_of_the_next_step_are_no_conflict() -> None:
    """A key taken in one step is free in the next, and for tools that run alone."""
    model = CheckedModel(
        tool_call_response("", "take", "c1", {"seat": 1}),
        tool_call_response("", "take", "c2", {"seat": 2}),
        "done",
    )
    together = Stage(Agent("x", model=model, tools=[take], state=[SEAT]))
    await together.run()
    model = CheckedModel(
        tool_calls_response("", ("take", "c1", {"seat": 1}), ("take", "c2", {"seat": 2})), "done"
    )
    alone = Stage(Agent("x", model=model, tools=[take], state=[SEAT], sequential=True))
    await alone.run()

    assert await together.state(SEAT) == await alone.state(SEAT) == 2
    assert await alone.results() == ["took 1", "took 2"]


async def test_after_hooks_write_in_the_commit_of_their_call() -> None:
    """02 §5.6: state, the tool's command and the hooks' in one; the hook sees the result."""
    seen: list[str | None] = []

    async def count(ctx: PhaseContext) -> Command:
        assert ctx.tool_result is not None
        seen.append(ctx.tool_result.message)
        return Command().update(SUM, 10)

    model = CheckedModel(
        tool_calls_response("", ("add", "c1", {"n": 1}), ("add", "c2", {"n": 2})), "done"
    )
    plugin = TestPlugin({Phase.AFTER_TOOL_EXECUTE: count}, keys=[SUM])
    stage = Stage(Agent("x", model=model, tools=[add], plugins=[plugin]))

    await stage.run()

    assert seen == ["added 1", "added 2"]
    assert await stage.state(SUM) == 23


# -- tools that misbehave ---------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["read", "once"])
@pytest.mark.parametrize("company", [False, True], ids=["alone", "together"])
async def test_a_tool_that_takes_too_long_is_stopped(
    company: bool, effect: Literal["read", "once"]
) -> None:
    """02/8.17: its own deadline; the result says so and the others are not touched."""
    stopped = asyncio.Event()

    @tool(timeout=0.001, effect=effect)
    async def slow() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    @tool
    async def look() -> str:
        return "seen"

    calls: list[Any] = [("slow", "c1", {})] + ([("look", "c2", {})] if company else [])
    model = CheckedModel(tool_calls_response("", *calls), "too slow")
    stage = Stage(Agent("x", model=model, tools=[slow, look]))

    result = await stage.run()

    assert result.response == "too slow"
    assert stopped.is_set()
    results = await stage.results()
    timeout, _, rest = results[0].partition(";")
    assert timeout == "Timeout: no answer within 0.001 seconds"
    assert ("unknown whether 'slow' took effect" in rest) == (effect == "once")
    assert results[1:] == (["seen"] if company else [])
    done = {d.id: d.result for d in stage.told(ToolCallDone)}
    mark = "timed_out" if effect == "read" else "outcome_unknown"
    assert done["c1"].metadata == {mark: True}


@pytest.mark.parametrize("company", [False, True], ids=["alone", "together"])
async def test_a_tool_that_raises_a_cancellation_is_only_a_failed_tool(company: bool) -> None:
    """Nobody cancelled the run: what the tool awaited was cancelled, and it let that pass."""

    @tool
    async def careless() -> str:
        inner = asyncio.get_running_loop().create_future()
        inner.cancel()
        await inner
        return "never"

    @tool
    async def look() -> str:
        return "seen"

    calls: list[Any] = [("careless", "c1", {})] + ([("look", "c2", {})] if company else [])
    model = CheckedModel(tool_calls_response("", *calls), "went on")
    stage = Stage(Agent("x", model=model, tools=[careless, look]))

    async with asyncio.timeout(100):
        result = await stage.run()

    assert (result.termination, result.response) == (NATURAL_END, "went on")
    assert (await stage.results())[0].startswith("Cancelled: ")


async def test_calls_that_share_an_id_are_told_apart() -> None:
    """Design §8: provider ids repeat, ledger and idempotency keys do not."""
    keys: list[str] = []

    @tool
    async def key(ctx: ToolCallContext) -> str:
        keys.append(ctx.idempotency_key)
        return ctx.call_id

    model = CheckedModel(
        tool_calls_response("", ("key", "same", {}), ("key", "same", {})),
        tool_calls_response("", ("key", "same", {})),
        "done",
    )
    stage = Stage(Agent("x", model=model, tools=[key]))

    result = await stage.run()

    assert len(set(keys)) == 3
    log = await stage.log()
    first, second = (m.id for m in log if m.tool_calls)
    assert keys == [f"{first}:0", f"{first}:1", f"{second}:0"]
    assert [e.key for e in await stage.store.load_calls(result.run_id)] == keys


async def test_what_a_tool_says_while_it_runs_is_told_in_between() -> None:
    """02 §5.11: activity and output between the answer and the call's end."""

    @tool
    async def chatty(ctx: ToolCallContext) -> str:
        await ctx.stream_output("one ")
        await ctx.report_activity("status", "busy")
        await ctx.stream_output("two")
        return "said"

    model = CheckedModel(tool_call_response("", "chatty", "c1", {}), "done")
    stage = Stage(Agent("x", model=model, tools=[chatty]))

    await stage.run()

    assert [e.delta for e in stage.told(ToolCallStreamDelta)] == ["one ", "two"]
    assert_event_order(stage.sink.events())
    kept = [type(e.event) for e in await stage.store.load_events("t")]
    assert ToolCallStreamDelta not in kept


async def test_calls_are_ready_before_they_are_done() -> None:
    """02 §5.11: one ready and one done for every call, in call order."""
    model = CheckedModel(
        tool_calls_response("", ("add", "c1", {"n": 1}), ("nothing", "c2", {})), "done"
    )
    stage = Stage(Agent("x", model=model, tools=[add], state=[SUM]))

    await stage.run()

    assert [(r.id, r.name) for r in stage.told(ToolCallReady)] == [("c1", "add"), ("c2", "nothing")]
    assert [d.id for d in stage.told(ToolCallDone)] == ["c1", "c2"]


# -- gates ------------------------------------------------------------------------------------


def suspend(id: str = "s") -> Suspend:
    return Suspend(ticket=SuspendTicket(suspension=Suspension(id=id, action="approve")))


ANSWER = SetResult(result=ToolResult.success_with_message("add", None, "known already"))


@pytest.mark.parametrize("turned", [False, True], ids=["in order", "turned round"])
@pytest.mark.parametrize(
    ("verdicts", "outcome"),
    [
        ((Block(reason="no"), suspend(), ANSWER), "denied"),
        ((suspend(), ANSWER), "suspended"),
        ((ANSWER, None), "succeeded"),
    ],
)
async def test_the_strongest_gate_wins(verdicts: Any, outcome: str, turned: bool) -> None:
    """01/P-14: block beats suspend beats set-result, whatever the order."""

    def gate(verdict: Any) -> Any:
        async def say(_: PhaseContext) -> Any:
            return verdict

        return say

    ran: list[int] = []

    @tool
    async def mark() -> str:
        ran.append(1)
        return "marked"

    order = reversed(verdicts) if turned else verdicts
    plugin = TestPlugin(gates=[gate(verdict) for verdict in order])
    model = CheckedModel(tool_call_response("", "mark", "c1", {}), "done")
    stage = Stage(Agent("x", model=model, tools=[mark], plugins=[plugin]))

    result = await stage.run()

    assert stage.told(ToolCallDone)[0].outcome.value == outcome
    assert ran == []
    assert type(result.termination) is {
        "denied": Blocked,
        "suspended": Suspended,
        "succeeded": type(NATURAL_END),
    }.get(outcome)


async def test_of_two_equal_gates_the_first_counts(caplog: pytest.LogCaptureFixture) -> None:
    """01/P-14: the first of equals wins, and somebody is told."""

    async def first(_: PhaseContext) -> Block:
        return Block(reason="first")

    async def second(_: PhaseContext) -> Block:
        return Block(reason="second")

    model = CheckedModel(tool_call_response("", "add", "c1", {"n": 1}))
    plugin = TestPlugin(gates=[first, second])
    stage = Stage(Agent("x", model=model, tools=[add], state=[SUM], plugins=[plugin]))

    result = await stage.run()

    assert result.termination == Blocked(value="first")
    assert "gates disagree about 'add'" in caplog.text


async def test_a_gates_answer_stands_for_the_tools() -> None:
    """02 §5.6: after-hooks run for it, before-hooks do not."""
    phases: list[Phase] = []

    async def note(ctx: PhaseContext) -> None:
        phases.append(ctx.phase)

    async def answer(_: PhaseContext) -> SetResult:
        return ANSWER

    hooks = {Phase.BEFORE_TOOL_EXECUTE: note, Phase.AFTER_TOOL_EXECUTE: note}
    model = CheckedModel(tool_call_response("", "add", "c1", {"n": 1}), "done")
    plugin = TestPlugin(hooks, gates=[answer])  # type: ignore[arg-type]
    stage = Stage(Agent("x", model=model, tools=[add], state=[SUM], plugins=[plugin]))

    await stage.run()

    assert await stage.results() == ["known already"]
    assert phases == [Phase.AFTER_TOOL_EXECUTE]
    assert await stage.state(SUM) is None


async def test_a_gates_suspension_is_told_with_its_ticket() -> None:
    """02 §5.6: a pending result with the ticket; no after-hook; no message in the log."""
    phases: list[Phase] = []

    async def note(ctx: PhaseContext) -> None:
        phases.append(ctx.phase)

    async def hold(_: PhaseContext) -> Suspend:
        return suspend("ticket-9")

    model = CheckedModel(tool_call_response("", "add", "c1", {"n": 1}))
    plugin = TestPlugin({Phase.AFTER_TOOL_EXECUTE: note}, gates=[hold])
    stage = Stage(Agent("x", model=model, tools=[add], state=[SUM], plugins=[plugin]))

    result = await stage.run()

    assert [t.ticket_id for t in result.tickets] == ["ticket-9"]
    (done,) = stage.told(ToolCallDone)
    assert done.result.message == "Tool 'add' suspended: awaiting approval"
    assert done.result.suspension is not None
    assert done.result.suspension.suspension.id == "ticket-9"
    assert done.message_id == ""
    assert phases == []
    assert await stage.results() == []


async def test_sequential_calls_behind_a_suspension_are_closed() -> None:
    """01/P-17: nothing after it executes, yet every call has its result."""
    ran: list[str] = []

    @tool
    async def mark(name: str) -> str:
        ran.append(name)
        return name

    @tool(needs_approval=True)
    async def ask() -> str:
        return "asked"

    model = CheckedModel(
        tool_calls_response(
            "", ("mark", "c1", {"name": "a"}), ("ask", "c2", {}), ("mark", "c3", {"name": "b"})
        )
    )
    stage = Stage(Agent("x", model=model, tools=[mark, ask], sequential=True))

    result = await stage.run()

    assert ran == ["a"]
    assert [t.tool_call_id for t in result.tickets] == ["c2"]
    assert [(d.id, d.outcome.value) for d in stage.told(ToolCallDone)] == [
        ("c1", "succeeded"),
        ("c2", "suspended"),
        ("c3", "failed"),
    ]
    assert await stage.results() == ["a", INTERRUPTED]


async def test_parallel_calls_beside_a_suspension_all_run() -> None:
    """01/P-18: a suspension stops nobody."""

    @tool
    async def mark(name: str) -> str:
        return name

    @tool(needs_approval=True)
    async def ask() -> str:
        return "asked"

    model = CheckedModel(
        tool_calls_response(
            "", ("mark", "c1", {"name": "a"}), ("ask", "c2", {}), ("mark", "c3", {"name": "b"})
        )
    )
    stage = Stage(Agent("x", model=model, tools=[mark, ask]))

    await stage.run()

    assert await stage.results() == ["a", "b"]
