"""Runs of agents elsewhere, from their first commit to their last (02 §2.9 to §2.12)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from backend_requests import NoAgents
from remote_kit import (
    AGENT,
    BEGAN,
    CREATED,
    ENDED,
    HANDLE,
    MODEL,
    RUN,
    THREAD,
    Far,
    FarBackend,
    answer,
    beginning,
    build_record,
    finish,
    identity,
    message_id,
    open_store,
    save,
    state,
    wrap_events,
)

from awaken.backend import (
    BACKEND_OUTPUT_STATE_KEY,
    BackendOutputArtifact,
    BackendRootRunRequest,
    BackendRunOutput,
    BackendRunResult,
    BackendRunStatus,
    ExecutionBackend,
    ExecutionBackendFactoryError,
    execute_remote_root_lifecycle,
    load_checkpoint_state,
)
from awaken.core.aio.cancel import CancellationToken
from awaken.core.event import CollectingSink, InferenceComplete, RunFinish, StepEnd, TextDelta
from awaken.core.lifecycle import (
    BEHAVIOR_REQUESTED,
    NATURAL_END,
    SUSPENDED_END,
    Blocked,
    Failed,
    RunStatus,
    Stopped,
    StoppedReason,
    TerminationReason,
)
from awaken.core.message import Message, MessageMetadata
from awaken.core.run import AgentRunResult, PersistedState, RunRecord, WaitingReason
from awaken.core.spec import AgentSpec, RemoteEndpoint
from awaken.core.store.store import Store
from awaken.errors import RuntimeFailed, StoreUnavailable
from awaken.plugin.resolved_agent import ResolvedBackendAgent
from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore
from event_kit import as_stored

pytestmark = pytest.mark.anyio

INFERRED = InferenceComplete(model=MODEL, usage=None, duration_ms=ENDED - BEGAN)
DONE, WAITING = RunStatus.DONE, RunStatus.WAITING


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(request.param, tmp_path) as store:
        yield store


# -- ends -------------------------------------------------------------------------------------


async def test_a_completed_run_is_told_and_kept_in_full(store: Store) -> None:
    """02/B7, 02 §2.11"""
    far = Far(store, FarBackend(answer("all is well", steps=3)))

    result = await far.run()

    output = {"text": "all is well"}
    assert result == AgentRunResult(
        run_id=RUN, agent_id="far", response="all is well", termination=NATURAL_END, steps=3
    )
    assert far.sink.events() == wrap_events(
        *beginning(),
        TextDelta(delta="all is well"),
        INFERRED,
        StepEnd(),
        finish(
            NATURAL_END,
            steps=3,
            response="all is well",
            status="done",
            output=output,
            status_reason="natural",
        ),
        transient=(TextDelta,),
    )
    assert await far.record() == build_record(
        DONE,
        NATURAL_END,
        final_output="all is well",
        output=(2, 2),
        steps=3,
        holding={BACKEND_OUTPUT_STATE_KEY: output},
    )
    assert list(await store.load_messages(THREAD)) == [
        Message.user("hello", id="asked-1"),
        Message.assistant("all is well", id=message_id(1)).mark_produced_by(RUN, 2),
    ]


async def test_what_was_kept_can_be_read_by_whoever_was_not_there(store: Store) -> None:
    far = Far(store, FarBackend(answer("all is well")))
    await far.run()
    live = [as_stored(event) for event in far.sink.events() if event.seq is not None]
    assert list(await store.load_events(THREAD)) == live


async def test_a_run_without_steps_marks_no_step_on_its_messages(store: Store) -> None:
    """02 §2.12: without steps a message has a producer and no step."""
    far = Far(store, FarBackend(answer("all is well", steps=0)))
    await far.run()
    *_, said = await store.load_messages(THREAD)
    assert said.metadata == MessageMetadata(run_id=RUN)


WAITS = [
    (BackendRunStatus.waiting_input("which one?"), "waiting_input", "input_required", "user_input"),
    (BackendRunStatus.waiting_auth(None), "waiting_auth", "auth_required", "tool_permission"),
    (BackendRunStatus.suspended("held"), "suspended", "suspended", "tool_permission"),
]


@pytest.mark.parametrize(("status", "label", "reason", "waiting"), WAITS)
async def test_a_run_that_waits_says_for_what_and_keeps_its_termination(
    store: Store, status: BackendRunStatus, label: str, reason: str, waiting: str
) -> None:
    """02 §2.6, §2.11; the seeds write the termination of a waiting run, too."""
    end = Failed(value="should not win")
    far = Far(store, FarBackend(answer("which one?", status=status, termination=end, steps=1)))

    result = await far.run()

    output = {"text": "which one?"}
    assert (result.response, result.termination) == ("which one?", end)
    assert far.sink.events() == wrap_events(
        *beginning(),
        TextDelta(delta="which one?"),
        StepEnd(),
        finish(
            end, steps=1, response="which one?", status=label, output=output, status_reason=reason
        ),
        transient=(TextDelta,),
    )
    assert await far.record() == build_record(
        WAITING,
        end,
        final_output="which one?",
        waiting=WaitingReason(waiting),
        reason=reason,
        output=(2, 2),
        steps=1,
        holding={BACKEND_OUTPUT_STATE_KEY: output},
    )


async def test_a_completed_run_that_suspended_waits_for_what_its_reason_says(
    store: Store,
) -> None:
    """02/B8"""
    suspended = answer(termination=SUSPENDED_END, status_reason="input_required")
    far = Far(store, FarBackend(suspended))

    await far.run()

    assert far.sink.events() == wrap_events(
        *beginning(),
        StepEnd(),
        finish(SUSPENDED_END, response="", status="waiting", status_reason="input_required"),
    )
    assert await far.record() == build_record(
        WAITING, SUSPENDED_END, waiting=WaitingReason.USER_INPUT, reason="input_required"
    )


REASONS = [
    ("input_required", "user_input"),
    ("user_input_required", "user_input"),
    ("auth_required", "tool_permission"),
    ("suspended", "tool_permission"),
    ("awaiting_tasks", "background_tasks"),
    ("rate_limit", "rate_limit"),
    ("manual_pause", "manual_pause"),
    ("the weather", "external_event"),
    (None, "external_event"),
]


@pytest.mark.parametrize(("reason", "waiting"), REASONS)
async def test_every_status_reason_is_kept_as_its_waiting_reason(
    store: Store, reason: str | None, waiting: str
) -> None:
    """02/B14: the waiting-reason map, through a run."""
    suspended = answer(termination=SUSPENDED_END, status_reason=reason)
    far = Far(store, FarBackend(suspended))

    await far.run()

    assert await far.record() == build_record(
        WAITING, SUSPENDED_END, waiting=WaitingReason(waiting), reason=reason
    )
    (ending,) = [event for event in far.events() if isinstance(event, RunFinish)]
    said = {} if reason is None else {"status_reason": reason}
    assert ending.result == {"response": "", "status": "waiting", **said}


ENDS: list[tuple[BackendRunStatus, TerminationReason, str, str]] = [
    (BackendRunStatus.completed(), BEHAVIOR_REQUESTED, "done", "behavior_requested"),
    (BackendRunStatus.completed(), Blocked(value="no"), "done", "blocked:no"),
    (
        BackendRunStatus.completed(),
        Stopped(value=StoppedReason(code="max_rounds")),
        "done",
        "stopped:max_rounds",
    ),
    (BackendRunStatus.completed(), Failed(value="broke"), "done", "error"),
    (BackendRunStatus.failed("broke"), Failed(value="broke"), "failed", "error"),
    (BackendRunStatus.timeout(), Failed(value="polling timeout exceeded"), "timeout", "timeout"),
    (BackendRunStatus.cancelled(), NATURAL_END, "cancelled", "cancelled"),
]


@pytest.mark.parametrize(("status", "end", "label", "reason"), ENDS)
async def test_a_run_that_ends_otherwise_says_so_in_its_result_and_its_record(
    store: Store, status: BackendRunStatus, end: TerminationReason, label: str, reason: str
) -> None:
    """02/B1, 02 §2.6: only a completed status asks the termination what it means."""
    far = Far(store, FarBackend(answer(status=status, termination=end)))

    await far.run()

    inferred = [INFERRED] if end in (NATURAL_END, BEHAVIOR_REQUESTED) else []
    assert far.sink.events() == wrap_events(
        *beginning(),
        *inferred,
        StepEnd(),
        finish(end, response="", status=label, status_reason=reason),
    )
    assert await far.record() == build_record(DONE, end)
    assert await far.texts() == ["user: hello"]


# -- output -----------------------------------------------------------------------------------


async def test_empty_text_wins_over_the_response_and_is_not_said(store: Store) -> None:
    """02/B13"""
    far = Far(store, FarBackend(answer("x", output=BackendRunOutput(text=""))))

    result = await far.run()

    assert result.response == ""
    assert far.sink.events() == wrap_events(
        *beginning(),
        INFERRED,
        StepEnd(),
        finish(
            NATURAL_END, response="", status="done", output={"text": ""}, status_reason="natural"
        ),
    )
    assert await far.texts() == ["user: hello"]
    assert await far.record() == build_record(
        DONE, NATURAL_END, holding={BACKEND_OUTPUT_STATE_KEY: {"text": ""}}
    )


async def test_artifacts_alone_are_kept_without_a_word_being_said(store: Store) -> None:
    chart = BackendOutputArtifact(
        id="a1", name="chart", media_type="image/svg+xml", content={"svg": "<svg/>"}
    )
    far = Far(store, FarBackend(answer(output=BackendRunOutput(artifacts=(chart,), raw=[1]))))

    await far.run()

    output = {
        "artifacts": [
            {
                "id": "a1",
                "name": "chart",
                "media_type": "image/svg+xml",
                "content": {"svg": "<svg/>"},
            }
        ],
        "raw": [1],
    }
    assert far.sink.events() == wrap_events(
        *beginning(),
        INFERRED,
        StepEnd(),
        finish(NATURAL_END, response="", status="done", output=output, status_reason="natural"),
    )
    assert await far.record() == build_record(
        DONE, NATURAL_END, holding={BACKEND_OUTPUT_STATE_KEY: output}
    )
    assert await far.texts() == ["user: hello"]


async def test_text_of_the_output_is_said_rather_than_the_response(store: Store) -> None:
    far = Far(store, FarBackend(answer("not this", output=BackendRunOutput(text="but this"))))
    assert (await far.run()).response == "but this"
    assert await far.texts() == ["user: hello", "assistant: but this"]


async def test_half_characters_are_no_reason_to_lose_an_answer(store: Store) -> None:
    far = Far(store, FarBackend(answer("half \ud83d of it")))
    assert (await far.run()).response == "half \ufffd of it"
    assert await far.texts() == ["user: hello", "assistant: half \ufffd of it"]


# -- state ------------------------------------------------------------------------------------


async def test_the_run_is_on_record_before_the_backend_is_asked(store: Store) -> None:
    """02 §8.11"""
    seen: list[RunRecord | None] = []

    async def look(request: BackendRootRunRequest) -> BackendRunResult:
        seen.append(await store.load_run(RUN))
        return answer("done")

    await Far(store, FarBackend(look)).run()

    assert seen == [build_record(RunStatus.RUNNING, revision=1, updated_at=BEGAN)]


async def test_saved_state_is_durable_when_saving_returns(tmp_path: Path) -> None:
    """02 §8.11: another process could go on with it from then on."""
    seen: list[RunRecord | None] = []

    async def work(request: BackendRootRunRequest) -> BackendRunResult:
        await save(request)
        other = SqliteStore(tmp_path / "awaken.db")
        await other.open()
        try:
            seen.append(await other.load_run(RUN))
        finally:
            await other.close()
        return answer("done")

    async with open_store("sqlite", tmp_path) as store:
        far = Far(store, FarBackend(work))
        await far.run()
        after = await far.state()

    assert seen == [build_record(RunStatus.RUNNING, revision=2, updated_at=BEGAN, holding=HANDLE)]
    assert after == {**HANDLE, BACKEND_OUTPUT_STATE_KEY: {"text": "done"}}


async def test_state_before_reaches_the_backend_and_stays_with_the_run(store: Store) -> None:
    backend = FarBackend(answer())
    far = Far(store, backend)

    await far.run(previous_state=state(conversation="c1"))

    assert backend.requests[0].persisted_state == state(conversation="c1")
    assert await far.state() == {"conversation": "c1"}


async def test_state_the_backend_returns_is_kept(store: Store) -> None:
    far = Far(store, FarBackend(answer(state=state(conversation="c2"))))
    await far.run(previous_state=state(conversation="c1"))
    assert await far.state() == {"conversation": "c2"}


async def test_what_was_saved_is_not_overwritten_by_the_state_before(store: Store) -> None:
    async def work(request: BackendRootRunRequest) -> BackendRunResult:
        await save(request, {"handle": "task-2"})
        return answer()

    far = Far(store, FarBackend(work))
    await far.run(previous_state=state(handle="task-1", conversation="c1"))
    assert await far.state() == {"handle": "task-2", "conversation": "c1"}


async def test_what_was_saved_is_there_when_the_backend_fails(store: Store) -> None:
    async def work(request: BackendRootRunRequest) -> BackendRunResult:
        await save(request)
        raise RuntimeError("the line broke")

    far = Far(store, FarBackend(work))
    await far.run(previous_state=state(conversation="c1", handle="task-0"))
    assert await far.state() == {"conversation": "c1", **HANDLE}


async def test_state_of_a_run_is_what_it_has_on_record_else_what_was_known_before(
    store: Store,
) -> None:
    """02 §2.9: `load_checkpoint_state`"""
    before = state(handle="task-0")

    async def work(request: BackendRootRunRequest) -> BackendRunResult:
        await save(request)
        return answer()

    assert await load_checkpoint_state(None, RUN, before) == before
    assert await load_checkpoint_state(store, RUN, before) == before
    await Far(store, FarBackend(work)).run()
    assert await load_checkpoint_state(store, RUN, before) == state(**HANDLE)
    assert await load_checkpoint_state(store, "another", None) is None


async def test_a_store_that_cannot_be_read_leaves_what_was_known_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """02 §2.9"""

    class Unreadable(MemoryStore):
        async def load_run_state(self, run_id: str) -> PersistedState:
            raise StoreUnavailable("the disk is gone")

    before = state(handle="task-0")
    assert await load_checkpoint_state(Unreadable(), RUN, before) == before
    assert "failed to load latest checkpoint state of run run-1" in caplog.text


# -- going on ---------------------------------------------------------------------------------


async def test_a_run_goes_on_where_it_waited(store: Store) -> None:
    """02 §2.12 and design §8: one record, one output over both turns, other's words left alone."""

    async def work(request: BackendRootRunRequest) -> BackendRunResult:
        if not request.is_continuation:
            waiting = BackendRunStatus.waiting_input()
            return answer(
                "which?", status=waiting, termination=SUSPENDED_END, state=state(**HANDLE)
            )
        return answer("that one", steps=1)

    backend = FarBackend(work)
    far = Far(store, backend)
    await far.run()
    first = await far.record()
    far.sink.take()
    far.clock.advance(60)

    await far.run("this", is_continuation=True, previous_state=first.state)

    assert backend.requests[1].persisted_state == first.state
    assert far.sink.events()[0].seq == 5
    later = ENDED + 60_000 + 2500
    assert await far.record() == build_record(
        DONE,
        NATURAL_END,
        final_output="that one",
        output=(2, 4),
        ids=(message_id(1), message_id(2)),
        steps=1,
        revision=4,
        updated_at=later,
        holding={**HANDLE, BACKEND_OUTPUT_STATE_KEY: {"text": "that one"}},
    )
    assert await far.texts() == [
        "user: hello",
        "assistant: which?",
        "user: this",
        "assistant: that one",
    ]


