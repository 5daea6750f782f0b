"""Finding agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from awaken.contract.llm import LlmExecutor
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


@runtime_checkable
class ModelResolver(Protocol):
    """Also finds models, for agents whose model somebody changes."""

    def resolve_model(self, spec: AgentSpec) -> tuple[str, LlmExecutor]:
        """The upstream name of an agent's model, and what asks it.

        Raises:
            ResolveError: there is no such model, or nobody who can ask it.
        """
        ...
