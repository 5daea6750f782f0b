"""Whether anything still moves, and what is asked: of one run, and of those it has started."""

from __future__ import annotations

import msgspec
import pytest

from awaken.core.identity import RequestOrigin
from awaken.core.lifecycle import RunStatus
from awaken.core.run import RunRecord, RunRequestSnapshot
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import ThreadCommit
from awaken.core.store.store import Store
from awaken.core.suspension import Ticket
from awaken.stores.memory import MemoryStore
from awaken.testing.chaos import (
    ChangeWatcher,
    ThreadDump,
    answerable,
    at_rest,
    damage_between,
    dump_store,
    dump_thread,
    list_orphans,
    open_runs,
    questions,
)

pytestmark = pytest.mark.anyio

WAITING, DONE = RunStatus.WAITING, RunStatus.DONE


def run(
    name: str,
    status: RunStatus = WAITING,
    *,
    parent: str | None = None,
    call: str | None = None,
    task: bool = False,
) -> RunRecord:
    """A run in a thread of the same name."""
    return RunRecord(
        run_id=name,
        thread_id=name,
        agent_id="a",
        parent_run_id=parent,
        request=RunRequestSnapshot(
            origin=RequestOrigin.USER,
            parent_tool_call_id=call,
            request_extras={"task": {}} if task else None,
        ),
        status=status,
        created_at=0,
        updated_at=0,
    )


def ticket(run_id: str) -> Ticket:
    return Ticket(
        key=f"{run_id}:0",
        thread_id=run_id,
        run_id=run_id,
        ticket_id="t",
        call_id="c",
        tool_name="pay",
        digest="d",
        asked_at=0,
    )


async def store_with(*runs: RunRecord, asking: str | None = None) -> Store:
    store = MemoryStore()
    await store.open()
    for record in runs:
        asked = (ticket(record.run_id),) if record.run_id == asking else ()
        await store.commit(
            ThreadCommit(
                thread_id=record.thread_id,
                expected_length=0,
                run=record,
                tickets=asked,
                parent_thread_id=record.parent_run_id,
            )
        )
    return store


def test_a_delegates_question_is_put_by_whom_it_works_for() -> None:
    root, child = run("root"), run("child", parent="root", call="c1")
    both = [ticket("root"), ticket("child")]
    assert answerable(both, [root, child]) == [both[0]]
    assert answerable(both, [child]) == [], "nobody waits for what it would do"


def test_a_question_in_a_task_is_its_own() -> None:
    task, child = run("task", RunStatus.RUNNING, task=True), run("child", parent="task", call="c")
    assert answerable([ticket("child")], [task, child]) == [ticket("child")]


async def test_a_run_that_waits_for_somebody_is_at_rest_until_it_is_told_something() -> None:
    store = await store_with(run("root"), run("over", DONE), asking="root")
    assert [record.run_id for record in await open_runs(store)] == ["root"]
    assert [asked.run_id for asked in await questions(store)] == ["root"]
    assert await at_rest(store)
    await store.send(ThreadCommand(thread_id="root", kind=CommandKind.CANCEL, run_id="root"))
    assert not await at_rest(store)


ORPHANED = "run child waits for run root, which has ended, and no cancel is pending"


async def test_a_delegate_whose_run_has_ended_is_damage_at_a_kill_and_at_the_end() -> None:
    """It holds at every instant, so a recovery that ends the delegate later does not excuse it."""
    store = await store_with(run("root", DONE), run("child", parent="root", call="c1"))
    assert [orphan.run_id for orphan in await list_orphans(store)] == ["child"]

    seen = await dump_store(store, "root")
    mended = run("child", DONE, parent="root", call="c1")
    await store.commit(ThreadCommit(thread_id="child", expected_length=0, run=mended))
    final = await dump_store(store, "root")

    assert ORPHANED in damage_between([], seen, (), ()).left_open
    assert damage_between([seen, seen], final, (), ()).left_open == (f"at a kill, {ORPHANED}",)
    assert not damage_between([], final, (), ())


async def test_a_delegate_is_no_orphan_with_a_cancel_pending_or_a_parent_that_goes_on() -> None:
    child = run("child", parent="root", call="c1")
    store = await store_with(run("root", DONE), child)
    await store.send(ThreadCommand(thread_id="child", kind=CommandKind.CANCEL, run_id="child"))
    waits = await store_with(run("root"), child)
    task = await store_with(run("root", DONE), run("child", parent="root", task=True))

    for each in (store, waits, task):
        assert not await list_orphans(each)
        seen = await dump_store(each, "root")
        assert not damage_between([seen], over(seen), (), ()).left_open


def over(seen: ThreadDump) -> ThreadDump:
    """What was seen, after all runs have ended."""
    ended = tuple(msgspec.structs.replace(run, status=DONE) for run in seen.runs)
    return ThreadDump(
        thread_id=seen.thread_id, runs=ended, children=tuple(map(over, seen.children))
    )


async def test_nothing_is_at_rest_as_long_as_somebody_runs() -> None:
    store = await store_with(run("root"), run("child", RunStatus.RUNNING, parent="root"))
    assert not await at_rest(store)
    owned = await store_with(run("root"))
    await owned.claim("root", at_ms=0)
    assert not await at_rest(owned)


async def test_whoever_waits_for_a_change_looks_up_also_without_one() -> None:
    """What begins meanwhile is not among what it waits for."""
    store = await store_with(run("root"))
    changes = ChangeWatcher(store)
    for _ in range(2):
        await changes.wait(await open_runs(store))


async def test_a_dump_has_all_child_threads_and_on_request_all_other_threads() -> None:
    store = await store_with(run("root"), run("child", parent="root"), run("other"))
    dump = await dump_thread(store, "root")
    assert [thread.thread_id for thread in dump.threads()] == ["root", "child"]
    whole = await dump_store(store, "root")
    assert [thread.thread_id for thread in whole.threads()] == ["root", "child", "other"]
    assert not (await dump_thread(store, "nobody")).runs
