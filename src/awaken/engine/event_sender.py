"""Sending the events of a live run to its listeners.

Events go to the caller's sink, which may slow the run down, and to the thread's topic, which never
does.
"""

from __future__ import annotations

import logging

import msgspec

from awaken.clock import Clock
from awaken.core.aio.cancel import is_cancellation
from awaken.core.bus import Topic
from awaken.core.event import (
    AgentEvent,
    EventSink,
    NullEventSink,
    RunEvent,
    StepEnd,
    ToolCallStreamDelta,
)
from awaken.core.identity import RunIdentity
from awaken.core.value import EMPTY

MOST_OUTPUT = 256 * 1024
"""How many characters of a running tool's output are kept for listeners that come later."""
log = logging.getLogger("awaken.loop")
_replace = msgspec.structs.replace
_STEP_ENDED = StepEnd()


class EventSender:
    """Sends the events of one run to its sink and its topic.

    `has_reader` says whether the sink gets events now. `outputs` has, by call, the end of the
    output that the open step's tools have streamed.
    """

    __slots__ = ("_blank", "_clock", "_run", "has_reader", "outputs", "sink", "topic")

    def __init__(self, sink: EventSink, topic: Topic, identity: RunIdentity, clock: Clock) -> None:
        self.sink, self.topic = sink, topic
        self.has_reader = not isinstance(sink, NullEventSink)
        self.outputs: dict[str, str] = EMPTY
        self._clock = clock
        self._run = identity.run_id
        # The run's envelope, around no matter which event: copying is quicker than building anew.
        self._blank = RunEvent(
            thread_id=identity.thread_id,
            run_id=identity.run_id,
            parent_run_id=identity.parent_run_id,
            at_ms=0,
            event=_STEP_ENDED,
        )

    def has_listener(self) -> bool:
        """Whether a listener gets events now: one may come, or leave, at any time."""
        return self.has_reader or self.topic.wanted

    def _next_position(self) -> tuple[int, int] | None:
        """The next value of `RunEvent.live`, for an event that is sent at once."""
        topic = self.topic
        if topic.epoch == 0:
            return None
        topic.n += 1
        return topic.epoch, topic.n

    def transient(self, event: AgentEvent) -> RunEvent:
        """The envelope of a transient event, which the caller sends at once."""
        topic, live = self.topic, None
        if epoch := topic.epoch:  # as in `_place`: this is done for every delta of a stream
            n = topic.n = topic.n + 1
            live = epoch, n
        return _replace(self._blank, at_ms=self._clock.now_ms(), live=live, event=event)

    async def send_transient(self, event: AgentEvent) -> None:
        """Send a transient event, if there is a listener."""
        if type(event) is ToolCallStreamDelta:
            so_far = self.outputs.get(event.id, "") + event.delta
            self.outputs = self.outputs or {}
            self.outputs[event.id] = so_far[-MOST_OUTPUT:]
        if self.has_listener():
            await self.send(self.transient(event))

    async def send(self, event: RunEvent) -> None:
        """Give an event to the topic and to the sink."""
        if self.topic.wanted:
            self.topic.publish(event)
        if self.has_reader:
            await self.pass_on(event)

    async def pass_on(self, event: RunEvent) -> None:
        """Give an event, of this run or of a delegate, to the sink.

        A sink that fails is not used again; the run continues.
        """
        if not self.has_reader:
            return
        try:
            await self.sink.emit(event)
        except BaseException as error:
            self.drop_sink(error)

    def drop_sink(self, error: BaseException) -> None:
        """Use the sink no more, because it raised `error`. An error that ends this task is not the
        sink's, and is raised again."""
        if is_cancellation(error):
            raise error
        self.has_reader = False
        log.error(
            "the event sink of run %s failed and is not used any more", self._run, exc_info=error
        )
