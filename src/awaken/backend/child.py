"""Running another agent from code, and reading all that comes of it.

Nothing is kept of such a run. A delegate that is to survive a crash is a tool: see
`awaken.backend.delegate`.
"""

from __future__ import annotations

from collections.abc import Iterable

from awaken.backend.delegate import MAX_DEPTH
from awaken.backend.dispatch import execute_resolved_delegate_execution
from awaken.backend.local import LocalBackend
from awaken.contract.backend import (
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
from awaken.contract.events import EventSink
from awaken.contract.registry import ExecutionResolver
from awaken.contract.tool import ToolCallContext
from awaken.domain.lifecycle import Failed
from awaken.domain.message import Message, as_messages
from awaken.domain.run import PersistedState
from awaken.errors import AgentNotFound, AwakenError
from awaken.plugin.agent import ResolvedExecution


class ChildAgentFailed(AwakenError):
    """A child did not complete; `result` is all that is known of it."""

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
    """Run an agent for `parent` and return how it ended, however that is.

    What it leaves in its state is in the result, and goes nowhere by itself: what the parent is to
    keep, the calling tool writes.

    Args:
        seed: what the state of an agent in this process begins with; of the state another run has
            left, the runtime's own keys are not taken over.
        call: the parent's call this is part of. The child is then one level deeper, lives off the
            parent's budget, and is cancelled with it unless another `control` is given.
        local: what agents in this process run with.

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
    """The same, for callers who can use nothing but a completed run.

    Raises:
        ChildAgentFailed: it ended otherwise, or waits for somebody.
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
