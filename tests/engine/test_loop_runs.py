"""The loop's must-holds, one after another (02 §5.12)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from loop_stage import (
    THREAD,
    CheckedModel,
    Stage,
    TestPlugin,
    WatchedCommits,
    assert_event_order,
)

from awaken import (
    Agent,
    Block,
    Command,
    Done,
    InferenceOverride,
    PhaseContext,
    Registrar,
    Scope,
    SetResult,
    StateKey,
    Suspend,
    SuspendTicket,
    ToolCallContext,
    ToolCallResume,
    ToolOutput,
    ToolResult,
    tool,
)
from awaken.backend import ThreadContextSnapshot
from awaken.core.event import (
    InferenceComplete,
    NullEventSink,
    RunFinish,
    RunStart,
    StepEnd,
    StepStart,
    StreamReset,
    TextDelta,
    ToolCallDone,
    ToolCallResumed,
)
from awaken.core.identity import Adapter, RequestOrigin, RunIdentity, RunMode
from awaken.core.inbox import inbox_channel
from awaken.core.inference import StopReason, StreamResult
from awaken.core.intercept import Deny, ToolPolicyContext, ToolPolicyDecision
from awaken.core.lifecycle import (
    CANCELLED,
    NATURAL_END,
    Blocked,
    Failed,
    Phase,
    RunStatus,
    Stopped,
    StoppedReason,
    Suspended,
)
from awaken.core.llm import ContentFiltered
from awaken.core.message import Role
from awaken.core.run import WaitingReason
from awaken.core.spec import ToolExecutorKind
from awaken.core.state.call_keys import TOOL_CALL_STATES, PutCall, ToolCallState
from awaken.core.state.run_keys import PENDING_WORK, RUN_LIFECYCLE, SetPending
from awaken.core.state.store import StateStore
from awaken.core.suspension import (
    Suspension,
    ToolCallOutcome,
    ToolCallResumeMode,
    ToolCallStatus,
)
from awaken.engine import LoopStatePlugin, prepare_resume
from awaken.engine.live_run import LiveRun
from awaken.engine.phases import PhaseRuntime
from awaken.engine.run_setup import FirstCommit, RunControls, RunServices, RunSetup
from awaken.engine.step_calls import StepCalls
from awaken.engine.tool_calls import groups
from awaken.errors import InferenceFailed
from awaken.plugin.env import install_plugin
from awaken.plugin.resolved_agent import ResolvedAgent
from awaken.testing import (
    EchoTool,
    ScriptedModel,
    max_tokens_response,
    text_response,
    tool_call_response,
    tool_calls_response,
)

pytestmark = pytest.mark.anyio

INTERRUPTED = "[Tool execution was interrupted]"


@tool
async def look() -> str:
    """Look around."""
    return "seen"


@tool(needs_approval=True)
async def launch(speed: int = 1) -> str:
    """Launch, if somebody agrees."""
    return f"up at {speed}"


# -- ends -------------------------------------------------------------------------------------


async def test_text_only() -> None:
    """02/L1: one of each border; natural end; done for the reason natural."""
    stage = Stage(Agent("a", model=CheckedModel("hello")))

    result = await stage.run()

    assert result.termination == NATURAL_END
    assert (result.response, result.steps) == ("hello", 1)
    for border in (RunStart, StepStart, StepEnd, RunFinish):
        assert len(stage.told(border)) == 1
    assert_event_order(stage.sink.events())
    record = await stage.record()
    assert record.status is RunStatus.DONE
    assert record.termination_reason == NATURAL_END
    assert stage.told(RunFinish)[0].result == {
        "response": "hello",
        "status": "done",
        "status_reason": "natural",
    }
    lifecycle = await stage.state(RUN_LIFECYCLE)
    assert (lifecycle["status"], lifecycle["status_reason"]) == ("done", "natural")


async def test_tool_then_text() -> None:
    """02/L2: two steps; the call is done before the second step starts."""
    model = CheckedModel(tool_call_response("", "look", "c1", {}), "I saw it")
    stage = Stage(Agent("a", model=model, tools=[look]))

    result = await stage.run()

    assert (result.response, result.steps) == ("I saw it", 2)
    kinds = [type(event) for event in stage.events]
    second_step = [i for i, kind in enumerate(kinds) if kind is StepStart][1]
    assert kinds.index(ToolCallDone) < second_step
    assert_event_order(stage.sink.events())


async def test_text_in_the_last_round_is_a_natural_end() -> None:
    """02/L3: by 01 §7 OURS a text-only answer in round N ends the run naturally."""
    stage = Stage(Agent("a", model=CheckedModel("hello"), max_rounds=1))

    result = await stage.run()

    assert result.termination == NATURAL_END
    assert (await stage.texts())[-1] == ("assistant", "hello")


async def test_tools_in_the_last_round_stop_the_run() -> None:
    """02/L3: the tools are not run, the text is kept, and StepEnd comes before RunFinish."""
    ran: list[str] = []

    @tool
    async def mark() -> str:
        ran.append("mark")
        return "marked"

    model = CheckedModel(tool_call_response("let me", "mark", "c1", {}))
    stage = Stage(Agent("a", model=model, tools=[mark], max_rounds=1))

    result = await stage.run()

    assert isinstance(result.termination, Stopped)
    assert result.termination.value.code == "max_rounds"
    assert ran == []
    assert result.response == "let me"
    assert [type(e) for e in stage.events][-2:] == [StepEnd, RunFinish]
    assert_event_order(stage.sink.events())
    (_, assistant) = await stage.log()
    assert (assistant.text(), assistant.tool_calls) == ("let me", None)


async def test_an_inference_error_closes_everything_before_it_is_raised() -> None:
    """02/L4: by 02/8.9 StepEnd and one RunFinish(error) come before the raise."""
    stage = Stage(Agent("a", model=CheckedModel(ValueError("no network"))))

    with pytest.raises(InferenceFailed, match="inference failed: no network"):
        await stage.run()

    kinds = [type(event) for event in stage.events]
    assert kinds[0] is RunStart
    assert kinds[-2:] == [StepEnd, RunFinish]
    assert kinds.count(RunFinish) == 1
    assert stage.told(RunFinish)[0].termination == Failed(value="inference failed: no network")
    assert_event_order(stage.sink.events())


# -- gates ------------------------------------------------------------------------------------

UNLOCKED: StateKey[bool, bool] = StateKey("test.unlocked", initial=bool)


class Lock:
    """A tool that unlocks, one that is guarded, and a gate between them; counts what happens."""

    id = "lock"

    def __init__(self) -> None:
        self.gated: list[str] = []
        self.before: list[str] = []
        self.ran: list[str] = []

    def register(self, registrar: Registrar) -> None:
        registrar.key(UNLOCKED)
        registrar.gate(self.gate)
        registrar.hook(Phase.BEFORE_TOOL_EXECUTE, self.note)

        @tool
        async def unlock() -> ToolOutput:
            self.ran.append("unlock")
            return ToolOutput(
                ToolResult.success_with_message("unlock", None, "open"),
                Command().update(UNLOCKED, True),
            )

        @tool
        async def guarded() -> str:
            self.ran.append("guarded")
            return "in"

        registrar.tool(unlock)
        registrar.tool(guarded)

    async def gate(self, ctx: PhaseContext) -> Block | None:
        assert ctx.tool_name is not None
        self.gated.append(ctx.tool_name)
        if ctx.tool_name == "guarded" and not ctx.read(UNLOCKED):
            return Block(reason="locked")
        return None

    async def note(self, ctx: PhaseContext) -> None:
        assert ctx.tool_name is not None
        self.before.append(ctx.tool_name)


EXECUTORS = list(ToolExecutorKind)


@pytest.mark.parametrize("executor", EXECUTORS)
async def test_a_gate_is_asked_again_after_what_ran_before(executor: ToolExecutorKind) -> None:
    """02/L5, 01/P-16: unlock then guarded in one batch: both succeed."""
    lock = Lock()
    model = CheckedModel(
        tool_calls_response("", ("unlock", "c1", {}), ("guarded", "c2", {})), "inside"
    )
    stage = Stage(Agent("a", model=model, plugins=[lock], tool_executor=executor))

    result = await stage.run()

    assert result.termination == NATURAL_END
    assert lock.ran == ["unlock", "guarded"]
    assert lock.gated == ["unlock", "guarded", "guarded"]
    assert lock.before == ["unlock", "guarded"], "each before-hook once"
    assert await stage.results() == ["open", "in"]


@pytest.mark.parametrize("executor", EXECUTORS)
async def test_a_block_ends_the_run_and_closes_every_call(executor: ToolExecutorKind) -> None:
    """02/L5: guarded then unlock: blocked, neither runs, denied and failed in call order."""
    lock = Lock()
    model = CheckedModel(
        tool_calls_response("", ("guarded", "c1", {}), ("unlock", "c2", {})), "goes on"
    )
    stage = Stage(Agent("a", model=model, plugins=[lock], tool_executor=executor))

    result = await stage.run()

    assert result.termination == Blocked(value="locked")
    assert lock.ran == []
    assert [(d.id, d.outcome) for d in stage.told(ToolCallDone)] == [
        ("c1", ToolCallOutcome.DENIED),
        ("c2", ToolCallOutcome.FAILED),
    ]
    assert await stage.results() == ["locked", INTERRUPTED]
    assert stage.told(ToolCallDone)[0].result.metadata == {"rejected": True}
    assert stage.told(RunFinish)[0].result["status_reason"] == "blocked:locked"
    assert_event_order(stage.sink.events())
    assert (await stage.run("again")).response == "goes on", "the transcript is still valid"


@pytest.mark.parametrize("executor", EXECUTORS)
async def test_a_suspension_during_a_flush_interrupts_the_rest(executor: ToolExecutorKind) -> None:
    """02/L6: c1 suspended, c2 and c3 failed with the interrupted text, no before-hooks for them."""
    before: list[str | None] = []

    async def note(ctx: PhaseContext) -> None:
        before.append(ctx.tool_call_id)

    async def block_second(ctx: PhaseContext) -> Block | None:
        return Block(reason="no") if ctx.tool_call_id == "c2" else None

    plugin = TestPlugin({Phase.BEFORE_TOOL_EXECUTE: note}, gates=[block_second])
    model = CheckedModel(
        tool_calls_response("", ("launch", "c1", {}), ("look", "c2", {}), ("look", "c3", {})),
        "fine",
    )
    stage = Stage(
        Agent("a", model=model, tools=[look, launch], plugins=[plugin], tool_executor=executor)
    )

    result = await stage.run()

    assert isinstance(result.termination, Suspended)
    assert [(d.id, d.outcome) for d in stage.told(ToolCallDone)] == [
        ("c1", ToolCallOutcome.SUSPENDED),
        ("c2", ToolCallOutcome.FAILED),
        ("c3", ToolCallOutcome.FAILED),
    ]
    assert before == ["c1"]
    assert await stage.results() == [INTERRUPTED, INTERRUPTED]
    second = await stage.resume(("c1", ToolCallResume.approve()))
    assert second.response == "fine"


def ticket(id: str, mode: ToolCallResumeMode = ToolCallResumeMode.REPLAY_TOOL_CALL) -> Suspend:
    return Suspend(
        ticket=SuspendTicket(suspension=Suspension(id=id, action="approve"), resume_mode=mode)
    )


@pytest.mark.parametrize("executor", EXECUTORS)
async def test_a_call_the_gate_holds_does_not_stop_the_others(executor: ToolExecutorKind) -> None:
    """02 §5.6: after a gate's suspension the next call goes on, flushes included."""

    async def gate(ctx: PhaseContext) -> Suspend | SetResult | None:
        if ctx.resume_input is not None:
            return None
        if ctx.tool_call_id == "c1":
            return ticket("s1")
        if ctx.tool_call_id == "c4":
            return SetResult(result=ToolResult.success("look", "known"))
        return None

    model = CheckedModel(tool_calls_response("", *[("look", f"c{n}", {}) for n in range(1, 6)]))
    stage = Stage(
        Agent(
            "a",
            model=model,
            tools=[look],
            plugins=[TestPlugin(gates=[gate])],
            tool_executor=executor,
        )
    )

    await stage.run()

    assert [(d.id, d.outcome.value) for d in stage.told(ToolCallDone)] == [
        ("c1", "suspended"),
        ("c2", "succeeded"),
        ("c3", "succeeded"),
        ("c4", "succeeded"),
        ("c5", "succeeded"),
    ]


