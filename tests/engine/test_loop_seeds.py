"""Checkpoints: what a run owns of the log, why it waits, how it ended (02 §3)."""

from __future__ import annotations

import msgspec
import pytest
from loop_stage import THREAD, CheckedModel, CountingCommits, Stage, TestPlugin

from awaken import Agent, Command, PhaseContext, tool
from awaken.core.event import RunFinish
from awaken.core.identity import RunIdentity, RunOrigin
from awaken.core.inference import TokenUsage
from awaken.core.lifecycle import (
    NATURAL_END,
    SUSPENDED_END,
    Failed,
    Phase,
    RunStatus,
    Stopped,
    StoppedReason,
    TerminationReason,
)
from awaken.core.message import Message, MessageMetadata
from awaken.core.run import (
    MessageSeqRange,
    RunMessageInput,
    RunMessageOutput,
    RunRecord,
    WaitingReason,
)
from awaken.core.state.call_keys import TOOL_CALL_STATES, PutCall, ToolCallState
from awaken.core.state.run_keys import (
    PENDING_WORK,
    RUN_LIFECYCLE,
    Done,
    LifecycleUpdate,
    SetPending,
    SetWaiting,
    Start,
)
from awaken.core.state.store import StateStore
from awaken.core.store.commits import ThreadCommit
from awaken.core.suspension import ToolCallResume, ToolCallResumeMode, ToolCallStatus
from awaken.engine import LoopStatePlugin
from awaken.engine.checkpoint import (
    check_termination,
    materialize_message_log,
    waiting_state_from_lifecycle,
    waiting_tickets_from_store,
)
from awaken.errors import StaleFence
from awaken.plugin.env import install_plugin
from awaken.testing import text_response, tool_call_response

pytestmark = pytest.mark.anyio


def store_with_loop_state() -> StateStore:
    store = StateStore()
    install_plugin(store, LoopStatePlugin())
    return store


# -- waiting ----------------------------------------------------------------------------------


def test_waiting_state_persists_suspended_tool_tickets() -> None:
    """02/C1 [S]: a suspended call is a ticket with all its fields."""
    store = store_with_loop_state()
    store.update(
        TOOL_CALL_STATES,
        PutCall(
            call=ToolCallState(
                call_id="call-1",
                tool_name="dangerous",
                arguments={"path": "/tmp/x"},
                status=ToolCallStatus.SUSPENDED,
                updated_at=123,
            )
            .with_resume_mode(ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT)
            .with_suspension("ticket-1", "approval")
        ),
    )

    waiting = waiting_state_from_lifecycle(
        RunStatus.WAITING, "suspended", "dispatch-1", waiting_tickets_from_store(store)
    )

    assert waiting is not None
    assert waiting.reason is WaitingReason.TOOL_PERMISSION
    assert waiting.ticket_ids == ("ticket-1",)
    assert len(waiting.tickets) == 1
    ticket = waiting.tickets[0]
    assert ticket.tool_call_id == "call-1"
    assert ticket.tool_name == "dangerous"
    assert ticket.arguments == {"path": "/tmp/x"}
    assert ticket.resume_mode is ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT
    assert ticket.reason == "approval"
    assert ticket.updated_at == 123
    assert waiting.since_dispatch_id == "dispatch-1"


def test_waiting_ticket_falls_back_to_tool_call_id_without_suspension_id() -> None:
    """02/C2 [S]: without a suspension id the ticket is named by the call."""
    store = store_with_loop_state()
    store.update(
        TOOL_CALL_STATES,
        PutCall(
            call=ToolCallState(
                call_id="call-without-ticket",
                tool_name="plain_suspend",
                arguments={"x": 1},
                status=ToolCallStatus.SUSPENDED,
                updated_at=456,
            )
        ),
    )

    waiting = waiting_state_from_lifecycle(
        RunStatus.WAITING, "suspended", None, waiting_tickets_from_store(store)
    )

    assert waiting is not None
    assert waiting.ticket_ids == ("call-without-ticket",)
    assert waiting.tickets[0].ticket_id == "call-without-ticket"
    assert waiting.tickets[0].tool_call_id == "call-without-ticket"


def test_only_suspended_calls_are_tickets_and_they_are_sorted() -> None:
    """02 §3.6: every suspended call, by call id; nothing for a run that does not wait."""
    store = store_with_loop_state()
    for call_id, status in (
        ("c-2", ToolCallStatus.SUSPENDED),
        ("c-3", ToolCallStatus.SUCCEEDED),
        ("c-1", ToolCallStatus.SUSPENDED),
    ):
        call = ToolCallState(call_id=call_id, tool_name="t", arguments={}, status=status)
        store.update(TOOL_CALL_STATES, PutCall(call=call))

    tickets = waiting_tickets_from_store(store)

    assert [ticket.ticket_id for ticket in tickets] == ["c-1", "c-2"]
    assert waiting_state_from_lifecycle(RunStatus.RUNNING, "suspended", None, tickets) is None
    assert waiting_state_from_lifecycle(RunStatus.DONE, "natural", None, tickets) is None


