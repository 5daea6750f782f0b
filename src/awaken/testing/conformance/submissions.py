"""Checks of submissions: what is stored, keys, modes, and what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

from awaken.core.lifecycle import CANCELLED, RunStatus
from awaken.core.store.commands import (
    KEY_KEPT_MS,
    CommandKind,
    Submission,
    SubmitMode,
    Submitted,
    ThreadCommand,
)
from awaken.core.store.store import Store
from awaken.core.suspension import ToolCallResume
from awaken.errors import (
    AlreadyExists,
    DecisionRefused,
    InvalidRecord,
    KeyReused,
    Serialization,
    ThreadBusy,
    ThreadDeleted,
    ThreadOwned,
)
from awaken.testing.conformance.helpers import (
    DONE,
    MAX_WAIT_SECONDS,
    WAITING,
    StoreCheck,
    Suite,
    all_runs,
    all_threads,
    event,
    everything,
    expect_error,
    expect_error_without_change,
    names,
    record,
    says,
    ticket,
    wait_until_named,
    waiting_threads,
    write,
)

check = Suite[StoreCheck]()


def submission(run_id: str = "s", thread_id: str = "t", **changes: Any) -> Submission:
    fields: dict[str, Any] = {
        "thread_id": thread_id,
        "run_id": run_id,
        "agent_id": "agent",
        "messages": says(run_id),
        "at_ms": 1000,
    }
    return Submission(**(fields | changes))


async def claim_and_release(store: Store, at_ms: int = 1000, **changes: Any) -> list[str]:
    """Claim the next runs, and release their threads again. Returns the ids of the runs."""
    fields: dict[str, Any] = {"limit": 100, "at_ms": at_ms, "overdue_ms": at_ms} | changes
    has_work = await store.lease.has_work(at_ms=at_ms, overdue_ms=fields["overdue_ms"])
    found = await store.claim_next(["agent"], **fields)
    assert has_work or not found, "a node that asks first would not have looked"
    for fence, _ in found:
        await store.release(fence)
    return [run.run_id for _, run in found]


async def _list_queued_runs(store: Store, thread_id: str = "t") -> list[str | None]:
    commands = await store.load_commands(thread_id)
    return [command.run_id for command in commands if command.kind is CommandKind.RUN]


# -- what is stored ---------------------------------------------------------------------------


@check
async def a_submission_creates_its_thread_with_a_run_that_has_not_started(store: Store) -> None:
    asked = submission(not_before_ms=5, session_id="session")

    answer = await store.submit(asked)

    assert answer == Submitted(thread_id="t", run_id="s", cursor=0, is_new=True)
    thread = await store.load_thread("t")
    assert thread is not None
    assert (thread.message_count, thread.event_count, thread.created_at) == (0, 0, 1000)
    assert (thread.open_run_id, thread.active_run_id, thread.latest_run_id) == (None,) * 3
    assert await all_threads(store) == ["t"]
    run = await store.load_run("s")
    assert run is not None
    assert (run.status, run.session_id, run.created_at) == (RunStatus.CREATED, "session", 1)
    (command,) = await store.load_commands("t")
    assert (command.kind, command.run_id, command.submission) == (CommandKind.RUN, "s", asked)
    context = await store.load_context("t")
    assert context is not None
    assert (context.open_run, list(context.commands)) == (None, [command])


@check
async def a_submission_leaves_the_head_of_a_thread_as_it_was(store: Store) -> None:
    await write(store, run=record("r", status=WAITING), events=(event(), event()))
    before = await store.load_thread("t")

    answer = await store.submit(submission())

    assert answer.cursor == 2
    assert await store.load_thread("t") == before
    assert await store.wait_changed("t", 0) > 0
    assert names(await store.list_interrupted(now_ms=0)) == []


@check
async def the_first_commit_of_a_submitted_run_acknowledges_it(store: Store) -> None:
    await store.submit(submission())
    created = await store.load_run("s")
    (command,) = await store.load_commands("t")
    assert created is not None
    fence = await store.claim("t", at_ms=1)
    started = replace(created.advance(2), state=None)

    await write(store, run=started, messages=says("s"), acks=(command.id,), fence=fence)
    await write(store, run=started.advance(3), messages=says("x"), fence=fence)

    thread = await store.load_thread("t")
    assert thread is not None
    assert (thread.open_run_id, thread.active_run_id, thread.message_count) == ("s", "s", 2)
    assert await _list_queued_runs(store) == []
    read = await store.load_run("s")
    assert read is not None
    assert (read.status, read.created_at) == (RunStatus.RUNNING, 1)


@check
async def a_thread_that_is_claimed_and_unwritten_can_be_submitted_to(store: Store) -> None:
    fence = await store.claim("t", at_ms=1)
    await store.submit(submission())
    await write(store, messages=says("a"), run=record("r"), fence=fence, release=True)
    assert sorted(await all_runs(store)) == ["r", "s"]


@check
async def a_submission_is_told_when_it_is_due(store: Store) -> None:
    await store.submit(submission("far", "u", not_before_ms=10**15))
    assert await waiting_threads(store) == set()
    async with asyncio.timeout(MAX_WAIT_SECONDS), asyncio.TaskGroup() as tasks:
        tasks.create_task(wait_until_named(store, "t"))
        await asyncio.sleep(0)
        await store.submit(submission())


@check
async def a_submission_cannot_be_sent_as_a_command(store: Store) -> None:
    await write(store)
    await expect_error_without_change(
        store, InvalidRecord, store.send(ThreadCommand.run(submission()))
    )


@check
async def a_submission_that_cannot_be_encoded_is_refused(store: Store) -> None:
    """A store that keeps values as they are may take it."""
    if store.immediate:
        return
    lone = submission(dispatch_id="\ud800")
    await expect_error_without_change(store, Serialization, store.submit(lone))


# -- keys -------------------------------------------------------------------------------------


@check
async def the_same_key_gives_the_first_answer(store: Store) -> None:
    """Whatever happened to the first submission, and whatever ids the repetition has."""
    await write(store, events=(event(),))
    first = await store.submit(submission(key="k"))
    (command,) = await store.load_commands("t")
    await write(store, acks=(command.id,), events=(event(),))

    again = await store.submit(submission("other", key="k", messages=says("s"), at_ms=2000))

    assert again == replace(first, is_new=False)
    assert await all_runs(store) == ["s"]
    assert await _list_queued_runs(store) == []


@check
async def a_key_is_taken_once_by_many_at_once(store: Store) -> None:
    async with asyncio.TaskGroup() as tasks:
        sent = [
            tasks.create_task(store.submit(submission(f"s{n}", key="k", messages=says("the same"))))
            for n in range(10)
        ]
    answers = [task.result() for task in sent]
    assert len({answer.run_id for answer in answers}) == 1
    assert sum(answer.is_new for answer in answers) == 1
    assert len(await _list_queued_runs(store)) == 1


@check
async def a_key_used_for_something_else_is_refused(store: Store) -> None:
    await store.submit(submission(key="k"))
    for other in (
        {"messages": says("other")},
        {"agent_id": "another"},
        {"mode": SubmitMode.STEER},
        {"not_before_ms": 7},
    ):
        changed = replace(submission(key="k"), run_id="x", **other)
        error = await expect_error_without_change(store, KeyReused, store.submit(changed))
        assert (error.thread_id, error.key) == ("t", "k")
    assert (await store.submit(submission("u", "u", key="k"))).is_new


@check
async def a_key_is_kept_for_seven_days(store: Store) -> None:
    await store.submit(submission(key="k"))
    same = submission("b", key="k", messages=says("s"), at_ms=1000 + KEY_KEPT_MS)
    assert (await store.submit(same)).run_id == "s"
    assert (await store.submit(replace(same, at_ms=same.at_ms + 1))).run_id == "b"


# -- modes ------------------------------------------------------------------------------------


@check
async def steering_gives_messages_to_the_open_run(store: Store) -> None:
    steers = submission(mode=SubmitMode.STEER)
    await write(store, run=record("r"))

    assert (await store.submit(steers)).run_id == "r"

    (command,) = await store.load_commands("t")
    assert (command.kind, command.messages) == (CommandKind.MESSAGES, says("s"))
    assert await store.load_run("s") is None
    await write(store, run=record("r", status=DONE))
    assert (await store.submit(steers)).run_id == "s"


@check
async def an_interrupt_cancels_the_open_run_and_what_waits(store: Store) -> None:
    await write(store, run=record("r"))
    for name in ("a", "b"):
        await store.submit(submission(name))

    assert (await store.submit(submission(mode=SubmitMode.INTERRUPT))).run_id == "s"

    assert await _list_queued_runs(store) == ["s"]
    cancels = [c.run_id for c in await store.load_commands("t") if c.kind is CommandKind.CANCEL]
    assert cancels == ["r", "a", "b"]
    for name in ("a", "b"):
        run = await store.load_run(name)
        assert run is not None
        assert (run.status, run.termination_reason) == (DONE, CANCELLED)


@check
async def a_refusing_submission_needs_a_thread_at_rest(store: Store) -> None:
    refuses = submission(mode=SubmitMode.REFUSE)
    fence = await store.claim("t", at_ms=1)
    await expect_error(ThreadOwned, store.submit(refuses))
    await write(store, run=record("r", status=WAITING), fence=fence, release=True)
    error = await expect_error_without_change(store, ThreadBusy, store.submit(refuses))
    assert error.run_id == "r"
    await write(store, run=record("r", status=DONE))
    assert (await store.submit(refuses)).is_new
    later = replace(refuses, run_id="x")
    error = await expect_error_without_change(store, ThreadBusy, store.submit(later))
    assert error.run_id == "s"


@check
async def answers_that_are_submitted_go_to_the_run_that_asked(store: Store) -> None:
    await write(store, run=record("r", status=WAITING), tickets=(ticket(),))
    answers = submission(decisions=(("m:0", ToolCallResume.approve()),))

    assert (await store.submit(answers)).run_id == "r"

    kinds = [command.kind for command in await store.load_commands("t")]
    assert kinds == [CommandKind.DECISIONS, CommandKind.MESSAGES]
    assert await store.load_run("s") is None
    await expect_error_without_change(store, DecisionRefused, store.submit(answers))


@check
async def pruning_forgets_keys_that_are_kept_no_longer(store: Store) -> None:
    """By the clock of the store: keys of days long past are gone."""
    await store.submit(submission("s", key="k"))
    await store.prune(before_ms=0)

    assert (await store.submit(submission("other", key="k"))).is_new


# -- withdrawing ------------------------------------------------------------------------------


@check
async def a_cancel_ends_a_submitted_run_that_has_not_started(store: Store) -> None:
    """The cancel stays until an owner of the thread has written the run's events."""
    await write(store, run=record("r"))
    await store.submit(submission())

    number = await store.send(ThreadCommand.cancel("t", "s", at_ms=5000, by="ann"))

    run = await store.load_run("s")
    assert run is not None
    assert (run.status, run.termination_reason, run.finished_at) == (DONE, CANCELLED, 5)
    assert [command.id for command in await store.load_commands("t")] == [number]
    assert await store.send(ThreadCommand.cancel("t", "s", at_ms=6000)) == 0, "it has ended"

    told = replace(run, revision=run.revision + 1)
    await write(store, run=told, events=(event(run_id="s"),))
    assert list(await store.load_commands("t")) == []
    run = await store.load_run("s")
    assert run is not None
    assert (run.status, run.cancelled_by) == (DONE, "ann")
    thread = await store.load_thread("t")
    assert thread is not None
    assert thread.open_run_id == "r"


