"""Checks of lists: their order, their filters, and cursors that are valid for one list only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from awaken.core.lifecycle import RunStatus
from awaken.core.run import RunKind
from awaken.core.store.store import Store
from awaken.core.store.threads import Page, RunQuery, ThreadQuery, TicketQuery
from awaken.core.suspension import TicketStatus
from awaken.errors import InvalidRecord
from awaken.testing.conformance.helpers import (
    DONE,
    RUNNING,
    WAITING,
    StoreCheck,
    Suite,
    all_runs,
    all_threads,
    all_tickets,
    expect_error,
    names,
    record,
    ticket,
    write,
)

check = Suite[StoreCheck]()


# -- threads ----------------------------------------------------------------------------------


@check
async def threads_are_listed_by_their_last_activity(store: Store) -> None:
    """06 §2.11: the thread in which a run last started, paused or ended comes first, then by id."""
    for name, at_ms in (("a", 1), ("b", 2), ("d", 3), ("c", 3)):
        await write(store, name, at_ms=at_ms)
    commits: list[tuple[str, str | None, RunStatus, list[str]]] = [
        ("a", None, RUNNING, ["c", "d", "b", "a"]),  # without a run nothing starts or ends
        ("a", "r", RUNNING, ["a", "c", "d", "b"]),
        ("b", "s", RUNNING, ["b", "a", "c", "d"]),
        ("a", "r", RUNNING, ["b", "a", "c", "d"]),  # it continues
        ("a", "r", WAITING, ["a", "b", "c", "d"]),
        ("b", "s", DONE, ["b", "a", "c", "d"]),
        ("a", "r", WAITING, ["b", "a", "c", "d"]),
        ("a", "r", RUNNING, ["a", "b", "c", "d"]),
        ("d", "q", DONE, ["d", "a", "b", "c"]),  # a run that is done with its first commit
        ("b", "s", DONE, ["d", "a", "b", "c"]),
    ]
    for at_ms, (thread, run, status, expected) in enumerate(commits, start=10):
        new = record(run, thread, status=status) if run else None
        await write(store, thread, run=new, at_ms=at_ms)
        for limit in (1, 2, 3, 4, 50):
            assert await all_threads(store, limit=limit) == expected, (at_ms, limit)
    heads = (await store.list_threads(ThreadQuery())).items
    assert [(head.active_at, head.updated_at) for head in heads] == [
        (18, 18),
        (17, 17),
        (15, 19),
        (3, 3),
    ]


@check
async def runs_side_by_side_move_their_thread_once_each(store: Store) -> None:
    """Their commits alternate; only the first commit of each run moves the thread."""
    await write(store, run=record("r"), at_ms=1)
    await write(store, run=record("s"), at_ms=2)
    await write(store, "u", at_ms=3)
    for at_ms, run in ((4, "r"), (5, "s"), (6, "r")):
        await write(store, run=record(run), at_ms=at_ms)
    assert await all_threads(store) == ["u", "t"]


@check
async def a_thread_that_moves_is_neither_missed_nor_listed_for_another(store: Store) -> None:
    """A page starts after a place in the order, not after a number of items."""
    for number in range(8):
        await write(store, f"t{number}", at_ms=number // 2)
    first = await store.list_threads(ThreadQuery(limit=3))
    assert names(first.items) == ["t6", "t7", "t4"]

    await write(store, "t5", run=record("r", "t5"), at_ms=20)  # to the front
    await write(store, "new", at_ms=21)
    await store.delete_thread("t4", at_ms=22)  # the one the cursor stands on
    await store.delete_thread("t2", at_ms=22)

    rest = await store.list_threads(ThreadQuery(limit=50, cursor=first.cursor))
    assert names(rest.items) == ["t3", "t0", "t1"]
    assert await all_threads(store, limit=2) == ["new", "t5", "t6", "t7", "t3", "t0", "t1"]


@check
async def threads_of_one_instant_are_listed_page_by_page(store: Store) -> None:
    expected = [f"t{number:02}" for number in range(20)]
    for name in reversed(expected):
        await write(store, name, at_ms=5, parent_thread_id="t19" if name < "t10" else None)
    for limit in (1, 3, 19, 20):
        assert await all_threads(store, limit=limit) == expected, limit
        assert await all_threads(store, limit=limit, root=True) == expected[10:], limit
        assert await all_threads(store, limit=limit, parent_thread_id="t19") == expected[:10]
        assert await all_threads(store, limit=limit, ancestor_thread_id="t19") == expected[:10]
        assert await all_threads(store, limit=limit, prefix="t0") == expected[:10], limit


@check
async def a_page_has_room_for_one(store: Store) -> None:
    for pages in (await _three_of_each(store)).values():
        for limit in (0, -1):
            await expect_error(InvalidRecord, pages(limit=limit))


@check
async def threads_are_listed_with_their_heads(store: Store) -> None:
    await write(store, "p")
    fence = await store.claim("t", at_ms=1)
    await write(store, run=record("r"), fence=fence, parent_thread_id="p", at_ms=7)

    page = await store.list_threads(ThreadQuery())

    assert page.items == (await store.load_thread("t"), await store.load_thread("p"))


@check
async def threads_are_listed_by_parent_or_as_roots(store: Store) -> None:
    await write(store, "p", at_ms=1)
    await write(store, "q", at_ms=2)
    for number in range(3):
        await write(store, f"c{number}", parent_thread_id="p", at_ms=10 + number)
    await write(store, "grandchild", parent_thread_id="c0", at_ms=20)

    assert await all_threads(store, parent_thread_id="p", limit=2) == ["c2", "c1", "c0"]
    assert await all_threads(store, root=True, limit=1) == ["q", "p"]
    assert await all_threads(store, root=True, parent_thread_id="p") == []
    assert await all_threads(store, parent_thread_id="ghost") == []


@check
async def threads_are_listed_by_prefix(store: Store) -> None:
    """04/S-5: character by character: no patterns, and case matters."""
    listed = ("a%b", "a_b", "axb", "Axb", "a", "ab", "b", "ä", "a\U0001f600", "a'b")
    for at_ms, name in enumerate(listed):
        await write(store, name, at_ms=at_ms)

    for prefix in ("", "a", "A", "a%", "a_", "a'", "ä", "a\U0001f600", "axbc", "%", "_"):
        expected = [name for name in reversed(listed) if name.startswith(prefix)]
        for limit in (1, 50):
            assert await all_threads(store, prefix=prefix, limit=limit) == expected, prefix


# -- runs -------------------------------------------------------------------------------------


async def _runs(store: Store) -> None:
    for number, (thread, agent, status) in enumerate(
        (("t", "a", DONE), ("u", "b", DONE), ("t", "a", RUNNING), ("u", "b", WAITING)), start=1
    ):
        run = record(f"r{number}", thread, agent_id=agent, status=status, created_at=number)
        await write(store, thread, run=run)


@check
async def runs_are_listed_by_their_parent(store: Store) -> None:
    """In all threads; the parent run need not exist."""
    odd = "p'ä\"\\\n"
    family = (("a", None), ("b", "a"), ("c", "a"), ("d", "b"), ("e", odd))
    for run, parent in family:
        await write(store, f"of {run}", run=record(run, f"of {run}", parent_run_id=parent))
    await write(store, "of c", run=record("c", "of c", parent_run_id="a", status=DONE))
    queries: list[tuple[dict[str, Any], list[str]]] = [
        ({"parent_run_id": "a"}, ["c", "b"]),
        ({"parent_run_id": "a", "status": RUNNING}, ["b"]),
        ({"parent_run_id": "a", "status": DONE}, ["c"]),
        ({"parent_run_id": "a", "thread_id": "of b", "agent_id": "agent"}, ["b"]),
        ({"parent_run_id": "b"}, ["d"]),
        ({"parent_run_id": odd}, ["e"]),
        ({"parent_run_id": "c"}, []),
        ({"parent_run_id": ""}, []),
    ]
    for query, expected in queries:
        for limit in (1, 50):
            assert await all_runs(store, limit=limit, **query) == expected, (query, limit)

    await write(store, "of d", run=record("d", "of d", parent_run_id="a"))
    assert await all_runs(store, parent_run_id="b") == []
    assert await all_runs(store, parent_run_id="a") == ["d", "c", "b"]
    await store.delete_thread("of c", at_ms=1)
    assert await all_runs(store, parent_run_id="a") == ["d", "b"]


@check
async def runs_are_listed_by_their_creation(store: Store) -> None:
    """The last created first, whatever was written to them since."""
    await _runs(store)
    await write(store, run=record("r1", agent_id="a", status=DONE, created_at=1, updated_at=9))
    queries: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["r4", "r3", "r2", "r1"]),
        ({"thread_id": "t"}, ["r3", "r1"]),
        ({"agent_id": "b"}, ["r4", "r2"]),
        ({"status": DONE}, ["r2", "r1"]),
        ({"thread_id": "t", "status": DONE}, ["r1"]),
        ({"agent_id": "a", "status": WAITING}, []),
        ({"thread_id": "ghost"}, []),
    ]
    for query, expected in queries:
        for limit in (1, 2, 4, 50):
            assert await all_runs(store, limit=limit, **query) == expected, (query, limit)


@check
async def a_run_that_comes_later_does_not_shift_the_pages(store: Store) -> None:
    await _runs(store)
    first = await store.list_runs(RunQuery(limit=2))
    await write(store, run=record("r5", agent_id="a", created_at=5))

    rest = await store.list_runs(RunQuery(limit=2, cursor=first.cursor))

    assert (names(first.items), names(rest.items)) == (["r4", "r3"], ["r2", "r1"])


# -- tickets ----------------------------------------------------------------------------------


@check
async def tickets_are_listed_the_oldest_first(store: Store) -> None:
    await write(
        store, run=record("r"), tickets=(ticket("k3", asked_at=3), ticket("k1", asked_at=1))
    )
    other = ticket("k2", thread_id="u", run_id="s", asked_at=2)
    await write(store, "u", run=record("s", "u"), tickets=(other,))
    await write(store, tickets=(ticket("k4", asked_at=4, status=TicketStatus.CLOSED),))
    queries: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["k1", "k2", "k3", "k4"]),
        ({"thread_id": "t"}, ["k1", "k3", "k4"]),
        ({"run_id": "s"}, ["k2"]),
        ({"status": TicketStatus.OPEN}, ["k1", "k2", "k3"]),
        ({"thread_id": "t", "run_id": "r", "status": TicketStatus.CLOSED}, ["k4"]),
        ({"thread_id": "ghost"}, []),
        ({"run_id": "ghost"}, []),
    ]
    for query, expected in queries:
        for limit in (1, 2, 50):
            assert names(await all_tickets(store, limit=limit, **query)) == expected, (query, limit)


# -- cursors ----------------------------------------------------------------------------------

Pages = Callable[..., Awaitable[Page[Any]]]


async def _three_of_each(store: Store) -> dict[str, Pages]:
    """Three threads, runs and tickets, and how to list each."""
    for number in range(3):
        name, run = f"t{number}", f"r{number}"
        asked = ticket(f"k{number}", thread_id=name, run_id=run, asked_at=number)
        new = record(run, name, created_at=number)
        await write(store, name, run=new, tickets=(asked,), at_ms=number)

    def threads(**query: Any) -> Awaitable[Page[Any]]:
        return store.list_threads(ThreadQuery(**query))

    def runs(**query: Any) -> Awaitable[Page[Any]]:
        return store.list_runs(RunQuery(**query))

    def tickets(**query: Any) -> Awaitable[Page[Any]]:
        return store.list_tickets(TicketQuery(**query))

    return {"threads": threads, "runs": runs, "tickets": tickets}


@check
async def a_page_has_a_cursor_if_there_is_more(store: Store) -> None:
    for pages in (await _three_of_each(store)).values():
        assert (await pages(limit=2)).cursor is not None
        assert (await pages(limit=3)).cursor is None
        assert (await pages(limit=4)).cursor is None


@check
async def a_ticket_is_found_by_its_key(store: Store) -> None:
    tickets = (await _three_of_each(store))["tickets"]
    assert [found.thread_id for found in await tickets(key="k1")] == ["t1"]
    assert [found.key for found in await tickets(key="k1", scope="", thread_id="t1")] == ["k1"]
    assert not (await tickets(key="k1", scope="acme")).items
    assert not (await tickets(key="k1", thread_id="t2")).items


@check
async def a_run_is_found_by_its_id(store: Store) -> None:
    runs = (await _three_of_each(store))["runs"]
    assert [found.thread_id for found in await runs(run_id="r1")] == ["t1"]
    assert [found.run_id for found in await runs(run_id="r1", scope="", thread_id="t1")] == ["r1"]
    assert not (await runs(run_id="r1", scope="acme")).items
    assert not (await runs(run_id="r1", thread_id="t2")).items
    assert not (await runs(run_id="none")).items


@check
async def a_cursor_goes_on_in_pages_of_any_size(store: Store) -> None:
    for pages in (await _three_of_each(store)).values():
        first = await pages(limit=1)
        rest = await pages(limit=50, cursor=first.cursor)
        assert (len(rest.items), rest.cursor) == (2, None)
        assert first.items + rest.items == (await pages()).items
        again = await pages(limit=1, cursor=first.cursor)
        assert again.items == rest.items[:1], "a cursor may be used twice"


@check
async def a_cursor_fits_its_own_filter_only(store: Store) -> None:
    """04/S-5."""
    lists = await _three_of_each(store)
    others: dict[str, list[dict[str, Any]]] = {
        "threads": [
            {"prefix": "t"},
            {"root": True},
            {"parent_thread_id": "t0"},
            {"ancestor_thread_id": "t0"},
        ],
        "runs": [
            {"thread_id": "t0"},
            {"ancestor_thread_id": "t0"},
            {"agent_id": "agent"},
            {"kind": RunKind.AGENT},
            {"parent_run_id": "r0"},
            {"status": RUNNING},
        ],
        "tickets": [{"thread_id": "t0"}, {"run_id": "r0"}, {"status": TicketStatus.OPEN}],
    }
    for name, pages in lists.items():
        cursor = (await pages(limit=1)).cursor
        for other in others[name]:
            await expect_error(InvalidRecord, pages(cursor=cursor, **other))
        for stranger, listed in lists.items():
            if stranger != name:
                await expect_error(InvalidRecord, listed(cursor=cursor))
        assert len((await pages(cursor=cursor)).items) == 2


@check
async def nonsense_is_no_cursor(store: Store) -> None:
    for pages in (await _three_of_each(store)).values():
        cursor = str((await pages(limit=1)).cursor)
        for nonsense in ("", "nonsense", "3", "t1", "[]", "äöü", cursor[:-3], cursor + "x" * 4):
            await expect_error(InvalidRecord, pages(cursor=nonsense))
