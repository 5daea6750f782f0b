"""Every run that starts ends: its step closed, its end told, its record final (02/8.9, 01/D-12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from loop_stage import (
    THREAD,
    CheckedModel,
    FailingCommits,
    SlowCommits,
    Stage,
    TestPlugin,
    assert_event_order,
)

from awaken import (
    Agent,
    Command,
    InferenceOverride,
    PhaseContext,
    Registrar,
    StateKey,
    ToolOutput,
    ToolResult,
    tool,
)
from awaken.core.event import (
    Error,
    RunFinish,
    RunStart,
    StepEnd,
    StepStart,
    TextDelta,
    ToolCallDone,
)
from awaken.core.lifecycle import CANCELLED, NATURAL_END, Failed, Phase, RunStatus
from awaken.core.llm import InferenceRequest, LlmStreamEvent
from awaken.core.message import Role
from awaken.core.spec import ConsecutiveErrors
from awaken.core.state.command import EffectSpec, MutationBatch
from awaken.core.state.run_keys import RUN_LIFECYCLE
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.core.store.threads import RunQuery
from awaken.errors import (
    AgentNotFound,
    CommitUnknown,
    InferenceFailed,
    PhaseError,
    StorageError,
    StoreError,
)
from awaken.stores.memory import MemoryStore
from awaken.testing import CommitFailure, FailingStore, tool_call_response, tool_calls_response
from awaken.testing.models import FunctionAnswer
from event_kit import as_stored

pytestmark = pytest.mark.anyio


@tool
async def look() -> str:
    """Look around."""
    return "seen"


def asks_once(request: InferenceRequest) -> FunctionAnswer:
    """Two calls for every user's message, then an answer."""
    if request.messages[-1].role is Role.TOOL:
        return "done"
    return tool_calls_response("let me see", ("look", "c1", {}), ("look", "c2", {}))


def patient_model() -> CheckedModel:
    return CheckedModel(*[asks_once] * 8)


async def assert_ended(stage: Stage, end: Failed, *, steps: int) -> None:
    """Everything a broken run owes its readers."""
    assert_event_order(stage.sink.events())
    (finish,) = stage.told(RunFinish)
    assert finish.termination == end
    assert len(stage.told(StepStart)) == len(stage.told(StepEnd))
    record = await stage.record()
    assert record.status is RunStatus.DONE
    assert record.termination_reason == end
    assert record.error_payload == {"message": end.value}
    assert record.finished_at is not None
    assert record.steps == steps
    lifecycle = await stage.state(RUN_LIFECYCLE)
    assert (lifecycle["status"], lifecycle["status_reason"]) == ("done", "error")
    assert finish.result["status_reason"] == "error"
    thread = await stage.store.load_thread(THREAD)
    assert thread is not None
    assert (thread.open_run_id, thread.active_run_id) == (None, None)
    assert stage.engine.active.all() == []


async def assert_usable(stage: Stage) -> None:
    """The thread takes another run, and its transcript is one a model takes."""
    stage.sink.take()
    assert (await stage.run("again")).termination == NATURAL_END
    assert_event_order(stage.sink.events())
    kept = await stage.store.load_events(THREAD)
    assert [event.seq for event in kept] == list(range(1, len(kept) + 1))


# -- plugins that raise -----------------------------------------------------------------------


class Trap:
    """Raises in one phase, once; counts how often each phase came."""

    id = "trap"

    def __init__(self, phase: Phase) -> None:
        self.phase: Phase | None = phase
        self.seen: list[Phase] = []

    def register(self, registrar: Registrar) -> None:
        for phase in Phase:
            if phase is not Phase.TOOL_GATE:
                registrar.hook(phase, self.hook)
        registrar.gate(self.gate)

    async def hook(self, ctx: PhaseContext) -> None:
        self.seen.append(ctx.phase)
        if ctx.phase is self.phase:
            raise ValueError("trapped")

    async def gate(self, ctx: PhaseContext) -> None:
        await self.hook(ctx)


