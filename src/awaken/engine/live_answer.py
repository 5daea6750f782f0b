"""Reading the stream of a run's model: assembling the answer and passing its deltas on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from awaken.codec import clean_value
from awaken.core.answer_stream import StreamListener, check_stream, close
from awaken.core.event import (
    AgentEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallCancel,
    ToolCallDelta,
    ToolCallStart,
)
from awaken.core.llm import InferenceRequest, LlmStreamEvent
from awaken.core.message import Message
from awaken.core.request_manifest import FailedAttempt
from awaken.engine.live_run import LiveRun
from awaken.engine.spending import add_costs, at_most, count, price_of, reserve_step
from awaken.engine.stream_log import StreamLog
from awaken.errors import AwakenError


class LiveAnswer(StreamListener):
    """Assembles an answer, sends its deltas to the run's listeners, and counts its cost."""

    __slots__ = ("_began", "_passing_on", "_run", "attempts", "cost", "first_ms", "stream_log")

    def __init__(self, run: LiveRun) -> None:
        StreamListener.__init__(self, run.task)
        self._run = run
        self._began: float | None = None
        self._passing_on = False
        self.cost: float | None = None
        self.attempts: tuple[FailedAttempt, ...] = ()
        self.first_ms: int | None = None
        self.stream_log: StreamLog | None = None

    def begin(self, asked: str) -> str | None:
        """Begin an answer. If an earlier process stored pieces of the answer to the same request
        (`asked`), it begins with those pieces, and their text is returned for `send_restored`."""
        self.stream_log = StreamLog(self._run, asked)
        text = self.stream_log.restore(self)
        return text if text or self.list_call_texts() else None

    async def send_restored(self, text: str) -> None:
        """Send the restored text and calls: the listeners in this process have not got them."""
        if text:
            await self.emit(TextDelta(delta=text))
        for id, name, arguments in self.list_call_texts():
            await self.emit(ToolCallStart(id=id, name=name))
            await self.emit(ToolCallDelta(id=id, args_delta=arguments))

    async def listen(self, stream: AsyncIterator[LlmStreamEvent]) -> None:
        """Read a stream to its end. If reading fails, close the stream."""
        # Repeats the loop of `StreamListener.listen`, with the sending inline: a call of
        # `journal.send_transient` makes an event a fifth slower. Listeners may come in the middle
        # of a stream, so each event is looked at.
        push, journal, topic = self.push, self._run.journal, self._run.journal.topic
        drained, is_first = False, True
        began = self._began = self._run.clock.monotonic()
        try:
            async for event in stream:
                push(event)
                if is_first:
                    self.first_ms = int((self._run.clock.monotonic() - began) * 1000)
                    is_first = False
                has_reader = journal.has_reader
                if not (has_reader or topic.wanted):
                    continue
                told: Any = event
                kind = type(event)
                if kind is not TextDelta:  # most events of a stream are
                    if kind is ToolCallStart or kind is ToolCallDelta:
                        told = self._of_call(told)
                    elif kind is not ReasoningDelta:
                        continue
                sent = journal.transient(told)
                if topic.wanted:
                    topic.publish(sent)
                if has_reader:
                    self._passing_on = True
                    try:
                        await journal.sink.emit(sent)
                    except BaseException as error:
                        journal.drop_sink(error)
                    self._passing_on = False
            drained = True
        except TypeError:
            check_stream(stream)
            raise
        finally:
            if not drained:
                await close(stream)

    def _of_call(self, event: ToolCallStart | ToolCallDelta) -> ToolCallStart | ToolCallDelta:
        """The event with the id that its call will have: a new id if the model repeats one."""
        id = self.id_of(event.id)
        if id != event.id:
            event = msgspec.structs.replace(event, id=id)
        return event if type(event) is ToolCallDelta else clean_value(event)

    def note_failure(self, request: InferenceRequest, error: AwakenError) -> None:
        began, self._began = self._began, None
        seconds = 0.0 if began is None else self._run.clock.monotonic() - began
        failed = FailedAttempt(
            model=request.upstream_model, error=type(error).__name__, ms=int(seconds * 1000)
        )
        self.attempts = (*self.attempts, failed)

    def poll(self) -> bool:
        """Called at intervals while a stream is open: store the answer as far as it has arrived.
        Returns whether the stream waits for a slow listener, and not for the model."""
        if self.stream_log is not None:
            self.stream_log.look(self)
        return self._passing_on

    # -- when a stream has broken off ---------------------------------------------------------

    async def continue_text(self, cause: str) -> None:
        await super().continue_text(cause)
        if self.stream_log is not None:
            self.stream_log.start_over()

    async def start_over(self, cause: str) -> None:
        await super().start_over(cause)
        if self.stream_log is not None:
            self.stream_log.start_over()

    @property
    def is_wanted(self) -> bool:
        token = self._run.token
        return token is None or not token.is_cancelled()

    async def emit(self, event: AgentEvent) -> None:
        journal = self._run.journal
        if not isinstance(event, ToolCallCancel):
            await journal.send_transient(event)
            return
        if (begun := journal.begin(event)) is not None:
            await journal.send(begun)

    def count(self, whole: bool = False) -> None:
        run, usage = self._run, self._usage
        if usage is not None:
            price = price_of(run, self.model_id) if run.agent.prices else None
            cost = add_costs(run, usage, price)
            if cost is not None:
                self.cost = cost + (self.cost or 0.0)
        if run.reservation is not None and (whole or not self.is_silent):
            count(run, self, self.model_id)

    async def afford(self, request: InferenceRequest, more: Sequence[Message]) -> InferenceRequest:
        await reserve_step(self._run, *more, goes_on=True)
        return at_most(self._run, request)
