"""Agents elsewhere through the front door and the engine's (02 §2.17, design §8)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from far_kit import (
    Far,
    FarBackend,
    Held,
    asks,
    can,
    far_agent,
    runtime_of,
    says,
    texts,
)
from run_kit import record_of, told

from awaken import Agent, Message, RunRequest, Runtime, ToolCallResume, tool
from awaken.backend import (
    BACKEND_OUTPUT_STATE_KEY,
    BackendCancellationCapability,
    BackendRootRunRequest,
    BackendRunResult,
    BackendTranscriptCapability,
)
from awaken.core.event import CollectingSink, RunStart
from awaken.core.inference import InferenceOverride
from awaken.core.lifecycle import CANCELLED, NATURAL_END, RunStatus
from awaken.core.run import CancelOutcome, WaitingReason
from awaken.core.store.threads import RunQuery, ThreadQuery, TicketQuery
from awaken.core.suspension import TicketStatus
from awaken.core.tool import ToolDescriptor
from awaken.errors import InvalidResume, ResolveFailed, RunLeft
from awaken.stores.memory import MemoryStore
from awaken.testing import ScriptedModel, tool_call_response

pytestmark = pytest.mark.anyio

YES = ToolCallResume.approve()


def asked(text: str = "hello", **request: Any) -> RunRequest:
    return RunRequest(thread_id="t", agent_id="far", messages=(Message.user(text),), **request)


# -- one run ----------------------------------------------------------------------------------


async def test_an_agent_elsewhere_is_asked_like_any_other() -> None:
    """02/B7"""
    backend = FarBackend(says("hi there", steps=2))
    async with runtime_of(backend) as runtime:
        async with runtime.stream("far", "hello", thread="t") as events:
            kinds = [type(event.event).__name__ async for event in events]
            result = events.result
        record = await record_of(runtime, result.run_id)
        log = told(await runtime.messages("t"))

    assert kinds == [
        "RunStart",
        "StepStart",
        "TextDelta",
        "InferenceComplete",
        "StepEnd",
        "RunFinish",
    ]
    assert (result.response, result.termination, result.steps) == ("hi there", NATURAL_END, 2)
    assert (record.status, record.agent_id, record.final_output) == (
        RunStatus.DONE,
        "far",
        "hi there",
    )
    assert record.request is not None
    assert record.request.input_message_count == 1
    assert log == ["user: hello", "assistant: hi there"]


async def test_a_thread_is_given_up_when_its_run_elsewhere_ends() -> None:
    async with runtime_of(FarBackend(says("one"))) as runtime:
        await runtime.run("far", "hello", thread="t")
        thread = await runtime.store.load_thread("t")
    assert thread is not None
    assert (thread.owner, thread.open_run_id) == (None, None)


async def test_a_new_run_knows_the_agents_last_one_but_not_what_came_out_of_it() -> None:
    first = says("one", state=asks("", conversation="c1").state)
    backend = FarBackend(first, says("two"))
    async with runtime_of(backend) as runtime:
        await runtime.run("far", "1", thread="t")
        await runtime.run("far", "2", thread="t")
    assert backend.requests[0].persisted_state is None
    state = backend.requests[1].persisted_state
    assert state is not None
    assert state.extensions == {"conversation": "c1"}
    assert not backend.requests[1].is_continuation


@pytest.mark.parametrize(
    ("transcript", "seen"),
    [
        (BackendTranscriptCapability.FULL_TRANSCRIPT, ["1", "one", "2"]),
        (BackendTranscriptCapability.INCREMENTAL_USER_MESSAGES_WITH_REMOTE_STATE, ["one", "2"]),
        (BackendTranscriptCapability.SINGLE_PROMPT, ["one", "2"]),
    ],
)
async def test_only_a_backend_that_wants_the_whole_conversation_gets_it(
    transcript: BackendTranscriptCapability, seen: list[str]
) -> None:
    backend = FarBackend(says("one"), says("two"), can=can(transcript=transcript))
    async with runtime_of(backend) as runtime:
        await runtime.run("far", "1", thread="t")
        await runtime.run("far", "2", thread="t")
    assert texts(backend.requests[1].messages) == seen
    assert texts(backend.requests[1].new_messages) == ["2"]


async def test_messages_that_are_in_the_log_already_are_still_this_turns_input() -> None:
    """Also beside what others have sent meanwhile."""
    held = Held()
    backend = FarBackend(held, says("two"))
    async with runtime_of(backend) as runtime:
        async with asyncio.TaskGroup() as group:
            group.create_task(runtime.run("far", "1", thread="t"))
            await held.under_way.wait()
            assert await runtime.send("t", "sent")
            held.let_go.set()
        await runtime.engine.run(asked("known", messages_already_persisted=True))
    assert backend.new_messages()[1] == ["known", "sent"]


@pytest.mark.parametrize("claimed", list(BackendCancellationCapability))
async def test_the_runs_token_is_given_only_to_a_backend_that_claims_to_heed_it(
    claimed: BackendCancellationCapability,
) -> None:
    backend = FarBackend(says("one"), can=can(cancellation=claimed))
    async with runtime_of(backend) as runtime:
        await runtime.run("far", "1")
    token = backend.requests[0].control.cancellation_token
    assert (token is not None) is claimed.supports_cooperative_token


async def test_a_cooperative_backend_sees_the_cancel() -> None:
    seen: list[bool] = []

    async def work(request: BackendRootRunRequest) -> BackendRunResult:
        token = request.control.cancellation_token
        assert token is not None
        under_way.set()
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(token.is_cancelled())
        raise AssertionError("nobody lets it go")

    under_way = asyncio.Event()
    cooperative = can(cancellation=BackendCancellationCapability.COOPERATIVE_TOKEN)
    backend = FarBackend(work, can=cooperative)
    async with runtime_of(backend) as runtime, asyncio.TaskGroup() as group:
        run = group.create_task(runtime.run("far", "1", thread="t"))
        await under_way.wait()
        receipt = await runtime.cancel("t")
    assert run.result().termination == CANCELLED
    assert seen == [True]
    assert [item.outcome for item in receipt.items] == [CancelOutcome.STOPPED]


# -- what a backend cannot do -----------------------------------------------------------------

UNSUPPORTED: dict[str, dict[str, Any]] = {
    "decisions": {"decisions": (("c1", YES),)},
    "overrides": {"settings": InferenceOverride()},
    "frontend_tools": {"frontend_tools": (ToolDescriptor(id="ui", name="ui", description=""),)},
}


@pytest.mark.parametrize("store", ["memory:", "sqlite:///{}/awaken.db"])
@pytest.mark.parametrize("feature", UNSUPPORTED)
async def test_what_a_backend_cannot_do_is_refused_before_anything_happens(
    feature: str, store: str, tmp_path: Path
) -> None:
    """02/B9"""
    backend, sink = FarBackend(says("after that")), CollectingSink()
    async with runtime_of(backend, store=store.format(tmp_path)) as runtime:
        with pytest.raises(ResolveFailed, match=f"agent 'far' .* does not support: {feature}$"):
            await runtime.engine.run(asked(**UNSUPPORTED[feature]), sink)
        threads = await runtime.list_threads(ThreadQuery())
        assert (await runtime.run("far", "hello", thread="t")).response == "after that"
    assert sink.events() == []
    assert len(threads) == 0
    assert len(backend.requests) == 1


async def test_everything_a_backend_cannot_do_is_named_at_once() -> None:
    everything = {name: value for asks in UNSUPPORTED.values() for name, value in asks.items()}
    async with runtime_of(FarBackend()) as runtime:
        with pytest.raises(ResolveFailed, match="not support: decisions, overrides, frontend_"):
            await runtime.engine.run(asked(**everything))


async def test_a_run_its_backend_cannot_go_on_with_is_not_gone_on_with() -> None:
    """02/B9: it waits, and a cancel is the way out."""
    backend, sink = FarBackend(asks("which?"), says("anew"), can=can()), CollectingSink()
    async with runtime_of(backend) as runtime:
        first = await runtime.run("far", "hello", thread="t")
        with pytest.raises(ResolveFailed, match=r"does not support: continuation$"):
            await runtime.run("far", "this", thread="t", sink=sink)
        record = await record_of(runtime, first.run_id)
        log = told(await runtime.messages("t"))
        assert await runtime.cancel("t")
        again = await runtime.run("far", "this", thread="t")
    assert sink.events() == []
    assert (record.status, record.revision) == (RunStatus.WAITING, 2)
    assert log == ["user: hello", "assistant: which?"]
    assert (again.response, again.run_id != first.run_id) == ("anew", True)


async def test_what_a_backend_can_do_reaches_it() -> None:
    """02 §2.4"""
    able = can(decisions=True, overrides=True, frontend_tools=True)
    backend = FarBackend(says("well"), can=able)
    everything = {name: value for asks in UNSUPPORTED.values() for name, value in asks.items()}
    async with runtime_of(backend) as runtime:
        await runtime.engine.run(asked(**everything))
    (request,) = backend.requests
    assert request.decisions == everything["decisions"]
    assert request.overrides == everything["settings"]
    assert request.frontend_tools == everything["frontend_tools"]


async def test_answers_for_an_agent_here_are_still_held_against_its_tickets() -> None:
    """Only where questions are kept elsewhere are answers the agent's own business."""
    agent = Agent("near", model=ScriptedModel(["hi"]))
    async with runtime_of(FarBackend(says("well")), agent) as runtime:
        await runtime.run("far", "hello", thread="t")
        request = RunRequest(thread_id="t", agent_id="near", decisions=(("c1", YES),))
        with pytest.raises(InvalidResume, match="no ticket of the thread is waiting"):
            await runtime.engine.run(request)


