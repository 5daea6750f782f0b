"""Agents a runtime finds at its sources."""

from __future__ import annotations

import pytest
from a2a_harness import RunningAgent, endpoint

from awaken import Agent, Runtime
from awaken.core.message import Role
from awaken.core.store.threads import RunQuery
from awaken.errors import AgentNotFound, ResolveFailed, ValidationFailed
from awaken.testing import FunctionModel, ScriptedModel, tool_call_response

pytestmark = pytest.mark.anyio

FOUND = "test-agent-no1"
NOBODY = endpoint("http://127.0.0.1:9")


def local(id: str = "here") -> Agent:
    return Agent(id, model=ScriptedModel(["from here"]))


async def test_an_agent_of_a_source_is_asked_for_by_both_its_names(agent: RunningAgent) -> None:
    """03 §5.4: `source/id` exactly; a plain id is looked for here first, then at the sources."""
    async with Runtime([local()], sources={"lab": endpoint(agent.base)}) as runtime:
        by_source = await runtime.run(f"lab/{FOUND}", "say hi", thread="a")
        by_id = await runtime.run(FOUND, "say ho", thread="b")
        named = await runtime.run("local/here", "hi", thread="c")
        (record,) = await runtime.list_runs(RunQuery(thread_id="b"))

    assert (by_source.response, by_id.response, named.response) == ("hi", "ho", "from here")
    assert record.agent_id == f"lab/{FOUND}"


async def test_an_agent_here_goes_before_one_of_a_source(agent: RunningAgent) -> None:
    """03 §5.4: local first; the other one is still there by its source."""
    sources = {"lab": endpoint(agent.base), "field": endpoint(agent.base)}
    async with Runtime([local(FOUND)], sources=sources) as runtime:
        assert (await runtime.run(FOUND, "hi")).response == "from here"
        assert (await runtime.run(f"field/{FOUND}", "say hi")).response == "hi"
        assert (await runtime.run(f"lab/{FOUND}", "say hi")).response == "hi"


async def test_a_delegate_may_be_an_agent_that_is_still_to_be_found(agent: RunningAgent) -> None:
    def says(request: object) -> object:
        last = request.messages[-1]  # type: ignore[attr-defined]
        if last.role is Role.TOOL:
            return f"it says {last.text()}"
        name = request.tools[0].id  # type: ignore[attr-defined]
        return tool_call_response("", name, "c", {"prompt": "say hi"})

    boss = Agent("boss", model=FunctionModel(says), delegates=[f"lab/{FOUND}"])  # type: ignore[arg-type]

    async with Runtime([boss], sources={"lab": endpoint(agent.base)}) as runtime:
        result = await runtime.run("boss", "go")
        runtime.replace([boss, local()])
        again = await runtime.run("boss", "go")

    assert (result.response, again.response) == ("it says hi", "it says hi")


async def test_a_source_that_is_down_is_left_out_and_told(
    agent: RunningAgent, caplog: pytest.LogCaptureFixture
) -> None:
    boss = Agent("boss", model=ScriptedModel([]), delegates=["shed/anybody"])
    sources = {"lab": endpoint(agent.base), "shed": NOBODY}

    async with Runtime([local(), boss], sources=sources) as runtime:
        assert (await runtime.run(f"lab/{FOUND}", "say hi")).response == "hi"
        assert "no agent was found at source 'shed'" in caplog.text
        assert list(await runtime.discover()) == ["shed"]
        with pytest.raises(ResolveFailed, match="shed/anybody"):
            await runtime.run("boss", "go")
        with pytest.raises(AgentNotFound, match="shed/anybody"):
            await runtime.run("shed/anybody", "go")


async def test_a_delegate_nobody_could_find_is_refused_at_once() -> None:
    boss = Agent("boss", model=ScriptedModel([]), delegates=["elsewhere/anybody"])

    with pytest.raises(ValidationFailed, match="elsewhere/anybody"):
        Runtime([boss], sources={"lab": NOBODY})
