"""Checks of commands sent with a commit: they are stored if and only if the commit is."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import ThreadCommit
from awaken.core.store.store import Store
from awaken.errors import VersionConflict
from awaken.testing.conformance.commands import cancel, message_command
from awaken.testing.conformance.helpers import (
    DONE,
    MAX_WAIT_SECONDS,
    WAITING,
    StoreCheck,
    Suite,
    expect_error_without_change,
    names,
    pending,
    record,
    says,
    texts,
    wait_until_named,
    waiting_threads,
    write,
)

check = Suite[StoreCheck]()


async def _list_pending(store: Store, thread_id: str) -> list[ThreadCommand]:
    """List the pending commands of a thread, without their ids."""
    return [replace(command, id=0) for command in await store.load_commands(thread_id)]


# -- keeping ----------------------------------------------------------------------------------


@check
async def a_command_comes_with_the_commit_that_sends_it(store: Store) -> None:
    """Unchanged except for its id."""
    await write(store, "u")
    sent = ThreadCommand(
        thread_id="u",
        kind=CommandKind.MESSAGES,
        run_id="r",
        messages=says("a", "ü"),
        at_ms=5,
    )

    committed = await write(store, messages=says("b"), sends=(replace(sent, id=77),))

    assert committed.length == 1
    assert await texts(store) == ["b"]
    assert await _list_pending(store, "u") == [sent]
    assert await _list_pending(store, "t") == []
    context = await store.load_context("u")
    assert context is not None
    assert list(context.commands) == list(await store.load_commands("u"))


@check
async def sent_either_way_ids_grow(store: Store) -> None:
    await write(store, "u")
    await write(store, "v")
    first = await store.send(message_command("0", thread_id="u"))
    words = [
        message_command(word, thread_id=name) for word, name in (("1", "u"), ("2", "v"), ("3", "u"))
    ]
    await write(store, sends=tuple(words))
    last = await store.send(message_command("4", thread_id="v"))

    found = await pending(store, "u", "v")

    assert [command.messages[0].text() for command in found] == ["0", "1", "2", "3", "4"]
    numbers = [command.id for command in found]
    assert numbers == sorted(set(numbers))
    assert (numbers[0], numbers[-1]) == (first, last)


@check
async def a_cancel_for_a_run_that_has_ended_is_dropped(store: Store) -> None:
    """No later commit of that run would delete it."""
    await write(store, "u", run=record("over", "u", status=DONE))
    await write(store, "v", run=record("open", "v"))
    over, still_open, unknown = cancel("u", "over"), cancel("v", "open"), cancel("u", "to come")

    assert await store.send(over) == 0
    await write(store, sends=(over, still_open, unknown))
    assert await _list_pending(store, "u") == [unknown]
    assert await _list_pending(store, "v") == [still_open]


@check
async def a_command_to_no_thread_is_dropped(store: Store) -> None:
    """The commit itself and its other commands are stored."""
    await write(store, "u")
    await store.claim("claimed", at_ms=1)
    sends = (cancel("ghost"), cancel("claimed"), cancel("u"), cancel("later"))

    await write(store, messages=says("a"), sends=sends)
    for name in ("later", "ghost"):
        await write(store, name)

    assert await texts(store) == ["a"]
    assert await _list_pending(store, "u") == [cancel("u")]
    for name in ("later", "ghost", "claimed"):
        assert await _list_pending(store, name) == [], name


@check
async def a_thread_may_send_to_itself(store: Store) -> None:
    """Also with its first commit, whether it was claimed before or not."""
    await write(store, sends=(message_command("a"),))
    await write(store, sends=(message_command("b"),))
    assert await _list_pending(store, "t") == [message_command("a"), message_command("b")]

    fence = await store.claim("u", at_ms=1)
    own = message_command("c", thread_id="u")
    await write(store, "u", sends=(own,), fence=fence, release=True)
    assert await _list_pending(store, "u") == [own]


@check
async def what_is_sent_cannot_be_acknowledged_by_the_same_commit(store: Store) -> None:
    """Whatever ids the writer may guess."""
    await write(store)
    done = await store.send(message_command("a"))
    await write(store, acks=tuple(range(done, done + 9)), sends=(message_command("b"),))

    (left,) = await store.load_commands("t")
    assert left.messages == says("b")
    await write(store, acks=(left.id,))
    assert await _list_pending(store, "t") == []


@check
async def a_commit_that_was_made_before_sends_nothing_again(store: Store) -> None:
    """Neither when `find_commit` asks for it, nor when the commit is sent a second time."""
    await write(store, "u")
    commit = ThreadCommit(
        thread_id="t",
        expected_length=0,
        messages=says("a"),
        run=record("r", revision=1),
        sends=(message_command("b", thread_id="u"), message_command("c")),
    )
    assert await store.find_commit(commit) is None
    assert await _list_pending(store, "u") == []

    committed = await store.commit(commit)
    for _ in range(2):
        assert await store.find_commit(commit) == committed
    await expect_error_without_change(store, VersionConflict, store.commit(commit))

    assert await _list_pending(store, "u") == [message_command("b", thread_id="u")]
    assert await _list_pending(store, "t") == [message_command("c")]


# -- effects ----------------------------------------------------------------------------------


@check
async def a_cancel_goes_with_the_run_that_ends_beside_it(store: Store) -> None:
    """With the run it names, or with any run if it names none; other commands stay."""
    await write(store, "u")
    kept = (cancel(run_id="other"), message_command("a"), cancel("u"), cancel("u", run_id="r"))
    sends = (cancel(run_id="r"), *kept, cancel())

    await write(store, run=record("r", status=DONE), sends=sends)

    assert await _list_pending(store, "t") == list(kept[:2])
    assert await _list_pending(store, "u") == list(kept[2:])
    assert await waiting_threads(store) == {"t", "u"}


@check
async def a_waiting_run_to_which_a_commit_sends_is_interrupted(store: Store) -> None:
    await write(store, run=record("r", status=WAITING))
    assert names(await store.list_interrupted(now_ms=0)) == []

    await write(store, "u", sends=(cancel(run_id="another"),))
    assert names(await store.list_interrupted(now_ms=0)) == []
    await write(store, "u", sends=(message_command("go on"),))
    assert names(await store.list_interrupted(now_ms=0)) == ["r"]


# -- waiting ----------------------------------------------------------------------------------


@check
async def waiting_tasks_are_woken_by_what_a_commit_sends(store: Store) -> None:
    """Tasks that wait for commands, and for a change of the thread the command is sent to."""
    await write(store, "u")

    async def see() -> None:
        number = 0
        while not await store.load_commands("u"):
            number = await store.wait_changed("u", number)

    async with asyncio.timeout(MAX_WAIT_SECONDS), asyncio.TaskGroup() as tasks:
        for _ in range(2):
            tasks.create_task(wait_until_named(store, "u"))
        tasks.create_task(see())
        await asyncio.sleep(0)
        await write(store, sends=(cancel("u"),))
