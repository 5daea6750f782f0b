"""The runtime, as a user sees it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.contract.commits import Commits, RunQuery
from awaken.contract.events import EventSink, NullEventSink
from awaken.contract.llm import LlmExecutor
from awaken.contract.profile import ProfileStore
from awaken.contract.tool import Tool
from awaken.domain.inference import InferenceOverride
from awaken.domain.message import Message, as_messages
from awaken.domain.run import RunRecord, RunWaitingTicket
from awaken.domain.spec import AgentSpec, ModelSpec
from awaken.domain.suspension import Decision, ToolCallResume
from awaken.domain.tool import ToolDescriptor
from awaken.errors import ConfigError, InvalidPluginConfig, InvalidResume, KeyDecode
from awaken.front.agent import Agent, as_tool_object, listed
from awaken.front.loading import load, open_model, open_store
from awaken.front.result import RunResult
from awaken.front.stream import RunStream
from awaken.ids import UUID7, Ids
from awaken.llm.breaker import CircuitBreaker
from awaken.llm.retry import LlmRetryPolicy, RetryingExecutor
from awaken.plugin.hook import Plugin
from awaken.runtime import CANCEL_GRACE, AgentRuntime, AgentRuntimeBuilder, RunRequest
from awaken.state.key import StateKey

V = TypeVar("V")

Input = str | Message | Iterable[Message | str] | None
Answers = Mapping[str, bool | ToolCallResume]
"""Call or ticket ids, and whether the call may run (or the whole decision)."""

OnApproval = Callable[[RunWaitingTicket], Awaitable[bool | ToolCallResume] | bool | ToolCallResume]


class Runtime:
    """Runs agents. Open it with `async with`; leaving cancels what still runs.

    Args:
        agents: everything that can be asked for, handed to, or delegated to.
        store: an address such as `memory:`, or a store.
        tools: tools every agent sees.
        plugins: plugins agents given as data (`AgentSpec`) may name.
        models: models agents given as data may name.
        profiles: where state that outlives threads is kept; in memory if not given.
    """

    def __init__(
        self,
        agents: Iterable[Agent | AgentSpec],
        *,
        store: str | Commits = "memory:",
        tools: Iterable[Tool | Callable[..., Any]] = (),
        plugins: Iterable[Plugin] = (),
        models: Mapping[str, LlmExecutor] | None = None,
        profiles: ProfileStore | None = None,
        clock: Clock = SYSTEM_CLOCK,
        ids: Ids = UUID7,
    ) -> None:
        self._tools = listed(tools, "the runtime's tools")
        self._plugins = listed(plugins, "the runtime's plugins")
        self._models = dict(models or {})
        self._clock, self._ids = clock, ids
        self._breaker = CircuitBreaker(clock=clock)
        self._tasks: set[asyncio.Task[RunResult]] = set()
        self._closed = False
        commits = open_store(store) if isinstance(store, str) else store
        self._profiles = profiles or load("awaken.stores.memory", "MemoryProfiles")(clock)
        self._engine = self._builder(agents).with_thread_run_store(commits).build()

    # -- life ---------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancel what still runs, wait for it (though not for ever), and close the store."""
        self._closed = True
        await self._engine.cancel_all()
        if self._tasks:
            # What has not ended with its run asks somebody who will not answer now.
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks, timeout=CANCEL_GRACE)
        await self._engine.commits.close()

    @property
    def engine(self) -> AgentRuntime:
        """The full contract beneath: `RunRequest`, control by run and thread id."""
        return self._engine

    def replace(self, agents: Iterable[Agent | AgentSpec]) -> int:
        """Use other agents from now on; runs that are live keep theirs. Returns the version.

        Raises:
            BuildError: an agent cannot run; nothing was replaced.
        """
        return self._engine.registry.replace(self._builder(agents).validated_resolver())

    # -- running ------------------------------------------------------------------------------

    async def run(
        self,
        agent: str | Agent | None = None,
        input: Input = None,
        *,
        thread: str | None = None,
        answers: Answers | None = None,
        on_approval: OnApproval | None = None,
        overrides: InferenceOverride | None = None,
        frontend_tools: Sequence[ToolDescriptor] = (),
        sink: EventSink | None = None,
    ) -> RunResult:
        """Run an agent and return how it ended.

        A run that needs an approval returns suspended, with its tickets, unless `on_approval`
        answers them. Give `answers` with the same thread to go on later.

        Raises:
            AgentNotFound, ThreadAlreadyRunning, InvalidResume: it could not start.
            AgentLoopError: it broke off.
        """
        request = self._request(agent, input, thread, answers, overrides, frontend_tools)
        return await self._drive(request, on_approval, sink or NullEventSink())

    def stream(
        self,
        agent: str | Agent | None = None,
        input: Input = None,
        *,
        thread: str | None = None,
        answers: Answers | None = None,
        on_approval: OnApproval | None = None,
        overrides: InferenceOverride | None = None,
        frontend_tools: Sequence[ToolDescriptor] = (),
        wait: bool = False,
        detached: bool = False,
    ) -> RunStream:
        """Run an agent and read its events as they come.

        With `wait`, a suspended run stays, and `decide` answers it; otherwise the stream ends.
        With `detached`, leaving the block early lets the run go on.
        """
        request = self._request(agent, input, thread, answers, overrides, frontend_tools)
        if wait and on_approval is not None:
            raise ConfigError("give either wait, and call decide, or on_approval, which is called")
        if wait:
            request = msgspec.structs.replace(request, wait_for_decisions=True)
        return RunStream(
            lambda sink: self._drive(request, on_approval, sink),
            self._spawn,
            self._engine.cancel_by_run_id,
            detached=detached,
        )

    def run_sync(self, *args: Any, **kwargs: Any) -> RunResult:
        """`run`, for programs without an event loop.

        Raises:
            ConfigError: there is one; await `run` instead.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.run(*args, **kwargs))
        raise ConfigError("run_sync was called inside an event loop: await runtime.run(…) instead")

    async def _drive(
        self, request: RunRequest, on_approval: OnApproval | None, sink: EventSink
    ) -> RunResult:
        while True:
            result = RunResult.of(request.thread_id, await self._engine.run(request, sink))
            if not result.suspended or on_approval is None or not result.tickets:
                return result
            decisions = [await _ask(on_approval, ticket) for ticket in result.tickets]
            # Not by name: the run may have been handed to another agent.
            request = msgspec.structs.replace(
                request,
                agent_id=None,
                messages=(),
                decisions=tuple(decisions),
                continue_run_id=result.run_id,
            )

    def _request(
        self,
        agent: str | Agent | None,
        input: Input,
        thread: str | None,
        answers: Answers | None,
        overrides: InferenceOverride | None,
        frontend_tools: Sequence[ToolDescriptor],
    ) -> RunRequest:
        if self._closed:
            raise ConfigError("the runtime is closed: open another one")
        messages = as_messages(input)
        if not messages and not answers:
            raise ConfigError("nothing to do: give input, or answers to a suspended run's tickets")
        if answers and thread is None:
            raise ConfigError("answers belong to a thread: give the thread of the suspended run")
        return RunRequest(
            thread_id=self._ids.new() if thread is None else thread,
            messages=messages,
            agent_id=agent.id if isinstance(agent, Agent) else agent,
            decisions=_decisions(answers or {}),
            overrides=overrides,
            frontend_tools=tuple(frontend_tools),
            wait_for_decisions=False,
        )

    def _spawn(self, work: Awaitable[RunResult]) -> asyncio.Task[RunResult]:
        task = asyncio.ensure_future(work)
        assert isinstance(task, asyncio.Task), "runs are coroutines"
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- control ------------------------------------------------------------------------------

    def cancel(self, id: str) -> bool:
        """Cancel a live run by its run or thread id; false if there is none."""
        return self._engine.cancel(id)

    async def cancel_and_wait(self, thread: str, timeout: float = CANCEL_GRACE) -> bool:
        """Cancel a thread's run and wait until it has ended; false if it did not in time."""
        return await self._engine.cancel_and_wait_by_thread(thread, timeout)

    def decide(self, id: str, answers: Answers) -> None:
        """Answer suspended calls of a live run (one streamed with `wait`), all or none.

        Raises:
            InvalidResume: no such run is live, or a call no longer waits.
            UnknownKey: an id is neither a call nor a ticket of the run.
        """
        run = self._engine.active.find(id)
        if run is None:
            raise InvalidResume(
                f"no live run has the id '{id}'; for a suspended one, call run(thread=…, answers=…)"
            )
        run.decide(_decisions(answers))

    def send(self, id: str, input: Input) -> bool:
        """Write to a live run; the model reads it at its next step. False if there is none."""
        return self._engine.send_messages(id, as_messages(input))

    # -- reading ------------------------------------------------------------------------------

    async def messages(
        self, thread: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Message]:
        """A thread's log, from position `after` + 1."""
        return await self._engine.commits.load_messages(thread, after=after, limit=limit)

    async def state(self, thread: str, key: StateKey[V, Any]) -> V:
        """The value of a state key after the thread's latest run, or its initial value."""
        latest = await self._engine.commits.latest_run(thread)
        stored = latest.state.extensions if latest is not None and latest.state else {}
        return key.load(stored[key.name]) if key.name in stored else key.initial()

    async def find_run(self, run_id: str) -> RunRecord | None:
        return await self._engine.commits.load_run(run_id)

    async def list_runs(self, query: RunQuery | None = None) -> Sequence[RunRecord]:
        """Runs, newest first."""
        return await self._engine.commits.list_runs(query or RunQuery())

    # -- building -----------------------------------------------------------------------------

    def _builder(self, agents: Iterable[Agent | AgentSpec]) -> AgentRuntimeBuilder:
        builder = AgentRuntimeBuilder(clock=self._clock, ids=self._ids)
        builder.with_executor_wrapper(self._with_retries).with_profile_store(self._profiles)
        for item in self._tools:
            tool = as_tool_object("the runtime", item)
            builder.with_tool(tool.descriptor().id, tool)
        for plugin in self._plugins:
            builder.with_plugin(plugin)
        agents = listed(agents, "the runtime's agents")
        _check_handoffs(agents)
        descriptions = {
            spec.id: spec.description
            for spec in (a.spec if isinstance(a, Agent) else a for a in agents)
            if spec.description
        }
        models = dict(self._models)
        known: dict[str, Plugin] = {plugin.id: plugin for plugin in self._plugins}
        for agent in agents:
            if isinstance(agent, AgentSpec):
                builder.with_agent_spec(agent)
                continue
            model_id = agent.spec.model_id
            if model_id not in models:
                models[model_id] = (
                    open_model(agent.model) if isinstance(agent.model, str) else agent.model
                )
            ids = tuple(_register(builder, known, agent.id, plugin) for plugin in agent.plugins)
            spec = msgspec.structs.replace(agent.spec, plugin_ids=ids)
            builder.with_agent_spec(spec, agent.own_plugin(descriptions))
        for name, executor in models.items():
            builder.with_provider(name, executor)
            upstream = name.partition(":")[2] or executor.name
            builder.with_model_binding(
                ModelSpec(id=name, provider_id=name, upstream_model=upstream)
            )
        return builder

    def _with_retries(self, executor: LlmExecutor, spec: AgentSpec) -> LlmExecutor:
        try:
            policy = spec.config("retry", LlmRetryPolicy)
        except KeyDecode as error:
            raise InvalidPluginConfig("retry", "retry", error) from error
        return RetryingExecutor(
            executor, policy, clock=self._clock, breaker=self._breaker, scope=spec.model_id
        )


