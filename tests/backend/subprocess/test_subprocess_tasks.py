"""Agents in processes of their own that start tasks: the process ends when nothing is under way."""

from __future__ import annotations

import asyncio

import pytest
from process_stage import HERE, PATIENCE, Stage, backend_for, root

from awaken import Agent, RemoteAgent, Runtime
from awaken.core.aio.cancel import CancellationToken
from awaken.core.backend import BackendStatusKind
from awaken.core.budget import Budget
from awaken.core.event import CollectingSink
from awaken.core.lifecycle import CANCELLED, NATURAL_END
from awaken.testing import ScriptedModel, tool_call_response

pytestmark = pytest.mark.anyio


async def test_an_agent_answers_once_its_tasks_have_ended() -> None:
    """What it says before is no answer: the task would end with its process."""
    result = await backend_for("sending").execute_root(root())

    assert result.termination == NATURAL_END
    assert result.response is not None
    assert "the errand is run" in result.response
    assert result.steps == 3
    assert result.spending is not None
    assert result.spending.spent.steps == 3


async def test_an_agent_whose_task_needs_an_approval_says_that_it_cannot_come() -> None:
    async with asyncio.timeout(PATIENCE):
        result = await backend_for("asking_later", target="asking_later").execute_root(root())

    assert result.status.kind is BackendStatusKind.FAILED
    assert "waits for an answer to 'pay', which cannot come" in str(result.status.message)


async def test_a_run_that_waits_for_its_tasks_can_be_cancelled() -> None:
    """The task puts its things in order, too."""
    async with Stage.open() as stage:
        token = CancellationToken()
        backend = backend_for("slow_later", options={**stage.options, "grace_ms": 20_000})
        running = asyncio.ensure_future(backend.execute_root(root(token=token)))
        guest = await stage.guest()
        token.cancel()
        result = await running
        words = await guest.last_words()

    assert (result.termination, words) == (CANCELLED, "bye\n")


async def test_what_a_process_has_used_up_is_counted_where_it_was_asked() -> None:
    far = RemoteAgent("far", "python:process_agents:sending", options={"cwd": str(HERE)})
    call = tool_call_response("", "agent_run_far", "c1", {"prompt": "go"})
    boss = Agent("boss", model=ScriptedModel([call, "done"]), delegates=[far])
    async with Runtime([boss, far]) as runtime:
        alone = await runtime.run("far", "go", budget=Budget(), sink=CollectingSink())
        result = await runtime.run("boss", "go", budget=Budget())

    assert alone.spent is not None
    assert result.spent is not None
    assert (alone.spent.steps, result.spent.steps) == (3, 5)
    assert 0 < alone.spent.tokens < result.spent.tokens
