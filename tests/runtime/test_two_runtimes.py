"""Two runtimes on one store: each sees and steers what the other runs (design §8, 01 §6.4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from front_kit import told

from answer_kit import by_id
from awaken import Agent, RunResult, Runtime, ToolCallResume, tool
from awaken.core.event import RunFinish, ToolCallReady
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import CANCELLED, NATURAL_END, RunStatus, Suspended
from awaken.core.llm import InferenceRequest
from awaken.core.store.threads import RunQuery
from awaken.errors import InvalidResume, ThreadAlreadyRunning
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, text_response, tool_call_response, tool_calls_response

pytestmark = pytest.mark.anyio

T = "t"


class Shared(MemoryStore):
    """A store that knows when somebody listens for commands."""

    def __init__(self) -> None:
        super().__init__()
        self.listening = asyncio.Event()

    async def watch_commands(self) -> AsyncGenerator[set[str], None]:
        self.listening.set()
        async for threads in super().watch_commands():
            yield threads


class Desk:
    """A runtime whose agent digs, or pays, when told to; other messages it answers."""

    def __init__(self, store: Shared) -> None:
        self.store = store
        self.digging, self.dug = asyncio.Event(), asyncio.Event()
        self.asked: list[list[str]] = []

        @tool
        async def dig() -> str:
            """Dig."""
            self.digging.set()
            await self.dug.wait()
            return "dug"

        @tool(needs_approval=True)
        async def pay(n: int) -> str:
            """Pay."""
            return f"paid {n}"

        agent = Agent("desk", model=FunctionModel(self._answer), tools=[dig, pay])
        self.runtime = Runtime([agent], store=store)

    def _answer(self, request: InferenceRequest) -> StreamResult:
        self.asked.append(told(request.messages))
        match self.asked[-1][-1]:
            case "user: dig":
                return tool_call_response("", "dig", "c1", {})
            case "user: pay":
                return tool_call_response("", "pay", "c1", {"n": 3})
            case "user: dig and pay":
                return tool_calls_response("", ("dig", "c1", {}), ("pay", "c2", {"n": 3}))
        return text_response("done")

    @asynccontextmanager
    async def busy(self, text: str = "dig") -> AsyncIterator[asyncio.Task[RunResult]]:
        """A run that digs; it is let go at the end of the block."""
        async with asyncio.timeout(100), asyncio.TaskGroup() as group:
            task = group.create_task(self.runtime.run("desk", text, thread=T))
            await self.digging.wait()
            try:
                yield task
            finally:
                self.dug.set()


def two() -> tuple[Desk, Desk]:
    store = Shared()
    return Desk(store), Desk(store)


# -- seeing -----------------------------------------------------------------------------------


async def test_the_other_lists_what_runs_and_who_runs_it() -> None:
    """Design §8: threads, runs and owners are the store's."""
    first, second = two()

    async with first.busy():
        (thread,) = await second.runtime.list_threads()
        assert (thread.id, thread.owner) == (T, first.runtime.store.owner)
        (run,) = await second.runtime.list_runs(RunQuery(status=RunStatus.RUNNING))
        assert thread.active_run_id == run.run_id

    (thread,) = await second.runtime.list_threads()
    assert thread.owner is None
    assert not await second.runtime.list_runs(RunQuery(status=RunStatus.RUNNING))


async def test_the_other_watches_as_it_happens() -> None:
    """Design §8: other processes see durable events, all of them, in order, to the end."""
    first, second = two()
    seen: list[Any] = []

    async def watch() -> None:
        async for event in second.runtime.events(T):
            seen.append(event)
            if isinstance(event.event, ToolCallReady):
                first.dug.set()
            if isinstance(event.event, RunFinish):
                return

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(watch())
        await first.runtime.run("desk", "dig", thread=T)

    assert seen == list(await second.store.load_events(T))
    assert [event.seq for event in seen] == list(range(1, len(seen) + 1))


