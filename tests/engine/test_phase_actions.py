"""Scheduled actions: queued with a commit, worked off in their phase, kept when they fail."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from phase_kit import LOG, TOTAL, Bench, Piece, X, hooks

from awaken.core.lifecycle import Phase
from awaken.core.state.command import Command, EffectSpec, ScheduledActionSpec
from awaken.core.state.key import StateKey
from awaken.core.state.run_keys import FAILED_ACTIONS, FAILED_ACTIONS_KEPT, PENDING_ACTIONS
from awaken.core.state.store import UnknownKeyPolicy
from awaken.errors import PhaseRunLoopExceeded, UnknownEffectHandler, UnknownScheduledActionHandler
from awaken.plugin.context import PhaseContext
from awaken.plugin.registrar import Registrar

pytestmark = pytest.mark.anyio

A: ScheduledActionSpec[str] = ScheduledActionSpec("a", Phase.STEP_START, str)
B: ScheduledActionSpec[str] = ScheduledActionSpec("b", Phase.STEP_START, str)
LATER: ScheduledActionSpec[str] = ScheduledActionSpec("later", Phase.STEP_END, str)
STRAY: ScheduledActionSpec[str] = ScheduledActionSpec("stray", Phase.STEP_START, str)


def schedules(spec: ScheduledActionSpec[Any], payload: Any) -> Any:
    async def hook(_: PhaseContext) -> Command:
        return Command().schedule_action(spec, payload)

    return hook


async def say(_: PhaseContext, word: str) -> Command:
    return Command().update(LOG, word)


def queue(bench: Bench) -> list[tuple[int, str, Any]]:
    return [
        (item.id, item.action.key, item.action.payload)
        for item in bench.store.read(PENDING_ACTIONS) or ()
    ]


def failures(bench: Bench) -> list[tuple[str, str]]:
    return [(item.action.key, item.error) for item in bench.store.read(FAILED_ACTIONS) or ()]


async def test_handlers_see_what_the_hooks_wrote() -> None:
    """01/P-2: and each the action before it."""
    seen: list[tuple[int | None, tuple[str, ...] | None]] = []

    async def hook(_: PhaseContext) -> Command:
        return Command().update(X, 7).schedule_action(A, "one").schedule_action(A, "two")

    async def handler(ctx: PhaseContext, word: str) -> Command:
        seen.append((ctx.read(X), ctx.read(LOG)))
        return Command().update(LOG, word)

    bench = Bench(*hooks(("hook", hook)), Piece("actions", lambda r: r.action(A, handler)))

    report = await bench.run()

    assert seen == [(7, None), (7, ("one",))]
    assert bench.store.read(LOG) == ("one", "two")
    assert (report.processed, report.rounds) == (2, 2)
    assert queue(bench) == []


@pytest.mark.parametrize("expected", [UnknownScheduledActionHandler, UnknownEffectHandler])
async def test_an_unknown_handler_refuses_the_whole_command(
    expected: type[UnknownScheduledActionHandler | UnknownEffectHandler],
) -> None:
    """01/P-7: checked before anything changes; the error names the key and the next move."""
    command = Command().update(X, 1).schedule_action(A, "fine")
    if expected is UnknownScheduledActionHandler:
        command.schedule_action(STRAY, "lost")
    else:
        command.emit(EffectSpec[str]("stray", str), "lost")
    bench = Bench(Piece("actions", lambda r: r.action(A, say)))

    with pytest.raises(expected, match=r"'stray'.*give the agent the plugin"):
        await bench.phases.submit_command(bench.env, command)

    assert bench.store.revision == 0
    with pytest.raises(expected):
        bench.phases.check_command(bench.env, command)


async def test_a_hook_with_an_unknown_action_fails_the_phase_and_commits_nothing() -> None:
    """01/P-7: from a hook as from anywhere."""
    bench = Bench(*hooks(("hook", schedules(STRAY, "lost"))))

    with pytest.raises(UnknownScheduledActionHandler):
        await bench.run()
    assert bench.store.revision == 0


async def test_a_chain_of_actions_takes_a_round_each_and_an_empty_one() -> None:
    """01/P-8: A schedules B; two processed, three rounds."""

    async def first(_: PhaseContext, word: str) -> Command:
        return Command().update(LOG, word).schedule_action(B, "second")

    bench = Bench(
        *hooks(("hook", schedules(A, "first"))),
        Piece("actions", lambda r: r.action(A, first), lambda r: r.action(B, say)),
    )

    report = await bench.run()

    assert (report.processed, report.rounds, report.failed) == (2, 3, 0)
    assert bench.store.read(LOG) == ("first", "second")


@pytest.mark.parametrize("given", [3, None])
async def test_an_action_that_keeps_scheduling_itself_is_stopped(given: int | None) -> None:
    """01/P-9: the limit counts rounds; 16 if none is given."""
    limit = given or 16

    async def again(_: PhaseContext, word: str) -> Command:
        return Command().update(TOTAL, 1).schedule_action(A, word)

    bench = Bench(
        *hooks(("hook", schedules(A, "again"))), Piece("actions", lambda r: r.action(A, again))
    )

    with pytest.raises(PhaseRunLoopExceeded, match=rf"'step_start'.*{limit} rounds") as exceeded:
        await (bench.run() if given is None else bench.run(max_rounds=given))

    assert exceeded.value.max_rounds == limit
    assert bench.store.read(TOTAL) == limit


async def test_an_action_of_another_phase_waits_for_it() -> None:
    """01/P-10: skipped, still queued, and run when its phase comes."""
    bench = Bench(
        *hooks(("hook", schedules(LATER, "later"))),
        Piece("actions", lambda r: r.action(LATER, say)),
    )

    report = await bench.run(Phase.STEP_START)
    assert (report.processed, report.skipped, report.rounds) == (0, 1, 1)
    assert queue(bench) == [(1, "later", "later")]

    report = await bench.run(Phase.STEP_END)
    assert (report.processed, report.skipped) == (1, 0)
    assert bench.store.read(LOG) == ("later",)
    assert queue(bench) == []


@pytest.mark.parametrize("error", [ValueError("no such luck"), asyncio.CancelledError("no luck")])
async def test_a_failing_handler_is_kept_and_the_phase_goes_on(error: BaseException) -> None:
    """01/P-11, bad input: out of the queue, into the failures with its text."""

    async def breaks(_: PhaseContext, __: str) -> Command:
        raise error

    async def hook(_: PhaseContext) -> Command:
        return Command().schedule_action(A, "x").schedule_action(B, "after")

    bench = Bench(
        *hooks(("hook", hook)),
        Piece("actions", lambda r: r.action(A, breaks), lambda r: r.action(B, say)),
    )

    report = await bench.run()

    assert (report.processed, report.failed) == (1, 1)
    assert bench.store.read(LOG) == ("after",)
    assert queue(bench) == []
    assert failures(bench) == [("a", str(error))]


async def test_an_undecodable_payload_is_kept_as_a_failure() -> None:
    """01/P-11: the handler is never called."""
    called: list[Any] = []

    async def handler(_: PhaseContext, payload: str) -> None:
        called.append(payload)

    loose: ScheduledActionSpec[Any] = ScheduledActionSpec("a", Phase.STEP_START)
    bench = Bench(
        *hooks(("hook", schedules(loose, {"not": "text"}))),
        Piece("actions", lambda r: r.action(A, handler)),
    )

    report = await bench.run()

    assert called == []
    assert report.failed == 1
    [(key, error)] = failures(bench)
    assert key == "a"
    assert "cannot decode 'a'" in error


async def test_a_handler_whose_command_is_refused_is_kept_as_a_failure() -> None:
    """01/P-11: a failing submit is a failing action; nothing of its command is there."""
    stray: StateKey[int, int] = StateKey("stray", initial=int)

    async def handler(_: PhaseContext, __: str) -> Command:
        return Command().update(X, 1).update(stray, 1).schedule_action(LATER, "never")

    bench = Bench(
        *hooks(("hook", schedules(A, "x"))),
        Piece("actions", lambda r: r.action(A, handler), lambda r: r.action(LATER, say)),
    )

    report = await bench.run()

    assert (report.processed, report.failed) == (0, 1)
    assert bench.store.read(X) is None
    assert queue(bench) == []
    assert "'stray'" in failures(bench)[0][1]


async def test_actions_run_in_every_phase_even_without_hooks() -> None:
    """D-5: the execute stage is the same in all nine, whether or not a hook said anything."""
    for phase in Phase:
        spec: ScheduledActionSpec[str] = ScheduledActionSpec("here", phase, str)
        bench = Bench(Piece("actions", partial(Registrar.action, spec=spec, handler=say)))
        await bench.phases.submit_command(bench.env, Command().schedule_action(spec, phase.value))

        report = await bench.run(phase)

        assert report.processed == 1
        assert bench.store.read(LOG) == (phase.value,)


async def test_a_seed_may_schedule_actions() -> None:
    """D-5: what a tool schedules is worked off in the phase after it."""
    bench = Bench(Piece("actions", lambda r: r.action(A, say)))

    report = await bench.run(seed=Command().update(X, 1).schedule_action(A, "from the tool"))

    assert report.processed == 1
    assert (bench.store.read(X), bench.store.read(LOG)) == (1, ("from the tool",))


async def test_ids_go_on_behind_a_restored_queue() -> None:
    """D-8: an action that ends takes only itself out of the queue."""
    before = Bench(Piece("actions", lambda r: r.action(LATER, say)))
    for word in ("one", "two"):
        await before.phases.submit_command(before.env, Command().schedule_action(LATER, word))
    stored = before.store.export_persisted()

    after = Bench(
        *hooks(("hook", schedules(A, "now"))),
        Piece("actions", lambda r: r.action(A, say), lambda r: r.action(LATER, say)),
    )
    after.store.restore_persisted(stored, UnknownKeyPolicy.ERROR)

    await after.run(Phase.STEP_START)

    assert after.store.read(LOG) == ("now",)
    assert queue(after) == [(1, "later", "one"), (2, "later", "two")]
    await after.phases.submit_command(after.env, Command().schedule_action(LATER, "three"))
    assert [id for id, *_ in queue(after)] == [1, 2, 4]


async def test_failures_are_kept_up_to_a_bound() -> None:
    """D-8: the newest hundred."""

    async def breaks(_: PhaseContext, word: str) -> None:
        raise ValueError(word)

    async def hook(_: PhaseContext) -> Command:
        command = Command()
        for number in range(FAILED_ACTIONS_KEPT + 5):
            command.schedule_action(A, str(number))
        return command

    bench = Bench(*hooks(("hook", hook)), Piece("actions", lambda r: r.action(A, breaks)))

    report = await bench.run()

    assert report.failed == FAILED_ACTIONS_KEPT + 5
    kept = [error for _, error in failures(bench)]
    assert len(kept) == FAILED_ACTIONS_KEPT
    assert kept[-1] == str(FAILED_ACTIONS_KEPT + 4)


async def test_a_refused_command_can_be_submitted_again() -> None:
    """01 §3.3: a refusal leaves the command as it was, so nothing is queued twice."""
    bench = Bench(Piece("actions", lambda r: r.action(LATER, say)))
    bench.store.update(X, 1)
    command = Command(base_revision=0).update(X, 2).schedule_action(LATER, "once")
    with pytest.raises(Exception, match="'x' changed"):
        await bench.phases.submit_command(bench.env, command)

    command.batch.base_revision = bench.store.revision
    await bench.phases.submit_command(bench.env, command)

    assert [payload for *_, payload in queue(bench)] == ["once"]


async def test_a_handler_may_answer_with_the_same_command_every_time() -> None:
    """01 §3.3: a constant with an action in it schedules that action once each time."""
    constant = Command().update(TOTAL, 1).schedule_action(LATER, "later")

    async def handler(_: PhaseContext, __: str) -> Command:
        return constant

    bench = Bench(
        *hooks(("hook", schedules(A, "x"))),
        Piece("actions", lambda r: r.action(A, handler), lambda r: r.action(LATER, say)),
    )
    for _ in range(3):
        await bench.run()

    assert bench.store.read(TOTAL) == 3
    assert [payload for *_, payload in queue(bench)] == ["later"] * 3


async def test_a_handler_that_is_not_async_fails_with_what_to_write() -> None:
    """Bad input: any function will do, if what it returns can be awaited."""

    def forgot(_: PhaseContext, __: str) -> Any:
        return None

    def passes_on(ctx: PhaseContext, word: str) -> Any:
        return say(ctx, word)

    bench = Bench(
        *hooks(("one", schedules(A, "x")), ("two", schedules(B, "fine"))),
        Piece("actions", lambda r: r.action(A, forgot), lambda r: r.action(B, passes_on)),
    )

    await bench.run()

    ((key, error),) = failures(bench)
    assert key == "a"
    assert error.endswith("forgot is not async: write `async def forgot`")
    assert bench.store.read(LOG) == ("fine",)
