"""Checks of commands: they are stored until a commit acknowledges them, and never lost."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from msgspec import Raw

from awaken.core.store.commands import OUTBOX_KEY, CommandKind, ThreadCommand
from awaken.core.store.store import Store
from awaken.core.suspension import ToolCallResume
from awaken.errors import InvalidRecord, NotFound, VersionConflict
from awaken.testing.conformance.helpers import (
    DONE,
    MAX_WAIT_SECONDS,
    RUNNING,
    WAITING,
    StoreCheck,
    Suite,
    expect_error_without_change,
    names,
    raw,
    record,
    says,
    ticket,
    wait_until_named,
    waiting_threads,
    write,
)

check = Suite[StoreCheck]()


def cancel(thread_id: str = "t", run_id: str | None = None) -> ThreadCommand:
    return ThreadCommand(thread_id=thread_id, kind=CommandKind.CANCEL, run_id=run_id)


def message_command(*words: str, thread_id: str = "t") -> ThreadCommand:
    return ThreadCommand(thread_id=thread_id, kind=CommandKind.MESSAGES, messages=says(*words))


async def _list_pending(store: Store, thread_id: str = "t") -> list[int]:
    return [command.id for command in await store.load_commands(thread_id)]


# -- keeping ----------------------------------------------------------------------------------


@check
async def a_command_is_kept_as_it_was_sent(store: Store) -> None:
    await write(store)
    sent = ThreadCommand(
        id=77,
        thread_id="t",
        kind=CommandKind.MESSAGES,
        run_id="r",
        messages=says("a", "ü"),
        at_ms=5,
    )
    number = await store.send(sent)

    (kept,) = await store.load_commands("t")

    assert (kept.id, kept.thread_id, kept.kind) == (number, "t", CommandKind.MESSAGES)
    assert (kept.run_id, kept.messages, kept.at_ms) == ("r", sent.messages, 5)
    assert kept.decisions == ()


@check
async def ids_grow_in_the_order_of_sending(store: Store) -> None:
    await write(store, "t")
    await write(store, "u")
    numbers = [await store.send(cancel(name)) for name in ("t", "u", "t", "u")]

    assert numbers == sorted(set(numbers))
    assert numbers[0] > 0
    assert await _list_pending(store, "t") == [numbers[0], numbers[2]]
    assert await _list_pending(store, "u") == [numbers[1], numbers[3]]


@check
async def a_command_needs_a_thread(store: Store) -> None:
    await expect_error_without_change(store, NotFound, store.send(cancel("ghost")))


@check
async def decisions_are_decided_not_sent(store: Store) -> None:
    await write(store, run=record("r", status=WAITING), tickets=(ticket(),))
    forged = ThreadCommand(
        thread_id="t",
        kind=CommandKind.DECISIONS,
        decisions=(("m:0", ToolCallResume.approve()),),
    )
    await expect_error_without_change(store, InvalidRecord, store.send(forged))


@check
async def a_commit_acknowledges_what_was_done(store: Store) -> None:
    """Only commands of its own thread; other ids have no effect."""
    await write(store, "t")
    await write(store, "u")
    first, second = await store.send(message_command("a")), await store.send(message_command("b"))
    elsewhere = await store.send(message_command("c", thread_id="u"))

    await write(store, acks=(first, elsewhere, 10**9))

    assert await _list_pending(store, "t") == [second]
    assert await _list_pending(store, "u") == [elsewhere]
    await write(store, acks=(first, second))
    assert await _list_pending(store, "t") == []


@check
async def a_refused_commit_acknowledges_nothing(store: Store) -> None:
    await write(store)
    number = await store.send(cancel())
    operation = write(store, expected_length=5, acks=(number,))
    await expect_error_without_change(store, VersionConflict, operation)


@check
async def ids_are_never_used_again(store: Store) -> None:
    """Neither after an acknowledgement nor after their thread is deleted."""
    await write(store)
    first = await store.send(cancel())
    await write(store, acks=(first,))
    second = await store.send(cancel())
    await store.delete_thread("t", at_ms=1)
    await write(store)
    third = await store.send(cancel())

    assert first < second < third
    assert await _list_pending(store) == [third]


@check
async def a_cancel_goes_with_its_run(store: Store) -> None:
    """With the run it names, or with any run if it names none; other commands stay."""
    await write(store, run=record("r"))
    await store.send(cancel(run_id="r"))
    await store.send(cancel())
    other = await store.send(cancel(run_id="other"))
    message = await store.send(message_command("a"))

    await write(store, run=record("r", status=WAITING))
    await write(store, run=record("r", status=RUNNING))
    assert len(await _list_pending(store)) == 4
    await write(store, run=record("r", status=DONE))

    assert await _list_pending(store) == [other, message]


@check
async def a_waiting_run_with_a_command_is_interrupted(store: Store) -> None:
    """If its thread has no owner, a worker should take the run over."""
    await write(store, run=record("r", status=WAITING), tickets=(ticket(),))

    async def list_names() -> list[str]:
        return names(await store.list_interrupted(now_ms=0))

    assert await list_names() == []
    await store.send(cancel(run_id="another"))
    assert await list_names() == [], "it is for another run"
    number = await store.decide("t", [("m:0", ToolCallResume.approve())], at_ms=1)
    assert await list_names() == ["r"]
    fence = await store.claim("t", at_ms=2)
    assert await list_names() == []
    done = record("r", status=DONE)
    await write(store, run=done, acks=(number,), fence=fence, release=True)
    assert await list_names() == []


# -- once -------------------------------------------------------------------------------------


def _build_keyed_command(key: str | None, thread_id: str = "t", word: str = "a") -> ThreadCommand:
    return ThreadCommand(
        thread_id=thread_id, kind=CommandKind.MESSAGES, messages=says(word), key=key
    )


@check
async def a_command_with_a_key_is_kept_once(store: Store) -> None:
    """Sent alone or with a commit; sending it again returns the id of the first."""
    await write(store)
    first = await store.send(_build_keyed_command("k"))

    assert await store.send(_build_keyed_command("k", word="b")) == first
    await write(
        store,
        sends=(_build_keyed_command("k"), _build_keyed_command("l"), _build_keyed_command("l")),
    )

    kept = await store.load_commands("t")
    assert [command.key for command in kept] == ["k", "l"]
    assert kept[0].id == first
    assert kept[0].messages == says("a")


@check
async def a_key_is_known_when_its_command_is_done(store: Store) -> None:
    await write(store)
    await write(store, acks=(await store.send(_build_keyed_command("k")),))

    assert await store.send(_build_keyed_command("k")) == 0
    await write(store, sends=(_build_keyed_command("k"),))

    assert await _list_pending(store) == []


@check
async def a_key_is_one_threads_own_and_goes_with_it(store: Store) -> None:
    for name in ("t", "u"):
        await write(store, name)
        await store.send(_build_keyed_command("k", name))
    await store.send(_build_keyed_command(None))
    await store.send(_build_keyed_command(None))
    assert (len(await _list_pending(store)), len(await _list_pending(store, "u"))) == (3, 1)

    await store.delete_thread("t", at_ms=1)
    await write(store)
    assert await store.send(_build_keyed_command("k"))
    assert len(await _list_pending(store)) == 1


@check
async def a_command_is_pending_until_it_is_done(store: Store) -> None:
    await write(store, "u")
    await write(store)
    number, other = (
        await store.send(message_command("a")),
        await store.send(message_command("b", thread_id="u")),
    )
    assert await store.is_pending(number)

    await write(store, acks=(number,))
    await store.delete_thread("u", at_ms=1)

    for gone in (number, other, 0):
        assert not await store.is_pending(gone)


@check
async def commands_that_the_reader_has_are_left_out(store: Store) -> None:
    for name in ("t", "u"):
        await write(store, name)
    numbers = [await store.send(message_command(str(n), thread_id="tu"[n % 2])) for n in range(6)]

    mine = numbers[::2]
    for had, left in (([], mine), (mine[:1], mine[1:]), (mine[1:], mine[:1]), (numbers, [])):
        found = await store.load_commands("t", skip=set(had))
        assert [command.id for command in found] == left


# -- outboxes ---------------------------------------------------------------------------------


@check
async def threads_with_an_outbox_are_listed_while_they_have_no_owner(store: Store) -> None:
    def outbox(*pending: str) -> dict[str, Raw]:
        return raw(**{OUTBOX_KEY: {"pending": list(pending)}})

    for name in ("b", "a", "c", "d"):
        await write(store, name, thread_state=raw(x=1))
    assert list(await store.list_outboxes()) == []
    for name in ("b", "a", "c"):
        await write(store, name, thread_state=outbox("m"))
    await write(store, "d", thread_state=outbox())
    assert list(await store.list_outboxes()) == ["a", "b", "c"]

    await write(store, "a", thread_state=raw(x=2))
    fence = await store.claim("b", at_ms=1)
    assert list(await store.list_outboxes()) == ["a", "c"]
    await write(store, "b", thread_state=outbox("m", "n"), fence=fence, release=True)
    await write(store, "a", thread_state=raw(**{OUTBOX_KEY: {}}))
    await store.delete_thread("c", at_ms=1)
    await write(store, "c")
    assert list(await store.list_outboxes()) == ["b"]
    assert await store.lease.has_work(at_ms=0, overdue_ms=0)


# -- waiting ----------------------------------------------------------------------------------


@check
async def the_first_threads_told_are_all_in_which_commands_wait(store: Store) -> None:
    for name in ("t", "u", "quiet"):
        await write(store, name)
    assert await waiting_threads(store) == set()

    for name in ("t", "u", "t"):
        await store.send(cancel(name))

    for _ in range(2):
        assert await waiting_threads(store) == {"t", "u"}


@check
async def a_thread_whose_commands_are_done_is_not_told(store: Store) -> None:
    """Nor one whose commands were dropped with its run or with itself."""
    for name in ("t", "u"):
        await write(store, name, run=record(f"run {name}", name))
    await write(store, "gone")
    done = await store.send(message_command("a"))
    await store.send(cancel("u"))
    await store.send(cancel("gone"))
    assert await waiting_threads(store) == {"t", "u", "gone"}

    await write(store, acks=(done,))
    await write(store, "u", run=record("run u", "u", status=DONE))
    await store.delete_thread("gone", at_ms=1)

    assert await waiting_threads(store) == set()


@check
async def a_thread_is_told_when_a_command_comes(store: Store) -> None:
    """Or a decision, and to every caller that iterates."""
    await write(store, run=record("r", status=WAITING), tickets=(ticket(),))
    await write(store, "u")
    async with asyncio.timeout(MAX_WAIT_SECONDS), asyncio.TaskGroup() as tasks:
        for _ in range(3):
            tasks.create_task(wait_until_named(store, "t", "u"))
        await asyncio.sleep(0)
        await store.send(cancel("u"))
        await store.decide("t", [("m:0", ToolCallResume.approve())], at_ms=1)


@check
async def a_reader_of_commands_misses_none(store: Store) -> None:
    """However sending and reading are interleaved."""
    for name in ("t", "u"):
        await write(store, name)
    seen: set[int] = set()

    async def read(count: int) -> None:
        async with aclosing(store.watch_commands()) as ready:
            async for threads in ready:
                for name in threads:
                    seen.update(c.id for c in await store.load_commands(name, skip=seen))
                if len(seen) == count:
                    return

    async with asyncio.timeout(MAX_WAIT_SECONDS), asyncio.TaskGroup() as tasks:
        tasks.create_task(read(20))
        sent = [tasks.create_task(store.send(cancel("tu"[n % 2]))) for n in range(20)]

    assert {task.result() for task in sent} == seen


@check
async def a_task_that_stops_waiting_does_not_disturb_others(store: Store) -> None:
    await write(store)
    async with asyncio.timeout(MAX_WAIT_SECONDS), asyncio.TaskGroup() as tasks:
        gone = [
            tasks.create_task(wait_until_named(store, "t")),
            tasks.create_task(store.wait_changed("ghost", 0)),
        ]
        stays = tasks.create_task(wait_until_named(store, "t"))
        await asyncio.sleep(0)
        for task in gone:
            task.cancel()
        await asyncio.wait(gone)
        await store.send(cancel())
        await stays
