"""What a type checker knows of agents and results: mypy and pyright read this file."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, assert_type

import pytest

from awaken import Agent, PhaseContext, RunContext, RunResult, Runtime, tool
from awaken.errors import ConfigError
from awaken.testing import ScriptedModel

pytestmark = pytest.mark.anyio


@dataclass
class Deps:
    customer: int


@dataclass
class Order:
    item: str


@tool(effect="read")
async def balance(ctx: RunContext[Deps]) -> int:
    """The balance."""
    assert_type(ctx.deps, Deps)
    return ctx.deps.customer


async def test_results_have_the_type_of_the_agents_output() -> None:
    """09/FD-19"""
    text = Agent("a", model=ScriptedModel(["hi"]))
    assert_type(text, Agent[Any, str])
    assert_type((await text.run("go")).output, str)
    order = Agent("a", model=ScriptedModel(['{"item": "lamp"}'] * 2), output=Order)
    assert_type(order, Agent[Any, Order])
    assert_type(await order.run("go"), RunResult[Order])
    assert_type((await order.run("go")).unwrap(), Order)
    orders = Agent("a", model="demo", output=list[Order])
    assert_type(orders, Agent[Any, list[Order]])
    either = Agent("a", model="demo", output=Order | int)
    assert_type(either, Agent[Any, Any])
    agents = [text, order, orders]
    assert len(agents) == 3


async def test_dependencies_are_known_in_prompts_checks_and_runs() -> None:
    """09/FD-2"""

    def check(ctx: PhaseContext[Deps], order: Order) -> Order:
        assert_type(ctx.deps.customer, int)
        return order

    bank = Agent(
        "bank",
        model=ScriptedModel(['{"item": "lamp"}']),
        deps=Deps,
        output=Order,
        output_check=check,
        system_prompt=lambda ctx: f"Customer {ctx.deps.customer}.",
        tools=[balance],
    )
    assert_type(bank, Agent[Deps, Order])
    assert (await bank.run("go", deps=Deps(7))).unwrap() == Order("lamp")
    with pytest.raises(Exception, match="are a Deps, not a Order"):
        await bank.run("go", deps=Order("lamp"))  # type: ignore[arg-type]
    Agent(
        "bank",
        model="demo",
        deps=Deps,
        system_prompt=lambda ctx: f"{ctx.deps.custmer}",  # type: ignore[attr-defined]
    )


async def test_options_of_a_run_are_known_by_name_and_type() -> None:
    """09/FD-2: by those of `run`, `stream` and `submit`, and by `help()`."""
    agent = Agent("a", model=ScriptedModel(["hi"] * 2))
    async with Runtime([agent]) as runtime:
        await runtime.run(agent, "go", thread="t", labels={"tier": "gold"}, when_busy="queue")
        with pytest.raises(TypeError, match=r"write thread$"):
            await runtime.run(agent, "go", thred="t")  # type: ignore[call-arg]
        with pytest.raises(ConfigError, match="user is a text or None, not 7"):
            await runtime.run(agent, "go", user=7)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="mode is one of 'queue', 'steer'"):
            await runtime.submit(agent, "go", mode="later")  # type: ignore[arg-type]
        async with runtime.stream(agent, "go", detached=True, budget=None) as events:
            assert_type(await events.read_to_end(), RunResult[Any])
    for method in (Runtime.run, Runtime.run_sync, Runtime.stream, Runtime.submit, Agent.run):
        shown = inspect.signature(method).parameters
        assert shown["thread"].annotation == "str | None"
        assert shown["frontend_tools"].default == ()
        assert "options" not in shown