@check
async def a_cancel_waits_for_a_submitted_run_that_may_be_starting(store: Store) -> None:
    """Its thread has an owner, and no run of it is open yet."""
    await store.submit(submission())
    await store.claim("t", at_ms=1)

    assert await store.send(ThreadCommand.cancel("t", "s", at_ms=5000)) > 0

    run = await store.load_run("s")
    assert run is not None
    assert run.status is RunStatus.CREATED
    assert await _list_queued_runs(store) == ["s"]


@check
async def a_cancel_finds_the_thread_as_its_own_commit_leaves_it(store: Store) -> None:
    """The commit that ends a run and releases the thread ends a submitted run, too."""
    fence = await store.claim("t", at_ms=1)
    await write(store, run=record("r"), fence=fence)
    await store.submit(submission())
    cancel = ThreadCommand.cancel("t", "s", at_ms=5000)

    await write(store, run=record("r", status=DONE), fence=fence, release=True, sends=(cancel,))

    run = await store.load_run("s")
    assert run is not None
    assert (run.status, run.termination_reason) == (DONE, CANCELLED)
    assert [command.run_id for command in await store.load_commands("t")] == ["s"]


@check
async def a_cancel_that_is_sent_with_the_next_start_of_its_run_is_kept(store: Store) -> None:
    await write(store, run=record("r", status=DONE))
    cancel = ThreadCommand.cancel("t", "r", at_ms=5000)

    await write(store, run=record("r", status=WAITING), sends=(cancel,))

    assert [command.run_id for command in await store.load_commands("t")] == ["r"]


# -- what is refused --------------------------------------------------------------------------


@check
async def a_deleted_thread_takes_no_submission_until_it_is_created_again(store: Store) -> None:
    await store.submit(submission(key="k"))
    await store.delete_thread("t", at_ms=1000)
    before = await everything(store)

    error = await expect_error(ThreadDeleted, store.submit(submission(key="k")))

    assert error.thread_id == "t"
    assert await everything(store) == before
    await write(store)
    assert (await store.submit(submission(key="k"))).is_new
    await store.delete_thread("t", at_ms=2000)
    assert (await store.submit(submission(at_ms=2001 + KEY_KEPT_MS))).is_new


@check
async def a_run_id_is_submitted_once(store: Store) -> None:
    await store.submit(submission())
    await expect_error_without_change(store, AlreadyExists, store.submit(submission()))
    await expect_error_without_change(store, AlreadyExists, store.submit(submission("s", "u")))


@check
async def a_thread_with_a_submission_is_not_pruned(store: Store) -> None:
    await store.submit(submission())
    assert (await store.prune(before_ms=10**15)).threads == 0
    await store.send(ThreadCommand.cancel("t", "s", at_ms=1))
    assert (await store.prune(before_ms=10**15)).threads == 1
