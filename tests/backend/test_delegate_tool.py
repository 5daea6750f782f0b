"""Another agent as a tool (02/8.18, 01/D-23, 01/D-24, 03 §4.1)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from awaken import Agent, RunRequest, Runtime, tool
from awaken.backend import (
    BackendCapabilities,
    BackendDelegateRunRequest,
    BackendRunOutput,
    BackendRunResult,
    BackendRunStatus,
    ExecutionBackend,
)
from awaken.backend.delegate_tool import MAX_DEPTH, DelegateTool
from awaken.core.event import ActivitySnapshot, AgentEvent, CollectingSink, TextDelta, ToolCallDone
from awaken.core.identity import RunIdentity
from awaken.core.lifecycle import CANCELLED, NATURAL_END, SUSPENDED_END
from awaken.core.llm import InferenceRequest
from awaken.core.message import Message, Role
from awaken.core.run import RunWaitingTicket
from awaken.core.spec import AgentSpec
from awaken.core.state.snapshot import Snapshot
from awaken.core.store.threads import ThreadQuery
from awaken.core.suspension import ToolCallResumeMode
from awaken.core.tool import ToolError, ToolResult, ToolStatus
from awaken.core.tool_context import ToolCallContext
from awaken.errors import AgentNotFound
from awaken.plugin.resolved_agent import ResolvedAgent, ResolvedBackendAgent
from awaken.stores.memory import MemoryStore
from awaken.testing import (
    FunctionModel,
    ScriptedModel,
    text_response,
    tool_call_response,
    tool_calls_response,
)

pytestmark = pytest.mark.anyio

ASK = tool_call_response("asking", "agent_run_helper", "call-1", {"prompt": "look it up"})


def boss(model: ScriptedModel | FunctionModel, **options: Any) -> Agent:
    return Agent("boss", model=model, delegates=["helper"], **options)


def results(messages: Any) -> list[str]:
    return [message.text() for message in messages if message.role is Role.TOOL]


# -- what the model is told -------------------------------------------------------------------


def test_a_delegate_is_described_by_its_description_and_never_by_its_prompt() -> None:
    """01/D-24: a system prompt is nobody else's business."""
    secret = "the launch code is 0000"
    described = AgentSpec(
        id="helper", model_id="m", system_prompt=secret, description="Finds things."
    )
    silent = AgentSpec(id="helper", model_id="m", system_prompt=secret)

    with_words = DelegateTool(described, NobodyKnows()).descriptor()
    without = DelegateTool(silent, NobodyKnows()).descriptor()

    assert (with_words.id, with_words.name) == ("agent_run_helper", "agent_run_helper")
    assert with_words.description == "Finds things."
    assert "helper" in without.description
    assert secret not in repr(with_words) + repr(without)


async def test_the_prompt_of_a_delegate_is_not_in_its_parents_request() -> None:
    """01/D-24: the same, seen from the model."""
    model = ScriptedModel(["no need"])
    helper = Agent("helper", model=ScriptedModel([]), system_prompt="the launch code is 0000")

    async with Runtime([boss(model), helper]) as runtime:
        await runtime.run("boss", "hi")

    assert [d.id for d in model.requests[0].tools] == ["agent_run_helper"]
    assert "0000" not in repr(model.requests[0])


@pytest.mark.parametrize("args", [None, 7, True, [], {}, {"prompt": 7}])
def test_a_delegate_needs_a_prompt(args: Any) -> None:
    """03 §4.1: anything without a text says which field is missing."""
    spec = AgentSpec(id="helper", model_id="m", system_prompt="")

    with pytest.raises(ToolError, match='missing required field "prompt"'):
        DelegateTool(spec, NobodyKnows()).validate_args(args)


def test_a_blank_prompt_is_refused() -> None:
    """03 §4.1: blank after trimming."""
    spec = AgentSpec(id="helper", model_id="m", system_prompt="")

    with pytest.raises(ToolError, match="prompt must not be empty"):
        DelegateTool(spec, NobodyKnows()).validate_args({"prompt": "  "})


# -- a child that works -----------------------------------------------------------------------


