"""Approvals a delegate needs: they surface at the root, and find their way back (03/DB-6, 02/8.18).

What somebody is shown and answers is the root's ticket; the child gets the same answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from delegation_kit import (
    Place,
    T,
    World,
    answer_of,
    calls_of,
    ended,
    only_child,
    open_runs,
    open_tickets,
    to,
)

from awaken import Agent, RunResult, Runtime, ToolCallResume
from awaken.core.event import CollectingSink, RunEvent, RunFinish
from awaken.core.lifecycle import CANCELLED
from awaken.core.run import RunWaitingTicket
from awaken.core.store.threads import ChildStrategy, TicketQuery
from awaken.core.suspension import TicketStatus
from awaken.errors import InvalidRecord, InvalidResume, RunOpen
from awaken.testing import FakeClock

pytestmark = pytest.mark.anyio

PAY = ("pay", {"n": 5})


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


def asking(world: World) -> list[Agent]:
    """A boss whose helper may pay only if somebody approves."""
    return [
        world.agent("boss", [to("helper")], delegates=["helper"]),
        world.agent("helper", [("note", {"what": "first"})], [PAY]),
    ]


async def suspended(runtime: Runtime, agent: str = "boss") -> RunResult:
    result = await runtime.run(agent, "go", thread=T)
    assert result.suspended
    return result


# -- what is asked ----------------------------------------------------------------------------


async def test_the_roots_ticket_shows_who_wants_to_do_what(place: Place) -> None:
    """03/DB-6: the child's tool, arguments and agent, not the delegation."""
    async with place.runtime(asking(World())) as runtime:
        result = await suspended(runtime)
        child = await only_child(runtime)
        (ticket,) = await open_tickets(runtime)
        (own,) = await open_tickets(runtime, child)

    (shown,) = result.tickets
    assert (shown.tool_name, shown.arguments) == PAY
    assert (ticket.tool_name, ticket.arguments) == PAY
    assert ticket.digest == shown.digest
    assert ticket.run_id == result.run_id
    assert ticket.ticket_id == f"delegate_run:{child}"
    assert ticket.reason == "agent_delegate:suspended"
    assert ticket.message == "agent 'helper' asks: Approve pay?"
    assert ticket.asker is not None
    assert ticket.asker == shown.asker
    assert (ticket.asker.agent_id, ticket.asker.run_id) == ("helper", child)
    assert ticket.asker.ticket == own.key


# -- answers ----------------------------------------------------------------------------------