# -- decisions --------------------------------------------------------------------------------


async def test_a_backend_without_decisions_has_no_channel_for_them() -> None:
    """02/B12"""
    held = Held()
    backend = FarBackend(held)
    async with runtime_of(backend) as runtime, asyncio.TaskGroup() as group:
        run = group.create_task(runtime.run("far", "hello", thread="t"))
        await held.under_way.wait()
        sent = await runtime.engine.send_decisions("t", [("c1", YES)])
        one = await runtime.engine.send_decision("t", "c1", YES)
        held.let_go.set()
    assert (sent, one) == (False, False)
    assert backend.requests[0].control.decision_rx is None
    assert run.result().response == "let go"


async def test_a_backend_with_decisions_is_given_those_that_are_sent() -> None:
    """02/B12"""

    async def work(request: BackendRootRunRequest) -> BackendRunResult:
        queue = request.control.decision_rx
        assert queue is not None
        under_way.set()
        await queue.ready()
        ((decisions, _),) = queue.drain()
        return says(", ".join(f"{id}: {answer.action.value}" for id, answer in decisions))

    under_way = asyncio.Event()
    async with runtime_of(FarBackend(work, can=can(decisions=True))) as runtime:
        async with asyncio.TaskGroup() as group:
            run = group.create_task(runtime.run("far", "hello", thread="t"))
            await under_way.wait()
            no = ToolCallResume.deny("no")
            sent = await runtime.engine.send_decisions("t", [("c1", YES), ("c2", no)])
        late = await runtime.engine.send_decisions("t", [("c1", YES)])
    assert (sent, late) == (True, False)
    assert run.result().response == "c1: resume, c2: cancel"


