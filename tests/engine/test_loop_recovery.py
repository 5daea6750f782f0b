"""Calls a crash has cut short: done is done, the rest is settled by its tool (02/8.12, 01/D-16)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from crash_stage import Deed, Mortal, crash, ledger, recovered
from loop_stage import THREAD, CheckedModel, Stage, TestPlugin

from answer_kit import by_id
from awaken import Agent, Block, PhaseContext, ToolCallContext, ToolCallResume, tool
from awaken.core.event import StepEnd, StepStart
from awaken.core.lifecycle import CANCELLED, NATURAL_END, Blocked, Phase, RunStatus
from awaken.core.spec import ToolExecutorKind
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import ResumeAction, TicketStatus, ToolCallResumeMode
from awaken.core.tool import OUTCOME_UNKNOWN, ToolEffect
from awaken.core.tool_context import Tool
from awaken.engine.call_results import build_confirmed_result, unknown_outcome
from awaken.errors import AwakenError, PhaseError, StorageError
from awaken.stores.memory import MemoryStore
from awaken.testing import tool_call_response, tool_calls_response

pytestmark = pytest.mark.anyio

CALL = tool_call_response("on it", "deed", "c1", {"n": 7})
UNKNOWN = unknown_outcome("deed", "the process ended while the call was under way").model_text()
CONFIRMED = build_confirmed_result("deed").model_text()


async def after_a_crash(deed: Deed, *more: Any, model: CheckedModel | None = None) -> Stage:
    """A process that died in its deed, and the one that took the run up, to its end or pause."""
    store = MemoryStore()
    dying = Agent("a", model=CheckedModel(CALL), tools=[deed.tool, *more])
    async with crash(store, dying, deed.begun):
        agent = Agent("a", model=model or CheckedModel("went on"), tools=[deed.tool, *more])
        stage = Stage(agent, store=store)
        await recovered(stage)
    return stage


# -- the four policies ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{"effect": "read"}, {"effect": "idempotent"}, {"recover": "retry"}],
    ids=["read", "idempotent", "once, but retry"],
)
async def test_what_may_be_repeated_is_run_again(options: dict[str, Any]) -> None:
    """Design §4: with the same idempotency key, and the model is asked only for what is new."""
    deed = Deed(**options)
    model = CheckedModel("went on")

    stage = await after_a_crash(deed, model=model)

    assert await stage.texts() == [
        ("user", "hi"),
        ("assistant", "on it"),
        ("tool", "did 7"),
        ("assistant", "went on"),
    ]
    assert model.calls == 1, "the answer that was paid for is not asked for again"
    assert len(deed.keys) == 2
    assert len(set(deed.keys)) == 1
    assert await ledger(stage) == {"c1": "succeeded"}


@pytest.mark.parametrize("options", [{}, {"effect": "read", "recover": "report"}])
async def test_what_must_run_once_is_reported(options: dict[str, Any]) -> None:
    """Design §4: it does not run again, and the model is told that nobody knows."""
    deed = Deed(**options)

    stage = await after_a_crash(deed)

    assert await stage.results() == [UNKNOWN]
    assert len(deed.keys) == 1
    assert await ledger(stage) == {"c1": "unknown"}
    assert (await stage.record()).termination_reason == NATURAL_END


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
@pytest.mark.parametrize(
    ("answer", "times", "result", "phase"),
    [
        (True, 1, CONFIRMED, "succeeded"),
        (False, 2, "did 7", "succeeded"),
        (None, 1, UNKNOWN, "unknown"),
        ({"receipt": 12}, 1, '{"receipt":12}', "succeeded"),
        (ValueError("no line"), 1, UNKNOWN, "unknown"),
    ],
    ids=["it happened", "it did not", "nobody knows", "a result", "it raised"],
)
async def test_a_tool_may_find_out_for_itself(
    answer: Any, times: int, result: str, phase: str, is_async: bool
) -> None:
    """Design §4: `verify(ctx)` is asked, with the call's own key and arguments."""
    asked: list[tuple[str, Any]] = []

    def happened(ctx: ToolCallContext) -> Any:
        asked.append((ctx.idempotency_key, ctx.arguments))
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def happened_later(ctx: ToolCallContext) -> Any:
        return happened(ctx)

    deed = Deed(verify=happened_later if is_async else happened)

    stage = await after_a_crash(deed)

    assert await stage.results() == [result]
    assert len(deed.keys) == times
    assert asked == [(deed.keys[0], {"n": 7})]
    assert await ledger(stage) == {"c1": phase}


