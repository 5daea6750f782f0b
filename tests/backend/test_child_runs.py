"""Agents run from code, with all that comes of them (03 §4.2, 02 §2.14, 02 §2.16)."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from typing import Any

import pytest
from backend_requests import NoAgents

from awaken import (
    Agent,
    Block,
    CancellationToken,
    Command,
    Merge,
    Message,
    Phase,
    PhaseContext,
    Registrar,
    Runtime,
    Scope,
    StateKey,
    ToolCallContext,
    ToolOutput,
    ToolResult,
    tool,
)
from awaken.backend import (
    BackendAgentNotFound,
    BackendCapabilities,
    BackendControl,
    BackendDelegateContinuation,
    BackendDelegatePolicy,
    BackendDelegateRunRequest,
    BackendParentContext,
    BackendRunResult,
    BackendRunStatus,
    BackendStatusKind,
    ChildAgentFailed,
    ExecutionBackend,
    ExecutionBackendError,
    ExecutionFailed,
    run_child_agent,
    run_child_agent_checked,
)
from awaken.core.budget import Budget
from awaken.core.event import CollectingSink, NullEventSink, RunFinish, RunStart
from awaken.core.identity import RunOrigin
from awaken.core.lifecycle import CANCELLED, NATURAL_END, Failed, Stopped, Suspended
from awaken.core.message import Role
from awaken.core.registry import ExecutionResolver
from awaken.core.run import PersistedState
from awaken.core.spec import AgentSpec
from awaken.core.state.command import MutationBatch
from awaken.core.state.run_keys import RUN_LIFECYCLE
from awaken.plugin.resolved_agent import ResolvedAgent, ResolvedBackendAgent
from awaken.testing import ScriptedModel, tool_call_response

pytestmark = pytest.mark.anyio

PARENT = BackendParentContext(
    parent_run_id="parent-run", parent_thread_id="parent-thread", parent_tool_call_id="call-1"
)
SINK = NullEventSink()
CALL_COUNT = tool_call_response("", "count", "c", {"by": 2})

TALLY: StateKey[int, int] = StateKey(
    "tally", initial=int, apply=operator.add, merge=Merge.COMMUTATIVE
)
TOTAL: StateKey[int, int] = StateKey(
    "total", initial=int, apply=operator.add, merge=Merge.COMMUTATIVE, scope=Scope.THREAD
)


@tool
async def count(by: int) -> ToolOutput:
    """Count."""
    return ToolOutput(
        ToolResult.success("count", by), Command().update(TALLY, by).update(TOTAL, by * 10)
    )


def agents(*known: Agent) -> ExecutionResolver:
    """The agents, as a runtime would find them."""
    return Runtime(known).engine.registry.snapshot()


def counter(*responses: Any, **options: Any) -> Agent:
    model = ScriptedModel(responses or (CALL_COUNT, "counted"))
    return Agent("counter", model=model, tools=[count], state=[TALLY, TOTAL], **options)


def values(state: PersistedState | None) -> dict[str, Any]:
    """What users keep; the runtime has keys of its own beside it."""
    assert state is not None
    return {n: v for n, v in state.extensions.items() if not n.startswith("__runtime.")}


# -- results ----------------------------------------------------------------------------------


async def test_a_child_gives_its_whole_result() -> None:
    """03 §4.2: answer, output, steps, run, and what it leaves in run- and thread-scoped keys."""
    sink = CollectingSink()

    result = await run_child_agent(agents(counter()), "counter", "count to two", PARENT, sink)

    assert result.agent_id == "counter"
    assert result.status == BackendRunStatus.completed()
    assert result.termination == NATURAL_END
    assert (result.response, result.output.text, result.steps) == ("counted", "counted", 2)
    assert values(result.state) == {"tally": 2}
    assert result.thread_state is not None
    assert result.thread_state.extensions["total"] == 20
    assert "tally" not in result.thread_state.extensions
    start = sink.events()[0]
    assert isinstance(start.event, RunStart)
    assert start.event.identity is not None
    identity = start.event.identity
    assert identity.run_id == identity.thread_id == result.run_id
    assert identity.origin is RunOrigin.SUBAGENT
    assert (identity.parent_run_id, identity.parent_thread_id) == ("parent-run", "parent-thread")
    assert identity.parent_tool_call_id == "call-1"


async def test_a_child_may_be_given_a_whole_conversation() -> None:
    """03 §4.2: `initial_messages` are the child's history, as they are."""
    model = ScriptedModel(["yes"])
    told: list[Message | str] = [
        Message.system("be brief"),
        Message.user("is it?"),
        Message.assistant("hm"),
        "well?",
    ]

    await run_child_agent(agents(Agent("x", model=model)), "x", told, PARENT, SINK)

    roles = [(m.role, m.text()) for m in model.requests[0].messages]
    assert roles[-3:] == [(Role.USER, "is it?"), (Role.ASSISTANT, "hm"), (Role.USER, "well?")]
    assert roles[0][1].endswith("be brief")


