"""Checks of which blobs a store says are in use (06 §2.10)."""

from __future__ import annotations

from awaken.core.store.store import Store
from awaken.core.store.threads import ChildStrategy
from awaken.testing.conformance.helpers import StoreCheck, Suite, event, write

check = Suite[StoreCheck]()

A, B, C = "a" * 32, "b" * 32, "c" * 32


@check
async def a_commit_names_the_blobs_it_uses(store: Store) -> None:
    """06 §2.10: by any thread, or by the one that is asked for."""
    await write(store, "t", blobs=(A, B))
    await write(store, "u", blobs=(B, B))

    assert await store.filter_used_blobs([A, B, C]) == {A, B}
    assert await store.filter_used_blobs([A, B, C], thread_id="u") == {B}
    assert await store.filter_used_blobs([A], thread_id="unknown") == frozenset()
    assert await store.filter_used_blobs([]) == frozenset()


@check
async def a_blob_may_be_used_by_several_commits(store: Store) -> None:
    for _ in range(3):
        await write(store, "t", blobs=(A,))

    assert await store.filter_used_blobs([A], thread_id="t") == {A}


@check
async def a_deleted_thread_uses_no_blobs(store: Store) -> None:
    """06/SV-14: neither does one that was pruned."""
    await write(store, "t", blobs=(A,))
    await write(store, "u", blobs=(B,))
    await write(store, "v", blobs=(B,))

    await store.delete_thread("t", children=ChildStrategy.CASCADE, at_ms=2)
    await store.delete_thread("u", children=ChildStrategy.CASCADE, at_ms=2)

    assert await store.filter_used_blobs([A, B]) == {B}
    await store.prune(before_ms=1_000)
    assert await store.filter_used_blobs([A, B]) == frozenset()


@check
async def a_fork_uses_the_blobs_of_the_commits_it_has(store: Store) -> None:
    """06/SV-14: and keeps them when its origin is deleted."""
    await write(store, "t", blobs=(A,), events=(event(),))
    await write(store, "t", blobs=(A, B), events=(event(),))
    await store.fork("t", "early", at=1, at_ms=2)
    await store.fork("t", "late", at_ms=2)

    await store.delete_thread("t", at_ms=3)

    assert await store.filter_used_blobs([A, B], thread_id="early") == {A}
    assert await store.filter_used_blobs([A, B], thread_id="late") == {A, B}
    assert await store.filter_used_blobs([A, B]) == {A, B}


@check
async def a_thread_that_is_written_anew_uses_only_its_own_blobs(store: Store) -> None:
    await write(store, "t", blobs=(A,))
    await store.delete_thread("t", at_ms=2)
    await write(store, "t", blobs=(B,))

    assert await store.filter_used_blobs([A, B]) == {B}
