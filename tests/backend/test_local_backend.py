"""Agents in this process, as a root and as a delegate (02 §2.13, §2.14)."""

from __future__ import annotations

import asyncio

import pytest

from awaken.backend import (
    BackendAgentNotFound,
    BackendControl,
    BackendLocalRootContext,
    BackendLoopError,
    BackendRootRunRequest,
    BackendRunStatus,
    ExecutionFailed,
    LocalBackend,
)
from awaken.core.aio.cancel import CancellationToken
from awaken.core.event import CollectingSink, RunFinish, RunStart
from awaken.core.identity import RunIdentity, RunOrigin
from awaken.core.inbox import InboxSender
from awaken.core.lifecycle import CANCELLED, NATURAL_END, Suspended
from awaken.core.message import Message
from awaken.core.state.call_keys import TOOL_CALL_STATES, PutCall, ToolCallState
from awaken.core.state.run_keys import RUN_LIFECYCLE
from awaken.core.state.store import StateStore
from awaken.core.suspension import ToolCallResume, ToolCallStatus
from awaken.engine import LoopStatePlugin
from awaken.engine.phases import PhaseRuntime
from awaken.errors import AgentNotFound, InferenceFailed, KeyAlreadyRegistered, PhaseError
from awaken.plugin.env import install_plugin
from awaken.plugin.registrar import Registrar
from awaken.plugin.resolved_agent import ResolvedAgent
from awaken.stores.memory import MemoryStore
from awaken.testing import EchoTool, ScriptedModel, text_response, tool_call_response
from delegate_request_kit import FixedResolver, delegate_request

pytestmark = pytest.mark.anyio


class EmptyResolver:
    """Knows nobody."""

    def resolve(self, agent_id: str) -> ResolvedAgent:
        raise AgentNotFound(agent_id)

    def resolve_execution(self, agent_id: str) -> ResolvedAgent:
        raise AgentNotFound(agent_id)

    def agent_ids(self) -> list[str]:
        return []


class BindingPlugin:
    """Counts how often it is bound to a run."""

    id = "binding-plugin"

    def __init__(self) -> None:
        self.bind_count = 0

    def register(self, registrar: Registrar) -> None:
        return

    def bind_runtime_context(self, store: StateStore, owner_inbox: InboxSender | None) -> None:
        self.bind_count += 1


def phases_with_loop_state() -> PhaseRuntime:
    store = StateStore()
    install_plugin(store, LoopStatePlugin())
    return PhaseRuntime(store)


def delegate_agent(model: ScriptedModel) -> ResolvedAgent:
    return ResolvedAgent.new("delegate", "m", "sys", model)


def root_request(
    resolver: FixedResolver, phases: PhaseRuntime | None, text: str = "hello"
) -> BackendRootRunRequest:
    message = Message.user(text, id="m-1")
    return BackendRootRunRequest(
        agent_id="delegate",
        messages=[message],
        new_messages=[message],
        sink=CollectingSink(),
        resolver=resolver,
        run_identity=RunIdentity(thread_id="thread-1", run_id="run-1", agent_id="delegate"),
        local=BackendLocalRootContext(phases) if phases is not None else None,
    )


# -- the seeds --------------------------------------------------------------------------------


async def test_execute_delegate_binds_plugin_runtime_context() -> None:
    """02/B3 [S]: each plugin is bound exactly once, and the run completes."""
    plugin = BindingPlugin()
    model = ScriptedModel([text_response("delegated response")])
    resolver = FixedResolver(delegate_agent(model), [plugin])

    result = await LocalBackend().execute_delegate(delegate_request(resolver, "hello"))

    assert result.status == BackendRunStatus.completed()
    assert plugin.bind_count == 1


async def test_execute_delegate_returns_final_non_tool_message_after_tool_output() -> None:
    """02/B4 [S]: the answer is the child's last text, never a tool's message."""
    model = ScriptedModel(
        [
            tool_call_response(
                "checking", "echo", "call-1", {"message": "tool result should not win"}
            ),
            text_response("final child answer"),
        ]
    )
    resolver = FixedResolver(delegate_agent(model).with_tool(EchoTool()))

    result = await LocalBackend().execute_delegate(
        delegate_request(resolver, "delegate with a tool")
    )

    assert result.status == BackendRunStatus.completed()
    assert result.response == "final child answer"
    assert result.output.text == "final child answer"
    assert result.steps == 2


