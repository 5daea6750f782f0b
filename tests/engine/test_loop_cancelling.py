"""Cancelling a run, wherever it is (02 §5.10, 02/L15, 01/D-11)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from loop_stage import (
    THREAD,
    CheckedModel,
    Stage,
    TestPlugin,
    assert_event_order,
)

from awaken import Agent, PhaseContext, ToolCallContext, ToolCallResume, tool
from awaken.core.event import (
    InferenceComplete,
    ReasoningDelta,
    RunFinish,
    RunStart,
    StepStart,
    TextDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReady,
    ToolCallStart,
)
from awaken.core.lifecycle import CANCELLED, NATURAL_END, Phase, RunStatus, Suspended
from awaken.core.llm import LlmStreamEvent, ProviderError
from awaken.core.message import Message, Role, Text, Thinking
from awaken.core.store.commits import CallPhase
from awaken.core.store.threads import ThreadContext
from awaken.core.tool import ToolEffect
from awaken.engine.call_results import unknown_outcome
from awaken.errors import InvalidResume, PhaseError
from awaken.stores.memory import MemoryStore
from awaken.testing import FakeClock, tool_call_response, tool_calls_response

pytestmark = pytest.mark.anyio

CANCELLED_CALL = "Cancelled: the run was cancelled"


def open_end(tool_name: str) -> str:
    """What is said of a call that must run once, was begun, and has no outcome."""
    return unknown_outcome(tool_name, CANCELLED_CALL).model_text()


@tool
async def look() -> str:
    """Look around."""
    return "seen"


class Wait:
    """A tool that waits for ever, and tells when somebody called it."""

    def __init__(self, effect: ToolEffect = ToolEffect.ONCE) -> None:
        self.begun = asyncio.Event()
        self.calls = 0

        @tool(effect=effect)
        async def wait() -> str:
            self.calls += 1
            self.begun.set()
            await asyncio.Event().wait()
            return "never"

        self.tool = wait


async def cancel_at(stage: Stage, reached: asyncio.Event, **request: Any) -> Any:
    """Start a run, cancel it from outside when it got there, and give its result."""
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        task = group.create_task(stage.run(**request))
        await reached.wait()
        assert stage.engine.cancel(THREAD)
    return task.result()


async def assert_cancelled(stage: Stage) -> None:
    """What a cancelled run owes, and that its thread is as good as before."""
    assert_event_order(stage.sink.events())
    finish = stage.told(RunFinish)[-1]
    assert finish.termination == CANCELLED
    assert finish.result["status"] == "done"
    assert finish.result["status_reason"] == "cancelled"
    record = await stage.record()
    assert (record.status, record.termination_reason) == (RunStatus.DONE, CANCELLED)
    assert (record.waiting, record.error_payload) == (None, None)
    assert record.finished_at is not None
    stage.sink.take()
    again = await stage.run("again")
    assert again.termination == NATURAL_END
    assert again.run_id != record.run_id
    assert_event_order(stage.sink.events())


# -- before it began --------------------------------------------------------------------------


class SlowToRead(MemoryStore):
    """A store that reads its first thread when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def load_context(
        self, thread_id: str, *, tail: int | None = None
    ) -> ThreadContext | None:
        self.asked.set()
        await self.go.wait()
        return await super().load_context(thread_id, tail=tail)


async def test_cancelled_before_it_began() -> None:
    """02/8.9: a start and an end, no step, and the model is not asked; the question is kept."""
    store = SlowToRead()
    model = CheckedModel("later")
    stage = Stage(Agent("a", model=model), store=store)

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        task = group.create_task(stage.run())
        await store.asked.wait()
        assert stage.engine.cancel(THREAD), "the slot is taken before anything is read"
        store.go.set()

    assert task.result().termination == CANCELLED
    assert task.result().steps == 0
    assert model.calls == 0
    assert [type(e) for e in stage.events] == [RunStart, RunFinish]
    assert await stage.texts() == [("user", "hi")]
    await assert_cancelled(stage)


