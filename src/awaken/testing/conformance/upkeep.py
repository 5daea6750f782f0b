"""Whole threads: forked at any point, deleted with all that is theirs, pruned."""

from __future__ import annotations

from typing import Any

from awaken.contract.commands import CommandKind, ThreadCommand
from awaken.contract.commits import CallPhase
from awaken.contract.store import Store
from awaken.contract.threads import ChildStrategy
from awaken.domain.event import StepEnd, StepStart
from awaken.errors import AlreadyExists, InvalidRecord, NotFound, ThreadOwned
from awaken.testing.conformance.making import (
    DONE,
    WAITING,
    StoreCheck,
    Suite,
    all_runs,
    all_threads,
    all_tickets,
    event,
    everything,
    line,
    raw,
    record,
    refused_in_vain,
    says,
    texts,
    thread_as_read,
    ticket,
    write,
)

check = Suite[StoreCheck]()


# -- forks ------------------------------------------------------------------------------------


async def _contents(store: Store, thread_id: str) -> tuple[Any, ...]:
    """What a fork shares with its origin."""
    events = await store.load_events(thread_id)
    return (
        list(await store.load_messages(thread_id)),
        [(found.seq, found.run_id, found.at_ms, found.event) for found in events],
        await store.load_thread_state(thread_id),
    )


async def _history(store: Store) -> dict[int, tuple[Any, ...]]:
    """A thread of several commits; what it held after the commit of each event."""
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

    await store.delete_thread("t", at_ms=70)

    assert await _contents(store, "u") == before
    await write(store, messages=says("another"))
    assert await _contents(store, "u") == before


@check
async def a_fork_needs_an_origin_an_event_and_a_new_name(store: Store) -> None:
    await _history(store)
    await write(store, "taken")
    for error, deed in (
        (NotFound, store.fork("ghost", "u", at_ms=1)),
        (NotFound, store.fork("t", "u", at=0, at_ms=1)),
        (NotFound, store.fork("t", "u", at=6, at_ms=1)),
        (NotFound, store.fork("t", "u", at=-1, at_ms=1)),
        (AlreadyExists, store.fork("t", "taken", at_ms=1)),
        (AlreadyExists, store.fork("t", "t", at=1, at_ms=1)),
    ):
        await refused_in_vain(store, error, deed)


@check
async def an_owned_thread_can_be_forked(store: Store) -> None:
    fence = await store.claim("t", at_ms=1)
    await write(store, messages=says("a"), fence=fence)

    assert (await store.fork("t", "u", at_ms=2)).owner is None
    await write(store, "u", messages=says("b"))
    await write(store, messages=says("c"), fence=fence)
    assert (await texts(store, "t"), await texts(store, "u")) == (["a", "c"], ["a", "b"])


# -- deleting ---------------------------------------------------------------------------------


@check
async def a_deleted_thread_is_gone_with_all_that_was_its(store: Store) -> None:
    await write(store, "other", messages=says("x"), run=record("s", "other"))
    rest = await everything(store)
    run = record("r", status=WAITING)
    for number in range(3):
        await write(
            store,
            messages=says(str(number)),
            events=(event(),),
            run=run,
            run_state=raw(n=number),
            thread_state=raw(n=number),
            calls=(line("m", number, CallPhase.INTENT),),
            tickets=(ticket(f"m:{number}"),),
        )
    await store.send(ThreadCommand(thread_id="t", kind=CommandKind.CANCEL))

    freed = await store.delete_thread("t", at_ms=9)

    assert (freed.threads, freed.runs, freed.commits) == (1, 1, 3)
    assert await everything(store) == rest
    assert await store.load_thread("t") is None
    assert await store.load_run("r") is None
    assert list(await store.load_calls("r")) == []
    assert list(await store.load_commands("t")) == []
    await write(store, messages=says("new"), events=(event(),))
    assert await texts(store) == ["new"]
    assert [found.seq for found in await store.load_events("t")] == [1]
    assert (await store.load_thread_state("t")).extensions == {}


@check
async def an_unknown_thread_cannot_be_deleted(store: Store) -> None:
    await refused_in_vain(store, NotFound, store.delete_thread("ghost", at_ms=1))


async def _family(store: Store) -> None:
    """p has children a and b, a has child c; q is alone."""
    for name, parent in (("p", None), ("q", None), ("a", "p"), ("b", "p"), ("c", "a")):
        await write(store, name, parent_thread_id=parent, run=record(f"run {name}", name), at_ms=5)