# -- waiting ----------------------------------------------------------------------------------


async def test_a_run_that_waits_goes_on_with_the_next_message() -> None:
    backend = FarBackend(asks("which?", handle="task-1"), says("that one"))
    async with runtime_of(backend) as runtime:
        first = await runtime.run("far", "hello", thread="t")
        waiting = await record_of(runtime, first.run_id)
        second = await runtime.run("far", "this", thread="t")
        done = await record_of(runtime, first.run_id)
        log = told(await runtime.messages("t"))

    assert (first.suspended, first.tickets, waiting.status) == (True, (), RunStatus.WAITING)
    assert waiting.waiting_reason() is WaitingReason.USER_INPUT
    assert second.run_id == first.run_id
    assert backend.new_messages() == [["hello"], ["this"]]
    request = backend.requests[1]
    assert request.is_continuation
    assert request.persisted_state is not None
    assert request.persisted_state.extensions["handle"] == "task-1"
    assert (done.status, done.created_at) == (RunStatus.DONE, waiting.created_at)
    assert log == ["user: hello", "assistant: which?", "user: this", "assistant: that one"]
    assert done.output is not None
    assert len(done.output.message_ids) == 2


async def test_a_run_that_waits_is_cancelled_and_its_work_stopped() -> None:
    backend = FarBackend(asks("which?", handle="task-1"))
    async with runtime_of(backend) as runtime:
        first = await runtime.run("far", "hello", thread="t")
        receipt = await runtime.cancel("t")
        record = await record_of(runtime, first.run_id)
    assert [item.outcome for item in receipt.items] == [CancelOutcome.STOPPED]
    assert (record.status, record.termination_reason) == (RunStatus.DONE, CANCELLED)
    (abort,) = backend.aborts
    assert abort.persisted_state is not None
    assert abort.persisted_state.extensions["handle"] == "task-1"
    assert abort.is_continuation
    assert len(backend.requests) == 1