async def test_a_named_run_goes_on_with_its_own_record_not_the_latest(store: Store) -> None:
    """02/B11"""
    waiting = answer(
        status=BackendRunStatus.waiting_input(),
        termination=SUSPENDED_END,
        state=state(handle="task-of-run-1"),
    )
    await Far(store, FarBackend(waiting)).run()
    other = answer("done", state=state(handle="task-of-run-2"))
    await Far(store, FarBackend(other)).run(run_id="run-2")
    backend, sink = FarBackend(answer("that one")), CollectingSink()
    agent = ResolvedBackendAgent(
        AgentSpec(id=AGENT, model_id=MODEL, system_prompt=""), backend=backend
    )
    said = Message.user("this")

    await execute_remote_root_lifecycle(
        agent,
        BackendRootRunRequest(
            agent_id=AGENT,
            messages=[said],
            new_messages=[said],
            sink=sink,
            resolver=NoAgents(),
            run_identity=identity(),
            checkpoint_store=store,
            is_continuation=True,
        ),
        CREATED + 90_000,
        CancellationToken(),
        await store.load_run_state(RUN),
    )

    assert backend.requests[0].persisted_state == state(handle="task-of-run-1")
    record = await store.load_run(RUN)
    assert record is not None
    assert (record.created_at, record.status, record.revision) == (CREATED // 1000, DONE, 4)
    assert record.state is not None
    assert record.state.extensions["handle"] == "task-of-run-1"
    assert record.output is not None
    assert len(record.output.message_ids) == 1, "what run-2 said is not claimed"


# -- where nothing is kept --------------------------------------------------------------------


async def test_without_a_store_a_run_is_told_and_nothing_is_kept() -> None:
    backend = FarBackend(answer("all is well"))
    far = Far(None, backend)

    result = await far.run()

    assert result.response == "all is well"
    kinds = ["RunStart", "StepStart", "TextDelta", "InferenceComplete", "StepEnd", "RunFinish"]
    assert [type(event).__name__ for event in far.events()] == kinds
    assert {event.seq for event in far.sink.events()} == {None}
    assert backend.requests[0].save_state is None


async def test_an_agent_without_a_backend_is_refused_before_anything_is_told(
    store: Store,
) -> None:
    """02 §2.9 step 1; design §8: the first failure keeps its prefix."""

    class Broken:
        def backend(self) -> str:
            return "broken"

        def validate(self, endpoint: RemoteEndpoint) -> None:
            return

        def build(self, endpoint: RemoteEndpoint) -> ExecutionBackend:
            raise ExecutionBackendFactoryError("no such place")

    endpoint = RemoteEndpoint(backend="broken", base_url="https://far.example")
    spec = AgentSpec(id=AGENT, model_id=MODEL, system_prompt="", endpoint=endpoint)
    sink = CollectingSink()

    with pytest.raises(RuntimeFailed) as refused:
        await execute_remote_root_lifecycle(
            ResolvedBackendAgent(spec, Broken()),
            BackendRootRunRequest(
                agent_id=AGENT,
                messages=[],
                new_messages=[],
                sink=sink,
                resolver=NoAgents(),
                run_identity=identity(),
                checkpoint_store=store,
            ),
            CREATED,
            CancellationToken(),
        )

    why = "execution failed: failed to build backend 'broken': no such place"
    assert str(refused.value) == f"runtime error: {why}"
    assert sink.events() == []
    assert await store.load_thread(THREAD) is None


async def test_an_id_that_was_used_before_is_begun_again(store: Store) -> None:
    for place, said in enumerate(("one", "two"), start=1):
        asked = (Message.user("hello", id=f"asked-{place}"),)
        request = BackendRootRunRequest(
            agent_id=AGENT,
            messages=asked,
            new_messages=asked,
            sink=CollectingSink(),
            resolver=NoAgents(),
            run_identity=identity(),
            checkpoint_store=store,
        )
        agent = ResolvedBackendAgent(
            AgentSpec(id=AGENT, model_id=MODEL, system_prompt=""), backend=FarBackend(answer(said))
        )
        ended = await execute_remote_root_lifecycle(agent, request, BEGAN, CancellationToken())
        assert ended.response == said
    record = await store.load_run(RUN)
    assert record is not None
    assert (record.status, record.final_output) == (DONE, "two")
