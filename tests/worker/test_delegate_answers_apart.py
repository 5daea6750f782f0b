"""Answers to a delegate: each goes to its own question, and to a delegate that is still there."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from delegation_kit import T, World, children, only_child, open_tickets, to, told

from awaken import Agent, Message, Runtime, ToolCallResume
from awaken.core.inbox import messages_payload
from awaken.core.message import Role
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import TicketStatus
from awaken.core.thread_ids import child_id
from awaken.errors import InvalidResume
from awaken.worker import RunRequest

pytestmark = pytest.mark.anyio


def team(world: World) -> list[Agent]:
    """A boss whose helper wants to pay twice at once, each with somebody's approval."""
    return [
        world.agent("boss", [to("helper")], delegates=["helper"]),
        world.agent("helper", [("pay", {"n": 1}), ("pay", {"n": 2})]),
    ]


async def test_an_answer_to_a_delegates_second_question_does_not_answer_its_first() -> None:
    """03/DB-6: the second has not reached the boss, who puts one after another."""
    world = World()
    async with Runtime(team(world)) as runtime:
        await runtime.run("boss", "go", thread=T)
        child = await only_child(runtime)
        asked = TicketQuery(run_id=child, status=TicketStatus.OPEN)
        first, second = (await runtime.list_tickets(asked)).items
        with pytest.raises(InvalidResume, match="no open question"):
            await runtime.decide(child, {second.key: True})
        assert (await runtime.list_tickets(asked)).items == (first, second)
        assert world.done == []

        assert await runtime.decide(child, {first.key: True})
        await runtime.wait(T)
        assert world.done == ["paid 1"]
        (left,) = await open_tickets(runtime)
        assert left.arguments == {"n": 2}


async def test_an_answer_that_names_no_question_of_a_delegate_answers_none() -> None:
    """The digest says what was seen, and the name which question is meant: it takes both."""
    world = World()
    async with Runtime(team(world)) as runtime:
        await runtime.run("boss", "go", thread=T)
        child = await only_child(runtime)
        asked = TicketQuery(run_id=child, status=TicketStatus.OPEN)
        first, second = (await runtime.list_tickets(asked)).items
        for answer in (True, ToolCallResume.approve(digest=first.digest)):
            with pytest.raises(InvalidResume, match="'another' is no open question"):
                await runtime.decide(child, {"another": answer})
        assert (await runtime.list_tickets(asked)).items == (first, second)
        assert world.done == []

        assert await runtime.decide(
            child, {first.call_id: ToolCallResume.approve(digest=first.digest)}
        )
        await runtime.wait(T)
        assert world.done == ["paid 1"]


async def test_a_delegate_that_is_gone_from_the_store_is_not_begun_again(tmp_path: Path) -> None:
    """It may have paid already: its parent is told, and no second one starts."""
    world, file = World(), tmp_path / "t.db"
    agents = team(world)
    async with Runtime(agents, store=f"sqlite:///{file}") as runtime:
        await runtime.run("boss", "go", thread=T)
        (ticket,) = await open_tickets(runtime)
        child = await only_child(runtime)
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("DELETE FROM runs WHERE id = ?", (child,))
        database.execute("DELETE FROM threads WHERE id = ?", (child,))

    async with Runtime(agents, store=f"sqlite:///{file}") as runtime:
        result = await runtime.run(thread=T, answers={ticket.key: True})
        assert not result.suspended
        (told_of_it,) = await told(runtime)
        assert "was deleted while it waited" in told_of_it
        assert await children(runtime) == []
    assert world.done == []


async def test_an_event_for_a_delegate_waits_until_the_delegate_has_begun() -> None:
    """What is told to an agent before its first commit is read by its run all the same."""
    helper = World().agent("helper")
    async with Runtime([helper]) as runtime, asyncio.TaskGroup() as group:
        event = messages_payload([Message.user("one more thing", id="m1")])
        telling = group.create_task(runtime.engine.delegates.send_event(T, "key", event))
        child = child_id(T, "key")
        begin = RunRequest(thread_id=child, agent_id="helper", messages=(Message.user("begin"),))
        await runtime.engine.run(begin)
        await telling
        await runtime.run("helper", "go on", thread=child, when_busy="queue")
        said = [m.text() for m in await runtime.messages(child) if m.role is Role.USER]
    assert said.count("one more thing") == 1