async def test_a_named_run_goes_on_with_its_own_state() -> None:
    """02/B11"""
    backend = FarBackend(
        asks("which?", handle="task-1"),
        says("other", state=asks("", handle="task-2").state),
        says("that one"),
    )
    async with runtime_of(backend) as runtime:
        first = await runtime.run("far", "hello", thread="t")
        await runtime.engine.run(asked("other", run_id_hint="run-2"))
        latest = await runtime.store.latest_run("t")
        await runtime.engine.run(asked("this", continue_run_id=first.run_id))
        record = await record_of(runtime, first.run_id)
    assert latest is not None
    assert latest.run_id == "run-2"
    state = backend.requests[2].persisted_state
    assert state is not None
    assert state.extensions["handle"] == "task-1"
    assert record.status is RunStatus.DONE
    assert record.output is not None
    assert len(record.output.message_ids) == 2, "what run-2 said is not claimed"


# -- other agents in the thread ---------------------------------------------------------------


async def test_a_run_elsewhere_that_waits_ends_when_another_agent_is_asked() -> None:
    """Nothing can be handed over between them: the work there is stopped first."""
    backend = FarBackend(asks("which?", handle="task-1"))
    agent, sink = Agent("near", model=ScriptedModel(["here I am"])), CollectingSink()
    async with runtime_of(backend, agent) as runtime:
        first = await runtime.run("far", "hello", thread="t")
        second = await runtime.run("near", "never mind", thread="t", sink=sink)
        ended = await record_of(runtime, first.run_id)
        log = told(await runtime.messages("t"))

    assert (ended.status, ended.termination_reason) == (RunStatus.DONE, CANCELLED)
    (abort,) = backend.aborts
    assert abort.persisted_state is not None
    assert abort.persisted_state.extensions["handle"] == "task-1"
    assert (second.response, second.run_id != first.run_id) == ("here I am", True)
    assert {event.run_id for event in sink.events()} == {second.run_id}
    assert log == [
        "user: hello",
        "assistant: which?",
        "user: never mind",
        "assistant: here I am",
    ]


async def test_a_run_here_that_waits_ends_when_an_agent_elsewhere_is_asked() -> None:
    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        raise AssertionError("nobody has approved it")

    model = ScriptedModel([tool_call_response("", "pay", "c1", {})])
    backend = FarBackend(says("here I am"))
    async with runtime_of(backend, Agent("near", model=model, tools=[pay])) as runtime:
        first = await runtime.run("near", "hello", thread="t")
        second = await runtime.run("far", "never mind", thread="t")
        ended = await record_of(runtime, first.run_id)
        tickets = await runtime.list_tickets(TicketQuery(thread_id="t"))

    assert first.suspended
    assert (ended.status, ended.termination_reason) == (RunStatus.DONE, CANCELLED)
    assert [ticket.status for ticket in tickets] == [TicketStatus.CLOSED]
    assert (second.response, second.run_id != first.run_id) == ("here I am", True)
    (request,) = backend.requests
    assert not request.is_continuation
    assert request.persisted_state is None


async def test_a_run_on_one_backend_ends_when_an_agent_of_another_is_asked() -> None:
    one, other = FarBackend(asks("which?")), FarBackend(says("here I am"))
    agents = [far_agent(), far_agent("farther", "other")]
    factories = [Far(one), Far(other, "other")]
    async with Runtime(agents, backends=factories) as runtime:
        first = await runtime.run("far", "hello", thread="t")
        second = await runtime.run("farther", "never mind", thread="t")
        ended = await record_of(runtime, first.run_id)
    assert ended.termination_reason == CANCELLED
    assert len(one.aborts) == 1
    assert (second.response, other.requests[0].persisted_state) == ("here I am", None)