# -- delegates --------------------------------------------------------------------------------


async def test_a_delegate_has_an_identity_of_its_own() -> None:
    """02 §2.14: a fresh id for run and thread, the parent's beside it, origin subagent."""
    sink = CollectingSink()
    resolver = FixedResolver(delegate_agent(ScriptedModel(["done"])))
    request = delegate_request(resolver, "hello")
    request.sink = sink

    result = await LocalBackend().execute_delegate(request)

    start = sink.events()[0].event
    assert isinstance(start, RunStart)
    identity = start.identity
    assert identity is not None
    assert identity.run_id == identity.thread_id == result.run_id
    assert identity.run_id not in ("parent-run", "parent-thread")
    assert identity.parent_run_id == "parent-run"
    assert identity.parent_thread_id == "parent-thread"
    assert identity.parent_tool_call_id == "tool-1"
    assert identity.origin is RunOrigin.SUBAGENT
    assert result.inbox is not None
    # 03 §4.1 wins over 02 §2.14: a delegate's state is told.
    assert result.state is not None
    assert RUN_LIFECYCLE.name in result.state.extensions
    assert result.status_reason is None


async def test_a_delegate_without_an_answer_has_no_response() -> None:
    """02 §2.13: the response is absent when empty. An empty answer is asked for once more."""
    model = ScriptedModel([text_response(""), text_response("")])

    result = await LocalBackend().execute_delegate(
        delegate_request(FixedResolver(delegate_agent(model)), "hello")
    )

    assert result.status == BackendRunStatus.completed()
    assert result.response is None
    assert result.output.text is None


async def test_a_delegate_nobody_knows_is_not_found() -> None:
    """02 §2.14: the text names the agent and the resolver's error."""
    with pytest.raises(BackendAgentNotFound) as caught:
        await LocalBackend().execute_delegate(delegate_request(EmptyResolver(), "hello"))

    assert str(caught.value) == (
        "agent not found: failed to resolve agent 'delegate': "
        "agent not found: 'delegate'; none is registered"
    )


class BrokenPlugin:
    """Cannot be bound to a run."""

    id = "broken"

    def register(self, registrar: Registrar) -> None:
        return

    def bind_runtime_context(self, store: StateStore, owner_inbox: InboxSender | None) -> None:
        raise KeyAlreadyRegistered("broken.key")


async def test_a_delegate_that_cannot_be_set_up_is_not_run() -> None:
    """02 §2.14: whatever fails in setting up is ExecutionFailed, and the model is not asked."""
    model = ScriptedModel(["never"])
    resolver = FixedResolver(delegate_agent(model), [BrokenPlugin()])

    with pytest.raises(ExecutionFailed) as caught:
        await LocalBackend().execute_delegate(delegate_request(resolver, "hello"))

    assert str(caught.value) == (
        "execution failed: state key 'broken.key' is already registered: pick another name"
    )
    assert model.calls == 0


async def test_a_delegate_follows_the_token_it_was_given() -> None:
    """02/8.18: a cancelled parent ends the child too."""
    token = CancellationToken()
    token.cancel()
    model = ScriptedModel(["never"])

    result = await LocalBackend().execute_delegate(
        delegate_request(
            FixedResolver(delegate_agent(model)), "hello", BackendControl(cancellation_token=token)
        )
    )

    assert result.status == BackendRunStatus.cancelled()
    assert result.termination == CANCELLED
    assert model.calls == 0


async def test_a_delegates_model_error_reads_as_itself() -> None:
    """02 §2.7: a loop error passes the backend with its own text."""
    resolver = FixedResolver(delegate_agent(ScriptedModel([ValueError("boom")])))

    with pytest.raises(BackendLoopError) as caught:
        await LocalBackend().execute_delegate(delegate_request(resolver, "hello"))

    assert isinstance(caught.value.error, InferenceFailed)
    assert str(caught.value) == "inference failed: boom"


