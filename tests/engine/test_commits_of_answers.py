"""What answering a run that waits in a process costs: no commit that says nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from loop_stage import CheckedModel, CountingCommits, Stage

from answer_kit import by_id
from awaken import Agent, ToolCallResume, tool
from awaken.core.event import RunFinish
from awaken.core.store.commits import ThreadCommit
from awaken.testing import tool_calls_response

pytestmark = pytest.mark.anyio


def _says_something(commit: ThreadCommit) -> bool:
    told: tuple[Any, ...] = (
        commit.messages,
        commit.events,
        commit.calls,
        commit.tickets,
        commit.acks,
        commit.sends,
        commit.run_state,
        commit.thread_state,
    )
    return any(told)


@pytest.mark.parametrize(
    "answer", [ToolCallResume.approve(), ToolCallResume.deny("no")], ids=["yes", "no"]
)
async def test_an_answer_to_a_live_waiting_run_makes_no_empty_commit(
    answer: ToolCallResume,
) -> None:
    @tool(needs_approval=True)
    async def pay(n: int) -> str:
        """Pay."""
        return f"paid {n}"

    model = CheckedModel(tool_calls_response("", ("pay", "c1", {"n": 1})), "done")
    store = CountingCommits()
    stage = Stage(Agent("a", model=model, tools=[pay]), store=store)
    running = asyncio.create_task(stage.run(wait_for_decisions=True))
    await stage.sink.until(RunFinish)

    await stage.runtime.decide("t", await by_id(stage.runtime, {"c1": answer}))
    await running

    assert [commit for commit in store.made if not _says_something(commit)] == []