class Way:
    """How somebody answers the one open question of the root's thread."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def decide(self, runtime: Runtime, answer: Any) -> str:
        """Give the answer, and return what the root says in the end."""
        run_id = await self.give(runtime, answer)
        await ended(runtime, run_id)
        return await answer_of(runtime)

    async def give(self, runtime: Runtime, answer: Any) -> str:
        (ticket,) = await open_tickets(runtime)
        asker = ticket.asker
        assert asker is not None
        assert asker.ticket is not None
        match self.name:
            case "answers":
                await runtime.run(thread=T, answers={ticket: answer})
            case "root":
                assert await runtime.decide(T, {ticket.key: answer})
            case "run":
                assert await runtime.decide(ticket.run_id, {ticket: answer})
            case "child":
                assert await runtime.decide(asker.run_id, {asker.ticket: answer})
        return ticket.run_id


@pytest.fixture(params=["answers", "root", "run", "child"])
def way(request: pytest.FixtureRequest) -> Way:
    return Way(request.param)


async def test_a_yes_reaches_the_child(place: Place, way: Way) -> None:
    """03/DB-6: it goes on where it was; nothing of it is done again."""
    world = World()
    agents = asking(world)
    async with place.runtime(agents) as runtime:
        await suspended(runtime)
        assert world.done == ["noted first"]

        said = await way.decide(runtime, True)

        assert said == "boss[helper[noted first, paid 5]]"
        assert world.done == ["noted first", "paid 5"]
        assert calls_of(agents) == {"boss": 2, "helper": 3}
        assert await open_runs(runtime) == []
        assert await open_tickets(runtime, await only_child(runtime)) == []


async def test_a_no_reaches_the_child_with_its_reason(place: Place, way: Way) -> None:
    """03/DB-6: the child is told, and says what it makes of it; the delegation did not fail."""
    world = World()
    async with place.runtime(asking(world)) as runtime:
        await suspended(runtime)

        said = await way.decide(runtime, ToolCallResume.deny("too much", by="ann"))

        assert said == "boss[helper[noted first, Denied: too much]]"
        assert world.done == ["noted first"]
        (own,) = await runtime.list_tickets(TicketQuery(thread_id=await only_child(runtime)))
        assert own.decision is not None
        assert (own.decision.reason, own.decision.by) == ("too much", "ann")


async def test_edited_arguments_reach_the_childs_tool(place: Place, way: Way) -> None:
    """03/DB-6: what was approved is what runs, and the delegation keeps its own arguments."""
    world = World()
    async with place.runtime(asking(world)) as runtime:
        await suspended(runtime)

        said = await way.decide(runtime, ToolCallResume.edit({"n": 1}))

        assert said == "boss[helper[noted first, paid 1]]"
        assert world.done == ["noted first", "paid 1"]


async def test_edited_arguments_that_do_not_fit_are_told_to_the_child(place: Place) -> None:
    """Design §4: checked like a model's, by the tool they are meant for."""
    world = World()
    async with place.runtime(asking(world)) as runtime:
        await suspended(runtime)

        said = await Way("answers").decide(runtime, ToolCallResume.edit({"n": "a little"}))

        assert "Invalid arguments" in said
        assert world.done == ["noted first"]


async def test_a_handler_answers_what_a_child_asks(place: Place) -> None:
    """03/DB-6: `on_approval` sees the child's question as the root's."""
    seen: list[RunWaitingTicket] = []

    def approve(ticket: RunWaitingTicket) -> bool:
        seen.append(ticket)
        return True

    world = World()
    async with place.runtime(asking(world)) as runtime:
        result = await runtime.run("boss", "go", thread=T, on_approval=approve)

    assert result.response == "boss[helper[noted first, paid 5]]"
    assert [(ticket.tool_name, ticket.arguments) for ticket in seen] == [PAY]


async def test_a_root_that_stays_in_memory_goes_on_with_the_answer(place: Place) -> None:
    """03/DB-6: the stream stays open over the question, and shows the child again after it."""
    world = World()
    async with place.runtime(asking(world)) as runtime:
        async with runtime.stream("boss", "go", thread=T, wait=True) as events:
            async for event in events:
                finish = getattr(event.event, "termination", None)
                if finish is not None and event.parent_run_id is None and not world.done[1:]:
                    (ticket,) = await open_tickets(runtime)
                    assert await runtime.decide(T, {ticket.key: True})
        assert events.result.response == "boss[helper[noted first, paid 5]]"


# -- answers that do not fit ------------------------------------------------------------------


@pytest.mark.parametrize("door", ["answers", "root", "child"])
async def test_a_forged_answer_is_refused_and_changes_nothing(place: Place, door: str) -> None:
    """Design §4: it was given to something else; the question can still be answered."""
    world = World()
    async with place.runtime(asking(world)) as runtime:
        await suspended(runtime)
        (ticket,) = await open_tickets(runtime)
        child = await only_child(runtime)
        (own,) = await open_tickets(runtime, child)
        forged = ToolCallResume.approve(digest="0123456789abcdef")

        with pytest.raises(InvalidResume, match=r"given|answers the question"):
            await Way(door).give(runtime, forged)

        assert await open_tickets(runtime) == [ticket]
        assert await open_tickets(runtime, child) == [own]
        assert world.done == ["noted first"]
        right = ToolCallResume.approve(digest=own.digest)
        assert await runtime.decide(child, {own.key: right})
        await ended(runtime, ticket.run_id)
        assert world.done == ["noted first", "paid 5"]