# -- resuming ---------------------------------------------------------------------------------


def test_a_resuming_call_runs_between_its_neighbours() -> None:
    """02/L7: five calls, the third resuming: [c1,c2],[c3],[c4,c5]."""
    store = StateStore()
    install_plugin(store, LoopStatePlugin())
    agent = ResolvedAgent.new("a", "m", "", ScriptedModel([])).with_tool(EchoTool())
    identity = RunIdentity(thread_id="t", run_id="r", agent_id="a")
    resolver = NoResolver()
    setup = RunSetup(
        identity=identity,
        sink=NullEventSink(),
        services=RunServices(resolver=resolver),
        controls=RunControls(),
        thread=ThreadContextSnapshot(),
        first_commit=FirstCommit(),
    )
    run = LiveRun(agent, PhaseRuntime(store), setup)
    calls = tool_calls_response("", *[("echo", f"c{n}", {}) for n in range(1, 6)]).tool_calls
    state = ToolCallState(
        call_id="c3", tool_name="echo", arguments={}, status=ToolCallStatus.RESUMING
    )

    made = groups(run, StepCalls("m-1", calls, {2: state}), range(5))

    assert made == [[0, 1], [2], [3, 4]]


class NoResolver:
    """Knows nobody."""

    def resolve(self, agent_id: str) -> Any:
        raise AssertionError("nobody is asked for")

    def resolve_execution(self, agent_id: str) -> Any:
        raise AssertionError("nobody is asked for")

    def agent_ids(self) -> list[str]:
        return []


