"""The live bus: how listeners receive a run's events while it works.

The owner of a thread publishes to the thread's topic; listeners of the bus get what is published.
The bus may lose anything at any time: the store has every durable event and every finished answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol, runtime_checkable

from awaken.core.event import RunEvent, StepSnapshot
from awaken.core.store.commits import Fence
from awaken.core.value import Value


class PublisherState(Value, frozen=True, kw_only=True):
    """The position of a thread's owner at one instant.

    The last event that the owner has published is number `n` of its claim `epoch`; `seq` is the
    last durable event that it has stored and published. `ahead` are the events that it has sent
    ahead since then, `turn` is what has arrived of the open step.
    """

    run_id: str
    epoch: int
    n: int
    seq: int
    ahead: tuple[RunEvent, ...] = ()
    turn: StepSnapshot | None = None


class Progress(NamedTuple):
    """The position of a run, which its topic asks for: see `PublisherState`."""

    run_id: str
    seq: int
    ahead: tuple[RunEvent, ...] = ()
    turn: StepSnapshot | None = None


class Topic(Protocol):
    """The owner's side of a thread on the bus.

    `wanted` says whether a listener is there now, `n` is the number of the last event that the
    owner has sent under its claim, `epoch` is that claim.
    """

    wanted: bool
    epoch: int
    n: int

    def publish(self, event: RunEvent) -> None:
        """Give an event to all listeners. Never waits and never raises."""
        ...

    def attach(self, progress: Callable[[], Progress]) -> None:
        """Set the function that returns the position of the thread's run; the last one counts."""
        ...

    def snapshot(self) -> PublisherState | None:
        """The owner's position now; `None` if no run is attached."""
        ...

    def close(self) -> None:
        """End the topic: the claim ends. Listeners stay, and receive the next owner's events."""
        ...


class NullTopic:
    """The topic of a run that has no thread of its own in a store. Its epoch is 0."""

    def __init__(self) -> None:
        self.wanted = False
        self.epoch = self.n = 0

    def publish(self, event: RunEvent) -> None:
        return

    def attach(self, progress: Callable[[], Progress]) -> None:
        return

    def snapshot(self) -> None:
        return

    def close(self) -> None:
        return


NO_TOPIC = NullTopic()


class LiveBatch(NamedTuple):
    """Events in order, and whether some before them were lost."""

    events: Sequence[RunEvent] = ()
    lost: bool = False


class Subscription(Protocol):
    """A listener's side of one thread on the bus."""

    async def receive(self) -> LiveBatch:
        """Wait for events, a loss or a call of `wake`; return the events since the last call.

        A caller that is cancelled while it waits loses no event.
        """
        ...

    def wake(self) -> None:
        """Let `receive` return, even without an event."""
        ...


class BusHealth(NamedTuple):
    """The condition of a bus between processes.

    `is_up`: it has a connection. `sent` counts the messages that this process has sent, `dropped`
    the events and messages that were given up, by reason.
    """

    is_up: bool
    sent: int
    dropped: Mapping[str, int]


class LiveBus(Protocol):
    """Passes events on from the owners of threads to listeners."""

    async def open(self) -> None:
        """Connect. A bus that cannot connect keeps trying, and passes events on within the
        process."""
        ...

    async def close(self) -> None:
        """End the connection; a bus that is closed can be opened again."""
        ...

    @property
    def health(self) -> BusHealth | None:
        """The bus's condition; `None` if it never leaves the process."""
        ...

    def topic(self, fence: Fence) -> Topic:
        """The topic of a thread that this process has claimed."""
        ...

    def listen(self, thread_id: str) -> AbstractAsyncContextManager[Subscription]:
        """Listen to a thread, whether it exists or not, for as long as the block lasts."""
        ...

    async def snapshot(self, thread_id: str) -> PublisherState | None:
        """The position of the thread's owner; `None` if no owner answers."""
        ...


class Replay(NamedTuple):
    """The events of the open step that an owner has sent since its position was `base`."""

    base: PublisherState
    events: Sequence[RunEvent]


@runtime_checkable
class SupportsReplay(Protocol):
    """A bus that also keeps the events of the open step. A reader whose connection broke can then
    continue behind the last event that it received."""

    def find_replay(self, thread_id: str, epoch: int) -> Replay | None:
        """The events that the owner of a thread has sent under `epoch` since its last step
        ended; `None` if this process does not know them."""
        ...
