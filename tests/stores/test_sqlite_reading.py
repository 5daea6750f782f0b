"""Reading: what it costs does not grow with the thread, and any point of it can be had again."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from awaken.core.message import Message
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import CallPhase, ThreadCommit
from awaken.core.store.threads import RunQuery, TicketQuery
from awaken.core.suspension import TicketStatus, ToolCallResume
from awaken.errors import Serialization
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance.helpers import (
    DONE,
    RUNNING,
    WAITING,
    asks,
    event,
    line,
    names,
    raw,
    record,
    says,
    ticket,
    write,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with every hundred steps of SQLite's machine, on any connection."""
    steps: list[int] = []
    connect = sqlite3.connect

    def counted(*args: Any, **options: Any) -> sqlite3.Connection:
        made: sqlite3.Connection = connect(*args, **options)
        made.set_progress_handler(lambda: steps.append(1), 100)
        return made

    monkeypatch.setattr("awaken.stores.sqlite.open.sqlite3.connect", counted)
    return steps


@pytest.fixture
async def store(work: list[int], tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "awaken.db", synchronous="normal")
    yield store
    await store.close()


async def grow(store: SqliteStore, messages: int, thread_id: str) -> None:
    """A thread of many steps; each is an assistant's message with a call, and its result."""
    run = record(f"run {thread_id}", thread_id)
    async with asyncio.TaskGroup() as tasks:
        for length in range(0, messages, 2):
            name = f"{thread_id}-{length}"
            commit = ThreadCommit(
                thread_id=thread_id,
                expected_length=length,
                messages=(asks(name, "c0"), Message.tool("c0", "fine", id=f"{name}-result")),
                run=run,
                run_state=raw(step=length),
                thread_state=raw(**{f"key {length % 10}": length}),
                events=(event(thread_id=thread_id),),
                calls=(line(name, 0, CallPhase.SUCCEEDED, {"n": length}),),
            )
            tasks.create_task(store.commit(commit))


async def test_a_context_costs_the_same_however_long_the_thread(
    store: SqliteStore, work: list[int]
) -> None:
    costs: dict[str, int] = {}
    for thread_id, messages in (("short", 400), ("long", 20_000)):
        await grow(store, messages, thread_id)
        work.clear()
        context = await store.load_context(thread_id, tail=20)
        costs[thread_id] = len(work)
        assert context is not None
        assert (len(context.messages), context.skipped) == (20, messages - 20)
        assert context.run_state.extensions == {"step": messages - 2}
        assert sorted(context.thread_state.extensions.values()) == list(
            range(messages - 10, messages, 2)
        )
        assert [entry.arguments for entry in context.calls] == [{"n": messages - 2}]

    work.clear()
    await store.load_messages("long", after=10_000, limit=20)
    await store.load_events("long", after=5_000, limit=20)
    costs["pages"] = len(work)

    # A row takes a few steps. Ten thousand commits would be hundreds of units.
    assert costs["long"] <= costs["short"] + 3
    assert costs["long"] < 25
    assert costs["pages"] < 10


async def test_a_commit_costs_the_same_however_long_the_thread(
    store: SqliteStore, work: list[int]
) -> None:
    """In steps, and in bytes written: design §6 allows 32 KB for two commits."""
    steps, sizes = [], []
    for messages in (400, 20_000):
        thread_id = str(messages)
        await grow(store, messages, thread_id)
        await store.close()
        await store.open()
        work.clear()
        for step in range(20):
            await write(
                store,
                thread_id,
                messages=says(f"{step} " * 200),
                run=record(f"run {thread_id}", thread_id, steps=step),
                run_state=raw(step=step),
                events=(event(thread_id=thread_id),) * 3,
            )
        steps.append(len(work))
        sizes.append(os.stat(f"{store.path}-wal").st_size / 20)

    assert steps[1] < 2 * steps[0]
    assert max(sizes) < 12 * 1024


async def test_the_ledger_is_found_however_long_ago_it_was(
    store: SqliteStore, work: list[int]
) -> None:
    run = record("r")
    intent = line("m", 0, CallPhase.INTENT, {"n": 1})
    await write(store, messages=(asks("m", "c0", "c1"),), run=run, calls=(intent,))
    async with asyncio.TaskGroup() as tasks:
        for length in range(1, 501):
            talk = ThreadCommit(
                thread_id="t", expected_length=length, messages=says(f"word {length}")
            )
            tasks.create_task(store.commit(talk))
    late = line("m", 1, CallPhase.SUSPENDED, {"n": 2})
    await write(store, run=run, calls=(late, line("m", 0, CallPhase.SUCCEEDED)))

    work.clear()
    context = await store.load_context("t", tail=1)

    assert context is not None
    assert list(context.calls) == [line("m", 0, CallPhase.SUCCEEDED, {"n": 1}), late]
    assert len(work) < 25