REPLAY = ToolCallResume(
    action=ResumeAction.RESUME, mode=ToolCallResumeMode.REPLAY_TOOL_CALL, by="ann"
)


@pytest.mark.parametrize(
    ("answer", "times", "result", "phase"),
    [
        (ToolCallResume.approve(), 1, CONFIRMED, "succeeded"),
        (ToolCallResume.approve({"receipt": 12}), 1, '{"receipt":12}', "succeeded"),
        (
            ToolCallResume.deny(),
            1,
            "Denied: somebody found that 'deed' did not take effect",
            "failed",
        ),
        (ToolCallResume.deny("the bank says no"), 1, "Denied: the bank says no", "failed"),
        (REPLAY, 2, "did 7", "succeeded"),
        (ToolCallResume.edit({"n": 8}), 2, "did 8", "succeeded"),
    ],
    ids=["yes", "yes, and the result", "no", "no, and why", "run it again", "run it otherwise"],
)
async def test_a_person_may_be_asked(
    answer: ToolCallResume, times: int, result: str, phase: str
) -> None:
    """Design §4: a ticket asks what became of it; nothing runs until somebody answers."""
    deed = Deed(recover="ask")
    model = CheckedModel("went on")

    stage = await after_a_crash(deed, model=model)

    (ticket,) = await stage.runtime.list_tickets()
    assert (ticket.reason, ticket.call_id) == (OUTCOME_UNKNOWN, "c1")
    assert ticket.arguments == {"n": 7}
    assert "take effect" in (ticket.message or "")
    assert await ledger(stage) == {"c1": "suspended"}
    assert (await stage.record()).status is RunStatus.WAITING
    assert (len(deed.keys), model.calls) == (1, 0)

    ended = await stage.resume((ticket.ticket_id, answer))

    assert ended.response == "went on"
    assert await stage.results() == [result]
    assert len(deed.keys) == times
    assert len(set(deed.keys)) == 1
    assert await ledger(stage) == {"c1": phase}


async def test_a_tool_that_is_gone_is_reported() -> None:
    """Design §4: nobody can say more of a call whose tool the agent does not have any more."""
    deed, store = Deed(effect="read"), MemoryStore()

    async with crash(store, Agent("a", model=CheckedModel(CALL), tools=[deed.tool]), deed.begun):
        stage = Stage(Agent("a", model=CheckedModel("went on")), store=store)
        result = await recovered(stage)

    assert result.response == "went on"
    assert await stage.results() == [UNKNOWN]
    assert await ledger(stage) == {"c1": "unknown"}


async def test_a_crash_may_come_again_and_again() -> None:
    """02/8.12: whoever takes it up next finds it as the first did; the key stays."""
    store, deed = MemoryStore(), Deed(hangs=4, effect="idempotent")
    stages: list[Stage] = []

    def another(*script: str) -> Stage:
        agent = Agent("a", model=CheckedModel(*script), tools=[deed.tool])
        stages.append(Stage(agent, store=store))
        return stages[-1]

    async with crash(store, Agent("a", model=CheckedModel(CALL), tools=[deed.tool]), deed.begun):
        for _ in range(3):
            deed.begun.clear()
            assert len(await another().runtime.recover()) == 1
            await deed.begun.wait()
            store.forsake()
        result = await recovered(another("went on"))
        for stage in stages:
            await stage.engine.leave_all(grace=0)

    assert (result.response, result.steps) == ("went on", 2)
    assert len(deed.keys) == 5
    assert len(set(deed.keys)) == 1


# -- turns of several calls -------------------------------------------------------------------


class Counting:
    """A tool that keeps which calls of it ran."""

    def __init__(self, **options: Any) -> None:
        self.ran: list[str] = []

        @tool(**options)
        async def count(ctx: ToolCallContext) -> str:
            """Count."""
            self.ran.append(ctx.call_id)
            return f"count {len(self.ran)}"

        self.tool: Tool = count


