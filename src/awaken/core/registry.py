"""Finding agents and their models by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from awaken.core.budget import Price
from awaken.core.llm import AnswerSource
from awaken.core.spec import AgentSpec


class AgentResolver(Protocol):
    """Builds an agent that is ready to run from its id."""

    def resolve(self, agent_id: str) -> Any:
        """Returns an `awaken.plugin.resolved_agent.ResolvedAgent`.

        Raises:
            AgentNotFound: no such agent.
            ResolveError: the agent's parts do not fit together.
        """
        ...

    def agent_ids(self) -> Sequence[str]: ...


class ExecutionResolver(AgentResolver, Protocol):
    """A resolver that also knows the backend an agent runs on."""

    def resolve_execution(self, agent_id: str) -> Any:
        """Returns an `awaken.plugin.resolved_agent.ResolvedExecution`."""
        ...


class ResolvedModel(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's model: its name at the provider, the executor that calls it, its price if known.

    `prices` are by model id, as a pool has several models. The limits are the declared ones; of
    several models, the smallest.
    """

    upstream_model: str
    executor: AnswerSource
    prices: Mapping[str, Price] = msgspec.field(default_factory=dict)
    context_window: int | None = None
    max_output_tokens: int | None = None


@runtime_checkable
class ModelResolver(Protocol):
    """A resolver that also finds models, for agents whose model changes while they run."""

    def resolve_model(self, spec: AgentSpec) -> ResolvedModel:
        """
        Raises:
            ResolveError: there is no such model, or no provider for it.
        """
        ...


@runtime_checkable
class ContentResolver(Protocol):
    """A resolver that also knows what models read."""

    def reads(self, spec: AgentSpec) -> tuple[str, ...] | None:
        """The kinds of content that the model reads, or every model of a pool; `None` if none of
        them says."""
        ...
