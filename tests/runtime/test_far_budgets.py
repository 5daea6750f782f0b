"""Agents elsewhere within budgets: each turn counts as a step, and by its time (ADR 8)."""

from __future__ import annotations

import asyncio

import pytest
from far_kit import FarBackend, Held, asks, runtime_of, says

from awaken import Agent
from awaken.domain.budget import Budget
from awaken.domain.lifecycle import Stopped
from awaken.domain.message import Role
from awaken.testing import ScriptedModel, tool_calls_response

pytestmark = pytest.mark.anyio

T = "t"


async def test_a_turn_elsewhere_is_a_step() -> None:
    async with runtime_of(FarBackend(says("hi"))) as runtime:
        counted = await runtime.run("far", "go", budget=Budget())

    assert counted.spent is not None
    assert (counted.spent.steps, counted.spent.tokens) == (1, 0)


async def test_a_run_elsewhere_that_waits_goes_on_with_the_rest() -> None:
    """Two turns are all it may take; the third is not begun."""
    backend = FarBackend(asks("which?"), asks("really?"), says("never said"))

    async with runtime_of(backend) as runtime:
        await runtime.run("far", "go", thread=T, budget=Budget(steps=2))
        await runtime.run("far", "this one", thread=T)
        result = await runtime.run("far", "yes", thread=T)

    assert len(backend.requests) == 2
    assert isinstance(result.termination, Stopped)
    assert result.termination.value.code == "budget"
    assert result.spent is not None
    assert result.spent.steps == 2


async def test_delegates_elsewhere_are_counted_as_their_parents() -> None:
    calls = [("agent_run_far", f"d{n}", {"prompt": "go"}) for n in range(3)]
    model = ScriptedModel([tool_calls_response("", *calls), "done"])
    boss = Agent("boss", model=model, delegates=["far"], sequential=True)
    backend = FarBackend(*[says("hi")] * 3)

    async with runtime_of(backend, boss) as runtime:
        result = await runtime.run("boss", "go", thread=T, budget=Budget(steps=3))
        log = await runtime.messages(T)

    results = [message.text() for message in log if message.role is Role.TOOL]
    assert len(backend.requests) == 2
    assert results[:2] == ["hi", "hi"]
    assert "the budget of 3 steps has 0 left" in results[2]
    assert isinstance(result.termination, Stopped)
    assert result.spent is not None
    assert result.spent.steps == 3


async def test_a_run_elsewhere_is_cut_short_when_its_time_is_up() -> None:
    held = Held()
    backend = FarBackend(held)

    async with runtime_of(backend) as runtime, asyncio.timeout(5):
        result = await runtime.run("far", "go", thread=T, budget=Budget(seconds=0.02))

    assert isinstance(result.termination, Stopped)
    assert result.termination.value.code == "budget"
    assert len(backend.aborts) == 1
    assert not held.let_go.is_set()