class Doorkeeper:
    """Lets no call through."""

    id = "doorkeeper"

    def register(self, registrar: Registrar) -> None:
        registrar.gate(self.no)

    async def no(self, ctx: PhaseContext) -> Block:
        return Block(reason="closed")


def asking() -> Agent:
    @tool(needs_approval=True)
    async def launch() -> str:
        return "launched"

    model = ScriptedModel([tool_call_response("", "launch", "c", {})])
    return Agent("counter", model=model, tools=[launch])


ENDS: dict[str, tuple[Callable[[], Agent], str]] = {
    "failed": (lambda: counter(ValueError("no network")), "failed: inference failed: no network"),
    "stopped": (lambda: counter(CALL_COUNT, max_rounds=1), "failed: stopped: max_rounds"),
    "blocked": (lambda: counter(CALL_COUNT, plugins=[Doorkeeper()]), "failed: blocked: closed"),
    "suspended": (asking, "suspended"),
}


@pytest.mark.parametrize("end", ENDS)
async def test_every_end_is_a_result(end: str) -> None:
    """03 §4.2: a child that ends badly is told of, not raised."""
    make, status = ENDS[end]
    sink = CollectingSink()

    result = await run_child_agent(agents(make()), "counter", "go", PARENT, sink)

    assert str(result.status).startswith(status)
    finish = sink.events()[-1]
    assert isinstance(finish.event, RunFinish)
    assert (finish.run_id, finish.event.termination) == (result.run_id, result.termination)
    assert result.state is not None


@pytest.mark.parametrize("end", ENDS)
async def test_who_needs_a_completed_child_gets_an_error_that_has_the_result(end: str) -> None:
    """03 §4.2: `…_checked` raises for anything but completed, and keeps the result."""
    make, status = ENDS[end]

    with pytest.raises(ChildAgentFailed, match="'counter' did not complete") as raised:
        await run_child_agent_checked(agents(make()), "counter", "go", PARENT, SINK)

    assert str(raised.value.result.status).startswith(status)
    assert status in str(raised.value)
    assert raised.value.result.run_id is not None


async def test_who_needs_a_completed_child_gets_it() -> None:
    """03 §4.2: the same result."""
    result = await run_child_agent_checked(agents(counter()), "counter", "go", PARENT, SINK)

    assert result.response == "counted"


async def test_a_child_that_broke_off_tells_how_far_it_came() -> None:
    """03 §4.2: its steps and its state until then."""
    model = [CALL_COUNT, ValueError("no network")]

    result = await run_child_agent(agents(counter(*model)), "counter", "go", PARENT, SINK)

    assert result.termination == Failed(value="inference failed: no network")
    assert result.steps == 2
    assert values(result.state) == {"tally": 2}


async def test_a_cancelled_child_is_a_result() -> None:
    """03 §4.2: by the control it was given."""
    token, entered = CancellationToken(), asyncio.Event()

    @tool
    async def hold() -> str:
        entered.set()
        await asyncio.Event().wait()
        return "never"

    model = ScriptedModel([tool_call_response("", "hold", "c", {})])
    known = agents(Agent("x", model=model, tools=[hold]))
    control = BackendControl(cancellation_token=token)

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        child = group.create_task(run_child_agent(known, "x", "go", PARENT, SINK, control=control))
        await entered.wait()
        token.cancel()

    assert child.result().status == BackendRunStatus.cancelled()
    assert child.result().termination == CANCELLED


# -- what cannot be dispatched ----------------------------------------------------------------


