"""Handing a run to another agent at a step's border (02 §5.3, 02/8.20, 01/D-22)."""

from __future__ import annotations

from typing import Any

import pytest
from loop_stage import CheckedModel, Stage, TestPlugin, assert_event_order

from awaken import (
    Agent,
    Command,
    PhaseContext,
    Registrar,
    Runtime,
    ToolCallResume,
    ToolDescriptor,
    tool,
)
from awaken.core.event import RunFinish, RunStart, StepEnd, StepStart
from awaken.core.inbox import InboxSender
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import NATURAL_END, Blocked, Phase, RunStatus, Stopped, Suspended
from awaken.core.llm import InferenceRequest
from awaken.core.state.command import MutationBatch
from awaken.core.state.run_keys import ACTIVE_AGENT
from awaken.core.state.store import StateStore
from awaken.errors import ConfigError
from awaken.testing import (
    FunctionModel,
    ScriptedModel,
    text_response,
    tool_call_response,
    tool_calls_response,
)

pytestmark = pytest.mark.anyio

TO_B = tool_call_response("one moment", "handoff", "c1", {"agent": "b"})


class Diary:
    """Writes down what happens to it."""

    def __init__(self, id: str, diary: list[str]) -> None:
        self.id = id
        self._diary = diary

    def register(self, registrar: Registrar) -> None:
        return

    def bind_runtime_context(self, store: StateStore, owner_inbox: InboxSender | None) -> None:
        self._diary.append(f"{self.id} bound")

    def on_activate(self, agent_spec: Any, batch: MutationBatch) -> None:
        self._diary.append(f"{self.id} activated for {agent_spec.id}")

    def on_deactivate(self, batch: MutationBatch) -> None:
        self._diary.append(f"{self.id} deactivated")


async def test_the_other_agent_goes_on_in_the_next_step() -> None:
    """02 §5.3: same run, same messages; prompt, model and tools are the other's."""

    @tool
    async def refund() -> str:
        return "refunded"

    first = CheckedModel(TO_B)
    second = CheckedModel(tool_call_response("", "refund", "c2", {}), "all done", "still b")
    stage = Stage(
        Agent("a", model=first, system_prompt="I am a", handoffs=["b"]),
        Agent("b", model=second, system_prompt="I am b", tools=[refund]),
    )

    result = await stage.run()

    assert (result.response, result.steps) == ("all done", 3)
    assert len(stage.told(RunStart)) == 1
    assert_event_order(stage.sink.events())
    request = second.asked[0]
    assert request.system[0].text == "I am b"  # type: ignore[union-attr]
    assert [d.id for d in request.tools] == ["refund"]
    assert [m.text() for m in request.messages] == [
        "hi",
        "one moment",
        "The conversation is handed to b.",
    ]
    assert (await stage.record()).agent_id == "b", "02/8.20: the record says who speaks"
    assert (await stage.run("and now?", agent_id=None)).response == "still b"


async def test_calls_beside_a_handoff_are_still_the_first_agents() -> None:
    """02 §5.3: the border is the step's, so the whole batch runs before."""

    @tool
    async def look() -> str:
        return "seen"

    batch = tool_calls_response("", ("handoff", "c1", {"agent": "b"}), ("look", "c2", {}))
    stage = Stage(
        Agent("a", model=CheckedModel(batch), tools=[look], handoffs=["b"]),
        Agent("b", model=CheckedModel("hello from b")),
    )

    result = await stage.run()

    assert result.response == "hello from b"
    assert (await stage.results())[1] == "seen"


async def test_plugins_are_bound_and_change_places() -> None:
    """01/D-22, 02/8.20: the new agent's plugins are bound; the old leave before they come."""
    diary: list[str] = []
    stage = Stage(
        Agent("a", model=CheckedModel(TO_B), handoffs=["b"], plugins=[Diary("old", diary)]),
        Agent("b", model=CheckedModel("hello"), plugins=[Diary("new", diary)]),
    )
    diary.clear()

    await stage.run()

    assert diary == [
        "old bound",
        "old activated for a",
        "new bound",
        "old deactivated",
        "new activated for b",
    ]


PICK = ToolDescriptor(id="pick", name="pick", description="Pick a colour.")


