"""The keys the runtime itself keeps (01 §2.5)."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from awaken.codec import Json, to_json
from awaken.core.context_message import ContextMessage, ThrottleEntry
from awaken.core.inference import InferenceOverride
from awaken.core.lifecycle import Phase, RunStatus, Stopped, StoppedReason
from awaken.core.run import PersistedState
from awaken.core.state.call_keys import TOOL_CALL_STATES, ClearCalls, PutCall, ToolCallState
from awaken.core.state.command import FailedAction, QueuedAction, ScheduledAction
from awaken.core.state.key import KeyRegistration, StateKey
from awaken.core.state.run_keys import (
    ACTIVE_AGENT,
    FAILED_ACTIONS,
    FAILED_ACTIONS_KEPT,
    PENDING_ACTIONS,
    PENDING_WORK,
    RUN_LIFECYCLE,
    STOP_STATS,
    Done,
    LifecycleUpdate,
    PendingWork,
    PushAction,
    RemoveAction,
    RunLifecycleState,
    SetPending,
    SetRunning,
    SetWaiting,
    Start,
    StepCompleted,
    StopConditionStats,
)
from awaken.core.state.step_keys import (
    CONTEXT_MESSAGES,
    CONTEXT_THROTTLE,
    INFERENCE_OVERRIDE,
    TOOL_FILTER,
    AfterEmit,
    ClearContext,
    ClearFilter,
    ExcludeTool,
    IncludeOnly,
    NoteThrottle,
    RemoveContext,
    UpsertContext,
)
from awaken.core.state.store import StateStore, UnknownKeyPolicy
from awaken.core.suspension import ToolCallResume, ToolCallResumeMode, ToolCallStatus

ALL: tuple[StateKey[Any, Any], ...] = (
    RUN_LIFECYCLE,
    TOOL_CALL_STATES,
    CONTEXT_THROTTLE,
    CONTEXT_MESSAGES,
    PENDING_WORK,
    TOOL_FILTER,
    INFERENCE_OVERRIDE,
    STOP_STATS,
    PENDING_ACTIONS,
    FAILED_ACTIONS,
    ACTIVE_AGENT,
)


def new_store() -> StateStore:
    store = StateStore()
    store.register_keys(KeyRegistration.of(key) for key in ALL)
    return store


@pytest.fixture
def store() -> StateStore:
    return new_store()


def test_names_scopes_and_merge_rules() -> None:
    """01 §2.5: the table. Pending work, pending and failed actions are commutative here: their
    updates name an owner or an id, so writers may come in any order."""
    table = {key.name.removeprefix("__runtime."): (key.scope.value, key.merge.value) for key in ALL}

    assert table == {
        "run_lifecycle": ("run", "exclusive"),
        "tool_call_states": ("thread", "commutative"),
        "context_throttle": ("run", "exclusive"),
        "context_message_store": ("run", "commutative"),
        "pending_work": ("run", "commutative"),
        "tool_filter_state": ("run", "commutative"),
        "inference_override_state": ("run", "commutative"),
        "stop_condition_stats": ("run", "exclusive"),
        "pending_scheduled_actions": ("run", "commutative"),
        "failed_scheduled_actions": ("run", "commutative"),
        "active_agent": ("thread", "exclusive"),
    }


# -- lifecycle --------------------------------------------------------------------------------


def lifecycle(store: StateStore, *updates: LifecycleUpdate) -> RunLifecycleState:
    for update in updates:
        store.update(RUN_LIFECYCLE, update)
    return store.snapshot().value(RUN_LIFECYCLE)


def test_starting_resets_the_steps(store: StateStore) -> None:
    """01/S-13: start resets steps."""
    state = lifecycle(
        store,
        Start(run_id="r1", updated_at=1),
        StepCompleted(updated_at=2),
        StepCompleted(updated_at=3),
    )
    assert state == RunLifecycleState(run_id="r1", step_count=2, updated_at=3)

    state = lifecycle(store, Start(run_id="r2", updated_at=4))
    assert state == RunLifecycleState(run_id="r2", step_count=0, updated_at=4)


def test_going_on_keeps_the_steps_and_clears_the_reason(store: StateStore) -> None:
    """01/S-13: set_running keeps them."""
    state = lifecycle(
        store, Start(run_id="r1"), StepCompleted(), SetWaiting(reason="suspended", updated_at=5)
    )
    assert (state.status, state.status_reason) == (RunStatus.WAITING, "suspended")

    state = lifecycle(store, SetRunning(updated_at=6))
    assert (state.status, state.status_reason) == (RunStatus.RUNNING, None)
    assert (state.step_count, state.updated_at) == (1, 6)


def test_a_step_counts_while_waiting_and_the_run_goes_on_waiting(store: StateStore) -> None:
    """01/S-13: step_completed leaves the status untouched."""
    state = lifecycle(store, Start(run_id="r1"), SetWaiting(reason="suspended"), StepCompleted())

    assert (state.status, state.status_reason, state.step_count) == (
        RunStatus.WAITING,
        "suspended",
        1,
    )


@pytest.mark.parametrize(
    "update",
    [
        Start(run_id="r2", updated_at=9),
        StepCompleted(updated_at=9),
        SetWaiting(reason="x", updated_at=9),
        SetRunning(updated_at=9),
    ],
    ids=lambda update: type(update).__name__,
)
def test_a_done_run_stays_done(
    store: StateStore, update: LifecycleUpdate, caplog: pytest.LogCaptureFixture
) -> None:
    """01/S-13: done to any other status is ignored and logged. (D-18: and reported.)"""
    done = lifecycle(
        store, Start(run_id="r1"), StepCompleted(), Done(reason="natural", updated_at=3)
    )
    skipped: list[tuple[str, ...]] = []
    store.add_commit_hook(lambda event: skipped.append(event.skipped))

    with caplog.at_level(logging.WARNING, logger="awaken.state"):
        assert lifecycle(store, update) == done

    assert (done.status_reason, done.step_count, done.updated_at) == ("natural", 1, 3)
    assert skipped == [("__runtime.run_lifecycle",)]
    assert "__runtime.run_lifecycle" in caplog.text


def test_a_waiting_run_may_be_started(store: StateStore) -> None:
    """01/S-13: waiting to running via start is allowed."""
    state = lifecycle(
        store, Start(run_id="r1"), StepCompleted(), SetWaiting(reason="x"), Start(run_id="r2")
    )

    assert state == RunLifecycleState(run_id="r2")


def test_a_run_that_was_only_created_cannot_wait(store: StateStore) -> None:
    """01/S-13: the status table holds for every update."""
    created = PersistedState(extensions={RUN_LIFECYCLE.name: {"run_id": "r1", "status": "created"}})
    store.restore_persisted(created, UnknownKeyPolicy.ERROR)

    assert lifecycle(store, SetWaiting(reason="x")).status is RunStatus.CREATED
    assert lifecycle(store, SetRunning()).status is RunStatus.RUNNING


def test_the_end_keeps_steps_and_the_structured_reason(store: StateStore) -> None:
    """D-14: what the reason string loses is kept beside it."""
    end = Stopped(value=StoppedReason(code="timeout", detail="30 s"))

    lifecycle(store, Start(run_id="r1"), StepCompleted())
    state = lifecycle(store, Done(reason="stopped:timeout", updated_at=7, termination=end))

    assert (state.status, state.status_reason, state.step_count) == (
        RunStatus.DONE,
        "stopped:timeout",
        1,
    )
    assert RUN_LIFECYCLE.load(RUN_LIFECYCLE.dump(state)) == state
    assert state.termination == end


@pytest.mark.parametrize("name", ["status_reason", "done_reason", "pause_reason"])
def test_old_names_of_the_reason_are_read(name: str) -> None:
    """01/S-13: old reason names decode."""
    json = {"run_id": "r1", "status": "waiting", "updated_at": 5, "step_count": 2, name: "why"}

    assert RUN_LIFECYCLE.load(json) == RunLifecycleState(
        run_id="r1", status=RunStatus.WAITING, status_reason="why", updated_at=5, step_count=2
    )


def test_a_lifecycle_without_a_reason_writes_none() -> None:
    """01/S-13: `status_reason` is left out when there is none; the rest is always written."""
    assert to_json(RunLifecycleState()) == {
        "run_id": "",
        "status": "running",
        "updated_at": 0,
        "step_count": 0,
    }


# -- tool calls -------------------------------------------------------------------------------


def call(id: str, status: ToolCallStatus, updated_at: int = 0, **more: Json) -> PutCall:
    return PutCall(
        call=ToolCallState(
            call_id=id,
            tool_name="rm",
            arguments={"path": "/"},
            status=status,
            updated_at=updated_at,
            **more,
        )
    )


def test_an_illegal_move_of_a_call_is_ignored(store: StateStore) -> None:
    """01/S-14: suspended to succeeded is ignored with the old timestamp kept."""
    store.update(TOOL_CALL_STATES, call("c1", ToolCallStatus.SUSPENDED, 5))
    skipped: list[tuple[str, ...]] = []
    store.add_commit_hook(lambda event: skipped.append(event.skipped))

    store.update(TOOL_CALL_STATES, call("c1", ToolCallStatus.SUCCEEDED, 9))

    state = store.snapshot().value(TOOL_CALL_STATES).calls["c1"]
    assert (state.status, state.updated_at) == (ToolCallStatus.SUSPENDED, 5)
    assert skipped == [("__runtime.tool_call_states",)]


def test_a_legal_move_replaces_the_whole_entry(store: StateStore) -> None:
    """01/S-14: put replaces the entry, resume input included."""
    store.update(TOOL_CALL_STATES, call("c1", ToolCallStatus.SUSPENDED, 5, suspension_id="s1"))
    answer = ToolCallResume.approve({"ok": True}, id="d1")

    store.update(TOOL_CALL_STATES, call("c1", ToolCallStatus.RESUMING, 9, resume_input=answer))

    state = store.snapshot().value(TOOL_CALL_STATES).calls["c1"]
    assert (state.status, state.resume_input, state.suspension_id) == (
        ToolCallStatus.RESUMING,
        answer,
        None,
    )


def test_calls_are_independent(store: StateStore) -> None:
    """01/S-14: calls independent."""
    store.update(TOOL_CALL_STATES, call("c1", ToolCallStatus.SUSPENDED))
    store.update(TOOL_CALL_STATES, call("c2", ToolCallStatus.SUCCEEDED))
    store.update(TOOL_CALL_STATES, call("c1", ToolCallStatus.CANCELLED))

    calls = store.snapshot().value(TOOL_CALL_STATES).calls
    assert {id: state.status.value for id, state in calls.items()} == {
        "c1": "cancelled",
        "c2": "succeeded",
    }


def test_a_cleared_call_id_may_be_used_again(store: StateStore) -> None:
    """01/S-14: clear then reuse works."""
    store.update(TOOL_CALL_STATES, call("c1", ToolCallStatus.SUCCEEDED))
    store.update(TOOL_CALL_STATES, ClearCalls())
    assert store.snapshot().value(TOOL_CALL_STATES).calls == {}

    store.update(TOOL_CALL_STATES, call("c1", ToolCallStatus.RUNNING))

    assert store.snapshot().value(TOOL_CALL_STATES).calls["c1"].status is ToolCallStatus.RUNNING


def test_blank_suspension_texts_are_none() -> None:
    """01 §2.5: blank suspension strings become none; by seed 003 an id is kept as it is given."""
    bare = ToolCallState(call_id="c1", tool_name="rm", arguments=None)

    assert bare.with_suspension("  ", "") == bare.with_suspension(None, None) == bare
    named = bare.with_suspension(" s1 ", "approve").with_resume_mode(
        ToolCallResumeMode.PASS_DECISION_TO_TOOL
    )
    assert (named.suspension_id, named.suspension_reason) == (" s1 ", "approve")
    assert named.resume_mode is ToolCallResumeMode.PASS_DECISION_TO_TOOL


def test_a_call_state_writes_null_arguments_and_omits_what_it_does_not_know() -> None:
    """01 §2.5: three fields are left out when none."""
    assert to_json(ToolCallState(call_id="c1", tool_name="rm", arguments=None)) == {
        "call_id": "c1",
        "tool_name": "rm",
        "arguments": None,
        "status": "new",
        "updated_at": 0,
        "resume_mode": "replay_tool_call",
    }


# -- context messages -------------------------------------------------------------------------


def context_keys(store: StateStore) -> set[str]:
    messages = store.snapshot().value(CONTEXT_MESSAGES)
    return set(messages)


@pytest.fixture
def with_context(store: StateStore) -> StateStore:
    for message in (
        ContextMessage.system("a.once", "x"),
        ContextMessage.system_persistent("a.always", "x"),
        ContextMessage.emit_once("b.consumed", "x"),
    ):
        store.update(CONTEXT_MESSAGES, UpsertContext(message=message))
    return store


def test_context_messages_are_kept_by_key(with_context: StateStore) -> None:
    """01 §2.5: upsert."""
    with_context.update(
        CONTEXT_MESSAGES, UpsertContext(message=ContextMessage.system("a.once", "new"))
    )

    assert context_keys(with_context) == {"a.once", "a.always", "b.consumed"}
    assert with_context.snapshot().value(CONTEXT_MESSAGES)["a.once"].content[0].text == "new"


def test_after_emitting_only_persistent_messages_stay(with_context: StateStore) -> None:
    """01/P-20: ephemeral removal; non-persistent and consumed ones go."""
    with_context.update(CONTEXT_MESSAGES, AfterEmit())

    assert context_keys(with_context) == {"a.always"}


@pytest.mark.parametrize(
    ("update", "left"),
    [
        (RemoveContext(key="a.once"), {"a.always", "b.consumed"}),
        (RemoveContext(key="a."), {"a.once", "a.always", "b.consumed"}),
        (RemoveContext(key="a.", prefix=True), {"b.consumed"}),
        (ClearContext(), set()),
    ],
)
def test_context_messages_can_be_removed(
    with_context: StateStore, update: RemoveContext | ClearContext, left: set[str]
) -> None:
    """01 §2.5: remove, remove by prefix, clear."""
    with_context.update(CONTEXT_MESSAGES, update)

    assert context_keys(with_context) == left


def test_the_throttle_remembers_each_key(store: StateStore) -> None:
    """01/P-20: accepting records step and hash."""
    for step, key in ((1, "a"), (2, "b"), (3, "a")):
        entry = ThrottleEntry(last_step=step, content_hash="h")
        store.update(CONTEXT_THROTTLE, NoteThrottle(key=key, entry=entry))

    seen = store.snapshot().value(CONTEXT_THROTTLE)
    assert {key: entry.last_step for key, entry in seen.items()} == {"a": 3, "b": 2}


# -- the others -------------------------------------------------------------------------------


def test_work_is_pending_while_anybody_says_so(store: StateStore) -> None:
    """Two owners can both be waiting: the one that ends does not end it for the other."""
    for owner in ("tasks", "mcp"):
        store.update(PENDING_WORK, SetPending(pending=True, owner=owner))
    store.update(PENDING_WORK, SetPending(pending=False, owner="tasks"))

    assert store.read(PENDING_WORK) == PendingWork(has_pending=True, owners=("mcp",))
    store.update(PENDING_WORK, SetPending(pending=False, owner="mcp"))
    assert store.read(PENDING_WORK) == PendingWork()


def test_the_tool_filter_unites_what_to_include_and_then_excludes(store: StateStore) -> None:
    """01 §3.3: include-only first, then exclusions."""
    store.update(TOOL_FILTER, IncludeOnly(tool_ids=("a", "b")))
    store.update(TOOL_FILTER, ExcludeTool(tool_id="b"))
    store.update(TOOL_FILTER, IncludeOnly(tool_ids=("c",)))

    passing = store.snapshot().value(TOOL_FILTER)
    assert [id for id in "abcd" if passing.passes(id)] == ["a", "c"]
    assert to_json(passing) == {"excluded": ["b"], "include_only": [["a", "b"], ["c"]]}
    store.update(TOOL_FILTER, ClearFilter())
    assert store.snapshot().value(TOOL_FILTER).passes("d")


def test_overrides_of_a_step_merge_and_can_be_cleared(store: StateStore) -> None:
    """01/P-19: last wins per field, and nothing leaks once cleared."""
    store.update(INFERENCE_OVERRIDE, InferenceOverride(temperature=0.1, max_tokens=5))
    store.update(INFERENCE_OVERRIDE, InferenceOverride(temperature=0.9))
    assert store.read(INFERENCE_OVERRIDE) == InferenceOverride(temperature=0.9, max_tokens=5)

    store.update(INFERENCE_OVERRIDE, None)
    assert store.read(INFERENCE_OVERRIDE) == InferenceOverride()


def action(id: int) -> QueuedAction:
    return QueuedAction(
        id=id, action=ScheduledAction(key="k", phase=Phase.STEP_END, payload={"n": id})
    )


def test_actions_queue_up_and_are_removed_by_id(store: StateStore) -> None:
    """01 §2.5: push, remove(id)."""
    for id in (1, 2, 3):
        store.update(PENDING_ACTIONS, PushAction(item=action(id)))
    store.update(PENDING_ACTIONS, RemoveAction(id=2))
    store.update(PENDING_ACTIONS, RemoveAction(id=9))

    assert [item.id for item in store.snapshot().value(PENDING_ACTIONS)] == [1, 3]


def test_only_the_last_failed_actions_are_kept(store: StateStore) -> None:
    """D-8: failed actions are bounded."""
    for id in range(FAILED_ACTIONS_KEPT + 20):
        store.update(FAILED_ACTIONS, FailedAction(id=id, action=action(id).action, error="x"))

    kept = [item.id for item in store.snapshot().value(FAILED_ACTIONS)]
    assert kept == list(range(20, FAILED_ACTIONS_KEPT + 20))


def test_the_persistent_keys_survive_a_round_trip(with_context: StateStore) -> None:
    """01/S-10: every built-in key, over JSON."""
    store = with_context
    store.update(RUN_LIFECYCLE, Start(run_id="r1", updated_at=1))
    store.update(TOOL_CALL_STATES, call("c1", ToolCallStatus.SUSPENDED, 5))
    store.update(
        CONTEXT_THROTTLE,
        NoteThrottle(key="a", entry=ThrottleEntry(last_step=1, content_hash="h")),
    )
    store.update(PENDING_WORK, SetPending(pending=True, owner="tasks"))
    store.update(PENDING_ACTIONS, PushAction(item=action(1)))
    store.update(FAILED_ACTIONS, FailedAction(id=2, action=action(2).action, error="x"))
    store.update(ACTIVE_AGENT, "helper")
    store.update(STOP_STATS, StopConditionStats(step_count=3, last_response_text="long"))
    store.update(TOOL_FILTER, ExcludeTool(tool_id="b"))

    other = new_store()
    other.restore_persisted(store.export_persisted(), UnknownKeyPolicy.ERROR)

    for key in ALL:
        if key in (TOOL_FILTER, INFERENCE_OVERRIDE):
            assert other.read(key) is None, "accumulators of one step are not kept"
        elif key is STOP_STATS:
            stats = store.snapshot().value(STOP_STATS)
            assert other.read(STOP_STATS) == msgspec.structs.replace(stats, last_response_text="")
        else:
            assert other.read(key) == store.read(key) is not None
