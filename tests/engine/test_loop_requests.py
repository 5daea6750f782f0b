"""What a model is asked with: overrides, filters, context (02 §5.5, 01/P-19, 01/A-10)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from loop_stage import CheckedModel, Stage, TestPlugin

from awaken import Agent, Command, InferenceOverride, Message, PhaseContext, Registrar, tool
from awaken.core.event import InferenceComplete
from awaken.core.inference import ContextWindowPolicy
from awaken.core.lifecycle import Phase
from awaken.core.message import Text
from awaken.core.state.command import (
    EXCLUDE_TOOL,
    INCLUDE_ONLY_TOOLS,
    SET_INFERENCE_OVERRIDE,
)
from awaken.core.tool import ToolDescriptor
from awaken.testing import tool_call_response

pytestmark = pytest.mark.anyio


@tool
async def look() -> str:
    """Look around."""
    return "seen"


@tool
async def jump() -> str:
    """Jump."""
    return "jumped"


LOOK = tool_call_response("", "look", "c1", {})


class Once:
    """Schedules what it is given, before the first inference of a run only."""

    def __init__(self, id: str, command: Command) -> None:
        self.id = id
        self._command = command
        self.left = 1

    def register(self, registrar: Registrar) -> None:
        registrar.hook(Phase.BEFORE_INFERENCE, self.hook)

    async def hook(self, _: PhaseContext) -> Command | None:
        self.left -= 1
        return self._command if self.left == 0 else None


def override(**fields: object) -> Command:
    return Command().schedule_action(SET_INFERENCE_OVERRIDE, InferenceOverride(**fields))  # type: ignore[arg-type]


async def test_settings_of_a_run_reach_every_request() -> None:
    """01/A-10: the run's own parameters, in each of its steps; the model moves to the request."""
    model = CheckedModel(LOOK, "done", "plain")
    stage = Stage(Agent("a", model=model, tools=[look]))

    await stage.run(settings=InferenceOverride(upstream_model="bigger", temperature=0.2))
    await stage.run("again")

    assert [r.upstream_model for r in model.asked] == ["bigger", "bigger", "checked"]
    assert [r.overrides for r in model.asked] == [
        InferenceOverride(temperature=0.2),
        InferenceOverride(temperature=0.2),
        None,
    ]
    assert [e.model for e in stage.told(InferenceComplete)] == ["bigger", "bigger", "checked"]


async def test_two_plugins_override_field_by_field_for_one_step() -> None:
    """01/P-19: the last wins per field, and nothing leaks into the next step."""
    first = Once("first", override(temperature=0.1, max_tokens=10))
    second = Once("second", override(temperature=0.9, top_p=0.5))
    model = CheckedModel(LOOK, "done")
    stage = Stage(Agent("a", model=model, tools=[look], plugins=[first, second]))

    await stage.run()

    assert [r.overrides for r in model.asked] == [
        InferenceOverride(temperature=0.9, max_tokens=10, top_p=0.5),
        None,
    ]


async def test_run_beats_step_beats_agent() -> None:
    """09 §2.3: agent's settings < the step's < the run's."""
    step = Once("step", override(reasoning_effort="max", max_tokens=9, upstream_model="chosen"))
    model = CheckedModel(LOOK, "done", "alone")
    stage = Stage(Agent("a", model=model, tools=[look], plugins=[step], reasoning_effort="low"))

    await stage.run(settings=InferenceOverride(max_tokens=7))
    await stage.run("again")

    assert [r.overrides for r in model.asked] == [
        InferenceOverride(reasoning_effort="max", max_tokens=7),
        InferenceOverride(reasoning_effort="low", max_tokens=7),
        InferenceOverride(reasoning_effort="low"),
    ]
    assert [r.upstream_model for r in model.asked] == ["chosen", "checked", "checked"]


async def test_filters_hold_for_one_step() -> None:
    """01 §3.3: include-only lists are united, exclusions win, and the next step has all again."""
    only = Command().schedule_action(INCLUDE_ONLY_TOOLS, ("look",))
    both = (
        Command()
        .schedule_action(INCLUDE_ONLY_TOOLS, ("jump",))
        .schedule_action(EXCLUDE_TOOL, "jump")
    )
    model = CheckedModel(LOOK, "done")
    plugins = [Once("first", only), Once("second", both)]
    stage = Stage(Agent("a", model=model, tools=[look, jump], plugins=plugins))

    await stage.run()

    assert [[d.id for d in r.tools] for r in model.asked] == [["look"], ["jump", "look"]]


async def test_hooks_know_which_tools_were_offered() -> None:
    """01 §3.4: after the inference, the tools really offered."""
    offered: list[tuple[str, ...]] = []

    async def note(ctx: PhaseContext) -> None:
        offered.append(ctx.effective_tool_ids)

    exclude = Once("exclude", Command().schedule_action(EXCLUDE_TOOL, "jump"))
    model = CheckedModel(LOOK, "done")
    plugin = TestPlugin({Phase.AFTER_INFERENCE: note})
    stage = Stage(Agent("a", model=model, tools=[look, jump], plugins=[exclude, plugin]))

    await stage.run()

    assert offered == [("look",), ("jump", "look")]


async def test_the_prompt_is_the_system_and_not_a_message() -> None:
    """02/8.29: the prompt stands where providers cache it; the policy turns the hint on."""
    policy = ContextWindowPolicy.default()
    model = CheckedModel("hello")
    stage = Stage(Agent("a", model=model, system_prompt="Be brief.", context_policy=policy))

    await stage.run()

    (request,) = model.asked
    assert request.system == (Text(text="Be brief."),)
    assert request.enable_prompt_cache
    assert [m.text() for m in request.messages] == ["hi"]


async def test_transforms_change_the_request_and_never_the_log() -> None:
    """01 §3.5: in order of registration, over the messages of one request."""

    class Shouting:
        id = "shouting"

        def register(self, registrar: Registrar) -> None:
            registrar.transform(self.shout)
            registrar.transform(self.sign)

        def shout(
            self, messages: Sequence[Message], _: Sequence[ToolDescriptor]
        ) -> Sequence[Message]:
            return [Message.user(m.text().upper()) for m in messages]

        def sign(
            self, messages: Sequence[Message], tools: Sequence[ToolDescriptor]
        ) -> Sequence[Message]:
            return [*messages, Message.user(f"({len(tools)} tools)")]

    model = CheckedModel("hello")
    stage = Stage(Agent("a", model=model, tools=[look], plugins=[Shouting()]))

    await stage.run("hi there")

    assert [m.text() for m in model.requests[0]] == ["HI THERE", "(1 tools)"]
    assert [text for _, text in await stage.texts()] == ["hi there", "hello"]
