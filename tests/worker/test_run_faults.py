"""Other people's code and data going wrong in a run: what is told, to whom, and what stays."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from run_kit import Piece, of_kind, record_of, results, state_of, told

from awaken import (
    Agent,
    Command,
    Phase,
    PhaseContext,
    Registrar,
    Runtime,
    StateKey,
    ToolOutput,
    ToolResult,
    tool,
)
from awaken.core.event import (
    CollectingSink,
    RunFinish,
    StepEnd,
    StepStart,
    ToolCallDelta,
    ToolCallStart,
)
from awaken.core.inbox import InboxSender
from awaken.core.inference import StopReason
from awaken.core.lifecycle import CANCELLED, NATURAL_END, Failed, RunStatus
from awaken.core.llm import Stop
from awaken.core.state.command import CommitEvent, EffectSpec
from awaken.core.state.run_keys import RUN_LIFECYCLE, SetRunning
from awaken.core.state.snapshot import Snapshot
from awaken.core.state.store import StateStore
from awaken.errors import HookFailed, InferenceFailed, PhaseError
from awaken.testing import ScriptedModel, tool_call_response
from awaken.testing.models import Response

pytestmark = pytest.mark.anyio

NOTE: StateKey[str, str] = StateKey("note", initial=str)


@tool
async def look() -> str:
    """Look."""
    return "seen"


LOOK: Response = tool_call_response("", "look", "c1", {})


def agent_of(*script: Response, **options: Any) -> Agent:
    chosen: dict[str, Any] = {"tools": [look], "state": [NOTE]} | options
    return Agent("a", model=ScriptedModel(script), **chosen)


def model_of(agent: Agent) -> ScriptedModel:
    assert isinstance(agent.model, ScriptedModel)
    return agent.model


# -- hooks ------------------------------------------------------------------------------------

HOOKED = [phase for phase in Phase if phase is not Phase.TOOL_GATE]


@pytest.mark.parametrize("phase", HOOKED)
async def test_a_hook_that_raises_ends_the_run_by_name(phase: Phase) -> None:
    """D-12, bad input: plugin and phase are named, everything begun is closed, the thread free."""

    async def breaks(_: PhaseContext) -> Command:
        raise ValueError("no such luck")

    async def writes(_: PhaseContext) -> Command:
        return Command().update(NOTE, "never")

    plugins = [
        Piece("sibling", lambda r: r.hook(phase, writes)),
        Piece("breaks", lambda r: r.hook(phase, breaks)),
    ]
    runtime, sink = Runtime([agent_of(LOOK, "done", plugins=plugins)]), CollectingSink()

    with pytest.raises(PhaseError, match=rf"'breaks'.*no such luck.*'{phase.value}'") as failed:
        await runtime.run("a", "go", thread="t", sink=sink)

    assert isinstance(failed.value.__cause__, HookFailed)
    events = sink.events()
    assert len(of_kind(events, StepStart)) == len(of_kind(events, StepEnd))
    [finish] = of_kind(events, RunFinish)
    assert finish.termination == Failed(value=str(failed.value))
    assert events[-1].event == finish
    record = await record_of(runtime, events[0].run_id)
    assert record.status is RunStatus.DONE
    assert await state_of(runtime, record.run_id, NOTE) is None
    assert not await runtime.cancel("t")
    log = await runtime.messages("t")
    calls = {call.id for message in log for call in message.tool_calls or ()}
    assert calls == set(results(log))


async def test_a_commit_from_outside_does_not_end_the_run() -> None:
    """D-2: background work writes the key a hook is about to write; both survive, in every
    phase a run has."""

    class Outside:
        """Writes from outside while its own hook is under way."""

        id = "outside"

        def __init__(self) -> None:
            self.store: StateStore | None = None
            self.disturbed: set[Phase] = set()

        def bind_runtime_context(self, store: StateStore, owner_inbox: InboxSender | None) -> None:
            self.store = store

        def register(self, registrar: Registrar) -> None:
            for phase in HOOKED:
                registrar.hook(phase, self.hook)

        async def hook(self, ctx: PhaseContext) -> Command:
            assert self.store is not None
            before = ctx.read(NOTE) or ""
            if ctx.phase not in self.disturbed:
                self.disturbed.add(ctx.phase)
                self.store.update(NOTE, before + "o")
            return Command().update(NOTE, before + "h")

    outside = Outside()
    runtime = Runtime([agent_of(LOOK, "done", plugins=[outside])])

    result = await runtime.run("a", "go")

    assert result.termination == NATURAL_END
    assert outside.disturbed == set(HOOKED)
    note = await state_of(runtime, result.run_id, NOTE)
    assert note is not None
    # Step phases come twice, tool phases once; each first time somebody was quicker.
    assert (note.count("o"), note.count("h")) == (8, 12)


# -- state ------------------------------------------------------------------------------------


def refuse(_: str, update: str) -> str:
    raise ZeroDivisionError(update)


BROKEN: StateKey[str, str] = StateKey("broken", initial=str, apply=refuse)
STRAY: StateKey[str, str] = StateKey("stray", initial=str)


@pytest.mark.parametrize(
    ("key", "text"), [(BROKEN, "reducer of state key 'broken'"), (STRAY, "'stray' is not reg")]
)
async def test_a_tools_impossible_state_change_is_told_to_the_model(
    key: StateKey[str, str], text: str
) -> None:
    """D-7, bad input: nothing of it is applied; the call keeps its result and the run goes on."""

    @tool
    async def write() -> ToolOutput:
        """Write."""
        command = Command().update(NOTE, "half").update(key, "bad")
        return ToolOutput(ToolResult.success_with_message("write", None, "written"), command)

    agent = agent_of(
        tool_call_response("", "write", "c1", {}), "done", tools=[write], state=[NOTE, BROKEN]
    )
    runtime = Runtime([agent])

    result = await runtime.run("a", "go")

    assert result.response == "done"
    answer = results(model_of(agent).requests[1].messages)["c1"]
    assert answer.startswith("written\n[state update refused: ")
    assert text in answer
    assert await state_of(runtime, result.run_id, NOTE) is None


async def test_a_hooks_failing_reducer_ends_the_run_by_key() -> None:
    """D-7, bad input: nothing of the batch is applied."""

    async def hook(_: PhaseContext) -> Command:
        return Command().update(NOTE, "half").update(BROKEN, "bad")

    agent = agent_of(
        "done",
        state=[NOTE, BROKEN],
        plugins=[Piece("p", lambda r: r.hook(Phase.STEP_START, hook))],
    )
    runtime = Runtime([agent])

    with pytest.raises(PhaseError, match=r"'broken'.*nothing was changed"):
        await runtime.run("a", "go", thread="t")

    [run] = await runtime.list_runs()
    assert await state_of(runtime, run.run_id, NOTE) is None


async def test_an_illegal_move_of_the_lifecycle_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """D-18: a done run cannot be set running; the log and commit listeners say so."""
    refused: list[tuple[str, ...]] = []

    class Watching(Piece):
        """Listens to the store's commits."""

        def bind_runtime_context(self, store: StateStore, owner_inbox: InboxSender | None) -> None:
            def note(event: CommitEvent) -> None:
                if event.skipped:
                    refused.append(event.skipped)

            store.add_commit_hook(note)

    async def revive(_: PhaseContext) -> Command:
        return Command().update(RUN_LIFECYCLE, SetRunning())

    runtime = Runtime(
        [agent_of("done", plugins=[Watching("p", lambda r: r.hook(Phase.RUN_END, revive))])]
    )

    with caplog.at_level(logging.WARNING, logger="awaken.state"):
        result = await runtime.run("a", "go")

    assert refused == [(RUN_LIFECYCLE.name,)]
    assert RUN_LIFECYCLE.name in caplog.text
    assert (await record_of(runtime, result.run_id)).status is RunStatus.DONE


