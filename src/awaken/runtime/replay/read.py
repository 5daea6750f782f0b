"""Reading a run from the messages, events, calls and tickets of its thread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from awaken.codec import Json, dumps_text, from_json
from awaken.core.event import (
    InferenceComplete,
    MessagesRewound,
    RunEvent,
    RunStart,
    StepEnd,
    StepStart,
    ToolCallDone,
)
from awaken.core.inference import InferenceOverride, StopReason, StreamResult
from awaken.core.lifecycle import SUSPENDED_END, Failed, RunStatus, TerminationReason
from awaken.core.message import Message, MessageMetadata, MessageRecord, Role, Visibility
from awaken.core.rewind import Hidden, find_hidden_spans, stretches
from awaken.core.run import RunRecord
from awaken.core.store.commits import CallPhase, call_key
from awaken.core.store.threads import Threads, TicketQuery
from awaken.core.suspension import ToolCallResume
from awaken.core.tool import ToolResult, ToolStatus
from awaken.engine.inference import CONTINUE
from awaken.engine.step import MALFORMED, ONLY_MALFORMED
from awaken.errors import ConfigError, NotFound
from awaken.ext.handoff.plugin import HANDOFF_TOOL
from awaken.runtime.replay.recording import INFERENCE_FAILED, Recording
from awaken.runtime.replay.scene import Approval, RecordedCall, RecordedStep
from awaken.runtime.result import RunResult

_PAGE = 1_000
_NO_ANSWER = "the model could not be asked"


async def read_recording(store: Threads, run_id: str) -> Recording:
    """Read a finished run from the store. Every run can be read; none has to be recorded for it.

    Raises:
        NotFound: there is no such run.
        ConfigError: the run cannot be replayed; the text says why.
    """
    run = await store.load_run(run_id)
    if run is None:
        raise NotFound("run", run_id)
    if run.status is not RunStatus.DONE:
        raise ConfigError(
            f"run {run_id} is still open ({run.status.value}): it can be replayed once it has "
            "ended; answer what it asks, go on with it, or cancel it"
        )
    if run.is_task:
        raise ConfigError(
            f"run {run_id} is a background task, which has no conversation of its own: "
            "replay the run that started it"
        )
    if run.request is not None and run.request.backend is not None:
        raise ConfigError(
            f"run {run_id} ran elsewhere ({run.request.backend}), and what its model said was not "
            "kept here: replay it where it ran"
        )
    recording = await read_run(store, run)
    if not recording.input:
        raise ConfigError(f"run {run_id} has no input, so there is nothing to replay")
    return recording


async def read_run(store: Threads, run: RunRecord) -> Recording:
    """Read a run, finished or not."""
    everything = [event async for event in _events(store, run)]
    events = [event for event in everything if event.run_id == run.run_id]
    log = await store.load_records(run.thread_id, limit=_end_of(run), hidden=True)
    asked = run.own_input
    wrote = run.output.range if run.output is not None else None
    first = asked.from_seq if asked else wrote.from_seq if wrote else len(log) + 1
    last = asked.to_seq if asked else first - 1
    reader = _RecordingReader(run, events, await _phases(store, run))
    reader.read(log[last:])
    spent = RunResult.read(run).spent
    model = next((one.model for one in reversed(reader.inferences) if one is not None), None)
    return Recording(
        run_id=run.run_id,
        thread_id=run.thread_id,
        agents=_agents(run, events, reader.turns),
        history=tuple(
            _strip_message(log[seq - 1].message)
            for low, high in stretches(_find_hidden(everything, first), 0, first - 1)
            for seq in range(low + 1, high + 1)
        ),
        input=tuple(
            _strip_message(m) for m in [r.message for r in log[first - 1 : last]] + reader.early
        ),
        turns=reader.turns,
        approvals=tuple([approval async for approval in _approvals(store, run)]),
        termination=run.termination_reason or SUSPENDED_END,
        response=run.final_output or "",
        steps=run.steps,
        input_tokens=run.input_tokens,
        output_tokens=run.output_tokens,
        money=spent.money if spent is not None and spent.money else None,
        model=model,
        fingerprint=run.agent_fingerprint,
        overrides=_overrides(run),
        frontend_tools=run.request.frontend_tools if run.request is not None else (),
        created_at=run.created_at,
    )


# -- from the store -----------------------------------------------------------------------------


async def _events(store: Threads, run: RunRecord) -> AsyncIterator[RunEvent]:
    """The events of the run, and the rewinds of its thread."""
    after = 0
    while page := await store.load_events(run.thread_id, after=after, limit=_PAGE):
        for event in page:
            if event.run_id == run.run_id or isinstance(event.event, MessagesRewound):
                yield event
        after += len(page)


def _find_hidden(events: Sequence[RunEvent], seq: int) -> Hidden:
    """What was out of view when the message at `seq` was written."""
    rewinds = [one.event for one in events if isinstance(one.event, MessagesRewound)]
    return find_hidden_spans(
        (event.from_seq - 1, event.to_seq) for event in rewinds if event.to_seq < seq
    )


async def _approvals(store: Threads, run: RunRecord) -> AsyncIterator[Approval]:
    """The decisions about the run's own calls, without those about its delegates' calls."""
    cursor: str | None = None
    while True:
        page = await store.list_tickets(TicketQuery(run_id=run.run_id, limit=_PAGE, cursor=cursor))
        for ticket in page:
            if ticket.decision is not None and ticket.asker is None:
                yield Approval(ticket.tool_name, ticket.arguments, _strip_decision(ticket.decision))
        if (cursor := page.cursor) is None:
            return


async def _phases(store: Threads, run: RunRecord) -> dict[str, CallPhase]:
    return {entry.key: entry.phase for entry in await store.load_calls(run.run_id)}


def _end_of(run: RunRecord) -> int | None:
    """The position of the run's last message, or `None` if it wrote none."""
    for part in (run.output, run.input):
        if part is not None and part.range is not None:
            return part.range.to_seq
    return None


