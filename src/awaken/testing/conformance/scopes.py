"""Checks of scopes and families: where a thread belongs, and which lists show it."""

from __future__ import annotations

from typing import Any

from awaken.core.profile import ProfileOwner, profiles_of
from awaken.core.store.store import Store
from awaken.core.store.threads import RunQuery, ThreadQuery, TicketQuery
from awaken.core.suspension import TicketStatus
from awaken.core.thread_ids import ThreadFamily, child_id
from awaken.testing.conformance.helpers import (
    StoreCheck,
    Suite,
    all_runs,
    all_threads,
    all_tickets,
    names,
    record,
    ticket,
    write,
)

check = Suite[StoreCheck]()

SCOPES = {"": ["talk", "walk"], "acme": ["acme/talk", "acme/walk"], "zoo-2": ["zoo-2/talk"]}
ORDER = ["talk", "acme/talk", "zoo-2/talk", "walk", "acme/walk"]
"""The same threads, in the order in which they begin."""


async def _load_family(store: Store, thread_id: str) -> ThreadFamily:
    thread = await store.load_thread(thread_id)
    assert thread is not None
    return ThreadFamily(thread.scope, thread.family)


async def _fill(store: Store) -> None:
    """Each thread, and one beneath it, has a run with an open ticket."""
    for number, root in enumerate(ORDER):
        for thread, parent in ((root, None), (child_id(root, "m:0"), root)):
            run = record(f"run {thread}", thread)
            asked = ticket(f"key {thread}", thread_id=thread, run_id=run.run_id, asked_at=number)
            commit = {"run": run, "tickets": (asked,), "parent_thread_id": parent}
            await write(store, thread, at_ms=number, **commit)


async def _ticket_keys(store: Store, **query: Any) -> list[str]:
    return names(await all_tickets(store, **query))


@check
async def a_thread_belongs_where_its_id_says(store: Store) -> None:
    """06 §2.8"""
    for thread, place in {
        "talk": ThreadFamily("", "talk"),
        "acme/talk": ThreadFamily("acme", "talk"),
        "Not A Scope/talk": ThreadFamily("", "Not A Scope/talk"),
    }.items():
        await write(store, thread)
        assert await _load_family(store, thread) == place
        forked = await store.fork(thread, f"zoo/{len(thread)}", at_ms=2)
        assert (forked.scope, forked.family) == ("zoo", str(len(thread)))


@check
async def a_thread_beneath_another_belongs_where_that_one_does(store: Store) -> None:
    """06/SV-13: whatever its own id looks like; ids of earlier versions say nothing."""
    await write(store, "acme/talk")
    await write(store, "child-m:0", parent_thread_id="acme/talk")
    await write(store, "zoo/below", parent_thread_id="child-m:0")
    assert await _load_family(store, "child-m:0") == ThreadFamily("acme", "talk")
    assert await _load_family(store, "zoo/below") == ThreadFamily("acme", "talk")


@check
async def a_claimed_thread_belongs_where_its_first_commit_puts_it(store: Store) -> None:
    await write(store, "acme/talk")
    fence = await store.claim("child-m:0", at_ms=1)
    await write(store, "child-m:0", fence=fence, parent_thread_id="acme/talk")
    assert await _load_family(store, "child-m:0") == ThreadFamily("acme", "talk")
    assert await all_threads(store, scope="") == []


@check
async def a_list_of_a_scope_shows_that_scope_alone(store: Store) -> None:
    """06/SV-13: page by page, of every size, also in a list of roots or by prefix."""
    await _fill(store)
    for scope, threads in SCOPES.items():
        roots = threads[::-1]
        both = {*threads, *(child_id(thread, "m:0") for thread in threads)}
        for limit in (1, 2, 3, 50):
            assert await all_threads(store, scope=scope, root=True, limit=limit) == roots
            assert set(await all_threads(store, scope=scope, limit=limit)) == both
            assert set(await all_runs(store, scope=scope, limit=limit)) == {
                f"run {thread}" for thread in both
            }
            tickets = await _ticket_keys(store, scope=scope, limit=limit)
            assert tickets == [
                f"key {name}" for thread in threads for name in (thread, child_id(thread, "m:0"))
            ]
        named = await all_threads(store, scope=scope, prefix=threads[0])
        assert set(named) == {threads[0], child_id(threads[0], "m:0")}
    for query in (ThreadQuery(scope="none"), ThreadQuery(scope="none", root=True)):
        assert (await store.list_threads(query)).items == ()
    assert (await store.list_runs(RunQuery(scope="none"))).items == ()
    assert (await store.list_tickets(TicketQuery(scope="none"))).items == ()


