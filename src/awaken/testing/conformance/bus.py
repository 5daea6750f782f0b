"""Checks of live buses (06 §2.3): subscribers receive the events that owners sent, in their order.

A bus may lose events. It never makes any up, and never swaps two events of one claim.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from awaken.core.aio.owned_tasks import start_task
from awaken.core.bus import LiveBus, Progress, PublisherState, Subscription, Topic
from awaken.core.event import (
    AgentEvent,
    InferenceComplete,
    RunEvent,
    StepSnapshot,
    StepStart,
    StreamReset,
    TextDelta,
    ToolCallReady,
    ToolCallStreamDelta,
)
from awaken.core.store.commits import Fence
from awaken.testing.conformance.helpers import MAX_WAIT_SECONDS, Suite

_PAUSE = 0.01
_MARK = "mark"


class BusSubject(NamedTuple):
    """The bus under test, as two nodes have it: owners of threads, and listeners.

    For a bus within one process both are the same object. `is_lossy` says that the bus may lose
    events without telling the listener, as one between machines may.
    """

    owners: LiveBus
    listeners: LiveBus
    is_lossy: bool = False


BusCheck = Callable[[BusSubject], Awaitable[None]]

check = Suite[BusCheck]()


def _fence(thread_id: str = "t", epoch: int = 1) -> Fence:
    return Fence(thread_id=thread_id, epoch=epoch, owner="owner")


def _send(topic: Topic, event: AgentEvent, thread_id: str = "t", **fields: object) -> RunEvent:
    """Publish an event as an owner does, under the next number of its claim."""
    topic.n += 1
    sent = RunEvent(
        thread_id=thread_id,
        run_id="r",
        at_ms=topic.n,
        live=(topic.epoch, topic.n),
        event=event,
        **fields,  # type: ignore[arg-type]  # the caller names fields of the envelope
    )
    topic.publish(sent)
    return sent


def _say(topic: Topic, *texts: str, thread_id: str = "t") -> list[RunEvent]:
    return [_send(topic, TextDelta(delta=text), thread_id) for text in texts]


async def _until(holds: Callable[[], bool]) -> None:
    """Wait for something that another node has to be told first."""
    async with asyncio.timeout(MAX_WAIT_SECONDS):
        while not holds():  # noqa: ASYNC110  # a topic's attribute sets no event
            await asyncio.sleep(_PAUSE)


async def _wait_wanted(topic: Topic) -> None:
    await _until(lambda: topic.wanted)


async def _receive_all(
    subscription: Subscription, topic: Topic, thread_id: str = "t"
) -> list[RunEvent]:
    """The events that were sent up to now and have arrived. A bus may lose any event, so marks are
    sent until one of them arrives; they are left out."""
    heard: list[RunEvent] = []
    first_mark = (topic.epoch, topic.n + 1)
    async with asyncio.timeout(MAX_WAIT_SECONDS):
        while not any(event.live is not None and event.live >= first_mark for event in heard):
            _say(topic, _MARK, thread_id=thread_id)
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE):
                    heard.extend((await subscription.receive()).events)
    return [event for event in heard if event.event != TextDelta(delta=_MARK)]


def _check_heard(bus: BusSubject, heard: Sequence[RunEvent], sent: Sequence[RunEvent]) -> None:
    if not bus.is_lossy:
        assert list(heard) == list(sent)
        return
    rest = iter(sent)
    assert all(event in rest for event in heard), "an event was made up, repeated or swapped"


# -- what is heard ----------------------------------------------------------------------------


@check
async def events_are_heard_as_they_were_sent(bus: BusSubject) -> None:
    topic = bus.owners.topic(_fence())
    async with bus.listeners.listen("t") as subscription:
        await _wait_wanted(topic)
        sent = [
            _send(topic, StepStart(message_id="m"), seq=1, ahead=True),
            _send(topic, TextDelta(delta='späť "\n\u2028 🙂')),
            _send(topic, ToolCallReady(id="c", name="look", arguments={"at": [1.5, None, "x"]})),
            _send(topic, ToolCallStreamDelta(id="c", name="look", delta="out")),
            _send(topic, InferenceComplete(model="m", duration_ms=1), seq=2),
            _send(topic, StepStart(message_id="m"), seq=1, again=True),
            _send(topic, StreamReset(reason="it broke off", from_seq=3)),
        ]
        _check_heard(bus, await _receive_all(subscription, topic), sent)


@check
async def many_events_are_heard_in_their_order(bus: BusSubject) -> None:
    topic = bus.owners.topic(_fence())
    async with bus.listeners.listen("t") as subscription:
        await _wait_wanted(topic)
        sent: list[RunEvent] = []
        heard: list[RunEvent] = []
        for start in range(0, 600, 100):
            sent += _say(topic, *map(str, range(start, start + 100)))
            heard += await _receive_all(subscription, topic)
        _check_heard(bus, heard, sent)


@check
async def a_listener_hears_its_own_thread_only(bus: BusSubject) -> None:
    """Whatever its id looks like to the bus: no character of it stands for others."""
    ids = ("t", "T", "t.u", "t.*", "*", ">", "t u", "acme/t", "acme/t~c", "t%2Eu", "té", "t" * 200)
    topics = {id: bus.owners.topic(_fence(id)) for id in ids}
    for id in ids:
        async with bus.listeners.listen(id) as subscription:
            await _wait_wanted(topics[id])
            sent = {other: _say(topics[other], other, thread_id=other) for other in ids}
            _check_heard(bus, await _receive_all(subscription, topics[id], id), sent[id])


@check
async def every_listener_hears_everything(bus: BusSubject) -> None:
    topic = bus.owners.topic(_fence())
    async with bus.listeners.listen("t") as first, bus.owners.listen("t") as second:
        await _wait_wanted(topic)
        sent = _say(topic, "a", "b")
        _check_heard(bus, await _receive_all(first, topic), sent)
        _check_heard(bus, await _receive_all(second, topic), sent)


@check
async def a_listener_that_does_not_read_slows_no_owner(bus: BusSubject) -> None:
    """It may lose what it has not read. What it hears then is in order, and what comes later is
    heard again."""
    topic = bus.owners.topic(_fence())
    async with bus.listeners.listen("t") as subscription:
        await _wait_wanted(topic)
        numbers = {event.live: event for event in _say(topic, *map(str, range(20_000)))}
        heard = [
            event for event in await _receive_all(subscription, topic) if event.live in numbers
        ]
        places = [event.live for event in heard if event.live is not None]
        assert all(numbers[event.live] == event for event in heard)
        assert places == sorted(set(places))
        sent = _say(topic, "later")
        _check_heard(bus, await _receive_all(subscription, topic), sent)


@check
async def a_listener_that_comes_later_hears_what_comes_later(bus: BusSubject) -> None:
    topic = bus.owners.topic(_fence())
    async with bus.listeners.listen("t") as early:
        await _wait_wanted(topic)
        before = _say(topic, "before")
        _check_heard(bus, await _receive_all(early, topic), before)
        async with bus.listeners.listen("t") as late:
            await _receive_all(late, topic)
            sent = _say(topic, "after")
            _check_heard(bus, await _receive_all(late, topic), sent)


@check
async def a_listener_waits_for_a_thread_that_does_not_exist_yet(bus: BusSubject) -> None:
    async with bus.listeners.listen("new") as subscription:
        topic = bus.owners.topic(_fence("new"))
        await _wait_wanted(topic)
        sent = _say(topic, "a", thread_id="new")
        _check_heard(bus, await _receive_all(subscription, topic, "new"), sent)


# -- waiting ----------------------------------------------------------------------------------


@check
async def a_listener_is_woken_without_an_event(bus: BusSubject) -> None:
    async with bus.listeners.listen("t") as subscription, asyncio.timeout(MAX_WAIT_SECONDS):
        waiting = start_task(subscription.receive())
        await asyncio.sleep(0)
        subscription.wake()
        assert not (await waiting).events
        subscription.wake()
        subscription.wake()
        assert not (await subscription.receive()).events


@check
async def a_listener_whose_wait_is_cancelled_loses_nothing(bus: BusSubject) -> None:
    topic = bus.owners.topic(_fence())
    async with bus.listeners.listen("t") as subscription:
        await _wait_wanted(topic)
        for _ in range(3):
            waiting = start_task(subscription.receive())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            sent = _say(topic, "a")
            _check_heard(bus, await _receive_all(subscription, topic), sent)
        waiting = start_task(subscription.receive())
        await asyncio.sleep(0)
        sent = _say(topic, "sent as the wait is cancelled")
        waiting.cancel()
        await asyncio.wait([waiting])
        taken = [] if waiting.cancelled() else list(waiting.result().events)
        _check_heard(bus, [*taken, *await _receive_all(subscription, topic)], sent)


# -- topics -----------------------------------------------------------------------------------


@check
async def a_topic_is_wanted_while_a_listener_is_there(bus: BusSubject) -> None:
    topic = bus.owners.topic(_fence())
    assert not topic.wanted
    async with bus.listeners.listen("t"):
        await _wait_wanted(topic)
        async with bus.listeners.listen("t"), bus.listeners.listen("u"):
            pass
        await asyncio.sleep(_PAUSE)
        assert topic.wanted, "one listener is still there"
    await _until(lambda: not topic.wanted)
    with suppress(ZeroDivisionError):
        async with bus.listeners.listen("t"):
            await _wait_wanted(topic)
            raise ZeroDivisionError
    await _until(lambda: not topic.wanted)


@check
async def a_topic_counts_on_for_as_long_as_the_claim_lasts(bus: BusSubject) -> None:
    """06/SV-2: over all activations under one claim. The next claim begins at 1."""
    topic = bus.owners.topic(_fence())
    assert (topic.epoch, topic.n) == (1, 0)
    _say(topic, "a", "b")
    again = bus.owners.topic(_fence())
    assert (again.epoch, again.n) == (1, 2)
    again.close()
    after = bus.owners.topic(_fence(epoch=2))
    assert (after.epoch, after.n) == (2, 0)


@check
async def listeners_stay_and_hear_the_next_owner(bus: BusSubject) -> None:
    topic = bus.owners.topic(_fence())
    async with bus.listeners.listen("t") as subscription:
        await _wait_wanted(topic)
        await _receive_all(subscription, topic)
        topic.close()
        topic = bus.owners.topic(_fence(epoch=2))
        await _wait_wanted(topic)
        sent = _say(topic, "a")
        _check_heard(bus, [e for e in await _receive_all(subscription, topic) if e in sent], sent)


# -- publisher states -----------------------------------------------------------------------


@check
async def an_owner_answers_with_its_position(bus: BusSubject) -> None:
    """The answer is of the instant of the question."""
    ahead = RunEvent(
        thread_id="t", run_id="r", at_ms=1, seq=8, ahead=True, event=StepStart(message_id="m")
    )
    turn = StepSnapshot(message_id="m", text="so far", calls=(("c", "look", '{"at"'),))
    now = [Progress("r", 7)]
    topic = bus.owners.topic(_fence(epoch=3))
    topic.attach(lambda: now[-1])

    async def snapshot() -> PublisherState | None:
        found: PublisherState | None = None
        async with asyncio.timeout(MAX_WAIT_SECONDS):
            while found is None:
                found = await bus.listeners.snapshot("t")
        return found

    assert await snapshot() == PublisherState(run_id="r", epoch=3, n=0, seq=7)
    now.append(Progress("r", 7, (ahead,), turn))
    _say(topic, "a", "b")
    assert await snapshot() == PublisherState(
        run_id="r", epoch=3, n=2, seq=7, ahead=(ahead,), turn=turn
    )
    topic.attach(lambda: Progress("next", 9))
    assert await snapshot() == PublisherState(run_id="next", epoch=3, n=2, seq=9)


@check
async def no_owner_answers_for_a_thread_without_a_run(bus: BusSubject) -> None:
    assert await bus.listeners.snapshot("t") is None
    topic = bus.owners.topic(_fence())
    assert topic.snapshot() is None
    assert await bus.listeners.snapshot("t") is None, "no run is attached"
    topic.attach(lambda: Progress("r", 1))
    assert await bus.listeners.snapshot("u") is None
    topic.close()
    assert topic.snapshot() is None
    assert await bus.listeners.snapshot("t") is None, "the claim has ended"


@check
async def the_end_of_an_old_claim_does_not_end_the_next(bus: BusSubject) -> None:
    """A process that lost a thread and claimed it again closes the old topic late."""
    old = bus.owners.topic(_fence())
    old.attach(lambda: Progress("old", 1))
    new = bus.owners.topic(_fence(epoch=2))
    new.attach(lambda: Progress("new", 2))
    async with bus.listeners.listen("t") as subscription:
        await _wait_wanted(new)
        old.close()
        state = new.snapshot()
        assert state is not None
        assert (state.run_id, state.epoch) == ("new", 2)
        await _receive_all(subscription, new)
        sent = _say(new, "a")
        _check_heard(bus, await _receive_all(subscription, new), sent)