class Elsewhere(ExecutionBackend):
    """Answers with one status, and remembers what it was asked."""

    def __init__(
        self, status: BackendRunStatus, capabilities: BackendCapabilities | None = None
    ) -> None:
        self.status = status
        self.asked: list[BackendDelegateRunRequest] = []
        self._capabilities = capabilities or BackendCapabilities.full()

    def capabilities(self) -> BackendCapabilities:
        return self._capabilities

    async def execute_delegate(self, request: BackendDelegateRunRequest) -> BackendRunResult:
        self.asked.append(request)
        return BackendRunResult(
            agent_id=request.agent_id, status=self.status, termination=NATURAL_END
        )


class OnBackend:
    """Every agent is on one backend."""

    def __init__(self, backend: ExecutionBackend) -> None:
        self.backend = backend

    def resolve(self, agent_id: str) -> ResolvedAgent:
        raise AssertionError("it does not run here")

    def resolve_execution(self, agent_id: str) -> ResolvedBackendAgent:
        spec = AgentSpec(id=agent_id, model_id="m", system_prompt="")
        return ResolvedBackendAgent(spec, backend=self.backend)

    def agent_ids(self) -> list[str]:
        return []


@pytest.mark.parametrize(
    "status",
    [
        BackendRunStatus.waiting_input("which city?"),
        BackendRunStatus.waiting_auth(),
        BackendRunStatus.timeout(),
        BackendRunStatus.failed("boom"),
    ],
)
async def test_a_child_elsewhere_gives_its_result_too(status: BackendRunStatus) -> None:
    """03 §4.2: whatever its backend answers; parent, messages and control reach it."""
    backend = Elsewhere(status)
    control = BackendControl(cancellation_token=CancellationToken())

    result = await run_child_agent(OnBackend(backend), "x", "hi", PARENT, SINK, control=control)

    assert result.status == status
    (asked,) = backend.asked
    assert asked.parent == PARENT
    assert asked.control is control
    assert [message.text() for message in asked.messages] == ["hi"]
    with pytest.raises(ChildAgentFailed):
        await run_child_agent_checked(OnBackend(backend), "x", "hi", PARENT, SINK)


async def test_an_unknown_child_is_an_error() -> None:
    """03 §4.2: a dispatch failure raises, checked or not."""
    for run in (run_child_agent, run_child_agent_checked):
        with pytest.raises(BackendAgentNotFound, match="failed to resolve agent 'ghost'"):
            await run(NoAgents(), "ghost", "hi", PARENT, SINK)


async def test_a_child_whose_backend_takes_no_delegates_is_an_error() -> None:
    """03 §4.2: nothing ran, so there is no result."""
    with pytest.raises(ExecutionFailed, match="backend does not support delegated execution"):
        await run_child_agent(OnBackend(ExecutionBackend()), "x", "hi", PARENT, SINK)


async def test_what_a_childs_backend_cannot_do_is_refused_before_it_is_asked() -> None:
    """02 §2.8: the policy given is the one that is checked."""
    kept: Any = "kept"
    backend = Elsewhere(BackendRunStatus.completed(), BackendCapabilities.remote_stateless_text())
    policy = BackendDelegatePolicy(continuation=kept)

    with pytest.raises(ExecutionFailed, match="does not support: continuation"):
        await run_child_agent(OnBackend(backend), "x", "hi", PARENT, SINK, policy=policy)

    plain = BackendDelegatePolicy(continuation=BackendDelegateContinuation.DISABLED)
    await run_child_agent(OnBackend(backend), "x", "hi", PARENT, SINK, policy=plain)
    assert len(backend.asked) == 1


# -- seeds ------------------------------------------------------------------------------------


class Watcher:
    """Writes when it is activated, and looks at the first step."""

    id = "watcher"

    def __init__(self) -> None:
        self.seen: list[tuple[Phase, int | None, int | None]] = []

    def register(self, registrar: Registrar) -> None:
        for phase in (Phase.RUN_START, Phase.STEP_START):
            registrar.hook(phase, self.look)

    async def look(self, ctx: PhaseContext) -> None:
        self.seen.append((ctx.phase, ctx.snapshot.get(TALLY), ctx.snapshot.get(TOTAL)))

    def on_activate(self, agent_spec: AgentSpec, batch: MutationBatch) -> None:
        batch.update(TALLY, 100)
        batch.update(TOTAL, 100)

    def on_deactivate(self, batch: MutationBatch) -> None:
        return


