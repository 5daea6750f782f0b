"""Runs that are live: one a thread, found by id, steered from outside (01 §6.3, §6.4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from run_kit import record_of, results, told

from answer_kit import by_id
from awaken import Agent, Message, RunRequest, Runtime, ToolCallResume, tool
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import CANCELLED, NATURAL_END
from awaken.core.llm import InferenceRequest
from awaken.core.run import AgentRunResult
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.core.store.threads import ThreadContext
from awaken.errors import (
    InferenceFailed,
    InvalidResume,
    StaleFence,
    StorageError,
    ThreadAlreadyRunning,
)
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, ScriptedModel, text_response, tool_call_response

pytestmark = pytest.mark.anyio


class Slow:
    """An agent that, told to go, calls a tool that waits; other messages it simply answers."""

    def __init__(self, *, stubborn: bool = False, store: MemoryStore | None = None) -> None:
        self.started = asyncio.Event()
        self.go_on = asyncio.Event()
        self.asked: list[list[str]] = []

        @tool
        async def wait() -> str:
            """Wait."""
            self.started.set()
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                if not stubborn:
                    raise
                await self.go_on.wait()
            return "waited"

        agent = Agent("slow", model=FunctionModel(self._answer), tools=[wait])
        self.runtime = Runtime([agent], store=store or MemoryStore())
        self.engine = self.runtime.engine

    def _answer(self, request: InferenceRequest) -> StreamResult:
        self.asked.append(told(request.messages))
        if self.asked[-1][-1] == "user: go":
            return tool_call_response("", "wait", "c1", {})
        return text_response("done")

    def request(self, text: str, thread: str = "t", **fields: Any) -> RunRequest:
        return RunRequest(
            **{
                "thread_id": thread,
                "agent_id": "slow",
                "messages": (Message.user(text),),
                "wait_for_decisions": False,
                **fields,
            }
        )

    @asynccontextmanager
    async def running(
        self, thread: str = "t", **fields: Any
    ) -> AsyncIterator[asyncio.Task[AgentRunResult]]:
        """A run that is inside its tool; let go at the end of the block."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.engine.run(self.request("go", thread, **fields)))
            await self.started.wait()
            self.started.clear()
            try:
                yield task
            finally:
                self.go_on.set()


# -- one run a thread -------------------------------------------------------------------------


async def test_a_second_run_on_a_busy_thread_is_refused() -> None:
    """01/A-1: named, with the next move; the first goes on undisturbed, then the thread is free."""
    slow = Slow()

    async with slow.running() as task:
        with pytest.raises(ThreadAlreadyRunning, match=r"active run: t: .*cancel it") as busy:
            await slow.engine.run(slow.request("me too"))
        assert busy.value.thread_id == "t"
        assert len(slow.asked) == 1

    assert task.result().termination == NATURAL_END
    assert (await slow.engine.run(slow.request("again"))).response == "done"
    assert "user: me too" not in told(await slow.runtime.messages("t"))


async def test_a_second_run_of_a_live_run_id_is_refused() -> None:
    """01/A-1: though its thread is free, and stays free. A recorded run says so itself (A-4)."""
    store = SlowWrites()
    slow = Slow(store=store)

    async with asyncio.TaskGroup() as group:
        group.create_task(slow.engine.run(slow.request("hello", run_id_hint="r1")))
        await store.writing.wait()
        with pytest.raises(ThreadAlreadyRunning, match="active run: t"):
            await slow.engine.run(slow.request("hello", "other", run_id_hint="r1"))
        store.let_through.set()
    with pytest.raises(InvalidResume, match="'r1' already exists"):
        await slow.engine.run(slow.request("hello", "other", run_id_hint="r1"))

    assert (await slow.engine.run(slow.request("hello", "other"))).response == "done"


async def test_a_thread_is_free_after_an_error() -> None:
    """01/A-1."""
    runtime = Runtime([Agent("a", model=ScriptedModel([ValueError("no luck"), "fine"]))])

    with pytest.raises(InferenceFailed, match="no luck"):
        await runtime.run("a", "go", thread="t")
    assert (await runtime.run("a", "go", thread="t")).response == "fine"


