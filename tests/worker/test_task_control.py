"""What an agent that works in a background task can do about that task, and hears from its owner.

Seeds and 03 §1.5: it gets a `cancel_task` bound to the task, unless it has one of its own.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from delegation_kit import Place, Step, T, open_runs, record, to
from delegation_kit import told as answered
from task_kit import (
    Yard,
    agent_in_task,
    boss,
    over,
    sender_of,
    tasks_in,
    told,
    told_in,
    waiting,
    working,
)

from awaken import Agent, Runtime, ToolCallContext, tool
from awaken.core.lifecycle import CANCELLED
from awaken.core.llm import InferenceRequest
from awaken.ext.tasks import BackgroundTaskPlugin
from awaken.testing import FunctionModel

pytestmark = pytest.mark.anyio

SELF: Step = [("cancel_task", {"target": {"relation": "self"}})]
HELLO: Step = [
    ("send_message", {"to": {"relation": "child", "name": "bg_0"}, "message": "hurry up"})
]


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


class Offered:
    """A model that writes down which tools it is offered, each time."""

    def __init__(self, name: str, *steps: Step) -> None:
        self.tools: list[list[str]] = []
        self._plan = working(name, *steps)
        self.model = FunctionModel(self._answer, name)

    async def _answer(self, request: InferenceRequest) -> Any:
        self.tools.append(sorted(descriptor.id for descriptor in request.tools))
        events = [event async for event in self._plan.execute_stream(request)]
        return events


# -- stopping oneself -------------------------------------------------------------------------


async def test_an_agent_in_a_task_can_stop_the_task(place: Place) -> None:
    """Seeds: `execute_delegate_in_background_task_can_self_cancel_and_cascade`, made durable."""
    yard = Yard()
    helper = yard.agent("helper", [("dig", {"n": 1})], SELF, background=["dig"])

    async with place.runtime([boss(helper), helper]) as runtime:
        await runtime.run("boss", "go", thread=T)
        run = await over(runtime)
        child = await agent_in_task(runtime)
        assert (await record(runtime, child)).termination_reason == CANCELLED
        outer, inner = await tasks_in(runtime)
        assert await open_runs(runtime) == []

    assert outer.termination_reason == inner.termination_reason == CANCELLED
    assert (run.final_output or "").startswith("boss: bg_0 cancelled before that it had done: ")
    assert yard.done == []


async def test_the_tool_is_offered_only_inside_a_task(place: Place) -> None:
    """A delegate that somebody waits for, and the boss itself, do not get it."""
    helper_model = Offered("helper")
    helper = Agent("helper", model=helper_model.model)
    front = Agent("front", model=working("front", [to("helper")]), delegates=["helper"])

    async with place.runtime([boss(helper), front, helper]) as runtime:
        await runtime.run("front", "go", thread="other")
        await runtime.run("boss", "go", thread=T)
        await over(runtime)

    assert helper_model.tools == [[], ["cancel_task"]]


async def test_an_agents_own_tool_of_that_name_is_kept(place: Place) -> None:
    """Seeds: `execute_delegate_preserves_existing_cancel_task_tool_in_background_context`."""

    @tool
    async def cancel_task(target: dict[str, str]) -> str:
        """Strike something from a list."""
        return f"struck {target['relation']}"

    helper = Agent("helper", model=working("helper", SELF), tools=[cancel_task])
    async with place.runtime([boss(helper), helper]) as runtime:
        await runtime.run("boss", "go", thread=T)
        run = await over(runtime)
        assert await answered(runtime, await agent_in_task(runtime)) == ["struck self"]

    assert run.final_output == "boss: bg_0 completed helper: "


async def test_agents_further_down_can_stop_the_task_too(place: Place) -> None:
    """03 §1.5: a delegate of the agent in the task runs in that task as well."""
    leaf = Agent("leaf", model=working("leaf", SELF))
    helper = Agent("helper", model=working("helper", [to("leaf")]), delegates=["leaf"])

    async with place.runtime([boss(helper), helper, leaf]) as runtime:
        await runtime.run("boss", "go", thread=T)
        run = await over(runtime)
        assert await open_runs(runtime) == []
        (task,) = await tasks_in(runtime)

    assert task.termination_reason == CANCELLED
    assert (run.final_output or "").startswith("boss: bg_0 cancelled before that it had done: ")


async def test_an_agent_it_hands_over_to_can_stop_the_task_too(place: Place) -> None:
    """03 §1.5: also agents that are resolved while the run goes on."""
    plan: list[Step] = [[("handoff", {"agent": "second"})], SELF]
    second = Agent("second", model=working("second", *plan))
    helper = Agent("helper", model=working("helper", *plan), handoffs=["second"])

    async with place.runtime([boss(helper), helper, second]) as runtime:
        await runtime.run("boss", "go", thread=T)
        run = await over(runtime)
        assert (await record(runtime, await agent_in_task(runtime))).agent_id == "second"

    assert (run.final_output or "").startswith("boss: bg_0 cancelled before that it had done: ")


async def test_a_run_that_is_started_inside_a_task_belongs_to_itself(place: Place) -> None:
    """Only delegates belong to the task: what `cancel_task` stops is the run that calls it."""
    loner = Agent("loner", model=working("loner", SELF), plugins=[BackgroundTaskPlugin()])
    results: list[Any] = []

    @tool(effect="read")
    async def ask(ctx: ToolCallContext) -> str:
        """Ask somebody else."""
        results.append(await runtime.run("loner", "go", thread="lonely"))
        return "asked"

    main = Agent("main", model=working("main", [("ask", {})]), background=[ask])
    runtime = place.runtime([main, loner])
    async with runtime:
        await runtime.run("main", "go", thread=T)
        run = await over(runtime)

    assert [result.termination for result in results] == [CANCELLED]
    assert run.final_output == "main: bg_0 completed asked"


# -- hearing from the owner -------------------------------------------------------------------


async def test_what_is_written_to_a_task_reaches_the_agent_in_it(place: Place) -> None:
    """03 §2: a `custom` event of type `agent_message`; it is kept in the agent's own thread."""
    yard = Yard()
    helper = yard.agent("helper", [("blast", {"n": 1})])

    async with place.runtime([boss(helper, HELLO), helper]) as runtime:
        await runtime.run("boss", "go", thread=T)
        receipt = json.loads((await answered(runtime))[-1])
        await yard.until_begun()
        await _until_sent(runtime, await agent_in_task(runtime))
        yard.let_go(1)
        run = await over(runtime)
        child = await agent_in_task(runtime)
        log = await runtime.messages(child)

    assert receipt["status"] == "queued"
    assert told_in(log) == ["bg_0 custom {'from': 'boss', 'content': 'hurry up'}"]
    assert run.final_output == f"boss: bg_0 completed helper: {told_in(log)[0]}"
    (news,) = [m for m in log if "agent_message" in m.text()]
    assert json.loads(news.text().splitlines()[1])["event_type"] == "agent_message"
    assert sender_of(news) is None, "it says so itself"


