"""Checks of data that several handles share, one after the other or at the same time.

A check takes a function that returns another open handle on the same data, like that of another
process. It closes every handle it opens.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from msgspec.structs import replace

from awaken.core.profile import ProfileOwner
from awaken.core.run import RunRecord
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import CallPhase, ThreadCommit
from awaken.core.store.store import Store
from awaken.core.suspension import ToolCallResume
from awaken.errors import (
    DecisionRefused,
    StaleFence,
    StoreError,
    ThreadOwned,
    VersionConflict,
)
from awaken.testing.conformance.access import ENTRY, OTHER, a_deed, make_session
from awaken.testing.conformance.concurrency import CROWD, race
from awaken.testing.conformance.helpers import (
    MAX_WAIT_SECONDS,
    WAITING,
    OpenStore,
    SharedStoreCheck,
    Suite,
    all_threads,
    event,
    everything,
    expect_error,
    line,
    names,
    raw,
    record,
    says,
    texts,
    ticket,
    wait_until_named,
    waiting_threads,
    write,
)
from awaken.testing.conformance.submissions import submission

check = Suite[SharedStoreCheck]()

CANCEL = ThreadCommand(thread_id="t", kind=CommandKind.CANCEL)


@asynccontextmanager
async def _handles(open_store: OpenStore, count: int = 2) -> AsyncIterator[list[Store]]:
    stores = [await open_store() for _ in range(count)]
    try:
        yield stores
    finally:
        for store in stores:
            await store.close()


async def _fill(store: Store) -> None:
    """Write some data of every kind."""
    await write(store, "p", at_ms=1)
    for step in range(3):
        await write(
            store,
            messages=says(f"{step}"),
            run=record("r", status=WAITING, steps=step, revision=step),
            run_state=raw(step=step),
            thread_state=raw(step=step),
            events=(event(), event()),
            calls=(line("m", step, CallPhase.INTENT, {"n": step}),),
            tickets=(ticket(f"m:{step}", asked_at=step),),
            parent_thread_id="p",
            at_ms=10 + step,
        )
    await store.fork("t", "fork", at=2, at_ms=20)
    await store.send(CANCEL)
    await write(store, "p", sends=(CANCEL, replace(CANCEL, thread_id="fork")), at_ms=2)
    await store.decide("t", [("m:1", ToolCallResume.approve(id="d1"))], at_ms=30)
    await store.profiles.set(ProfileOwner(agent="a"), "k", {"v": 1})


# -- one after the other ----------------------------------------------------------------------


@check
async def everything_is_there_when_opened_again(open_store: OpenStore) -> None:
    async with _handles(open_store, 1) as (store,):
        await _fill(store)
        before = await everything(store)
        entry = await store.profiles.get(ProfileOwner(agent="a"), "k")
    async with _handles(open_store, 1) as (store,):
        assert await everything(store) == before
        assert await store.profiles.get(ProfileOwner(agent="a"), "k") == entry
        committed = await write(store, messages=says("more"), events=(event(),))
        assert (committed.length, committed.first_event_seq) == (4, 7)


@check
async def opening_and_closing_may_be_repeated(open_store: OpenStore) -> None:
    async with _handles(open_store, 1) as (store,):
        await store.open()
        await write(store, messages=says("a"))
        await store.close()
        await store.open()
        assert await texts(store) == ["a"]
        await store.close()
        await store.close()


@check
async def closing_releases_what_was_owned(open_store: OpenStore) -> None:
    """The runs that were running there are listed as interrupted."""
    async with _handles(open_store, 1) as (store,):
        old = await store.claim("t", at_ms=1)
        await write(store, run=record("r"), fence=old)
    async with _handles(open_store, 1) as (store,):
        assert names(await store.list_interrupted(now_ms=1)) == ["r"]
        new = await store.claim("t", at_ms=2)
        assert new.epoch > old.epoch
        await expect_error(StaleFence, write(store, fence=old))
        await write(store, messages=says("a"), fence=new)


@check
async def numbers_go_on_when_opened_again(open_store: OpenStore) -> None:
    """Command ids are not used again, even if no command is left."""
    async with _handles(open_store, 1) as (store,):
        await write(store)
        first = await store.send(CANCEL)
        await write(store, acks=(first,))
    async with _handles(open_store, 1) as (store,):
        assert await store.send(CANCEL) > first


# -- two at once ------------------------------------------------------------------------------


@check
async def what_one_wrote_the_other_reads(open_store: OpenStore) -> None:
    async with _handles(open_store) as (one, two):
        assert one.owner != two.owner
        await _fill(one)
        assert await everything(two) == await everything(one)
        await write(two, messages=says("from two"))
        assert await everything(one) == await everything(two)


@check
async def a_thread_belongs_to_one_of_them(open_store: OpenStore) -> None:
    """04/M-2, 04/M-3: across processes."""
    async with _handles(open_store) as (one, two):
        fence = await one.claim("t", at_ms=1)
        await write(one, messages=says("a"), run=record("r"), fence=fence)

        owned = await expect_error(ThreadOwned, two.claim("t", at_ms=2))
        assert owned.owner == one.owner
        assert [claim.epoch for claim in await one.list_claims()] == [fence.epoch]
        assert await two.list_claims() == []
        await expect_error(ThreadOwned, two.delete_thread("t", at_ms=2))
        await expect_error(StaleFence, write(two, messages=says("x")))
        await expect_error(StaleFence, write(two, fence=replace(fence, owner=two.owner)))
        assert names(await two.list_interrupted(now_ms=2)) == []
        assert (await two.prune(before_ms=10**15)).threads == 0

        await one.release(fence)
        assert names(await two.list_interrupted(now_ms=2)) == ["r"]
        taken = await two.claim("t", at_ms=3)
        assert taken.epoch > fence.epoch
        await expect_error(StaleFence, write(one, messages=says("x"), fence=fence))
        await write(two, messages=says("b"), fence=taken)
        assert await texts(one) == ["a", "b"]


@check
async def closing_one_frees_what_the_other_waits_for(open_store: OpenStore) -> None:
    async with _handles(open_store) as (one, two):
        await write(one, fence=await one.claim("t", at_ms=1))
        await one.close()
        await write(two, messages=says("b"), fence=await two.claim("t", at_ms=2))


@check
async def of_all_that_claim_or_append_at_once_one_wins(open_store: OpenStore) -> None:
    """04/M-2."""
    async with _handles(open_store, 3) as stores:
        claims = [store.claim("t", at_ms=1) for store in stores for _ in range(3)]
        won, lost = await race(ThreadOwned, *claims)
        assert (len(won), len(lost)) == (1, 8)

        commits = [
            store.commit(ThreadCommit(thread_id="u", expected_length=0, messages=says(str(n))))
            for n, store in enumerate(stores)
        ]
        won, lost = await race(VersionConflict, *commits)
        assert (len(won), len(lost)) == (1, 2)


@check
async def of_all_that_answer_at_once_one_wins(open_store: OpenStore) -> None:
    async with _handles(open_store) as stores:
        await write(stores[0], run=record("r", status=WAITING), tickets=(ticket(),))
        deeds = [
            stores[n % 2].decide("t", [("m:0", ToolCallResume.approve(n))], at_ms=1)
            for n in range(CROWD)
        ]
        won, lost = await race(DecisionRefused, *deeds)
        assert (len(won), len(lost)) == (1, CROWD - 1)


@check
async def nothing_is_lost_when_both_write(open_store: OpenStore) -> None:
    """04/M-9 in spirit: different threads, and one thread in turns."""
    async with _handles(open_store) as stores:

        async def append(store: Store, word: str) -> None:
            while True:
                try:
                    await write(store, messages=says(word))
                except VersionConflict:
                    continue
                return

        async def work(store: Store, name: str) -> None:
            for step in range(5):
                await write(store, name, messages=says(f"{name}{step}"))
                await append(store, f"{name}{step}")

        async with asyncio.timeout(MAX_WAIT_SECONDS), asyncio.TaskGroup() as tasks:
            for number in range(4):
                tasks.create_task(work(stores[number % 2], f"w{number}"))

        words = {f"w{number}{step}" for number in range(4) for step in range(5)}
        for store in stores:
            assert sorted(await texts(store)) == sorted(words)
            assert len(await all_threads(store)) == 5


@check
async def one_handle_sees_the_others_changes(open_store: OpenStore) -> None:
    async def see(store: Store, length: int) -> None:
        version = 0
        while len(await texts(store)) < length:
            version = await store.wait_changed("t", version)

    async with _handles(open_store) as (one, two), asyncio.timeout(MAX_WAIT_SECONDS):
        for length in (1, 2, 3):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(see(two, length))
                await asyncio.sleep(0)
                await write(one, messages=says(str(length)))


@check
async def one_handle_sees_the_others_commands(open_store: OpenStore) -> None:
    async with _handles(open_store) as (one, two):
        await write(one, run=record("r", status=WAITING), tickets=(ticket(),))
        async with asyncio.timeout(MAX_WAIT_SECONDS), aclosing(two.watch_commands()) as ready:
            assert await anext(ready) == set()
            first = await one.send(CANCEL)
            assert await anext(ready) == {"t"}
            second = await one.decide("t", [("m:0", ToolCallResume.approve())], at_ms=1)
            assert await anext(ready) == {"t"}
        assert [command.id for command in await two.load_commands("t")] == [first, second]


@check
async def a_store_is_told_of_threads_without_a_live_owner_and_of_its_own(
    open_store: OpenStore,
) -> None:
    async with _handles(open_store) as (one, two):
        fence = await one.claim("t", at_ms=1)
        await write(one, fence=fence)
        await two.send(CANCEL)
        assert await waiting_threads(one) == {"t"}
        assert await waiting_threads(two) == set(), "its owner is alive"
        await one.release(fence)
        async with asyncio.timeout(MAX_WAIT_SECONDS):
            await wait_until_named(two, "t")


@check
async def one_handle_sees_what_the_other_sends_with_a_commit(open_store: OpenStore) -> None:
    async def see(store: Store) -> None:
        version = 0
        while not await store.load_commands("t"):
            version = await store.wait_changed("t", version)

    async with _handles(open_store) as (one, two):
        await write(one)
        async with asyncio.timeout(MAX_WAIT_SECONDS), asyncio.TaskGroup() as tasks:
            tasks.create_task(wait_until_named(two, "t"))
            tasks.create_task(see(two))
            await asyncio.sleep(0)
            await write(one, "u", sends=(CANCEL,))


@check
async def processes_are_listed_while_they_have_the_store_open(open_store: OpenStore) -> None:
    """07 §6.6: also one that has not claimed a thread yet, and none that has closed it."""
    first, second = await open_store(), await open_store()
    for store in (first, second):
        owners = [process.owner for process in await store.processes()]
        assert owners == sorted([first.owner, second.owner])
    await second.close()
    assert [process.owner for process in await first.processes()] == [first.owner]
    await first.close()


# -- claims -----------------------------------------------------------------------------------


@check
async def two_nodes_never_claim_the_same_thread(open_store: OpenStore) -> None:
    """06/SV-12, and no node claims a run of an agent that it does not have."""
    async with _handles(open_store) as (one, two):
        for number in range(20):
            agent = ("common", "rare")[number % 2]
            await one.submit(submission(f"s{number}", f"t{number}", agent_id=agent))
        sides: list[tuple[Store, tuple[str, ...], list[RunRecord]]] = [
            (one, ("common",), []),
            (two, ("common", "rare"), []),
        ]

        async def take(store: Store, agents: tuple[str, ...], runs: list[RunRecord]) -> None:
            while found := await store.claim_next(agents, limit=3, at_ms=1000, overdue_ms=0):
                assert all(fence.owner == store.owner for fence, _ in found)
                runs.extend(run for _, run in found)

        async with asyncio.TaskGroup() as tasks:
            for side in sides:
                tasks.create_task(take(*side))
        (_, _, mine), (_, _, theirs) = sides
        assert sorted(names([*mine, *theirs])) == sorted(f"s{number}" for number in range(20))
        assert {run.agent_id for run in mine} <= {"common"}


@check
async def every_node_sees_the_same(open_store: OpenStore) -> None:
    """06 §3.2: and so does one that opens later."""
    async with _handles(open_store) as (one, two):
        await one.access.add_key("k", ENTRY)
        await one.access.begin_session(make_session("s"), now_ms=1)
        await one.access.note_deed(a_deed(1))
        assert await two.access.find_key("k") == ENTRY
        assert await two.access.find_session("s") == make_session("s")
        assert len(await two.access.list_deeds("", limit=9)) == 1
        asked = [at.access.signing_secret() for at in (one, two) * 3]
        secrets, _ = await race(StoreError, *asked)
        assert (len(secrets), len(set(secrets))) == (6, 1)

        both = [at.access.end_session("s") for at in (one, two) * 3]
        ended, _ = await race(StoreError, *both)
        assert len([session for session in ended if session is not None]) == 1
        assert await two.access.revoke_key("k")
        assert await one.access.find_key("k") is None
        await two.access.add_key("k2", OTHER)
    async with _handles(open_store, 1) as (later,):
        assert list(await later.access.list_keys()) == [("k2", OTHER)]
        assert await later.access.signing_secret() == secrets[0]
