"""From events to the AI SDK's chunks, row by row of the table (06 §3.7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from awaken.core.event import (
    ActivityDelta,
    ActivitySnapshot,
    AgentEvent,
    Error,
    InferenceComplete,
    ReasoningDelta,
    RunEvent,
    RunFinish,
    RunStart,
    StepEnd,
    StepSnapshot,
    StepStart,
    StreamReset,
    TextDelta,
    ToolCallCancel,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReady,
    ToolCallResumed,
    ToolCallStart,
    ToolCallStreamDelta,
)
from awaken.core.identity import RunIdentity
from awaken.core.inference import TokenUsage
from awaken.core.lifecycle import (
    BEHAVIOR_REQUESTED,
    CANCELLED,
    NATURAL_END,
    SUSPENDED_END,
    Blocked,
    Failed,
    StartCause,
    Stopped,
    StoppedReason,
    TerminationReason,
)
from awaken.core.suspension import (
    Asker,
    PendingToolCall,
    ResumedOutcome,
    SuspendTicket,
    Suspension,
    ToolCallOutcome,
)
from awaken.core.tool import ToolResult
from awaken.server.protocols.ai_sdk.encode import AiSdkEncoder

T, RUN = "t", "r"
STEP = StepStart(message_id="m1")
CALL = ToolCallReady(id="c", name="pay", arguments={"amount": 5})
DONE = InferenceComplete(model="m", duration_ms=1)
VOID = {"type": "data-awaken-reset", "data": {"messageId": RUN}, "transient": True}


def told(event: AgentEvent, seq: int | None = None, *, at_ms: int = 0, **more: Any) -> RunEvent:
    return RunEvent(thread_id=T, run_id=RUN, at_ms=at_ms, seq=seq, event=event, **more)


def encoded(
    events: Sequence[AgentEvent | RunEvent], *, version: int = 6, frontend: Sequence[str] = ()
) -> list[Any]:
    """The chunks between the stream's first and those that end it."""
    encoder = AiSdkEncoder(
        thread_id=T, run_id=RUN, agent_id="a", version=version, frontend=frontend
    )
    chunks: list[Any] = []
    for event in events:
        chunks += encoder.encode(event if isinstance(event, RunEvent) else told(event))
    return chunks


def ended(*events: AgentEvent) -> list[Any]:
    """The chunks of a stream that ends behind the events."""
    encoder = AiSdkEncoder(thread_id=T, run_id=RUN, agent_id="a")
    chunks = [chunk for event in events for chunk in encoder.encode(told(event))]
    return [*chunks, *encoder.finish()]


def kinds(chunks: Sequence[Any]) -> list[str]:
    return [chunk["type"] for chunk in chunks]


def text_of(chunks: Sequence[Any]) -> str:
    return "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta")


def done(result: ToolResult, outcome: ToolCallOutcome, **more: Any) -> ToolCallDone:
    return ToolCallDone(id="c", message_id="x", result=result, outcome=outcome, **more)


def resumed(outcome: ResumedOutcome | None, result: Any = None, **more: Any) -> ToolCallResumed:
    return ToolCallResumed(target_id="c", result=result, name="pay", outcome=outcome, **more)


# -- the run ------------------------------------------------------------------------------------


def test_a_stream_starts_with_the_run_as_its_message() -> None:
    encoder = AiSdkEncoder(thread_id="t", run_id=RUN, agent_id="a")
    assert list(encoder.start()) == [
        {
            "type": "start",
            "messageId": RUN,
            "messageMetadata": {"threadId": "t", "runId": RUN, "agentId": "a"},
        }
    ]


@pytest.mark.parametrize(
    ("termination", "kind", "reason"),
    [
        (NATURAL_END, ["finish"], "stop"),
        (BEHAVIOR_REQUESTED, ["finish"], "stop"),
        (SUSPENDED_END, ["finish"], "tool-calls"),
        (Stopped(value=StoppedReason(code="max_rounds")), ["finish"], "length"),
        (Stopped(value=StoppedReason(code="token_budget")), ["finish"], "length"),
        (Stopped(value=StoppedReason(code="timeout")), ["finish"], "other"),
        (Blocked(value="a gate"), ["finish"], "content-filter"),
        (CANCELLED, ["abort", "finish"], "other"),
    ],
)
def test_each_end_of_a_run_has_its_reason(
    termination: TerminationReason, kind: list[str], reason: str
) -> None:
    chunks = ended(RunFinish(thread_id=T, run_id=RUN, termination=termination))
    assert kinds(chunks) == kind
    assert chunks[-1]["finishReason"] == reason
    is_usual = reason in ("stop", "tool-calls")
    assert ("termination" in chunks[-1]["messageMetadata"]) is not is_usual