async def _until_sent(runtime: Runtime, child: str) -> None:
    """Wait until something was sent to a run."""
    seen = 0
    async with asyncio.timeout(100):
        while not await runtime.store.load_commands(child):
            seen = await runtime.store.wait_changed(child, seen)


async def test_an_agent_that_waits_for_an_answer_reads_it_with_the_answer(place: Place) -> None:
    yard = Yard()
    helper = yard.agent("helper", [("pay", {"n": 5})])

    async with place.runtime([boss(helper), helper]) as runtime:
        await runtime.run("boss", "go", thread=T)
        child = await agent_in_task(runtime)
        ticket = (await waiting(runtime, child)).waiting
        assert ticket is not None
        runtime.replace([boss(helper, HELLO), helper])
        await runtime.run("boss", "tell it", thread=T)
        await _until_told(runtime, child)
        await waiting(runtime, child)
        assert await runtime.decide(child, {ticket.tickets[0]: True})
        run = await over(runtime)

    assert yard.done == ["paid 5"]
    assert "hurry up" in (run.final_output or "")


async def _until_told(runtime: Runtime, thread: str) -> None:
    seen = 0
    async with asyncio.timeout(100):
        while not await told(runtime, thread):
            seen = await runtime.store.wait_changed(thread, seen)


async def test_a_tool_in_the_background_cannot_be_written_to(place: Place) -> None:
    """03/DB-5: the inbox is looked for when the message is written."""
    yard = Yard()
    agent = yard.agent("boss", [("dig", {"n": 1})], HELLO, background=["dig"])

    async with place.runtime([agent]) as runtime:
        await runtime.run("boss", "go", thread=T)
        receipt = json.loads((await answered(runtime))[-1])
        yard.let_go(1)
        await over(runtime)

    assert receipt == {"message_id": "", "status": "failed", "error": "recipient_unavailable"}
