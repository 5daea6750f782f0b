"""Checks of owners: who may write, and finding a commit whose answer was lost."""

from __future__ import annotations

import os

from msgspec.structs import replace

from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import Fence, ThreadCommit
from awaken.core.store.store import Store
from awaken.errors import InvalidRecord, NotFound, StaleFence, ThreadOwned, VersionConflict
from awaken.testing.conformance.helpers import (
    DONE,
    StoreCheck,
    Suite,
    all_threads,
    event,
    expect_error,
    expect_error_without_change,
    record,
    says,
    texts,
    write,
)

check = Suite[StoreCheck]()


@check
async def a_claim_gives_the_right_to_write(store: Store) -> None:
    fence = await store.claim("t", at_ms=1)
    assert (fence.thread_id, fence.owner) == ("t", store.owner)

    await write(store, messages=says("a"), fence=fence)
    await write(store, messages=says("b"), fence=fence)

    thread = await store.load_thread("t")
    assert thread is not None
    assert thread.owner == store.owner
    assert await texts(store) == ["a", "b"]


@check
async def a_thread_that_was_only_claimed_does_not_exist(store: Store) -> None:
    """For reading, sending, forking, deleting, and as a parent."""
    fence = await store.claim("t", at_ms=1)

    assert await store.load_thread("t") is None
    assert await store.load_context("t") is None
    assert await all_threads(store) == []
    await expect_error(NotFound, store.fork("t", "u", at_ms=2))
    await expect_error(NotFound, store.delete_thread("t", at_ms=2))
    command = ThreadCommand(thread_id="t", kind=CommandKind.CANCEL)
    await expect_error(NotFound, store.send(command))
    await expect_error(InvalidRecord, write(store, "child", parent_thread_id="t"))

    await store.release(fence)
    assert await store.load_thread("t") is None
    await write(store, messages=says("a"), at_ms=3)
    thread = await store.load_thread("t")
    assert thread is not None
    assert thread.created_at == 3


@check
async def a_thread_with_a_live_owner_is_not_claimed_again(store: Store) -> None:
    """04/M-2: not even by the same store: one owner, one run."""
    fence = await store.claim("t", at_ms=1)
    lost = await expect_error(ThreadOwned, store.claim("t", at_ms=2))
    assert (lost.thread_id, lost.owner) == ("t", store.owner)

    await write(store, messages=says("a"), fence=fence)
    await expect_error_without_change(store, ThreadOwned, store.claim("t", at_ms=3))
    await write(store, messages=says("b"), fence=fence)


@check
async def an_owner_that_released_a_thread_is_refused(store: Store) -> None:
    """04/M-3 in spirit: also when the same store has claimed it again."""
    first = await store.claim("t", at_ms=1)
    await write(store, messages=says("a"), fence=first)
    await store.release(first)
    await expect_error_without_change(
        store, StaleFence, write(store, messages=says("x"), fence=first)
    )

    second = await store.claim("t", at_ms=2)
    assert second.epoch > first.epoch
    assert (first.taken_from, second.taken_from) == (None, None)
    stale = await expect_error_without_change(
        store, StaleFence, write(store, messages=says("x"), fence=first)
    )
    assert (stale.thread_id, stale.epoch, stale.current) == ("t", first.epoch, second.epoch)
    await write(store, messages=says("b"), fence=second)
    assert await texts(store) == ["a", "b"]


@check
async def a_write_that_is_refused_for_its_content_says_nothing_about_the_store(
    store: Store,
) -> None:
    fence = await store.claim("t", at_ms=1)
    await expect_error(ThreadOwned, store.claim("t", at_ms=2))
    await expect_error(StaleFence, write(store, messages=says("x")))
    assert not store.is_refusing_writes
    await store.check_write()
    assert not store.is_refusing_writes
    await write(store, messages=says("a"), fence=fence)


@check
async def the_claims_of_an_owner_can_be_listed(store: Store) -> None:
    """Those that it has now: not one that a release or a commit has given up, nor an older one of
    a thread that was claimed again."""
    first = await store.claim("t", at_ms=1)
    await store.release(first)
    again = await store.claim("t", at_ms=2)
    unwritten = await store.claim("u", at_ms=2)
    ended = await store.claim("v", at_ms=2)
    await write(store, "v", messages=says("a"), fence=ended, release=True)
    await expect_error(ThreadOwned, store.claim("u", at_ms=3))

    found = await store.list_claims()
    assert {(fence.thread_id, fence.owner, fence.epoch) for fence in found} == {
        ("t", store.owner, again.epoch),
        ("u", store.owner, unwritten.epoch),
    }
    for fence in found:  # and what is listed can be released
        await store.release(fence)
    assert await store.list_claims() == []
    await store.claim("t", at_ms=4)