@pytest.mark.parametrize(
    ("phase", "steps"), [(Phase.RUN_START, 0), (Phase.STEP_START, 1), (Phase.BEFORE_INFERENCE, 1)]
)
async def test_cancelled_in_a_hook_before_the_model(phase: Phase, steps: int) -> None:
    """02 §5.10: a phase looks at the token again after its hooks."""
    model = CheckedModel("later")
    armed = [True]

    async def cancel(_: PhaseContext) -> None:
        if armed.pop():
            stage.engine.cancel(THREAD)

    stage = Stage(Agent("a", model=model, plugins=[TestPlugin({phase: cancel})]))

    result = await stage.run()

    assert (result.termination, result.steps) == (CANCELLED, steps)
    assert model.calls == 0
    armed.append(False)
    await assert_cancelled(stage)


# -- while the model answers ------------------------------------------------------------------


async def test_cancelled_during_the_answer_keeps_what_was_said() -> None:
    """02/L15, 02/8.10, 02/E4: done for the reason cancelled, though the stream hangs; the text is
    in the log, the call is not."""
    reached = asyncio.Event()

    async def talk() -> AsyncIterator[LlmStreamEvent]:
        yield ReasoningDelta(delta="hmm")
        yield TextDelta(delta="half an ")
        yield TextDelta(delta="answer")
        yield ToolCallStart(id="c1", name="look")
        yield ToolCallDelta(id="c1", args_delta="{}")
        reached.set()
        await asyncio.Event().wait()

    stage = Stage(Agent("a", model=CheckedModel(lambda _: talk(), "whole"), tools=[look]))

    result = await cancel_at(stage, reached)

    assert (result.termination, result.response) == (CANCELLED, "half an answer")
    _, said = await stage.log()
    assert said.content == (Thinking(thinking="hmm"), Text(text="half an answer"))
    assert said.tool_calls is None
    assert stage.told(ToolCallReady) == []
    assert len(stage.told(InferenceComplete)) == 1
    assert said.id == stage.told(StepStart)[0].message_id
    await assert_cancelled(stage)


async def test_cancelled_before_the_first_word_leaves_no_message() -> None:
    """An answer of nothing is no message."""
    reached = asyncio.Event()

    async def silence() -> AsyncIterator[LlmStreamEvent]:
        reached.set()
        await asyncio.Event().wait()
        yield TextDelta(delta="never")

    stage = Stage(Agent("a", model=CheckedModel(lambda _: silence(), "whole")))

    result = await cancel_at(stage, reached)

    assert (result.termination, result.response) == (CANCELLED, "")
    assert await stage.texts() == [("user", "hi")]
    await assert_cancelled(stage)


async def test_the_stream_of_a_cancelled_answer_is_closed() -> None:
    """Nothing of the provider's stays open."""
    reached, closed = asyncio.Event(), asyncio.Event()

    async def talk() -> AsyncIterator[LlmStreamEvent]:
        try:
            yield TextDelta(delta="half")
            reached.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    stage = Stage(Agent("a", model=CheckedModel(lambda _: talk())))

    await cancel_at(stage, reached)

    assert closed.is_set()


async def test_cancelled_while_it_waits_to_ask_again() -> None:
    """02/8.24: the pause between two attempts ends at once; the model is asked once."""
    clock = FakeClock()
    model = CheckedModel(ProviderError("busy"), "later")
    stage = Stage(Agent("a", model=model), clock=clock)

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        task = group.create_task(stage.run())
        await clock.until_sleeping()
        assert stage.engine.cancel(THREAD)

    assert task.result().termination == CANCELLED
    assert model.calls == 1
    assert clock.sleeping == 0
    await assert_cancelled(stage)


# -- while tools run --------------------------------------------------------------------------


@pytest.mark.parametrize("effect", list(ToolEffect))
async def test_cancelled_during_a_tool_answers_the_call(effect: ToolEffect) -> None:
    """02/8.17: tools race with the token; the call gets a result that says why.

    Design §8: nobody knows what became of one that must run once, and the ledger says so.
    """
    wait = Wait(effect)
    model = CheckedModel(tool_call_response("one moment", "wait", "c1", {}), "fine")
    stage = Stage(Agent("a", model=model, tools=[wait.tool]))

    result = await cancel_at(stage, wait.begun)

    assert (result.termination, result.response) == (CANCELLED, "one moment")
    once = effect is ToolEffect.ONCE
    assert await stage.results() == [open_end("wait") if once else CANCELLED_CALL]
    assert [d.outcome.value for d in stage.told(ToolCallDone)] == ["failed"]
    (entry,) = await stage.store.load_calls(result.run_id)
    assert entry.phase is (CallPhase.UNKNOWN if once else CallPhase.CANCELLED)
    await assert_cancelled(stage)
    assert wait.calls == 1, "the next run does not take the call up again"