@pytest.mark.parametrize("sequential", [False, True], ids=["parallel", "sequential"])
@pytest.mark.parametrize("phase", list(Phase), ids=lambda phase: phase.value)
async def test_a_hook_that_raises_ends_the_run(phase: Phase, sequential: bool) -> None:
    """02/8.9: whichever phase fails, the run closes and says so, and the caller is told."""
    trap = Trap(phase)
    agent = Agent("a", model=patient_model(), tools=[look], plugins=[trap], sequential=sequential)
    stage = Stage(agent)

    with pytest.raises(PhaseError) as caught:
        await stage.run()

    text = str(caught.value)
    assert text.startswith("phase error: plugin 'trap' raised ValueError('trapped') in phase ")
    assert phase.value in text
    steps = {Phase.RUN_START: 0, Phase.RUN_END: 2}.get(phase, 1)
    await assert_ended(stage, Failed(value=text), steps=steps)
    assert trap.seen.count(Phase.RUN_END) == 1, "run_end runs once, whatever the reason"
    assert trap.seen.count(Phase.STEP_END) == steps
    trap.phase = None
    await assert_usable(stage)


async def test_a_result_outlives_the_hook_that_could_not_bear_it() -> None:
    """Design §1: the tool did its work; a hook after it that raises cannot undo that."""
    trap = Trap(Phase.AFTER_TOOL_EXECUTE)
    model = CheckedModel(tool_call_response("", "look", "c1", {}), "went on")
    stage = Stage(Agent("a", model=model, tools=[look], plugins=[trap]))

    with pytest.raises(PhaseError):
        await stage.run()

    assert await stage.results() == ["seen"]
    (entry,) = await stage.store.load_calls((await stage.record()).run_id)
    assert entry.phase.value == "succeeded"


def raises(_: int, update: int) -> int:
    raise ValueError(f"cannot take {update}")


BROKEN: StateKey[int, int] = StateKey("test.broken", initial=int, apply=raises)


async def test_a_reducer_that_raises_ends_the_run() -> None:
    """01/D-7: nothing of the batch is applied; the run ends with an error."""
    armed = [True]

    async def write(_: PhaseContext) -> Command | None:
        return Command().update(BROKEN, 7) if armed.pop() else None

    armed.insert(0, False)
    plugin = TestPlugin({Phase.BEFORE_INFERENCE: write}, keys=[BROKEN])
    model = CheckedModel(*[asks_once] * 4)
    stage = Stage(Agent("a", model=model, tools=[look], plugins=[plugin]))

    with pytest.raises(PhaseError, match=r"reducer of state key 'test\.broken'") as caught:
        await stage.run()

    await assert_ended(stage, Failed(value=str(caught.value)), steps=1)
    armed.extend([False] * 4)
    await assert_usable(stage)


async def test_a_tool_whose_state_cannot_be_written_is_told_so() -> None:
    """A reducer that refuses a tool's write costs the write, not the run."""

    @tool
    async def write() -> ToolOutput:
        return ToolOutput(
            ToolResult.success_with_message("write", None, "written"), Command().update(BROKEN, 7)
        )

    model = CheckedModel(tool_call_response("", "write", "c1", {}), "I see")
    stage = Stage(Agent("a", model=model, tools=[write], state=[BROKEN]))

    assert (await stage.run()).response == "I see"
    (text,) = await stage.results()
    assert text.startswith("written\n[state update refused: reducer of state key 'test.broken'")


class Opaque:
    """Something JSON does not know."""


OPAQUE: StateKey[Any, Any] = StateKey("test.opaque", initial=lambda: 0)