async def test_an_answer_is_not_good_for_the_same_question_put_again(place: Place) -> None:
    """Design §4: the child wants the same thing twice, and somebody sends the first yes again."""
    world = World()
    agents = [
        world.agent("boss", [to("helper")], delegates=["helper"]),
        world.agent("helper", [PAY], [PAY]),
    ]
    async with place.runtime(agents) as runtime:
        (first,) = (await suspended(runtime)).tickets
        yes = {first.tool_call_id: ToolCallResume.approve(digest=first.digest)}
        (second,) = (await runtime.run(thread=T, answers=yes)).tickets
        assert (second.tool_name, second.arguments) == (first.tool_name, first.arguments)

        with pytest.raises(InvalidResume, match=first.tool_call_id):
            await runtime.run(thread=T, answers=yes)

        assert world.done == ["paid 5"]
        with pytest.raises(InvalidResume, match="was approved"):
            await runtime.decide(T, {first.key or "": True})


async def test_a_childs_question_that_was_answered_is_not_answered_again(place: Place) -> None:
    """01/D-15: whichever door the second answer comes by."""
    world = World()
    async with place.runtime(asking(world)) as runtime:
        await suspended(runtime)
        (ticket,) = await open_tickets(runtime)
        child = await only_child(runtime)
        (own,) = await open_tickets(runtime, child)
        await Way("child").decide(runtime, True)

        for id, key in ((T, ticket.key), (child, own.key)):
            with pytest.raises(InvalidResume):
                await runtime.decide(id, {key: False})
        assert world.done == ["noted first", "paid 5"]


async def test_a_child_is_not_answered_behind_its_parents_back(place: Place) -> None:
    """03/DB-6: the root's question would stay open, and somebody could still say no to it."""
    world = World()
    async with place.runtime(asking(world)) as runtime:
        await suspended(runtime)
        child = await only_child(runtime)
        (own,) = await open_tickets(runtime, child)

        with pytest.raises(InvalidResume, match=r"works for run .* answer in thread 't'"):
            await runtime.run(thread=child, answers={own.key: True})

        assert await open_tickets(runtime, child) == [own]
        assert world.done == ["noted first"]


# -- several questions ------------------------------------------------------------------------


async def test_children_side_by_side_ask_side_by_side(place: Place) -> None:
    """03/DB-6: each has a ticket of its own at the root, and its own answer."""
    world = World()
    agents = [
        world.agent("boss", [to("ann"), to("bob")], delegates=["ann", "bob"]),
        world.agent("ann", [("pay", {"n": 1})]),
        world.agent("bob", [("pay", {"n": 2})]),
    ]
    async with place.runtime(agents) as runtime:
        result = await suspended(runtime)
        shown = {t.asker.agent_id: t for t in result.tickets if t.asker is not None}
        assert {who: t.arguments for who, t in shown.items()} == {"ann": {"n": 1}, "bob": {"n": 2}}

        again = await runtime.run(thread=T, answers={shown["bob"]: False})
        assert [t.tool_call_id for t in again.tickets] == [shown["ann"].tool_call_id]
        assert world.done == []
        last = await runtime.run(thread=T, answers={shown["ann"]: True})

        assert last.response == "boss[ann[paid 1], bob[Denied: 'pay' was not approved]]"
        assert world.done == ["paid 1"]
        assert await open_runs(runtime) == []


async def test_answers_to_several_children_count_together(place: Place) -> None:
    """01/D-15 through delegates: one batch, each child gets its own."""
    world = World()
    agents = [
        world.agent("boss", [to("ann"), to("bob")], delegates=["ann", "bob"]),
        world.agent("ann", [("pay", {"n": 1})]),
        world.agent("bob", [("pay", {"n": 2})]),
    ]
    async with place.runtime(agents) as runtime:
        result = await suspended(runtime)
        yes = {ticket.key or "": True for ticket in result.tickets}

        with pytest.raises(InvalidResume, match="ghost"):
            await runtime.run(thread=T, answers={**yes, "ghost": True})
        assert world.done == []
        last = await runtime.run(thread=T, answers=yes)

    assert last.response == "boss[ann[paid 1], bob[paid 2]]"
    assert sorted(world.done) == ["paid 1", "paid 2"]