async def test_the_childs_answer_is_the_tools_result() -> None:
    """03 §4.1: one user message in; response, steps and child run out; its events are seen live."""
    child_model = ScriptedModel([text_response("42")])
    model = ScriptedModel([ASK, text_response("it is 42")])
    sink = CollectingSink()

    async with Runtime([boss(model), Agent("helper", model=child_model)]) as runtime:
        result = await runtime.run("boss", "what is it?", thread="t", sink=sink)
        log = await runtime.messages("t")

    assert result.response == "it is 42"
    assert [m.text() for m in child_model.requests[0].messages] == ["look it up"]
    assert results(model.requests[1].messages) == ["42"]
    events = [e.event for e in sink.events()]
    done = next(e for e in events if isinstance(e, ToolCallDone))
    assert done.result.status is ToolStatus.SUCCESS
    assert done.result.data["agent_id"] == "helper"
    assert done.result.data["status"] == "completed"
    assert done.result.data["response"] == "42"
    assert done.result.data["output"] == {"text": "42"}
    assert done.result.data["steps"] == 1
    child = done.result.metadata["child_run_id"]
    assert {e.run_id: e.parent_run_id for e in sink.events()} == {
        result.run_id: None,
        child: result.run_id,
    }
    said = [(e.run_id, e.event.delta) for e in sink.events() if isinstance(e.event, TextDelta)]
    assert said == [(result.run_id, "asking"), (child, "42"), (result.run_id, "it is 42")]
    assert len(log) == 4, "nothing of the child enters the parent's log"


async def test_a_child_reports_progress_to_its_parents_listener() -> None:
    """03 §4.1: running, then done."""
    sink = CollectingSink()
    helper = Agent("helper", model=ScriptedModel(["42"]))

    async with Runtime([boss(ScriptedModel([ASK, "ok"])), helper]) as runtime:
        await runtime.run("boss", "hi", sink=sink)

    shown = [e.event.content for e in sink.events() if isinstance(e.event, ActivitySnapshot)]
    assert [(c["status"], c.get("message")) for c in shown] == [
        ("running", "delegating to helper"),
        ("done", None),
    ]


async def test_a_childs_failure_is_a_result_its_parent_reads() -> None:
    """03 §4.1: an error of the child never ends the parent's run."""
    model = ScriptedModel([ASK, text_response("then without")])
    helper = Agent("helper", model=ScriptedModel([ValueError("no network")]))

    async with Runtime([boss(model), helper]) as runtime:
        result = await runtime.run("boss", "hi")

    assert result.termination == NATURAL_END
    assert results(model.requests[1].messages) == ["failed: inference failed: no network"]


async def test_a_stopped_child_is_an_error_with_its_reason() -> None:
    """02 §2.15 through the tool: the stop code reaches the parent."""
    model = ScriptedModel([ASK, text_response("then without")])

    @tool
    async def dig() -> str:
        return "deeper"

    helper = Agent(
        "helper",
        model=ScriptedModel([tool_call_response("", "dig", "c", {})]),
        tools=[dig],
        max_rounds=1,
    )

    async with Runtime([boss(model), helper]) as runtime:
        await runtime.run("boss", "hi")

    (text,) = results(model.requests[1].messages)
    assert text.startswith("failed: stopped: max_rounds")


# -- a child that waits -----------------------------------------------------------------------


def launching(launched: list[str]) -> Agent:
    @tool(needs_approval=True)
    async def launch() -> str:
        launched.append("launched")
        return "launched"

    model = ScriptedModel([tool_call_response("", "launch", "c", {}), "it is up"])
    return Agent("helper", model=model, tools=[launch])


async def test_a_childs_approval_is_asked_for_at_the_root_and_lets_it_go_on() -> None:
    """03/DB-6: the question is put for the child, and the answer is the child's."""
    model = ScriptedModel([ASK, text_response("so it is")])
    launched: list[str] = []
    asked: list[tuple[str, str]] = []

    def approve(ticket: RunWaitingTicket) -> bool:
        assert launched == []
        assert ticket.asker is not None
        asked.append((ticket.tool_name, ticket.asker.agent_id))
        return True

    async with Runtime([boss(model), launching(launched)]) as runtime:
        result = await runtime.run("boss", "hi", thread="t", on_approval=approve)

    assert result.response == "so it is"
    assert asked == [("launch", "helper")]
    assert launched == ["launched"]
    assert results(model.requests[1].messages) == ["it is up"]


async def test_an_answer_to_a_delegate_nothing_is_kept_of_is_the_calls_result() -> None:
    """03 §4.1: without a runtime that keeps it there is nobody the answer could reach."""
    launched: list[str] = []
    async with Runtime([launching(launched)]) as runtime:
        resolver = runtime.engine.registry.snapshot()
        spec = AgentSpec(id="helper", model_id="m", system_prompt="")
        output = await DelegateTool(spec, resolver).execute({"prompt": "hi"}, context())

    ticket = output.result.suspension
    assert ticket is not None
    assert ticket.resume_mode is ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT
    assert ticket.asker is None
    assert launched == []