async def test_a_thread_is_free_after_its_task_was_cancelled() -> None:
    """01/A-1, D-12: and the record says that it ended."""
    slow = Slow()
    task = asyncio.ensure_future(slow.engine.run(slow.request("go", run_id_hint="r1")))
    await slow.started.wait()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    record = await record_of(slow.runtime, "r1")
    assert (record.status.value, record.termination_reason) == ("done", CANCELLED)
    assert (await slow.engine.run(slow.request("hello"))).run_id != "r1"


# -- the slot before the reading --------------------------------------------------------------


class SlowWrites(MemoryStore):
    """Holds writers until they are let through."""

    def __init__(self) -> None:
        super().__init__()
        self.writing = asyncio.Event()
        self.let_through = asyncio.Event()

    async def commit(self, commit: ThreadCommit) -> Committed:
        self.writing.set()
        await self.let_through.wait()
        return await super().commit(commit)


class SlowReads(MemoryStore):
    """Holds readers of a thread until they are let through."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = asyncio.Event()
        self.let_through = asyncio.Event()

    async def load_context(
        self, thread_id: str, *, tail: int | None = None
    ) -> ThreadContext | None:
        self.reading.set()
        await self.let_through.wait()
        return await super().load_context(thread_id, tail=tail)


async def test_the_slot_is_taken_before_anything_is_read() -> None:
    """D-1: a request that comes while another one reads is refused, not let past."""
    store = SlowReads()
    runtime = Runtime([Agent("a", model=ScriptedModel(["one"]))], store=store)

    async with asyncio.TaskGroup() as group:
        first = group.create_task(runtime.run("a", "first", thread="t"))
        await store.reading.wait()
        with pytest.raises(ThreadAlreadyRunning):
            await runtime.run("a", "second", thread="t")
        store.let_through.set()

    assert first.result().response == "one"
    assert told(await runtime.messages("t")) == ["user: first", "assistant: one"]


async def test_nobody_else_writes_to_a_live_thread() -> None:
    """D-1, design §4: it is the run's; an outsider is refused, and the run goes on undisturbed."""
    store = MemoryStore()
    outside = ThreadCommit(
        thread_id="t", expected_length=1, messages=(Message.user("from outside"),)
    )

    async def answer(_: object) -> str:
        with pytest.raises(StaleFence):
            await store.commit(outside)
        return "in time"

    runtime = Runtime([Agent("a", model=FunctionModel(answer))], store=store)

    await runtime.run("a", "go", thread="t")

    assert told(await runtime.messages("t")) == ["user: go", "assistant: in time"]


async def test_a_run_whose_thread_was_taken_over_claims_nothing() -> None:
    """D-1, design §4: it is refused, says why, and what the other wrote stays."""
    store = MemoryStore()

    async def answer(_: object) -> str:
        store.forsake()
        fence = await store.claim("t", at_ms=1)
        outside = (Message.user("from outside"),)
        await store.commit(
            ThreadCommit(
                thread_id="t", expected_length=1, messages=outside, fence=fence, release=True
            )
        )
        return "too late"

    runtime = Runtime([Agent("a", model=FunctionModel(answer))], store=store)

    with pytest.raises(StorageError) as failed:
        await runtime.run("a", "go", thread="t")

    assert isinstance(failed.value.__cause__, StaleFence)
    assert told(await runtime.messages("t")) == ["user: go", "user: from outside"]


# -- finding and steering ---------------------------------------------------------------------


async def test_an_id_that_names_two_runs_is_refused() -> None:
    """01/A-2: a thread and another thread's run of the same name; by kind each is found."""
    slow = Slow()

    async with slow.running("t", run_id_hint="x") as of_run, slow.running("x") as of_thread:
        assert not slow.engine.cancel("x")
        assert not await slow.engine.send_messages("x", [Message.user("hello")])
        assert not await slow.engine.send_decision("x", "c1", ToolCallResume.approve())

        assert await slow.engine.cancel_and_wait_by_thread("x")
        assert (await of_thread).termination == CANCELLED
        assert slow.engine.cancel_by_run_id("x")

    assert of_run.result().termination == CANCELLED