def _check_handoffs(agents: Sequence[Agent | AgentSpec]) -> None:
    known = {agent.id for agent in agents}
    for agent in agents:
        for other in agent.handoffs if isinstance(agent, Agent) else ():
            if other not in known:
                raise ConfigError(
                    f"agent {agent.id!r} may hand over to {other!r}, which this runtime does not "
                    f"have; it has: {', '.join(sorted(known))}"
                )


def _register(
    builder: AgentRuntimeBuilder, known: dict[str, Plugin], agent_id: str, plugin: Plugin
) -> str:
    """Know a plugin; two of one id, each its agent's own, are kept apart by the agent."""
    name = plugin.id
    if known.get(name) is plugin:
        return name
    if name in known:
        name = f"{agent_id}/{name}"
    known[name] = plugin
    builder.with_plugin(plugin, name)
    return name


def _decisions(answers: Answers) -> tuple[Decision, ...]:
    return tuple((target, _resume(target, answer)) for target, answer in answers.items())


def _resume(target: str, answer: object) -> ToolCallResume:
    if isinstance(answer, ToolCallResume):
        return answer
    if isinstance(answer, bool):
        return ToolCallResume.approve() if answer else ToolCallResume.deny()
    raise ConfigError(
        f"the answer to {target!r} is True, False or a ToolCallResume, not {answer!r}"
    )


async def _ask(on_approval: OnApproval, ticket: RunWaitingTicket) -> Decision:
    answer = on_approval(ticket)
    if inspect.isawaitable(answer):
        answer = await answer
    return ticket.tool_call_id, _resume(ticket.tool_call_id, answer)
