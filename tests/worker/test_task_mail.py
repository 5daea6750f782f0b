"""What is written to agents in the background, whoever runs them (03 §2, `child`)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest
from delegation_kit import Place, Step, T, ended, to
from delegation_kit import told as answered
from task_kit import Yard, agent_in_task, boss, over, tasks_in, told, until_told, working

from awaken import Agent, Message, Runtime
from awaken.core.store.commands import ThreadCommand
from awaken.core.task import DurableMessageRequest, StoredTask
from awaken.ext.tasks import BackgroundLimits, BackgroundTaskPlugin
from awaken.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

HEARD = "{'from': 'boss', 'content': 'deeper'}"


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


def write(task_id: str) -> Step:
    return [("send_message", {"to": {"relation": "child", "name": task_id}, "message": "deeper"})]


def crowded(helper: Agent) -> Agent:
    """An agent that gives another one two tasks, of which one has to wait for its turn, and writes
    to that one."""
    plugin = BackgroundTaskPlugin(limits=BackgroundLimits(per_thread=1))
    steps = [[to(helper.id)], [to(helper.id)], write("bg_1")]
    return Agent("boss", model=working("boss", *steps), background=[helper], plugins=[plugin])


@pytest.mark.parametrize("leave", [False, True])
async def test_an_agent_that_has_not_begun_reads_what_was_written_to_it(
    place: Place, leave: bool
) -> None:
    """`queued` was told: it is read, also where the process is gone before the agent's turn."""
    yard = Yard()
    helper = yard.agent("helper", [("dig", {"n": 1})])
    agents = [crowded(helper), helper]

    async with place.runtime(agents, on_close="leave" if leave else "cancel") as runtime:
        await runtime.run("boss", "go", thread=T)
        await yard.until_begun()
        assert '"status":"queued"' in (await answered(runtime))[2]
        if leave:
            await runtime.engine.leave_all(grace=0)  # what holds it up is not waited for
        else:
            yard.let_go(1)
            await until_told(runtime, 2)
    async with place.runtime(agents) as runtime:
        yard.let_go(1)
        await over(runtime)
        first, second = await tasks_in(runtime)
        responses = [StoredTask.of(task).task.result["response"] for task in (first, second)]
        assert not await runtime.store.load_commands(second.thread_id)

    assert responses == ["helper: ", f"helper: bg_1 custom {HEARD}"]


async def test_what_is_written_twice_under_one_id_is_read_once(place: Place) -> None:
    """A crash before the sender's commit sends it again: when it waits, and when it was read."""
    yard = Yard()
    helper = yard.agent("helper", [("dig", {"n": 1})], [("dig", {"n": 2})])
    event = {"kind": "custom", "task_id": "bg_0", "event_type": "x", "payload": "deeper"}

    async with place.runtime([boss(helper), helper]) as runtime:
        await runtime.run("boss", "go", thread=T)
        await yard.until_begun()
        (record,) = await tasks_in(runtime)
        task, tasks = StoredTask.of(record).task, runtime.engine.tasks.get_journal()
        child = await agent_in_task(runtime)
        assert await tasks.write(task, "m1", event)
        assert await tasks.write(task, "m1", event)
        yard.let_go(1)
        await yard.until_begun()
        assert await tasks.write(task, "m1", event)
        yard.let_go(2)
        await ended(runtime, record.run_id)
        assert await told(runtime, child) == ["bg_0 custom deeper"]
        assert not await tasks.write(task, "m2", event), "it is over"


async def test_a_user_writes_to_an_agent_by_its_task(place: Place) -> None:
    """`Runtime.send` takes what `Runtime.tasks` shows."""
    yard = Yard()
    helper = yard.agent("helper", [("dig", {"n": 1})])

    async with place.runtime([boss(helper), helper]) as runtime:
        await runtime.run("boss", "go", thread=T)
        await yard.until_begun()
        (task,) = await runtime.tasks(T)
        child = await agent_in_task(runtime)
        assert await runtime.send(task.id, "deeper")
        async with asyncio.timeout(100):
            seen = 0
            while await runtime.store.load_commands(task.id):
                seen = await runtime.store.wait_changed(task.id, seen)
        yard.let_go(1)
        await ended(runtime, task.id)
        log = [message.text() for message in await runtime.messages(child)]

    assert "deeper" in log


# -- coming twice -----------------------------------------------------------------------------


class Counting(MemoryStore):
    """A store that counts the messages and commands it has read out."""

    read = 0

    async def load_messages(
        self, thread_id: str, *, after: int = 0, limit: int | None = None, hidden: bool = False
    ) -> Sequence[Message]:
        found = await super().load_messages(thread_id, after=after, limit=limit, hidden=hidden)
        self.read += len(found)
        return found

    async def load_commands(
        self, thread_id: str, *, skip: Collection[int] = ()
    ) -> Sequence[ThreadCommand]:
        found = await super().load_commands(thread_id, skip=skip)
        self.read += len(found)
        return found


def letter(id: str) -> DurableMessageRequest:
    return DurableMessageRequest(
        message_id=id, recipient_thread_id=T, sender_agent_id="writer", message="hello"
    )


@pytest.mark.parametrize("live", [False, True])
async def test_a_message_costs_the_same_however_many_are_unread(live: bool) -> None:
    """Whether a run is busy there, or waits for an answer."""
    yard, store = Yard(), Counting()
    agent = yard.agent("a", [("blast" if live else "pay", {"n": 1})])
    async with (
        Runtime([agent], store=store, recover=False) as runtime,
        asyncio.TaskGroup() as group,
    ):
        running = group.create_task(runtime.run("a", "go", thread=T))
        if live:
            await yard.until_begun()
        else:
            await running
        messages, costs = runtime.engine.messages, list[int]()
        for unread in (10, 1_000):
            for number in range(unread):
                await messages.deliver(letter(f"{unread}-{number}"))
            store.read = 0
            await messages.deliver(letter(f"{unread}-last"))
            await messages.deliver(letter(f"{unread}-last"))
            costs.append(store.read)
        assert len(await store.load_commands(T)) == 1_012
        yard.let_go(1)

    assert costs[0] == costs[1] <= 2
