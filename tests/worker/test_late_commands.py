"""A command that becomes visible after one with a higher id (06 §2.5)."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from awaken import Agent, Message, Runtime, tool
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FunctionModel, text_response, tool_call_response

pytestmark = pytest.mark.anyio

T = "t"
PATIENCE = 100


class LateMemory(MemoryStore):
    """A store whose commands can be hidden, like those of a transaction that has not ended."""

    def __init__(self) -> None:
        super().__init__()
        self.read: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        """Which messages have been read."""

    async def load_commands(
        self, thread_id: str, *, skip: Collection[int] = ()
    ) -> Sequence[ThreadCommand]:
        found = await super().load_commands(thread_id, skip=skip)
        for command in found:
            self.read[command.messages[0].text()].set()
        return found

    def hide(self, number: int) -> None:
        self.hidden = self._commands[number]
        self._drop_commands(self._threads[T], [number])

    def show(self) -> None:
        for commands in (self._commands, self._threads[T].commands):
            kept = sorted([*commands.values(), self.hidden], key=lambda command: command.id)
            commands.clear()
            commands.update((command.id, command) for command in kept)


class LateSqlite(SqliteStore):
    """The same with a file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.read: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def load_commands(
        self, thread_id: str, *, skip: Collection[int] = ()
    ) -> Sequence[ThreadCommand]:
        found = await super().load_commands(thread_id, skip=skip)
        for command in found:
            self.read[command.messages[0].text()].set()
        return found

    def hide(self, number: int) -> None:
        with closing(sqlite3.connect(self.path)) as db, db:
            self.hidden = db.execute("SELECT * FROM commands WHERE id = ?", (number,)).fetchone()
            db.execute("DELETE FROM commands WHERE id = ?", (number,))

    def show(self) -> None:
        marks = ", ".join("?" * len(self.hidden))
        with closing(sqlite3.connect(self.path)) as db, db:
            db.execute(f"INSERT INTO commands VALUES ({marks})", self.hidden)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> LateMemory | LateSqlite:
    return LateMemory() if request.param == "memory" else LateSqlite(tmp_path / "a.db")


def message(text: str) -> ThreadCommand:
    return ThreadCommand(
        thread_id=T, kind=CommandKind.MESSAGES, messages=(Message.user(text, id=text),)
    )


async def test_two_commands_are_both_carried_out_though_the_lower_id_is_visible_last(
    store: LateMemory | LateSqlite,
) -> None:
    """06/SV-8: the run takes the higher one first, and the other when it can be seen."""
    begun = asyncio.Event()

    @tool(effect="read")
    async def dig() -> str:
        """Dig until a message was read."""
        begun.set()
        await store.read["second"].wait()
        return "dug"

    @tool(effect="read")
    async def rest() -> str:
        """Rest until the other message can be seen, and was read."""
        store.show()
        await store.read["first"].wait()
        return "rested"

    def answer(request: InferenceRequest) -> StreamResult:
        texts = [one.text() for one in request.messages]
        if "first" in texts:
            return text_response("done")
        if "second" in texts:
            return tool_call_response("", "rest", "c2", {})
        return tool_call_response("", "dig", "c1", {})

    agent = Agent("a", model=FunctionModel(answer), tools=[dig, rest])
    async with asyncio.timeout(PATIENCE), Runtime([agent], store=store) as runtime:
        async with asyncio.TaskGroup() as group:
            run = group.create_task(runtime.run("a", "go", thread=T))
            await begun.wait()
            store.hide(await store.send(message("first")))
            await store.send(message("second"))
        log = [one.text() for one in await runtime.messages(T) if one.is_visible_user()]
        assert not await store.load_commands(T)

    assert run.result().response == "done"
    assert log == ["go", "second", "first"]


async def test_a_run_forgets_the_commands_that_were_acknowledged() -> None:
    """It has read three hundred messages, each of them once."""
    kept: list[int] = []

    @tool(effect="read")
    async def talk() -> str:
        """Send ten messages to the run itself."""
        for _ in range(10):
            await runtime.send(T, "psst")
        live = runtime.engine.active.find_by_thread(T)
        kept.append(len(live.seen) if live is not None else 0)
        return "sent"

    def answer(request: InferenceRequest) -> StreamResult:
        steps = sum(bool(one.tool_calls) for one in request.messages)
        return text_response("done") if steps == 30 else tool_call_response("", "talk", "c", {})

    agent = Agent("a", model=FunctionModel(answer), tools=[talk], max_rounds=40)
    async with Runtime([agent]) as runtime:
        await runtime.run("a", "go", thread=T)
        log = [one.text() for one in await runtime.messages(T)]

    assert log.count("psst") == 300
    assert max(kept) <= 120
