"""Handing a conversation over: who answers, who stays, and what goes along (D-22)."""

from __future__ import annotations

from typing import Any

import pytest

from answer_kit import by_id
from awaken import Agent, RemoteAgent, Runtime, ToolDescriptor, tool
from awaken.core.lifecycle import NATURAL_END, Blocked
from awaken.core.message import Role
from awaken.errors import ConfigError, ToolIdConflict
from awaken.ext.handoff import HandoffPlugin
from awaken.testing import ScriptedModel, tool_call_response
from awaken.testing.models import Response

pytestmark = pytest.mark.anyio


def handing_over(to: str = "second") -> Response:
    return tool_call_response("", "handoff", "h1", {"agent": to})


def two(
    first: list[Response],
    second: list[Response],
    *,
    targets: tuple[str, ...] = ("second",),
    **options: Any,
) -> tuple[Runtime, ScriptedModel, ScriptedModel]:
    models = ScriptedModel(first), ScriptedModel(second)
    runtime = Runtime(
        [
            Agent("first", model=models[0], system_prompt="I am first.", handoffs=targets),
            Agent("second", model=models[1], system_prompt="I am second.", **options),
        ]
    )
    return runtime, *models


async def test_the_new_agent_answers_in_the_same_run() -> None:
    """01 §4: at the step's border, with its own prompt, and the whole conversation."""
    runtime, first, second = two([handing_over()], ["second speaking"])

    result = await runtime.run("first", "hello", thread="t")

    assert result.response == "second speaking"
    assert (first.calls, second.calls) == (1, 1)
    asked = second.requests[0]
    assert [block.text for block in asked.system] == ["I am second."]  # type: ignore[union-attr]
    assert [message.role for message in asked.messages] == [Role.USER, Role.ASSISTANT, Role.TOOL]
    record = await runtime.find_run(result.run_id)
    assert record is not None
    assert record.agent_id == "second"


async def test_the_thread_stays_with_the_new_agent() -> None:
    """01/A-5: asked for nobody, the active agent goes on; another thread is not concerned."""
    runtime, first, second = two([handing_over(), "first here"], ["one", "two"])

    await runtime.run("first", "hello", thread="t")
    again = await runtime.run(input="and again", thread="t")
    other = await runtime.run("first", "hello", thread="other")

    assert (again.response, other.response) == ("two", "first here")
    assert (first.calls, second.calls) == (2, 2)


async def test_an_agent_asked_for_by_name_speaks_in_a_thread_that_was_handed_over() -> None:
    """01/A-5: what is asked for goes first; the thread then stays with it."""
    runtime, first, second = two([handing_over(), "first again", "still first"], ["second"])
    await runtime.run("first", "hello", thread="t")

    named = await runtime.run("first", "you, please", thread="t")
    unnamed = await runtime.run(input="go on", thread="t")

    assert (named.response, unnamed.response) == ("first again", "still first")
    assert (first.calls, second.calls) == (3, 1)


async def test_answers_belong_to_the_agent_whose_calls_wait() -> None:
    """01/A-5, D-22: though the agent of the first request is named again."""

    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    runtime, _, second = two(
        [handing_over()], [tool_call_response("", "pay", "c1", {}), "done"], tools=[pay]
    )
    waiting = await runtime.run("first", "hello", thread="t")
    assert [ticket.tool_name for ticket in waiting.tickets] == ["pay"]

    result = await runtime.run("first", thread="t", answers=await by_id(runtime, {"c1": True}))

    assert result.response == "done"
    assert second.requests[1].messages[-1].text() == "paid"


async def test_a_target_that_is_not_on_the_list_is_refused() -> None:
    """Bad input: the model reads which agents there are; nobody takes over."""
    runtime, first, second = two([handing_over("third"), "then I do it"], [])

    result = await runtime.run("first", "hello")

    assert result.response == "then I do it"
    assert "second" in first.requests[1].messages[-1].text()
    assert second.calls == 0


def test_a_target_nobody_registered_is_refused_when_building() -> None:
    """Bad input: the agent, the target, and who there is."""
    with pytest.raises(ConfigError, match=r"'first'.*'ghost'.*first, second"):
        two([], [], targets=("ghost",))


def test_a_target_that_runs_elsewhere_is_refused_when_building() -> None:
    """Bad input: a run goes on in the loop it is in; what to do instead."""
    far = RemoteAgent("far", "https://far.example")

    with pytest.raises(ConfigError, match=r"'near'.*'far', which runs elsewhere.*a delegate"):
        Runtime([Agent("near", model=ScriptedModel([]), handoffs=["far"]), far])


async def test_a_target_that_turns_out_to_be_nobody_blocks_the_run() -> None:
    """Bad input: the end says which agent is missing and which there are."""
    plugin = HandoffPlugin(["ghost"])
    runtime = Runtime([Agent("a", model=ScriptedModel([handing_over("ghost")]), plugins=[plugin])])

    result = await runtime.run("a", "hello")

    assert isinstance(result.termination, Blocked)
    assert result.termination.value == (
        "handoff resolve failed: agent not found: 'ghost'; registered: 'a'"
    )


CLICK = ToolDescriptor(id="click", name="click", description="Click something.")


async def test_front_end_tools_come_along() -> None:
    """D-22: the client's tools are offered by the new agent, too."""
    runtime, first, second = two(
        [handing_over()], [tool_call_response("", "click", "c1", {}), "clicked"]
    )

    result = await runtime.run("first", "hello", thread="t", frontend_tools=[CLICK])

    assert result.suspended
    assert [ticket.tool_name for ticket in result.tickets] == ["click"]
    offered = [[tool.id for tool in model.requests[0].tools] for model in (first, second)]
    assert offered == [["click", "handoff"], ["click"]]


async def test_a_front_end_tool_the_new_agent_has_itself_blocks_the_run() -> None:
    """D-22: a conflict is an error, not a replacement; the tool is named."""

    @tool
    async def click() -> str:
        """My own click."""
        return "clicked"

    runtime, _, second = two([handing_over()], [], tools=[click])

    result = await runtime.run("first", "hello", frontend_tools=[CLICK])

    assert isinstance(result.termination, Blocked)
    assert "'click'" in result.termination.value
    assert second.calls == 0


async def test_a_front_end_tool_the_first_agent_has_itself_is_refused_at_once() -> None:
    """D-22, bad input: before anything has happened; the tool is named, and what to do."""

    @tool
    async def click() -> str:
        """My own click."""
        return "clicked"

    model = ScriptedModel([])
    runtime = Runtime([Agent("a", model=model, tools=[click])])

    with pytest.raises(ToolIdConflict, match=r"'click'.*'a'.*rename one"):
        await runtime.run("a", "hello", thread="t", frontend_tools=[CLICK])

    assert list(await runtime.messages("t")) == []
    assert list(await runtime.list_runs()) == []
    assert model.calls == 0


async def test_handing_over_and_back_is_two_borders() -> None:
    """D-22: an agent may come back within one run."""
    back = tool_call_response("", "handoff", "h2", {"agent": "first"})
    runtime, first, second = two([handing_over(), "back again"], [back], handoffs=("first",))

    result = await runtime.run("first", "hello")

    assert result.termination == NATURAL_END
    assert result.response == "back again"
    assert (first.calls, second.calls) == (2, 1)
