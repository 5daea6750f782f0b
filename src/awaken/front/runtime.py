"""The runtime, as a user sees it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import Json
from awaken.contract.backend import ExecutionBackendFactory
from awaken.contract.blobs import INLINE_LIMIT, BlobStore
from awaken.contract.bus import LiveBus
from awaken.contract.events import EventSink, NullEventSink
from awaken.contract.llm import InferenceRequest, LlmExecutor, preview_of
from awaken.contract.profile import ProfileStore
from awaken.contract.store import Store
from awaken.contract.submissions import SubmitMode, Submitted
from awaken.contract.tool import Tool
from awaken.domain.budget import Budget, Price
from awaken.domain.identity import Adapter
from awaken.domain.inference import InferenceOverride
from awaken.domain.message import Message, as_messages
from awaken.domain.names import scoped_id
from awaken.domain.pool import ModelPoolSpec
from awaken.domain.principal import Principal, id_of
from awaken.domain.receipt import CancelReceipt
from awaken.domain.spec import AgentSpec, ModelSpec, RemoteEndpoint
from awaken.domain.tool import ToolDescriptor
from awaken.errors import AwakenError, ConfigError, InvalidId, ResolveFailed
from awaken.front.agent import Agent, listed
from awaken.front.answers import AnswersByTicket, OnApproval, ask, decisions_of
from awaken.front.archive import Archive
from awaken.front.asked import checked_agent, checked_when_busy
from awaken.front.budgets import checked_budget, checked_overrides
from awaken.front.build import AnyAgent, Assembly, shapes_of
from awaken.front.loading import blobs_beside, checked_store, open_bus, open_store
from awaken.front.remote import RemoteAgent, find_agent
from awaken.front.result import RecoveredRun, RunResult
from awaken.front.stream import RunStream
from awaken.front.submit import Asked, submit
from awaken.front.sync import SyncDoor, call_in
from awaken.front.tasks import at_rest, over_or_asking, tree_at_rest
from awaken.ids import UUID7, Ids
from awaken.plugin.agent import ResolvedAgent
from awaken.plugin.hook import Plugin
from awaken.runtime import (
    CANCEL_GRACE,
    AgentRuntime,
    RunRequest,
    WhenBusy,
    operations,
)
from awaken.runtime.closing import close_plugins
from awaken.runtime.reading import resolve
from awaken.runtime.receipts import cancel_with_receipt
from awaken.runtime.recovery import Recovery, ResumedRun
from awaken.runtime.runtime import MAX_RUNS
from awaken.tool.threads import DEFAULT_LIMIT

log = logging.getLogger("awaken.runtime")

LEAST_INLINE = 8 * 1024
Input = str | Message | Iterable[Message | str] | None


class Runtime(Archive):
    """Runs agents. Open it with `async with`; leaving the block ends the runs that are live (see
    `on_close`).

    Args:
        agents: all agents that can be run, handed over to, or delegated to.
        store: an address such as `sqlite:///awaken.db` or `memory:`, or a store, which stays open.
        bus: an address such as `nats://host:4222`, over which processes hear each other's runs as
            they work, or a live bus, which stays open. Without it, runs of other processes are read
            from the store. While the bus is away, everything but the pace of live text is the same.
        recover: while the runtime is open (by `async with`), resume open runs of these agents that
            no process owns: their process has ended, or they were answered, cancelled or timed out
            while none ran them. Without it, a run is still resumed when background tasks that it
            started here report to it.
        on_close: what happens to live runs when the runtime closes. `cancel` cancels them. `leave`
            lets each finish its step and leaves it open for the next process to recover; runs that
            were themselves recovered are always left.
        tools: tools for every agent.
        plugins: plugins that agents given as data (`AgentSpec`) may name.
        models: models, and pools of models, that agents may name.
        model_specs: facts about models, by name: limits, the content they read, prices.
        prices: prices of models, by the names that agents use, for budgets in money. A model that
            only an override names is counted at the price of the agent's own model.
        sources: addresses of further agents' A2A cards, each under a name that you choose. The
            agent found at the source `partner` is called `partner/<its id>`, or by its id alone if
            no agent here has that id.
        backends: factories of your own backends, for agents whose endpoint names them.
        profiles: where state that is kept across threads is stored; by default in `store`.
        blobs: where large media and tool results are kept. If not given: beside the file of a
            SQLite store, in memory for a memory store, and nowhere for others, so that everything
            stays in the log.
        max_inline_result: the bytes of text up to which a tool result stays in the log.
        tool_threads: how many calls of plain (not async) tools run at once, each in a thread;
            further calls wait. A call that has timed out no longer counts, even if its thread still
            works.
        max_runs: how many runs are live here before no further submitted or abandoned run is
            claimed. What a program starts itself is not limited.
        keep_requests: keep what models are asked, so that `load_request` can show the request of
            any step. It takes some hundred bytes a step, and each prompt and list of tools once.
    """

    def __init__(
        self,
        agents: Iterable[AnyAgent],
        *,
        store: str | Store = "memory:",
        bus: str | LiveBus | None = None,
        recover: bool = True,
        on_close: Literal["cancel", "leave"] = "cancel",
        tools: Iterable[Tool | Callable[..., Any]] = (),
        plugins: Iterable[Plugin] = (),
        models: Mapping[str, LlmExecutor | ModelPoolSpec] | None = None,
        model_specs: Iterable[ModelSpec] = (),
        prices: Mapping[str, Price] | None = None,
        backends: Iterable[ExecutionBackendFactory] = (),
        sources: Mapping[str, str | RemoteEndpoint] | None = None,
        profiles: ProfileStore | None = None,
        blobs: BlobStore | None = None,
        max_inline_result: int = INLINE_LIMIT,
        tool_threads: int = DEFAULT_LIMIT,
        max_runs: int = MAX_RUNS,
        keep_requests: bool = True,
        clock: Clock = SYSTEM_CLOCK,
        ids: Ids = UUID7,
    ) -> None:
        self._owns_store = isinstance(store, str)
        kept = open_store(store) if isinstance(store, str) else checked_store(store)
        self._owns_bus = isinstance(bus, str)
        live_bus = open_bus(bus) if isinstance(bus, str) else bus
        super().__init__(kept, clock, ids, blobs or blobs_beside(kept, clock), live_bus)
        if max_inline_result < LEAST_INLINE:
            raise ConfigError(
                f"max_inline_result is {max_inline_result}: give at least {LEAST_INLINE} bytes, "
                "since the beginning of a larger result stays in the log"
            )
        self._closed = False
        self._recover = recover
        if on_close not in ("cancel", "leave"):
            raise ConfigError(f"on_close is 'cancel' or 'leave', not {on_close!r}")
        self._on_close = on_close
        self.recovered: list[RecoveredRun] = []
        self._assembly = Assembly(
            tools=tools,
            plugins=plugins,
            models=models,
            model_specs=model_specs,
            prices=prices,
            backends=backends,
            profiles=profiles or self._store.profiles,
            clock=clock,
            ids=ids,
        )
        self._agents: Sequence[AnyAgent] = listed(agents, "the runtime's agents")
        self._sources = dict(sources or {})
        self._found: Mapping[str, AgentSpec] = {}
        builder = self._assembly.builder(self._agents)
        self._closers = builder.closers()
        builder.with_thread_run_store(self._store).with_live_bus(self._bus)
        builder.with_tool_threads(tool_threads)
        builder.with_max_runs(max_runs)
        builder.with_kept_requests(keep_requests)
        builder.with_blobs(self.blobs, max_inline_result=max_inline_result)
        self._engine = builder.build(self._sources)
        self._shapes = shapes_of(self._agents)
        self._recovery = Recovery(self._engine)
        self._sync = SyncDoor(self._at_rest, self._leave_tasks)

    # -- life ---------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._engine.one_loop.bind()
        await self._store.open()
        await self._bus.open()
        if self._sources:
            await self.discover()
        if self._recover:
            try:
                self.recovered = self._as_recovered(await self._recovery.resume())
            except BaseException:
                await self.close()
                raise
            self._recovery.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancel or leave the live runs, wait for them for a limited time, and close the store."""
        self._closed = self._engine.closed = True
        self._recovery.stop()
        if self._on_close == "leave":
            await self._engine.leave_all()
        else:
            await self._engine.cancel_all()
        failed = await close_plugins(self._closers, leave=self._on_close == "leave")
        await self._assembly.close()
        await self._recovery.stopped()
        if self._owns_bus:
            await self._bus.close()
        if self._owns_store:
            await self._store.close()
        if failed is not None:
            raise failed

    async def drain(self, grace: float = CANCEL_GRACE) -> None:
        """Claim and start no runs any more, and leave every live run at the end of its step, so
        that other processes go on with them. The runtime stays open for reading and submitting.

        A run whose step takes longer than `grace` seconds is left at its last commit. Callers of
        `run` and `stream` get `RunLeft`.
        """
        self._recovery.stop()
        await self._engine.drain(grace)

    @property
    def is_draining(self) -> bool:
        """Whether `drain` or `close` was called: no run is started here any more."""
        return self._engine.is_stopping

    @property
    def recovers(self) -> bool:
        """Whether runs that were submitted, or left by another process, are carried out here."""
        return self._recover

    @property
    def live_runs(self) -> int:
        """How many runs are live in this process."""
        return len(self._engine.active.all())

    @property
    def agent_ids(self) -> Sequence[str]:
        """The agents that can be run."""
        return self._engine.registry.snapshot().agent_ids()

    @property
    def engine(self) -> AgentRuntime:
        """The engine with its full contract: `RunRequest`, control by run and thread id."""
        return self._engine

    @property
    def agents(self) -> tuple[AgentSpec, ...]:
        """The agents that can be run now, as data, those found at sources last."""
        own = [agent if isinstance(agent, AgentSpec) else agent.spec for agent in self._agents]
        return (*own, *self._found.values())

    def replace(self, agents: Iterable[AnyAgent]) -> int:
        """Use other agents from now on; live runs keep theirs. Returns the new version number.

        Raises:
            BuildError: an agent cannot run; no agent was replaced.
        """
        return self._use(listed(agents, "the runtime's agents"), self._found)

    def _use(self, agents: Sequence[AnyAgent], found: Mapping[str, AgentSpec]) -> int:
        builder = self._assembly.builder((*agents, *found.values()))
        version = self._engine.registry.replace(builder.validated_resolver(self._sources))
        self._agents, self._found = agents, found
        self._shapes.update(shapes_of(agents))
        self._closers.extend(builder.closers())
        return version

    async def discover(self) -> dict[str, AwakenError]:
        """Read the agent card of every source. The agents found can be used from now on.

        Opening the runtime calls this. A source that fails is logged, and the agent found there
        before is kept. Returns the errors, by source.
        """
        found = dict(self._found)
        wrong: dict[str, AwakenError] = {}
        for name, where in self._sources.items():
            try:
                found[name] = await find_agent(name, where)
            except AwakenError as error:
                log.warning("no agent was found at source %r: %s", name, error)
                wrong[name] = error
        if found != self._found:
            self._use(self._agents, found)
        return wrong

    # -- running ------------------------------------------------------------------------------

    async def run(
        self,
        agent: str | Agent | RemoteAgent | None = None,
        input: Input = None,
        *,
        thread: str | None = None,
        answers: AnswersByTicket | None = None,
        on_approval: OnApproval | None = None,
        overrides: InferenceOverride | None = None,
        budget: Budget | None = None,
        frontend_tools: Sequence[ToolDescriptor] = (),
        when_busy: WhenBusy | Literal["refuse", "queue"] = WhenBusy.REFUSE,
        user: str | None = None,
        labels: Mapping[str, str] | None = None,
        principal: Principal | None = None,
        rewind_to: str | None = None,
        sink: EventSink | None = None,
    ) -> RunResult:
        """Run an agent and return how it ended.

        A run that needs an approval returns suspended, with its tickets, unless `on_approval`
        answers them. To go on later, pass `answers={ticket: True}` with the same thread; a ticket's
        key works as well, also in another process. A `budget` replaces the agent's own and covers
        the run and everything it starts. If the thread is already running, here or in another
        process, the request is refused; with `when_busy="queue"` it waits. The `principal` that
        asks, the end `user` and the `labels` are kept with a new run, with the runs that it starts,
        and with the thread if it is new.

        With `rewind_to`, the id of a message, the run begins before that message: it and all
        behind it are out of view for the model and for readers, and the thread's state is what it
        was then; the log keeps them. Without `input`, the agent answers once more to what is left.

        Raises:
            ConfigError, TypeError: an argument is wrong, or this is not the event loop that the
                runtime belongs to; the text says what to do.
            InvalidId: there is no such thread, and no new one may have this id.
            AgentNotFound, ThreadAlreadyRunning, InvalidResume: the run could not start.
            RewindRefused: no message in view has the id `rewind_to`.
            ThreadBusy: the thread cannot be rewound while a run of it is open.
            AgentLoopError: it broke off.
        """
        request = self._request(
            agent, input, thread, answers, overrides, budget, frontend_tools, when_busy, rewind_to
        )
        request = msgspec.structs.replace(
            request, principal=principal, user=user, labels=dict(labels or {})
        )
        if on_approval is not None:
            return await self._drive(request, on_approval, sink or NullEventSink())
        await self._check_thread(request.thread_id)
        ended = await self._engine.run(request, sink)
        return RunResult.of(request.thread_id, ended, self._shapes)

    def stream(
        self,
        agent: str | Agent | RemoteAgent | None = None,
        input: Input = None,
        *,
        thread: str | None = None,
        answers: AnswersByTicket | None = None,
        on_approval: OnApproval | None = None,
        overrides: InferenceOverride | None = None,
        budget: Budget | None = None,
        frontend_tools: Sequence[ToolDescriptor] = (),
        when_busy: WhenBusy | Literal["refuse", "queue"] = WhenBusy.REFUSE,
        user: str | None = None,
        labels: Mapping[str, str] | None = None,
        principal: Principal | None = None,
        rewind_to: str | None = None,
        wait: bool = False,
        detached: bool = False,
    ) -> RunStream:
        """Run an agent and read its events as they come.

        With `wait`, the stream of a suspended run stays open until `decide` answers it; otherwise
        the stream ends. With `detached`, leaving the block early lets the run go on.
        """
        request = self._request(
            agent, input, thread, answers, overrides, budget, frontend_tools, when_busy, rewind_to
        )
        request = msgspec.structs.replace(
            request, principal=principal, user=user, labels=dict(labels or {})
        )
        if wait and on_approval is not None:
            raise ConfigError("give either wait, and call decide, or on_approval, which is called")
        if wait:
            request = msgspec.structs.replace(request, wait_for_decisions=True)
        return RunStream(
            self._engine,
            lambda sink: self._drive(request, on_approval, sink),
            detached=detached,
            shapes=self._shapes,
        )

    async def submit(
        self,
        agent: str | Agent | RemoteAgent | None = None,
        input: Input = None,
        *,
        thread: str | None = None,
        answers: AnswersByTicket | None = None,
        overrides: InferenceOverride | None = None,
        budget: Budget | None = None,
        frontend_tools: Sequence[ToolDescriptor] = (),
        mode: SubmitMode | Literal["queue", "steer", "interrupt", "refuse"] = SubmitMode.QUEUE,
        key: str | None = None,
        not_before_ms: int | None = None,
        user: str | None = None,
        labels: Mapping[str, str] | None = None,
        principal: Principal | None = None,
        rewind_to: str | None = None,
        state: Mapping[str, Json] | None = None,
        forwarded_props: Json = None,
        adapter: Adapter = Adapter.INTERNAL,
        request_id: str | None = None,
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
        in its way, unless the mode is `interrupt`.

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
            ToolIdConflict: a frontend tool has the id of another tool.
            InvalidResume: an answer fits no open ticket.
        """
        if thread is None and principal is not None and not answers:
            thread = scoped_id(principal.scope, self._ids.new())
        request = self._request(
            *(agent, input, thread, answers, overrides, budget, frontend_tools),
            WhenBusy.QUEUE,
            rewind_to,
        )
        request = msgspec.structs.replace(request, user=user, labels=dict(labels or {}))
        await self._check_thread(request.thread_id, principal)
        self._engine.one_loop.bind()
        asked = Asked(
            mode=mode,
            key=key,
            not_before_ms=not_before_ms,
            principal=principal,
            state=state or {},
            forwarded_props=forwarded_props,
            adapter=adapter,
            request_id=request_id,
        )
        return await submit(self._engine, request, asked)

    def run_sync(self, *args: Any, **kwargs: Any) -> RunResult:
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
        loop = self._engine.one_loop.find()
        if loop is None or loop.is_closed() or self._sync.is_behind(loop):
            return self._sync.call(lambda: self._run_to_rest(*args, **kwargs))
        if not loop.is_running():
            raise ConfigError("the runtime belongs to an event loop that is open and does not run")
        return call_in(loop, self._run_to_rest(*args, **kwargs))

    async def _run_to_rest(self, *args: Any, **kwargs: Any) -> RunResult:
        """Run, and wait until nothing of the run is live, so that its event loop may be closed."""
        result = await self.run(*args, **kwargs)
        await tree_at_rest(self._engine, result.thread_id, self._recovery.at_work)
        now = await self.find_run(result.run_id) if result.waiting else None
        return result if now is None else RunResult.read(now, self._shapes)

    async def _at_rest(self) -> None:
        await at_rest(self._engine)

    async def _leave_tasks(self) -> None:
        await self._engine.tasks.close(leave=True, grace=CANCEL_GRACE)
        await self._engine.unkept.try_again()

    async def _drive(
        self, request: RunRequest, on_approval: OnApproval | None, sink: EventSink
    ) -> RunResult:
        await self._check_thread(request.thread_id)
        while True:
            ended = await self._engine.run(request, sink)
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
                decisions=tuple(decisions),
                continue_run_id=result.run_id,
            )

    def _request(
        self,
        agent: str | Agent | RemoteAgent | None,
        input: Input,
        thread: str | None,
        answers: AnswersByTicket | None,
        overrides: InferenceOverride | None,
        budget: Budget | None,
        frontend_tools: Sequence[ToolDescriptor],
        when_busy: WhenBusy | str,
        rewind_to: str | None,
    ) -> RunRequest:
        if self._closed:
            raise ConfigError("the runtime is closed: open another one")
        agent_id = checked_agent(agent)
        messages = as_messages(input)
        if not messages and not answers and rewind_to is None:
            raise self._nothing_to_do(agent_id)
        if rewind_to is not None and (thread is None or answers):
            raise ConfigError("rewind_to names a message of a thread: give the thread, no answers")
        if thread is not None and not thread.strip():
            raise InvalidId(thread)
        if answers and thread is None:
            raise ConfigError("answers belong to a thread: give the thread of the suspended run")
        whose = "a run" if agent_id is None else f"a run of agent {agent_id!r}"
        return RunRequest(
            thread_id=self._ids.new() if thread is None else thread,
            messages=messages,
            agent_id=agent_id,
            decisions=decisions_of(answers or {}),
            overrides=checked_overrides(overrides, whose),
            budget=checked_budget(budget, whose),
            frontend_tools=tuple(frontend_tools),
            wait_for_decisions=False,
            when_busy=checked_when_busy(when_busy),
            rewind_to=rewind_to,
        )

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
        known = resolve(self._engine.registry.snapshot(), checked_agent(agent) or "")
        if not isinstance(known, ResolvedAgent):
            raise ResolveFailed(f"agent {known.spec.id!r} runs elsewhere, and so does its model")
        return preview_of(known.llm_executor, request)

    # -- recovery -----------------------------------------------------------------------------

    async def recover(self) -> list[RecoveredRun]:
        """Resume open runs of these agents that no process owns.

        These are runs whose process has ended, and runs that were answered or cancelled while no
        process ran them. Each continues from its last commit, in the background: no question is
        asked twice, and no finished call is run again. Await the returned runs for their results.
        This also runs agents that have unread messages, and sends messages that runs could not
        deliver before they ended.
        """
        self._engine.one_loop.bind()
        return self._as_recovered(await self._recovery.recover())

    async def look_around(self) -> None:
        """Resume open runs of these agents that no process owns, at once. A runtime with `recover`
        does so every five seconds by itself."""
        if self._recover and not self._engine.is_stopping:
            await self._recovery.resume()

    def _as_recovered(self, resumed: Iterable[ResumedRun]) -> list[RecoveredRun]:
        return [RecoveredRun(run, self._shapes) for run in resumed]

    def leave_to_caller(self, thread: str | None = None) -> None:
        """Do not resume the run of a thread (without `thread`: any run) when its background tasks
        report to it: the caller will. A runtime with `recover` still resumes such runs."""
        self._recovery.leave_to_caller(thread)

    # -- control ------------------------------------------------------------------------------

    async def cancel(
        self, id: str, *, deadline: float = CANCEL_GRACE, principal: Principal | None = None
    ) -> CancelReceipt:
        """Cancel a run by its run or thread id, with every delegate and task it has started. The
        run may be waiting, or live in another process.

        The request is stored first, so it holds even if this process ends. The receipt comes within
        `deadline` seconds. It says for each run, task and call whether it was stopped, had
        finished, or whether that is unknown. The receipt is false if there was no open run. The
        records of the runs keep who cancelled them, if a `principal` is given.
        """
        if not deadline >= 0:
            raise ConfigError(f"deadline is a number of seconds from 0 on, not {deadline!r}")
        self._engine.one_loop.bind()
        return await cancel_with_receipt(self._engine, id, deadline, id_of(principal))

    async def decide(
        self,
        id: str,
        answers: AnswersByTicket,
        *,
        by: str | None = None,
        principal: Principal | None = None,
    ) -> bool:
        """Answer tickets of a run, all or none: `{ticket: True}`; a key may be a ticket or its key.

        The answers are stored first. A run that is live, here or in another process, goes on with
        them. A run without an owner is resumed here, in the background, if this runtime has its
        agent. Returns whether the run goes on now; otherwise it does when a runtime recovers it.
        If a `principal` is given, the answers count as the principal's, even if they or `by` name
        another approver.

        Raises:
            InvalidResume: there is no such run, or an answer fits no open ticket; no answer was
                stored.
        """
        self._engine.one_loop.bind()
        decisions = decisions_of(answers, id_of(principal) or by)
        place = await operations.decide(self._engine, id, decisions)
        if place.owner is not None:
            return True
        return self._recover and await self._recovery.goes_on(place.thread_id)

    async def send(self, id: str, input: Input, *, principal: Principal | None = None) -> bool:
        """Send messages to a live run, here or in another process, by its run or thread id.

        The model reads them at its next step; messages that come too late for this run are read by
        the thread's next one. Returns `False` if no process runs the thread. The messages keep who
        sent them, if a `principal` is given.
        """
        self._engine.one_loop.bind()
        messages = [message.sent_by(id_of(principal)) for message in as_messages(input)]
        return await operations.send(self._engine, id, messages)

    async def wait(self, id: str, *, timeout: float | None = None) -> RunResult:
        """Wait for a run to end, in whichever process it is. A thread id means the thread's open
        run, or else its latest.

        A run that waits for its background tasks is waited for, too. A run that needs an answer is
        returned suspended, with its tickets. An error of the run is not raised here: its
        `termination` says that it failed.

        Raises:
            NotFound: there is no such run.
            RunAbandoned: no process owns the run, and this runtime will not resume it.
            TimeoutError: the run did not end within `timeout` seconds.
        """
        self._engine.one_loop.bind()
        async with asyncio.timeout(timeout):
            run = await over_or_asking(self._engine, id, self._recovery.why_not)
            return RunResult.read(run, self._shapes)
