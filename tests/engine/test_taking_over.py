"""Runs that somebody else goes on with: another agent, or a new message after a cancel."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from crash_stage import Deed, crash, ledger
from loop_stage import THREAD, CheckedModel, Stage, TestPlugin, assert_event_order

from answer_kit import by_id
from awaken import Agent, Block, PhaseContext, ToolCallContext, ToolCallResume, tool
from awaken.core.event import RunFinish
from awaken.core.lifecycle import CANCELLED, NATURAL_END, Blocked, RunStatus, Suspended
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import TicketStatus
from awaken.stores.memory import MemoryStore
from awaken.testing import tool_call_response, tool_calls_response

pytestmark = pytest.mark.anyio


@tool(needs_approval=True)
async def pay(n: int) -> str:
    """Pay."""
    return f"paid {n}"


PAY = tool_call_response("", "pay", "c1", {"n": 5})


# -- a cancel nobody carried out --------------------------------------------------------------


async def test_a_message_after_a_cancel_nobody_carried_out_starts_a_run() -> None:
    """01/D-11: the run before ends as cancelled, and the new one is not cancelled with it."""
    model = CheckedModel(PAY, "hello you")
    stage = Stage(Agent("a", model=model, tools=[pay]))
    waiting = await stage.run("pay")
    cancel = ThreadCommand(thread_id=THREAD, kind=CommandKind.CANCEL, run_id=waiting.run_id)
    await stage.store.send(cancel)  # and its process dies before it closes the run
    listener = Stage(Agent("a", model=model, tools=[pay]), store=stage.store)

    result = await listener.run("hello")

    assert (result.response, result.termination) == ("hello you", NATURAL_END)
    assert result.run_id != waiting.run_id
    before = await stage.store.load_run(waiting.run_id)
    assert before is not None
    assert (before.status, before.termination_reason) == (RunStatus.DONE, CANCELLED)
    (ticket,) = await stage.runtime.list_tickets(TicketQuery())
    assert ticket.status is TicketStatus.CLOSED
    assert list(await stage.store.load_commands(THREAD)) == []
    assert_event_order(listener.sink.events())
    assert {event.run_id for event in listener.sink.events()} == {result.run_id}


async def test_a_message_after_a_cancel_of_an_abandoned_run_starts_a_run() -> None:
    """01/D-11: also one that was cut short; what it had begun is settled first."""
    deed, store = Deed(), MemoryStore()
    turn = tool_call_response("", "deed", "c1", {})

    async with crash(store, Agent("a", model=CheckedModel(turn), tools=[deed.tool]), deed.begun):
        stage = Stage(Agent("a", model=CheckedModel("hello you"), tools=[deed.tool]), store=store)
        cut_short = await stage.record()
        cancel = ThreadCommand(thread_id=THREAD, kind=CommandKind.CANCEL, run_id=cut_short.run_id)
        await store.send(cancel)
        result = await stage.run("hello")

    assert (result.response, result.termination) == ("hello you", NATURAL_END)
    before = await store.load_run(cut_short.run_id)
    assert before is not None
    assert (before.status, before.termination_reason) == (RunStatus.DONE, CANCELLED)
    (call,) = await store.load_calls(cut_short.run_id)
    assert call.phase.value == "unknown"
    assert len(deed.keys) == 1


# -- another agent ----------------------------------------------------------------------------


def _a_and_b(*, a: CheckedModel, b: CheckedModel) -> list[Agent]:
    return [
        Agent("a", model=a, tools=[pay], handoffs=["b"]),
        Agent("b", model=b),
    ]


@pytest.mark.parametrize("how", ["live", "released", "released, and answered by name"])
async def test_a_question_of_a_turn_that_hands_over_is_settled_by_the_one_who_asked(
    how: str,
) -> None:
    """02/8.8: the agent that has the tool pays, then the other speaks; waiting or not."""
    turn = tool_calls_response("", ("pay", "c1", {"n": 5}), ("handoff", "c2", {"agent": "b"}))
    stage = Stage(*_a_and_b(a=CheckedModel(turn), b=CheckedModel("b is done")))

    if how == "live":
        async with asyncio.timeout(100), asyncio.TaskGroup() as group:
            task = group.create_task(stage.run("pay", wait_for_decisions=True))
            await stage.sink.until(RunFinish)
            await stage.runtime.decide(THREAD, await by_id(stage.runtime, {"c1": True}))
        result = task.result()
    else:
        assert isinstance((await stage.run("pay")).termination, Suspended)
        named = "a" if how.endswith("by name") else None
        result = await stage.resume(("c1", ToolCallResume.approve()), agent_id=named)

    assert result.response == "b is done"
    assert sorted(await stage.results()) == ["The conversation is handed to b.", "paid 5"]
    assert (await stage.record()).agent_id == "b"


async def test_an_abandoned_call_is_settled_by_the_agent_that_made_it() -> None:
    """Design §4: its `verify` is asked though another agent, which has not got it, is wanted."""
    asked: list[str] = []

    def happened(ctx: ToolCallContext) -> bool:
        asked.append(ctx.call_id)
        return False

    deed, store = Deed(verify=happened), MemoryStore()
    turn = tool_call_response("", "deed", "c1", {"n": 7})
    listener = CheckedModel("a is here")

    def agents(b: CheckedModel) -> list[Agent]:
        return [Agent("a", model=listener), Agent("b", model=b, tools=[deed.tool])]

    async with crash(store, agents(CheckedModel(turn)), deed.begun, agent_id="b"):
        stage = Stage(*agents(CheckedModel()), store=store)
        result = await stage.run("hello", agent_id="a")

    assert (result.response, result.termination) == ("a is here", NATURAL_END)
    assert asked == ["c1"]
    assert [m.text() for m in listener.requests[0]] == ["hi", "", "did 7", "hello"]
    assert await ledger(stage) == {"c1": "succeeded"}
    record = await stage.record()
    assert (record.agent_id, record.status) == ("a", RunStatus.DONE)


async def test_a_gate_is_not_passed_by_asking_another_agent() -> None:
    """02 §5.8: the calls of a run are judged by its own agent's gates, whoever is wanted next."""
    paid: list[int] = []
    judging, store = asyncio.Event(), MemoryStore()

    @tool
    async def spend(n: int) -> str:
        """Spend."""
        paid.append(n)
        return f"spent {n}"

    async def hang(_: PhaseContext) -> Block | None:
        judging.set()
        await asyncio.Event().wait()
        return None

    async def forbid(_: PhaseContext) -> Block:
        return Block(reason="not allowed")

    def agents(b: CheckedModel, a: CheckedModel, gate: Any) -> list[Agent]:
        return [
            Agent("a", model=a, tools=[spend]),
            Agent("b", model=b, tools=[spend], plugins=[TestPlugin(gates=[gate])]),
        ]

    turn = tool_call_response("", "spend", "c1", {"n": 5})
    dying = agents(CheckedModel(turn), CheckedModel(), hang)

    async with crash(store, dying, judging, agent_id="b"):
        stage = Stage(*agents(CheckedModel(), CheckedModel("a is here"), forbid), store=store)
        blocked = await stage.run("hello", agent_id="a")
        result = await stage.run("and now?", agent_id="a")

    assert blocked.termination == Blocked(value="not allowed")
    assert result.response == "a is here"
    assert paid == []


async def test_an_agent_that_is_gone_is_stood_in_for_by_the_one_that_is_asked() -> None:
    """Design §4: nobody has the agent that made the call, so nobody can say what became of it."""
    deed, store = Deed(effect="read"), MemoryStore()
    turn = tool_call_response("", "deed", "c1", {})
    dying = Agent("b", model=CheckedModel(turn), tools=[deed.tool])

    async with crash(store, dying, deed.begun):
        model = CheckedModel("a is here")
        stage = Stage(Agent("a", model=model), store=store)
        result = await stage.run("hello")

    assert result.response == "a is here"
    assert await ledger(stage) == {"c1": "unknown"}