async def test_delegates_side_by_side_share_nothing() -> None:
    """02 §2.14: a fresh store for each run."""
    model = ScriptedModel([text_response("one"), text_response("two")])
    resolver = FixedResolver(delegate_agent(model))
    backend = LocalBackend()

    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(backend.execute_delegate(delegate_request(resolver, text)))
            for text in ("a", "b")
        ]

    results = [task.result() for task in tasks]
    assert sorted(r.response or "" for r in results) == ["one", "two"]
    assert len({r.run_id for r in results}) == 2
    assert [r.steps for r in results] == [1, 1]


# -- roots ------------------------------------------------------------------------------------


async def test_a_root_run_needs_a_phase_runtime() -> None:
    """02 §2.13: without the local context there is nothing to run on."""
    resolver = FixedResolver(delegate_agent(ScriptedModel(["never"])))

    with pytest.raises(ExecutionFailed) as caught:
        await LocalBackend().execute_root(root_request(resolver, None))

    assert str(caught.value) == (
        "execution failed: local root execution requires a phase runtime context"
    )


async def test_a_root_run_answers_like_a_delegate_and_keeps_its_run_id() -> None:
    """02 §2.13: status from the termination, output from the response, no inbox, no state."""
    resolver = FixedResolver(delegate_agent(ScriptedModel([text_response("root answer")])))
    request = root_request(resolver, phases_with_loop_state())

    result = await LocalBackend().execute_root(request)

    assert result.status == BackendRunStatus.completed()
    assert result.termination == NATURAL_END
    assert (result.response, result.output.text) == ("root answer", "root answer")
    assert (result.steps, result.run_id) == (1, "run-1")
    assert result.inbox is None
    assert result.state is None
    assert isinstance(request.sink, CollectingSink)
    finish = request.sink.events()[-1].event
    assert isinstance(finish, RunFinish)
    assert finish.run_id == "run-1"


async def test_a_root_run_with_a_store_appends_to_its_thread() -> None:
    """02/8.2: the log grows; what was there is neither read again nor written again."""
    commits = MemoryStore()
    model = ScriptedModel(["first", "second"])
    resolver = FixedResolver(delegate_agent(model))
    for number, text in enumerate(("one", "two"), start=1):
        request = root_request(resolver, phases_with_loop_state(), text)
        request.checkpoint_store = commits
        request.run_identity = RunIdentity(
            thread_id="thread-1", run_id=f"run-{number}", agent_id="delegate"
        )
        request.messages = [*await commits.load_messages("thread-1"), *request.new_messages]
        await LocalBackend().execute_root(request)

    log = await commits.load_messages("thread-1")
    assert [message.text() for message in log] == ["one", "first", "two", "second"]
    assert [message.produced_by_run_id() for message in log] == [None, "run-1", None, "run-2"]


async def test_a_decision_for_an_unknown_call_is_a_phase_error() -> None:
    """02 §2.13: prepare_resume fails, the model is not asked."""
    model = ScriptedModel(["never"])
    request = root_request(FixedResolver(delegate_agent(model)), phases_with_loop_state())
    request.decisions = [("ghost", ToolCallResume.approve())]

    with pytest.raises(BackendLoopError) as caught:
        await LocalBackend().execute_root(request)

    assert isinstance(caught.value.error, PhaseError)
    assert "tool call or suspension ghost not found" in str(caught.value)
    assert model.calls == 0


async def test_a_root_run_takes_its_decisions_first() -> None:
    """02 §2.13: decisions are applied before the loop; one of two leaves the run suspended."""
    phases = phases_with_loop_state()
    for call_id in ("c-1", "c-2"):
        state = ToolCallState(
            call_id=call_id, tool_name="echo", arguments={}, status=ToolCallStatus.SUSPENDED
        )
        phases.store.update(TOOL_CALL_STATES, PutCall(call=state))
    model = ScriptedModel(["never"])
    request = root_request(FixedResolver(delegate_agent(model).with_tool(EchoTool())), phases)
    request.decisions = [("c-1", ToolCallResume.approve())]
    request.is_continuation = True

    result = await LocalBackend().execute_root(request)

    assert isinstance(result.termination, Suspended)
    assert result.status == BackendRunStatus.suspended()
    assert model.calls == 0
    states = phases.store.read(TOOL_CALL_STATES)
    assert states is not None
    assert states.calls["c-1"].status is ToolCallStatus.SUCCEEDED
    assert states.calls["c-2"].status is ToolCallStatus.SUSPENDED
