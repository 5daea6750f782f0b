"""Reading a thread before a run: as much of it as the agent wants to see."""

from __future__ import annotations

from awaken.contract.backend import ExecutionBackendError
from awaken.contract.registry import ExecutionResolver
from awaken.contract.store import Store
from awaken.contract.threads import ThreadContext
from awaken.domain.lifecycle import RunStatus
from awaken.domain.thread import Thread
from awaken.errors import ResolveError, ResolveFailed
from awaken.plugin.agent import ResolvedBackendAgent, ResolvedExecution
from awaken.runtime.opening import wants_whole_log
from awaken.runtime.prepare import choose_agent
from awaken.runtime.request import RunRequest


async def read_thread(
    store: Store, request: RunRequest, resolver: ExecutionResolver
) -> tuple[ResolvedExecution, ThreadContext]:
    """The agent that is to speak, and the thread as it wants to see it.

    Raises:
        AgentNotFound, ResolveFailed: the agent cannot run.
    """
    agent: ResolvedExecution | None = None
    if request.agent_id is not None and not request.decisions:
        agent = resolve(resolver, request.agent_id)
    tail = _tail(agent) if agent is not None else 0
    context = await store.load_context(request.thread_id, tail=tail)
    if context is None:
        context = ThreadContext(thread=Thread(id=request.thread_id))
    if agent is None:
        agent = resolve(resolver, choose_agent(request, context, resolver.agent_ids))
        tail = _tail(agent)
    while context.skipped and not _is_enough(context, tail):
        read = await store.load_context(request.thread_id, tail=tail)
        assert read is not None, "the thread is ours, so nobody has deleted it"
        context = read
        if tail is not None:
            tail *= 2
    return agent, context


def _tail(agent: ResolvedExecution) -> int | None:
    """How many of the last messages an agent wants to see; all of them without a limit."""
    if isinstance(agent, ResolvedBackendAgent) and not wants_whole_log(agent):
        return 1
    policy = agent.spec.context_policy
    if policy is None or policy.max_messages is None:
        return None
    return max(1, policy.max_messages)


def _is_enough(context: ThreadContext, tail: int | None) -> bool:
    """Whether what was read has what the agent wants to see, and the calls of an open turn."""
    if tail is None or len(context.messages) < min(tail, context.thread.message_count):
        return False
    run = context.open_run
    if run is None or run.status is RunStatus.DONE or not context.calls:
        return True
    return any(message.tool_calls for message in context.messages)


def resolve(resolver: ExecutionResolver, agent_id: str) -> ResolvedExecution:
    """
    Raises:
        AgentNotFound: no such agent.
        ResolveFailed: it cannot run.
    """
    try:
        execution: ResolvedExecution = resolver.resolve_execution(agent_id)
        if isinstance(execution, ResolvedBackendAgent):
            execution.backend()
    except ResolveError as error:
        raise ResolveFailed(str(error)) from error
    except ExecutionBackendError as error:
        raise ResolveFailed(error.message) from error
    return execution
