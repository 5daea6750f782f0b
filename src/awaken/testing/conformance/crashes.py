"""Checks after a crash: the process to be killed calls `leave_behind`, the next one runs the
checks."""

from __future__ import annotations

from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import CallPhase
from awaken.core.store.store import Store
from awaken.errors import RunOpen, StaleFence
from awaken.testing.conformance.helpers import (
    DONE,
    WAITING,
    StoreCheck,
    Suite,
    all_threads,
    asks,
    event,
    expect_error,
    line,
    names,
    raw,
    record,
    says,
    texts,
    ticket,
    write,
)

check = Suite[StoreCheck]()

_LATE = ThreadCommand(thread_id="runs", kind=CommandKind.MESSAGES, messages=says("late"))


async def leave_behind(store: Store) -> None:
    """Claim some threads and leave their runs unfinished; the calling process is then killed."""
    for number, (name, status) in enumerate((("runs", None), ("waits", WAITING), ("done", DONE))):
        fence = await store.claim(name, at_ms=1)
        run = record(f"run {name}", name, created_at=number, revision=1)
        await write(
            store,
            name,
            messages=(*says(f"{name} a"), asks(f"{name} m", "c0")),
            run=run,
            run_state=raw(step=1),
            thread_state=raw(of=name),
            events=(event(thread_id=name, run_id=run.run_id),),
            calls=(line(f"{name} m", 0, CallPhase.INTENT, {"n": 1}, run_id=run.run_id),),
            fence=fence,
            at_ms=5,
        )
        if status is not None:
            asked = ticket(f"{name} m:0", thread_id=name, run_id=run.run_id, expires_at=100)
            left = record(run.run_id, name, created_at=number, status=status, revision=2)
            sends = (_LATE,) if status is DONE else ()
            await write(store, name, run=left, tickets=(asked,), sends=sends, fence=fence, at_ms=6)
    await store.claim("never written", at_ms=1)
    await store.send(ThreadCommand(thread_id="runs", kind=CommandKind.CANCEL, run_id="run runs"))


@check
async def what_was_committed_is_there(store: Store) -> None:
    assert sorted(await all_threads(store)) == ["done", "runs", "waits"]
    for name in ("done", "runs", "waits"):
        assert await texts(store, name) == [f"{name} a", ""]
        assert (await store.load_thread_state(name)).extensions == {"of": name}
    context = await store.load_context("runs")
    assert context is not None
    assert [entry.phase for entry in context.calls] == [CallPhase.INTENT]
    kinds = [command.kind for command in context.commands]
    assert kinds == [CommandKind.MESSAGES, CommandKind.CANCEL]


@check
async def runs_of_the_dead_are_interrupted(store: Store) -> None:
    """A running run at once; a waiting run when its ticket has expired."""
    assert names(await store.list_interrupted(now_ms=50)) == ["run runs"]
    assert names(await store.list_interrupted(now_ms=101)) == ["run runs", "run waits"]


@check
async def threads_of_the_dead_are_taken_over(store: Store) -> None:
    """At once, without waiting for a lease; fences of the dead owner are refused."""
    for name in ("runs", "waits", "done", "never written"):
        fence = await store.claim(name, at_ms=200)
        assert fence.owner == store.owner
        assert fence.taken_from is not None
        await expect_error(StaleFence, write(store, name, messages=says("x")))
        await write(store, name, messages=says("b"), fence=fence)
        thread = await store.load_thread(name)
        assert thread is not None
        assert thread.owner == store.owner
    assert names(await store.list_interrupted(now_ms=200)) == []


@check
async def threads_of_the_dead_can_be_deleted_and_pruned(store: Store) -> None:
    """Those whose runs need not be continued."""
    await expect_error(RunOpen, store.delete_thread("runs", at_ms=200))
    fence = await store.claim("runs", at_ms=200)
    ended = record("run runs", "runs", status=DONE, revision=2)
    await write(store, "runs", run=ended, fence=fence, release=True)

    assert (await store.delete_thread("runs", at_ms=200)).threads == 1
    assert (await store.prune(before_ms=10)).threads == 1
    assert await all_threads(store) == ["waits"]
