"""What AG-UI clients are told of each event."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui_client import Client
from ag_ui_events import ASKED, COMPLETE, RUN, encoder, finished, started, told

from awaken.core.budget import BUDGET_LIMIT
from awaken.core.event import (
    ActivityDelta,
    ActivitySnapshot,
    AgentEvent,
    Error,
    InferenceComplete,
    ReasoningDelta,
    ReasoningEncryptedValue,
    StateDelta,
    StateSnapshot,
    StepEnd,
    StepSnapshot,
    StepStart,
    StreamReset,
    TextDelta,
    ToolCallDone,
    ToolCallReady,
    ToolCallResumed,
    ToolCallStreamDelta,
)
from awaken.core.inference import TokenUsage
from awaken.core.lifecycle import CANCELLED, SUSPENDED_END, Blocked, Failed
from awaken.core.run import RunWaitingTicket
from awaken.core.suspension import Asker, ResumedOutcome, ToolCallOutcome, ToolCallResumeMode
from awaken.core.tool import ToolResult

STEP = StepStart(message_id="m1")
READY = ToolCallReady(id="c1", name="ship", arguments={"order": "A1"})


def play(*events: AgentEvent, state: Any = None, **fields: Any) -> Client:
    """What a client holds after the events of one run; the end is added if there is none."""
    encode, client = encoder(state=state, **fields), Client([ASKED], state)
    client.take(encode.start())
    for event in events:
        client.take(encode.encode(told(event)))
    return client


def ticket(**fields: Any) -> RunWaitingTicket:
    known = {"key": "k1", "ticket_id": "q1", "tool_call_id": "c1", "tool_name": "ship"}
    return RunWaitingTicket(**{**known, "arguments": {"order": "A1"}, "updated_at": 1, **fields})


FRONTEND = ticket(
    tool_name="pick",
    reason="tool:pick",
    resume_mode=ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT,
)


def test_ids_are_the_clients_and_ours_are_beside_them() -> None:
    client = play(finished(), is_1_0=True, agent_id="desk")
    begun, ended = client.events
    assert (begun["threadId"], begun["runId"]) == ("t", "client")
    assert begun["metadata"] == {"awaken": {"runId": RUN, "agentId": "desk"}}
    assert begun["protocolVersion"] == "1.0"
    assert (ended["runId"], ended["outcome"]) == ("client", {"type": "success"})


def test_a_client_before_1_0_is_not_told_a_version() -> None:
    assert "protocolVersion" not in play(finished()).events[0]


def test_the_response_is_the_result() -> None:
    assert play(finished(response="42")).events[-1]["result"] == "42"


@pytest.mark.parametrize(
    ("end", "chunk"),
    [
        (Failed(value="it broke"), {"message": "it broke", "code": "run_failed"}),
        (Blocked(value="not allowed"), {"message": "not allowed", "code": "blocked"}),
    ],
)
def test_a_run_that_fails_or_is_blocked_ends_with_an_error(end: Any, chunk: Any) -> None:
    client = play(STEP, TextDelta(delta="So"), finished(end))
    assert client.events[-1] == {"type": "RUN_ERROR", **chunk}
    assert client.types[-3:-1] == ["TEXT_MESSAGE_END", "STEP_FINISHED"]


def test_an_error_that_no_store_took_is_told_with_its_code() -> None:
    client = play(STEP, Error(message="no store", code="store_unavailable"))
    assert client.events[-1]["code"] == "store_unavailable"


def test_nothing_is_told_behind_the_end() -> None:
    assert play(finished(), STEP, finished()).types == ["RUN_STARTED", "RUN_FINISHED"]


def test_a_cancelled_run_says_so_as_far_as_the_client_understands() -> None:
    assert play(finished(CANCELLED), is_1_0=True).events[-1]["outcome"] == {"type": "cancelled"}
    ended = play(finished(CANCELLED)).events[-1]
    assert "outcome" not in ended
    assert ended["metadata"]["awaken"]["termination"] == "cancelled"


# -- questions --------------------------------------------------------------------------------


def interrupts(*tickets: RunWaitingTicket) -> Any:
    client = play(STEP, READY, COMPLETE, StepEnd(), finished(SUSPENDED_END, tickets=tickets))
    return client.events[-1]["outcome"]


def test_each_ticket_is_an_interrupt() -> None:
    asked = ticket(message="Ship A1?", digest="d1", expires_at=1_700_000_000_000)
    (interrupt,) = interrupts(asked)["interrupts"]
    assert interrupt.pop("responseSchema")["required"] == ["approved"]
    assert interrupt == {
        "id": "k1",
        "reason": "tool_call",
        "message": "Ship A1?",
        "toolCallId": "c1",
        "expiresAt": "2023-11-14T22:13:20.000Z",
        "metadata": {"toolName": "ship", "arguments": {"order": "A1"}, "digest": "d1"},
    }


def test_a_question_for_a_value_brings_its_own_schema() -> None:
    schema = {"type": "string"}
    mode = ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT
    (asked,) = interrupts(ticket(resume_mode=mode, response_schema=schema))["interrupts"]
    assert (asked["reason"], asked["responseSchema"]) == ("input_required", schema)


def test_a_question_about_the_budget_names_no_call() -> None:
    (asked,) = interrupts(ticket(reason=BUDGET_LIMIT, tool_name="budget"))["interrupts"]
    assert asked["reason"] == "confirmation"
    assert "toolCallId" not in asked


def test_a_delegates_question_is_its_subagents() -> None:
    asker = Asker(thread_id="t/1", run_id="child", agent_id="clerk", tool_name="ship")
    (asked,) = interrupts(ticket(asker=asker))["interrupts"]
    assert asked["subagentRunId"] == "child"


def test_open_calls_of_the_clients_tools_are_no_interrupts() -> None:
    end = finished(SUSPENDED_END, tickets=(FRONTEND,))
    told_1_0 = play(end, is_1_0=True).events[-1]["outcome"]
    assert told_1_0 == {"type": "success", "pendingToolCallIds": ["c1"]}
    assert play(end).events[-1]["outcome"] == {"type": "success"}


def test_beside_a_question_open_calls_of_the_clients_tools_are_no_interrupts_either() -> None:
    both = interrupts(FRONTEND, ticket(key="k2", tool_call_id="c2"))
    assert [asked["id"] for asked in both["interrupts"]] == ["k2"]


# -- answers and calls ------------------------------------------------------------------------


def test_a_call_that_is_only_ready_is_told_whole() -> None:
    client = play(STEP, READY)
    assert client.types[2:] == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"]
    (call,) = client.message("m1")["toolCalls"]
    assert call["function"] == {"name": "ship", "arguments": '{"order":"A1"}'}


def test_a_result_has_the_text_that_the_model_reads() -> None:
    result = ToolResult.success("ship", {"ok": True})
    done = ToolCallDone(id="c1", message_id="r1", result=result, outcome=result.outcome)
    client = play(STEP, READY, COMPLETE, done)
    assert client.message("r1")["content"] == '{"ok":true}'


def test_a_suspended_call_has_no_result_yet() -> None:
    result = ToolResult.suspended("ship", "waits")
    suspended = ToolCallOutcome.SUSPENDED
    done = ToolCallDone(id="c1", message_id="", result=result, outcome=suspended)
    assert "TOOL_CALL_RESULT" not in play(STEP, READY, COMPLETE, done).types


def test_the_clients_own_result_is_not_told_to_it() -> None:
    """Seen: the client would hold the message twice."""
    resumed = ToolCallResumed(
        target_id="c1",
        result="blue",
        message_id="r1",
        text="blue",
        outcome=ResumedOutcome.SUCCEEDED,
    )
    assert play(resumed, answered=frozenset({"c1"})).types == ["RUN_STARTED"]
    assert play(resumed).events[-1]["content"] == "blue"


def test_reasoning_is_a_message_of_its_own() -> None:
    client = play(
        STEP,
        ReasoningDelta(delta="Hm."),
        ReasoningEncryptedValue(encrypted_value="xyz"),
        TextDelta(delta="Yes."),
        StepEnd(),
    )
    assert client.message("m1:reasoning")["content"] == "Hm."
    assert client.message("m1")["content"] == "Yes."
    (hidden,) = [e for e in client.events if e["type"] == "REASONING_ENCRYPTED_VALUE"]
    assert (hidden["entityId"], hidden["encryptedValue"]) == ("m1:reasoning", "xyz")


def test_what_is_taken_back_is_gone_and_the_users_message_stays() -> None:
    client = play(STEP, TextDelta(delta="No"), StreamReset(reason="filtered"))
    assert client.messages == [ASKED]


def test_a_reader_that_joins_late_is_told_what_there_is() -> None:
    whole = StepSnapshot(
        message_id="m1", text="So", calls=(("c1", "ship", '{"o'),), outputs={"c1": "half"}
    )
    client = play(whole, TextDelta(delta=" far"), whole_of("So far, and on"))
    assert client.message("m1")["content"] == "So far, and on"
    assert client.events[-3]["type"] != "MESSAGES_SNAPSHOT"
    assert {"toolCallId": "c1", "output": "half"} in [e.get("value") for e in client.events]


def whole_of(text: str) -> StepSnapshot:
    return StepSnapshot(message_id="m1", text=text, calls=(("c1", "ship", '{"order'),))


def test_output_of_a_running_tool_is_a_custom_event() -> None:
    client = play(STEP, READY, ToolCallStreamDelta(id="c1", name="ship", delta="50 %"))
    assert client.events[-1]["name"] == "tool_output"
    assert client.events[-1]["value"] == {"toolCallId": "c1", "delta": "50 %"}


def test_tokens_are_told_by_model() -> None:
    first = TokenUsage(prompt_tokens=10, completion_tokens=5, total_tokens=15, cache_read_tokens=4)
    calls = [
        InferenceComplete(model="small", usage=first, duration_ms=1),
        InferenceComplete(model="small", usage=TokenUsage(prompt_tokens=1), duration_ms=1),
        InferenceComplete(model="large", usage=TokenUsage(thinking_tokens=7), duration_ms=1),
    ]
    assert play(STEP, *calls, finished()).events[-1]["usage"] == [
        {
            "model": "small",
            "inputTokens": 11,
            "outputTokens": 5,
            "totalTokens": 15,
            "cachedInputTokens": 4,
        },
        {"model": "large", "reasoningTokens": 7},
    ]


# -- subagents --------------------------------------------------------------------------------


def test_delegates_of_delegates_are_subagents_with_their_parents() -> None:
    encode, client = encoder(), Client([ASKED])
    client.take(encode.start())
    for event in (
        told(STEP),
        told(READY),
        told(started("child", RUN, "c1"), "child", RUN),
        told(started("grandchild", "child"), "grandchild", "child"),
        told(StepStart(message_id="m1"), "stranger", "another run"),
        told(finished(run_id="grandchild", response="ok"), "grandchild", "child"),
        told(finished(Failed(value="it broke"), run_id="child"), "child", RUN),
        told(finished()),
    ):
        client.take(encode.encode(event))
    first, second = [e for e in client.events if e["type"] == "SUBAGENT_STARTED"]
    assert (first["name"], first["parentToolCallId"]) == ("agent-child", "c1")
    assert first["parentMessageId"] == "m1"
    assert second["parentSubagentRunId"] == "child"
    ended = ["SUBAGENT_FINISHED", "SUBAGENT_ERROR", "STEP_FINISHED", "RUN_FINISHED"]
    assert client.types[-4:] == ended


def test_a_delegate_that_waits_is_suspended_with_its_question() -> None:
    asker = Asker(thread_id="t/1", run_id="child", agent_id="clerk", tool_name="ship")
    encode, client = encoder(), Client([ASKED])
    client.take(encode.start())
    client.take(encode.encode(told(started("child", RUN, "c1"), "child", RUN)))
    client.take(encode.encode(told(finished(SUSPENDED_END, run_id="child"), "child", RUN)))
    client.take(encode.encode(told(finished(SUSPENDED_END, tickets=(ticket(asker=asker),)))))
    assert client.events[-2]["outcome"] == {"type": "suspended", "interruptIds": ["k1"]}


# -- activity and state -----------------------------------------------------------------------


def test_activity_is_told_and_a_change_of_unknown_activity_is_not() -> None:
    lost = ActivityDelta(message_id="a0", activity_type="plan", patch=[])
    shown = ActivitySnapshot(message_id="a1", activity_type="plan", content={"steps": []})
    patch = [{"op": "add", "path": "/steps/-", "value": "look"}]
    change = ActivityDelta(message_id="a1", activity_type="plan", patch=patch)
    assert play(lost, shown, change).types[1:] == ["ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA"]


def public(**keys: Any) -> StateSnapshot:
    return StateSnapshot(snapshot={"revision": 1, "extensions": keys})


def test_state_keys_are_names_in_the_clients_state() -> None:
    client = play(public(notes=["a"]))
    assert client.state == {"notes": ["a"]}


def test_what_the_client_keeps_for_itself_stays() -> None:
    client = play(public(notes=["a"]), state={"draft": "mine", "notes": []})
    assert client.state == {"draft": "mine", "notes": ["a"]}


def test_a_state_that_the_client_has_is_not_told_again() -> None:
    assert play(public(notes=["a"]), state={"notes": ["a"]}).types == ["RUN_STARTED"]


def test_changes_are_told_as_patches_and_a_lost_one_is_made_up_for() -> None:
    change = [
        {"op": "replace", "path": "/revision", "value": 2},
        {"op": "replace", "path": "/extensions/a~1b", "value": 2},
        {"op": "remove", "path": "/extensions/gone"},
    ]
    client = play(
        public(**{"a/b": 1, "gone": 1}),
        StateDelta(delta=change),
        public(**{"a/b": 2}),
        public(**{"a/b": 3}),
    )
    assert client.types[1:] == ["STATE_SNAPSHOT", "STATE_DELTA", "STATE_SNAPSHOT"]
    assert client.state == {"a/b": 3}


# -- a thread ---------------------------------------------------------------------------------


def test_a_client_that_connects_is_told_messages_and_state_first() -> None:
    encode = encoder(sends_history=True, state={"notes": []})
    client = Client()
    client.take(encode.start())
    assert client.types == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT"]
    assert (client.messages, client.state) == ([ASKED], {"notes": []})
    client.take(encode.end(()))
    assert client.types[-1] == "RUN_FINISHED"


@pytest.mark.parametrize("calls", [None, 7, [7], [{}], [{"id": "c", "function": {"name": "x"}}]])
def test_calls_that_a_client_makes_up_are_no_fault(calls: Any) -> None:
    odd = {"id": "m1", "role": "assistant", "content": ["?"], "toolCalls": calls}
    encode, client = encoder(messages=[ASKED, odd]), Client([ASKED])
    client.take(encode.start())
    for event in (STEP, TextDelta(delta="Hi"), READY, StreamReset(reason="again")):
        client.take(encode.encode(told(event)))
    assert client.messages == [ASKED]


def test_what_is_in_the_log_is_not_taken_back() -> None:
    answer = {"id": "m1", "role": "assistant", "content": "Yes."}
    encode, client = encoder(sends_history=True, messages=[ASKED, answer]), Client()
    client.take(encode.start())
    for event in (StepSnapshot(message_id="m1", text="Yes."), StreamReset(reason="", from_seq=9)):
        client.take(encode.encode(told(event)))
    assert client.messages == [ASKED, answer]
