"""Checks of thread trees: listed as a whole, cancelled as a whole, and each question once."""

from __future__ import annotations

from typing import Any

from awaken.core.identity import RequestOrigin
from awaken.core.run import RunKind, RunRequestSnapshot
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.store import Store
from awaken.core.suspension import TicketStatus
from awaken.testing.conformance.helpers import (
    DONE,
    RUNNING,
    WAITING,
    StoreCheck,
    Suite,
    all_runs,
    all_threads,
    all_tickets,
    everything,
    names,
    pending,
    record,
    ticket,
    waiting_threads,
    write,
)

check = Suite[StoreCheck]()


async def _grow(store: Store) -> None:
    """Root r with children a (running) and b (ended); c beneath a waits, d beneath b runs; q also
    runs and belongs to no tree."""
    for number, (name, parent, status) in enumerate(
        (
            ("r", None, RUNNING),
            ("a", "r", RUNNING),
            ("b", "r", DONE),
            ("c", "a", WAITING),
            ("d", "b", RUNNING),
            ("q", None, RUNNING),
        )
    ):
        run = record(f"run {name}", name, status=status, agent_id=f"{name}:agent")
        await write(store, name, parent_thread_id=parent, run=run, at_ms=number)


# -- lists ------------------------------------------------------------------------------------


@check
async def threads_are_listed_by_what_is_above_them(store: Store) -> None:
    await _grow(store)
    queries: list[tuple[dict[str, Any], list[str]]] = [
        ({"ancestor_thread_id": "r"}, ["d", "c", "b", "a"]),
        ({"ancestor_thread_id": "b"}, ["d"]),
        ({"ancestor_thread_id": "d"}, []),
        ({"ancestor_thread_id": "ghost"}, []),
        ({"ancestor_thread_id": "r", "parent_thread_id": "a"}, ["c"]),
        ({"ancestor_thread_id": "r", "prefix": "d"}, ["d"]),
        ({"ancestor_thread_id": "r", "root": True}, []),
    ]
    for query, expected in queries:
        for limit in (1, 2, 50):
            assert await all_threads(store, limit=limit, **query) == expected, (query, limit)


@check
async def runs_are_listed_by_what_is_above_their_threads(store: Store) -> None:
    await _grow(store)
    await write(store, "c", run=record("run c", "c", status=DONE, agent_id="c:agent"))
    await write(store, "c", run=record("next", "c", agent_id="d:other"))
    queries: list[tuple[dict[str, Any], list[str]]] = [
        ({"ancestor_thread_id": "r"}, ["next", "run d", "run c", "run b", "run a"]),
        ({"ancestor_thread_id": "a"}, ["next", "run c"]),
        ({"ancestor_thread_id": "r", "status": RUNNING}, ["next", "run d", "run a"]),
        ({"ancestor_thread_id": "r", "status": DONE}, ["run c", "run b"]),
        ({"ancestor_thread_id": "r", "agent_id": "d:other"}, ["next"]),
        ({"ancestor_thread_id": "r", "thread_id": "c"}, ["next", "run c"]),
        ({"ancestor_thread_id": "ghost"}, []),
    ]
    for query, expected in queries:
        for limit in (1, 2, 50):
            assert await all_runs(store, limit=limit, **query) == expected, (query, limit)


@check
async def runs_are_listed_by_their_kind(store: Store) -> None:
    """What a run is called says nothing of its kind, and its kind is read back with it."""
    kinds = {"r0": RunKind.AGENT, "r1": RunKind.TASK, "r2": RunKind.AGENT, "r3": RunKind.TASK}
    for run_id, kind in kinds.items():
        run = record(run_id, f"t-{run_id}", agent_id="task:dig", kind=kind, parent_run_id="root")
        await write(store, f"t-{run_id}", run=run)
    await write(store, "t-r1", run=record("r1", "t-r1", kind=RunKind.TASK, status=DONE))

    for limit in (1, 50):
        assert await all_runs(store, kind=RunKind.AGENT, limit=limit) == ["r2", "r0"]
        assert await all_runs(store, kind=RunKind.TASK, limit=limit) == ["r3", "r1"]
        assert await all_runs(store, kind=RunKind.TASK, status=DONE, limit=limit) == ["r1"]
        assert await all_runs(store, kind=RunKind.TASK, status=RUNNING, limit=limit) == ["r3"]
        found = await all_runs(store, kind=RunKind.TASK, parent_run_id="root", limit=limit)
        assert found == ["r3"]
        assert await all_runs(store, limit=limit) == ["r3", "r2", "r1", "r0"]
    for run_id, kind in kinds.items():
        read = await store.load_run(run_id)
        assert read is not None
        assert read.kind is kind
    listed = await store.list_interrupted(now_ms=0)
    assert {run.run_id for run in listed if run.is_task} == {"r3"}


