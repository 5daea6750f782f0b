"""Choosing the backend of an agent, and refusing unsupported requests before anything starts."""

from __future__ import annotations

from awaken.backend.local import LocalBackend
from awaken.core.backend import (
    BackendCapabilities,
    BackendDelegateRunRequest,
    BackendRootRunRequest,
    BackendRunResult,
    ExecutionBackend,
    ExecutionFailed,
)
from awaken.plugin.resolved_agent import ResolvedAgent, ResolvedExecution


def backend_of(execution: ResolvedExecution, local: LocalBackend | None = None) -> ExecutionBackend:
    """The backend that an agent runs on. `local` is used for agents in this process.

    Raises:
        ExecutionFailed: the backend cannot be built.
    """
    if isinstance(execution, ResolvedAgent):
        return local or LocalBackend()
    return execution.backend()


def execution_capabilities(execution: ResolvedExecution) -> BackendCapabilities:
    """The capabilities of a resolved agent's backend."""
    return backend_of(execution).capabilities()


def validate_root_execution_request(
    execution: ResolvedExecution, request: BackendRootRunRequest
) -> None:
    """Check that the agent's backend supports the request.

    Raises:
        ExecutionFailed: it does not; the text names all unsupported features.
    """
    _refuse(request.agent_id, execution_capabilities(execution).unsupported_root_features(request))


def validate_delegate_execution_request(
    execution: ResolvedExecution, request: BackendDelegateRunRequest
) -> None:
    """Check that the backend of a delegate supports the request.

    Raises:
        ExecutionFailed: it does not; the text names all unsupported features.
    """
    abilities = execution_capabilities(execution)
    is_local = isinstance(execution, ResolvedAgent) and request.durable is None
    _refuse(request.agent_id, abilities.unsupported_delegate_features(request, is_local=is_local))


def _refuse(agent_id: str, unsupported: list[str]) -> None:
    if unsupported:
        raise ExecutionFailed(
            f"agent '{agent_id}' backend does not support: {', '.join(unsupported)}"
        )


async def execute_resolved_delegate_execution(
    execution: ResolvedExecution,
    request: BackendDelegateRunRequest,
    local: LocalBackend | None = None,
) -> BackendRunResult:
    """Run a delegate: as a durable run if `request.durable` is set, else on its backend."""
    validate_delegate_execution_request(execution, request)
    if request.durable is not None:
        return await request.durable.run_delegate(request)
    return await backend_of(execution, local).execute_delegate(request)
