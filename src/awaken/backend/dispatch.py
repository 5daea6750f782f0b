"""Choosing the backend of an agent, and refusing what it cannot do before anything happened."""

from __future__ import annotations

from awaken.backend.local import LocalBackend
from awaken.contract.backend import (
    BackendCapabilities,
    BackendDelegateRunRequest,
    BackendRootRunRequest,
    BackendRunResult,
    ExecutionBackend,
    ExecutionFailed,
)
from awaken.plugin.agent import ResolvedAgent, ResolvedExecution


def backend_of(execution: ResolvedExecution, local: LocalBackend | None = None) -> ExecutionBackend:
    """The backend an agent runs on; `local` for those that run here.

    Raises:
        ExecutionFailed: it cannot be built.
    """
    if isinstance(execution, ResolvedAgent):
        return local or LocalBackend()
    return execution.backend()


def execution_capabilities(execution: ResolvedExecution) -> BackendCapabilities:
    """What the backend of a resolved agent can do."""
    return backend_of(execution).capabilities()


def validate_root_execution_request(
    execution: ResolvedExecution, request: BackendRootRunRequest
) -> None:
    """
    Raises:
        ExecutionFailed: the request asks for what the backend cannot do; the text names all of it.
    """
    _refuse(request.agent_id, execution_capabilities(execution).unsupported_root_features(request))


def validate_delegate_execution_request(
    execution: ResolvedExecution, request: BackendDelegateRunRequest
) -> None:
    """The same for a delegate."""
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
    """Run a delegate wherever it lives; one that is to be kept, as a run of its own."""
    validate_delegate_execution_request(execution, request)
    if request.durable is not None:
        return await request.durable.run_delegate(request)
    return await backend_of(execution, local).execute_delegate(request)
