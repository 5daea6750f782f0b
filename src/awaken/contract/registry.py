"""Finding agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from awaken.contract.llm import Asked
from awaken.domain.budget import Price
from awaken.domain.spec import AgentSpec


class AgentResolver(Protocol):
    """Makes agents ready to run; each answer is an `awaken.plugin.agent.ResolvedAgent`."""

    def resolve(self, agent_id: str) -> Any:
        """
        Raises:
            AgentNotFound: no such agent.
            ResolveError: it cannot be made ready.
        """
        ...

    def agent_ids(self) -> Sequence[str]: ...


class ExecutionResolver(AgentResolver, Protocol):
    """Also says where an agent runs; an `awaken.plugin.agent.ResolvedExecution`."""

    def resolve_execution(self, agent_id: str) -> Any: ...


class ResolvedModel(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent's model is called upstream, who asks it, and what it costs if that is known.

    A pool's models have their prices by their ids. The limits are those that were declared for the
    model, the least of several.
    """

    upstream_model: str
    executor: Asked
    prices: Mapping[str, Price] = msgspec.field(default_factory=dict)
    context_window: int | None = None
    max_output_tokens: int | None = None


@runtime_checkable
class ModelResolver(Protocol):
    """Also finds models, for agents whose model somebody changes."""

    def resolve_model(self, spec: AgentSpec) -> ResolvedModel:
        """
        Raises:
            ResolveError: there is no such model, or nobody who can ask it.
        """
        ...
