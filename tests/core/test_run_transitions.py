"""A run's record is made and replaced by its own transitions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.core.identity import RequestOrigin, RunIdentity
from awaken.core.lifecycle import CANCELLED, NATURAL_END, SUSPENDED_END, Failed, RunStatus
from awaken.core.run import (
    RunOutcome,
    RunRecord,
    RunRequestSnapshot,
    RunWaitingState,
    Takeovers,
    WaitingReason,
)
from awaken.errors import InvalidTransition

WHO = RunIdentity(
    run_id="r", thread_id="t", agent_id="a", parent_run_id="p", dispatch_id="d", session_id="s"
)
FOR_TASKS = RunWaitingState(reason=WaitingReason.BACKGROUND_TASKS)
MOVES = ("advance", "wait", "finish")
STATUS_AFTER = {
    "advance": RunStatus.RUNNING,
    "wait": RunStatus.WAITING,
    "finish": RunStatus.DONE,
}


def begin_run(at_ms: int = 5_250) -> RunRecord:
    return RunRecord.begin(WHO, None, at_ms)


def create_run() -> RunRecord:
    return RunRecord(
        run_id="r",
        thread_id="t",
        agent_id="a",
        status=RunStatus.CREATED,
        created_at=1,
        updated_at=1,
    )


def move(record: RunRecord, name: str, at_ms: int) -> RunRecord:
    if name == "advance":
        return record.advance(at_ms)
    if name == "wait":
        return record.wait(at_ms, FOR_TASKS)
    return record.finish(at_ms, NATURAL_END)


def test_a_run_begins_as_its_identity_says() -> None:
    request = RunRequestSnapshot(origin=RequestOrigin.USER)
    record = RunRecord.begin(WHO, request, 5_250)

    assert (record.run_id, record.thread_id, record.agent_id) == ("r", "t", "a")
    assert (record.parent_run_id, record.dispatch_id, record.session_id) == ("p", "d", "s")
    assert record.request is request
    assert record.status is RunStatus.RUNNING
    assert (record.created_at, record.started_at, record.updated_at) == (5, 5, 5)
    assert (record.finished_at, record.revision) == (None, 0)


def test_a_run_that_advances_takes_its_changes_and_the_next_revision() -> None:
    record = begin_run().advance(7_750, steps=2, input_tokens=10)

    assert (record.steps, record.input_tokens) == (2, 10)
    assert (record.started_at, record.updated_at, record.revision) == (5, 7, 1)


def test_a_record_has_its_times_also_in_milliseconds() -> None:
    """06 §2.11"""
    over = begin_run(5_250).advance(7_750).finish(9_125, NATURAL_END)

    assert (over.created_at, over.started_at, over.updated_at, over.finished_at) == (5, 5, 9, 9)
    assert (over.created_at_ms, over.started_at_ms) == (5_250, 5_250)
    assert (over.updated_at_ms, over.finished_at_ms) == (9_125, 9_125)


def test_a_step_of_a_running_run_is_an_advance() -> None:
    slow = begin_run().advance(7_750, output=None, steps=2, input_tokens=10, output_tokens=3)

    assert begin_run().advance_step(7_750, None, 2, 10, 3) == slow


@pytest.mark.parametrize("name", ["wait", "finish"])
def test_only_a_running_run_takes_a_step(name: str) -> None:
    with pytest.raises(InvalidTransition, match="cannot become running"):
        move(begin_run(), name, 6_750).advance_step(7_750, None, 1, 0, 0)


def test_a_run_that_waits_says_for_what_and_how_its_activation_ended() -> None:
    record = begin_run().wait(7_750, FOR_TASKS, SUSPENDED_END, final_output="so far")

    assert (record.status, record.waiting) == (RunStatus.WAITING, FOR_TASKS)
    assert record.outcome == RunOutcome(termination_reason=SUSPENDED_END, final_output="so far")
    assert record.finished_at is None


def test_a_run_that_goes_on_forgets_its_wait() -> None:
    record = begin_run().wait(7_750, FOR_TASKS, SUSPENDED_END, final_output="so far").advance(8_750)

    assert record.status is RunStatus.RUNNING
    assert (record.waiting, record.outcome, record.final_output) == (None, None, None)
    assert record.termination_reason is None


def test_a_run_that_ends_says_how_and_when() -> None:
    failed, why = Failed(value="no disk"), {"message": "no disk"}
    record = begin_run().finish(9_750, failed, final_output="half", error_payload=why)

    assert (record.status, record.finished_at) == (RunStatus.DONE, 9)
    assert (record.termination_reason, record.final_output) == (failed, "half")
    assert record.outcome == RunOutcome(
        termination_reason=failed, final_output="half", error_payload=why
    )


def test_the_end_of_a_run_may_be_written_again() -> None:
    record = begin_run().finish(9_750, NATURAL_END).finish(10_750, CANCELLED)

    assert (record.termination_reason, record.revision) == (CANCELLED, 2)


@pytest.mark.parametrize("name", ["advance", "wait"])
def test_a_run_that_is_over_cannot_go_on(name: str) -> None:
    over = begin_run().finish(9_750, NATURAL_END)

    with pytest.raises(InvalidTransition, match="run 'r' is done and cannot become") as refused:
        move(over, name, 10_750)

    assert refused.value.target == STATUS_AFTER[name].value


def test_a_run_that_has_not_started_cannot_wait() -> None:
    with pytest.raises(InvalidTransition, match="run 'r' is created and cannot become waiting"):
        create_run().wait(2_750, FOR_TASKS)


def test_a_run_that_was_only_created_starts_when_it_advances() -> None:
    record = create_run().advance(3_750)

    assert (record.status, record.created_at, record.started_at) == (RunStatus.RUNNING, 1, 3)


@pytest.mark.parametrize("name", MOVES)
def test_a_takeover_leaves_the_status_as_it_is(name: str) -> None:
    before = move(begin_run(), name, 6_750)
    record = before.taken_over(Takeovers(times=2))

    assert (record.status, record.updated_at) == (before.status, before.updated_at)
    assert (record.takeovers, record.revision) == (Takeovers(times=2), before.revision + 1)


@given(st.lists(st.sampled_from(MOVES), max_size=12), st.booleans())
def test_any_sequence_of_transitions_follows_the_table(names: list[str], is_new: bool) -> None:
    record = create_run() if is_new else begin_run()
    for at, name in enumerate(names, start=10):
        target = STATUS_AFTER[name]
        if not record.status.can_go_to(target):
            with pytest.raises(InvalidTransition):
                move(record, name, at)
            continue
        after = move(record, name, at)
        assert (after.status, after.updated_at_ms) == (target, at)
        assert after.revision == record.revision + 1
        assert (after.waiting is not None) == (target is RunStatus.WAITING)
        assert (after.outcome is not None) == (target is RunStatus.DONE)
        assert (after.finished_at is not None) == (target is RunStatus.DONE)
        assert after.created_at == record.created_at
        record = after
