"""Building a runtime from agents, tools, plugins, models and a store."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property
from typing import TypeVar

from awaken.backend.delegate_tool import DelegateTool
from awaken.backend.local import LocalBackend
from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.backend import ExecutionBackendFactory
from awaken.core.blobs import INLINE_LIMIT, BlobStore, RunBlobs
from awaken.core.bus import LiveBus
from awaken.core.defaults import MAX_RUNS
from awaken.core.deps import DepsMakers
from awaken.core.llm import LlmExecutor
from awaken.core.profile import ProfileStore
from awaken.core.registry import ExecutionResolver
from awaken.core.spec import AgentSpec, ModelPoolSpec, ModelSpec
from awaken.core.store.store import Store
from awaken.core.tool_context import Tool
from awaken.engine import LoopActionHandlersPlugin, LoopStatePlugin
from awaken.engine.registry import (
    MapRegistry,
    RegistryHandle,
    RegistryResolver,
    RegistrySet,
    WrapExecutor,
)
from awaken.errors import (
    AwakenError,
    BuildError,
    DelegateNotFound,
    RegistryConflict,
    ValidationFailed,
)
from awaken.ext import compaction
from awaken.ext.stop import StopConditionPlugin
from awaken.ext.tasks import lazy_tasks as background
from awaken.ext.tasks.state import BACKGROUND_PLUGIN_ID
from awaken.ids import UUID7, Ids
from awaken.plugin.hook import Plugin, SupportsClose
from awaken.stores.bus.local import LocalBus
from awaken.tool.thread_pool import DEFAULT_LIMIT
from awaken.worker.worker import Worker

T = TypeVar("T")


class AgentRuntimeBuilder:
    """Collects a runtime's registrations. Errors in them are raised by `build`, the first one
    only."""

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK, ids: Ids = UUID7) -> None:
        self._registries = RegistrySet()
        self._own_plugins: dict[str, Plugin] = {}
        self._errors: list[BuildError] = []
        self._bus: LiveBus | None = None
        self._store: Store | None = None
        self._profiles: ProfileStore | None = None
        self._wrap_executor: WrapExecutor | None = None
        self._tool_threads = DEFAULT_LIMIT
        self._max_runs = MAX_RUNS
        self._keep_requests = True
        self._deps: DepsMakers = {}
        self._blobs: BlobStore | None = None
        self._max_inline_result = INLINE_LIMIT
        self._clock, self._ids = clock, ids

    def closers(self) -> list[SupportsClose]:
        """The plugins that have to be closed with the runtime."""
        known = self._registries.plugins
        plugins = [plugin for id in known.ids() if (plugin := known.get(id)) is not None]
        if self._has_tasks():
            plugins.append(self._tasks)
        if any(spec.context_policy is not None for spec in self._specs()):
            plugins.append(self._compaction)
        return [plugin for plugin in plugins if isinstance(plugin, SupportsClose)]

    @cached_property
    def _tasks(self) -> background.BackgroundTaskPlugin:
        """The task plugin for agents without their own; created only if an agent may have tasks."""
        return background.BackgroundTaskPlugin(clock=self._clock, ids=self._ids)

    @cached_property
    def _compaction(self) -> compaction.CompactionPlugin:
        """The plugin for agents with a context policy; created only if there is such an agent."""
        return compaction.CompactionPlugin()

    def _register(self, registry: MapRegistry[T], id: str, item: T) -> AgentRuntimeBuilder:
        try:
            registry.register(id, item)
        except BuildError as error:
            self._errors.append(error)
        return self

    def with_agent_spec(
        self, spec: AgentSpec, own_plugin: Plugin | None = None
    ) -> AgentRuntimeBuilder:
        """Register an agent. `own_plugin` is added to this agent only, and is never filtered."""
        if own_plugin is not None:
            self._own_plugins[spec.id] = own_plugin
        return self._register(self._registries.agents, spec.id, spec)

    def with_tool(self, id: str, tool: Tool) -> AgentRuntimeBuilder:
        return self._register(self._registries.tools, id, tool)

    def with_plugin(self, plugin: Plugin, id: str | None = None) -> AgentRuntimeBuilder:
        """Register a plugin, under its own id unless another is given."""
        return self._register(self._registries.plugins, id or plugin.id, plugin)

    def with_model_binding(self, model: ModelSpec) -> AgentRuntimeBuilder:
        return self._register(self._registries.models, model.id, model)

    def with_model_pool(self, pool: ModelPoolSpec) -> AgentRuntimeBuilder:
        """Register a pool: several models under one id."""
        if pool.id in self._registries.models:
            self._errors.append(RegistryConflict("model", pool.id))
        return self._register(self._registries.pools, pool.id, pool)

    def with_provider(self, id: str, executor: LlmExecutor) -> AgentRuntimeBuilder:
        return self._register(self._registries.providers, id, executor)

    def with_agent_backend_factory(self, factory: ExecutionBackendFactory) -> AgentRuntimeBuilder:
        return self._register(self._registries.backends, factory.backend(), factory)

    def with_thread_run_store(self, store: Store) -> AgentRuntimeBuilder:
        self._store = store
        return self

    def with_live_bus(self, bus: LiveBus) -> AgentRuntimeBuilder:
        """Let listeners hear the runs on this bus, rather than on one of the runtime's own."""
        self._bus = bus
        return self

    def with_profile_store(self, profiles: ProfileStore) -> AgentRuntimeBuilder:
        self._profiles = profiles
        return self

    def with_tool_threads(self, limit: int) -> AgentRuntimeBuilder:
        """Run at most `limit` calls of sync (not async) tools at once."""
        self._tool_threads = limit
        return self

    def with_max_runs(self, limit: int) -> AgentRuntimeBuilder:
        """Claim no further runs while `limit` runs are live."""
        self._max_runs = limit
        return self

    def with_kept_requests(self, keep: bool) -> AgentRuntimeBuilder:
        """Commit what models are asked with their answers, or do not."""
        self._keep_requests = keep
        return self

    def with_deps(self, makers: DepsMakers) -> AgentRuntimeBuilder:
        """Make the dependencies of runs that are resumed here with these functions."""
        self._deps = makers
        return self

    def with_blobs(
        self, blobs: BlobStore | None, *, max_inline_result: int = INLINE_LIMIT
    ) -> AgentRuntimeBuilder:
        """Keep large media, and tool results with more bytes than that, in a blob store."""
        self._blobs, self._max_inline_result = blobs, max_inline_result
        return self

    def with_executor_wrapper(self, wrap: WrapExecutor) -> AgentRuntimeBuilder:
        """Wrap every model executor, for example with retries."""
        self._wrap_executor = wrap
        return self

    def resolver(self) -> RegistryResolver:
        """A resolver over everything that was registered.

        Raises:
            BuildError: the first registration that failed.
        """
        if self._errors:
            raise self._errors[0]
        return RegistryResolver(
            self._registries,
            builtin_plugins=self._builtin(),
            wrap_executor=self._wrap_executor,
            make_delegate=self._delegate,
            in_background=lambda tool: background.background(tool),
        )

    def _delegate(self, spec: AgentSpec, resolver: ExecutionResolver) -> Tool:
        local = LocalBackend(profile_store=self._profiles, clock=self._clock, ids=self._ids)
        return DelegateTool(spec, resolver, local)

    def _builtin(self) -> Callable[[AgentSpec], list[Plugin]]:
        own, clock = self._own_plugins, self._clock
        tasks = self._tasks if self._has_tasks() else None
        bare = tasks.without_tools() if tasks is not None else None

        def builtin(spec: AgentSpec) -> list[Plugin]:
            plugins: list[Plugin] = [own[spec.id]] if spec.id in own else []
            # Agents without tasks get the plugin too: they may continue a run that has some.
            ours = tasks if spec.background_tools else bare
            if ours is not None and not self._brings_tasks(spec):
                plugins.append(ours)
            return [
                *plugins,
                LoopStatePlugin(),
                LoopActionHandlersPlugin(),
                StopConditionPlugin.for_agent(spec, clock),
                *([self._compaction] if spec.context_policy is not None else ()),
            ]

        return builtin

    def _specs(self) -> list[AgentSpec]:
        agents = self._registries.agents
        return [spec for id in agents.ids() if (spec := agents.get(id)) is not None]

    def _has_tasks(self) -> bool:
        """Whether any agent may have background tasks."""
        return any(spec.background_tools or self._brings_tasks(spec) for spec in self._specs())

    def _brings_tasks(self, spec: AgentSpec) -> bool:
        """Whether the agent lists a task plugin of its own."""
        plugins = (self._registries.plugins.get(id) for id in spec.plugin_ids)
        return any(plugin is not None and plugin.id == BACKGROUND_PLUGIN_ID for plugin in plugins)

    def build_resolver(self, sources: Collection[str] = ()) -> RegistryResolver:
        """The resolver, after a check that every agent can be resolved.

        A missing delegate is no error if its id begins with one of the `sources`, which are read
        later.

        Raises:
            ValidationFailed: some agents cannot run; the message names all of them.
        """
        resolver = self.resolver()
        failures: list[str] = []
        for agent_id in resolver.agent_ids():
            try:
                resolver.resolve_execution(agent_id)
            except DelegateNotFound as error:
                if error.delegate_id.partition("/")[0] not in sources:
                    failures.append(str(error))
            except AwakenError as error:
                failures.append(str(error))
        if failures:
            raise ValidationFailed("; ".join(failures))
        return resolver

    def build_unchecked(self) -> Worker:
        """A runtime whose agents are resolved, and checked, only when they are used."""
        return self._build(self.resolver())

    def build(self, sources: Collection[str] = ()) -> Worker:
        """A runtime whose agents can all be resolved; see `build_resolver` for `sources`.

        Raises:
            BuildError: a registration failed, or an agent cannot run.
        """
        return self._build(self.build_resolver(sources))

    def _build(self, resolver: RegistryResolver) -> Worker:
        if self._store is None:
            raise BuildError("a runtime needs a store: call with_thread_run_store")
        blobs = None
        if self._blobs is not None:
            blobs = RunBlobs(
                blobs=self._blobs, uses=self._store, max_inline_result=self._max_inline_result
            )
        return Worker(
            RegistryHandle(resolver),
            self._store,
            profiles=self._profiles,
            clock=self._clock,
            ids=self._ids,
            tool_threads=self._tool_threads,
            bus=self._bus or LocalBus(),
            make_task_journal=lambda host: background.StoreTaskJournal(host),
            max_runs=self._max_runs,
            keep_requests=self._keep_requests,
            blobs=blobs,
            deps=self._deps,
        )