@pytest.mark.parametrize("phase", [Phase.RUN_START, Phase.STEP_END, Phase.RUN_END])
async def test_state_that_cannot_be_written_ends_the_run(phase: Phase) -> None:
    """Every run that started ends: the unwritable value is given up, the rest is committed."""
    armed = [True]

    async def write(_: PhaseContext) -> Command | None:
        return Command().update(OPAQUE, Opaque()) if armed[0] else None

    plugin = TestPlugin({phase: write}, keys=[OPAQUE])
    stage = Stage(Agent("a", model=CheckedModel("hello", "hello again"), plugins=[plugin]))

    with pytest.raises(PhaseError, match=r"cannot encode 'test\.opaque'") as caught:
        await stage.run()

    (finish,) = stage.told(RunFinish)
    assert finish.termination == Failed(value=str(caught.value))
    assert len(stage.told(StepStart)) == len(stage.told(StepEnd))
    record = await stage.record()
    assert (record.status, record.termination_reason) == (RunStatus.DONE, finish.termination)
    armed[0] = False
    await assert_usable(stage)


async def test_the_last_phase_of_a_broken_run_cannot_keep_it_open() -> None:
    """Every run that started ends, even if run_end writes what cannot be written."""
    armed = [True]

    async def write(_: PhaseContext) -> Command | None:
        return Command().update(OPAQUE, Opaque()) if armed[0] else None

    plugin = TestPlugin({Phase.RUN_END: write}, keys=[OPAQUE])
    model = CheckedModel(ValueError("no network"), "better now")
    stage = Stage(Agent("a", model=model, plugins=[plugin]))

    with pytest.raises(InferenceFailed):
        await stage.run()

    await assert_ended(stage, Failed(value="inference failed: no network"), steps=1)
    armed[0] = False
    await assert_usable(stage)


RING: EffectSpec[str] = EffectSpec("test.ring", str)


async def test_an_effect_that_fails_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    """01 §3.2: effects are terminal; a failing handler changes nothing about the run."""
    rung: list[str] = []

    async def ring(payload: str, _: Any) -> None:
        rung.append(payload)
        raise ValueError("no bell")

    async def emit(_: PhaseContext) -> Command:
        return Command().emit(RING, "ding")

    plugin = TestPlugin({Phase.RUN_START: emit, Phase.STEP_END: emit}, effects=[(RING, ring)])
    stage = Stage(Agent("a", model=CheckedModel("hello"), plugins=[plugin]))

    result = await stage.run()

    assert result.termination == NATURAL_END
    assert rung == ["ding", "ding"]
    assert "effect 'test.ring' failed" in caplog.text


async def test_a_tool_that_raises_is_a_result() -> None:
    """02/8.17: exceptions of tools are contained, beside tools that work."""

    @tool
    async def explode() -> str:
        raise ZeroDivisionError("ouch")

    model = CheckedModel(
        tool_calls_response("", ("explode", "c1", {}), ("look", "c2", {})), "one of two"
    )
    stage = Stage(Agent("a", model=model, tools=[explode, look]))

    result = await stage.run()

    assert result.response == "one of two"
    assert await stage.results() == ["Execution failed: ZeroDivisionError: ouch", "seen"]
    assert [d.outcome.value for d in stage.told(ToolCallDone)] == ["failed", "succeeded"]


class BadStart:
    """Cannot write what it wants when its agent takes over."""

    id = "bad-start"

    def __init__(self) -> None:
        self.bad = True

    def register(self, registrar: Registrar) -> None:
        registrar.key(BROKEN)

    def on_activate(self, agent_spec: Any, batch: MutationBatch) -> None:
        if self.bad:
            batch.update(BROKEN, 1)

    def on_deactivate(self, batch: MutationBatch) -> None:
        return


async def test_a_plugin_that_cannot_be_activated_ends_the_run_it_began() -> None:
    """02/8.9: even so early there is a start, an end and a final record."""
    plugin = BadStart()
    stage = Stage(Agent("a", model=CheckedModel("hello"), plugins=[plugin]))

    with pytest.raises(PhaseError, match="reducer") as caught:
        await stage.run()

    assert [type(event) for event in stage.events] == [RunStart, RunFinish]
    await assert_ended(stage, Failed(value=str(caught.value)), steps=0)
    assert [text for _, text in await stage.texts()] == ["hi"], "the question is kept"
    plugin.bad = False
    await assert_usable(stage)