async def test_a_seed_counts_after_activation_and_before_the_first_step() -> None:
    """03 §4.2: plugins write first, the seed is what the run begins with; both scopes."""
    watcher = Watcher()
    known = agents(counter(plugins=[watcher]))
    seed = PersistedState(revision=7, extensions={"tally": 5, "total": 50})

    result = await run_child_agent(known, "counter", "go", PARENT, SINK, seed=seed)

    assert watcher.seen[:2] == [(Phase.RUN_START, 5, 50), (Phase.STEP_START, 5, 50)]
    assert values(result.state) == {"tally": 7}
    assert values(result.thread_state)["total"] == 70


async def test_without_a_seed_a_child_begins_as_its_plugins_want() -> None:
    """03 §4.2: what a seed does not name is left alone."""
    watcher = Watcher()
    known = agents(counter(plugins=[watcher]))
    seed = PersistedState(extensions={"total": 1})

    await run_child_agent(known, "counter", "go", PARENT, SINK, seed=seed)

    assert watcher.seen[0] == (Phase.RUN_START, 100, 1)


@pytest.mark.parametrize(
    ("extensions", "text"),
    [({"tally": 1, "typo": 1}, "typo"), ({"tally": "many"}, "tally")],
)
async def test_a_seed_that_does_not_fit_is_refused_before_the_model_is_asked(
    extensions: dict[str, Any], text: str
) -> None:
    """03 §4.2: unknown keys abort, and so does a value that is no such key's."""
    agent, sink = counter(), CollectingSink()
    seed = PersistedState(extensions=extensions)

    with pytest.raises(ExecutionFailed, match=text):
        await run_child_agent(agents(agent), "counter", "go", PARENT, sink, seed=seed)

    assert isinstance(agent.model, ScriptedModel)
    assert agent.model.calls == 0
    assert sink.events() == []


async def test_what_one_child_leaves_is_a_seed_for_the_next() -> None:
    """03 §4.2: all of it may be given; how the first one ended is not the second one's end."""
    first = await run_child_agent(agents(counter()), "counter", "go", PARENT, SINK)
    assert first.state is not None
    assert first.thread_state is not None
    assert RUN_LIFECYCLE.name in first.state.extensions
    left = {**first.state.extensions, **first.thread_state.extensions}

    second = await run_child_agent(
        agents(counter()), "counter", "go", PARENT, SINK, seed=PersistedState(extensions=left)
    )

    assert second.status.kind is BackendStatusKind.COMPLETED
    assert (second.response, second.steps) == ("counted", 2)
    assert second.run_id != first.run_id
    assert values(second.state) == {"tally": 4}


@pytest.mark.parametrize(
    "capabilities", [BackendCapabilities.full(), BackendCapabilities.remote_stateless_text()]
)
async def test_a_seed_is_only_for_agents_in_this_process(
    capabilities: BackendCapabilities,
) -> None:
    """02 §2.16: `delegate_state_seed`, whatever else the backend can do."""
    backend = Elsewhere(BackendRunStatus.completed(), capabilities)

    with pytest.raises(ExecutionFailed) as raised:
        await run_child_agent(OnBackend(backend), "x", "hi", PARENT, SINK, seed=PersistedState())

    assert raised.value.message == "agent 'x' backend does not support: delegate_state_seed"
    assert backend.asked == []


def test_a_seed_is_named_last_of_what_a_delegate_lacks() -> None:
    """02 §2.16: behind the names of §2.3."""
    kept: Any = "kept"
    request = BackendDelegateRunRequest(
        agent_id="x",
        messages=[],
        new_messages=[],
        sink=SINK,
        resolver=NoAgents(),
        policy=BackendDelegatePolicy(persistence=kept, continuation=kept),
        state_seed=PersistedState(),
    )

    remote = BackendCapabilities.remote_stateless_text()

    assert remote.unsupported_delegate_features(request) == [
        "delegate_persistence",
        "continuation",
        "delegate_state_seed",
    ]
    assert "delegate_state_seed" not in remote.unsupported_delegate_features(request, is_local=True)


# -- inside a tool ----------------------------------------------------------------------------