async def test_a_finished_resume_leaves_nothing_behind() -> None:
    """02/L7: decision and suspension are cleared, and no message with calls is added."""
    five = [("look", "c1", {}), ("look", "c2", {}), ("launch", "c3", {"speed": 3})]
    five += [("look", "c4", {}), ("look", "c5", {})]
    states: list[ToolCallState] = []

    async def peek(ctx: PhaseContext) -> None:
        if calls := ctx.read(TOOL_CALL_STATES):
            states.extend(calls.calls.values())

    model = CheckedModel(tool_calls_response("", *five), "all done")
    agent = Agent(
        "a", model=model, tools=[look, launch], plugins=[TestPlugin({Phase.RUN_START: peek})]
    )
    stage = Stage(agent)
    await stage.run()

    result = await stage.resume(("c3", ToolCallResume.approve(id="d-1")))

    assert result.response == "all done"
    (third,) = [state for state in states if state.call_id == "c3"]
    assert third.status is ToolCallStatus.SUCCEEDED
    assert (third.resume_input, third.suspension_id, third.suspension_reason) == (None,) * 3
    assert third.arguments == {"speed": 3}
    log = await stage.log()
    assert sum(bool(m.tool_calls) for m in log) == 1
    # The model reads the late result in its call's place.
    assert [m.text() for m in model.requests[1][2:]] == ["seen", "seen", "up at 3", "seen", "seen"]


