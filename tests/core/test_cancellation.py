"""Tokens, and blocks that a token interrupts (01 §1.11)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Awaitable, Callable

import pytest

from awaken.core.aio.cancel import CancellationToken, interruptible, wait_first
from awaken.errors import Cancelled

pytestmark = pytest.mark.anyio


class Stage:
    """A place to wait for ever, and a way to know that somebody does."""

    def __init__(self) -> None:
        self._reached = asyncio.Event()
        self._never = asyncio.Event()

    async def wait(self) -> None:
        self._reached.set()
        await self._never.wait()

    async def reached(self) -> None:
        await self._reached.wait()


async def still_works() -> bool:
    """Whether the task can go on awaiting: no cancellation was left behind."""
    task = asyncio.current_task()
    assert task is not None
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return task.cancelling() == 0


async def within(token: CancellationToken, block: Callable[[], Awaitable[None]]) -> None:
    with interruptible(token):
        await block()


# -- the token --------------------------------------------------------------------------------


async def test_cancelling_wakes_one_that_waits_and_one_that_comes_later() -> None:
    """01/C-22: a waiter that is already waiting and one that starts later."""
    token = CancellationToken()
    woken: list[str] = []

    async def wait(name: str) -> None:
        await token.cancelled()
        woken.append(name)

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(wait("early"))
        group.create_task(wait("also early"))
        await asyncio.sleep(0)
        assert not token.is_cancelled()
        token.cancel()
        group.create_task(wait("late"))

    assert sorted(woken) == ["also early", "early", "late"]
    assert token.is_cancelled()


async def test_cancelling_between_the_test_and_the_wait_is_not_lost() -> None:
    """01/C-22, D-6: nothing is awaited between looking and listening."""
    token = CancellationToken()
    waiter = token.cancelled()

    token.cancel()

    async with asyncio.timeout(100):
        await waiter


async def test_a_waiter_that_gives_up_is_forgotten() -> None:
    token = CancellationToken()
    stage = Stage()
    calls: list[str] = []

    async def wait() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                await token.cancelled()
        await stage.wait()

    task = asyncio.create_task(wait())
    await stage.reached()
    token.on_cancel(lambda: calls.append("x"))
    token.cancel()
    task.cancel()
    await asyncio.wait([task])

    assert calls == ["x"]


def test_cancelling_twice_is_cancelling_once() -> None:
    """01 §1.11: `cancel()` is idempotent."""
    token = CancellationToken()
    calls: list[int] = []
    token.on_cancel(lambda: calls.append(1))

    token.cancel()
    token.cancel()

    assert calls == [1]


def test_listeners_are_called_once_each_even_when_they_are_the_same() -> None:
    token = CancellationToken()
    calls: list[int] = []

    def listener() -> None:
        calls.append(1)

    first, second = token.on_cancel(listener), token.on_cancel(listener)
    assert first != second
    token.forget(first)
    token.cancel()

    assert calls == [1]


def test_a_forgotten_listener_is_not_called_and_a_late_one_is_called_at_once() -> None:
    token = CancellationToken()
    calls: list[str] = []

    token.forget(token.on_cancel(lambda: calls.append("forgotten")))
    token.cancel()
    token.forget(token.on_cancel(lambda: calls.append("late")))

    assert calls == ["late"]


def test_the_handle_of_a_pair_cancels_and_dropping_it_does_not() -> None:
    """01 §1.11: `new_pair()`; dropping the handle cancels nothing."""
    handle, token = CancellationToken.new_pair()
    assert not hasattr(handle, "is_cancelled")
    handle.cancel()
    assert token.is_cancelled()

    handle, token = CancellationToken.new_pair()
    del handle
    gc.collect()
    assert not token.is_cancelled()


# -- interruptible ----------------------------------------------------------------------------


async def test_without_a_token_the_block_just_runs() -> None:
    with interruptible(None):
        done = True

    assert done


async def test_a_token_cancelled_before_keeps_the_block_from_starting() -> None:
    token = CancellationToken()
    token.cancel()
    entered = False

    with pytest.raises(Cancelled), interruptible(token):
        entered = True

    assert not entered
    assert await still_works()


async def test_a_token_cancelled_during_the_block_interrupts_what_it_awaits() -> None:
    token, stage = CancellationToken(), Stage()
    went_on: list[bool] = []

    async def run() -> None:
        with pytest.raises(Cancelled):
            await within(token, stage.wait)
        went_on.append(await still_works())

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(run())
        await stage.reached()
        token.cancel()

    assert went_on == [True]


async def test_a_token_cancelled_after_the_block_does_nothing() -> None:
    token = CancellationToken()

    with interruptible(token):
        await asyncio.sleep(0)
    token.cancel()

    assert await still_works()


async def test_a_block_that_cancels_its_own_token_and_ends_is_interrupted_at_its_end() -> None:
    """Nothing was awaited after the cancel, and nothing of it is left for later awaits."""
    token = CancellationToken()
    reached_end = False

    async def block() -> None:
        nonlocal reached_end
        token.cancel()
        reached_end = True

    with pytest.raises(Cancelled):
        await within(token, block)

    assert reached_end
    assert await still_works()


async def test_a_block_that_cancels_its_own_token_is_interrupted_at_its_next_await() -> None:
    token, stage = CancellationToken(), Stage()
    reached_end = False

    async def block() -> None:
        nonlocal reached_end
        token.cancel()
        await stage.wait()
        reached_end = True

    async with asyncio.timeout(100):
        with pytest.raises(Cancelled):
            await within(token, block)

    assert not reached_end
    assert await still_works()


async def test_a_block_interrupted_when_what_it_awaits_is_ready_is_still_interrupted() -> None:
    token, stage = CancellationToken(), asyncio.Event()
    entered, got = asyncio.Event(), False

    async def block() -> None:
        nonlocal got
        entered.set()
        await stage.wait()
        got = True

    async def run() -> None:
        with pytest.raises(Cancelled):
            await within(token, block)
        assert await still_works()

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(run())
        await entered.wait()
        stage.set()
        token.cancel()

    assert not got


@pytest.mark.parametrize("token_too", ["no", "first", "last"])
async def test_a_real_cancel_is_never_swallowed(token_too: str) -> None:
    """Whether the token is cancelled as well, before or after it, the task must end."""
    token, stage = CancellationToken(), Stage()

    async def run() -> None:
        with interruptible(token):
            await stage.wait()

    task = asyncio.create_task(run())
    await stage.reached()
    if token_too == "first":
        token.cancel()
    task.cancel()
    if token_too == "last":
        token.cancel()
    await asyncio.wait([task])

    assert task.cancelled()


async def test_a_real_cancel_beside_a_block_that_cancels_its_own_token_is_not_swallowed() -> None:
    token = CancellationToken()

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None
        with interruptible(token):
            token.cancel()
            task.cancel()

    task = asyncio.create_task(run())
    await asyncio.wait([task])

    assert task.cancelled()


async def test_an_error_of_the_block_passes_and_nothing_is_left_behind() -> None:
    token, stage = CancellationToken(), Stage()
    went_on: list[bool] = []

    async def block() -> None:
        try:
            await stage.wait()
        finally:
            raise ValueError("on the way out")

    async def run() -> None:
        with pytest.raises(ValueError, match="on the way out"):
            await within(token, block)
        went_on.append(await still_works())

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(run())
        await stage.reached()
        token.cancel()

    assert went_on == [True]


async def test_an_error_of_an_undisturbed_block_passes() -> None:
    token = CancellationToken()

    with pytest.raises(ValueError, match="mine"), interruptible(token):
        raise ValueError("mine")
    token.cancel()

    assert await still_works()


async def test_a_block_that_swallows_the_interruption_ends_cancelled_all_the_same() -> None:
    token, stage = CancellationToken(), Stage()
    seen: list[str] = []

    async def block() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await stage.wait()
        seen.append("block went on")

    async def run() -> None:
        with pytest.raises(Cancelled):
            await within(token, block)
        assert await still_works()
        seen.append("task went on")

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(run())
        await stage.reached()
        token.cancel()

    assert seen == ["block went on", "task went on"]


async def test_a_task_that_outlived_an_earlier_cancel_can_still_be_interrupted() -> None:
    """As the loop does that records a cancel and commits: the earlier cancel is not this one."""
    token, first, second = CancellationToken(), Stage(), Stage()
    ends: list[str] = []

    async def run() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await first.wait()
        try:
            with interruptible(token):
                await second.wait()
        except Cancelled:
            ends.append("interrupted")

    task = asyncio.create_task(run())
    await first.reached()
    task.cancel()
    await second.reached()
    token.cancel()
    async with asyncio.timeout(100):
        await asyncio.wait([task])

    assert ends == ["interrupted"]
    assert not task.cancelled()


async def nested(
    outer: CancellationToken, inner: CancellationToken, wait: Callable[[], Awaitable[None]]
) -> list[str]:
    """Where the interruption of two nested blocks came out."""
    seen: list[str] = []
    try:
        with interruptible(outer):
            try:
                with interruptible(inner):
                    await wait()
            except Cancelled:
                seen.append("inner")
                seen.append("goes on" if await still_works() else "stuck")
    except Cancelled:
        seen.append("outer")
    seen.append("goes on" if await still_works() else "stuck")
    return seen


@pytest.mark.parametrize(
    ("cancelled", "seen"),
    [
        ("inner", ["inner", "goes on", "goes on"]),
        ("outer", ["outer", "goes on"]),
        ("inner outer", ["outer", "goes on"]),
        ("outer inner", ["outer", "goes on"]),
    ],
)
async def test_nested_blocks_are_interrupted_each_by_its_own_token(
    cancelled: str, seen: list[str]
) -> None:
    tokens = {"outer": CancellationToken(), "inner": CancellationToken()}
    stage = Stage()

    task = asyncio.create_task(nested(tokens["outer"], tokens["inner"], stage.wait))
    await stage.reached()
    for name in cancelled.split():
        tokens[name].cancel()

    async with asyncio.timeout(100):
        assert await task == seen


async def test_nested_blocks_of_one_token_end_together() -> None:
    token, stage = CancellationToken(), Stage()

    task = asyncio.create_task(nested(token, token, stage.wait))
    await stage.reached()
    token.cancel()

    async with asyncio.timeout(100):
        assert await task == ["outer", "goes on"]


async def test_a_timeout_inside_the_block_stays_a_timeout() -> None:
    token, stage = CancellationToken(), Stage()

    async def block() -> None:
        async with asyncio.timeout(0):
            await stage.wait()

    with pytest.raises(TimeoutError):
        await within(token, block)

    assert await still_works()


async def test_a_timeout_around_the_block_stays_a_timeout() -> None:
    token, stage = CancellationToken(), Stage()

    async def run() -> None:
        async with asyncio.timeout(0):
            await within(token, stage.wait)

    with pytest.raises(TimeoutError):
        await run()

    assert await still_works()


async def test_interrupting_a_group_of_tasks_ends_all_of_them() -> None:
    token, one, two = CancellationToken(), Stage(), Stage()
    ended: list[str] = []

    async def member(name: str, stage: Stage) -> None:
        try:
            await stage.wait()
        finally:
            ended.append(name)

    async def block() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(member("one", one))
            group.create_task(member("two", two))

    async def run() -> None:
        with pytest.raises(Cancelled):
            await within(token, block)
        assert await still_works()

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(run())
        await one.reached()
        await two.reached()
        token.cancel()

    assert sorted(ended) == ["one", "two"]


# -- waiting for the first of several -----------------------------------------------------------


async def test_the_first_wait_to_end_ends_the_others() -> None:
    slow, quick = Stage(), asyncio.Event()
    ended: list[str] = []

    async def wait_slowly() -> None:
        try:
            await slow.wait()
        finally:
            ended.append("slow")

    async def wait_quickly() -> None:
        await quick.wait()

    task = asyncio.create_task(wait_first(wait_slowly(), wait_quickly()))
    await slow.reached()
    assert not task.done()
    quick.set()
    async with asyncio.timeout(100):
        await task

    assert ended == ["slow"]


async def test_an_error_of_the_first_wait_is_raised() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await wait_first(Stage().wait(), fail())


async def test_cancelling_the_wait_for_several_ends_all_of_them() -> None:
    one, two = Stage(), Stage()
    ended: list[str] = []

    async def wait(name: str, stage: Stage) -> None:
        try:
            await stage.wait()
        finally:
            ended.append(name)

    task = asyncio.create_task(wait_first(wait("one", one), wait("two", two)))
    await one.reached()
    await two.reached()
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert sorted(ended) == ["one", "two"]
