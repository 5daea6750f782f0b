"""From a request as a program makes it to a submission in the store."""

from __future__ import annotations

from awaken.core.store.commands import Submission, SubmitMode, Submitted
from awaken.core.store.threads import ThreadContext
from awaken.core.thread import Thread
from awaken.errors import AgentNotFound
from awaken.plugin.resolved_agent import ResolvedAgent, ResolvedExecution
from awaken.tool import FrontEndTool
from awaken.worker import RunRequest, Worker
from awaken.worker.edited_arguments import check_edits
from awaken.worker.prepare import choose_agent


async def submit(
    engine: Worker,
    request: RunRequest,
    mode: SubmitMode,
    key: str | None,
    not_before_ms: int | None,
) -> Submitted:
    """Store a submission for the run that `request` asks for.

    Raises:
        AgentNotFound: this runtime has no such agent.
        ToolIdConflict: a tool of the client has the id of a tool of the agent.
        KeyReused, ThreadDeleted, ThreadBusy, InvalidResume: it cannot be taken.
        ArgumentsRefused: a tool refuses edited arguments.
    """
    request = request.signed()
    known = engine.registry.snapshot().agent_ids()
    agent_id = request.agent_id
    if agent_id is None:
        context = await engine.store.load_context(request.thread_id, tail=0)
        new = ThreadContext(thread=Thread(id=request.thread_id))
        agent_id = choose_agent(request, context or new, lambda: known)
    if agent_id not in known:
        raise AgentNotFound(agent_id, known)
    if request.frontend_tools:
        _check_tools(engine.registry.snapshot().resolve_execution(agent_id), request)
    await check_edits(engine, request.thread_id, request.decisions)
    return await engine.submit(
        Submission(
            **request.fields(),
            run_id=engine.ids.new(),
            agent_id=agent_id,
            mode=mode,
            key=key,
            not_before_ms=not_before_ms,
            at_ms=engine.clock.now_ms(),
        )
    )


def _check_tools(agent: ResolvedExecution, request: RunRequest) -> None:
    """
    Raises:
        ToolIdConflict: the agent has a tool with the id of a tool of the request, or two of the
            request have one id. The run could not start, and the thread's later ones neither.
    """
    if isinstance(agent, ResolvedAgent):
        for descriptor in request.frontend_tools:
            agent = agent.with_tool(FrontEndTool(descriptor))