@pytest.mark.parametrize(
    "event",
    [
        RunFinish(thread_id=T, run_id=RUN, termination=Failed(value="it broke")),
        Error(message="it broke"),
    ],
)
def test_a_failure_is_an_error_behind_everything_that_is_open(event: AgentEvent) -> None:
    chunks = ended(STEP, TextDelta(delta="a"), event)
    assert kinds(chunks)[-4:] == ["text-end", "finish-step", "message-metadata", "error"]
    assert chunks[-2]["messageMetadata"] == {"termination": "failed", "error": "it broke"}
    assert chunks[-1]["errorText"] == "it broke"


def test_a_pause_that_the_run_has_left_is_no_end() -> None:
    pause = RunFinish(thread_id=T, run_id=RUN, termination=SUSPENDED_END)
    goes_on = RunStart(thread_id=T, run_id=RUN, cause=StartCause.ANSWERED)
    end = RunFinish(thread_id=T, run_id=RUN, termination=NATURAL_END)
    assert kinds(ended(pause, goes_on, end)) == ["finish"]


def test_the_end_tells_what_the_run_took() -> None:
    usage = TokenUsage(prompt_tokens=3, completion_tokens=4, thinking_tokens=1)
    end = RunFinish(thread_id=T, run_id=RUN, termination=NATURAL_END, usage=usage, steps=2)
    told_usage = {"inputTokens": 3, "outputTokens": 4, "reasoningTokens": 1}
    assert ended(end)[0]["messageMetadata"] == {"usage": told_usage, "steps": 2}
    complete = InferenceComplete(model="m", usage=usage, duration_ms=1)
    (chunk,) = encoded([complete])
    assert chunk == {
        "type": "message-metadata",
        "messageMetadata": {"model": "m", "usage": told_usage},
    }


def test_events_of_other_runs_of_the_thread_are_left_out() -> None:
    other = RunEvent(thread_id=T, run_id="earlier", at_ms=0, event=TextDelta(delta="no"))
    assert encoded([STEP, other]) == [{"type": "start-step"}]


# -- the answer ---------------------------------------------------------------------------------


def test_blocks_are_closed_before_others_open_and_their_ids_count_up() -> None:
    chunks = encoded(
        [
            STEP,
            ReasoningDelta(delta="hm"),
            TextDelta(delta="a"),
            TextDelta(delta="b"),
            StepEnd(),
            StepStart(message_id="m2"),
            TextDelta(delta="c"),
        ]
    )
    assert chunks == [
        {"type": "start-step"},
        {"type": "reasoning-start", "id": "1"},
        {"type": "reasoning-delta", "id": "1", "delta": "hm"},
        {"type": "reasoning-end", "id": "1"},
        {"type": "text-start", "id": "2"},
        {"type": "text-delta", "id": "2", "delta": "a"},
        {"type": "text-delta", "id": "2", "delta": "b"},
        {"type": "text-end", "id": "2"},
        {"type": "finish-step"},
        {"type": "start-step"},
        {"type": "text-start", "id": "3"},
        {"type": "text-delta", "id": "3", "delta": "c"},
    ]


