"""Suspended calls and their answers (02 §5.8, 01 §1.7, 01/D-15, design §4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from loop_stage import (
    THREAD,
    CheckedModel,
    CountingCommits,
    Stage,
    TestPlugin,
    assert_event_order,
)

from awaken import (
    Agent,
    Block,
    Message,
    PhaseContext,
    Suspend,
    SuspendTicket,
    ToolCallContext,
    ToolCallResume,
    ToolDescriptor,
    ToolResult,
    tool,
)
from awaken.core.event import (
    RunFinish,
    RunStart,
    StepStart,
    ToolCallDone,
    ToolCallResumed,
    ToolCallStreamDelta,
)
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import NATURAL_END, Blocked, Failed, Phase, RunStatus, Suspended
from awaken.core.message import Role
from awaken.core.spec import ToolExecutorKind
from awaken.core.suspension import ResumeAction, Suspension, ToolCallResumeMode
from awaken.errors import InvalidResume, PhaseError, ToolIdConflict
from awaken.stores.memory import MemoryStore
from awaken.testing import tool_call_response, tool_calls_response

pytestmark = pytest.mark.anyio

YES, NO = ToolCallResume.approve(), ToolCallResume.deny()
PARALLEL = [ToolExecutorKind.PARALLEL_STREAMING, ToolExecutorKind.PARALLEL_BATCH_APPROVAL]


class Launcher:
    """A tool that asks first; keeps the speeds it ran with."""

    def __init__(self) -> None:
        self.ran: list[int] = []

        @tool(needs_approval=True)
        async def launch(speed: int = 1) -> str:
            self.ran.append(speed)
            return f"up at {speed}"

        self.tool = launch

    @staticmethod
    def calls(*speeds: int) -> Any:
        made = [("launch", f"c{speed}", {"speed": speed}) for speed in speeds]
        return tool_calls_response("", *made)


# -- modes ------------------------------------------------------------------------------------


def holding_gate(mode: ToolCallResumeMode) -> TestPlugin:
    """Suspends a call in a mode, once; the answer opens it."""

    async def hold(ctx: PhaseContext) -> Suspend | None:
        if ctx.resume_input is not None:
            return None
        suspension = Suspension(id=f"ticket-{ctx.tool_call_id}", action="approve")
        return Suspend(ticket=SuspendTicket(suspension=suspension, resume_mode=mode))

    return TestPlugin(gates=[hold])


@pytest.mark.parametrize("live", [False, True], ids=["later", "live"])
@pytest.mark.parametrize(
    ("mode", "ran", "result"),
    [
        (ToolCallResumeMode.REPLAY_TOOL_CALL, [3], "moved 3"),
        (ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT, [], '{"speed":9}'),
        (ToolCallResumeMode.PASS_DECISION_TO_TOOL, [9], "moved 9"),
    ],
)
async def test_what_a_yes_means_is_the_calls_mode(
    mode: ToolCallResumeMode, ran: list[int], result: str, live: bool
) -> None:
    """02/8.17: its own arguments, the decision as the result, or the decision as arguments."""
    moved: list[int] = []

    @tool
    async def move(speed: int) -> str:
        moved.append(speed)
        return f"moved {speed}"

    model = CheckedModel(tool_call_response("", "move", "c1", {"speed": 3}), "done")
    stage = Stage(Agent("a", model=model, tools=[move], plugins=[holding_gate(mode)]))
    decision = ToolCallResume.approve({"speed": 9})

    if live:
        async with asyncio.timeout(100), asyncio.TaskGroup() as group:
            run = group.create_task(stage.run(wait_for_decisions=True))
            await stage.sink.until(RunFinish)
            assert await stage.decide(("ticket-c1", decision))
        ended = run.result()
    else:
        await stage.run()
        ended = await stage.resume(("ticket-c1", decision))

    assert ended.response == "done"
    assert moved == ran
    assert await stage.results() == [result]
    assert [r.target_id for r in stage.told(ToolCallResumed)] == ["c1"]
    (call,) = [m for m in await stage.log() if m.tool_calls]
    assert call.tool_calls is not None
    assert call.tool_calls[0].arguments == {"speed": 3}, "the log keeps what the model asked for"


async def test_new_arguments_are_checked_again() -> None:
    """Design §4: edited arguments that do not fit are refused, and the model is told."""
    moved: list[int] = []

    @tool
    async def move(speed: int) -> str:
        moved.append(speed)
        return "moved"

    gate = holding_gate(ToolCallResumeMode.PASS_DECISION_TO_TOOL)
    model = CheckedModel(tool_call_response("", "move", "c1", {"speed": 3}), "not so")
    stage = Stage(Agent("a", model=model, tools=[move], plugins=[gate]))
    await stage.run()

    result = await stage.resume(("c1", ToolCallResume.approve({"speed": "very"})))

    assert result.response == "not so"
    assert moved == []
    assert (await stage.results())[0].startswith("Invalid arguments: ")


async def test_hooks_and_tools_see_the_decision() -> None:
    """01 §3.4: resume input and suspension, while a call is taken up again, and only then."""
    seen: list[tuple[str, Any, str | None, str | None]] = []

    async def note(ctx: PhaseContext) -> None:
        decided = ctx.resume_input.decision_id if ctx.resume_input else None
        seen.append((ctx.phase.value, decided, ctx.suspension_id, ctx.suspension_reason))

    @tool(needs_approval=True)
    async def launch(ctx: ToolCallContext) -> str:
        decided = ctx.resume_input.decision_id if ctx.resume_input else None
        seen.append(("tool", decided, ctx.suspension_id, ctx.suspension_reason))
        return "up"

    hooks: Any = {Phase.BEFORE_TOOL_EXECUTE: note, Phase.AFTER_TOOL_EXECUTE: note}
    gates: Any = [note]
    model = CheckedModel(tool_call_response("", "launch", "c1", {}), "done")
    stage = Stage(Agent("a", model=model, tools=[launch], plugins=[TestPlugin(hooks, gates)]))
    await stage.run()
    assert {entry[1:] for entry in seen} == {(None, None, None)}
    seen.clear()

    await stage.resume(("c1", ToolCallResume.approve(id="d-1")))

    known = ("d-1", "approval_c1", "tool:launch")
    assert seen == [
        ("tool_gate", *known),
        ("before_tool_execute", *known),
        ("tool", *known),
        ("after_tool_execute", *known),
    ]


async def test_a_gate_may_block_a_call_somebody_approved() -> None:
    """02 §5.8: a yes goes through the gates again; a block ends the run."""
    launcher = Launcher()

    async def second_thoughts(ctx: PhaseContext) -> Block | None:
        return Block(reason="too late") if ctx.resume_input else None

    model = CheckedModel(launcher.calls(1, 2), "fine")
    plugin = TestPlugin(gates=[second_thoughts])
    stage = Stage(Agent("a", model=model, tools=[launcher.tool], plugins=[plugin]))
    await stage.run()
    stage.sink.take()

    result = await stage.resume(("c1", YES), ("c2", YES))

    assert result.termination == Blocked(value="too late")
    assert launcher.ran == []
    assert (await stage.record()).status is RunStatus.DONE
    assert_event_order(stage.sink.events())
    assert (await stage.run("again")).response == "fine"
    assert launcher.ran == [], "what was approved in a run that is over is not taken up by another"


async def test_a_call_may_wait_a_second_time() -> None:
    """02 §5.6: done as suspended, not resumed; the next answer takes it further."""
    asked: list[Any] = []

    async def ask_twice(ctx: PhaseContext) -> Suspend | None:
        asked.append(ctx.resume_input)
        if len(asked) > 2:
            return None
        suspension = Suspension(id=f"round-{len(asked)}", action="approve")
        return Suspend(ticket=SuspendTicket(suspension=suspension))

    @tool
    async def look() -> str:
        return "seen"

    model = CheckedModel(tool_call_response("", "look", "c1", {}), "done")
    plugin = TestPlugin(gates=[ask_twice])
    stage = Stage(Agent("a", model=model, tools=[look], plugins=[plugin]))
    await stage.run()

    second = await stage.resume(("round-1", YES))
    third = await stage.resume(("round-2", YES))

    assert isinstance(second.termination, Suspended)
    assert [t.ticket_id for t in second.tickets] == ["round-2"]
    assert third.response == "done"
    assert [d.outcome.value for d in stage.told(ToolCallDone)] == ["suspended", "suspended"]
    assert len(stage.told(ToolCallResumed)) == 1


async def test_a_hook_that_fails_during_a_replay_closes_the_calls() -> None:
    """02/8.9, 01/D-16: the run ends with an error; no call stays open, none runs later."""
    launcher = Launcher()
    armed = [True]

    async def trap(ctx: PhaseContext) -> None:
        if ctx.resume_input is not None and armed[0]:
            raise ValueError("trapped")

    plugin = TestPlugin({Phase.BEFORE_TOOL_EXECUTE: trap})
    model = CheckedModel(launcher.calls(1, 2), "fine")
    stage = Stage(Agent("a", model=model, tools=[launcher.tool], plugins=[plugin]))
    await stage.run()
    stage.sink.take()

    with pytest.raises(PhaseError):
        await stage.resume(("c1", YES), ("c2", YES))

    assert isinstance((await stage.record()).termination_reason, Failed)
    assert_event_order(stage.sink.events())
    assert launcher.ran == []
    armed[0] = False
    assert (await stage.run("again")).response == "fine"
    assert launcher.ran == []


# -- several tickets --------------------------------------------------------------------------


@pytest.mark.parametrize("live", [False, True], ids=["later", "live"])
async def test_streaming_carries_out_each_answer_at_once(live: bool) -> None:
    """02 §5.7, 02/8.16: one of two; the run waits for the other, and the model is not asked."""
    launcher = Launcher()
    model = CheckedModel(launcher.calls(1, 2), "both up")
    executor = ToolExecutorKind.PARALLEL_STREAMING
    stage = Stage(Agent("a", model=model, tools=[launcher.tool], tool_executor=executor))

    await answer_one_by_one(stage, live, after_first=lambda: check(launcher, model))

    assert launcher.ran == [2, 1]
    assert (await stage.record()).steps == 2
    assert await stage.results() == ["up at 2", "up at 1"]
    assert [m.text() for m in model.requests[1] if m.role is Role.TOOL] == ["up at 1", "up at 2"]


def check(launcher: Launcher, model: CheckedModel) -> None:
    assert launcher.ran == [2]
    assert model.calls == 1


@pytest.mark.parametrize("live", [False, True], ids=["later", "live"])
async def test_batch_approval_waits_for_the_last_answer(live: bool) -> None:
    """02 §5.7: nothing runs until all are decided; then in the order of the calls."""
    launcher = Launcher()
    model = CheckedModel(launcher.calls(1, 2), "both up")
    executor = ToolExecutorKind.PARALLEL_BATCH_APPROVAL
    stage = Stage(Agent("a", model=model, tools=[launcher.tool], tool_executor=executor))

    def nothing_yet() -> None:
        assert launcher.ran == []
        assert model.calls == 1

    await answer_one_by_one(stage, live, after_first=nothing_yet)

    assert launcher.ran == [1, 2]
    assert await stage.results() == ["up at 1", "up at 2"]


async def answer_one_by_one(stage: Stage, live: bool, after_first: Any) -> None:
    """Approve c2, look, then approve c1; the run must end naturally."""
    if live:
        async with asyncio.timeout(100), asyncio.TaskGroup() as group:
            run = group.create_task(stage.run(wait_for_decisions=True))
            await stage.sink.until(RunFinish, 1)
            assert await stage.decide(("c2", YES))
            await stage.sink.until(RunFinish, 2)
            after_first()
            waiting = (await stage.record()).waiting
            assert waiting is not None
            assert [t.tool_call_id for t in waiting.tickets] == ["c1"]
            assert await stage.decide(("c1", YES))
        assert run.result().termination == NATURAL_END
    else:
        await stage.run()
        partly = await stage.resume(("c2", YES))
        assert isinstance(partly.termination, Suspended)
        assert [t.tool_call_id for t in partly.tickets] == ["c1"]
        after_first()
        assert (await stage.resume(("c1", YES))).termination == NATURAL_END
        return
    assert_event_order(stage.sink.events())


@pytest.mark.parametrize("executor", PARALLEL)
async def test_yes_and_no_in_one_batch(executor: ToolExecutorKind) -> None:
    """02 §5.8: refused calls first, then the approved ones; both told."""
    launcher = Launcher()
    model = CheckedModel(launcher.calls(1, 2), "one up")
    stage = Stage(Agent("a", model=model, tools=[launcher.tool], tool_executor=executor))
    await stage.run()

    result = await stage.resume(("c1", YES), ("c2", NO))

    assert result.response == "one up"
    assert launcher.ran == [1]
    assert [r.target_id for r in stage.told(ToolCallResumed)] == ["c2", "c1"]
    assert [m.text() for m in model.requests[1] if m.role is Role.TOOL] == [
        "up at 1",
        "Denied: 'launch' was not approved",
    ]
    ledger = await stage.store.load_calls(result.run_id)
    assert [(e.call_id, e.phase.value) for e in ledger] == [("c1", "succeeded"), ("c2", "failed")]


async def test_replays_are_on_record_before_they_begin_and_as_they_end() -> None:
    """02/8.12, 01/D-16: a crash between two approved calls repeats neither."""
    launcher = Launcher()
    store = CountingCommits()
    model = CheckedModel(launcher.calls(1, 2), "both up")
    stage = Stage(Agent("a", model=model, tools=[launcher.tool]), store=store)
    await stage.run()
    before = len(store.made)

    await stage.resume(("c1", YES), ("c2", YES))

    made = [[(e.call_id, e.phase.value) for e in c.calls] for c in store.made[before:] if c.calls]
    assert made == [
        [("c1", "intent"), ("c2", "intent")],
        [("c1", "succeeded"), ("c2", "succeeded")],
    ]


class Pair:
    """A tool that has to be approved, and whose calls wait for each other."""

    def __init__(self, *, sequential: bool = False) -> None:
        self.running = self.most = 0
        both = asyncio.Event()

        @tool(needs_approval=True, sequential=sequential)
        async def lift(side: str) -> str:
            self.running += 1
            self.most = max(self.most, self.running)
            if self.running == 2 or sequential:
                both.set()
            await both.wait()
            if side == "left":
                await asyncio.sleep(0)  # the second one ends first
            self.running -= 1
            return f"{side} is up"

        self.tool = lift

    def calls(self) -> StreamResult:
        sides = ("left", "right")
        return tool_calls_response("", *[("lift", side, {"side": side}) for side in sides])


async def test_approved_calls_run_side_by_side_as_others_do() -> None:
    """The model sees their results in the order it made them, however they end."""
    pair = Pair()
    model = CheckedModel(pair.calls(), "up")
    stage = Stage(Agent("a", model=model, tools=[pair.tool]))
    await stage.run()

    async with asyncio.timeout(100):
        result = await stage.resume(("left", YES), ("right", YES))

    assert result.response == "up"
    assert pair.most == 2
    shown = [message.text() for message in model.requests[-1] if message.role is Role.TOOL]
    assert shown == ["left is up", "right is up"]


async def test_approved_calls_run_one_by_one_where_others_do() -> None:
    pair = Pair(sequential=True)
    stage = Stage(Agent("a", model=CheckedModel(pair.calls(), "up"), tools=[pair.tool]))
    await stage.run()

    result = await stage.resume(("left", YES), ("right", YES))

    assert result.response == "up"
    assert pair.most == 1


async def test_a_resumed_result_belongs_to_the_step_of_its_call() -> None:
    """02/8.5: attribution does not depend on when the answer came."""
    launcher = Launcher()

    @tool
    async def look() -> str:
        return "seen"

    model = CheckedModel(tool_call_response("", "look", "c0", {}), launcher.calls(1), "done")
    stage = Stage(Agent("a", model=model, tools=[launcher.tool, look]))
    await stage.run()

    await stage.resume(("c1", YES))

    steps = [(m.text(), m.metadata.step_index) for m in await stage.log() if m.metadata]
    assert steps == [("", 0), ("seen", 0), ("", 1), ("up at 1", 1), ("done", 2)]


# -- answers that do not fit ------------------------------------------------------------------


@pytest.mark.parametrize("live", [False, True], ids=["later", "live"])
async def test_an_answer_to_nothing_is_refused_and_changes_nothing(live: bool) -> None:
    """01/A-11, 01/D-15: error, or false at the live door; the real suspended call is intact."""
    launcher = Launcher()
    model = CheckedModel(launcher.calls(1), "up")
    stage = Stage(Agent("a", model=model, tools=[launcher.tool]))

    if live:
        async with asyncio.timeout(100), asyncio.TaskGroup() as group:
            run = group.create_task(stage.run(wait_for_decisions=True))
            await stage.sink.until(RunFinish)
            before = await stage.record()
            assert await stage.decide(("ghost", YES)) is False
            assert await stage.decide(("c1", YES), ("ghost", YES)) is False
            assert await stage.record() == before
            assert await stage.decide(("c1", YES))
        assert run.result().termination == NATURAL_END
    else:
        await stage.run()
        before, log = await stage.record(), await stage.log()
        for decisions in ([("ghost", YES)], [("c1", YES), ("ghost", YES)]):
            with pytest.raises(InvalidResume, match="ghost"):
                await stage.resume(*decisions)
        assert (await stage.record(), await stage.log()) == (before, log)
        assert (await stage.resume(("c1", YES))).termination == NATURAL_END

    assert launcher.ran == [1]


async def test_an_answer_to_a_call_that_is_done_is_refused() -> None:
    """Design §4: answered once; a stale answer changes nothing."""
    launcher = Launcher()
    model = CheckedModel(launcher.calls(1, 2), "both up")
    stage = Stage(Agent("a", model=model, tools=[launcher.tool]))
    await stage.run()
    await stage.resume(("c1", YES))
    before = await stage.record()

    with pytest.raises(InvalidResume, match=r"c1.*was (approved|denied) .* by "):
        await stage.resume(("c1", NO))

    assert await stage.record() == before
    assert launcher.ran == [1]


async def test_a_repeated_decision_is_ignored() -> None:
    """01/D-15: the same decision id twice is one answer, in one batch or in two."""
    launcher = Launcher()
    model = CheckedModel(launcher.calls(1, 2), "both up")
    executor = ToolExecutorKind.PARALLEL_BATCH_APPROVAL
    stage = Stage(Agent("a", model=model, tools=[launcher.tool], tool_executor=executor))
    await stage.run()
    once = ToolCallResume.approve(id="d-1")

    again = await stage.resume(("c1", once), ("c1", once))
    assert isinstance(again.termination, Suspended)
    await stage.resume(("c1", once))
    result = await stage.resume(("c1", once), ("c2", YES))

    assert result.response == "both up"
    assert launcher.ran == [1, 2]


async def test_two_live_answers_to_one_call_count_once() -> None:
    """01/D-15: both fit when they came; the first counts, and the other does not spoil it."""
    launcher = Launcher()
    model = CheckedModel(launcher.calls(1), "up")
    stage = Stage(Agent("a", model=model, tools=[launcher.tool]))

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        run = group.create_task(stage.run(wait_for_decisions=True))
        await stage.sink.until(RunFinish)
        assert await stage.decide(("c1", YES))
        await stage.decide(("approval_c1", NO))

    assert run.result().response == "up"
    assert launcher.ran == [1]


async def test_a_decision_while_the_run_is_busy_is_refused() -> None:
    """01/D-15: it must not wait in a queue and hit the next suspension."""
    launcher = Launcher()
    refused: list[bool] = []

    @tool
    async def look() -> str:
        refused.append(not await stage.decide(("c1", YES)))
        refused.append(not await stage.decide(("c0", YES)))
        return "seen"

    model = CheckedModel(tool_call_response("", "look", "c0", {}), launcher.calls(1), "up")
    stage = Stage(Agent("a", model=model, tools=[look, launcher.tool]))

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        run = group.create_task(stage.run(wait_for_decisions=True))
        await stage.sink.until(RunFinish)
        assert refused == [True, True]
        assert launcher.ran == []
        await stage.decide(("c1", YES))

    assert run.result().response == "up"


async def test_a_call_can_be_decided_while_its_neighbour_still_runs() -> None:
    """02 §5.8: the ticket is there as soon as the call waits; its answer is taken up in time."""
    launcher = Launcher()
    begun, go = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        begun.set()
        await go.wait()
        return "waited"

    model = CheckedModel(
        tool_calls_response("", ("launch", "c1", {"speed": 1}), ("wait", "c2", {})), "done"
    )
    stage = Stage(Agent("a", model=model, tools=[launcher.tool, wait]))

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        run = group.create_task(stage.run(wait_for_decisions=True))
        await begun.wait()
        await stage.sink.until(ToolCallDone)
        assert await stage.decide(("c1", YES))
        assert launcher.ran == []
        go.set()

    assert run.result().response == "done"
    assert launcher.ran == [1]
    assert_event_order(stage.sink.events())


# -- across processes -------------------------------------------------------------------------


async def test_another_process_takes_the_run_up() -> None:
    """02/8.8, 01/D-10: same run, counters go on, and the model sees one conversation."""
    store = MemoryStore()
    first_launcher, second_launcher = Launcher(), Launcher()
    model = CheckedModel(first_launcher.calls(5))
    first = Stage(Agent("a", model=model, tools=[first_launcher.tool], max_rounds=2), store=store)
    suspended = await first.run("go")

    model = CheckedModel("up", "next")
    second = Stage(Agent("a", model=model, tools=[second_launcher.tool], max_rounds=2), store=store)
    result = await second.resume(("approval_c5", YES), agent_id=None)

    assert result.run_id == suspended.run_id
    assert (result.response, result.steps) == ("up", 2)
    assert (first_launcher.ran, second_launcher.ran) == ([], [5])
    assert [m.text() for m in model.requests[0]] == ["go", "", "up at 5"]
    assert [type(e) for e in second.events][:3] == [RunStart, ToolCallResumed, StepStart]
    assert_event_order(second.sink.events())
    after = await second.run("more")
    assert after.run_id != result.run_id


async def test_a_resume_is_told_before_anything_of_it_happens() -> None:
    """02 §5.11: RunStart, then what the resumed tool says, then ToolCallResumed; durable first."""

    @tool(needs_approval=True)
    async def chatty(ctx: ToolCallContext) -> str:
        record = await stage.store.latest_run(THREAD)
        assert record is not None
        statuses.append(record.status)
        await ctx.stream_output("on my way")
        return "there"

    statuses: list[RunStatus] = []
    model = CheckedModel(tool_call_response("", "chatty", "c1", {}), "done")
    stage = Stage(Agent("a", model=model, tools=[chatty]))

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(stage.run(wait_for_decisions=True))
        await stage.sink.until(RunFinish)
        await stage.decide(("c1", YES))

    kinds = [type(e) for e in stage.events]
    pause = kinds.index(RunFinish)
    assert kinds[pause + 1 : pause + 4] == [RunStart, ToolCallStreamDelta, ToolCallResumed]
    assert statuses == [RunStatus.RUNNING], "the record says so before the tool runs"
    assert_event_order(stage.sink.events())


async def test_a_continuation_without_an_answer_waits_on() -> None:
    """02 §5.8: taking the run up without a decision changes nothing about what it waits for."""
    launcher = Launcher()
    model = CheckedModel(launcher.calls(1), "up")
    stage = Stage(Agent("a", model=model, tools=[launcher.tool]))
    first = await stage.run()

    internal = Message.internal_user("the light is green")
    second = await stage.run(None, messages=(internal,), continue_run_id=first.run_id)

    assert isinstance(second.termination, Suspended)
    assert [t.tool_call_id for t in second.tickets] == ["c1"]
    assert model.calls == 1
    await stage.resume(("c1", YES))
    assert [m.role for m in model.requests[1]] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.USER]


async def test_a_message_may_come_with_the_answer() -> None:
    """01 §6.3: with decisions nothing is superseded; the message stands behind the result."""
    launcher = Launcher()
    model = CheckedModel(launcher.calls(1), "both done")
    stage = Stage(Agent("a", model=model, tools=[launcher.tool]))
    await stage.run("go")

    result = await stage.run("and be careful", decisions=(("c1", YES),))

    assert result.response == "both done"
    assert launcher.ran == [1]
    assert [m.text() for m in model.requests[1]] == ["go", "", "up at 1", "and be careful"]


async def test_the_result_of_a_denied_decision_is_told() -> None:
    """02 §5.8: ToolCallResumed carries the decision's result, or null."""
    launcher = Launcher()
    model = CheckedModel(launcher.calls(1, 2), "grounded")
    stage = Stage(Agent("a", model=model, tools=[launcher.tool]))
    await stage.run()
    no_with_data = ToolCallResume(action=ResumeAction.CANCEL, result={"wind": 9})

    await stage.resume(("c1", no_with_data), ("c2", ToolCallResume.deny("bad weather")))

    assert [(r.target_id, r.result) for r in stage.told(ToolCallResumed)] == [
        ("c1", {"wind": 9}),
        ("c2", None),
    ]
    assert "Denied: bad weather" in await stage.results()


