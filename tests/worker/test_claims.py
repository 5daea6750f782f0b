"""Threads that this process owns: releases that fail, and what is owned without a run."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, Runtime, tool
from awaken.core.event import RunFinish, RunStart
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.run import RunRecord, Takeovers
from awaken.core.store.commits import Committed, Fence, ThreadCommit, has_outcomes
from awaken.errors import StorageError, StoreUnavailable, ThreadOwned
from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FakeClock, FunctionModel, text_response, tool_call_response
from awaken.testing.conformance.helpers import MAX_WAIT_SECONDS, record, write
from awaken.worker.claims import COMPARE_SECONDS, ClaimUse

pytestmark = pytest.mark.anyio

T = "t"


class Pausing(MemoryStore):
    """A store that refuses what it is told to, and can stop in the middle of an operation.

    `pauses_at` names the operation that stops, after it was done; `reached` is set there, and
    `go_on` lets it end. `looks` counts how often its claims were listed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.refuses: Callable[[ThreadCommit], bool] = lambda commit: False
        self.refused_releases = 0
        self.releases = 0
        self.loses_claims = False
        self.pauses_at = ""
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        self.looks = 0

    async def _pause(self, at: str) -> None:
        if self.pauses_at == at:
            self.reached.set()
            await self.go_on.wait()

    async def commit(self, commit: ThreadCommit) -> Committed:
        if self.refuses(commit):
            raise StoreUnavailable("not now")
        committed = await super().commit(commit)
        await self._pause("commit")
        return committed

    async def claim(self, thread_id: str, *, at_ms: int) -> Fence:
        fence = await super().claim(thread_id, at_ms=at_ms)
        if self.loses_claims:
            raise StoreUnavailable("the answer was lost")
        await self._pause("claim")
        return fence

    async def claim_next(self, *parts: Any, **options: Any) -> Sequence[tuple[Fence, RunRecord]]:
        at, self.pauses_at = self.pauses_at, ""
        claimed = await super().claim_next(*parts, **options)
        self.pauses_at = at
        if claimed:
            await self._pause("claim_next")
        return claimed

    async def release(self, fence: Fence) -> None:
        self.releases += 1
        if self.refused_releases:
            self.refused_releases -= 1
            raise StoreUnavailable("not now")
        await super().release(fence)

    async def list_claims(self) -> Sequence[Fence]:
        self.looks += 1
        return await super().list_claims()