async def test_a_refused_call_is_told_once() -> None:
    """02/L8: one ToolCallResumed and one tool message, however often the run is taken up."""
    model = CheckedModel(
        tool_calls_response("", ("launch", "c1", {}), ("launch", "c2", {}), ("launch", "c3", {})),
        "two of three",
    )
    stage = Stage(Agent("a", model=model, tools=[launch]))
    await stage.run()

    await stage.resume(("c1", ToolCallResume.deny("too fast")))
    await stage.resume(("c2", ToolCallResume.approve()))
    result = await stage.resume(("c3", ToolCallResume.approve()))

    assert result.response == "two of three"
    assert [r.target_id for r in stage.told(ToolCallResumed)] == ["c1", "c2", "c3"]
    log = await stage.log()
    assert [m.text() for m in log if m.tool_call_id == "c1"] == ["Denied: too fast"]


def test_an_answer_may_name_the_suspension_and_leaves_the_arguments() -> None:
    """02/L9: by suspension id; the whole decision is kept, the arguments are as they were."""
    store = StateStore()
    install_plugin(store, LoopStatePlugin())
    waiting = ToolCallState(
        call_id="c1",
        tool_name="launch",
        arguments={"speed": 3},
        status=ToolCallStatus.SUSPENDED,
        resume_mode=ToolCallResumeMode.PASS_DECISION_TO_TOOL,
    ).with_suspension("ticket-1", "approve")
    store.update(TOOL_CALL_STATES, PutCall(call=waiting))
    decision = ToolCallResume.approve({"speed": 9}, id="d-1")

    prepare_resume(store, [("ticket-1", decision)])

    states = store.read(TOOL_CALL_STATES)
    assert states is not None
    call = states.calls["c1"]
    assert call.status is ToolCallStatus.RESUMING
    assert call.arguments == {"speed": 3}
    assert call.resume_input == decision
    assert (call.suspension_id, call.resume_mode) == ("ticket-1", waiting.resume_mode)


