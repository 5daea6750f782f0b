"""Encodes a run's events as an AG-UI stream. Pure: it takes the time from the events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

import msgspec

from awaken.codec import Json
from awaken.core.event import (
    ActivityDelta,
    ActivitySnapshot,
    AgentEvent,
    Error,
    InferenceComplete,
    MessagesSnapshot,
    ReasoningDelta,
    ReasoningEncryptedValue,
    RunEvent,
    RunFinish,
    RunStart,
    StateDelta,
    StateSnapshot,
    StepEnd,
    StepSnapshot,
    StepStart,
    StreamReset,
    TextDelta,
    ToolCallCancel,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReady,
    ToolCallResumed,
    ToolCallStart,
    ToolCallStreamDelta,
    extract_response,
)
from awaken.core.lifecycle import Blocked, CancelledEnd, Failed, Suspended, TerminationReason
from awaken.core.run import RunWaitingTicket
from awaken.core.suspension import ToolCallOutcome
from awaken.server.protocols.ag_ui.interrupts import interrupt, is_frontend
from awaken.server.protocols.ag_ui.messages import WireMessage, wire_messages
from awaken.server.protocols.ag_ui.reconcile import reconcile
from awaken.server.protocols.ag_ui.run_stream import Chunk, RunBranch
from awaken.server.protocols.ag_ui.state import ClientState, ModelUsage
from awaken.server.protocols.ag_ui.transcript import ClientTranscript
from awaken.server.protocols.ag_ui.wire import PROTOCOL_VERSION


class WatchedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The run that a client watches, and what the client has of its thread.

    - `thread_id` and `client_run_id` are the client's ids, `run_id` is ours.
    - `messages` and `state` are those that the client has. With `sends_history` it does not have
      them yet: the stream begins with them.
    - `answered` are the calls that the client has answered by messages of its own.
    - `is_1_0`: the client speaks protocol version 1.0. Earlier versions refuse parts of it.
    """

    thread_id: str
    client_run_id: str
    run_id: str
    agent_id: str = ""
    messages: Sequence[WireMessage] = ()
    state: Json = None
    sends_history: bool = False
    answered: frozenset[str] = frozenset()
    is_1_0: bool = False


