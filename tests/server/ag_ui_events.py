"""Events as the follower gives them, for the encoder's tests."""

from __future__ import annotations

from typing import Any

from awaken.core.event import AgentEvent, InferenceComplete, RunEvent, RunFinish, RunStart
from awaken.core.identity import RunIdentity
from awaken.core.lifecycle import NATURAL_END, TerminationReason
from awaken.core.run import RunWaitingTicket
from awaken.server.protocols.ag_ui.encode import AgUiEncoder, WatchedRun

THREAD, RUN = "t", "run"
ASKED = {"id": "u1", "role": "user", "content": "Hello"}


def told(event: AgentEvent, run_id: str = RUN, parent: str | None = None) -> RunEvent:
    thread = THREAD if run_id == RUN else f"{THREAD}/{run_id}"
    return RunEvent(thread_id=thread, run_id=run_id, parent_run_id=parent, at_ms=1, event=event)


def started(run_id: str = RUN, parent: str | None = None, call: str | None = None) -> RunStart:
    thread = THREAD if run_id == RUN else f"{THREAD}/{run_id}"
    identity = RunIdentity(
        thread_id=thread, run_id=run_id, agent_id=f"agent-{run_id}", parent_tool_call_id=call
    )
    return RunStart(thread_id=thread, run_id=run_id, parent_run_id=parent, identity=identity)


def finished(
    end: TerminationReason = NATURAL_END,
    *,
    run_id: str = RUN,
    tickets: tuple[RunWaitingTicket, ...] = (),
    response: str = "",
) -> RunFinish:
    return RunFinish(
        thread_id=THREAD,
        run_id=run_id,
        termination=end,
        tickets=tickets,
        result={"response": response},
    )


COMPLETE = InferenceComplete(model="m", duration_ms=1)


def encoder(**fields: Any) -> AgUiEncoder:
    known = {"thread_id": THREAD, "client_run_id": "client", "run_id": RUN, "messages": [ASKED]}
    return AgUiEncoder(WatchedRun(**{**known, **fields}))