async def test_a_live_yes_runs_the_call() -> None:
    """02/L10: the run waits, is answered, and ends naturally; the final data is told."""
    model = CheckedModel(tool_call_response("", "launch", "c1", {"speed": 2}), "up we are")
    stage = Stage(Agent("a", model=model, tools=[launch]))

    async with asyncio.TaskGroup() as group:
        run = group.create_task(stage.run(wait_for_decisions=True))
        await stage.sink.until(RunFinish)
        assert await stage.decide(("c1", ToolCallResume.approve()))

    assert run.result().termination == NATURAL_END
    assert [(r.target_id, r.result) for r in stage.told(ToolCallResumed)] == [("c1", "up at 2")]
    assert len(stage.told(RunStart)) == len(stage.told(RunFinish)) == 2
    assert_event_order(stage.sink.events())


async def test_a_live_no_goes_on_without_the_call() -> None:
    """02/L10: deny gives ToolCallResumed and a natural end; the model reads the reason."""
    model = CheckedModel(tool_call_response("", "launch", "c1", {}), "as you wish")
    stage = Stage(Agent("a", model=model, tools=[launch]))

    async with asyncio.TaskGroup() as group:
        run = group.create_task(stage.run(wait_for_decisions=True))
        await stage.sink.until(RunFinish)
        assert await stage.decide(("c1", ToolCallResume.deny("not today")))

    assert run.result().termination == NATURAL_END
    assert [r.target_id for r in stage.told(ToolCallResumed)] == ["c1"]
    assert model.requests[1][-1].text() == "Denied: not today"
    assert_event_order(stage.sink.events())


# -- background work --------------------------------------------------------------------------


async def test_an_event_while_suspended_waits_for_the_decision() -> None:
    """02/L11, 01/A-7: the model is not asked; the event is in the next request, asked once more."""
    model = CheckedModel(tool_call_response("", "launch", "c1", {}), "both heard")
    store = WatchedCommits()
    stage = Stage(Agent("a", model=model, tools=[launch]), store=store)
    sender, receiver = inbox_channel()

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        run = group.create_task(stage.run(wait_for_decisions=True, run_inbox=receiver))
        await stage.sink.until(RunFinish)
        assert sender.send({"kind": "completed", "task_id": "bg-1", "result": 7})
        await store.until_length(3)  # the event is kept at once
        assert model.calls == 1
        await stage.decide(("c1", ToolCallResume.approve()))

    assert run.result().response == "both heard"
    assert model.calls == 2
    request = model.requests[1]
    assert [m.role for m in request] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.USER]
    assert '<background-task-event kind="completed" task_id="bg-1">' in request[-1].text()


class Worker:
    """Says that work is under way until told it is not."""

    id = "worker"

    def __init__(self) -> None:
        self.working = True

    def register(self, registrar: Registrar) -> None:
        registrar.hook(Phase.STEP_END, self.note)

    async def note(self, _: PhaseContext) -> Command:
        return Command().update(PENDING_WORK, SetPending(pending=self.working, owner=self.id))


async def test_work_under_way_leaves_the_run_waiting() -> None:
    """02/L12: natural end, lifecycle waiting for tasks. The work is a test plugin's."""
    stage = Stage(Agent("a", model=CheckedModel("started"), plugins=[Worker()]))

    result = await stage.run()

    assert result.termination == NATURAL_END
    lifecycle = await stage.state(RUN_LIFECYCLE)
    assert (lifecycle["status"], lifecycle["status_reason"]) == ("waiting", "awaiting_tasks")
    assert (await stage.record()).waiting_reason() is WaitingReason.BACKGROUND_TASKS