def of_call(ctx: ToolCallContext) -> BackendParentContext:
    identity = ctx.run_identity
    return BackendParentContext(
        parent_run_id=identity.run_id,
        parent_thread_id=identity.thread_id,
        parent_tool_call_id=ctx.call_id,
    )


class Team:
    """A boss whose tool runs a child."""

    def __init__(self, child: Agent, *, keep: bool = False) -> None:
        self.results: list[BackendRunResult] = []

        @tool
        async def ask(ctx: ToolCallContext) -> ToolOutput:
            """Ask the child."""
            known = self.runtime.engine.registry.snapshot()
            try:
                result = await run_child_agent(known, child.id, "go", of_call(ctx), SINK, call=ctx)
            except ExecutionBackendError as error:
                return ToolOutput(ToolResult.error("ask", str(error)))
            self.results.append(result)
            command = Command()
            if keep:
                command.update(TOTAL, values(result.thread_state)["total"])
            return ToolOutput(ToolResult.success("ask", result.response), command)

        self.ask = ask
        model = ScriptedModel([tool_call_response("", "ask", "c", {}), "done"])
        boss = Agent("boss", model=model, tools=[ask], state=[TOTAL])
        self.runtime = Runtime([boss, child])


@pytest.mark.parametrize("keep", [False, True])
async def test_a_childs_state_is_its_parents_only_by_the_calling_tools_command(
    keep: bool,
) -> None:
    """03 §4.2: child to parent, state flows through the tool's own command."""
    team = Team(counter(), keep=keep)
    async with team.runtime as runtime:
        await runtime.run("boss", "go", thread="t")
        assert await runtime.state("t", TOTAL) == (20 if keep else 0)
    assert values(team.results[0].thread_state)["total"] == 20


async def test_a_child_is_cancelled_with_the_run_whose_tool_runs_it() -> None:
    """03/DB-6, 01/D-23: by the call it is part of, without a control of its own."""
    entered, left = asyncio.Event(), asyncio.Event()

    @tool
    async def hold() -> str:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        return "never"

    model = ScriptedModel([tool_call_response("", "hold", "c", {})])
    team = Team(Agent("child", model=model, tools=[hold]))
    async with team.runtime as runtime, asyncio.timeout(100):
        running = asyncio.ensure_future(runtime.run("boss", "go", thread="t"))
        await entered.wait()
        assert await runtime.cancel("t")
        assert (await running).termination == CANCELLED
    assert left.is_set()


async def test_children_of_children_end_at_the_depth_limit() -> None:
    """03/DB-6: a tool that runs the agent it belongs to cannot go on for ever."""
    asked: list[int] = []

    @tool
    async def again(ctx: ToolCallContext) -> str:
        asked.append(ctx.depth)
        known = runtime.engine.registry.snapshot()
        try:
            result = await run_child_agent(known, "loop", "go", of_call(ctx), SINK, call=ctx)
        except ExecutionFailed as error:
            return str(error)
        return result.response or ""

    calls = [tool_call_response("", "again", "c", {}) for _ in range(9)]
    loop = Agent("loop", model=ScriptedModel([*calls, *["up"] * 9]), tools=[again])
    async with Runtime([loop]) as runtime:
        result = await runtime.run("loop", "go", thread="t")
        log = await runtime.messages("t")

    assert asked == list(range(9))
    assert result.response == "up"
    assert [m.text() for m in log if m.role is Role.TOOL] == ["up"]


async def test_a_child_uses_up_its_parents_budget() -> None:
    """03/DB-6: what is left for the parent is what the child has left."""
    team = Team(counter(CALL_COUNT, CALL_COUNT, CALL_COUNT))
    async with team.runtime as runtime:
        result = await runtime.run("boss", "go", thread="t", budget=Budget(steps=3))
    (child,) = team.results
    assert isinstance(child.termination, Stopped)
    assert isinstance(result.termination, Stopped)
    assert child.steps == 2


async def test_a_child_that_waits_waits_for_nobody() -> None:
    """02 §2.14: nothing is kept of it; the caller knows what it would have asked."""
    result = await run_child_agent(agents(asking()), "counter", "go", PARENT, SINK)

    assert isinstance(result.termination, Suspended)
    assert result.status.is_waiting
