"""Runs elsewhere that fail: the backend, what it answers, or the store (02 §2.9, design §8)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from backend_requests import root_request
from remote_kit import (
    BEGAN,
    HANDLE,
    THREAD,
    Answer,
    Far,
    FarBackend,
    abilities,
    answer,
    beginning,
    build_record,
    finish,
    open_store,
    save,
    wrap_events,
)

from awaken.backend import (
    BackendAgentNotFound,
    BackendLoopError,
    BackendRootRunRequest,
    BackendRunOutput,
    BackendRunResult,
    BackendRunStatus,
    ExecutionFailed,
    RemoteError,
    execute_remote_root_lifecycle,
)
from awaken.core.aio.cancel import CancellationToken
from awaken.core.event import CollectingSink, Error, StepEnd, TextDelta
from awaken.core.lifecycle import NATURAL_END, Failed, RunStatus
from awaken.core.run import PersistedState
from awaken.core.spec import AgentSpec
from awaken.core.store.store import Store
from awaken.errors import (
    Cancelled,
    InferenceFailed,
    ResolveFailed,
    RuntimeFault,
    StorageError,
    StoreUnavailable,
)
from awaken.plugin.resolved_agent import ResolvedBackendAgent
from awaken.stores.memory import MemoryStore
from awaken.testing import CommitFailure, FailingStore

pytestmark = pytest.mark.anyio

DONE, RUNNING = RunStatus.DONE, RunStatus.RUNNING
REFUSED = CommitFailure.REFUSED


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(request.param, tmp_path) as store:
        yield store


# -- the backend ------------------------------------------------------------------------------

ERRORS = [
    (BackendAgentNotFound("nobody there"), "nobody there"),
    (ExecutionFailed("it would not start"), "it would not start"),
    (RemoteError("it broke"), "it broke"),
    (BackendLoopError(InferenceFailed("no model")), "inference failed: no model"),
    (ResolveFailed("an error of ours"), "an error of ours"),
    (StorageError("a store of its own"), "storage failed: a store of its own"),
    (ValueError("a bug"), "ValueError: a bug"),
    (AssertionError(), "AssertionError"),
    (Cancelled(), "cancelled"),
]


@pytest.mark.parametrize(("error", "message"), ERRORS, ids=[type(e).__name__ for e, _ in ERRORS])
async def test_a_backend_that_raises_ends_its_run_as_failed(
    store: Store, error: Exception, message: str
) -> None:
    """02 §2.9 step 4: the bare text, without the words that say of what kind it is."""
    far = Far(store, FarBackend(error))

    result = await far.run()

    end = Failed(value=message)
    assert (result.termination, result.response, result.steps) == (end, "", 0)
    assert far.sink.events() == wrap_events(
        *beginning(),
        StepEnd(),
        finish(end, response="", status="failed", status_reason="error"),
    )
    assert await far.record() == build_record(DONE, end)


async def test_a_foreign_error_is_logged_with_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    await Far(None, FarBackend(ValueError("a bug"))).run()
    (logged,) = [record for record in caplog.records if record.name == "awaken.backend"]
    assert logged.getMessage() == "backend of agent 'far' failed"
    assert logged.exc_info is not None
    assert isinstance(logged.exc_info[1], ValueError)


async def test_half_characters_in_an_error_keep_no_run_from_ending(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """File names may hold them; what is logged of this one could not be passed on by pytest."""
    caplog.set_level(logging.CRITICAL, logger="awaken.backend")
    far = Far(store, FarBackend(OSError("cannot open b\udce9.txt")))
    await far.run()
    assert await far.record() == build_record(
        DONE, Failed(value="OSError: cannot open b\ufffd.txt")
    )


async def test_a_backend_that_cancels_itself_has_failed(store: Store) -> None:
    async def work(request: BackendRootRunRequest) -> BackendRunResult:
        gone: asyncio.Future[BackendRunResult] = asyncio.get_running_loop().create_future()
        gone.cancel()
        return await gone

    far = Far(store, FarBackend(work))
    await far.run()
    assert await far.record() == build_record(DONE, Failed(value="CancelledError"))


async def test_a_backend_that_answers_with_something_else_has_failed(store: Store) -> None:
    async def work(request: BackendRootRunRequest) -> Any:
        return {"response": "hello"}

    far = Far(store, FarBackend(work))
    await far.run()
    why = "the backend answered with dict, not with a BackendRunResult"
    assert await far.record() == build_record(DONE, Failed(value=why))


# -- what may go on there ---------------------------------------------------------------------


def breaks_off(error: Exception, *, saves: bool = True) -> Answer:
    """Begins its work on the other side, and cannot be heard of any more."""

    async def work(request: BackendRootRunRequest) -> BackendRunResult:
        if saves:
            await save(request)
        raise error

    return work


AWAY = RemoteError("the connection was lost")


@pytest.mark.parametrize("error", [AWAY, ExecutionFailed("odd"), ValueError("a bug")])
async def test_what_is_on_record_is_stopped_before_its_run_ends_as_failed(
    store: Store, error: Exception
) -> None:
    """Nobody follows the work any more: it has no owner."""
    backend = FarBackend(breaks_off(error))
    far = Far(store, backend)

    await far.run()

    (abort,) = backend.aborts
    assert abort.persisted_state == PersistedState(extensions=HANDLE)
    assert (await far.record()).left_running is None


async def test_work_that_cannot_be_stopped_is_on_record_with_its_failure(store: Store) -> None:
    unheard = RemoteError("task 'task-1' was not cancelled: no answer")
    far = Far(store, FarBackend(breaks_off(AWAY), abort_fails=unheard))

    await far.run()

    left = "it could not be stopped: task 'task-1' was not cancelled: no answer"
    end = Failed(value="the connection was lost")
    assert await far.record() == build_record(DONE, end, revision=3, holding=HANDLE, left=left)


async def test_work_whose_backend_cannot_stop_it_is_on_record_with_its_failure(
    store: Store,
) -> None:
    far = Far(store, FarBackend(breaks_off(AWAY), can=abilities(abort=False)))
    await far.run()
    left = (await far.record()).left_running
    assert left is not None
    assert left.endswith("its backend cannot stop it")


@pytest.mark.parametrize(
    ("error", "saves"),
    [
        (RemoteError("the job is gone", is_over=True), True),
        (ExecutionFailed("there is nothing to send"), False),
        (BackendAgentNotFound("nobody of that name"), False),
    ],
)
@pytest.mark.parametrize("can_abort", [True, False])
async def test_nothing_is_left_where_the_failure_says_so(
    store: Store, error: Exception, saves: bool, can_abort: bool
) -> None:
    backend = FarBackend(breaks_off(error, saves=saves), can=abilities(abort=can_abort))
    far = Far(store, backend)

    await far.run()

    assert backend.aborts == []
    assert (await far.record()).left_running is None


async def test_work_is_not_stopped_if_its_end_cannot_be_kept(store: Store) -> None:
    """The run stays open, and perhaps somebody else has it by now: whoever goes on with it sees to
    its work."""
    backend = FarBackend(breaks_off(AWAY))
    failing: Any = FailingStore(store, {2: REFUSED})
    far = Far(failing, backend)

    with pytest.raises(StorageError, match="commit 2 was to fail"):
        await far.run()

    assert backend.aborts == []
    assert (await far.record()).status is RUNNING


# -- what it answers --------------------------------------------------------------------------


class NoJson:
    def __repr__(self) -> str:
        return "<no json>"


UNKEEPABLE = [
    answer("well", output=BackendRunOutput(raw=NoJson())),
    answer("well", state=PersistedState(extensions={"socket": NoJson()})),
]


@pytest.mark.parametrize("result", UNKEEPABLE, ids=["output", "state"])
async def test_an_answer_that_cannot_be_kept_ends_the_run_as_failed(
    store: Store, result: BackendRunResult
) -> None:
    """Every run that started ends; what was said to listeners stays in the log."""
    far = Far(store, FarBackend(result))

    await far.run()

    why = "what the agent answered cannot be kept: TypeError: NoJson cannot be written as JSON"
    end = (await far.record()).termination_reason
    assert end == Failed(value=f"{why}: <no json>")
    record = build_record(DONE, end, final_output="well", output=(2, 2))
    assert await far.record() == record
    assert await far.texts() == ["user: hello", "assistant: well"]
    kinds = ["RunStart", "StepStart", "TextDelta", "InferenceComplete", "StepEnd", "RunFinish"]
    assert [type(event).__name__ for event in far.events()] == kinds


async def test_words_no_store_can_write_end_the_run_as_failed(tmp_path: Path) -> None:
    async with open_store("sqlite", tmp_path) as store:
        result = answer("well", termination=Failed(value="half \ud83d"))
        far = Far(store, FarBackend(result))
        await far.run()
        end = (await far.record()).termination_reason
        assert isinstance(end, Failed)
        assert end.value.startswith("what the agent answered cannot be kept: storage failed:")
        assert await far.record() == build_record(
            DONE, end, final_output="well", output=(2, 2), revision=3
        )


async def test_a_value_that_cannot_be_saved_is_refused_and_the_run_can_go_on(
    store: Store,
) -> None:
    async def work(request: BackendRootRunRequest) -> BackendRunResult:
        with pytest.raises(TypeError, match="NoJson cannot be written as JSON"):
            await save(request, {"socket": NoJson()})
        await save(request)
        return answer()

    far = Far(store, FarBackend(work))
    await far.run()
    assert await far.record() == build_record(DONE, NATURAL_END, revision=3, holding=HANDLE)


async def test_nothing_is_saved_once_the_backend_is_done(store: Store) -> None:
    """A run that is over must not be opened again by a task its backend has forgotten."""
    backend = FarBackend(answer("well"))
    far = Far(store, backend)
    await far.run()
    record = await far.record()

    with pytest.raises(RuntimeFault, match="run 'run-1' is not carried out any more"):
        await save(backend.requests[0])

    assert await far.record() == record


# -- the store --------------------------------------------------------------------------------


def failing(store: Store, number: int) -> Any:
    """A store that refuses this commit and all behind it."""
    return FailingStore(store, {number: REFUSED}, then=REFUSED)


def storage_events(number: int) -> list[Any]:
    """What listeners are told when nothing more can be kept."""
    why = StorageError(StoreUnavailable(f"commit {number} was to fail"))
    return [StepEnd(), Error(message=str(why), code="storage")]


async def test_a_run_whose_beginning_cannot_be_kept_never_begins(store: Store) -> None:
    """design §8: listeners get an error, the caller the exception; nobody is asked anything."""
    backend = FarBackend(answer("well"))
    far = Far(failing(store, 1), backend)

    with pytest.raises(StorageError, match="commit 1 was to fail"):
        await far.run()

    (event,) = wrap_events(storage_events(1)[-1], transient=(Error,))
    assert [(e.event, e.seq, e.at_ms) for e in far.sink.events()] == [(event.event, None, BEGAN)]
    assert backend.requests == []
    assert await store.load_thread(THREAD) is None


async def test_a_backend_is_told_that_its_state_cannot_be_saved(store: Store) -> None:
    """design §8: a transient step_end and error; the record stays open for recovery."""
    caught: list[Exception] = []

    async def work(request: BackendRootRunRequest) -> BackendRunResult:
        try:
            await save(request)
        except StorageError as error:
            caught.append(error)
            raise
        raise AssertionError("it was to fail")

    far = Far(failing(store, 2), FarBackend(work))

    with pytest.raises(StorageError, match="commit 2 was to fail") as raised:
        await far.run()

    assert caught == [raised.value]
    assert far.sink.events() == wrap_events(
        *beginning(), *storage_events(2), transient=(StepEnd, Error)
    )
    assert await far.record() == build_record(RUNNING, revision=1, updated_at=BEGAN)


async def test_a_backend_that_makes_light_of_unsaved_state_cannot_end_its_run(
    store: Store,
) -> None:
    async def work(request: BackendRootRunRequest) -> BackendRunResult:
        with pytest.raises(StorageError):
            await save(request)
        return answer("well")

    far = Far(failing(store, 2), FarBackend(work))

    with pytest.raises(StorageError, match="commit 2 was to fail"):
        await far.run()

    assert far.sink.events() == wrap_events(
        *beginning(),
        TextDelta(delta="well"),
        *storage_events(2),
        transient=(TextDelta, StepEnd, Error),
    )
    assert await far.record() == build_record(RUNNING, revision=1, updated_at=BEGAN)


async def test_a_run_whose_end_cannot_be_kept_does_not_claim_it(store: Store) -> None:
    """design §8; 02 §2.10 step 4: no run_finish, no inference_complete."""
    far = Far(failing(store, 2), FarBackend(answer("well")))

    with pytest.raises(StorageError, match="commit 2 was to fail"):
        await far.run()

    assert far.sink.events() == wrap_events(
        *beginning(),
        TextDelta(delta="well"),
        *storage_events(2),
        transient=(TextDelta, StepEnd, Error),
    )
    assert await far.record() == build_record(RUNNING, revision=1, updated_at=BEGAN)
    assert await far.texts() == ["user: hello"]


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("failure", [CommitFailure.LOST, CommitFailure.LANDED])
async def test_a_commit_whose_answer_is_lost_changes_nothing(
    store: Store, number: int, failure: CommitFailure
) -> None:
    async def work(request: BackendRootRunRequest) -> BackendRunResult:
        await save(request)
        return answer("well", status=BackendRunStatus.completed())

    flaky: Any = FailingStore(store, {number: failure})
    far = Far(flaky, FarBackend(work))

    await far.run()

    seqs = [event.seq for event in far.sink.events()]
    assert seqs == [1, 2, None, 3, 4, 5]
    assert list(await store.load_events(THREAD)) == [e for e in far.sink.events() if e.seq]
    record = await far.record()
    assert (record.status, record.revision) == (DONE, 3)
    assert await far.state() == {**HANDLE, "__runtime_backend_output": {"text": "well"}}
    assert await far.texts() == ["user: hello", "assistant: well"]


async def test_a_thread_that_cannot_be_read_is_an_error_of_the_store() -> None:
    """Without a context the thread is read first; nothing was said by then."""

    class Unreadable(MemoryStore):
        async def load_context(self, thread_id: str, *, tail: int | None = None) -> Any:
            raise StoreUnavailable("the disk is gone")

    backend, sink = FarBackend(answer("well")), CollectingSink()
    spec = AgentSpec(id="far", model_id="far-model", system_prompt="")
    request = msgspec.structs.replace(root_request(checkpoint_store=Unreadable()), sink=sink)

    with pytest.raises(StorageError, match="the disk is gone"):
        await execute_remote_root_lifecycle(
            ResolvedBackendAgent(spec, backend=backend), request, BEGAN, CancellationToken()
        )

    assert (backend.requests, sink.events()) == ([], [])