async def test_what_is_open_is_found_among_much_that_is_over(
    store: SqliteStore, work: list[int]
) -> None:
    async with asyncio.TaskGroup() as tasks:
        for number in range(2000):
            over = ThreadCommit(
                thread_id="t",
                expected_length=0,
                run=record(f"r{number}", status=DONE),
                tickets=(ticket(f"m:{number}", run_id=f"r{number}"),),
            )
            tasks.create_task(store.commit(over))
    await write(
        store, "u", run=record("r", "u", status=WAITING), tickets=(asked := ticket(thread_id="u"),)
    )
    await store.send(ThreadCommand(thread_id="u", kind=CommandKind.CANCEL))
    await write(store, "v", run=record("child", "v", parent_run_id="r"))

    work.clear()
    assert names(await store.list_interrupted(now_ms=1)) == ["r", "child"]
    for query in (RunQuery(parent_run_id="r"), RunQuery(parent_run_id="r", status=RUNNING)):
        assert names((await store.list_runs(query)).items) == ["child"]
    assert names((await store.list_runs(RunQuery(status=WAITING))).items) == ["r"]
    assert (await store.list_tickets(TicketQuery(status=TicketStatus.OPEN))).items == (asked,)
    await store.decide("u", [(asked.key, ToolCallResume.approve())], at_ms=1)
    assert len(work) < 15


async def test_what_is_wanted_of_one_thread_is_found_among_many_that_wait(
    store: SqliteStore, work: list[int]
) -> None:
    """Design §1: a pause or an answer costs the same, however many others wait."""
    async with asyncio.TaskGroup() as tasks:
        for number in range(2000):
            name = f"t{number}"
            waits = ThreadCommit(
                thread_id=name,
                expected_length=0,
                run=record(f"r{number}", name, status=WAITING),
                tickets=(ticket(f"m:{number}", thread_id=name, run_id=f"r{number}"),),
            )
            tasks.create_task(store.commit(waits))
    await store.send(ThreadCommand(thread_id="t1000", kind=CommandKind.CANCEL))

    work.clear()
    assert names(await store.list_interrupted(now_ms=1, thread_id="t1000")) == ["r1000"]
    assert names(await store.list_interrupted(now_ms=1, thread_id="t1001")) == []
    assert len(work) < 5


# -- rows nobody can read ----------------------------------------------------------------------


