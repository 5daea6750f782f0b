"""Tickets: durable, answered once, bound to what was asked (design §4, 01/D-15)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from front_kit import Piece

from answer_kit import by_id
from awaken import Agent, PhaseContext, RunResult, Runtime, Suspend, ToolCallResume, tool
from awaken.core.event import RunFinish, ToolCallDone
from awaken.core.lifecycle import CANCELLED, RunStatus, Suspended
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import Ticket, TicketStatus, call_digest
from awaken.errors import InvalidResume
from awaken.stores.memory import MemoryStore
from awaken.testing import FakeClock, ScriptedModel, tool_calls_response

pytestmark = pytest.mark.anyio

ALL = TicketQuery()
T = "t"


class Till:
    """An agent whose payments somebody has to approve, within a minute if `expires`."""

    def __init__(
        self,
        *amounts: int,
        store: MemoryStore | None = None,
        expires: float | None = None,
        plugins: list[Any] | None = None,
        needs_approval: bool = True,
        **options: Any,
    ) -> None:
        self.paid: list[int] = []
        self.clock = FakeClock()
        self.store = store or MemoryStore()

        @tool(needs_approval=needs_approval, approval_expires_in=expires)
        async def pay(n: int) -> str:
            """Pay."""
            self.paid.append(n)
            return f"paid {n}"

        calls = [("pay", f"c{n}", {"n": n}) for n in amounts or (1,)]
        self.model = ScriptedModel([tool_calls_response("", *calls), "done", "and more"])
        agent = Agent("till", model=self.model, tools=[pay], plugins=plugins or [])
        self.runtime = Runtime([agent], store=self.store, clock=self.clock, **options)

    async def ask(self) -> RunResult:
        """Run until it waits."""
        result = await self.runtime.run("till", "pay", thread=T)
        assert result.suspended
        return result

    async def answer(self, answers: dict[str, Any], **options: Any) -> RunResult:
        keyed = await by_id(self.runtime, answers)
        return await self.runtime.run(thread=T, answers=keyed, **options)

    async def decide(self, answers: dict[str, Any], by: str | None = None) -> bool:
        return await self.runtime.decide(T, await by_id(self.runtime, answers), by=by)

    async def tickets(self, status: TicketStatus | None = None) -> list[Ticket]:
        return list(await self.runtime.list_tickets(TicketQuery(status=status)))

    async def picture(self) -> Any:
        """All that a refused answer must leave as it is."""
        runs = list(await self.runtime.list_runs())
        commands = list(await self.store.load_commands(T))
        return list(await self.runtime.messages(T)), runs, commands, await self.tickets()

    async def told(self) -> list[str]:
        """What the calls were answered."""
        return [m.text() for m in await self.runtime.messages(T) if m.tool_call_id]


# -- what is asked ----------------------------------------------------------------------------


async def test_a_ticket_says_all_that_is_needed_to_decide() -> None:
    """Design §4: which call of which run, with what, since when, and the digest of it."""
    till = Till(5)

    result = await till.ask()

    (ticket,) = await till.runtime.list_tickets()
    assert (ticket.thread_id, ticket.run_id) == (T, result.run_id)
    assert (ticket.call_id, ticket.ticket_id) == ("c5", "approval_c5")
    assert (ticket.tool_name, ticket.arguments) == ("pay", {"n": 5})
    assert (ticket.reason, ticket.message) == ("tool:pay", "Approve pay?")
    assert ticket.asked_at == till.clock.now_ms()
    assert ticket.status is TicketStatus.OPEN
    assert ticket.decision is None
    assert ticket.digest == call_digest(result.run_id, "pay", {"n": 5})
    (shown,) = result.tickets
    assert shown.digest == ticket.digest


async def test_who_when_and_why_are_kept() -> None:
    """Design §4: an answer is a record, too."""
    till = Till(1, 2)
    await till.ask()
    till.clock.advance(90)

    await till.decide({"c1": True}, by="ann")
    no = ToolCallResume.deny("too much", by="bob")
    await till.decide({"c2": no})

    first, second = await till.tickets(TicketStatus.ANSWERED)
    assert first.decision is not None
    assert second.decision is not None
    assert (first.decision.by, first.decision.action.value) == ("ann", "resume")
    assert (second.decision.by, second.decision.reason) == ("bob", "too much")
    assert first.decision.updated_at == till.clock.now_ms() > first.asked_at
    assert first.decision.digest == first.digest


# -- answers that do not fit ------------------------------------------------------------------


@pytest.mark.parametrize("door", ["run", "decide"])
async def test_a_forged_answer_is_refused_and_changes_nothing(door: str) -> None:
    """Design §4: it was given to something else; the ticket can still be answered."""
    till = Till(1)
    result = await till.ask()
    (ticket,) = result.tickets
    before = await till.picture()
    forged = {ticket.ticket_id: ToolCallResume.approve(digest=call_digest("r", "pay", {"n": 9}))}

    with pytest.raises(
        InvalidResume, match=r"answers the question with.*read the ticket .[\w-]+:0. again"
    ):
        await (till.answer(forged) if door == "run" else till.decide(forged))

    assert await till.picture() == before
    assert till.paid == []
    right = {ticket.ticket_id: ToolCallResume.approve(digest=ticket.digest)}
    assert (await till.answer(right)).response == "done"
    assert till.paid == [1]


@pytest.mark.parametrize("door", ["run", "decide"])
async def test_answers_count_all_or_none(door: str) -> None:
    """01/D-15: one that does not fit spoils the batch, not the tickets."""
    till = Till(1, 2)
    await till.ask()
    before = await till.picture()

    batch = {"c1": True, "ghost": True, "c2": False}

    with pytest.raises(InvalidResume, match="ghost"):
        await (till.answer(batch) if door == "run" else till.decide(batch))

    assert await till.picture() == before
    assert (await till.answer({"c1": True, "c2": False})).response == "done"


async def test_a_ticket_is_answered_once() -> None:
    """01/D-15: a second answer is refused, a yes as well as a no, early or late."""
    till = Till(1, 2)
    await till.ask()
    await till.answer({"c1": True})
    before = await till.picture()

    for again in (True, False):
        with pytest.raises(InvalidResume, match=r"c1.*was (approved|denied) .* by "):
            await till.answer({"c1": again})
        with pytest.raises(InvalidResume, match=r"c1.*was (approved|denied) .* by "):
            await till.decide({"c1": again})

    assert await till.picture() == before
    assert till.paid == [1]


async def test_the_same_answer_repeated_is_one_answer() -> None:
    """01/D-15: known by its id; whoever sent it twice need not know which one counted."""
    till = Till(1, 2)
    await till.ask()
    yes = ToolCallResume.approve(id="d-1", by="ann")

    await till.answer({"c1": yes})
    again = await till.answer({"c1": yes})
    await till.decide({"c1": yes})

    assert again.suspended
    assert till.paid == [1]
    with pytest.raises(InvalidResume, match=r"c1.*was (approved|denied) .* by "):
        await till.answer({"c1": ToolCallResume.deny(id="d-1")})


async def test_a_repeated_answer_to_a_run_that_is_over_starts_nothing() -> None:
    """01/D-15: the double click of a slow page; the model is not asked about nothing."""
    till = Till(1)
    await till.ask()
    yes = ToolCallResume.approve(id="d-1")
    await till.answer({"c1": yes})

    with suppress(InvalidResume):  # to say that there is nothing to go on with would do
        await till.answer({"c1": yes})

    assert till.model.calls == 2
    assert len(await till.runtime.list_runs()) == 1


# -- other arguments --------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["run", "decide"])
async def test_a_call_may_be_approved_with_other_arguments(door: str) -> None:
    """Design §4: what somebody approved is what runs; the ticket keeps both."""
    till = Till(100)
    await till.ask()
    edited = {"c100": ToolCallResume.edit({"n": 10}, by="ann")}

    if door == "run":
        await till.answer(edited)
    else:
        assert await till.decide(edited)
        await finished(till)

    assert till.paid == [10]
    assert await till.told() == ["paid 10"]
    (ticket,) = await till.tickets()
    assert ticket.arguments == {"n": 100}
    assert ticket.decision is not None
    assert (ticket.decision.result, ticket.decision.by) == ({"n": 10}, "ann")


async def test_edited_arguments_are_checked_like_the_models() -> None:
    """Design §4: validated again; the model reads what was wrong, and nothing ran."""
    till = Till(100)
    await till.ask()

    result = await till.answer({"c100": ToolCallResume.edit({"n": "a little"})})

    assert result.response == "done"
    assert till.paid == []
    (told,) = await till.told()
    assert "n" in told
    assert told.startswith("Invalid arguments")


async def test_gates_judge_the_edited_arguments() -> None:
    """02 §5.8: what will really run, not what the model had in mind."""
    judged: list[Any] = []

    async def judge(ctx: PhaseContext) -> None:
        judged.append(ctx.tool_args)

    till = Till(100, plugins=[Piece("judge", lambda registrar: registrar.gate(judge))])
    await till.ask()

    await till.answer({"c100": ToolCallResume.edit({"n": 10})})

    assert judged == [{"n": 100}, {"n": 10}]


# -- tickets nobody needs any more ------------------------------------------------------------


async def test_a_superseded_ticket_is_closed() -> None:
    """02/L13: the user went on; a late answer finds a closed ticket, and nothing runs."""
    till = Till(1)
    await till.ask()

    await till.runtime.run("till", "never mind", thread=T)

    (ticket,) = await till.tickets()
    assert ticket.status is TicketStatus.CLOSED
    with pytest.raises(InvalidResume, match=r"c1.*closed"):
        await till.answer({"c1": True})
    assert till.paid == []


async def test_a_cancelled_run_closes_its_tickets() -> None:
    """01/D-11: a run that only waits can be cancelled, and is over then; nobody runs it."""
    till = Till(1, 2)
    waiting = await till.ask()

    assert await till.runtime.cancel(T)

    record = await till.runtime.find_run(waiting.run_id)
    assert record is not None
    assert (record.status, record.termination_reason) == (RunStatus.DONE, CANCELLED)
    assert {ticket.status for ticket in await till.tickets()} == {TicketStatus.CLOSED}
    assert list(await till.store.load_commands(T)) == []
    assert not await till.runtime.cancel(T)
    with pytest.raises(InvalidResume, match=r"c1.*closed"):
        await till.decide({"c1": True})
    again = await till.runtime.run("till", "hello", thread=T)
    assert again.run_id != waiting.run_id
    assert till.paid == []


async def test_a_run_can_be_cancelled_where_its_agent_is_unknown() -> None:
    """01/D-11: ending a run needs no model and no tools."""
    till = Till(1)
    waiting = await till.ask()
    stranger = Runtime([Agent("other", model=ScriptedModel([]))], store=till.store)

    assert await stranger.cancel(waiting.run_id)

    record = await till.runtime.find_run(waiting.run_id)
    assert record is not None
    assert (record.status, record.termination_reason) == (RunStatus.DONE, CANCELLED)
    assert await stranger.list_tickets() == await till.runtime.list_tickets()


# -- time -------------------------------------------------------------------------------------


def gate_that_asks(seconds: float) -> Piece:
    async def ask(ctx: PhaseContext) -> Suspend | None:
        return Suspend.ask("really?", expires_in=seconds) if ctx.resume_input is None else None

    return Piece("ask", lambda registrar: registrar.gate(ask))


@pytest.mark.parametrize("by", ["tool", "gate"])
async def test_an_approval_nobody_gave_in_time_is_a_no(by: str) -> None:
    """Design §4, cold: whoever looks next says no for them, and the run goes on."""
    till = (
        Till(1, expires=60)
        if by == "tool"
        else Till(1, needs_approval=False, plugins=[gate_that_asks(60)])
    )
    result = await till.ask()
    assert result.tickets[0].expires_at == till.clock.now_ms() + 60_000
    assert await till.runtime.recover() == []
    till.clock.advance(62)

    with pytest.raises(InvalidResume, match=r"expired"):
        await till.decide({"c1": True})
    (run,) = await till.runtime.recover()

    assert (await run).response == "done"
    assert await till.told() == ["Denied: nobody decided about 'pay' in time"]
    assert till.paid == []
    (ticket,) = await till.tickets()
    assert ticket.status is TicketStatus.EXPIRED
    assert ticket.decision is not None
    assert ticket.decision.updated_at == till.clock.now_ms()


async def test_a_live_run_does_not_wait_longer_than_it_said() -> None:
    """Design §4, live: the clock alone makes it go on; the other ticket is still open."""
    till = Till(1, expires=60)

    async with (
        asyncio.timeout(100),
        till.runtime.stream("till", "pay", thread=T, wait=True) as told,
    ):
        async for event in told:
            if isinstance(event.event, RunFinish) and till.model.calls == 1:
                await till.clock.until_sleeping()
                till.clock.advance(62)

    assert told.result.response == "done"
    assert await till.told() == ["Denied: nobody decided about 'pay' in time"]
    assert [ticket.status for ticket in await till.tickets()] == [TicketStatus.EXPIRED]


async def test_an_answer_in_the_last_moment_counts() -> None:
    """Design §4: at the very instant one may still answer."""
    till = Till(1, expires=60)
    await till.ask()
    till.clock.advance(60)

    assert (await till.answer({"c1": True})).response == "done"

    assert till.paid == [1]


# -- runs nobody carries on -------------------------------------------------------------------


async def finished(till: Till) -> None:
    """Wait until the thread's run is over."""
    async with asyncio.timeout(100):
        async for event in till.runtime.events(T):
            end = event.event
            if isinstance(end, RunFinish) and not isinstance(end.termination, Suspended):
                return