def _strip_decision(decision: ToolCallResume) -> ToolCallResume:
    """The decision without its id, time and digest."""
    return msgspec.structs.replace(decision, decision_id="", updated_at=0, digest=None)


def _strip_message(message: Message) -> Message:
    """The message without its id and metadata, except the range that a summary replaces."""
    folded = message.metadata.compaction if message.metadata is not None else None
    metadata = MessageMetadata(compaction=folded) if folded is not None else None
    return msgspec.structs.replace(message, id=None, metadata=metadata)


def _overrides(run: RunRecord) -> InferenceOverride | None:
    extras = run.request.request_extras if run.request is not None else None
    given = extras.get("overrides") if isinstance(extras, dict) else None
    return from_json(given, InferenceOverride) if given is not None else None


def _agents(
    run: RunRecord, events: Sequence[RunEvent], turns: Sequence[RecordedStep]
) -> tuple[str, ...]:
    """The agents that spoke: the first one, and those it was handed to."""
    begun = (event.event for event in events if isinstance(event.event, RunStart))
    identity = next((start.identity for start in begun if start.identity is not None), None)
    agents = [identity.agent_id if identity is not None else run.agent_id]
    for made in (made for turn in turns for made in turn.calls):
        if made.tool == HANDOFF_TOOL and not made.failed and isinstance(made.arguments, dict):
            agents.append(str(made.arguments.get("agent")))
    return tuple(agents)


# -- from the log -------------------------------------------------------------------------------


@dataclass
class _Draft:
    """An answer whose results are still being read. An empty answer has no message."""

    message: Message | None = None
    inference: InferenceComplete | None = None
    cut_off: bool = False
    garbled: bool = False
    failure: str | None = None
    results: dict[int, Message] = field(default_factory=dict)
    news: list[Message] = field(default_factory=list)

    @property
    def is_note(self) -> bool:
        """Whether its message only says that all its calls were malformed."""
        return self.message is not None and self.message.text() == ONLY_MALFORMED

    def settle(self, result: Message) -> bool:
        """Assign a result to one of its calls. Returns whether a call has that id. Of two calls
        with one id, the first gets the first result."""
        for index, made in enumerate((self.message and self.message.tool_calls) or ()):
            if made.id == result.tool_call_id and index not in self.results:
                self.results[index] = result
                return True
        return False