# -- models that fail -------------------------------------------------------------------------


async def test_a_model_that_fails_ends_the_run() -> None:
    """02/L4, 02/8.9: step, run, record; the thread goes on."""
    model = CheckedModel(asks_once, ValueError("no network"), "better now")
    stage = Stage(Agent("a", model=model, tools=[look]))

    with pytest.raises(InferenceFailed) as caught:
        await stage.run()

    assert isinstance(caught.value.__cause__, ValueError)
    await assert_ended(stage, Failed(value="inference failed: no network"), steps=2)
    assert (await stage.record()).final_output == "let me see"
    await assert_usable(stage)


async def test_hooks_see_the_error_of_a_model() -> None:
    """02/8.30: the error branch reaches after_inference."""
    errors: list[str | None] = []

    async def note(ctx: PhaseContext) -> None:
        assert ctx.llm_response is not None
        failure = ctx.llm_response.error
        errors.append(failure.message if failure else None)

    model = CheckedModel("fine", ValueError("no network"))
    stage = Stage(Agent("a", model=model, plugins=[TestPlugin({Phase.AFTER_INFERENCE: note})]))
    await stage.run()

    with pytest.raises(InferenceFailed):
        await stage.run()

    assert errors == [None, "inference failed: no network"]


async def test_an_agent_that_bears_errors_tries_again() -> None:
    """01 §7 L-4, 02/8.30: a failed inference is a step; so many in a row stop the run."""
    down = ValueError("down")
    bearable = CheckedModel(down, "up again")
    hopeless = CheckedModel(down, down, "never asked")
    stop = [ConsecutiveErrors(max=2)]
    stage = Stage(Agent("a", model=bearable, stop=stop), Agent("b", model=hopeless, stop=stop))

    recovered = await stage.run()
    assert_event_order(stage.sink.take())
    stopped = await stage.run(agent_id="b")

    assert (recovered.response, recovered.steps) == ("up again", 2)
    assert stopped.termination.value.code == "consecutive_errors"  # type: ignore[union-attr]
    assert hopeless.calls == 2
    assert_event_order(stage.sink.events())


async def test_an_override_without_a_name_is_an_inference_error() -> None:
    """02 §5.5: a blank upstream model is refused with this text, and the run is closed."""
    stage = Stage(Agent("a", model=CheckedModel("hello")))

    with pytest.raises(InferenceFailed) as caught:
        await stage.run(settings=InferenceOverride(upstream_model="  "))

    text = "inference failed: inference override upstream_model cannot be empty"
    assert str(caught.value) == text
    await assert_ended(stage, Failed(value=text), steps=1)
    await assert_usable(stage)


async def test_a_run_that_never_started_leaves_no_trace() -> None:
    """01 §6.3: an unknown agent is refused before anything happens; the slot is free."""
    stage = Stage(Agent("a", model=CheckedModel("hello")))

    with pytest.raises(AgentNotFound):
        await stage.run(agent_id="ghost")

    assert stage.events == []
    assert await stage.store.load_thread(THREAD) is None
    assert stage.engine.active.all() == []
    assert (await stage.run()).response == "hello"


# -- stores that fail -------------------------------------------------------------------------

COMMITS = 4
"""Begin, intents, outcomes with the step, end: what a run of `asks_once` commits.

One after another, the first tool's outcome is a commit more.
"""


async def undisturbed(sequential: bool) -> int:
    store = FailingCommits(10**6, StoreError("never"))
    agent = Agent("a", model=patient_model(), tools=[look], sequential=sequential)
    await Stage(agent, store=store).run()
    return store.commits


