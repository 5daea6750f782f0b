"""Running another agent from code, with its full result.

Such a run is not stored. For a delegate that survives a crash, use the tool in
`awaken.backend.delegate_tool`.
"""

from __future__ import annotations

from collections.abc import Iterable

from awaken.backend.delegate_tool import MAX_DEPTH
from awaken.backend.dispatch import execute_resolved_delegate_execution
from awaken.backend.local import LocalBackend
from awaken.core.backend import (
    BackendAgentNotFound,
    BackendControl,
    BackendDelegatePolicy,
    BackendDelegateRunRequest,
    BackendLoopError,
    BackendParentContext,
    BackendRunResult,
    BackendRunStatus,
    BackendStatusKind,
    ExecutionFailed,
)
from awaken.core.event import EventSink
from awaken.core.lifecycle import Failed
from awaken.core.message import Message, as_messages
from awaken.core.registry import ExecutionResolver
from awaken.core.run import PersistedState
from awaken.core.tool_context import ToolCallContext
from awaken.errors import AgentNotFound, AwakenError
from awaken.plugin.resolved_agent import ResolvedExecution


class ChildAgentFailed(AwakenError):
    """A child run did not complete; `result` says how it ended."""

    def __init__(self, result: BackendRunResult) -> None:
        super().__init__(f"agent {result.agent_id!r} did not complete: {result.status}")
        self.result = result


async def run_child_agent(
    resolver: ExecutionResolver,
    agent_id: str,
    initial_messages: str | Iterable[Message | str],
    parent: BackendParentContext,
    sink: EventSink,
    *,
    seed: PersistedState | None = None,
    control: BackendControl | None = None,
    policy: BackendDelegatePolicy | None = None,
    call: ToolCallContext | None = None,
    local: LocalBackend | None = None,
) -> BackendRunResult:
    """Run an agent for `parent`, and return its result even if the run failed.

    The result has the child's final state. The calling tool has to write what the parent should
    keep of it.

    Args:
        seed: the initial state, for agents in this process. The runtime's own keys in it are
            ignored.
        call: the parent's tool call. The child is then one level deeper, uses the parent's budget,
            and is cancelled with the call unless `control` is given.
        local: the backend for agents in this process.

    Raises:
        BackendAgentNotFound: there is no such agent.
        ExecutionBackendError: it could not be started, or its backend failed.
    """
    depth = call.depth + 1 if call is not None else 0
    if depth > MAX_DEPTH:
        raise ExecutionFailed(
            f"agent '{agent_id}' is not started: agents call each other at most {MAX_DEPTH} "
            "levels deep"
        )
    if control is None:
        control = BackendControl(cancellation_token=call.cancellation_token if call else None)
    messages = as_messages(initial_messages)
    request = BackendDelegateRunRequest(
        agent_id=agent_id,
        messages=messages,
        new_messages=messages,
        sink=sink,
        resolver=resolver,
        parent=parent,
        control=control,
        policy=policy or BackendDelegatePolicy(),
        depth=depth,
        budget=call.budget if call is not None else None,
        state_seed=seed,
    )
    try:
        execution = _resolve(resolver, agent_id)
        return await execute_resolved_delegate_execution(execution, request, local)
    except BackendLoopError as error:
        return error.result or BackendRunResult(
            agent_id=agent_id,
            status=BackendRunStatus.failed(str(error)),
            termination=Failed(value=str(error)),
        )


async def run_child_agent_checked(
    resolver: ExecutionResolver,
    agent_id: str,
    initial_messages: str | Iterable[Message | str],
    parent: BackendParentContext,
    sink: EventSink,
    *,
    seed: PersistedState | None = None,
    control: BackendControl | None = None,
    policy: BackendDelegatePolicy | None = None,
    call: ToolCallContext | None = None,
    local: LocalBackend | None = None,
) -> BackendRunResult:
    """Like `run_child_agent`, but raises unless the run completed.

    Raises:
        ChildAgentFailed: the run ended in another way, or waits for an answer.
        ExecutionBackendError: as in `run_child_agent`.
    """
    result = await run_child_agent(
        resolver,
        agent_id,
        initial_messages,
        parent,
        sink,
        seed=seed,
        control=control,
        policy=policy,
        call=call,
        local=local,
    )
    if result.status.kind is not BackendStatusKind.COMPLETED:
        raise ChildAgentFailed(result)
    return result


def _resolve(resolver: ExecutionResolver, agent_id: str) -> ResolvedExecution:
    try:
        execution: ResolvedExecution = resolver.resolve_execution(agent_id)
    except AwakenError as error:
        kind = BackendAgentNotFound if isinstance(error, AgentNotFound) else ExecutionFailed
        raise kind(f"failed to resolve agent '{agent_id}': {error}") from error
    return execution
