"""Checks of deleting and pruning threads with everything that belongs to them."""

from __future__ import annotations

from awaken.core.account import ledger_key
from awaken.core.profile import ProfileOwner
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import CallPhase
from awaken.core.store.store import Store
from awaken.core.store.threads import ChildStrategy
from awaken.errors import InvalidRecord, NotFound, RunOpen, ThreadOwned
from awaken.testing.conformance.helpers import (
    DONE,
    WAITING,
    StoreCheck,
    Suite,
    all_runs,
    all_threads,
    event,
    everything,
    expect_error_without_change,
    line,
    names,
    raw,
    record,
    says,
    texts,
    ticket,
    write,
)

check = Suite[StoreCheck]()


# -- deleting ---------------------------------------------------------------------------------


@check
async def a_deleted_thread_is_gone_with_all_that_was_its(store: Store) -> None:
    await write(store, "other", messages=says("x"), run=record("s", "other"))
    rest = await everything(store)
    run = record("r", status=DONE)
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
    await expect_error_without_change(store, NotFound, store.delete_thread("ghost", at_ms=1))


async def _family(store: Store) -> None:
    """p has children a and b, a has child c; q is alone."""
    for name, parent in (("p", None), ("q", None), ("a", "p"), ("b", "p"), ("c", "a")):
        run = record(f"run {name}", name, status=DONE)
        await write(store, name, parent_thread_id=parent, run=run, at_ms=5)


@check
async def a_thread_with_children_is_not_deleted(store: Store) -> None:
    """04 §2.1: unless the caller chooses what happens to them; the error names both ways."""
    await _family(store)
    refusal = await expect_error_without_change(
        store, InvalidRecord, store.delete_thread("p", at_ms=9)
    )
    assert "detach" in str(refusal)
    assert "cascade" in str(refusal)

    assert (await store.delete_thread("c", at_ms=9)).threads == 1
    assert (await store.delete_thread("a", at_ms=9)).threads == 1


@check
async def children_can_be_detached(store: Store) -> None:
    """04 §2.1: their parent is cleared, which is a change of theirs."""
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
    """04 §2.1: and their own children with them."""
    await _family(store)

    freed = await store.delete_thread("p", children=ChildStrategy.CASCADE, at_ms=9)

    assert (freed.threads, freed.runs, freed.commits) == (4, 4, 4)
    assert await all_threads(store) == ["q"]
    assert await all_runs(store) == ["run q"]


@check
async def an_owned_thread_is_not_deleted(store: Store) -> None:
    """Nor one with an owned child that would be deleted too. A child that is kept may be owned."""
    await _family(store)
    fence = await store.claim("c", at_ms=6)

    owned = await expect_error_without_change(store, ThreadOwned, store.delete_thread("c", at_ms=9))
    assert (owned.thread_id, owned.owner) == ("c", store.owner)
    for name in ("a", "p"):
        operation = store.delete_thread(name, children=ChildStrategy.CASCADE, at_ms=9)
        await expect_error_without_change(store, ThreadOwned, operation)
    await store.delete_thread("a", children=ChildStrategy.DETACH, at_ms=9)
    await write(store, "c", run=record("run c", "c", status=DONE), fence=fence, release=True)
    assert (await store.delete_thread("c", at_ms=9)).threads == 1


@check
async def a_thread_with_an_open_run_is_not_deleted(store: Store) -> None:
    """04/DB-19: nor one with such a child that would be deleted too. The error names the run,
    which has to end first."""
    await _family(store)
    await write(store, "a", run=record("open", "a", status=WAITING), at_ms=6)

    for children in ChildStrategy:
        if children is not ChildStrategy.REJECT:
            operation = store.delete_thread("a", children=children, at_ms=9)
            refusal = await expect_error_without_change(store, RunOpen, operation)
            assert (refusal.thread_id, refusal.run_id) == ("a", "open")
    operation = store.delete_thread("p", children=ChildStrategy.CASCADE, at_ms=9)
    refusal = await expect_error_without_change(store, RunOpen, operation)
    assert (refusal.thread_id, refusal.run_id) == ("p", "open")
    assert "cancel" in str(refusal)

    await write(store, "a", run=record("open", "a", status=DONE), at_ms=7)
    freed = await store.delete_thread("p", children=ChildStrategy.CASCADE, at_ms=9)
    assert freed.threads == 4


