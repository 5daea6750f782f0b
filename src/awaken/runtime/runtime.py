"""The runtime, as a user sees it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Never, Self

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.blobs import INLINE_LIMIT
from awaken.core.budget import Price
from awaken.core.defaults import CANCEL_GRACE, MAX_RUNS
from awaken.core.deps import DepsMaker
from awaken.core.spec import AgentSpec, ModelPoolSpec, ModelSpec, RemoteEndpoint
from awaken.core.thread import ThreadPatch
from awaken.errors import AwakenError, ConfigError
from awaken.ids import UUID7, Ids
from awaken.plugin.hook import Plugin
from awaken.runtime import lazy_engine as engine
from awaken.runtime.agent import Agent
from awaken.runtime.agent_arguments import GivenTool, parse_list
from awaken.runtime.control import Control
from awaken.runtime.deps import check_team, deps_types, parse_deps_makers
from awaken.runtime.hints import OF_RUNTIME, unknown_attribute
from awaken.runtime.open_by_name import blobs_beside, open_bus, open_store, parse_store
from awaken.runtime.queries import StoreQueries
from awaken.runtime.remote_agent import RemoteAgent, find_agent
from awaken.runtime.result import RecoveredRun
from awaken.runtime.search_methods import SearchMethods
from awaken.runtime.start import RunMethods
from awaken.runtime.wrong_calls import name_methods
from awaken.tool.thread_pool import DEFAULT_LIMIT

if TYPE_CHECKING:
    from awaken.core.backend import ExecutionBackendFactory
    from awaken.core.blobs import BlobStore
    from awaken.core.bus import LiveBus
    from awaken.core.llm import LlmExecutor
    from awaken.core.profile import ProfileStore
    from awaken.core.store.store import Store
    from awaken.runtime.assembly import AnyAgent
    from awaken.worker.worker import Worker

log = logging.getLogger("awaken.runtime")

LEAST_INLINE = 8 * 1024


class Runtime(RunMethods):
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
        deps: how to make the dependencies of agents, by their type, for runs that were submitted
            or are resumed after a restart. Each function, async or not, takes a `RunInfo`: agent,
            thread, user, labels, and the `deps_key` given with the run.
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
        tools: Iterable[GivenTool] = (),
        plugins: Iterable[Plugin] = (),
        models: Mapping[str, LlmExecutor | ModelPoolSpec] | None = None,
        model_specs: Iterable[ModelSpec] = (),
        prices: Mapping[str, Price] | None = None,
        backends: Iterable[ExecutionBackendFactory] = (),
        sources: Mapping[str, str | RemoteEndpoint] | None = None,
        deps: Mapping[type, DepsMaker] | None = None,
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
        kept = open_store(store) if isinstance(store, str) else parse_store(store)
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
        self._assembly = engine.Assembly(
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
        self._makers = parse_deps_makers(deps)
        self._agents: Sequence[AnyAgent] = self._with_teams(agents)
        self._sources = dict(sources or {})
        self._found: Mapping[str, AgentSpec] = {}
        builder = self._assembly.builder(self._agents)
        self._closers = builder.closers()
        builder.with_thread_run_store(self._store).with_live_bus(self._bus)
        builder.with_tool_threads(tool_threads)
        builder.with_max_runs(max_runs)
        builder.with_kept_requests(keep_requests)
        builder.with_deps(self._makers)
        builder.with_blobs(self.blobs, max_inline_result=max_inline_result)
        self._engine = builder.build(self._sources)
        self._engine.deps.types = deps_types(self._agents)
        self._shapes = engine.shapes_of(self._agents)
        self._recovery = engine.Recovery(self._engine)
        self._sync = engine.SyncBridge(self._wait_idle, self._leave_tasks)

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

    def __enter__(self) -> Never:
        raise ConfigError(
            "a runtime is opened with `async with`, in an async function; in a program without "
            "an event loop, call run_sync without opening it"
        )

    def __exit__(self, *_: object) -> None:
        """Python looks this up before it calls `__enter__`, which raises."""

    async def close(self) -> None:
        """Cancel or leave the live runs, wait for them for a limited time, and close the store."""
        self._closed = self._engine.closed = True
        self._recovery.stop()
        if self._on_close == "leave":
            await self._engine.leave_all()
        else:
            await self._engine.cancel_all()
        failed = await engine.close_plugins(self._closers, leave=self._on_close == "leave")
        await self._assembly.close()
        await self._recovery.wait_stopped()
        await self._close_search()
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
    def not_resumed(self) -> Mapping[str, str]:
        """The open runs without an owner that this runtime has found and does not resume, by id,
        each with the reason: it does not have the agent, or cannot make its dependencies."""
        return dict(self._engine.skipped_runs)

    @property
    def agent_ids(self) -> Sequence[str]:
        """The agents that can be run."""
        return self._engine.registry.snapshot().agent_ids()

    @property
    def engine(self) -> Worker:
        """The engine with its full contract: `RunRequest`, control by run and thread id."""
        return self._engine

    @property
    def agents(self) -> tuple[AgentSpec, ...]:
        """The agents that can be run now, as data, those found at sources last."""
        own = [agent if isinstance(agent, AgentSpec) else agent.spec for agent in self._agents]
        return (*own, *self._found.values())

    def reads(self, agent: AgentSpec) -> tuple[str, ...] | None:
        """The kinds of content that an agent's model reads, such as `text` and `image`, as
        `model_specs` has it; `None` if it does not say."""
        given: Any = agent
        if not isinstance(given, AgentSpec):
            raise ConfigError(
                f"agent is an AgentSpec, such as one of runtime.agents, not {given!r}"
            )
        resolver = self._engine.registry.snapshot()
        return resolver.reads(agent) if isinstance(resolver, engine.ContentResolver) else None

    def replace(self, agents: Iterable[AnyAgent]) -> int:
        """Use other agents from now on; live runs keep theirs. Returns the new version number.

        Raises:
            BuildError: an agent cannot run; no agent was replaced.
        """
        return self._use(self._with_teams(agents), self._found)

    if not TYPE_CHECKING:  # a type checker knows the names; this is for people without one

        def __getattr__(self, name: str) -> Never:
            raise unknown_attribute(self, name, OF_RUNTIME)

    def _with_teams(self, agents: Iterable[AnyAgent]) -> tuple[AnyAgent, ...]:
        """The agents, with those that they were given as objects."""
        everyone = engine.with_teams(_parse_agents(agents))
        check_team(everyone, self._makers)
        return everyone

    def _use(self, agents: Sequence[AnyAgent], found: Mapping[str, AgentSpec]) -> int:
        builder = self._assembly.builder((*agents, *found.values()))
        version = self._engine.registry.replace(builder.build_resolver(self._sources))
        self._agents, self._found = agents, found
        self._engine.deps.types.update(deps_types(agents))
        self._shapes.update(engine.shapes_of(agents))
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


name_methods(
    Runtime,
    (SearchMethods, StoreQueries, Control, RunMethods, Runtime),
    {
        "create_thread": ThreadPatch,
        "update_thread": ThreadPatch,
        "list_runs": engine.RunQuery,
        "list_threads": engine.ThreadQuery,
        "list_tickets": engine.TicketQuery,
    },
)


def _parse_agents(agents: Iterable[AnyAgent]) -> tuple[AnyAgent, ...]:
    given = parse_list(agents, "the runtime's agents")
    for one in given:
        if not isinstance(one, Agent | RemoteAgent | AgentSpec):
            raise ConfigError(
                f"the runtime's agents are made with Agent(…), and {one!r} is none: "
                "write Runtime([agent])"
            )
    return given
