"""A resolved agent: its spec with the model, tools and plugins it names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from awaken.codec import digest
from awaken.core.agent_services import ToolSource
from awaken.core.backend import (
    ExecutionBackend,
    ExecutionBackendFactory,
    ExecutionBackendFactoryError,
    ExecutionFailed,
)
from awaken.core.budget import Price
from awaken.core.deps import RunInfo
from awaken.core.llm import AnswerSource
from awaken.core.registry import AgentResolver, ModelResolver
from awaken.core.spec import AgentOverlay, AgentSpec, ToolExecutorKind
from awaken.core.tool import ToolDescriptor, ToolKind
from awaken.core.tool_context import Tool
from awaken.errors import ResolveFailed, ToolIdConflict
from awaken.plugin.env import ExecutionEnv


class ResolvedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that is ready to run. `descriptors` are sorted by id; `labels` are the kind and the
    title of each tool, as in events: a title that equals the tool's id is left out.

    `fingerprint` is made of the prompt, the tools and the model, in this order.
    """

    spec: AgentSpec
    upstream_model: str
    llm_executor: AnswerSource
    tools: Mapping[str, Tool] = msgspec.field(default_factory=dict)
    descriptors: tuple[ToolDescriptor, ...] = ()
    labels: Mapping[str, tuple[ToolKind, str]] = msgspec.field(default_factory=dict)
    tool_executor: ToolExecutorKind = ToolExecutorKind.PARALLEL_STREAMING
    env: ExecutionEnv = msgspec.field(default_factory=ExecutionEnv)
    fingerprint: str = ""
    prices: Mapping[str, Price] = msgspec.field(default_factory=dict)
    context_window: int | None = None
    max_output_tokens: int | None = None
    overlay: AgentOverlay | None = None

    @property
    def price(self) -> Price | None:
        """The price of its model; of several models, the highest."""
        return Price.highest(self.prices.values())

    @classmethod
    def new(
        cls, agent_id: str, model: str, system_prompt: str, llm_executor: AnswerSource
    ) -> ResolvedAgent:
        """An agent without tools and plugins, made without registries."""
        spec = AgentSpec(id=agent_id, model_id=model, system_prompt=system_prompt)
        return cls(spec=spec, upstream_model=model, llm_executor=llm_executor)

    def with_tool(self, tool: Tool) -> ResolvedAgent:
        """This agent with one more tool, from a request; the fingerprint stays the same.

        Raises:
            ToolIdConflict: the agent has a tool with that id.
        """
        tool_id = tool.descriptor().id
        if tool_id in self.tools:
            raise ToolIdConflict(tool_id, f"agent {self.spec.id!r} and the request")
        more = self.with_tools({**self.tools, tool_id: tool})
        return msgspec.structs.replace(more, fingerprint=self.fingerprint)

    def with_tools(self, tools: Mapping[str, Tool]) -> ResolvedAgent:
        """This agent with exactly these tools, and a new fingerprint."""
        return self._with(tools, list_descriptors(tools))

    def _with(
        self, tools: Mapping[str, Tool], descriptors: tuple[ToolDescriptor, ...]
    ) -> ResolvedAgent:
        parts = (digest(self.spec.system_prompt), digest(descriptors), self.upstream_model)
        return msgspec.structs.replace(
            self,
            tools=tools,
            descriptors=descriptors,
            labels=_labels_of(descriptors),
            fingerprint="|".join(parts),
        )

    async def with_offered(self, run: RunInfo) -> ResolvedAgent:
        """This agent with the tools that it has in this run only, after its others, and a new
        fingerprint. Prompt caches of providers hold for the tools before them.

        Raises:
            ResolveFailed: the source of the tools failed.
            ToolIdConflict: two of the tools have one id.
        """
        source = self.env.services.get(ToolSource)
        if not isinstance(source, ToolSource):
            return self
        offered = await source.offer(run, self.tools)
        kept = self.spec.tool_selection.visible({**self.tools, **offered})
        more = {tool_id: tool for tool_id, tool in offered.items() if tool_id in kept}
        descriptors = (*self.descriptors, *[tool.descriptor() for tool in more.values()])
        return self._with({**self.tools, **more}, descriptors)

    def with_overlay(self, overlay: AgentOverlay, resolver: AgentResolver) -> ResolvedAgent:
        """This agent with an overlay; the fingerprint stays, as the agent itself is the same.

        Raises:
            ResolveError: the overlay names an unknown model.
            ResolveFailed: the resolver cannot find models.
        """
        kept = overlay.tool_selection.visible(self.tools)
        tools = {tool_id: tool for tool_id, tool in self.tools.items() if tool_id in kept}
        descriptors = list_descriptors(tools)
        laid = msgspec.structs.replace(
            self,
            spec=overlay.on(self.spec),
            tools=tools,
            descriptors=descriptors,
            labels=_labels_of(descriptors),
            overlay=overlay,
        )
        if overlay.model_id is None:
            return laid
        if not isinstance(resolver, ModelResolver):
            raise ResolveFailed(
                f"an overlay gives agent {self.spec.id!r} the model {overlay.model_id!r}, but "
                f"{type(resolver).__name__} cannot find models: give it a method resolve_model"
            )
        model = resolver.resolve_model(laid.spec)
        return msgspec.structs.replace(
            laid,
            upstream_model=model.upstream_model,
            llm_executor=model.executor,
            prices=model.prices,
            context_window=model.context_window,
            max_output_tokens=model.max_output_tokens,
        )

    def with_env(self, env: ExecutionEnv) -> ResolvedAgent:
        return msgspec.structs.replace(self, env=env)


def list_descriptors(tools: Mapping[str, Tool]) -> tuple[ToolDescriptor, ...]:
    return tuple(tools[tool_id].descriptor() for tool_id in sorted(tools))


def _labels_of(descriptors: Iterable[ToolDescriptor]) -> dict[str, tuple[ToolKind, str]]:
    return {
        known.id: (known.tool_kind, "" if known.name == known.id else known.name)
        for known in descriptors
    }


class ResolvedBackendAgent:
    """An agent that runs on a remote backend, which is built on first use."""

    def __init__(
        self,
        spec: AgentSpec,
        factory: ExecutionBackendFactory | None = None,
        backend: ExecutionBackend | None = None,
    ) -> None:
        self.spec = spec
        self._factory = factory
        self._backend = backend

    def backend(self) -> ExecutionBackend:
        """The backend, built by the first call.

        Raises:
            ExecutionFailed: the backend cannot be built.
        """
        if self._backend is None:
            assert self._factory is not None, "a backend or a factory is given"
            assert self.spec.endpoint is not None, "only endpoint agents have factories"
            try:
                self._backend = self._factory.build(self.spec.endpoint)
            except ExecutionBackendFactoryError as error:
                raise ExecutionFailed(
                    f"failed to build backend '{self._factory.backend()}': {error}"
                ) from error
        return self._backend


_PARTS = ("system_prompt", "tools", "model")


def changes_since(fingerprint: str | None, agent: ResolvedAgent) -> tuple[str, ...]:
    """The parts of an agent that have changed since the fingerprint was taken."""
    if not fingerprint or not agent.fingerprint:
        return ()
    old, new = fingerprint.split("|", 2), agent.fingerprint.split("|", 2)
    return tuple(part for part, a, b in zip(_PARTS, old, new, strict=False) if a != b)


ResolvedExecution = ResolvedAgent | ResolvedBackendAgent
"""An agent that runs in this process, or on a remote backend."""