@check
async def a_child_that_stays_may_have_an_open_run(store: Store) -> None:
    await _family(store)
    await write(store, "a", run=record("open", "a", status=WAITING), at_ms=6)
    assert (await store.delete_thread("p", children=ChildStrategy.DETACH, at_ms=9)).threads == 1


@check
async def what_is_beneath_an_open_run_is_not_deleted(store: Store) -> None:
    """Else that run would start it once more."""
    await _family(store)
    await write(store, "p", run=record("open", "p"), at_ms=6)

    refusal = await expect_error_without_change(store, RunOpen, store.delete_thread("c", at_ms=9))
    assert (refusal.thread_id, refusal.run_id) == ("c", "open")


@check
async def open_runs_without_an_owner_are_deleted_by_force(store: Store) -> None:
    """For runs that no worker can end; the refusal mentions it. Threads with a live owner, or
    beneath an open run, are not deleted."""
    await _family(store)
    await write(store, "a", run=record("open", "a"), at_ms=6)
    fence = await store.claim("c", at_ms=6)
    tree = ChildStrategy.CASCADE
    operation = store.delete_thread("p", children=tree, force=True, at_ms=9)
    await expect_error_without_change(store, ThreadOwned, operation)
    await store.release(fence)
    operation = store.delete_thread("c", force=True, at_ms=9)
    await expect_error_without_change(store, RunOpen, operation)
    refusal = await expect_error_without_change(
        store, RunOpen, store.delete_thread("a", children=tree, at_ms=9)
    )
    assert "force=True" in str(refusal)

    assert (await store.delete_thread("a", children=tree, force=True, at_ms=9)).threads == 2
    assert sorted(await all_threads(store)) == ["b", "p", "q"]
    assert await store.load_run("open") is None
    assert names(await store.list_interrupted(now_ms=99)) == []


# -- books ------------------------------------------------------------------------------------


async def _books(store: Store) -> list[str]:
    return [entry.key for entry in await store.profiles.list(ProfileOwner())]


@check
async def the_book_of_a_tree_goes_with_the_run_at_its_root(store: Store) -> None:
    """And with no other run; an agent's own entries are not books."""
    await _family(store)
    mine = ProfileOwner(agent="planner")
    await store.profiles.set(mine, ledger_key("run p"), 1)
    for name in ("p", "q", "a"):
        await store.profiles.set(ProfileOwner(), ledger_key(f"run {name}"), {})
    await store.profiles.set(ProfileOwner(), "taste", "tea")

    await store.delete_thread("c", at_ms=9)
    assert len(await _books(store)) == 4
    await store.delete_thread("p", children=ChildStrategy.DETACH, at_ms=9)
    assert await _books(store) == [ledger_key("run a"), ledger_key("run q"), "taste"]
    await store.prune(before_ms=6)
    assert await _books(store) == [ledger_key("run a"), "taste"]
    assert await store.profiles.get(mine, ledger_key("run p")) is not None


# -- pruning ----------------------------------------------------------------------------------


@check
async def old_threads_are_pruned(store: Store) -> None:
    """Those changed before that time, without an open run, an owner, or children that are kept."""
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
async def what_is_beneath_an_open_run_is_not_pruned(store: Store) -> None:
    """However old it is, and however far above the open run is: that run would start it again."""
    await _family(store)
    await write(store, "p", run=record("open", "p", status=WAITING), at_ms=6)

    assert (await store.prune(before_ms=100)).threads == 1
    assert sorted(await all_threads(store)) == ["a", "b", "c", "p"]

    await write(store, "p", run=record("open", "p", status=DONE), at_ms=7)
    assert (await store.prune(before_ms=100)).threads == 4


@check
async def pruning_nothing_frees_nothing(store: Store) -> None:
    await write(store, at_ms=10)
    freed = await store.prune(before_ms=10)
    assert (freed.threads, freed.runs, freed.commits, freed.bytes) == (0, 0, 0, 0)