async def test_cancelled_among_parallel_tools_keeps_what_had_ended() -> None:
    """Design §8: an outcome is kept as soon as it is there; only open calls are cancelled."""
    wait = Wait()

    @tool(effect="read")
    async def watch() -> str:
        await asyncio.Event().wait()
        return "never"

    model = CheckedModel(
        tool_calls_response("", ("wait", "c1", {}), ("look", "c2", {}), ("watch", "c3", {})), "fine"
    )
    stage = Stage(Agent("a", model=model, tools=[wait.tool, look, watch]))

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        task = group.create_task(stage.run())
        await stage.sink.until(ToolCallDone)
        assert stage.told(ToolCallDone)[0].id == "c2"
        assert stage.engine.cancel(THREAD)

    assert task.result().termination == CANCELLED
    assert await stage.results() == [open_end("wait"), "seen", CANCELLED_CALL], "in call order"
    ledger = await stage.store.load_calls(task.result().run_id)
    assert [(e.call_id, e.phase.value) for e in ledger] == [
        ("c1", "unknown"),
        ("c2", "succeeded"),
        ("c3", "cancelled"),
    ]
    await assert_cancelled(stage)


async def test_cancelled_between_sequential_tools_does_not_start_the_next() -> None:
    """02 §5.10: the first keeps its result, the second is answered and never runs."""
    wait = Wait()

    @tool
    async def pull_the_plug() -> str:
        stage.engine.cancel(THREAD)
        return "pulled"

    model = CheckedModel(
        tool_calls_response("", ("pull_the_plug", "c1", {}), ("wait", "c2", {})), "fine"
    )
    agent = Agent("a", model=model, tools=[pull_the_plug, wait.tool], sequential=True)
    stage = Stage(agent)

    async with asyncio.timeout(100):
        result = await stage.run()

    assert result.termination == CANCELLED
    assert await stage.results() == ["pulled", CANCELLED_CALL]
    assert wait.calls == 0
    await assert_cancelled(stage)


async def test_a_tool_that_cancels_its_own_run_ends_it_with_this_step() -> None:
    """02 §5.4: after the tools the token is looked at; no further step begins."""

    @tool
    async def pull_the_plug() -> str:
        stage.engine.cancel(THREAD)
        return "pulled"

    model = CheckedModel(tool_call_response("", "pull_the_plug", "c1", {}), "fine")
    stage = Stage(Agent("a", model=model, tools=[pull_the_plug]))

    result = await stage.run()

    assert (result.termination, result.steps) == (CANCELLED, 1)
    assert await stage.results() == ["pulled"]
    assert len(stage.told(StepStart)) == 1
    await assert_cancelled(stage)


@pytest.mark.parametrize("company", [False, True], ids=["alone", "together"])
async def test_a_tool_that_ends_in_spite_of_the_cancel_counts(company: bool) -> None:
    """What it did counts: a tool may finish its work when it is told to stop."""
    begun = asyncio.Event()

    @tool
    async def stubborn(ctx: ToolCallContext) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            assert ctx.cancellation_token is not None
            assert ctx.cancellation_token.is_cancelled()
        return "done all the same"

    calls: list[Any] = [("look", "c0", {})] if company else []
    model = CheckedModel(tool_calls_response("", *calls, ("stubborn", "c1", {})), "fine")
    stage = Stage(Agent("a", model=model, tools=[stubborn, look]))

    result = await cancel_at(stage, begun)

    assert result.termination == CANCELLED
    assert (await stage.results())[-1] == "done all the same"
    await assert_cancelled(stage)


async def test_the_last_phases_run_for_a_cancelled_run_too() -> None:
    """02/8.22: step_end and run_end see the run off, without the token."""
    seen: list[Phase] = []

    async def note(ctx: PhaseContext) -> None:
        assert ctx.cancellation_token is None
        seen.append(ctx.phase)

    wait = Wait()
    plugin = TestPlugin({Phase.STEP_END: note, Phase.RUN_END: note})
    model = CheckedModel(tool_call_response("", "wait", "c1", {}))
    stage = Stage(Agent("a", model=model, tools=[wait.tool], plugins=[plugin]))

    await cancel_at(stage, wait.begun)

    assert seen == [Phase.STEP_END, Phase.RUN_END]


