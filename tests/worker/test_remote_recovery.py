"""Runs elsewhere whose process is killed: found again, not begun again (design §1, §8)."""

from __future__ import annotations

from pathlib import Path

import pytest
from far_jobs import BEGUN, SAVED, Jobs, jobs_in, killed, runtime_in
from far_kit import can, texts
from run_kit import record_of, told

from awaken import Message, Runtime
from awaken.backend import BackendCancellationCapability
from awaken.backend.remote import INTERRUPTED
from awaken.core.event import CollectingSink
from awaken.core.lifecycle import CANCELLED, NATURAL_END, Failed, RunStatus
from awaken.core.run import CancelOutcome, RunRecord
from awaken.core.store.commands import CommandKind, ThreadCommand

pytestmark = pytest.mark.anyio


async def latest(runtime: Runtime) -> RunRecord:
    found = await runtime.store.latest_run("t")
    assert found is not None
    return found


async def test_a_killed_run_goes_on_with_the_work_it_has_begun(tmp_path: Path) -> None:
    """The handle was durable: no second job is started."""
    await killed(tmp_path, SAVED, "hello!")
    jobs = Jobs(tmp_path)
    async with runtime_in(tmp_path, jobs, recover=False) as runtime:
        left = await latest(runtime)
        (recovered,) = await runtime.recover()
        result = await recovered
        record = await record_of(runtime, left.run_id)
        log = told(await runtime.messages("t"))

    assert (left.status, left.state and left.state.extensions) == (
        RunStatus.RUNNING,
        {"job": "job-1"},
    )
    assert (result.run_id, result.response) == (left.run_id, "job-1: hello!")
    assert jobs_in(tmp_path) == {"job-1": "hello!"}
    (request,) = jobs.requests
    assert (request.is_continuation, list(request.new_messages)) == (True, [])
    assert texts(request.messages) == ["hello!"]
    assert (record.status, record.termination_reason) == (RunStatus.DONE, NATURAL_END)
    assert log == ["user: hello!", "assistant: job-1: hello!"]


async def test_a_run_that_was_killed_before_it_saved_anything_is_begun(tmp_path: Path) -> None:
    """With all it was asked, and not with the work of the run before it."""
    await killed(tmp_path, BEGUN, "first", "and then|this!")
    jobs = Jobs(tmp_path)
    async with runtime_in(tmp_path, jobs) as runtime:
        (recovered,) = runtime.recovered
        result = await recovered
        log = told(await runtime.messages("t"))

    assert result.response == "job-2: and then + this!"
    assert jobs_in(tmp_path) == {"job-1": "first", "job-2": "and then + this!"}
    (request,) = jobs.requests
    assert not request.is_continuation
    assert request.persisted_state is not None
    assert request.persisted_state.extensions == {"job": "job-1"}
    assert log[2:] == ["user: and then", "user: this!", "assistant: job-2: and then + this!"]


async def test_the_next_message_goes_on_with_a_killed_run(tmp_path: Path) -> None:
    """Whoever comes first takes it up; what it was asked before is not lost."""
    await killed(tmp_path, BEGUN, "hello|there!")
    jobs = Jobs(tmp_path)
    async with runtime_in(tmp_path, jobs, recover=False) as runtime:
        left = await latest(runtime)
        result = await runtime.run("far", "well?", thread="t")
    assert result.run_id == left.run_id
    assert jobs_in(tmp_path) == {"job-1": "hello + there! + well?"}


async def test_a_killed_run_that_is_cancelled_has_its_work_stopped(tmp_path: Path) -> None:
    await killed(tmp_path, SAVED, "hello!")
    jobs = Jobs(tmp_path)
    async with runtime_in(tmp_path, jobs, recover=False) as runtime:
        left = await latest(runtime)
        receipt = await runtime.cancel("t")
        record = await record_of(runtime, left.run_id)

    assert [item.outcome for item in receipt.items] == [CancelOutcome.STOPPED]
    assert (record.status, record.termination_reason) == (RunStatus.DONE, CANCELLED)
    assert jobs_in(tmp_path) == {"job-1": "aborted"}
    assert jobs.requests == []
    (abort,) = jobs.aborts
    assert (abort.run_identity.run_id, abort.is_continuation) == (left.run_id, True)


async def test_a_killed_run_nobody_can_go_on_with_is_closed_as_failed(tmp_path: Path) -> None:
    """Also if somebody has written to it meanwhile: that is for the next run."""
    await killed(tmp_path, SAVED, "hello!", lasting=False)
    jobs = Jobs(tmp_path, lasting=False)
    async with runtime_in(tmp_path, jobs, recover=False) as runtime:
        left = await latest(runtime)
        said = (Message.user("by the way"),)
        command = ThreadCommand(thread_id="t", kind=CommandKind.MESSAGES, messages=said, at_ms=1)
        await runtime.store.send(command)
        (recovered,) = await runtime.recover()
        result = await recovered
        record = await record_of(runtime, left.run_id)
        between = told(await runtime.messages("t"))
        await runtime.run("far", "well?", thread="t")

    assert result.termination == Failed(value=INTERRUPTED)
    assert (record.status, record.error_payload) == (
        RunStatus.DONE,
        {"message": INTERRUPTED, "left_running": record.left_running},
    )
    assert record.left_running is not None
    assert record.left_running.endswith("its backend cannot stop it")
    assert record.state is not None
    assert record.state.extensions == {"job": "job-1"}
    assert between == ["user: hello!"]
    assert jobs_in(tmp_path) == {"job-1": "hello!", "job-2": "by the way + well?"}


async def test_the_work_of_a_killed_run_that_is_closed_is_stopped(tmp_path: Path) -> None:
    await killed(tmp_path, SAVED, "hello!", lasting=False)
    jobs = Jobs(tmp_path, abilities=can(cancellation=BackendCancellationCapability.REMOTE_ABORT))
    async with runtime_in(tmp_path, jobs, recover=False) as runtime:
        left = await latest(runtime)
        (recovered,) = await runtime.recover()
        await recovered
        record = await record_of(runtime, left.run_id)

    assert record.error_payload == {"message": INTERRUPTED}
    assert jobs_in(tmp_path) == {"job-1": "aborted"}


async def test_the_next_message_closes_a_run_nobody_can_go_on_with(tmp_path: Path) -> None:
    """Who asks is told of their own run only."""
    await killed(tmp_path, SAVED, "hello!", lasting=False)
    jobs, sink = Jobs(tmp_path, lasting=False), CollectingSink()
    async with runtime_in(tmp_path, jobs, recover=False) as runtime:
        left = await latest(runtime)
        result = await runtime.run("far", "well?", thread="t", sink=sink)
        closed = await record_of(runtime, left.run_id)
        log = told(await runtime.messages("t"))

    assert closed.termination_reason == Failed(value=INTERRUPTED)
    assert (result.response, result.run_id != left.run_id) == ("job-2: well?", True)
    assert {event.run_id for event in sink.events()} == {result.run_id}
    assert log == ["user: hello!", "user: well?", "assistant: job-2: well?"]


async def test_a_killed_run_nobody_can_go_on_with_can_still_be_cancelled(tmp_path: Path) -> None:
    await killed(tmp_path, SAVED, "hello!", lasting=False)
    jobs = Jobs(tmp_path, lasting=False)
    async with runtime_in(tmp_path, jobs, recover=False) as runtime:
        left = await latest(runtime)
        assert await runtime.cancel("t")
        record = await record_of(runtime, left.run_id)
    assert record.termination_reason == CANCELLED
    assert (jobs.requests, jobs.aborts) == ([], [])