# -- ending -----------------------------------------------------------------------------------


async def _list_cancelled(store: Store) -> list[tuple[str, str | None]]:
    """List the threads and runs that have a pending cancel."""
    commands = await pending(store, *await waiting_threads(store))
    assert all(command.kind is CommandKind.CANCEL for command in commands)
    return [(command.thread_id, command.run_id) for command in commands]


@check
async def all_open_runs_of_a_tree_are_cancelled_at_once(store: Store) -> None:
    """Also runs beneath a run that has ended; no other run gets a cancel."""
    await _grow(store)

    told = await store.cancel_tree("r", at_ms=7)

    assert names(told) == ["r", "a", "c", "d"]
    assert list(told) == [await store.load_thread(name) for name in "racd"]
    assert sorted(await _list_cancelled(store)) == [(name, f"run {name}") for name in "acdr"]
    assert {command.at_ms for command in await pending(store, *"racd")} == {7}
    await write(store, "c", run=record("run c", "c", status=DONE))
    assert sorted(await _list_cancelled(store)) == [(name, f"run {name}") for name in "adr"]


@check
async def a_tree_may_be_cancelled_from_any_of_its_threads(store: Store) -> None:
    await _grow(store)

    assert names(await store.cancel_tree("b", at_ms=7)) == ["d"], "it has ended itself"
    assert names(await store.cancel_tree("a", at_ms=7)) == ["a", "c"]
    assert sorted(await _list_cancelled(store)) == [(name, f"run {name}") for name in "acd"]


@check
async def a_run_with_a_pending_cancel_gets_no_second_one(store: Store) -> None:
    await _grow(store)
    await store.send(ThreadCommand.cancel("c", "run c", at_ms=1))
    await store.send(ThreadCommand(thread_id="a", kind=CommandKind.CANCEL, at_ms=1))
    await store.send(ThreadCommand.cancel("r", "another", at_ms=1))

    for _ in range(2):
        assert names(await store.cancel_tree("r", at_ms=7)) == ["r", "a", "c", "d"]

    commands = await pending(store, *"racd")
    assert [(c.thread_id, c.run_id) for c in commands if c.at_ms == 7] == [
        ("r", "run r"),
        ("d", "run d"),
    ]


@check
async def without_open_runs_nothing_is_cancelled(store: Store) -> None:
    await _grow(store)
    for name in "acd":
        await write(store, name, run=record(f"run {name}", name, status=DONE))
    before = await everything(store)

    assert list(await store.cancel_tree("a", at_ms=7)) == []
    assert list(await store.cancel_tree("b", at_ms=7)) == []
    assert list(await store.cancel_tree("ghost", at_ms=7)) == []

    assert await everything(store) == before


# -- asking -----------------------------------------------------------------------------------


@check
async def a_question_is_listed_once_where_it_is_to_be_answered(store: Store) -> None:
    """With a thread or run in the query, its own tickets are listed. A task asks no questions."""
    call = RunRequestSnapshot(origin=RequestOrigin.INTERNAL, parent_tool_call_id="call")
    runs: list[tuple[str, str | None, dict[str, Any]]] = [
        ("root", None, {}),
        ("mid", "root", {"request": call}),
        ("leaf", "mid", {"request": call}),
        ("task", "root", {"kind": RunKind.TASK}),
        ("beside", "task", {"request": call}),
        ("started", "root", {}),
        ("orphan", "ghost", {"request": call}),
    ]
    for number, (name, parent, more) in enumerate(runs):
        run = record(name, name, parent_run_id=parent, status=WAITING, **more)
        asked = ticket(f"k-{name}", thread_id=name, run_id=name, asked_at=number)
        await write(store, name, run=run, tickets=() if name == "task" else (asked,))
    shown = ["k-root", "k-beside", "k-started", "k-orphan"]

    for limit in (1, 2, 50):
        assert names(await all_tickets(store, limit=limit)) == shown
        assert names(await all_tickets(store, limit=limit, status=TicketStatus.OPEN)) == shown
    assert names(await all_tickets(store, run_id="leaf")) == ["k-leaf"]
    assert names(await all_tickets(store, thread_id="mid")) == ["k-mid"]

    await write(store, "root", run=record("root", "root", status=DONE))
    assert names(await all_tickets(store, status=TicketStatus.OPEN)) == shown[1:]