class _RecordingReader:
    """Puts a run's answers together from its messages and events.

    An answer has the last message id that was announced before its step ended. The pieces of an
    answer that was cut off have the ids before that. An empty answer is not in the messages.
    """

    def __init__(
        self, run: RunRecord, events: Sequence[RunEvent], phases: Mapping[str, CallPhase]
    ) -> None:
        self._run = run
        self._phases = phases
        self._steps: dict[str, InferenceComplete | None] = {}
        self._done: dict[str, ToolResult] = {}
        self._drafts: list[_Draft] = []
        self._garbled = 0
        self.early: list[Message] = []
        step: str | None = None
        for event in (event.event for event in events):
            if isinstance(event, StepStart):
                if step is not None:
                    self._steps.pop(step)  # the answer was cut off, and this is its next piece
                self._steps.setdefault(event.message_id, None)
                step = event.message_id
            elif isinstance(event, StepEnd):
                step = None
            elif isinstance(event, InferenceComplete) and step is not None:
                self._steps[step] = event
            elif isinstance(event, ToolCallDone) and event.message_id:
                self._done[event.message_id] = event.result
        self._ahead = list(self._steps)

    @property
    def inferences(self) -> list[InferenceComplete | None]:
        return list(self._steps.values())

    @property
    def turns(self) -> tuple[RecordedStep, ...]:
        return tuple(self._turn(draft) for draft in self._drafts)

    def read(self, log: Sequence[MessageRecord]) -> None:
        for record in log:
            message = record.message
            if message.role is Role.ASSISTANT and record.produced_by_run_id == self._run.run_id:
                self._answer(message)
            elif message.role is Role.TOOL:
                any(draft.settle(message) for draft in reversed(self._drafts))
            else:
                self._add_message(message)
        self._skip_to(None)

    def _answer(self, message: Message) -> None:
        if message.id not in self._steps:
            self._drafts.append(_Draft(message, cut_off=True))
            return
        self._skip_to(message.id)
        inference = self._steps[message.id]
        failure = self._failure(bool(self._ahead)) if inference is None else None
        self._drafts.append(_Draft(message, inference, failure=failure))

    def _add_message(self, message: Message) -> None:
        last = self._drafts[-1] if self._drafts else None
        words = message.text() if message.visibility is Visibility.INTERNAL else ""
        if words == CONTINUE:
            if last is None or not last.cut_off or last.news:
                self._drafts.append(_Draft(cut_off=True, garbled=True))
        elif words == MALFORMED:
            self._garbled += 1
        else:
            (last.news if last is not None else self.early).append(message)

    def _skip_to(self, step: str | None) -> None:
        """Add drafts for the steps before `step` (or for all that are left) that wrote no
        answer."""
        silent = list[_Draft]()
        while self._ahead and (passed := self._ahead.pop(0)) != step:
            inference = self._steps[passed]
            failure = self._failure(bool(self._ahead)) if inference is None else None
            if inference is not None or failure is not None:
                silent.append(_Draft(inference=inference, failure=failure))
        # Only a garbled answer is followed by a message without an answer between them.
        if self._garbled > len(silent) and self._drafts:
            self._drafts[-1].garbled = True
            self._garbled -= 1
        for draft in silent[: self._garbled]:
            draft.garbled = True
        self._garbled = 0
        self._drafts += silent

    def _failure(self, went_on: bool) -> str | None:
        """How the model failed in a step without an answer; `None` if it was not asked."""
        if went_on:
            return _NO_ANSWER  # the agent tolerates some failures, and their texts are not stored
        end: TerminationReason | None = self._run.termination_reason
        if isinstance(end, Failed) and end.value.startswith(INFERENCE_FAILED):
            return end.value.removeprefix(INFERENCE_FAILED)
        return None

    def _turn(self, draft: _Draft) -> RecordedStep:
        message = draft.message
        made = (message and message.tool_calls) or ()
        stop = StopReason.TOOL_USE if made else StopReason.END_TURN
        # The model is told about malformed calls, unless they were cut off at the output limit.
        is_cut_off = draft.cut_off or (draft.is_note and not draft.garbled)
        return RecordedStep(
            answer=StreamResult(
                content=message.content if message is not None and not draft.is_note else (),
                tool_calls=made,
                usage=draft.inference.usage if draft.inference is not None else None,
                stop_reason=StopReason.MAX_TOKENS if is_cut_off else stop,
                has_incomplete_tool_calls=draft.garbled or draft.is_note,
            ),
            calls=tuple(self._calls(draft)),
            news=tuple(_strip_message(news) for news in draft.news),
            failure=draft.failure,
        )

    def _calls(self, draft: _Draft) -> Iterator[RecordedCall]:
        message = draft.message
        assert message is not None or not draft.results, "only calls have results"
        for index, made in enumerate((message and message.tool_calls) or ()):
            result = draft.results.get(index)
            if result is None:
                yield RecordedCall(made.name, made.arguments)
                continue
            given = self._done.get(result.id or "")
            phase = self._phases.get(call_key((message and message.id) or "", index))
            failed = given.status is ToolStatus.ERROR if given else phase is not _SUCCEEDED
            shown, data = _split_result(result.text(), given)
            yield RecordedCall(made.name, made.arguments, shown, failed=failed, data=data)


_SUCCEEDED = CallPhase.SUCCEEDED


def _split_result(text: str, given: ToolResult | None) -> tuple[Json, Json]:
    """The result as a tool would return it, and its data if that differs."""
    data = given.data if given is not None else None
    if data is None or data == text:
        return text, None
    if not isinstance(data, str) and dumps_text(data) == text:
        return data, None
    return text, data
