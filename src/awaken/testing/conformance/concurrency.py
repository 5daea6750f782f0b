"""Checks of concurrent use: nothing is lost, and of several competing writers one wins."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from awaken.core.profile import ProfileOwner
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.core.store.store import Store
from awaken.core.suspension import ToolCallResume
from awaken.errors import AlreadyExists, DecisionRefused, StoreError, ThreadOwned, VersionConflict
from awaken.testing.conformance.helpers import (
    WAITING,
    StoreCheck,
    Suite,
    all_runs,
    all_threads,
    all_tickets,
    event,
    raw,
    record,
    says,
    texts,
    ticket,
    write,
)

check = Suite[StoreCheck]()

CROWD = 8


async def race(
    losing: type[StoreError], *deeds: Coroutine[Any, Any, Any]
) -> tuple[list[Any], list[StoreError]]:
    """The results of the winners and the errors of the losers, when all try at once."""
    won: list[Any] = []
    lost: list[StoreError] = []

    async def attempt(operation: Coroutine[Any, Any, Any]) -> None:
        try:
            won.append(await operation)
        except losing as refusal:
            lost.append(refusal)

    async with asyncio.TaskGroup() as tasks:
        for operation in deeds:
            tasks.create_task(attempt(operation))
    return won, lost


@check
async def many_threads_are_written_at_once(store: Store) -> None:
    """04/M-9 in spirit: no message is lost, and no event misnumbered."""

    async def work(name: str) -> None:
        fence = await store.claim(name, at_ms=1)
        for step in range(5):
            committed = await store.commit(
                ThreadCommit(
                    thread_id=name,
                    expected_length=2 * step,
                    messages=says(f"{name}-{step}", f"{name}-{step}-b"),
                    run=record(f"run {name}", name, revision=step),
                    run_state=raw(step=step),
                    events=(event(thread_id=name),) * 2,
                    fence=fence,
                )
            )
            assert committed == Committed(2 * step + 2, 2 * step + 1)
        await store.release(fence)

    workers = [f"w{number}" for number in range(CROWD)]
    async with asyncio.TaskGroup() as tasks:
        for name in workers:
            tasks.create_task(work(name))

    assert sorted(await all_threads(store)) == workers
    assert sorted(await all_runs(store)) == [f"run {name}" for name in workers]
    for name in workers:
        assert await texts(store, name) == [
            word for step in range(5) for word in (f"{name}-{step}", f"{name}-{step}-b")
        ]
        assert [found.seq for found in await store.load_events(name)] == list(range(1, 11))
        assert (await store.load_run_state(f"run {name}")).extensions == {"step": 4}


@check
async def of_two_that_append_at_one_place_one_wins(store: Store) -> None:
    commits = [
        ThreadCommit(thread_id="t", expected_length=0, messages=says(f"{number}"))
        for number in range(CROWD)
    ]
    won, lost = await race(VersionConflict, *(store.commit(commit) for commit in commits))

    assert (len(won), len(lost)) == (1, CROWD - 1)
    assert len(await store.load_messages("t")) == 1


@check
async def of_two_that_claim_a_thread_one_wins(store: Store) -> None:
    """04/M-2: after it has released the thread, the next one can claim it."""
    epochs: list[int] = []
    for _ in range(3):
        claims = [store.claim("t", at_ms=1) for _ in range(CROWD)]
        won, lost = await race(ThreadOwned, *claims)
        assert (len(won), len(lost)) == (1, CROWD - 1)
        epochs.append(won[0].epoch)
        await store.release(won[0])
    assert epochs == sorted(set(epochs))


@check
async def of_two_that_answer_a_ticket_one_wins(store: Store) -> None:
    """Design §4: answered once."""
    await write(store, run=record("r", status=WAITING), tickets=(ticket(),))
    deeds = [
        store.decide("t", [("m:0", ToolCallResume.approve(number, id=f"d{number}"))], at_ms=1)
        for number in range(CROWD)
    ]
    won, lost = await race(DecisionRefused, *deeds)

    assert (len(won), len(lost)) == (1, CROWD - 1)
    (answered,) = await all_tickets(store)
    (command,) = await store.load_commands("t")
    assert command.id == won[0]
    assert command.decisions == (("m:0", answered.decision),)


@check
async def one_decision_sent_many_times_counts_once(store: Store) -> None:
    """01/D-15: an approver who is not sure that an answer arrived sends it again."""
    await write(store, run=record("r", status=WAITING), tickets=(ticket(),))
    answer = ToolCallResume.approve(id="d1")
    won, lost = await race(
        DecisionRefused, *(store.decide("t", [("m:0", answer)], at_ms=1) for _ in range(CROWD))
    )

    assert lost == []
    assert [number for number in won if number is not None] == [
        command.id for command in await store.load_commands("t")
    ]
    assert len(won) - won.count(None) == 1


@check
async def of_two_that_fork_to_one_name_one_wins(store: Store) -> None:
    await write(store, messages=says("a"))
    won, lost = await race(AlreadyExists, *(store.fork("t", "u", at_ms=1) for _ in range(CROWD)))
    assert (len(won), len(lost)) == (1, CROWD - 1)


@check
async def commands_sent_at_once_are_all_kept(store: Store) -> None:
    await write(store)
    command = ThreadCommand(thread_id="t", kind=CommandKind.MESSAGES, messages=says("a"))
    numbers, _ = await race(StoreError, *(store.send(command) for _ in range(CROWD)))

    assert len(set(numbers)) == CROWD
    assert [kept.id for kept in await store.load_commands("t")] == sorted(numbers)


@check
async def of_two_that_change_a_profile_one_wins(store: Store) -> None:
    """01/D-26."""
    deeds = [
        store.profiles.set(ProfileOwner(), "k", number, expected_version=0)
        for number in range(CROWD)
    ]
    won, lost = await race(VersionConflict, *deeds)
    assert (len(won), len(lost)) == (1, CROWD - 1)


@check
async def a_reader_sees_a_commit_whole_or_not_at_all(store: Store) -> None:
    """Message, event, state and run become visible at the same time."""
    steps = 20

    async def work() -> None:
        for step in range(1, steps + 1):
            await write(
                store,
                messages=says(str(step)),
                events=(event(),),
                thread_state=raw(step=step),
                run=record("r", steps=step),
                run_state=raw(step=step),
            )

    async def look() -> None:
        seen = 0
        while seen < steps:
            context = await store.load_context("t")
            if context is not None:
                seen = len(context.messages)
                assert context.thread.message_count == context.thread.event_count == seen
                assert context.thread_state.extensions == {"step": seen}
                assert context.run_state.extensions == {"step": seen}
                assert context.open_run is not None
                assert context.open_run.steps == seen
            await asyncio.sleep(0)

    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        tasks.create_task(look())
        tasks.create_task(look())
        tasks.create_task(work())