async def test_an_answer_wakes_a_run_nobody_carries_on() -> None:
    """Design §8: the answer is kept first, then the run goes on here, in the background."""
    till = Till(1)
    await till.ask()

    assert await till.decide({"c1": True})
    await finished(till)

    assert till.paid == [1]
    assert (await till.runtime.messages(T))[-1].text() == "done"


async def test_an_answer_waits_for_somebody_who_recovers() -> None:
    """Design §8: a process that is not to recover only takes note of it."""
    till = Till(1, recover=False)
    await till.ask()

    assert not await till.decide({"c1": True})
    assert till.paid == []
    (run,) = await till.runtime.recover()

    assert (await run).response == "done"
    assert till.paid == [1]


async def test_an_answer_given_where_the_agent_is_unknown_waits_for_it() -> None:
    """Design §8: any process may answer, only one with the agent goes on."""
    till = Till(1)
    await till.ask()
    stranger = Runtime([Agent("other", model=ScriptedModel([]))], store=till.store)

    assert not await stranger.decide(T, await by_id(stranger, {"c1": True}), by="ann")
    async with till.runtime:
        (run,) = till.runtime.recovered
        assert (await run).response == "done"

    assert till.paid == [1]


async def test_an_answer_that_comes_before_the_run_pauses_is_carried_out() -> None:
    """02 §5.8: the ticket is open while a neighbour still runs; who answers it is not forgotten."""
    begun, go = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await go.wait()
        return "waited"

    till = Till(1)
    calls = tool_calls_response("", ("pay", "c1", {"n": 1}), ("wait", "c2", {}))
    pay = till.runtime.engine.registry.snapshot().resolve("till").tools["pay"]
    agent = Agent("till", model=ScriptedModel([calls, "done"]), tools=[pay, wait])
    runtime = Runtime([agent], store=till.store)

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        run = group.create_task(runtime.run("till", "pay", thread=T))
        await begun.wait()
        async for event in runtime.events(T):
            if isinstance(event.event, ToolCallDone):
                break
        assert await runtime.decide(T, await by_id(runtime, {"c1": True}))
        go.set()

    assert run.result().response == "done"
    assert till.paid == [1]


async def test_two_answers_one_after_the_other_both_count() -> None:
    """02 §5.8: the second comes while the first is being carried out; nobody gives it again."""
    paying, decided = asyncio.Event(), asyncio.Event()

    @tool(needs_approval=True)
    async def pay(n: int) -> str:
        """Pay."""
        paying.set()
        await decided.wait()
        return f"paid {n}"

    calls = tool_calls_response("", ("pay", "c1", {"n": 1}), ("pay", "c2", {"n": 2}))
    runtime = Runtime([Agent("till", model=ScriptedModel([calls, "done"]), tools=[pay])])
    await runtime.run("till", "pay", thread=T)

    assert await runtime.decide(T, await by_id(runtime, {"c1": True}))
    await paying.wait()
    assert await runtime.decide(T, await by_id(runtime, {"c2": True}))
    decided.set()
    live = runtime.engine.active.find(T)
    if live is not None:
        await live.wait_ended(1)

    (run,) = await runtime.list_runs()
    assert run.status is RunStatus.DONE
