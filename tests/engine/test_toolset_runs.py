"""Tool sets in runs: by run, in delegates, after a hand-over and after a crash (08 §1)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from crash_stage import Deed, crash, ledger, recovered
from loop_stage import CheckedModel, Stage

from awaken import Agent, Runtime, ToolCallContext, tool
from awaken.core.lifecycle import CANCELLED, NATURAL_END
from awaken.core.tool_context import Tool
from awaken.errors import ConfigError, ToolIdConflict, ToolsetFailed
from awaken.stores.memory import MemoryStore
from awaken.testing import ScriptedModel, tool_call_response, tool_calls_response
from awaken.toolsets import RunInfo, Toolset, toolset

pytestmark = pytest.mark.anyio


def asks(tool_id: str, **arguments: Any) -> Any:
    return tool_call_response("", tool_id, "c1", arguments)


@tool(effect="read")
async def find(name: str, ctx: ToolCallContext) -> str:
    """Find a customer."""
    return f"{name}, as {ctx.tool_name}"


@tool(needs_approval=True)
async def delete(name: str) -> str:
    """Delete a customer."""
    return f"{name} is gone"


CRM = Toolset("crm", [find, delete])


def ids(model: ScriptedModel | CheckedModel, request: int = 0) -> list[str]:
    asked = model.requests if isinstance(model, ScriptedModel) else model.asked
    return [tool.id for tool in asked[request].tools]


# -- names ------------------------------------------------------------------------------------


async def test_calls_results_and_questions_have_the_name_in_the_set() -> None:
    """08/EX-3: gates, tickets and results see the final name."""
    model = ScriptedModel([asks("crm_find", name="Ann"), asks("crm_delete", name="Ann"), "done"])
    agent = Agent("desk", model=model, tools=[CRM.prefixed("crm_")])
    async with Runtime([agent]) as runtime:
        asked = await runtime.run("desk", "go", thread="t")
        (ticket,) = asked.tickets
        assert (ticket.tool_name, ticket.message) == ("crm_delete", "Approve crm_delete?")
        result = await runtime.run(thread="t", answers={ticket: True})
        assert result.unwrap() == "done"
        texts = [m.text() for m in await runtime.messages("t") if m.tool_call_id]
    assert texts == ["Ann, as crm_find", "Ann is gone"]


async def test_a_set_asks_before_tools_that_do_not() -> None:
    model = ScriptedModel([asks("find", name="Ann"), "done", asks("find", name="Bob"), "sorry"])
    agent = Agent("desk", model=model, tools=[CRM.asking("find")])
    async with Runtime([agent]) as runtime:
        asked = await runtime.run("desk", "go", thread="t")
        await runtime.run(thread="t", answers={asked.tickets[0]: True})
        asked = await runtime.run("desk", "go", thread="t")
        await runtime.run(thread="t", answers={asked.tickets[0]: False})
        texts = [m.text() for m in await runtime.messages("t") if m.tool_call_id]
    assert texts[0] == "Ann, as find"
    assert "not approved" in texts[1]


async def test_tools_of_a_set_can_be_named_as_those_that_run_alone() -> None:
    """08/EX-3: `sequential` sees the final name, and the set."""
    under_way: list[str] = []
    together: list[int] = []

    async def work(ctx: ToolCallContext) -> str:
        under_way.append(ctx.tool_name)
        together.append(len(under_way))
        for _ in range(5):
            await asyncio.sleep(0)
        under_way.remove(ctx.tool_name)
        return "ok"

    def tools() -> Toolset:
        both = [tool(work, name=name, description="Work.", effect="read") for name in ("a", "b")]
        return Toolset("crm", both).prefixed("crm_")

    async def most_at_once(**options: Any) -> int:
        together.clear()
        calls = tool_calls_response("", ("crm_a", "1", {}), ("crm_b", "2", {}))
        agent = Agent("desk", model=ScriptedModel([calls, "done"]), tools=[tools()], **options)
        await agent.run("go")
        return max(together)

    assert await most_at_once() == 2
    assert await most_at_once(sequential=["set:crm"]) == 1
    assert await most_at_once(sequential=["crm_*"]) == 1
    assert await most_at_once(sequential=["set:shop", "a"]) == 2


# -- by run -----------------------------------------------------------------------------------


def shop(seen: list[RunInfo], *names: str) -> Toolset:
    @toolset
    async def shop(run: RunInfo) -> Sequence[Tool]:
        seen.append(run)
        return [tool(find, name=name) for name in names]

    return shop


async def test_a_dynamic_set_is_asked_once_for_each_run_and_comes_behind_the_others() -> None:
    """08/EX-4"""
    seen: list[RunInfo] = []
    model = ScriptedModel([asks("buy", name="Ann"), "done", "again"])
    agent = Agent("desk", model=model, tools=[shop(seen, "sell", "buy"), CRM.only("find")])
    async with Runtime([agent]) as runtime:
        await runtime.run("desk", "go", thread="t", user="ann", labels={"tier": "gold"})
        assert [(run.user, run.labels, run.thread_id) for run in seen] == [
            ("ann", {"tier": "gold"}, "t")
        ]
        await runtime.run("desk", "go", thread="t", user="bob")
    assert [run.user for run in seen] == ["ann", "bob"]
    assert ids(model) == ids(model, 1) == ids(model, 2) == ["find", "buy", "sell"]


async def test_delegates_side_by_side_ask_once_each() -> None:
    """08/EX-4"""
    seen: list[RunInfo] = []
    clerk = Agent("clerk", model=ScriptedModel(["ok", "ok"]), tools=[shop(seen, "buy")])
    calls = [("agent_run_clerk", str(n), {"prompt": "go"}) for n in range(2)]
    desk = Agent(
        "desk", model=ScriptedModel([tool_calls_response("", *calls), "done"]), delegates=[clerk]
    )
    async with Runtime([desk]) as runtime:
        assert (await runtime.run("desk", "go", user="ann")).unwrap() == "done"
    assert [run.user for run in seen] == ["ann", "ann"]
    assert len({run.run_id for run in seen}) == 2


async def test_an_agent_that_is_handed_the_run_asks_its_own_sets_once() -> None:
    seen: list[RunInfo] = []
    model = ScriptedModel([asks("buy", name="Ann"), "bought"])
    seller = Agent("seller", model=model, tools=[shop(seen, "buy")])
    desk = Agent("desk", model=ScriptedModel([asks("handoff", agent="seller")]), handoffs=[seller])
    async with Runtime([desk]) as runtime:
        assert (await runtime.run("desk", "go", user="ann")).unwrap() == "bought"
    assert [(run.agent_id, run.user) for run in seen] == [("seller", "ann")]


async def test_a_condition_decides_for_a_run() -> None:
    model = ScriptedModel(["one", "two"])
    careful = CRM.only("find") + CRM.only("delete").when(lambda run: run.user == "ann")
    agent = Agent("desk", model=model, tools=[careful])
    async with Runtime([agent]) as runtime:
        await runtime.run("desk", "go", user="ann")
        await runtime.run("desk", "go", user="bob")
    assert [ids(model), ids(model, 1)] == [["find", "delete"], ["find"]]


async def test_a_run_that_is_cancelled_while_a_set_is_asked_ends_so() -> None:
    begun = asyncio.Event()

    @toolset
    async def slow(run: RunInfo) -> list[Tool]:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    agent = Agent("a", model=ScriptedModel([]), tools=[slow])
    async with Runtime([agent]) as runtime:
        submitted = await runtime.submit("a", "go", thread="t")
        await begun.wait()
        await runtime.cancel(submitted.run_id)
        ended = await runtime.wait(submitted.run_id, timeout=60)
    assert ended.termination == CANCELLED


# -- what goes wrong --------------------------------------------------------------------------


async def test_a_set_that_fails_keeps_a_run_from_starting_unless_it_is_not_required(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def down(run: RunInfo) -> list[Tool]:
        raise OSError("no route")

    model = ScriptedModel(["fine"])
    async with Runtime([Agent("a", model=model, tools=[toolset(down)])]) as runtime:
        with pytest.raises(ToolsetFailed, match=r"toolset 'down' could not be asked.*no route"):
            await runtime.run("a", "go", thread="t")
        assert await runtime.store.load_thread("t") is None
        submitted = await runtime.submit("a", "go", thread="t")
        ended = await runtime.wait(submitted.run_id, timeout=60)
        assert "toolset 'down'" in (ended.reason or "")
    lenient = Agent("a", model=model, tools=[CRM, toolset(name="down", required=False)(down)])
    async with Runtime([lenient]) as runtime:
        assert (await runtime.run("a", "go")).unwrap() == "fine"
    assert ids(model) == ["delete", "find"]
    assert "it starts without these tools" in caplog.text


async def test_a_clash_is_told_when_the_run_starts() -> None:
    """08/EX-2"""
    agent = Agent("a", model="demo", tools=[CRM, shop([], "find")])
    async with Runtime([agent]) as runtime:
        with pytest.raises(ToolIdConflict, match=r"toolset 'crm' and toolset 'shop'.*prefixed"):
            await runtime.run("a", "go")
    with pytest.raises(ConfigError, match="give it to the agents that use it"):
        Runtime([agent], tools=[shop([], "x")])


async def test_the_set_changed_between_a_kill_and_recovery() -> None:
    """08/EX-5: no call is made twice, and the model is told of no tool that it has not."""
    deed, store, seen = Deed(), MemoryStore(), list[RunInfo]()

    def works(*tools: Tool) -> Toolset:
        def works(run: RunInfo) -> Sequence[Tool]:
            seen.append(run)
            return tools

        return toolset(works)

    before = works(deed.tool, tool(find, name="old"))
    dying = Agent("a", model=CheckedModel(asks("deed")), tools=[before])
    async with crash(store, dying, deed.begun):
        model = CheckedModel("done")
        agent = Agent("a", model=model, tools=[works(tool(find, name="new"))])
        stage = Stage(agent, store=store)
        result = await recovered(stage)

    assert result.termination == NATURAL_END
    assert len(deed.keys) == 1
    assert await ledger(stage) == {"c1": "unknown"}
    assert ids(model) == ["new"]
    assert (await stage.record()).agent_changes == ("tools",)
    assert len(seen) == 2