def test_a_call_is_shown_as_the_model_writes_it() -> None:
    start, delta = ToolCallStart(id="c", name="pay"), ToolCallDelta(id="c", args_delta='{"amount"')
    here = {"providerExecuted": True}
    assert encoded([STEP, TextDelta(delta="a"), start, delta, CALL])[3:] == [
        {"type": "text-end", "id": "1"},
        {"type": "tool-input-start", "toolCallId": "c", "toolName": "pay", **here},
        {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": '{"amount"'},
        {
            "type": "tool-input-available",
            "toolCallId": "c",
            "toolName": "pay",
            "input": {"amount": 5},
            **here,
        },
    ]


def test_a_call_that_is_not_made_is_an_error_of_its_input() -> None:
    (_, chunk) = encoded([STEP, ToolCallCancel(id="c", name="pay", reason="cut off")])
    assert (chunk["type"], chunk["errorText"]) == ("tool-input-error", "cut off")


def test_a_tool_of_the_page_is_dynamic_and_waits_for_the_page() -> None:
    ticket = SuspendTicket(pending=PendingToolCall(id="c", name="pay"))
    waits = done(
        ToolResult.suspended_with("pay", "waits", ticket), ToolCallOutcome.SUSPENDED, ticket_key="k"
    )
    (_, call) = encoded([STEP, CALL, waits], frontend=["pay"])
    assert call["dynamic"] is True
    assert "providerExecuted" not in call


@pytest.mark.parametrize(
    ("event", "kind", "content"),
    [
        (
            done(ToolResult.success("pay", {"ok": 1}), ToolCallOutcome.SUCCEEDED),
            "tool-output-available",
            {"output": {"ok": 1}},
        ),
        (
            done(ToolResult.success_with_message("pay", None, "paid"), ToolCallOutcome.SUCCEEDED),
            "tool-output-available",
            {"output": "paid"},
        ),
        (
            done(ToolResult.error("pay", "no money"), ToolCallOutcome.FAILED),
            "tool-output-error",
            {"errorText": "no money"},
        ),
        (
            done(ToolResult.error("pay", "Denied: closed"), ToolCallOutcome.DENIED),
            "tool-output-error",
            {"errorText": "Denied: closed"},
        ),
        (resumed(ResumedOutcome.SUCCEEDED, "paid"), "tool-output-available", {"output": "paid"}),
        (
            resumed(ResumedOutcome.SUCCEEDED, {"data": 1, "metadata": {"a": 2}}),
            "tool-output-available",
            {"output": 1},
        ),
        (resumed(None, "old"), "tool-output-available", {"output": "old"}),
        (
            resumed(ResumedOutcome.FAILED, {"error": "no money"}),
            "tool-output-error",
            {"errorText": "no money"},
        ),
        (resumed(ResumedOutcome.DENIED, reason="no"), "tool-output-denied", {}),
        (resumed(ResumedOutcome.EXPIRED), "tool-output-denied", {}),
        (
            resumed(ResumedOutcome.SUPERSEDED),
            "tool-output-error",
            {"errorText": "the call was superseded"},
        ),
        (
            resumed(ResumedOutcome.CANCELLED, reason="it ended"),
            "tool-output-error",
            {"errorText": "it ended"},
        ),
    ],
)
def test_each_outcome_of_a_call_has_its_chunk(
    event: AgentEvent, kind: str, content: dict[str, Any]
) -> None:
    *_, chunk = encoded([event])
    assert chunk["type"] == kind
    assert chunk["toolCallId"] == "c"
    assert {name: chunk[name] for name in content} == content


def test_an_approval_names_the_ticket_and_shows_what_is_asked() -> None:
    asker = Asker(
        thread_id="t~c", run_id="rc", agent_id="travel", tool_name="book", arguments={"nights": 2}
    )
    ticket = SuspendTicket(
        suspension=Suspension(message="May I?"),
        pending=PendingToolCall(id="c", name="agent_run_travel", arguments={"prompt": "Venice"}),
        asker=asker,
    )
    asks = done(
        ToolResult.suspended_with("agent_run_travel", "waits", ticket),
        ToolCallOutcome.SUSPENDED,
        ticket_key="k",
        expires_at=9,
    )
    assert encoded([asks]) == [
        {"type": "tool-approval-request", "approvalId": "k", "toolCallId": "c"},
        {
            "type": "data-approval",
            "id": "k",
            "data": {
                "toolCallId": "c",
                "toolName": "book",
                "input": {"nights": 2},
                "agent": "travel",
                "message": "May I?",
                "expiresAt": 9,
            },
        },
    ]


def test_version_7_is_told_in_a_replay_how_an_approval_was_answered() -> None:
    ticket = SuspendTicket(pending=PendingToolCall(id="c", name="pay"))
    asks = done(
        ToolResult.suspended_with("pay", "waits", ticket), ToolCallOutcome.SUSPENDED, ticket_key="k"
    )
    no = resumed(ResumedOutcome.DENIED, reason="too much")
    assert kinds(encoded([asks, no]))[-1:] == ["tool-output-denied"]
    answer, denied = encoded([asks, no], version=7)[-2:]
    assert answer == {
        "type": "tool-approval-response",
        "approvalId": "k",
        "approved": False,
        "reason": "too much",
    }
    assert denied["type"] == "tool-output-denied"


def test_output_of_a_running_tool_is_previewed_ten_times_a_second_at_most() -> None:
    chunks = encoded(
        [
            told(ToolCallStreamDelta(id="c", name="pay", delta=piece), at_ms=at_ms)
            for piece, at_ms in (("a", 0), ("b", 50), ("c", 99), ("d", 100))
        ]
    )
    assert [(chunk["output"], chunk["preliminary"]) for chunk in chunks] == [
        ("a", True),
        ("abcd", True),
    ]


def test_a_new_step_behind_an_answered_call_keeps_the_page_from_sending_it_again() -> None:
    end = RunFinish(thread_id=T, run_id=RUN, termination=NATURAL_END)
    paused = RunFinish(thread_id=T, run_id=RUN, termination=SUSPENDED_END)
    answered = resumed(ResumedOutcome.SUCCEEDED, 1)
    assert kinds(ended(answered, end)) == [
        "tool-output-available",
        "start-step",
        "finish-step",
        "finish",
    ]
    assert kinds(ended(answered, paused)) == ["tool-output-available", "finish"]
    assert kinds(ended(answered, STEP, StepEnd(), end)).count("start-step") == 1


def test_activities_replace_each_other_and_changes_are_applied() -> None:
    report = ActivitySnapshot(message_id="c", activity_type="plan", content={"steps": ["a"]})
    more = ActivityDelta(
        message_id="c", activity_type="plan", patch=[{"op": "add", "path": "/steps/-", "value": 2}]
    )
    misfit = ActivityDelta(message_id="c", activity_type="plan", patch=[{"op": "remove"}])
    first, second = encoded([report, more, misfit])
    assert first["type"] == second["type"] == "data-activity"
    assert first["id"] == second["id"]
    assert second["data"]["content"] == {"steps": ["a", 2]}


# -- answers that start over --------------------------------------------------------------------

OVER = StreamReset(reason="again")


@pytest.mark.parametrize(
    ("again", "shown"),
    [
        (["Hello", " you"], "Hello you"),
        (["He", "llo", "!"], "Hello!"),
        (["Hello"], "Hello"),
    ],
)
def test_version_6_gets_only_the_rest_of_an_answer_that_starts_over_alike(
    again: list[str], shown: str
) -> None:
    deltas = [TextDelta(delta=piece) for piece in again]
    chunks = encoded([STEP, TextDelta(delta="Hello"), OVER, *deltas, DONE, StepEnd()])
    assert text_of(chunks) == shown
    assert VOID not in chunks
    assert kinds(chunks).count("text-start") == 1


@pytest.mark.parametrize("again", ["Bye", "Hell", ""])
def test_version_6_is_told_that_text_is_void_if_the_answer_is_another_one(again: str) -> None:
    chunks = encoded([STEP, TextDelta(delta="Hello"), OVER, TextDelta(delta=again), DONE])
    behind = chunks[chunks.index(VOID) + 1 :]
    assert text_of(behind) == again
    assert kinds(chunks)[3] == "text-end"


def test_version_7_drops_the_step_and_gets_the_answer_anew() -> None:
    chunks = encoded([STEP, TextDelta(delta="Hello"), OVER, TextDelta(delta="Bye")], version=7)
    assert kinds(chunks) == [
        "start-step",
        "text-start",
        "text-delta",
        "reset-step",
        "text-start",
        "text-delta",
    ]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (6, ["text-delta", "text-end", "tool-input-start", "tool-input-delta"]),
        (
            7,
            [
                "reset-step",
                "reasoning-start",
                "reasoning-delta",
                "reasoning-end",
                "text-start",
                "text-delta",
                "text-end",
                "tool-input-start",
                "tool-input-delta",
            ],
        ),
    ],
)
def test_a_snapshot_replaces_what_the_client_has_of_the_answer(
    version: int, expected: list[str]
) -> None:
    before: list[AgentEvent] = [STEP, ReasoningDelta(delta="hm"), TextDelta(delta="He")]
    snapshot = StepSnapshot(
        message_id="m1", reasoning="hm", text="Hello", calls=(("c", "pay", "{}"),)
    )
    chunks = encoded(before, version=version)
    assert kinds(encoded([*before, snapshot], version=version)[len(chunks) :]) == expected


