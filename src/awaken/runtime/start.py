"""Starting runs: at once, as a stream, durably, or from programs without an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from awaken.codec import Json
from awaken.core.defaults import CANCEL_GRACE
from awaken.core.event import EventSink, NullEventSink
from awaken.core.spec import AgentSpec, RemoteEndpoint
from awaken.core.storable import parse_argument
from awaken.core.store.commands import SubmitMode
from awaken.core.suspension import Ticket
from awaken.core.tool_context import Tool, ToolTraits, traits_of
from awaken.errors import AgentNotFound, ConfigError, NotFound, ResolveFailed
from awaken.runtime import lazy_engine as engine
from awaken.runtime.agent import Agent
from awaken.runtime.agent_override import OVERRIDES
from awaken.runtime.control import Control
from awaken.runtime.deps import parse_deps
from awaken.runtime.remote_agent import RemoteAgent
from awaken.runtime.result import RunResult
from awaken.runtime.run_arguments import (
    Input,
    OnApproval,
    ask,
    parse_agent,
    parse_input,
    parse_options,
)
from awaken.runtime.run_options import (
    RequestOptions,
    RunOptions,
    StreamOptions,
    SubmitOptions,
    takes,
)
from awaken.worker.request import RunRequest, WhenBusy

if TYPE_CHECKING:
    from awaken.core.llm import InferenceRequest
    from awaken.core.run import AgentRunResult
    from awaken.core.store.commands import Submitted
    from awaken.runtime.assembly import AnyAgent, Assembly
    from awaken.runtime.stream import RunStream
    from awaken.runtime.sync import SyncBridge


class RunMethods(Control):
    """The methods of a runtime that start runs of its agents."""

    _agents: Sequence[AnyAgent]
    _assembly: Assembly
    _closed: bool
    _found: Mapping[str, AgentSpec]
    _sources: dict[str, str | RemoteEndpoint]
    _sync: SyncBridge

    @takes(RunOptions)
    async def run(
        self,
        agent: str | Agent[Any, Any] | RemoteAgent | None = None,
        input: Input = None,
        *,
        deps: Any = None,
        sink: EventSink | None = None,
        **options: Unpack[RunOptions],
    ) -> RunResult[Any]:
        """Run an agent and return how it ended.

        A run that needs an approval returns suspended, with its tickets, unless `on_approval`
        answers them. To go on later, pass `answers={ticket: True}` with the same thread; a ticket's
        key works as well, also in another process. The `settings` are parameters of the model
        for this run: each replaces that of the agent, the others stay the agent's. A `budget`
        replaces the agent's own and covers the run and everything it starts. If the thread is
        already running, here or in another process, the request is refused; with
        `when_busy="queue"` it waits. The `principal` that asks, the end `user` and the `labels` are
        kept with a new run, with the runs that it starts, and with the thread if it is new.

        With `rewind_to`, the id of a message, the run begins before that message: it and all
        behind it are out of view for the model and for readers, and the thread's state is what it
        was then; the log keeps them. Without `input`, the agent answers once more to what is left.

        `deps` are the dependencies of an agent that has some (`Agent(deps=…)`); they live in this
        process and are not stored. `deps_key`, a small JSON value, is stored with the run: after a
        restart, the function in `Runtime(deps=…)` makes them again from it.

        Raises:
            ConfigError, TypeError: an argument is wrong, or this is not the event loop that the
                runtime belongs to; the text says what to do.
            InvalidId: there is no such thread, and no new one may have this id.
            AgentNotFound, ThreadAlreadyRunning, InvalidResume: the run could not start.
            RewindRefused: no message in view has the id `rewind_to`.
            ThreadBusy: the thread cannot be rewound while a run of it is open.
            AgentLoopError: it broke off.
        """
        request = self._build_request(agent, input, options, deps)
        on_approval = options.get("on_approval")
        if on_approval is not None or OVERRIDES.get():
            return await self._drive(request, on_approval, sink or NullEventSink())
        if options.get("thread") is not None:
            await self._check_thread(request.thread_id)
        ended = await self._engine.run(request, sink)
        return RunResult.of(request.thread_id, ended, self._shapes)

    @takes(StreamOptions)
    def stream(
        self,
        agent: str | Agent[Any, Any] | RemoteAgent | None = None,
        input: Input = None,
        *,
        deps: Any = None,
        **options: Unpack[StreamOptions],
    ) -> RunStream:
        """Run an agent and read its events as they come.

        With `wait`, the stream of a suspended run stays open until `decide` answers it; otherwise
        the stream ends. With `detached`, leaving the block early lets the run go on.

        Entering the block raises what `run` would raise before the agent is asked, such as
        `AgentNotFound`, `InvalidId` or `ThreadAlreadyRunning`. With `when_busy="queue"` the block
        is entered at once: then only an unknown agent and a bad thread id are raised there, and the
        other errors come when the events are read.
        """
        request = self._build_request(agent, input, options, deps)
        on_approval = options.get("on_approval")
        if request.wait_for_decisions and on_approval is not None:
            raise ConfigError("give either wait, and call decide, or on_approval, which is called")
        queued = request.when_busy is WhenBusy.QUEUE
        return engine.RunStream(
            self._engine,
            lambda sink: self._drive(request, on_approval, sink),
            check=partial(self._check_queued, request) if queued else None,
            detached=options.get("detached", False),
            shapes=self._shapes,
        )

    @takes(SubmitOptions)
    async def submit(
        self,
        agent: str | Agent[Any, Any] | RemoteAgent | None = None,
        input: Input = None,
        **options: Unpack[SubmitOptions],
    ) -> Submitted:
        """Ask for a run durably: once this returns, the run is carried out even if this process
        dies. It returns without waiting for the run; `wait(submitted.run_id)` waits for its end.

        The run starts in whichever process recovers runs of the agent (a runtime does while it is
        open), when the thread's earlier runs have ended. `mode` says what happens if one is open.
        A submission with the same `key` and content is taken once within seven days. The run does
        not start before `not_before_ms`, in milliseconds since 1970. `answers` go to the run that
        asked, which goes on with them. The end `user` and the `labels` are kept with a new run, and
        with the thread if it is new. A `principal` of a scope names threads with that scope, as in
        `acme/greeting`; a thread that is made for it lies there. `rewind_to` is the id of a
        message: the run begins by rewinding the thread to before it, as with `run`; an open run is
        in its way, unless the mode is `interrupt`. The dependencies of the agent are made by
        `Runtime(deps=…)` from the `deps_key`.

        A new run starts with the values in `state`, by the names of public state keys; names of
        other keys, and values that do not fit, are left out. The `adapter` is the protocol that the
        request came in by, `request_id` is the client's own id of it, and `forwarded_props` is what
        the client's application passes on: the run's record keeps all three.

        Raises:
            ConfigError: it was asked for wrongly.
            InvalidId: there is no such thread, and no new one may have this id.
            AgentNotFound: no such agent; nothing was stored, as with the other errors.
            ToolIdConflict: a tool of `frontend_tools` has the id of a tool of the agent.
            KeyReused: the key belongs to another submission of the thread.
            ThreadDeleted: the thread was deleted.
            ThreadBusy: a run of the thread is open or waits to start, and the mode is `refuse`, or
                the thread is to be rewound and the mode is not `interrupt`.
            RewindRefused: no message in view has the id `rewind_to`.
            InvalidResume: an answer fits no open ticket.
        """
        request = self._build_request(agent, input, options)
        principal = request.principal
        if principal is not None and options.get("thread") is None:
            own = engine.join_scope(principal.scope, request.thread_id)
            request = msgspec.structs.replace(request, thread_id=own)
        await self._check_thread(request.thread_id, principal)
        self._engine.one_loop.bind()
        return await engine.submit(
            self._engine,
            request,
            SubmitMode(options.get("mode", SubmitMode.QUEUE)),
            options.get("key"),
            options.get("not_before_ms"),
        )

    @takes(RunOptions)
    def run_sync(
        self,
        agent: str | Agent[Any, Any] | RemoteAgent | None = None,
        input: Input = None,
        *,
        deps: Any = None,
        sink: EventSink | None = None,
        **options: Unpack[RunOptions],
    ) -> RunResult[Any]:
        """`run`, for programs without an event loop, from any thread, also from several at once.

        It uses the event loop that the runtime was opened in, or else one in a separate thread that
        all callers share. It returns once the run and its background tasks have ended. If an agent
        in a background task needs an answer, it returns while both wait; open the runtime to answer
        and to resume them.

        Raises:
            ConfigError: it was called inside an event loop; await `run` instead.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise ConfigError(
                "run_sync was called inside an event loop: await runtime.run(…) instead"
            )
        work = partial(self.run_to_rest, agent, input, deps=deps, sink=sink, **options)
        loop = self._engine.one_loop.find()
        if loop is None or loop.is_closed() or self._sync.is_behind(loop):
            return self._sync.call(work)
        if not loop.is_running():
            raise ConfigError("the runtime belongs to an event loop that is open and does not run")
        return engine.call_in(loop, work())

    @takes(RunOptions)
    async def run_to_rest(
        self,
        agent: str | Agent[Any, Any] | RemoteAgent | None = None,
        input: Input = None,
        *,
        deps: Any = None,
        sink: EventSink | None = None,
        **options: Unpack[RunOptions],
    ) -> RunResult[Any]:
        """`run`, and wait until the run's background tasks have ended, and the run has answered to
        them. If an agent in a task needs an answer, it returns while both wait."""
        result = await self.run(agent, input, deps=deps, sink=sink, **options)
        await engine.wait_tree_idle(self._engine, result.thread_id, self._recovery.at_work)
        now = await self.find_run(result.run_id) if result.waiting else None
        return result if now is None else RunResult.read(now, self._shapes)

    async def _wait_idle(self) -> None:
        await engine.wait_idle(self._engine)

    async def _leave_tasks(self) -> None:
        await self._engine.tasks.close(leave=True, grace=CANCEL_GRACE)
        await self._engine.pending_commits.retry()

    async def _drive(
        self, request: RunRequest, on_approval: OnApproval | None, sink: EventSink
    ) -> RunResult[Any]:
        await self._check_thread(request.thread_id)
        while True:
            ended = await self._run(request, sink)
            result = RunResult.of(request.thread_id, ended, self._shapes)
            if not result.suspended or on_approval is None or not result.tickets:
                return result
            decisions = [await ask(on_approval, ticket) for ticket in result.tickets]
            # Without the agent's id: the run may have been handed to another agent.
            request = msgspec.structs.replace(
                request,
                agent_id=None,
                messages=(),
                rewind_to=None,
                deps=None,
                decisions=tuple(decisions),
                continue_run_id=result.run_id,
            )

    async def _check_queued(self, request: RunRequest) -> None:
        """Check what is known of a request before its thread is free."""
        known = self._engine.registry.snapshot().agent_ids()
        if request.agent_id is not None and request.agent_id not in known:
            raise AgentNotFound(request.agent_id, known)
        await self._check_thread(request.thread_id)

    async def _run(self, request: RunRequest, sink: EventSink) -> AgentRunResult:
        """Run in the engine. The run, and the runs it starts, use the agents that `Agent.override`
        has changed for the caller."""
        changed = OVERRIDES.get()
        if not changed:
            return await self._engine.run(request, sink)
        agents = [
            changed[one.id].agent if isinstance(one, Agent) and one.id in changed else one
            for one in self._agents
        ]
        builder = self._assembly.builder((*agents, *self._found.values()))
        mark = engine.RESOLVER.set(builder.build_resolver(self._sources))
        try:
            return await self._engine.run(request, sink)
        finally:
            engine.RESOLVER.reset(mark)

    def _build_request(
        self,
        agent: str | Agent[Any, Any] | RemoteAgent | None,
        input: Input,
        options: RequestOptions,
        deps: Any = None,
    ) -> RunRequest:
        """The request for a run. What the caller gives is checked here, except whether the thread
        may be used, which only the store knows. Unknown names of options come no further than the
        call (`with_hints`).

        Raises:
            ConfigError, InvalidId: it cannot be used; the text says which part.
        """
        if self._closed:
            raise ConfigError("the runtime is closed: open another one")
        agent_id, messages = parse_agent(agent), parse_input(input)
        fields = {"wait_for_decisions": False, **parse_options(options)}
        thread_id, rewind_to = fields.get("thread_id"), fields.get("rewind_to")
        decisions = fields.get("decisions")
        if not messages and not decisions and rewind_to is None:
            raise self._nothing_to_do(agent_id)
        if rewind_to is not None and (thread_id is None or decisions):
            raise ConfigError("rewind_to names a message of a thread: give the thread, no answers")
        if decisions and thread_id is None:
            raise ConfigError("answers belong to a thread: give the thread of the suspended run")
        if thread_id is None:
            fields["thread_id"] = self._ids.new()
        given = parse_deps(deps, agent_id, self._agents)
        return RunRequest(messages=messages, agent_id=agent_id, deps=given, **fields)

    def _nothing_to_do(self, agent_id: str | None) -> ConfigError:
        known = self._engine.registry.snapshot().agent_ids()
        if agent_id is None or not agent_id.strip() or agent_id in known or not known:
            return ConfigError("nothing to do: give input, or answers to a suspended run's tickets")
        return ConfigError(
            f"{agent_id!r} was taken for the agent, and there is no input: write "
            f"run({known[0]!r}, {agent_id!r}); agents are {', '.join(map(repr, known))}"
        )

    def preview(self, agent: str | Agent, request: InferenceRequest) -> Json:
        """What the agent's model would send to its provider for a request, such as one of
        `load_request`: the body, without the key. Nothing is sent.

        Raises:
            AgentNotFound, ResolveFailed: there is no such agent, or it does not run here.
            NoPreview: the model cannot show it.
            InvalidRequest: the provider cannot take a part of the request.
        """
        given: Any = request
        if not isinstance(given, engine.InferenceRequest):
            raise ConfigError(
                f"request is an InferenceRequest, such as load_request gives, not {given!r}"
            )
        known = engine.resolve(self._engine.registry.snapshot(), parse_agent(agent) or "")
        if not isinstance(known, engine.ResolvedAgent):
            raise ResolveFailed(f"agent {known.spec.id!r} runs elsewhere, and so does its model")
        return engine.preview_of(known.llm_executor, request)

    async def check_arguments(self, ticket: Ticket, arguments: Json) -> None:
        """Check arguments that an approver has edited, as the tool of the ticket's call would. If
        its agent is not known here, they are checked against the tool's schema. Nothing is run.

        Raises:
            ToolError: they do not fit; the text says why.
            ConfigError: `ticket` is no ticket, as `list_tickets` gives.
        """
        parse_argument("ticket", ticket, Ticket)
        await engine.check_edit(self._engine, ticket, arguments)

    def tool_traits(self, agent: str | Agent, tool: str) -> ToolTraits:
        """What a tool of the agent declares, such as its effect.

        Raises:
            AgentNotFound, ResolveFailed: there is no such agent, or it does not run here.
            NotFound: the agent has no such tool.
        """
        return traits_of(self._tool(agent, tool))

    def _tool(self, agent: str | Agent, tool: str) -> Tool:
        parse_argument("tool", tool, str)
        known = engine.resolve(self._engine.registry.snapshot(), parse_agent(agent) or "")
        found = known.tools.get(tool) if isinstance(known, engine.ResolvedAgent) else None
        if found is None:
            raise NotFound("tool", tool)
        return found
