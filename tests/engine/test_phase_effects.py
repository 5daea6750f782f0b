"""Effects: told after the commit they belong to, in order, and never in the way."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from phase_kit import LOG, Bench, Piece, X, hooks

from awaken.core.lifecycle import Phase
from awaken.core.state.command import Command, EffectSpec, ScheduledActionSpec
from awaken.core.state.snapshot import Snapshot
from awaken.errors import PhaseRunLoopExceeded
from awaken.plugin.context import PhaseContext

pytestmark = pytest.mark.anyio

TELL: EffectSpec[str] = EffectSpec("tell", str)
LOOSE: EffectSpec[Any] = EffectSpec("tell")


def emits(*payloads: Any) -> Any:
    async def hook(_: PhaseContext) -> Command:
        command = Command().update(X, 1)
        for payload in payloads:
            command.emit(LOOSE, payload)
        return command

    return hook


async def test_effects_run_in_order_on_the_committed_state() -> None:
    """01/P-12: handlers see the commit."""
    told: list[tuple[str, int | None, int]] = []

    async def tell(text: str, snapshot: Snapshot) -> None:
        told.append((text, snapshot.get(X), snapshot.revision))

    bench = Bench(
        *hooks(("hook", emits("one", "two"))), Piece("effects", lambda r: r.effect(TELL, tell))
    )

    report = await bench.run()

    assert told == [("one", 1, 1), ("two", 1, 1)]
    assert (report.generated_effects, report.effects.dispatched) == (2, 2)


async def test_a_failing_effect_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """01/P-12, D-9, bad input: counted, logged by name, and the next one runs."""
    told: list[str] = []

    async def tell(text: str, _: Snapshot) -> None:
        if text == "bad":
            raise ValueError("cannot tell")
        if text == "gone":
            raise asyncio.CancelledError("what it awaited was cancelled")
        told.append(text)

    bench = Bench(
        *hooks(("hook", emits("bad", 7, "gone", "good"))),
        Piece("effects", lambda r: r.effect(TELL, tell)),
    )

    with caplog.at_level(logging.ERROR, logger="awaken.phase"):
        report = await bench.run()

    assert told == ["good"]
    counts = report.effects
    assert (counts.attempted, counts.dispatched, counts.failed) == (4, 1, 3)
    assert bench.store.read(X) == 1
    assert [record.getMessage() for record in caplog.records] == ["effect 'tell' failed"] * 3


async def test_submitting_a_command_counts_its_effects() -> None:
    """01 §3.3: the counts of `submit_command`."""

    async def tell(text: str, _: Snapshot) -> None:
        if text == "bad":
            raise ValueError("cannot tell")

    bench = Bench(Piece("effects", lambda r: r.effect(TELL, tell)))

    counts = await bench.phases.submit_command(
        bench.env, Command().update(X, 1).emit(TELL, "good").emit(TELL, "bad")
    )

    assert (counts.attempted, counts.dispatched, counts.failed) == (2, 1, 1)
    assert bench.store.read(X) == 1


@pytest.mark.parametrize("whole_phase", [False, True])
async def test_an_effect_handler_that_submits_does_not_deadlock(whole_phase: bool) -> None:
    """D-9: effects run after the lock, so a handler may submit, or even run a phase."""
    bench: Bench

    async def tell(text: str, _: Snapshot) -> None:
        command = Command().update(LOG, text)
        if whole_phase:
            await bench.run(Phase.STEP_END, seed=command)
        else:
            await bench.phases.submit_command(bench.env, command)

    bench = Bench(*hooks(("hook", emits("told"))), Piece("effects", lambda r: r.effect(TELL, tell)))

    async with asyncio.timeout(100):
        report = await bench.run()

    assert bench.store.read(LOG) == ("told",)
    assert report.effects.dispatched == 1


async def test_effects_of_what_was_committed_run_though_the_phase_fails_later() -> None:
    """01/P-12: the commit happened, so its effects are told."""
    again: ScheduledActionSpec[str] = ScheduledActionSpec("again", Phase.STEP_START, str)
    told: list[str] = []

    async def hook(_: PhaseContext) -> Command:
        return Command().update(X, 1).emit(TELL, "written").schedule_action(again, "")

    async def repeat(_: PhaseContext, __: str) -> Command:
        return Command().schedule_action(again, "")

    async def tell(text: str, _: Snapshot) -> None:
        told.append(text)

    bench = Bench(
        *hooks(("hook", hook)),
        Piece("rest", lambda r: r.effect(TELL, tell), lambda r: r.action(again, repeat)),
    )

    with pytest.raises(PhaseRunLoopExceeded):
        await bench.run(max_rounds=2)
    assert told == ["written"]


async def test_effects_of_actions_are_told_too() -> None:
    """01/P-12: in the order of their commits."""
    act: ScheduledActionSpec[str] = ScheduledActionSpec("act", Phase.STEP_START, str)
    told: list[str] = []

    async def hook(_: PhaseContext) -> Command:
        return Command().emit(TELL, "hook").schedule_action(act, "action")

    async def handler(_: PhaseContext, word: str) -> Command:
        return Command().emit(TELL, word)

    async def tell(text: str, _: Snapshot) -> None:
        told.append(text)

    bench = Bench(
        *hooks(("hook", hook)),
        Piece("rest", lambda r: r.effect(TELL, tell), lambda r: r.action(act, handler)),
    )

    report = await bench.run()

    assert told == ["hook", "action"]
    assert report.generated_effects == 2


async def test_an_effect_that_is_not_async_is_logged_with_what_to_write(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Bad input."""

    def tell(text: str, _: Snapshot) -> Any:
        return None

    bench = Bench(*hooks(("hook", emits("one"))), Piece("effects", lambda r: r.effect(TELL, tell)))

    with caplog.at_level(logging.ERROR):
        report = await bench.run()

    assert report.effects.failed == 1
    assert "tell is not async: write `async def tell`" in caplog.text