async def test_a_child_may_ask_again_and_again(place: Place) -> None:
    """03/DB-6: every question is a ticket of its own, answered one after another."""
    world = World()
    agents = [
        world.agent("boss", [to("helper")], delegates=["helper"]),
        world.agent("helper", [("pay", {"n": 1})], [("pay", {"n": 2})]),
    ]
    asked: list[Any] = []

    def approve(ticket: RunWaitingTicket) -> bool:
        asked.append((ticket.key, ticket.arguments))
        return True

    async with place.runtime(agents) as runtime:
        result = await runtime.run("boss", "go", thread=T, on_approval=approve)
        tickets = list(await runtime.list_tickets(TicketQuery(thread_id=T)))

    assert result.response == "boss[helper[paid 1, paid 2]]"
    assert [arguments for _, arguments in asked] == [{"n": 1}, {"n": 2}]
    assert len({key for key, _ in asked}) == 2
    assert {ticket.status for ticket in tickets} == {TicketStatus.ANSWERED}
    assert world.done == ["paid 1", "paid 2"]


async def test_a_childs_parallel_questions_are_put_one_after_another(place: Place) -> None:
    """03/DB-6: none is lost, and each answer goes to the call it was given for."""
    world = World()
    agents = [
        world.agent("boss", [to("helper")], delegates=["helper"]),
        world.agent("helper", [("pay", {"n": 1}), ("pay", {"n": 2}), ("pay", {"n": 3})]),
    ]

    def odd(ticket: RunWaitingTicket) -> bool:
        return bool(ticket.arguments["n"] % 2)

    async with place.runtime(agents) as runtime:
        result = await runtime.run("boss", "go", thread=T, on_approval=odd)
        assert await open_runs(runtime) == []

    assert result.response == "boss[helper[paid 1, Denied: 'pay' was not approved, paid 3]]"
    assert world.done == ["paid 1", "paid 3"]


def three_levels(world: World) -> list[Agent]:
    return [
        world.agent("boss", [to("middle")], delegates=["middle"]),
        world.agent("middle", [to("clerk")], delegates=["clerk"]),
        world.agent("clerk", [PAY]),
    ]


@pytest.mark.parametrize("level", [0, 1, 2])
async def test_a_question_comes_up_three_levels_and_goes_down_again(
    place: Place, level: int
) -> None:
    """03/DB-6: shown at the root with the name of who really asks; answered at any level."""
    world = World()
    async with place.runtime(three_levels(world)) as runtime:
        result = await suspended(runtime)
        middle = await only_child(runtime)
        clerk = await only_child(runtime, middle)
        (shown,) = result.tickets
        assert shown.asker is not None
        assert shown.asker.agent_id == "clerk"
        (ticket,) = await open_tickets(runtime)
        assert ticket.message == "agent 'clerk' asks: Approve pay?"
        assert (ticket.tool_name, ticket.arguments) == PAY

        id = (T, middle, clerk)[level]
        (asked,) = await open_tickets(runtime, id)
        assert await runtime.decide(id, {asked.key: ToolCallResume.approve(digest=asked.digest)})
        await ended(runtime, result.run_id)

        assert await answer_of(runtime) == "boss[middle[clerk[paid 5]]]"
        assert world.done == ["paid 5"]
        assert await open_runs(runtime) == []
        for thread in (T, middle, clerk):
            assert await open_tickets(runtime, thread) == []


# -- somewhere else, some other time ----------------------------------------------------------