async def test_a_subagent_returns_only_when_its_work_is_done() -> None:
    """02/L12: it waits for its inbox, reads what came, and goes on."""
    worker = Worker()
    model = CheckedModel("started", "finished")
    stage = Stage(Agent("a", model=model, plugins=[worker]))
    sender, receiver = inbox_channel()

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        run = group.create_task(stage.run(origin=RequestOrigin.A2A, run_inbox=receiver))
        await stage.sink.until(StepEnd)
        assert not run.done()
        worker.working = False
        sender.send({"kind": "completed", "task_id": "bg-1"})

    assert run.result().response == "finished"
    assert (await stage.record()).status is RunStatus.DONE
    assert "bg-1" in model.requests[1][-1].text()


async def test_a_subagent_whose_inbox_closes_is_cancelled() -> None:
    """02 §5.9: nobody is left to tell it that its work is done."""
    stage = Stage(Agent("a", model=CheckedModel("started"), plugins=[Worker()]))
    sender, receiver = inbox_channel()

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        run = group.create_task(stage.run(origin=RequestOrigin.A2A, run_inbox=receiver))
        await stage.sink.until(StepEnd)
        sender.close()

    assert run.result().termination == CANCELLED
    assert (await stage.record()).status is RunStatus.DONE


# -- what the model is shown ------------------------------------------------------------------


async def test_a_new_message_supersedes_a_suspended_call() -> None:
    """02/L13, 01/A-6: finished results stay; the suspended call is neither replayed nor shown.

    By 02/8.2 the raw log keeps everything; only the view hides.
    """
    ran: list[int] = []

    @tool(needs_approval=True)
    async def fire() -> str:
        ran.append(1)
        return "fired"

    model = CheckedModel(
        tool_calls_response("trying", ("look", "c1", {}), ("fire", "c2", {})), "never mind then"
    )
    stage = Stage(Agent("a", model=model, tools=[look, fire]))
    await stage.run("fire!")

    result = await stage.run("never mind")

    assert result.response == "never mind then"
    assert ran == []
    shown = model.requests[1]
    assert [(m.role.value, m.text()) for m in shown] == [
        ("user", "fire!"),
        ("assistant", "trying"),
        ("tool", "seen"),
        ("user", "never mind"),
    ]
    assert [call.id for call in shown[1].tool_calls or ()] == ["c1"]
    log = await stage.log()
    assert [call.id for call in log[1].tool_calls or ()] == ["c1", "c2"], "the log is raw"
    assert (await stage.record()).waiting is None


NOTES: StateKey[list[str], str] = StateKey(
    "test.notes",
    initial=list,
    apply=lambda notes, note: [*notes, note],
    scope=Scope.THREAD,
    type=list[str],
)


def note_tool(seen: dict[str, list[str]]) -> Any:
    @tool
    async def write(text: str, ctx: ToolCallContext) -> ToolOutput:
        before = ctx.state(NOTES)
        seen[text] = before or []
        return ToolOutput(ToolResult.success("write", text), Command().update(NOTES, text))

    return write


async def test_sequential_tools_see_each_others_state() -> None:
    """02/L14: the second tool sees the first one's write."""
    seen: dict[str, list[str]] = {}
    model = CheckedModel(
        tool_calls_response("", ("write", "c1", {"text": "a"}), ("write", "c2", {"text": "b"})),
        "noted",
    )
    agent = Agent("a", model=model, tools=[note_tool(seen)], state=[NOTES], sequential=True)
    stage = Stage(agent)

    await stage.run()

    assert seen == {"a": [], "b": ["a"]}
    assert await stage.state(NOTES) == ["a", "b"]


async def test_a_run_suspended_without_a_channel_ends_as_waiting() -> None:
    """02/L15: the last RunFinish says waiting, suspended. (Cancelling: test_loop_cancelling.)"""
    model = CheckedModel(tool_call_response("", "launch", "c1", {}))
    stage = Stage(Agent("a", model=model, tools=[launch]))

    result = await stage.run()

    assert isinstance(result.termination, Suspended)
    finish = stage.told(RunFinish)[-1]
    assert isinstance(finish.termination, Suspended)
    assert finish.result == {"response": "", "status": "waiting", "status_reason": "suspended"}
    assert [t.ticket_id for t in result.tickets] == ["approval_c1"]
    assert_event_order(stage.sink.events())


