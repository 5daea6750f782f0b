"""What agents elsewhere ask people: found by ticket, answered once, told as a message."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from far_kit import FAKE, Far, FarBackend, asks, runtime_of, says
from run_kit import record_of, told

from awaken import Agent, RemoteAgent, Runtime, ToolCallResume
from awaken.core.lifecycle import CANCELLED, RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import Ticket, TicketStatus
from awaken.core.thread_ids import agent_ids
from awaken.errors import InvalidResume
from awaken.testing import FunctionModel, tool_call_response

pytestmark = pytest.mark.anyio

T = "t"
BLUE = ToolCallResume.approve("blue")


FAR = RemoteAgent("far", "https://far.example", backend=FAKE)


def say(request: InferenceRequest) -> Any:
    """Give `far` a task, and say what came of it."""
    if any(message.tool_calls for message in request.messages):
        return request.messages[-1].text()
    return tool_call_response("", "agent_run_far", "c1", {"prompt": "paint it"})


def with_boss(backend: FarBackend, store: str = "memory:", **how: list[RemoteAgent]) -> Runtime:
    """A runtime with an agent that has `far` do its work."""
    boss: Any = Agent("boss", model=FunctionModel(say), **cast("Any", how))
    return Runtime([boss, FAR], backends=[Far(backend)], store=store)


async def question(runtime: Runtime, thread_id: str = T) -> Ticket:
    """The question that is put in a thread, as soon as one is."""
    seen = 0
    async with asyncio.timeout(100):
        while True:
            seen = await runtime.store.wait_changed(thread_id, seen)
            for ticket in await runtime.list_tickets():
                assert ticket.thread_id == thread_id
                return ticket


# -- in the background ------------------------------------------------------------------------


@pytest.mark.parametrize("store", ["memory:", "sqlite:///{home}/awaken.db"])
async def test_an_agent_in_the_background_that_asks_can_be_answered(
    store: str, tmp_path: Path
) -> None:
    """Nobody else puts its question: it has a ticket of its own."""
    store = store.format(home=tmp_path)
    backend = FarBackend(asks("which colour?"), says("painted"))
    async with with_boss(backend, store, background=[FAR]) as runtime:
        await runtime.run("boss", "go", thread=T)
        (task,) = await runtime.tasks(T)
        ticket = await question(runtime, agent_ids(task.id)[-1])
        child = await record_of(runtime, ticket.run_id)
        await runtime.decide(ticket.thread_id, {ticket.key: BLUE})
        async with asyncio.timeout(100):
            result = await runtime.wait(T)
        record = await record_of(runtime, child.run_id)
        log = told(await runtime.messages(ticket.thread_id))

    assert (ticket.tool_name, ticket.reason) == ("far", "input_required")
    assert ticket.message == "which colour?"
    assert child.waiting is not None
    assert child.waiting.tickets == ()
    assert backend.new_messages() == [["paint it"], ["blue"]]
    assert log[-2:] == ["user: blue", "assistant: painted"]
    assert record.status is RunStatus.DONE
    assert "painted" in result.response


async def test_an_agent_that_is_waited_for_asks_by_whoever_waits_and_nobody_else() -> None:
    backend = FarBackend(asks("which colour?"), says("painted"))
    async with with_boss(backend, delegates=[FAR]) as runtime:
        result = await runtime.run("boss", "go", thread=T)
        tickets = list(await runtime.list_tickets())
        done = await runtime.run(thread=T, answers={tickets[0].key: BLUE})

    assert [ticket.thread_id for ticket in tickets] == [T]
    assert [ticket.key for ticket in result.tickets] == [tickets[0].key]
    assert done.response == "painted"


# -- on its own -------------------------------------------------------------------------------


async def status_of(runtime: Runtime, ticket: Ticket) -> TicketStatus:
    found = await runtime.list_tickets(TicketQuery(run_id=ticket.run_id))
    return next(one.status for one in found if one.key == ticket.key)


async def test_a_run_elsewhere_is_answered_by_decision() -> None:
    backend = FarBackend(asks("which?"), says("done"))
    async with runtime_of(backend) as runtime:
        await runtime.run("far", "go", thread=T)
        ticket = await question(runtime)
        assert await runtime.decide(T, {ticket.key: ToolCallResume.deny("none of them")})
        async with asyncio.timeout(100):
            result = await runtime.wait(T)
        status = await status_of(runtime, ticket)

    assert (result.response, status) == ("done", TicketStatus.ANSWERED)
    assert backend.new_messages() == [["go"], ["No: none of them"]]


async def test_the_answers_of_a_request_are_told_to_an_agent_elsewhere() -> None:
    backend = FarBackend(asks("which?"), asks("really?"), says("done"))
    async with runtime_of(backend) as runtime:
        first = await runtime.run("far", "go", thread=T)
        one = await question(runtime)
        await runtime.run(thread=T, answers={one.key: BLUE})
        two = await question(runtime)
        with pytest.raises(InvalidResume):
            await runtime.decide(T, {one.key: BLUE})
        result = await runtime.run(thread=T, answers={two.key: True})

    assert one.key != two.key
    assert (result.run_id, result.response) == (first.run_id, "done")
    assert backend.new_messages() == [["go"], ["blue"], ["Yes."]]


async def test_a_message_answers_an_agent_elsewhere_as_well() -> None:
    """Then nobody has to answer its ticket any more."""
    backend = FarBackend(asks("which?"), says("done"))
    async with runtime_of(backend) as runtime:
        await runtime.run("far", "go", thread=T)
        ticket = await question(runtime)
        result = await runtime.run("far", "that one", thread=T)
        status = await status_of(runtime, ticket)

    assert (result.response, status) == ("done", TicketStatus.CLOSED)


async def test_a_cancelled_run_elsewhere_asks_nobody() -> None:
    async with runtime_of(FarBackend(asks("which?"))) as runtime:
        await runtime.run("far", "go", thread=T)
        ticket = await question(runtime)
        assert await runtime.cancel(T)
        record = await record_of(runtime, ticket.run_id)
        status = await status_of(runtime, ticket)

    assert (record.termination_reason, status) == (CANCELLED, TicketStatus.CLOSED)


# -- what the record says ---------------------------------------------------------------------


async def test_a_record_says_what_kind_of_backend_its_run_is_carried_out_by() -> None:
    """A process that does not have the agent leaves such a run alone."""
    backend = FarBackend(asks("which?"), says("done"))
    async with with_boss(backend, delegates=[FAR]) as runtime:
        here = await runtime.run("boss", "go", thread=T)
        tickets = list(await runtime.list_tickets())
        assert tickets[0].asker is not None
        there = await record_of(runtime, tickets[0].asker.run_id)
        record = await record_of(runtime, here.run_id)

    assert there.request is not None
    assert record.request is not None
    assert (there.request.backend, record.request.backend) == ("fake", None)
