"""Encodes the events of a run as the chunks of a UI message stream.

One run is one message of the page. Only chunk types and keys of AI SDK 6.0.1 are sent, since
clients up to 6.0.230 refuse everything else; a client that says it is version 7 also gets
`reset-step` and `tool-approval-response`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from awaken.codec import Json
from awaken.core.event import (
    ActivityDelta,
    ActivitySnapshot,
    AgentEvent,
    Error,
    InferenceComplete,
    ReasoningDelta,
    RunEvent,
    RunFinish,
    RunStart,
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
)
from awaken.core.lifecycle import StartCause, Suspended
from awaken.core.suspension import ResumedOutcome
from awaken.server.protocols.ai_sdk.blocks import (
    Blocks,
    Kind,
    build_ending,
    build_error_ending,
    usage_metadata,
)
from awaken.server.protocols.ai_sdk.calls import CallParts
from awaken.server.protocols.ai_sdk.data_parts import ActivityParts, DelegateParts

V6, V7 = 6, 7
# Bound once: on Python 3.11 reaching a member through its enum costs as much as a call.
_TEXT, _REASONING = Kind.TEXT, Kind.REASONING
_ANSWERED = (ResumedOutcome.SUCCEEDED, ResumedOutcome.FAILED, ResumedOutcome.DENIED)


def _is_new(event: AgentEvent) -> bool:
    return isinstance(event, RunStart) and event.cause is StartCause.NEW


class AiSdkEncoder:
    """Encodes one run, and the state of its delegates, for one client.

    Args:
        run_id: the run, which is the message's id; events of other runs of the thread are left out.
        frontend: the names of the tools that the page executes itself.
        version: the AI SDK's major version that the client says it has.
    """

    def __init__(
        self,
        *,
        thread_id: str,
        run_id: str,
        agent_id: str,
        frontend: Collection[str] = (),
        version: int = V6,
    ) -> None:
        self._thread, self._run = thread_id, run_id
        self._metadata = {"threadId": thread_id, "runId": run_id, "agentId": agent_id}
        self._can_reset = version >= V7
        void = {"type": "data-awaken-reset", "data": {"messageId": run_id}, "transient": True}
        self._blocks, self._calls = Blocks(void), CallParts(frontend)
        self._delegates, self._activities = DelegateParts(run_id), ActivityParts()
        self._in_step = self._is_stored = self._is_void = self._is_dirty = False
        self._has_answers = self._is_paused = False
        self._message_id = ""
        self._durable_chunks: list[tuple[int, Json]] = []
        self._ending: list[Json] = []
        self._encoders: dict[type[AgentEvent], Callable[[Any, RunEvent], Iterable[Json]]] = {
            RunStart: self._run_start,
            StepStart: self._step_start,
            TextDelta: self._text,
            ReasoningDelta: self._reasoning,
            ToolCallStart: self._call_start,
            ToolCallDelta: self._call_delta,
            ToolCallReady: self._call_ready,
            ToolCallCancel: self._call_cancel,
            ToolCallStreamDelta: self._call_output,
            ToolCallDone: self._call_done,
            ToolCallResumed: self._call_resumed,
            StreamReset: self._reset,
            StepSnapshot: self._snapshot,
            InferenceComplete: self._inference_complete,
            ActivitySnapshot: self._activity,
            ActivityDelta: self._activity_delta,
            StepEnd: self._step_end,
            RunFinish: self._run_finish,
            Error: self._error,
        }

    # -- the stream ---------------------------------------------------------------------------

    def start(self) -> Iterable[Json]:
        return [{"type": "start", "messageId": self._run, "messageMetadata": self._metadata}]

    def encode(self, envelope: RunEvent) -> Iterable[Json]:
        if envelope.run_id != self._run and (envelope.run_id or envelope.thread_id != self._thread):
            return self._delegates.encode(envelope)
        if not self._delegates.has_begun:
            self._delegates.begin(is_whole=_is_new(envelope.event))
        encode = self._encoders.get(type(envelope.event))
        chunks = encode(envelope.event, envelope) if encode is not None else ()
        return [*chunks, *self._delegates.encode_due(envelope.at_ms)] if self._delegates else chunks

    def finish(self) -> Iterator[Json]:
        """Close what is open, and send how the run ended; a run that continues has no end yet."""
        yield from self._close_step()
        if self._has_answers and self._ending and not self._is_paused:
            # With a new step behind its answered call, the page does not send the answer again.
            yield from ({"type": "start-step"}, {"type": "finish-step"})
        yield from self._ending

    def _run_start(self, event: RunStart, envelope: RunEvent) -> Iterable[Json]:
        self._ending = []
        return ()

    def _run_finish(self, event: RunFinish, envelope: RunEvent) -> Iterator[Json]:
        yield from self._close_step()
        self._ending = build_ending(event)
        self._is_paused = isinstance(event.termination, Suspended)

    def _error(self, event: Error, envelope: RunEvent) -> Iterator[Json]:
        yield from self._close_step()
        self._ending = build_error_ending(event.message)

    # -- steps --------------------------------------------------------------------------------

    def _step_start(self, event: StepStart, envelope: RunEvent) -> Iterator[Json]:
        if self._in_step and (self._is_void or event.message_id == self._message_id):
            yield from self._start_over(None)
        else:
            yield from self._open_step()
        self._message_id, self._is_stored = event.message_id, False

    def _open_step(self) -> Iterator[Json]:
        yield from self._close_step()
        self._in_step, self._has_answers = True, False
        self._is_stored = self._is_void = False
        yield {"type": "start-step"}

    def _step_end(self, event: StepEnd, envelope: RunEvent) -> Iterator[Json]:
        yield from self._close_step()

    def _close_step(self) -> Iterator[Json]:
        if not self._in_step:
            return
        yield from self._complete()
        yield from self._blocks.close()
        yield {"type": "finish-step"}
        self._forget()
        self._in_step = False

    def _complete(self) -> Iterator[Json]:
        yield from self._blocks.complete()
        yield from self._calls.complete()

    def _forget(self) -> None:
        self._blocks.forget()
        self._calls.forget()
        self._durable_chunks, self._is_dirty = [], False

    def _inference_complete(self, event: InferenceComplete, envelope: RunEvent) -> Iterator[Json]:
        yield from self._complete()
        self._is_stored = True
        metadata = {"model": event.model, **usage_metadata(event.usage)}
        yield {"type": "message-metadata", "messageMetadata": metadata}

    # -- the answer ---------------------------------------------------------------------------

    def _text(self, event: TextDelta, envelope: RunEvent) -> Iterable[Json]:
        self._is_dirty, self._is_void = True, False
        return self._blocks.add(_TEXT, event.delta)

    def _reasoning(self, event: ReasoningDelta, envelope: RunEvent) -> Iterable[Json]:
        self._is_dirty, self._is_void = True, False
        return self._blocks.add(_REASONING, event.delta)

    def _call_start(self, event: ToolCallStart, envelope: RunEvent) -> Iterator[Json]:
        self._is_dirty, self._is_void = True, False
        yield from self._blocks.close()
        yield self._calls.start(event.id, event.name)

    def _call_delta(self, event: ToolCallDelta, envelope: RunEvent) -> Iterator[Json]:
        yield from self._calls.write_arguments(event.id, event.args_delta)

    def _call_ready(self, event: ToolCallReady, envelope: RunEvent) -> Iterator[Json]:
        self._is_dirty, self._is_void = True, False
        yield from self._blocks.close()
        self._delegates.add_call(event.id)
        ready = self._calls.ready(event.id, event.name, event.arguments, envelope.seq)
        yield self._record(ready, envelope)

    def _call_cancel(self, event: ToolCallCancel, envelope: RunEvent) -> Iterator[Json]:
        yield self._record(self._calls.drop(event.id, event.name, event.reason), envelope)

    def _reset(self, event: StreamReset, envelope: RunEvent) -> Iterator[Json]:
        if not self._in_step or (event.from_seq is not None and self._is_stored):
            return
        yield from self._start_over(event.from_seq)
        self._is_void = True

    def _start_over(self, from_seq: int | None) -> Iterator[Json]:
        """Void the client's part of the answer, with calls whose `seq` is `from_seq` or more."""
        if not self._is_dirty:
            return
        if not self._can_reset:
            self._blocks.start_over()
            self._calls.start_over(from_seq)
            return
        remaining = [one for one in self._durable_chunks if from_seq is None or one[0] < from_seq]
        self._forget()
        yield {"type": "reset-step"}
        self._durable_chunks, self._is_dirty = remaining, bool(remaining)
        for _, chunk in remaining:
            yield chunk

    def _snapshot(self, event: StepSnapshot, envelope: RunEvent) -> Iterator[Json]:
        if not self._in_step:
            yield from self._open_step()
            self._message_id = event.message_id
        yield from self._start_over(None)
        self._is_dirty, self._is_void = True, False
        yield from self._blocks.add(_REASONING, event.reasoning)
        yield from self._blocks.add(_TEXT, event.text)
        for id, name, written in event.calls:
            if not self._calls.is_ready(id):
                yield from self._blocks.close()
                yield self._calls.start(id, name)
                yield from self._calls.write_arguments(id, written)
        for id, output in event.outputs.items():
            yield from self._calls.preview(id, output, envelope.at_ms)

    # -- output and results of calls ----------------------------------------------------------

    def _call_output(self, event: ToolCallStreamDelta, envelope: RunEvent) -> Iterator[Json]:
        yield from self._calls.preview(event.id, event.delta, envelope.at_ms)

    def _call_done(self, event: ToolCallDone, envelope: RunEvent) -> Iterator[Json]:
        for chunk in self._calls.finish(event):
            yield self._record(chunk, envelope)

    def _call_resumed(self, event: ToolCallResumed, envelope: RunEvent) -> Iterator[Json]:
        # Without a step of its own: a page that sends automatically looks at the last step, and
        # other calls of that step may still wait for an answer.
        self._has_answers = not self._in_step
        key = self._calls.asked.get(event.target_id)
        if key is not None and self._can_reset and event.outcome in _ANSWERED:
            approved = event.outcome is not ResumedOutcome.DENIED
            reason = {"reason": event.reason} if event.reason else {}
            answer = {"type": "tool-approval-response", "approvalId": key, "approved": approved}
            yield {**answer, **reason}
        yield from self._calls.resume(event)

    def _record(self, chunk: Json, envelope: RunEvent) -> Json:
        """Record the chunk of a durable event of this step, which is sent again after a reset."""
        if self._can_reset and self._in_step:
            self._durable_chunks.append((envelope.seq or 0, chunk))
        return chunk

    def _activity(self, event: ActivitySnapshot, envelope: RunEvent) -> Iterable[Json]:
        return self._activities.show(event)

    def _activity_delta(self, event: ActivityDelta, envelope: RunEvent) -> Iterable[Json]:
        return self._activities.change(event)