async def test_another_runtime_on_the_same_store_answers(tmp_path: Path) -> None:
    """03/DB-6: it has none of the agents; the runtime that has them goes on."""
    world = World()
    place = Place("sqlite", tmp_path)
    async with place.runtime(asking(world)) as runtime, place.runtime([]) as elsewhere:
        result = await suspended(runtime)
        (ticket,) = await open_tickets(elsewhere)
        assert ticket.asker is not None

        await elsewhere.decide(ticket.asker.run_id, {ticket.asker.ticket or "": True})

        await ended(runtime, result.run_id)
        assert await answer_of(runtime) == "boss[helper[noted first, paid 5]]"


async def test_a_root_that_waits_live_is_answered_from_another_runtime(tmp_path: Path) -> None:
    """03/DB-6: the same, while the root stays in memory."""
    world = World()
    place = Place("sqlite", tmp_path)
    async with place.runtime(asking(world)) as runtime, place.runtime([]) as elsewhere:
        async with runtime.stream("boss", "go", thread=T, wait=True) as events:
            async for event in events:
                if event.parent_run_id is None and isinstance(event.event, RunFinish):
                    for ticket in await open_tickets(elsewhere):
                        assert await elsewhere.decide(T, {ticket.key: True})
        assert events.result.response == "boss[helper[noted first, paid 5]]"


@pytest.mark.parametrize("door", ["answers", "root", "child"])
async def test_a_question_outlives_the_runtime_it_was_put_in(place: Place, door: str) -> None:
    """03/DB-6: asked, closed, opened, answered; what was done before is not done again."""
    world = World()
    agents = asking(world)
    async with place.runtime(agents) as runtime:
        await suspended(runtime)

    async with place.runtime(agents) as runtime:
        assert runtime.recovered == []
        said = await Way(door).decide(runtime, True)

    assert said == "boss[helper[noted first, paid 5]]"
    assert world.done == ["noted first", "paid 5"]
    assert calls_of(agents) == {"boss": 2, "helper": 3}


async def test_an_answer_given_while_nobody_runs_the_agents_waits_for_them(place: Place) -> None:
    """03/DB-6: who opens the store next carries it on."""
    world = World()
    agents = asking(world)
    async with place.runtime(agents) as runtime:
        await suspended(runtime)
    async with place.runtime([]) as desk:
        (ticket,) = await open_tickets(desk)
        assert not await desk.decide(T, {ticket.key: True})

    async with place.runtime(agents) as runtime:
        (recovered,) = runtime.recovered
        assert (await recovered).response == "boss[helper[noted first, paid 5]]"


# -- time -------------------------------------------------------------------------------------


async def test_what_nobody_answers_in_time_is_a_no_for_the_child(place: Place) -> None:
    """Design §4: the root's question ends when the child's does, on both levels as expired."""
    clock = FakeClock()
    world = World(expires=60)
    async with place.runtime(asking(world), clock=clock, recover=False) as runtime:
        result = await suspended(runtime)
        child = await only_child(runtime)
        (own,) = await open_tickets(runtime, child)
        assert result.tickets[0].expires_at == own.expires_at == clock.now_ms() + 60_000
        assert await runtime.recover() == []
        clock.advance(62)

        with pytest.raises(InvalidResume, match="expired"):
            await runtime.decide(child, {own.key: True})
        (recovered,) = await runtime.recover()
        said = (await recovered).response

        assert said == "boss[helper[noted first, Denied: nobody decided about 'pay' in time]]"
        assert world.done == ["noted first"]
        tickets = list(await runtime.list_tickets(TicketQuery()))
        assert {ticket.status for ticket in tickets} == {TicketStatus.EXPIRED}
        assert await open_runs(runtime) == []


async def test_a_question_that_comes_up_late_does_not_last_longer(place: Place) -> None:
    """Design §4: the root takes no answer that the child would not take any more."""
    clock = FakeClock()

    class Later(CollectingSink):
        """Time passes between the child's question and the root's."""

        async def emit(self, event: RunEvent) -> None:
            if event.parent_run_id is not None and isinstance(event.event, RunFinish):
                clock.advance(50)

    async with place.runtime(asking(World(expires=60)), clock=clock, recover=False) as runtime:
        result = await runtime.run("boss", "go", thread=T, sink=Later())
        (own,) = await open_tickets(runtime, await only_child(runtime))

    assert result.tickets[0].expires_at == own.expires_at == clock.now_ms() + 10_000