async def test_front_end_tools_come_along() -> None:
    """02/8.20: what belongs to the run is there after every swap."""
    second = CheckedModel(tool_call_response("", "pick", "c2", {}), "blue it is")
    stage = Stage(Agent("a", model=CheckedModel(TO_B), handoffs=["b"]), Agent("b", model=second))

    waiting = await stage.run(frontend_tools=(PICK,))
    result = await stage.resume(
        ("c2", ToolCallResume.approve("blue")), agent_id=None, frontend_tools=(PICK,)
    )

    assert isinstance(waiting.termination, Suspended)
    assert [d.id for d in second.asked[0].tools] == ["pick"]
    assert result.response == "blue it is"
    assert result.run_id == waiting.run_id


async def test_a_front_end_tool_the_other_agent_has_blocks_the_handoff() -> None:
    """01/D-22: a conflict is an error; here it ends the run as blocked."""

    @tool
    async def pick() -> str:
        return "mine"

    second = CheckedModel("never")
    stage = Stage(
        Agent("a", model=CheckedModel(TO_B), handoffs=["b"]),
        Agent("b", model=second, tools=[pick]),
    )

    result = await stage.run(frontend_tools=(PICK,))

    assert isinstance(result.termination, Blocked)
    assert result.termination.value.startswith("handoff resolve failed: tool 'pick' comes from")
    assert second.calls == 0


async def test_an_agent_nobody_knows_blocks_the_run() -> None:
    """02 §5.3: blocked with the reason; no step begins, and the thread can be used again."""
    armed = [True]

    async def hand_over(_: PhaseContext) -> Command | None:
        return Command().update(ACTIVE_AGENT, "ghost") if armed[0] else None

    @tool
    async def look() -> str:
        return "seen"

    model = CheckedModel(tool_call_response("", "look", "c1", {}), "here again")
    plugin = TestPlugin({Phase.STEP_END: hand_over})
    stage = Stage(Agent("a", model=model, tools=[look], plugins=[plugin]))

    result = await stage.run()

    assert result.termination == Blocked(
        value="handoff resolve failed: agent not found: 'ghost'; registered: 'a'"
    )
    assert (result.steps, model.calls) == (1, 1)
    assert len(stage.told(StepStart)) == len(stage.told(StepEnd)) == 1
    assert_event_order(stage.sink.events())
    record = await stage.record()
    assert (record.status, record.agent_id) == (RunStatus.DONE, "a")
    assert stage.told(RunFinish)[0].result["status_reason"].startswith("blocked:handoff resolve")
    armed[0] = False
    assert (await stage.run("again")).termination == NATURAL_END


async def test_a_thread_stays_with_the_agent_it_was_handed_to_unless_another_is_asked_for() -> None:
    """01/A-5: the agent asked for speaks; without one, whoever spoke last."""
    heard: list[str] = []

    def speaker(name: str, *replies: StreamResult) -> Agent:
        script = list(replies)

        def answer(_: InferenceRequest) -> StreamResult:
            heard.append(name)
            return script.pop(0) if script else text_response(f"{name} here")

        return Agent(name, model=FunctionModel(answer), handoffs=["desk", "shipping"])

    desk = speaker("desk", tool_call_response("", "handoff", "h1", {"agent": "shipping"}))
    async with Runtime([desk, speaker("shipping")]) as runtime:
        await runtime.run("desk", "hello", thread="t")
        await runtime.run(None, "and now?", thread="t")
        await runtime.run("desk", "back to you", thread="t")
        await runtime.run(None, "still there?", thread="t")

    assert heard == ["desk", "shipping", "shipping", "desk", "desk"]


async def test_a_handoff_to_nobody_is_refused_before_anything_runs() -> None:
    agent = Agent("desk", model="demo", handoffs=["ghost"])

    with pytest.raises(ConfigError, match=r"'desk' may hand over to 'ghost'.*it has: desk"):
        Runtime([agent])


async def test_a_run_stopped_in_its_first_step_has_taken_one() -> None:
    @tool
    async def work() -> str:
        """Work."""
        return "worked"

    model = ScriptedModel([tool_call_response("", "work", "c1", {})])
    async with Runtime([Agent("a", model=model, tools=[work], max_rounds=1)]) as runtime:
        result = await runtime.run("a", "go")

    assert isinstance(result.termination, Stopped)
    assert result.steps == 1
