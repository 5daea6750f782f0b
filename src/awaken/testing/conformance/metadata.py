"""Checks of what is said about threads and runs: title, labels, user, and who did what."""

from __future__ import annotations

from typing import Any

from awaken.core.identity import Principal, RequestOrigin
from awaken.core.lifecycle import CANCELLED, NATURAL_END
from awaken.core.run import RunRequestSnapshot
from awaken.core.store.commands import ThreadCommand
from awaken.core.store.store import Store
from awaken.core.store.threads import RunQuery, ThreadQuery
from awaken.core.thread import NO_METADATA, ThreadMetadata, ThreadPatch
from awaken.errors import InvalidRecord, NotFound, Serialization, VersionConflict
from awaken.testing.conformance.helpers import (
    DONE,
    RUNNING,
    WAITING,
    StoreCheck,
    Suite,
    all_runs,
    all_threads,
    expect_error,
    expect_error_without_change,
    record,
    write,
)
from awaken.testing.conformance.submissions import submission

check = Suite[StoreCheck]()

DEEP = [[[[{"a": [1.5, None, True, "\0"]}]]]]


def _build_request(**fields: Any) -> RunRequestSnapshot:
    return RunRequestSnapshot(origin=RequestOrigin.USER, **fields)


@check
async def metadata_is_changed_field_by_field(store: Store) -> None:
    """06 §2.11: what a patch leaves out stays, and every change is a revision."""
    await write(store)
    first = await store.update_thread(
        "t",
        ThreadPatch(
            title="Tea", labels={"env": "prod", "team": "a"}, custom={"deep": DEEP, "n": 1}
        ),
    )
    assert first.metadata == ThreadMetadata(
        title="Tea",
        labels={"env": "prod", "team": "a"},
        custom={"deep": DEEP, "n": 1},
        revision=1,
    )
    second = await store.update_thread(
        "t",
        ThreadPatch(user="ann", resource_id="order 7", labels={"team": None}, custom={"n": None}),
        expected_revision=1,
    )
    assert second.metadata == ThreadMetadata(
        title="Tea",
        labels={"env": "prod"},
        custom={"deep": DEEP},
        user="ann",
        resource_id="order 7",
        revision=2,
    )
    assert await store.load_thread("t") == second
    assert (await store.list_threads(ThreadQuery())).items == (second,)
    context = await store.load_context("t")
    assert context is not None
    assert context.thread == second
    third = await store.update_thread("t", ThreadPatch(title=None, user=None, resource_id=None))
    assert third.metadata == ThreadMetadata(
        labels={"env": "prod"}, custom={"deep": DEEP}, revision=3
    )


@check
async def a_change_of_a_stale_revision_is_refused(store: Store) -> None:
    """06 §2.11"""
    await write(store)
    await store.update_thread("t", ThreadPatch(title="one"), expected_revision=0)
    for stale in (0, 2):
        change = store.update_thread("t", ThreadPatch(title="two"), expected_revision=stale)
        error = await expect_error_without_change(store, VersionConflict, change)
        assert (error.expected, error.actual) == (stale, 1)


@check
async def metadata_that_cannot_be_kept_is_refused(store: Store) -> None:
    await expect_error(NotFound, store.update_thread("t", ThreadPatch(title="x")))
    await write(store)
    for value in (object(), "\ud800"):
        change = store.update_thread("t", ThreadPatch(custom={"x": value}))
        await expect_error_without_change(store, Serialization, change)


@check
async def metadata_does_not_grow_without_end(store: Store) -> None:
    """Values that are added one by one count together; what is too large may still shrink."""
    await write(store)
    for name in "abc":
        patch = ThreadPatch(custom={name: "x" * 20_000}, labels={name: name})
        await store.update_thread("t", patch)
    more = store.update_thread("t", ThreadPatch(custom={"d": "x" * 20_000}))
    error = await expect_error_without_change(store, InvalidRecord, more)
    assert "more than 65536" in str(error)
    await store.update_thread("t", ThreadPatch(custom={"a": None, "d": "x" * 20_000}))


@check
async def a_new_thread_has_what_its_first_run_was_asked_with(store: Store) -> None:
    """06 §2.11, 07 §6.5: later runs do not change it."""
    asked = _build_request(user="ann", labels={"env": "prod"}, principal=Principal(id="key-1"))
    await write(store, run=record("r", request=asked))
    await write(store, run=record("s", request=_build_request(user="bob", labels={"env": "test"})))
    thread = await store.load_thread("t")
    assert thread is not None
    assert thread.metadata == ThreadMetadata(user="ann", labels={"env": "prod"}, created_by="key-1")


@check
async def a_fork_has_the_metadata_of_its_origin_and_its_own_creator(store: Store) -> None:
    """06 §2.9"""
    await write(store)
    said = await store.update_thread("t", ThreadPatch(title="Tea", user="ann"))
    for new, by in (("u", "key-2"), ("v", None)):
        fork = await store.fork("t", new, at_ms=1, by=by)
        assert fork.metadata == ThreadMetadata(title="Tea", user="ann", created_by=by)
        assert await store.load_thread(new) == fork
    assert await store.load_thread("t") == said