async def test_the_response_is_this_runs_last_answer() -> None:
    """02/L16: tool messages and whatever was said before the run's input do not count."""
    # An empty answer is asked for once more.
    empty = [text_response(""), text_response("")]
    model = CheckedModel("first answer", tool_call_response("", "look", "c1", {}), *empty)
    stage = Stage(Agent("a", model=model, tools=[look]))
    await stage.run("one")

    result = await stage.run("two")

    assert result.response == ""
    assert (await stage.record()).final_output is None


# -- cut-off answers --------------------------------------------------------------------------


async def test_a_cut_off_answer_goes_on() -> None:
    """02/L17: the response is the last continuation's text; every piece is in the log."""
    model = CheckedModel(
        max_tokens_response("once upon "), max_tokens_response("a time "), "the end"
    )
    stage = Stage(Agent("a", model=model))

    result = await stage.run("a story")

    assert result.response == "the end"
    assert result.steps == 1
    said = [m.text() for m in await stage.log() if m.role is Role.ASSISTANT]
    assert said == ["once upon ", "a time ", "the end"]
    prompts = [m for m in model.requests[2] if m.role is Role.USER]
    assert len(prompts) == 3
    assert not any(m.is_visible_user() for m in prompts[1:])
    assert len(stage.told(InferenceComplete)) == 1
    assert_event_order(stage.sink.events())


async def test_an_override_of_the_model_lasts_over_continuations() -> None:
    """02/L17: the model override persists, and so do the tools offered (02/8.28)."""
    model = CheckedModel(max_tokens_response("half"), "whole")
    stage = Stage(Agent("a", model=model, tools=[look]))

    await stage.run(settings=InferenceOverride(upstream_model="bigger", max_tokens=9))

    assert [r.upstream_model for r in model.asked] == ["bigger", "bigger"]
    assert [[d.id for d in r.tools] for r in model.asked] == [["look"], ["look"]]
    assert [r.overrides and r.overrides.max_tokens for r in model.asked] == [9, 9]


async def test_cutting_off_has_a_budget() -> None:
    """02/L17: it gives up after `max_continuation_retries`; the last piece is the answer."""
    model = CheckedModel(*[max_tokens_response(f"piece {n}") for n in range(5)])
    stage = Stage(Agent("a", model=model, max_continuation_retries=2))

    result = await stage.run()

    assert model.calls == 3
    assert (result.response, result.termination) == ("piece 2", NATURAL_END)


async def test_an_object_that_was_cut_off_is_put_together() -> None:
    @dataclass
    class Place:
        city: str
        country: str

    model = CheckedModel(max_tokens_response('{"city": "Tai'), 'pei", "country": "Taiwan"}')
    stage = Stage(Agent("a", model=model, output=Place))

    result = await stage.run("where?")

    assert result.response == '{"city": "Taipei", "country": "Taiwan"}'
    assert model.calls == 2


async def test_a_call_cut_off_without_a_word_is_asked_for_again() -> None:
    """02 §5.5: incomplete calls alone are a truncation too, and leave no empty message behind."""
    cut = StreamResult(stop_reason=StopReason.MAX_TOKENS, has_incomplete_tool_calls=True)
    model = CheckedModel(cut, "shorter now")
    stage = Stage(Agent("a", model=model, tools=[look]))

    result = await stage.run()

    assert result.response == "shorter now"


async def test_what_a_filter_stopped_is_not_in_the_conversation() -> None:
    """Every question after it would be refused for it."""
    model = ScriptedModel([[TextDelta(delta="how to bui"), ContentFiltered("unsafe")], "hello"])
    stage = Stage(Agent("a", model=model))

    with pytest.raises(InferenceFailed, match="content filtered: unsafe"):
        await stage.run("go")
    result = await stage.run("something else")

    assert result.response == "hello"
    assert [m.text() for m in await stage.log()] == ["go", "something else", "hello"]
    assert [e.reason for e in stage.told(StreamReset)] == ["content filtered: unsafe"]


async def test_malformed_calls_are_told_to_the_model() -> None:
    """02 §5.4: calls that do not parse are not run; the good ones are; the model is told."""
    good = tool_call_response("", "look", "c1", {})
    half = StreamResult(
        tool_calls=good.tool_calls, stop_reason=StopReason.TOOL_USE, has_incomplete_tool_calls=True
    )
    none = StreamResult(stop_reason=StopReason.TOOL_USE, has_incomplete_tool_calls=True)
    model = CheckedModel(half, none, "got it")
    stage = Stage(Agent("a", model=model, tools=[look]))

    result = await stage.run()

    assert (result.response, result.steps) == ("got it", 3)
    assert await stage.results() == ["seen"]
    note = model.requests[1][-1]
    assert "not valid JSON" in note.text()
    assert not note.is_visible_user()
    assert "not valid JSON" in model.requests[2][-1].text()


