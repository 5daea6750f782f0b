"""Checks of commits: all of a commit is written, at the end of the thread, or none of it.

A task that waits for a change of the thread is woken, and reads the change.
"""

from __future__ import annotations

import asyncio
from typing import Any

from awaken.core.aio.owned_tasks import start_task
from awaken.core.event import StepEnd, StepStart
from awaken.core.lifecycle import RunStatus
from awaken.core.run import PersistedState
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import CallPhase, ThreadCommit
from awaken.core.store.store import Store
from awaken.testing.conformance.helpers import (
    MAX_WAIT_SECONDS,
    StoreCheck,
    Suite,
    all_runs,
    all_threads,
    all_tickets,
    event,
    line,
    raw,
    record,
    says,
    texts,
    wait_until_named,
    write,
)

check = Suite[StoreCheck]()


# -- appending --------------------------------------------------------------------------------


@check
async def a_commit_appends_behind_what_is_there(store: Store) -> None:
    first = await store.commit(
        ThreadCommit(thread_id="t", expected_length=0, messages=says("a", "b"))
    )
    second = await store.commit(ThreadCommit(thread_id="t", expected_length=2, messages=says("c")))

    assert (first.length, second.length) == (2, 3)
    assert await texts(store) == ["a", "b", "c"]


@check
async def threads_are_apart(store: Store) -> None:
    await write(store, "t", messages=says("a"), thread_state=raw(mood="good"))
    await write(store, "u", messages=says("b"), events=(event(thread_id="u"),))

    assert (await texts(store, "t"), await texts(store, "u")) == (["a"], ["b"])
    assert await store.load_thread_state("u") == PersistedState()
    assert list(await store.load_events("t")) == []


@check
async def what_was_never_written_is_absent(store: Store) -> None:
    """04/S-4: `None`, not an error and not an empty value."""
    assert await store.load_thread("ghost") is None
    assert await store.load_context("ghost") is None
    assert await store.load_run("ghost") is None
    assert await store.latest_run("ghost") is None
    for nothing in (
        await store.load_messages("ghost"),
        await store.load_records("ghost"),
        await store.load_events("ghost"),
        await store.load_calls("ghost"),
        await store.load_commands("ghost"),
        await all_threads(store),
        await all_runs(store),
        await all_tickets(store),
        await store.list_interrupted(now_ms=10**15),
    ):
        assert list(nothing) == []
    assert await store.load_thread_state("ghost") == PersistedState()
    assert await store.load_run_state("ghost") == PersistedState()


@check
async def an_empty_commit_makes_a_thread_and_dates_it(store: Store) -> None:
    first = await write(store, at_ms=5)
    second = await write(store, at_ms=9)

    thread = await store.load_thread("t")
    assert thread is not None
    assert (first.length, first.first_event_seq, second.first_event_seq) == (0, 1, 1)
    assert (thread.created_at, thread.updated_at) == (5, 9)
    assert (thread.message_count, thread.event_count) == (0, 0)


@check
async def messages_and_records_are_read_in_pages(store: Store) -> None:
    """From position `after` + 1; records have their position."""
    mine = says("c")[0].mark_produced_by("r", 3)
    await write(store, messages=says("a", "b"))
    await write(store, messages=(mine, *says("d")))
    pages: list[tuple[dict[str, Any], str]] = [
        ({}, "abcd"),
        ({"after": 1}, "bcd"),
        ({"limit": 2}, "ab"),
        ({"after": 1, "limit": 2}, "bc"),
        ({"after": 3, "limit": 9}, "d"),
        ({"after": 4}, ""),
        ({"after": 99}, ""),
        ({"limit": 0}, ""),
    ]
    for page, expected in pages:
        assert await texts(store, **page) == list(expected), page
        records = await store.load_records("t", **page)
        assert [entry.message.text() for entry in records] == list(expected), page
        assert [entry.seq for entry in records] == [" abcd".index(word) for word in expected]
        assert [entry.message_id for entry in records] == [f"m-{word}" for word in expected]
        assert {entry.thread_id for entry in records} <= {"t"}
    third = (await store.load_records("t", after=2, limit=1))[0]
    assert (third.produced_by_run_id, third.step_index, third.message) == ("r", 3, mine)


@check
async def events_are_numbered_without_gaps(store: Store) -> None:
    """Design §8: `seq` is given at commit, over all commits of the thread."""
    first = await write(store, events=(event(StepStart()), event(StepEnd())))
    none = await write(store, messages=says("a"))
    third = await write(store, events=(event(StepStart(message_id="z")),))

    assert (first.first_event_seq, none.first_event_seq, third.first_event_seq) == (1, 3, 3)
    events = await store.load_events("t")
    assert [found.seq for found in events] == [1, 2, 3]
    assert events[2].event == StepStart(message_id="z")
    thread = await store.load_thread("t")
    assert thread is not None
    assert thread.event_count == 3


