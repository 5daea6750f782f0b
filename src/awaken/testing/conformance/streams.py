"""Checks of the stream log: unfinished answers, kept until a commit ends them."""

from __future__ import annotations

from awaken.core.store.commits import Fence, StreamLogEntry
from awaken.core.store.store import Store
from awaken.errors import StaleFence
from awaken.testing.conformance.helpers import (
    DONE,
    StoreCheck,
    Suite,
    expect_error,
    record,
    says,
    write,
)

check = Suite[StoreCheck]()


def entry(number: int, text: str, *calls: tuple[str, str, str]) -> StreamLogEntry:
    return StreamLogEntry(
        run_id="r", asked="m 1", number=number, text=text, calls=calls, at_ms=number
    )


async def _begin_run(store: Store) -> Fence:
    fence = await store.claim("t", at_ms=1)
    await write(store, messages=says("a"), run=record("r"), fence=fence)
    return fence


async def _load_stream_log(store: Store) -> list[StreamLogEntry]:
    context = await store.load_context("t")
    assert context is not None
    return list(context.stream_log)


@check
async def a_stream_log_is_there_for_the_next_owner(store: Store) -> None:
    """02/E5: in order and unchanged."""
    fence = await _begin_run(store)
    assert await _load_stream_log(store) == []
    entries = [
        entry(1, "on"),
        entry(2, "e ü", ("c", "add", '{"a"')),
        entry(3, "", ("c", "", ": 1}")),
    ]
    for one in entries:
        await store.append_stream(fence, one)
    assert await _load_stream_log(store) == entries
    assert list(await store.load_stream_log("t")) == entries
    assert list(await store.load_stream_log("unknown")) == []
    await write(store, run=record("r", revision=1), fence=fence)
    assert await _load_stream_log(store) == entries


@check
async def the_first_entry_replaces_the_log(store: Store) -> None:
    fence = await _begin_run(store)
    await store.append_stream(fence, entry(1, "one"))
    await store.append_stream(fence, entry(2, "two"))
    await store.append_stream(fence, entry(1, "other"))
    assert await _load_stream_log(store) == [entry(1, "other")]


@check
async def a_commit_that_ends_an_answer_deletes_its_log(store: Store) -> None:
    fence = await _begin_run(store)
    await store.append_stream(fence, entry(1, "one"))
    await write(
        store, messages=says("b"), run=record("r", revision=1), fence=fence, ends_stream=True
    )
    assert await _load_stream_log(store) == []


@check
async def the_log_of_a_finished_run_is_not_read(store: Store) -> None:
    fence = await _begin_run(store)
    await store.append_stream(fence, entry(1, "one"))
    await write(store, run=record("r", revision=1, status=DONE), fence=fence, release=True)
    assert await _load_stream_log(store) == []


@check
async def only_the_owner_appends_to_a_stream_log(store: Store) -> None:
    fence = await _begin_run(store)
    await store.append_stream(fence, entry(1, "one"))
    await store.release(fence)
    await expect_error(StaleFence, store.append_stream(fence, entry(2, "late")))
    newer = await store.claim("t", at_ms=2)
    await expect_error(StaleFence, store.append_stream(fence, entry(1, "late")))
    assert await _load_stream_log(store) == [entry(1, "one")]
    await store.append_stream(newer, entry(2, "two"))
    assert await _load_stream_log(store) == [entry(1, "one"), entry(2, "two")]


@check
async def a_stream_log_is_deleted_with_its_thread(store: Store) -> None:
    fence = await _begin_run(store)
    await store.append_stream(fence, entry(1, "one"))
    await write(store, run=record("r", revision=1, status=DONE), fence=fence, release=True)
    await store.delete_thread("t", at_ms=3)
    await _begin_run(store)
    assert await _load_stream_log(store) == []


@check
async def a_thread_that_was_never_written_has_no_stream_log(store: Store) -> None:
    """Appending is accepted and has no effect: there is no thread before its first commit."""
    fence = await store.claim("t", at_ms=1)
    await store.append_stream(fence, entry(1, "too early"))
    assert await store.load_context("t") is None

    await write(store, messages=says("a"), run=record("r"), fence=fence)

    assert await _load_stream_log(store) == []