async def test_a_result_that_came_first_is_kept_and_stands_in_call_order() -> None:
    """Design §8: it was held for the call before it; that one is settled, this one not repeated."""
    deed, counting, store = Deed(), Counting(), MemoryStore()
    calls = tool_calls_response("", ("count", "c0", {}), ("deed", "c1", {}), ("count", "c2", {}))
    dying = Agent("a", model=CheckedModel(calls), tools=[deed.tool, counting.tool])

    async with crash(store, dying, deed.begun) as before:
        model = CheckedModel("went on")
        agent = Agent("a", model=model, tools=[deed.tool, counting.tool])
        stage = Stage(agent, store=store)
        held = {e.call_id: e.held for e in await store.load_calls((await before.record()).run_id)}
        assert held["c0"] is None, "it is in the log"
        assert held["c2"] is not None
        assert await before.results() == ["count 1"]
        await recovered(stage)

    assert counting.ran == ["c0", "c2"]
    assert await stage.results() == ["count 1", UNKNOWN, "count 2"]
    assert [m.tool_call_id for m in model.requests[0][2:]] == ["c0", "c1", "c2"]
    assert await ledger(stage) == {"c0": "succeeded", "c1": "unknown", "c2": "succeeded"}


async def test_calls_that_had_not_begun_are_simply_run() -> None:
    """Design §4: no intent, no doubt; also for tools that must run once."""
    deed, counting, store = Deed(), Counting(), MemoryStore()
    calls = tool_calls_response("", ("count", "c0", {}), ("deed", "c1", {}), ("count", "c2", {}))
    dying = Agent("a", model=CheckedModel(calls), tools=[deed.tool, counting.tool], sequential=True)

    async with crash(store, dying, deed.begun):
        assert counting.ran == ["c0"]
        model = CheckedModel("went on")
        tools = [deed.tool, counting.tool]
        stage = Stage(Agent("a", model=model, tools=tools, sequential=True), store=store)
        await recovered(stage)

    assert counting.ran == ["c0", "c2"]
    assert await stage.results() == ["count 1", UNKNOWN, "count 2"]


@pytest.mark.parametrize(
    ("effect", "times", "phase"),
    [(ToolEffect.ONCE, 1, "unknown"), (ToolEffect.READ, 2, "succeeded")],
)
async def test_an_outcome_nobody_kept_is_no_outcome(
    effect: ToolEffect, times: int, phase: str
) -> None:
    """Design §4: the call ended, its process died before the commit; by policy, as any other."""
    store, ran = Mortal(), []

    @tool(effect=effect)
    async def deed(n: int) -> str:
        """Do it, and die."""
        ran.append(n)
        store.alive = len(ran) > 1
        return f"did {n}"

    stage = Stage(Agent("a", model=CheckedModel(CALL, "went on"), tools=[deed]), store=store)
    with pytest.raises(StorageError, match="killed"):
        await stage.run()
    store.alive = True

    result = await recovered(stage)

    assert result.response == "went on"
    assert len(ran) == times
    assert await ledger(stage) == {"c1": phase}


async def test_a_gate_is_asked_again_about_what_will_run() -> None:
    """02 §5.8: also after a crash nothing runs that a gate forbids."""
    deed, counting, store = Deed(effect="read"), Counting(), MemoryStore()
    calls = tool_calls_response("", ("deed", "c1", {}), ("count", "c2", {}))
    dying = Agent("a", model=CheckedModel(calls), tools=[deed.tool, counting.tool], sequential=True)

    async def forbid(ctx: PhaseContext) -> Block | None:
        return Block(reason="closed today") if ctx.tool_name == "count" else None

    async with crash(store, dying, deed.begun):
        plugin = TestPlugin(gates=[forbid])
        tools = [deed.tool, counting.tool]
        agent = Agent("a", model=CheckedModel(), tools=tools, sequential=True, plugins=[plugin])
        stage = Stage(agent, store=store)
        result = await recovered(stage)

    assert result.termination == Blocked(value="closed today")
    assert counting.ran == []
    assert await stage.results() == ["did 1", "closed today"]


# -- approvals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effect", "result", "phase"), [("once", UNKNOWN, "unknown"), ("read", "did 7", "succeeded")]
)
async def test_an_approved_call_is_settled_like_any_other(
    effect: str, result: str, phase: str
) -> None:
    """01/D-16: it was approved and begun; nobody is asked twice."""
    deed, store = Deed(effect=effect, needs_approval=True), MemoryStore()
    agent = Agent("a", model=CheckedModel(CALL), tools=[deed.tool])
    await Stage(agent, store=store).run()
    yes = (("c1", ToolCallResume.approve(by="ann")),)

    async with crash(store, agent, deed.begun, text=None, decisions=yes):
        stage = Stage(Agent("a", model=CheckedModel("went on"), tools=[deed.tool]), store=store)
        ended = await recovered(stage)

    assert ended.response == "went on"
    assert await stage.results() == [result]
    assert await ledger(stage) == {"c1": phase}
    (ticket,) = await stage.runtime.list_tickets(TicketQuery())
    assert ticket.status is TicketStatus.ANSWERED
    assert ticket.decision is not None
    assert ticket.decision.by == "ann"