# -- effects and tools ------------------------------------------------------------------------


async def test_an_effect_that_raises_does_not_disturb_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """D-9, bad input: logged by name; what was committed stays."""
    tell: EffectSpec[str] = EffectSpec("tell", str)

    async def hook(_: PhaseContext) -> Command:
        return Command().update(NOTE, "written").emit(tell, "x")

    async def breaks(_: str, __: Snapshot) -> None:
        raise ValueError("cannot tell")

    plugin = Piece("p", lambda r: r.hook(Phase.STEP_START, hook), lambda r: r.effect(tell, breaks))
    runtime = Runtime([agent_of("done", plugins=[plugin])])

    with caplog.at_level(logging.ERROR, logger="awaken.phase"):
        result = await runtime.run("a", "go")

    assert result.response == "done"
    assert "effect 'tell' failed" in caplog.text
    assert await state_of(runtime, result.run_id, NOTE) == "written"


async def test_a_tool_that_raises_is_told_to_the_model() -> None:
    """01 §1.3, bad input: it never ends the run."""

    @tool
    async def divide(by: int) -> float:
        """Divide."""
        return 1 / by

    agent = agent_of(tool_call_response("", "divide", "c1", {"by": 0}), "sorry", tools=[divide])

    result = await Runtime([agent]).run("a", "go")

    assert result.response == "sorry"
    answer = results(model_of(agent).requests[1].messages)["c1"]
    assert answer == "Execution failed: ZeroDivisionError: division by zero"


