"""What a runtime takes up, what it leaves alone, and what it says to whoever waits for a run."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from front_kit import Held, pay

from awaken import Agent, Message, Runtime, ToolCallResume
from awaken.core.lifecycle import NATURAL_END, RunStatus
from awaken.core.message import MessageMetadata
from awaken.core.run import RunRecord
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.threads import Page, ThreadQuery
from awaken.core.thread import Thread
from awaken.errors import RunAbandoned, Serialization
from awaken.runtime import waiting as front_tasks
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, ScriptedModel, tool_call_response
from awaken.testing.conformance.helpers import record, write
from awaken.worker import recovery

pytestmark = pytest.mark.anyio

T = "t"


def payer(id: str = "payer") -> Agent:
    return Agent(
        id,
        model=ScriptedModel([tool_call_response("", "pay", "c", {"n": 1}), "paid"]),
        tools=[pay],
    )


def speaker(id: str = "a") -> Agent:
    return Agent(id, model=FunctionModel(lambda _: "done"))


async def leave(store: MemoryStore, agent_id: str, *threads: str) -> None:
    """Runs as a process leaves them that was killed after their first commit."""
    for name in threads:
        run = record(f"run {name}", name, agent_id=agent_id)
        await write(store, name, messages=(Message.user("go", id=f"m-{name}"),), run=run)


# -- records nobody can read ------------------------------------------------------------------


@pytest.mark.parametrize("what", ["record", "task", "state"])
async def test_a_record_that_cannot_be_read_keeps_no_other_from_going_on(
    what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The runtime opens, says which run it is, and goes on with the rest."""
    path = tmp_path / "a.db"
    async with Runtime([], store=f"sqlite:///{path}", recover=False) as desk:
        for name in ("bad", "good"):
            run = record(f"run {name}", name, agent_id="a")
            await write(desk.store, name, messages=(Message.user("go", id=name),), run=run)
    with sqlite3.connect(path) as db:
        if what == "record":
            db.execute("UPDATE runs SET record = '{}' WHERE id = 'run bad'")
        elif what == "task":
            bad: dict[str, Any] = msgspec.to_builtins(record("run bad", "bad", agent_id="task:x"))
            bad["request"] = {"origin": "internal", "request_extras": {"task": {"odd": 1}}}
            values = (msgspec.json.encode(bad),)
            db.execute("UPDATE runs SET record = ? WHERE id = 'run bad'", values)
        else:
            db.execute("UPDATE commits SET delta = x'00' WHERE run = (SELECT min(pk) FROM runs)")
    db.close()

    async with Runtime([speaker()], store=f"sqlite:///{path}") as runtime:
        result = await runtime.wait("run good", timeout=5)
        for taken_up in runtime.recovered:
            with suppress(Serialization):
                await taken_up

    assert result.termination == NATURAL_END
    assert any("run bad" in entry.getMessage() for entry in caplog.records)


class Flawed(MemoryStore):
    """Fails in an unforeseen way when it is first asked which threads have commands."""

    failed = False

    async def watch_commands(self) -> AsyncGenerator[set[str], None]:
        if not self.failed:
            self.failed = True
            raise ZeroDivisionError
        async for threads in super().watch_commands():
            yield threads


async def test_looking_around_outlives_any_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "RETRY_SECONDS", 0.01)
    store = Flawed()
    async with Runtime([payer()], store=store) as runtime:
        first = await runtime.run("payer", "go", thread=T)
        (ticket,) = await runtime.list_tickets()
        await store.decide(T, [(ticket.key, ToolCallResume.approve())], at_ms=1)
        result = await runtime.wait(first.run_id, timeout=5)

    assert store.failed
    assert result.response == "paid"


# -- cost -------------------------------------------------------------------------------------