# -- whose messages ---------------------------------------------------------------------------


def previous_record() -> RunRecord:
    return RunRecord(
        run_id="run-1",
        thread_id="thread-1",
        agent_id="agent",
        input=RunMessageInput(
            thread_id="thread-1",
            range=MessageSeqRange.new(1, 3),
            trigger_message_ids=("resume input",),
        ),
        output=RunMessageOutput(
            thread_id="thread-1",
            range=MessageSeqRange.new(2, 2),
            message_ids=("m-old-output",),
        ),
        status=RunStatus.WAITING,
        created_at=1,
        updated_at=1,
        steps=1,
    )


def identity() -> RunIdentity:
    return RunIdentity(
        thread_id="thread-1", run_id="run-1", agent_id="agent", origin=RunOrigin.USER
    )


def test_materialize_message_log_preserves_output_across_same_run_resume() -> None:
    """02/C3 [S]: old ids then new ones; the range is their hull."""
    old_output = msgspec.structs.replace(
        Message.assistant("before wait", id="m-old-output"),
        metadata=MessageMetadata(run_id="run-1", step_index=0),
    )
    new_output = Message.assistant("after resume", id="m-new-output")
    messages = [
        Message.user("first input"),
        old_output,
        Message.user("resume input"),
        new_output,
    ]

    materialized, _, output = materialize_message_log(messages, previous_record(), identity(), 2, 0)

    assert output is not None
    assert output.message_ids == ("m-old-output", "m-new-output")
    assert output.range == MessageSeqRange.new(2, 4)
    assert materialized[3].produced_by_run_id() == "run-1"


def test_a_window_of_the_log_gives_the_same_as_the_whole() -> None:
    """02/C3 by design §8: only the run's own window is looked at, with the seq before it."""
    window = [Message.user("resume input"), Message.assistant("after resume", id="m-new-output")]

    _, _, output = materialize_message_log(window, previous_record(), identity(), 2, 0, base_seq=2)

    assert output is not None
    assert output.message_ids == ("m-old-output", "m-new-output")
    assert output.range == MessageSeqRange.new(2, 4)


def test_a_message_queued_meanwhile_keeps_its_place() -> None:
    """02/C8 [R6]: log input, queued, assistant; the run's output is [3,3]."""
    log = [
        Message.user("input"),
        Message.user("queued"),
        Message.assistant("answer", id="m-answer"),
    ]

    _, source, output = materialize_message_log(log, None, identity(), 1, 1)

    assert source is not None
    assert source.range == MessageSeqRange.new(1, 1)
    assert output is not None
    assert (output.range, output.message_ids) == (MessageSeqRange.new(3, 3), ("m-answer",))


def test_messages_of_another_run_are_never_claimed() -> None:
    """Design §8: on a continuation, what other runs produced is not this run's output."""
    other = msgspec.structs.replace(
        Message.assistant("theirs", id="m-other"), metadata=MessageMetadata(run_id="run-2")
    )
    log = [Message.user("input"), other, Message.assistant("mine", id="m-mine")]

    marked, _, output = materialize_message_log(log, None, identity(), 1, 1)

    assert output is not None
    assert output.message_ids == ("m-mine",)
    assert marked[1].produced_by_run_id() == "run-2"


def test_marking_never_overwrites_a_producer() -> None:
    """02/C7: metadata that is there stays."""
    early = msgspec.structs.replace(
        Message.assistant("said early"),
        metadata=MessageMetadata(run_id="run-1", step_index=0),
    )

    marked, _, _ = materialize_message_log(
        [Message.user("input"), early, Message.assistant("late")], None, identity(), 5, 1
    )

    assert [m.metadata for m in marked] == [
        None,
        MessageMetadata(run_id="run-1", step_index=0),
        MessageMetadata(run_id="run-1", step_index=4),
    ]


@pytest.mark.parametrize("base_seq", [0, 40])
def test_without_input_a_run_owns_what_follows_the_first_message_it_is_known_to_have_made(
    base_seq: int,
) -> None:
    """02 §3.5: what stands before that has another author, though nobody wrote down who."""
    first = msgspec.structs.replace(
        Message.assistant("mine", id="m-1"), metadata=MessageMetadata(run_id="run-1")
    )
    log = [Message.assistant("whose?", id="m-0"), first, Message.assistant("next", id="m-2")]

    marked, source, output = materialize_message_log(log, None, identity(), 1, 0, base_seq=base_seq)

    assert source is None
    assert [m.produced_by_run_id() for m in marked] == [None, "run-1", "run-1"]
    assert output is not None
    assert output.message_ids == ("m-1", "m-2")
    assert output.range == MessageSeqRange.new(base_seq + 2, base_seq + 3)