@pytest.mark.parametrize("error", [StoreError("disk full"), OSError("bad sector")], ids=repr)
@pytest.mark.parametrize(
    ("sequential", "fail_at"),
    [(True, n) for n in range(1, COMMITS + 2)] + [(False, n) for n in range(1, COMMITS + 1)],
)
async def test_a_failed_commit_claims_nothing(
    fail_at: int, sequential: bool, error: Exception
) -> None:
    """Design §8: a transient step_end and error, the exception, and no second try.

    Whatever was told as done before is in the store; nothing after it is.
    """
    store = FailingCommits(fail_at, error, recovers=True)
    agent = Agent("a", model=patient_model(), tools=[look], sequential=sequential)
    stage = Stage(agent, store=store)

    with pytest.raises(StorageError, match="storage failed: ") as caught:
        await stage.run()

    assert caught.value.__cause__ is error
    assert store.commits == fail_at, "after a failed commit nothing more is written"
    told = stage.sink.events()
    assert isinstance(told[-1].event, Error)
    assert told[-1].event.message == str(caught.value)
    assert told[-1].seq is None
    starts, ends = len(stage.told(StepStart)), len(stage.told(StepEnd))
    assert starts == ends, "a step that was told to begin is told to end"
    assert stage.told(RunFinish) == []
    kept = await store.load_events(THREAD)
    stored = [event for event in told if event.seq is not None and event.seq <= len(kept)]
    assert [as_stored(event) for event in stored] == list(kept)
    assert all(event.ahead for event in told if event.seq is not None and event not in stored)
    record = await store.latest_run(THREAD)
    assert record is None if fail_at == 1 else record is not None
    assert record is None or record.status is RunStatus.RUNNING
    assert stage.engine.active.all() == []


async def test_the_number_of_commits_these_tests_fail_at() -> None:
    """The parametrisation above covers every commit of the run."""
    assert await undisturbed(sequential=False) == COMMITS
    assert await undisturbed(sequential=True) == COMMITS + 1


@pytest.mark.parametrize("fail_at", range(1, COMMITS + 2))
async def test_a_run_whose_store_failed_goes_on_with_the_next_request(fail_at: int) -> None:
    """Design §8, 01/D-12: nobody owns it any more; whoever comes next takes the same run up."""
    store = FailingCommits(fail_at, StoreError("disk full"), recovers=True)
    stage = Stage(Agent("a", model=patient_model(), tools=[look], sequential=True), store=store)
    with pytest.raises(StorageError):
        await stage.run()
    thread, record = await store.load_thread(THREAD), await store.latest_run(THREAD)
    assert thread is None or thread.owner is None

    await assert_usable(stage)

    (ended,) = await store.list_runs(RunQuery(thread_id=THREAD))
    assert record is None or ended.run_id == record.run_id
    assert ended.status is RunStatus.DONE


# -- answers that get lost --------------------------------------------------------------------


@pytest.mark.parametrize("failure", [CommitFailure.LANDED, CommitFailure.LOST])
@pytest.mark.parametrize(
    ("sequential", "lost_at"),
    [(True, n) for n in range(1, COMMITS + 2)] + [(False, n) for n in range(1, COMMITS + 1)],
)
async def test_a_lost_answer_is_found_out_and_the_run_goes_on(
    lost_at: int, sequential: bool, failure: CommitFailure
) -> None:
    """Design §4, 04 §4.2: what landed is not written again, what did not is; nobody notices."""
    store = FailingStore(MemoryStore(), {lost_at: failure})
    agent = Agent("a", model=patient_model(), tools=[look], sequential=sequential)
    stage, plain = Stage(agent, store=store), Stage(agent)

    result = await stage.run()

    assert result.termination == NATURAL_END
    assert store.commits == COMMITS + sequential + (failure is CommitFailure.LOST)
    await plain.run()
    assert await stage.texts() == await plain.texts()
    log = await stage.log()
    assert len({message.id for message in log}) == len(log)
    assert_event_order(stage.sink.events())
    kept = await store.load_events(THREAD)
    assert [event.seq for event in kept] == list(range(1, len(kept) + 1))
    assert [type(e.event) for e in kept] == [
        type(e.event) for e in await plain.store.load_events(THREAD)
    ]
    sent = [event for event in stage.sink.events() if event.seq is not None]
    assert [as_stored(event) for event in sent] == list(kept)
    await assert_usable(stage)