# -- while it waits for somebody --------------------------------------------------------------


@tool(needs_approval=True)
async def launch() -> str:
    """Launch, if somebody agrees."""
    return "up"


async def test_cancelled_while_suspended_is_done() -> None:
    """01/D-11: done and cancelled, not waiting; the next request begins a run of its own."""
    model = CheckedModel(tool_call_response("", "launch", "c1", {}), "fine")
    stage = Stage(Agent("a", model=model, tools=[launch]))

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        task = group.create_task(stage.run(wait_for_decisions=True))
        await stage.sink.until(RunFinish)
        assert stage.engine.cancel(THREAD)

    assert task.result().termination == CANCELLED
    assert task.result().tickets == ()
    first, last = stage.told(RunFinish)
    assert isinstance(first.termination, Suspended)
    assert first.result is None
    assert last.termination == CANCELLED
    await assert_cancelled(stage)


async def test_the_ticket_of_a_cancelled_run_is_worth_nothing() -> None:
    """Design §4: a stale answer is refused and changes nothing; the call never runs."""
    ran: list[int] = []

    @tool(needs_approval=True)
    async def fire() -> str:
        ran.append(1)
        return "fired"

    model = CheckedModel(tool_call_response("", "fire", "c1", {}), "fine")
    stage = Stage(Agent("a", model=model, tools=[fire]))
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(stage.run(wait_for_decisions=True))
        await stage.sink.until(RunFinish)
        stage.engine.cancel(THREAD)
    before = await stage.log()

    with pytest.raises((InvalidResume, PhaseError)):
        await stage.resume(("c1", ToolCallResume.approve()))

    assert ran == []
    assert await stage.log() == before
    assert (await stage.run("again")).response == "fine"


async def test_cancelled_while_an_approved_call_runs_never_runs_it_again() -> None:
    """01/D-16: the replay is cut short; its calls are answered, and the next run leaves them
    alone."""
    wait = Wait()

    @tool(needs_approval=True)
    async def slow() -> str:
        wait.calls += 1
        wait.begun.set()
        await asyncio.Event().wait()
        return "never"

    model = CheckedModel(
        tool_calls_response("", ("slow", "c1", {}), ("slow", "c2", {})), "fine", "fine again"
    )
    stage = Stage(Agent("a", model=model, tools=[slow]))
    await stage.run()
    stage.sink.take()
    yes = ToolCallResume.approve()

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        task = group.create_task(stage.resume(("c1", yes), ("c2", yes)))
        await wait.begun.wait()
        assert stage.engine.cancel(THREAD)

    assert task.result().termination == CANCELLED
    results = {m.tool_call_id: m.text() for m in await stage.log() if m.role is Role.TOOL}
    assert results == dict.fromkeys(("c1", "c2"), open_end("slow"))
    await assert_cancelled(stage)
    assert wait.calls == 2


async def test_cancel_and_wait_returns_when_the_thread_is_free() -> None:
    """01/A-3: true after release; false for a thread nobody runs."""
    wait = Wait()
    model = CheckedModel(tool_call_response("", "wait", "c1", {}))
    stage = Stage(Agent("a", model=model, tools=[wait.tool]))

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        task = group.create_task(stage.run())
        await wait.begun.wait()
        assert await stage.engine.cancel_and_wait_by_thread(THREAD)
        assert stage.engine.active.all() == []

    assert task.result().termination == CANCELLED
    assert await stage.engine.cancel_and_wait_by_thread(THREAD) is False


async def test_messages_given_before_the_cancel_are_not_lost() -> None:
    """Design §1: what was accepted from a user is in the log, and the next run reads it."""
    wait = Wait()
    model = CheckedModel(tool_call_response("", "wait", "c1", {}), "I read both")
    stage = Stage(Agent("a", model=model, tools=[wait.tool]))

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(stage.run())
        await wait.begun.wait()
        assert await stage.engine.send_messages(THREAD, [Message.user("and one more thing")])
        stage.engine.cancel(THREAD)

    assert (await stage.texts())[-1] == ("user", "and one more thing")
    assert (await stage.run("again")).response == "I read both"
    assert [m.text() for m in model.requests[1] if m.role is Role.USER] == [
        "hi",
        "and one more thing",
        "again",
    ]