async def test_arguments_that_do_not_fit_are_an_error_result() -> None:
    """02 §5.7: unknown tools and bad arguments are results, and the run goes on."""
    model = CheckedModel(
        tool_calls_response("", ("launch", "c1", {"speed": "very"}), ("nothing", "c2", {})), "sorry"
    )
    stage = Stage(Agent("a", model=model, tools=[launch]))

    result = await stage.run()

    assert result.response == "sorry"
    bad, unknown = await stage.results()
    assert bad.startswith("Invalid arguments: ")
    assert unknown == "tool 'nothing' not found; available: launch"


# -- policies ---------------------------------------------------------------------------------


class DenyEverything:
    """A policy that lets nothing pass, and keeps what it was told."""

    id = "deny"

    def __init__(self) -> None:
        self.asked: list[ToolPolicyContext] = []

    def register(self, registrar: Registrar) -> None:
        registrar.policy(self.decide)

    async def decide(self, call: ToolPolicyContext) -> ToolPolicyDecision:
        self.asked.append(call)
        return Deny(reason="not here")


async def test_policies_know_where_the_request_came_from() -> None:
    """02/L18, 01/P-15: run mode, adapter and thread reach the gate; a denied tool never runs."""
    ran: list[int] = []

    @tool
    async def read_file(path: str) -> str:
        ran.append(1)
        return path

    policy = DenyEverything()
    model = CheckedModel(tool_call_response("", "read_file", "c1", {"path": "/etc"}))
    stage = Stage(Agent("a", model=model, tools=[read_file], plugins=[policy]))

    result = await stage.run(
        run_mode=RunMode.SCHEDULED, adapter=Adapter.AG_UI, dispatch_id="d-1", run_id_hint="r-1"
    )

    assert result.termination == Blocked(value="not here")
    assert ran == []
    (asked,) = policy.asked
    assert (asked.thread_id, asked.run_id, asked.dispatch_id) == (THREAD, "r-1", "d-1")
    assert (asked.run_mode, asked.adapter) == (RunMode.SCHEDULED, Adapter.AG_UI)
    assert (asked.tool_name, asked.tool_kind.value) == ("read_file", "read")
    assert asked.arguments == {"path": "/etc"}


async def test_a_hook_ends_a_run_by_writing_its_end() -> None:
    """02 §3.7: done in the lifecycle is the end, with its structured reason (01/D-14)."""

    async def stop(_: PhaseContext) -> Command:
        reason = Stopped(value=StoppedReason(code="budget", detail="12 of 10"))
        return Command().update(RUN_LIFECYCLE, Done(reason="stopped:budget", termination=reason))

    model = CheckedModel(tool_call_response("so far", "look", "c1", {}))
    plugin = TestPlugin({Phase.STEP_END: stop})
    stage = Stage(Agent("a", model=model, tools=[look], plugins=[plugin]))

    result = await stage.run()

    assert result.termination == Stopped(value=StoppedReason(code="budget", detail="12 of 10"))
    assert (result.response, result.steps) == ("so far", 1)
    assert await stage.results() == ["seen"]
    record = await stage.record()
    assert record.termination_reason == result.termination
    assert record.steps == 1


async def test_ids_in_events_are_the_ids_in_the_log() -> None:
    """02/8.13, 01/D-17: the step's message and each result, as they are stored."""
    model = CheckedModel(tool_calls_response("", ("look", "c1", {}), ("look", "c2", {})), "done")
    stage = Stage(Agent("a", model=model, tools=[look]))

    await stage.run()

    log = await stage.log()
    assistants = [m.id for m in log if m.role is Role.ASSISTANT]
    assert [s.message_id for s in stage.told(StepStart)] == assistants
    results = [m.id for m in log if m.role is Role.TOOL]
    assert [d.message_id for d in stage.told(ToolCallDone)] == results
    assert len({m.id for m in log} - {None}) == len(log)