async def test_a_commit_that_never_lands_is_given_up() -> None:
    """04 §4.2: it is tried a few times, not for ever; then the store has failed."""
    store = FailingStore(MemoryStore(), {2: CommitFailure.LOST}, then=CommitFailure.LOST)
    stage = Stage(Agent("a", model=patient_model(), tools=[look]), store=store)

    with pytest.raises(StorageError, match="lost") as caught:
        await stage.run()

    assert isinstance(caught.value.__cause__, CommitUnknown)
    assert 2 < store.commits <= 10
    assert isinstance(stage.events[-1], Error)
    assert (await stage.record()).status is RunStatus.RUNNING


@pytest.mark.parametrize("failure", [CommitFailure.LANDED, CommitFailure.LOST])
async def test_nobody_guesses_when_reading_back_fails_too(failure: CommitFailure) -> None:
    """Design §8: the run claims nothing; the next request goes on from what the store has."""

    class Gone(FailingStore):
        async def find_commit(self, commit: ThreadCommit) -> Committed | None:
            raise StoreError("line still cut")

    store = Gone(MemoryStore(), {2: failure})
    stage = Stage(Agent("a", model=patient_model(), tools=[look]), store=store)

    with pytest.raises(StorageError, match="line still cut"):
        await stage.run()

    first = await stage.record()
    assert first.status is RunStatus.RUNNING
    kept = [Role.USER, Role.ASSISTANT] if failure is CommitFailure.LANDED else [Role.USER]
    assert [message.role for message in await stage.log()] == kept
    await assert_usable(stage)
    assert (await stage.record()).run_id == first.run_id


async def test_a_failed_commit_among_parallel_tools_stops_the_others() -> None:
    """A storage error while tools run side by side is still a storage error; no tool is left."""
    left = asyncio.Event()

    @tool
    async def wait_for_ever() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        return "never"

    store = FailingCommits(3, StoreError("disk full"))
    model = CheckedModel(
        tool_calls_response("", ("look", "c1", {}), ("wait_for_ever", "c2", {})),
    )
    stage = Stage(Agent("a", model=model, tools=[look, wait_for_ever]), store=store)

    async with asyncio.timeout(100):
        with pytest.raises(StorageError, match="storage failed: disk full"):
            await stage.run()

    assert left.is_set()
    assert store.commits == 3
    assert isinstance(stage.events[-1], Error)


async def test_a_store_that_fails_for_good_still_lets_go_of_the_thread() -> None:
    """01/A-1: the slot is freed after an error."""
    stage = Stage(Agent("a", model=CheckedModel()), store=FailingCommits(1, StoreError("gone")))

    for _ in range(2):
        with pytest.raises(StorageError):
            await stage.run()

    assert [type(e) for e in stage.events] == [Error, Error]


# -- callers that go away ---------------------------------------------------------------------


async def cancel_when(stage: Stage, reached: asyncio.Event, **request: Any) -> None:
    """Run, and cancel the caller's task when it got there."""
    async with asyncio.timeout(100):
        task = asyncio.create_task(stage.run(**request))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def assert_cancelled(stage: Stage) -> None:
    assert_event_order(stage.sink.events())
    assert stage.told(RunFinish)[-1].termination == CANCELLED
    record = await stage.record()
    assert (record.status, record.termination_reason) == (RunStatus.DONE, CANCELLED)
    assert stage.engine.active.all() == []
    await assert_usable(stage)