def test_a_run_without_input_or_output_owns_nothing() -> None:
    """02 §3.5: nothing given, nothing claimed."""
    marked, source, output = materialize_message_log([], None, identity(), 0, 0)

    assert (marked, source, output) == ((), None, None)


async def test_each_message_keeps_the_step_it_was_made_in() -> None:
    """02/C7, 02/8.5: marks are made when a message is made, not over again at every commit."""

    @tool
    async def look() -> str:
        return "seen"

    model = CheckedModel(
        tool_call_response("one", "look", "c1", {}),
        tool_call_response("two", "look", "c2", {}),
        "three",
    )
    stage = Stage(Agent("a", model=model, tools=[look]))

    result = await stage.run()

    log = await stage.log()
    produced = [(m.text(), m.metadata.step_index) for m in log if m.metadata is not None]
    assert produced == [("one", 0), ("seen", 0), ("two", 1), ("seen", 1), ("three", 2)]
    record = await stage.record()
    assert record.input is not None
    assert record.input.range == MessageSeqRange.new(1, 1)
    assert record.output is not None
    assert record.output.range == MessageSeqRange.new(2, 6)
    assert record.output.message_ids == tuple(m.id for m in log[1:])
    assert {m.produced_by_run_id() for m in log[1:]} == {result.run_id}


# -- how it ended -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        (None, None),
        (Done(reason="natural"), NATURAL_END),
        (Done(reason="stopped:budget"), Stopped(value=StoppedReason(code="budget"))),
        (
            Done(
                reason="stopped:budget",
                termination=Stopped(value=StoppedReason(code="budget", detail="spent")),
            ),
            Stopped(value=StoppedReason(code="budget", detail="spent")),
        ),
        (Done(reason="unknown"), Failed(value="unknown")),
        (SetWaiting(reason="suspended"), SUSPENDED_END),
        (SetWaiting(reason="awaiting_tasks"), None),
    ],
)
def test_check_termination(
    update: LifecycleUpdate | None, expected: TerminationReason | None
) -> None:
    """02/C4: running none; done by its reason; waiting suspended, but for tasks."""
    store = store_with_loop_state()
    assert check_termination(store) is None
    store.update(RUN_LIFECYCLE, Start(run_id="run-1"))
    if update is not None:
        store.update(RUN_LIFECYCLE, update)

    assert check_termination(store) == expected


def busy_plugin() -> TestPlugin:
    async def busy(_: PhaseContext) -> Command:
        return Command().update(PENDING_WORK, SetPending(pending=True, owner="test"))

    return TestPlugin({Phase.STEP_END: busy})


async def test_a_run_that_awaits_its_tasks_stays_waiting_at_its_end() -> None:
    """02/C5: waiting is not overwritten by done. The pending work comes from a test plugin."""
    stage = Stage(Agent("a", model=CheckedModel("on it"), plugins=[busy_plugin()]))

    result = await stage.run()

    assert result.termination == NATURAL_END
    record = await stage.record()
    assert record.status is RunStatus.WAITING
    assert record.waiting_reason() is WaitingReason.BACKGROUND_TASKS
    assert record.finished_at is None
    finish = stage.told(RunFinish)[-1]
    assert finish.result == {
        "response": "on it",
        "status": "waiting",
        "status_reason": "awaiting_tasks",
    }


async def test_one_commit_holds_messages_state_and_tokens_together() -> None:
    """02/C6: 11 tokens in, 7 out, in the same commit as the answer and the run's end."""
    store = CountingCommits()
    usage = TokenUsage(prompt_tokens=11, completion_tokens=7)
    stage = Stage(Agent("a", model=CheckedModel(text_response("hello", usage))), store=store)

    result = await stage.run()

    last: ThreadCommit = store.made[-1]
    assert [m.text() for m in last.messages] == ["hello"]
    assert last.run is not None
    assert (last.run.input_tokens, last.run.output_tokens) == (11, 7)
    assert last.run.status is RunStatus.DONE
    assert RUN_LIFECYCLE.name in last.run_state
    assert (result.input_tokens, result.output_tokens) == (11, 7)
    record = await stage.record()
    assert (record.input_tokens, record.output_tokens) == (11, 7)


