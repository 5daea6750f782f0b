"""A node that has lost its lease starts no effects, and leaves its runs (06 §2.7)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from awaken import Agent, Runtime, tool
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import NATURAL_END, RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.store.commits import Committed, Fence, Lease, ThreadCommit
from awaken.errors import LeaseLost, RunLeft, StaleFence
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, text_response, tool_calls_response

pytestmark = pytest.mark.anyio

T = "t"
PATIENCE = 100


class Losable:
    """A lease that is lost and regained when the test says so."""

    seconds_left = 3.0
    poll_interval = 5.0
    can_claim = True

    def __init__(self) -> None:
        self.held = True
        self.waiting, self.back = asyncio.Event(), asyncio.Event()
        self.too_long = False
        self.callbacks: list[Callable[[Fence], None]] = []

    async def has_work(self, *, at_ms: int, overdue_ms: int) -> bool:
        return True

    async def wait_held(self) -> None:
        self.waiting.set()
        await self.back.wait()
        if self.too_long:
            raise LeaseLost("node-1", 30)

    def add_lost_callback(self, callback: Callable[[Fence], None]) -> None:
        self.callbacks.append(callback)


class LosingStore(MemoryStore):
    """A store whose lease can be lost; it keeps its commits."""

    def __init__(self) -> None:
        super().__init__()
        self.losable = Losable()
        self.lease: Lease = self.losable
        self.commits: list[ThreadCommit] = []

    async def commit(self, commit: ThreadCommit) -> Committed:
        made = await super().commit(commit)
        self.commits.append(commit)
        return made


class Work:
    """An agent that looks, then pays, then says so. `during_look` is what happens as it looks."""

    def __init__(self, calls: Sequence[Sequence[str]] = (("look",), ("pay",))) -> None:
        self.store, self.calls = LosingStore(), calls
        self.looking, self.looked = asyncio.Event(), asyncio.Event()
        self.paid = self.asked = 0

        @tool(effect="read")
        async def look() -> str:
            """Look."""
            self.looking.set()
            await self.looked.wait()
            return "seen"

        @tool
        async def pay() -> str:
            """Pay."""
            self.paid += 1
            return "paid"

        self.agent = Agent("a", model=FunctionModel(self.answer), tools=[look, pay])

    def answer(self, request: InferenceRequest) -> StreamResult:
        self.asked += 1
        turn = sum(message.tool_calls is not None for message in request.messages)
        if turn == len(self.calls):
            return text_response("done")
        return tool_calls_response("", *((name, f"{turn}{name}", {}) for name in self.calls[turn]))

    def runtime(self, **more: Any) -> Runtime:
        return Runtime([self.agent], store=self.store, **more)

    async def recovered(self) -> None:
        """Another process carries the run on, once, to its end."""
        self.store.losable.held = True
        self.store.forsake()
        self.looked.set()
        async with self.runtime() as other:
            result = await other.wait(T, timeout=PATIENCE)
        assert result.termination == NATURAL_END
        assert self.paid == 1


async def test_a_run_without_a_lease_asks_no_model_and_is_left_when_that_takes_too_long() -> None:
    """06/SV-11"""
    work = Work()
    lease, runtime = work.store.losable, work.runtime(recover=False)
    async with asyncio.timeout(PATIENCE):
        run = asyncio.ensure_future(runtime.run("a", "go", thread=T))
        await work.looking.wait()
        lease.held = False
        work.looked.set()
        await lease.waiting.wait()
        made, asked = len(work.store.commits), work.asked
        lease.too_long = True
        lease.back.set()
        with pytest.raises(RunLeft):
            await run
    assert (work.asked, work.paid) == (asked, 0)
    assert len(work.store.commits) == made
    left = await work.store.latest_run(T)
    assert left is not None
    assert left.status is RunStatus.RUNNING
    await work.recovered()


async def test_a_run_that_regains_its_lease_goes_on() -> None:
    work = Work()
    lease, runtime = work.store.losable, work.runtime(recover=False)
    async with asyncio.timeout(PATIENCE):
        run = asyncio.ensure_future(runtime.run("a", "go", thread=T))
        await work.looking.wait()
        lease.held = False
        work.looked.set()
        await lease.waiting.wait()
        lease.held = True
        lease.back.set()
        assert (await run).response == "done"
    assert work.paid == 1


async def test_no_call_starts_without_a_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """06/SV-11: it is lost as the model answers; the call has no intent, and is made elsewhere."""
    work = Work([("pay",)])
    lease, runtime = work.store.losable, work.runtime(recover=False)
    answer = work.answer

    def answer_and_lose(request: InferenceRequest) -> StreamResult:
        lease.held = False
        return answer(request)

    runtime = Runtime(
        [Agent("a", model=FunctionModel(answer_and_lose), tools=work.agent.tools)],
        store=work.store,
        recover=False,
    )
    async with asyncio.timeout(PATIENCE):
        run = asyncio.ensure_future(runtime.run("a", "go", thread=T))
        await lease.waiting.wait()
        lease.too_long = True
        lease.back.set()
        with pytest.raises(RunLeft):
            await run
    assert work.paid == 0
    await work.recovered()


async def test_a_run_whose_thread_another_node_has_is_left_at_once() -> None:
    """06/SV-11: its next commit would have been refused."""
    work = Work()
    store, runtime = work.store, work.runtime(recover=False)
    async with asyncio.timeout(PATIENCE):
        run = asyncio.ensure_future(runtime.run("a", "go", thread=T))
        await work.looking.wait()
        live = runtime.engine.active.find(T)
        assert live is not None
        fence = live.fence
        assert fence is not None
        made = len(store.commits)
        store.forsake()
        taken = await store.claim(T, at_ms=1)
        for callback in store.losable.callbacks:
            callback(fence)
        with pytest.raises(RunLeft):
            await run
        assert len(store.commits) == made
        thread = await store.load_thread(T)
        assert thread is not None
        late = ThreadCommit(thread_id=T, expected_length=thread.message_count, fence=fence)
        with pytest.raises(StaleFence):
            await store.commit(late)
        await store.release(taken)
    assert not runtime.engine.active
    await work.recovered()
