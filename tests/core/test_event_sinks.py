"""Where events go (01 §1.4)."""

from __future__ import annotations

import pytest

from awaken.core.event import CollectingSink, EventSink, NullEventSink, RunEvent, TextDelta

pytestmark = pytest.mark.anyio


def event(text: str) -> RunEvent:
    return RunEvent(thread_id="t1", run_id="r1", at_ms=0, event=TextDelta(delta=text))


async def test_a_collecting_sink_keeps_events_in_order() -> None:
    """01 §1.4: `events()` copies."""
    sink = CollectingSink()
    for text in "abc":
        await sink.emit(event(text))

    copy = sink.events()
    copy.clear()

    assert sink.events() == [event("a"), event("b"), event("c")]


async def test_taking_empties_a_collecting_sink() -> None:
    """01 §1.4: `take()` empties."""
    sink = CollectingSink()
    await sink.emit(event("a"))

    assert sink.take() == [event("a")]
    assert sink.take() == []
    await sink.emit(event("b"))
    assert sink.events() == [event("b")]


async def test_the_stock_sinks_are_sinks() -> None:
    sinks: list[EventSink] = [NullEventSink(), CollectingSink()]
    for sink in sinks:
        await sink.emit(event("a"))
        await sink.close()

    collecting = sinks[1]
    assert isinstance(collecting, CollectingSink)
    assert collecting.events() == [event("a")]
