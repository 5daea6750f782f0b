"""Summing up a run's events: its calls, its cost, the agent that speaks, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from awaken.codec import Json
from awaken.core.event import (
    DURABLE,
    AgentEvent,
    Error,
    InferenceComplete,
    RunEvent,
    RunFinish,
    RunStart,
    StateSnapshot,
    StepEnd,
    TextDelta,
    ToolCallDone,
    ToolCallReady,
    ToolCallResumed,
)
from awaken.core.lifecycle import AWAITING_TASKS, Failed, Suspended, TerminationReason
from awaken.core.run import RunWaitingTicket
from awaken.core.state.run_keys import ACTIVE_AGENT
from awaken.core.store.commits import CallEntry, CallPhase
from awaken.core.suspension import (
    Asker,
    ResumeAction,
    ResumedOutcome,
    Ticket,
    ToolCallOutcome,
    ToolCallResume,
)
from awaken.core.tool import OUTCOME_UNKNOWN, ToolError
from awaken.core.transcript import INTERRUPTED
from awaken.ext.handoff.plugin import HANDOFF_TOOL

_CUT_SHORT = (str(ToolError.cancelled("the run was cancelled")), INTERRUPTED)


class CallState(StrEnum):
    """The state of a call, as a transcript shows it."""

    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    DENIED = "denied"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"


UNANSWERED = (CallState.DENIED, CallState.EXPIRED, CallState.SUPERSEDED, CallState.CANCELLED)
"""The states of calls that waited for an approver and never ran."""

_OPEN = {CallPhase.INTENT: CallState.RUNNING, CallPhase.SUSPENDED: CallState.WAITING}


class CallSummary(msgspec.Struct):
    """One tool call. `began_at_ms` is the time of the model's call or, if the call waited for an
    approver, the time of the answer."""

    id: str
    name: str
    arguments: Json
    began_at_ms: int
    ended_at_ms: int | None = None
    state: CallState = CallState.RUNNING
    answer: ToolCallResume | None = None

    @property
    def approved(self) -> bool:
        """Whether the call waited for an approver, and the approver allowed it."""
        return self.answer is not None and self.answer.action is ResumeAction.RESUME

    @property
    def duration_ms(self) -> int:
        return 0 if self.ended_at_ms is None else max(0, self.ended_at_ms - self.began_at_ms)


class RunSummary:
    """Sums up the events of one turn, which are added in order. Of the events of delegates, only
    the costs count."""

    def __init__(self) -> None:
        self.events = 0
        self.durable = 0
        self.steps = 0
        self.tokens = 0
        self.cost: float | None = None
        self.calls: list[CallSummary] = []
        self.questions: Sequence[RunWaitingTicket] = ()
        self.thread = ""
        self.agent: str | None = None
        self.state: dict[str, Any] = {}
        self.has_text = False
        self.ending: TerminationReason | None = None
        self.awaits_tasks = False
        self.waited_ms = 0
        self._began_at_ms: int | None = None
        self._last_at_ms = 0
        self._paused_at_ms: int | None = None
        self._by_id: dict[str, CallSummary] = {}

    @property
    def duration_ms(self) -> int:
        """Milliseconds from the first event to the last, including the wait for approvers."""
        return 0 if self._began_at_ms is None else self._last_at_ms - self._began_at_ms

    def call(self, id: str) -> CallSummary | None:
        """The latest call with that id (providers reuse ids), or `None`."""
        return self._by_id.get(id)

    def list_interrupted_calls(self) -> list[CallSummary]:
        """The calls that began and were interrupted."""
        # An approved call runs as soon as it is approved; if it is cancelled, it has no end event.
        cut = self.calls_in_state(CallState.INTERRUPTED, CallState.UNKNOWN, CallState.RUNNING)
        return [call for call in cut if call.state is not CallState.RUNNING or call.approved]

    def list_unstarted_calls(self) -> list[CallSummary]:
        """The calls that the model made and that never began."""
        open_ = self.calls_in_state(CallState.RUNNING, CallState.WAITING, *UNANSWERED)
        return [call for call in open_ if not call.approved]

    def open_questions(self) -> list[RunWaitingTicket]:
        """The tickets of the last pause that are still open."""
        calls = {call.id for call in self.calls_in_state(CallState.WAITING) if call.answer is None}
        return [ticket for ticket in self.questions if ticket.tool_call_id in calls]

    def calls_in_state(self, *states: CallState) -> list[CallSummary]:
        return [call for call in self.calls if call.state in states]

    def is_own(self, run_event: RunEvent) -> bool:
        """Whether an event belongs to the thread itself, and not to a delegate."""
        return self.thread in ("", run_event.thread_id)

    def add_decision(
        self, call_id: str, answer: ToolCallResume, asker: Asker | None = None
    ) -> None:
        """Record the answer to a waiting call."""
        if call := self._by_id.get(call_id):
            # A call that asks on behalf of a delegate goes on with either answer, to pass it on.
            call.answer = answer if asker is None else ToolCallResume.approve(by=answer.by)
            if call.approved:
                call.state = CallState.RUNNING

    def add_earlier_calls(self, calls: Iterable[CallEntry], tickets: Iterable[Ticket]) -> None:
        """Add calls that were made before the first event, and their answers."""
        for entry in calls:
            state = _OPEN.get(entry.phase)
            if state is not None:
                call = CallSummary(entry.call_id, entry.tool_name, entry.arguments, 0, state=state)
                self.calls.append(call)
                self._by_id[call.id] = call
        for ticket in tickets:
            if ticket.decision is not None:
                self.add_decision(ticket.call_id, ticket.decision, ticket.asker)

    def add(self, run_event: RunEvent) -> None:
        """Add one event."""
        self._last_at_ms = max(self._last_at_ms, run_event.at_ms)
        if self._began_at_ms is None:
            self._began_at_ms = run_event.at_ms
        if isinstance(run_event.event, InferenceComplete):
            self._add_cost(run_event.event)
        if self.is_own(run_event):
            self._add_own(run_event)

    def _add_cost(self, answered: InferenceComplete) -> None:
        if (usage := answered.usage) is not None:
            self.tokens += (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)
        if answered.cost is not None:
            self.cost = (self.cost or 0.0) + answered.cost

    def _add_own(self, run_event: RunEvent) -> None:
        self.events += 1
        self.durable += isinstance(run_event.event, DURABLE)
        self.thread = run_event.thread_id
        match run_event.event:
            case RunStart() as start:
                self._on_run_start(start, run_event.at_ms)
            case RunFinish(termination=ending) as finish:
                self.ending = ending
                self.awaits_tasks = awaits_tasks(finish)
                if isinstance(ending, Suspended):
                    self._paused_at_ms = run_event.at_ms
            case Error(message=message):
                self.ending = Failed(value=message)
            case ToolCallReady() | ToolCallDone() | ToolCallResumed() as of_call:
                self._on_call_event(of_call, run_event.at_ms)
            case StepEnd():
                self.steps += 1
            case TextDelta():
                self.has_text = True
            case StateSnapshot(snapshot={"extensions": dict(state)}):
                self._keep_state(state)

    def _on_run_start(self, start: RunStart, at_ms: int) -> None:
        self.awaits_tasks = False
        if self.agent is None and start.identity is not None:
            self.agent = start.identity.agent_id
        if self._paused_at_ms is not None:
            self.waited_ms += at_ms - self._paused_at_ms
            self._paused_at_ms = None
        for call in self.calls_in_state(CallState.RUNNING):
            call.began_at_ms = at_ms

    def _keep_state(self, state: dict[str, Any]) -> None:
        self.state = state
        active = state.get(ACTIVE_AGENT.name)
        if isinstance(active, str):
            self.agent = active

    def _on_call_event(
        self, event: ToolCallReady | ToolCallDone | ToolCallResumed, at_ms: int
    ) -> None:
        if isinstance(event, ToolCallReady):
            call = CallSummary(event.id, event.name, event.arguments, at_ms)
            self.calls.append(call)
            self._by_id[event.id] = call
            return
        id = event.id if isinstance(event, ToolCallDone) else event.target_id
        if found := self._by_id.get(id):
            found.state = (
                _state_after_end(event)
                if isinstance(event, ToolCallDone)
                else _state_after_resume(event, found)
            )
            if found.state is not CallState.WAITING:
                found.ended_at_ms = at_ms
            if found.state is CallState.DONE and found.name == HANDOFF_TOOL:
                self._set_agent_from_handoff(found.arguments)

    def _set_agent_from_handoff(self, arguments: Json) -> None:
        """Take the new agent from the call: stored events do not include state updates."""
        match arguments:
            case {"agent": str(agent)}:
                self.agent = agent


def _state_after_end(event: ToolCallDone) -> CallState:
    match event.outcome:
        case ToolCallOutcome.SUCCEEDED:
            return CallState.DONE
        case ToolCallOutcome.SUSPENDED:
            return CallState.WAITING
        case ToolCallOutcome.DENIED:
            return CallState.DENIED
        case ToolCallOutcome.FAILED if event.result.metadata.get(OUTCOME_UNKNOWN):
            return CallState.UNKNOWN
        case ToolCallOutcome.FAILED:
            cut = (event.result.message or "").startswith(_CUT_SHORT)
            return CallState.INTERRUPTED if cut else CallState.FAILED


def _state_after_resume(event: ToolCallResumed, call: CallSummary) -> CallState:
    match event.outcome:
        case ResumedOutcome.DENIED:
            return CallState.DENIED
        case ResumedOutcome.EXPIRED:
            return CallState.EXPIRED
        case ResumedOutcome.SUPERSEDED:
            return CallState.SUPERSEDED
        case ResumedOutcome.CANCELLED:
            return CallState.INTERRUPTED if call.approved else CallState.CANCELLED
        case None if call.answer is not None and not call.approved:
            return CallState.DENIED  # an event written by an earlier version
    failure = extract_error(event.result)
    if failure is None:
        return CallState.DONE
    return CallState.INTERRUPTED if failure.startswith(_CUT_SHORT) else CallState.FAILED


def awaits_tasks(event: AgentEvent) -> bool:
    """Whether a run has ended its activation and waits for its background tasks."""
    match event:
        case RunFinish(result={"status_reason": str(reason)}):
            return reason == AWAITING_TASKS
    return False


def extract_error(payload: Json) -> str | None:
    """The error in a resumed call's result, or `None`."""
    match payload:
        case {"error": str(message)} if len(payload) == 1:
            return message
    return None


def extract_result(payload: Json) -> Json:
    """The result of a resumed call; for a delegate's result, only its answer."""
    match payload:
        case {"data": data, "metadata": _} if len(payload) == 2:
            payload = data
    match payload:
        case {"agent_id": str(), "response": str(answer)}:
            return answer
    return payload