def test_what_another_owner_tells_again_is_the_same_step() -> None:
    """The next owner of a thread asks the model again: its step takes the place of the void one."""
    void = StreamReset(reason="taken over", from_seq=2)
    first: list[AgentEvent | RunEvent] = [told(STEP, 2, ahead=True), TextDelta(delta="Hel"), void]
    second: list[AgentEvent | RunEvent] = [
        told(StepStart(message_id="m2"), 2, ahead=True),
        TextDelta(delta="Hello"),
        StepEnd(),
    ]
    six = encoded([*first, *second])
    assert kinds(six) == [
        "start-step",
        "text-start",
        "text-delta",
        "text-delta",
        "text-end",
        "finish-step",
    ]
    assert text_of(six) == "Hello"
    seven = encoded([*first, *second], version=7)
    assert kinds(seven).count("start-step") == 1
    assert "reset-step" in kinds(seven)


def test_calls_that_do_not_come_again_end_with_an_error_in_version_6() -> None:
    other = ToolCallReady(id="d", name="pay", arguments={})
    void = StreamReset(reason="taken over", from_seq=2)
    chunks = encoded([STEP, told(CALL, 2, ahead=True), void, STEP, told(other, 2), told(DONE, 3)])
    assert [(c["type"], c["toolCallId"]) for c in chunks if "toolCallId" in c] == [
        ("tool-input-available", "c"),
        ("tool-input-available", "d"),
        ("tool-input-error", "c"),
    ]