class WaitingBackend(ExecutionBackend):
    """Answers every delegate with one status."""

    def __init__(self, status: BackendRunStatus, run_id: str | None) -> None:
        self.status = status
        self.run_id = run_id

    def capabilities(self) -> BackendCapabilities:
        return BackendCapabilities.full()

    async def execute_delegate(self, request: BackendDelegateRunRequest) -> BackendRunResult:
        return BackendRunResult(
            agent_id=request.agent_id,
            status=self.status,
            termination=SUSPENDED_END,
            output=BackendRunOutput(),
            run_id=self.run_id,
        )


class OneBackend:
    """Resolves every agent to one backend."""

    def __init__(self, backend: ExecutionBackend) -> None:
        self.backend = backend

    def resolve(self, agent_id: str) -> ResolvedAgent:
        raise AgentNotFound(agent_id)

    def resolve_execution(self, agent_id: str) -> ResolvedBackendAgent:
        spec = AgentSpec(id=agent_id, model_id="m", system_prompt="")
        return ResolvedBackendAgent(spec, backend=self.backend)

    def agent_ids(self) -> list[str]:
        return ["helper"]


class NobodyKnows:
    """A resolver without agents."""

    def resolve(self, agent_id: str) -> ResolvedAgent:
        raise AgentNotFound(agent_id)

    def resolve_execution(self, agent_id: str) -> ResolvedAgent:
        raise AgentNotFound(agent_id)

    def agent_ids(self) -> list[str]:
        return []


def context(told: list[AgentEvent] | None = None) -> ToolCallContext:
    async def tell(event: AgentEvent) -> None:
        if told is not None:
            told.append(event)

    return ToolCallContext(
        call_id="call-1",
        tool_name="agent_run_helper",
        run_identity=RunIdentity(thread_id="t", run_id="r", agent_id="boss"),
        agent_spec=AgentSpec(id="boss", model_id="m", system_prompt=""),
        snapshot=Snapshot(0, {}),
        activity_sink=tell,
    )


async def ask_waiting(
    status: BackendRunStatus, run_id: str | None, told: list[AgentEvent] | None = None
) -> ToolResult:
    spec = AgentSpec(id="helper", model_id="m", system_prompt="")
    delegate = DelegateTool(spec, OneBackend(WaitingBackend(status, run_id)))
    output = await delegate.execute({"prompt": "hi"}, context(told))
    assert not output.command, "a delegate changes nothing in its parent's state"
    assert isinstance(output.result, ToolResult)
    return output.result


@pytest.mark.parametrize(
    ("status", "action"),
    [
        (BackendRunStatus.waiting_input("which city?"), "agent_delegate:input_required"),
        (BackendRunStatus.waiting_auth(), "agent_delegate:auth_required"),
        (BackendRunStatus.suspended(), "agent_delegate:suspended"),
    ],
)
async def test_every_waiting_status_is_a_ticket(status: BackendRunStatus, action: str) -> None:
    """03 §4.1: action, id, message and parameters of the suspension."""
    told: list[AgentEvent] = []
    result = await ask_waiting(status, "child-1", told)

    assert result.status is ToolStatus.PENDING
    assert result.data["status"] == str(status)
    ticket = result.suspension
    assert ticket is not None
    assert ticket.suspension.action == action
    assert ticket.suspension.id == "delegate_run:child-1"
    assert ticket.suspension.message == (status.message or "agent 'helper' waits for an answer")
    assert ticket.suspension.parameters == {
        "agent_id": "helper",
        "backend_status": str(status),
        "child_run_id": "child-1",
        "tool_call_id": "call-1",
    }
    assert ticket.resume_mode is ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT
    last = told[-1]
    assert isinstance(last, ActivitySnapshot)
    assert last.content["status"] == "pending"


async def test_a_waiting_child_without_a_run_is_named_by_the_call() -> None:
    """03 §4.1: `delegate_tool:<call id>` when no child run is known."""
    result = await ask_waiting(BackendRunStatus.suspended(), None)

    assert result.suspension is not None
    assert result.suspension.suspension.id == "delegate_tool:call-1"
    assert result.metadata == {}


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (BackendRunStatus.timeout(), "timeout"),
        (BackendRunStatus.cancelled(), "cancelled"),
        (BackendRunStatus.failed("boom"), "failed: boom"),
    ],
)
async def test_every_bad_end_is_an_error_result(status: BackendRunStatus, text: str) -> None:
    """03 §4.1: failed, timeout and cancelled children are errors the parent reads."""
    result = await ask_waiting(status, "child-1")

    assert result.status is ToolStatus.ERROR
    assert result.message == text


