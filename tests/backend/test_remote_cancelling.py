"""Runs elsewhere that somebody stops, or leaves to the next process (02/B10, design §8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from remote_kit import (
    AGENT,
    BEGAN,
    HANDLE,
    RUN,
    Far,
    FarBackend,
    abilities,
    answer,
    beginning,
    build_record,
    finish,
    identity,
    open_store,
    save,
    state,
    wrap_events,
)

from awaken.backend import (
    BackendAbortRequest,
    BackendCapabilities,
    BackendRootRunRequest,
    BackendRunResult,
    ExecutionBackend,
    RemoteError,
)
from awaken.codec import Json
from awaken.core.aio.cancel import CancellationToken
from awaken.core.event import Error, StepEnd
from awaken.core.lifecycle import CANCELLED, NATURAL_END, RunStatus
from awaken.core.run import AgentRunResult
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.core.store.store import Store
from awaken.errors import RunLeft, StorageError
from awaken.stores.memory import MemoryStore
from awaken.testing import CommitFailure, FailingStore

pytestmark = pytest.mark.anyio

DONE, RUNNING = RunStatus.DONE, RunStatus.RUNNING


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(request.param, tmp_path) as store:
        yield store


class Endless(ExecutionBackend):
    """Starts something, saves what it is called, and never ends by itself."""

    def __init__(
        self,
        can: BackendCapabilities | None = None,
        *,
        saves: dict[str, Json] | None = None,
        end_fails: Exception | None = None,
        abort_fails: Exception | None = None,
    ) -> None:
        self._can = can or abilities()
        self._saves = saves
        self._end_fails, self._abort_fails = end_fails, abort_fails
        self.under_way, self.aborting = asyncio.Event(), asyncio.Event()
        self.let_go = asyncio.Event()
        self.steps: list[str] = []
        self.aborts: list[BackendAbortRequest] = []

    def capabilities(self) -> BackendCapabilities:
        return self._can

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        self.steps.append("started")
        try:
            if self._saves is not None:
                await save(request, self._saves)
            self.under_way.set()
            await self.let_go.wait()
            return answer("by itself")
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            self.steps.append("torn down")
            if self._end_fails is not None:
                raise self._end_fails from None
            raise

    async def abort(self, request: BackendAbortRequest) -> None:
        self.steps.append("aborted")
        self.aborts.append(request)
        self.aborting.set()
        if self._abort_fails is not None:
            raise self._abort_fails


async def cancel_and_wait(far: Far, backend: Endless, token: CancellationToken) -> AgentRunResult:
    """How a run ends whose token is cancelled as soon as it is under way."""
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        run = group.create_task(far.run(previous_state=state(conversation="c1")))
        await backend.under_way.wait()
        token.cancel()
    return run.result()


# -- cancelling -------------------------------------------------------------------------------


async def test_a_cancelled_run_is_torn_down_and_then_aborted_once(store: Store) -> None:
    """02/B10; design §8: cancel and join, then abort, with the saved handle."""
    backend = Endless(saves=HANDLE)
    far = Far(store, backend)

    result = await cancel_and_wait(far, backend, far.token)

    assert result == AgentRunResult(
        run_id=RUN, agent_id="far", response="", termination=CANCELLED, steps=0
    )
    assert backend.steps == ["started", "torn down", "aborted"]
    assert backend.aborts == [
        BackendAbortRequest(
            agent_id=AGENT,
            run_identity=identity(),
            parent=None,
            persisted_state=state(conversation="c1", **HANDLE),
            is_continuation=False,
        )
    ]
    assert far.sink.events() == wrap_events(
        *beginning(),
        StepEnd(),
        finish(CANCELLED, response="", status="cancelled", status_reason="cancelled"),
    )
    assert await far.record() == build_record(
        DONE, CANCELLED, revision=3, holding={"conversation": "c1", **HANDLE}
    )


@pytest.mark.parametrize("cooperative", [False, True])
async def test_a_backend_that_cannot_abort_is_not_asked_to(store: Store, cooperative: bool) -> None:
    """02/B10"""
    backend = Endless(abilities(abort=False, cooperative=cooperative))
    far = Far(store, backend)

    result = await cancel_and_wait(far, backend, far.token)

    assert result.termination == CANCELLED
    assert backend.steps == ["started", "torn down"]
    # One that takes the token ends by it; of the other nobody knows.
    left = None if cooperative else "its backend cannot stop it"
    record = build_record(DONE, CANCELLED, holding={"conversation": "c1"}, left=left)
    assert await far.record() == record


async def test_an_abort_that_fails_is_a_warning_and_on_record(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """02 §2.9 step 5, and the record says what may go on there."""
    backend = Endless(abort_fails=RemoteError("nobody answers"))
    far = Far(store, backend)

    result = await cancel_and_wait(far, backend, far.token)

    assert result.termination == CANCELLED
    assert (
        "non-local backend abort hook failed after cancellation (agent far, run run-1): "
        "remote error: nobody answers"
    ) in caplog.text
    record = await far.record()
    left = "it could not be stopped: nobody answers"
    assert record == build_record(DONE, CANCELLED, holding={"conversation": "c1"}, left=left)
    assert record.left_running is not None
    assert left in record.left_running


async def test_a_backend_that_fails_while_it_is_cut_short_is_aborted_all_the_same(
    store: Store,
) -> None:
    """What it raises then is no failure of the run, and the other side may still be at work."""
    backend = Endless(saves=HANDLE, end_fails=RemoteError("connection closed"))
    far = Far(store, backend)

    result = await cancel_and_wait(far, backend, far.token)

    assert result.termination == CANCELLED
    assert backend.steps == ["started", "torn down", "aborted"]


async def test_a_run_that_is_cancelled_before_it_starts_is_ended_without_being_asked(
    store: Store,
) -> None:
    """A run somebody else began may be at work there: it is aborted."""
    backend = Endless()
    far = Far(store, backend)
    far.token.cancel()

    await far.run(previous_state=state(**HANDLE), is_continuation=True)

    assert backend.steps == ["aborted"]
    (abort,) = backend.aborts
    assert (abort.persisted_state, abort.is_continuation) == (state(**HANDLE), True)
    assert await far.record() == build_record(DONE, CANCELLED, updated_at=BEGAN, holding=HANDLE)


async def test_an_answer_that_comes_with_the_cancel_does_not_count(store: Store) -> None:
    far = Far(store, FarBackend(answer()))

    async def work(request: BackendRootRunRequest) -> BackendRunResult:
        far.token.cancel()
        return answer("too late")

    far.backend = FarBackend(work)
    assert (await far.run()).termination == CANCELLED
    assert await far.texts() == ["user: hello"]


async def test_a_cancelled_run_keeps_the_handle_it_saved_last(store: Store) -> None:
    backend = Endless(saves=HANDLE)
    far = Far(store, backend)
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(far.run(previous_state=state(handle="task-0")))
        await backend.under_way.wait()
        far.token.cancel()
    assert await far.state() == HANDLE
    assert [abort.persisted_state for abort in backend.aborts] == [state(**HANDLE)]


class HeldStore(MemoryStore):
    """A store that does not get round to writing its second commit in time."""

    immediate = False

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()
        self._count = 0

    async def commit(self, commit: ThreadCommit) -> Committed:
        self._count += 1
        if self._count == 2:
            self.reached.set()
            await asyncio.Event().wait()
        return await super().commit(commit)


async def test_a_handle_that_is_being_saved_when_the_run_is_cancelled_is_not_lost() -> None:
    """The work is under way on the other side: who aborts it has to know its name."""
    store, backend = HeldStore(), Endless(saves=HANDLE)
    far = Far(store, backend)

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(far.run())
        await store.reached.wait()
        far.token.cancel()

    assert [abort.persisted_state for abort in backend.aborts] == [state(**HANDLE)]
    assert await far.state() == HANDLE


async def test_a_cancelled_run_whose_end_cannot_be_kept_is_aborted_all_the_same(
    store: Store,
) -> None:
    """design §8: the cancel that waits for it ends it when it is recovered."""
    backend = Endless()
    failing: Any = FailingStore(store, {2: CommitFailure.REFUSED})
    far = Far(failing, backend)
    far.token.cancel()

    with pytest.raises(StorageError, match="commit 2 was to fail"):
        await far.run()

    assert backend.steps == ["aborted"]
    assert [type(event) for event in far.events()[2:]] == [StepEnd, Error]
    assert await far.record() == build_record(RUNNING, revision=1, updated_at=BEGAN)


# -- being torn down --------------------------------------------------------------------------


async def test_a_run_whose_task_is_cancelled_ends_as_cancelled(store: Store) -> None:
    backend = Endless(saves=HANDLE)
    far = Far(store, backend)
    async with asyncio.timeout(100):
        run = asyncio.ensure_future(far.run())
        await backend.under_way.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    assert backend.steps == ["started", "torn down", "aborted"]
    assert await far.record() == build_record(DONE, CANCELLED, revision=3, holding=HANDLE)


async def test_a_run_that_is_torn_down_while_it_is_aborted_ends_as_cancelled(
    store: Store,
) -> None:
    """An abort that hangs keeps nobody from knowing that the run was cancelled."""

    class Stubborn(Endless):
        async def abort(self, request: BackendAbortRequest) -> None:
            await super().abort(request)
            await asyncio.Event().wait()

    backend = Stubborn()
    far = Far(store, backend)
    async with asyncio.timeout(100):
        run = asyncio.ensure_future(far.run())
        await backend.under_way.wait()
        far.token.cancel()
        await backend.aborting.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    left = "there was no time to wait for its end"
    assert await far.record() == build_record(DONE, CANCELLED, left=left)


# -- leaving ----------------------------------------------------------------------------------


async def test_a_run_that_is_left_stays_open_with_its_handle(store: Store) -> None:
    """design §8: whoever recovers it goes on with the same work; nothing is aborted."""
    backend = Endless(saves=HANDLE)
    far = Far(store, backend)

    with pytest.raises(ExceptionGroup) as raised:
        await cancel_and_wait(far, backend, far.leave)

    assert raised.group_contains(RunLeft, match="run 'run-1' was left")
    assert backend.steps == ["started", "torn down"]
    assert far.sink.events() == wrap_events(*beginning())
    assert await far.record() == build_record(
        RUNNING, revision=2, updated_at=BEGAN, holding={"conversation": "c1", **HANDLE}
    )


async def test_a_backend_that_fails_while_its_run_is_left_has_not_failed(store: Store) -> None:
    backend = Endless(end_fails=RemoteError("connection closed"))
    far = Far(store, backend)
    with pytest.raises(ExceptionGroup) as raised:
        await cancel_and_wait(far, backend, far.leave)
    assert raised.group_contains(RunLeft)
    assert (await far.record()).status is RUNNING


async def test_a_cancel_counts_more_than_being_left(store: Store) -> None:
    backend = Endless(saves=HANDLE)
    far = Far(store, backend)
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        run = group.create_task(far.run())
        await backend.under_way.wait()
        far.leave.cancel()
        far.token.cancel()

    assert run.result().termination == CANCELLED
    assert backend.steps == ["started", "torn down", "aborted"]


async def test_a_run_nobody_could_go_on_with_is_given_time_to_end(store: Store) -> None:
    backend = Endless(abilities(continuation=False))
    far = Far(store, backend)
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        run = group.create_task(far.run())
        await backend.under_way.wait()
        far.leave.cancel()
        await asyncio.sleep(0)
        backend.let_go.set()

    assert (run.result().termination, run.result().response) == (NATURAL_END, "by itself")
    assert (await far.record()).status is DONE


async def test_a_run_that_is_left_and_takes_too_long_stays_open(store: Store) -> None:
    """It is not cancelled: the next process finds it, and says that it was cut short."""
    backend = Endless(abilities(continuation=False))
    far = Far(store, backend)
    async with asyncio.timeout(100):
        run = asyncio.ensure_future(far.run())
        await backend.under_way.wait()
        far.leave.cancel()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    assert backend.steps == ["started", "torn down"]
    assert await far.record() == build_record(RUNNING, revision=1, updated_at=BEGAN)