async def test_an_approved_call_may_need_a_second_question() -> None:
    """Design §4: approved, begun, cut short, and a person is to say what became of it."""
    deed, store = Deed(recover="ask", needs_approval=True), MemoryStore()
    agent = Agent("a", model=CheckedModel(CALL), tools=[deed.tool])
    await Stage(agent, store=store).run()
    yes = (("c1", ToolCallResume.approve()),)

    async with crash(store, agent, deed.begun, text=None, decisions=yes):
        stage = Stage(Agent("a", model=CheckedModel("went on"), tools=[deed.tool]), store=store)
        assert (await recovered(stage)).suspended

    first, second = await stage.runtime.list_tickets(TicketQuery())
    assert (first.status, second.status) == (TicketStatus.ANSWERED, TicketStatus.OPEN)
    assert second.reason == OUTCOME_UNKNOWN
    assert first.key != second.key
    ended = await stage.resume(("c1", ToolCallResume.approve("it is done")))
    assert ended.response == "went on"
    assert await stage.results() == ["it is done"]
    assert len(deed.keys) == 1


async def test_an_edited_call_is_run_again_as_it_was_edited() -> None:
    """01/D-16: the arguments somebody approved, not those the model gave."""
    deed, store = Deed(effect="idempotent", needs_approval=True), MemoryStore()
    agent = Agent("a", model=CheckedModel(CALL), tools=[deed.tool])
    await Stage(agent, store=store).run()
    edited = (("c1", ToolCallResume.edit({"n": 9})),)

    async with crash(store, agent, deed.begun, text=None, decisions=edited):
        stage = Stage(Agent("a", model=CheckedModel("went on"), tools=[deed.tool]), store=store)
        await recovered(stage)

    assert await stage.results() == ["did 9"]


async def test_a_ticket_beside_a_call_that_was_cut_short_stays_open() -> None:
    """02/8.16: what is begun is settled, who was asked is still asked."""
    deed, store = Deed(), MemoryStore()

    @tool(needs_approval=True)
    async def launch() -> str:
        """Launch."""
        return "up"

    calls = tool_calls_response("", ("launch", "c0", {}), ("deed", "c1", {}))
    async with crash(
        store, Agent("a", model=CheckedModel(calls), tools=[deed.tool, launch]), deed.begun
    ):
        model = CheckedModel("went on")
        stage = Stage(Agent("a", model=model, tools=[deed.tool, launch]), store=store)
        assert (await recovered(stage)).suspended
        (ticket,) = await stage.runtime.list_tickets()
        assert ticket.call_id == "c0"
        assert await ledger(stage) == {"c0": "suspended", "c1": "unknown"}
        ended = await stage.resume((ticket.key, ToolCallResume.approve()))

    assert ended.response == "went on"
    assert [m.text() for m in model.requests[0][2:]] == ["up", UNKNOWN]


async def test_a_partly_answered_batch_survives() -> None:
    """01/D-15, D-16: the answer that was given is not asked for again, and does not run early."""
    store, ran = MemoryStore(), []
    executor = ToolExecutorKind.PARALLEL_BATCH_APPROVAL

    @tool(needs_approval=True)
    async def launch(n: int) -> str:
        """Launch."""
        ran.append(n)
        return f"up {n}"

    calls = tool_calls_response("", ("launch", "c1", {"n": 1}), ("launch", "c2", {"n": 2}))
    first = Stage(
        Agent("a", model=CheckedModel(calls), tools=[launch], tool_executor=executor), store=store
    )
    await first.run()
    assert await first.runtime.decide(THREAD, await by_id(first.runtime, {"c1": True}), by="ann")
    store.forsake()

    model = CheckedModel("both up")
    second = Stage(Agent("a", model=model, tools=[launch], tool_executor=executor), store=store)
    for run in await second.runtime.recover():
        assert (await run).suspended
    assert ran == []
    ended = await second.resume(("c2", ToolCallResume.approve()))

    assert ended.response == "both up"
    assert ran == [1, 2]