# -- nobody needs the answer any more ---------------------------------------------------------


async def test_a_new_message_to_the_root_ends_the_child_that_waits(place: Place) -> None:
    """02/L13 through delegates: the user went on; nobody will answer the child."""
    world = World()
    async with place.runtime(three_levels(world)) as runtime:
        await suspended(runtime)
        middle = await only_child(runtime)
        clerk = await only_child(runtime, middle)
        (own,) = await open_tickets(runtime, clerk)

        await runtime.run("boss", "never mind", thread=T, on_approval=lambda _: False)

        for run_id in (middle, clerk):
            assert (await ended(runtime, run_id)).termination_reason == CANCELLED
        with pytest.raises(InvalidResume):
            await runtime.decide(clerk, {own.key: True})
        assert world.done == []
        assert await open_runs(runtime) == []


@pytest.mark.parametrize("by", ["thread", "run"])
async def test_cancelling_a_root_that_waits_ends_all_beneath_it(place: Place, by: str) -> None:
    """01/D-11: the receipt knows every run; no ticket stays open."""
    world = World()
    async with place.runtime(three_levels(world)) as runtime:
        result = await suspended(runtime)
        middle = await only_child(runtime)
        clerk = await only_child(runtime, middle)

        receipt = await runtime.cancel(T if by == "thread" else result.run_id)

        assert receipt
        runs = {item.id: item.outcome.value for item in receipt.items if item.kind == "run"}
        assert runs == {result.run_id: "stopped", middle: "stopped", clerk: "stopped"}
        assert await open_runs(runtime) == []
        assert list(await runtime.list_tickets()) == []
        assert world.done == []


@pytest.mark.parametrize("level", [1, 2])
async def test_cancelling_a_child_that_waits_lets_the_root_go_on(place: Place, level: int) -> None:
    """01/D-23: the question is taken back, and whoever gave the task reads what became of it."""
    world = World()
    async with place.runtime(three_levels(world)) as runtime:
        result = await suspended(runtime)
        middle = await only_child(runtime)
        clerk = await only_child(runtime, middle)

        assert await runtime.cancel((T, middle, clerk)[level])

        await ended(runtime, result.run_id)
        said = ("", "boss[cancelled]", "boss[middle[cancelled]]")[level]
        assert await answer_of(runtime) == said
        assert await open_runs(runtime) == []
        assert list(await runtime.list_tickets()) == []
        assert world.done == []


async def test_a_child_that_waits_is_not_deleted(place: Place) -> None:
    """02/8.18, 04/DB-19: what it had done would be done twice; the error names its run."""
    world = World()
    async with place.runtime(asking(world)) as runtime:
        await suspended(runtime)
        child = await only_child(runtime)
        with pytest.raises(RunOpen, match="cancel"):
            await runtime.delete_thread(child)

        await Way("answers").decide(runtime, True)

        assert world.done == ["noted first", "paid 5"]


async def test_a_root_that_waits_is_deleted_once_it_is_cancelled(place: Place) -> None:
    """01/D-11, 04/DB-19: cascade is said; without it a thread with children is not deleted. Nor is
    one whose run, or a run beneath, is open."""
    async with place.runtime(three_levels(World())) as runtime:
        result = await suspended(runtime)
        with pytest.raises(InvalidRecord, match="children"):
            await runtime.delete_thread(T)
        for children in (ChildStrategy.DETACH, ChildStrategy.CASCADE):
            with pytest.raises(RunOpen, match=result.run_id):
                await runtime.delete_thread(T, children=children)
        assert await runtime.cancel(T)
        await ended(runtime, result.run_id)

        freed = await runtime.delete_thread(T, children=ChildStrategy.CASCADE)

        assert (freed.threads, freed.runs) == (3, 3)
        assert list(await runtime.list_runs()) == []
        assert list(await runtime.list_tickets()) == []