@check
async def events_are_read_after_a_cursor(store: Store) -> None:
    for _ in range(2):
        await write(store, events=(event(), event()))
    pages: list[tuple[dict[str, Any], list[int]]] = [
        ({}, [1, 2, 3, 4]),
        ({"after": 1}, [2, 3, 4]),
        ({"after": 1, "limit": 2}, [2, 3]),
        ({"after": 2, "limit": 1}, [3]),
        ({"after": 4}, []),
        ({"after": 99}, []),
        ({"limit": 0}, []),
    ]
    for page, seqs in pages:
        assert [found.seq for found in await store.load_events("t", **page)] == seqs, page


@check
async def commits_tell_the_lines_that_they_added_to_the_ledger(store: Store) -> None:
    begun, ended = line("m", 0, CallPhase.INTENT, {"n": 1}), line("m", 0, CallPhase.SUCCEEDED)
    other = line("m", 1, CallPhase.UNKNOWN, stopped=True)
    await write(store, messages=says("a"), run=record("r"), calls=(begun,))
    await write(store, messages=says("b"), run=record("r"))
    await write(store, run=record("r"), calls=(ended, other))

    views = await store.load_commits("t")

    assert [view.calls for view in views] == [(begun,), (), (ended, other)]
    fork = await store.fork("t", "f", at_ms=9)
    assert [view.calls for view in await store.load_commits(fork.id)] == [v.calls for v in views]


@check
async def commits_are_read_behind_an_event(store: Store) -> None:
    """06 §2.4: what each commit added, from the one that holds the next event on."""
    await write(store, messages=says("a"), events=(event(), event()), run=record("r"), at_ms=5)
    await write(store, messages=says("b"), at_ms=6)
    await write(store, events=(event(StepStart(message_id="z")),), run=record("r"), at_ms=7)

    views = await store.load_commits("t")
    assert [view.position for view in views] == [1, 2, 3]
    assert [(view.first_seq, view.first_event) for view in views] == [(1, 1), (2, 3), (3, 3)]
    assert [view.at_ms for view in views] == [5, 6, 7]
    assert [view.run_id for view in views] == ["r", None, "r"]
    assert [m.text() for view in views for m in view.messages] == ["a", "b"]
    events = [found for view in views for found in view.events]
    assert events == list(await store.load_events("t"))
    pages: list[tuple[dict[str, int], list[int]]] = [
        ({"after": 0, "limit": 1}, [1]),
        ({"after": 1}, [1, 2, 3]),
        ({"after": 2}, [2, 3]),
        ({"after": 2, "limit": 1}, [2]),
        ({"after": 3}, []),
        ({"after": 99}, []),
        ({"limit": 0}, []),
    ]
    for page, positions in pages:
        found = await store.load_commits("t", **page)
        assert [view.position for view in found] == positions, page
    assert list(await store.load_commits("unknown")) == []
    fork = await store.fork("t", "f", at_ms=9)
    copied = await store.load_commits(fork.id)
    assert [view.run_id for view in copied] == [None, None, None]
    assert {found.thread_id for view in copied for found in view.events} == {"f"}


@check
async def a_page_that_was_read_does_not_grow(store: Store) -> None:
    """Later commits do not change what was returned."""
    calling = line("m", 0, CallPhase.INTENT), line("m", 0, CallPhase.SUCCEEDED)
    await write(store, messages=says("a"), events=(event(),), run=record("r"), calls=calling[:1])
    messages, events = await store.load_messages("t"), await store.load_events("t")
    calls, context = await store.load_calls("r"), await store.load_context("t")

    await write(store, messages=says("b"), events=(event(),), run=record("r"), calls=calling[1:])

    assert (len(messages), len(events)) == (1, 1)
    assert [call.phase for call in calls] == [CallPhase.INTENT]
    assert context is not None
    assert len(context.messages) == 1


# -- the head of a thread ---------------------------------------------------------------------


@check
async def a_threads_head_follows_its_runs(store: Store) -> None:
    """02 §3.2: any run becomes the latest; a waiting one is open, a running one also
    active, and a done one is neither."""
    created, running, waiting, done = RunStatus
    cases: list[tuple[list[tuple[str, RunStatus]], tuple[str, str | None, str | None]]] = [
        ([("a", created)], ("a", None, None)),
        ([("a", running)], ("a", "a", "a")),
        ([("a", waiting)], ("a", "a", None)),
        ([("a", done)], ("a", None, None)),
        ([("a", running), ("a", done)], ("a", None, None)),
        ([("a", running), ("a", waiting)], ("a", "a", None)),
        ([("a", running), ("a", waiting), ("a", running)], ("a", "a", "a")),
        ([("a", waiting), ("b", done)], ("b", "a", None)),
        ([("a", running), ("b", done)], ("b", "a", "a")),
        ([("a", running), ("b", done), ("a", running)], ("a", "a", "a")),
        ([("a", waiting), ("b", running)], ("b", "b", "b")),
    ]
    for number, (written, expected) in enumerate(cases):
        name = f"t{number}"
        for run, status in written:
            await write(store, name, run=record(f"{run}{number}", name, status=status))
        thread = await store.load_thread(name)
        assert thread is not None
        found = (thread.latest_run_id, thread.open_run_id, thread.active_run_id)
        assert found == tuple(run and f"{run}{number}" for run in expected), written


