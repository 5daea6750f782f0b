"""The live bus over NATS: within the process as `LocalBus`, and to other nodes over a `Link`.

- The owner of a thread publishes its events only while another node follows the thread.
- A node says which threads it follows to all nodes, again every ten seconds. So the next owner of a
  thread knows that it is followed before it has sent anything.
- The owner of a thread answers where it stands. A thread without an owner has no subscriber
  on that subject, and NATS itself says so at once.

Every message may be lost: a follower finds holes by the numbers of events, and reads the store.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Self

from awaken.codec import dumps
from awaken.core.aio.owned_tasks import OwnedTasks
from awaken.core.bus import BusHealth, PublisherState
from awaken.core.event import RunEvent
from awaken.core.store.commits import Fence
from awaken.stores.bus.local import MAX_UNREAD, LocalBus, LocalSubscription, LocalTopic
from awaken.stores.bus.nats.address import read_address
from awaken.stores.bus.nats.connection import Link
from awaken.stores.bus.nats.wire import (
    MAX_BATCH_BYTES,
    MAX_THREADS,
    VERSION,
    Interest,
    OwnerAnswer,
    Subjects,
    Unreadable,
    batch_of,
    hash_of,
    interest_of,
    pack,
    parse_publisher_state,
)

log = logging.getLogger("awaken.bus")

BATCH_EVERY = 0.02
"""Seconds between two messages with events of one thread."""
TELL_EVERY, HOLDS_FOR = 10.0, 25.0
"""Seconds after which a node says again what it follows, and after which its word is void."""


class NatsBus(LocalBus):
    """Passes events on to listeners in this process, and over NATS to those in others.

    Open it before use; unopened, or while NATS is away, it is a bus within the process. Used from
    one event loop only.
    """

    def __init__(self, address: str) -> None:
        super().__init__()
        read = read_address(address)
        self._subjects = Subjects(read.deployment)
        self._node = secrets.token_hex(8)
        self._counts: Counter[str] = Counter()
        self._interests = Interests()
        self._threads: dict[str, str] = {}  # of topics, by their hashes
        self._due: dict[NatsTopic, None] = {}
        self._sending: asyncio.TimerHandle | None = None
        self._sent_at = 0.0
        self._tasks = OwnedTasks(log)
        self._link = Link(
            read,
            self._subjects.inbox(self._node),
            self._counts,
            on_connect=self._on_connect,
            on_disconnect=self._on_disconnect,
            on_overrun=self._on_overrun,
        )
        self._link.subscribe(self._subjects.interest, self._on_interest)
        self._followed: dict[str, str] = {}  # threads by the subjects of their events

    @classmethod
    def from_address(cls, address: str) -> Self:
        """
        Raises:
            ConfigError: the address is malformed.
        """
        return cls(address)

    # -- life ---------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect. If NATS does not answer, the bus logs that, and keeps trying."""
        self._sending = None  # a timer of an event loop that is closed would never fire
        await self._link.open()
        if not len(self._tasks):
            self._tasks.start_repeating(self._renew, TELL_EVERY, "the live bus cannot renew")

    async def close(self) -> None:
        await self._tasks.close(1.0)
        self._send_due()
        await self._link.close()

    @property
    def health(self) -> BusHealth:
        return BusHealth(is_up=self._link.is_up, sent=self._link.sent, dropped=dict(self._counts))

    def _on_connect(self) -> None:
        self._send_all_interests(asks=True)
        self._mark_all_lost()

    def _on_disconnect(self) -> None:
        self._interests.clear()
        self._set_all_followed()
        self._mark_all_lost()

    def _mark_all_lost(self) -> None:
        """Let every listener look into the store, and ask the owner where it stands."""
        for listeners in self.listeners.values():
            for subscription in listeners:
                subscription.mark_lost()

    def _on_overrun(self, subject: str) -> None:
        for subscription in self.listeners.get(self._followed.get(subject, ""), ()):
            subscription.mark_lost()

    async def _renew(self) -> None:
        await asyncio.sleep(TELL_EVERY)
        self._send_all_interests()
        self._interests.expire(asyncio.get_running_loop().time())
        self._set_all_followed()

    # -- owners -------------------------------------------------------------------------------

    def topic(self, fence: Fence) -> NatsTopic:
        known = self._topics.get(fence.thread_id)
        if isinstance(known, NatsTopic) and known.epoch == fence.epoch:
            return known
        topic = self._topics[fence.thread_id] = NatsTopic(self, fence)
        self._threads[topic.hash] = fence.thread_id
        self._set_wanted(fence.thread_id)
        asked = partial(self._on_question, fence.thread_id)
        self._link.subscribe(self._subjects.owner(topic.hash), asked)
        return topic

    def forget(self, topic: LocalTopic) -> None:
        if self._topics.get(topic.thread_id) is topic and isinstance(topic, NatsTopic):
            del self._threads[topic.hash]
            self._link.unsubscribe(self._subjects.owner(topic.hash))
            if topic.is_followed:
                # Listeners elsewhere look into the store, as those here do.
                self._send(topic)
                topic.lost = True
                self._send(topic)
        super().forget(topic)

    def _set_wanted(self, thread_id: str) -> None:
        topic = self._topics.get(thread_id)
        if isinstance(topic, NatsTopic):
            topic.is_followed = topic.hash in self._interests
            topic.set_wanted(topic.is_followed or thread_id in self.listeners)

    def _set_all_followed(self) -> None:
        for thread_id in self._topics:
            self._set_wanted(thread_id)

    def queue_event(self, topic: NatsTopic, event: RunEvent) -> None:
        """Send an event with the next batch."""
        if len(topic.unsent) >= MAX_UNREAD:
            self._counts["unsent"] += len(topic.unsent)
            topic.unsent.clear()
            topic.lost = True
        topic.unsent.append(event)
        self._due[topic] = None
        if self._sending is None:
            loop = asyncio.get_running_loop()
            # The first event after a pause goes out at once, with what comes in the same instant.
            rest = self._sent_at + BATCH_EVERY - loop.time()
            self._sending = loop.call_later(max(0.0, rest), self._send_due)

    def _send_due(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            self._sending, self._sent_at = None, asyncio.get_running_loop().time()
        due, self._due = self._due, {}
        for topic in due:
            self._send(topic)

    def _send(self, topic: NatsTopic) -> None:
        events, lost = topic.unsent, topic.lost
        topic.unsent, topic.lost = [], False
        if not self._link.is_up or not (events or lost):
            return
        subject = self._subjects.events(topic.hash)
        for data, count, dropped in pack(events, lost, min(MAX_BATCH_BYTES, self._link.longest)):
            if dropped:
                self._counts["too_large"] += dropped
            self._link.publish(subject, data, count)

    def _on_question(self, thread_id: str, data: bytes, reply: str) -> None:
        """A node asks where the owner of a thread stands; from then on it follows the thread."""
        topic = self._topics.get(thread_id)
        if topic is None or not self._subjects.is_inbox(reply) or not self._add_interest(data):
            return
        answer = dumps(OwnerAnswer(VERSION, topic.snapshot()))
        if len(answer) > self._link.longest:
            self._counts["too_large"] += 1
            answer = dumps(OwnerAnswer(VERSION, None))
        self._link.publish(reply, answer)

    # -- interest -----------------------------------------------------------------------------

    def _on_interest(self, data: bytes, reply: str) -> None:
        interest = self._add_interest(data)
        if interest is not None and interest.asks:
            self._send_all_interests()

    def _add_interest(self, data: bytes) -> Interest | None:
        """Note what a node follows. Returns its message, or `None` if that cannot be read."""
        try:
            interest = interest_of(data)
        except Unreadable as error:
            self._counts[error.reason] += 1
            return None
        until = asyncio.get_running_loop().time() + HOLDS_FOR
        for thread in interest.threads:
            if interest.ends:
                self._interests.remove(thread, interest.node)
            elif not self._interests.add(thread, interest.node, until):
                self._counts["interest"] += 1
            if thread in self._threads:
                self._set_wanted(self._threads[thread])
        return interest

    def _send_all_interests(self, *, asks: bool = False) -> None:
        """Say to all nodes which threads this one follows."""
        size = max(1, min(MAX_THREADS, self._link.longest // 64))
        for threads in chunks(map(hash_of, self.listeners), size):
            self._send_interest(*threads)
        if asks:
            self._send_interest(asks=True)

    def _send_interest(self, *threads: str, ends: bool = False, asks: bool = False) -> None:
        interest = Interest(VERSION, self._node, threads, ends, asks)
        self._link.publish(self._subjects.interest, dumps(interest))

    # -- listeners ----------------------------------------------------------------------------

    @asynccontextmanager
    async def listen(self, thread_id: str) -> AsyncIterator[LocalSubscription]:
        async with super().listen(thread_id) as subscription:
            thread = hash_of(thread_id)
            subject = self._subjects.events(thread)
            if len(self.listeners[thread_id]) == 1:
                self._followed[subject] = thread_id
                self._link.subscribe(subject, partial(self._on_events, thread_id))
                self._send_interest(thread)
            try:
                yield subscription
            finally:
                if len(self.listeners[thread_id]) == 1:
                    del self._followed[subject]
                    self._link.unsubscribe(subject)
                    self._send_interest(thread, ends=True)

    def _on_events(self, thread_id: str, data: bytes, reply: str) -> None:
        try:
            batch = batch_of(data, thread_id)
        except Unreadable as error:
            self._counts[error.reason] += 1
            return
        for subscription in self.listeners.get(thread_id, ()):
            if batch.lost:
                subscription.mark_lost()
            for event in batch.events:
                subscription.add(event)

    async def snapshot(self, thread_id: str) -> PublisherState | None:
        state = await super().snapshot(thread_id)
        if state is not None:
            return state
        thread = hash_of(thread_id)
        follows = (thread,) if thread_id in self.listeners else ()
        question = dumps(Interest(VERSION, self._node, follows))
        data = await self._link.request(self._subjects.owner(thread), question)
        try:
            return None if data is None else parse_publisher_state(data, thread_id)
        except Unreadable as error:
            self._counts[error.reason] += 1
            return None


class NatsTopic(LocalTopic):
    """The topic of a thread that this process owns. `is_followed`: by another node."""

    __slots__ = ("_nats", "hash", "is_followed", "lost", "unsent")

    def __init__(self, bus: NatsBus, fence: Fence) -> None:
        super().__init__(bus, fence)
        self._nats = bus
        self.hash = hash_of(fence.thread_id)
        self.is_followed = self.lost = False
        self.unsent: list[RunEvent] = []

    def publish(self, event: RunEvent) -> None:
        super().publish(event)
        if self.is_followed:
            self._nats.queue_event(self, event)


MAX_INTERESTS = 100_000


class Interests:
    """Threads, by their hashes, with the nodes that follow each, and until when their word holds.

    It reads no clock: callers give the times.

    Args:
        most: how many pairs of a thread and a node are kept at most.
    """

    def __init__(self, most: int = MAX_INTERESTS) -> None:
        self._nodes: dict[str, dict[str, float]] = {}
        self._most, self._count = most, 0

    def __contains__(self, thread: str) -> bool:
        return thread in self._nodes

    def add(self, thread: str, node: str, until: float) -> bool:
        """Note that a node follows a thread. Returns whether there was room."""
        nodes = self._nodes.get(thread)
        if nodes is None or node not in nodes:
            if self._count >= self._most:
                return False
            self._count += 1
            nodes = self._nodes.setdefault(thread, {})
        nodes[node] = until
        return True

    def remove(self, thread: str, node: str) -> None:
        nodes = self._nodes.get(thread)
        if nodes is not None and nodes.pop(node, None) is not None:
            self._count -= 1
            if not nodes:
                del self._nodes[thread]

    def expire(self, now: float) -> None:
        """Forget the nodes whose word holds no longer."""
        over = [
            (thread, node)
            for thread, nodes in self._nodes.items()
            for node, until in nodes.items()
            if until <= now
        ]
        for thread, node in over:
            self.remove(thread, node)

    def clear(self) -> None:
        self._nodes.clear()
        self._count = 0


def chunks(threads: Iterable[str], size: int) -> Iterable[tuple[str, ...]]:
    """The threads in tuples of at most `size`."""
    rest = tuple(threads)
    return (rest[start : start + size] for start in range(0, len(rest), size))