# -- front-end tools --------------------------------------------------------------------------

PICK = ToolDescriptor(
    id="pick",
    name="pick",
    description="Let the user pick a colour.",
    parameters={"type": "object", "properties": {"from": {"type": "array"}}},
)


async def test_a_front_end_tool_goes_out_and_comes_back() -> None:
    """02 §5.8, 01/C-18: the call waits for the client; its answer is the result, verbatim."""
    model = CheckedModel(tool_call_response("", "pick", "c1", {"from": ["red"]}), "red it is")
    stage = Stage(Agent("a", model=model))

    first = await stage.run(frontend_tools=(PICK,))
    second = await stage.resume(
        ("c1", ToolCallResume.approve({"colour": "red"})), frontend_tools=(PICK,)
    )

    (ticket,) = first.tickets
    assert ticket.ticket_id == "suspend_c1"
    assert ticket.arguments == {"from": ["red"]}
    assert ticket.reason == "tool:pick"
    assert ticket.resume_mode is ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT
    (done,) = stage.told(ToolCallDone)
    assert done.result.suspension is not None
    assert done.result.suspension.suspension.parameters == {"from": ["red"]}
    assert second.response == "red it is"
    assert await stage.results() == ['{"colour":"red"}']
    assert [r.result for r in stage.told(ToolCallResumed)] == [{"colour": "red"}]
    assert [d.id for d in model.asked[0].tools] == ["pick"]