async def compare(clock: FakeClock, store: Pausing, times: int) -> None:
    """Let the claims be compared with the store so often, and once more begin to be: then the
    comparisons before that one have ended."""
    for _ in range(times + 1):
        seen = store.looks
        async with asyncio.timeout(MAX_WAIT_SECONDS):
            while store.looks == seen:
                clock.advance(COMPARE_SECONDS + 1)
                await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(MAX_WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def shop(model: Callable[[InferenceRequest], StreamResult] | None = None) -> Agent:
    @tool
    async def charge() -> str:
        """Charge."""
        return "charged"

    def answer(request: InferenceRequest) -> StreamResult:
        if any(message.role is Role.TOOL for message in request.messages):
            return text_response("Done.")
        return tool_call_response("", "charge", "c1", {})

    return Agent("shop", model=FunctionModel(model or answer), tools=[charge])


@asynccontextmanager
async def opened(
    store: Pausing, *agents: Agent, recover: bool = False
) -> AsyncIterator[tuple[Runtime, FakeClock]]:
    clock = FakeClock()
    async with Runtime(agents or [shop()], store=store, clock=clock, recover=recover) as runtime:
        yield runtime, clock


# -- releases ---------------------------------------------------------------------------------


async def test_a_release_that_is_refused_is_tried_again_after_growing_pauses() -> None:
    store = Pausing()
    store.refuses = lambda commit: True
    store.refused_releases = 3
    async with opened(store) as (runtime, clock):
        with pytest.raises(StorageError):
            await runtime.run("shop", "Go!", thread=T)
        claims = runtime.engine.claims
        assert claims.by_use()[ClaimUse.RELEASING] == 1
        for attempt, pause in enumerate((1, 2, 4), start=1):
            clock.advance(pause - 0.1)
            await asyncio.sleep(0.01)
            assert store.releases == attempt, "the pause is not over"
            clock.advance(0.1)
            await until(lambda attempt=attempt: store.releases == attempt + 1)  # type: ignore[misc]
        await until(lambda: not claims.all())
        assert await store.list_claims() == []


async def test_a_thread_whose_release_was_refused_takes_the_next_request_at_once() -> None:
    store = Pausing()
    store.refuses = lambda commit: True
    store.refused_releases = 1
    async with opened(store) as (runtime, _):
        with pytest.raises(StorageError):
            await runtime.run("shop", "Go!", thread=T)
        store.refuses = lambda commit: False
        result = await runtime.run("shop", "And now?", thread=T)
        assert result.response == "Done."
        assert await store.list_claims() == []


async def test_a_run_is_recovered_when_its_thread_is_released_at_last() -> None:
    """The store refuses the answer of the model, so the run is left open; then the release."""
    store = Pausing()
    asked = 0

    def answer(request: InferenceRequest) -> StreamResult:
        nonlocal asked
        asked += 1
        return text_response("Done.")

    async with opened(store, shop(answer), recover=True) as (runtime, clock):
        store.refuses = lambda commit: any(m.role is Role.ASSISTANT for m in commit.messages)
        store.refused_releases = 2
        submitted = await runtime.submit("shop", "Go!", thread=T)
        await until(lambda: store.refused_releases == 1)
        store.refuses = lambda commit: False
        waiting = asyncio.ensure_future(runtime.wait(submitted.run_id))
        async with asyncio.timeout(MAX_WAIT_SECONDS):
            while not waiting.done():
                clock.advance(1)
                await asyncio.sleep(0.01)
        assert (await waiting).response == "Done."


class FullDisk(SqliteStore):
    """A store whose disk is full from its first commit until `free`: the log takes no byte more."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, busy_timeout=0.05)
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    async def commit(self, commit: ThreadCommit) -> Committed:
        self.fill()
        return await super().commit(commit)

    def fill(self) -> None:
        size = os.path.getsize(f"{self.path}-wal")
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, self._limits[1]))

    def free(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)


async def test_a_run_whose_first_commit_meets_a_full_disk_leaves_its_thread_to_others(
    tmp_path: Path,
) -> None:
    """Once the disk has room again: nothing else happens in this process meanwhile."""
    clock, path = FakeClock(), tmp_path / "awaken.db"
    store, other = FullDisk(path), SqliteStore(path)
    async with Runtime([shop()], store=store, clock=clock, recover=False) as runtime:
        try:
            with pytest.raises(StorageError, match=r"no space|disk"):
                await runtime.run("shop", "Go!", thread=T)
            claims = runtime.engine.claims
            assert claims.by_use()[ClaimUse.RELEASING] == 1
            with pytest.raises(ThreadOwned):
                await other.claim(T, at_ms=1)
        finally:
            store.free()
        clock.advance(1)
        await until(lambda: not claims.all())
        await other.claim(T, at_ms=1)
    await other.close()
    await store.close()


async def test_a_runtime_that_closes_tries_a_refused_release_again() -> None:
    store = Pausing()
    store.refuses = lambda commit: True
    store.refused_releases = 3
    async with opened(store) as (runtime, _):
        with pytest.raises(StorageError):
            await runtime.run("shop", "Go!", thread=T)
    assert await store.list_claims() == []


# -- comparing --------------------------------------------------------------------------------


async def test_a_thread_that_is_owned_without_a_run_is_released_after_two_comparisons(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Pausing()
    store.loses_claims = True
    async with opened(store) as (runtime, clock):
        with pytest.raises(StoreUnavailable):
            await runtime.run("shop", "Go!", thread=T)
        store.loses_claims = False
        await compare(clock, store, 0)
        assert len(await store.list_claims()) == 1, "it was seen once"
        await compare(clock, store, 0)
        await until(lambda: not runtime.engine.claims.all())
        assert await store.list_claims() == []
        assert runtime.engine.claims.mended == 1
        assert "thread t is owned by this process" in caplog.text
        assert (await runtime.run("shop", "And now?", thread=T)).response == "Done."


async def test_two_claims_of_a_thread_that_are_each_seen_once_are_left_alone() -> None:
    store = Pausing()
    async with opened(store) as (runtime, clock):
        await runtime.run("shop", "Go!", thread="other")  # from now on it compares
        for _ in range(3):
            fence = await store.claim(T, at_ms=1)
            seen = store.looks
            async with asyncio.timeout(MAX_WAIT_SECONDS):
                while store.looks == seen:
                    clock.advance(COMPARE_SECONDS + 1)
                    await asyncio.sleep(0)
            await asyncio.sleep(0)
            await MemoryStore.release(store, fence)
        assert runtime.engine.claims.mended == 0


async def test_runtimes_that_share_a_store_leave_each_others_threads_alone() -> None:
    store, going = Pausing(), asyncio.Event()

    @tool
    async def charge() -> str:
        """Charge."""
        await going.wait()
        return "charged"

    slow = Agent("slow", model=shop().model, tools=[charge])
    async with opened(store, slow) as (one, _), opened(store, slow) as (two, clock):
        first = asyncio.ensure_future(one.run("slow", "Go!", thread=T))
        second = asyncio.ensure_future(two.run("slow", "Go!", thread="other"))
        await compare(clock, store, 3)
        assert two.engine.claims.mended == 0
        assert len(await store.list_claims()) == 2
        going.set()
        assert [(await running).response for running in (first, second)] == ["Done.", "Done."]


async def test_a_thread_of_the_same_name_in_another_store_hides_no_claim() -> None:
    store, other, going = Pausing(), Pausing(), asyncio.Event()

    @tool
    async def charge() -> str:
        """Charge."""
        await going.wait()
        return "charged"

    slow = Agent("slow", model=shop().model, tools=[charge])
    async with opened(other, slow) as (elsewhere, _), opened(store) as (runtime, clock):
        running = asyncio.ensure_future(elsewhere.run("slow", "Go!", thread=T))
        await until(lambda: elsewhere.engine.claims.by_use()[ClaimUse.LIVE] == 1)
        store.loses_claims = True
        with pytest.raises(StoreUnavailable):
            await runtime.run("shop", "Go!", thread=T)
        await compare(clock, store, 1)
        await until(lambda: not runtime.engine.claims.all())
        assert runtime.engine.claims.mended == 1
        going.set()
        assert (await running).response == "Done."


# -- at the worst places ----------------------------------------------------------------------


async def test_a_claim_that_the_store_has_made_and_not_answered_is_left_alone() -> None:
    store = Pausing()
    store.pauses_at = "claim"
    async with opened(store) as (runtime, clock):
        running = asyncio.ensure_future(runtime.run("shop", "Go!", thread=T))
        await store.reached.wait()
        await compare(clock, store, 3)
        store.pauses_at = ""
        store.go_on.set()
        assert (await running).response == "Done."
        assert runtime.engine.claims.mended == 0


async def test_a_search_that_has_claimed_and_not_answered_is_left_alone() -> None:
    store = Pausing()
    async with opened(store, recover=True) as (runtime, clock):
        await runtime.run("shop", "Go!", thread="other")  # from now on it compares
        store.pauses_at = "claim_next"
        submitted = await runtime.submit("shop", "Go!", thread=T)
        await store.reached.wait()
        await compare(clock, store, 3)
        store.pauses_at = ""
        store.go_on.set()
        assert (await runtime.wait(submitted.run_id)).response == "Done."
        assert runtime.engine.claims.mended == 0


async def test_a_run_that_waits_for_its_turn_keeps_its_thread() -> None:
    """A suspect is claimed when its turn comes; the one after it waits meanwhile."""
    store = Pausing()
    for number, name in enumerate(("a", "b")):
        suspect = record(f"r-{name}", name, takeovers=Takeovers(times=3, beneath=0, levels=0))
        await write(store, name, run=suspect, at_ms=number + 1)

    def answer(request: InferenceRequest) -> StreamResult:
        return text_response("Done.")

    agent = Agent("agent", model=FunctionModel(answer))
    store.pauses_at = "claim"
    async with opened(store, agent, recover=True) as (runtime, clock):
        await store.reached.wait()
        await compare(clock, store, 3)
        store.pauses_at = ""
        store.go_on.set()
        for name in ("a", "b"):
            assert (await runtime.wait(f"r-{name}")).response == "Done."
        assert runtime.engine.claims.mended == 0


async def test_a_runtime_that_closes_without_its_commits_gives_the_thread_to_others() -> None:
    """The store is shared with others, so it stays open."""
    store = Pausing()
    store.refuses = lambda commit: has_outcomes(commit.calls)
    clock = FakeClock(auto=True)
    async with Runtime([shop()], store=store, clock=clock, recover=False) as runtime:
        with pytest.raises(StorageError):
            await runtime.run("shop", "Go!", thread=T)
    assert await store.list_claims() == []


async def test_a_thread_with_pending_commits_is_not_released_before_them() -> None:
    store = Pausing()
    store.refuses = lambda commit: has_outcomes(commit.calls)
    async with Runtime(
        [shop()], store=store, clock=(clock := FakeClock(auto=True)), recover=False
    ) as runtime:
        with pytest.raises(StorageError):
            await runtime.run("shop", "Go!", thread=T)
        claims = runtime.engine.claims
        assert claims.by_use()[ClaimUse.PENDING_COMMITS] == 1
        await compare(clock, store, 3)
        assert claims.mended == 0
        assert len(await store.list_claims()) == 1
        store.refuses = lambda commit: False
        store.pauses_at = "commit"
        asking = asyncio.ensure_future(runtime.run("shop", "And now?", thread=T))
        await store.reached.wait()  # its commits are made, and it is not released yet
        await compare(clock, store, 3)
        assert claims.mended == 0
        store.pauses_at = ""
        store.go_on.set()
        assert (await asking).response == "Done."


async def test_a_thread_keeps_its_owner_while_the_end_of_a_cancelled_submission_is_written() -> (
    None
):
    """A release that is refused then is tried again, as any other."""
    store = Pausing()
    async with opened(store) as (runtime, clock):
        await runtime.run("shop", "Go!", thread="other")  # from now on it compares
        submitted = await runtime.submit("shop", "Go!", thread=T)
        store.pauses_at = "claim"
        cancelling = asyncio.ensure_future(runtime.cancel(submitted.run_id))
        await store.reached.wait()
        await compare(clock, store, 3)
        assert runtime.engine.claims.mended == 0
        store.refused_releases, store.pauses_at = 1, ""
        store.go_on.set()
        assert (await cancelling).accepted
        assert runtime.engine.claims.by_use()[ClaimUse.RELEASING] == 1
        clock.advance(1)
        await until(lambda: not runtime.engine.claims.all())
        assert await store.list_claims() == []
        told = [type(event.event) for event in await store.load_events(T)]
        assert told == [RunStart, RunFinish]


@pytest.mark.parametrize("place", ["claim", "commit"])
async def test_a_task_that_is_being_started_keeps_its_thread(place: str) -> None:
    store, going = Pausing(), asyncio.Event()

    @tool
    async def dig() -> str:
        """Dig."""
        await going.wait()
        return "found gold"

    def answer(request: InferenceRequest) -> StreamResult:
        if any(message.role is Role.TOOL for message in request.messages):
            return text_response("Done.")
        store.pauses_at = place
        return tool_call_response("", "dig", "c1", {})

    digger = Agent("digger", model=FunctionModel(answer), background=[dig])
    async with opened(store, digger) as (runtime, clock):
        running = asyncio.ensure_future(runtime.run("digger", "Go!", thread=T))
        await store.reached.wait()
        await compare(clock, store, 3)
        store.pauses_at = ""
        store.go_on.set()
        await until(lambda: runtime.engine.claims.by_use()[ClaimUse.TASK] == 1)
        await compare(clock, store, 3)
        going.set()
        await running
        assert runtime.engine.claims.mended == 0