# -- a child that cannot start ----------------------------------------------------------------


async def test_an_unknown_delegate_is_an_error_result_not_an_exception() -> None:
    """03 §4.1: dispatch errors give an error result; progress says failed."""
    model = ScriptedModel([ASK, text_response("alone then")])
    spec = AgentSpec(id="helper", model_id="m", system_prompt="")
    lonely = Agent("boss", model=model, tools=[DelegateTool(spec, NobodyKnows())])
    sink = CollectingSink()

    async with Runtime([lonely]) as runtime:
        result = await runtime.run("boss", "hi", sink=sink)

    assert result.response == "alone then"
    assert results(model.requests[1].messages) == [
        "Execution failed: agent not found: 'helper'; none is registered"
    ]
    shown = [e.event.content for e in sink.events() if isinstance(e.event, ActivitySnapshot)]
    assert shown[-1]["status"] == "failed"


async def test_agents_that_delegate_in_a_circle_end_at_the_depth_limit() -> None:
    """01/D-23: the chain is cut with an error result, and every level still answers."""
    asked: list[int] = []

    def answer(request: InferenceRequest) -> Any:
        if request.messages[-1].role is Role.TOOL:
            return f"heard: {request.messages[-1].text()}"
        asked.append(1)
        return tool_call_response("", "agent_run_helper", "c", {"prompt": "go on"})

    helper = Agent("helper", model=FunctionModel(answer), delegates=["helper"])

    async with Runtime([boss(FunctionModel(answer)), helper]) as runtime:
        result = await runtime.run("boss", "hi")

    assert len(asked) == MAX_DEPTH + 1
    assert result.termination == NATURAL_END
    assert result.response == (
        "heard: " * (MAX_DEPTH + 1)
        + "Execution failed: agents delegate at most 8 levels deep; answer without 'helper'"
    )


async def test_depth_is_counted_along_a_chain_not_over_siblings() -> None:
    """01/D-23: many delegations side by side are not deep."""
    many = [("agent_run_helper", f"c{n}", {"prompt": "go"}) for n in range(MAX_DEPTH + 2)]
    model = ScriptedModel([tool_calls_response("", *many), "all done"])
    helper = Agent("helper", model=FunctionModel(lambda _: "42"))

    async with Runtime([boss(model), helper]) as runtime:
        await runtime.run("boss", "hi")

    assert results(model.requests[1].messages) == ["42"] * (MAX_DEPTH + 2)


# -- cancelling -------------------------------------------------------------------------------


async def test_cancelling_the_parent_cancels_the_child() -> None:
    """02/8.18, 01/D-23: the child's run is cancelled with it, and each call is still answered.

    What became of the delegation is known, of the child's own call it is not.
    """
    entered, left = asyncio.Event(), asyncio.Event()

    @tool
    async def wait_for_ever(ctx: ToolCallContext) -> str:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            assert ctx.cancellation_token is not None
            assert ctx.cancellation_token.is_cancelled()
            left.set()
        return "never"

    helper_model = ScriptedModel([tool_call_response("", "wait_for_ever", "c", {}), "never"])
    helper = Agent("helper", model=helper_model, tools=[wait_for_ever])
    store = MemoryStore()
    runtime = Runtime([boss(ScriptedModel([ASK, "never"])), helper], store=store)

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        task = group.create_task(
            runtime.engine.run(
                RunRequest(thread_id="t", messages=(Message.user("hi"),), agent_id="boss")
            )
        )
        await entered.wait()
        assert await runtime.cancel("t")

    assert left.is_set()
    assert task.result().termination == CANCELLED
    assert helper_model.calls == 1
    done = "before that it had done: wait_for_ever() → unknown whether it took effect"
    assert results(await store.load_messages("t")) == [f"Cancelled: the run was cancelled; {done}"]
    (thread,) = await store.list_threads(ThreadQuery(parent_thread_id="t"))
    child = await store.load_run(thread.id)
    assert child is not None
    assert child.termination_reason == CANCELLED
    (told,) = results(await store.load_messages(thread.id))
    assert told.startswith("Cancelled: the run was cancelled; it is unknown whether")