# -- steering ---------------------------------------------------------------------------------


async def test_the_other_cancels_it() -> None:
    """01 §6.4: by thread or run id; it ends where it runs."""
    for by_run in (False, True):
        first, second = two()

        async with first.busy() as task:
            (run,) = await second.runtime.list_runs()
            assert await second.runtime.cancel(run.run_id if by_run else T)
            result = await task

        assert result.termination == CANCELLED
        assert list(await second.store.load_commands(T)) == []
        assert not await second.runtime.cancel(T)


async def test_a_cancel_counts_though_the_run_was_about_to_pause() -> None:
    """01/D-11: the sender was told that it is cancelled; it must not wait for an answer now."""
    first, second = two()

    async with first.busy("dig and pay"):
        assert await second.runtime.cancel(T)
    (run,) = await second.runtime.list_runs()

    assert (run.status, run.termination_reason) == (RunStatus.DONE, CANCELLED)


async def test_the_other_writes_to_it() -> None:
    """01 §6.4: the model reads it at its next step; it is read once."""
    first, second = two()

    async with first.busy() as task:
        await first.store.listening.wait()
        assert await second.runtime.send(T, "and deeper")
        first.dug.set()
        assert (await task).termination == NATURAL_END

    assert first.asked[1][-2:] == ["tool: dug", "user: and deeper"]
    assert told(await second.runtime.messages(T)).count("user: and deeper") == 1
    assert list(await second.store.load_commands(T)) == []
    assert not await second.runtime.send(T, "too late")


async def test_what_comes_too_late_is_read_by_the_next_run() -> None:
    """Design §8: the sender was told that it will be read, and it is, once."""
    first, second = two()

    async with first.busy():
        assert await second.runtime.send(T, "and deeper")
    assert len(first.asked) == 2, "it was over before anybody listened"
    await second.runtime.run("desk", "thanks", thread=T)

    assert second.asked[0][-2:] == ["user: and deeper", "user: thanks"]
    assert list(await second.store.load_commands(T)) == []


async def test_the_other_decides_for_it() -> None:
    """01/D-15: a live run that waits goes on where it is; a wrong answer changes nothing."""
    first, second = two()

    async with asyncio.timeout(100):
        async with first.runtime.stream("desk", "pay", thread=T, wait=True) as events:
            async for event in events:
                end = event.event
                if isinstance(end, RunFinish) and isinstance(end.termination, Suspended):
                    (ticket,) = await second.runtime.list_tickets()
                    with pytest.raises(InvalidResume, match="ghost"):
                        await second.runtime.decide(T, await by_id(second.runtime, {"ghost": True}))
                    forged = ToolCallResume.approve(digest="0")
                    with pytest.raises(InvalidResume, match="answers the question with"):
                        await second.runtime.decide(T, {ticket.key: forged})
                    assert await second.runtime.decide(T, {ticket.key: True}, by="ann")

    assert events.result.response == "done"
    assert first.asked[1][-1] == "tool: paid 3"
    assert second.asked == []


async def test_a_run_that_waits_nowhere_goes_on_where_it_is_answered() -> None:
    """02/8.8: started here, answered there; one run."""
    first, second = two()
    waiting = await first.runtime.run("desk", "pay", thread=T)

    result = await second.runtime.run(thread=T, answers=await by_id(second.runtime, {"c1": True}))

    assert result.run_id == waiting.run_id
    assert second.asked[0][-1] == "tool: paid 3"
    assert len(first.asked) == 1


# -- one at a time ----------------------------------------------------------------------------


async def test_a_thread_the_other_runs_is_refused() -> None:
    """01/A-1: named with its owner; the run goes on undisturbed."""
    first, second = two()

    async with first.busy() as task:
        for runtime in (first.runtime, second.runtime):
            with pytest.raises(ThreadAlreadyRunning, match=r"active run.*t") as busy:
                await runtime.run("desk", "me too", thread=T)
            assert busy.value.thread_id == T
        assert busy.value.owner == first.runtime.store.owner
        assert second.asked == []

    assert task.result().termination == NATURAL_END
    assert "user: me too" not in told(await second.runtime.messages(T))