@check
async def a_thread_with_children_is_not_deleted(store: Store) -> None:
    """04 §2.1: unless it is said what becomes of them; the text names both ways."""
    await _family(store)
    refusal = await refused_in_vain(store, InvalidRecord, store.delete_thread("p", at_ms=9))
    assert "detach" in str(refusal)
    assert "cascade" in str(refusal)

    assert (await store.delete_thread("c", at_ms=9)).threads == 1
    assert (await store.delete_thread("a", at_ms=9)).threads == 1


@check
async def children_can_be_detached(store: Store) -> None:
    """04 §2.1: their parent is cleared, and they have changed."""
    await _family(store)

    freed = await store.delete_thread("p", children=ChildStrategy.DETACH, at_ms=9)

    assert (freed.threads, freed.runs) == (1, 1)
    heads = {name: await store.load_thread(name) for name in "pabc"}
    assert heads["p"] is None
    assert [(h.id, h.parent_thread_id, h.updated_at) for h in heads.values() if h] == [
        ("a", None, 9),
        ("b", None, 9),
        ("c", "a", 5),
    ]


@check
async def children_can_go_with_their_parent(store: Store) -> None:
    """04 §2.1: and theirs with them."""
    await _family(store)

    freed = await store.delete_thread("p", children=ChildStrategy.CASCADE, at_ms=9)

    assert (freed.threads, freed.runs, freed.commits) == (4, 4, 4)
    assert await all_threads(store) == ["q"]
    assert await all_runs(store) == ["run q"]


@check
async def an_owned_thread_is_not_deleted(store: Store) -> None:
    """Nor one whose child, that would go with it, is owned. One that stays may be."""
    await _family(store)
    fence = await store.claim("c", at_ms=6)

    owned = await refused_in_vain(store, ThreadOwned, store.delete_thread("c", at_ms=9))
    assert (owned.thread_id, owned.owner) == ("c", store.owner)
    for name in ("a", "p"):
        deed = store.delete_thread(name, children=ChildStrategy.CASCADE, at_ms=9)
        await refused_in_vain(store, ThreadOwned, deed)
    await store.delete_thread("a", children=ChildStrategy.DETACH, at_ms=9)
    await write(store, "c", run=record("run c", "c", status=DONE), fence=fence, release=True)
    assert (await store.delete_thread("c", at_ms=9)).threads == 1


# -- pruning ----------------------------------------------------------------------------------


@check
async def old_threads_are_pruned(store: Store) -> None:
    """Changed before then, with nothing open, owned, or depending on them."""
    await write(store, "old", run=record("run old", "old", status=DONE), at_ms=10)
    await write(store, "at then", at_ms=100)
    await write(store, "open", run=record("run open", "open", status=WAITING), at_ms=10)
    await write(store, "owned", at_ms=10)
    await store.claim("owned", at_ms=10)
    await write(store, "parent of new", at_ms=10)
    await write(store, "new", parent_thread_id="parent of new", at_ms=200)
    await write(store, "parent of old", at_ms=10)
    await write(store, "old child", parent_thread_id="parent of old", at_ms=10)

    freed = await store.prune(before_ms=100)

    assert (freed.threads, freed.runs, freed.commits) == (3, 1, 3)
    assert sorted(await all_threads(store)) == [
        "at then",
        "new",
        "open",
        "owned",
        "parent of new",
    ]
    assert (await store.prune(before_ms=100)).threads == 0


@check
async def a_family_is_pruned_from_below_as_far_as_it_goes(store: Store) -> None:
    for name, parent in (("a", None), ("b", "a"), ("c", "b"), ("d", "c"), ("side", "a")):
        await write(store, name, parent_thread_id=parent, at_ms=10)
    await write(store, "c", at_ms=500)

    assert (await store.prune(before_ms=100)).threads == 2
    assert sorted(await all_threads(store)) == ["a", "b", "c"]
    assert (await store.prune(before_ms=1000)).threads == 3
    assert await all_threads(store) == []


@check
async def pruning_nothing_frees_nothing(store: Store) -> None:
    await write(store, at_ms=10)
    freed = await store.prune(before_ms=10)
    assert (freed.threads, freed.runs, freed.commits, freed.bytes) == (0, 0, 0, 0)
