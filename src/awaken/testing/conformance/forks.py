"""Checks of forks: a copy of a thread at any point, which continues on its own."""

from __future__ import annotations

from typing import Any

from awaken.core.event import StepEnd, StepStart
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import CallPhase
from awaken.core.store.store import Store
from awaken.errors import AlreadyExists, NotFound
from awaken.testing.conformance.helpers import (
    DONE,
    WAITING,
    StoreCheck,
    Suite,
    all_runs,
    all_threads,
    all_tickets,
    asks,
    event,
    expect_error_without_change,
    line,
    raw,
    record,
    says,
    texts,
    thread_as_read,
    ticket,
    write,
)

check = Suite[StoreCheck]()


async def _contents(store: Store, thread_id: str) -> tuple[Any, ...]:
    """The data that a fork shares with its origin."""
    events = await store.load_events(thread_id)
    return (
        list(await store.load_messages(thread_id)),
        [(found.seq, found.run_id, found.at_ms, found.event) for found in events],
        await store.load_thread_state(thread_id),
    )


async def _history(store: Store) -> dict[int, tuple[Any, ...]]:
    """Write a thread of several commits; returns its contents after the commit of each event."""
    commits: list[dict[str, Any]] = [
        {"messages": says("a"), "events": (event(StepStart()),), "thread_state": raw(x=1)},
        {"messages": says("b", "c"), "thread_state": raw(x=2, y=1)},
        {"events": (event(), event(StepStart(message_id="m")), event())},
        {"thread_state": raw(y={"deep": [1]})},
        {"messages": says("d"), "events": (event(StepEnd()),), "thread_state": raw(z=None)},
        {"messages": says("e")},
    ]
    at_event: dict[int, tuple[Any, ...]] = {}
    for number, delta in enumerate(commits):
        run = record("r", status=WAITING)
        committed = await write(store, run=run, run_state=raw(n=number), at_ms=number, **delta)
        for seq in range(len(delta.get("events", ()))):
            at_event[committed.first_event_seq + seq] = await _contents(store, "t")
    return at_event


@check
async def a_thread_is_forked_at_every_event(store: Store) -> None:
    """As it was after the commit that holds the event."""
    at_event = await _history(store)
    assert sorted(at_event) == [1, 2, 3, 4, 5]
    for at, expected in at_event.items():
        fork = await store.fork("t", f"fork {at}", at=at, at_ms=50 + at)
        messages, events, _ = expected
        assert await store.load_thread(f"fork {at}") == fork
        assert (fork.forked_from, fork.forked_at) == ("t", len(events))
        assert (fork.message_count, fork.event_count) == (len(messages), len(events))
        assert (fork.created_at, fork.updated_at) == (50 + at, 50 + at)
        assert await _contents(store, f"fork {at}") == expected, at
        places = {found.thread_id for found in await store.load_events(fork.id)}
        assert places == {fork.id}, "an envelope tells where the event was read"


@check
async def the_state_at_an_event_is_that_of_a_fork(store: Store) -> None:
    """Also behind a rewind, and in a thread with many commits."""
    at_event = await _history(store)
    for at, (_, _, state) in at_event.items():
        assert await store.state_at("t", at) == state
    await write(store, rewinds_to=1, thread_state=raw(x=9), events=(event(),))
    for number in range(120):
        await write(store, thread_state=raw(n=number))
    await write(store, events=(event(),))
    assert (await store.state_at("t", 6)).extensions == {"x": 9}
    assert (await store.state_at("t", 7)).extensions == {"x": 9, "n": 119}
    for at, (_, _, state) in at_event.items():
        assert await store.state_at("t", at) == state
    for thread_id, seq in (("ghost", 1), ("t", 0), ("t", 8), ("t", -1)):
        await expect_error_without_change(store, NotFound, store.state_at(thread_id, seq))


@check
async def a_thread_is_forked_as_it_is(store: Store) -> None:
    await _history(store)
    before = await thread_as_read(store, "t")

    fork = await store.fork("t", "u", at_ms=60)

    assert await _contents(store, "u") == await _contents(store, "t")
    assert (fork.forked_from, fork.forked_at, fork.message_count) == ("t", 5, 5)
    assert (fork.parent_thread_id, fork.owner) == (None, None)
    assert await thread_as_read(store, "t") == before
    assert await all_threads(store) == ["u", "t"]