@check
async def a_cancelled_run_keeps_who_cancelled_it(store: Store) -> None:
    """06 §2.9: the first who is known; a run that ends otherwise keeps nobody."""
    for run, end in (("a", CANCELLED), ("b", NATURAL_END)):
        await write(store, run, run=record(run, run))
        await store.send(ThreadCommand.cancel(run, run, at_ms=1))
        await store.send(ThreadCommand.cancel(run, run, at_ms=2, by="key-1"))
        await store.send(ThreadCommand.cancel(run, run, at_ms=3, by="key-2"))
        over = record(run, run, status=DONE, termination_reason=end, revision=1)
        await write(store, run, run=over)
    assert await _load_cancelled_by(store, "a") == "key-1"
    assert await _load_cancelled_by(store, "b") is None
    await write(store, "c", run=record("c", "c"))
    await write(store, "d", run=record("d", "d"), parent_thread_id="c")
    await store.cancel_tree("c", at_ms=4, by="key-3")
    for run in ("d", "c"):
        over = record(run, run, status=DONE, termination_reason=CANCELLED, revision=1)
        await write(store, run, run=over)
        assert await _load_cancelled_by(store, run) == "key-3"


async def _load_cancelled_by(store: Store, run_id: str) -> str | None:
    run = await store.load_run(run_id)
    assert run is not None
    (listed,) = (await store.list_runs(RunQuery(thread_id=run.thread_id))).items
    assert listed.cancelled_by == run.cancelled_by
    return run.cancelled_by


@check
async def metadata_goes_with_its_thread(store: Store) -> None:
    await write(store)
    await store.update_thread("t", ThreadPatch(title="Tea", user="ann"))
    await store.delete_thread("t", at_ms=1)
    await write(store)
    thread = await store.load_thread("t")
    assert thread is not None
    assert thread.metadata == NO_METADATA
    assert await all_threads(store, user="ann") == []


@check
async def threads_are_listed_by_what_is_said_about_them(store: Store) -> None:
    """07 §6.5: user, label, and the status and agent of the latest run; page by page."""
    for at_ms, (thread, status, agent) in enumerate(
        [("a", RUNNING, "cook"), ("b", WAITING, "cook"), ("c", DONE, "cook"), ("d", DONE, "clerk")]
    ):
        await write(
            store, thread, run=record(thread, thread, status=status, agent_id=agent), at_ms=at_ms
        )
    await write(store, "e", at_ms=4)
    for thread, user, labels in (
        ("a", "ann", {"env": "prod", 'odd "name".x': "1"}),
        ("b", "bob", {"env": "test"}),
        ("d", "ann", {"env": "prod=1"}),
    ):
        await store.update_thread(thread, ThreadPatch(user=user, labels={**labels}))
    lists: list[tuple[dict[str, Any], list[str]]] = [
        ({"user": "ann"}, ["d", "a"]),
        ({"user": "eve"}, []),
        ({"label": "env"}, ["d", "b", "a"]),
        ({"label": "env=prod"}, ["a"]),
        ({"label": "env=prod=1"}, ["d"]),
        ({"label": 'odd "name".x=1'}, ["a"]),
        ({"label": "none"}, []),
        ({"status": DONE}, ["d", "c"]),
        ({"status": WAITING}, ["b"]),
        ({"status": RUNNING}, ["a"]),
        ({"agent": "cook"}, ["c", "b", "a"]),
        ({"agent": "cook", "status": DONE}, ["c"]),
        ({"user": "ann", "agent": "clerk", "label": "env"}, ["d"]),
        ({"since": 3}, ["e", "d"]),
        ({"since": 0}, ["e", "d", "c", "b", "a"]),
        ({"since": 1, "agent": "cook", "root": True, "scope": ""}, ["c", "b"]),
        ({"user": "ann", "scope": "acme"}, []),
        ({"user": "ann", "prefix": "a"}, ["a"]),
    ]
    for query, expected in lists:
        for limit in (1, 2, 50):
            assert await all_threads(store, limit=limit, **query) == expected, (query, limit)


@check
async def runs_are_listed_by_when_they_were_written(store: Store) -> None:
    """06 §2.11: later than the time that is given, to the millisecond."""
    for run, at_ms in (("a", 1_001), ("b", 1_002), ("c", 1_003)):
        await write(store, run, run=record(run, run, updated_at_ms=at_ms))
    await write(store, "a", run=record("a", "a", updated_at_ms=1_004, revision=1))
    for after, expected in ((0, ["c", "b", "a"]), (1_002, ["c", "a"]), (1_004, [])):
        for limit in (1, 50):
            assert await all_runs(store, updated_after_ms=after, limit=limit) == expected


@check
async def the_runs_of_a_user_are_listed(store: Store) -> None:
    """With those that they started; threads beneath take no metadata from them."""
    for number, user in enumerate(("ann", "bob", "ann", None)):
        asked = _build_request(user=user) if user is not None else None
        await write(store, f"t{number}", run=record(f"r{number}", f"t{number}", request=asked))
    below = _build_request(user="ann", labels={"a": "b"}, parent_thread_id="t0")
    child = record("child", "t0~1", request=below, status=WAITING)
    await write(store, "t0~1", run=child, parent_thread_id="t0")
    await store.submit(submission("later", "t1", user="ann"))

    assert await all_runs(store, user="ann") == ["later", "child", "r2", "r0"]
    assert await all_runs(store, user="ann", limit=1) == ["later", "child", "r2", "r0"]
    assert await all_runs(store, user="ann", status=WAITING) == ["child"]
    assert await all_runs(store, user="ann", scope="", agent_id="agent", thread_id="t2") == ["r2"]
    assert await all_runs(store, user="bob", ancestor_thread_id="t0") == []
    assert await all_runs(store, user="eve") == []
    assert sorted(await all_threads(store, user="ann")) == ["t0", "t2"]
    thread = await store.load_thread("t0~1")
    assert thread is not None
    assert thread.metadata == NO_METADATA