class AgUiEncoder:
    """Encodes one run for one client, with the runs of its delegates as subagents."""

    def __init__(self, watched: WatchedRun) -> None:
        self._watched = watched
        self._transcript = ClientTranscript(watched.messages)
        if watched.sends_history:
            self._transcript.logged.update(str(message["id"]) for message in watched.messages)
        self._state = ClientState(watched.state)
        self._usage = ModelUsage()
        self._root = RunBranch(self._transcript, None)
        self._branches = {watched.run_id: self._root}
        self._subagents: list[str] = []
        self._activities: set[str] = set()
        self._is_over = False

    # -- the stream ---------------------------------------------------------------------------

    def start(self) -> list[Chunk]:
        watched = self._watched
        chunk = self._run_chunk("RUN_STARTED")
        if watched.is_1_0:
            chunk["protocolVersion"] = PROTOCOL_VERSION
        if not watched.sends_history:
            return [chunk]
        return [
            chunk,
            self._root.snapshot(),
            {"type": "STATE_SNAPSHOT", "snapshot": self._state.copy()},
        ]

    def encode(self, event: RunEvent) -> Iterable[Chunk]:
        if self._is_over:
            return ()
        branch = self._branches.get(event.run_id)
        started: list[Chunk] = []
        if branch is None:
            if event.parent_run_id not in self._branches:
                return ()  # another run of the thread
            branch = RunBranch(self._transcript, event.run_id)
            started = [self._start_subagent(branch, event)]
        inner = event.event
        method = _METHODS.get(type(inner))
        chunks = method(self, branch, inner) if method is not None else []
        return [*started, *chunks] if started else chunks

    def finish(self) -> list[Chunk]:
        """No chunks: a stream that ends before its run says nothing of the run's end."""
        return []

    def end(self, tickets: Sequence[RunWaitingTicket]) -> list[Chunk]:
        """The last chunks for a run that is over, or that waits for answers."""
        return [
            self._end_with_outcome(
                self._outcome_of_tickets(tickets) if tickets else {"type": "success"}
            )
        ]

    # -- runs ---------------------------------------------------------------------------------

    def _run_finish(self, branch: RunBranch, event: RunFinish) -> list[Chunk]:
        chunks = branch.end_step()
        if branch.tag is not None:
            return [*chunks, *self._end_subagent(branch, event)]
        chunks += self._close_subagents(event)
        end = event.termination
        if isinstance(end, Failed | Blocked):
            code = "blocked" if isinstance(end, Blocked) else "run_failed"
            return [*chunks, self._end_with_error(end.value, code)]
        chunk = self._end_with_outcome(self._outcome_of_end(event))
        response = extract_response(event.result)
        if response and not isinstance(end, Suspended | CancelledEnd):
            chunk["result"] = response
        chunk["metadata"]["awaken"]["termination"] = _name(end)
        return [*chunks, chunk]

    def _error(self, branch: RunBranch, event: Error) -> list[Chunk]:
        chunks, code = branch.end_step(), event.code or "run_failed"
        if branch.tag is None:
            return [*chunks, self._end_with_error(event.message, code)]
        return [*chunks, *self._fail_subagent(branch, event.message, code)]

    def _outcome_of_end(self, event: RunFinish) -> Json:
        if isinstance(event.termination, Suspended):
            return self._outcome_of_tickets(event.tickets)
        if isinstance(event.termination, CancelledEnd):
            # Clients before 1.0 have no such outcome, and refuse the event.
            return {"type": "cancelled"} if self._watched.is_1_0 else None
        return {"type": "success"}

    def _outcome_of_tickets(self, tickets: Sequence[RunWaitingTicket]) -> Json:
        """The outcome of a run that waits for the user's answers, or for calls that the client
        carries out. Beside questions to the user those calls are not named: the client knows them
        by itself, and sends their results as messages."""
        if asked := [ticket for ticket in tickets if not is_frontend(ticket)]:
            return {"type": "interrupt", "interrupts": [interrupt(ticket) for ticket in asked]}
        if tickets and self._watched.is_1_0:
            # Clients before 1.0 know their pending calls by themselves, and refuse the field.
            return {
                "type": "success",
                "pendingToolCallIds": [ticket.tool_call_id for ticket in tickets],
            }
        return {"type": "success"}

    def _end_with_outcome(self, outcome: Json) -> Chunk:
        self._is_over = True
        chunk = self._run_chunk("RUN_FINISHED")
        if outcome is not None:
            chunk["outcome"] = outcome
        if usage := self._usage.by_model():
            chunk["usage"] = usage
        return chunk

    def _end_with_error(self, message: str, code: str) -> Chunk:
        self._is_over = True
        chunk: Chunk = {"type": "RUN_ERROR", "message": message, "code": code}
        if usage := self._usage.by_model():
            chunk["usage"] = usage
        return chunk

    def _run_chunk(self, type_: str) -> Chunk:
        watched = self._watched
        ours = {"runId": watched.run_id}
        if watched.agent_id:
            ours["agentId"] = watched.agent_id
        return {
            "type": type_,
            "threadId": watched.thread_id,
            "runId": watched.client_run_id,
            "metadata": {"awaken": ours},
        }

    # -- subagents ----------------------------------------------------------------------------

    def _start_subagent(self, branch: RunBranch, event: RunEvent) -> Chunk:
        """The chunk that opens the subagent of a delegate's run, when it begins or is found
        running."""
        self._branches[event.run_id] = branch
        self._subagents.append(event.run_id)
        started, parent = event.event, self._branches[event.parent_run_id or ""]
        identity = started.identity if isinstance(started, RunStart) else None
        agent_id = started.agent_id if isinstance(started, StepStart) else None
        fields: dict[str, Json] = {"name": identity.agent_id if identity else agent_id or "agent"}
        call_id = identity.parent_tool_call_id if identity else None
        if parent.tag is not None:
            fields["parentSubagentRunId"] = parent.tag
        if call_id is not None:
            fields["parentToolCallId"] = call_id
            message_id = self._transcript.message_of(call_id)
            if message_id is not None:
                fields["parentMessageId"] = message_id
        return branch.chunk("SUBAGENT_STARTED", **fields)

    def _end_subagent(self, branch: RunBranch, event: RunFinish) -> list[Chunk]:
        end = event.termination
        if isinstance(end, Suspended):
            return []  # it may resume within this stream, and a subagent cannot be opened twice
        if isinstance(end, Failed | Blocked):
            return self._fail_subagent(branch, end.value, "run_failed")
        if isinstance(end, CancelledEnd):
            return self._fail_subagent(branch, "the run was cancelled", "cancelled")
        fields: dict[str, Json] = {"outcome": {"type": "success"}}
        if response := extract_response(event.result):
            fields["result"] = response
        return self._close_subagent(branch, "SUBAGENT_FINISHED", **fields)

    def _fail_subagent(self, branch: RunBranch, message: str, code: str) -> list[Chunk]:
        return self._close_subagent(branch, "SUBAGENT_ERROR", message=message, code=code)

    def _close_subagent(self, branch: RunBranch, type_: str, **fields: Json) -> list[Chunk]:
        if branch.tag not in self._subagents:
            return []
        self._subagents.remove(branch.tag)
        return [branch.chunk(type_, **fields)]

    def _close_subagents(self, event: RunFinish) -> list[Chunk]:
        """Close the subagents that are not over: they wait, or run on in the background."""
        chunks: list[Chunk] = []
        stopped = isinstance(event.termination, Failed | Blocked | CancelledEnd)
        for run_id in reversed(self._subagents):
            branch = self._branches[run_id]
            chunks += branch.end_step()
            if stopped:
                chunks.append(
                    branch.chunk("SUBAGENT_ERROR", message="the run has ended", code="cancelled")
                )
                continue
            outcome: dict[str, Any] = {"type": "suspended"}
            if asked := [t.answered_by for t in event.tickets if _asker(t) == run_id]:
                outcome["interruptIds"] = asked
            chunks.append(branch.chunk("SUBAGENT_FINISHED", outcome=outcome))
        self._subagents.clear()
        return chunks

    # -- steps and answers --------------------------------------------------------------------

    def _step_start(self, branch: RunBranch, event: StepStart) -> list[Chunk]:
        return branch.start_step(event.message_id)

    def _step_end(self, branch: RunBranch, _: StepEnd) -> list[Chunk]:
        return branch.end_step()

    def _text_delta(self, branch: RunBranch, event: TextDelta) -> list[Chunk]:
        return branch.write_text(event.delta)

    def _reasoning_delta(self, branch: RunBranch, event: ReasoningDelta) -> list[Chunk]:
        return branch.write_reasoning(event.delta)

    def _reasoning_encrypted(
        self, branch: RunBranch, event: ReasoningEncryptedValue
    ) -> list[Chunk]:
        return branch.write_encrypted(event.encrypted_value)

    def _stream_reset(self, branch: RunBranch, _: StreamReset) -> list[Chunk]:
        return branch.reset()

    def _step_snapshot(self, branch: RunBranch, event: StepSnapshot) -> list[Chunk]:
        outputs = [
            branch.chunk("CUSTOM", name="tool_output", value={"toolCallId": id, "output": output})
            for id, output in event.outputs.items()
        ]
        return [*branch.show(event), *outputs]

    def _inference_complete(self, branch: RunBranch, event: InferenceComplete) -> list[Chunk]:
        branch.mark_logged()
        self._usage.add(event)
        return []

    def _messages_snapshot(self, branch: RunBranch, event: MessagesSnapshot) -> list[Chunk]:
        if branch.tag is not None:
            return []
        chunks = branch.close_answer()
        log, before = wire_messages(event.messages), self._transcript.all()
        current = reconcile(before, log)
        # A client keeps the order of its messages, and appends those that a snapshot adds. Messages
        # that belong behind an added one are first removed from the client.
        ids = {str(message.get("id")) for message in before}
        same = list(takewhile(lambda message: str(message.get("id")) in ids, current))
        if any(str(message.get("id")) in ids for message in current[len(same) :]):
            chunks.append({"type": "MESSAGES_SNAPSHOT", "messages": same})
        self._transcript.replace_all(current)
        self._transcript.logged.update(str(message["id"]) for message in log)
        return [*chunks, branch.snapshot()]

    # -- calls --------------------------------------------------------------------------------

    def _call_start(self, branch: RunBranch, event: ToolCallStart) -> list[Chunk]:
        return branch.start_call(event.id, event.name)

    def _call_delta(self, branch: RunBranch, event: ToolCallDelta) -> list[Chunk]:
        return branch.write_arguments(event.id, event.args_delta)

    def _call_ready(self, branch: RunBranch, event: ToolCallReady) -> list[Chunk]:
        return branch.finish_call(event.id, event.name, event.arguments)

    def _call_cancel(self, branch: RunBranch, event: ToolCallCancel) -> list[Chunk]:
        return branch.drop_call(event.id)

    def _call_done(self, branch: RunBranch, event: ToolCallDone) -> list[Chunk]:
        if event.outcome is ToolCallOutcome.SUSPENDED:
            return []
        return branch.answer_call(event.message_id, event.id, event.result.model_text())

    def _call_resumed(self, branch: RunBranch, event: ToolCallResumed) -> list[Chunk]:
        if branch.tag is None and event.target_id in self._watched.answered:
            return []  # the client has the message: it would hold it twice
        text = event.text if event.text is not None else event.reason or ""
        if event.edited is not None:
            edited = branch.edit_call(event.target_id, event.edited)
            return [*edited, *branch.answer_call(event.message_id, event.target_id, text)]
        return branch.answer_call(event.message_id, event.target_id, text)

    def _call_output(self, branch: RunBranch, event: ToolCallStreamDelta) -> list[Chunk]:
        value = {"toolCallId": event.id, "delta": event.delta}
        return [branch.chunk("CUSTOM", name="tool_output", value=value)]

    # -- activity and state -------------------------------------------------------------------

    def _activity(self, branch: RunBranch, event: ActivitySnapshot) -> list[Chunk]:
        content = event.content if isinstance(event.content, dict) else {"value": event.content}
        fields = {"messageId": event.message_id, "activityType": event.activity_type}
        chunk = branch.chunk("ACTIVITY_SNAPSHOT", **fields, content=content)
        if event.replace is not None:
            chunk["replace"] = event.replace
        self._activities.add(event.message_id)
        return [chunk]

    def _activity_delta(self, branch: RunBranch, event: ActivityDelta) -> list[Chunk]:
        if event.message_id not in self._activities:
            return []  # the client has nothing that the patch could change
        fields = {"messageId": event.message_id, "activityType": event.activity_type}
        return [branch.chunk("ACTIVITY_DELTA", **fields, patch=event.patch)]

    def _state_snapshot(self, branch: RunBranch, event: StateSnapshot) -> list[Chunk]:
        if branch.tag is not None or not self._state.take(event.snapshot):
            return []
        return [{"type": "STATE_SNAPSHOT", "snapshot": self._state.copy()}]

    def _state_delta(self, branch: RunBranch, event: StateDelta) -> list[Chunk]:
        if branch.tag is not None:
            return []
        patch = self._state.patch(event.delta)
        return [{"type": "STATE_DELTA", "delta": patch}] if patch else []