@check
async def a_fence_of_another_thread_or_owner_opens_nothing(store: Store) -> None:
    here = await store.claim("t", at_ms=1)
    there = await store.claim("u", at_ms=1)
    await write(store, messages=says("a"), fence=here)

    stranger = Fence(thread_id="t", owner="stranger", epoch=here.epoch)
    for wrong in (there, stranger):
        await expect_error_without_change(
            store, StaleFence, write(store, messages=says("x"), fence=wrong)
        )


@check
async def a_commit_without_a_fence_needs_a_thread_without_owner(store: Store) -> None:
    await write(store, messages=says("a"))
    fence = await store.claim("t", at_ms=1)

    stale = await expect_error_without_change(store, StaleFence, write(store, messages=says("x")))
    assert (stale.thread_id, stale.epoch, stale.current) == ("t", 0, fence.epoch)

    await store.release(fence)
    await write(store, messages=says("b"))
    assert await texts(store) == ["a", "b"]


@check
async def a_claim_keeps_others_from_a_thread_that_is_not_there_yet(store: Store) -> None:
    fence = await store.claim("t", at_ms=1)

    await expect_error(StaleFence, write(store, messages=says("x")))
    assert await store.load_thread("t") is None
    await write(store, messages=says("a"), fence=fence)


@check
async def a_commit_can_release_the_thread(store: Store) -> None:
    fence = await store.claim("t", at_ms=1)
    await write(store, messages=says("a"), run=record("r", status=DONE), fence=fence, release=True)

    thread = await store.load_thread("t")
    assert thread is not None
    assert thread.owner is None
    await expect_error(StaleFence, write(store, messages=says("x"), fence=fence))
    assert (await store.claim("t", at_ms=2)).epoch > fence.epoch


@check
async def a_refused_commit_releases_nothing(store: Store) -> None:
    fence = await store.claim("t", at_ms=1)
    await write(store, messages=says("a"), fence=fence)

    operation = write(store, expected_length=9, messages=says("x"), fence=fence, release=True)
    await expect_error_without_change(store, VersionConflict, operation)

    await write(store, messages=says("b"), fence=fence)


@check
async def a_release_that_comes_late_changes_nothing(store: Store) -> None:
    """04/M-3 in spirit; a second release has no effect."""
    first = await store.claim("t", at_ms=1)
    await store.release(first)
    await store.release(first)
    second = await store.claim("t", at_ms=2)
    await store.release(first)
    await store.release(replace(second, owner="stranger"))

    await expect_error(ThreadOwned, store.claim("t", at_ms=3))
    await write(store, messages=says("a"), fence=second)


@check
async def a_fence_does_not_outlive_its_thread(store: Store) -> None:
    """04/S-9 in spirit: a thread created again under the same id is another thread."""
    old = await store.claim("t", at_ms=1)
    await write(store, messages=says("a"), fence=old, release=True)
    await store.delete_thread("t", at_ms=2)
    new = await store.claim("t", at_ms=3)

    await expect_error(StaleFence, write(store, messages=says("x"), fence=old))
    await write(store, messages=says("b"), fence=new)
    assert await texts(store) == ["b"]


# -- lost answers -----------------------------------------------------------------------------


def _commit(length: int, revision: int, *words: str, events: int = 1) -> ThreadCommit:
    return ThreadCommit(
        thread_id="t",
        expected_length=length,
        messages=says(*words),
        run=record("r", revision=revision),
        events=(event(),) * events,
    )


@check
async def a_commit_that_was_written_is_found_with_its_answer(store: Store) -> None:
    """04 §4.2: `CommitUnknown` means that it may be durable."""
    for commit in (_commit(0, 1, "a"), _commit(1, 2, "b", "c", events=3), _commit(3, 3, events=0)):
        assert await store.find_commit(commit) is None
        answer = await store.commit(commit)
        assert await store.find_commit(commit) == answer


@check
async def a_commit_that_was_not_written_is_not_found(store: Store) -> None:
    assert await store.find_commit(_commit(0, 1, "a")) is None
    await store.commit(_commit(0, 1, "a"))

    lost = _commit(7, 2, "b")
    await expect_error(VersionConflict, store.commit(lost))
    assert await store.find_commit(lost) is None
    assert await store.find_commit(_commit(1, 2, "b")) is None
    assert await texts(store) == ["a"]


@check
async def a_last_commit_is_found_though_it_released_the_thread(store: Store) -> None:
    fence = await store.claim("t", at_ms=1)
    last = replace(_commit(0, 1, "a"), fence=fence, release=True)

    answer = await store.commit(last)

    assert await store.find_commit(last) == answer


@check
async def an_open_store_can_be_read_and_is_listed(store: Store) -> None:
    """06 §2.11, 07 §6.6"""
    await store.check()
    (here,) = [process for process in await store.processes() if process.owner == store.owner]
    assert here.pid in (None, os.getpid())