async def test_a_caller_that_goes_away_during_the_answer_cancels_the_run() -> None:
    """01/A-1: the task is cancelled; what was streamed is kept, the slot freed."""
    reached = asyncio.Event()

    async def talk() -> AsyncIterator[LlmStreamEvent]:
        yield TextDelta(delta="half an ")
        yield TextDelta(delta="answer")
        reached.set()
        await asyncio.Event().wait()

    stage = Stage(Agent("a", model=CheckedModel(lambda _: talk(), "whole")))

    await cancel_when(stage, reached)

    assert (await stage.texts())[-1] == ("assistant", "half an answer")
    await assert_cancelled(stage)


@pytest.mark.parametrize("other", [True, False], ids=["together", "alone"])
async def test_a_caller_that_goes_away_during_a_tool_cancels_the_run(other: bool) -> None:
    """01/A-1: open calls are answered; a finished one keeps its result."""
    reached = asyncio.Event()

    @tool
    async def wait_for_ever() -> str:
        reached.set()
        await asyncio.Event().wait()
        return "never"

    calls: list[Any] = [("look", "c1", {})] if other else []
    model = CheckedModel(tool_calls_response("", *calls, ("wait_for_ever", "c2", {})), "fine")
    stage = Stage(Agent("a", model=model, tools=[look, wait_for_ever]))

    await cancel_when(stage, reached)

    results = await stage.results()
    assert results[:-1] == (["seen"] if other else [])
    assert len(results) == len(calls) + 1
    await assert_cancelled(stage)


async def test_a_caller_that_goes_away_while_it_waits_for_a_decision() -> None:
    """01/A-1, 01/D-11: the run is over, and its ticket with it."""

    @tool(needs_approval=True)
    async def launch() -> str:
        return "up"

    model = CheckedModel(tool_call_response("", "launch", "c1", {}), "fine")
    stage = Stage(Agent("a", model=model, tools=[launch]))
    reached = asyncio.Event()

    async def watch() -> None:
        await stage.sink.until(RunFinish)
        reached.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(watch())
        await cancel_when(stage, reached, wait_for_decisions=True)

    await assert_cancelled(stage)


@pytest.mark.parametrize("slow_at", range(1, COMMITS + 1))
async def test_a_caller_that_goes_away_during_a_commit_waits_for_its_answer(slow_at: int) -> None:
    """style §2: only the commit is shielded; the record still gets its end, and nothing twice."""
    store = SlowCommits(slow_at)
    stage = Stage(Agent("a", model=patient_model(), tools=[look]), store=store)

    async with asyncio.timeout(100):
        task = asyncio.create_task(stage.run())
        await store.written.wait()
        task.cancel()
        asyncio.get_running_loop().call_soon(store.answer.set)
        with pytest.raises(asyncio.CancelledError):
            await task

    record = await stage.record()
    assert record.status is RunStatus.DONE
    log = await stage.log()
    assert len({m.id for m in log}) == len(log)
    if slow_at < COMMITS:
        assert record.termination_reason == CANCELLED
        await assert_usable(stage)


async def test_a_caller_that_goes_away_does_not_wait_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """01/A-1: a hook that never ends is cut off after a grace, and the run is closed."""
    monkeypatch.setattr("awaken.worker.shutdown.CANCEL_GRACE", 0.0)
    reached = asyncio.Event()

    async def hang(_: PhaseContext) -> None:
        if not reached.is_set():
            reached.set()
            await asyncio.Event().wait()

    plugin = TestPlugin({Phase.BEFORE_INFERENCE: hang})
    stage = Stage(Agent("a", model=CheckedModel("hello"), plugins=[plugin]))

    await cancel_when(stage, reached)

    await assert_cancelled(stage)


async def test_a_caller_that_goes_away_before_the_run_began_leaves_the_thread_free() -> None:
    """01/A-1: cancelled before its first step, the task holds nothing."""
    stage = Stage(Agent("a", model=CheckedModel("hello")))
    task = asyncio.create_task(stage.run())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert stage.engine.active.all() == []
    assert stage.events == []
    assert (await stage.run()).response == "hello"