async def test_a_step_without_calls_is_one_commit_and_a_step_with_calls_two() -> None:
    """Design §4: the answer with its intents, then the outcomes; the run's begin is one more."""

    @tool
    async def look() -> str:
        return "seen"

    plain, calling = CountingCommits(), CountingCommits()
    await Stage(Agent("a", model=CheckedModel("hello")), store=plain).run()
    model = CheckedModel(tool_call_response("", "look", "c1", {}), "hello")
    await Stage(Agent("a", model=model, tools=[look]), store=calling).run()

    assert len(plain.made) == 2
    assert len(calling.made) == 4
    begin, intents, outcomes, end = calling.made
    assert [m.role.value for m in begin.messages] == ["user"]
    assert [m.role.value for m in intents.messages] == ["assistant"]
    assert [(c.call_id, c.phase.value) for c in intents.calls] == [("c1", "intent")]
    assert [m.role.value for m in outcomes.messages] == ["tool"]
    assert [(c.call_id, c.phase.value) for c in outcomes.calls] == [("c1", "succeeded")]
    assert [m.role.value for m in end.messages] == ["assistant"]


# -- several writers --------------------------------------------------------------------------


async def test_a_message_somebody_else_appended_is_never_overwritten() -> None:
    """02/C8 [R6]: by design §4 a live thread has one owner; nobody else appends to it.

    What is appended between two runs stays, and the next run reads it.
    """
    stage = Stage(Agent("a", model=CheckedModel(lambda _: intrude(), "seen")))
    refused: list[type[Exception]] = []

    async def append() -> None:
        length = len(await stage.log())
        queued = (Message.user("queued"),)
        commit = ThreadCommit(thread_id=THREAD, expected_length=length, messages=queued)
        await stage.store.commit(commit)

    async def intrude() -> str:
        try:
            await append()
        except StaleFence as error:
            refused.append(type(error))
        return "undisturbed"

    assert (await stage.run("input")).response == "undisturbed"
    assert refused == [StaleFence]
    await append()
    assert (await stage.run("again")).response == "seen"

    assert [text for _, text in await stage.texts()] == [
        "input",
        "undisturbed",
        "queued",
        "again",
        "seen",
    ]


async def test_the_request_survives_every_checkpoint() -> None:
    """02/C8 [R6]: request and creation time of a record outlive a resume; totals only grow."""
    usage = TokenUsage(prompt_tokens=5, completion_tokens=3)

    @tool(needs_approval=True)
    async def launch() -> str:
        return "up"

    call = msgspec.structs.replace(tool_call_response("", "launch", "c1", {}), usage=usage)
    model = CheckedModel(call, text_response("done", usage))
    stage = Stage(Agent("a", model=model, tools=[launch]))
    await stage.run("go", transport_request_id="http-1", dispatch_id="d-1")
    before = await stage.record()

    await stage.resume(("c1", ToolCallResume.approve()))

    after = await stage.record()
    assert after.run_id == before.run_id
    assert before.request is not None
    assert after.request == before.request
    assert after.transport_request_id == "http-1"
    assert (after.created_at, after.started_at) == (before.created_at, before.started_at)
    assert (before.steps, after.steps) == (1, 2)
    assert (after.input_tokens, after.output_tokens) == (10, 6)
    assert after.revision > before.revision


async def test_a_waiting_record_says_since_which_dispatch() -> None:
    """02/8.7, design §8: the dispatch id, not the session's; the termination stays as written."""

    @tool(needs_approval=True)
    async def launch() -> str:
        return "up"

    model = CheckedModel(tool_call_response("", "launch", "c1", {}))
    stage = Stage(Agent("a", model=model, tools=[launch]))

    await stage.run("go", dispatch_id="d-1", session_id="s-1")

    record = await stage.record()
    assert record.waiting is not None
    assert record.waiting.since_dispatch_id == "d-1"
    assert record.session_id == "s-1"
    assert record.termination_reason == SUSPENDED_END
    assert record.outcome is not None
    assert record.finished_at is None


async def test_a_live_run_stores_no_end() -> None:
    """02/C8 [R6]: while it runs, a record has no termination, outcome, waiting or finish."""
    store = CountingCommits()
    stage = Stage(Agent("a", model=CheckedModel("hello")), store=store)

    await stage.run()

    begin = store.made[0].run
    assert begin is not None
    assert begin.status is RunStatus.RUNNING
    assert (begin.termination_reason, begin.outcome, begin.waiting, begin.finished_at) == (
        None,
        None,
        None,
        None,
    )
    end = store.made[-1].run
    assert end is not None
    assert end.finished_at is not None
    assert end.outcome is not None
    assert end.outcome.final_output == end.final_output == "hello"