async def test_the_front_door_does_not_guess_either() -> None:
    """01/A-2: neither of the two is cancelled or written to by an id that may mean both."""
    slow = Slow()

    async with slow.running("t", run_id_hint="x") as of_run, slow.running("x") as of_thread:
        assert not await slow.runtime.cancel("x")
        assert not await slow.runtime.send("x", "hello")
        with pytest.raises(InvalidResume, match="'x'"):
            await slow.runtime.decide("x", await by_id(slow.runtime, {"c1": True}))

    assert of_run.result().termination == of_thread.result().termination == NATURAL_END


async def test_an_id_that_names_one_run_twice_is_fine() -> None:
    """01/A-2: a run named like its thread."""
    slow = Slow()

    async with slow.running("x", run_id_hint="x") as task:
        assert slow.engine.cancel("x")

    assert task.result().termination == CANCELLED


async def test_an_unknown_id_steers_nothing() -> None:
    """01 §6.4: all of them answer false."""
    engine = Slow().engine

    assert not engine.cancel("ghost")
    assert not engine.cancel_by_thread("ghost")
    assert not engine.cancel_by_run_id("ghost")
    assert not await engine.send_messages("ghost", [Message.user("hello")])
    assert not await engine.send_decision("ghost", "c1", ToolCallResume.approve())
    assert not await engine.send_decisions("ghost", [("c1", ToolCallResume.approve())])
    assert not await engine.cancel_and_wait_by_thread("ghost")


async def test_cancelling_and_waiting_is_true_only_once_the_slot_is_free() -> None:
    """01/A-3: false for a run that will not end, true after its release."""
    slow = Slow(stubborn=True)

    async with slow.running() as task:
        assert not await slow.engine.cancel_and_wait_by_thread("t", timeout=0)
        slow.go_on.set()
        assert await slow.engine.cancel_and_wait_by_thread("t")
        assert (await slow.engine.run(slow.request("hello"))).response == "done"

    assert task.result().termination == CANCELLED


async def test_a_cancelled_run_answers_its_open_call_and_closes_its_record() -> None:
    """01 §6.4, D-12: whatever was under way has an end."""
    slow = Slow()

    async with slow.running(run_id_hint="r1") as task:
        assert await slow.engine.cancel_and_wait_by_thread("t")

    assert task.result().termination == CANCELLED
    answers = results(await slow.runtime.messages("t"))
    assert answers["c1"].startswith("Cancelled: the run was cancelled; it is unknown whether")
    record = await record_of(slow.runtime, "r1")
    assert (record.status.value, record.waiting) == ("done", None)
    assert len(slow.asked) == 1


async def test_a_message_to_a_live_run_is_read_at_its_next_step() -> None:
    """01 §6.4: by thread or by run id; no messages are nothing."""
    slow = Slow()

    async with slow.running(run_id_hint="r1"):
        assert not await slow.engine.send_messages("t", [])
        assert await slow.engine.send_messages("t", [Message.user("by thread")])
        assert await slow.engine.send_messages("r1", [Message.user("by run")])

    assert slow.asked[1][-2:] == ["user: by thread", "user: by run"]
    assert not await slow.engine.send_messages("t", [Message.user("too late")])


async def test_a_run_that_does_not_wait_takes_no_decisions() -> None:
    """01 §6.4: nothing waits for one, and the sender is told."""
    slow = Slow()

    async with slow.running():
        assert not await slow.engine.send_decision("t", "c1", ToolCallResume.approve())
        assert not await slow.engine.send_decisions("t", [])
        with pytest.raises(InvalidResume, match="c1"):
            await slow.runtime.decide("t", await by_id(slow.runtime, {"c1": True}))