# -- being written to -------------------------------------------------------------------------


async def test_what_is_sent_to_a_live_run_elsewhere_is_read_by_the_next_one() -> None:
    held = Held()
    backend = FarBackend(held, says("two"))
    async with runtime_of(backend) as runtime:
        async with asyncio.TaskGroup() as group:
            group.create_task(runtime.run("far", "one", thread="t"))
            await held.under_way.wait()
            sent = await runtime.send("t", "by the way")
            held.let_go.set()
        between = told(await runtime.messages("t"))
        await runtime.run("far", "and then", thread="t")
        after = told(await runtime.messages("t"))

    assert sent
    assert between == ["user: one", "assistant: let go"]
    assert backend.new_messages() == [["one"], ["by the way", "and then"]]
    assert after[2:] == ["user: by the way", "user: and then", "assistant: two"]


# -- leaving and going on ---------------------------------------------------------------------


async def test_a_run_that_is_left_goes_on_in_the_next_runtime_with_its_handle() -> None:
    store, held = MemoryStore(), Held(handle="task-1")
    first = FarBackend(held)
    async with runtime_of(first, store=store, on_close="leave") as runtime:
        run = asyncio.ensure_future(runtime.run("far", "hello", thread="t"))
        await held.under_way.wait()
    with pytest.raises(RunLeft):
        await run
    left = await store.latest_run("t")
    second = FarBackend(says("found it"))
    async with runtime_of(second, store=store) as runtime:
        (recovered,) = runtime.recovered
        result = await recovered

    assert left is not None
    assert left.status is RunStatus.RUNNING
    assert (result.run_id, result.response) == (left.run_id, "found it")
    assert first.aborts == []
    (request,) = second.requests
    assert request.is_continuation
    assert request.persisted_state is not None
    assert request.persisted_state.extensions == {"handle": "task-1"}
    assert request.new_messages == ()


async def test_a_runtime_that_closes_cancels_and_aborts() -> None:
    store, held = MemoryStore(), Held(handle="task-1")
    backend = FarBackend(held)
    async with runtime_of(backend, store=store) as runtime:
        run = asyncio.ensure_future(runtime.run("far", "hello", thread="t"))
        await held.under_way.wait()
    assert (await run).termination == CANCELLED
    assert len(backend.aborts) == 1


async def test_a_stream_that_is_left_early_stops_the_work_elsewhere() -> None:
    held = Held(handle="task-1")
    backend = FarBackend(held)
    async with runtime_of(backend) as runtime:
        async with runtime.stream("far", "hello", thread="t") as events:
            async for event in events:
                if isinstance(event.event, RunStart):
                    await held.under_way.wait()
                    break
        latest = await runtime.store.latest_run("t")
    assert latest is not None
    assert latest.termination_reason == CANCELLED
    assert len(backend.aborts) == 1


async def test_a_cancel_while_a_run_begins_to_wait_still_ends_it() -> None:
    """The answer and the cancel cross."""

    async def work(request: BackendRootRunRequest) -> BackendRunResult:
        cancels.append(asyncio.ensure_future(runtime.cancel("t")))
        return asks("which?")

    cancels: list[asyncio.Future[Any]] = []
    async with runtime_of(FarBackend(work)) as runtime:
        result = await runtime.run("far", "hello", thread="t")
        receipt = await cancels[0]
        ended = await record_of(runtime, result.run_id)
    assert receipt
    assert (ended.status, ended.termination_reason) == (RunStatus.DONE, CANCELLED)


async def test_a_record_keeps_what_came_out_of_a_run_elsewhere() -> None:
    async with runtime_of(FarBackend(says("well"))) as runtime:
        result = await runtime.run("far", "hello", thread="t")
        record = await record_of(runtime, result.run_id)
        runs = await runtime.list_runs(RunQuery(agent_id="far"))
    assert record.state is not None
    assert record.state.extensions == {BACKEND_OUTPUT_STATE_KEY: {"text": "well"}}
    assert [run.run_id for run in runs] == [result.run_id]
