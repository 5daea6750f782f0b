"""Agents in processes of their own, asked for, delegated to and cancelled like any other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from process_stage import HERE, Stage

from awaken import Agent, RemoteAgent, Runtime
from awaken.core.event import (
    InferenceComplete,
    RunFinish,
    RunStart,
    StepEnd,
    StepStart,
    TextDelta,
)
from awaken.core.lifecycle import CANCELLED, RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.testing import FunctionModel, tool_calls_response

pytestmark = pytest.mark.anyio


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with Stage.open() as opened:
        yield opened


def far(agent: str, **options: Any) -> RemoteAgent:
    """An agent of `process_agents`, under its own name."""
    where = f"python:process_agents:{agent}"
    return RemoteAgent(agent, where, options={"cwd": str(HERE), **options})


async def test_a_thread_goes_on_in_a_new_process_every_turn() -> None:
    """02/B7: what is told, and that the log has both sides of it."""
    async with Runtime([far("reader")]) as runtime:
        first = await runtime.run("reader", "one", thread="t")
        async with runtime.stream("reader", "two", thread="t") as events:
            told = [type(event.event) async for event in events]
        log = await runtime.messages("t")

    assert first.response == "user: one"
    assert told == [RunStart, StepStart, TextDelta, InferenceComplete, StepEnd, RunFinish]
    assert [message.text() for message in log] == [
        "one",
        "user: one",
        "two",
        "user: one | assistant: user: one | user: two",
    ]


async def test_an_agent_here_gives_a_task_to_one_in_a_process() -> None:
    def say(request: InferenceRequest) -> Any:
        last = request.messages[-1]
        if last.role is Role.TOOL:
            return f"it said: {last.text()}"
        return tool_calls_response("", ("agent_run_echo", "c1", {"prompt": "how are you?"}))

    boss = Agent("boss", model=FunctionModel(say), delegates=["echo"])
    async with Runtime([boss, far("echo")]) as runtime:
        result = await runtime.run("boss", "ask it")

    assert "how are you?" in result.response


async def test_a_cancelled_run_lets_the_agent_put_its_things_in_order(stage: Stage) -> None:
    """02/B10: and its record says cancelled."""
    options = {**stage.options, "grace_ms": 60_000}
    async with Runtime([far("slow", **options)]) as runtime, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(runtime.run("slow", "take your time", thread="t"))
        guest = await stage.guest()

        await runtime.cancel("t")

        assert await guest.last_words() == "bye\n"
        result = await running
        assert result.termination == CANCELLED
        assert not guest.is_there
        record = await runtime.find_run(result.run_id)
        assert record is not None
        assert record.status is RunStatus.DONE


async def test_closing_the_runtime_ends_the_process(stage: Stage) -> None:
    async with Runtime([far("deaf", **stage.options, grace_ms=200)]) as runtime:
        running = asyncio.ensure_future(runtime.run("deaf", "dig in", thread="t"))
        guest = await stage.guest()

    assert not guest.is_there
    assert (await running).termination == CANCELLED