@check
async def a_list_without_a_scope_shows_all_of_them_in_one_order(store: Store) -> None:
    await _fill(store)
    both = [name for thread in ORDER for name in (thread, child_id(thread, "m:0"))]
    for limit in (1, 2, 3, 50):
        assert await all_threads(store, root=True, limit=limit) == ORDER[::-1]
        assert sorted(await all_threads(store, limit=limit)) == sorted(both)
        assert await all_runs(store, limit=limit) == [f"run {name}" for name in reversed(both)]
        assert await _ticket_keys(store, limit=limit) == [f"key {name}" for name in both]


@check
async def profiles_of_a_scope_are_apart(store: Store) -> None:
    """06/SV-13: an owner of one scope neither reads, lists nor clears what another scope has."""
    owners = [
        ProfileOwner(agent=agent, scope=scope)
        for agent in (None, "planner")
        for scope in ("", "acme", "zoo")
    ]
    for value, owner in enumerate(owners):
        await store.profiles.set(owner, "k", value)
    for value, owner in enumerate(owners):
        (entry,) = await store.profiles.list(owner)
        assert entry == await store.profiles.get(owner, "k")
        assert entry.value == value
    inside = profiles_of(store.profiles, "acme")
    assert inside is not None
    assert await inside.get(ProfileOwner(), "k") == await store.profiles.get(owners[1], "k")
    await inside.clear_owner(ProfileOwner())
    left = [await store.profiles.get(owner, "k") for owner in owners]
    assert [entry is None for entry in left] == [False, True, False, False, False, False]


@check
async def a_filter_and_a_scope_hold_together(store: Store) -> None:
    await _fill(store)
    inside: dict[str, Any] = {"scope": "acme"}
    assert await all_threads(store, parent_thread_id="acme/talk", **inside) == ["acme/talk~m:0"]
    assert await all_threads(store, ancestor_thread_id="acme/talk", **inside) == ["acme/talk~m:0"]
    assert await all_threads(store, parent_thread_id="talk", **inside) == []
    assert await all_threads(store, ancestor_thread_id="talk", **inside) == []
    assert await all_runs(store, thread_id="talk", **inside) == []
    assert await all_runs(store, thread_id="acme/talk", **inside) == ["run acme/talk"]
    assert await _ticket_keys(store, thread_id="talk", **inside) == []
    opened: dict[str, Any] = {"status": TicketStatus.OPEN, **inside}
    assert await _ticket_keys(store, thread_id="acme/talk", **opened) == ["key acme/talk"]
    assert len(await _ticket_keys(store, **opened)) == 4
    assert await _ticket_keys(store, status=TicketStatus.ANSWERED, **inside) == []


@check
async def a_tenant_is_forgotten_but_for_what_runs(store: Store) -> None:
    """06 §5.6: whatever state its runs are in, and what others have stays. It may be repeated."""
    await _fill(store)
    await write(store, "acme-2/talk", at_ms=9)
    fence = await store.claim("acme/walk", at_ms=10)

    freed = await store.forget_scope("acme", at_ms=11)

    assert (freed.threads, freed.runs, freed.commits) == (3, 3, 3)
    assert await all_threads(store, scope="acme") == ["acme/walk"]
    left = len(await all_threads(store))
    assert left == 2 * len(ORDER) + 1 - 3
    await store.release(fence)
    assert (await store.forget_scope("acme", at_ms=12)).threads == 1
    assert (await store.forget_scope("acme", at_ms=13)).threads == 0
    assert await _ticket_keys(store, scope="acme") == []
    assert await all_runs(store, scope="acme") == []
    assert len(await all_threads(store)) == left - 1


@check
async def profiles_of_a_tenant_are_cleared(store: Store) -> None:
    """06 §5.6: those of all its agents, and of no other tenant."""
    owners = [
        ProfileOwner(agent=agent, scope=scope)
        for scope in ("", "acme", "acme-2", "acm")
        for agent in (None, "acme", "a/b", "é")
    ]
    for owner in owners:
        await store.profiles.set(owner, "k", str(owner))

    assert await store.profiles.clear_scope("acme") == 4
    assert await store.profiles.clear_scope("acme") == 0

    left = [owner for owner in owners if await store.profiles.list(owner)]
    assert left == [owner for owner in owners if owner.scope != "acme"]