def test_what_is_stored_outlives_a_reset() -> None:
    """A takeover while tools run voids nothing of an answer that is in the log."""
    void = StreamReset(reason="taken over", from_seq=5)
    before: list[AgentEvent | RunEvent] = [STEP, TextDelta(delta="a"), told(CALL, 2), told(DONE, 3)]
    for version in (6, 7):
        assert encoded([*before, void], version=version) == encoded(before, version=version)


def test_an_answer_that_was_cut_off_goes_on_in_a_step_of_its_own() -> None:
    chunks = encoded(
        [STEP, TextDelta(delta="a"), StepStart(message_id="m2"), TextDelta(delta="b"), StepEnd()]
    )
    assert kinds(chunks).count("start-step") == kinds(chunks).count("finish-step") == 2


# -- delegates ----------------------------------------------------------------------------------


def child(
    event: AgentEvent, at_ms: int = 0, *, run_id: str = "rc", parent_run_id: str = RUN
) -> RunEvent:
    return RunEvent(
        thread_id=f"t~{run_id}",
        run_id=run_id,
        parent_run_id=parent_run_id,
        at_ms=at_ms,
        event=event,
    )


def start_of(run_id: str, agent_id: str, call_id: str) -> RunStart:
    identity = RunIdentity(
        thread_id="t~c", run_id=run_id, agent_id=agent_id, parent_tool_call_id=call_id
    )
    return RunStart(thread_id="t~c", run_id=run_id, identity=identity, cause=StartCause.NEW)


def test_delegates_are_one_part_each_and_come_behind_their_call() -> None:
    new = RunStart(thread_id=T, run_id=RUN, cause=StartCause.NEW)
    chunks = encoded(
        [
            child(start_of("rc", "travel", "c")),
            new,
            STEP,
            CALL,
            child(TextDelta(delta="Ro"), 10),
            child(TextDelta(delta="om"), 110),
            child(TextDelta(delta="!"), 120),
            child(start_of("rd", "hotel", "x"), 120, run_id="rd", parent_run_id="rc"),
            child(RunFinish(thread_id="t~c", run_id="rc", termination=NATURAL_END), 130),
        ]
    )
    parts = [chunk for chunk in chunks if chunk["type"] == "data-agent"]
    assert kinds(chunks)[:2] == ["start-step", "tool-input-available"]
    assert [
        (p["id"], p["data"]["name"], p["data"]["status"], p["data"]["text"]) for p in parts
    ] == [
        ("rc", "travel", "running", ""),
        ("rc", "travel", "running", "Room"),
        ("rd", "hotel", "running", ""),
        ("rc", "travel", "done", "Room!"),
    ]