async def test_a_row_that_cannot_be_read_keeps_no_other_from_being_found(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Written by another version, say: it is left out of what concerns all, and logged once."""
    for name in "ab":
        await write(store, name, run=record(f"run {name}", name))
    command = ThreadCommand(thread_id="a", kind=CommandKind.CANCEL)
    numbers = [await store.send(command) for _ in range(2)]
    with sqlite3.connect(store.path) as db:
        db.execute("UPDATE runs SET record = '{' WHERE id = 'run a'")
        db.execute("UPDATE commands SET body = '{' WHERE id = ?", (numbers[0],))
    db.close()

    for _ in range(2):
        assert names(await store.list_interrupted(now_ms=1)) == ["run b"]
        assert [found.id for found in await store.load_commands("a")] == [numbers[1]]

    said = [entry.getMessage() for entry in caplog.records]
    assert [text.partition(" cannot")[0] for text in said] == [
        "run run a",
        f"command {numbers[0]}",
    ]
    with pytest.raises(Serialization):
        await store.load_run("run a")


# -- any point of a thread ---------------------------------------------------------------------


class ByHand:
    """What a thread should hold, kept in dictionaries."""

    def __init__(self) -> None:
        self.thread: dict[str, Any] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.at_event: list[tuple[int, dict[str, Any]]] = []

    def note(self, run_id: str, thread: dict[str, Any], run: dict[str, Any], length: int) -> None:
        self.thread = {**self.thread, **thread}
        self.runs[run_id] = {**self.runs.get(run_id, {}), **run}
        self.at_event.append((length, self.thread))


async def history(store: SqliteStore, commits: int, seed: int) -> ByHand:
    """Runs that come, wait, end, and are written again long after their end."""
    chance, expected, length = random.Random(seed), ByHand(), 0
    for number in range(commits):
        run_id = f"r{chance.randrange(number // 40 + 1)}"
        thread = {f"k{chance.randrange(5)}": number} if chance.random() < 0.7 else {}
        run = {f"x{chance.randrange(4)}": [number]} if chance.random() < 0.7 else {}
        words = says(*(f"{number}-{n}" for n in range(chance.randrange(3))))
        committed = await write(
            store,
            messages=words,
            run=record(run_id, status=chance.choice((RUNNING, WAITING, DONE, DONE, DONE))),
            thread_state=raw(**thread),
            run_state=raw(**run),
            events=(event(run_id=run_id),),
        )
        length += len(words)
        assert committed.length == length
        expected.note(run_id, thread, run, length)
    return expected


@pytest.mark.parametrize("seed", range(2))
async def test_every_point_of_a_thread_can_be_forked(store: SqliteStore, seed: int) -> None:
    """Whether a snapshot lies before it, at it, or far away."""
    expected = await history(store, 330, seed)
    points = {1, 2, 99, 100, 101, 199, 200, 201, 299, 300, 330, *range(7, 330, 37)}
    for at in sorted(points):
        length, state = expected.at_event[at - 1]
        fork = await store.fork("t", f"fork {at}", at=at, at_ms=1)
        assert (fork.message_count, fork.event_count) == (length, at)
        assert (await store.load_thread_state(f"fork {at}")).extensions == state, at
        assert len(await store.load_messages(f"fork {at}")) == length
        assert await store.load_messages(f"fork {at}") == (await store.load_messages("t"))[:length]


@pytest.mark.parametrize("seed", range(3))
async def test_the_state_of_every_run_can_be_had(store: SqliteStore, seed: int) -> None:
    expected = await history(store, 330, seed)
    for run_id, state in expected.runs.items():
        assert (await store.load_run_state(run_id)).extensions == state, run_id
        loaded = await store.load_run(run_id)
        assert loaded is not None
        assert loaded.state is not None
        assert loaded.state.extensions == {**expected.thread, **state}, run_id
    context = await store.load_context("t")
    assert context is not None
    assert context.open_run is not None
    assert context.run_state.extensions == expected.runs[context.open_run.run_id]
    assert context.thread_state.extensions == expected.thread
    assert len((await store.list_runs(RunQuery(limit=100))).items) == len(expected.runs)


async def test_a_fork_does_not_inherit_the_runs_of_a_deleted_thread(store: SqliteStore) -> None:
    for number in range(120):
        await write(store, run=record("old"), run_state=raw(old=number), events=(event(),))
    await store.fork("t", "fork", at_ms=1)
    await write(store, run=record("old", status=DONE))
    await store.delete_thread("t", at_ms=1)
    run = record("new", "fork")
    for number in range(120):
        await write(store, "fork", run=run, run_state=raw(new=number))

    context = await store.load_context("fork")

    assert context is not None
    assert context.run_state.extensions == {"new": 119}
    assert (await store.load_run_state("new")).extensions == {"new": 119}


# -- space -------------------------------------------------------------------------------------


async def test_compacting_gives_the_space_of_deleted_threads_back(store: SqliteStore) -> None:
    await write(store, "kept", messages=says("a"))
    await grow(store, 2000, "gone")
    await write(store, "gone", run=record("run gone", "gone", status=DONE))
    freed = await store.delete_thread("gone", at_ms=1)
    assert (freed.threads, freed.runs, freed.commits) == (1, 1, 1001)
    assert freed.bytes > 100_000

    compacted = await store.compact()

    assert compacted.after < compacted.before - freed.bytes
    assert [message.text() for message in await store.load_messages("kept")] == ["a"]


async def test_a_message_that_may_come_twice_costs_the_same_however_many_are_unread(
    store: SqliteStore, work: list[int]
) -> None:
    def message(number: int) -> ThreadCommand:
        return ThreadCommand(
            thread_id="t", kind=CommandKind.MESSAGES, messages=says(str(number)), key=str(number)
        )

    await write(store)
    costs, sent = [], 0
    for unread in (10, 10_000):
        many = tuple(message(number) for number in range(sent, unread))
        await write(store, sends=many)
        sent = unread + 1
        work.clear()
        number = await store.send(message(unread))
        assert await store.send(message(unread)) == number
        assert await store.send(message(0)) == 1
        assert await store.is_pending(number)
        costs.append(len(work))

    assert costs[1] <= costs[0] + 3
