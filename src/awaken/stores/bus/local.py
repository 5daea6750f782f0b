"""The live bus within one process: owners and listeners share an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from awaken.core.bus import BusHealth, LiveBatch, Progress, PublisherState, Replay
from awaken.core.event import RunEvent, StepEnd
from awaken.core.store.commits import Fence

MAX_UNREAD = 1_000
"""How many unread events a subscription holds. One more drops them all: `LiveBatch.lost` is set."""


MAX_KEPT = 2_000
"""How many events of an open step are kept for readers that come back: about 256 KiB."""


class LocalSubscription:
    """A bounded buffer of one thread's events, with one wake-up for a batch."""

    __slots__ = ("_events", "_lost", "_waiting", "_woken")

    def __init__(self) -> None:
        self._events: list[RunEvent] = []
        self._lost = self._woken = False
        self._waiting: asyncio.Future[None] | None = None

    def add(self, event: RunEvent) -> None:
        if len(self._events) >= MAX_UNREAD:
            self.mark_lost()
        else:
            self._events.append(event)
            if not self._woken:
                self.wake()

    def mark_lost(self) -> None:
        """Drop what is unread, and tell the listener that events are missing."""
        self._events, self._lost = [], True
        self.wake()

    def wake(self) -> None:
        self._woken = True
        waiting = self._waiting
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    async def receive(self) -> LiveBatch:
        while not self._woken:
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        batch = LiveBatch(self._events, self._lost)
        self._events, self._lost, self._woken = [], False, False
        return batch


class LocalTopic:
    """The topic of a thread that this process owns."""

    __slots__ = ("_base", "_bus", "_progress", "_sent", "epoch", "n", "thread_id", "wanted")

    def __init__(self, bus: LocalBus, fence: Fence) -> None:
        self._bus = bus
        self._progress: Callable[[], Progress] | None = None
        self.thread_id, self.epoch, self.n = fence.thread_id, fence.epoch, 0
        self.wanted = fence.thread_id in bus.listeners
        self._base: PublisherState | None = None
        self._sent: list[RunEvent] = []

    def publish(self, event: RunEvent) -> None:
        if self._base is None and event.seq is not None:
            self._keep_from(event, event.seq, back=1)
        if len(self._sent) < MAX_KEPT:
            self._sent.append(event)
        if type(event.event) is StepEnd and event.seq is not None and not event.ahead:
            self._keep_from(event, event.seq)
        for subscription in self._bus.listeners.get(self.thread_id, ()):
            subscription.add(event)

    def attach(self, progress: Callable[[], Progress]) -> None:
        self._progress = progress

    def snapshot(self) -> PublisherState | None:
        if self._progress is None:
            return None
        run_id, seq, ahead, turn = self._progress()
        return PublisherState(
            run_id=run_id, epoch=self.epoch, n=self.n, seq=seq, ahead=ahead, turn=turn
        )

    def set_wanted(self, is_wanted: bool) -> None:
        if is_wanted and not self.wanted:
            # What was not sent before cannot be recalled: the turn so far stands for it.
            self._base, self._sent = self.snapshot(), []
        self.wanted = is_wanted

    def _keep_from(self, event: RunEvent, seq: int, back: int = 0) -> None:
        """Keep what is sent behind an event, or with `back`, that event and what follows."""
        n = self.n if event.live is None else event.live[1]
        self._base = PublisherState(
            run_id=event.run_id, epoch=self.epoch, n=n - back, seq=seq - back
        )
        self._sent = []

    def find_replay(self) -> Replay | None:
        """What was sent since the last step ended, or since there is a listener."""
        return Replay(self._base, self._sent) if self._base is not None else None

    def close(self) -> None:
        self._progress = None
        self._bus.forget(self)


class LocalBus:
    """Passes events on to listeners in the same process. Used from one event loop only.

    `listeners` are those of each thread that has some.
    """

    def __init__(self) -> None:
        self.listeners: dict[str, list[LocalSubscription]] = {}
        self._topics: dict[str, LocalTopic] = {}

    async def open(self) -> None:
        return

    async def close(self) -> None:
        return

    @property
    def health(self) -> BusHealth | None:
        return None

    def topic(self, fence: Fence) -> LocalTopic:
        known = self._topics.get(fence.thread_id)
        if known is None or known.epoch != fence.epoch:
            known = self._topics[fence.thread_id] = LocalTopic(self, fence)
        return known

    def forget(self, topic: LocalTopic) -> None:
        """Called by a topic that is closed: its listeners look into the store."""
        if self._topics.get(topic.thread_id) is topic:
            del self._topics[topic.thread_id]
            for subscription in self.listeners.get(topic.thread_id, ()):
                subscription.mark_lost()

    @asynccontextmanager
    async def listen(self, thread_id: str) -> AsyncIterator[LocalSubscription]:
        subscription = LocalSubscription()
        self.listeners.setdefault(thread_id, []).append(subscription)
        self._set_wanted(thread_id)
        try:
            yield subscription
        finally:
            others = self.listeners[thread_id]
            others.remove(subscription)
            if not others:
                del self.listeners[thread_id]
            self._set_wanted(thread_id)

    def _set_wanted(self, thread_id: str) -> None:
        topic = self._topics.get(thread_id)
        if topic is not None:
            topic.set_wanted(thread_id in self.listeners)

    async def snapshot(self, thread_id: str) -> PublisherState | None:
        topic = self._topics.get(thread_id)
        return None if topic is None else topic.snapshot()

    def find_replay(self, thread_id: str, epoch: int) -> Replay | None:
        topic = self._topics.get(thread_id)
        return topic.find_replay() if topic is not None and topic.epoch == epoch else None