@check
async def a_fork_has_no_runs_tickets_or_commands(store: Store) -> None:
    call = line("m", 0, CallPhase.INTENT)
    waits = record("r", status=WAITING)
    await write(store, messages=says("a"), run=waits, calls=(call,), tickets=(ticket(),))
    await store.send(ThreadCommand(thread_id="t", kind=CommandKind.CANCEL))

    fork = await store.fork("t", "u", at_ms=1)

    assert (fork.latest_run_id, fork.open_run_id, fork.active_run_id) == (None, None, None)
    assert await store.latest_run("u") is None
    assert await all_runs(store, thread_id="u") == []
    assert await all_tickets(store, thread_id="u") == []
    assert list(await store.load_commands("u")) == []
    context = await store.load_context("u")
    assert context is not None
    assert (context.open_run, list(context.commands)) == (None, [])


@check
async def a_fork_knows_which_calls_have_started(store: Store) -> None:
    """As of that event, so that a fork does not run them a second time."""
    intent, outcome = line("m", 0, CallPhase.INTENT, {"n": 1}), line("m", 0, CallPhase.SUCCEEDED)
    for calls in ((intent,), (outcome,)):
        messages = (asks("m", "c0"),) if calls == (intent,) else ()
        await write(store, messages=messages, run=record("r"), calls=calls, events=(event(),))

    for at, phase in ((1, CallPhase.INTENT), (2, CallPhase.SUCCEEDED), (None, CallPhase.SUCCEEDED)):
        fork = await store.fork("t", f"fork {at}", at=at, at_ms=1)
        context = await store.load_context(fork.id)
        assert context is not None
        assert list(context.calls) == [line("m", 0, phase, {"n": 1})]


@check
async def a_fork_and_its_origin_go_on_apart(store: Store) -> None:
    await _history(store)
    await store.fork("t", "u", at=2, at_ms=60)

    here = await write(store, messages=says("here"), events=(event(),), thread_state=raw(x="t"))
    there = await write(
        store, "u", messages=says("there"), events=(event(thread_id="u"),), thread_state=raw(x="u")
    )

    assert (here.length, here.first_event_seq) == (6, 6)
    assert (there.length, there.first_event_seq) == (4, 5)
    assert await texts(store, "t") == ["a", "b", "c", "d", "e", "here"]
    assert await texts(store, "u") == ["a", "b", "c", "there"]
    assert await texts(store, "u", after=2, limit=2) == ["c", "there"]
    assert [found.seq for found in await store.load_events("u", after=3)] == [4, 5]
    assert (await store.load_thread_state("t")).extensions["x"] == "t"
    assert (await store.load_thread_state("u")).extensions == {"x": "u", "y": 1}
    context = await store.load_context("u", tail=2)
    assert context is not None
    assert ([m.text() for m in context.messages], context.skipped) == (["c", "there"], 2)


@check
async def a_fork_is_forked_before_and_after_its_birth(store: Store) -> None:
    at_event = await _history(store)
    await store.fork("t", "u", at=4, at_ms=60)
    await write(
        store, "u", messages=says("new"), events=(event(thread_id="u"),), thread_state=raw(n=1)
    )

    await store.fork("u", "early", at=1, at_ms=61)
    await store.fork("u", "late", at=5, at_ms=62)

    assert await _contents(store, "early") == at_event[1]
    assert await _contents(store, "late") == await _contents(store, "u")


@check
async def a_fork_outlives_its_origin(store: Store) -> None:
    await _history(store)
    await store.fork("t", "u", at_ms=60)
    before = await _contents(store, "u")
    await write(store, run=record("r", status=DONE))

    await store.delete_thread("t", at_ms=70)

    assert await _contents(store, "u") == before
    await write(store, messages=says("another"))
    assert await _contents(store, "u") == before


@check
async def a_fork_needs_an_origin_an_event_and_a_new_name(store: Store) -> None:
    await _history(store)
    await write(store, "taken")
    for error, operation in (
        (NotFound, store.fork("ghost", "u", at_ms=1)),
        (NotFound, store.fork("t", "u", at=0, at_ms=1)),
        (NotFound, store.fork("t", "u", at=6, at_ms=1)),
        (NotFound, store.fork("t", "u", at=-1, at_ms=1)),
        (AlreadyExists, store.fork("t", "taken", at_ms=1)),
        (AlreadyExists, store.fork("t", "t", at=1, at_ms=1)),
    ):
        await expect_error_without_change(store, error, operation)


@check
async def an_owned_thread_can_be_forked(store: Store) -> None:
    fence = await store.claim("t", at_ms=1)
    await write(store, messages=says("a"), fence=fence)

    assert (await store.fork("t", "u", at_ms=2)).owner is None
    await write(store, "u", messages=says("b"))
    await write(store, messages=says("c"), fence=fence)
    assert (await texts(store, "t"), await texts(store, "u")) == (["a", "c"], ["a", "b"])