# -- the model --------------------------------------------------------------------------------


@tool
async def book(city: str, nights: int) -> str:
    """Book a room."""
    return f"{nights} in {city}"


BAD_CALLS: list[tuple[str, Any, str]] = [
    ("book", {"city": "Rome", "nights": "many"}, "nights"),
    ("book", {"city": "Rome"}, "nights"),
    ("book", "Rome", "Invalid arguments"),
    ("book", [1, 2], "Invalid arguments"),
    ("bok", {"city": "Rome", "nights": 1}, "tool 'bok' not found; available: book"),
]


@pytest.mark.parametrize(("name", "arguments", "text"), BAD_CALLS)
async def test_a_call_that_makes_no_sense_is_explained_to_the_model(
    name: str, arguments: Any, text: str
) -> None:
    """Bad input: the tool or the parameter is named, nothing runs, and the model may try again."""
    good = tool_call_response("", "book", "c2", {"city": "Rome", "nights": 2})
    agent = agent_of(tool_call_response("", name, "c1", arguments), good, "booked", tools=[book])

    result = await Runtime([agent]).run("a", "go")

    assert result.response == "booked"
    answers = results(model_of(agent).requests[2].messages)
    assert text in answers["c1"]
    assert answers["c2"] == "2 in Rome"


async def test_arguments_that_are_no_json_are_not_run() -> None:
    """Bad input: the model is told to issue the call again."""
    garbled: Response = [
        ToolCallStart(id="c1", name="book"),
        ToolCallDelta(id="c1", args_delta='{"city": "Ro'),
        Stop(reason=StopReason.TOOL_USE),
    ]
    agent = agent_of(garbled, "sorry", tools=[book])
    runtime = Runtime([agent])

    result = await runtime.run("a", "go", thread="t")

    assert result.response == "sorry"
    asked = told(model_of(agent).requests[1].messages)
    assert asked[0] == "user: go"
    assert "not valid JSON" in asked[-1]
    assert results(await runtime.messages("t")) == {}


async def test_a_model_that_fails_closes_everything() -> None:
    """D-12, D-14: hooks see the error, the last phase runs, record and event keep the text."""
    seen: list[str] = []

    async def after(ctx: PhaseContext) -> None:
        assert ctx.llm_response is not None
        assert ctx.llm_response.error is not None
        seen.append(ctx.llm_response.error.message)

    async def end(_: PhaseContext) -> None:
        seen.append("run end")

    watcher = Piece(
        "watcher",
        lambda r: r.hook(Phase.AFTER_INFERENCE, after),
        lambda r: r.hook(Phase.RUN_END, end),
    )
    runtime, sink = (
        Runtime([agent_of(ValueError("out of words"), plugins=[watcher])]),
        CollectingSink(),
    )

    with pytest.raises(InferenceFailed, match="out of words"):
        await runtime.run("a", "go", thread="t", sink=sink)

    assert len(seen) == 2
    assert "out of words" in seen[0]
    [finish] = of_kind(sink.events(), RunFinish)
    assert isinstance(finish.termination, Failed)
    assert "out of words" in finish.termination.value
    record = await record_of(runtime, sink.events()[0].run_id)
    assert record.status is RunStatus.DONE
    assert record.termination_reason == finish.termination
    assert record.error_payload == {"message": finish.termination.value}
    assert told(await runtime.messages("t")) == ["user: go"]


async def test_a_cancel_during_the_first_phase_closes_everything() -> None:
    """D-12: not silently."""
    runtime: Runtime

    async def start(ctx: PhaseContext) -> None:
        assert await runtime.cancel(ctx.run_identity.run_id)

    agent = agent_of("never", plugins=[Piece("p", lambda r: r.hook(Phase.RUN_START, start))])
    runtime, sink = Runtime([agent]), CollectingSink()

    result = await runtime.run("a", "go", sink=sink)

    assert result.termination == CANCELLED
    assert model_of(agent).calls == 0
    [finish] = of_kind(sink.events(), RunFinish)
    assert finish.termination == CANCELLED
    record = await record_of(runtime, result.run_id)
    assert (record.status, record.termination_reason) == (RunStatus.DONE, CANCELLED)
