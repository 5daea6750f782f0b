"""Checks of waiting for a change of a thread: a waiting task is woken, and reads the change."""

from __future__ import annotations

import asyncio

from awaken.core.aio.owned_tasks import start_task
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.store import Store
from awaken.testing.conformance.making import (
    PATIENCE,
    StoreCheck,
    Suite,
    record,
    says,
    texts,
    until_told,
    write,
)

check = Suite[StoreCheck]()


@check
async def a_thread_that_was_written_has_changed(store: Store) -> None:
    await write(store, messages=says("a"))
    async with asyncio.timeout(PATIENCE):
        version = await store.changed("t", 0)
        assert version > 0
        await write(store, messages=says("b"))
        assert await store.changed("t", version) > version


@check
async def a_task_that_waits_for_a_change_is_woken_and_reads_it(store: Store) -> None:
    """Also of a thread that does not exist yet."""
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        version = 0
        for length in range(1, 4):

            async def see(since: int, length: int) -> int:
                number = since
                while len(await store.load_messages("t")) < length:
                    number = await store.changed("t", number)
                return number

            waiting = [tasks.create_task(see(version, length)) for _ in range(2)]
            await asyncio.sleep(0)
            await write(store, messages=says(f"{length}"))
            version = max([await task for task in waiting])


@check
async def a_command_is_a_change_of_its_thread(store: Store) -> None:
    await write(store)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:

        async def see() -> None:
            number = 0
            while not await store.load_commands("t"):
                number = await store.changed("t", number)

        tasks.create_task(see())
        await asyncio.sleep(0)
        await store.send(ThreadCommand(thread_id="t", kind=CommandKind.CANCEL))


@check
async def a_reader_of_changes_misses_none(store: Store) -> None:
    """However writing and reading are interleaved, the last write is read."""
    words = [str(number) for number in range(20)]

    async def follow() -> list[str]:
        seen: list[str] = []
        version = 0
        while len(seen) < len(words):
            version = await store.changed("t", version)
            seen.extend(await texts(store, after=len(seen)))
        return seen

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        reader = tasks.create_task(follow())
        for word in words:
            await write(store, messages=says(word))
            await asyncio.sleep(0)
    assert reader.result() == words


@check
async def a_thread_that_was_made_again_has_changed(store: Store) -> None:
    await write(store, messages=says("a"))
    async with asyncio.timeout(PATIENCE):
        version = await store.changed("t", 0)
        await store.delete_thread("t", at_ms=1)
        await write(store, messages=says("b"))
        assert await store.changed("t", version) != version


@check
async def an_operation_on_many_threads_is_a_change_of_each(store: Store) -> None:
    """It wakes waiting tasks in the same process, as a commit does."""
    for name in ("t", "u"):
        await write(store, name, run=record(f"run of {name}", name))
    cancelling = start_task(until_told(store, "t"))
    deleting = start_task(store.changed("u", await store.changed("u", 0)))
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        await store.cancel_tree("t", at_ms=2)
        await cancelling
        await store.delete_thread("u", force=True, at_ms=3)
        await deleting