def _nothing(_: AgUiEncoder, __: RunBranch, ___: Any) -> list[Chunk]:
    return []


_METHODS: Mapping[type[AgentEvent], Callable[[AgUiEncoder, RunBranch, Any], list[Chunk]]] = {
    RunStart: _nothing,
    RunFinish: AgUiEncoder._run_finish,
    Error: AgUiEncoder._error,
    StepStart: AgUiEncoder._step_start,
    StepEnd: AgUiEncoder._step_end,
    TextDelta: AgUiEncoder._text_delta,
    ReasoningDelta: AgUiEncoder._reasoning_delta,
    ReasoningEncryptedValue: AgUiEncoder._reasoning_encrypted,
    StreamReset: AgUiEncoder._stream_reset,
    StepSnapshot: AgUiEncoder._step_snapshot,
    InferenceComplete: AgUiEncoder._inference_complete,
    MessagesSnapshot: AgUiEncoder._messages_snapshot,
    ToolCallStart: AgUiEncoder._call_start,
    ToolCallDelta: AgUiEncoder._call_delta,
    ToolCallReady: AgUiEncoder._call_ready,
    ToolCallCancel: AgUiEncoder._call_cancel,
    ToolCallDone: AgUiEncoder._call_done,
    ToolCallResumed: AgUiEncoder._call_resumed,
    ToolCallStreamDelta: AgUiEncoder._call_output,
    ActivitySnapshot: AgUiEncoder._activity,
    ActivityDelta: AgUiEncoder._activity_delta,
    StateSnapshot: AgUiEncoder._state_snapshot,
    StateDelta: AgUiEncoder._state_delta,
}


def _name(end: TerminationReason) -> str:
    return str(type(end).__struct_config__.tag)


def _asker(ticket: RunWaitingTicket) -> str | None:
    return ticket.asker.run_id if ticket.asker is not None else None