class Counting(MemoryStore):
    """Keeps which threads it was asked for, where it was asked for interrupted runs."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str | None] = []

    async def list_interrupted(
        self, *, now_ms: int, thread_id: str | None = None, limit: int | None = None
    ) -> Sequence[RunRecord]:
        self.asked.append(thread_id)
        return await super().list_interrupted(now_ms=now_ms, thread_id=thread_id, limit=limit)


async def test_a_pause_and_an_answer_look_at_their_own_thread_only() -> None:
    """Design §1: what they cost does not depend on how many other runs wait."""
    store = Counting()
    async with Runtime([payer()], store=store) as runtime:
        store.asked.clear()
        first = await runtime.run("payer", "go", thread=T)
        assert await runtime.decide(T, {first.tickets[0]: True})
        result = await runtime.wait(T, timeout=5)

    assert result.response == "paid"
    assert set(store.asked) == {T}


# -- messages of other agents -----------------------------------------------------------------


async def test_what_agents_have_written_is_read_when_somebody_recovers() -> None:
    """Also where nothing is recovered unasked."""
    store = MemoryStore()
    async with Runtime([speaker()], store=store, recover=False) as runtime:
        first = await runtime.run("a", "hi", thread=T)
        said = msgspec.structs.replace(
            Message.user("hello", id="m1"), metadata=MessageMetadata(sender_agent_id="other")
        )
        await store.send(ThreadCommand(thread_id=T, kind=CommandKind.MESSAGES, messages=(said,)))

        await runtime.recover()

        run, seen = await runtime.find_run(first.run_id), 0
        async with asyncio.timeout(100):
            while run is None or run.run_id == first.run_id or run.status is not RunStatus.DONE:
                seen = await store.wait_changed(T, seen)
                run = await store.latest_run(T)
        assert [message.text() for message in await runtime.messages(T)][2:] == ["hello", "done"]


# -- waiting in vain --------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_tasks, "OWNER_CHECK_SECONDS", 0.02)


@pytest.mark.usefixtures("impatient")
async def test_whoever_waits_for_what_nobody_carries_on_is_told_so() -> None:
    store = MemoryStore()
    await leave(store, "a", T)

    async with Runtime([speaker()], store=store, recover=False) as runtime:
        with pytest.raises(RunAbandoned, match=r"'run t': .* call recover\(\)"):
            await runtime.wait(T, timeout=5)
        await runtime.recover()
        assert (await runtime.wait(T, timeout=5)).termination == NATURAL_END


@pytest.mark.usefixtures("impatient")
async def test_whoever_waits_for_an_agent_that_is_not_here_is_told_so() -> None:
    store = MemoryStore()
    await leave(store, "stranger", T)

    async with Runtime([speaker()], store=store) as runtime:
        with pytest.raises(RunAbandoned, match="no agent 'stranger'"):
            await runtime.wait(T, timeout=5)


@pytest.mark.usefixtures("impatient")
async def test_whoever_waits_for_a_run_that_was_answered_and_not_taken_up_is_told_so() -> None:
    store = MemoryStore()
    async with Runtime([payer()], store=store, recover=False) as runtime:
        first = await runtime.run("payer", "go", thread=T)
        assert not await runtime.decide(T, {first.tickets[0]: True})
        with pytest.raises(RunAbandoned):
            await runtime.wait(T, timeout=5)


class Watched(MemoryStore):
    """Says when somebody has looked for threads several times."""

    def __init__(self) -> None:
        super().__init__()
        self.looks, self.looked = 0, asyncio.Event()

    async def list_threads(self, query: ThreadQuery) -> Page[Thread]:
        self.looks += 1
        if self.looks > 3:
            self.looked.set()
        return await super().list_threads(query)


@pytest.mark.usefixtures("impatient")
async def test_what_another_process_carries_on_is_waited_for() -> None:
    """However long nothing is heard of it."""
    store = Watched()
    held = Held(store=store)

    async with Runtime([], store=store, recover=False) as desk, asyncio.TaskGroup() as group:
        group.create_task(held.runtime.run("held", "hi", thread=T))
        await held.speaking.wait()
        waiting = group.create_task(desk.wait(T, timeout=5))
        await store.looked.wait()
        held.let_go.set()

    assert waiting.result().termination == NATURAL_END