@check
async def a_threads_head_counts_and_dates(store: Store) -> None:
    """02 §3.2: timestamps in milliseconds; the parent is set once."""
    await write(store, "p")
    await write(store, "q")
    for at_ms, parent in ((100, None), (200, "p"), (300, "q")):
        word = str(at_ms)
        await write(store, messages=says(word), at_ms=at_ms, parent_thread_id=parent)

    thread = await store.load_thread("t")

    assert thread is not None
    assert (thread.id, thread.message_count, thread.event_count) == ("t", 3, 0)
    assert (thread.created_at, thread.updated_at) == (100, 300)
    assert thread.parent_thread_id == "p"
    assert thread.latest_run_id is None
    assert (thread.forked_from, thread.forked_at, thread.owner) == (None, None, None)


@check
async def whoever_counts_is_told_of_batches(store: Store) -> None:
    """06 §3.10: if the store has any, each with its size and the time that it took."""
    batches: list[tuple[int, float]] = []
    store.add_batch_callback(lambda size, seconds: batches.append((size, seconds)))
    for word in ("a", "b", "c"):
        await write(store, messages=says(word))
    sizes = [size for size, _ in batches]
    assert sizes == [] or (min(sizes) >= 1 and sum(sizes) >= 3)
    assert all(seconds >= 0 for _, seconds in batches)


# -- changes ----------------------------------------------------------------------------------


@check
async def a_thread_that_was_written_has_changed(store: Store) -> None:
    await write(store, messages=says("a"))
    async with asyncio.timeout(MAX_WAIT_SECONDS):
        version = await store.wait_changed("t", 0)
        assert version > 0
        await write(store, messages=says("b"))
        assert await store.wait_changed("t", version) > version


@check
async def a_task_that_waits_for_a_change_is_woken_and_reads_it(store: Store) -> None:
    """Also of a thread that does not exist yet."""
    async with asyncio.timeout(MAX_WAIT_SECONDS), asyncio.TaskGroup() as tasks:
        version = 0
        for length in range(1, 4):

            async def see(since: int, length: int) -> int:
                number = since
                while len(await store.load_messages("t")) < length:
                    number = await store.wait_changed("t", number)
                return number

            waiting = [tasks.create_task(see(version, length)) for _ in range(2)]
            await asyncio.sleep(0)
            await write(store, messages=says(f"{length}"))
            version = max([await task for task in waiting])


@check
async def a_command_is_a_change_of_its_thread(store: Store) -> None:
    await write(store)
    async with asyncio.timeout(MAX_WAIT_SECONDS), asyncio.TaskGroup() as tasks:

        async def see() -> None:
            number = 0
            while not await store.load_commands("t"):
                number = await store.wait_changed("t", number)

        tasks.create_task(see())
        await asyncio.sleep(0)
        await store.send(ThreadCommand(thread_id="t", kind=CommandKind.CANCEL))


@check
async def a_reader_of_changes_misses_none(store: Store) -> None:
    """However writing and reading are interleaved, the last write is read."""
    words = [str(number) for number in range(20)]

    async def follow() -> list[str]:
        seen: list[str] = []
        version = 0
        while len(seen) < len(words):
            version = await store.wait_changed("t", version)
            seen.extend(await texts(store, after=len(seen)))
        return seen

    async with asyncio.timeout(MAX_WAIT_SECONDS), asyncio.TaskGroup() as tasks:
        reader = tasks.create_task(follow())
        for word in words:
            await write(store, messages=says(word))
            await asyncio.sleep(0)
    assert reader.result() == words


@check
async def a_thread_that_was_made_again_has_changed(store: Store) -> None:
    await write(store, messages=says("a"))
    async with asyncio.timeout(MAX_WAIT_SECONDS):
        version = await store.wait_changed("t", 0)
        await store.delete_thread("t", at_ms=1)
        await write(store, messages=says("b"))
        assert await store.wait_changed("t", version) != version


@check
async def an_operation_on_many_threads_is_a_change_of_each(store: Store) -> None:
    """It wakes waiting tasks in the same process, as a commit does."""
    for name in ("t", "u"):
        await write(store, name, run=record(f"run of {name}", name))
    cancelling = start_task(wait_until_named(store, "t"))
    deleting = start_task(store.wait_changed("u", await store.wait_changed("u", 0)))
    await asyncio.sleep(0)
    async with asyncio.timeout(MAX_WAIT_SECONDS):
        await store.cancel_tree("t", at_ms=2)
        await cancelling
        await store.delete_thread("u", force=True, at_ms=3)
        await deleting
