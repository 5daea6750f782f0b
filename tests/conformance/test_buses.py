"""Every live bus against the one suite (06 §2.3), and buses that break their word."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from awaken.core.event import RunEvent
from awaken.core.store.commits import Fence
from awaken.stores.bus.local import LocalBus, LocalTopic
from awaken.testing.conformance import BusCheck, BusSubject, bus_checks

pytestmark = pytest.mark.anyio

CHECKS = bus_checks()


class ChangedTopic(LocalTopic):
    """Passes on what `change` makes of each event."""

    __slots__ = ("change",)
    change: Callable[[RunEvent], list[RunEvent]]

    def publish(self, event: RunEvent) -> None:
        for passed_on in self.change(event):
            super().publish(passed_on)


class ChangedBus(LocalBus):
    def __init__(self, change: Callable[[], Callable[[RunEvent], list[RunEvent]]]) -> None:
        super().__init__()
        self._change = change

    def topic(self, fence: Fence) -> LocalTopic:
        known = self._topics.get(fence.thread_id)
        if known is None or known.epoch != fence.epoch:
            known = self._topics[fence.thread_id] = ChangedTopic(self, fence)
            known.change = self._change()
        return known


def drops() -> Callable[[RunEvent], list[RunEvent]]:
    chance = random.Random(1)
    return lambda event: [event] if chance.random() < 0.6 else []


def repeats() -> Callable[[RunEvent], list[RunEvent]]:
    return lambda event: [event, event]


def swaps() -> Callable[[RunEvent], list[RunEvent]]:
    held: list[RunEvent] = []

    def change(event: RunEvent) -> list[RunEvent]:
        held.append(event)
        return [held.pop(), held.pop()] if len(held) == 2 else []

    return change


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_bus(check: BusCheck) -> None:
    bus = LocalBus()
    await check(BusSubject(bus, bus))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_a_bus_that_loses_events_may_do_so_if_it_says_it(check: BusCheck) -> None:
    bus = ChangedBus(drops)
    await check(BusSubject(bus, bus, is_lossy=True))


@pytest.mark.parametrize("change", [repeats, swaps])
async def test_a_bus_that_repeats_or_swaps_events_is_found_out(
    change: Callable[[], Callable[[RunEvent], list[RunEvent]]],
) -> None:
    bus = ChangedBus(change)
    check = next(c for c in CHECKS if c.__name__ == "events_are_heard_as_they_were_sent")

    with pytest.raises(AssertionError):
        await check(BusSubject(bus, bus, is_lossy=True))