@pytest.mark.parametrize("same", [True, False], ids=["here", "there"])
async def test_a_request_may_wait_its_turn(same: bool) -> None:
    """01/D-1: it starts when the run before it is over, and reads what that one wrote."""
    first, second = two()
    waiting = first if same else second

    async with asyncio.TaskGroup() as group:
        async with first.busy() as task:
            queued = group.create_task(
                waiting.runtime.run("desk", "thanks", thread=T, when_busy="queue")
            )
            await asyncio.sleep(0)
            assert not queued.done()
        assert task.done()

    assert queued.result().response == "done"
    assert waiting.asked[-1] == [
        "user: dig",
        "assistant: ",
        "tool: dug",
        "assistant: done",
        "user: thanks",
    ]
    assert len(await second.runtime.list_runs()) == 2


async def test_several_requests_wait_their_turn() -> None:
    """01/D-1: each runs, one after another, from wherever they come."""
    first, second = two()

    async with asyncio.timeout(100), asyncio.TaskGroup() as group, first.busy():
        for number in range(3):
            for desk in (first, second):
                asked = desk.runtime.run("desk", f"n{number}", thread=T, when_busy="queue")
                group.create_task(asked)

    log = told(await second.runtime.messages(T))
    assert sorted(line for line in log if line.startswith("user: n")) == sorted(
        f"user: n{number}" for number in range(3) for _ in "ab"
    )
    assert [line for line in log[4:] if line.startswith("assistant")] == ["assistant: done"] * 6


async def test_a_request_waits_for_no_dead_owner() -> None:
    """Design §8: whoever held the thread is gone, so the one that waits goes on with its run."""
    first, second = two()

    async with first.busy() as task:
        (run,) = await second.runtime.list_runs()
        queued = asyncio.create_task(
            second.runtime.run("desk", "thanks", thread=T, when_busy="queue")
        )
        await asyncio.sleep(0)
        first.store.forsake()
        result = await queued
        task.cancel()

    assert result.run_id == run.run_id
    assert second.asked[0][-1] == "user: thanks"


async def test_a_request_that_waits_can_be_given_up() -> None:
    """01/A-1: who goes away while his request is queued does not have to wait for it."""
    first, second = two()

    async with first.busy():
        queued = asyncio.create_task(
            second.runtime.run("desk", "thanks", thread=T, when_busy="queue")
        )
        await asyncio.sleep(0)
        queued.cancel()
        _, waiting = await asyncio.wait([queued], timeout=0.5)
        queued.cancel()
        await asyncio.wait([queued])
        assert not waiting


async def test_who_waits_his_turn_can_still_write_to_the_run_before() -> None:
    """01 §6.4: the run that is live is meant; what comes too late for it is read by the next."""
    first, second = two()

    async with asyncio.TaskGroup() as group, first.busy():
        group.create_task(second.runtime.run("desk", "thanks", thread=T, when_busy="queue"))
        await asyncio.sleep(0)
        sent = await second.runtime.send(T, "and deeper")

    assert sent
    said = [message.text() for message in await first.runtime.messages(T)]
    assert said.count("and deeper") == 1


async def test_a_request_that_waits_does_not_outlive_its_runtime() -> None:
    """Design §8: closing ends what runs; what has not begun does not begin."""
    first, _ = two()

    async with first.busy():
        queued = asyncio.create_task(
            first.runtime.run("desk", "thanks", thread=T, when_busy="queue")
        )
        await asyncio.sleep(0)
        await first.runtime.close()
        await asyncio.wait([queued], timeout=1)

    assert queued.cancelled() or queued.exception() is not None
    assert "user: thanks" not in told(await first.runtime.messages(T))