async def test_a_front_end_answer_needs_no_descriptor_to_be_taken() -> None:
    """The decision stands for the result, so a client need not describe its tool again."""
    model = CheckedModel(tool_call_response("", "pick", "c1", {}), "thanks")
    stage = Stage(Agent("a", model=model))
    await stage.run(frontend_tools=(PICK,))

    result = await stage.resume(("c1", ToolCallResume.approve("blue")))

    assert result.response == "thanks"
    assert await stage.results() == ["blue"]


async def test_a_front_end_tool_may_not_hide_an_agents_own() -> None:
    """01/D-22: a conflict is an error before anything happens."""

    @tool
    async def pick() -> str:
        return "mine"

    stage = Stage(Agent("a", model=CheckedModel("hello"), tools=[pick]))

    with pytest.raises(ToolIdConflict, match="'pick'"):
        await stage.run(frontend_tools=(PICK,))

    assert stage.events == []
    assert await stage.store.load_thread(THREAD) is None
    assert (await stage.run()).response == "hello"


# -- superseding ------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", PARALLEL)
async def test_a_superseded_call_never_runs_again(executor: ToolExecutorKind) -> None:
    """02/L13, design §8: the mark is durable, so no later answer and no later run finds it."""
    launcher = Launcher()
    model = CheckedModel(launcher.calls(1), "never mind", "still here")
    stage = Stage(Agent("a", model=model, tools=[launcher.tool], tool_executor=executor))
    await stage.run()
    await stage.run("never mind")

    with pytest.raises((PhaseError, InvalidResume)):
        await stage.resume(("c1", YES))
    result = await stage.run("are you there?")

    assert result.response == "still here"
    assert launcher.ran == []
    assert [m.text() for m in model.requests[2]] == [
        "hi",
        "never mind",
        "never mind",
        "are you there?",
    ]


async def test_a_tool_that_waits_without_a_ticket_is_named_by_its_call() -> None:
    """02/C2 through the loop: a bare pending result is a ticket all the same."""

    @tool
    async def later() -> ToolResult:
        return ToolResult.suspended("later", "come back")

    model = CheckedModel(tool_call_response("", "later", "c1", {}), "back")
    stage = Stage(Agent("a", model=model, tools=[later]))

    result = await stage.run()

    assert [(t.ticket_id, t.reason) for t in result.tickets] == [("c1", None)]
    denied = await stage.resume(("c1", NO))
    assert denied.response == "back"
