"""The events of a run: tags, round trips, what is terminal (01 §1.4)."""

from __future__ import annotations

from typing import get_args

import pytest

from awaken.codec import Json, dumps, from_json, loads, to_json
from awaken.core.event import (
    DURABLE,
    ActivityDelta,
    ActivitySnapshot,
    AgentEvent,
    ContextCompacted,
    Error,
    InferenceComplete,
    MessagesRewound,
    MessagesSnapshot,
    ReasoningDelta,
    ReasoningEncryptedValue,
    RunEvent,
    RunFinish,
    RunStart,
    StateDelta,
    StateSnapshot,
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
    extract_response,
    is_terminal,
)
from awaken.core.identity import RunIdentity
from awaken.core.inference import TokenUsage
from awaken.core.lifecycle import NATURAL_END, Stopped, StoppedReason
from awaken.core.message import Message
from awaken.core.suspension import PendingToolCall, SuspendTicket, Suspension, ToolCallOutcome
from awaken.core.tool import ToolResult

IDENTITY = RunIdentity(thread_id="t1", run_id="r1", agent_id="a1")
TICKET = SuspendTicket(
    suspension=Suspension(id="s1", action="approve"),
    pending=PendingToolCall(id="c1", name="rm", arguments={"path": "/"}),
)

EVENTS: dict[str, AgentEvent] = {
    "run_start": RunStart(thread_id="t1", run_id="r1", parent_run_id="r0", identity=IDENTITY),
    "run_finish": RunFinish(
        thread_id="t1",
        run_id="r1",
        identity=IDENTITY,
        result={"response": "hi"},
        termination=Stopped(value=StoppedReason(code="max_rounds", detail="16")),
    ),
    "step_start": StepStart(message_id="m1"),
    "step_end": StepEnd(),
    "text_delta": TextDelta(delta="he"),
    "reasoning_delta": ReasoningDelta(delta="hm"),
    "reasoning_encrypted_value": ReasoningEncryptedValue(encrypted_value="x=="),
    "tool_call_start": ToolCallStart(id="c1", name="search"),
    "tool_call_delta": ToolCallDelta(id="c1", args_delta='{"q"'),
    "tool_call_ready": ToolCallReady(id="c1", name="search", arguments={"q": "rust"}),
    "tool_call_stream_delta": ToolCallStreamDelta(id="c1", name="search", delta="line"),
    "tool_call_done": ToolCallDone(
        id="c1",
        message_id="m2",
        result=ToolResult.suspended_with("rm", "sure?", TICKET),
        outcome=ToolCallOutcome.SUSPENDED,
    ),
    "tool_call_resumed": ToolCallResumed(target_id="c1", result=None),
    "tool_call_cancel": ToolCallCancel(id="c1", name="search", reason="cut"),
    "stream_reset": StreamReset(reason="retry"),
    "step_snapshot": StepSnapshot(message_id="m", text="so far", calls=(("c", "look", "{"),)),
    "context_compacted": ContextCompacted(summary_message_id="s", from_seq=1, to_seq=9),
    "messages_rewound": MessagesRewound(message_id="m", from_seq=3, to_seq=9),
    "inference_complete": InferenceComplete(
        model="m", usage=TokenUsage(prompt_tokens=3), duration_ms=12
    ),
    "messages_snapshot": MessagesSnapshot(messages=(Message.user("hi", id="m1"),)),
    "activity_snapshot": ActivitySnapshot(
        message_id="c1", activity_type="note", content="busy", replace=True
    ),
    "activity_delta": ActivityDelta(
        message_id="c1", activity_type="note", patch=[{"op": "add", "path": "/a", "value": 1}]
    ),
    "state_snapshot": StateSnapshot(snapshot={"revision": 3, "extensions": {}}),
    "state_delta": StateDelta(delta=[{"op": "remove", "path": "/a"}]),
    "error": Error(message="broke", code="E1"),
}


def test_the_samples_cover_the_whole_union() -> None:
    """01/C-8: there are 25 events, three of them ours."""
    assert len(EVENTS) == 25
    assert {type(event) for event in EVENTS.values()} == set(get_args(AgentEvent))


@pytest.mark.parametrize("tag", EVENTS)
def test_every_event_round_trips_with_its_tag(tag: str) -> None:
    """01/C-8: each event keeps its tag and reads back equal."""
    event = EVENTS[tag]

    json = loads(dumps(event))

    assert json["event_type"] == tag
    assert from_json(json, AgentEvent) == event


def test_only_run_finish_and_error_are_terminal() -> None:
    """01/C-8: only two events are terminal."""
    assert {tag for tag, event in EVENTS.items() if is_terminal(event)} == {"run_finish", "error"}


@pytest.mark.parametrize(
    ("event", "keys"),
    [
        (RunStart(thread_id="t", run_id="r"), {"thread_id", "run_id"}),
        (
            RunFinish(thread_id="t", run_id="r", termination=NATURAL_END),
            {"thread_id", "run_id", "termination"},
        ),
        (InferenceComplete(model="m", duration_ms=1), {"model", "duration_ms"}),
        (
            ActivitySnapshot(message_id="c", activity_type="a", content=None),
            {"message_id", "activity_type", "content"},
        ),
        (Error(message="x"), {"message"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_an_event_does_not_know_is_absent(event: AgentEvent, keys: set[str]) -> None:
    """01/C-8: null `parent_run_id`, `result`, `usage`, `replace` (and `code`) are absent."""
    assert to_json(event).keys() == keys | {"event_type"}


def test_step_start_reads_without_a_message_id_and_writes_it_even_when_empty() -> None:
    """01/C-8: `message_id` reads as empty when absent; it has no omit mark, so it is written."""
    event = from_json({"event_type": "step_start"}, AgentEvent)

    assert event == StepStart(message_id="")
    assert to_json(event) == {"event_type": "step_start", "message_id": ""}


def test_an_unknown_event_type_is_refused() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        from_json({"event_type": "nonsense"}, AgentEvent)


@pytest.mark.parametrize(
    ("result", "response"),
    [
        ({"response": "hi", "status": "done"}, "hi"),
        ({"response": {"text": "hi"}}, ""),
        ({"other": "hi"}, ""),
        (None, ""),
        ("hi", ""),
    ],
)
def test_the_response_is_taken_only_when_it_is_text(result: Json, response: str) -> None:
    assert extract_response(result) == response


def test_deltas_activity_and_snapshots_are_not_durable() -> None:
    transient = {tag for tag, event in EVENTS.items() if not isinstance(event, DURABLE)}

    assert transient == {
        "text_delta",
        "reasoning_delta",
        "reasoning_encrypted_value",
        "tool_call_start",
        "tool_call_delta",
        "tool_call_stream_delta",
        "stream_reset",
        "step_snapshot",
        "messages_snapshot",
        "activity_snapshot",
        "activity_delta",
        "state_snapshot",
        "state_delta",
    }


def test_an_event_in_its_envelope_round_trips() -> None:
    envelope = RunEvent(thread_id="t1", run_id="r1", at_ms=5, seq=7, event=EVENTS["tool_call_done"])

    assert loads(dumps(envelope), RunEvent) == envelope
    transient = RunEvent(thread_id="t1", run_id="r1", at_ms=5, event=TextDelta(delta="x"))
    assert to_json(transient).keys() == {"thread_id", "run_id", "at_ms", "event"}