async def test_of_approved_calls_that_ran_side_by_side_none_is_repeated() -> None:
    """01/D-16: one had ended when the process did, of the other nobody knows."""
    deed, store = Deed(needs_approval=True), MemoryStore()

    @tool(needs_approval=True)
    async def launch() -> str:
        """Launch."""
        await deed.begun.wait()
        return "up"

    tools = [deed.tool, launch]
    calls = tool_calls_response("", ("deed", "c1", {}), ("launch", "c2", {}))
    first = Stage(Agent("a", model=CheckedModel(calls), tools=tools), store=store)
    await first.run()
    seen, yes = 0, [(id, ToolCallResume.approve()) for id in ("c1", "c2")]
    going_on = asyncio.create_task(first.resume(*yes))
    async with asyncio.timeout(100):
        while (await ledger(first))["c2"] != "succeeded":
            seen = await store.wait_changed(THREAD, seen)
        store.forsake()
        model = CheckedModel("went on")
        second = Stage(Agent("a", model=model, tools=tools), store=store)
        result = await recovered(second)
        going_on.cancel()
        with suppress(asyncio.CancelledError, AwakenError):
            await going_on

    assert result.response == "went on"
    assert len(deed.keys) == 1
    assert await ledger(second) == {"c1": "unknown", "c2": "succeeded"}
    assert [m.text() for m in model.requests[0][2:]] == [UNKNOWN, "up"]


# -- cancelling -------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["once", "read"])
@pytest.mark.parametrize("sequential", [False, True], ids=["together", "one by one"])
async def test_an_abandoned_run_that_is_cancelled_leaves_nothing_open(
    effect: str, sequential: bool
) -> None:
    """01/D-11, design §8: a call with an intent is always settled."""
    deed, counting, store = Deed(effect=effect), Counting(), MemoryStore()
    calls = tool_calls_response("", ("deed", "c1", {}), ("count", "c2", {}))
    tools = [deed.tool, counting.tool]
    dying = Agent("a", model=CheckedModel(calls), tools=tools, sequential=sequential)

    async with crash(store, dying, deed.begun):
        model = CheckedModel("hello")
        stage = Stage(Agent("a", model=model, tools=tools, sequential=sequential), store=store)
        assert await stage.runtime.cancel(THREAD)
        record = await stage.record()
        assert (record.status, record.termination_reason) == (RunStatus.DONE, CANCELLED)
        assert len(await stage.results()) == 2
        assert "intent" not in (await ledger(stage)).values()
        assert (await stage.run("hello?")).response == "hello"

    assert (len(deed.keys), model.calls) == (1, 1)


async def test_an_abandoned_run_that_is_cancelled_closes_its_step() -> None:
    """02/8.9: what was told to begin is told to end, and counted."""
    deed, store = Deed(effect="read"), MemoryStore()
    agent = Agent("a", model=CheckedModel(CALL), tools=[deed.tool])

    async with crash(store, agent, deed.begun):
        stage = Stage(Agent("a", model=CheckedModel(), tools=[deed.tool]), store=store)
        assert await stage.runtime.cancel(THREAD)

    kinds = [type(event.event) for event in await store.load_events(THREAD)]
    assert kinds.count(StepStart) == kinds.count(StepEnd) == 1
    assert (await stage.record()).steps == 1


async def test_a_hook_that_fails_while_a_call_is_settled_leaves_nothing_open() -> None:
    """02/8.9, design §8: the run ends with an error, and every call of it has an end."""

    async def trip(_: PhaseContext) -> None:
        raise ValueError("tripped")

    deed, counting, store = Deed(verify=lambda _: True), Counting(), MemoryStore()
    calls = tool_calls_response("", ("deed", "c1", {}), ("count", "c2", {}))
    tools = [deed.tool, counting.tool]
    dying = Agent("a", model=CheckedModel(calls), tools=tools, sequential=True)

    async with crash(store, dying, deed.begun):
        plugin = TestPlugin({Phase.AFTER_TOOL_EXECUTE: trip})
        agent = Agent("a", model=CheckedModel(), tools=tools, sequential=True, plugins=[plugin])
        stage = Stage(agent, store=store)
        with pytest.raises(PhaseError, match="tripped"):
            await recovered(stage)

    assert await ledger(stage) == {"c1": "succeeded", "c2": "failed"}
    assert len(await stage.results()) == 2
    assert counting.ran == []
