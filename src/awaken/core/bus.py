"""The live bus: how listeners hear a run's events while it works.

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


class Standing(Value, frozen=True, kw_only=True):
    """Where the owner of a thread stands at one instant.

    The last event it has published is number `n` of its claim `epoch`; `seq` is the last durable
    event that it has stored and published. `ahead` are the events sent ahead since then, `turn` is
    what has come of the open step.
    """

    run_id: str
    epoch: int
    n: int
    seq: int
    ahead: tuple[RunEvent, ...] = ()
    turn: StepSnapshot | None = None


class Progress(NamedTuple):
    """What a run tells its topic of itself: see `Standing`."""

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
        """Name the function that says where the thread's run stands; the last one counts."""
        ...

    def snapshot(self) -> Standing | None:
        """Where the owner stands now; `None` if no run is attached."""
        ...

    def close(self) -> None:
        """End the topic: the claim ends. Listeners stay, and hear the next owner."""
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


class Heard(NamedTuple):
    """What a listener got: events in order, and whether some before them were lost."""

    events: Sequence[RunEvent] = ()
    lost: bool = False


class Listening(Protocol):
    """A listener of one thread."""

    async def heard(self) -> Heard:
        """Wait for events, a loss or a call of `wake`, and take what has come.

        A caller that is cancelled while it waits loses nothing.
        """
        ...

    def wake(self) -> None:
        """Let `heard` return, even without an event."""
        ...


class BusHealth(NamedTuple):
    """How a bus between processes does.

    `is_up`: it has a connection. `sent` counts the messages that this process has sent, `dropped`
    the events and messages that were given up, by reason.
    """

    is_up: bool
    sent: int
    dropped: Mapping[str, int]


class LiveBus(Protocol):
    """Passes events on from the owners of threads to listeners."""

    async def open(self) -> None:
        """Connect. A bus that cannot connect goes on trying, and passes events on within the
        process."""
        ...

    async def close(self) -> None:
        """End the connection; a bus that is closed can be opened again."""
        ...

    @property
    def health(self) -> BusHealth | None:
        """How the bus does; `None` if it never leaves the process."""
        ...

    def topic(self, fence: Fence) -> Topic:
        """The topic of a thread that this process has claimed."""
        ...

    def listen(self, thread_id: str) -> AbstractAsyncContextManager[Listening]:
        """Listen to a thread, whether it exists or not, for as long as the block lasts."""
        ...

    async def snapshot(self, thread_id: str) -> Standing | None:
        """Where the owner of a thread stands; `None` if no owner answers."""
        ...


class Sent(NamedTuple):
    """The events of the open step that an owner has sent since it stood at `base`."""

    base: Standing
    events: Sequence[RunEvent]


@runtime_checkable
class Recalls(Protocol):
    """A bus that also keeps what was sent of the open step. A reader that was cut off and comes
    back can then go on behind the last event that it got."""

    def recall(self, thread_id: str, epoch: int) -> Sent | None:
        """What the owner of a thread has sent under its claim `epoch` since its last step ended.
        Returns `None` if that is not known here."""
        ...
