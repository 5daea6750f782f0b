"""Checks of leases and of claiming the next runs."""

from __future__ import annotations

import asyncio

from awaken.core.aio.owned_tasks import start_task
from awaken.core.identity import RequestOrigin
from awaken.core.run import RunKind, RunRecord, RunRequestSnapshot, Takeovers
from awaken.core.store.store import Store
from awaken.core.suspension import ToolCallResume
from awaken.errors import ThreadOwned
from awaken.testing.conformance.commands import cancel, message_command
from awaken.testing.conformance.helpers import (
    DONE,
    MAX_WAIT_SECONDS,
    WAITING,
    StoreCheck,
    Suite,
    expect_error,
    record,
    ticket,
    write,
)
from awaken.testing.conformance.submissions import claim_and_release, submission

check = Suite[StoreCheck]()


@check
async def an_open_store_holds_its_lease(store: Store) -> None:
    store.lease.add_lost_callback(lambda fence: None)
    assert store.lease.held
    assert store.lease.seconds_left > 0
    async with asyncio.timeout(MAX_WAIT_SECONDS):
        await store.lease.wait_held()


# -- the next runs ----------------------------------------------------------------------------


@check
async def the_next_run_is_claimed_with_its_record(store: Store) -> None:
    await store.submit(submission())
    ((fence, run),) = await store.claim_next(["agent"], limit=1, at_ms=1000, overdue_ms=0)
    assert (fence.thread_id, fence.owner) == ("t", store.owner)
    assert run.run_id == "s"
    await expect_error(ThreadOwned, store.claim("t", at_ms=1))
    assert await claim_and_release(store) == [], "the thread has an owner now"
    await store.release(fence)
    assert await claim_and_release(store) == ["s"]


@check
async def runs_that_were_left_running_are_claimed(store: Store) -> None:
    for name in ("a", "b", "over"):
        await write(store, name, run=record(f"run {name}", name))
    await write(store, "over", run=record("run over", "over", status=DONE))
    held = await store.claim("b", at_ms=1)
    assert await claim_and_release(store) == ["run a"]
    await store.release(held)
    assert await claim_and_release(store) == ["run a", "run b"]


@check
async def waiting_runs_are_claimed_when_they_can_go_on(store: Store) -> None:
    """When one is answered, cancelled, or its ticket has expired; not for a message."""
    for name in "abcd":
        opened = ticket(
            thread_id=name, run_id=f"run {name}", expires_at=50 if name == "c" else None
        )
        await write(store, name, run=record(f"run {name}", name, status=WAITING), tickets=(opened,))
    assert await claim_and_release(store, overdue_ms=50) == []
    await store.decide("a", [("m:0", ToolCallResume.approve())], at_ms=1)
    await store.send(cancel("b"))
    await store.send(cancel("d", run_id="another"))
    await store.send(message_command("hello", thread_id="d"))
    assert await claim_and_release(store, overdue_ms=50) == ["run a", "run b"]
    assert await claim_and_release(store, overdue_ms=51) == ["run a", "run b", "run c"]


@check
async def submitted_runs_are_claimed_one_after_the_other_when_they_are_due(store: Store) -> None:
    await store.submit(submission("late", not_before_ms=2000))
    await store.submit(submission("first"))
    await store.submit(submission("second"))
    await store.submit(submission("elsewhere", "u"))
    assert await claim_and_release(store) == ["first", "elsewhere"]
    assert await claim_and_release(store, at_ms=2000) == ["late", "elsewhere"]
    await write(store, run=record("r", status=WAITING))
    assert await claim_and_release(store, at_ms=2000) == ["elsewhere"], (
        "a run of the thread is open"
    )


@check
async def only_wanted_runs_are_claimed(store: Store) -> None:
    """Runs of other agents, delegates, tasks, runs that were taken over before, and those to be
    skipped are left out."""
    call = RunRequestSnapshot(origin=RequestOrigin.INTERNAL, parent_tool_call_id="call")
    for name, changes in (
        ("other", {"agent_id": "another"}),
        ("delegate", {"request": call, "parent_run_id": "p"}),
        ("task", {"kind": RunKind.TASK}),
        ("suspect", {"takeovers": Takeovers(times=1)}),
        ("skipped", {}),
        ("mine", {}),
    ):
        await write(store, name, run=record(f"run {name}", name, **changes))
    assert await claim_and_release(store, skip=["run skipped"]) == ["run mine"]


@check
async def two_runtimes_with_one_store_never_claim_the_same_thread(store: Store) -> None:
    """06/SV-12, within one process, and neither claims a run of an agent that it does not have."""
    for number in range(20):
        agent = ("common", "rare")[number % 2]
        await store.submit(submission(f"s{number}", f"t{number}", agent_id=agent))
    mine: list[RunRecord] = []
    theirs: list[RunRecord] = []

    async def take(agents: tuple[str, ...], runs: list[RunRecord]) -> None:
        while found := await store.claim_next(agents, limit=3, at_ms=1000, overdue_ms=0):
            runs.extend(run for _, run in found)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(take(("common",), mine))
        tasks.create_task(take(("common", "rare"), theirs))
    taken = sorted(run.run_id for run in (*mine, *theirs))
    assert taken == sorted(f"s{number}" for number in range(20))
    assert {run.agent_id for run in mine} == {"common"}


@check
async def no_more_runs_are_claimed_than_there_is_room_for(store: Store) -> None:
    for number in range(5):
        await store.submit(submission(f"s{number}", f"t{number}"))
    assert await claim_and_release(store, limit=2) == ["s0", "s1"]
    assert await claim_and_release(store, limit=0) == []
    assert len(await store.list_interrupted(now_ms=0, limit=0)) == 0


@check
async def interrupted_runs_are_listed_up_to_a_limit(store: Store) -> None:
    for number in range(3):
        await write(store, f"t{number}", run=record(f"r{number}", f"t{number}"))
    listed = await store.list_interrupted(now_ms=0, limit=2)
    assert [run.run_id for run in listed] == ["r0", "r1"]


# -- releases ---------------------------------------------------------------------------------


@check
async def a_task_that_waits_for_a_release_is_told(store: Store) -> None:
    """Of a release, and of a commit that releases."""
    async with asyncio.timeout(MAX_WAIT_SECONDS):
        await store.wait_released("ghost")
        for by_commit in (False, True):
            fence = await store.claim("t", at_ms=1)
            waiting = start_task(store.wait_released("t"))
            await write(store, fence=fence)
            assert not waiting.done()
            if by_commit:
                await write(store, fence=fence, release=True)
            else:
                await store.release(fence)
            await waiting
