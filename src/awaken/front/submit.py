"""From a request as a program makes it to a submission in the store."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from awaken.contract.submissions import Submission, SubmitMode, Submitted
from awaken.contract.threads import ThreadContext
from awaken.domain.principal import Principal
from awaken.domain.thread import Thread
from awaken.errors import AgentNotFound, ConfigError
from awaken.runtime import AgentRuntime, RunRequest
from awaken.runtime.prepare import choose_agent


class Asked(NamedTuple):
    """What a submission has beyond the request for its run."""

    mode: str
    key: str | None
    not_before_ms: int | None
    principal: Principal | None


async def submit(engine: AgentRuntime, request: RunRequest, asked: Asked) -> Submitted:
    """Store a submission for the run that `request` asks for.

    Raises:
        ConfigError: there is no such mode.
        AgentNotFound: this runtime has no such agent.
        KeyReused, ThreadDeleted, ThreadBusy, InvalidResume: it cannot be taken.
    """
    mode = _mode(asked.mode)
    request = msgspec.structs.replace(request, principal=asked.principal).signed()
    known = engine.registry.snapshot().agent_ids()
    agent_id = request.agent_id
    if agent_id is None:
        context = await engine.store.load_context(request.thread_id, tail=0)
        new = ThreadContext(thread=Thread(id=request.thread_id))
        agent_id = choose_agent(request, context or new, lambda: known)
    if agent_id not in known:
        raise AgentNotFound(agent_id, known)
    return await engine.submit(
        Submission(
            thread_id=request.thread_id,
            run_id=engine.ids.new(),
            agent_id=agent_id,
            messages=request.messages,
            decisions=request.decisions,
            overrides=request.overrides,
            budget=request.budget,
            frontend_tools=request.frontend_tools,
            mode=mode,
            key=asked.key,
            not_before_ms=asked.not_before_ms,
            principal=asked.principal,
            user=request.user,
            labels=request.labels,
            rewind_to=request.rewind_to,
            deps_key=request.deps_key,
            at_ms=engine.clock.now_ms(),
        )
    )


def _mode(word: str) -> SubmitMode:
    try:
        return SubmitMode(word)
    except ValueError:
        modes = ", ".join(repr(mode.value) for mode in SubmitMode)
        raise ConfigError(f"mode is one of {modes}, not {word!r}") from None
